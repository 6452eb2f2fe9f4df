// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads how a host is configured at boot into [`Installation`]; only on request, because only a
//! plan needs it.
//!
//! Whether systemd runs the host is checked as `sd_booted` does. Other init systems are recognized
//! by what they run at boot and by the name of PID 1, never by the name of a distribution: the same
//! distribution can be started by several of them. A machine id is confidential, so
//! only a hash leaves this module: the first 32 hexadecimal digits of SHA-256 over `pagewise
//! machine-id ` and the id. Recordings contain none of these files.

use std::collections::{BTreeMap, BTreeSet};

use pagewise_model::{Bytes, InitSystem, Installation, SwapFolder};
use sha2::{Digest, Sha256};

use pagewise_hostfs::{HostRoot, ReadHost};
use pagewise_settings::zram_managers::GENERATOR;

use crate::disk::Disks;
use crate::mounts;

const TMPFILES_FOLDERS: [&str; 4] =
    ["etc/tmpfiles.d", "run/tmpfiles.d", "usr/local/lib/tmpfiles.d", "usr/lib/tmpfiles.d"];
/// Folders in which a plan creates files whose name depends on existing ones; those that end in
/// [`OWN_FILE`] are ours.
const DROP_IN_FOLDERS: [&str; 2] = ["etc/sysctl.d", "etc/tmpfiles.d"];
/// The suffix of the names of configuration files that a plan creates.
const OWN_FILE: &str = "pagewise.conf";
/// Other files that a plan may write.
const OWN_FILES: [&str; 7] = [
    "etc/init.d/pagewise",
    "etc/init.d/S99pagewise",
    "etc/runit/core-services/99-pagewise.sh",
    "etc/atomic-update.conf.d/pagewise.conf",
    "etc/systemd/system/pagewise-zram.service",
    "etc/systemd/zram-generator.conf.d/50-pagewise.conf",
    r"etc/systemd/system/var-pagewise\x2dswap\x2d0.swap",
];
/// The folder in which a plan creates a swap file.
const SWAP_FOLDER: &str = "/var";
/// Types of local file systems, for which `statfs` does not block.
const LOCAL: [&str; 4] = ["ext4", "xfs", "btrfs", "f2fs"];

/// The folders of OpenRC's runlevels that are started at boot.
const RUNLEVELS: [&str; 3] =
    ["etc/runlevels/sysinit", "etc/runlevels/boot", "etc/runlevels/default"];
/// Folders of links to System V scripts that are run at boot.
const SYSV_LINKS: [&str; 2] = ["etc/rcS.d", "etc/rc2.d"];
/// The folder whose files runit's first stage runs on Void Linux.
const CORE_SERVICES: &str = "etc/runit/core-services";
/// The list of what SteamOS keeps in /etc over an update; it includes the files of the folder in
/// which others are listed.
const KEEP_LIST: &str = "usr/lib/rauc/atomic-update-keep.conf";

/// Reads how this host is configured at boot.
pub fn installation(host: &HostRoot) -> Installation {
    let init = init_system(host);
    Installation {
        has_systemd: init == InitSystem::Systemd,
        init,
        sysctl_reader: sysctl_reader(host, init),
        starts_own_script: starts_own_script(host),
        has_keep_list: host.exists(KEEP_LIST),
        has_generator: host.exists(GENERATOR),
        is_ostree: host.exists("run/ostree-booted"),
        distribution: read_text(host, "etc/os-release").and_then(|text| distribution(&text)),
        machine_id_hash: read_text(host, "etc/machine-id").and_then(|text| machine_id_hash(&text)),
        tmpfiles_names: tmpfiles_names(host),
        own_files: own_files(host),
        swap_folder: swap_folder(host),
    }
}

