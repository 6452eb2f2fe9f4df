// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Temporary changes (loans) to this machine are undone: at the end of the run, after an error, a
//! panic or a Ctrl-C, and by the next start after a kill.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::example::example;
use crate::machine::{Lent, Loans, Thing};
use serde_json::Value;
use tempfile::TempDir;

/// The size of every device of `examples/borrow.rs`, and of no other device.
const SIZE: u64 = (8 << 20) + (17 << 12);

/// Settings that can be changed for a moment without any effect on programs.
const KNOBS: [(&str, &str); 3] = [
    ("vm.extfrag_threshold", "/proc/sys/vm/extfrag_threshold"),
    ("vm.dirty_background_bytes", "/proc/sys/vm/dirty_background_bytes"),
    ("vm.dirty_background_ratio", "/proc/sys/vm/dirty_background_ratio"),
];

/// A state folder for this test; dropping it undoes all loans in it.
struct Place {
    // these two are dropped first, because they need the folder
    _loans: Loans,
    lent: Lent,
    folder: TempDir,
    /// Zram devices without a size that existed before.
    others: BTreeSet<Thing>,
}

impl Place {
    fn new() -> Self {
        let folder = pagewise_testkit::folder_on_disk();
        let mut loans = Loans::new();
        let (state, program) = (folder.path().join("state"), env!("CARGO_BIN_EXE_pagewise"));
        // `borrow` ends when this test does, but perhaps not at once
        loans.promise(&format!(
            "for i in $(seq 60); do PAGEWISE_LOCK='{}' PAGEWISE_STATE='{}' '{program}' undo \
             > /dev/null && break; sleep 1; done",
            folder.path().join("run").display(),
            state.display()
        ));
        let lent = Lent::by_runs_in(&state);
        Self { folder, lent, _loans: loans, others: without_size() }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn borrow(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(example("borrow"));
        command.args(arguments).env("PAGEWISE_STATE", self.state());
        command.env("PAGEWISE_LOCK", self.folder.path().join("run"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Starts `borrow`, and returns when it has made all changes and waits.
    fn borrower(&self, loans: &[&str]) -> Borrower {
        let mut child = self.borrow(&[&["once"], loans].concat()).spawn().unwrap();
        let mut lines = Vec::new();
        let out = child.stdout.take().unwrap();
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if line == "ready" {
                return Borrower { child, lines };
            }
            lines.push(line);
        }
        panic!("not ready, {}: {lines:?}", child.wait().unwrap());
    }

    /// Runs `borrow` until it ends by itself.
    fn borrowed(&self, loans: &[&str]) -> Output {
        let mut command = self.borrow(&[&["once"], loans].concat());
        command.stdin(Stdio::null()).stderr(Stdio::piped()).output().unwrap()
    }

    fn undo(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"));
        command.arg("undo").args(arguments).env("PAGEWISE_STATE", self.state());
        command.env("PAGEWISE_LOCK", self.folder.path().join("run"));
        command.output().unwrap()
    }

    /// Runs `undo`, and repeats it while it is uncertain: a run that was killed while it created a
    /// device has not recorded its number, so a device without a size that somebody else created at
    /// that moment may be it.
    fn undo_for_certain(&self, arguments: &[&str]) -> Output {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let ended = self.undo(arguments);
            let text = String::from_utf8_lossy(&ended.stdout).into_owned() + &said(&ended);
            let is_uncertain = !ended.status.success() && text.contains("may be");
            if !is_uncertain || Instant::now() >= until {
                return ended;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// What a successful undo did: each change, and its outcome.
    fn undone(&self) -> Vec<(String, String)> {
        let ended = self.undo_for_certain(&["--json"]);
        let complaint = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{complaint}");
        let document: Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(document["schema"], "pagewise/undo/1");
        let runs = document["runs"].as_array().unwrap();
        let returns = runs.iter().flat_map(|run| run["returns"].as_array().unwrap());
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        returns.map(|it| (word(&it["what"]), word(&it["outcome"]["is"]))).collect()
    }

    fn journals(&self) -> usize {
        let names = std::fs::read_dir(self.state()).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|it| it == "journal")).count()
    }

    fn swap_files(&self) -> usize {
        let names = std::fs::read_dir(self.folder.path()).unwrap();
        names.filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_file()).count()
    }

    /// Checks that nothing of the runs is left on the machine, and that the settings are as before.
    #[track_caller]
    fn assert_nothing_left(&self, before: &Machine) {
        assert_eq!((&Machine::now(), self.lent.there()), (before, Vec::new()));
        assert_eq!((self.journals(), self.swap_files()), (0, 0));
        // a device without a size that no journal names may be somebody else's, which is removed
        // soon; ours would stay
        let new: Vec<Thing> = without_size().difference(&self.others).cloned().collect();
        let until = Instant::now() + Duration::from_secs(60);
        while new.iter().any(Thing::is_there) {
            assert!(Instant::now() < until, "one of {new:?} is left");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

struct Borrower {
    child: Child,
    lines: Vec<String>,
}

impl Borrower {
    /// What it printed about its newest loan of this kind.
    fn place(&self, kind: &str) -> String {
        let message = self.lines.iter().rev().find_map(|line| line.strip_prefix(kind));
        message.unwrap_or_else(|| panic!("no {kind} in {:?}", self.lines)).trim().to_owned()
    }

    fn finish(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// What loans may change. Of zram devices only those of our size, because others have devices, too.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    zram: Vec<String>,
    swaps: Vec<String>,
    knobs: Vec<String>,
}

impl Machine {
    fn now() -> Self {
        let knobs = KNOBS.map(|(_, path)| crate::machine::read(path)).to_vec();
        let zram = devices().filter(|(_, size)| *size == SIZE).map(|(name, _)| name).collect();
        Self { zram, swaps: swaps(), knobs }
    }
}

/// The existing zram devices, with their sizes.
fn devices() -> impl Iterator<Item = (String, u64)> {
    let names = std::fs::read_dir("/sys/block").unwrap().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("zram")).filter_map(|name| {
        let size = std::fs::read_to_string(format!("/sys/block/{name}/disksize")).ok()?;
        Some((name, size.trim().parse().ok()?))
    })
}

fn without_size() -> BTreeSet<Thing> {
    let sizeless = devices().filter(|(_, size)| *size == 0);
    sizeless.filter_map(|(name, _)| Thing::zram(name.strip_prefix("zram")?.parse().ok()?)).collect()
}

/// Swap areas of our devices' size less one page, which the kernel uses for its header.
fn swaps() -> Vec<String> {
    let text = crate::machine::read("/proc/swaps");
    let ours = ((SIZE >> 10) - 4).to_string();
    let lines = text.lines().filter(|line| line.split_whitespace().nth(2) == Some(&ours));
    lines.map(str::to_owned).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_loan_is_taken_and_goes_back() {
    let place = Place::new();
    let before = Machine::now();
    let file = format!("file:{}", place.folder.path().display());
    let knobs = ["vm.extfrag_threshold=499", "vm.dirty_background_bytes=67108864"];
    let loans = ["zram:lz4", "swap", &file, "swap", "group", "member", knobs[0], knobs[1]];
    let borrower = place.borrower(&loans);

    let device = borrower.place("zram").replace("/dev", "/sys/block");
    assert_eq!(crate::machine::read(&format!("{device}/disksize")), SIZE.to_string());
    assert!(crate::machine::read(&format!("{device}/comp_algorithm")).contains("[lz4]"));
    let areas = swaps();
    assert!(areas.iter().any(|area| area.starts_with(&borrower.place("zram"))), "{areas:?}");
    assert!(areas.iter().any(|area| area.starts_with(&borrower.place("file"))), "{areas:?}");
    let group = borrower.place("group");
    assert_eq!(crate::machine::read(&format!("{group}/memory.limit_in_bytes")), SIZE.to_string());
    assert_eq!(crate::machine::read(KNOBS[0].1), "499");
    assert_eq!(
        (crate::machine::read(KNOBS[1].1).as_str(), crate::machine::read(KNOBS[2].1).as_str()),
        ("67108864", "0")
    );
    assert_eq!(place.journals(), 1);

    borrower.finish();
    place.assert_nothing_left(&before);
}

#[test]
fn what_a_killed_run_left_is_put_back_by_undo() {
    let place = Place::new();
    let before = Machine::now();
    let file = format!("file:{}", place.folder.path().display());
    let loans =
        ["zram", "swap", &file, "swap", "group", "member", "vm.dirty_background_bytes=67108864"];
    let borrower = place.borrower(&loans);
    let group = borrower.place("group");
    let member = wait_for_member(&group);
    borrower.kill();
    assert_ne!(Machine::now(), before);

    let undone = place.undone();
    assert_eq!(undone.len(), 6, "{undone:?}");
    assert!(undone.iter().all(|(_, how)| how == "returned"), "{undone:?}");
    assert!(undone[0].0.contains("vm.dirty_background_bytes"), "the last goes first: {undone:?}");
    place.assert_nothing_left(&before);
    assert!(!Path::new(&format!("/proc/{member}/root")).exists(), "{member} lives");
    assert_eq!(place.undone(), []);
    assert_eq!(place.undo(&[]).stdout, b"nothing to put back\n");
}

/// Waits for the process that joins the cgroup, which takes a moment.
fn wait_for_member(group: &str) -> String {
    for _ in 0..6000 {
        let members = crate::machine::read(&format!("{group}/cgroup.procs"));
        if let Some(member) = members.lines().next() {
            return member.to_owned();
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("nobody joined {group}")
}

#[test]
fn ctrl_c_a_panic_and_an_error_give_back() {
    let place = Place::new();
    let before = Machine::now();
    let mut stopped = place.borrower(&["zram", "group", "vm.extfrag_threshold=499"]);
    crate::machine::run("kill", &["-INT", &stopped.child.id().to_string()]);
    assert!(stopped.child.wait().unwrap().success());
    place.assert_nothing_left(&before);

    let panicked = place.borrowed(&["zram", "group", "vm.extfrag_threshold=499", "panic"]);
    assert_eq!(panicked.status.code(), Some(101), "{}", said(&panicked));
    place.assert_nothing_left(&before);

    let refused = place.borrowed(&["group", "vm.extfrag_threshold=499", "zram:no-such"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("no-such"), "{}", said(&refused));
    place.assert_nothing_left(&before);
}

#[test]
fn a_second_run_is_refused_and_told_who_borrows() {
    let place = Place::new();
    let first = place.borrower(&["group"]);
    let pid = format!("pid {}", first.child.id());
    let second = place.borrowed(&["zram"]);
    assert!(!second.status.success());
    let undo = place.undo(&[]);
    assert_eq!(undo.status.code(), Some(1));
    assert!(said(&undo).contains(&pid) && said(&undo).contains("next"), "{}", said(&undo));
    first.finish();
    assert!(place.borrowed(&["zram"]).status.success());
}

/// There is one lock for the machine, because two runs with two state folders could change the same
/// setting. The shell has its own `/run`, so that other runs on this machine do not matter.
#[test]
fn two_runs_with_two_folders_of_state_do_not_borrow_at_once() {
    let place = Place::new();
    let before = Machine::now();
    let script = r#"
        set -e
        mount -t tmpfs none /run
        mkfifo "$1/hold"
        PAGEWISE_STATE="$1/one" "$2" once vm.extfrag_threshold=499 < "$1/hold" > "$1/told" &
        exec 3> "$1/hold"
        for try in $(seq 600); do grep -q ready "$1/told" && break; sleep 0.1; done
        grep -q ready "$1/told"
        ! PAGEWISE_STATE="$1/two" "$2" once vm.extfrag_threshold=498 < /dev/null || exit 9
        cat /proc/sys/vm/extfrag_threshold
        ! PAGEWISE_STATE="$1/one" "$3" undo || exit 9
        stat -c '%a %u' /run/pagewise /run/pagewise/lock
        echo holder $!
        exec 3>&-
        wait $!
        PAGEWISE_STATE="$1/two" "$2" once vm.extfrag_threshold=498 < /dev/null > /dev/null
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
    command.arg(place.folder.path()).arg(example("borrow")).arg(env!("CARGO_BIN_EXE_pagewise"));
    let ran = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), said(&ran));
    assert!(ran.status.success(), "{out}{err}");
    let lines: Vec<&str> = out.lines().collect();
    let holder = lines[3].strip_prefix("holder ").unwrap();
    assert_eq!(lines[..3], ["499", "700 0", "600 0"]);
    let refused =
        format!("/run/pagewise: another run of pagewise borrows from this machine (pid {holder})");
    assert_eq!(err.matches(&refused).count(), 2, "{err}");
    assert_eq!(Machine::now(), before);
}

/// What is undone cannot be recorded on a full or read-only disk, but it is undone nevertheless.
#[test]
fn undo_puts_back_what_a_journal_on_a_read_only_disk_names() {
    let place = Place::new();
    let before = Machine::now();
    let mut loans = Loans::new();
    let state = place.state();
    let shown = state.display().to_string();
    let (program, run) = (env!("CARGO_BIN_EXE_pagewise"), place.folder.path().join("run"));
    loans.promise(&format!(
        "mount -o remount,rw '{shown}'; PAGEWISE_LOCK='{}' PAGEWISE_STATE='{shown}' '{program}' undo \
         > /dev/null; umount '{shown}'",
        run.display()
    ));
    crate::machine::run("mount", &["-t", "tmpfs", "-o", "mode=700", "none", &shown]);
    let knob = "vm.extfrag_threshold=499";
    place.borrower(&["zram:lz4", "swap", "group", "member", knob]).kill();
    assert_ne!(Machine::now(), before);
    pagewise_testkit::remount_read_only(&shown);

    let undo = place.undo(&[]);
    let listed = String::from_utf8_lossy(&undo.stdout).into_owned();
    assert_eq!(Machine::now(), before, "{listed}{}", said(&undo));
    assert!(
        undo.status.success() && listed.matches(": put back").count() == 4,
        "{listed}{}",
        said(&undo)
    );
    assert!(listed.contains("could not be noted") && listed.contains("ead-only"), "{listed}");
    assert_eq!(place.journals(), 1);
    crate::machine::run("mount", &["-o", "remount,rw", &shown]);
    assert!(place.undone().iter().all(|(_, how)| how == "gone"));
    assert_eq!((Machine::now(), place.journals()), (before, 0));
}

#[test]
fn a_journal_of_another_user_is_not_believed() {
    let place = Place::new();
    let before = Machine::now();
    place.borrower(&["vm.extfrag_threshold=499"]).kill();
    let mut names = std::fs::read_dir(place.state()).unwrap().map(|entry| entry.unwrap().path());
    let journal = names.find(|path| path.extension().is_some_and(|it| it == "journal")).unwrap();
    std::os::unix::fs::chown(&journal, Some(12_345), None).unwrap();
    let undo = place.undo(&[]);
    let listed = String::from_utf8_lossy(&undo.stdout).into_owned();
    assert_eq!((undo.status.code(), place.journals()), (Some(1), 1), "{listed}");
    assert!(listed.contains("belongs to user 12345"), "{listed}");
    assert_eq!(crate::machine::read(KNOBS[0].1), "499");
    std::os::unix::fs::chown(&journal, Some(0), None).unwrap();
    assert!(place.undo(&[]).status.success());
    place.assert_nothing_left(&before);
}

/// A disk of two pages: one for the lock, one for the first records of the journal.
#[test]
fn a_journal_that_cannot_grow_ends_the_run_and_all_goes_back() {
    let place = Place::new();
    let before = Machine::now();
    let mut loans = Loans::new();
    let shown = place.state().display().to_string();
    loans.promise(&format!("umount '{shown}'"));
    crate::machine::run("mount", &["-t", "tmpfs", "-o", "mode=700,size=8k", "none", &shown]);
    let requested =
        [&["vm.extfrag_threshold=499", "zram:lz4", "swap"][..], &["group"; 20]].concat();
    let ended = place.borrowed(&requested);
    let listed = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(!ended.status.success() && listed.contains("zram /dev/"), "{listed}{}", said(&ended));
    assert!(said(&ended).contains("No space left on device"), "{}", said(&ended));
    place.assert_nothing_left(&before);
}

/// The owner of a folder above the journals can replace them by other files owned by root.
#[test]
fn journals_below_a_folder_of_somebody_else_are_not_believed() {
    let place = Place::new();
    let before = Machine::now();
    place.borrower(&["vm.extfrag_threshold=499"]).kill();
    let theirs = place.folder.path().join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    let state = theirs.join("state");
    std::fs::rename(place.state(), &state).unwrap();
    std::os::unix::fs::chown(&theirs, Some(12_345), None).unwrap();
    std::os::unix::fs::symlink(&state, place.folder.path().join("link")).unwrap();
    for path in [state.clone(), place.folder.path().join("link")] {
        let mut undo = Command::new(env!("CARGO_BIN_EXE_pagewise"));
        undo.arg("undo").env("PAGEWISE_STATE", &path);
        undo.env("PAGEWISE_LOCK", place.folder.path().join("run"));
        let undo = undo.output().unwrap();
        let listed = said(&undo);
        assert_eq!((undo.status.code(), undo.stdout.as_slice()), (Some(1), &b""[..]), "{listed}");
        for word in [
            "theirs cannot hold the journals",
            "belongs to user 12345",
            "next   let PAGEWISE_STATE name",
        ] {
            assert!(listed.contains(word), "{word}: {listed}");
        }
        assert_eq!(crate::machine::read(KNOBS[0].1), "499");
    }
    std::fs::rename(&state, place.state()).unwrap();
    assert!(place.undo(&[]).status.success());
    place.assert_nothing_left(&before);
}

#[test]
fn a_knob_that_somebody_else_changed_stays_and_is_told_until_undo_was_asked() {
    let place = Place::new();
    let (knob, old) = (KNOBS[0].1, crate::machine::read(KNOBS[0].1));
    let mut loans = Loans::new();
    loans.setting(knob, &old);
    let borrower = place.borrower(&["vm.extfrag_threshold=499", "group"]);
    crate::machine::write(knob, "498");
    borrower.kill();

    let next_start = place.borrowed(&["zram"]);
    let listed = String::from_utf8_lossy(&next_start.stdout).into_owned();
    assert!(listed.contains("Conflict") && listed.contains("498"), "{listed}");
    assert_eq!((crate::machine::read(knob).as_str(), place.journals()), ("498", 1));

    let undo = place.undo(&[]);
    let listed = String::from_utf8_lossy(&undo.stdout).into_owned();
    assert!(undo.status.success() && listed.contains("somebody has set 498 since"), "{listed}");
    assert_eq!((crate::machine::read(knob).as_str(), place.journals()), ("498", 0));
    assert_eq!(place.undone(), []);
}

#[test]
fn swap_is_refused_beside_the_hosts_own_unless_it_is_allowed() {
    let place = Place::new();
    let mut loans = Loans::new();
    let id = loans.zram("16M");
    crate::machine::run("mkswap", &[&format!("/dev/zram{id}")]);
    loans.swap_on(&format!("/dev/zram{id}"), 5);

    let before = Machine::now();
    let refused = place.borrowed(&["zram", "swap"]);
    assert!(!refused.status.success());
    assert!(said(&refused).contains(&format!("/dev/zram{id}")), "{}", said(&refused));
    place.assert_nothing_left(&before);
    let allowed = place.borrower(&["zram", "shared-swap"]);
    assert_eq!(swaps().len(), 1);
    allowed.finish();
    place.assert_nothing_left(&before);
}

/// After kills at random moments, the next start leaves nothing behind. PAGEWISE_KILLS sets how
/// often.
#[test]
fn killed_at_random_moments_nothing_is_left() {
    let kills = std::env::var("PAGEWISE_KILLS").map_or(30, |kills| kills.parse().unwrap());
    let place = Place::new();
    let before = Machine::now();
    let file = format!("file:{}", place.folder.path().display());
    let loans = ["vm.extfrag_threshold=499", "zram:lz4", "swap", "group", "member", "zram", &file];
    let more = ["swap", "vm.dirty_background_bytes=67108864", "vm.dirty_background_ratio=9"];
    let mut recovered = 0;
    for seed in 1..=kills {
        let seed_word = u64::to_string(&seed);
        let arguments = [&["ever", &seed_word], &loans[..], &more[..]].concat();
        let mut child = place.borrow(&arguments).spawn().unwrap();
        let mut listed = BufReader::new(child.stdout.take().unwrap());
        // every second one is killed only after its first loan, also if the machine starts it
        // slowly
        if seed % 2 == 0 {
            let mut line = String::new();
            while !line.starts_with("taken ") {
                line.clear();
                assert!(
                    listed.read_line(&mut line).unwrap() > 0,
                    "it ended before it took anything"
                );
            }
        }
        // steps of the golden ratio spread the moments evenly
        let moment = seed * 618_034 % 1_000_000;
        std::thread::sleep(std::time::Duration::from_micros(5_000 + moment / 4));
        child.kill().unwrap();
        child.wait().unwrap();
        if place.state().exists() {
            recovered += place.undone().len();
            place.assert_nothing_left(&before);
        }
    }
    assert!(recovered > 0, "no kill came while anything was lent");
    println!("{kills} kills, {recovered} loans put back after them");
}
