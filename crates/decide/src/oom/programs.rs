// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains kills by programs such as systemd-oomd: by which rule and limit, and which values the
//! program saw. Also explains what systemd reported about a unit if the kernel's report is missing.
//!
//! systemd-oomd compares the used part of swap with its size. A zram device whose size is used up
//! may hold its data in a part of that RAM, so that memory is left; systemd-oomd's message says how
//! much.

use pagewise_model::{
    Bytes, Interval, KernelLog, Name, OomExplanation, OomFact, Percent, Snapshot, TierKind,
    UnitKill, UserKill, UserKiller,
};

use super::time_line::find_units_alone;

/// Explains the kills by programs, oldest first, and then systemd's reports about units.
pub fn explain_programs(interval: &Interval) -> Vec<OomExplanation> {
    explain(&interval.end.kernel_log, Some(&interval.end))
}

/// Like [`explain_programs`], for a log from any machine: nothing is read from that machine.
pub fn explain_programs_of_text(log: &KernelLog) -> Vec<OomExplanation> {
    explain(log, None)
}

fn explain(log: &KernelLog, host: Option<&Snapshot>) -> Vec<OomExplanation> {
    let kills = log.user_kills.iter().map(|kill| explain_kill(kill, host));
    let units = find_units_alone(log).into_iter().map(|unit| explain_unit(log, unit));
    kills.chain(units).collect()
}

fn explain_kill(kill: &UserKill, host: Option<&Snapshot>) -> OomExplanation {
    let saw = SwapRule::parse(kill);
    let pid = kill.pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
    let facts = [
        ("machine", kill.machine.as_ref().map(ToString::to_string)),
        ("its reason", kill.reason.as_ref().map(ToString::to_string)),
        ("it saw", saw.as_ref().map(SwapRule::describe).or_else(|| describe_pressure(kill))),
        ("was left", saw.as_ref().map(|saw| saw.describe_left(host))),
        ("its rule", Some(rule(kill).to_owned())),
    ];
    let facts = facts.into_iter().filter_map(|(label, text)| Some(OomFact { label, text: text? }));
    OomExplanation {
        source: kill.source.clone(),
        unix_seconds: kill.unix_seconds,
        stamp: kill.stamp.clone(),
        title: format!("{}{pid} was killed by {}", kill.victim, actor(kill.by)),
        facts: facts.collect(),
        change: advise(kill, host),
        what_if: Vec::new(),
    }
}

fn explain_unit(log: &KernelLog, unit: &UnitKill) -> OomExplanation {
    let wrote = match (unit.is_process, unit.is_result) {
        (true, true) => "a process of the unit was killed, and the unit failed for it",
        (true, false) => "a process of the unit was killed",
        _ => "the unit failed with result oom-kill",
    };
    let more = if log.wrapped || log.not_understood > 0 { "; the logs are incomplete" } else { "" };
    let missing = format!(
        "not in the logs that were read, within a minute of this message{more}. They may have lost it, or it was no kill \
         by the kernel: systemd-oomd's kills get the same result"
    );
    let facts = [
        ("machine", unit.machine.as_ref().map(ToString::to_string)),
        ("systemd wrote", Some(wrote.to_owned())),
        ("kernel's report", Some(missing)),
    ];
    let facts = facts.into_iter().filter_map(|(label, text)| Some(OomFact { label, text: text? }));
    let around = unit.unix_seconds.map(|at| {
        format!(
            "journalctl --since=@{:.0} --until=@{:.0}  # a minute before and after",
            at - 60.0,
            at + 60.0
        )
    });
    OomExplanation {
        source: unit.source.clone(),
        unix_seconds: unit.unix_seconds,
        stamp: unit.stamp.clone(),
        title: format!(
            "systemd reports that something was killed for lack of memory in {}",
            unit.unit
        ),
        facts: facts.collect(),
        change: around.into_iter().collect(),
        what_if: Vec::new(),
    }
}

/// Returns the name of a program, as printed in the list of all kills.
pub(super) fn name(by: UserKiller) -> &'static str {
    match by {
        UserKiller::SystemdOomd => "systemd-oomd",
        UserKiller::Earlyoom => "earlyoom",
        UserKiller::Lmkd => "lmkd",
        UserKiller::Kubelet => "kubelet",
        UserKiller::Nohang => "nohang",
        UserKiller::Docker => "kernel (Docker)",
    }
}

fn actor(by: UserKiller) -> &'static str {
    match by {
        UserKiller::Docker => "the kernel, as Docker reports",
        UserKiller::Kubelet => "kubelet (evicted)",
        by => name(by),
    }
}

