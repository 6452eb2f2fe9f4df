// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Contents of a process's pages must not reach a disk, a core dump, or another program.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::machine::{Loans, Place, run};
use pagewise_testkit::{Target, read_process, target_program};

/// The text for which disks and dumps are searched.
const MARKER: &str = "pagewise:a-secret-of-another-program";

/// An ext4 file system in a file, mounted.
pub(crate) struct Disk {
    image: PathBuf,
    pub(crate) folder: PathBuf,
}

impl Disk {
    pub(crate) fn mount(loans: &mut Loans, below: &Path, mib: u32) -> Self {
        let (image, folder) = (below.join("image"), below.join("mounted"));
        let shown = image.display().to_string();
        std::fs::create_dir(&folder).unwrap();
        loans.promise(&format!("rm -f '{shown}'"));
        run("truncate", &["-s", &format!("{mib}M"), &shown]);
        run("mkfs.ext4", &["-q", "-F", &shown]);
        loans.promise(&format!("mountpoint -q '{0}' && umount '{0}'; true", folder.display()));
        run("mount", &["-o", "loop", &shown, &folder.display().to_string()]);
        Self { image, folder }
    }

    /// How often the disk image contains the marker, including free blocks.
    fn markers(&self) -> usize {
        run("umount", &[&self.folder.display().to_string()]);
        markers(&self.image)
    }
}

/// How often a file contains the marker. By external tools, because an unoptimised test takes a
/// minute for a disk.
fn markers(path: &Path) -> usize {
    // a disk of zeros is a single line, which grep would hold in memory
    let script = r#"tr '\0' '\n' < "$0" | grep -aoF "$1" | wc -l"#;
    let found = run("sh", &["-c", script, path.to_str().unwrap(), MARKER]);
    found.trim().parse().unwrap()
}

pub(crate) fn target(mib: u32) -> Target {
    Target::start(&format!("marked {mib} {MARKER}"))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Checks the search itself: it finds the marker where it was written.
#[test]
fn contents_are_found_where_they_were_written() {
    let (place, target) = (Place::new(), target(4));
    let dump = place.folder.path().join("dump");
    let (pid, shown) = (target.pid().to_string(), dump.display().to_string());
    done(&place, &["scan", "--pid", &pid, "--exact", "--dump", &shown]);
    assert!(markers(&dump) >= 16 * 1024, "{}", markers(&dump));
}

/// Runs pagewise to completion; it must succeed.
fn done(place: &Place, arguments: &[&str]) -> String {
    let output = place.output(arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn contents_never_reach_the_disk_that_bench_measures() {
    let (mut place, target) = (Place::new(), target(32));
    let below = place.folder.path().to_owned();
    let disk = Disk::mount(&mut place.loans, &below, 640);
    let (pid, on) = (target.pid().to_string(), disk.folder.display().to_string());
    let words = ["bench", "--quick", "--size", "24M", "--pid", &pid, "--disk", &on, "--json"];
    let message: serde_json::Value = serde_json::from_str(&done(&place, &words)).unwrap();
    let references = message["references"].as_array().unwrap();
    let written = |one: &serde_json::Value| {
        one["name"] == "disk" && one["direction"] == "write" && one["p50_ns"].as_f64() > Some(0.0)
    };
    assert!(references.iter().any(written), "{references:?}");
    let against_the_disk = message["cost_ratios"].as_array().map_or(0, Vec::len);
    assert_eq!(disk.markers(), 0);
    // under heavy load no round may complete in that time, and bench says so
    let is_told = message["notes"].to_string().contains("swap: not all rounds fit");
    assert!(against_the_disk > 0 || is_told, "{} {}", message["not_measured"], message["notes"]);
}

/// If a program could be swapped to another device than ours, its pages could end up there.
#[test]
fn contents_never_reach_swap_on_a_disk() {
    let (mut place, target) = (Place::new(), target(32));
    let below = place.folder.path().to_owned();
    let swap = place.loans.swap_file(&below, 128);
    let shown = swap.display().to_string();
    place.loans.swap_on(&shown, 100);
    let pid = target.pid().to_string();
    let words = ["bench", "--quick", "--size", "24M", "--pid", &pid, "--allow-shared-swap"];
    let message = done(&place, &[&words[..], &["--json"]].concat());
    let message: serde_json::Value = serde_json::from_str(&message).unwrap();
    run("swapoff", &[&shown]);
    run("sync", &[]);
    assert_eq!(markers(&swap), 0);
    let notes = message["notes"].as_array().unwrap();
    let listed =
        |note: &serde_json::Value| note.as_str().is_some_and(|note| note.contains("other swap"));
    assert!(notes.iter().any(listed), "{notes:?}");
}

/// A run in its own folder, with an unlimited core size; it is killed when the test ends.
struct Running {
    child: Child,
    folder: tempfile::TempDir,
}

impl Running {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let folder = folder();
        let program = place.command(arguments);
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -c unlimited && exec \"$@\"", "sh"]);
        shell.arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            value.map(|value| shell.env(name, value));
        }
        shell.current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        Self { child: shell.spawn().unwrap(), folder }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait_until(&mut self, what: &str, so: impl Fn(u32) -> bool) {
        let until = Instant::now() + Duration::from_secs(120);
        while !so(self.pid()) {
            assert!(Instant::now() < until, "waited for {what} for two minutes");
            assert_eq!(self.child.try_wait().unwrap(), None, "it ended before {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(&mut self, signal: &str) -> ExitStatus {
        run("kill", &[signal, &self.pid().to_string()]);
        self.child.wait().unwrap()
    }

    /// Core files, if the machine's core pattern writes them into the working folder.
    fn cores(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// KiB in RAM of mappings that are excluded from core dumps, and the part of these that is locked.
fn undumped(pid: u32) -> (u64, u64) {
    let (mut size, mut sums) = (0, (0, 0));
    for line in read_process(pid, "smaps").lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Rss:") => size = words.next().and_then(|kib| kib.parse().ok()).unwrap_or(0),
            Some("VmFlags:") => {
                let flags: Vec<&str> = words.collect();
                // io and pf: mappings of devices, vvar and similar ones, which are never dumped; dp: memory
                // that the kernel drops instead of swapping it out, where the C library keeps random numbers
                let is_other = ["io", "pf", "dp"].iter().any(|flag| flags.contains(flag));
                if flags.contains(&"dd") && !is_other {
                    sums.0 += size;
                    sums.1 += if flags.contains(&"lo") { size } else { 0 };
                }
            }
            _ => (),
        }
    }
    sums
}

fn line<'a>(text: &'a str, name: &str) -> &'a str {
    let found = text.lines().find_map(|line| line.strip_prefix(name));
    found.unwrap_or_else(|| panic!("{name} in {text}")).trim()
}

