// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Standard output and error: nothing in them controls a terminal, whoever chose the text; and what
//! happens if they cannot be written. Output of guests is tested in `tests/guest`, that of root's
//! verbs in `tests/root/crash.rs`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::program::{empty_folder, pagewise, run};
use serde_json::Value;

/// A title, a cleared screen, a colour; C1, DEL, NEL, backspace; bidirectional marks, tags,
/// invisible characters.
const HOSTILE: &str = "\x1b]0;own\x07\x1b[2J\x1b[31m\u{9b}2J\u{9d}0;x\u{9c}\u{7f}\u{85}\x08\r\u{202e}\u{2066}\u{61c}\
                       \u{e0001}\u{e0041}\u{e007f}\u{200b}\u{feff}\u{ad}\u{fe0f}";
/// The same for places with few bytes, such as the name of a process.
const SHORT: &str = "\x1b[2J\u{9b}\u{61c}\u{200b}\x07\x1bc";
/// Bytes that are not UTF-8: old terminals execute a lone C1 byte.
const RAW: &[u8] = b"\x9b2J\xff\x1b[2J";

/// An independent implementation of what must not be printed.
fn is_bad(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t' || HOSTILE.contains(c) && !c.is_ascii()
}

fn assert_harmless(what: &str, ended: &Output) {
    for (stream, bytes) in [("output", &ended.stdout), ("error", &ended.stderr)] {
        let text =
            std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{what}: {stream}: {error}"));
        let bad = text.find(is_bad);
        assert!(
            bad.is_none(),
            "{what}: standard {stream}: {:?}",
            &text[bad.unwrap()..].chars().take(40).collect::<String>()
        );
    }
    assert!(ended.status.signal().is_none(), "{what}: {}", ended.status);
}

/// Runs these words, the payload among them: as text, with colours, and as JSON if the verb has it.
fn assert_harmless_with(words: &[&OsStr], folder: &Path) {
    harmless_with(words, folder);
}

/// The same; returns the exit statuses.
fn harmless_with(words: &[&OsStr], folder: &Path) -> Vec<Option<i32>> {
    let ways = [(None, "0"), (Some("-v"), "1"), (Some("--json"), "0")];
    let statuses = ways.map(|(more, colour)| {
        let mut command = pagewise(&[]);
        command.args(words.iter().take(1)).args(more).args(words.iter().skip(1));
        command.current_dir(folder).env("CLICOLOR_FORCE", colour).stdin(Stdio::null());
        command.env("PAGEWISE_STATE", folder.join("state"));
        command.env("PAGEWISE_CACHE", folder.join("cache"));
        let mut ended = command.output().unwrap();
        if colour == "1" {
            ended.stdout = without_own_colours(&ended.stdout);
            ended.stderr = without_own_colours(&ended.stderr);
        }
        assert_harmless(&format!("{words:?} {more:?}"), &ended);
        ended.status.code()
    });
    statuses.to_vec()
}

/// Our colours begin before visible text and end after it; the payload's are followed by other
/// things.
fn without_own_colours(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(
        !text.contains("\x1b[31m\u{9b}") && !text.contains("\x1b[31m\\u{9b}"),
        "the payload's own colour passed"
    );
    let mut text = text;
    for own in ["0", "1", "2", "4", "31", "32", "33", "34", "35", "36"] {
        text = text.replace(&format!("\x1b[{own}m"), "");
    }
    text.into_bytes()
}