/// Describes the rule and the limit because of which the program killed, in a few words.
pub(super) fn limit(kill: &UserKill) -> String {
    if let Some(saw) = SwapRule::parse(kill) {
        return format!("swap used above {}", saw.limit);
    }
    if let Some((path, was, limit, _)) = pressure(kill) {
        return format!("pressure of {path} {was} above {limit}");
    }
    let text = match kill.by {
        UserKiller::SystemdOomd => "not in its message",
        UserKiller::Earlyoom => "options -m and -s",
        UserKiller::Lmkd => "ro.lmk properties",
        UserKiller::Kubelet => "memory.available of the node",
        UserKiller::Nohang => "thresholds of nohang.conf",
        UserKiller::Docker => "limit of the container",
    };
    text.to_owned()
}

/// Returns the setting that makes the program kill.
fn rule(kill: &UserKill) -> &'static str {
    let reason = kill.reason.as_ref().map_or("", Name::as_str);
    match kill.by {
        UserKiller::SystemdOomd if reason.starts_with("memory pressure") => {
            "ManagedOOMMemoryPressure=kill with ManagedOOMMemoryPressureLimit= of the unit that is named, or \
             DefaultMemoryPressureLimit= in oomd.conf: it counts waiting for memory in the unit, whatever is free on \
             the machine"
        }
        UserKiller::SystemdOomd if reason.starts_with("memory used") => {
            "ManagedOOMSwap=kill with SwapUsedLimit= in oomd.conf: it counts swap as full by its size; zram that is full \
             by its size may hold little memory, and a larger zram device helps"
        }
        UserKiller::SystemdOomd => {
            "not in this text: the message of systemd-oomd itself says if it was pressure or swap (journalctl -u \
             systemd-oomd)"
        }
        UserKiller::Earlyoom => {
            "options -m and -s: available memory and free swap were both below these shares"
        }
        UserKiller::Nohang => {
            "soft_threshold_… (SIGTERM) and hard_threshold_… (SIGKILL) in nohang.conf: available memory, free swap, zram \
             or pressure"
        }
        UserKiller::Docker => {
            "the memory limit of the container or of a group above it; the kernel's report names the process"
        }
        UserKiller::Lmkd => "ro.lmk properties: pressure, free swap and thrashing",
        UserKiller::Kubelet => {
            "evictionHard and evictionSoft memory.available of the kubelet: memory of the node, not of the pod"
        }
    }
}

/// Parses `memory pressure for PATH being 61.20% > 50.00% for > 20s with reclaim activity`. Returns
/// the path, the pressure, its limit, and the duration.
fn pressure(kill: &UserKill) -> Option<(&str, &str, &str, &str)> {
    let reason = kill.reason.as_ref()?.as_str();
    let rest = reason.strip_prefix("memory pressure for ")?;
    let (path, rest) = rest.split_once(" being ")?;
    let (was, rest) = rest.split_once(" > ")?;
    let (limit, rest) = rest.split_once(" for > ")?;
    let lasted = rest.split(' ').next().unwrap_or(rest);
    (kill.by == UserKiller::SystemdOomd).then_some((path, was, limit, lasted))
}

fn describe_pressure(kill: &UserKill) -> Option<String> {
    let (path, was, limit, lasted) = pressure(kill)?;
    Some(format!(
        "all processes of {path} together waited for memory {was} of the time, for more than {lasted}; its limit is \
         {limit}. How much memory was free is not in the message"
    ))
}

/// The memory and swap usage because of which systemd-oomd killed.
#[derive(Debug, Clone, PartialEq)]
struct SwapRule {
    memory_used: Bytes,
    memory: Bytes,
    swap_used: Bytes,
    swap: Bytes,
    /// The limit as the message prints it: `90.00%`.
    limit: String,
}

impl SwapRule {
    /// Parses `memory used (U) / total (T) and swap used (U) / total (T) being more than 90.00%`;
    /// sizes are in bytes.
    fn parse(kill: &UserKill) -> Option<Self> {
        let reason = kill.reason.as_ref()?.as_str();
        let rest = reason.strip_prefix("memory used (")?;
        let (memory, rest) = rest.split_once(") and swap used (")?;
        let (swap, rest) = rest.split_once(") being more than ")?;
        let sizes = |text: &str| {
            let (used, total) = text.split_once(") / total (")?;
            Some((Bytes::new(used.parse().ok()?), Bytes::new(total.parse().ok()?)))
        };
        let ((memory_used, memory), (swap_used, swap)) = (sizes(memory)?, sizes(swap)?);
        let limit = rest.split(' ').next().unwrap_or(rest).to_owned();
        Some(Self { memory_used, memory, swap_used, swap, limit })
    }

    fn describe(&self) -> String {
        let share = self.swap_used.percent_of(self.swap).map(Percent::get);
        let share = share.map_or_else(String::new, |share| format!(", {share:.0} %"));
        format!(
            "swap {} used of {}{share}; memory {} used of {}; its limit is {} of each",
            self.swap_used, self.swap, self.memory_used, self.memory, self.limit
        )
    }

