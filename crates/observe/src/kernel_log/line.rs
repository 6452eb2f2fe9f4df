// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the lines of an OOM killer report into [`OomLine`], and prints them again.
//!
//! Linux 5.1 to 7.2 print the same lines, except that the columns of the task table differ and that
//! 6.1 prints `memory.stat` as one record of many lines and later kernels as many records. Kernels
//! before 5.1 name the chosen process ("Kill process … or sacrifice child") and the killed one, which
//! may be its child, in two lines, name the two cgroups in one ("Task in … killed as a result of limit
//! of …"), and print the statistics of a cgroup in one line (`mm/oom_kill.c` and `mm/memcontrol.c` of
//! Linux 3.10 to 5.0). Anybody may name a process or a cgroup `x,pid=1`. A name is therefore delimited by the kernel's own text
//! after it, and not by the first occurrence of a separator.
//!
//! The printed form contains only the kernel's text, numbers and names. A recording stores this
//! form, with the names replaced.

use std::fmt::Write;

use pagewise_hostfs::text::{lines, number, words};

/// The values of `Mem-Info` that pagewise uses, in pages.
const MEM_INFO: &[&str] = &[
    "active_anon",
    "inactive_anon",
    "isolated_anon",
    "active_file",
    "inactive_file",
    "isolated_file",
    "unevictable",
    "slab_reclaimable",
    "slab_unreclaimable",
    "shmem",
    "pagetables",
    "free",
    "free_cma",
];

/// The lines of a cgroup's `memory.stat` (both versions) that pagewise uses, in bytes.
const STATS: &[&str] = &[
    "anon",
    "file",
    "kernel",
    "shmem",
    "unevictable",
    "total_rss",
    "total_cache",
    "total_shmem",
    "total_swap",
    "total_unevictable",
];

/// The statistics of a cgroup that Linux 3.10 to 4.20 print in one line, in KiB, of which pagewise
/// uses these.
const OLD_STATS: &[&str] = &["cache", "rss", "swap", "shmem", "unevictable"];

/// Columns of the task table in an OOM report, without the first (pid) and the last (name).
const COLUMNS: &[&str] = &[
    "uid",
    "tgid",
    "total_vm",
    "rss",
    "rss_anon",
    "rss_file",
    "rss_shmem",
    "nr_ptes",
    "nr_pmds",
    "nr_puds",
    "pgtables_bytes",
    "swapents",
    "oom_score_adj",
];

const CONSTRAINTS: &[&str] =
    &["CONSTRAINT_NONE", "CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY", "CONSTRAINT_MEMCG"];

/// How a line that names the killed process begins.
const KILLED: &[&str] =
    &["Out of memory", "Out of memory (oom_kill_allocating_task)", MEMCG_KILLED, UNNAMED];
pub(super) const MEMCG_KILLED: &str = "Memory cgroup out of memory";
/// Before Linux 5.1 the line that names the killed process does not say what ran out.
pub(super) const UNNAMED: &str = "";

const NONE_KILLABLE: &str = "Out of memory and no killable processes...";

/// Names of values in the kernel log, and their numbers.
pub(super) type Values = Vec<(&'static str, u64)>;

/// Usage, limit and failure count of a cgroup counter; sizes in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) of: &'static str,
    pub(super) usage: u64,
    pub(super) limit: u64,
    pub(super) failures: u64,
}

const USAGES: &[&str] = &["memory", "swap", "memory+swap", "kmem"];

/// The chosen victim, and the constraint (host, cgroup, nodes) that was exceeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) constraint: &'static str,
    /// The cgroup whose limit caused the kill.
    pub(super) group: Option<Vec<u8>>,
    pub(super) victim_group: Vec<u8>,
    pub(super) name: Vec<u8>,
    pub(super) pid: u32,
    pub(super) uid: u32,
}

/// The killed process; sizes in KiB under the kernel's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Killed {
    pub(super) message: &'static str,
    pub(super) pid: u32,
    pub(super) name: Vec<u8>,
    pub(super) sizes: Values,
    pub(super) uid: Option<u32>,
    pub(super) oom_score_adj: Option<i64>,
}

const KILLED_SIZES: &[&str] = &["total-vm", "anon-rss", "file-rss", "shmem-rss", "pgtables"];

/// A zone of the machine's memory, and the parts of it that decide if a page can be taken from it;
/// sizes in KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Zone {
    pub(super) node: Option<u32>,
    pub(super) name: Vec<u8>,
    pub(super) sizes: Values,
}

const ZONE_SIZES: &[&str] =
    &["free", "boost", "min", "low", "high", "present", "managed", "free_cma"];

/// The free blocks of a zone by their size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) node: Option<u32>,
    pub(super) name: Vec<u8>,
    /// Number of free blocks, and size of each in KiB, smallest first; the smallest is one page.
    pub(super) blocks: Vec<(u64, u64)>,
}

/// Why the kernel panicked instead of killing a process.
const PANICS: &[&str] = &[
    "Out of memory: system-wide panic_on_oom is enabled",
    "Out of memory: compulsory panic_on_oom is enabled",
    "Out of memory and no killable processes...",
    "System is deadlocked on memory",
];

