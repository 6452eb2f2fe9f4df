// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that may show kills whose reports Pagewise could not read.
//!
//! Pagewise reads the kernel log and journald's files, as far as the user may read them. If some of
//! journald's files were skipped, journalctl is suggested: for the part of the kernel log that was
//! overwritten and, if journald stores its files on disk, for earlier boots.

use pagewise_model::{Name, Snapshot};

const GREP: &str = "--grep 'oom-kill:|Killed process'";

/// Returns commands that may show more reports of kills, the most useful first; empty if no other
/// place has more of them.
pub fn suggest_other_sources(host: &Snapshot) -> Vec<String> {
    let log = &host.kernel_log;
    let mut commands = Vec::new();
    if log.records.is_denied() || log.journal_files.is_denied() {
        commands.push("sudo pagewise doctor --oom".to_owned());
    }
    let is_searched = log.journal_files.value().is_some() && log.journal_files_left_out == 0;
    if is_searched || log.journal_files.is_denied() {
        return commands;
    }
    let is_whole = log.records.value().is_some() && !log.wrapped;
    let journal = log.journal.value().map(Name::as_str);
    let counted = host.vmstat.get("oom_kill").get().is_some_and(|kills| kills > 0);
    let is_missing = !is_whole || (counted && log.kills.is_empty());
    if is_missing && journal.is_some() {
        let kept = "this boot, as far back as journald keeps it";
        commands.push(format!("sudo journalctl --dmesg --boot {GREP}  # {kept}"));
    }
    if log.kills.is_empty() && journal == Some(PERSISTENT) {
        commands.push(format!("sudo journalctl --dmesg --boot=-1 {GREP}  # the previous boot"));
    }
    commands
}

/// The word with which `pagewise_observe` reports that the journal is stored on disk.
const PERSISTENT: &str = "persistent";

#[cfg(test)]
mod tests {
    use pagewise_model::{Reading, Source};

    use super::*;
    use crate::testing::kills::by_host;
    use crate::testing::{file, host, set_knob, word};

    fn commands(change: impl FnOnce(&mut Snapshot)) -> Vec<String> {
        let mut host = host();
        change(&mut host);
        suggest_other_sources(&host)
    }

    #[test]
    fn a_log_that_holds_all_needs_no_other() {
        assert_eq!(commands(|_| ()), Vec::<String>::new());
        assert_eq!(commands(|host| host.kernel_log.kills = vec![by_host()]), Vec::<String>::new());
    }

    #[test]
    fn what_was_overwritten_or_not_counted_in_may_be_in_the_journal() {
        let wrapped = commands(|host| {
            host.kernel_log.wrapped = true;
            host.kernel_log.kills = vec![by_host()];
            host.kernel_log.journal = word("/run/log/journal", "volatile");
        });
        assert_eq!(wrapped.len(), 1);
        assert!(wrapped[0].starts_with("sudo journalctl --dmesg --boot --grep 'oom-kill:|"));
        assert!(wrapped[0].ends_with("# this boot, as far back as journald keeps it"));
        let without = commands(|host| host.kernel_log.wrapped = true);
        assert_eq!(without, Vec::<String>::new(), "journald has no files here");
        let lost = commands(|host| {
            set_knob(host, "oom_kill", 3);
            host.kernel_log.journal = word("/run/log/journal", "volatile");
        });
        assert!(lost[0].ends_with("# this boot, as far back as journald keeps it"), "{lost:?}");
    }

    #[test]
    fn files_of_journald_that_were_searched_need_no_other_program() {
        let searched = |left_out| {
            commands(|host| {
                host.kernel_log.wrapped = true;
                host.kernel_log.journal = file("/var/log/journal", Name::from(PERSISTENT));
                host.kernel_log.journal_files = file("/var/log/journal", 3);
                host.kernel_log.journal_files_left_out = left_out;
            })
        };
        assert_eq!(searched(0), Vec::<String>::new());
        assert_eq!(searched(1).len(), 2, "this boot and the one before");
        let denied = commands(|host| {
            host.kernel_log.wrapped = true;
            let at = Source::file("/var/log/journal");
            host.kernel_log.journal_files = Reading::denied("run as root", at);
        });
        assert_eq!(denied, ["sudo pagewise doctor --oom"]);
    }

    #[test]
    fn who_may_not_read_the_log_is_told_of_root_first() {
        let denied = commands(|host| {
            host.kernel_log.records = Reading::denied("run as root", Source::file("/dev/kmsg"));
            host.kernel_log.journal = word("/run/log/journal", "volatile");
        });
        assert_eq!(denied[0], "sudo pagewise doctor --oom");
        assert!(denied[1].starts_with("sudo journalctl --dmesg --boot "));
    }

    #[test]
    fn the_boot_before_is_named_where_journald_persists() {
        let persists = |host: &mut Snapshot| {
            host.kernel_log.journal = file("/var/log/journal", Name::from(PERSISTENT));
        };
        let before = commands(persists);
        assert_eq!(before.len(), 1);
        assert!(before[0].contains("--boot=-1"), "{before:?}");
        let with_kills = commands(|host| {
            persists(host);
            host.kernel_log.kills = vec![by_host()];
        });
        assert_eq!(with_kills, Vec::<String>::new());
    }
}
