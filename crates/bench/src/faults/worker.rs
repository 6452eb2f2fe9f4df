// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process whose memory is swapped out and touched again: reads a task from its environment and
//! pages from standard input, and writes one answer to standard output.
//!
//! The process joins the cgroup before it allocates memory. MADV_PAGEOUT swaps out exactly the
//! pages that are measured, but ignores pages that several processes map. So memory that is to be
//! shared with a child is swapped out first, and then the process forks: each swap entry then has
//! two users, as if the process had forked before. (Memory that was shared by a fork first, and
//! then swapped out by the cgroup's `force_empty` or `memory.reclaim`, gave the same counts on 6.1,
//! 6.18 and 7.2.)
//!
//! The process has one thread and ends with the process that started it; its child ends with it.

#![expect(
    clippy::disallowed_methods,
    reason = "it joins the cgroup that was lent, and reads its own scheduler statistics"
)]

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use pagewise_mappings::{Advice, Region, Sleeper};
use pagewise_model::{Access, Counters, SwappedKind, SwappedPages};
use pagewise_observe::{HostGauges, HostRoot, OwnUsage, PoolUse};
use rustix::process::{Pid, Signal};
use rustix::thread::CpuSet;
use rustix::time::ClockId;

use super::failure::{ErrorContext, Failure};
use super::order;
use super::pages::Pages;
use super::task::{PastPool, Pool, Round, TASK, Task, TaskAnswer, TaskKind, Times};
use super::writeback;
use crate::stand_in::StandIn;

/// Number of attempts to swap out: a page may be in use by the kernel for a short time.
const ATTEMPTS: u32 = 4;

/// Whether this process was started as a worker.
#[must_use]
pub fn is_worker() -> bool {
    std::env::var_os(TASK).is_some()
}

/// Entry point of a worker.
pub fn worker_main() -> ! {
    pagewise_sandbox::forbid_dumps();
    let answer = match read_task().and_then(|task| measure(&task)) {
        Ok(round) => TaskAnswer::Measured(round),
        Err(failure) => TaskAnswer::Failed(failure.to_string()),
    };
    let line = serde_json::to_string(&answer).unwrap_or_default();
    // An error means that the parent has ended, so there is nothing left to do.
    let _ = writeln!(std::io::stdout(), "{line}");
    std::process::exit(0)
}

fn read_task() -> Result<Task, Failure> {
    let no_task = |error: &dyn std::error::Error| Failure::NoTask(format!("{TASK}: {error}"));
    let text = std::env::var(TASK).map_err(|error| no_task(&error))?;
    let task: Task = serde_json::from_str(&text).map_err(|error| no_task(&error))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot be made to end with its parent")?;
    // If the parent ended before that call, this process has another parent now.
    let parent = rustix::process::getppid().map_or(0, Pid::as_raw_pid);
    if i64::from(parent) == i64::from(task.parent) {
        Ok(task)
    } else {
        Err(Failure::Orphaned { wanted: task.parent, found: parent })
    }
}

fn measure(task: &Task) -> Result<Round, Failure> {
    let home = writeback::home_procs_file(&task.group);
    let members = task.group.join("cgroup.procs");
    let pid = std::process::id().to_string();
    fs::write(&members, pid).context(members.display())?;
    match &task.what {
        TaskKind::Swap { memory, access, pool } => {
            swap_and_touch(task, &read_pages()?, (*memory, *access), *pool)
        }
        TaskKind::Writeback => write_back(task, &read_pages()?, &home?),
        TaskKind::File { folder, pages } => measure_file(task, pages, folder),
    }
}

fn read_pages() -> Result<Pages, Failure> {
    let input = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
    Pages::new(input.into())
}

/// Memory that was filled with pages and swapped out.
#[derive(Debug)]
struct SwappedOut {
    region: Region,
    /// For each page of the region, the position of its contents in the file of pages.
    origin: Vec<u64>,
    /// The host's counters after the memory was filled.
    filled: Counters,
    cpu_ns: u64,
}

