// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's counters of the requests to a block device.

use crate::{Bytes, Millis, Name, Reading};

/// One line of `/proc/diskstats`: counters since boot, and the requests in flight now. Source: the
/// kernel's admin-guide/iostats document.
///
/// The kernel prints times as 32-bit milliseconds, so that they wrap to 0 after 49 days of waiting.
#[derive(Debug, Clone, Default)]
pub struct DiskStats {
    /// Name of the device as under `/dev`, such as `sda`, `dm-1` or `zram0`.
    pub name: Name,
    /// Number of reads that were completed.
    pub reads: Reading<u64>,
    /// Bytes that were read.
    pub read: Reading<Bytes>,
    /// Sum of the times from the submission of each read to its completion.
    pub read_time: Reading<Millis>,
    /// Number of writes that were completed.
    pub writes: Reading<u64>,
    /// Bytes that were written.
    pub written: Reading<Bytes>,
    /// Sum of the times from the submission of each write to its completion.
    pub write_time: Reading<Millis>,
    /// Number of requests that were submitted and are not completed.
    pub in_flight: Reading<u64>,
    /// The kernel's weighted time: divided by the time that passed, it is the mean number of
    /// requests in flight.
    pub queue_time: Reading<Millis>,
}
