// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces names in the paths of mount points, swap files and devices. A swap file remains below
//! the same mount point as on the host.

use super::aliases::Aliases;
use super::words::{CONTROLLERS, FILE_SYSTEMS, MOUNT_OPTIONS, OVERLAYS, is_disk};
use pagewise_hostfs::text::{unescape, words};
use pagewise_observe::Tape;
use pagewise_observe::formats::mounts::Columns;

/// Mount points that exist on every Linux system, and are therefore kept.
const STANDARD: &[&[u8]] =
    &[b"/", b"/proc", b"/sys", b"/dev", b"/dev/shm", b"/sys/fs/cgroup", b"/sys/kernel/debug"];

/// The mounts of a host, with the aliases of their paths.
#[derive(Debug, Default)]
pub(super) struct Places {
    points: Vec<Vec<u8>>,
    /// Mount points that are needed because a swap file or backing file is below them.
    needed: Vec<Vec<u8>>,
    /// Mount points of cgroup hierarchies, without the leading `/`, longest first.
    cgroups: Vec<String>,
    point_aliases: Aliases,
    files: Aliases,
    disks: Aliases,
}

impl Places {
    pub(super) fn from_tape(tape: &Tape) -> Self {
        let mut places = Self::default();
        places.add_tape(tape);
        places
    }

    /// Adds the mount points that a tape contains; aliases from earlier tapes are kept.
    pub(super) fn add_tape(&mut self, tape: &Tape) {
        self.points.clear();
        self.needed.clear();
        self.cgroups.clear();
        let mountinfo = tape.file("proc/self/mountinfo").unwrap_or_default();
        let lines = mountinfo.split(|&byte| byte == b'\n');
        lines.filter_map(Columns::parse).for_each(|mount| self.add_mount(&mount));
        self.cgroups.sort_by_key(|point| std::cmp::Reverse(point.len()));
        self.add_swap_files(tape);
    }

    fn add_mount(&mut self, mount: &Columns<'_>) {
        let point = unescape(mount.point);
        if let Some(below) = std::str::from_utf8(&point).ok().filter(|_| is_cgroup(mount)) {
            self.cgroups.push(below.trim_start_matches('/').to_owned());
        }
        self.points.push(point);
    }

    fn add_swap_files(&mut self, tape: &Tape) {
        for end in &tape.ends {
            let Some(pagewise_hostfs::Entry::File(swaps)) = end.files.get("proc/swaps") else {
                continue;
            };
            for line in swaps.split(|&byte| byte == b'\n').skip(1) {
                let path = unescape(words(line).next().unwrap_or_default());
                let point = self.point_of(&path).to_vec();
                self.needed.push(point);
            }
        }
    }

    /// Returns the mount point that contains `path`: the longest one that matches.
    fn point_of(&self, path: &[u8]) -> &[u8] {
        let points = self.points.iter().filter(|point| is_below(path, point));
        points.max_by_key(|point| point.len()).map_or(b"/", Vec::as_slice)
    }

