// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise agent` as root reads no configuration that another user can change, and says what a zram
//! device cannot do.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use crate::machine::Loans;
use crate::program::pagewise;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    set_mode(path, 0o644);
}

/// What `agent --check` prints, and whether it succeeds.
fn check(main: &Path) -> (String, bool) {
    let mut command = pagewise(&["agent", "--check", "--config", main.to_str().unwrap()]);
    let ran = command.output().unwrap();
    (String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap(), ran.status.success())
}

#[test]
fn root_reads_no_configuration_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let main = folder.path().join("agent.toml");
    let drop_ins = folder.path().join("agent.toml.d");
    let drop_in = drop_ins.join("10.toml");
    fs::create_dir(&drop_ins).unwrap();
    set_mode(&drop_ins, 0o755);
    write(&main, "");
    write(&drop_in, "[aging.\"/web\"]\n");
    let accepted = || {
        let (text, is_success) = check(&main);
        assert!(is_success && text.contains("/web: from"), "{text}");
    };
    let refused = |expected: &str| {
        let (text, is_success) = check(&main);
        assert!(!is_success && text.contains(expected) && text.contains("\n  next   "), "{text}");
    };
    accepted();
    set_mode(&drop_in, 0o664);
    refused("10.toml: its mode is 0664: others may write to it");
    set_mode(&drop_in, 0o644);
    for path in [&main, &drop_in, &drop_ins] {
        chown(path, Some(4242), None).unwrap();
        refused("belongs to user 4242");
        chown(path, Some(0), None).unwrap();
    }
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(&drop_in, &elsewhere).unwrap();
    symlink(&elsewhere, &drop_in).unwrap();
    refused("10.toml: expected a file, found a symbolic link");
    fs::rename(&elsewhere, &drop_in).unwrap();
    set_mode(&drop_ins, 0o777);
    refused("agent.toml.d: its mode is 0777: others may write there");
    set_mode(&drop_ins, 0o755);
    accepted();
}

/// A new device has no backing device, and no algorithm for recompression.
#[test]
fn zram_that_can_do_nothing_is_left_alone() {
    let mut loans = Loans::new();
    let id = loans.zram("32M");
    let folder = tempfile::tempdir().unwrap();
    let main = folder.path().join("agent.toml");
    write(&main, &format!("[zram.zram{id}]\nflash_per_day = \"1M\"\n[zram.zram4000000]\n"));
    let mut command = pagewise(&["agent", "--once", "--config", main.to_str().unwrap()]);
    command.env("PAGEWISE_STATE", folder.path().join("state"));
    command.env("PAGEWISE_LOCK", folder.path().join("lock"));
    let ran = command.output().unwrap();
    let text = String::from_utf8(ran.stderr).unwrap();
    let why = format!("zram{id}: left alone: it has no algorithm for recompression, and ");
    assert!(ran.status.success() && text.contains(&why), "{text}");
    assert!(text.contains("zram4000000: waits: there is no such zram device now"), "{text}");
}
