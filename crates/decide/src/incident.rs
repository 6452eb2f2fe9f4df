// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains what happened in a period, from the verdicts at each reading of that period.
//!
//! A [`Moment`] keeps only those parts of a reading that the explanation needs, so that hours of
//! readings fit into little memory. Its verdict is that of [`judge`], the same as `doctor` would
//! have printed at the time. That verdict takes kills of the last ten minutes into account. Whether
//! memory *is* short at that moment is judged without them; otherwise every kill would cause a
//! shortage of ten minutes.

use std::collections::{BTreeMap, BTreeSet};

use pagewise_model::knob::{Access, KnobReading};
use pagewise_model::{
    Bytes, Grown, GrownArea, HostVerdict, Incident, IncidentEvent, IncidentEventKind, Interval,
    KernelLog, Level, Millis, Name, OomKill, Process, Snapshot, Trouble, UserKiller,
};

use crate::{judge, oom};

/// Maximum number of processes that are kept of each reading: those with the most anonymous memory.
const PROCESSES: usize = 40;
/// Maximum number of processes that are reported as having grown.
const GROWERS: usize = 4;
/// Growth is reported only if it is at least memory divided by this number: 2 % of memory.
const LEAST_GROWTH: u64 = 50;
/// Two readings have a gap between them if their distance is more than this many times the usual
/// distance.
const GAP: f64 = 4.0;
/// Minimum time in seconds without a reading that counts as a gap.
const SHORTEST_GAP: f64 = 60.0;
/// A shortage has ended only if memory is calm for this many seconds; shorter calm periods are part
/// of it.
const CALM_SECONDS: f64 = 60.0;
/// Growth is computed from a calm reading at most this many seconds before the shortage; if nothing
/// grew in that time, from the earliest one.
const GROWTH_SECONDS: f64 = 300.0;
/// Starts of units and changes of settings are listed if they happened at most this many seconds
/// before the shortage.
const BEFORE_SECONDS: f64 = 900.0;

/// The verdict at one reading, and the values that are compared with those of other readings.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// When the reading was taken, in seconds since 1970.
    pub unix_seconds: f64,
    /// Seconds since the previous reading; `None` for the first reading of a boot.
    pub seconds: Option<f64>,
    /// The verdict at this reading.
    pub verdict: HostVerdict,
    /// The verdict's level without the kills of the last ten minutes.
    pub level: Level,
    boot: Option<Name>,
    kernel: Option<Name>,
    memory: Option<Bytes>,
    processes: BTreeMap<(u32, u64), Size>,
    programs: BTreeMap<Name, Program>,
    areas: Vec<(&'static str, Bytes)>,
    units: Option<BTreeSet<Name>>,
    settings: BTreeMap<String, Name>,
    full: BTreeMap<Name, Bytes>,
    kills: Vec<Killed>,
    /// Kills by programs such as systemd-oomd. Their messages are read once a minute, so a reading may
    /// show a kill that is older than the reading before it.
    kills_by_programs: Vec<Killed>,
    /// Whether programs killed processes at times that are not known.
    has_undated_kills: bool,
    log_unread: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Size {
    name: Name,
    group: Option<Name>,
    held: Bytes,
}

/// All processes with the same name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Program {
    processes: u64,
    held: Bytes,
    largest: (Bytes, u32),
}

#[derive(Debug, Clone, PartialEq)]
struct Killed {
    unix_seconds: f64,
    title: String,
    victims: Vec<Victim>,
    /// The ids of all processes that the kernel listed at the kill; `None` if its list is not complete.
    listed: Option<BTreeSet<u32>>,
    change: Vec<String>,
}

/// A killed process, with its memory in RAM as the kernel printed it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Victim {
    pid: u32,
    name: Name,
    group: Option<Name>,
    held: Bytes,
}

