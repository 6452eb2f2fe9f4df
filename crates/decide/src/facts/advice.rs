// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The size and algorithm that every finding recommends for zram: worked out here and nowhere else,
//! so that two findings never recommend different ones.
//!
//! The size bounds uncompressed data. It is chosen such that the device, when full, takes half of RAM
//! at the ratio that the host's own devices measured, or at two to one where nothing was measured yet:
//! more would leave too little for the code and files that programs are using.

use pagewise_model::{Bytes, Name, Ratio, Snapshot, Zram};

/// Original bytes per byte of RAM, where no device measured it.
const ASSUMED_RATIO: f64 = 2.0;
/// Stored data from which a device's ratio counts as measured.
const ENOUGH_STORED: Bytes = Bytes::new(16 << 20);
/// Whatever the ratio: the table of slots is paid at once, and a ratio can get worse.
const MOST_TIMES_RAM: f64 = 2.0;
/// Reads back fastest on every CPU that we measured; `pagewise bench` measures it on this memory.
const FAST: &str = "lz4";

/// Original bytes per byte of memory used, over all devices; `None` until enough is stored.
pub(crate) fn measured_ratio(host: &Snapshot) -> Option<Ratio> {
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
pub(crate) fn size_mib(host: &Snapshot) -> u64 {
    let Some(ram) = host.memory.total.get() else { return 512 };
    let times = (ratio(host) / 2.0).min(MOST_TIMES_RAM);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size")]
    let size = (ram.get() as f64 * times) as u64;
    (size >> 20).max(1)
}

/// The algorithm: what the device has if somebody chose it, else the fastest that the kernel offers.
pub(crate) fn algorithm(device: &Zram) -> Option<&Name> {
    let offered = device.algorithm.value()?;
    let chosen = device.initialised.get() == Some(true);
    let fast = offered.available.iter().find(|name| name.as_str() == FAST);
    Some(fast.filter(|_| !chosen).unwrap_or(&offered.active))
}

#[cfg(test)]
mod tests {
    use pagewise_model::ZramUse;

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
