// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the kernel that `--kernel` requests, and reads what is needed to boot it: image, modules,
//! busybox.

mod modules;
mod request;

use std::fs;
use std::path::{Path, PathBuf};

use pagewise_observe::UserFile;

use crate::cache::CacheEntry;
use crate::elf;
use crate::error::Error;
use crate::vmlinuz::{release, unpack_image};

pub(crate) use modules::{Module, Modules};
pub use request::{KernelRequest, find};

/// A kernel that can be booted in a guest.
#[derive(Debug)]
pub struct Kernel {
    /// Name of the kernel, in the user's terms.
    pub name: String,
    /// Release of the kernel as `uname -r` will print it, if the image contains it.
    pub release: String,
    image: PathBuf,
    modules: Option<PathBuf>,
    busybox: Option<PathBuf>,
    kept: Option<CacheEntry>,
}

/// The kernel image that QEMU is given.
#[derive(Debug)]
pub(crate) struct Image {
    /// Path of the file that the image was read from.
    pub(crate) path: PathBuf,
    /// The unpacked bytes of the image, if the file was compressed: use these instead of the file.
    pub(crate) unpacked: Option<Vec<u8>>,
    /// Whether the image is an uncompressed ELF kernel, for the `microvm` machine; otherwise it is
    /// compressed, as distributions ship it.
    pub(crate) plain: bool,
    /// Memory that the segments of the kernel take, in bytes, as far as it can be determined.
    pub(crate) memory: u64,
}

/// The largest image or module that is read, in bytes; a kernel with all its symbols has about 400
/// MiB.
const LONGEST_IMAGE: u64 = 1 << 30;

impl Kernel {
    /// Makes a kernel from an image file and, if there is one, its folder of modules.
    fn from_file(name: String, image: PathBuf, modules: Option<PathBuf>) -> Result<Self, Error> {
        let bytes = UserFile::open(&image, LONGEST_IMAGE)?.into_bytes()?;
        let plain = elf::read(&bytes).is_some_and(|elf| elf.is_kernel);
        let release = release(&bytes);
        if release.is_none() && !plain {
            let what = "expected a Linux image for x86, or an unpacked kernel with an entry for \
                        virtual machines (CONFIG_PVH)"
                .to_owned();
            return Err(Error::Unusable { path: image, what });
        }
        let release = release.unwrap_or_default();
        let modules = modules.or_else(|| find_installed_modules(&release));
        Ok(Self { name, release, image, modules, busybox: find_host_busybox(), kept: None })
    }

    /// Makes a kernel from an entry of the cache.
    fn from_kept(kept: CacheEntry) -> Self {
        Self {
            name: kept.item().to_string(),
            release: kept.release().to_owned(),
            image: kept.path("image"),
            modules: Some(kept.path("modules")),
            busybox: Some(kept.path("busybox")),
            kept: Some(kept),
        }
    }

    /// Reads a file of this kernel. A cached file is verified against its hash.
    fn read(&self, path: &Path) -> Result<Vec<u8>, Error> {
        match &self.kept {
            Some(kept) => kept.read(path),
            None => Ok(UserFile::open(path, LONGEST_IMAGE)?.into_bytes()?),
        }
    }

    pub(crate) fn image(&self) -> Result<Image, Error> {
        let bytes = self.read(&self.image)?;
        let path = self.image.clone();
        if let Some(elf) = elf::read(&bytes).filter(|elf| elf.is_kernel) {
            return Ok(Image { path, unpacked: None, plain: true, memory: elf.memory });
        }
        let unpacked = unpack_image(&bytes);
        let elf = unpacked.as_deref().and_then(elf::read);
        let memory = elf.map_or(bytes.len() as u64, |elf| elf.memory);
        Ok(Image { path, plain: unpacked.is_some(), unpacked, memory })
    }

    /// Finds the modules to load, with their dependencies: those of `usual` that this kernel has,
    /// and all of `asked`.
    pub(crate) fn find_modules_to_load(
        &self,
        usual: &[&str],
        asked: &[String],
    ) -> Result<Vec<Module>, Error> {
        let modules =
            self.modules.as_deref().map(Modules::list_below).transpose()?.unwrap_or_default();
        if let Some(name) = asked.iter().find(|name| !modules.has(name)) {
            return Err(self.no_module_error(name));
        }
        let asked = asked.iter().map(String::as_str);
        let names: Vec<&str> = usual.iter().copied().chain(asked).collect();
        modules.closure(&names, |path| self.read(path))
    }

    /// The files beside the modules that depmod needs, as far as they exist: they list the built-in
    /// modules and the order of modules.
    pub(crate) fn module_lists(&self) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
        const LISTS: [&str; 3] = ["modules.builtin", "modules.builtin.modinfo", "modules.order"];
        let Some(folder) = &self.modules else { return Ok(Vec::new()) };
        let there = LISTS.into_iter().filter(|name| folder.join(name).is_file());
        there.map(|name| Ok((name, self.read(&folder.join(name))?))).collect()
    }

    fn no_module_error(&self, module: &str) -> Error {
        let (path, what) = match &self.modules {
            Some(folder) => (folder, format!("no module {module} here, and none built in")),
            None => {
                (&self.image, format!("no modules of this kernel are known, {module} or other"))
            }
        };
        Error::Unusable { path: path.clone(), what }
    }

    /// A statically linked busybox for the guest: its path and its contents.
    pub(crate) fn busybox(&self) -> Result<Option<(&Path, Vec<u8>)>, Error> {
        let Some(path) = self.busybox.as_deref() else { return Ok(None) };
        Ok(Some((path, self.read(path)?)))
    }
}

fn find_installed_modules(release: &str) -> Option<PathBuf> {
    let folder = Path::new("/lib/modules").join(release);
    (!release.is_empty() && folder.is_dir()).then_some(folder)
}

/// Path of the host's busybox, if that is statically linked.
fn find_host_busybox() -> Option<PathBuf> {
    let path = PathBuf::from("/bin/busybox");
    let elf = elf::read(&fs::read(&path).ok()?)?;
    (!elf.needs_loader).then_some(path)
}