impl Moment {
    /// Judges an interval, and keeps what an explanation needs of its later snapshot.
    pub fn new(interval: &Interval) -> Self {
        let end = &interval.end;
        let verdict = judge(interval);
        let level = level_without_kills(interval, &verdict);
        Self {
            unix_seconds: end.taken.unix_seconds,
            seconds: interval.seconds(),
            level,
            verdict,
            boot: end.taken.boot_id.value().cloned(),
            kernel: end.taken.kernel.value().cloned(),
            memory: end.memory.total.get(),
            processes: processes(end),
            programs: programs(end),
            areas: memory_by_area(end),
            units: units(end),
            settings: settings(end),
            full: full_swap_areas(end),
            kills: kills(interval),
            kills_by_programs: kills_by_programs(interval),
            has_undated_kills: has_undated_kills(interval),
            log_unread: end.kernel_log.records.get().is_none().then(|| why_unread(&end.kernel_log)),
        }
    }
}

impl Moment {
    /// Anonymous memory of all processes, in RAM and in swap.
    fn held(&self) -> Bytes {
        self.programs.values().map(|program| program.held).sum()
    }
}

fn level_without_kills(interval: &Interval, verdict: &HostVerdict) -> Level {
    if interval.end.kernel_log.kills.is_empty() {
        return verdict.level;
    }
    let start = interval.start.clone();
    let log = KernelLog { kills: Vec::new(), ..interval.end.kernel_log.clone() };
    judge(&Interval { start, end: Snapshot { kernel_log: log, ..interval.end.clone() } }).level
}

fn processes(end: &Snapshot) -> BTreeMap<(u32, u64), Size> {
    let held = |process: &Process| process.anonymous().unwrap_or_default();
    let mut list: Vec<&Process> = end.processes.list.iter().collect();
    list.sort_by_key(|process| std::cmp::Reverse(held(process)));
    let kept = list.into_iter().take(PROCESSES).map(|process| {
        let begun = process.start_time.get().map_or(0, Millis::get);
        let size = Size {
            name: process.name.clone(),
            group: process.cgroup.value().cloned(),
            held: held(process),
        };
        ((process.pid, begun), size)
    });
    kept.collect()
}

fn programs(end: &Snapshot) -> BTreeMap<Name, Program> {
    let mut all: BTreeMap<Name, Program> = BTreeMap::new();
    for process in &end.processes.list {
        let held = process.anonymous().unwrap_or_default();
        let program = all.entry(process.name.clone()).or_default();
        program.processes += 1;
        program.held = [program.held, held].into_iter().sum();
        program.largest = program.largest.max((held, process.pid));
    }
    all
}

fn memory_by_area(end: &Snapshot) -> Vec<(&'static str, Bytes)> {
    let memory = &end.memory;
    // the kernel counts inodes and names of files in tmpfs as reclaimable, but they are not
    let slab =
        [&memory.slab_reclaimable, &memory.slab_unreclaimable].map(pagewise_model::Reading::get);
    let slab = slab.into_iter().sum::<Option<Bytes>>();
    let all = [
        ("kernel objects (slab)", slab),
        ("files in memory and shared memory (shmem)", memory.shmem.get()),
        ("page tables", memory.page_tables.get()),
    ];
    all.into_iter().filter_map(|(name, size)| Some((name, size?))).collect()
}

/// Returns the cgroups of units and containers; `None` if cgroups were not read.
fn units(end: &Snapshot) -> Option<BTreeSet<Name>> {
    let groups = &end.cgroups.groups;
    let is_unit = |path: &Name| {
        let last = path.as_str().rsplit('/').next().unwrap_or_default();
        last.ends_with(".service") || last.ends_with(".scope")
    };
    let units = groups.iter().map(|group| &group.path).filter(|path| is_unit(path)).cloned();
    (!groups.is_empty()).then(|| units.collect())
}

fn settings(end: &Snapshot) -> BTreeMap<String, Name> {
    let value = |reading: &KnobReading| {
        let instance = reading.instance.as_ref();
        let name = match instance {
            Some(instance) => format!("{} ({instance})", reading.knob.name),
            None => reading.knob.name.to_owned(),
        };
        Some((name, reading.live.value()?.clone()))
    };
    let set = end.knobs.iter().filter(|reading| {
        reading.knob.access == Access::ReadWrite && !reading.knob.changes_by_itself()
    });
    set.filter_map(value).collect()
}

