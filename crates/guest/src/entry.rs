// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the cache entry of an item: a kernel or a userland, with a manifest of all its files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::apt::Archive;
use crate::debian;
use crate::error::{Error, ErrorContext};
use crate::files::{self, hex_digits};
use crate::item::{Item, SuiteKernel};
use crate::userland;
use crate::vmlinuz;

/// Name of the file of an entry that lists all other files.
pub(crate) const MANIFEST: &str = "manifest.json";

/// Contents and origin of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The Debian suite that the item is from.
    pub(crate) suite: String,
    /// Release of a kernel as `uname -r` prints it, or the version of a userland's systemd.
    pub(crate) release: String,
    /// Version of the steps that made the entry; see [`recipe_version`].
    #[serde(default)]
    pub(crate) recipe: u32,
    /// Name and version of each package that the item consists of, as `name_version`.
    pub(crate) packages: Vec<String>,
    /// SHA-256 of each package file, as in the signed lists and verified before unpacking.
    #[serde(default)]
    pub(crate) archives: BTreeMap<String, String>,
    /// Size and hash of every file below the entry, except the manifest.
    pub(crate) files: BTreeMap<String, Sum>,
}

/// Size and hash of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sum {
    /// Size of the file in bytes.
    pub(crate) size: u64,
    /// SHA-256 of the contents, in hexadecimal digits.
    pub(crate) sha256: String,
}

impl Sum {
    /// Hashes the file in pieces: a disk image is larger than what should be read into memory at a
    /// time.
    pub(crate) fn of_file(file: &mut fs::File) -> std::io::Result<Self> {
        let mut hash = Sha256::new();
        let size = std::io::copy(file, &mut hash)?;
        Ok(Self { size, sha256: hex_digits(&hash.finalize()) })
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self { size: bytes.len() as u64, sha256: hex_digits(&Sha256::digest(bytes)) }
    }
}

/// Version of the steps that make an item. Kernels are unpacked without changes, so theirs is
/// always 0.
pub(crate) fn recipe_version(item: &Item) -> u32 {
    match item {
        Item::Kernel(_) => 0,
        Item::Userland(_) => userland::RECIPE,
    }
}

/// Fetches an entry and arranges it in the folder `aside`; returns its path.
pub(crate) fn build(
    item: &Item,
    aside: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<PathBuf, Error> {
    let entry = aside.join("entry");
    files::make_folder(&entry)?;
    let (release, archives) = match item {
        Item::Kernel(kernel) => build_kernel(kernel, aside, &entry, tell)?,
        Item::Userland(suite) => userland::make(suite, aside, &entry, tell)
            .map_err(|error| add_item_name(item, error))?,
    };
    let suite = item.suite().to_owned();
    let recipe = recipe_version(item);
    let packages = archives.iter().map(|one| one.name.clone()).collect();
    let archives = archives.into_iter().map(|one| (one.name, one.sha256)).collect();
    let manifest =
        Manifest { suite, release, recipe, packages, archives, files: compute_sums(&entry)? };
    let text = serde_json::to_vec_pretty(&manifest).unwrap_or_default();
    files::write(&entry.join(MANIFEST), &text, 0o600)?;
    Ok(entry)
}

/// Adds the item's name to an error of apt: the suite may lack the packages, or may no longer
/// exist.
fn add_item_name(item: &Item, error: Error) -> Error {
    match error {
        Error::Failed { program, message: said } if program.starts_with("apt") => {
            item.unusable_error(format!("{program}: {said}"))
        }
        other => other,
    }
}

fn build_kernel(
    kernel: &SuiteKernel,
    aside: &Path,
    entry: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<(String, Vec<Archive>), Error> {
    let archives = debian::fetch(kernel, aside, tell)?;
    let places = debian::package_files(&aside.join("root")).ok_or_else(|| Error::NoKernel {
        requested: kernel.to_string(),
        why: format!("its packages hold no image, modules or busybox: {}", join_names(&archives)),
    })?;
    let image = fs::read(&places.image).with_path(&places.image)?;
    let release = vmlinuz::release(&image).ok_or_else(|| Error::Unusable {
        path: places.image.clone(),
        what: "expected a Linux image for x86".to_owned(),
    })?;
    let image = vmlinuz::unpack_image(&image).unwrap_or(image);
    // Readable by everybody: QEMU may run as an unprivileged user.
    files::write(&entry.join("image"), &image, 0o644)?;
    fs::rename(&places.busybox, entry.join("busybox")).with_path(&places.busybox)?;
    fs::rename(&places.modules, entry.join("modules")).with_path(&places.modules)?;
    Ok((release, archives))
}

fn join_names(archives: &[Archive]) -> String {
    archives.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Reads every file below an entry; returns the size and hash of each.
pub(crate) fn compute_sums(entry: &Path) -> Result<BTreeMap<String, Sum>, Error> {
    let mut sums = BTreeMap::new();
    for path in files::files_below(entry)? {
        let name = path.strip_prefix(entry).unwrap_or(&path).to_string_lossy().into_owned();
        let sum =
            fs::File::open(&path).and_then(|mut file| Sum::of_file(&mut file)).with_path(&path)?;
        sums.insert(name, sum);
    }
    Ok(sums)
}