/// A line of an OOM killer's report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OomLine {
    Invoked {
        name: Vec<u8>,
        gfp_mask: Vec<u8>,
        order: i64,
        oom_score_adj: i64,
    },
    MemInfo(Values),
    /// A number of pages by its name in the report: `pages RAM`, `pages reserved`.
    Pages(&'static str, u64),
    /// An amount of swap in KiB by its name in the report: `Free swap`, `Total swap`.
    Swap(&'static str, u64),
    Usage(Usage),
    StatsOf(Vec<u8>),
    Stats(Values),
    TaskHeader(Vec<&'static str>),
    Task {
        pid: u32,
        values: Vec<i64>,
        name: Vec<u8>,
    },
    Choice(Choice),
    Killed(Killed),
    WholeGroup(Vec<u8>),
    NoneKillable,
    Reaped {
        pid: u32,
        name: Vec<u8>,
        sizes: Values,
    },
    /// Before Linux 5.1: the chosen process. One of its children may be killed instead.
    Chosen {
        message: &'static str,
        pid: u32,
        name: Vec<u8>,
    },
    /// Before Linux 5.1: the cgroup of the task, and the one whose limit was reached.
    TaskIn {
        victim_group: Vec<u8>,
        group: Vec<u8>,
    },
    /// Before Linux 5.1: the statistics of one cgroup without those below it, in KiB.
    OldStats {
        path: Vec<u8>,
        values: Values,
    },
    Zone(Zone),
    /// How many pages of the zone printed before are kept from requests for each higher zone.
    Reserve(Vec<u64>),
    Blocks(Blocks),
    Panic(&'static str),
    /// An allocation that failed without a kill.
    AllocationFailed {
        name: Vec<u8>,
        order: i64,
        gfp_mask: Vec<u8>,
    },
}

const PAGES: &[&str] = &["pages RAM", "pages HighMem/MovableOnly", "pages reserved"];
const SWAP: &[&str] = &["Free swap", "Total swap"];
const INVOKED: &str = " invoked oom-killer: gfp_mask=";
const STATS_OF: &str = "Memory cgroup stats for ";
const WHOLE_GROUP: (&str, &str) =
    ("Tasks in ", " are going to be killed due to memory.oom.group set");
const CHOICE: &str = "oom-kill:constraint=";
const BETWEEN: &str = ",task_memcg=";
const BEFORE_NAME: &str = ",task=";
const TASKS: &str = "[  pid  ]";
/// The heading of the task table as Linux 3.10 to 4.18 print it.
const OLD_TASKS: &str = "[ pid ]";
const TASK_IN: (&str, &str) = ("Task in ", " killed as a result of limit of ");
const SACRIFICE: (&str, &str) = (": Kill process ", " or sacrifice child");
const RESERVE: &str = "lowmem_reserve[]:";
const PANIC: &str = "Kernel panic - not syncing: ";
const FAILED: &str = ": page allocation failure: order:";
const REAPED: &str = "oom_reaper: reaped process ";
const REAPED_SIZES: &[&str] = &["anon-rss", "file-rss", "shmem-rss"];

impl OomLine {
    /// Parses a line of a report. `columns` are those of the task table to which the line may
    /// belong.
    pub(super) fn parse(text: &[u8], columns: &[&'static str]) -> Option<Self> {
        let named = parse_invoked(text).or_else(|| parse_failed(text));
        named.or_else(|| match text.first()? {
            b'[' => parse_header(text).or_else(|| parse_task(text, columns)),
            _ if text == NONE_KILLABLE.as_bytes() => Some(Self::NoneKillable),
            _ => parse_fixed(text).or_else(|| parse_zone(text)).or_else(|| parse_blocks(text)),
        })
    }

    /// Whether this is the beginning of a line that the kernel prints in pieces, between which
    /// messages of other tasks may appear.
    pub(super) fn may_continue(text: &[u8]) -> bool {
        [CHOICE, STATS_OF, WHOLE_GROUP.0, TASK_IN.0]
            .iter()
            .any(|begin| text.starts_with(begin.as_bytes()))
    }

    /// The line as the kernel prints it, limited to the parts of it that pagewise uses.
    pub(super) fn to_text(&self) -> Vec<u8> {
        match self {
            Self::Invoked { name, gfp_mask, order, oom_score_adj } => [
                name,
                INVOKED.as_bytes(),
                gfp_mask,
                format!(", order={order}, oom_score_adj={oom_score_adj}").as_bytes(),
            ]
            .concat(),
            Self::MemInfo(values) => join_values(values, ":", " "),
            Self::Pages(of, pages) => format!("{pages} {of}").into_bytes(),
            Self::Swap(of, kib) => format!("{of:<10} = {kib}kB").into_bytes(),
            Self::Usage(Usage { of, usage, limit, failures }) => {
                format!("{of}: usage {usage}kB, limit {limit}kB, failcnt {failures}").into_bytes()
            }
            Self::StatsOf(path) => [STATS_OF.as_bytes(), path, b":"].concat(),
            Self::Stats(values) => join_values(values, " ", "\n"),
            Self::TaskHeader(columns) => format!("{TASKS} {} name", columns.join(" ")).into_bytes(),
            Self::Task { pid, values, name } => {
                let mut row = format!("[{pid:>7}]");
                for value in values {
                    let _ = write!(row, " {value}");
                }
                [row.as_bytes(), b" ", name].concat()
            }
            Self::Choice(choice) => choice.to_text(),
            Self::Killed(killed) => killed.to_text(),
            Self::WholeGroup(path) => {
                [WHOLE_GROUP.0.as_bytes(), path, WHOLE_GROUP.1.as_bytes()].concat()
            }
            Self::NoneKillable => NONE_KILLABLE.into(),
            Self::Chosen { message, pid, name } => {
                let head = format!("{message}{}{pid} (", SACRIFICE.0);
                [head.as_bytes(), name, b") score 0", SACRIFICE.1.as_bytes()].concat()
            }
            Self::TaskIn { victim_group, group } => {
                [TASK_IN.0.as_bytes(), victim_group, TASK_IN.1.as_bytes(), group].concat()
            }
            Self::OldStats { path, values } => {
                let values = values.iter().map(|(of, kib)| format!(" {of}:{kib}KB"));
                let values: String = values.collect();
                [STATS_OF.as_bytes(), path, b":", values.as_bytes()].concat()
            }
            Self::Zone(zone) => {
                let sizes = zone.sizes.iter().map(|(of, kib)| format!(" {of}:{kib}kB"));
                let sizes: String = sizes.collect();
                [node_prefix(zone.node).as_bytes(), &zone.name, sizes.as_bytes()].concat()
            }
            Self::Reserve(pages) => {
                let pages = pages.iter().map(|pages| format!(" {pages}"));
                [RESERVE.as_bytes(), pages.collect::<String>().as_bytes()].concat()
            }
            Self::Blocks(Blocks { node, name, blocks }) => {
                let all = blocks.iter().map(|(count, kib)| format!(" {count}*{kib}kB"));
                let all: String = all.collect();
                let sum = blocks
                    .iter()
                    .fold(0u64, |sum, (count, kib)| sum.saturating_add(count.saturating_mul(*kib)));
                let sum = format!(":{all} = {sum}kB");
                [node_prefix(*node).as_bytes(), name, sum.as_bytes()].concat()
            }
            Self::Panic(why) => format!("{PANIC}{why}").into_bytes(),
            Self::AllocationFailed { name, order, gfp_mask } => {
                let rest = format!("{FAILED}{order}, mode:");
                [name, rest.as_bytes(), gfp_mask, b", nodemask=(null)"].concat()
            }
            Self::Reaped { pid, name, sizes } => {
                let sizes = sizes.iter().map(|(of, kib)| format!("{of}:{kib}kB"));
                let sizes = sizes.collect::<Vec<_>>().join(", ");
                [format!("{REAPED}{pid} (").as_bytes(), name, b"), now ", sizes.as_bytes()].concat()
            }
        }
    }

    /// Replaces the names of programs and cgroups and the user ids in the line.
    pub(super) fn rename(mut self, to: &mut dyn Rename) -> Self {
        match &mut self {
            Self::Invoked { name, .. }
            | Self::Task { name, .. }
            | Self::Reaped { name, .. }
            | Self::Chosen { name, .. }
            | Self::AllocationFailed { name, .. } => {
                *name = to.program(name);
            }
            Self::StatsOf(path) | Self::WholeGroup(path) | Self::OldStats { path, .. } => {
                *path = to.group(path);
            }
            Self::TaskIn { victim_group, group } => {
                *victim_group = to.group(victim_group);
                *group = to.group(group);
            }
            Self::Choice(choice) => {
                choice.group = choice.group.take().map(|path| to.group(&path));
                choice.victim_group = to.group(&choice.victim_group);
                choice.name = to.program(&choice.name);
                choice.uid = to.user(choice.uid);
            }
            Self::Killed(killed) => {
                killed.name = to.program(&killed.name);
                killed.uid = killed.uid.map(|uid| to.user(uid));
            }
            Self::MemInfo(_) | Self::Pages(..) | Self::Swap(..) | Self::Usage(_) => {}
            Self::Stats(_) | Self::TaskHeader(_) | Self::NoneKillable => {}
            Self::Zone(_) | Self::Reserve(_) | Self::Blocks(_) | Self::Panic(_) => {}
        }
        self
    }

    /// Replaces the user id in a row of the task table.
    pub(super) fn replace_user(mut self, columns: &[&str], to: &mut dyn Rename) -> Self {
        let at = columns.iter().position(|column| *column == "uid");
        if let (Self::Task { values, .. }, Some(at)) = (&mut self, at) {
            if let Some(uid) = values.get_mut(at) {
                *uid = u32::try_from(*uid).map_or(0, |uid| to.user(uid)).into();
            }
        }
        self
    }
}

/// Provides replacements for the names in a line of the kernel log.
pub trait Rename {
    /// The replacement for the name of a program.
    fn program(&mut self, name: &[u8]) -> Vec<u8>;
    /// The replacement for the path of a cgroup.
    fn group(&mut self, path: &[u8]) -> Vec<u8>;
    /// The replacement for a user id.
    fn user(&mut self, uid: u32) -> u32;
    /// The replacement for a boot id.
    fn boot(&self, id: &[u8]) -> String;
}

impl Choice {
    /// Corrects the end of the group's path in the choice, from another line that contains the
    /// path.
    pub(super) fn with_group(mut self, path: &[u8]) -> Self {
        let Some(group) = &self.group else { return self };
        let both = [group, BETWEEN.as_bytes(), &self.victim_group].concat();
        let rest = both.strip_prefix(path);
        if let Some(victim) = rest.and_then(|rest| rest.strip_prefix(BETWEEN.as_bytes())) {
            self.group = Some(path.to_vec());
            self.victim_group = victim.to_vec();
        }
        self
    }

    /// The path of the victim's cgroup; its end is determined from the victim's name in another
    /// line.
    pub(super) fn victim_group(&self, name: &[u8]) -> Vec<u8> {
        let both = [&self.victim_group, BEFORE_NAME.as_bytes(), &self.name].concat();
        let path = both.strip_suffix(name);
        let path = path.and_then(|path| path.strip_suffix(BEFORE_NAME.as_bytes()));
        path.unwrap_or(&self.victim_group).to_vec()
    }

    fn to_text(&self) -> Vec<u8> {
        let group = match &self.group {
            Some(path) => [b"oom_memcg=", path.as_slice()].concat(),
            None => b"global_oom".to_vec(),
        };
        let numbers = format!(",pid={},uid={}", self.pid, self.uid);
        [
            CHOICE.as_bytes(),
            self.constraint.as_bytes(),
            b",nodemask=(null),cpuset=/,mems_allowed=0,",
            &group,
            BETWEEN.as_bytes(),
            &self.victim_group,
            BEFORE_NAME.as_bytes(),
            &self.name,
            numbers.as_bytes(),
        ]
        .concat()
    }
}

impl Killed {
    fn to_text(&self) -> Vec<u8> {
        let size = |of: &str| {
            let kib = self.sizes.iter().find(|(name, _)| *name == of)?.1;
            Some(format!("{of}:{kib}kB"))
        };
        let sizes = KILLED_SIZES[..4].iter().filter_map(|of| size(of)).collect::<Vec<_>>();
        let uid = self.uid.map_or_else(String::new, |uid| format!(", UID:{uid}"));
        let mut rest = vec![sizes.join(", ") + &uid];
        rest.extend(size("pgtables"));
        rest.extend(self.oom_score_adj.map(|adj| format!("oom_score_adj:{adj}")));
        let message = if self.message == UNNAMED { "" } else { ": " };
        let head = format!("{}{message}Killed process {} (", self.message, self.pid);
        [head.as_bytes(), &self.name, b") ", rest.join(" ").as_bytes()].concat()
    }
}

fn join_values(values: &Values, between: &str, after: &str) -> Vec<u8> {
    let all = values.iter().map(|(name, value)| format!("{name}{between}{value}"));
    all.collect::<Vec<_>>().join(after).into_bytes()
}

/// The entry of the table that equals `word`.
fn find_known(table: &[&'static str], word: &[u8]) -> Option<&'static str> {
    table.iter().find(|known| known.as_bytes() == word).copied()
}

/// Position of the first occurrence of `words` in the text. Messages of the kernel are short: to
/// prepare a search as `memmem::find` does takes longer than this one.
pub(super) fn find(text: &[u8], words: &str) -> Option<usize> {
    let words = words.as_bytes();
    let first = words.first()?;
    let mut places = memchr::memchr_iter(*first, text);
    places.find(|at| text.get(*at..).is_some_and(|rest| rest.starts_with(words)))
}

fn find_last(text: &[u8], words: &str) -> Option<usize> {
    memchr::memmem::rfind(text, words.as_bytes())
}

/// The text before and after the first occurrence of `words`.
fn split<'a>(text: &'a [u8], words: &str) -> Option<(&'a [u8], &'a [u8])> {
    let at = find(text, words)?;
    Some((&text[..at], &text[at + words.len()..]))
}

fn split_last<'a>(text: &'a [u8], words: &str) -> Option<(&'a [u8], &'a [u8])> {
    let at = find_last(text, words)?;
    Some((&text[..at], &text[at + words.len()..]))
}

fn strip_begin<'a>(text: &'a [u8], begin: &str) -> Option<&'a [u8]> {
    text.strip_prefix(begin.as_bytes())
}

fn parse_kib(word: &[u8]) -> Option<u64> {
    number(word.strip_suffix(b"kB")?)
}

/// Parses lines that begin with fixed text of the kernel.
fn parse_fixed(text: &[u8]) -> Option<OomLine> {
    match text[0] {
        b'a' => parse_mem_info(text).or_else(|| parse_stats(text)),
        b'm' | b's' => parse_usage(text).or_else(|| parse_stats(text)),
        b'k' => parse_usage(text).or_else(|| parse_stats(text)),
        b'K' => parse_killed(text).or_else(|| parse_panic(text)),
        b'l' => parse_reserve(text),
        b'M' => parse_killed(text)
            .or_else(|| parse_chosen(text))
            .or_else(|| parse_stats_head(text))
            .or_else(|| parse_old_stats(text)),
        b'O' => parse_killed(text).or_else(|| parse_chosen(text)),
        b'o' => parse_choice(text).or_else(|| parse_reaped(text)),
        b'T' => {
            parse_task_in(text).or_else(|| parse_whole_group(text)).or_else(|| parse_swap(text))
        }
        b'F' => parse_swap(text),
        b'0'..=b'9' => parse_pages(text),
        _ => parse_stats(text),
    }
}

/// Parses the one line that begins with a name. A process can have any name, but no name is as long
/// as the text that follows it here, and no other line ends like this one.
fn parse_invoked(text: &[u8]) -> Option<OomLine> {
    let (name, rest) = split(text, INVOKED)?;
    let (gfp_mask, rest) = split(rest, ", ")?;
    // the node mask, between the two, is not in all kernels
    let (_, rest) = split(rest, "order=").filter(|_| gfp_mask.len() < 400)?;
    let (order, adjustment) = split(rest, ", oom_score_adj=")?;
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_|()".contains(byte);
    Some(OomLine::Invoked {
        name: name.to_vec(),
        gfp_mask: gfp_mask.iter().all(plain).then(|| gfp_mask.to_vec())?,
        order: number(order)?,
        oom_score_adj: number(adjustment)?,
    })
}

/// Parses `NAME: page allocation failure: order:2, mode:0x40820(GFP_ATOMIC|__GFP_COMP), …`. A
/// process can have any name, but none is as long as the text after it.
fn parse_failed(text: &[u8]) -> Option<OomLine> {
    let (name, rest) = split(text, FAILED).filter(|(name, _)| name.len() < 64)?;
    let (order, rest) = split(rest, ", mode:")?;
    let (gfp_mask, _) = split(rest, ", ").unwrap_or((rest, b""));
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_|()".contains(byte);
    Some(OomLine::AllocationFailed {
        name: name.to_vec(),
        order: number(order)?,
        gfp_mask: (gfp_mask.len() < 400 && gfp_mask.iter().all(plain))
            .then(|| gfp_mask.to_vec())?,
    })
}

/// Parses `Out of memory: Kill process 7 (name) score 330 or sacrifice child`.
fn parse_chosen(text: &[u8]) -> Option<OomLine> {
    let (message, rest) = split(text, SACRIFICE.0)?;
    let message = find_known(KILLED, message)?;
    let rest = rest.strip_suffix(SACRIFICE.1.as_bytes())?;
    let (pid, rest) = split(rest, " (")?;
    let (name, score) = split_last(rest, ") score ")?;
    number::<u64>(score)?;
    Some(OomLine::Chosen { message, pid: number(pid)?, name: name.to_vec() })
}

/// Parses `Task in A killed as a result of limit of B`. The first path is a descendant of the second, which shows
/// where the first ends if it contains the kernel's text itself.
fn parse_task_in(text: &[u8]) -> Option<OomLine> {
    let rest = strip_begin(text, TASK_IN.0)?;
    let between = TASK_IN.1.as_bytes();
    let splits = memchr::memmem::find_iter(rest, between)
        .map(|at| (&rest[..at], &rest[at + between.len()..]));
    let below = |(victim, group): &(&[u8], &[u8])| {
        let rest = victim.strip_prefix(*group);
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || group.ends_with(b"/"))
    };
    let mut all = splits.clone();
    let (victim_group, group) = splits.clone().find(below).or_else(|| all.next())?;
    Some(OomLine::TaskIn { victim_group: victim_group.to_vec(), group: group.to_vec() })
}

/// Parses `Memory cgroup stats for PATH: cache:108KB rss:197168KB …`.
fn parse_old_stats(text: &[u8]) -> Option<OomLine> {
    let (path, values) = split_last(strip_begin(text, STATS_OF)?, ": cache:")?;
    let values = [b"cache:", values].concat();
    let values = words(&values).filter_map(|word| {
        let (of, value) = split(word, ":")?;
        Some((find_known(OLD_STATS, of)?, number(value.strip_suffix(b"KB")?)?))
    });
    Some(OomLine::OldStats { path: path.to_vec(), values: values.collect() })
}

fn parse_panic(text: &[u8]) -> Option<OomLine> {
    let why = strip_begin(text, PANIC)?;
    PANICS.iter().find(|known| why.starts_with(known.as_bytes())).map(|known| OomLine::Panic(known))
}

/// The beginning of a line about a zone; kernels without NUMA print no node.
fn node_prefix(node: Option<u32>) -> String {
    node.map_or_else(String::new, |node| format!("Node {node} "))
}

/// The node and the rest of a line about a zone.
fn split_node(text: &[u8]) -> Option<(Option<u32>, &[u8])> {
    match strip_begin(text, "Node ") {
        None => Some((None, text)),
        Some(rest) => {
            let (node, rest) = split(rest, " ")?;
            Some((Some(number(node)?), rest))
        }
    }
}

fn is_zone_name(name: &[u8]) -> bool {
    const ZONES: &[&[u8]] = &[b"DMA", b"DMA32", b"Normal", b"HighMem", b"Movable", b"Device"];
    ZONES.contains(&name)
}

/// Parses `Node 0 DMA32 free:9kB min:8kB low:…`.
fn parse_zone(text: &[u8]) -> Option<OomLine> {
    let (node, rest) = split_node(text)?;
    let (name, rest) = split(rest, " ").filter(|(name, _)| is_zone_name(name))?;
    strip_begin(rest, "free:")?;
    let sizes = words(rest).filter_map(|word| {
        let (of, size) = split(word, ":")?;
        Some((find_known(ZONE_SIZES, of)?, parse_kib(size)?))
    });
    Some(OomLine::Zone(Zone { node, name: name.to_vec(), sizes: sizes.collect() }))
}

fn parse_reserve(text: &[u8]) -> Option<OomLine> {
    let pages = words(strip_begin(text, RESERVE)?).map(number);
    pages.collect::<Option<Vec<u64>>>().map(OomLine::Reserve)
}

/// Parses `Node 0 DMA: 1*4kB (U) 0*8kB … = 15360kB`.
fn parse_blocks(text: &[u8]) -> Option<OomLine> {
    const MOST: usize = 32;
    let (node, rest) = split_node(text)?;
    let (name, rest) = split(rest, ":").filter(|(name, _)| is_zone_name(name))?;
    let (rest, _) = split_last(rest, " = ")?;
    let blocks = words(rest).filter_map(|word| {
        let (count, size) = split(word, "*")?;
        Some((number(count)?, parse_kib(size)?))
    });
    let blocks: Vec<(u64, u64)> = blocks.take(MOST).collect();
    (!blocks.is_empty()).then(|| OomLine::Blocks(Blocks { node, name: name.to_vec(), blocks }))
}

fn parse_mem_info(text: &[u8]) -> Option<OomLine> {
    strip_begin(text, "active_anon:")?;
    let values = words(text).filter_map(|word| {
        let (name, value) = split(word, ":")?;
        Some((find_known(MEM_INFO, name)?, number(value)?))
    });
    Some(OomLine::MemInfo(values.collect()))
}

fn parse_pages(text: &[u8]) -> Option<OomLine> {
    let (count, of) = split(text, " ")?;
    Some(OomLine::Pages(find_known(PAGES, of)?, number(count)?))
}

fn parse_swap(text: &[u8]) -> Option<OomLine> {
    let (of, size) = split(text, "=")?;
    Some(OomLine::Swap(find_known(SWAP, of.trim_ascii())?, parse_kib(size.trim_ascii())?))
}

fn parse_usage(text: &[u8]) -> Option<OomLine> {
    let (of, rest) = split(text, ": usage ")?;
    let (usage, rest) = split(rest, ", limit ")?;
    let (limit, failures) = split(rest, ", failcnt ")?;
    Some(OomLine::Usage(Usage {
        of: find_known(USAGES, of)?,
        usage: parse_kib(usage)?,
        limit: parse_kib(limit)?,
        failures: number(failures)?,
    }))
}

fn parse_stats_head(text: &[u8]) -> Option<OomLine> {
    let path = strip_begin(text, STATS_OF)?.strip_suffix(b":")?;
    Some(OomLine::StatsOf(path.to_vec()))
}

/// Parses one line of memory statistics or many; the last may be truncated.
fn parse_stats(text: &[u8]) -> Option<OomLine> {
    let values: Values = lines(text)
        .filter_map(|line| {
            let (name, value) = split(line, " ")?;
            Some((find_known(STATS, name)?, number(value)?))
        })
        .collect();
    (!values.is_empty()).then_some(OomLine::Stats(values))
}

fn parse_header(text: &[u8]) -> Option<OomLine> {
    let rest = strip_begin(text, TASKS).or_else(|| strip_begin(text, OLD_TASKS))?;
    let mut columns: Vec<&[u8]> = words(rest).collect();
    let columns = columns.pop().filter(|last| *last == b"name").map(|_| columns)?;
    let known = columns.into_iter().map(|column| find_known(COLUMNS, column));
    known.collect::<Option<Vec<_>>>().map(OomLine::TaskHeader)
}

/// Parses a row of the task table. One space separates the last number and the name; further spaces
/// belong to the name.
fn parse_task(text: &[u8], columns: &[&str]) -> Option<OomLine> {
    let (pid, mut rest) = split(text.strip_prefix(b"[")?, "]").filter(|_| !columns.is_empty())?;
    let mut values = Vec::with_capacity(columns.len());
    for _ in columns {
        rest = rest.trim_ascii_start();
        let end = memchr::memchr(b' ', rest)?;
        values.push(number(&rest[..end])?);
        rest = &rest[end..];
    }
    let name = rest.strip_prefix(b" ")?.to_vec();
    Some(OomLine::Task { pid: number(pid.trim_ascii())?, values, name })
}

/// Parses the line about the choice of the victim. The victim's cgroup is a descendant of the one
/// whose limit was reached: this shows where the first path ends and the second begins, whatever
/// characters they contain.
fn parse_choice(text: &[u8]) -> Option<OomLine> {
    let rest = strip_begin(text, CHOICE)?;
    let (rest, uid) = split_last(rest, ",uid=")?;
    let (rest, pid) = split_last(rest, ",pid=")?;
    let (rest, name) = split_at_task(rest)?;
    let (constraint, rest) = split(rest, ",")?;
    let constraint = find_known(CONSTRAINTS, constraint)?;
    let (group, victim_group) = match split(rest, ",oom_memcg=") {
        Some((_, paths)) if constraint == "CONSTRAINT_MEMCG" => {
            let (group, victim_group) = split_paths(paths)?;
            (Some(group.to_vec()), victim_group)
        }
        _ => (None, split(rest, ",global_oom,task_memcg=")?.1),
    };
    Some(OomLine::Choice(Choice {
        constraint,
        group,
        victim_group: victim_group.to_vec(),
        name: name.to_vec(),
        pid: number(pid)?,
        uid: number(uid)?,
    }))
}

/// The text before and after `,task=`. If that occurs more than once, the others are part of a name
/// or a path; a name has at most 15 bytes.
fn split_at_task(text: &[u8]) -> Option<(&[u8], &[u8])> {
    const LONGEST: usize = 15;
    let from = text.len().saturating_sub(LONGEST + BEFORE_NAME.len());
    let near = find(&text[from..], BEFORE_NAME).map(|at| from + at);
    let at = near.or_else(|| find_last(text, BEFORE_NAME))?;
    Some((&text[..at], &text[at + BEFORE_NAME.len()..]))
}

fn split_paths(paths: &[u8]) -> Option<(&[u8], &[u8])> {
    let splits = memchr::memmem::find_iter(paths, BETWEEN.as_bytes())
        .map(|at| (&paths[..at], &paths[at + BETWEEN.len()..]));
    let below = |(group, victim): &(&[u8], &[u8])| {
        let rest = victim.strip_prefix(*group);
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || group.ends_with(b"/"))
    };
    let mut all = splits.clone();
    splits.clone().find(below).or_else(|| all.next())
}

