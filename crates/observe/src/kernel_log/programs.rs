// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adds to the kernel's kills those by programs (systemd-oomd, earlyoom, nohang, kubelet), what
//! Docker reports of kills in containers, and what systemd reports of units in which the kernel
//! killed.
//!
//! Their messages are in journald's files. Only messages are used whose sender journald itself
//! recorded: of the unit of such a program, or of process 1. Of a machine without such files, the
//! end of its syslog is read as a text, whose messages any program can have written.
//!
//! A recording has the number of messages, and the kills that they report. A capture has neither the
//! kills, because they contain names, nor then the number, which would mean that there was no kill.

use std::io::BufReader;

use pagewise_hostfs::text::{lines, number, words};
use pagewise_hostfs::{Entry, HostRoot, ReadHost, Refusal, absolute_path};
use pagewise_model::{KernelLog, Name, Reading, Source, UnitKill, UserKill, UserKiller, WallClock};

use super::collected::Text;
use super::text::program_messages::ProgramMessages;
use super::text::read_text;
use crate::journald::{self, FOLDERS};
use crate::limits::SYSLOG_MIB;

/// Files of a syslog with the messages of programs, on Debian and on Fedora.
const SYSLOGS: [&str; 2] = ["var/log/syslog", "var/log/messages"];

/// The path in a recording of the file with the number of messages.
const PATH: &str = "journal/programs";
/// Maximum number of kills and units in a recording. The limit of [`Killers`](super::text) is 200 of each.
const RECORDED: usize = 1_000;
/// Why the number of messages is not known if a recording has no such file.
const NOT_RECORDED: &str = "a recording has no messages of programs";

/// Adds to `log` the kills by programs that journald's files or a syslog report.
pub(super) fn complete(host: &HostRoot, log: KernelLog) -> KernelLog {
    if !host.is_live() {
        match host.bytes(PATH) {
            Err(refusal) if refusal.is_missing() => {}
            Err(refusal) => {
                let program_messages = refusal.reading(Source::file(absolute_path(FOLDERS[0].0)));
                return KernelLog { program_messages, ..log };
            }
            Ok(kept) => return Recorded::parse(&kept).map_or(log.clone(), |it| it.add_to(log)),
        }
    }
    match search(host, &log) {
        Ok(found) => {
            host.remember(PATH, || Recorded::entry(&found));
            found
        }
        Err(refusal) => {
            host.remember(PATH, || Entry::Refused(refusal.clone()));
            let program_messages = refusal.reading(Source::file(absolute_path(FOLDERS[0].0)));
            KernelLog { program_messages, ..log }
        }
    }
}

/// What a recording stores about the messages: how many there were, in which file, and the kills
/// that they report.
#[derive(Debug, Clone, PartialEq)]
struct Recorded {
    read: u64,
    left_out: u64,
    path: &'static str,
    kills: Vec<UserKill>,
    units: Vec<UnitKill>,
}

impl Recorded {
    fn entry(log: &KernelLog) -> Entry {
        let recorded = log.program_messages.get().and_then(|read| {
            let shown = log.program_messages.source.path();
            let path = Self::paths().find(|path| absolute_path(path) == shown)?;
            Some(Self {
                read,
                left_out: log.program_messages_left_out,
                path,
                kills: log.user_kills.clone(),
                units: log.unit_kills.clone(),
            })
        });
        let not_recorded = Refusal::Absent(NOT_RECORDED.into());
        Entry::from_answer(&recorded.map(|recorded| recorded.print()).ok_or(not_recorded))
    }

