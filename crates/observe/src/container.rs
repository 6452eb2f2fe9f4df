// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects whether this process runs in a container, where zram, swap and modules belong to the
//! host's kernel.
//!
//! Container managers leave different signs, some of which only root can read; the first sign that
//! is found determines the result. An image unpacked onto a disk of its own (as micro virtual
//! machines do) keeps its `/.dockerenv`, so that file only counts if `/` is not the root of a file
//! system on a block device. Of the environment of process 1 only `container=` is kept or recorded.

use pagewise_model::{Name, Reading, Source};

use crate::mounts::{Mount, Mounts};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues, absolute_path};

type Sign = fn(&HostRoot) -> Option<Reading<Name>>;

pub(crate) fn read(host: &HostRoot, mounts: &Mounts) -> Reading<Name> {
    let signs: [Sign; 5] =
        [detect_openvz, detect_wsl, read_from_systemd, read_from_init, detect_by_cgroup];
    let none = || Reading::absent("no sign of a container", Source::file("/proc/1/cgroup"));
    let sign = signs.into_iter().find_map(|sign| sign(host));
    sign.or_else(|| detect_by_files(host, mounts)).unwrap_or_else(none)
}

fn read_kind(kind: &str, path: &str) -> Option<Reading<Name>> {
    Some(Reading::found(Name::from(kind), Source::file(absolute_path(path))))
}

/// Detects an OpenVZ container: an OpenVZ host has `/proc/vz` and `/proc/bc`, a container only
/// `/proc/vz`.
fn detect_openvz(host: &HostRoot) -> Option<Reading<Name>> {
    if host.exists("proc/vz") && !host.exists("proc/bc") {
        return read_kind("openvz", "proc/vz");
    }
    None
}

fn detect_wsl(host: &HostRoot) -> Option<Reading<Name>> {
    const PATH: &str = "proc/sys/kernel/osrelease";
    let release = host.name_at(PATH);
    let name = release.value()?.as_str();
    if name.contains("WSL") || name.contains("Microsoft") { read_kind("wsl", PATH) } else { None }
}

fn read_from_systemd(host: &HostRoot) -> Option<Reading<Name>> {
    let listed = host.name_at("run/systemd/container");
    listed.value().is_some().then_some(listed)
}

fn read_from_init(host: &HostRoot) -> Option<Reading<Name>> {
    const PATH: &str = "proc/1/environ";
    const KEY: &[u8] = b"container=";
    let is_it = |variable: &&[u8]| variable.starts_with(KEY);
    let kept = host.excerpt(PATH, |environment| {
        environment.split(|&byte| byte == 0).find(is_it).unwrap_or_default().to_vec()
    });
    let kind =
        kept.ok()?.strip_prefix(KEY).filter(|kind| !kind.is_empty()).map(Name::from_bytes)?;
    Some(Reading::found(kind, Source::file(absolute_path(PATH))))
}

/// Substrings of a cgroup's path that show a container, unless a cgroup namespace hides the path.
const IN_CGROUP: [(&str, &str); 6] = [
    ("kubepods", "kubernetes"),
    ("/docker", "docker"),
    ("libpod", "podman"),
    ("/lxc", "lxc"),
    ("containerd", "containerd"),
    ("garden", "garden"),
];

fn detect_by_cgroup(host: &HostRoot) -> Option<Reading<Name>> {
    const PATH: &str = "proc/1/cgroup";
    let text = String::from_utf8_lossy(&host.bytes(PATH).ok()?).into_owned();
    let (_, kind) = IN_CGROUP.iter().find(|(word, _)| text.contains(word))?;
    read_kind(kind, PATH)
}

/// Substrings of the mount options of an overlay mounted at `/` that show a container.
const IN_OVERLAY: [(&str, &str); 3] =
    [("/docker/", "docker"), ("/containers/storage/", "podman"), ("containerd", "containerd")];

fn detect_by_files(host: &HostRoot, mounts: &Mounts) -> Option<Reading<Name>> {
    let root = mounts.mount_containing("/");
    if root.is_some_and(is_whole_disk) {
        return None;
    }
    let marks = [("run/.containerenv", "podman"), (".dockerenv", "docker")];
    if let Some((path, kind)) = marks.into_iter().find(|(path, _)| host.exists(path)) {
        return read_kind(kind, path);
    }
    let root = root.filter(|root| root.file_system == "overlay")?;
    let has = |(word, _): &&(&str, &str)| root.options().any(|option| option.contains(word));
    let (_, kind) = IN_OVERLAY.iter().find(has)?;
    Some(Reading::found(Name::from(*kind), root.at.clone()))
}

fn is_whole_disk(root: &Mount) -> bool {
    root.is_on_block_device() && root.root == "/"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mounts;
    use crate::testing::host;
    use pagewise_hostfs::Entry;

    fn container(host: &HostRoot) -> Reading<Name> {
        read(host, &mounts::read(host))
    }

    fn kind(files: &[(&str, &str)]) -> Option<String> {
        container(&host(files.iter().copied())).value().map(ToString::to_string)
    }

    const OVERLAY: &str =
        "1 2 0:60 / / rw - overlay overlay rw,lowerdir=/var/lib/containerd/x,upperdir=/y\n";
    const DISK: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n";

    #[test]
    fn each_manager_is_known_by_its_sign() {
        assert_eq!(kind(&[("proc/vz/version", "")]).unwrap(), "openvz");
        assert_eq!(kind(&[("proc/vz/version", ""), ("proc/bc/0", "")]), None);
        let wsl = ("proc/sys/kernel/osrelease", "6.6.87.2-microsoft-standard-WSL2\n");
        assert_eq!(kind(&[wsl]).unwrap(), "wsl");
        assert_eq!(kind(&[("run/systemd/container", "lxc\n")]).unwrap(), "lxc");
        assert_eq!(kind(&[("proc/1/cgroup", "0::/docker/0123\n")]).unwrap(), "docker");
        assert_eq!(kind(&[("proc/1/cgroup", "0::/kubepods.slice/x\n")]).unwrap(), "kubernetes");
        assert_eq!(kind(&[("run/.containerenv", "")]).unwrap(), "podman");
        assert_eq!(kind(&[("proc/self/mountinfo", OVERLAY)]).unwrap(), "containerd");
        assert_eq!(kind(&[("proc/1/cgroup", "0::/init.scope\n")]), None);
    }

    #[test]
    fn an_image_unpacked_onto_a_disk_is_no_container() {
        assert_eq!(kind(&[(".dockerenv", ""), ("proc/self/mountinfo", DISK)]), None);
        assert_eq!(
            kind(&[(".dockerenv", ""), ("proc/self/mountinfo", OVERLAY)]).unwrap(),
            "docker"
        );
    }

    #[test]
    fn of_the_environment_only_the_kind_is_recorded() {
        let environ = "HOME=/secret\0container=systemd-nspawn\0TOKEN=secret\0";
        let live = host([("proc/1/environ", environ)]).start_remembering();
        assert_eq!(container(&live).value().unwrap().as_str(), "systemd-nspawn");
        let stored = live.into_remembered_files();
        let kept = Entry::File(b"container=systemd-nspawn".to_vec());
        assert_eq!(stored.get("proc/1/environ"), Some(&kept));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(
            path in prop::sample::select(vec![
                "proc/1/environ", "proc/1/cgroup", "run/systemd/container", "proc/self/mountinfo",
            ]),
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = container(&host([(path, bytes)]));
        }
    }
}
