// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program itself with 1,000 nodes; it is killed whenever a wave begins.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use fleet_crd::RolloutPhase;
use serde_json::json;

use crate::nodes::{Nodes, create_profile, start, status_of, wait};

struct Program(Child);

impl Program {
    fn start(kubeconfig: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise-fleet-controller"));
        command.args([
            "--namespace",
            "default",
            "--identity",
            "one",
            "--lease",
            "2",
            "--tick",
            "200",
        ]);
        Self(command.env("KUBECONFIG", kubeconfig).spawn().unwrap())
    }

    /// Processor seconds and largest resident size in MiB, as the kernel counts them.
    fn cost(&self) -> (f64, u64) {
        let read =
            |name: &str| fs::read_to_string(format!("/proc/{}/{name}", self.0.id())).unwrap();
        let stat = read("stat");
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        let status = read("status");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        (ticks / 100.0, kib / 1024)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_thousand_nodes() {
    let (plane, runtime, client) = start(1000);
    let kubeconfig = plane.kubeconfig().unwrap();
    runtime.block_on(async {
        let bad = Nodes::new(&client, 1.6);
        let acting = bad.act();
        let program = Program::start(&kubeconfig);
        create_profile(&client, "bad", &json!({"want": ["swappiness=0"]})).await;
        let status = wait(&client, "bad", RolloutPhase::Stopped, |_| true).await;
        let touched = bad.count(|it| it.touched);
        assert!((2..=10).contains(&touched), "{touched} of 1,000 nodes were touched: {status:#?}");
        assert_eq!(bad.count(|it| it.changed), 0);
        assert!(status.message.as_deref().unwrap_or_default().contains("accepted is"), "{status:#?}");
        println!("{}", show(&status));
        acting.abort();
        drop(program);
        // Its nodes keep their requests; deleting it frees them.
        let api: kube::Api<fleet_crd::MemoryProfile> = kube::Api::all(client.clone());
        let mut program = Program::start(&kubeconfig);
        let good = Nodes::new(&client, 0.95);
        let acting = good.act();
        api.delete("bad", &kube::api::DeleteParams::default()).await.unwrap();
        crate::nodes::wait_gone(&client, "bad").await;

        create_profile(&client, "good", &json!({"maxConcurrent": 200})).await;
        let started = Instant::now();
        let (mut wave, mut kills) = (None, 0);
        loop {
            let status = status_of(&client, "good").await;
            if status.phase == Some(RolloutPhase::Complete) {
                assert_eq!((status.kept, good.count(|it| it.kept)), (1000, 1000), "{status:#?}");
                println!("{}", show(&status));
                break;
            }
            if status.phase == Some(RolloutPhase::Trying) && status.wave != wave && kills < 6 {
                wave = status.wave;
                kills += 1;
                drop(program); // SIGKILL
                program = Program::start(&kubeconfig);
            }
            assert!(started.elapsed() < Duration::from_secs(400), "{status:#?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(kills >= 5, "{kills}");
        assert_eq!(good.count(|it| it.twice), 0);
        let (seconds, mebibytes) = program.cost();
        println!(
            "the last program: {seconds} s of CPU, {mebibytes} MiB at most; the good roll-out took {} s with {kills} kills",
            started.elapsed().as_secs()
        );
        acting.abort();
    });
}

fn show(status: &fleet_crd::MemoryProfileStatus) -> String {
    let entry = |it: &fleet_crd::TimelineEntry| format!("{}  {}\n", it.time.0, it.event);
    status.timeline.iter().map(entry).collect()
}
