// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ages the pages of a memory cgroup: multi-gen LRU gets a new, youngest generation, into which the
//! kernel moves the pages that were accessed since the last one was made.
//!
//! The kernel does that by itself when it reclaims, but not for a cgroup at its limit as long as it
//! finds file pages to drop at its first attempt (Linux 6.12 and 7.2; docs/measured/claims.md). Then
//! anonymous pages that nobody uses stay, and files in use are read again and again.
//!
//! Aging evicts nothing, and it changes neither a setting nor contents, so there is nothing to undo.
//! It costs a walk over the page tables of the group's processes. Each aging is recorded beside the
//! journals before it is done and after its effect was measured. The budget is the number of agings
//! and the time between them; the brake is the group's refaults, which have to fall.
//!
//! A group is found in `lru_gen` by its path. Between that reading and the command, it could be
//! removed and its id be given to another group. The folder's inode is compared before and
//! afterwards; in the worst case, another group gets a generation that it would have got at its next
//! shortage.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pagewise_model::{
    Advice, AgedNode, Aging, AgingEnd, AgingRecord, Bytes, GroupGenerations, Millis, Name,
    RefaultCounters, Refaults,
};
use pagewise_observe::{HostRoot, generations_below, memory_cgroups, refaults};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::lru_gen::LruGen;
use crate::error::{Doing, Error};
use crate::journal::{self, Lock};
use crate::lines::{RecordedLines, append, read};
use crate::live::Live;
use crate::recover::boot_id;

/// How often a group is aged at most, and how long its refaults are counted before and after each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgingBudget {
    /// The largest number of agings.
    pub times: u32,
    /// The time over which refaults are counted, which is also the time between two agings.
    pub every: Duration,
}

/// At most this many pairs of a cgroup and a NUMA node are aged at a time.
const MOST_NODES: usize = 1024;
/// How often the generations are read again if the kernel has added one meanwhile.
const TRIES: u32 = 5;
/// Refaults that fell to this share or less need no further aging.
const ENOUGH: f64 = 0.25;
/// Refaults above this share of those before did not fall.
const UNCHANGED: f64 = 0.9;
/// Refaults above this share of those before are a reason to end at once: an aging may also have
/// moved pages in use to where they are evicted.
const ROSE: f64 = 2.0;
/// Fewer refaults of files per second than this are no reason to age a group: in guests, aging one
/// whose data was swapped out already raised its refaults.
const FEWEST_PER_SECOND: f64 = 50.0;
/// After this many agings in a row that changed nothing, there are no more. Measured on Linux 7.2:
/// the first moves all pages alike, because they were accessed when they were written; at the second,
/// reclaim moves most of the unused pages into the next generation instead of evicting them; the
/// third lets these get old; with the fourth, refaults end.
const MOST_IN_VAIN: u32 = 4;
/// Longest sleep before the stop flag is checked again.
const NAP: Duration = Duration::from_millis(100);

/// Why a group could not be aged, at the start or in the middle of a run of agings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgingError {
    /// `lru_gen` cannot be opened: not root of the host, or no debugfs.
    #[error("lru_gen, the file of debugfs by which a group is aged")]
    NoFile(#[source] io::Error),
    /// The group is not in `lru_gen`.
    #[error("{0}: lru_gen of this kernel lists no memory cgroup with this path")]
    NotListed(Name),
    /// The group has too many descendants and NUMA nodes.
    #[error(
        "{group}: expected at most {MOST_NODES} pairs of a cgroup and a NUMA node, found {found}"
    )]
    TooMany {
        /// The path of the group.
        group: Name,
        /// The number of these pairs.
        found: usize,
    },
    /// The refaults of the group cannot be read, so that no brake would work.
    #[error("{0}: its refaults are not readable (workingset_refault_file in memory.stat)")]
    NoCounters(Name),
    /// The group was removed, or another group was created with its path.
    #[error("{0}: the cgroup was removed, or another one took its place")]
    Gone(Name),
    /// The kernel refused the command that ages the group.
    #[error("{group}: aging")]
    Kernel {
        /// The path of the group.
        group: Name,
        /// The error that the kernel returned.
        source: io::Error,
    },
}

