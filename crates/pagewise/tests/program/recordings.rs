// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings that the program makes and reads, valid and invalid. How each hostile entry is
//! handled is tested in the reader; here it is tested that the user gets a message.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::program::{empty_folder, finish, run, run_in};

const MANIFEST: &str = "format = \"pagewise-recording/1\"\nname = \"host-1\"\nkernel = \"6.12\"\n\
    page_size = 4096\n[ends.end]\nunix_seconds = 12.0\nmonotonic_seconds = 3.0\n";
const MEMINFO: &str = "MemTotal:  16303412 kB\nMemFree:  400 kB\n";

/// A folder with a recording of one end of an interval.
fn recording() -> tempfile::TempDir {
    let folder = empty_folder();
    std::fs::create_dir_all(folder.path().join("end/proc")).unwrap();
    std::fs::write(folder.path().join("host.toml"), MANIFEST).unwrap();
    std::fs::write(folder.path().join("end/proc/meminfo"), MEMINFO).unwrap();
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// `status` of a recording: it must succeed, and print `problem`.
fn status_with_problem(path: &Path, problem: &str) {
    let ran = run(&["status", "-v", "--root", text(path)]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(!ran.out.is_empty());
    assert!(ran.err.contains(problem), "{problem:?} is not in {}", ran.err);
    assert!(!ran.err.contains('\x1b') && !ran.out.contains('\x1b'));
}

#[test]
fn a_capture_can_be_reported_on_and_is_private() {
    let folder = empty_folder();
    let made = run_in(folder.path(), &["capture", "-o", "x.tar.zst", "--interval", "50ms"]);
    assert_eq!(made.status, 0, "{}", made.err);
    assert!(made.out.contains("inside") && made.out.contains("left out"), "{}", made.out);
    let path = folder.path().join("x.tar.zst");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    for verb in ["report", "status", "doctor"] {
        let ran = run(&[verb, "--root", text(&path)]);
        assert!(ran.status == 0 || verb == "doctor" && ran.status == 3, "{verb}: {}", ran.err);
        assert!(!ran.out.is_empty());
    }
}

/// `-` is standard output, of this machine and of a recording; nothing else goes there, and no file
/// of that name is made.
#[test]
fn a_capture_to_standard_output_is_a_recording() {
    let folder = empty_folder();
    let capture = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pagewise"));
        command.current_dir(folder.path()).arg("capture").args(words).output().unwrap()
    };
    for (words, file) in [
        (&["-o", "-", "--interval", "0"][..], "live.tar.zst"),
        (&["--root", "live.tar.zst", "-"], "again.tar.zst"),
    ] {
        let made = capture(words);
        let told = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success() && told.starts_with("standard output: "), "{told}");
        assert!(!told.contains("--root -") && !told.contains("readable by you"), "{told}");
        std::fs::write(folder.path().join(file), &made.stdout).unwrap();
        let ran = run_in(folder.path(), &["status", "--root", file]);
        assert!(ran.status == 0 && !ran.out.is_empty(), "{}", ran.err);
    }
    for words in
        [&["-o", "-", "--json"][..], &["--folder", "-"], &["-", "--every", "1s", "--for", "1s"]]
    {
        let refused = capture(words);
        let told = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{words:?}: {told}");
        assert!(refused.stdout.is_empty() && told.contains("standard output"), "{words:?}: {told}");
    }
    // the same for every other file that a user names
    let refused = run_in(folder.path(), &["report", "--root", "live.tar.zst", "--html", "-"]);
    assert!(refused.status == 1 && refused.err.contains("standard output"), "{}", refused.err);
    let mut left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().collect::<Result<_, _>>().unwrap();
    left.sort_by_key(std::fs::DirEntry::file_name);
    let left: Vec<_> = left.iter().map(std::fs::DirEntry::file_name).collect();
    assert_eq!(left, ["again.tar.zst", "live.tar.zst"]);
}

/// A small machine can be recorded, once and over time: with 24 MiB of data, which leaves room for a
/// machine with many processes. zstd's tables alone take 40 MiB with their usual sizes.
#[test]
fn a_capture_needs_little_memory() {
    let folder = empty_folder();
    for (name, more) in [("once", ""), ("over-time", "--every 1s --for 1s")] {
        let path = folder.path().join(name);
        let program = env!("CARGO_BIN_EXE_pagewise");
        let command = format!("ulimit -d 24576; exec '{program}' capture {more} '{}'", text(&path));
        let ran = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
        let error = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && path.exists(), "{command}: {error}");
    }
}

/// A recording is read without the right to create files; its page is written nevertheless.
#[test]
fn the_page_of_a_recording_is_private_and_whole() {
    let folder = empty_folder();
    let recording = recording();
    let args = ["report", "--root", text(recording.path()), "--html", "page.html"];
    let ran = run_in(folder.path(), &args);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.starts_with("page.html: a page of "), "{}", ran.out);
    let path = folder.path().join("page.html");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"), "{page}");
    assert!(page.contains("15.5 GiB in all"), "{page}");
    let again = run_in(folder.path(), &args);
    assert_eq!(again.status, 1);
    assert!(again.err.starts_with("pagewise: page.html: expected no file"), "{}", again.err);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), page);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "something was left");
}

