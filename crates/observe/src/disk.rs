// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the whole disk under a block device or under a file.
//!
//! A device's `uevent` contains its name and, for a partition, its number; without the number the
//! name is that of the disk. This needs no symbolic links, which recordings do not contain. A
//! mapped device (dm-crypt, LVM) counts as a disk: its own queue says whether it is rotational. The
//! kernel lists the devices below a mapped device in `slaves`, and `dm/uuid` of a dm-crypt device
//! begins with `CRYPT-`.

use std::cell::OnceCell;
use std::collections::HashMap;

use pagewise_model::{Disk, Name, Reading, Source};

use crate::limits::{self, MAPPED_DEVICES};
use crate::mounts::{Mount, Mounts};
use pagewise_hostfs::text::{Line, number};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues, absolute_path};

/// Finds the disks of one host.
#[derive(Debug)]
pub(crate) struct Disks<'a> {
    host: &'a HostRoot,
    mounts: &'a Mounts,
    /// The kernel names (`dm-N`) of device mapper's devices by their own names; read at the first
    /// lookup.
    mapped: OnceCell<HashMap<Name, String>>,
}

impl<'a> Disks<'a> {
    pub(crate) fn new(host: &'a HostRoot, mounts: &'a Mounts) -> Self {
        Self { host, mounts, mapped: OnceCell::new() }
    }

    /// The disk of a block device, given as `/dev/sda2` or `/dev/mapper/swap`.
    pub(crate) fn of_device(&self, path: &str) -> Disk {
        self.disk_under(path)
    }

    /// The disk and file system of a file.
    pub(crate) fn of_file(&self, path: &str) -> Disk {
        let Some(mount) = self.mounts.mount_containing(path) else {
            return no_disk("no known mount holds it", &Source::file("/proc/self/mountinfo"));
        };
        let file_system = Name::from(mount.file_system.as_str());
        Disk {
            file_system: Reading::found(file_system, mount.at.clone()),
            ..self.disk_under_mount(mount)
        }
    }

    fn disk_under_mount(&self, mount: &Mount) -> Disk {
        if mount.is_on_block_device() {
            return describe_disk(self.host, &format!("sys/dev/block/{}", mount.device));
        }
        if mount.source.starts_with("/dev/") {
            return self.disk_under(&mount.source);
        }
        let why = format!("{} names no block device", Name::from(mount.file_system.as_str()));
        unknown_disk(&Reading::absent(why, mount.at.clone()))
    }

    fn disk_under(&self, path: &str) -> Disk {
        let name = path.strip_prefix("/dev/").unwrap_or(path);
        let mapped = name.strip_prefix("mapper/").and_then(|name| self.mapper_name(name));
        let name = mapped.unwrap_or_else(|| sysfs_name(name));
        self.add_backing_file(describe_disk(self.host, &format!("sys/class/block/{name}")))
    }

    /// Adds the file behind a loop device, and the type of the file system that it is in.
    fn add_backing_file(&self, disk: Disk) -> Disk {
        /// The longest path that the kernel prints.
        const LONGEST: usize = 4096;
        let is_loop = |name: &&Name| name.as_str().starts_with("loop");
        let Some(name) = disk.name.value().filter(is_loop) else { return disk };
        let path = format!("sys/block/{}/loop/backing_file", sysfs_name(name.as_str()));
        let is_path = |text: &[u8]| text.starts_with(b"/") && text.len() <= LONGEST;
        let file = self
            .host
            .value(&path, "an absolute path", |text| is_path(text).then(|| Name::from_bytes(text)));
        let holding = |file: &Name| {
            let path = file.as_str().strip_suffix(" (deleted)").unwrap_or(file.as_str());
            self.mounts.mount_containing(path)
        };
        let file_system = match file.value().map(holding) {
            Some(Some(mount)) => {
                Reading::found(Name::from(mount.file_system.as_str()), mount.at.clone())
            }
            Some(None) => Reading::absent("no known mount holds it", file.source.clone()),
            None => file.clone(),
        };
        Disk { backing_file: file, backing_file_system: file_system, ..disk }
    }

