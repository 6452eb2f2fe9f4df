// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise agent` as root reads no configuration that another user can change.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

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