/// By default the kernel writes `core` into the working folder of the process. If the machine has
/// another core pattern, only the other checks apply.
fn crashes_without_a_core(arguments: &[&str], held: u64) {
    let (place, target) = (Place::new(), target(48));
    let pid = target.pid().to_string();
    for signal in ["-ABRT", "-TRAP"] {
        let mut running = Running::start(&place, &[arguments, &["--pid", &pid]].concat());
        running.wait_until("pages to be held", |pid| undumped(pid).0 >= held);
        let (all, locked) = undumped(running.pid());
        assert_eq!(all, locked, "KiB of contents that may be swapped out");
        let limits = read_process(running.pid(), "limits");
        let core = line(&limits, "Max core file size");
        assert!(core.split_whitespace().eq(["0", "0", "bytes"]), "{core}");
        assert!(running.end(signal).signal().is_some(), "{signal}");
        let markers: Vec<usize> = running.cores().iter().map(|path| markers(path)).collect();
        assert!(markers.is_empty(), "{signal}: a core with {markers:?} markers");
    }
}

#[test]
fn a_scan_that_crashes_leaves_no_core() {
    crashes_without_a_core(&["scan", "--exact", "--max-cpu", "2"], 64);
}

#[test]
fn a_bench_that_crashes_leaves_no_core() {
    crashes_without_a_core(&["bench", "--size", "32M", "--no-swap"], 32 << 10);
}

#[test]
fn a_scan_keeps_the_rights_to_read_and_no_others() {
    let (place, target) = (Place::new(), target(48));
    let pid = target.pid().to_string();
    let words = ["scan", "--exact", "--max-cpu", "2", "--pid", &pid];
    let mut running = Running::start(&place, &words);
    running.wait_until("pages to be held", |pid| undumped(pid).0 >= 64);
    // CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_SYS_ADMIN
    is_confined(running.pid(), "0000000000280004");
    let mut running = Running::start(&place, &["report", "--json"]);
    running.wait_until("the answer", waits_for_its_reader);
    is_confined(running.pid(), "0000000000280004");
}