fn full_swap_areas(end: &Snapshot) -> BTreeMap<Name, Bytes> {
    let full = end.tiers.iter().filter(|tier| tier.is_full() == Some(true));
    full.filter_map(|tier| Some((tier.path.clone(), tier.size.get()?))).collect()
}

fn kills(interval: &Interval) -> Vec<Killed> {
    // both lists have the newest kill first
    let kills = interval.end.kernel_log.kills.iter().rev();
    let killed = oom::explain(interval).into_iter().zip(kills).filter_map(|(explained, kill)| {
        Some(Killed {
            unix_seconds: explained.unix_seconds?,
            title: explained.title,
            victims: victims(kill),
            listed: listed(kill),
            change: explained.change,
        })
    });
    killed.collect()
}

fn kills_by_programs(interval: &Interval) -> Vec<Killed> {
    // the explanations of kills come first, in the order of the log, and then those of units
    let kills = &interval.end.kernel_log.user_kills;
    let explained = oom::explain_programs(interval).into_iter().zip(kills);
    // what Docker reports is a kill by the kernel, which has its own report
    let own = explained.filter(|(_, kill)| kill.by != UserKiller::Docker);
    let killed = own.filter_map(|(explained, _)| {
        Some(Killed {
            unix_seconds: explained.unix_seconds?,
            title: explained.title,
            victims: Vec::new(),
            listed: None,
            change: explained.change,
        })
    });
    killed.collect()
}

fn has_undated_kills(interval: &Interval) -> bool {
    let mut kills = interval.end.kernel_log.user_kills.iter();
    kills.any(|kill| kill.by != UserKiller::Docker && kill.unix_seconds.is_none())
}

/// The process that the kernel chose, and those that were killed with it.
fn victims(kill: &OomKill) -> Vec<Victim> {
    let victims = kill.victim.iter().chain(&kill.others).map(|victim| Victim {
        pid: victim.pid,
        name: victim.name.clone(),
        group: kill.victim_group.clone(),
        held: [victim.anon, victim.shmem].into_iter().flatten().sum(),
    });
    victims.collect()
}

fn listed(kill: &OomKill) -> Option<BTreeSet<u32>> {
    let is_complete = kill.tasks_left_out == 0 && !kill.tasks.is_empty();
    is_complete.then(|| kill.tasks.iter().map(|task| task.pid).collect())
}

fn why_unread(log: &KernelLog) -> String {
    match log.records.outcome {
        pagewise_model::Outcome::Denied(_) => "the kernel log needs root".to_owned(),
        _ => "the record has no kernel log".to_owned(),
    }
}

/// Selects the shortage to explain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Around {
    /// The shortage at this time in seconds since 1970; if there is none, the nearest one.
    Time(f64),
    /// The worst shortage.
    Worst,
}

/// Explains what happened. `moments` must be in order of time.
pub fn explain(moments: &[Moment], around: Around) -> Incident {
    if moments.iter().any(|moment| !moment.kills_by_programs.is_empty()) {
        let mut moments = moments.to_vec();
        place_kills_by_programs(&mut moments);
        return explain_placed(&moments, around);
    }
    explain_placed(moments, around)
}

/// Moves each kill by a program into the first reading after it. A kill before the first reading is
/// dropped, as are such kills by the kernel.
fn place_kills_by_programs(moments: &mut [Moment]) {
    let mut all: Vec<Killed> = Vec::new();
    for kill in moments.iter_mut().flat_map(|it| std::mem::take(&mut it.kills_by_programs)) {
        if !all.iter().any(|known| is_same_kill(known, &kill)) {
            all.push(kill);
        }
    }
    for kill in all {
        let after = moments.iter().position(|moment| moment.unix_seconds >= kill.unix_seconds);
        if let Some(at) = after.filter(|at| *at > 0) {
            moments[at].kills.push(kill);
        }
    }
}