impl Advice for AgingError {
    fn state(&self) -> Option<String> {
        let done = match self {
            Self::NoFile(_) | Self::TooMany { .. } | Self::NotListed(_) => return None,
            Self::NoCounters(_) => "agings that were done stay done",
            Self::Gone(_) | Self::Kernel { .. } => {
                "agings that were done stay done; they evicted nothing and changed no setting"
            }
        };
        Some(done.to_owned())
    }

    fn next(&self) -> Option<String> {
        let next = match self {
            Self::NoFile(error) => match Errno::from_io_error(error) {
                Some(Errno::ACCESS | Errno::PERM) => {
                    "run as root of the host; under lockdown (Secure Boot) or with debugfs=off, the kernel refuses it \
                     to root as well: then only switching multi-gen LRU off remains, for the whole host"
                }
                Some(Errno::NODEV) => {
                    "this kernel has no debugfs (CONFIG_DEBUG_FS): only switching multi-gen LRU off remains, for the \
                     whole host"
                }
                _ => {
                    "a kernel without multi-gen LRU (CONFIG_LRU_GEN) has no such file, and does not need it"
                }
            },
            Self::NotListed(_) => {
                "`pagewise limits` lists the memory cgroups; in a container, run it on the host, whose paths lru_gen \
                 lists"
            }
            Self::TooMany { .. } => "choose a cgroup below it",
            Self::NoCounters(_) | Self::Gone(_) => "`pagewise limits` lists the memory cgroups",
            Self::Kernel { .. } => "try it again; `pagewise age --history` says what was done",
        };
        Some(next.to_owned())
    }
}

/// The operations on a machine that a run of agings needs.
trait AgingHost {
    /// The group and those below it, empty if it is gone.
    fn generations(&self) -> io::Result<Vec<GroupGenerations>>;
    fn command(&mut self, command: &str) -> io::Result<()>;
    /// A number that distinguishes the group from another one that has the same path later; `None` if the group is
    /// gone.
    fn identity(&self) -> Option<u64>;
    fn refaults(&self) -> Option<RefaultCounters>;
    /// Waits, and returns the seconds that passed; `None` if the user stopped the run.
    fn wait(&mut self, time: Duration) -> Option<f64>;
    fn record(&mut self, record: &AgingRecord) -> Result<(), Error>;
    /// The current Unix time in seconds, and the id of the current boot.
    fn stamp(&self) -> (u64, Option<String>);
}

/// Ages the group with this path, and those below it, as often as the budget allows and as its
/// refaults fall. `tell` is called before each time of waiting, with the number of agings done.
///
/// # Errors
/// [`AgingError`] if the group cannot be aged, [`Error`] if another run of Pagewise is active or the
/// aging cannot be recorded; agings until then are done.
pub fn age(
    state: &Path,
    path: &str,
    budget: AgingBudget,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(u32),
) -> Result<Aging, AgingFailure> {
    let file = LruGen::open().map_err(AgingError::NoFile)?;
    // held until the end: a trial or tune would measure this run's effect as its own
    let _lock = Lock::take(state)?;
    let folder = crate::live::resolve(state)?;
    let host = HostRoot::live().doing(|| "/".to_owned())?;
    let mount = memory_cgroups(&host).map(|(mount, _)| mount).unwrap_or_default();
    let group = PathBuf::from(format!("{mount}/{}", path.trim_matches('/')));
    let boot_id = Some(boot_id(&Live::new().doing(|| "/".to_owned())?)?);
    let mut live = LiveAging { file, host, path, group, boot_id, folder, stop };
    run(&mut live, path, budget, tell)
}

/// Checks that `lru_gen` can be opened for writing; changes nothing.
///
/// # Errors
/// If it cannot: then no group can be aged.
pub fn check_aging() -> Result<(), AgingError> {
    LruGen::open().map(drop).map_err(AgingError::NoFile)
}

/// The number of the youngest generation of the group with this path and of those below it, by path
/// and NUMA node. Takes no lock and changes nothing.
///
/// # Errors
/// If `lru_gen` cannot be read, or does not list the group.
pub fn read_youngest(path: &str) -> Result<BTreeMap<(String, u32), u64>, AgingError> {
    let found = read_generations(path)?;
    Ok(nodes_of(&found).into_iter().map(|node| ((node.group, node.node), node.from)).collect())
}

