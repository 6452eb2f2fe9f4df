// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise undo` without any loans, and with an invalid state folder. Needs no privileges; what
//! it restores is tested in `tests/root/loans.rs`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::program::{ProgramRun, empty_folder, finish, pagewise};

fn undo(state: &Path, arguments: &[&str]) -> ProgramRun {
    let mut command = pagewise(&[&["undo"], arguments].concat());
    finish(command.env("PAGEWISE_STATE", state).env("PAGEWISE_LOCK", state.join("run")))
}

/// A state folder, and what was planted next to it.
struct Planted(tempfile::TempDir);

impl Planted {
    fn new() -> Self {
        let planted = Self(empty_folder());
        std::fs::create_dir(planted.state()).unwrap();
        std::fs::set_permissions(planted.state(), Permissions::from_mode(0o700)).unwrap();
        planted
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn place(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn journal(&self, name: &str) -> PathBuf {
        self.state().join(format!("{name}.journal"))
    }

    /// Writes a journal as a run of this boot would.
    fn write(&self, name: &str, records: &[Value]) -> PathBuf {
        let path = self.journal(name);
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let began = json!({
            "event": "began", "boot_id": boot.trim(), "pid": 1, "unix_seconds": 1, "pagewise": "0.1.0",
        });
        let lines: Vec<u8> = [&began].into_iter().chain(records).flat_map(line).collect();
        std::fs::write(&path, lines).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn undo(&self) -> ProgramRun {
        undo(&self.state(), &[])
    }

    fn forget(&self, id: &str) -> ProgramRun {
        undo(&self.state(), &["--forget", id])
    }
}

pub(crate) fn line(record: &Value) -> Vec<u8> {
    let text = format!("{{\"record\":{record}");
    let sum = crc32fast::hash(text.as_bytes());
    format!("{text},\"crc32\":\"{sum:08x}\"}}\n").into_bytes()
}

fn taking(loan: u64, what: &Value) -> Value {
    json!({"event": "taking", "loan": loan, "what": what})
}

/// A journal that others can have written is not read: whether a plan is applied is not known.
#[test]
fn verify_does_not_say_that_nothing_is_applied_if_a_journal_is_not_believed() {
    let planted = Planted::new();
    let verify = || {
        let mut command = pagewise(&["verify"]);
        let lock = planted.state().join("run");
        finish(command.env("PAGEWISE_STATE", planted.state()).env("PAGEWISE_LOCK", lock))
    };
    let calm = verify();
    assert_eq!((calm.status, calm.out.as_str()), (0, "no plan is applied\n"), "{}", calm.err);
    let journal = planted.state().join("00000001.plan");
    std::fs::write(&journal, b"").unwrap();
    std::fs::set_permissions(&journal, Permissions::from_mode(0o666)).unwrap();
    let ran = verify();
    assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{}", ran.err);
    assert!(ran.err.contains("00000001.plan") && ran.err.contains("was not read"), "{}", ran.err);
    assert!(ran.err.contains("pagewise undo --forget"), "{}", ran.err);
    std::fs::set_permissions(&journal, Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&journal, b"half\n").unwrap();
    let ran = verify();
    assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{}", ran.err);
    assert!(ran.err.contains("line 1 is damaged"), "{}", ran.err);
}

/// Journals that the program of 2026-11-23 wrote in a guest: of its killed run nothing is left in this
/// boot, and its plan is named, with the command that undoes it.
#[test]
fn journals_of_an_earlier_program_are_understood() {
    const BOOT: &str = "29185bbc-892c-4779-9270-d38148887136";
    let planted = Planted::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../apply/src/journal");
    for (from, to) in [
        ("run-2026-11-23.journal", format!("00000001.{BOOT}.journal")),
        ("plan-2026-11-23.journal", format!("00000002.{BOOT}.plan")),
    ] {
        let to = planted.state().join(to);
        std::fs::copy(folder.join(from), &to).unwrap();
        std::fs::set_permissions(&to, Permissions::from_mode(0o600)).unwrap();
    }
    let ran = planted.undo();
    assert_eq!(ran.status, 0, "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 6, "{}", ran.out);
    assert!(lines[1..5].iter().all(|line| line.ends_with(": nothing to put back")), "{}", ran.out);
    assert!(lines[5].contains("3 changes in force; to undo it: pagewise undo 2"), "{}", ran.out);
    assert!(!planted.state().join(format!("00000001.{BOOT}.journal")).exists());
    let mut command = pagewise(&["verify", "--json"]);
    let lock = planted.state().join("run");
    let verified =
        finish(command.env("PAGEWISE_STATE", planted.state()).env("PAGEWISE_LOCK", lock));
    let document: Value = serde_json::from_str(&verified.out).unwrap();
    assert_eq!(document["schema"], "pagewise/verify/1");
    assert!(verified.out.contains("982e89ec32ab674e"), "{}", verified.out);
}

#[test]
fn where_nothing_was_borrowed_there_is_nothing_to_put_back() {
    let folder = empty_folder();
    let state = folder.path().join("state");
    let ran = undo(&state, &[]);
    assert_eq!((ran.status, ran.out.as_str()), (0, "nothing to put back\n"), "{}", ran.err);
    assert!(!state.exists(), "looking makes no folder");
    let document: serde_json::Value = serde_json::from_str(&undo(&state, &["--json"]).out).unwrap();
    assert_eq!(document["schema"], "pagewise/undo/1");
    assert_eq!(document["runs"].as_array().map(Vec::len), Some(0));
}

/// A damaged journal may contain anything: none of it is used, the file stays, and it is named.
#[test]
fn a_damaged_journal_is_named_and_kept() {
    let folder = empty_folder();
    let journal = folder.path().join("00000001.journal");
    std::fs::write(&journal, b"nonsense\nmore of it\n").unwrap();
    let ran = undo(folder.path(), &[]);
    assert_eq!(ran.status, 1);
    assert!(ran.out.contains("00000001.journal: line 1 is damaged"), "{}{}", ran.out, ran.err);
    assert_eq!(std::fs::read(&journal).unwrap(), b"nonsense\nmore of it\n");
}

#[test]
fn a_run_that_was_killed_before_it_took_anything_left_nothing() {
    let folder = empty_folder();
    std::fs::write(folder.path().join("00000001.journal"), br#"{"record":{"event":"began","#)
        .unwrap();
    let ran = undo(folder.path(), &[]);
    assert_eq!((ran.status, ran.out.as_str()), (0, "nothing to put back\n"), "{}", ran.err);
    assert!(!folder.path().join("00000001.journal").exists());
}

#[test]
fn what_cannot_be_done_says_why_and_what_to_do() {
    let folder = empty_folder();
    let ran = undo(folder.path(), &["--root", "fixtures"]);
    assert!(
        ran.status == 1 && ran.err.contains("a recording has nothing to put back"),
        "{}",
        ran.err
    );
    let file = folder.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let ran = undo(&file, &[]);
    assert!(ran.status == 1 && ran.err.contains("PAGEWISE_STATE"), "{}", ran.err);
}

/// In journals of this and an earlier boot, and of this and an early format: the last line is
/// garbled but complete, or the first line is.
#[test]
fn a_garbled_line_is_damage_wherever_it_is_and_forget_puts_the_journal_aside() {
    let planted = Planted::new();
    let what = json!({"kind": "module", "name": "no-such-module"});
    let journal = planted.write("00000007", &[taking(1, &what)]);
    let whole = std::fs::read(&journal).unwrap();
    let mut last = whole.clone();
    let at = whole.len() - 20;
    last[at] ^= 1;
    let mut first = whole.clone();
    first[30] ^= 1;
    let without_end = [&last[..last.len() - 1], b"x"].concat();
    for (bytes, line) in [(last.clone(), 2), (first, 1), (without_end, 2)] {
        std::fs::write(&journal, &bytes).unwrap();
        for _ in 0..2 {
            let ran = planted.undo();
            assert_eq!(ran.status, 1, "{}{}", ran.out, ran.err);
            assert!(ran.out.contains(&format!("line {line} is damaged")), "{}", ran.out);
            assert!(ran.err.contains("--forget ID"), "{}", ran.err);
            assert_eq!(std::fs::read(&journal).unwrap(), bytes, "it stays as it is");
        }
    }
    let wrong = planted.forget("8");
    assert!(wrong.status == 1 && wrong.err.contains("00000007.journal"), "{}", wrong.err);
    let ran = planted.forget("7");
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.contains("what stays on the machine"), "{}", ran.out);
    assert!(ran.out.contains("whatever line 2 named"), "{}", ran.out);
    assert!(!journal.exists());
    let kept = planted.state().join("forgotten/00000007.journal");
    assert!(ran.out.contains(&format!("as {}", kept.display())), "{}", ran.out);
    assert_eq!(std::fs::read(&kept).unwrap(), [&last[..last.len() - 1], b"x"].concat());
    assert_eq!(planted.undo().out, "nothing to put back\n");
    // a second one of this number gets another name
    std::fs::write(&journal, &last).unwrap();
    let ran = planted.forget("7");
    assert_eq!(ran.status, 0, "{}", ran.err);
    let second = planted.state().join("forgotten/00000007.journal.2");
    assert_eq!((std::fs::read(&second).unwrap(), kept.exists()), (last.clone(), true));
    // if it cannot be kept, it stays in force
    std::fs::remove_dir_all(planted.state().join("forgotten")).unwrap();
    std::fs::write(planted.state().join("forgotten"), "in the way").unwrap();
    std::fs::write(&journal, &last).unwrap();
    let refused = planted.forget("7");
    assert!(refused.status == 1 && refused.err.contains("still in force"), "{}", refused.err);
    assert_eq!(std::fs::read(&journal).unwrap(), last);
}

/// A damaged first line must not make the loans count as those of this boot.
#[test]
fn without_a_boot_nothing_is_written() {
    let planted = Planted::new();
    let path = "/proc/sys/vm/extfrag_threshold";
    let now = std::fs::read_to_string(path).unwrap().trim().to_owned();
    let what = json!({
        "kind": "setting", "name": "vm.extfrag_threshold", "path": path, "old": "1", "ours": now,
        "back": {"path": path, "value": "1"},
    });
    let journal = planted.write("00000001", &[taking(1, &what)]);
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes[30] ^= 1;
    std::fs::write(&journal, &bytes).unwrap();
    let ran = planted.undo();
    assert_eq!(ran.status, 1);
    assert!(ran.out.contains("does not say any more in which boot"), "{}", ran.out);
    assert_eq!(std::fs::read_to_string(path).unwrap().trim(), now);
    // its name says that it is of another boot, of which nothing is left
    let named = planted.journal("00000001.0000-1");
    std::fs::rename(&journal, &named).unwrap();
    let ran = planted.undo();
    assert!(ran.status == 1 && ran.out.contains("nothing to put back"), "{}", ran.out);
    assert_eq!(std::fs::read_to_string(path).unwrap().trim(), now);
}

/// A plain folder that contains a list of processes is not a cgroup: the listed processes survive.
#[test]
fn a_folder_that_looks_like_a_cgroup_kills_nobody() {
    let planted = Planted::new();
    let folder = planted.place("pagewise-1-1");
    std::fs::create_dir(&folder).unwrap();
    let mut victim = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    std::fs::write(folder.join("cgroup.procs"), format!("{}\n", victim.id())).unwrap();
    let what = json!({"kind": "group", "folder": folder, "home": null});
    let journal = planted.write("00000001", &[taking(1, &what)]);
    let ran = planted.undo();
    let lives = victim.try_wait().unwrap().is_none();
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(lives, "{}", ran.out);
    assert!(ran.status == 1 && ran.out.contains("it is no cgroup"), "{}{}", ran.out, ran.err);
    assert!(folder.join("cgroup.procs").exists() && journal.exists());
}

/// A file with our prefix is removed only if it is the one that the run made.
#[test]
fn a_file_of_such_a_name_stays() {
    use std::os::unix::fs::MetadataExt;

    let planted = Planted::new();
    let inode = planted.0.path().metadata().unwrap().ino();
    let swap_file = |path: &Path| json!({"kind": "swap-file", "path": path, "folder_inode": inode});
    let notes = planted.place("pagewise-notes.txt");
    let swap = planted.place("pagewise-swap-1-1");
    let link = planted.place("pagewise-swap-1-2");
    let target = planted.place("target");
    for path in [&notes, &swap, &target] {
        std::fs::write(path, "precious").unwrap();
    }
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let other = json!({"device": 1, "inode": 1});
    let records = [
        taking(1, &swap_file(&notes)),
        taking(2, &swap_file(&swap)),
        json!({"event": "identified", "loan": 2, "identity": other}),
        taking(3, &swap_file(&link)),
    ];
    let journal = planted.write("00000001.x", &records);
    // of an earlier boot, as its name says
    let ran = planted.undo();
    assert!(ran.status == 1 && ran.out.contains("not the file that the run made"), "{}", ran.out);
    assert!(ran.out.contains("no run gives a swap file such a name"), "{}", ran.out);
    assert!(ran.out.contains("it is no plain file of ours"), "{}", ran.out);
    for path in [&notes, &swap, &target, &link] {
        assert_eq!(std::fs::read(path).unwrap(), b"precious", "{}", path.display());
    }
    let ran = planted.forget("1");
    assert!(ran.status == 0 && ran.out.contains("pagewise-notes.txt"), "{}{}", ran.out, ran.err);
    assert!(!journal.exists() && notes.exists() && swap.exists());
}

/// Anything else with the name of a journal is listed, and does not prevent other journals from
/// being undone.
#[test]
fn folders_pipes_and_links_named_like_journals_block_nothing() {
    let planted = Planted::new();
    let target = planted.place("target");
    std::fs::write(&target, b"{\"record\":").unwrap();
    std::fs::create_dir(planted.journal("00000001")).unwrap();
    std::fs::create_dir(planted.journal("99999999")).unwrap();
    let pipe = planted.journal("00000002");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink(&target, planted.journal("00000003")).unwrap();
    let what = json!({"kind": "module", "name": "no-such-module"});
    let journal = planted.write("00000004", &[taking(1, &what)]);
    let ran = planted.undo();
    assert_eq!(ran.status, 0, "{}", ran.err);
    for told in ["it is a folder", "it is a pipe", "it is a symbolic link"] {
        assert!(ran.out.contains(told), "{}", ran.out);
    }
    assert!(!journal.exists(), "{}", ran.out);
    assert_eq!(std::fs::read(&target).unwrap(), b"{\"record\":", "not cut through the link");
    let ran = planted.forget("3");
    assert!(ran.status == 0 && target.exists(), "{}", ran.err);
    assert!(std::fs::symlink_metadata(planted.journal("00000003")).is_err());
    let ran = planted.forget("1");
    assert!(ran.status == 1 && ran.err.contains("00000001.journal"), "{}", ran.err);
}

#[test]
fn a_journal_that_others_can_have_written_is_not_read() {
    let planted = Planted::new();
    let what = json!({"kind": "module", "name": "no-such-module"});
    let journal = planted.write("00000001", &[taking(1, &what)]);
    std::fs::set_permissions(&journal, Permissions::from_mode(0o620)).unwrap();
    let ran = planted.undo();
    assert!(ran.status == 1 && ran.out.contains("others may write to it"), "{}", ran.out);
    std::fs::set_permissions(&journal, Permissions::from_mode(0o600)).unwrap();
    std::fs::hard_link(&journal, planted.place("second")).unwrap();
    let ran = planted.undo();
    assert!(ran.status == 1 && ran.out.contains("2 names"), "{}", ran.out);
    assert!(journal.exists());
    let ran = planted.forget("1");
    assert!(ran.status == 0 && ran.out.contains("all that it may name"), "{}", ran.out);
    assert!(!journal.exists() && planted.place("second").exists());
}
