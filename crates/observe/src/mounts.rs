// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/proc/self/mountinfo`: which mount contains a path, where a device is mounted, and where
//! the memory controllers are.
//!
//! btrfs and other file systems that span disks have a device number of their own, which belongs to
//! no block device; only the mount's source names a disk then. A recording may lack the file,
//! because it reveals what its owner mounts: the controllers are then searched in their usual
//! places.

use std::collections::HashSet;

use pagewise_model::Source;

use crate::limits::MOUNTS;
use pagewise_hostfs::text::{Line, unescape};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues};

/// One mount of a file system, as a line of mountinfo describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Path of the mount point, without the leading slash.
    pub(crate) point: String,
    /// The folder of the file system that is mounted; `/` for all of it.
    pub(crate) root: String,
    /// The device number of the mounted file system, as `254:0`.
    pub(crate) device: String,
    /// The type of the file system, as `ext4`.
    pub(crate) file_system: String,
    /// The source of the mount, as `/dev/sda2`.
    pub(crate) source: String,
    /// The file system's own options.
    options: String,
    /// The line of mountinfo that describes this mount.
    pub(crate) at: Source,
}

impl Mount {
    /// Whether the device number is that of a block device.
    pub(crate) fn is_on_block_device(&self) -> bool {
        !self.device.starts_with("0:")
    }

    /// The file system's own options of the mount, one by one.
    pub(crate) fn options(&self) -> impl Iterator<Item = &str> {
        self.options.split(',')
    }
}

/// All mounts, in the order of mounting.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    all: Vec<Mount>,
    cgroup2: Option<String>,
    cgroup1_memory: Option<String>,
}

/// Memory-backed file systems whose `statfs` reports their usage.
const IN_MEMORY: &[&str] = &["tmpfs", "devtmpfs", "rootfs"];

/// File systems on which a path lookup waits for nothing but a local disk. All others may be
/// remote.
const LOCAL: &[&str] = &[
    "tmpfs", "devtmpfs", "rootfs", "ramfs", "proc", "sysfs", "cgroup", "cgroup2", "ext2", "ext3",
    "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "vfat", "squashfs", "erofs", "iso9660",
    "overlay",
];

pub(crate) fn read(host: &HostRoot) -> Mounts {
    let Ok(text) = host.text("proc/self/mountinfo") else { return usual_mounts(host) };
    let understood =
        |line: Line<'_>| line.check_parsed(host, "a mount in ten columns", mount(&line));
    let all: Vec<Mount> = text.first_lines(host, MOUNTS).filter_map(understood).collect();
    let point = |matches: fn(&Mount) -> bool| {
        all.iter().find(|mount| matches(mount)).map(|mount| mount.point.clone())
    };
    let cgroup2 = point(|mount| mount.file_system == "cgroup2");
    let cgroup1_memory = point(|mount| {
        mount.file_system == "cgroup" && mount.options().any(|option| option == "memory")
    });
    Mounts { all, cgroup2, cgroup1_memory }
}

/// The cgroup hierarchies at the paths where systemd mounts them.
fn usual_mounts(host: &HostRoot) -> Mounts {
    let first_with = |places: &[&str], mark: &str| {
        let there = |place: &&&str| host.exists(&format!("{place}/{mark}"));
        places.iter().find(there).map(|place| (*place).to_owned())
    };
    Mounts {
        all: Vec::new(),
        cgroup2: first_with(&["sys/fs/cgroup", "sys/fs/cgroup/unified"], "cgroup.controllers"),
        cgroup1_memory: first_with(&["sys/fs/cgroup/memory"], "memory.limit_in_bytes"),
    }
}

impl Mounts {
    /// Where the unified hierarchy is mounted, without the leading slash.
    pub(crate) fn cgroup2(&self) -> Option<&str> {
        self.cgroup2.as_deref()
    }

    /// Where the memory controller of cgroup v1 is mounted, without the leading slash.
    pub(crate) fn cgroup1_memory(&self) -> Option<&str> {
        self.cgroup1_memory.as_deref()
    }

