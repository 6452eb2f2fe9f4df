// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages of programs that kill for lack of memory, and of systemd about units, in journald's
//! files ([`ProgramMessages`]).

use pagewise_journald::{JournalFile, Origin, read_programs};
use pagewise_model::{KernelLog, Name, Reading, Source};

use super::killers::{Killers, Place};
use crate::limits::PROGRAM_MESSAGES;

/// Fields of the messages. systemd marks its messages about a unit with an id for each kind, and a
/// failed unit with its result; both can be set by anybody, so process 1 must have sent them.
const ORIGINS: [Origin<'_>; 13] = [
    of_unit(b"_SYSTEMD_UNIT=systemd-oomd.service"),
    of_unit(b"_SYSTEMD_UNIT=earlyoom.service"),
    of_unit(b"_SYSTEMD_UNIT=nohang.service"),
    of_unit(b"_SYSTEMD_UNIT=nohang-desktop.service"),
    of_unit(b"_SYSTEMD_UNIT=kubelet.service"),
    of_unit(b"_SYSTEMD_UNIT=k3s.service"),
    of_unit(b"_SYSTEMD_UNIT=k3s-agent.service"),
    of_unit(b"_SYSTEMD_UNIT=rke2-server.service"),
    of_unit(b"_SYSTEMD_UNIT=rke2-agent.service"),
    of_unit(b"_SYSTEMD_UNIT=docker.service"),
    of_systemd(b"MESSAGE_ID=fe6faa94e7774663a0da52717891d8ef"),
    of_systemd(b"MESSAGE_ID=d989611b15e44c9dbf31e3c81256e4ed"),
    of_systemd(b"UNIT_RESULT=oom-kill"),
];

const fn of_unit(field: &[u8]) -> Origin<'_> {
    Origin { field, trusted: None }
}

const fn of_systemd(field: &[u8]) -> Origin<'_> {
    Origin { field, trusted: Some(b"_PID=1") }
}

/// The messages of journald's files.
#[derive(Debug, Default)]
pub(crate) struct ProgramMessages {
    /// When each was written, in microseconds since 1970, its number, and its text.
    found: Vec<(u64, u64, Vec<u8>)>,
    read: u64,
    left_out: u64,
}

impl ProgramMessages {
    /// Reads the messages of all origins in a file.
    pub(crate) fn read_from(&mut self, file: &mut JournalFile<'_>) {
        let (read, left_out) =
            read_programs(file, &ORIGINS, PROGRAM_MESSAGES as u64, &mut |found| {
                self.found.push((found.realtime, found.sequence, found.text.clone()));
            });
        self.read += read;
        self.left_out += left_out;
    }

    /// Adds to `log` the kills that these messages report.
    pub(crate) fn add_to(mut self, log: KernelLog, source: Source) -> KernelLog {
        // files may overlap if journald was interrupted while it moved them to disk
        self.found.sort();
        self.found.dedup();
        let mut killers = Killers::default();
        for (realtime, sequence, text) in &self.found {
            let place = Place {
                source: Source::line(source.path(), u32::try_from(*sequence).unwrap_or(u32::MAX)),
                unix_seconds: Some(*realtime as f64 / 1e6),
                ..Place::default()
            };
            if !killers.take_unit(text, &place) {
                killers.take(text, &place);
            }
        }
        let (user_kills, unit_kills) = killers.finish();
        let (of_logs, of_units) = (log.user_kills.clone(), log.unit_kills.clone());
        let is_new = |by, victim: &Name| {
            !user_kills.iter().any(|known| (known.by, &known.victim) == (by, victim))
        };
        let logs = of_logs.into_iter().filter(|kill| is_new(kill.by, &kill.victim));
        let user_kills = logs.chain(user_kills.iter().cloned()).collect();
        let is_new = |unit: &Name| !unit_kills.iter().any(|known| known.unit == *unit);
        let units = of_units.into_iter().filter(|kill| is_new(&kill.unit));
        let unit_kills = units.chain(unit_kills.iter().cloned()).collect();
        KernelLog {
            program_messages: Reading::found(self.read, source),
            program_messages_left_out: self.left_out,
            user_kills,
            unit_kills,
            ..log
        }
    }
}