fn init_system(host: &HostRoot) -> InitSystem {
    if host.exists("run/systemd/system") {
        return InitSystem::Systemd;
    }
    // checked before PID 1, which is busybox on Alpine Linux and System V init on Gentoo; both
    // start OpenRC
    if host.exists("run/openrc") {
        return InitSystem::OpenRc;
    }
    let first = read_text(host, "proc/1/comm").unwrap_or_default();
    match first.trim() {
        "procd" if host.exists("etc/rc.common") => InitSystem::Procd,
        "runit" if !host.names(CORE_SERVICES).is_empty() => InitSystem::RunitCoreServices,
        // the first stage of Debian's runit-init runs every link and reads no .depend file
        "runit" if has_links(host, "etc/rcS.d") => InitSystem::SysV,
        "init" | "linuxrc" => detect_init_by_tables(host),
        _ => InitSystem::Unknown,
    }
}

/// Distinguishes the init systems whose process 1 is called `init`.
fn detect_init_by_tables(host: &HostRoot) -> InitSystem {
    if has_links(host, "etc/rcS.d") {
        let is_registered = host.exists("etc/init.d/.depend.boot");
        return if is_registered { InitSystem::SysVRegistered } else { InitSystem::SysV };
    }
    let is_line = |line: &str| line.contains(":sysinit:") && line.contains("/etc/init.d/rcS");
    let table = read_text(host, "etc/inittab");
    // without the file, init of busybox runs /etc/init.d/rcS
    let runs_rcs = table.is_none_or(|table| table.lines().any(|line| is_line(line.trim())));
    match read_text(host, RCS) {
        Some(script) if runs_rcs && script.contains("/etc/init.d/S??*") => {
            InitSystem::BusyboxScripts
        }
        Some(_) if runs_rcs => InitSystem::BusyboxRcs,
        _ => InitSystem::Unknown,
    }
}

/// The script that init of busybox runs at boot.
const RCS: &str = "etc/init.d/rcS";

/// Whether the folder has links that init runs with `start`, such as `S01procps`.
fn has_links(host: &HostRoot, folder: &str) -> bool {
    host.names(folder).iter().any(|name| script_of_link(name).is_some())
}

/// The script that a link such as `S01procps` names.
fn script_of_link(name: &str) -> Option<&str> {
    let (number, script) = name.strip_prefix('S')?.split_at_checked(2)?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !script.is_empty()).then_some(script)
}

/// The enabled script of an init system other than systemd that applies the files of sysctl.d.
fn sysctl_reader(host: &HostRoot, init: InitSystem) -> Option<String> {
    // the script is called procps in Debian, and sysctl in all other distributions
    let is_reader = |name: &str| matches!(name, "sysctl" | "procps");
    let find = |folders: &[&str], has: &dyn Fn(&str) -> bool| {
        let of_folder = |folder: &&str| {
            let name = host.names(folder).into_iter().find(|name| has(name))?;
            Some(format!("/{folder}/{name}"))
        };
        folders.iter().find_map(of_folder)
    };
    let by_link = |name: &str| script_of_link(name).is_some_and(is_reader);
    match init {
        InitSystem::Systemd | InitSystem::Unknown | InitSystem::BusyboxRcs => None,
        InitSystem::OpenRc => find(&RUNLEVELS, &is_reader),
        InitSystem::Procd => find(&["etc/rc.d"], &by_link),
        InitSystem::RunitCoreServices => find(&[CORE_SERVICES], &|name| name.contains("sysctl")),
        InitSystem::SysV | InitSystem::SysVRegistered => find(&SYSV_LINKS, &by_link),
        InitSystem::BusyboxScripts => find(&["etc/init.d"], &by_link),
    }
}

/// Whether the start script of a plan is called by a file that its owner has to edit, or was
/// registered by `insserv`.
fn starts_own_script(host: &HostRoot) -> bool {
    let calls = |path: &str| {
        let text = read_text(host, path).unwrap_or_default();
        text.lines().map(str::trim).any(|line| line.starts_with("/etc/init.d/pagewise"))
    };
    let registered = |path: &str| {
        let text = read_text(host, path).unwrap_or_default();
        let targets = text.lines().filter(|line| line.starts_with("TARGETS"));
        targets.flat_map(str::split_whitespace).any(|word| word == "pagewise")
    };
    calls(RCS)
        || calls("etc/rc.local")
        || registered("etc/init.d/.depend.boot")
        || registered("etc/init.d/.depend.start")
}

