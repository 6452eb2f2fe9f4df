// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory in use that no counter of the kernel explains: pages that drivers or firmware took
//! directly from the page allocator.

use pagewise_model::{Bytes, Memory, Reading, Snapshot};

/// RAM that is neither free nor included in any counter; `None` if a counter that may be large is
/// not known.
///
/// A page of the swap cache is subtracted once, but if it is mapped it is in two counters. The
/// result is therefore rather too small than too large.
pub fn unexplained_memory(host: &Snapshot) -> Option<Bytes> {
    let memory = &host.memory;
    let used = memory.total.get()?.saturating_sub(memory.free.get()?);
    let kernel = [
        memory.slab_unreclaimable.get()?,
        memory.slab_reclaimable.get()?,
        memory.page_tables.get()?,
        memory.vmalloc_used.get()?,
    ];
    // kernels without these lines do not have such memory, or include it in another counter
    let newer = [
        &memory.secondary_page_tables,
        &memory.percpu,
        &memory.kernel_stack,
        &memory.hugetlb,
        &memory.zfs_cache.size,
    ];
    let newer = newer.into_iter().filter_map(Reading::get);
    // if it is not known whether MemTotal includes the balloon's pages, they are assumed to be
    // included: this explains more memory
    let balloon = host.balloon().filter(|balloon| balloon.is_in_total != Some(false));
    let known = kernel
        .into_iter()
        .chain(newer)
        .chain(balloon.map(|balloon| balloon.size))
        .chain([program_memory(memory)?, compressed_memory(host)?]);
    Some(used.saturating_sub(known.sum()))
}

/// Memory of programs: anonymous memory, page cache with shmem, and the swap cache.
fn program_memory(memory: &Memory) -> Option<Bytes> {
    let all = [
        memory.anon_pages.get()?,
        memory.cached.get()?,
        memory.buffers.get()?,
        memory.swap_cached.get()?,
    ];
    Some(all.into_iter().sum())
}

/// RAM that zram, zmerge and zswap take; `None` if it is not known for one of them.
fn compressed_memory(host: &Snapshot) -> Option<Bytes> {
    let devices =
        host.compressed_devices().filter(|device| device.initialised.get() != Some(false));
    let held: Option<Bytes> = devices.map(|device| device.mm_stat.memory_used.get()).sum();
    let is_zswap_on = host.zswap.enabled.get() == Some(true);
    let pool = match host.zswap.pool.get() {
        None if is_zswap_on => return None,
        pool => pool.unwrap_or_default(),
    };
    Some(held?.saturating_add(pool))
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Pages, Source, Zone, Zram};

    use super::*;

    fn mib(mib: u64) -> Reading<Bytes> {
        Reading::found(Bytes::new(mib << 20), Source::none())
    }

    /// A host with 1000 MiB, of which 200 MiB are free and 500 MiB are in counters.
    fn host() -> Snapshot {
        let mut host = Snapshot::default();
        let memory = &mut host.memory;
        (memory.total, memory.free) = (mib(1000), mib(200));
        (memory.anon_pages, memory.cached) = (mib(200), mib(150));
        (memory.buffers, memory.swap_cached) = (mib(10), mib(40));
        (memory.slab_unreclaimable, memory.slab_reclaimable) = (mib(30), mib(50));
        (memory.page_tables, memory.vmalloc_used) = (mib(10), mib(10));
        host
    }

    fn unexplained_mib(host: &Snapshot) -> Option<u64> {
        unexplained_memory(host).map(|bytes| bytes.get() >> 20)
    }

    #[test]
    fn what_no_count_explains_is_the_rest() {
        assert_eq!(unexplained_mib(&host()), Some(300));
        let mut zfs = host();
        zfs.memory.zfs_cache.size = mib(250);
        zfs.memory.hugetlb = mib(100);
        assert_eq!(unexplained_mib(&zfs), Some(0));
    }

    #[test]
    fn a_balloon_explains_only_pages_that_are_still_in_the_total() {
        let mut ballooned = host();
        ballooned.memory.other.insert("Balloon".into(), mib(250));
        assert_eq!(unexplained_mib(&ballooned), Some(50));
        let present_pages = Reading::found(Pages::new(1260 << 8), Source::none());
        ballooned.zones.push(Zone { present_pages, ..Zone::default() });
        assert_eq!(unexplained_mib(&ballooned), Some(300));
        ballooned.memory.other.insert("Balloon".into(), mib(270));
        assert_eq!(unexplained_mib(&ballooned), Some(30));
    }

    #[test]
    fn a_missing_count_explains_nothing_and_is_not_zero() {
        let mut host = host();
        host.memory.swap_cached = Reading::not_read();
        assert_eq!(unexplained_memory(&host), None);
    }

    #[test]
    fn compressed_memory_that_is_not_known_could_be_all_of_it() {
        let mut denied = host();
        denied.zswap.enabled = Reading::found(true, Source::none());
        assert_eq!(unexplained_memory(&denied), None);
        let mut device = host();
        device.zram.push(Zram::default());
        assert_eq!(unexplained_memory(&device), None);
        device.zram[0].initialised = Reading::found(false, Source::none());
        assert_eq!(unexplained_mib(&device), Some(300));
    }
}
