// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recognises messages of programs that kill for lack of memory before the kernel does:
//! systemd-oomd, earlyoom, nohang, Android's lmkd, and kubelet's evictions; and Docker's events of
//! kills by the kernel.
//!
//! The messages are those of `src/oom/oomd-manager.c` of systemd 248 to 257, `main.c` and `kill.c` of earlyoom 1.3
//! to 1.8, and `lmkd.cpp` of Android 12 to 15. A message that only announces a kill ("Marked … for killing") is not
//! counted, because the kill has a message of its own. systemd's "systemd-oomd killed 12 process(es) in this unit"
//! is counted only if there is no message of systemd-oomd.

use memchr::memmem;
use pagewise_hostfs::text::number;
use pagewise_model::{Name, Source, UnitKill, UserKill, UserKiller};

/// Maximum number of kills by programs, and of messages about units, that are kept: the newest of
/// journald's files, the first of a text.
const KEPT: usize = 200;
/// Maximum time in seconds between systemd's messages that a process was killed and that its unit failed.
const TOGETHER: f64 = 60.0;

/// Where a message is, and when it was written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    pub(crate) source: Source,
    pub(crate) stamp: Option<Name>,
    pub(crate) machine: Option<Name>,
    pub(crate) unix_seconds: Option<f64>,
}

/// The kills by programs, and what systemd wrote of units, so far.
#[derive(Debug, Default)]
pub(crate) struct Killers {
    /// The process that nohang last named, before it sends the signal.
    nohang_victim: Option<(u32, Name)>,
    kills: Vec<UserKill>,
    units: Vec<UnitKill>,
}

impl Killers {
    /// Keeps a kill by a program; false if the message is none.
    pub(crate) fn take(&mut self, text: &[u8], place: &Place) -> bool {
        if let Some(victim) = parse_nohang_victim(text) {
            self.nohang_victim = Some(victim);
            return false;
        }
        let Some(mut found) = parse(text) else { return false };
        if found.by == UserKiller::Nohang {
            if let Some((pid, name)) = self.nohang_victim.take() {
                (found.pid, found.victim) = (Some(pid), name);
            }
        }
        if self.kills.len() < KEPT {
            let Place { source, stamp, machine, unix_seconds } = place.clone();
            self.kills.push(UserKill { source, stamp, machine, unix_seconds, ..found });
        }
        true
    }

    /// Keeps what systemd writes of a unit in which the OOM killer killed; false if the message is
    /// another.
    pub(crate) fn take_unit(&mut self, text: &[u8], place: &Place) -> bool {
        let Some(found) = parse_unit(text) else { return false };
        let continues = |known: &UnitKill| {
            let apart = known.unix_seconds.zip(place.unix_seconds);
            known.unit == found.unit
                && known.machine == place.machine
                && !(known.is_result && found.is_result || known.is_process && found.is_process)
                && apart.is_none_or(|(one, other)| (one - other).abs() <= TOGETHER)
        };
        let last = self.units.iter_mut().rev().find(|known| known.unit == found.unit);
        if let Some(known) = last.filter(|known| continues(known)) {
            known.is_process |= found.is_process;
            known.is_result |= found.is_result;
        } else if self.units.len() < KEPT {
            let Place { source, stamp, machine, unix_seconds } = place.clone();
            self.units.push(UnitKill { source, stamp, machine, unix_seconds, ..found });
        }
        true
    }

    /// Returns what was found. systemd's messages about kills by systemd-oomd are left out if there are messages of
    /// systemd-oomd itself.
    pub(crate) fn finish(self) -> (Vec<UserKill>, Vec<UnitKill>) {
        (drop_repeated(self.kills), self.units)
    }
}

/// The kills without systemd's messages about units, if the killer's own messages are there.
fn drop_repeated(mut kills: Vec<UserKill>) -> Vec<UserKill> {
    let own: Vec<UserKill> = kills.iter().filter(|kill| !kill.is_by_unit).cloned().collect();
    let is_named =
        |unit: &str| own.iter().any(|kill| kill.victim.as_str().rsplit('/').next() == Some(unit));
    kills.retain(|kill| !kill.is_by_unit || !is_named(kill.victim.as_str()));
    kills
}

