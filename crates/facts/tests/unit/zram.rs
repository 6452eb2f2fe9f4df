// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The recommended size and algorithm of zram.

use pagewise_model::{Compressor, Pick, RunnerUp, ZramUse};
use proptest::prelude::*;

use super::*;
use pagewise_testkit::made_host::{gib, host, line, mib, zram};

fn compressing(stored: Bytes, used: Bytes) -> Snapshot {
    let mut host = host();
    host.zram[0].mm_stat.original = line("/sys/block/zram0/mm_stat", 1, stored);
    host.zram[0].mm_stat.memory_used = line("/sys/block/zram0/mm_stat", 1, used);
    host
}

#[test]
fn full_it_takes_half_of_ram_at_the_measured_ratio() {
    assert_eq!(size_mib(&compressing(gib(1), mib(512))), 16 << 10);
    assert_eq!(size_mib(&compressing(gib(3), gib(1))), 24 << 10);
    assert_eq!(size_mib(&compressing(gib(37), gib(1))), 32 << 10, "twice RAM at most");
    assert_eq!(size_mib(&compressing(gib(1), gib(2))), 8 << 10, "data that does not compress");
    assert_eq!(size_mib(&compressing(mib(1), mib(1))), 16 << 10, "too little to tell");
}

fn contender(algorithm: &str) -> Compressor {
    Compressor::new(algorithm)
}

fn measured(winner: &str, next: &str, is_real: bool) -> (Picks, Vec<ParetoPoint>) {
    let runner_up = RunnerUp {
        contender: contender(next),
        value: 2.0,
        cost_per_winner: 1.1,
        interval: None,
        is_real,
    };
    let unit = Name::from("ns");
    let pick = Pick { winner: contender(winner), value: 1.0, unit, runner_up: Some(runner_up) };
    let point = |(algorithm, ratio)| ParetoPoint {
        contender: contender(algorithm),
        read_ns: 1.0,
        read_spread: [1.0; 2],
        original_per_memory_used: ratio,
        is_on_front: true,
    };
    let points = [("lz4", 2.5), ("lzo-rle", 3.0), ("zstd", 4.0)].map(point).to_vec();
    (Picks { latency: Some(pick), ..Picks::default() }, points)
}

#[test]
fn bench_recommends_what_it_measured_to_be_the_best() {
    let chosen = |winner, next, is_real| {
        let (picks, points) = measured(winner, next, is_real);
        let chosen = choose_zram(gib(16), &picks, &points).unwrap();
        (chosen.contender.algorithm.to_string(), chosen.disksize_bytes)
    };
    assert_eq!(chosen("lz4", "lzo-rle", true), ("lz4".to_owned(), gib(20)));
    assert_eq!(chosen("lzo-rle", "lz4", true), ("lzo-rle".to_owned(), gib(24)));
    assert_eq!(chosen("lzo-rle", "lz4", false), ("lz4".to_owned(), gib(20)), "no difference shown");
    assert_eq!(chosen("zstd", "lzo-rle", false), ("zstd".to_owned(), gib(32)));
    // one reads faster, the other is better if writes count too
    let (reads, _) = measured("lzo-rle", "lz4", true);
    let (balanced, points) = measured("lz4", "lzo-rle", true);
    let picks = Picks { balanced: balanced.latency, ..reads };
    let chosen_by_both = choose_zram(gib(16), &picks, &points).unwrap();
    assert_eq!(chosen_by_both.contender.algorithm.as_str(), "lz4", "writes count too");
    let (picks, points) = measured("842", "lz4", true);
    assert_eq!(choose_zram(gib(16), &picks, &points), None, "its ratio is not known");
    assert_eq!(choose_zram(gib(16), &Picks::default(), &points), None);
}

proptest! {
    /// A host whose devices measured a ratio, and a run of `bench` that measured the same ratio,
    /// give the same size.
    #[test]
    fn a_device_and_bench_with_the_same_ratio_give_the_same_size(
        used in 16u64..4096,
        percent in 50u64..5000,
    ) {
        let (stored, used) = (mib(used * percent / 100 + 16), mib(used));
        let host = compressing(stored, used);
        let (picks, mut points) = measured("lz4", "zstd", true);
        points[0].original_per_memory_used = Ratio::from_sizes(stored, used).unwrap().get();
        let ram = host.memory.total.get().unwrap();
        let chosen = choose_zram(ram, &picks, &points).unwrap();
        prop_assert_eq!(chosen.disksize_bytes, mib(size_mib(&host)));
        let offered = chosen.contender.algorithm;
        prop_assert_eq!(offered.as_str(), FAST);
    }
}

#[test]
fn the_algorithm_that_somebody_chose_stays() {
    let mut device = zram(0, ZramUse::NotInitialised, Bytes::new(0));
    let name = |name| Name::from(name);
    let algorithms = device.algorithm.clone().map(|_| pagewise_model::Algorithms {
        active: name("lzo-rle"),
        available: vec![name("lzo-rle"), name("lz4"), name("zstd")],
    });
    device.algorithm = algorithms;
    assert_eq!(algorithm(&device), Some(&name("lz4")));
    device.initialised = pagewise_testkit::made_host::file("/sys/block/zram0/initstate", true);
    assert_eq!(algorithm(&device), Some(&name("lzo-rle")));
}

#[test]
fn a_small_sample_gives_no_size_for_the_host() {
    assert!(is_enough_to_size(mib(64), 2000));
    assert!(!is_enough_to_size(mib(63), 2000) && !is_enough_to_size(mib(64), 1999));
    // same-filled pages that were left out belong to the source: 48 MiB and 16 MiB of zeros
    assert!(is_enough_to_size_with(mib(48), 12_288, 4096));
    assert!(!is_enough_to_size_with(mib(48), 12_288, 4095));
    assert!(!is_enough_to_size_with(Bytes::new(0), 0, 0));
}