fn read_text(host: &HostRoot, path: &str) -> Option<String> {
    String::from_utf8(host.bytes(path).ok()?).ok()
}

/// The distribution's id from os-release: parses `ID=debian` or `ID="debian"`.
fn distribution(os_release: &str) -> Option<String> {
    let id = os_release.lines().find_map(|line| line.trim().strip_prefix("ID="))?;
    let id = id.trim_matches(|quote| matches!(quote, '"' | '\''));
    let is_word = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    ((1..=64).contains(&id.len()) && id.chars().all(is_word)).then(|| id.to_owned())
}

/// The value that identifies a machine in a plan: a hash of the content of `/etc/machine-id`, as 32
/// hexadecimal digits. `None` if the text is no machine id.
#[must_use]
pub fn machine_id_hash(text: &str) -> Option<String> {
    let id = text.trim();
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digest = is_id.then(|| Sha256::digest(format!("pagewise machine-id {id}")))?;
    Some(digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

fn tmpfiles_names(host: &HostRoot) -> Vec<String> {
    let names = TMPFILES_FOLDERS.iter().flat_map(|folder| host.names(folder));
    let names: BTreeSet<String> = names.filter(|name| name.ends_with(".conf")).collect();
    names.into_iter().collect()
}

fn own_files(host: &HostRoot) -> BTreeMap<String, String> {
    let named = DROP_IN_FOLDERS.iter().flat_map(|folder| {
        let ours = host.names(folder).into_iter().filter(|name| name.ends_with(OWN_FILE));
        ours.map(move |name| format!("{folder}/{name}"))
    });
    let all = named.chain(OWN_FILES.map(str::to_owned));
    all.filter_map(|path| Some((format!("/{path}"), read_text(host, &path)?))).collect()
}

fn swap_folder(host: &HostRoot) -> SwapFolder {
    let mounts = mounts::read(host);
    let disk = Disks::new(host, &mounts).of_file(SWAP_FOLDER);
    let is_local = disk.file_system.value().is_some_and(|name| LOCAL.contains(&name.as_str()));
    let stat =
        (is_local && host.is_live()).then(|| rustix::fs::statvfs(SWAP_FOLDER).ok()).flatten();
    let free_bytes = stat.map(|stat| Bytes::new(stat.f_bavail.saturating_mul(stat.f_frsize)));
    SwapFolder { disk, free_bytes }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, mangle};

    const OS_RELEASE: &str = "PRETTY_NAME=\"Debian\"\nVERSION_ID=\"13\"\nID=debian\n";

    #[test]
    fn what_a_plan_needs_to_know_is_read() {
        let id = "0123456789abcdef0123456789abcdef";
        let read = installation(&host([
            ("run/systemd/system/x.mount", ""),
            ("etc/os-release", OS_RELEASE),
            ("etc/machine-id", &format!("{id}\n")),
            ("etc/tmpfiles.d/z.conf", ""),
            ("usr/lib/tmpfiles.d/a.conf", ""),
            ("etc/sysctl.d/90-pagewise.conf", "vm.swappiness = 100\n"),
            ("etc/sysctl.d/10-other.conf", "x"),
        ]));
        assert!(read.has_systemd && !read.has_generator && !read.is_ostree);
        assert_eq!(read.distribution.as_deref(), Some("debian"));
        assert_eq!(read.tmpfiles_names, ["a.conf", "z.conf"]);
        let own: Vec<&str> = read.own_files.keys().map(String::as_str).collect();
        assert_eq!(own, ["/etc/sysctl.d/90-pagewise.conf"]);
        let hash = read.machine_id_hash.unwrap();
        assert!(hash.len() == 32 && !hash.contains(&id[..8]), "{hash}");
    }

    /// Files of a machine, its init system, and the script that reads sysctl.d.
    type Layout = (&'static [(&'static str, &'static str)], InitSystem, Option<&'static str>);

    const BOOT_SCRIPTS: &str = "#!/bin/sh\nfor i in /etc/init.d/S??* ;do\n $i start\ndone\n";
    const TABLE: &str = "::sysinit:/etc/init.d/rcS\n::respawn:/sbin/getty 38400 tty1\n";

    #[test]
    fn init_systems_are_recognized_by_what_they_run() {
        let layouts: [Layout; 10] = [
            (
                &[("run/systemd/system/a", ""), ("proc/1/comm", "systemd\n")],
                InitSystem::Systemd,
                None,
            ),
            (
                &[
                    ("run/openrc/softlevel", ""),
                    ("proc/1/comm", "init\n"),
                    ("etc/runlevels/boot/sysctl", ""),
                ],
                InitSystem::OpenRc,
                Some("/etc/runlevels/boot/sysctl"),
            ),
            (
                &[("proc/1/comm", "procd\n"), ("etc/rc.common", ""), ("etc/rc.d/S11sysctl", "")],
                InitSystem::Procd,
                Some("/etc/rc.d/S11sysctl"),
            ),
            (
                &[("proc/1/comm", "runit\n"), ("etc/runit/core-services/08-sysctl.sh", "")],
                InitSystem::RunitCoreServices,
                Some("/etc/runit/core-services/08-sysctl.sh"),
            ),
            (&[("proc/1/comm", "runit\n"), ("etc/rcS.d/S01kmod", "")], InitSystem::SysV, None),
            (
                &[
                    ("proc/1/comm", "init\n"),
                    ("etc/rcS.d/S09procps", ""),
                    ("etc/init.d/.depend.boot", "x"),
                ],
                InitSystem::SysVRegistered,
                Some("/etc/rcS.d/S09procps"),
            ),
            (
                &[
                    ("proc/1/comm", "init\n"),
                    ("etc/inittab", TABLE),
                    ("etc/init.d/rcS", BOOT_SCRIPTS),
                    ("etc/init.d/S02sysctl", ""),
                ],
                InitSystem::BusyboxScripts,
                Some("/etc/init.d/S02sysctl"),
            ),
            (
                &[("proc/1/comm", "init\n"), ("etc/init.d/rcS", "mount -a\n")],
                InitSystem::BusyboxRcs,
                None,
            ),
            (
                &[
                    ("proc/1/comm", "init\n"),
                    ("etc/inittab", "::sysinit:/etc/boot\n"),
                    ("etc/init.d/rcS", BOOT_SCRIPTS),
                ],
                InitSystem::Unknown,
                None,
            ),
            (&[("proc/1/comm", "dinit\n"), ("etc/rcS.d/README", "")], InitSystem::Unknown, None),
        ];
        for (files, init, reader) in layouts {
            let read = installation(&host(files.iter().copied()));
            assert_eq!((read.init, read.sysctl_reader.as_deref()), (init, reader), "{files:?}");
            assert_eq!(read.has_systemd, init == InitSystem::Systemd);
        }
    }

    #[test]
    fn a_start_script_that_a_file_of_the_owner_calls_is_found() {
        let starts = |path, contents| installation(&host([(path, contents)])).starts_own_script;
        assert!(starts("etc/rc.local", "#!/bin/sh\n/etc/init.d/pagewise start\nexit 0\n"));
        assert!(starts("etc/init.d/rcS", "  /etc/init.d/pagewise start\n"));
        assert!(starts("etc/init.d/.depend.boot", "TARGETS = kmod pagewise\n"));
        assert!(!starts("etc/rc.local", "# /etc/init.d/pagewise start\n"));
        assert!(!starts("etc/init.d/.depend.boot", "TARGETS = kmod\npagewise: kmod\n"));
    }

    #[test]
    fn a_machine_without_any_of_it_has_no_id() {
        let read = installation(&host([("etc/machine-id", "uninitialized\n")]));
        assert_eq!(read.machine_id_hash, None);
        assert!(!read.has_systemd && read.own_files.is_empty());
        assert_eq!(distribution("ID=\"opensuse-leap\"\n").as_deref(), Some("opensuse-leap"));
        assert_eq!(distribution("NAME=x\nID=a b\n"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(text in mangle(OS_RELEASE)) {
            let _ = installation(&host([("etc/os-release", text.clone()), ("etc/machine-id", text)]));
        }
    }
}
