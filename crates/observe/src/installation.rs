// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads how a host is configured at boot into [`Installation`]; only on request, because only a
//! plan needs it.
//!
//! Whether systemd runs the host is checked as `sd_booted` does. A machine id is confidential, so
//! only a hash leaves this module: the first 32 hexadecimal digits of SHA-256 over `pagewise
//! machine-id ` and the id. Recordings contain none of these files.

use std::collections::{BTreeMap, BTreeSet};

use pagewise_model::{Bytes, Installation, SwapFolder};
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
const OWN_FILES: [&str; 3] = [
    "etc/systemd/system/pagewise-zram.service",
    "etc/systemd/zram-generator.conf.d/50-pagewise.conf",
    r"etc/systemd/system/var-pagewise\x2dswap\x2d0.swap",
];
/// The folder in which a plan creates a swap file.
const SWAP_FOLDER: &str = "/var";
/// Types of local file systems, for which `statfs` does not block.
const LOCAL: [&str; 4] = ["ext4", "xfs", "btrfs", "f2fs"];

/// Reads how this host is configured at boot.
pub fn installation(host: &HostRoot) -> Installation {
    Installation {
        has_systemd: host.exists("run/systemd/system"),
        has_generator: host.exists(GENERATOR),
        is_ostree: host.exists("run/ostree-booted"),
        distribution: text(host, "etc/os-release").and_then(|text| distribution(&text)),
        machine_id_hash: text(host, "etc/machine-id").and_then(|text| machine_id_hash(&text)),
        tmpfiles_names: tmpfiles_names(host),
        own_files: own_files(host),
        swap_folder: swap_folder(host),
    }
}

fn text(host: &HostRoot, path: &str) -> Option<String> {
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
    all.filter_map(|path| Some((format!("/{path}"), text(host, &path)?))).collect()
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