    /// The kernel name `dm-N` of the device that device mapper calls `name`.
    fn mapper_name(&self, name: &str) -> Option<String> {
        self.mapped.get_or_init(|| self.read_mapped()).get(name).cloned()
    }

    fn read_mapped(&self) -> HashMap<Name, String> {
        let devices = self.host.names("sys/block").into_iter().filter(|it| it.starts_with("dm-"));
        let devices = limits::first(self.host, "sys/block", MAPPED_DEVICES, devices.collect());
        let named = |device: String| {
            let known = self.host.name_at(&format!("sys/block/{device}/dm/name"));
            Some((known.value()?.clone(), device))
        };
        devices.into_iter().filter_map(named).collect()
    }
}

/// The answer if no disk holds the swap area, with the reason.
pub(crate) fn no_disk(why: &'static str, source: &Source) -> Disk {
    let name = Reading::absent(why, source.clone());
    Disk { file_system: name.clone(), ..unknown_disk(&name) }
}

/// The answer for a device whose disk cannot be determined, with the reason.
fn unknown_disk(name: &Reading<Name>) -> Disk {
    let flag = || name.clone().and_then(|_| Err("the disk is not known".into()));
    Disk {
        name: name.clone(),
        lowest: name.clone(),
        rotational: flag(),
        encrypted: flag(),
        file_system: not_a_file(),
        backing_file: no_backing_file(),
        backing_file_system: no_backing_file(),
    }
}

fn no_backing_file() -> Reading<Name> {
    Reading::absent("not a loop device", Source::none())
}

fn not_a_file() -> Reading<Name> {
    Reading::absent("not a file", Source::none())
}

/// A device's name as in sysfs, which writes `!` for the slash of a name like `cciss/c0d0`.
fn sysfs_name(name: &str) -> String {
    name.replace('/', "!")
}

fn describe_disk(host: &HostRoot, folder: &str) -> Disk {
    match whole_disk(host, folder) {
        Ok((disk, at)) => {
            let rotational = format!("sys/block/{}/queue/rotational", sysfs_name(&disk));
            let (lowest, encrypted) = find_below_mappings(host, &disk, &at);
            Disk {
                name: Reading::found(Name::from(disk.as_str()), at),
                lowest,
                rotational: host.flag_at(&rotational),
                encrypted,
                file_system: not_a_file(),
                backing_file: no_backing_file(),
                backing_file_system: no_backing_file(),
            }
        }
        Err(name) => unknown_disk(&name),
    }
}

/// The disk below all device mapper devices, and whether one of them encrypts.
fn find_below_mappings(host: &HostRoot, disk: &str, at: &Source) -> (Reading<Name>, Reading<bool>) {
    /// Maximum number of device mapper levels that are followed: LVM on dm-crypt on RAID needs
    /// three.
    const DEEPEST: usize = 8;
    let (mut lowest, mut at) = (disk.to_owned(), at.clone());
    let mut encrypted = Reading::found(false, at.clone());
    for _ in 0..DEEPEST {
        let folder = format!("sys/block/{}", sysfs_name(&lowest));
        let uuid = host.name_at(&format!("{folder}/dm/uuid"));
        if uuid.value().is_some_and(|uuid| uuid.as_str().starts_with("CRYPT-")) {
            encrypted = Reading::found(true, uuid.source);
        }
        let slaves = format!("{folder}/slaves");
        let Some(slave) = host.names(&slaves).into_iter().next() else { break };
        // this call makes a recording include the folder: it contains a folder only if something in
        // it was read
        host.exists(&format!("{slaves}/{slave}"));
        let Ok(below) = whole_disk(host, &format!("sys/class/block/{slave}")) else { break };
        (lowest, at) = below;
    }
    (Reading::found(Name::from(lowest.as_str()), at), encrypted)
}