/// Parses `MESSAGE: Killed process 7 (name) total-vm:…kB, anon-rss:…kB, … UID:0 pgtables:…kB
/// oom_score_adj:0`.
fn parse_killed(text: &[u8]) -> Option<OomLine> {
    let (message, rest) = match strip_begin(text, "Killed process ") {
        Some(rest) => (UNNAMED, rest),
        None => {
            let (message, rest) = split(text, ": Killed process ")?;
            (find_known(KILLED, message)?, rest)
        }
    };
    let (pid, rest) = split(rest, " (")?;
    let name = parse_killed_name(rest)?;
    let words = words(&rest[name.len() + 1..]).filter_map(|word| {
        let word = word.strip_suffix(b",").unwrap_or(word);
        split(word, ":")
    });
    let (mut sizes, mut uid, mut oom_score_adj) = (Vec::new(), None, None);
    for (of, value) in words {
        match of {
            b"UID" => uid = number(value),
            b"oom_score_adj" => oom_score_adj = number(value),
            _ => sizes.extend(find_known(KILLED_SIZES, of).zip(parse_kib(value))),
        }
    }
    sizes.iter().find(|(of, _)| *of == "total-vm")?;
    let name = name.to_vec();
    Some(OomLine::Killed(Killed { message, pid: number(pid)?, name, sizes, uid, oom_score_adj }))
}

