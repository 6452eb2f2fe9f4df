// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unusual and malformed configuration files on a disk: circular links, masked files, binary
//! contents, folders in place of files, thousands of drop-ins.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the files are made for the test"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use pagewise_hostfs::{HostRoot, ReadHost};
use pagewise_model::{Effect, PersistentSetting, Snapshot, ownership};

fn write(root: &Path, path: &str, text: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn settings(root: &Path) -> Vec<PersistentSetting> {
    pagewise_settings::read(&HostRoot::folder(root).unwrap()).settings
}

fn applied(root: &Path) -> Vec<String> {
    let all = settings(root);
    let applied = all.iter().filter(|setting| setting.is_applied());
    applied.map(|it| format!("{}={} {}", it.target, it.wanted(), it.value.source)).collect()
}

#[test]
fn masks_and_links_that_lead_nowhere_hide_files_of_packages() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for name in ["10-null", "20-empty", "30-dangling", "40-circle", "50-folder", "60-seen"] {
        write(root, &format!("usr/lib/sysctl.d/{name}.conf"), b"vm.swappiness = 1\n");
    }
    let etc = root.join("etc/sysctl.d");
    write(root, "etc/sysctl.d/20-empty.conf", b"");
    symlink("/dev/null", etc.join("10-null.conf")).unwrap();
    symlink("/no/such/file", etc.join("30-dangling.conf")).unwrap();
    symlink("40-circle.conf", etc.join("40-circle.conf")).unwrap();
    fs::create_dir(etc.join("50-folder.conf")).unwrap();
    assert_eq!(applied(root), ["vm.swappiness=1 /usr/lib/sysctl.d/60-seen.conf:1"]);
    let hidden = settings(root);
    let hidden = hidden.iter().filter(|it| matches!(it.effect, Effect::Ignored(_))).count();
    assert_eq!(hidden, 5, "the lines that they hide are listed");
}

#[test]
fn folders_in_a_circle_and_binary_bytes_are_read_to_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let junk: Vec<u8> = (0..=255u8).cycle().take(100_000).collect();
    for path in [
        "etc/sysctl.d/1.conf",
        "etc/tmpfiles.d/1.conf",
        "etc/udev/rules.d/1.rules",
        "etc/modprobe.d/1.conf",
        "etc/modules-load.d/1.conf",
        "etc/systemd/zram-generator.conf",
        "etc/default/zramswap",
        "etc/fstab",
        "etc/systemd/system/a.service",
        "etc/systemd/system/a.service.d/1.conf",
        "etc/systemd/system/a.swap",
        "etc/tuned/active_profile",
    ] {
        write(root, path, &junk);
    }
    symlink("../system", root.join("etc/systemd/system/b.service.d")).unwrap();
    symlink(".", root.join("etc/systemd/system/c.service.d")).unwrap();
    symlink("run", root.join("run")).unwrap();
    assert_eq!(applied(root), [""; 0]);
}

#[test]
fn of_ten_thousand_drop_ins_the_winners_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for at in 0..10_000 {
        write(root, &format!("etc/sysctl.d/{at:05}.conf"), b"vm.swappiness = 1\n");
        let unit = format!("etc/systemd/system/db.service.d/{at:05}.conf");
        write(root, &unit, b"[Service]\nMemoryMax=1G\n");
    }
    write(root, "etc/sysctl.d/99999.conf", b"vm.swappiness = 2\n");
    let host = HostRoot::folder(root).unwrap();
    let snapshot =
        Snapshot { configuration: pagewise_settings::read(&host), ..Snapshot::default() };
    let owned = ownership(&snapshot);
    assert_eq!(owned.len(), 2, "{owned:?}");
    let winners: Vec<String> =
        owned.iter().map(|it| it.winning_line().unwrap().value.source.to_string()).collect();
    assert_eq!(
        winners,
        ["/etc/systemd/system/db.service.d/09999.conf:2", "/etc/sysctl.d/99999.conf:1"]
    );
    let problems = host.take_problems();
    assert_eq!(problems.len(), 2, "what was left out is said: {problems:?}");
}

/// A file that only root can read sets nothing for others, but hides files of the same name all the
/// same.
#[test]
fn a_file_that_may_not_be_read_sets_nothing() {
    let denied =
        pagewise_hostfs::Entry::Refused(pagewise_hostfs::Refusal::Denied("run as root".into()));
    let vendor = pagewise_hostfs::Entry::File(b"vm.swappiness = 1\n".to_vec());
    let host = HostRoot::memory([
        ("etc/sysctl.d/1.conf".to_owned(), denied),
        ("usr/lib/sysctl.d/1.conf".to_owned(), vendor),
    ]);
    let all = pagewise_settings::read(&host).settings;
    assert!(all.iter().all(|setting| !setting.is_applied()), "{all:?}");
    assert_eq!(all.len(), 1);
}
