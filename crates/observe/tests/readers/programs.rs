// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kills by programs, and failed units, in journald's files and in a syslog.

use pagewise_hostfs::{Entry, HostRoot, ReadHost};
use pagewise_journald::written::{Packing, Variant, Written, make_journal};
use pagewise_model::{KernelLog, Taken, UnitKill, UserKill, UserKiller};
use pagewise_observe::formats::kernel_log::check_program_count;
use pagewise_observe::kernel_log as read;

use crate::testing::{denied_entry, file};

const FILE: &str = "var/log/journal/0123456789abcdef0123456789abcdef/system.journal";
const OOMD: &[&str] = &["_SYSTEMD_UNIT=systemd-oomd.service", "SYSLOG_IDENTIFIER=systemd-oomd"];
const SYSTEMD: &[&str] = &["_PID=1", "SYSLOG_IDENTIFIER=systemd"];
const FAILED: &str = "UNIT_RESULT=oom-kill";
const PROCESS: &str = "MESSAGE_ID=fe6faa94e7774663a0da52717891d8ef";
const BY_OOMD: &str = "MESSAGE_ID=d989611b15e44c9dbf31e3c81256e4ed";

const BY_SWAP: &str = "Killed /user.slice/user-1000.slice/user@1000.service/app.slice/editor.scope due to memory used \
    (15460000000) / total (16000000000) and swap used (7730000000) / total (8500000000) being more than 90.00%";

/// A message of a program, this many seconds after the first.
fn message(at: u64, fields: &[&str], text: &str) -> Written {
    Written::by_program([5; 16], (1_764_000_000 + at) * 1_000_000, fields, text)
}

fn of_systemd(at: u64, marks: &[&str], text: &str) -> Written {
    message(at, &[SYSTEMD, marks].concat(), text)
}

fn log_of(messages: &[Written], packing: Packing) -> KernelLog {
    let variant = Variant { is_compact: true, is_keyed: true, packing, buckets: 64 };
    let host = HostRoot::memory([
        file("dev/kmsg", "6,0,0,-;x\n"),
        file(FILE, make_journal(&variant, messages)),
    ]);
    read(&host, &Taken::default())
}

#[test]
fn each_killer_is_found_in_files_of_journald() {
    let earlyoom = "sending SIGTERM to process 999 uid 1000 \"tab\": badness 900, VmRSS 3000 MiB";
    let messages = [
        message(0, OOMD, "Marked /user.slice for killing"),
        message(1, OOMD, BY_SWAP),
        of_systemd(1, &[BY_OOMD], "editor.scope: systemd-oomd killed 12 process(es) in this unit."),
        message(20, &["_SYSTEMD_UNIT=earlyoom.service"], earlyoom),
        message(
            30,
            &["_SYSTEMD_UNIT=nohang.service"],
            "  PID:  77, name: indexer, state: S, EUID: 1000",
        ),
        message(30, &["_SYSTEMD_UNIT=nohang.service"], "  Sending SIGTERM to the victim"),
        message(
            40,
            &["_SYSTEMD_UNIT=kubelet.service"],
            "\"Eviction manager: pod is evicted successfully\" pod=\"a/b\"",
        ),
        of_systemd(
            50,
            &[PROCESS],
            "db.service: A process of this unit has been killed by the OOM killer.",
        ),
        of_systemd(51, &[FAILED], "db.service: Failed with result 'oom-kill'."),
        of_systemd(3_000, &[FAILED], "db.service: Failed with result 'oom-kill'."),
    ];
    for packing in [Packing::Plain, Packing::Lz4, Packing::Zstd] {
        let log = log_of(&messages, packing);
        let found: Vec<_> = log
            .user_kills
            .iter()
            .map(|kill| (kill.by, kill.victim.as_str(), kill.unix_seconds.unwrap() - 1.764e9))
            .collect();
        let scope = "/user.slice/user-1000.slice/user@1000.service/app.slice/editor.scope";
        let expected = [
            (UserKiller::SystemdOomd, scope, 1.0),
            (UserKiller::Earlyoom, "tab", 20.0),
            (UserKiller::Nohang, "indexer", 30.0),
            (UserKiller::Kubelet, "a/b", 40.0),
        ];
        assert_eq!(found, expected);
        assert_eq!(log.user_kills[0].source.to_string(), "/var/log/journal:2");
        let units: Vec<_> = log
            .unit_kills
            .iter()
            .map(|kill| (kill.unit.as_str(), kill.is_process, kill.is_result))
            .collect();
        assert_eq!(units, [("db.service", true, true), ("db.service", false, true)]);
        assert_eq!((log.program_messages.get(), log.program_messages_left_out), (Some(10), 0));
    }
}

/// The fields without `_` can be set by anybody (`logger -t systemd-oomd`).
#[test]
fn a_user_cannot_forge_a_kill() {
    let forged = [
        message(1, &["_SYSTEMD_UNIT=user@1000.service", "SYSLOG_IDENTIFIER=systemd-oomd"], BY_SWAP),
        message(2, &["_PID=4000", FAILED], "db.service: Failed with result 'oom-kill'."),
        message(
            3,
            &["_PID=4000", PROCESS],
            "db.service: A process of this unit has been killed by the OOM killer.",
        ),
    ];
    let with_true = [forged.as_slice(), &[of_systemd(4, &[], "Started a unit.")]].concat();
    for messages in [forged.as_slice(), &with_true] {
        let log = log_of(messages, Packing::Plain);
        assert!(log.user_kills.is_empty() && log.unit_kills.is_empty(), "{log:#?}");
        assert_eq!(log.program_messages.get(), Some(0));
    }
}

