// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What reclaim did since boot and over the interval.

use pagewise_model::{Bytes, Change, Interval, Snapshot, Source};

/// Refaults per second from which on they count as more than noise. With 4 KiB pages this is 400
/// KiB/s. Starting a program after some time may cause as many for a moment, so refaults alone are
/// never sufficient.
const REFAULTS_PER_SECOND: f64 = 100.0;
/// Major faults per second that slow programs down: at about 10 ms each on a spinning disk, a task
/// waits a tenth of the time.
const MAJOR_FAULTS_PER_SECOND: f64 = 10.0;

/// Share of the refaulted pages that reclaim must have dropped during the interval, 0 to 1. A
/// working set that does not fit is dropped about as fast as it is read. Without this condition,
/// pages dropped long ago (by a snapshot of the machine, by a large copy at night) would look like
/// a current shortage.
const DROPPED_PER_REFAULT: f64 = 0.25;

/// The change of a counter of `/proc/vmstat`, with the name that this kernel uses for it.
#[derive(Debug)]
pub struct Named {
    /// Name of the counter in `/proc/vmstat`.
    pub name: &'static str,
    /// The change of the counter, in pages.
    pub change: Change,
}

/// Refaults of file pages over the interval. Kernels before 5.9 have one counter for all pages.
fn file_refaults(interval: &Interval) -> Option<Named> {
    ["workingset_refault_file", "workingset_refault"]
        .into_iter()
        .find_map(|name| Some(Named { name, change: interval.vmstat(name)? }))
}

/// Counters which show that file pages refault above the noise level, and that tasks wait for
/// them: the working set does not fit.
#[derive(Debug)]
pub struct Rereading {
    /// File pages that were refaulted during the interval.
    pub refaults: Named,
    /// Pages that were reclaimed during the interval.
    pub dropped: Named,
    /// Page faults that waited for a disk during the interval.
    pub major_faults: Change,
}

/// Refaults of file pages, if the kernel continues to drop pages and tasks wait for the refaults.
pub fn rereading(interval: &Interval) -> Option<Rereading> {
    let refaults = file_refaults(interval)?;
    let dropped = dropped_pages(interval)?;
    let major_faults = interval.vmstat("pgmajfault")?;
    let drops = dropped.change.delta as f64 >= refaults.change.delta as f64 * DROPPED_PER_REFAULT;
    (drops && hurts(&refaults.change, &major_faults)).then_some(Rereading {
        refaults,
        dropped,
        major_faults,
    })
}

/// Whether refaults are above the noise level, and so are the major faults that they cause.
pub fn hurts(refaults: &Change, major_faults: &Change) -> bool {
    refaults.per_second >= REFAULTS_PER_SECOND && major_faults.per_second >= MAJOR_FAULTS_PER_SECOND
}

/// How much of all reads and page faults is refaults, if the working set does not fit.
#[derive(Debug)]
pub struct Thrashing {
    /// The refaults and reclaimed pages over the interval.
    pub rereading: Rereading,
    /// Refaulted pages, in percent of everything that was read from disk.
    pub of_read: Option<f64>,
    /// Major faults in percent of all page faults.
    pub of_faults: Option<f64>,
}

/// Percentage of refaults above which the machine reads more pages that it had dropped than new
/// ones.
const REREAD_PERCENT: f64 = 50.0;

impl Thrashing {
    /// Whether most of what is read from disk was dropped shortly before.
    pub fn is_most(&self) -> bool {
        self.of_read.is_some_and(|percent| percent >= REREAD_PERCENT)
    }
}

/// How much of all reads and page faults is due to pages that were dropped shortly before.
pub fn thrashing(interval: &Interval) -> Option<Thrashing> {
    let rereading = rereading(interval)?;
    let page_size = interval.end.page_size();
    let refaulted = rereading.refaults.change.delta as f64 * page_size.get() as f64;
    // the kernel counts pgpgin in KiB
    let read = interval.vmstat("pgpgin").and_then(|read| Bytes::from_kib(read.delta));
    let faults = interval.vmstat("pgfault");
    let share = |part: f64, whole: f64| (whole > 0.0).then(|| (part * 100.0 / whole).min(100.0));
    Some(Thrashing {
        of_read: read.and_then(|read| share(refaulted, read.get() as f64)),
        of_faults: faults
            .and_then(|all| share(rereading.major_faults.delta as f64, all.delta as f64)),
        rereading,
    })
}

/// Pages that were reclaimed during the interval. Kernels before 5.9 do not count file pages
/// separately; for these, the larger of the counters for kswapd and for direct reclaim is used,
/// which include anonymous memory.
fn dropped_pages(interval: &Interval) -> Option<Named> {
    let taken = |name| Some(Named { name, change: interval.vmstat(name)? });
    let by_anyone = || {
        let both = [taken("pgsteal_kswapd"), taken("pgsteal_direct")];
        both.into_iter().flatten().max_by_key(|taken| taken.change.delta)
    };
    taken("pgsteal_file").or_else(by_anyone)
}

impl Rereading {
    /// Refaults as bytes per second.
    pub fn bytes_per_second(&self, host: &Snapshot) -> Bytes {
        bytes_per_second(&self.refaults.change, host.page_size())
    }
}

/// A change in pages as bytes per second.
fn bytes_per_second(pages: &Change, page_size: Bytes) -> Bytes {
    let bytes = u128::from(pages.delta) * u128::from(page_size.get());
    let per_second = bytes as f64 / pages.seconds;
    #[expect(clippy::cast_possible_truncation, reason = "a float cast to an integer saturates")]
    #[expect(clippy::cast_sign_loss, reason = "neither side of the quotient is negative")]
    Bytes::new(per_second as u64)
}

/// The sum of several counters of `/proc/vmstat`, with the source of the first.
#[derive(Debug)]
pub struct Total {
    /// Names of the counters in `/proc/vmstat`, as text.
    pub names: &'static str,
    /// The sum of the counters, in their own unit.
    pub count: u64,
    /// Where the first of the counters is.
    pub source: Source,
}

/// Pages scanned by kswapd and direct reclaim since boot, for the whole host: reclaim inside
/// cgroups is not included, except in the newest kernels (7.2) that by tasks at a cgroup's limit.
pub fn scanned_pages(host: &Snapshot) -> Option<Total> {
    sum(host, "pgscan_kswapd + pgscan_direct", ["pgscan_kswapd", "pgscan_direct"])
}

/// Pages scanned since boot, including reclaim inside cgroups; before Linux 5.8 as [`scanned_pages`].
pub fn scanned_anywhere(host: &Snapshot) -> Option<Total> {
    sum(host, "pgscan_anon + pgscan_file", ["pgscan_anon", "pgscan_file"])
        .or_else(|| scanned_pages(host))
}

fn sum(host: &Snapshot, names: &'static str, counters: [&str; 2]) -> Option<Total> {
    let [first, second] = counters.map(|name| host.vmstat.get(name));
    let count = first.get()?.saturating_add(second.get()?);
    Some(Total { names, count, source: first.source })
}