fn fill_and_page_out(task: &Task, pages: &Pages, shared: bool) -> Result<SwappedOut, Failure> {
    let mut region = Region::map_memory(task.pages, shared).context("memory")?;
    region.advise(Advice::Small).context("MADV_NOHUGEPAGE")?;
    let start = read_vmstat()?;
    let here = OneProcessor::pin_to_one_cpu();
    let origin = pages.pass_pages(task.pages, |at, page| {
        region.fill(at, page);
        Ok(())
    })?;
    let filled = read_vmstat()?;
    let early = swapped_out(&start, &filled)?;
    if early > to_u64(task.pages / 100) {
        return Err(Failure::SwappedEarly(early));
    }
    let cpu_ns = page_out(&region)?;
    drop(here);
    Ok(SwappedOut { region, origin, filled, cpu_ns })
}

/// Measures writeback: asks the kernel to write back everything in the pool.
fn write_back(task: &Task, pages: &Pages, home: &Path) -> Result<Round, Failure> {
    let SwappedOut { region, filled, cpu_ns: out_cpu_ns, .. } =
        fill_and_page_out(task, pages, false)?;
    let gone = to_u64(task.pages - resident_pages(&region)?);
    let out = growth(&filled, &read_vmstat()?, "zswpout")?;
    // Leave the cgroup, so that this process's own memory is not reclaimed together with the
    // measured memory.
    let pid = std::process::id().to_string();
    fs::write(home, pid).context(home.display())?;
    let (written_back, writeback_cpu_ns) = writeback::request_writeback(&task.group, out)?;
    Ok(Round { gone, out, out_cpu_ns, written_back, writeback_cpu_ns, ..Round::default() })
}

fn swap_and_touch(
    task: &Task,
    pages: &Pages,
    (memory, access): (SwappedKind, Access),
    pool: Pool,
) -> Result<Round, Failure> {
    let shared = memory == SwappedKind::Shmem;
    let SwappedOut { region, origin, filled, cpu_ns: out_cpu_ns } =
        fill_and_page_out(task, pages, shared)?;
    let gone = task.pages - resident_pages(&region)?;
    let gone_counts = read_vmstat()?;
    let out = match pool {
        // only pages in this store count, not pages in another store
        Pool::Zram(_) => growth(&filled, &gone_counts, "pswpout")?,
        Pool::Zswap => swapped_out(&filled, &gone_counts)?,
    };
    let pool_bytes_per_page = read_pool_use(pool)?.and_then(bytes_per_page);
    let _child = match memory {
        SwappedKind::Forked => Some(Sleeper::fork().context("fork")?),
        SwappedKind::Private | SwappedKind::Shmem => None,
    };
    let order = order::order_of_touches(access, task.pages, task.seed);
    let touched = touch(&region, &order)?;
    let backing = match pool {
        Pool::Zram(_) => None,
        Pool::Zswap => Some(traffic_past_pool([&filled, &gone_counts, &read_vmstat()?])?),
    };
    let wrong = pages.count_wrong(&region, &order, &origin)?;
    let gone = to_u64(gone);
    Ok(Round { gone, out, backing, pool_bytes_per_page, out_cpu_ns, wrong, ..touched })
}

fn read_pool_use(pool: Pool) -> Result<Option<PoolUse>, Failure> {
    let host = HostRoot::live().context("/")?;
    Ok(match pool {
        Pool::Zram(number) => HostGauges(&host).zram_use(number),
        Pool::Zswap => HostGauges(&host).zswap_use(),
    })
}

/// Bytes of memory that a pool uses per page in it; `None` if the pool is empty.
#[expect(clippy::cast_precision_loss, reason = "no memory here comes near 2⁵³ bytes")]
fn bytes_per_page(pool: PoolUse) -> Option<f64> {
    let (taken, original) = (pool.taken.get() as f64, pool.original.get() as f64);
    (original > 0.0).then(|| taken / original * rustix::param::page_size() as f64)
}

/// Pins the thread to its present CPU while this value exists, if that is allowed. Pages that were
/// just filled are in a per-CPU list (up to 31 on each CPU), and MADV_PAGEOUT drains only the list
/// of its own CPU.
#[derive(Debug)]
struct OneProcessor(Option<CpuSet>);