fn explain_placed(moments: &[Moment], around: Around) -> Incident {
    let (Some(first), Some(last)) = (moments.first(), moments.last()) else {
        return Incident::default();
    };
    let mut incident = Incident {
        from_unix_seconds: first.unix_seconds,
        to_unix_seconds: last.unix_seconds,
        readings: moments.len() as u64,
        unknown: collect_unknown(moments),
        ..Incident::default()
    };
    let troubles = find_troubles(moments);
    let chosen = choose_trouble(moments, &troubles, around);
    if let Some(trouble) = chosen {
        // what grows slowly needs a longer time to be visible
        for longest in [GROWTH_SECONDS, f64::INFINITY] {
            let compared = readings_to_compare(moments, trouble, longest);
            incident.trouble = Some(describe_trouble(moments, trouble, &compared));
            incident.growers = growers(moments, trouble, longest);
            incident.areas = grown_areas(moments, trouble, longest);
            if !(incident.growers.is_empty() && incident.areas.is_empty()) {
                break;
            }
        }
    }
    let (mut events, change) = events(moments, chosen);
    events.sort_by(|one, other| {
        one.unix_seconds.total_cmp(&other.unix_seconds).then(one.kind.cmp(&other.kind))
    });
    incident.events = events;
    incident.change = change;
    incident
}

/// A shortage: the indexes of its first reading that is not calm, of its worst reading, and of its
/// last reading that is not calm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first: usize,
    worst: usize,
    last: usize,
}

fn find_troubles(moments: &[Moment]) -> Vec<Span> {
    let mut found: Vec<Span> = Vec::new();
    for (at, moment) in moments.iter().enumerate() {
        let has_kill = new_kills(moments, at).next().is_some();
        if moment.level <= Level::Calm && !has_kill {
            continue;
        }
        // after a kill, memory may be calm at once; of readings of the same level, one with a kill is
        // the worst, and without kills the one at which processes have most memory
        let rank = |at: usize| {
            let killed = new_kills(moments, at).next().is_some();
            let level = moments[at].level.max(if killed { Level::Short } else { Level::Unknown });
            (level, killed, if killed { Bytes::new(0) } else { moments[at].held() })
        };
        match found.last_mut() {
            Some(span)
                if moment.unix_seconds - moments[span.last].unix_seconds <= CALM_SECONDS
                    && moment.boot == moments[span.last].boot =>
            {
                span.last = at;
                if rank(at) > rank(span.worst) {
                    span.worst = at;
                }
            }
            _ => found.push(Span { first: at, worst: at, last: at }),
        }
    }
    found
}

fn choose_trouble(moments: &[Moment], troubles: &[Span], around: Around) -> Option<Span> {
    let worst = |span: &Span| {
        let killed = (span.first..=span.last).any(|at| new_kills(moments, at).next().is_some());
        (killed, moments[span.worst].level)
    };
    let distance = |span: &Span, time: f64| {
        let (begun, ended) = (moments[span.first].unix_seconds, moments[span.last].unix_seconds);
        (begun - time).max(time - ended).max(0.0)
    };
    match around {
        // if two are equally bad, this chooses the later one
        Around::Worst => troubles.iter().max_by_key(|span| worst(span)).copied(),
        Around::Time(time) => troubles
            .iter()
            .min_by(|one, other| distance(one, time).total_cmp(&distance(other, time)))
            .copied(),
    }
}

fn describe_trouble(moments: &[Moment], span: Span, compared: &Compared<'_>) -> Trouble {
    let worst = verdict_to_show(&moments[span.first..=span.last], &moments[span.worst]);
    // a program such as earlyoom may kill while memory is calm
    let (level, line) = if worst.verdict.level <= Level::Calm {
        let kills = (span.first..=span.last).flat_map(|at| new_kills(moments, at));
        let titles: String = kills.take(1).map(|kill| format!("{}. ", kill.title)).collect();
        (Level::Short, titles + &worst.verdict.line)
    } else {
        (worst.verdict.level, worst.verdict.line.clone())
    };
    Trouble {
        begun_unix_seconds: moments[span.first].unix_seconds,
        ended_unix_seconds: moments.get(span.last + 1).map(|moment| moment.unix_seconds),
        worst_unix_seconds: worst.unix_seconds,
        growth_from_unix_seconds: compared.calm.unix_seconds,
        growth_to_unix_seconds: compared.worst.unix_seconds,
        longest_seconds_between_readings: moments[span.first..=span.last]
            .windows(2)
            .map(|pair| pair[1].unix_seconds - pair[0].unix_seconds)
            .fold(0.0, f64::max),
        level,
        line,
    }
}

