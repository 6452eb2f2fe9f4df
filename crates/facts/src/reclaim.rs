// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel reclaimed since boot and over the interval.

use pagewise_model::{Bytes, Change, Interval, Snapshot, Source};

/// Fewer refaults per second than this are noise: 400 KiB/s with pages of 4 KiB. A program that
/// starts may cause as many for a moment, so refaults alone are never sufficient for a finding.
const REFAULTS_PER_SECOND: f64 = 100.0;
/// Major faults per second from which on programs are slowed down: at about 10 ms each on a
/// spinning disk, a task waits for a tenth of the time.
const MAJOR_FAULTS_PER_SECOND: f64 = 10.0;

/// The number of pages that were reclaimed during the interval must be at least this share of the
/// refaulted pages. If a working set does not fit, pages are reclaimed about as fast as they are
/// read. Without this condition, refaults of pages that were reclaimed long ago (for example during
/// a large copy at night) would look like a current shortage.
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

/// Counters which show that the working set does not fit: file pages refault above the noise level,
/// and tasks wait for them.
#[derive(Debug)]
pub struct Rereading {
    /// File pages that were refaulted during the interval.
    pub refaults: Named,
    /// Pages that were reclaimed during the interval.
    pub dropped: Named,
    /// Page faults that waited for a disk during the interval.
    pub major_faults: Change,
}

/// Returns the refaults of file pages, if the kernel still reclaims pages and tasks wait for the
/// refaults.
pub fn find_rereading(interval: &Interval) -> Option<Rereading> {
    let refaults = file_refaults(interval)?;
    let dropped = dropped_pages(interval)?;
    let major_faults = interval.vmstat("pgmajfault")?;
    let drops = dropped.change.delta as f64 >= refaults.change.delta as f64 * DROPPED_PER_REFAULT;
    (drops && are_harmful(&refaults.change, &major_faults)).then_some(Rereading {
        refaults,
        dropped,
        major_faults,
    })
}

/// Whether refaults, and the major faults that they cause, are above the noise level.
pub fn are_harmful(refaults: &Change, major_faults: &Change) -> bool {
    refaults.per_second >= REFAULTS_PER_SECOND && major_faults.per_second >= MAJOR_FAULTS_PER_SECOND
}

/// What share of all disk reads and of all page faults is due to refaults, if the working set does
/// not fit.
#[derive(Debug)]
pub struct Thrashing {
    /// The refaults and reclaimed pages over the interval.
    pub rereading: Rereading,
    /// Refaulted pages in percent of all data that was read from disk.
    pub of_read: Option<f64>,
    /// Major faults in percent of all page faults.
    pub of_faults: Option<f64>,
}

/// If refaults are more than this percentage of what is read, the machine reads more pages that
/// were reclaimed shortly before than new ones.
const REREAD_PERCENT: f64 = 50.0;

impl Thrashing {
    /// Whether most of what is read from disk had been reclaimed shortly before.
    pub fn is_most(&self) -> bool {
        self.of_read.is_some_and(|percent| percent >= REREAD_PERCENT)
    }
}

/// Computes what share of all reads and page faults is due to pages that were reclaimed shortly
/// before.
pub fn measure_thrashing(interval: &Interval) -> Option<Thrashing> {
    let rereading = find_rereading(interval)?;
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
/// separately; on these, the larger of the counters for kswapd and for direct reclaim is used, and
/// both include anonymous memory.
fn dropped_pages(interval: &Interval) -> Option<Named> {
    let taken = |name| Some(Named { name, change: interval.vmstat(name)? });
    let by_anyone = || {
        let both = [taken("pgsteal_kswapd"), taken("pgsteal_direct")];
        both.into_iter().flatten().max_by_key(|taken| taken.change.delta)
    };
    taken("pgsteal_file").or_else(by_anyone)
}

impl Rereading {
    /// Converts refaults to bytes per second.
    pub fn bytes_per_second(&self, host: &Snapshot) -> Bytes {
        bytes_per_second(&self.refaults.change, host.page_size())
    }
}

/// Converts a change in pages to bytes per second.
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
    /// The source of the first of the counters.
    pub source: Source,
}

/// Pages that kswapd and direct reclaim scanned since boot on the whole host. Reclaim inside
/// cgroups is not included; only the newest kernels (7.2) include reclaim by tasks that reached the
/// limit of a cgroup.
pub fn scanned_pages(host: &Snapshot) -> Option<Total> {
    sum(host, "pgscan_kswapd + pgscan_direct", ["pgscan_kswapd", "pgscan_direct"])
}

/// Pages scanned since boot, including reclaim inside cgroups. Before Linux 5.8 this is the same as
/// [`scanned_pages`].
pub fn pages_scanned_anywhere(host: &Snapshot) -> Option<Total> {
    sum(host, "pgscan_anon + pgscan_file", ["pgscan_anon", "pgscan_file"])
        .or_else(|| scanned_pages(host))
}

fn sum(host: &Snapshot, names: &'static str, counters: [&str; 2]) -> Option<Total> {
    let [first, second] = counters.map(|name| host.vmstat.get(name));
    let count = first.get()?.saturating_add(second.get()?);
    Some(Total { names, count, source: first.source })
}
