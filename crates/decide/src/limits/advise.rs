// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recommends a limit for a cgroup from its memory usage, or says why no limit can be recommended.

use pagewise_facts::groups::{self, GroupPair};
use pagewise_facts::growth::{self, Grower, Growth, GrowthLimit};
use pagewise_model::{
    Bytes, Cgroup, Confidence, Interval, Level, Limit, LimitAdvice, LimitVerdict, Outcome, Reading,
    Snapshot,
};

use super::commands::{commands, limit_to_set};
use super::working_set::{self, Used};
use crate::text::{count, rate};
use crate::verdict::{self, GroupTrouble, Trouble};

/// A group that uses less memory than this is too small to show how much memory it needs.
const LEAST: Bytes = Bytes::new(1 << 20);
/// If the recommended limit is more than this percentage of the present limit, lowering the limit
/// is not worthwhile.
const WORTH_PERCENT: f64 = 90.0;
/// If the peak is at least this percentage of the limit, the limit kept the group from growing.
const AT_LIMIT_PERCENT: f64 = 99.0;
/// A group at its limit needs more memory if its tasks waited for memory for at least this
/// percentage of the last minute.
const WAITED_PERCENT: f64 = 1.0;
/// If anonymous memory grew by at least this percentage over the interval, the group has not
/// reached its final size yet.
const GROWN_PERCENT: f64 = 10.0;
/// Fewer refaults per second than this are noise; the same threshold as for the host
/// (`facts::reclaim`).
const REFAULTS_PER_SECOND: f64 = 100.0;

/// Facts that apply to the advice for every group.
#[derive(Debug)]
pub(super) struct Circumstances<'a> {
    interval: &'a Interval,
    troubled: Vec<GroupTrouble<'a>>,
    growing: Vec<Growth<'a>>,
    host: Level,
}

impl<'a> Circumstances<'a> {
    pub(super) fn new(interval: &'a Interval) -> Self {
        Self {
            interval,
            troubled: verdict::find_troubled(interval),
            growing: growth::find_growing(interval),
            host: verdict::judge(interval).host,
        }
    }

    pub(super) fn host(&self) -> &'a Snapshot {
        &self.interval.end
    }

    /// Returns why the usage of this group does not show its needs: the limit of an ancestor or
    /// descendant restricts it. `None` if there is no such limit.
    fn describe_disturbance(&self, group: &Cgroup) -> Option<String> {
        self.troubled.iter().find_map(|trouble| {
            let limited = trouble.limited;
            let place = if groups::is_below(limited, group) {
                "below"
            } else if groups::is_below(group, limited) {
                "above"
            } else {
                return None;
            };
            let path = &limited.path;
            Some(format!(
                "{path}, {place} it, is short of memory because of its own limit: raise that first"
            ))
        })
    }

    fn trouble(&self, group: &Cgroup) -> Option<&GroupTrouble<'a>> {
        self.troubled.iter().find(|trouble| trouble.limited.path == group.path)
    }
}

/// Returns a limit that is sufficient for the memory that the group holds, or held when a process
/// in it was killed: everything in RAM and in swap plus a tenth. After a kill, half of the limit is
/// added, because the size of the allocation that failed is unknown.
pub(crate) fn raised_limit(group: &Cgroup, limit: Bytes, was_killed: bool) -> Option<Bytes> {
    let swapped = group.swap_current.get().unwrap_or_default();
    let held = group.current.get()?.get().checked_add(swapped.get())?;
    let more = if was_killed { (limit.get() / 2).max(held / 10) } else { held / 10 };
    let size = held.max(limit.get()).checked_add(more)?;
    size.checked_next_multiple_of(1 << 20).map(Bytes::new)
}

/// Advises on the limit of a group. The first of these that applies: the present limit is too low;
/// the needs of the group are unknown; a limit is recommended.
pub(super) fn advise(
    circumstances: &Circumstances<'_>,
    pair: &GroupPair<'_>,
    used: Option<&Used>,
) -> LimitAdvice {
    let group = pair.now;
    let too_low = advise_in_trouble(circumstances, group)
        .or_else(|| advise_after_kills(circumstances, group))
        .or_else(|| advise_at_limit(circumstances, group));
    if let Some(advice) = too_low {
        return advice;
    }
    match find_used_or_reason(circumstances, pair, used) {
        Ok(used) => advise_fitting(circumstances, pair, used),
        Err(why) => advise_unknown(why),
    }
}

fn advise_unknown(why: String) -> LimitAdvice {
    LimitAdvice {
        verdict: LimitVerdict::NotKnown,
        size: None,
        confidence: None,
        reasons: vec![why],
        commands: Vec::new(),
    }
}

