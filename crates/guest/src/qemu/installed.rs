// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guest with its own root disk that is booted several times: each boot finds what earlier boots
//! wrote.
//!
//! Each boot is a new QEMU process with the same disk, because QEMU exits when the machine
//! restarts. So each boot has its own outcome and deadlines, and a power loss is simulated by
//! killing QEMU. The first boot copies the program, the user's files and modules to the disk. At
//! later boots PID 1 loads only the modules that the root disk needs, and changes nothing on the
//! disk except that it empties `/out`.
//!
//! The guest keeps its slot among the guests that run at the same time from the first boot to the
//! last. Its disks lie in the run's folder and are removed with it.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::disk::{Access, Disk};
use super::guest::{DiskBoot, Guest};
use super::outcome::Run;
use super::root_disk;
use super::run::{Answer, BootPlace, Emulator, GuestEvent, Images, boot, find_qemu, take_slot};
use super::run_slot::RunSlot;
use crate::cache::{Cache, CacheEntry};
use crate::error::{Error, ErrorContext};
use crate::files;
use crate::kernel::Kernel;
use crate::userland::{self, OPTIONAL};

/// The function that receives the events of a boot; returning `Break` ends the boot.
type Listener<'a> = &'a mut dyn FnMut(GuestEvent<'_>) -> Answer;

/// A guest with its own root disk, before its first boot or between two boots.
#[derive(Debug)]
pub struct InstalledGuest<'a> {
    guest: Guest,
    kernel: &'a Kernel,
    emulator: Emulator,
    slot: RunSlot,
    root: PathBuf,
    boots: u32,
}

impl<'a> InstalledGuest<'a> {
    /// Refuses a guest that cannot be installed, before anything is fetched or made.
    ///
    /// # Errors
    /// If the userland has no disk, a disk discards what is written to it, or a package is unknown.
    pub fn check(guest: &Guest) -> Result<(), Error> {
        guest.userland.item().ok_or(Error::NoRootDisk)?;
        check_packages(&guest.packages)?;
        refuse_discarding_disks(&guest.disks)
    }

    /// Makes the disks of the guest. `guest.argv` is the default command of a boot.
    ///
    /// # Errors
    /// If [`Self::check`] refuses the guest, if the userland cannot be fetched, or if the disks do
    /// not fit.
    pub fn new(
        guest: &Guest,
        kernel: &'a Kernel,
        cache: &Cache,
        stop: &AtomicBool,
        on_event: Listener<'_>,
    ) -> Result<Self, Error> {
        Self::check(guest)?;
        let qemu = find_qemu()?;
        let item = guest.userland.item().ok_or(Error::NoRootDisk)?;
        let mut guest = guest.clone();
        let mut note = |line: &str| {
            let _ = on_event(GuestEvent::Note(line));
        };
        let kept = cache.get(&item, stop, &mut note)?;
        let removed = unwanted_files(&kept, &guest.packages)?;
        guest.boot = Some(DiskBoot { number: 0, removed });
        let emulator = Emulator::choose(qemu, &guest, (kernel, cache), stop)?;
        let _ = on_event(GuestEvent::Chosen(emulator.accelerator));
        let slot = take_slot(&guest, kernel, cache, stop, on_event)?;
        let root = slot.folder.join("root");
        root_disk::copy(&kept.open(&kept.path(userland::DISK))?, &root)?;
        guest.disks = keep_empty_disks(&guest.disks, &slot.folder)?;
        guest.disks.push(Disk::Image(root.clone(), Access::Write));
        Ok(Self { guest, kernel, emulator, slot, root, boots: 0 })
    }

    /// Path of the root disk, which exists until this value is dropped: a raw image with an ext4
    /// file system. QEMU writes to it during a boot.
    #[must_use]
    pub fn root_disk(&self) -> &Path {
        &self.root
    }

