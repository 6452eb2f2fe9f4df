// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a bootable system from unpacked packages: does the part of the maintainer scripts' work
//! that a guest needs, and removes what a guest does not need.
//!
//! A guest has no keyboard, no screen and no user who logs in, its hardware is known, and it has no
//! D-Bus: units that wait for such things are masked.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::users::Accounts;
use crate::error::{Error, ErrorContext};

/// Paths that must be links into /usr; packages of some suites still contain files below both
/// paths.
const MERGED: &[&str] = &["bin", "sbin", "lib", "lib64"];

/// Paths to remove, because a guest does not use them. gconv, for example, holds conversions of
/// character sets that no program of the guest needs.
const TRIMMED: &[&str] = &[
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/bash-completion",
    "usr/share/zsh",
    "usr/share/fish",
    "usr/lib/udev/hwdb.d",
    "usr/lib/x86_64-linux-gnu/gconv",
];

const MASKED: &[&str] = &[
    "getty.target",
    "systemd-logind.service",
    "systemd-logind-varlink.socket",
    "systemd-hwdb-update.service",
    "systemd-firstboot.service",
    "systemd-ask-password-console.path",
    "systemd-ask-password-wall.path",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
];

/// Units that maintainer scripts would have enabled.
const ENABLED: &[&str] = &["redis-server.service"];

/// Links that update-alternatives would have made, if they do not exist.
const LINKS: &[(&str, &str)] =
    &[("usr/bin/awk", "mawk"), ("usr/bin/sh", "dash"), ("usr/sbin/init", "../lib/systemd/systemd")];

/// Accounts that maintainer scripts of some suites make (sysusers.d format).
const ACCOUNTS: &str = "u redis - \"redis\" /var/lib/redis\n\
    g input -\ng kvm -\ng render -\ng sgx -\n";

/// Files that do not belong to root: path, mode, user, group. A path that ends with `/` is made as
/// a folder.
const OWNED: &[(&str, u32, &str, &str)] = &[
    ("var/log/redis/", 0o2750, "redis", "adm"),
    ("var/lib/redis/", 0o750, "redis", "redis"),
    ("etc/redis", 0o2770, "redis", "redis"),
    ("etc/redis/redis.conf", 0o640, "redis", "redis"),
    ("etc/shadow", 0o640, "root", "shadow"),
    ("etc/gshadow", 0o640, "root", "shadow"),
    ("usr/sbin/unix_chkpwd", 0o2755, "root", "shadow"),
    ("usr/bin/chage", 0o2755, "root", "shadow"),
    ("usr/bin/expiry", 0o2755, "root", "shadow"),
];

/// A file or folder with an owner other than root.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) path: String,
    pub(super) user: u32,
    pub(super) group: u32,
}

/// Configuration of systemd: if systemd crashes, the guest ends instead of freezing; stopping units
/// takes at most 10 s.
const MANAGER: &str = "[Manager]\nCrashReboot=yes\nCrashAction=reboot\nShowStatus=no\n\
    DefaultTimeoutStopSec=10s\n";

/// Prepares the root folder before packages are unpacked into it.
pub(super) fn prepare(root: &Path) -> Result<(), Error> {
    for name in MERGED {
        let folder = root.join("usr").join(name);
        fs::create_dir_all(&folder).with_path(&folder)?;
        make_link(&root.join(name), &format!("usr/{name}"))?;
    }
    Ok(())
}

/// Completes the root folder after all packages are unpacked; returns the files not owned by root.
pub(super) fn complete(root: &Path) -> Result<Vec<Owned>, Error> {
    for path in TRIMMED {
        remove(&root.join(path))?;
    }
    let accounts = make_accounts(root)?;
    for (path, target) in LINKS {
        if root.join("usr/bin").join(target).exists() || target.starts_with("..") {
            make_link(&root.join(path), target)?;
        }
    }
    enable_units(root)?;
    for folder in ["dev", "proc", "sys", "run", "tmp", "root", "out", "var/log/journal"] {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).with_path(&folder)?;
    }
    write_files(root)?;
    let owned = set_owned(root, &accounts)?;
    mark_updated(root)?;
    Ok(owned)
}

/// Gives `/etc/.updated` and `/var/.updated` the modification time of /usr, in whole seconds, as the
/// disk stores it. If these differ, systemd updates accounts, library cache and journal catalogue at
/// each boot of a guest. This is the last step, because any change in /usr changes its time.
fn mark_updated(root: &Path) -> Result<(), Error> {
    let usr = root.join("usr");
    let time = usr.metadata().and_then(|data| data.modified()).with_path(&usr)?;
    for name in ["etc/.updated", "var/.updated"] {
        let path = root.join(name);
        write_text(&path, "")?;
        let file = fs::File::options().write(true).open(&path).with_path(&path)?;
        file.set_modified(time).with_path(&path)?;
    }
    Ok(())
}

/// The entries of OWNED that exist in this suite; sets the modes of their files.
fn set_owned(root: &Path, accounts: &Accounts) -> Result<Vec<Owned>, Error> {
    let mut found = Vec::new();
    for &(name, mode, user, group) in OWNED {
        let path = root.join(name);
        if name.ends_with('/') {
            fs::create_dir_all(&path).with_path(&path)?;
        }
        let numbers = (accounts.uid_of(user), accounts.gid_of(group));
        if let (true, (Some(user), Some(group))) = (path.exists(), numbers) {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).with_path(&path)?;
            found.push(Owned { path: name.trim_end_matches('/').to_owned(), user, group });
        }
    }
    Ok(found)
}