impl OneProcessor {
    fn pin_to_one_cpu() -> Self {
        let before = rustix::thread::sched_getaffinity(None).ok();
        let mut here = CpuSet::new();
        here.set(rustix::thread::sched_getcpu());
        let stays = rustix::thread::sched_setaffinity(None, &here).is_ok();
        Self(before.filter(|_| stays))
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // If the kernel refuses this, later measurements run on one CPU.
            let _ = rustix::thread::sched_setaffinity(None, before);
        }
    }
}

/// Swaps out the region; returns the CPU time in nanoseconds. The caller checks which pages stayed
/// in RAM.
fn page_out(region: &Region) -> Result<u64, Failure> {
    let mut cpu_ns = 0;
    for _ in 0..ATTEMPTS {
        let before = thread_cpu_ns();
        region.advise(Advice::PageOut).context("MADV_PAGEOUT")?;
        cpu_ns += thread_cpu_ns() - before;
        if resident_pages(region)? == 0 {
            break;
        }
    }
    Ok(cpu_ns)
}

/// Writes an unnamed file in the folder, drops it from memory, and reads it through a mapping. It
/// contains stand-in pages only.
fn measure_file(task: &Task, pages: &StandIn, folder: &Path) -> Result<Round, Failure> {
    let place = folder.display();
    let mut file = tempfile::tempfile_in(folder).context(&place)?;
    write(&mut file, pages, task.pages).context(&place)?;
    file.sync_all().context(&place)?;
    let region = Region::map_file(&file, task.pages).context(&place)?;
    region.advise(Advice::Random).context(&place)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).context(&place)?;
    let gone = to_u64(task.pages - resident_pages(&region)?);
    let order = order::order_of_touches(Access::Random, task.pages, task.seed);
    let touched = touch(&region, &order)?;
    let wrong = count_wrong(&region, pages, task.pages);
    Ok(Round { gone, out: gone, wrong, ..touched })
}

fn write(file: &mut File, pages: &StandIn, count: usize) -> std::io::Result<()> {
    let mut written = Ok(());
    pages.each(count, rustix::param::page_size(), |page| {
        if written.is_ok() {
            written = file.write_all(page);
        }
    });
    written
}

/// Number of pages of the file with wrong contents.
fn count_wrong(region: &Region, pages: &StandIn, count: usize) -> u64 {
    let (mut at, mut wrong, mut found) = (0, 0, vec![0; rustix::param::page_size()]);
    pages.each(count, rustix::param::page_size(), |page| {
        region.copy(at, &mut found);
        wrong += u64::from(page != found);
        at += 1;
    });
    wrong
}

/// Touches each page once; the clock is read after each touch.
fn touch(region: &Region, order: &[usize]) -> Result<Round, Failure> {
    // The list is filled with ones, so that storing the times causes no page fault.
    let mut times = vec![1u32; order.len()];
    let queue = Queue::open();
    let (before, faults_before) = (read_vmstat()?, OwnUsage::of_ourselves());
    let (cpu, started, queued) = (thread_cpu_ns(), Instant::now(), queue.waited_ns());
    let (mut last, mut sum) = (Instant::now(), 0u8);
    for (time, &page) in times.iter_mut().zip(order) {
        sum ^= region.touch(page);
        let now = Instant::now();
        *time = u32::try_from(now.duration_since(last).as_nanos()).unwrap_or(u32::MAX);
        last = now;
    }
    std::hint::black_box(sum);
    let queued = queue.waited_ns() - queued;
    let (taken, in_cpu_ns) = (started.elapsed(), thread_cpu_ns() - cpu);
    let (after, faults_after) = (read_vmstat()?, OwnUsage::of_ourselves());
    let swapped = SwappedPages([&before, &after]);
    Ok(Round {
        touches: to_u64(order.len()),
        in_cpu_ns,
        times: Times::from_touches(times),
        own_ns: u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX).saturating_sub(queued),
        major_faults: faults_after.major_faults - faults_before.major_faults,
        minor_faults: faults_after.minor_faults - faults_before.minor_faults,
        swapped_in: swapped.count_swapped_in().ok_or(Failure::NoCounter("pswpin"))?,
        read_ahead: swapped.growth_of("swap_ra"),
        read_ahead_hits: swapped.growth_of("swap_ra_hit"),
        ..Round::default()
    })
}

