// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/proc/diskstats` into [`DiskStats`].
//!
//! Times are in ms, sizes in sectors of 512 bytes, whatever the sector size of the device. Kernels before 2.6.25
//! print four columns for a partition; the other columns are then absent. sysfs has the same numbers in one file
//! for each device, but reading `/proc/diskstats` takes a single read.

use pagewise_model::{Bytes, DiskStats, Millis, Name, Reading};

use crate::limits::DISKS;
use pagewise_hostfs::text::{Line, number};
use pagewise_hostfs::{HostRoot, ReadValues};

pub(crate) fn read(host: &HostRoot) -> Vec<DiskStats> {
    let Ok(text) = host.text("proc/diskstats") else { return Vec::new() };
    text.first_lines(host, DISKS).filter_map(|line| device(host, &line)).collect()
}

/// Parses a line: `8 0 sda reads merged sectors ms writes merged sectors ms in-flight busy-ms
/// weighted-ms`, and what newer kernels add.
fn device(host: &HostRoot, line: &Line<'_>) -> Option<DiskStats> {
    let columns: Vec<&[u8]> = line.words().collect();
    let name = line.check_parsed(host, "numbers and name of a device", columns.get(2).copied())?;
    let count = |at: usize| match columns.get(at) {
        Some(word) => line.reading(host, "a whole number", number::<u64>(word)),
        None => Reading::absent("this kernel does not print it", line.source()),
    };
    let size = |at| count(at).map(|sectors| Bytes::new(sectors.saturating_mul(512)));
    let time = |at| count(at).map(Millis::new);
    // the kernel has `!` where the name under /dev has a slash
    let name = String::from_utf8_lossy(name).replace('!', "/");
    Some(DiskStats {
        name: Name::from(name.as_str()),
        reads: count(3),
        read: size(5),
        read_time: time(6),
        writes: count(7),
        written: size(9),
        write_time: time(10),
        in_flight: count(11),
        queue_time: time(13),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, mangle};

    /// The text as Linux 6.12 prints it; the second line as an old kernel prints a partition.
    const TEXT: &str = "   8       0 sda 1200 30 96000 48000 800 90 64000 32000 60 41000 80500 0 0 0 0 12 500\n   \
                           8       1 sda1 10 80 20 160\n 104       0 cciss!c0d0 1 0 8 2 0 0 0 0 0 2 2\n";

    fn read_of(text: impl AsRef<[u8]>) -> Vec<DiskStats> {
        read(&host([("proc/diskstats", text.as_ref().to_vec())]))
    }

    #[test]
    fn requests_times_and_queue_are_columns() {
        let disks = read_of(TEXT);
        let [disk, part, slashed] = &disks[..] else { panic!("{disks:?}") };
        assert_eq!((disk.name.as_str(), slashed.name.as_str()), ("sda", "cciss/c0d0"));
        assert_eq!((disk.reads.get(), disk.writes.get()), (Some(1200), Some(800)));
        assert_eq!(disk.read.get(), Some(Bytes::new(96_000 * 512)));
        assert_eq!(disk.written.get(), Some(Bytes::new(64_000 * 512)));
        let times = [&disk.read_time, &disk.write_time, &disk.queue_time];
        assert_eq!(
            times.map(|time| time.get().map(Millis::get)),
            [Some(48_000), Some(32_000), Some(80_500)]
        );
        assert_eq!(disk.in_flight.get(), Some(60));
        assert_eq!(disk.reads.source.to_string(), "/proc/diskstats:1");
        assert_eq!((part.in_flight.get(), part.queue_time.get()), (None, None));
    }

    #[test]
    fn a_column_that_is_no_number_is_not_zero() {
        let disks = read_of("8 0 sda 1200 30 96000 x 800\n8 0\n");
        assert_eq!(disks.len(), 1);
        assert_eq!((disks[0].reads.get(), disks[0].read_time.get()), (Some(1200), None));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(text in mangle(TEXT)) {
            read_of(text);
        }
    }
}