/// The reading whose verdict is shown: the worst one; but if memory was calm there, because a kill
/// had freed it, the last of those with the worst verdict.
fn verdict_to_show<'a>(trouble: &'a [Moment], worst: &'a Moment) -> &'a Moment {
    if worst.verdict.level.max(worst.level) > Level::Calm {
        return worst;
    }
    trouble.iter().max_by_key(|moment| moment.verdict.level).unwrap_or(worst)
}

/// Returns the kills that this reading shows and no earlier reading does. Kills in the first
/// reading that are older than it are not new.
fn new_kills(moments: &[Moment], at: usize) -> impl Iterator<Item = &Killed> {
    let moment = &moments[at];
    let before = at.checked_sub(1).map(|before| &moments[before]);
    let since = before.map_or(f64::INFINITY, |before| before.unix_seconds);
    let is_known = move |kill: &&Killed| {
        before.is_some_and(|before| before.kills.iter().any(|it| is_same_kill(it, kill)))
    };
    // the times in the log are exact only to some seconds
    let is_new = move |kill: &&Killed| kill.unix_seconds + SHORTEST_GAP > since;
    moment.kills.iter().filter(is_new).filter(move |kill| !is_known(kill))
}

fn is_same_kill(one: &Killed, other: &Killed) -> bool {
    one.title == other.title && (one.unix_seconds - other.unix_seconds).abs() < 2.0
}

/// The readings between which growth is computed.
struct Compared<'a> {
    calm: &'a Moment,
    worst: &'a Moment,
    /// The first reading that shows the kill, if there was one: the sizes of the killed processes are in
    /// the reading before it.
    with_kill: Option<usize>,
}

/// Chooses a calm reading before the shortage, and the worst one. The calm one is the earliest that
/// at most `longest` seconds and only calm readings separate from the shortage: what fills memory
/// need not cause a shortage until the last second.
fn readings_to_compare(moments: &[Moment], span: Span, longest: f64) -> Compared<'_> {
    let begun = &moments[span.first];
    let is_calm = |at: usize| {
        let moment = &moments[at];
        moment.boot == begun.boot
            && begun.unix_seconds - moment.unix_seconds <= longest
            && moment.level <= Level::Calm
            && new_kills(moments, at).next().is_none()
    };
    let calm = (0..span.first).rev().take_while(|at| is_calm(*at)).last();
    let calm = calm.unwrap_or_else(|| span.first.saturating_sub(1));
    let has_kill = new_kills(moments, span.worst).next().is_some();
    let worst = if has_kill { span.worst.saturating_sub(1).max(calm) } else { span.worst };
    Compared {
        calm: &moments[calm],
        worst: &moments[worst],
        with_kill: has_kill.then_some(span.worst),
    }
}

/// The smallest growth that is reported.
fn least_growth(moment: &Moment) -> Bytes {
    let least = moment.memory.map_or(0, |memory| memory.get() / LEAST_GROWTH);
    Bytes::new(least.max(1))
}

/// Returns the processes and programs that grew from a calm reading before the shortage to the
/// worst one, or to the kill in it.
fn growers(moments: &[Moment], span: Span, longest: f64) -> Vec<Grown> {
    let Compared { calm: before, worst: after, with_kill } =
        readings_to_compare(moments, span, longest);
    if before.boot != after.boot {
        return Vec::new();
    }
    let mut all = grown_processes(before, after);
    if let Some(at) = with_kill {
        add_survivors(&mut all, grown_processes(before, &moments[at]));
    }
    add_victims(&mut all, moments, span, before);
    add_programs(&mut all, before, &after.programs, after.unix_seconds);
    if let Some(at) = with_kill {
        add_programs(&mut all, before, &programs_at_kill(moments, at), moments[at].unix_seconds);
    }
    let least = least_growth(after);
    all.retain(|grown| growth(grown) >= least);
    all.sort_by_key(|grown| std::cmp::Reverse(growth(grown)));
    all.truncate(GROWERS);
    all
}