    /// Describes how much memory was left although swap was full: the available memory, and what
    /// zram stores now.
    fn describe_left(&self, host: Option<&Snapshot>) -> String {
        let available = self.memory.saturating_sub(self.memory_used);
        let left = format!("{available} of memory was available all the same");
        match host.and_then(zram_of_swap) {
            Some((stored, used)) => format!(
                "{left}; all swap is zram now, which holds {stored} in {used} of RAM: swap that is full by its size is not \
                 memory that is gone"
            ),
            None if host.is_some_and(has_zram_swap) => {
                format!("{left}; how much RAM zram takes for its data is not known")
            }
            None if host.is_some_and(|host| !host.tiers.is_empty()) => {
                format!("{left}; not all swap is zram now")
            }
            None if host.is_some() => format!("{left}; which swap it was is not known"),
            None => format!("{left}; whether this swap was zram is not in the text"),
        }
    }
}

/// Returns how much the zram devices store and how much RAM they take for it. `None` unless all
/// swap is on zram and both sizes are known.
fn zram_of_swap(host: &Snapshot) -> Option<(Bytes, Bytes)> {
    let tiers = &host.tiers;
    let is_zram = tiers.iter().all(|tier| tier.kind == TierKind::Zram);
    if tiers.is_empty() || !is_zram {
        return None;
    }
    let mut sums = (Bytes::default(), Bytes::default());
    for tier in tiers {
        let device = host.zram.iter().find(|device| device.path() == tier.path.as_str())?;
        sums.0 = sums.0.saturating_add(device.mm_stat.original.get()?);
        sums.1 = sums.1.saturating_add(device.mm_stat.memory_used.get()?);
    }
    Some(sums)
}

fn has_zram_swap(host: &Snapshot) -> bool {
    !host.tiers.is_empty() && host.tiers.iter().all(|tier| tier.kind == TierKind::Zram)
}

/// Returns the unit that a cgroup's path contains.
fn unit_of(path: &Name) -> Option<&str> {
    let is_unit =
        |part: &&str| [".service", ".scope", ".slice"].iter().any(|end| part.ends_with(end));
    path.as_str().rsplit('/').find(is_unit)
}

/// Suggests what would have prevented the kill, with the program's own configuration files, and
/// says what each change costs.
fn advise(kill: &UserKill, host: Option<&Snapshot>) -> Vec<String> {
    let unit = unit_of(&kill.victim).filter(|_| kill.by == UserKiller::SystemdOomd);
    let of_user = kill.victim.as_str().contains("/user@");
    let edit = if of_user { "systemctl --user edit" } else { "systemctl edit" };
    let exempt = unit.map(|unit| {
        format!(
            "# contains: ManagedOOMPreference=avoid under [{}] in a drop-in of {unit} ({edit} {unit}): systemd-oomd then \
             kills another unit first",
            section_of_unit(unit)
        )
    });
    // a log from elsewhere may be from another machine
    let shown = host.map(|_| {
        "oomctl  # reads only: what systemd-oomd watches now, and by which limits".to_owned()
    });
    if SwapRule::parse(kill).is_some() {
        let may_be_zram = |host: &Snapshot| host.tiers.is_empty() || has_zram_swap(host);
        let zram = host.is_none_or(may_be_zram).then(|| {
            "# cures, if swap is zram: a larger device, so that it is full by its size later (pagewise plan shows the size)"
                .to_owned()
        });
        let limit = "# weakens: SwapUsedLimit=95% under [OOM] in /etc/systemd/oomd.conf.d/swap.conf, or ManagedOOMSwap=auto \
                     in the drop-in of the slice that sets kill (oomctl lists it): systemd-oomd then acts later or not at \
                     all, and the kernel kills when nothing is left, after the machine has slowed down"
            .to_owned();
        return shown.into_iter().chain(zram).chain(exempt).chain([limit]).collect();
    }
    if let Some((path, _, limit, _)) = pressure(kill) {
        let owner = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("-.slice");
        let higher = format!(
            "# weakens: ManagedOOMMemoryPressureLimit= above {limit} under [{}] in a drop-in of {owner}: units in it may wait \
             for memory longer before systemd-oomd kills",
            section_of_unit(owner)
        );
        return shown.into_iter().chain(exempt).chain([higher]).collect();
    }
    Vec::new()
}

