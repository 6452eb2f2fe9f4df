// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that a balloon driver has given back to the hypervisor.
//!
//! Drivers differ in whether `MemTotal` includes these pages. virtio lowers `MemTotal`
//! (`adjust_managed_page_count`) unless the balloon may be deflated when memory runs out; the
//! drivers of Hyper-V, Xen and pseries always lower it; VMware's never does. No file of `/proc`
//! says what the driver does. It is derived from the zones, whose present pages do not change with
//! a balloon.

use crate::{Bytes, Pages, Reading, Snapshot};

/// Memory that a balloon driver has given back to the hypervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balloon {
    /// Size of this memory; never 0.
    pub size: Bytes,
    /// Whether `MemTotal` includes these pages, which then count as memory in use; `None` if this
    /// is not known.
    pub is_in_total: Option<bool>,
}

impl Balloon {
    /// The part of the balloon that `MemTotal` includes as memory in use; `None` if it includes
    /// none, or if this is not known.
    pub fn size_in_total(&self) -> Option<Bytes> {
        self.is_in_total?.then_some(self.size)
    }
}

impl Snapshot {
    /// The balloon of this host; `None` if the kernel does not count its pages, or if the count
    /// cannot be read.
    pub fn balloon(&self) -> Option<Balloon> {
        let size = size(self).filter(|size| size.get() > 0)?;
        let is_in_total = hidden_size(self).map(|hidden| hidden < size);
        Some(Balloon { size, is_in_total })
    }
}

/// Size of the balloon: `Balloon` of meminfo (Linux 6.16 and newer), or the pages inflated since
/// boot minus the pages deflated.
fn size(host: &Snapshot) -> Option<Bytes> {
    if let Some(size) = host.memory.other.get("Balloon").and_then(Reading::get) {
        return Some(size);
    }
    let count = |name| host.vmstat.get(name).get();
    let pages = count("balloon_inflate")?.checked_sub(count("balloon_deflate")?)?;
    // one event counts one base page of the kernel, although virtio's protocol uses units of 4 KiB
    Some(Pages::new(pages).to_bytes(host.page_size()))
}

/// RAM that is present but not in `MemTotal`: memory that the kernel reserved at boot, and memory
/// that balloons have subtracted.
fn hidden_size(host: &Snapshot) -> Option<Bytes> {
    let present: Option<u64> =
        host.zones.iter().map(|zone| Some(zone.present_pages.get()?.get())).sum();
    let present = Pages::new(present?).to_bytes(host.page_size());
    // a sum of 0 means that no zone was read
    Some(present)
        .filter(|present| present.get() > 0)?
        .get()
        .checked_sub(host.memory.total.get()?.get())
        .map(Bytes::new)
}

#[cfg(test)]
mod tests {
    use crate::{Name, Source, Zone};

    use super::*;

    /// A host with 1000 MiB of RAM, of which `MemTotal` includes `total_mib`.
    fn host(total_mib: u64) -> Snapshot {
        let mut host = Snapshot::default();
        host.memory.total = Reading::found(Bytes::new(total_mib << 20), Source::none());
        let present_pages = Reading::found(Pages::new(256_000), Source::none());
        host.zones.push(Zone { present_pages, ..Zone::default() });
        host
    }

    fn counting(host: Snapshot, counts: &[(&str, u64)]) -> Snapshot {
        let found = |pages| Reading::found(pages, Source::none());
        let vmstat = counts.iter().map(|(name, pages)| (Name::from(*name), found(*pages)));
        Snapshot { vmstat: vmstat.collect(), ..host }
    }

    fn inflated(host: Snapshot, pages: u64) -> Snapshot {
        counting(host, &[("balloon_inflate", pages + 7), ("balloon_deflate", 7)])
    }

    #[test]
    fn pages_that_the_driver_took_out_of_the_total_are_not_in_it() {
        let of = |total_mib| inflated(host(total_mib), 102_400).balloon().unwrap();
        assert_eq!(of(980).size, Bytes::new(400 << 20));
        assert_eq!(of(980).is_in_total, Some(true));
        assert_eq!(of(980).size_in_total(), Some(Bytes::new(400 << 20)));
        assert_eq!(of(580).is_in_total, Some(false));
        assert_eq!(of(580).size_in_total(), None);
    }

    #[test]
    fn the_line_of_meminfo_comes_before_the_counters() {
        let mut newer = inflated(host(980), 102_400);
        let line = Reading::found(Bytes::new(300 << 20), Source::none());
        newer.memory.other.insert("Balloon".into(), line);
        assert_eq!(newer.balloon().unwrap().size, Bytes::new(300 << 20));
    }

    #[test]
    fn a_count_that_is_missing_or_runs_backwards_is_no_balloon() {
        assert_eq!(host(980).balloon(), None);
        assert_eq!(inflated(host(980), 0).balloon(), None);
        assert_eq!(counting(host(980), &[("balloon_inflate", 3)]).balloon(), None);
        let backwards = [("balloon_inflate", 3), ("balloon_deflate", 4)];
        assert_eq!(counting(host(980), &backwards).balloon(), None);
    }

    #[test]
    fn without_zones_it_is_not_known_whether_the_total_has_it() {
        let mut blind = inflated(host(980), 102_400);
        blind.zones.clear();
        assert_eq!(blind.balloon().unwrap().is_in_total, None);
    }
}