    fn paths() -> impl Iterator<Item = &'static str> {
        [FOLDERS[0].0].into_iter().chain(SYSLOGS)
    }

    fn has_kill(&self) -> bool {
        !self.kills.is_empty() || !self.units.is_empty()
    }

    /// Formats the count, `programs read=12 left_out=0 of=var/log/journal`, and a line for each kill.
    /// The fields of such a line are separated by tabs, which no [`Name`] contains; an absent field is
    /// empty.
    fn print(&self) -> Vec<u8> {
        let Self { read, left_out, path, kills, units } = self;
        let mut text = format!("programs read={read} left_out={left_out} of={path}\n");
        for kill in kills {
            let killer = killer_word(kill.by);
            let by_unit = u8::from(kill.is_by_unit);
            let pid = optional(kill.pid.as_ref());
            let (time, stamp) =
                (optional(kill.unix_seconds.as_ref()), optional(kill.stamp.as_ref()));
            let (machine, reason) =
                (optional(kill.machine.as_ref()), optional(kill.reason.as_ref()));
            let victim = &kill.victim;
            text += &format!(
                "kill\t{killer}\t{by_unit}\t{pid}\t{time}\t{stamp}\t{machine}\t{victim}\t{reason}\n"
            );
        }
        for unit in units {
            let (process, result) = (u8::from(unit.is_process), u8::from(unit.is_result));
            let (time, stamp) =
                (optional(unit.unix_seconds.as_ref()), optional(unit.stamp.as_ref()));
            let (machine, name) = (optional(unit.machine.as_ref()), &unit.unit);
            text += &format!("unit\t{process}\t{result}\t{time}\t{stamp}\t{machine}\t{name}\n");
        }
        text.into_bytes()
    }

    fn parse(kept: &[u8]) -> Option<Self> {
        let mut all = lines(kept);
        let mut parts = words(all.next()?.strip_prefix(b"programs ")?);
        let read = number(parts.next()?.strip_prefix(b"read=")?)?;
        let left_out = number(parts.next()?.strip_prefix(b"left_out=")?)?;
        let path = parts.next()?.strip_prefix(b"of=")?;
        let path = Self::paths().find(|known| known.as_bytes() == path)?;
        let source = Source::file(absolute_path(path));
        let (mut kills, mut units) = (Vec::new(), Vec::new());
        // a damaged line makes the whole file unknown: without that line it would claim fewer kills
        for line in all.filter(|line| !line.is_empty()) {
            let fields: Vec<&[u8]> = line.split(|byte| *byte == b'\t').collect();
            match fields[..] {
                [b"kill", by, by_unit, pid, time, stamp, machine, victim, reason] => {
                    kills.push(UserKill {
                        source: source.clone(),
                        stamp: name(stamp),
                        unix_seconds: seconds(time)?,
                        machine: name(machine),
                        by: parse_killer(by)?,
                        victim: Name::from_bytes(victim),
                        pid: if pid.is_empty() { None } else { Some(number(pid)?) },
                        reason: name(reason),
                        is_by_unit: flag(by_unit)?,
                    });
                }
                [b"unit", process, result, time, stamp, machine, unit] => units.push(UnitKill {
                    source: source.clone(),
                    stamp: name(stamp),
                    unix_seconds: seconds(time)?,
                    machine: name(machine),
                    unit: Name::from_bytes(unit),
                    is_process: flag(process)?,
                    is_result: flag(result)?,
                }),
                _ => return None,
            }
            if kills.len() + units.len() > RECORDED {
                return None;
            }
        }
        Some(Self { read, left_out, path, kills, units })
    }

    fn add_to(self, log: KernelLog) -> KernelLog {
        KernelLog {
            program_messages: Reading::found(self.read, Source::file(absolute_path(self.path))),
            program_messages_left_out: self.left_out,
            user_kills: self.kills,
            unit_kills: self.units,
            ..log
        }
    }
}

fn optional<T: ToString>(value: Option<&T>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

fn name(field: &[u8]) -> Option<Name> {
    (!field.is_empty()).then(|| Name::from_bytes(field))
}

fn flag(field: &[u8]) -> Option<bool> {
    match field {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    }
}

/// The time in a field, which may be empty; `None` if it is damaged.
fn seconds(field: &[u8]) -> Option<Option<f64>> {
    if field.is_empty() {
        return Some(None);
    }
    let time: f64 = std::str::from_utf8(field).ok()?.parse().ok()?;
    (time.is_finite() && time >= 0.0).then_some(Some(time))
}

const KILLERS: [(UserKiller, &str); 6] = [
    (UserKiller::SystemdOomd, "systemd-oomd"),
    (UserKiller::Earlyoom, "earlyoom"),
    (UserKiller::Lmkd, "lmkd"),
    (UserKiller::Kubelet, "kubelet"),
    (UserKiller::Nohang, "nohang"),
    (UserKiller::Docker, "docker"),
];

fn killer_word(killer: UserKiller) -> &'static str {
    KILLERS.iter().find(|(known, _)| *known == killer).map_or("", |(_, word)| word)
}