/// Returns the advice that the limit is too low, if the verdict reports that the group is short of
/// memory because of its limit. Growth alone is not a reason: no limit is large enough for a leak.
fn advise_in_trouble(circumstances: &Circumstances<'_>, group: &Cgroup) -> Option<LimitAdvice> {
    let trouble = circumstances.trouble(group)?;
    let limit = trouble.limit()?;
    let (_, worst) =
        trouble.troubles.iter().find(|(_, it)| !matches!(it, Trouble::Fills { .. }))?;
    let was_killed = matches!(worst, Trouble::Kills(_));
    let file = trouble.reached.as_ref().map_or(&group.max, |at| at.reading);
    let reasons = vec![
        format!("at its limit of {limit}, {}", verdict::describe_group(trouble)),
        HOLDS_NO_MORE.to_owned(),
    ];
    let confidence = if was_killed { Confidence::High } else { Confidence::Medium };
    advise_too_low(circumstances, group, file, was_killed, confidence, reasons)
}

const HOLDS_NO_MORE: &str = "how much it would use with a higher limit is not known, as it never got more: \
                             raise the limit and run this again";

/// Returns the advice that the limit is too low because processes were killed before the interval.
/// The counter does not show when; such kills say something about the present limit only if the
/// peak of the group reached that limit.
fn advise_after_kills(circumstances: &Circumstances<'_>, group: &Cgroup) -> Option<LimitAdvice> {
    let kills = group.events.oom_kill.get().filter(|&kills| kills > 0)?;
    let (limit, peak) = (group.max.get()?.bytes()?, group.peak.get()?);
    if peak.percent_of(limit)?.get() < AT_LIMIT_PERCENT {
        return None;
    }
    let reasons = vec![
        format!(
            "{} since it was created, and its peak of {peak} is its limit",
            describe_kills(kills)
        ),
        "when that was is not known: `pagewise doctor --oom` shows kills that the kernel log has"
            .to_owned(),
        HOLDS_NO_MORE.to_owned(),
    ];
    advise_too_low(circumstances, group, &group.max, true, Confidence::Low, reasons)
}

/// Returns the advice that the limit is too low because the group has reached it and its tasks wait
/// for memory. This holds also if the kernel counted no limit event during the interval: a task
/// that memory.high throttles sleeps for up to 2 s at a time.
fn advise_at_limit(circumstances: &Circumstances<'_>, group: &Cgroup) -> Option<LimitAdvice> {
    let file = working_set::own_limit(group);
    let (limit, current) = (file.get()?.bytes()?, group.current.get()?);
    let waited = group.pressure.some.avg60.get()?;
    if current.percent_of(limit)?.get() < AT_LIMIT_PERCENT || waited.get() < WAITED_PERCENT {
        return None;
    }
    let share = waited.format_share_of_time();
    let reasons = vec![
        format!(
            "it uses {current} of {limit}, and its tasks waited for memory {share} of the last minute"
        ),
        HOLDS_NO_MORE.to_owned(),
    ];
    advise_too_low(circumstances, group, file, false, Confidence::Low, reasons)
}

fn describe_kills(kills: u64) -> String {
    match kills {
        1 => "1 process in it was killed for lack of memory".to_owned(),
        more => format!("{} processes in it were killed for lack of memory", count(more)),
    }
}

fn advise_too_low(
    circumstances: &Circumstances<'_>,
    group: &Cgroup,
    file: &Reading<Limit>,
    was_killed: bool,
    confidence: Confidence,
    mut reasons: Vec<String>,
) -> Option<LimitAdvice> {
    let limit = file.get()?.bytes()?;
    let size = raised_limit(group, limit, was_killed)?;
    let more = if was_killed { "half of the limit" } else { "a tenth" };
    reasons.insert(
        1,
        format!("{size} is what it holds in RAM and in swap, or its limit, plus {more}"),
    );
    let available = circumstances.host().memory.available.get();
    let has_room = available.is_none_or(|room| size.saturating_sub(limit).get() <= room.get() / 2);
    if !has_room {
        let room = available.unwrap_or_default();
        reasons.push(format!(
            "the host has only {room} available: free memory first, or it gets short"
        ));
    }
    let above = groups::least_room_above(circumstances.host(), group)
        .filter(|(_, room)| *room < size.saturating_sub(limit));
    if let Some((above, room)) = above {
        reasons.push(format!(
            "{} above it has a limit of its own with {room} left: a higher limit here changes nothing",
            above.path
        ));
    }
    let commands = if has_room && above.is_none() {
        commands(group, limit_to_set(group, file), size)
    } else {
        Vec::new()
    };
    let confidence = Some(confidence);
    Some(LimitAdvice {
        verdict: LimitVerdict::TooLow,
        size: Some(size),
        confidence,
        reasons,
        commands,
    })
}