#[test]
fn words_of_the_command_line_reach_no_terminal_as_they_are() {
    let folder = empty_folder();
    for payload in [OsStr::new(HOSTILE), OsStr::from_bytes(RAW)] {
        let lines: &[&[&str]] = &[
            &["P"],
            &["status", "P"],
            &["status", "--root", "P"],
            &["report", "--root", "P"],
            &["report", "--P"],
            &["doctor", "--root", "P"],
            &["doctor", "--explain", "P"],
            &["doctor", "--ignore", "P"],
            &["scan", "--file", "P"],
            &["scan", "--core", "P"],
            &["scan", "--device", "P"],
            &["scan", "--name", "P"],
            &["scan", "--pid", "P"],
            &["scan", "--algorithm", "P"],
            &["bench", "--codecs", "--file", "P"],
            &["trial", "--aa", "--warm-up", "1", "--", "P"],
            &["trial", "--aa", "--metric", "P", "--", "true"],
            &["trial", "--b", "P", "--", "true"],
            &["trial", "--b", "vm.swappiness=P", "--", "true"],
            &["thp", "P"],
            &["thp", "run", "--", "P"],
            &["thp", "--name", "P"],
            &["thp", "--unit", "P"],
            &["thp", "drop-in", "P"],
            &["limits", "--container", "P"],
            &["merge", "P"],
            &["capture", "-o", "P/x"],
            &["completions", "P"],
            &["schema", "P"],
            &["lab", "P"],
            &["lab", "show", "P"],
            &["lab", "run", "P"],
            &["lab", "replay", "P"],
            &["lab", "compare", "P", "P"],
            &["lab", "workload", "P"],
            &["lab", "workload", "swap", "P=1"],
            &["lab", "workload", "--described", "P"],
            &["lab", "cache", "fetch", "P"],
            &["lab", "cache", "prune", "P"],
            &["lab", "guest", "--kernel", "P", "--", "true"],
        ];
        for line in lines {
            let words: Vec<Vec<u8>> = line.iter().map(|word| replaced(word, payload)).collect();
            let words: Vec<&OsStr> = words.iter().map(|word| OsStr::from_bytes(word)).collect();
            assert_harmless_with(&words, folder.path());
        }
    }
}

/// Replaces each `P` by the payload.
fn replaced(word: &str, payload: &OsStr) -> Vec<u8> {
    let parts: Vec<&[u8]> = word.as_bytes().split(|byte| *byte == b'P').collect();
    parts.join(payload.as_bytes())
}

#[test]
fn folders_named_by_the_environment_reach_no_terminal_as_they_are() {
    for payload in [OsStr::new(HOSTILE), OsStr::from_bytes(RAW)] {
        let folder = empty_folder();
        let named = folder.path().join(payload);
        std::fs::create_dir(&named).unwrap();
        std::fs::write(named.join("00000001.journal"), "nonsense\nand more\n").unwrap();
        std::fs::create_dir(named.join("ledger")).unwrap();
        for words in [
            &["undo"][..],
            &["undo", "--json"],
            &["ledger"],
            &["ledger", "--json"],
            &["verify"],
            &["lab", "cache", "list"],
            &["lab", "cache", "list", "--json"],
        ] {
            let mut command = pagewise(words);
            let ended = command
                .env("PAGEWISE_STATE", &named)
                .env("PAGEWISE_CACHE", &named)
                .output()
                .unwrap();
            assert_harmless(&format!("{words:?}"), &ended);
        }
    }
}

/// A process that ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_name_of_a_process_reaches_no_terminal_as_it_is() {
    let folder = empty_folder();
    for name in [SHORT.as_bytes(), RAW] {
        let program = folder.path().join(OsStr::from_bytes(name));
        std::fs::copy("/bin/sleep", &program).unwrap();
        let running = Running(Command::new(&program).arg("600").spawn().unwrap());
        let pid = running.0.id().to_string();
        let is_called = || {
            let comm = std::fs::read(format!("/proc/{pid}/comm")).unwrap();
            comm.starts_with(&name[..name.len().min(15)])
        };
        let tries = (0..1000).take_while(|_| !is_called());
        tries.for_each(|_| std::thread::sleep(std::time::Duration::from_millis(5)));
        assert!(is_called(), "{name:?}");
        for line in [
            &["report", "-n", "5000"][..],
            &["status"],
            &["doctor"],
            &["scan", "--pid", &pid],
            &["thp", "--pid", &pid],
        ] {
            let words: Vec<&OsStr> = line.iter().map(OsStr::new).collect();
            let statuses = harmless_with(&words, folder.path());
            assert!(
                statuses.iter().all(|status| matches!(status, Some(0 | 3))),
                "{line:?} {statuses:?}"
            );
        }
        for more in [&[][..], &["--json"]] {
            let line = [&["thp", "collapse", "--dry-run", "--pid", &pid], more].concat();
            assert_harmless(&format!("{line:?}"), &pagewise(&line).output().unwrap());
        }
        // without this, a report that leaves the process out would pass
        let document: Value = serde_json::from_str(&run(&["report", "--json"]).out).unwrap();
        assert!(document.to_string().contains("\\\\u{1b}"), "the name is in the document, escaped");
    }
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files_below(&path, found) } else { found.push(path) }
    }
}

