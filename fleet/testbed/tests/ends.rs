// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The control plane leaves nothing behind, however the process that started it ends.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Starts the program, and returns it with its folder and the process ids of etcd and the API.
fn start() -> (Child, PathBuf, Vec<u32>) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_fleet-testbed"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let kubeconfig = PathBuf::from(lines.next().unwrap().unwrap());
    let pids = lines.next().unwrap().unwrap();
    let pids: Vec<u32> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
    (program, kubeconfig.parent().unwrap().to_owned(), pids)
}

/// Waits until the programs and the folder are gone.
fn assert_gone(folder: &Path, pids: &[u32]) {
    let started = Instant::now();
    loop {
        let running = pids.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists());
        if !running && !folder.exists() {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{pids:?} {}", folder.display());
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn nothing_is_left_when_its_owner_is_killed_or_ends() {
    for kill in [true, false] {
        let (mut program, folder, pids) = start();
        assert_eq!(pids.len(), 2, "etcd and the API");
        assert!(folder.join("etcd").is_dir());
        assert!(pids.iter().all(|pid| Path::new(&format!("/proc/{pid}")).exists()));
        if kill {
            program.kill().unwrap();
        }
        drop(program.stdin.take());
        program.wait().unwrap();
        assert_gone(&folder, &pids);
    }
}