/// Returns the section of a unit's file that contains resource settings.
fn section_of_unit(unit: &str) -> &'static str {
    match unit.rsplit('.').next() {
        Some("slice") => "Slice",
        Some("scope") => "Scope",
        _ => "Service",
    }
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Source, UserKill};

    use super::*;
    use crate::testing::{host, tier};

    const BY_SWAP: &str = "memory used (15460000000) / total (16000000000) and swap used (7730000000) / total \
                           (8500000000) being more than 90.00%";

    fn killed(reason: &str) -> UserKill {
        UserKill {
            source: Source::line("/var/log/journal", 7),
            victim: Name::from("/user.slice/user@1000.service/app.slice/editor.scope"),
            reason: Some(Name::from(reason)),
            ..UserKill::default()
        }
    }

    fn fact<'a>(explained: &'a OomExplanation, label: &str) -> Option<&'a str> {
        explained.facts.iter().find(|fact| fact.label == label).map(|fact| fact.text.as_str())
    }

    #[test]
    fn swap_that_is_full_is_told_from_memory_that_is_gone() {
        let of_text = explain_kill(&killed(BY_SWAP), None);
        let saw = "swap 7.2 GiB used of 7.9 GiB, 91 %; memory 14.4 GiB used of 14.9 GiB; its limit is 90.00% of each";
        assert_eq!(fact(&of_text, "it saw"), Some(saw));
        let left = "515.0 MiB of memory was available all the same; whether this swap was zram is not in the text";
        assert_eq!(fact(&of_text, "was left"), Some(left));
        let mut with_zram = host();
        let live = explain_kill(&killed(BY_SWAP), Some(&with_zram));
        let (stored, used) = zram_of_swap(&with_zram).unwrap();
        assert_eq!(stored, Bytes::new(512 << 20));
        let left = format!(
            "515.0 MiB of memory was available all the same; all swap is zram now, which holds {stored} in {used} of RAM: \
             swap that is full by its size is not memory that is gone"
        );
        assert_eq!(fact(&live, "was left"), Some(left.as_str()));
        with_zram.zram.clear();
        let live = explain_kill(&killed(BY_SWAP), Some(&with_zram));
        let left = fact(&live, "was left").unwrap_or_default();
        assert!(left.ends_with("; how much RAM zram takes for its data is not known"), "{left}");
        with_zram.tiers.clear();
        let live = explain_kill(&killed(BY_SWAP), Some(&with_zram));
        let left = fact(&live, "was left").unwrap_or_default().to_owned();
        assert!(left.ends_with("; which swap it was is not known"), "{left}");
        with_zram.tiers = vec![tier("/swap", TierKind::File, Bytes::new(4096), -2)];
        let live = explain_kill(&killed(BY_SWAP), Some(&with_zram));
        let left = fact(&live, "was left").unwrap_or_default();
        assert!(left.ends_with("; not all swap is zram now"), "{left}");
        assert!(live.change[0].starts_with("oomctl  # reads only"), "{:?}", live.change);
        assert!(
            live.change.iter().all(|line| !line.contains("if swap is zram")),
            "{:?}",
            live.change
        );
    }

    /// Advice that makes the machine less safe says so, and names the file of the setting.
    #[test]
    fn advice_names_the_file_and_what_it_weakens() {
        for reason in [
            BY_SWAP,
            "memory pressure for /user.slice being 61.20% > 50.00% for > 20s with reclaim activity",
        ] {
            let explained = explain_kill(&killed(reason), None);
            assert!(explained.change.len() >= 2, "{:?}", explained.change);
            for line in &explained.change {
                let kind = line.strip_prefix("# ").and_then(|line| line.split(':').next());
                let kind = kind.unwrap_or_default();
                let is_known = kind.starts_with("cures") || ["contains", "weakens"].contains(&kind);
                assert!(is_known, "{line}");
                let raises = line.contains("Limit=");
                assert_eq!(raises, kind == "weakens", "{line}");
            }
            assert!(
                explained
                    .change
                    .iter()
                    .any(|line| line.contains("systemctl --user edit editor.scope"))
            );
        }
        let pressure = explain_kill(
            &killed(
                "memory pressure for /a/b.slice being 61.20% > 50.00% for > 20s with reclaim activity",
            ),
            None,
        );
        assert!(
            fact(&pressure, "it saw")
                .unwrap_or_default()
                .starts_with("all processes of /a/b.slice together waited")
        );
        assert!(
            pressure
                .change
                .iter()
                .any(|line| line.contains("under [Slice] in a drop-in of b.slice")),
            "{:?}",
            pressure.change
        );
        assert!(fact(&pressure, "was left").is_none());
    }

    #[test]
    fn a_message_in_another_form_is_not_interpreted() {
        for reason in [
            "memory used (x) / total (9) and swap used (1) / total (2) being more than 90%",
            "memory pressure is high",
            "",
        ] {
            let explained = explain_kill(&killed(reason), None);
            assert_eq!(fact(&explained, "it saw"), None, "{reason}");
            assert!(explained.change.is_empty(), "{:?}", explained.change);
        }
    }
}