#[test]
fn of_a_program_that_writes_much_the_newest_are_read_and_the_rest_counted() {
    let mut messages = vec![message(0, OOMD, BY_SWAP)];
    messages.extend((1..1_100).map(|at| message(at, OOMD, &format!("pressure is {at}"))));
    messages.push(message(2_000, OOMD, &BY_SWAP.replace("editor", "browser")));
    let log = log_of(&messages, Packing::Plain);
    assert_eq!((log.program_messages.get(), log.program_messages_left_out), (Some(1_024), 77));
    let [kill] = &log.user_kills[..] else { panic!("{:#?}", log.user_kills) };
    assert!(kill.victim.as_str().ends_with("browser.scope"));
}

#[test]
fn without_files_of_journald_the_syslog_is_read() {
    let syslog = format!("Nov 20 10:00:01 h1 systemd-oomd[840]: {BY_SWAP}\n");
    for path in ["var/log/syslog", "var/log/messages"] {
        let host = HostRoot::memory([file("dev/kmsg", "6,0,0,-;x\n"), file(path, syslog.as_str())]);
        let log = read(&host, &Taken::default());
        assert_eq!(log.user_kills.len(), 1, "{log:#?}");
        assert_eq!(log.user_kills[0].source.to_string(), format!("/{path}:1"));
        assert_eq!(log.program_messages.source.path(), format!("/{path}"));
    }
}

/// Neither is "no kill by a program".
#[test]
fn what_may_not_be_read_is_not_known() {
    let kmsg = || file("dev/kmsg", "6,0,0,-;x\n");
    let none = read(&HostRoot::memory([kmsg()]), &Taken::default());
    assert!(none.program_messages.get().is_none() && !none.program_messages.is_denied());
    let denied = HostRoot::memory([kmsg(), denied_entry(FILE)]);
    let log = read(&denied, &Taken::default());
    assert!(log.program_messages.is_denied(), "{:?}", log.program_messages);
}

/// A recording has the kills. A capture has neither them nor, then, the number of messages.
#[test]
fn a_recording_has_the_kills_and_a_capture_never_claims_that_there_was_none() {
    let recorded = |messages: &[Written]| {
        let bytes = make_journal(&Variant { buckets: 64, ..Variant::default() }, messages);
        let host = HostRoot::memory([file("dev/kmsg", "6,0,0,-;x\n"), file(FILE, bytes)]);
        let host = host.start_remembering();
        let original = read(&host, &Taken::default());
        let tape = host.into_remembered_files();
        let kept = tape.iter().find(|(path, _)| *path == "journal/programs").unwrap().1.clone();
        let Entry::File(kept) = kept else { panic!("{kept:?}") };
        (original, read(&HostRoot::memory(tape), &Taken::default()), kept)
    };
    let (quiet, replay, kept) = recorded(&[message(1, OOMD, "quiet")]);
    assert_eq!(replay.program_messages.get(), Some(1));
    assert_eq!(format!("{quiet:?}"), format!("{replay:?}"));
    assert_eq!(check_program_count(&kept), Some(kept));

    let earlyoom = "sending SIGTERM to process 999 uid 1000 \"a\tb\": badness 900, VmRSS 3000 MiB";
    let messages = [
        message(1, OOMD, BY_SWAP),
        message(2, &["_SYSTEMD_UNIT=earlyoom.service"], earlyoom),
        of_systemd(3, &[FAILED], "db.service: Failed with result 'oom-kill'."),
    ];
    let (original, replay, kept) = recorded(&messages);
    assert_eq!((original.user_kills.len(), original.unit_kills.len()), (2, 1), "{original:#?}");
    let source = replay.program_messages.source.clone();
    let users = original.user_kills.into_iter();
    let users = users.map(|kill| UserKill { source: source.clone(), ..kill });
    assert_eq!(replay.user_kills, users.collect::<Vec<_>>());
    let units = original.unit_kills.into_iter();
    let units = units.map(|kill| UnitKill { source: source.clone(), ..kill });
    assert_eq!(replay.unit_kills, units.collect::<Vec<_>>());
    assert_eq!(check_program_count(&kept), None);

    let head = "programs read=1 left_out=0 of=var/log/journal\n";
    for garbled in [
        "",
        "programs",
        "programs read=1 left_out=2 of=etc/shadow",
        "programs read=-1",
        &format!("{head}kill\n"),
        &format!("{head}kill\tnobody\t0\t\t\t\t\tx\t\n"),
        &format!("{head}kill\tsystemd-oomd\t0\t\tinf\t\t\tx\t\n"),
        &format!("{head}unit\t2\t0\t\t\t\tx\n"),
        &format!("{head}{}", "unit\t1\t0\t\t\t\tx\n".repeat(1_001)),
    ] {
        let host =
            HostRoot::memory([file("dev/kmsg", "6,0,0,-;x\n"), file("journal/programs", garbled)]);
        assert!(read(&host, &Taken::default()).program_messages.get().is_none(), "{garbled}");
        assert_eq!(check_program_count(garbled.as_bytes()), None);
    }
}