/// The file `/proc/self/schedstat`, which has the time for which this process was runnable but
/// waited for a CPU. The file is kept open, so that a reading takes about a microsecond.
#[derive(Debug)]
struct Queue(Option<File>);

impl Queue {
    fn open() -> Self {
        Self(File::open("/proc/self/schedstat").ok())
    }

    /// The waiting time in nanoseconds; 0 if the kernel does not count it.
    fn waited_ns(&self) -> u64 {
        let mut text = [0; 64];
        let read = |file: &File| file.read_at(&mut text, 0).ok();
        let length = self.0.as_ref().and_then(read).unwrap_or(0);
        let words = std::str::from_utf8(&text[..length]).unwrap_or_default();
        words.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
    }
}

fn resident_pages(region: &Region) -> Result<usize, Failure> {
    region.count_resident().context("mincore")
}

pub(super) fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

pub(super) fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

/// Reads the host's counters from /proc/vmstat.
pub(super) fn read_vmstat() -> Result<Counters, Failure> {
    let host = HostRoot::live().context("/")?;
    Ok(pagewise_observe::counters(&host, "proc/vmstat"))
}

pub(super) fn growth(from: &Counters, to: &Counters, name: &'static str) -> Result<u64, Failure> {
    SwappedPages([from, to]).growth_of(name).ok_or(Failure::NoCounter(name))
}

fn swapped_out(from: &Counters, to: &Counters) -> Result<u64, Failure> {
    SwappedPages([from, to]).count_swapped_out().ok_or(Failure::NoCounter("pswpout"))
}

/// Pages that bypassed zswap's pool, from the counters before swapping out, after it, and after
/// touching. Fails if the kernel does not count `zswpout`, because then all pages would appear to
/// have bypassed the pool.
fn traffic_past_pool([filled, gone, touched]: [&Counters; 3]) -> Result<PastPool, Failure> {
    growth(filled, gone, "zswpout")?;
    Ok(PastPool {
        written: growth(filled, gone, "pswpout")?,
        refused: SwappedPages([filled, gone]).count_refused(),
        read: growth(gone, touched, "pswpin")?,
    })
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Bytes, Name, Reading, Source};

    use super::*;

    fn counters(all: &[(&str, u64)]) -> Counters {
        let found = |value| Reading::found(value, Source::file("/proc/vmstat"));
        all.iter().map(|&(name, value)| (Name::from(name), found(value))).collect()
    }

    #[test]
    fn what_went_past_the_pool_is_told_from_what_left_it() {
        let filled = counters(&[("pswpin", 1), ("pswpout", 10), ("zswpout", 50), ("zswpwb", 0)]);
        let gone = counters(&[("pswpin", 2), ("pswpout", 40), ("zswpout", 130), ("zswpwb", 20)]);
        let touched = counters(&[("pswpin", 9), ("pswpout", 45), ("zswpout", 130), ("zswpwb", 20)]);
        let found = traffic_past_pool([&filled, &gone, &touched]).unwrap();
        assert_eq!(found, PastPool { written: 30, refused: Some(10), read: 7 });
        assert_eq!(swapped_out(&filled, &gone).unwrap(), 80 + 10);
        let without = counters(&[("pswpin", 1), ("pswpout", 10)]);
        let refused = traffic_past_pool([&without, &without, &without]).unwrap_err();
        assert!(matches!(refused, Failure::NoCounter("zswpout")), "{refused}");
    }

    #[test]
    fn a_page_of_the_pool_takes_its_share_of_it() {
        let pool = |taken, original| {
            bytes_per_page(PoolUse { taken: Bytes::new(taken), original: Bytes::new(original) })
        };
        let page = to_u64(rustix::param::page_size());
        assert_eq!(pool(3 * page, 6 * page), Some(page as f64 / 2.0));
        assert_eq!(pool(page, 0), None);
    }
}