fn growth(grown: &Grown) -> Bytes {
    grown.to.saturating_sub(grown.from)
}

fn grown_processes(before: &Moment, after: &Moment) -> Vec<Grown> {
    let grown = after.processes.iter().map(|(key, size)| Grown {
        name: size.name.clone(),
        pid: key.0,
        processes: 1,
        group: size.group.clone(),
        from: before.processes.get(key).map_or(Bytes::new(0), |size| size.held),
        to: size.held,
        seconds: after.unix_seconds - before.unix_seconds,
    });
    grown.collect()
}

/// Adds processes that grew between the reading before a kill and the first one after it. The kernel
/// need not kill the process that took the memory.
fn add_survivors(all: &mut Vec<Grown>, survivors: Vec<Grown>) {
    for survivor in survivors {
        let known = all.iter_mut().find(|it| it.pid == survivor.pid && it.name == survivor.name);
        match known {
            Some(grown) if grown.to < survivor.to => *grown = survivor,
            Some(_) => {}
            None => all.push(survivor),
        }
    }
}

/// Adds killed processes with their growth since the reading that has their sizes. A process that
/// takes all memory within a second is in no reading at its full size.
fn add_victims(all: &mut Vec<Grown>, moments: &[Moment], span: Span, before: &Moment) {
    let kills = (span.first..=span.last).flat_map(|at| new_kills(moments, at));
    for (kill, victim) in kills.flat_map(|kill| kill.victims.iter().map(move |it| (kill, it))) {
        let known = all.iter_mut().find(|it| it.pid == victim.pid && it.name == victim.name);
        let seconds = (kill.unix_seconds - before.unix_seconds).max(0.0);
        match known {
            Some(grown) if grown.to < victim.held => {
                grown.to = victim.held;
                grown.seconds = seconds;
            }
            Some(_) => {}
            None => {
                let is_it = |(pid, _): &(u32, u64)| *pid == victim.pid;
                let size =
                    before.processes.iter().find(|(key, _)| is_it(key)).map(|(_, size)| size);
                let group = victim.group.clone();
                all.push(Grown {
                    name: victim.name.clone(),
                    pid: victim.pid,
                    processes: 1,
                    group: group.or_else(|| size.and_then(|size| size.group.clone())),
                    from: size.map_or(Bytes::new(0), |size| size.held),
                    to: victim.held,
                    seconds,
                });
            }
        }
    }
}

/// The programs of the first reading after a kill, with the processes that were killed. Many small
/// processes may have started since the reading before it, and only some of them are killed.
fn programs_at_kill(moments: &[Moment], at: usize) -> BTreeMap<Name, Program> {
    let mut all = moments[at].programs.clone();
    let first = new_kills(moments, at).next();
    // what started after the first kill took the memory that this kill had freed
    let is_older = |victim: &&Victim| {
        let listed = first.and_then(|kill| kill.listed.as_ref());
        listed.is_none_or(|listed| listed.contains(&victim.pid))
    };
    let ended = |victim: &&Victim| !moments[at].processes.keys().any(|(pid, _)| *pid == victim.pid);
    let victims = new_kills(moments, at).flat_map(|kill| &kill.victims);
    for victim in victims.filter(is_older).filter(ended) {
        let program = all.entry(victim.name.clone()).or_default();
        program.processes += 1;
        program.held = program.held.saturating_add(victim.held);
        program.largest = program.largest.max((victim.held, victim.pid));
    }
    all
}

/// Adds the programs that grew as the sum of many processes, none of which accounts for most of the
/// growth.
fn add_programs(
    all: &mut Vec<Grown>,
    before: &Moment,
    programs: &BTreeMap<Name, Program>,
    unix_seconds: f64,
) {
    let least = least_growth(before);
    for (name, program) in programs {
        let then = before.programs.get(name).copied().unwrap_or_default();
        let grown = program.held.saturating_sub(then.held);
        let known = all.iter().filter(|it| it.name == *name);
        let (sums, single): (Vec<&Grown>, Vec<&Grown>) = known.partition(|it| it.processes > 1);
        let of_one = single.into_iter().map(growth).max().unwrap_or_default();
        let of_sum = sums.into_iter().map(growth).max().unwrap_or_default();
        // two processes of the same size may be one that has just forked, whose memory both share
        let is_sum = of_one.get() < grown.get() / 2 && of_sum < grown;
        if program.processes < 2 || grown < least || !is_sum {
            continue;
        }
        let group = all.iter().filter(|it| it.name == *name).find_map(|it| it.group.clone());
        all.retain(|it| it.name != *name);
        all.push(Grown {
            name: name.clone(),
            pid: program.largest.1,
            processes: program.processes,
            group,
            from: then.held,
            to: program.held,
            seconds: unix_seconds - before.unix_seconds,
        });
    }
}

