// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The size and algorithm that every finding, `scan` and `bench` recommend for zram: computed here and
//! nowhere else, so that no two of them differ for the same measured values.
//!
//! The size bounds uncompressed data. It is chosen such that the device, when full, takes half of RAM
//! at the measured ratio, or at two to one where nothing was measured yet: more would leave too little for
//! the code and files that programs are using. The ratio is that of the host's own devices, or what `scan` or
//! `bench` measured.
//!
//! The algorithm is the one that reads a page back fastest, because a process waits for that: the one that
//! `bench` measured, and lz4 before that.

use pagewise_model::{Bytes, Name, ParetoPoint, Picks, Ratio, Snapshot, Zram, ZramChoice};

/// Original bytes per byte of RAM, where no device measured it.
const ASSUMED_RATIO: f64 = 2.0;
/// Stored data from which a device's ratio counts as measured.
pub const ENOUGH_STORED: Bytes = Bytes::new(16 << 20);
/// Whatever the ratio: the table of slots is paid at once, and a ratio can get worse.
const MOST_TIMES_RAM: f64 = 2.0;
/// Reads back fastest on every CPU that we measured; `pagewise bench` measures it on this memory.
pub const FAST: &str = "lz4";

/// Original bytes per byte of memory used, over all devices; `None` until enough is stored.
pub fn measured_ratio(host: &Snapshot) -> Option<Ratio> {
    let stat =
        |device: &Zram| Some((device.mm_stat.original.get()?, device.mm_stat.memory_used.get()?));
    let known: Vec<(Bytes, Bytes)> = host.compressed().filter_map(stat).collect();
    let stored: Bytes = known.iter().map(|(stored, _)| *stored).sum();
    let used: Bytes = known.iter().map(|(_, used)| *used).sum();
    Ratio::from_sizes(stored, used).filter(|_| stored >= ENOUGH_STORED)
}

/// The measured ratio, or the one that is assumed without; never below 1.
pub(crate) fn ratio(host: &Snapshot) -> f64 {
    measured_ratio(host).map_or(ASSUMED_RATIO, Ratio::get).max(1.0)
}

/// The disksize for one device, in whole MiB.
pub fn size_mib(host: &Snapshot) -> u64 {
    let Some(ram) = host.memory.total.get() else { return 512 };
    zram_size(ram, measured_ratio(host).map(Ratio::get)).get() >> 20
}

/// The disksize for one device of a machine with `ram`, in whole MiB, if its memory compresses by `ratio`
/// (original bytes per byte of RAM); `None` if that was not measured.
pub fn zram_size(ram: Bytes, ratio: Option<f64>) -> Bytes {
    let times = (ratio.unwrap_or(ASSUMED_RATIO).max(1.0) / 2.0).min(MOST_TIMES_RAM);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size")]
    let size = (ram.get() as f64 * times) as u64;
    Bytes::new((size >> 20).max(1) << 20)
}

/// The algorithm: what the device has if somebody chose it, else the fastest that the kernel offers.
pub fn algorithm(device: &Zram) -> Option<&Name> {
    let offered = device.algorithm.value()?;
    let chosen = device.initialised.get() == Some(true);
    let fast = offered.available.iter().find(|name| name.as_str() == FAST);
    Some(fast.filter(|_| !chosen).unwrap_or(&offered.active))
}

/// What `bench` recommends for a machine with `ram`: the algorithm that it measured to be the fastest to read,
/// at the ratio that it measured of that. Where another one is not measurably faster than lz4, lz4.
pub fn choose_zram(ram: Bytes, picks: &Picks, measured: &[ParetoPoint]) -> Option<ZramChoice> {
    let pick = picks.latency.as_ref()?;
    let next = pick.runner_up.as_ref().filter(|next| !next.is_real);
    let usual = next.map(|next| &next.contender).filter(|next| next.algorithm.as_str() == FAST);
    let contender = usual.unwrap_or(&pick.winner);
    let ratio =
        measured.iter().find(|point| point.contender == *contender)?.original_per_memory_used;
    Some(ZramChoice {
        contender: contender.clone(),
        disksize_bytes: zram_size(ram, Some(ratio)),
        original_per_memory_used: ratio,
    })
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Compressor, Pick, RunnerUp, ZramUse};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{gib, host, line, mib, zram};

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
    fn bench_recommends_what_it_measured_to_be_the_fastest() {
        let chosen = |winner, next, is_real| {
            let (picks, points) = measured(winner, next, is_real);
            let chosen = choose_zram(gib(16), &picks, &points).unwrap();
            (chosen.contender.algorithm.to_string(), chosen.disksize_bytes)
        };
        assert_eq!(chosen("lz4", "lzo-rle", true), ("lz4".to_owned(), gib(20)));
        assert_eq!(chosen("lzo-rle", "lz4", true), ("lzo-rle".to_owned(), gib(24)));
        assert_eq!(
            chosen("lzo-rle", "lz4", false),
            ("lz4".to_owned(), gib(20)),
            "no difference shown"
        );
        assert_eq!(chosen("zstd", "lzo-rle", false), ("zstd".to_owned(), gib(32)));
        let (picks, points) = measured("842", "lz4", true);
        assert_eq!(choose_zram(gib(16), &picks, &points), None, "its ratio is not known");
        assert_eq!(choose_zram(gib(16), &Picks::default(), &points), None);
    }

    proptest! {
        /// A host whose devices have measured a ratio, and a bench run that measured the same: one size.
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
        device.initialised = crate::testing::file("/sys/block/zram0/initstate", true);
        assert_eq!(algorithm(&device), Some(&name("lzo-rle")));
    }
}