fn make_accounts(root: &Path) -> Result<Accounts, Error> {
    let master = |name: &str| read_text(&root.join("usr/share/base-passwd").join(name));
    let mut accounts = Accounts::from_masters(&master("passwd.master")?, &master("group.master")?);
    for path in list_sorted(&root.join("usr/lib/sysusers.d"))? {
        accounts.declare(&read_text(&path)?);
    }
    accounts.declare(ACCOUNTS);
    for (name, mode, contents) in accounts.files() {
        let path = root.join("etc").join(name);
        write_text(&path, &contents)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).with_path(&path)?;
    }
    Ok(accounts)
}

fn enable_units(root: &Path) -> Result<(), Error> {
    let etc = root.join("etc/systemd/system");
    for unit in MASKED {
        make_link(&etc.join(unit), "/dev/null")?;
    }
    for unit in ENABLED {
        make_link(
            &etc.join("multi-user.target.wants").join(unit),
            &format!("/lib/systemd/system/{unit}"),
        )?;
    }
    make_link(&etc.join("default.target"), "/lib/systemd/system/multi-user.target")
}

/// Writes configuration files of the system. With an empty machine-id, systemd makes a new one at
/// each boot.
fn write_files(root: &Path) -> Result<(), Error> {
    let names = read_text(&root.join("usr/share/libc-bin/nsswitch.conf")).unwrap_or_default();
    for (path, contents) in [
        ("etc/machine-id", ""),
        ("etc/hostname", "guest\n"),
        ("etc/hosts", "127.0.0.1 localhost guest\n::1 localhost guest\n"),
        ("etc/nsswitch.conf", names.as_str()),
        ("etc/systemd/system.conf.d/pagewise.conf", MANAGER),
    ] {
        write_text(&root.join(path), contents)?;
    }
    Ok(())
}

fn read_text(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).with_path(path)
}

fn write_text(path: &Path, contents: &str) -> Result<(), Error> {
    make_parent(path)?;
    fs::write(path, contents).with_path(path)
}

fn make_parent(path: &Path) -> Result<(), Error> {
    path.parent().map_or(Ok(()), |folder| fs::create_dir_all(folder).with_path(folder))
}

/// Makes a symbolic link; keeps a file that already exists at the path.
fn make_link(path: &Path, target: &str) -> Result<(), Error> {
    make_parent(path)?;
    match symlink(target, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made.with_path(path),
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.with_path(path),
    }
}

fn list_sorted(folder: &Path) -> Result<Vec<std::path::PathBuf>, Error> {
    let entries = fs::read_dir(folder).with_path(folder)?.flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "conf"));
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a small version of the files that packages contain.
    fn unpacked_tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        prepare(root).unwrap();
        for (path, contents) in [
            ("usr/share/base-passwd/passwd.master", "root::0:0:root:/root:/bin/bash\n"),
            ("usr/share/base-passwd/group.master", "root:*:0:\nadm:*:4:\nshadow:*:42:\n"),
            ("usr/lib/sysusers.d/a.conf", "g input -\n"),
            ("usr/share/doc/x/copyright", "x"),
            ("etc/redis/redis.conf", "x"),
            ("bin/dash", "x"),
        ] {
            write_text(&root.join(path), contents).unwrap();
        }
        folder
    }

    #[test]
    fn a_system_is_made_of_what_was_unpacked() {
        let folder = unpacked_tree();
        let root = folder.path();
        let owned = complete(root).unwrap();
        assert!(root.join("usr/bin/dash").is_file() && root.join("bin/sh").is_file());
        assert!(!root.join("usr/share/doc").exists() && !root.join("usr/bin/awk").exists());
        assert_eq!(read_text(&root.join("etc/machine-id")).unwrap(), "");
        assert!(read_text(&root.join("etc/group")).unwrap().contains("input:x:999:\n"));
        let enabled = root.join("etc/systemd/system/multi-user.target.wants/redis-server.service");
        assert!(enabled.symlink_metadata().is_ok());
        let redis = Owned { path: "etc/redis/redis.conf".to_owned(), user: 998, group: 998 };
        let shadow = Owned { path: "etc/shadow".to_owned(), user: 0, group: 42 };
        assert!(owned.contains(&redis) && owned.contains(&shadow), "{owned:?}");
        assert!(owned.iter().all(|one| !one.path.contains("chage")), "{owned:?}");
        let time = |path: &str| root.join(path).metadata().unwrap().modified().unwrap();
        assert_eq!((time("etc/.updated"), time("var/.updated")), (time("usr"), time("usr")));
        let mode = |path: &str| root.join(path).metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("etc/shadow"), mode("var/lib/redis")), (0o640, 0o750));
    }

    #[test]
    fn packages_that_lack_what_everything_needs_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path()).unwrap();
        let error = complete(folder.path()).unwrap_err();
        assert!(error.to_string().contains("passwd.master"), "{error}");
    }
}