    /// The mount that contains `path` (absolute): the deepest mount point and, of several mounts on
    /// it, the last.
    pub(crate) fn mount_containing(&self, path: &str) -> Option<&Mount> {
        let path = path.strip_prefix('/')?;
        let holds = |mount: &&Mount| is_inside(path, &mount.point);
        self.all.iter().filter(holds).max_by_key(|mount| mount.point.len())
    }

    /// Mounts of memory-backed file systems, in the order of mounting; of several mounts of the
    /// same file system only the first.
    pub(crate) fn memory_backed_mounts(&self) -> impl Iterator<Item = &Mount> {
        let mut known = HashSet::new();
        let in_memory = |mount: &&Mount| IN_MEMORY.contains(&mount.file_system.as_str());
        self.all.iter().filter(in_memory).filter(move |mount| known.insert(mount.device.as_str()))
    }

    /// Mounts of ramfs, in the order of mounting; of several mounts of the same one only the first.
    pub(crate) fn of_ramfs(&self) -> impl Iterator<Item = &Mount> {
        let mut known = HashSet::new();
        let of_ramfs = self.all.iter().filter(|mount| mount.file_system == "ramfs");
        of_ramfs.filter(move |mount| known.insert(mount.device.as_str()))
    }

    /// Mount points of file systems whose server or daemon may not answer, so that resolving a path
    /// through them could block. The root is not included: without it nothing works.
    pub(crate) fn remote_mount_points(&self) -> HashSet<&str> {
        let is_remote = |mount: &&Mount| {
            !mount.point.is_empty() && !LOCAL.contains(&mount.file_system.as_str())
        };
        self.all.iter().filter(is_remote).map(|mount| mount.point.as_str()).collect()
    }

    /// A mount of the device at `path` (as `/dev/zram1`) or of the device number `device`.
    pub(crate) fn of_device(&self, path: &str, device: Option<&str>) -> Option<&Mount> {
        let is_it = |mount: &&Mount| mount.source == path || Some(mount.device.as_str()) == device;
        self.all.iter().find(is_it)
    }
}

fn is_inside(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder);
    folder.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The columns of a mountinfo line, paths still escaped.
#[derive(Debug)]
pub struct Columns<'a> {
    /// Mount id, parent id, and device number.
    pub ids: [&'a [u8]; 3],
    /// The folder of the file system that is mounted.
    pub root: &'a [u8],
    /// Path of the mount point.
    pub point: &'a [u8],
    /// Options of this mount, not of the file system.
    pub options: &'a [u8],
    /// Type of the file system.
    pub file_system: &'a [u8],
    /// The source of the mount: a device, or any name.
    pub source: &'a [u8],
    /// The file system's own options.
    pub super_options: &'a [u8],
}

impl<'a> Columns<'a> {
    /// Parses `36 35 98:0 /root /point rw,noatime [more …] - ext4 /dev/sda1 rw`. Columns are
    /// separated by single spaces, because the source may be empty.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut columns = line.split(|&byte| byte == b' ');
        let ids = [columns.next()?, columns.next()?, columns.next()?];
        let (root, point, options) = (columns.next()?, columns.next()?, columns.next()?);
        columns.find(|column| *column == b"-")?;
        Some(Self {
            ids,
            root,
            point,
            options,
            file_system: columns.next()?,
            source: columns.next()?,
            super_options: columns.next()?,
        })
    }
}

fn mount(line: &Line<'_>) -> Option<Mount> {
    let columns = Columns::parse(line.bytes)?;
    Some(Mount {
        point: unescaped_text(columns.point.strip_prefix(b"/")?),
        root: unescaped_text(columns.root),
        device: unescaped_text(columns.ids[2]),
        file_system: unescaped_text(columns.file_system),
        source: unescaped_text(columns.source),
        options: unescaped_text(columns.super_options),
        at: line.source(),
    })
}