/// The disk's name as under `/dev`, and where the line of `uevent` with the name is.
fn whole_disk(host: &HostRoot, folder: &str) -> Result<(String, Source), Reading<Name>> {
    let path = format!("{folder}/uevent");
    let source = Source::file(absolute_path(&path));
    let text = host.text(&path).map_err(|refusal| refusal.reading(source.clone()))?;
    let find = |key: &[u8]| {
        let value = |line: Line<'_>| {
            Some((line.bytes.strip_prefix(key)?.trim_ascii().to_vec(), line.source()))
        };
        text.lines().find_map(value)
    };
    let Some((name, at)) = find(b"DEVNAME=") else {
        return Err(host.report_garbled(source, "a line DEVNAME=", b""));
    };
    let name = String::from_utf8_lossy(&name).into_owned();
    let Some((digits, at_number)) = find(b"PARTN=") else { return Ok((name, at)) };
    match number(&digits).and_then(|number| strip_number(&name, number)) {
        Some(disk) => Ok((disk, at)),
        None => Err(host.report_garbled(at_number, "the number that DEVNAME ends in", &digits)),
    }
}

/// The name of a partition's disk: `sda2` → `sda`; a disk whose name ends in a digit has a `p`
/// before the number: `nvme0n1p3` → `nvme0n1`.
fn strip_number(name: &str, number: u32) -> Option<String> {
    let disk = name.strip_suffix(&number.to_string())?;
    let with_p = disk.strip_suffix('p').filter(|rest| rest.ends_with(|c: char| c.is_ascii_digit()));
    Some(with_p.unwrap_or(disk).to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mounts;
    use crate::testing::host;

    fn of_device(host: &HostRoot, path: &str) -> Disk {
        Disks::new(host, &Mounts::default()).of_device(path)
    }

    fn parts_of(disk: &Disk) -> (Option<&str>, Option<bool>) {
        (disk.name.value().map(Name::as_str), disk.rotational.get())
    }

    #[test]
    fn a_partition_lies_on_the_disk_of_its_name_less_the_number() {
        let host = host([
            (
                "sys/class/block/nvme0n1p3/uevent",
                "MAJOR=259\nMINOR=3\nDEVNAME=nvme0n1p3\nDEVTYPE=partition\nDISKSEQ=1\nPARTN=3\n",
            ),
            ("sys/block/nvme0n1/queue/rotational", "0\n"),
            (
                "sys/class/block/sda12/uevent",
                "MAJOR=8\nMINOR=12\nDEVNAME=sda12\nDEVTYPE=partition\nPARTN=12\n",
            ),
            ("sys/block/sda/queue/rotational", "1\n"),
        ]);
        assert_eq!(parts_of(&of_device(&host, "/dev/nvme0n1p3")), (Some("nvme0n1"), Some(false)));
        assert_eq!(parts_of(&of_device(&host, "/dev/sda12")), (Some("sda"), Some(true)));
        assert_eq!(parts_of(&of_device(&host, "/dev/sdb1")), (None, None));
    }

    #[test]
    fn mapped_devices_and_slashes_are_found_in_sysfs() {
        let host = host([
            ("sys/block/dm-0/dm/name", "vg-other\n"),
            ("sys/block/dm-1/dm/name", "vg-swap\n"),
            ("sys/class/block/dm-1/uevent", "DEVNAME=dm-1\nDEVTYPE=disk\n"),
            ("sys/block/dm-1/queue/rotational", "0\n"),
            ("sys/class/block/cciss!c0d0p1/uevent", "DEVNAME=cciss/c0d0p1\nPARTN=1\n"),
            ("sys/block/cciss!c0d0/queue/rotational", "1\n"),
        ]);
        assert_eq!(parts_of(&of_device(&host, "/dev/mapper/vg-swap")), (Some("dm-1"), Some(false)));
        assert_eq!(
            parts_of(&of_device(&host, "/dev/cciss/c0d0p1")),
            (Some("cciss/c0d0"), Some(true))
        );
    }

    #[test]
    fn a_loop_device_has_a_file_behind_it_and_its_file_system() {
        let mounts_of = "27 1 254:0 / / rw - ext4 /dev/root rw\n50 27 0:44 / /mnt/a\\040b rw - tmpfs tmpfs rw\n";
        let told = |file: &str| {
            let host = host([
                ("proc/self/mountinfo", mounts_of),
                ("sys/class/block/loop0/uevent", "DEVNAME=loop0\nDEVTYPE=disk\n"),
                ("sys/block/loop0/loop/backing_file", file),
            ]);
            let mounts = mounts::read(&host);
            let disk = Disks::new(&host, &mounts).of_device("/dev/loop0");
            let text = |name: &Reading<Name>| name.value().map(ToString::to_string);
            (text(&disk.backing_file), text(&disk.backing_file_system))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(told("/mnt/a b/swap\n"), (some("/mnt/a b/swap"), some("tmpfs")));
        assert_eq!(told("/mnt/a b/x (deleted)\n").1, some("tmpfs"));
        assert_eq!(told("/var/swap\n").1, some("ext4"));
        assert_eq!(told("swap\n"), (None, None));
    }

    #[test]
    fn mappings_are_followed_to_the_disk_and_dm_crypt_is_told() {
        let uevent = |name: &str, more: &str| format!("DEVNAME={name}\nDEVTYPE=disk\n{more}");
        let host = host([
            ("sys/block/dm-1/dm/name", "vg-swap\n".to_owned()),
            ("sys/block/dm-1/dm/uuid", "LVM-a1\n".to_owned()),
            ("sys/block/dm-1/slaves/dm-0/x", String::new()),
            ("sys/block/dm-0/dm/uuid", "CRYPT-LUKS2-b2-luks\n".to_owned()),
            ("sys/block/dm-0/slaves/nvme0n1p3/x", String::new()),
            ("sys/class/block/dm-1/uevent", uevent("dm-1", "")),
            ("sys/class/block/dm-0/uevent", uevent("dm-0", "")),
            ("sys/class/block/nvme0n1p3/uevent", uevent("nvme0n1p3", "PARTN=3\n")),
            ("sys/class/block/sda2/uevent", uevent("sda2", "PARTN=2\n")),
        ]);
        let told = |path| {
            let disk = of_device(&host, path);
            let lowest = disk.lowest.value().map(ToString::to_string);
            (disk.name.value().map(ToString::to_string), lowest, disk.encrypted.get())
        };
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(told("/dev/mapper/vg-swap"), (name("dm-1"), name("nvme0n1"), Some(true)));
        assert_eq!(told("/dev/sda2"), (name("sda"), name("sda"), Some(false)));
        assert_eq!(told("/dev/sdb2"), (None, None, None));
    }

    #[test]
    fn a_file_lies_on_the_disk_of_its_mount() {
        let host = host([
            (
                "proc/self/mountinfo",
                "27 1 254:0 / / rw - ext4 /dev/root rw\n50 27 0:44 /@s /swap rw - btrfs /dev/sda2 rw\n51 27 0:45 / /run rw - tmpfs tmpfs rw\n",
            ),
            ("sys/dev/block/254:0/uevent", "MAJOR=254\nMINOR=0\nDEVNAME=vda\nDEVTYPE=disk\n"),
            ("sys/block/vda/queue/rotational", "1\n"),
            ("sys/class/block/sda2/uevent", "DEVNAME=sda2\nPARTN=2\n"),
            ("sys/block/sda/queue/rotational", "0\n"),
        ]);
        let mounts = mounts::read(&host);
        assert_eq!(
            parts_of(&Disks::new(&host, &mounts).of_file("/swapfile")),
            (Some("vda"), Some(true))
        );
        let on_btrfs = Disks::new(&host, &mounts).of_file("/swap/file");
        assert_eq!(parts_of(&on_btrfs), (Some("sda"), Some(false)));
        assert_eq!(on_btrfs.file_system.value().unwrap().as_str(), "btrfs");
        let on_tmpfs = Disks::new(&host, &mounts).of_file("/run/file");
        assert_eq!(parts_of(&on_tmpfs), (None, None));
        assert_eq!(on_tmpfs.file_system.source.to_string(), "/proc/self/mountinfo:3");
    }

    proptest! {
        /// The kernel builds a partition's name from disk and number; removing the number gives the
        /// disk.
        #[test]
        fn names_come_apart_as_the_kernel_joins_them(disk in "[a-z]{2,4}([0-9]n[0-9]|[0-9]{1,2})?", number in 1u32..300) {
            let p = if disk.ends_with(|c: char| c.is_ascii_digit()) { "p" } else { "" };
            prop_assert_eq!(strip_number(&format!("{disk}{p}{number}"), number), Some(disk));
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = of_device(&host([("sys/class/block/sda1/uevent", bytes)]), "/dev/sda1");
        }
    }
}