#[test]
fn no_page_is_left_of_a_recording_that_cannot_be_read() {
    let folder = empty_folder();
    std::fs::write(folder.path().join("x.tar"), "no archive").unwrap();
    let ran = run_in(folder.path(), &["report", "--root", "x.tar", "--html", "page.html"]);
    assert_eq!(ran.status, 1, "{}", ran.err);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "something was left");
    let both = run_in(folder.path(), &["report", "--only", "zram", "--html", "page.html"]);
    assert_eq!(both.status, 2, "{}", both.err);
}

/// The JSON document is printed as without --html.
#[test]
fn a_page_and_a_document_at_once() {
    let folder = empty_folder();
    let recording = recording();
    let args = ["report", "--json", "--root", text(recording.path()), "--html", "page.html"];
    let ran = run_in(folder.path(), &args);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.starts_with('{') && ran.out.contains("pagewise/report/1"), "{}", ran.out);
    assert!(folder.path().join("page.html").exists());
}

#[test]
fn nothing_is_overwritten() {
    let folder = empty_folder();
    std::fs::write(folder.path().join("x"), "mine").unwrap();
    let ran = run_in(folder.path(), &["capture", "-o", "x", "--interval", "0"]);
    assert_eq!(ran.status, 1);
    assert!(ran.err.starts_with("pagewise: x: expected no file of that name"), "{}", ran.err);
    assert!(ran.err.contains("\n  next   "), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(folder.path().join("x")).unwrap(), "mine");
    let into = run_in(folder.path(), &["capture", "--folder", ".", "--interval", "0"]);
    assert!(into.err.contains("expected an empty folder"), "{}", into.err);
}

/// A limit on file size simulates a full disk.
#[test]
fn a_capture_that_cannot_be_written_leaves_nothing_behind() {
    let folder = empty_folder();
    for place in [["-o", "x.tar.zst"], ["--folder", "x"]] {
        let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_pagewise"), "capture", "--interval", "0"]);
        let ran = finish(command.args(place).current_dir(folder.path()));
        assert_eq!(ran.status, 1, "{}", ran.err);
        assert!(ran.err.contains("the unfinished file was removed"), "{}", ran.err);
        assert!(ran.err.contains("\n  next   free some space"), "{}", ran.err);
        let kept = |path: &Path| std::fs::read_dir(path).unwrap().count();
        let inside = folder.path().join("x");
        assert_eq!(kept(folder.path()), usize::from(inside.is_dir()), "{place:?}");
        assert!(!inside.is_dir() || kept(&inside) == 0);
    }
}

#[test]
fn the_default_name_holds_no_host_name() {
    let folder = empty_folder();
    let ran = run_in(folder.path(), &["capture", "-q", "--interval", "0"]);
    let name = ran.out.trim();
    assert!(name.starts_with("pagewise-") && name.ends_with(".tar.zst"), "{name}");
    assert!(folder.path().join(name).is_file());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(host.trim().len() < 3 || !name.contains(host.trim()));
}

#[test]
fn a_folder_and_an_archive_say_the_same() {
    let folder = empty_folder();
    let made = run_in(folder.path(), &["capture", "--folder", "new/host", "--interval", "50ms"]);
    assert_eq!(made.status, 0, "{}", made.err);
    let kept = folder.path().join("new/host");
    assert!(kept.join("host.toml").is_file() && kept.join("start/proc/vmstat").is_file());
    let packed = folder.path().join("again.tar.zst");
    let again = run(&["capture", "--root", text(&kept), "-o", text(&packed)]);
    assert_eq!(again.status, 0, "{}", again.err);
    let status = |root: &Path| run(&["status", "--json", "--root", text(root)]).out;
    let memory = |text: String| -> serde_json::Value {
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["memory"].clone()
    };
    assert_eq!(memory(status(&kept)), memory(status(&packed)));
}

#[test]
fn errors_name_the_file_what_was_expected_and_the_way_on() {
    let folder = empty_folder();
    std::fs::write(folder.path().join("text"), "this is no recording at all\n").unwrap();
    for (path, expected) in [
        ("none", "none: No such file or directory"),
        (
            "text",
            "text: expected a recording (.tar.zst with host.toml in it) or an archive with proc, found a file of another kind",
        ),
        (".", ".: expected host.toml or a folder proc in it, found neither"),
        ("/dev/null", "/dev/null: expected a folder or a .tar.zst file, found a character device"),
    ] {
        let ran = run_in(folder.path(), &["report", "--root", path]);
        assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{path}");
        assert!(ran.err.starts_with(&format!("pagewise: {expected}")), "{}", ran.err);
        assert!(ran.err.contains("\n  next   "), "{}", ran.err);
    }
}