fn unescaped_text(column: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(column)).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing;

    // from a 6.18 kernel with a hybrid cgroup hierarchy, and from a desktop with btrfs
    const HYBRID: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard,resuid=65534
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
50 27 0:44 /@swap /swap rw,noatime shared:30 - btrfs /dev/nvme0n1p3 rw,ssd,subvol=/@swap
51 27 8:1 / /mnt/my\\040disk rw master:1 propagate_from:2 - xfs /dev/sda1 rw
52 27 0:50 / /odd rw - tmpfs  rw
";

    fn host(mountinfo: impl AsRef<[u8]>) -> HostRoot {
        testing::host([("proc/self/mountinfo", mountinfo)])
    }

    #[test]
    fn the_deepest_mount_holds_a_path() {
        let mounts = read(&host(HYBRID));
        let device = |path| mounts.mount_containing(path).map(|mount| mount.device.as_str());
        assert_eq!(device("/swapfile"), Some("254:0"));
        assert_eq!(device("/swap/file"), Some("0:44"));
        assert_eq!(device("/swapper/file"), Some("254:0"));
        assert_eq!(device("/mnt/my disk/swap"), Some("8:1"));
        assert_eq!(device("relative"), None);
    }

    #[test]
    fn controllers_are_found_where_they_are_mounted() {
        let mounts = read(&host(HYBRID));
        assert_eq!(mounts.cgroup2(), Some("sys/fs/cgroup/unified"));
        assert_eq!(mounts.cgroup1_memory(), Some("sys/fs/cgroup/memory"));
    }

    #[test]
    fn without_the_file_controllers_are_looked_for_in_their_usual_places() {
        let unified = read(&testing::host([("sys/fs/cgroup/cgroup.controllers", "")]));
        assert_eq!((unified.cgroup2(), unified.cgroup1_memory()), (Some("sys/fs/cgroup"), None));
        let hybrid = read(&testing::host([
            ("sys/fs/cgroup/unified/cgroup.controllers", ""),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", ""),
        ]));
        assert_eq!(hybrid.cgroup2(), Some("sys/fs/cgroup/unified"));
        assert_eq!(hybrid.cgroup1_memory(), Some("sys/fs/cgroup/memory"));
    }

    #[test]
    fn devices_are_found_by_name_and_by_number() {
        let mounts = read(&host(HYBRID));
        assert_eq!(mounts.of_device("/dev/vda", None).unwrap().file_system, "ext4");
        assert_eq!(mounts.of_device("/dev/other", Some("8:1")).unwrap().point, "mnt/my disk");
        assert_eq!(mounts.of_device("/dev/zram1", Some("253:1")), None);
    }

    #[test]
    fn a_garbled_line_is_a_problem_and_the_rest_goes_on() {
        let host = host(format!("nonsense\n{HYBRID}"));
        let mounts = read(&host);
        assert_eq!(mounts.all.len(), 9);
        assert_eq!(mounts.all[8].source, "");
        let problems = host.take_problems();
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].line, Some(1));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in testing::mangle(HYBRID)) {
            read(&host(bytes));
        }

        /// The result is the deepest mount according to a naive search.
        #[test]
        fn the_longest_prefix_wins(points in proptest::collection::vec("(/[ab]{1,2}){0,3}", 1..8), path in "(/[ab]{1,2}){1,4}") {
            let line = |(at, point): (usize, &String)| {
                let point = if point.is_empty() { "/" } else { point };
                format!("1 2 {at}:9 / {point} rw - ext4 /dev/x rw\n")
            };
            let text: String = points.iter().enumerate().map(line).collect();
            let oracle = points
                .iter()
                .enumerate()
                .filter(|(_, point)| format!("{path}/").starts_with(&format!("{point}/")))
                .max_by_key(|(at, point)| (point.len(), *at))
                .map(|(at, _)| format!("{at}:9"));
            let mounts = read(&host(&text));
            prop_assert_eq!(mounts.mount_containing(&path).map(|mount| mount.device.clone()), oracle);
        }
    }
}