    /// Boots once, with this command or the guest's default.
    ///
    /// # Errors
    /// If the guest cannot be started. The outcome of a started guest is in the [`Run`].
    pub fn boot(
        &mut self,
        argv: Option<&[String]>,
        stop: &AtomicBool,
        on_event: Listener<'_>,
    ) -> Result<Run, Error> {
        let mut guest = self.guest.clone();
        guest.argv = argv.map_or(guest.argv, <[String]>::to_vec);
        if let Some(boot) = &mut guest.boot {
            boot.number = self.boots;
        }
        self.boots += 1;
        let images = Images::load(&guest, self.kernel)?;
        let folder = self.slot.folder.join("boot");
        DirBuilder::new().mode(0o700).create(&folder).with_path(&folder)?;
        let place = BootPlace { slot: &self.slot, folder: &folder, root: None };
        let run = boot(&guest, images, &self.emulator, place, stop, on_event);
        files::remove_folder(&folder)?;
        let mut run = run?;
        if let Some(disk) = &mut run.disk {
            disk.state = root_disk::read_state(&self.root)?;
        }
        Ok(run)
    }
}

/// Refuses names that are not those of optional packages.
fn check_packages(wanted: &[String]) -> Result<(), Error> {
    let unknown = wanted.iter().find(|name| !OPTIONAL.contains(&name.as_str()));
    unknown.map_or(Ok(()), |name| {
        Err(Error::NoPackage { name: name.clone(), expected: OPTIONAL.join(" or ") })
    })
}

/// Paths of the files of the optional packages that were not requested.
fn unwanted_files(kept: &CacheEntry, wanted: &[String]) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for name in OPTIONAL.iter().filter(|name| wanted.iter().all(|wanted| wanted != *name)) {
        let list = kept.read(&kept.path(userland::LISTS).join(name))?;
        found.extend(String::from_utf8_lossy(&list).lines().map(str::to_owned));
    }
    Ok(found)
}

/// Refuses disks for which QEMU discards the writes at the end of each boot.
fn refuse_discarding_disks(disks: &[Disk]) -> Result<(), Error> {
    let forgetful = disks.iter().find_map(|disk| match disk {
        Disk::Image(path, Access::CopyOnWrite) => Some(path.clone()),
        Disk::Image(..) | Disk::Recorded { .. } | Disk::Empty(_) => None,
    });
    forgetful.map_or(Ok(()), |path| Err(Error::Forgetful { path }))
}

/// Replaces empty disks by files that are kept between boots.
fn keep_empty_disks(disks: &[Disk], folder: &Path) -> Result<Vec<Disk>, Error> {
    let kept = |(number, disk): (usize, &Disk)| match disk {
        Disk::Image(..) | Disk::Recorded { .. } => Ok(disk.clone()),
        Disk::Empty(size) => {
            let path = folder.join(format!("empty{number}"));
            let mut open = File::options();
            let file = open.write(true).create_new(true).mode(0o600).open(&path);
            file.and_then(|file| file.set_len(size.get())).with_path(&path)?;
            Ok(Disk::Image(path, Access::Write))
        }
    };
    disks.iter().enumerate().map(kept).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use pagewise_model::Bytes;

    fn refusal(change: impl FnOnce(&mut Guest)) -> Option<String> {
        let mut guest = Guest::new("/init".into(), vec!["true".to_owned()]);
        guest.userland = "systemd".parse().unwrap();
        change(&mut guest);
        InstalledGuest::check(&guest).err().map(|error| error.to_string())
    }

    #[test]
    fn what_cannot_outlive_a_boot_is_refused() {
        let says = |error: Option<String>, text: &str| error.is_some_and(|it| it.contains(text));
        assert_eq!(refusal(|_| {}), None);
        assert!(says(refusal(|guest| guest.userland = "minimal".parse().unwrap()), "no root disk"));
        let package = |name: &str| refusal(|guest| guest.packages = vec![name.to_owned()]);
        assert_eq!(package(OPTIONAL[0]), None);
        assert!(says(package("bash"), "expected systemd-zram-generator"));
        let disk = |access| refusal(|guest| guest.disks = vec![Disk::Image("/i".into(), access)]);
        assert!(says(disk(Access::CopyOnWrite), "/i: what the guest writes"));
        assert_eq!((disk(Access::Read), disk(Access::Write)), (None, None));
    }

    #[test]
    fn empty_disks_become_files_that_stay_and_others_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let image = Disk::Image("/i".into(), Access::Read);
        let disks = [image.clone(), Disk::Empty(Bytes::new(1 << 30))];
        let kept = keep_empty_disks(&disks, folder.path()).unwrap();
        let path = folder.path().join("empty1");
        assert_eq!(kept, [image, Disk::Image(path.clone(), Access::Write)]);
        let data = path.metadata().unwrap();
        assert_eq!((data.len(), data.blocks(), data.mode() & 0o777), (1 << 30, 0, 0o600));
    }
}