/// Writes the files of a recording into a folder.
fn unpack(files: &BTreeMap<String, Vec<u8>>, folder: &Path) {
    for (path, bytes) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// Replaces every word of letters in every file of a recording, one file after the other, and
/// folder names.
#[test]
fn a_recording_reaches_no_terminal_as_it_is() {
    let slug = "debian-trixie-6.12-x86_64-512m-zram-pressure-no-mglru";
    let files = pagewise_testkit::scene::Scene::load(slug).into_files();
    let chosen: Vec<&String> = files
        .keys()
        .filter(|text| {
            let ends = [
                "status",
                "stat",
                "comm",
                "cgroup",
                "swaps",
                "mounts",
                "osrelease",
                "hostname",
                "host.toml",
                "version",
            ];
            let one_of = |name: &str| text.ends_with(&format!("/{name}")) || *text == name;
            ends.into_iter().any(one_of)
                || text.contains("kmsg")
                || text.contains("passwd")
                || text.contains("os-release")
        })
        .collect();
    assert!(chosen.len() > 20, "{}", chosen.len());
    for payload in [SHORT, HOSTILE] {
        let folder = empty_folder();
        let host = folder.path().join("host");
        unpack(&files, &host);
        for path in &chosen {
            let text =
                String::from_utf8_lossy(&std::fs::read(host.join(path)).unwrap()).into_owned();
            let name = path.rsplit('/').next().unwrap();
            let spoilt = match name {
                // the name is between the parentheses
                "stat" if text.contains('(') => text.replacen('(', &format!("({payload}"), 1),
                "status" => text.replacen("Name:\t", &format!("Name:\t{payload}"), 1),
                "cgroup" => text.replacen("::/", &format!("::/{payload}"), 1),
                "swaps" => text.replacen("/dev/", &format!("/dev/{payload}"), 1),
                "host.toml" => continue,
                _ => format!("{payload}{text}"),
            };
            std::fs::write(host.join(path), spoilt).unwrap();
        }
        for line in [&["report"][..], &["status"], &["doctor"], &["doctor", "--oom"], &["thp"]] {
            let words: Vec<&OsStr> = [line, &["--root", host.to_str().unwrap()]]
                .concat()
                .into_iter()
                .map(OsStr::new)
                .collect();
            assert_harmless_with(&words, folder.path());
        }
        std::fs::write(host.join("host.toml"), payload).unwrap();
        assert_harmless_with(
            &[OsStr::new("status"), OsStr::new("--root"), host.as_os_str()],
            folder.path(),
        );
    }
}

#[test]
fn what_the_command_of_a_trial_prints_reaches_no_terminal_as_it_is() {
    let folder = empty_folder();
    let script = folder.path().join("said");
    std::fs::write(&script, [HOSTILE.as_bytes(), b"\n", RAW, b"\nlast\n"].concat()).unwrap();
    let script = format!("cat '{}'; cat '{}' >&2; exit 3", script.display(), script.display());
    for line in [
        &["trial", "--aa", "--warm-up", "1", "--pairs", "2", "--", "sh", "-c", &script][..],
        &[
            "trial",
            "--aa",
            "--warm-up",
            "1",
            "--pairs",
            "2",
            "--metric",
            "none([0-9]+)",
            "--",
            "sh",
            "-c",
            &script.replace("exit 3", "exit 0"),
        ],
    ] {
        let words: Vec<&OsStr> = line.iter().map(OsStr::new).collect();
        assert_harmless_with(&words, folder.path());
    }
    let ended =
        pagewise(&["trial", "--aa", "--warm-up", "1", "--", "sh", "-c", &script]).output().unwrap();
    let listed = String::from_utf8(ended.stderr).unwrap();
    assert!(
        listed.contains("\\u{1b}]0;own") && listed.contains("; last"),
        "it is quoted, escaped: {listed}"
    );
}

/// Inserts the payload into every string in the document.
fn spoil(value: &mut Value, payload: &str) {
    match value {
        Value::String(text) => text.push_str(payload),
        Value::Array(all) => all.iter_mut().for_each(|one| spoil(one, payload)),
        Value::Object(all) => all.values_mut().for_each(|one| spoil(one, payload)),
        _ => {}
    }
}

#[test]
fn evidence_reaches_no_terminal_as_it_is() {
    let folder = empty_folder();
    let kept = folder.path().join("evidence");
    let kept_text = kept.to_str().unwrap();
    let ended = run(&[
        "trial",
        "--aa",
        "--warm-up",
        "1",
        "--pairs",
        "2",
        "--evidence",
        kept_text,
        "--",
        "true",
    ]);
    assert_eq!(ended.status, 0, "{}", ended.err);
    let mut files = Vec::new();
    files_below(&kept, &mut files);
    // one string after the other, separately in each file: an early refusal would hide what comes
    // later
    let mut spoilt = 0;
    for file in
        files.iter().filter(|path| path.extension().is_some_and(|it| it == "json" || it == "jsonl"))
    {
        let good = std::fs::read_to_string(file).unwrap();
        let lines: Vec<String> = match file.extension().unwrap().to_str() {
            Some("jsonl") => good.lines().map(str::to_owned).collect(),
            _ => vec![good.clone()],
        };
        let keys: Vec<String> = serde_json::from_str::<Value>(&lines[0])
            .unwrap()
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        for key in keys {
            let bad: Vec<String> = lines
                .iter()
                .map(|line| {
                    let mut document: Value = serde_json::from_str(line).unwrap();
                    if let Some(value) = document.get_mut(&key) {
                        spoil(value, HOSTILE);
                    }
                    document.to_string()
                })
                .collect();
            std::fs::write(file, bad.join("\n") + "\n").unwrap();
            for line in [
                &["lab", "replay", kept_text][..],
                &["lab", "replay", "--json", kept_text],
                &["lab", "compare", kept_text, kept_text],
            ] {
                let ended = pagewise(line).env("CLICOLOR_FORCE", "0").output().unwrap();
                assert_harmless(&format!("{line:?} with {key} in {}", file.display()), &ended);
            }
            spoilt += 1;
        }
        std::fs::write(file, good).unwrap();
    }
    assert!(spoilt > 10, "{spoilt}");
}

/// A pipe whose reader has gone.
fn broken_pipe() -> Stdio {
    let mut child = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let writer = child.stdin.take().unwrap();
    child.wait().unwrap();
    writer.into()
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

/// The exit status is the same; a panic would give 101 here and SIGABRT in the release build.
#[test]
fn messages_that_cannot_be_written_change_nothing() {
    let folder = empty_folder();
    let command = |line: &[&str]| {
        let mut command = pagewise(line);
        command.env("PAGEWISE_STATE", folder.path().join("state")).stdout(Stdio::null());
        command
    };
    let slug = "debian-trixie-6.12-x86_64-512m-ksm-loss";
    let recorded = pagewise_testkit::scene::recording(slug).display().to_string();
    let nowhere = folder.path().join("no").display().to_string();
    for line in [
        &["report", "-v"][..],
        &["status", "-v"],
        &["doctor", "-v", "--root", &recorded],
        &["scan", "-v", "--pid", "self"],
        &["status", "--root", &nowhere],
        &["trial", "--aa", "--warm-up", "1", "--pairs", "2", "-v", "--", "true"],
        &["trial", "--aa", "--warm-up", "1", "--", "false"],
        &["lab", "replay", &nowhere],
        &["thp", "run", "--", &nowhere],
        &["no-such-verb"],
        &["undo"],
    ] {
        let expected = command(line).stderr(Stdio::null()).status().unwrap();
        for (what, stream) in [("full", full()), ("broken", broken_pipe())] {
            let ended = command(line).stderr(stream).status().unwrap();
            assert_eq!(ended, expected, "{line:?} {what}");
        }
        let closed = format!("exec {} \"$@\" 2>&-", env!("CARGO_BIN_EXE_pagewise"));
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &closed, "sh"])
            .args(line)
            .env("PAGEWISE_STATE", folder.path().join("state"));
        assert_eq!(shell.stdout(Stdio::null()).status().unwrap(), expected, "{line:?} closed");
    }
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    for line in [
        &["report"][..],
        &["status"],
        &["status", "--json"],
        &["schema", "report"],
        &["--help"],
        &["--version"],
        &["completions", "bash"],
    ] {
        let ended = pagewise(line).stdout(full()).output().unwrap();
        let listed = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{line:?}: {listed}");
        assert!(listed.starts_with("pagewise: standard output: "), "{line:?}: {listed}");
        // a reader that stops reading has what it needs, so this is success
        let ended = pagewise(line).stdout(broken_pipe()).output().unwrap();
        assert_eq!(
            ended.status.code(),
            Some(0),
            "{line:?}: {}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }
}
