// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads every `/sys/block/zmergeN` into [`Zram`], with what zmerge adds: [`Merging`].
//!
//! zram's part is read as zram's is. `merge` reads as the slots that a running pass has still to look
//! at, and reading it starts nothing; `reset`, `compact`, `mem_limit` and `mem_used_max` can only be
//! written and are left alone, and so is `hot_add`, though reading it would do no harm here.

use pagewise_model::{Bytes, Driver, Merging, Pages, Percent, Tier, Zram};

use crate::mounts::Mounts;
use crate::zram;
use pagewise_files::{HostRoot, ReadHost, ReadValues};

pub(crate) fn read(host: &HostRoot, tiers: &[Tier], mounts: &Mounts) -> Vec<Zram> {
    let devices = zram::read_of(Driver::Zmerge, host, tiers, mounts).into_iter();
    devices.map(|device| Zram { merging: Some(merging(host, &device)), ..device }).collect()
}

/// Whether the module is there: it may be without a device.
pub fn zmerge_is_loaded(host: &HostRoot) -> bool {
    host.exists("sys/class/zmerge-control")
}

fn merging(host: &HostRoot, device: &Zram) -> Merging {
    let file = |name: &str| format!("sys/block/{}/{name}", device.name());
    let number = |name: &str| host.number_at::<u64>(&file(name));
    let (hits, misses) = (number("merge_hits"), number("merge_misses"));
    Merging {
        mode: host.choice_at(&file("merge_mode")),
        slots_left: number("merge"),
        merged_pages: number("merged_pages").map(Pages::new),
        merged_bytes: number("merged_bytes").map(Bytes::new),
        index_bytes: number("index_bytes").map(Bytes::new),
        hit_percent: hits.get().zip(misses.get()).and_then(|(hits, misses)| share(hits, misses)),
        hits,
        misses,
    }
}

fn share(hits: u64, misses: u64) -> Option<Percent> {
    let all = hits.saturating_add(misses);
    (all > 0).then(|| Percent::new(hits as f64 * 100.0 / all as f64))
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Name, Reading, Source, ZramUse};
    use proptest::prelude::*;

    use super::*;
    use crate::mounts;
    use crate::swap;
    use crate::testing::file;
    use pagewise_files::Entry;

    /// As the module writes them.
    fn files() -> Vec<(String, Entry)> {
        let at = |name: &str, text: &str| file(format!("sys/block/zmerge0/{name}"), text);
        vec![
            at("initstate", "1\n"),
            at("disksize", "67108864\n"),
            at("comp_algorithm", "[lz4] zstd \n"),
            at(
                "mm_stat",
                " 8192000  4096000  5242880        0  6291456       12        7        9        9\n",
            ),
            at("io_stat", "       0        0        0       31\n"),
            at("merge_mode", "off request [inline] adaptive \n"),
            at("merge", "0\n"),
            at("merged_pages", "500\n"),
            at("merged_bytes", "1024000\n"),
            at("index_bytes", "40960\n"),
            at("merge_hits", "501\n"),
            at("merge_misses", "1503\n"),
            file(
                "proc/swaps",
                "Filename Type Size Used Priority\n/dev/zmerge0 partition 65532 8000 100\n",
            ),
        ]
    }

    fn all(files: Vec<(String, Entry)>) -> (Vec<Zram>, HostRoot) {
        let host = HostRoot::memory(files);
        let mounts = mounts::read(&host);
        let tiers = swap::read(&host, &mounts);
        (read(&host, &tiers, &mounts), host)
    }

    fn only(files: Vec<(String, Entry)>) -> (Zram, HostRoot) {
        let (mut devices, host) = all(files);
        assert_eq!(devices.len(), 1);
        (devices.remove(0), host)
    }

    #[test]
    fn it_is_a_device_of_compressed_ram_that_also_merges() {
        let (device, host) = only(files());
        assert_eq!(device.name(), "zmerge0");
        assert_eq!(device.mm_stat.original.get(), Some(Bytes::new(8_192_000)));
        assert_eq!(device.original_per_compressed.unwrap().get(), 2.0);
        assert_eq!(device.slot_table.get(), Some(Bytes::new(16 * 16_384)));
        assert_eq!(device.used_as.value(), Some(&ZramUse::Swap { priority: 100 }));
        let merging = device.merging.unwrap();
        assert_eq!(merging.mode.value().unwrap().active, Name::from("inline"));
        assert_eq!(merging.merged_pages.get(), Some(Pages::new(500)));
        assert_eq!(merging.merged_bytes.get(), Some(Bytes::new(1_024_000)));
        assert_eq!(
            merging.index_bytes,
            Reading::found(Bytes::new(40_960), Source::file("/sys/block/zmerge0/index_bytes"))
        );
        assert_eq!(merging.hit_percent, Some(Percent::new(25.0)));
        assert_eq!((merging.looked_for(), merging.is_inline()), (Some(2004), true));
        assert!(host.take_problems().is_empty());
    }

    #[test]
    fn what_zram_alone_has_is_absent_and_no_problem() {
        let (device, host) = only(files());
        assert!(device.secondary.is_empty() && device.backing_device.value().is_none());
        assert!(
            device.bd_stat.held.value().is_none() && device.debug_stat.version.value().is_none()
        );
        assert!(host.take_problems().is_empty());
    }

    #[test]
    fn nothing_looked_for_has_no_share() {
        let mut files = files();
        files.retain(|(path, _)| !path.ends_with("merge_hits") && !path.ends_with("merge_misses"));
        files.push(file("sys/block/zmerge0/merge_hits", "0\n"));
        files.push(file("sys/block/zmerge0/merge_misses", "0\n"));
        assert_eq!(only(files).0.merging.unwrap().hit_percent, None);
    }

    #[test]
    fn what_acts_when_it_is_written_is_never_read() {
        let host = HostRoot::memory(files()).remembering();
        let mounts = mounts::read(&host);
        assert_eq!(read(&host, &[], &mounts).len(), 1);
        let asked = host.remembered();
        for acting in
            ["reset", "compact", "mem_limit", "mem_used_max", "algorithm_params", "hot_add"]
        {
            assert!(!asked.keys().any(|path| path.ends_with(acting)), "{acting}");
        }
    }

    #[test]
    fn zram_is_not_zmerge() {
        let host = HostRoot::memory([file("sys/block/zram0/initstate", "1\n")]);
        assert!(read(&host, &[], &mounts::read(&host)).is_empty());
        let host = HostRoot::memory(files());
        assert!(zram::read(&host, &[], &mounts::read(&host)).is_empty());
    }

    proptest! {
        /// No file of a device can break its reading.
        #[test]
        fn any_bytes_are_survived(
            name in prop::sample::select(vec![
                "merge_mode", "merge", "merged_pages", "merged_bytes", "index_bytes", "merge_hits",
                "merge_misses",
            ]),
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut files = files();
            files.retain(|(path, _)| !path.ends_with(&format!("/{name}")));
            files.push(file(format!("sys/block/zmerge0/{name}"), bytes));
            let _ = only(files);
        }
    }
}