    /// Returns the cgroup hierarchy that contains `path`: the alias of its mount point without the
    /// leading `/`, and the part of the path below it.
    pub(super) fn hierarchy<'p>(&mut self, path: &'p str) -> Option<(String, &'p str)> {
        let point = self.hierarchy_point(path)?.to_owned();
        let rest = path.get(point.len()..)?.trim_start_matches('/');
        let shown = self.alias_of_mount_point(format!("/{point}").as_bytes());
        Some((shown.trim_start_matches('/').to_owned(), rest))
    }

    fn hierarchy_point(&self, path: &str) -> Option<&str> {
        let points = self.cgroups.iter().map(String::as_str).chain(["sys/fs/cgroup"]);
        points.into_iter().find(|point| is_below(path.as_bytes(), point.as_bytes()))
    }

    /// Returns the alias of a mount point.
    fn alias_of_mount_point(&mut self, point: &[u8]) -> String {
        let text = std::str::from_utf8(point).ok();
        let controller = text.and_then(|text| text.strip_prefix("/sys/fs/cgroup/"));
        match text {
            Some(text) if STANDARD.contains(&point) => text.to_owned(),
            Some(text) if controller.is_some_and(|name| CONTROLLERS.contains(&name)) => {
                text.to_owned()
            }
            _ => format!("/mount-{}", self.point_aliases.number(point)),
        }
    }

    /// Returns the alias of a device or file. Names that the kernel gives are kept, all others are
    /// numbered.
    pub(super) fn alias_of_file(&mut self, path: &[u8]) -> String {
        let device = path.strip_prefix(b"/dev/").map(std::str::from_utf8);
        match device {
            Some(Ok(name)) if is_disk(name) || name == "root" => format!("/dev/{name}"),
            Some(_) => format!("/dev/mapper/disk-{}", self.disks.number(path)),
            None => {
                let point = self.point_of(path).to_vec();
                let below = self.alias_of_mount_point(&point);
                let number = self.files.number(path);
                format!("{}/swap-{number}", below.trim_end_matches('/'))
            }
        }
    }

    /// Replaces the path in a line of `/proc/swaps`. The other words in the line are numbers and
    /// types.
    pub(super) fn redact_swap_line(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        let first = words(line).next()?;
        if first == b"Filename" {
            return Some(line.to_vec());
        }
        let path = unescape(first);
        let (path, deleted) = match path.strip_suffix(b" (deleted)") {
            Some(path) => (path, "\\040(deleted)"),
            None => (path.as_slice(), ""),
        };
        let shown = format!("{}{deleted}", self.alias_of_file(path));
        let rest = line.get(line.iter().position(u8::is_ascii_whitespace)?..)?;
        let plain = words(rest)
            .all(|word| word == b"file" || word == b"partition" || super::words::is_number(word));
        plain.then(|| [shown.as_bytes(), rest].concat())
    }

    /// Redacts a line of mountinfo; `None` for mounts that do not concern memory.
    pub(super) fn redact_mount_line(
        &mut self,
        line: &[u8],
        group: impl FnOnce(&[u8]) -> String,
    ) -> Option<Vec<u8>> {
        let mount = Columns::parse(line)?;
        let (point, source) = (unescape(mount.point), unescape(mount.source));
        if !self.concerns_memory(&mount, &point, &source) || !mount.ids.iter().all(|id| is_id(id)) {
            return None;
        }
        let kind = known_kind(mount.file_system);
        let shown = [
            mount.ids.map(String::from_utf8_lossy).join(" "),
            if is_cgroup(&mount) { group(&unescape(mount.root)) } else { "/".to_owned() },
            self.alias_of_mount_point(&point),
            known_options(mount.options),
            "-".to_owned(),
            kind.to_owned(),
            if source.starts_with(b"/dev/") {
                self.alias_of_file(&source)
            } else {
                kind.to_owned()
            },
            known_options(mount.super_options),
        ];
        Some(shown.join(" ").into_bytes())
    }

    fn concerns_memory(&self, mount: &Columns<'_>, point: &[u8], source: &[u8]) -> bool {
        is_cgroup(mount)
            || matches!(mount.file_system, b"tmpfs" | b"devtmpfs" | b"rootfs" | b"ramfs")
            || source.starts_with(b"/dev/zram")
            || source.starts_with(b"/dev/zmerge")
            || STANDARD.contains(&point)
            || self.needed.iter().any(|needed| needed == point)
    }
}

fn is_cgroup(mount: &Columns<'_>) -> bool {
    matches!(mount.file_system, b"cgroup" | b"cgroup2")
}

fn is_below(path: &[u8], folder: &[u8]) -> bool {
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| folder.ends_with(b"/") || rest.is_empty() || rest.starts_with(b"/"))
}

fn is_id(word: &[u8]) -> bool {
    word.iter().all(|byte| byte.is_ascii_digit() || *byte == b':')
}

fn known_kind(kind: &[u8]) -> &'static str {
    FILE_SYSTEMS.iter().find(|known| known.as_bytes() == kind).copied().unwrap_or("other")
}

