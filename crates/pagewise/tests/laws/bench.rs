// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What findings recommend for zram must agree with what a real run of `bench` measured to be best.
//!
//! The run is `pagewise bench --quick --json` on a machine with 2 CPUs and Linux 6.18, without its
//! rows and the host name.

use pagewise_decide::diagnose;
use pagewise_facts::swap_choice::zram_size;
use pagewise_model::Bytes;
use pagewise_testkit::scene::{Scene, slugs};
use serde_json::Value;

const RUN: &str = include_str!("../shared/bench-2cpu-6.18.json");

fn run() -> Value {
    serde_json::from_str(RUN).unwrap()
}

/// The algorithms and sizes in the commands of all findings: after `--algorithm`, or in a line for
/// zram-generator.
fn algorithms_and_sizes(slug: &str) -> Vec<(String, u64)> {
    let findings = diagnose(&Scene::load(slug).replay());
    let commands = findings.iter().flat_map(|finding| &finding.next);
    let sets = commands.filter(|command| command.contains("zramctl --size "));
    let after = |command: &str, word: &str| {
        let rest = command.split_once(word)?.1;
        Some(rest.split([' ', '\'']).next()?.to_owned())
    };
    let parsed = sets.filter_map(|command| {
        let size = after(command, "--size ")?;
        let mib: u64 = size.strip_suffix('M')?.parse().ok()?;
        Some((after(command, "--algorithm ")?, mib << 20))
    });
    parsed.collect()
}

#[test]
fn bench_recommends_its_own_pick_in_the_size_that_findings_recommend() {
    let run = run();
    let (chosen, latency) = (&run["recommended"], &run["picks"]["latency"]);
    let may_be_either = latency["runner_up"]["is_real"] == false;
    assert!(chosen["algorithm"] == latency["algorithm"] || may_be_either, "{chosen} {latency}");
    let ratio = chosen["original_per_memory_used"].as_f64();
    let ram = Bytes::new(run["memory_total_bytes"].as_u64().unwrap());
    assert_eq!(chosen["disksize_bytes"].as_u64(), Some(zram_size(ram, ratio).get()));
}

/// For every recorded host, whichever findings it has.
#[test]
fn findings_recommend_the_algorithm_that_bench_picked_and_one_size_per_host() {
    let run = run();
    let picked = run["recommended"]["algorithm"].as_str().unwrap();
    let mut told = 0;
    for slug in slugs() {
        let all = algorithms_and_sizes(&slug);
        for (algorithm, size) in &all {
            assert_eq!(algorithm, picked, "{slug}");
            assert_eq!(*size, all[0].1, "{slug}: two sizes");
            told += 1;
        }
    }
    assert!(told >= 5, "{told}");
}