/// Ages the group with this path, and those below it, once, without counting refaults. Such an aging is
/// not recorded: a loop that needs to know which pages are idle does it every few minutes.
///
/// # Errors
/// As [`age`].
pub fn age_for_idle(state: &Path, path: &str) -> Result<(), AgingFailure> {
    let file = LruGen::open().map_err(AgingError::NoFile)?;
    let _lock = Lock::take(state)?;
    let found = generations_below(&file.read().map_err(AgingError::NoFile)?, path);
    if !found.iter().any(|group| is_same(&group.path, path)) {
        return Err(AgingError::NotListed(Name::from(path)).into());
    }
    let mut nodes = nodes_of(&found);
    if nodes.len() > MOST_NODES {
        return Err(AgingError::TooMany { group: Name::from(path), found: nodes.len() }.into());
    }
    let stop = AtomicBool::new(false);
    let host = HostRoot::live().doing(|| "/".to_owned())?;
    let mut live = LiveAging {
        file,
        host,
        path,
        group: PathBuf::new(),
        boot_id: None,
        folder: String::new(),
        stop: &stop,
    };
    Ok(age_once(&mut live, path, &mut nodes)?)
}

/// The generations of the group with this path, and of those below it. Takes no lock and changes
/// nothing.
///
/// # Errors
/// If `lru_gen` cannot be read, or does not list the group.
pub fn read_generations(path: &str) -> Result<Vec<GroupGenerations>, AgingError> {
    let file = LruGen::open().map_err(AgingError::NoFile)?;
    let found = generations_below(&file.read().map_err(AgingError::NoFile)?, path);
    if !found.iter().any(|group| is_same(&group.path, path)) {
        return Err(AgingError::NotListed(Name::from(path)));
    }
    Ok(found)
}

/// How much memory of the group with this path, and of those below it, was not accessed for at least
/// this time when the group was last aged: anonymous with shared memory, and page cache.
///
/// # Errors
/// If `lru_gen` cannot be read, or does not list the group.
pub fn read_idle(path: &str, at_least: Duration) -> Result<(Bytes, Bytes), AgingError> {
    let found = read_generations(path)?;
    let at_least = Millis::new(u64::try_from(at_least.as_millis()).unwrap_or(u64::MAX));
    let page = rustix::param::page_size() as u64;
    let sum = found.iter().map(|group| group.idle(at_least)).fold((0, 0), |sum, idle| {
        (sum.0 + idle.0.get().saturating_mul(page), sum.1 + idle.1.get().saturating_mul(page))
    });
    Ok((Bytes::new(sum.0), Bytes::new(sum.1)))
}

