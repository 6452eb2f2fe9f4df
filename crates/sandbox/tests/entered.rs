// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a confined process can still do, and what it no longer can. A confinement is permanent, so
//! each of these tests runs in a process of its own: this test program, started again.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::allow_attributes,
    reason = "tests try what is forbidden"
)]

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use pagewise_sandbox::{Confined, Confinement, forbid_dumps};

const INSIDE: &str = "CONFINE_TEST_INSIDE";

/// Starts this test again, to run confined; in the confined process, returns a folder for
/// experiments.
fn inside(test: &str) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return Some(folder.into());
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("there"), "as it was").unwrap();
    // in the confinement, root may become nobody
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE, folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}{complaint}", output.status);
    assert!(text.contains("1 passed"), "{text}");
    assert_eq!(std::fs::read_to_string(folder.path().join("there")).unwrap(), "as it was");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is there");
    None
}

/// A line of `/proc/thread-self/status`.
fn status(name: &str) -> String {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name} in {text}")).trim().to_owned()
}

fn refused<T>(tried: std::io::Result<T>) {
    let error = tried.err().expect("refused");
    let refusals = [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem];
    assert!(refusals.contains(&error.kind()), "{error}");
}

/// What no confined process can do, whatever its task.
fn nothing_is_changed_started_or_reached(folder: &Path) {
    refused(File::create(folder.join("new")));
    refused(std::fs::write(folder.join("there"), "changed"));
    refused(std::fs::OpenOptions::new().append(true).open(folder.join("there")));
    refused(std::fs::remove_file(folder.join("there")));
    refused(std::fs::rename(folder.join("there"), folder.join("other")));
    refused(std::fs::create_dir(folder.join("folder")));
    refused(std::fs::hard_link(folder.join("there"), folder.join("link")));
    refused(std::os::unix::fs::symlink("there", folder.join("link")));
    refused(std::net::TcpStream::connect("127.0.0.1:9"));
    refused(std::net::UdpSocket::bind("127.0.0.1:0"));
    refused(std::os::unix::net::UnixStream::pair());
    refused(std::fs::set_permissions(
        folder.join("there"),
        std::os::unix::fs::PermissionsExt::from_mode(0o666),
    ));
    refused(Command::new("/bin/true").status());
}

/// What it can still do: read, start threads, allocate memory.
fn reading_and_threads_go_on(folder: &Path) {
    let mut text = String::new();
    File::open(folder.join("there")).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "as it was");
    let sum: u64 = std::thread::scope(|scope| {
        let work = || (0..1_000u64).collect::<Vec<_>>().iter().sum::<u64>();
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(sum, 3 * 499_500);
    assert!(vec![1u8; 8 << 20].iter().all(|byte| *byte == 1));
}

/// Enters a confinement, and checks everything that holds for all of them.
fn entered(confinement: Confinement, folder: &Path) -> Confined {
    // the filter also applies to a thread that is already running
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let early = std::thread::spawn(move || {
        let _ = told.recv();
        std::net::UdpSocket::bind("127.0.0.1:0").map(drop)
    });
    let confined = confinement.enter();
    assert!(confined.capabilities && confined.filter, "{confined:?}");
    drop(tell);
    refused(early.join().unwrap());
    assert_eq!((status("NoNewPrivs"), status("Seccomp")), ("1".to_owned(), "2".to_owned()));
    nothing_is_changed_started_or_reached(folder);
    reading_and_threads_go_on(folder);
    confined
}

/// Reads memory information of the process that started this one.
fn memory_of_the_parent() -> std::io::Result<String> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let parent = text.lines().find_map(|line| line.strip_prefix("PPid:\t")).expect("a parent");
    std::fs::read_to_string(format!("/proc/{parent}/maps"))
}

#[test]
fn a_reader_of_processes_reads_and_does_nothing_else() {
    if let Some(folder) = inside("a_reader_of_processes_reads_and_does_nothing_else") {
        let before = status("CapPrm");
        entered(Confinement::for_processes(), &folder);
        let all = u64::from_str_radix(&before, 16).unwrap();
        // those of CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE and CAP_SYS_ADMIN that it had
        let kept = format!("{:016x}", all & (1 << 2 | 1 << 19 | 1 << 21));
        assert_eq!([status("CapPrm"), status("CapEff")], [kept.clone(), kept]);
        // this confinement is for reading the memory of others
        assert!(memory_of_the_parent().is_ok_and(|maps| !maps.is_empty()));
    }
}

#[test]
fn a_reader_of_stored_pages_keeps_no_capability() {
    if let Some(folder) = inside("a_reader_of_stored_pages_keeps_no_capability") {
        let confined = entered(Confinement::for_stored_pages(), &folder);
        assert_eq!(status("CapEff"), "0000000000000000");
        // Landlock forbids this to everybody, so readers of processes do not use it
        if confined.landlock.is_some() {
            refused(memory_of_the_parent());
        }
    }
}

#[test]
fn a_reader_of_a_recording_is_nobody_and_has_a_limit() {
    if let Some(folder) = inside("a_reader_of_a_recording_is_nobody_and_has_a_limit") {
        let was_root = status("Uid").starts_with('0');
        entered(Confinement::for_recording(false), &folder);
        assert_eq!(status("CapEff"), "0000000000000000");
        if was_root {
            assert_eq!(status("Uid"), "65534\t65534\t65534\t65534");
            assert_eq!(status("Groups"), "");
        }
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let space = limits.lines().find(|line| line.starts_with("Max address space")).unwrap();
        assert!(space.contains("1073741824"), "{space}");
        assert!(Vec::<u8>::new().try_reserve_exact(2 << 30).is_err());
    }
}

#[test]
fn a_reader_of_facts_changes_no_file_where_there_is_landlock() {
    if let Some(folder) = inside("a_reader_of_facts_changes_no_file_where_there_is_landlock") {
        let before = status("CapEff");
        let confined = Confinement::for_facts().enter();
        if confined.landlock.is_some() {
            refused(File::create(folder.join("new")));
            refused(std::fs::write(folder.join("there"), "changed"));
            refused(std::fs::remove_file(folder.join("there")));
            refused(Command::new("/bin/true").status());
        }
        reading_and_threads_go_on(&folder);
        assert_eq!(status("CapEff"), before);
    }
}

#[test]
fn a_reader_of_a_folder_reads_what_its_owner_keeps_to_himself() {
    if let Some(folder) = inside("a_reader_of_a_folder_reads_what_its_owner_keeps_to_himself") {
        let was_root = status("Uid").starts_with('0');
        entered(Confinement::for_recording(true), &folder);
        let kept = if was_root { "0000000000000004" } else { "0000000000000000" };
        assert_eq!([status("CapPrm"), status("CapEff")], [kept, kept]);
        assert!(!was_root || std::fs::read_dir("/root").is_ok());
    }
}

#[test]
fn nothing_is_dumped_and_no_program_that_it_starts_dumps() {
    if let Some(_folder) = inside("nothing_is_dumped_and_no_program_that_it_starts_dumps") {
        forbid_dumps();
        let limits = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("Max core file size"));
            line.unwrap().split_whitespace().nth(4).map(str::to_owned)
        };
        let own = std::fs::read_to_string("/proc/self/limits").unwrap();
        assert_eq!(limits(&own).as_deref(), Some("0"));
        let child = Command::new("cat").arg("/proc/self/limits").output().unwrap();
        assert_eq!(limits(&String::from_utf8(child.stdout).unwrap()).as_deref(), Some("0"));
    }
}
