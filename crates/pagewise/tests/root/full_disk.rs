// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disks without free space: no partial file stays, temporary changes are undone, and the message
//! says what to do.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::contents::{Disk, target};
use crate::machine::{Place, read, said};

const KNOB: &str = "/proc/sys/vm/extfrag_threshold";
const SET: [&str; 4] = ["--a", "vm.extfrag_threshold=401", "--b", "vm.extfrag_threshold=601"];
const PATIENCE: Duration = Duration::from_secs(60);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Fills the free space of the disk.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("full");
    let filled = Command::new("dd")
        .args(["if=/dev/zero", "bs=4096", "status=none"])
        .arg(format!("of={}", path.display()))
        .output()
        .unwrap();
    assert!(said(&filled).contains("No space left"), "{}", said(&filled));
    path
}

/// Checks that the message has what, why, state and next.
fn assert_told(ended: &Output, what: &str) {
    let message = said(ended);
    assert_eq!(ended.status.code(), Some(1), "{message}");
    for word in [
        what,
        "No space left on device",
        "the unfinished file was removed",
        "\n  next   free some space",
    ] {
        assert!(message.contains(word), "{word}: {message}");
    }
}

#[test]
fn a_recording_that_does_not_fit_leaves_no_part() {
    let mut place = Place::new();
    let disk = place.small_disk();
    let (file, folder) = (disk.join("x.tar.zst"), disk.join("folder"));
    for (option, path) in [("-o", &file), ("--folder", &folder)] {
        let shown = path.display().to_string();
        let ended = place.output(&["capture", option, &shown, "--interval", "0"]);
        assert_told(&ended, &shown);
        assert_eq!(files(&disk), [] as [PathBuf; 0], "{option}");
    }
    // the same for a recording that is read by a child without rights
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/hosts/debian12-6.18-x86_64-24g-plain.tar")
        .display()
        .to_string();
    let shown = file.display().to_string();
    assert_told(&place.output(&["capture", "--root", &fixture, "-o", &shown]), &shown);
    assert_eq!(files(&disk), [] as [PathBuf; 0]);
}

/// tmpfs reports a full disk when a page is written, ext4 when a block is reserved.
#[test]
fn pages_that_do_not_fit_leave_no_part() {
    let (mut place, target) = (Place::new(), target(16));
    let below = place.folder.path().to_owned();
    let tmpfs = place.small_disk();
    let ext4 = Disk::mount(&mut place.loans, &below, 8);
    let pid = target.pid().to_string();
    for disk in [tmpfs, ext4.folder.clone()] {
        let before = files(&disk);
        let dump = disk.join("dump").display().to_string();
        let ended = place.output(&["scan", "--pid", &pid, "--exact", "--dump", &dump]);
        assert_told(&ended, &dump);
        assert_eq!(files(&disk), before);
        assert_eq!(ended.stdout, b"", "an answer without the file that was asked for");
    }
}

/// A scan that writes a dump slowly enough for something to happen meanwhile.
fn slow_dump(place: &Place, pid: u32, dump: &Path) -> Child {
    let (pid, shown) = (pid.to_string(), dump.display().to_string());
    let words = ["scan", "--pid", &pid, "--exact", "--max-cpu", "2", "--dump", &shown];
    let mut command = place.command(&words);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let unfinished = dump.with_file_name(format!(".pagewise-{}.unfinished", child.id()));
    until("pages in the file", || unfinished.metadata().is_ok_and(|file| file.len() > 0));
    assert!(!dump.exists(), "it has its name before it is whole");
    child
}

#[test]
fn a_scan_that_is_ended_leaves_no_part_of_its_file() {
    let (place, target) = (Place::new(), target(48));
    let folder = place.folder.path().join("dumps");
    fs::create_dir(&folder).unwrap();
    for signal in ["-KILL", "-ABRT", "-TERM"] {
        let child = slow_dump(&place, target.pid(), &folder.join("dump"));
        crate::machine::run("kill", &[signal, &child.id().to_string()]);
        let ended = child.wait_with_output().unwrap();
        // a scan that was asked to stop has still sampled the pages that it reports, so their dump
        // is kept
        let whole = usize::from(ended.status.signal().is_none() && ended.status.success());
        until("the part to go", || files(&folder).len() == whole);
        files(&folder).iter().for_each(|path| fs::remove_file(path).unwrap());
    }
}

#[test]
fn a_name_that_is_taken_meanwhile_is_left_to_its_owner() {
    let (place, target) = (Place::new(), target(48));
    let folder = place.folder.path().join("dumps");
    fs::create_dir(&folder).unwrap();
    let dump = folder.join("dump");
    let child = slow_dump(&place, target.pid(), &dump);
    fs::write(&dump, "theirs").unwrap();
    crate::machine::run("kill", &["-TERM", &child.id().to_string()]);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", said(&ended));
    assert!(said(&ended).contains("expected no file of that name, found one"), "{}", said(&ended));
    assert_eq!((files(&folder).len(), fs::read(&dump).unwrap()), (1, b"theirs".to_vec()));
}

/// A trial whose journals are on that disk.
fn trial(place: &Place, state: &Path) -> Command {
    let words =
        [&["trial"][..], &SET, &["--memory", "64M", "--pairs", "12", "--", "true"]].concat();
    let mut command = place.command(&words);
    command.env("PAGEWISE_STATE", state);
    command
}

fn journals(state: &Path) -> usize {
    files(state).iter().filter(|path| path.extension().is_some_and(|it| it == "journal")).count()
}

#[test]
fn without_room_for_a_journal_nothing_is_lent() {
    let (mut place, before) = (Place::new(), read(KNOB));
    let disk = place.small_disk();
    let state = disk.join("state");
    fs::create_dir(&state).unwrap();
    fill(&disk);
    let ended = trial(&place, &state).output().unwrap();
    let message = said(&ended);
    assert_eq!((ended.status.code(), read(KNOB)), (Some(1), before), "{message}");
    assert!(
        message.contains(".journal") && message.contains("No space left on device"),
        "{message}"
    );
    assert!(message.contains("next   free some space on its disk"), "{message}");
    assert_eq!(journals(&state), 0);
}

#[test]
fn undo_works_on_a_full_disk() {
    let (mut place, before) = (Place::new(), read(KNOB));
    let disk = place.small_disk();
    let state = disk.join("state");
    let words = [&["trial"][..], &SET, &["--memory", "64M", "--", "sleep", "600"]].concat();
    let mut command = place.command(&words);
    command.env("PAGEWISE_STATE", &state).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    until("the knob is lent", || read(KNOB) != before);
    child.kill().unwrap();
    child.wait().unwrap();
    let filler = fill(&disk);
    let undo = place.command(&["undo"]).env("PAGEWISE_STATE", &state).output().unwrap();
    let listed = String::from_utf8_lossy(&undo.stdout).into_owned();
    assert!(undo.status.success() && listed.contains(": put back"), "{listed}{}", said(&undo));
    assert_eq!((read(KNOB), journals(&state)), (before, 0), "{listed}");
    assert!(filler.exists());
}
