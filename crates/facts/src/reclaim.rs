// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What reclaim did: since boot, and over the interval.

use pagewise_model::{Bytes, Change, Interval, Snapshot, Source};

/// Refaults that count as more than noise, per second. With 4 KiB pages this is 400 KiB/s; starting
/// a program after a while may refault as much for a moment, hence never on refaults alone.
const REFAULTS_PER_SECOND: f64 = 100.0;
/// Major faults that hurt, per second: at about 10 ms each on a spinning disk, a tenth of a task's
/// time is spent waiting.
const MAJOR_FAULTS_PER_SECOND: f64 = 10.0;

/// Of the pages that came back, the part that reclaim must have dropped meanwhile. A working set that
/// does not fit is dropped about as fast as it is read. Without this, pages dropped long ago (by a
/// snapshot of the machine, by a large copy at night) would pass for memory that is short now.
const DROPPED_PER_REFAULT: f64 = 0.25;

/// A counter over the interval with the name that this kernel gives it.
#[derive(Debug)]
pub struct Named {
    /// As in `/proc/vmstat`.
    pub name: &'static str,
    /// How it moved, in pages.
    pub change: Change,
}

/// File pages read again soon after they were dropped. Kernels before 5.9 have one counter for all.
fn file_refaults(interval: &Interval) -> Option<Named> {
    ["workingset_refault_file", "workingset_refault"]
        .into_iter()
        .find_map(|name| Some(Named { name, change: interval.vmstat(name)? }))
}

/// File pages coming back faster than noise, and tasks waiting on disk for pages: the working set
/// does not fit.
#[derive(Debug)]
pub struct Rereading {
    /// Pages that were read again.
    pub refaults: Named,
    /// Pages that reclaim took.
    pub dropped: Named,
    /// Faults that waited for a disk.
    pub major_faults: Change,
}

/// Whether the kernel reads again what it dropped, goes on dropping, and somebody waits for it.
pub fn rereading(interval: &Interval) -> Option<Rereading> {
    let refaults = file_refaults(interval)?;
    let dropped = dropped(interval)?;
    let major_faults = interval.vmstat("pgmajfault")?;
    let drops = dropped.change.delta as f64 >= refaults.change.delta as f64 * DROPPED_PER_REFAULT;
    (drops && hurts(&refaults.change, &major_faults)).then_some(Rereading {
        refaults,
        dropped,
        major_faults,
    })
}

/// Whether refaults and the waiting for them are more than noise.
pub fn hurts(refaults: &Change, major_faults: &Change) -> bool {
    refaults.per_second >= REFAULTS_PER_SECOND && major_faults.per_second >= MAJOR_FAULTS_PER_SECOND
}

/// The working set does not fit: shares over the interval.
#[derive(Debug)]
pub struct Thrashing {
    /// What came back and was dropped.
    pub rereading: Rereading,
    /// Refaults as a share, in percent, of everything that was read from disk.
    pub of_read: Option<f64>,
    /// Faults that had to wait for a disk, as a share, in percent, of all faults.
    pub of_faults: Option<f64>,
}

/// From here on the machine reads more for what it dropped than for what is new.
const REREAD_PERCENT: f64 = 50.0;

impl Thrashing {
    /// Whether most of what is read was dropped a moment ago.
    pub fn is_most(&self) -> bool {
        self.of_read.is_some_and(|percent| percent >= REREAD_PERCENT)
    }
}

/// How much of all reading and faulting is for what was dropped a moment ago.
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

/// Pages that reclaim took. Kernels before 5.9 do not tell files from anonymous memory; there the
/// work of kswapd and of the waiting tasks stands for both, whichever did more.
fn dropped(interval: &Interval) -> Option<Named> {
    let taken = |name| Some(Named { name, change: interval.vmstat(name)? });
    let by_anyone = || {
        let both = [taken("pgsteal_kswapd"), taken("pgsteal_direct")];
        both.into_iter().flatten().max_by_key(|taken| taken.change.delta)
    };
    taken("pgsteal_file").or_else(by_anyone)
}

impl Rereading {
    /// How much comes back each second.
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

/// Several counters of `/proc/vmstat` as one, at the place of the first.
#[derive(Debug)]
pub struct Total {
    /// The counters, by the kernel's names.
    pub names: &'static str,
    /// Their sum.
    pub count: u64,
    /// Where the first of them is.
    pub source: Source,
}

/// Pages that kswapd and allocating tasks looked at since boot, for the host as a whole: reclaim
/// inside cgroups is not in it, but in the newest kernels (7.2) that by tasks at a group's limit.
pub fn scanned(host: &Snapshot) -> Option<Total> {
    sum(host, "pgscan_kswapd + pgscan_direct", ["pgscan_kswapd", "pgscan_direct"])
}

/// Pages that anybody looked at since boot, also inside cgroups; before 5.8 the host as a whole.
pub fn scanned_anywhere(host: &Snapshot) -> Option<Total> {
    sum(host, "pgscan_anon + pgscan_file", ["pgscan_anon", "pgscan_file"]).or_else(|| scanned(host))
}

fn sum(host: &Snapshot, names: &'static str, counters: [&str; 2]) -> Option<Total> {
    let [first, second] = counters.map(|name| host.vmstat.get(name));
    let count = first.get()?.saturating_add(second.get()?);
    Some(Total { names, count, source: first.source })
}