/// Root may name any file, by mistake or through a script: none of its contents may be printed.
#[test]
fn no_word_of_a_file_that_is_no_recording_is_printed() {
    let folder = empty_folder();
    let secret = folder.path().join("shadow");
    std::fs::write(&secret, "root:$y$j9T$SECRET:20000:0\n").unwrap();
    for verb in [&["report", "--root"][..], &["status", "--root"], &["doctor", "--config"]] {
        let ran = run(&[verb, &[text(&secret)]].concat());
        assert_eq!(ran.status, 1, "{verb:?}: {}", ran.err);
        let message = ran.out + &ran.err;
        assert!(!message.contains("SECRET") && !message.contains("root:"), "{verb:?}: {message}");
    }
}

#[test]
fn a_garbled_description_is_told_and_the_rest_comes() {
    let folder = recording();
    std::fs::write(folder.path().join("host.toml"), "format = [[[\n\x1b[2J").unwrap();
    status_with_problem(folder.path(), "host.toml:2: expected the description of a recording");
}

#[test]
fn a_huge_file_is_told_and_the_rest_comes() {
    let folder = recording();
    let file = std::fs::File::create(folder.path().join("end/proc/vmstat")).unwrap();
    file.set_len(200 << 20).unwrap();
    status_with_problem(folder.path(), "end/proc/vmstat: expected at most 8 MiB in one file");
}

#[test]
fn links_and_pipes_are_told_and_the_rest_comes() {
    let folder = recording();
    std::os::unix::fs::symlink(".", folder.path().join("end/loop")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("end/proc/vmstat")).unwrap();
    status_with_problem(folder.path(), "end/proc/vmstat: expected a plain file");
    status_with_problem(folder.path(), "end/loop: expected a plain file");
}

#[test]
fn numbers_of_32_digits_are_told_and_the_rest_comes() {
    let folder = recording();
    let text = format!("MemTotal:  {} kB\nMemFree:  400 kB\n", "9".repeat(32));
    std::fs::write(folder.path().join("end/proc/meminfo"), text).unwrap();
    status_with_problem(folder.path(), "/proc/meminfo:1: expected a size in kB");
}

#[test]
fn an_archive_cut_in_the_middle_is_told() {
    let folder = empty_folder();
    let made = run_in(folder.path(), &["capture", "-o", "x.tar.zst", "--interval", "0"]);
    assert_eq!(made.status, 0, "{}", made.err);
    let whole = std::fs::read(folder.path().join("x.tar.zst")).unwrap();
    let plain = zstd::decode_all(whole.as_slice()).unwrap();
    let cut = folder.path().join("cut.tar");
    std::fs::write(&cut, &plain[..plain.len() / 2]).unwrap();
    status_with_problem(&cut, "recording: expected a whole archive");
    std::fs::write(&cut, &plain[..300]).unwrap();
    let ran = run(&["status", "--root", text(&cut)]);
    assert_eq!(ran.status, 1);
    assert!(ran.err.contains("expected a recording"), "{}", ran.err);
}

/// A fixture with one finding, which is below a warning.
const FIXTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts/debian12-6.18-x86_64-24g-plain.tar");

#[test]
fn findings_below_the_wanted_severity_are_counted_and_not_shown() {
    let all = run(&["doctor", "--root", FIXTURE, "--min-severity", "info"]);
    assert_eq!(all.status, 3, "{}", all.out);
    assert!(!all.out.contains("not shown"), "{}", all.out);
    let usual = run(&["doctor", "--root", FIXTURE]);
    assert_eq!(usual.status, 0, "{}", usual.out);
    assert!(usual.out.contains("1 finding below --min-severity not shown."), "{}", usual.out);
    assert!(!usual.out.contains("INFO"), "{}", usual.out);
    let few = run(&["doctor", "--root", FIXTURE, "--min-severity", "critical"]);
    assert_eq!(few.status, 0, "{}", few.out);
    assert!(few.out.contains("below --min-severity not shown"), "{}", few.out);
    assert!(!few.out.contains("INFO") && !few.out.contains("No findings"), "{}", few.out);
}

#[test]
fn a_host_that_could_not_be_examined_is_not_called_healthy() {
    let folder = empty_folder();
    std::fs::create_dir(folder.path().join("proc")).unwrap();
    for line in [&["doctor"][..], &["doctor", "--json"], &["doctor", "--min-severity", "warning"]] {
        let ran = run(&[line, &["--root", text(folder.path())]].concat());
        assert_eq!(ran.status, 1, "{}", ran.out);
        assert!(ran.err.contains("nothing could be examined"), "{}", ran.err);
        assert!(ran.err.contains("\n  next   see what is missing: pagewise report"));
        assert!(!ran.out.contains("No findings"), "{}", ran.out);
    }
}
