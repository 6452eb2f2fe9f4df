// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names that other users choose, and files that they own: mount points and cgroups with escape
//! sequences, and folders of recordings with links.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::process::Output;

use crate::machine::{Place, pagewise, run, said};

/// A cleared screen, a backslash as octal digits, and a space; mount points also have a newline.
const ESCAPES: &str = "pagewise-test\u{1b}[2J\\040 x";
const THEIRS: u32 = 4242;

fn assert_no_escape(words: &[&str], ended: &Output) {
    let all = [&ended.stdout[..], &ended.stderr].concat();
    assert!(!all.contains(&0x1b), "{words:?}: {}", said(ended));
    if words.contains(&"--json") {
        let document: Result<serde_json::Value, _> = serde_json::from_slice(&ended.stdout);
        assert!(document.is_ok(), "{words:?}: {document:?}");
    }
}

#[test]
fn a_mount_and_a_cgroup_with_escape_sequences_reach_no_terminal() {
    let mut place = Place::new();
    let point = place.folder.path().join(format!("{ESCAPES}\n/proc 1"));
    fs::create_dir_all(&point).unwrap();
    let shown = point.to_str().unwrap();
    // a promise is one line, so it cannot name a path with a newline
    let below = place.folder.path().display();
    let undo = "mountpoint -q \"$at\" && umount \"$at\"";
    place.loans.promise(&format!("for at in '{below}'/pagewise-test*/*; do {undo}; done; true"));
    run("mount", &["-t", "tmpfs", "-o", "size=1M", "none", shown]);
    fs::write(point.join("full"), vec![1; 1 << 20]).unwrap();
    let memory = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
    let memory = memory.into_iter().find(|it| Path::new(it).join("cgroup.procs").exists()).unwrap();
    let group = format!("{memory}/{ESCAPES}.service");
    place.loans.promise(&format!("rmdir '{group}' 2> /dev/null; true"));
    fs::create_dir(&group).unwrap();
    for words in [
        &["report", "--no-contents", "--interval", "0"][..],
        &["report", "--no-contents", "--interval", "0", "--json"],
        &["status", "-v"],
        &["doctor", "-v"],
        &["doctor", "--json"],
        &["limits"],
        &["plan"],
        &["capabilities"],
    ] {
        let ended = pagewise(words);
        assert!(matches!(ended.status.code(), Some(0 | 1 | 3)), "{words:?}: {}", said(&ended));
        assert_no_escape(words, &ended);
        if words.contains(&"report") && words.contains(&"--json") {
            let text = String::from_utf8_lossy(&ended.stdout);
            assert!(text.contains("u{1b}[2J"), "the mount is there, escaped");
        }
    }
    let unit = format!("{ESCAPES}.service");
    for words in [["limits", "--unit", &unit], ["age", "--unit", &unit], ["thp", "--unit", &unit]] {
        assert_no_escape(&words, &pagewise(&words));
    }
}

/// A link from `path` below the folder to the file of root.
fn link(folder: &Path, path: &str, to: impl AsRef<OsStr>) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(to.as_ref(), path).unwrap();
}

/// Whatever links are in a folder of another user, nothing of a file that only root may read is
/// printed, or stored in a recording of the recording.
#[test]
fn links_in_a_recording_of_another_user_lead_to_no_file_of_root() {
    const SECRET: &str = "MemTotal: 4711 kB of a file that only root may read\n";
    let place = Place::new();
    let secret = place.folder.path().join("secret");
    fs::write(&secret, SECRET).unwrap();
    run("chmod", &["600", secret.to_str().unwrap()]);
    let theirs = tempfile::tempdir().unwrap();
    for (folder, below) in [("recording", "end/"), ("host", "")] {
        let folder = theirs.path().join(folder);
        for file in ["meminfo", "vmstat", "zoneinfo", "swaps"] {
            link(&folder, &format!("{below}proc/{file}"), &secret);
        }
        link(&folder, &format!("{below}etc"), place.folder.path());
        link(&folder, &format!("{below}proc/1"), "/proc/1");
        fs::create_dir_all(folder.join(format!("{below}sys"))).unwrap();
    }
    let manifest = "format = \"pagewise-recording/1\"\nname = \"host-1\"\nkernel = \"6.12\"\n\
        page_size = 4096\n[ends.end]\nunix_seconds = 12.0\nmonotonic_seconds = 3.0\n";
    fs::write(theirs.path().join("recording/host.toml"), manifest).unwrap();
    run("chmod", &["-R", "a+rX", theirs.path().to_str().unwrap()]);
    run("chown", &["-R", "-h", &THEIRS.to_string(), theirs.path().to_str().unwrap()]);
    chown(theirs.path(), Some(THEIRS), None).unwrap();
    for root in ["recording", "host"] {
        let root = theirs.path().join(root).display().to_string();
        let copy = place.folder.path().join("copy").display().to_string();
        for words in [
            &["report", "--interval", "0"][..],
            &["report", "--interval", "0", "--json"],
            &["status", "-v"],
            &["doctor", "-v"],
            &["plan"],
            &["limits"],
            &["capture", "--interval", "0", "--folder", &copy],
        ] {
            let ended = place.output(&[words, &["--root", &root]].concat());
            assert!(matches!(ended.status.code(), Some(0 | 1 | 3)), "{words:?}: {}", said(&ended));
            let all = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
            assert!(!all.contains("4711") && !all.contains("only root"), "{words:?}: {all}");
        }
        let found = run("sh", &["-c", "grep -rl -e 4711 -e 'only root' \"$0\" || true", &copy]);
        assert_eq!(found.trim(), "", "{root}");
        run("rm", &["-rf", &copy]);
    }
}