fn parse_killer(word: &[u8]) -> Option<UserKiller> {
    KILLERS.iter().find(|(_, known)| known.as_bytes() == word).map(|(killer, _)| *killer)
}

/// Checks a recorded count for a capture: only its numbers may be in the capture, and only if there
/// was no kill.
pub fn check_count(kept: &[u8]) -> Option<Vec<u8>> {
    Recorded::parse(kept).filter(|recorded| !recorded.has_kill()).map(|recorded| recorded.print())
}

/// Checks recorded kills for a record that stays on this machine, which keeps names.
pub fn check_kills(kept: &[u8]) -> Option<Vec<u8>> {
    Recorded::parse(kept).map(|recorded| recorded.print())
}

/// Adds to `log` the kills that the files of this host report.
fn search(host: &HostRoot, log: &KernelLog) -> Result<KernelLog, Refusal> {
    let source = Source::file(absolute_path(FOLDERS[0].0));
    let mut messages = ProgramMessages::default();
    let answer = journald::read_each(host, &mut |file| {
        messages.read_from(file);
        true
    });
    let Err(refusal) = answer else { return Ok(messages.add_to(log.clone(), source)) };
    // the logs of a folder, which were collected, have been searched for programs already
    if log.program_messages.get().is_some() {
        return Ok(log.clone());
    }
    if let Some((lines, of_syslog)) = SYSLOGS.iter().find_map(|path| read_syslog(host, path)) {
        return Ok(KernelLog {
            program_messages: Reading::found(lines, of_syslog.records.source),
            user_kills: of_syslog.user_kills.into_iter().map(with_time).collect(),
            unit_kills: of_syslog.unit_kills,
            ..log.clone()
        });
    }
    Err(match refusal {
        Refusal::Absent(_) if !host.is_live() && !host.is_copy() => {
            Refusal::Absent(NOT_RECORDED.into())
        }
        Refusal::Absent(_) => Refusal::Absent("no files of journald and no syslog here".into()),
        denied @ Refusal::Denied(_) => denied,
    })
}

/// Adds the time that a syslog prints with its time zone, such as `2026-11-28T16:35:03+01:00`.
fn with_time(kill: UserKill) -> UserKill {
    let clock = kill.stamp.as_ref().and_then(|stamp| WallClock::parse(stamp.as_str()));
    match clock {
        Some(WallClock::Absolute(seconds)) => UserKill { unix_seconds: Some(seconds), ..kill },
        _ => kill,
    }
}

/// Reads the end of a syslog; `None` if it is missing, empty or not readable. Returns the number of
/// lines.
fn read_syslog(host: &HostRoot, path: &str) -> Option<(u64, KernelLog)> {
    let pieces = host.pieces(path).ok()?;
    let mut left = (SYSLOG_MIB as u64) << 20;
    let at = pieces.length().saturating_sub(left);
    let text = BufReader::new(Text { pieces, at, left: &mut left });
    let (log, about) = read_text(text, &absolute_path(path)).ok()?;
    (about.lines > 0).then_some((about.lines, log))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::host;

    /// A record of the monitor has the kills that a syslog reports, with their times.
    #[test]
    fn a_syslog_is_recorded_with_the_times_of_kills() {
        let line = |time: &str| {
            format!(
                "{time} guest earlyoom[7]: sending SIGTERM to process 4018 uid 0 \"leak\": badness 9, VmRSS 18 MiB\n"
            )
        };
        let text = line("2026-11-28T18:00:36+01:00") + &line("Nov 28 18:00:37");
        let read = complete(&host([(SYSLOGS[0], text.as_str())]), KernelLog::default());
        let Entry::File(kept) = Recorded::entry(&read) else { panic!("not recorded: {read:?}") };
        let recorded = Recorded::parse(&kept).unwrap();
        // a record has no line numbers
        let kinds = |kill: &UserKill| (kill.by, kill.pid, kill.victim.clone(), kill.unix_seconds);
        let kept: Vec<_> = recorded.kills.iter().map(kinds).collect();
        assert_eq!(kept, read.user_kills.iter().map(kinds).collect::<Vec<_>>());
        let times: Vec<_> = read.user_kills.iter().map(|kill| kill.unix_seconds).collect();
        assert_eq!(times, [Some(1_795_885_236.0), None]);
    }
}