/// Returns the memory in use of a group, or as an error the reason why no limit can be derived from
/// it.
fn find_used_or_reason<'a>(
    circumstances: &Circumstances<'_>,
    pair: &GroupPair<'_>,
    used: Option<&'a Used>,
) -> Result<&'a Used, String> {
    let group = pair.now;
    if let Outcome::Absent(why) | Outcome::Denied(why) = &group.current.outcome {
        return Err(format!("its memory usage: {why}"));
    }
    let used = used.ok_or("memory.stat does not say which of its memory is what")?;
    if group.current.get().is_some_and(|current| current < LEAST) {
        return Err(format!("it holds less than {LEAST}, which says nothing about what it needs"));
    }
    if let Some(why) = circumstances.describe_disturbance(group) {
        return Err(why);
    }
    if let Some(growth) = growth(circumstances, pair) {
        return Err(format!("{growth}: no limit follows from what it uses now"));
    }
    match group.events.oom_kill.get() {
        Some(kills) if kills > 0 => Err(format!(
            "{} since it was created; at which limit is not known (`pagewise doctor --oom`)",
            describe_kills(kills)
        )),
        _ => Ok(used),
    }
}

/// Returns a sentence about growth, if the group or something that fills its limit grows steadily,
/// or if the group grew much over the interval.
fn growth(circumstances: &Circumstances<'_>, pair: &GroupPair<'_>) -> Option<String> {
    let group = pair.now;
    let is_it = |growth: &&Growth<'_>| {
        let grows = matches!(growth.grower, Grower::Group(it) if it.path == group.path);
        grows || matches!(growth.into, GrowthLimit::Group(into) if into.group.path == group.path)
    };
    if let Some(growth) = circumstances.growing.iter().find(is_it) {
        let rate = rate(growth.per_second);
        return Some(format!("{} grows by {rate}", growth.grower.name()));
    }
    let grown = Bytes::new(u64::try_from(pair.growth()?).ok()?);
    let is_much = grown.percent_of(groups::anonymous_memory(pair.now)?)?.get() >= GROWN_PERCENT;
    is_much.then(|| format!("its anonymous memory grew by {grown} over the interval"))
}

/// Advises on the limit of a group whose memory in use is known: a recommended limit, compared with
/// the present one.
fn advise_fitting(
    circumstances: &Circumstances<'_>,
    pair: &GroupPair<'_>,
    used: &Used,
) -> LimitAdvice {
    let group = pair.now;
    let (confidence, doubts) = confidence(circumstances, pair, used);
    let (size, parts) = size(pair, used, confidence);
    let limit = working_set::own_limit(group);
    let reasons: Vec<String> = parts.into_iter().chain(doubts).collect();
    let total = circumstances.host().memory.total.get();
    match limit.get().and_then(Limit::bytes) {
        Some(limit) if size.percent_of(limit).is_none_or(|it| it.get() >= WORTH_PERCENT) => {
            LimitAdvice {
                verdict: LimitVerdict::Fits,
                size: None,
                confidence: Some(confidence),
                reasons,
                commands: Vec::new(),
            }
        }
        None if total.is_some_and(|total| size >= total) => advise_unknown(format!(
            "{}: with the margin this is more than the host has",
            reasons.join("; ")
        )),
        _ => {
            let commands = commands(group, limit_to_set(group, limit), size);
            let mut reasons = reasons;
            if commands.is_empty() {
                reasons.push(NO_COMMAND.to_owned());
            }
            let (verdict, size) = (LimitVerdict::CouldBe, Some(size));
            LimitAdvice { verdict, size, confidence: Some(confidence), reasons, commands }
        }
    }
}

/// The reason that is printed if there is no command for a recommended limit.
const NO_COMMAND: &str = "no command is given: it would lower a limit that is set, or set one below what the \
                          group uses now, or the group is not one that a command may limit";

/// The margin on top of the needed size, in percent. The values are a judgement, explained in
/// docs/limits.md.
const fn margin(confidence: Confidence) -> u64 {
    match confidence {
        Confidence::High => 10,
        Confidence::Medium => 25,
        Confidence::Low => 50,
    }
}