#[test]
fn a_recording_is_read_by_nobody() {
    let place = Place::new();
    let recording = pagewise_testkit::scene::recording("debian12-6.18-x86_64-24g-plain");
    let [root, archive] = ["recording", "recording.tar"]
        .map(|name| place.folder.path().join(name).display().to_string());
    std::fs::copy(recording, &archive).unwrap();
    run("mkdir", &[&root]);
    run("tar", &["-C", &root, "-xf", &archive]);
    run("chmod", &["600", &archive]);
    // each prints more than a pipe buffers, so it blocks and can be examined
    let verbs = [&["report", "--json"][..], &["capture", "--hand-over", "--folder", "x"]];
    let kinds = [(&root, "0000000000000004"), (&archive, "0000000000000000")];
    for (verb, (root, capabilities)) in verbs.iter().flat_map(|verb| kinds.map(|kind| (verb, kind)))
    {
        let mut running = Running::start(&place, &[verb, &["--root", root][..]].concat());
        running.wait_until("the answer", waits_for_its_reader);
        is_confined(running.pid(), capabilities);
        let status = read_process(running.pid(), "status");
        assert_eq!(line(&status, "Uid:"), "65534\t65534\t65534\t65534");
        let limits = read_process(running.pid(), "limits");
        assert!(line(&limits, "Max address space").starts_with("1073741824"), "{limits}");
    }
}

/// The output file that root named belongs to root; its contents come from a child without rights.
#[test]
fn a_recording_of_a_recording_is_written_by_root() {
    let place = Place::new();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/hosts/debian12-6.18-x86_64-24g-plain.tar")
        .display()
        .to_string();
    let at = |name: &str| place.folder.path().join(name).display().to_string();
    for words in [["-o", &at("x.tar.zst")], ["--folder", &at("x")]] {
        let listed = done(&place, &[&["capture", "--root", &fixture][..], &words].concat());
        assert!(listed.contains("inside") && listed.contains("left out"), "{listed}");
        let made = std::fs::metadata(words[1]).unwrap();
        assert_eq!((made.uid(), made.mode() & 0o77), (0, 0));
        done(&place, &["status", "--root", words[1]]);
    }
    let mut unnamed = place.command(&["capture", "-q", "--root", &fixture]);
    let listed = unnamed.current_dir(place.folder.path()).output().unwrap();
    let name = String::from_utf8(listed.stdout).unwrap();
    assert!(name.starts_with("pagewise-") && place.folder.path().join(name.trim()).is_file());
    // the child's refusal is printed once, and no file is created
    let refused = place.output(&["capture", "--root", "/etc/shadow", "-o", &at("no")]);
    let message = crate::machine::said(&refused);
    assert_eq!(
        (refused.status.code(), message.matches("pagewise: ").count()),
        (Some(1), 1),
        "{message}"
    );
    assert!(!Path::new(&at("no")).exists());
}

/// Whether it is writing its output and nobody reads it.
fn waits_for_its_reader(pid: u32) -> bool {
    read_process(pid, "wchan").contains("pipe_write") || {
        let call = read_process(pid, "syscall");
        call.split_whitespace().nth(1) == Some("0x1") && call.starts_with("1 ")
    }
}

fn is_confined(pid: u32, capabilities: &str) {
    let status = read_process(pid, "status");
    let found = ["CapPrm:", "CapEff:", "Seccomp:", "NoNewPrivs:"].map(|name| line(&status, name));
    assert_eq!(found, [capabilities, capabilities, "2", "1"]);
}

/// Normally a program can trace another one of the same user, but not one that holds page contents.
#[test]
fn another_program_of_the_same_user_cannot_look_into_a_scan() {
    let place = Place::new();
    let nobody = |program: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
        command.arg(program);
        command
    };
    let looks = |pid: u32| {
        let path = format!("/proc/{pid}/environ");
        let mut cat = nobody(Path::new("cat"));
        cat.arg(path).output().unwrap().status.success()
    };
    let mib = ["marked", "48", MARKER];
    let target = Target::from_command(nobody(&target_program()).args(mib));
    assert!(looks(target.pid()), "a program that hides nothing");
    let pid = target.pid().to_string();
    let program = place.command(&["scan", "--exact", "--max-cpu", "2", "--pid", &pid]);
    let mut scan = nobody(Path::new(program.get_program()));
    let folder = folder();
    scan.args(program.get_args()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Running { child: scan.spawn().unwrap(), folder };
    running.wait_until("pages to be held", |pid| undumped(pid).0 >= 64);
    assert!(!looks(running.pid()));
    assert_eq!(running.end("-TERM").signal(), None);
}

/// A user who may not read any process gets a message with advice, instead of an empty section.
#[test]
fn a_user_who_may_read_no_process_is_told_so() {
    let mut command = Command::new("setpriv");
    // a user without any other process on this machine; `nobody` may be used by another test
    command.args(["--reuid", "1999999", "--regid", "1999999", "--clear-groups", "--"]);
    command.arg(env!("CARGO_BIN_EXE_pagewise"));
    command.args(["report", "--only", "contents", "--interval", "0"]);
    let ran = command.output().unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{text} {}", String::from_utf8_lossy(&ran.stderr));
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    assert!(text.contains("Compressible no page of the "), "{text}");
    assert!(text.contains("not read: ") && text.contains("pagewise scan "), "{text}");
}
