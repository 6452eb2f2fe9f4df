// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the uses of memory and the pressure in two readings.

use pagewise_model::{
    Bytes, Interval, Memory, Micros, Percent, PressureChange, Psi, Reading, SizeChange, Snapshot,
    Stall,
};

type Size = (&'static str, fn(&Memory) -> Reading<Bytes>);

const SIZES: [Size; 15] = [
    ("total", |it| it.total.clone()),
    ("available", |it| it.available.clone()),
    ("free", |it| it.free.clone()),
    ("anonymous", |it| it.anon_pages.clone()),
    ("shmem and tmpfs", |it| it.shmem.clone()),
    ("file cache", file_cache),
    ("slab, reclaimable", |it| it.slab_reclaimable.clone()),
    ("slab, unreclaimable", |it| it.slab_unreclaimable.clone()),
    ("page tables", |it| it.page_tables.clone()),
    ("kernel stacks", |it| it.kernel_stack.clone()),
    ("hugetlb pools", |it| it.hugetlb.clone()),
    ("anonymous, huge", |it| it.anon_huge_pages.clone()),
    ("swap, total", |it| it.swap_total.clone()),
    ("swap, used", swap_used),
    ("committed", |it| it.committed.clone()),
];

/// Returns `Cached` without shmem, which cannot be dropped, plus `Buffers`.
fn file_cache(memory: &Memory) -> Reading<Bytes> {
    let shmem = memory.shmem.get().unwrap_or_default();
    let buffers = memory.buffers.get().unwrap_or_default();
    memory.cached.clone().map(|cached| cached.saturating_sub(shmem).saturating_add(buffers))
}

fn swap_used(memory: &Memory) -> Reading<Bytes> {
    let Some(free) = memory.swap_free.get() else { return memory.swap_free.clone() };
    memory.swap_total.clone().map(|total| total.saturating_sub(free))
}

pub(crate) fn size_changes(before: &Snapshot, after: &Snapshot) -> Vec<SizeChange> {
    let of_meminfo = SIZES.iter().map(|(name, pick)| SizeChange {
        name,
        before: pick(&before.memory),
        after: pick(&after.memory),
    });
    let all = of_meminfo.chain(compare_compressed(before, after));
    let is_known = |it: &SizeChange| it.before.value().or(it.after.value()).is_some();
    all.filter(is_known).collect()
}

/// Compares the data stored in zram and zswap, and the RAM that it takes.
fn compare_compressed(before: &Snapshot, after: &Snapshot) -> [SizeChange; 4] {
    let size = |name, pick: fn(&Snapshot) -> Reading<Bytes>| SizeChange {
        name,
        before: pick(before),
        after: pick(after),
    };
    [
        size("zram, stored", |host| sum(host, |it| &it.mm_stat.original)),
        size("zram, memory used", |host| sum(host, |it| &it.mm_stat.memory_used)),
        size("zswap, stored", |host| host.zswap.stored.clone()),
        size("zswap, memory used", |host| host.zswap.pool.clone()),
    ]
}

/// Returns the sum over all devices; not read if there are no devices.
fn sum(host: &Snapshot, pick: impl Fn(&pagewise_model::Zram) -> &Reading<Bytes>) -> Reading<Bytes> {
    let known = host.compressed_devices().map(pick).filter(|size| size.value().is_some());
    let add = |sum: Reading<Bytes>, one: &Reading<Bytes>| match (sum.get(), one.get()) {
        (Some(sum), Some(size)) => one.clone().map(|_| sum.saturating_add(size)),
        _ => one.clone(),
    };
    known.fold(Reading::not_read(), add)
}

type Waited = (&'static str, fn(&Psi) -> &Stall);

const PRESSURE: [Waited; 5] = [
    ("memory, some", |psi| &psi.memory.some),
    ("memory, full", |psi| &psi.memory.full),
    ("io, some", |psi| &psi.io.some),
    ("io, full", |psi| &psi.io.full),
    ("cpu, some", |psi| &psi.cpu.some),
];

pub(crate) fn pressure_changes(interval: &Interval) -> Vec<PressureChange> {
    let Some(start) = interval.start.as_deref() else { return Vec::new() };
    let change = |(name, pick): &Waited| PressureChange {
        name,
        before: pick(&start.psi).avg60.clone(),
        after: pick(&interval.end.psi).avg60.clone(),
        between: interval
            .change(|host| pick(&host.psi).total_us.clone())
            .map(|it| share_of_time(Micros::new(it.delta), it.seconds)),
    };
    let is_known = |it: &PressureChange| it.before.value().or(it.after.value()).is_some();
    PRESSURE.iter().map(change).filter(is_known).collect()
}

/// Converts a duration to its share of `seconds`.
pub(crate) fn share_of_time(time: Micros, seconds: f64) -> Percent {
    Percent::new(time.get() as f64 / 1e4 / seconds)
}