/// Parses `UNIT: A process of this unit has been killed by the OOM killer.`, since systemd 243, and `UNIT: Failed
/// with result 'oom-kill'.`
fn parse_unit(text: &[u8]) -> Option<UnitKill> {
    let (unit, rest) = split(text, ": ")?;
    let is_process = rest.starts_with(b"A process of this unit has been killed by the OOM killer");
    let is_result = rest.starts_with(b"Failed with result 'oom-kill'");
    let is_unit = !unit.is_empty() && !unit.contains(&b' ') && unit.contains(&b'.');
    (is_unit && (is_process || is_result)).then(|| UnitKill {
        unit: Name::from_bytes(unit),
        is_process,
        is_result,
        ..UnitKill::default()
    })
}

/// The kill of which a message reports, without its time and place.
fn parse(text: &[u8]) -> Option<UserKill> {
    parse_oomd(text)
        .or_else(|| parse_systemd(text))
        .or_else(|| parse_earlyoom(text))
        .or_else(|| parse_lmkd(text))
        .or_else(|| parse_kubelet(text))
        .or_else(|| parse_nohang(text))
        .or_else(|| parse_docker(text))
}

/// Parses the line in which nohang names the victim, some lines before it sends a signal: `PID: 77, name: indexer,
/// state: S, EUID: 1000, …`.
fn parse_nohang_victim(text: &[u8]) -> Option<(u32, Name)> {
    let rest = text.trim_ascii().strip_prefix(b"PID:")?;
    let (pid, rest) = split(rest, ", name: ")?;
    let (name, _) = split(rest, ", state: ")?;
    Some((number(pid.trim_ascii())?, Name::from_bytes(name)))
}

/// Parses nohang's line `Sending SIGTERM to the victim`. The victim is in an earlier line.
fn parse_nohang(text: &[u8]) -> Option<UserKill> {
    let rest = text.trim_ascii().strip_prefix(b"Sending SIG")?;
    let signal = rest.strip_suffix(b" to the victim")?;
    let reason = [b"SIG", signal].concat();
    Some(kill(UserKiller::Nohang, b"a process that nohang does not name here", &reason))
}

/// Parses `container oom 4c01db0b339c… (image=redis, name=cache)` of `docker events`. An exit code of 137 is not
/// counted, because any SIGKILL causes it.
fn parse_docker(text: &[u8]) -> Option<UserKill> {
    let (before, rest) = split(text, "container oom ")?;
    let is_start =
        before.is_empty() || before.ends_with(b" ") && !before.trim_ascii().contains(&b' ');
    let (id, attributes) = split(rest, " (").filter(|_| is_start)?;
    let is_id = !id.is_empty() && id.iter().all(u8::is_ascii_hexdigit);
    let attributes = attributes.strip_suffix(b")").filter(|_| is_id)?;
    let name = attributes
        .split(|&byte| byte == b',')
        .find_map(|attribute| attribute.trim_ascii().strip_prefix(b"name="));
    Some(kill(UserKiller::Docker, name.unwrap_or(id), b"event oom of the container"))
}

fn kill(by: UserKiller, victim: &[u8], reason: &[u8]) -> UserKill {
    const LONGEST: usize = 400;
    let reason = &reason[..reason.len().min(LONGEST)];
    UserKill {
        by,
        victim: Name::from_bytes(victim),
        reason: Some(Name::from_bytes(reason)).filter(|_| !reason.is_empty()),
        ..UserKill::default()
    }
}

fn split<'a>(text: &'a [u8], words: &str) -> Option<(&'a [u8], &'a [u8])> {
    let at = memmem::find(text, words.as_bytes())?;
    Some((&text[..at], &text[at + words.len()..]))
}

/// Parses `Killed PATH due to memory pressure for PATH being 51.07% > 50.00% for > 20s with reclaim activity`, or
/// `… due to memory used (U) / total (T) and swap used (U) / total (T) being more than 90.00%`.
fn parse_oomd(text: &[u8]) -> Option<UserKill> {
    let rest = text.strip_prefix(b"Killed ")?;
    let (path, reason) = split(rest, " due to ")?;
    (path.starts_with(b"/") && reason.starts_with(b"memory ")).then_some(())?;
    Some(kill(UserKiller::SystemdOomd, path, reason))
}

/// Parses `UNIT: systemd-oomd killed 12 process(es) in this unit.`
fn parse_systemd(text: &[u8]) -> Option<UserKill> {
    let (unit, rest) = split(text, ": systemd-oomd killed ")?;
    let (count, _) = split(rest, " process(es) in this unit")?;
    number::<u64>(count)?;
    let reason = [count, b" processes of the unit"].concat();
    let mut found = kill(UserKiller::SystemdOomd, unit, &reason);
    found.is_by_unit = true;
    Some(found)
}