/// Returns the kinds of memory that belong to no process and grew from a calm reading before the
/// shortage to the worst one.
fn grown_areas(moments: &[Moment], span: Span, longest: f64) -> Vec<GrownArea> {
    let Compared { calm: before, worst: after, .. } = readings_to_compare(moments, span, longest);
    if before.boot != after.boot {
        return Vec::new();
    }
    let least = least_growth(after);
    let mut all: Vec<GrownArea> = Vec::new();
    for &(name, to) in &after.areas {
        let Some(&(_, from)) = before.areas.iter().find(|(known, _)| *known == name) else {
            continue;
        };
        let seconds = after.unix_seconds - before.unix_seconds;
        if to.saturating_sub(from) >= least {
            all.push(GrownArea { name, from, to, seconds });
        }
    }
    all.sort_by_key(|area| std::cmp::Reverse(area.to.saturating_sub(area.from)));
    all
}

fn collect_unknown(moments: &[Moment]) -> Vec<String> {
    let unread = moments.iter().find_map(|moment| moment.log_unread.as_ref());
    let mut all: Vec<String> =
        unread.map(|why| format!("which processes were killed: {why}")).into_iter().collect();
    if moments.iter().any(|moment| moment.has_undated_kills) {
        let why = "their messages have no time zone or year (`pagewise oom` lists these kills)";
        all.push(format!("when programs such as earlyoom killed processes: {why}"));
    }
    let judged = moments.iter().flat_map(|moment| &moment.verdict.unknown);
    let judged: BTreeSet<&String> = judged.collect();
    all.extend(judged.into_iter().cloned());
    all
}

/// Returns the events, and the commands that would have prevented the kills.
fn events(moments: &[Moment], chosen: Option<Span>) -> (Vec<IncidentEvent>, Vec<String>) {
    let mut teller = Teller::default();
    let usual = usual_seconds(moments);
    let (from, to) = match chosen {
        Some(span) => {
            let begun = moments[span.first].unix_seconds;
            let from = moments.iter().position(|it| it.unix_seconds >= begun - BEFORE_SECONDS);
            (from.unwrap_or(0), (span.last + 2).min(moments.len()))
        }
        None => (0, moments.len()),
    };
    for at in from.max(1)..to {
        teller.compare(&moments[at - 1], &moments[at], usual);
        let kills: Vec<Killed> = new_kills(moments, at).cloned().collect();
        for kill in kills {
            // in the log, the kill may be slightly older than the reading that did not show it yet
            let since = (kill.unix_seconds - moments[at - 1].unix_seconds).max(0.0);
            teller.add_kill(&kill, (moments[at - 1].boot == moments[at].boot).then_some(since));
            teller.change.extend(kill.change);
        }
    }
    if let Some(span) = chosen {
        teller.add_level_changes(&moments[span.first.saturating_sub(1)..to]);
    }
    let mut change = teller.change;
    let mut seen = BTreeSet::new();
    change.retain(|line| seen.insert(line.clone()));
    (teller.events, change)
}

/// Returns the times without a reading, each with its begin and its end in seconds since 1970: those
/// that an event of the kind [`IncidentEventKind::Gap`] reports, and those in which the machine
/// booted.
pub fn holes(moments: &[Moment]) -> Vec<[f64; 2]> {
    let usual = usual_seconds(moments);
    let is_hole =
        |before: &Moment, now: &Moment| before.boot != now.boot || is_gap(before, now, usual);
    let pairs = moments.windows(2).filter_map(|pair| match pair {
        [before, now] if is_hole(before, now) => Some([before.unix_seconds, now.unix_seconds]),
        _ => None,
    });
    pairs.collect()
}