/// Why a run of agings failed.
#[derive(Debug, thiserror::Error)]
pub enum AgingFailure {
    /// The group cannot be aged.
    #[error(transparent)]
    Aging(#[from] AgingError),
    /// The aging cannot be recorded, or another run is active.
    #[error(transparent)]
    Record(#[from] Error),
}

fn run(
    host: &mut dyn AgingHost,
    path: &str,
    budget: AgingBudget,
    tell: &mut dyn FnMut(u32),
) -> Result<Aging, AgingFailure> {
    let name = || Name::from(path);
    let identity = host.identity().ok_or_else(|| AgingError::Gone(name()))?;
    let found = host.generations().map_err(AgingError::NoFile)?;
    if !found.iter().any(|group| is_same(&group.path, path)) {
        return Err(AgingError::NotListed(name()).into());
    }
    tell(0);
    let mut aging = Aging {
        group: path.to_owned(),
        before: Refaults::default(),
        rounds: Vec::new(),
        ended: AgingEnd::Stopped,
    };
    let Some(before) = count_refaults(host, path, budget.every)? else { return Ok(aging) };
    aging.before = before;
    if before.file_per_second() < FEWEST_PER_SECOND {
        aging.ended = AgingEnd::FewRefaults;
        return Ok(aging);
    }
    for round in 1..=budget.times {
        if host.identity() != Some(identity) {
            return Err(AgingError::Gone(name()).into());
        }
        let mut record = announce(host, &aging, round)?;
        age_once(host, path, &mut record.nodes)?;
        if host.identity() != Some(identity) {
            return Err(AgingError::Gone(name()).into());
        }
        tell(round);
        let after = count_refaults(host, path, budget.every)?;
        record.after = after;
        host.record(&record)?;
        aging.rounds.push(record);
        if after.is_none() {
            return Ok(aging);
        }
        if let Some(end) = reason_to_end(&aging) {
            aging.ended = end;
            return Ok(aging);
        }
    }
    aging.ended = AgingEnd::Budget;
    Ok(aging)
}

/// Records which generations are about to be added.
fn announce(
    host: &mut dyn AgingHost,
    aging: &Aging,
    round: u32,
) -> Result<AgingRecord, AgingFailure> {
    let found = host.generations().map_err(AgingError::NoFile)?;
    let nodes = nodes_of(&found);
    if nodes.len() > MOST_NODES {
        let group = Name::from(aging.group.as_str());
        return Err(AgingError::TooMany { group, found: nodes.len() }.into());
    }
    let (unix_seconds, boot_id) = host.stamp();
    let record = AgingRecord {
        unix_seconds,
        boot_id,
        group: aging.group.clone(),
        round,
        nodes,
        before: aging.before,
        after: None,
    };
    host.record(&record)?;
    Ok(record)
}

fn nodes_of(groups: &[GroupGenerations]) -> Vec<AgedNode> {
    let of_group = |group: &GroupGenerations| {
        let path = group.path.as_str().to_owned();
        group
            .nodes
            .iter()
            .filter_map(|node| {
                let from = node.youngest()?;
                Some(AgedNode { group: path.clone(), node: node.node, from, to: None })
            })
            .collect::<Vec<_>>()
    };
    groups.iter().flat_map(of_group).collect()
}

/// Adds a generation to each node, and reads back that it is there. A group below the requested one
/// that ended meanwhile is left out.
fn age_once(
    host: &mut dyn AgingHost,
    path: &str,
    nodes: &mut Vec<AgedNode>,
) -> Result<(), AgingError> {
    let group = || Name::from(path);
    let mut refused = None;
    for _ in 0..TRIES {
        let found = host.generations().map_err(AgingError::NoFile)?;
        if !found.iter().any(|it| is_same(&it.path, path)) {
            return Err(AgingError::Gone(group()));
        }
        let mut is_done = true;
        for node in nodes.iter_mut() {
            let Some((id, youngest)) = youngest_of(&found, node) else { continue };
            if youngest > node.from {
                node.to = Some(youngest);
                continue;
            }
            is_done = false;
            // can_swap 1: anonymous pages as well; force_scan 1: even if the kernel has four
            // generations, of which it then joins the two oldest
            match host.command(&format!("+ {id} {} {youngest} 1 1", node.node)) {
                Ok(()) => {}
                // the kernel has added a generation meanwhile, or the group is gone
                Err(error) if is_race(&error) => refused = Some(error),
                Err(source) => return Err(AgingError::Kernel { group: group(), source }),
            }
        }
        if is_done {
            nodes.retain(|node| node.to.is_some());
            return Ok(());
        }
    }
    let source = refused.unwrap_or_else(|| io::Error::other("no generation was added"));
    Err(AgingError::Kernel { group: group(), source })
}

fn youngest_of(groups: &[GroupGenerations], node: &AgedNode) -> Option<(u64, u64)> {
    let group = groups.iter().find(|group| group.path.as_str() == node.group)?;
    let found = group.nodes.iter().find(|it| it.node == node.node)?;
    Some((group.id, found.youngest()?))
}

fn is_race(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::RANGE | Errno::INTR))
}

fn is_same(listed: &Name, path: &str) -> bool {
    listed.as_str().trim_matches('/') == path.trim_matches('/')
}

/// Counts the group's refaults over this time; `None` if the user stopped the run.
fn count_refaults(
    host: &mut dyn AgingHost,
    path: &str,
    time: Duration,
) -> Result<Option<Refaults>, AgingError> {
    let unknown = || AgingError::NoCounters(Name::from(path));
    let start = host.refaults().ok_or_else(unknown)?;
    let Some(seconds) = host.wait(time) else { return Ok(None) };
    let end = host.refaults().ok_or_else(unknown)?;
    Ok(Some(Refaults::between(&start, &end, seconds)))
}