/// Returns the recommended limit (the needed size plus a margin, in whole MiB) and the parts of
/// which it consists.
fn size(pair: &GroupPair<'_>, used: &Used, confidence: Confidence) -> (Bytes, Vec<String>) {
    let (group, percent) = (pair.now, margin(confidence));
    let mut parts = vec![describe_use(group, used)];
    if used.spike > Bytes::new(0) {
        parts.push(format!("plus {}: its anonymous memory was larger before", used.spike));
    }
    if used.refaulted > Bytes::new(0) {
        let refaulted = used.refaulted.min(used.hot);
        parts.push(format!("plus {refaulted} that it read again over the interval"));
    }
    let word = confidence.word();
    parts.push(format!("plus a margin of {percent} %, as the confidence is {word}"));
    let mut size = with_margin(used.needed_memory(), percent);
    let peak = unrestricted_peak(group).map(|peak| with_margin(peak, margin(Confidence::High)));
    if let Some(peak) = peak.filter(|&peak| peak < size) {
        size = peak;
        parts.push(
            "but no more than its peak plus 10 %: it never used more since it was created"
                .to_owned(),
        );
    }
    let protected = [&group.low, &group.min].map(|it| it.get().and_then(Limit::bytes));
    if let Some(protected) = protected.into_iter().flatten().max().filter(|&it| it > size) {
        size = protected;
        parts.push(format!(
            "but no less than the {protected} that memory.low or memory.min protects"
        ));
    }
    (size, parts)
}

fn describe_use(group: &Cgroup, used: &Used) -> String {
    let current = group.current.get().unwrap_or_default();
    let left: Vec<String> = [
        (used.droppable, "file cache"),
        (used.swappable, "anonymous memory, for which swap has room"),
    ]
    .into_iter()
    .filter(|(size, _)| *size > Bytes::new(0))
    .map(|(size, kind)| format!("{size} of {kind}"))
    .collect();
    let hot = used.hot;
    if left.is_empty() {
        return format!("in use: all of its {current}");
    }
    format!("in use: {hot} of {current}; idle: {}", left.join(" and "))
}

/// Adds the margin to the needed size and rounds up to whole MiB. The result is the largest size if
/// it overflows.
fn with_margin(needed: Bytes, percent: u64) -> Bytes {
    const MIB: u64 = 1 << 20;
    let size = u128::from(needed.get()) * u128::from(100 + percent) / 100;
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    Bytes::new(size.checked_next_multiple_of(MIB).unwrap_or(u64::MAX / MIB * MIB)).max(needed)
}

/// Returns the group's peak usage, if no limit ever restricted the group.
fn unrestricted_peak(group: &Cgroup) -> Option<Bytes> {
    let was_reached = |events: &Reading<u64>| events.get().is_some_and(|events| events > 0);
    let held = was_reached(&group.events.max) || was_reached(&group.events.high);
    let is_known = group.events.max.get().is_some();
    // a process may have reset the peak, but it is never below the current usage
    let peak = group.peak.get()?.max(group.current.get()?);
    (is_known && !held).then_some(peak)
}

/// Determines the confidence in a recommended limit, with the reasons. It depends on three facts:
/// how long the group was observed, whether its peak is known, and interference (refaults, limits
/// that were reached, a host short of memory).
fn confidence(
    circumstances: &Circumstances<'_>,
    pair: &GroupPair<'_>,
    used: &Used,
) -> (Confidence, Vec<String>) {
    let (mut least, why) = grade_by_idle_time(used);
    let mut reasons = vec![why];
    let mut lower = |to: Confidence, why: String| {
        least = least.min(to);
        reasons.push(why);
    };
    if !used.idle.left_out.is_empty() {
        lower(Confidence::Medium, used.idle.left_out.clone());
    }
    if pair.now.peak.get().is_none() {
        lower(Confidence::Medium, "its peak is not known".to_owned());
    }
    match working_set::refaults(pair) {
        None => lower(Confidence::Low, "its refaults over an interval are not known".to_owned()),
        Some(it) if it.per_second >= REFAULTS_PER_SECOND => {
            lower(Confidence::Low, "it reads again what was dropped".to_owned());
        }
        Some(_) => (),
    }
    if pair.count_limit_events().is_some_and(|reached| reached > 0) {
        lower(
            Confidence::Low,
            "it, or a group below it, was at its limit over the interval".to_owned(),
        );
    }
    if circumstances.host >= Level::Short {
        let why = "the host is short of memory, so that the group may hold less than it would use";
        lower(Confidence::Low, why.to_owned());
    }
    (least, reasons)
}

fn grade_by_idle_time(used: &Used) -> (Confidence, String) {
    const LONG: f64 = 600.0;
    const ENOUGH: f64 = 30.0;
    let Some(seconds) = used.idle.seconds else {
        let why = "no idle times are known: inactive file cache counts as idle, and everything else as used";
        return (Confidence::Low, why.to_owned());
    };
    let why = format!(
        "idle is what was not used for {}",
        pagewise_model::duration::format_rough(seconds)
    );
    let confidence = match seconds {
        long if long >= LONG => Confidence::High,
        enough if enough >= ENOUGH => Confidence::Medium,
        _ => Confidence::Low,
    };
    (confidence, why)
}
