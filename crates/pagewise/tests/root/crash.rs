// SPDX-License-Identifier: Apache-2.0 OR MIT
//! If the program crashes during temporary changes, all of them are undone at once, without another
//! run.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::machine::{Place, read, said, write};

/// A setting that can be changed for a moment without any effect on programs.
const KNOB: &str = "/proc/sys/vm/extfrag_threshold";
const SET: [&str; 4] = ["--a", "vm.extfrag_threshold=401", "--b", "vm.extfrag_threshold=601"];
/// Longer than any of these steps takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A trial that changes a setting and creates a cgroup.
fn trial(place: &Place, environment: &[(&str, &str)]) -> Command {
    let line = [&["trial"][..], &SET, &["--memory", "64M", "--", "sleep", "600"]].concat();
    let mut command = place.command(&line);
    command.envs(environment.iter().copied()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn journals(place: &Place) -> usize {
    let Ok(names) = std::fs::read_dir(place.folder.path().join("state")) else { return 0 };
    let is_journal = |name: &std::path::Path| name.extension().is_some_and(|it| it == "journal");
    names.filter(|entry| is_journal(&entry.as_ref().unwrap().path())).count()
}

/// The cgroups of this run; other runs have cgroups, too.
fn groups(pid: u32) -> String {
    let found = Command::new("find")
        .args(["/sys/fs/cgroup", "-type", "d", "-name", &format!("pagewise-{pid}-*")])
        .output()
        .unwrap();
    String::from_utf8(found.stdout).unwrap()
}

/// Waits until standard error is closed, that is, until the helper that undoes changes has ended.
fn ended(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

fn assert_all_is_back(place: &Place, before: &str, pid: u32, what: &str) {
    assert_eq!((&*read(KNOB), &*groups(pid)), (before, ""), "{what}");
    assert_eq!(journals(place), 0, "{what}");
    let undone = place.output(&["undo"]);
    assert_eq!(undone.stdout, b"nothing to put back\n", "{what}: {}", said(&undone));
}

/// Signals as sent by abort() and the kernel, at random moments.
#[test]
fn what_a_fatal_signal_interrupts_goes_back_at_once() {
    let (place, before) = (Place::new(), read(KNOB));
    let signals = [Signal::ABORT, Signal::SEGV, Signal::ABORT, Signal::XFSZ];
    for (round, signal) in (0..12u64).zip(signals.into_iter().cycle()) {
        let child = trial(&place, &[]).spawn().unwrap();
        until("the knob is lent", || read(KNOB) != before);
        std::thread::sleep(Duration::from_millis(round * 17 % 60));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let pid = child.id();
        let ended = ended(child);
        let what = format!("round {round}, {signal:?}: {}", said(&ended));
        assert_eq!(ended.status.signal(), Some(signal.as_raw()), "{what}");
        assert!(said(&ended).contains("was ended before it could put back"), "{what}");
        assert_all_is_back(&place, &before, pid, &what);
    }
}

/// A panic of the release build aborts.
#[test]
fn what_a_panic_interrupts_goes_back() {
    let (place, before) = (Place::new(), read(KNOB));
    for (asked, status, signal) in [
        ("panic:1", Some(101), None),
        ("panic:2", Some(101), None),
        ("abort:1", None, Some(6)),
        ("abort:2", None, Some(6)),
    ] {
        let child = trial(&place, &[("PAGEWISE_TEST_CRASH", asked)]).spawn().unwrap();
        let pid = child.id();
        let ended = ended(child);
        let what = format!("{asked}: {}", said(&ended));
        assert_eq!((ended.status.code(), ended.status.signal()), (status, signal), "{what}");
        if asked.starts_with("panic") {
            assert!(
                said(&ended).contains("pagewise: internal error: asked for by a test"),
                "{what}"
            );
            assert!(said(&ended).contains("what was lent is being put back"), "{what}");
        }
        assert_all_is_back(&place, &before, pid, &what);
    }
}

/// The messages of the crash may not have a reader either.
#[test]
fn nobody_needs_to_read_what_a_crash_says() {
    let (place, before) = (Place::new(), read(KNOB));
    for stream in ["/dev/full", "gone"] {
        let mut command = trial(&place, &[]);
        if stream == "gone" {
            let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
            command.stderr(reader.stdin.take().unwrap());
            reader.wait().unwrap();
        } else {
            command.stderr(std::fs::OpenOptions::new().write(true).open(stream).unwrap());
        }
        let mut child = command.spawn().unwrap();
        until("the knob is lent", || read(KNOB) != before);
        kill_process(Pid::from_child(&child), Signal::ABORT).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(6), "{stream}");
        // the helper holds the lock for a moment longer, and has no stream whose end would show
        // that it has ended
        let is_over = || place.output(&["undo"]).stdout == b"nothing to put back\n";
        until(stream, || journals(&place) == 0 && read(KNOB) == before && is_over());
        assert_all_is_back(&place, &before, child.id(), stream);
    }
}

/// A setting that somebody else changed after the kill stays; the next run says so, and names the
/// command that settles it.
#[test]
fn the_next_run_names_what_is_left_and_the_command() {
    let (mut place, before) = (Place::new(), read(KNOB));
    place.loans.setting(KNOB, &before);
    let mut child = trial(&place, &[]).spawn().unwrap();
    until("the knob is lent", || read(KNOB) != before);
    child.kill().unwrap();
    child.wait().unwrap();
    write(KNOB, "777");
    let line = ["trial", "--aa", "--warm-up", "1", "--pairs", "2", "--memory", "64M", "--", "true"];
    let next = place.output(&line);
    for word in ["vm.extfrag_threshold", "somebody has set 777 since", "`pagewise undo`"] {
        assert!(said(&next).contains(word), "{word}: {}", said(&next));
    }
    assert!(place.output(&["undo"]).status.success());
    assert!(!said(&place.output(&line)).contains("pagewise undo"));
    assert_eq!(journals(&place), 0);
}