/// The name before `) total-vm:`; some kernels of distributions print `, UID 1000,` between.
fn parse_killed_name(text: &[u8]) -> Option<&[u8]> {
    let (before, _) = split_last(text, " total-vm:")?;
    if let Some(name) = before.strip_suffix(b")") {
        return Some(name);
    }
    let (name, uid) = split_last(before.strip_suffix(b",")?, "), UID ")?;
    uid.iter().all(u8::is_ascii_digit).then_some(name)
}

fn parse_whole_group(text: &[u8]) -> Option<OomLine> {
    let path = strip_begin(text, WHOLE_GROUP.0)?.strip_suffix(WHOLE_GROUP.1.as_bytes())?;
    Some(OomLine::WholeGroup(path.to_vec()))
}

fn parse_reaped(text: &[u8]) -> Option<OomLine> {
    let (pid, rest) = split(strip_begin(text, REAPED)?, " (")?;
    let (name, sizes) = split_last(rest, "), now ")?;
    let sizes = words(sizes).filter_map(|word| {
        let (of, value) = split(word.strip_suffix(b",").unwrap_or(word), ":")?;
        Some((find_known(REAPED_SIZES, of)?, parse_kib(value)?))
    });
    Some(OomLine::Reaped { pid: number(pid)?, name: name.to_vec(), sizes: sizes.collect() })
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Names of up to 15 bytes that imitate the kernel's text, and paths.
    pub(crate) fn any_name() -> impl Strategy<Value = Vec<u8>> {
        const ODD: &[&[u8]] = &[
            b"x) total-vm:1kB",
            b",pid=1,uid=0",
            b"a,task=b",
            b"), now anon-rss",
            b"Killed process ",
            b"\n[  pid  ]",
            b"  12 34",
            b"\x1b[2J\\x41",
            b"] (",
            b"",
        ];
        let any_bytes = prop::collection::vec(any::<u8>(), 0..16);
        prop_oneof![any_bytes, prop::sample::select(ODD).prop_map(<[u8]>::to_vec)]
    }

    pub(crate) fn any_path() -> impl Strategy<Value = Vec<u8>> {
        const ODD: &[&[u8]] = &[
            b"system.slice",
            b"x,task_memcg=",
            b"a,oom_memcg=",
            b"b:",
            b",global_oom",
            b" are going to be killed due to memory.oom.group set",
        ];
        let component = prop_oneof![
            prop::sample::select(ODD).prop_map(<[u8]>::to_vec),
            "[a-z .,:=-]{1,9}".prop_map(String::into_bytes),
        ];
        prop::collection::vec(component, 1..4).prop_map(|parts| {
            parts.iter().flat_map(|part| [b"/", part.as_slice()].concat()).collect()
        })
    }

    fn values(table: &'static [&'static str]) -> impl Strategy<Value = Values> {
        prop::collection::vec(any::<u64>(), table.len())
            .prop_map(move |numbers| table.iter().copied().zip(numbers).collect())
    }

    fn any_choice() -> impl Strategy<Value = OomLine> {
        let below = prop_oneof![Just(Vec::new()), Just(b"/below".to_vec())];
        let group = prop_oneof![Just(None), any_path().prop_map(Some)];
        (group, below, any_name(), any::<u32>(), any::<u32>()).prop_map(
            |(group, below, name, pid, uid)| {
                let constraint =
                    if group.is_some() { "CONSTRAINT_MEMCG" } else { "CONSTRAINT_NONE" };
                let victim_group =
                    [group.clone().unwrap_or_else(|| b"/job".to_vec()), below].concat();
                OomLine::Choice(Choice { constraint, group, victim_group, name, pid, uid })
            },
        )
    }

    fn any_killed() -> impl Strategy<Value = OomLine> {
        let message = prop::sample::select(KILLED);
        let uid = prop::option::of(any::<u32>());
        let adjustment = prop::option::of(-1000i64..=1000);
        (message, any::<u32>(), any_name(), values(KILLED_SIZES), uid, adjustment).prop_map(
            |(message, pid, name, sizes, uid, oom_score_adj)| {
                OomLine::Killed(Killed { message, pid, name, sizes, uid, oom_score_adj })
            },
        )
    }

    fn any_invoked() -> impl Strategy<Value = OomLine> {
        (any_name(), 0i64..12, -1000i64..=1000).prop_map(|(name, order, oom_score_adj)| {
            let gfp_mask = b"0xcc0(GFP_KERNEL|__GFP_ZERO)".to_vec();
            OomLine::Invoked { name, gfp_mask, order, oom_score_adj }
        })
    }

    fn any_usage() -> impl Strategy<Value = OomLine> {
        (prop::sample::select(USAGES), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
            |(of, usage, limit, failures)| OomLine::Usage(Usage { of, usage, limit, failures }),
        )
    }

    const NOW: &[&str] = &["uid", "tgid", "total_vm", "rss", "swapents", "oom_score_adj"];

    fn any_task() -> impl Strategy<Value = OomLine> {
        let values = prop::collection::vec(-1000i64..1 << 40, NOW.len());
        (any::<u32>(), values, any_name()).prop_map(|(pid, values, name)| OomLine::Task {
            pid,
            values,
            name,
        })
    }

    pub(crate) fn any_line() -> impl Strategy<Value = OomLine> {
        prop_oneof![
            any_choice(),
            any_killed(),
            any_invoked(),
            any_usage(),
            any_task(),
            values(MEM_INFO).prop_map(OomLine::MemInfo),
            values(STATS).prop_map(OomLine::Stats),
            any_path().prop_map(OomLine::StatsOf),
            any_path().prop_map(OomLine::WholeGroup),
            (any::<u32>(), any_name(), values(REAPED_SIZES))
                .prop_map(|(pid, name, sizes)| OomLine::Reaped { pid, name, sizes }),
            (prop::sample::select(PAGES), any::<u64>()).prop_map(|(of, n)| OomLine::Pages(of, n)),
            (prop::sample::select(SWAP), any::<u64>()).prop_map(|(of, n)| OomLine::Swap(of, n)),
            Just(OomLine::NoneKillable),
            Just(OomLine::TaskHeader(NOW.to_vec())),
        ]
    }

    proptest! {
        /// A printed line is parsed back unchanged, whatever processes and cgroups are called.
        #[test]
        fn a_printed_line_reads_back(line in any_line()) {
            let printed = line.to_text();
            let shown = String::from_utf8_lossy(&printed).into_owned();
            prop_assert_eq!(OomLine::parse(&printed, NOW), Some(line), "{}", shown);
        }

        #[test]
        fn garbage_never_panics(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = OomLine::parse(&text, NOW);
        }

        /// A truncated or modified line never causes a panic.
        #[test]
        fn a_spoilt_line_never_panics(
            line in any_line(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut text = line.to_text();
            text.push(b' ');
            let place = at.index(text.len());
            text[place] = byte;
            text.truncate(cut.index(text.len() + 1));
            let _ = OomLine::parse(&text, NOW);
        }
    }

    #[test]
    fn lines_that_kernels_printed_are_understood() {
        let columns =
            &["uid", "tgid", "total_vm", "rss", "pgtables_bytes", "swapents", "oom_score_adj"];
        let header =
            b"[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name";
        assert_eq!(OomLine::parse(header, &[]), Some(OomLine::TaskHeader(columns.to_vec())));
        let row = b"[     91]     0    91    10728    10540   126976        0             0 tail";
        let values = vec![0, 91, 10728, 10540, 126_976, 0, 0];
        let task = OomLine::Task { pid: 91, values, name: b"tail".to_vec() };
        assert_eq!(OomLine::parse(row, columns), Some(task));
        assert_eq!(OomLine::parse(b"Free swap  = 12kB", &[]), Some(OomLine::Swap("Free swap", 12)));
        assert_eq!(
            OomLine::parse(b"anon 41799680\nfile 0\nkernel_stack 7\nkern", &[]),
            Some(OomLine::Stats(vec![("anon", 41_799_680), ("file", 0)]))
        );
    }

    #[test]
    fn other_messages_are_none() {
        for text in [
            "zram: Added device: zram1",
            "anonymous 5",
            "Memory: 120K/140K available",
            "oom_reaper: unable to reap pid:7 (x)",
            "Memory cgroup out of memory: Killed process",
            "bob invoked oom-killer: gfp_mask=\u{e9}, order=0, oom_score_adj=0",
            "[drm] 1 2 3 4 5 6 7 x",
        ] {
            assert_eq!(OomLine::parse(text.as_bytes(), NOW), None, "{text}");
        }
    }
}
