// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How well the host's memory compresses, as measured by its own zram devices.

use pagewise_model::{Bytes, Ratio, Snapshot, Zram};

/// Compression ratio to assume if no device has measured it, in original bytes per byte of RAM.
pub const ASSUMED_RATIO: f64 = 2.0;
/// Minimum amount of stored data for a device's ratio to count as measured.
pub const ENOUGH_STORED: Bytes = Bytes::new(16 << 20);

/// The measured compression ratio of all zram devices together, in original bytes per byte of
/// memory used; `None` until enough is stored.
pub fn measured_ratio(host: &Snapshot) -> Option<Ratio> {
    let stat =
        |device: &Zram| Some((device.mm_stat.original.get()?, device.mm_stat.memory_used.get()?));
    let known: Vec<(Bytes, Bytes)> = host.compressed_devices().filter_map(stat).collect();
    let stored: Bytes = known.iter().map(|(stored, _)| *stored).sum();
    let used: Bytes = known.iter().map(|(_, used)| *used).sum();
    Ratio::from_sizes(stored, used).filter(|_| stored >= ENOUGH_STORED)
}

/// The compression ratio to calculate with, in original bytes per byte of memory used: the
/// measured ratio, otherwise the assumed one; never below 1.
pub fn ratio(host: &Snapshot) -> f64 {
    measured_ratio(host).map_or(ASSUMED_RATIO, Ratio::get).max(1.0)
}