/// Returns the times without a reading, as [`holes`] does, if only the times of the readings are
/// known. `times` must be in order.
pub fn holes_between(times: &[f64]) -> Vec<[f64; 2]> {
    let pairs = || times.windows(2).filter_map(|pair| <[f64; 2]>::try_from(pair).ok());
    let usual = lower_quartile(pairs().map(|[before, now]| now - before).collect());
    pairs().filter(|[before, now]| now - before > longest_usual(usual)).collect()
}

/// Whether readings are missing between two neighbouring readings of one boot.
fn is_gap(before: &Moment, now: &Moment, usual: f64) -> bool {
    now.unix_seconds - before.unix_seconds > longest_usual(usual)
}

/// The longest time between two readings that is no gap, if there are usually this many seconds
/// between them.
fn longest_usual(usual: f64) -> f64 {
    (usual * GAP).max(SHORTEST_GAP)
}

fn usual_seconds(moments: &[Moment]) -> f64 {
    lower_quartile(moments.iter().filter_map(|moment| moment.seconds).collect())
}

fn lower_quartile(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    // a quartile and not the median: a host that is short of memory may have more gaps than
    // readings
    all.get(all.len() / 4).copied().unwrap_or(SHORTEST_GAP)
}

#[derive(Debug, Default)]
struct Teller {
    events: Vec<IncidentEvent>,
    change: Vec<String>,
}

impl Teller {
    fn add_event(&mut self, unix_seconds: f64, kind: IncidentEventKind, text: String) {
        self.events.push(IncidentEvent { unix_seconds, kind, text, seconds_since_reading: None });
    }

    fn add_kill(&mut self, kill: &Killed, seconds_since_reading: Option<f64>) {
        self.add_event(kill.unix_seconds, IncidentEventKind::Kill, kill.title.clone());
        if let Some(event) = self.events.last_mut() {
            event.seconds_since_reading = seconds_since_reading;
        }
    }

    fn compare(&mut self, before: &Moment, now: &Moment, usual: f64) {
        let at = now.unix_seconds;
        if before.boot != now.boot {
            let kernel =
                now.kernel.as_ref().map_or_else(String::new, |it| format!(" with Linux {it}"));
            self.add_event(
                at,
                IncidentEventKind::Boot,
                format!("the machine had started anew{kernel}"),
            );
            return;
        }
        let passed = at - before.unix_seconds;
        if is_gap(before, now, usual) {
            let text = format!(
                "no reading for {} before this",
                pagewise_model::duration::format_rough(passed)
            );
            self.add_event(at, IncidentEventKind::Gap, text);
        }
        for (name, value) in &now.settings {
            let Some(old) = before.settings.get(name).filter(|old| *old != value) else { continue };
            self.add_event(
                at,
                IncidentEventKind::Setting,
                format!("{name} was set from {old} to {value}"),
            );
        }
        if let (Some(then), Some(units)) = (&before.units, &now.units) {
            for unit in units.difference(then) {
                self.add_event(at, IncidentEventKind::Started, format!("{unit} started"));
            }
            for unit in then.difference(units) {
                self.add_event(at, IncidentEventKind::Ended, format!("{unit} ended"));
            }
        }
        for (tier, size) in &now.full {
            if !before.full.contains_key(tier) {
                self.add_event(
                    at,
                    IncidentEventKind::Full,
                    format!("swap on {tier} was full ({size})"),
                );
            }
        }
    }

    /// Adds an event for each change of the level, with the verdict's sentence.
    fn add_level_changes(&mut self, moments: &[Moment]) {
        for pair in moments.windows(2) {
            let [before, now] = pair else { continue };
            if before.level == now.level {
                continue;
            }
            let text = if now.level <= Level::Calm {
                "memory was not short any more".to_owned()
            } else {
                now.verdict.line.clone()
            };
            self.add_event(now.unix_seconds, IncidentEventKind::Level, text);
        }
    }
}

#[cfg(test)]
#[path = "incident/tests.rs"]
mod tests;