/// Returns the known options, or `rw` if there are none, because the field must not be empty.
fn known_options(options: &[u8]) -> String {
    let all = options.split(|&byte| byte == b',');
    let mut known: Vec<String> = all
        .filter_map(|one| MOUNT_OPTIONS.iter().find(|known| known.as_bytes() == one))
        .map(|known| (*known).to_owned())
        .collect();
    let text = String::from_utf8_lossy(options);
    let engine = OVERLAYS.iter().find(|engine| text.contains(**engine));
    known.extend(engine.map(|engine| format!("lowerdir={engine}")));
    if known.is_empty() { "rw".to_owned() } else { known.join(",") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use pagewise_hostfs::Entry;
    use pagewise_observe::TapeEnd;

    const MOUNTS: &str = "27 1 254:0 / / rw,discard - ext4 /dev/vda rw,resv_strict\n\
        30 27 8:1 / /home/bob\\040secret rw,noatime shared:4 - xfs /dev/sdb1 rw,attr2\n\
        31 27 8:2 / /other rw - xfs /dev/mapper/vault rw\n\
        35 27 0:32 /payroll /sys/fs/cgroup/memory rw - cgroup payroll rw,memory\n";
    const SWAPS: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
        /home/bob\\040secret/swap\t\tfile\t\t1048572\t\t0\t\t-2\n\
        /dev/zram0      partition\t1048572\t\t0\t\t100\n";

    fn places() -> Places {
        let files: BTreeMap<_, _> = [("proc/self/mountinfo", MOUNTS), ("proc/swaps", SWAPS)]
            .map(|(path, text)| (path.to_owned(), Entry::File(text.as_bytes().to_vec())))
            .into();
        let end = TapeEnd {
            name: "end",
            unix_seconds: 0.0,
            monotonic_seconds: 0.0,
            awake_seconds: None,
            files,
        };
        Places::from_tape(&Tape { page_size: None, ends: vec![end] })
    }

    fn redact(mut line: impl FnMut(&[u8]) -> Option<Vec<u8>>, text: &str) -> Vec<String> {
        let lines = text.lines().filter_map(|one| line(one.as_bytes()));
        lines.map(|one| String::from_utf8(one).unwrap()).collect()
    }

    #[test]
    fn a_swap_file_stays_below_its_mount_point() {
        let mut places = places();
        let mounts = redact(|line| places.redact_mount_line(line, |_| "/cg-1".to_owned()), MOUNTS);
        assert_eq!(
            mounts,
            [
                "27 1 254:0 / / rw,discard - ext4 /dev/vda rw",
                "30 27 8:1 / /mount-1 rw - xfs /dev/sdb1 rw",
                "35 27 0:32 /cg-1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
            ]
        );
        let swaps = redact(|line| places.redact_swap_line(line), SWAPS);
        assert_eq!(swaps[1], "/mount-1/swap-1\t\tfile\t\t1048572\t\t0\t\t-2");
        assert_eq!(swaps[2], "/dev/zram0      partition\t1048572\t\t0\t\t100");
    }

    #[test]
    fn devices_keep_only_kernel_names() {
        let mut places = places();
        assert_eq!(places.alias_of_file(b"/dev/dm-0"), "/dev/dm-0");
        assert_eq!(places.alias_of_file(b"/dev/root"), "/dev/root");
        assert_eq!(places.alias_of_file(b"/dev/mapper/vault"), "/dev/mapper/disk-1");
        assert_eq!(places.alias_of_file(b"/swapfile"), "/swap-1");
    }

    #[test]
    fn an_overlay_tells_its_engine_only() {
        let line =
            b"1 2 0:60 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/bob,upperdir=/bob";
        let kept = places().redact_mount_line(line, |_| String::new()).unwrap();
        let expected = "1 2 0:60 / / rw - overlay overlay rw,lowerdir=/docker/";
        assert_eq!(String::from_utf8(kept).unwrap(), expected);
    }

    #[test]
    fn paths_of_cgroup_files_are_split_at_their_hierarchy() {
        let mut places = places();
        let v1 = places.hierarchy("sys/fs/cgroup/memory/a/memory.stat").unwrap();
        assert_eq!(v1, ("sys/fs/cgroup/memory".to_owned(), "a/memory.stat"));
        assert_eq!(places.hierarchy("proc/meminfo"), None);
    }
}