/// Parses `sending SIGTERM to process 9999 uid 1000 "Web Content": badness 900, VmRSS 3000 MiB`
fn parse_earlyoom(text: &[u8]) -> Option<UserKill> {
    let (_, rest) = split(text, "sending SIG").filter(|(before, _)| before.is_empty())?;
    let (signal, rest) = split(rest, " to process ")?;
    let (pid, rest) = split(rest, " ")?;
    let (_, rest) = split(rest, "\"")?;
    let end = memmem::rfind(rest, b"\": ").or_else(|| memmem::rfind(rest, b"\""))?;
    let reason = [b"SIG", signal, b": ", after_quote(&rest[end..])].concat();
    let mut found = kill(UserKiller::Earlyoom, &rest[..end], &reason);
    found.pid = number(pid);
    Some(found)
}

/// The text after a quote, a colon and a blank.
fn after_quote(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\": ").or_else(|| text.strip_prefix(b"\"")).unwrap_or(text)
}

/// Parses `Kill 'com.example' (1234), uid 10123, oom_score_adj 900 to free 12345kB rss, …; reason: …`
fn parse_lmkd(text: &[u8]) -> Option<UserKill> {
    let rest = text.strip_prefix(b"Kill '")?;
    let (name, rest) = split(rest, "' (")?;
    let (pid, rest) = split(rest, "), uid ")?;
    let (_, reason) = split(rest, ", ")?;
    let mut found = kill(UserKiller::Lmkd, name, reason);
    found.pid = number(pid);
    Some(found)
}

/// Parses `Eviction manager: pod NAME is evicted successfully`
fn parse_kubelet(text: &[u8]) -> Option<UserKill> {
    let (_, rest) = split(text, "Eviction manager: pod ")?;
    let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
    let (pod, _) = split(rest, " is evicted successfully").or_else(|| {
        let (_, rest) = split(rest, "is evicted successfully\" pod=\"")?;
        split(rest, "\"")
    })?;
    Some(kill(UserKiller::Kubelet, pod, b"evicted for lack of memory on the node"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_of_each_killer_are_known() {
        let cases: &[(&str, UserKiller, &str)] = &[
            (
                "Killed /user.slice/a.scope due to memory pressure for /user.slice being 61.20% > 50.00% for > 20s with reclaim activity",
                UserKiller::SystemdOomd,
                "/user.slice/a.scope",
            ),
            (
                "Killed /system.slice/b.service due to memory used (9) / total (10) and swap used (9) / total (10) being more than 90.00%",
                UserKiller::SystemdOomd,
                "/system.slice/b.service",
            ),
            (
                "a.scope: systemd-oomd killed 12 process(es) in this unit.",
                UserKiller::SystemdOomd,
                "a.scope",
            ),
            (
                "sending SIGTERM to process 999 uid 1000 \"Web \"Content\": badness 900, VmRSS 3000 MiB",
                UserKiller::Earlyoom,
                "Web \"Content",
            ),
            (
                "Kill 'org.shop' (77), uid 10001, oom_score_adj 900 to free 12kB rss",
                UserKiller::Lmkd,
                "org.shop",
            ),
            ("container oom 4c01db0b339c (image=kv:7, name=cache)", UserKiller::Docker, "cache"),
            (
                "2026-11-02T10:00:00.000000000Z container oom 4c01db0b339c (image=kv:7)",
                UserKiller::Docker,
                "4c01db0b339c",
            ),
            (
                "  Sending SIGKILL to the victim",
                UserKiller::Nohang,
                "a process that nohang does not name here",
            ),
        ];
        for (text, by, victim) in cases {
            let found = parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((found.by, found.victim.as_str()), (*by, *victim));
            assert!(found.reason.is_some());
        }
        for text in [
            "Killed process 1 (x)",
            "Marked /a for killing",
            "Killed /a due to boredom",
            "sending SIG",
            "container oom is near (see the manual)",
            "container die 4c01db0b339c (exitCode=137, name=cache)",
            "Sending SIGTERM to everybody",
        ] {
            assert!(parse(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn nohang_names_its_victim_in_a_line_of_its_own() {
        let line =
            b"  PID:       77, name: indexer, state: S, EUID: 1000, SID: 5 (bash), lifetime: 9";
        assert_eq!(parse_nohang_victim(line), Some((77, Name::from("indexer"))));
        assert_eq!(parse_nohang_victim(b"PID: 77"), None);
    }
}
