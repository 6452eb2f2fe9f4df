// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The note by which a run tells other runs that use the same cache what it needs. The note is in
//! the run's folder while it runs, and in its ticket while it waits.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use pagewise_model::{Bytes, duration};
use serde::{Deserialize, Serialize};

use crate::program::printable_line;

/// Memory that QEMU takes in addition to the guest's, in bytes: its own data, and translated code.
const OVERHEAD: u64 = 128 << 20;
/// Maximum number of characters of the label that are shown to others.
const LONGEST_LABEL: usize = 60;

/// What resources a run needs, and who runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunNote {
    /// Number of virtual processors.
    pub(super) cpus: u32,
    /// Memory of the guest and QEMU together, in bytes.
    pub(super) memory: u64,
    /// Who runs it; absent in notes of older versions.
    #[serde(default)]
    run: Option<Runner>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Runner {
    pid: u32,
    /// Target of the link `/proc/self/ns/pid`: the pid is only valid in this namespace.
    pid_namespace: String,
    /// Start of the run or of its wait, in seconds since 1970.
    since: u64,
    /// Text that describes the run: the kernel, and the first words of the command.
    label: String,
}

impl RunNote {
    /// Makes a note of this process, with the present time.
    pub(super) fn new(cpus: u32, memory: Bytes, label: &str) -> Self {
        let mut shown: String = label.chars().take(LONGEST_LABEL).collect();
        if shown.len() < label.len() {
            shown.push('…');
        }
        Self {
            cpus,
            memory: memory.get().saturating_add(OVERHEAD),
            run: Some(Runner {
                pid: std::process::id(),
                pid_namespace: pid_namespace(),
                since: seconds_since_1970(),
                label: shown,
            }),
        }
    }

    /// The same note, with the present time as the start of the run.
    pub(super) fn renew(&self) -> Self {
        let run = self.run.clone().map(|run| Runner { since: seconds_since_1970(), ..run });
        Self { run, ..self.clone() }
    }

    /// Text of the note for other users, such as `pid 4711 since 23:14:05 (3 min): trixie: sh -c …,
    /// 512.0 MiB, 1 CPU`.
    pub(super) fn describe(&self) -> String {
        let memory = Bytes::new(self.memory.saturating_sub(OVERHEAD));
        let size = format!("{memory}, {}", cpus_in_words(self.cpus));
        let Some(run) = &self.run else {
            return format!("a run of another version of pagewise: {size}");
        };
        let elsewhere =
            if run.pid_namespace == pid_namespace() { "" } else { " of another PID namespace" };
        let age = seconds_since_1970().saturating_sub(run.since);
        let age = duration::format_rough(f64::from(u32::try_from(age).unwrap_or(u32::MAX)));
        let (pid, since, label) =
            (run.pid, local_time_of_day(run.since), printable_line(&run.label));
        format!("pid {pid}{elsewhere} since {since} ({age}): {label}, {size}")
    }
}

/// A number of CPUs as text, such as `1 CPU`.
pub(super) fn cpus_in_words(number: u32) -> String {
    if number == 1 { "1 CPU".to_owned() } else { format!("{number} CPUs") }
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The local time of day of a time given in seconds since 1970.
fn local_time_of_day(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|it| Timestamp::from_second(it).ok());
    time.map_or_else(
        || "?".to_owned(),
        |time| time.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string(),
    )
}

fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_describes_its_run_as_ps_and_the_user_know_it() {
        let note = RunNote::new(2, Bytes::new(512 << 20), "trixie: sh -c \x1b[2J");
        let text = note.describe();
        let start = format!("pid {} since ", std::process::id());
        assert!(text.starts_with(&start), "{text}");
        assert!(text.ends_with("): trixie: sh -c \\u{1b}[2J, 512.0 MiB, 2 CPUs"), "{text}");
        let kept: RunNote = serde_json::from_slice(&serde_json::to_vec(&note).unwrap()).unwrap();
        assert_eq!(kept, note);
        assert_eq!(note.renew().memory, note.memory);
    }

    #[test]
    fn a_long_command_is_shortened() {
        let text = RunNote::new(1, Bytes::new(1 << 30), &"ä".repeat(1000)).describe();
        assert!(text.contains(&format!("{}…,", "ä".repeat(60))), "{text}");
    }

    #[test]
    fn a_note_of_an_older_version_counts_and_one_of_elsewhere_says_so() {
        let old: RunNote = serde_json::from_str(r#"{"cpus":1,"memory":671088640}"#).unwrap();
        let text = old.describe();
        assert_eq!(text, "a run of another version of pagewise: 512.0 MiB, 1 CPU");
        let mut note = RunNote::new(1, Bytes::new(1 << 30), "x");
        if let Some(run) = &mut note.run {
            "pid:[1]".clone_into(&mut run.pid_namespace);
        }
        assert!(note.describe().contains(" of another PID namespace since "));
    }
}