/// The reason to end the run, if the refaults after the agings so far give one.
fn reason_to_end(aging: &Aging) -> Option<AgingEnd> {
    let before = aging.before.per_second();
    let share = |round: &AgingRecord| round.after.map(|after| after.per_second() / before);
    let last = aging.rounds.last().and_then(share)?;
    if last <= ENOUGH {
        return Some(AgingEnd::Fell);
    }
    if last > ROSE {
        return Some(AgingEnd::DidNotFall);
    }
    let is_in_vain = |round: &&AgingRecord| share(round).is_some_and(|share| share > UNCHANGED);
    let in_vain = aging.rounds.iter().rev().take_while(is_in_vain).count();
    (in_vain >= MOST_IN_VAIN as usize).then_some(AgingEnd::DidNotFall)
}

/// Ages a group of the running machine.
struct LiveAging<'a> {
    file: LruGen,
    host: HostRoot,
    path: &'a str,
    /// The group's folder.
    group: PathBuf,
    boot_id: Option<String>,
    /// The folder of journals.
    folder: String,
    stop: &'a AtomicBool,
}

impl AgingHost for LiveAging<'_> {
    fn generations(&self) -> io::Result<Vec<GroupGenerations>> {
        Ok(generations_below(&self.file.read()?, self.path))
    }

    fn command(&mut self, command: &str) -> io::Result<()> {
        self.file.command(command)
    }

    fn identity(&self) -> Option<u64> {
        self.group.metadata().ok().map(|found| found.ino())
    }

    fn refaults(&self) -> Option<RefaultCounters> {
        refaults(&self.host, self.path)
    }

    fn wait(&mut self, time: Duration) -> Option<f64> {
        let started = Instant::now();
        while started.elapsed() < time {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            std::thread::sleep(NAP.min(time.saturating_sub(started.elapsed())));
        }
        Some(started.elapsed().as_secs_f64())
    }

    fn record(&mut self, record: &AgingRecord) -> Result<(), Error> {
        let mut live = Live::new().doing(|| "/".to_owned())?;
        append(&mut live, &path_in(&self.folder), &[ActionRecord::Aging(record.clone())])
    }

    fn stamp(&self) -> (u64, Option<String>) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (since.as_secs(), self.boot_id.clone())
    }
}

const FILE: &str = "actions";

fn path_in(folder: &str) -> String {
    format!("{folder}/{FILE}")
}

/// The record in one line of the file with all agings.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
enum ActionRecord {
    Aging(AgingRecord),
}

/// Reads which agings were recorded, oldest first, and the numbers of damaged lines. An aging whose
/// effect was counted is in the list once; one whose run ended before that has no `after`. Takes no
/// lock and changes nothing.
///
/// # Errors
/// If the folder of journals or the file cannot be read, or if another user can have written it.
pub fn read_agings(state: &Path) -> Result<(Vec<AgingRecord>, Vec<usize>), Error> {
    if !journal::has_folder(state)? {
        return Ok((Vec::new(), Vec::new()));
    }
    let host = Live::new().doing(|| "/".to_owned())?;
    let path = path_in(&crate::live::resolve(state)?);
    let bytes = read(&host, &path)?.unwrap_or_default();
    let RecordedLines { records, damaged_lines, .. } = RecordedLines::parse(&bytes);
    Ok((join_records(records), damaged_lines))
}

/// Joins the two records of each aging.
fn join_records(records: Vec<ActionRecord>) -> Vec<AgingRecord> {
    let mut joined: Vec<AgingRecord> = Vec::new();
    for ActionRecord::Aging(record) in records {
        let is_end = |last: &&mut AgingRecord| {
            last.after.is_none()
                && (&last.group, last.round, last.unix_seconds)
                    == (&record.group, record.round, record.unix_seconds)
        };
        match joined.last_mut().filter(is_end) {
            Some(last) => *last = record,
            None => joined.push(record),
        }
    }
    joined
}

#[cfg(test)]
mod tests;
