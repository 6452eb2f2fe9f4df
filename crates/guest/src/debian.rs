// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fetches a kernel of a Debian suite, with busybox, and unpacks both into a private folder.
//!
//! Suites distribute the image and the modules over different packages. Starting at the meta
//! package, this module follows each dependency that names a `linux-*` package in exactly one
//! version.

#![expect(
    clippy::disallowed_methods,
    reason = "the command goes to program.rs, which lets it end with its parent"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::apt::{Apt, Archive};
use crate::error::Error;
use crate::item::SuiteKernel;
use crate::program;

const BUSYBOX: &str = "busybox-static";

/// Unpacks the kernel, and busybox of its suite, below `folder/root`; returns the packages it used.
pub(crate) fn fetch(
    kernel: &SuiteKernel,
    folder: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<Archive>, Error> {
    tell(&format!("{kernel}: fetching the lists of packages"));
    let apt = Apt::for_suite(kernel.suite(), folder)?;
    let mut packages = kernel_packages(&apt, kernel.flavour().package())?;
    packages.push(BUSYBOX.to_owned());
    tell(&format!("{kernel}: fetching {}", packages.join(", ")));
    let archives = apt.download(&packages)?;
    tell(&format!("{kernel}: unpacking"));
    unpack(&archives, &folder.join("root"))?;
    Ok(archives)
}

/// The packages that hold the meta package's kernel.
fn kernel_packages(apt: &Apt, meta: &str) -> Result<Vec<String>, Error> {
    let mut found: Vec<String> = Vec::new();
    let mut waiting = vec![meta.to_owned()];
    while let Some(package) = waiting.pop() {
        let stanza = apt.run("apt-cache", &["show", "--no-all-versions", &package])?;
        let exact = exact_dependencies(&stanza);
        waiting.extend(exact.into_iter().filter(|name| *name != meta && !found.contains(name)));
        if package != meta && !found.contains(&package) {
            found.push(package);
        }
    }
    Ok(found)
}

fn unpack(archives: &[Archive], root: &Path) -> Result<(), Error> {
    for archive in archives {
        let mut command = Command::new("dpkg-deb");
        program::output("dpkg-deb", command.arg("--extract").arg(&archive.path).arg(root))?;
    }
    Ok(())
}

/// The `linux-*` packages that a stanza depends on in exactly one version.
fn exact_dependencies(stanza: &str) -> Vec<String> {
    let fields = stanza.lines().filter_map(|line| line.strip_prefix("Depends: "));
    let wants = fields.flat_map(|field| field.split(", "));
    let exact = wants.filter_map(|want| want.split_once(" (= ").map(|(name, _)| name));
    exact.filter(|name| name.starts_with("linux-")).map(str::to_owned).collect()
}

/// Paths of image, modules and busybox in the unpacked packages.
pub(crate) struct PackageFiles {
    pub(crate) image: PathBuf,
    pub(crate) modules: PathBuf,
    pub(crate) busybox: PathBuf,
}

/// Finds the files of the packages below the root. Suites install them in different folders.
pub(crate) fn package_files(root: &Path) -> Option<PackageFiles> {
    let modules = ["usr/lib/modules", "lib/modules"].map(|path| root.join(path));
    let modules = modules.iter().find_map(|folder| first_entry_with_prefix(folder, ""))?;
    let image = first_entry_with_prefix(&root.join("boot"), "vmlinuz-")
        .or_else(|| first_entry_with_prefix(&modules, "vmlinuz"))?;
    let busybox = ["bin/busybox", "usr/bin/busybox"].map(|path| root.join(path));
    let busybox = busybox.into_iter().find(|path| path.is_file())?;
    Some(PackageFiles { image, modules, busybox })
}

/// The first entry of a folder, by name, that begins with this text.
fn first_entry_with_prefix(folder: &Path, beginning: &str) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(beginning))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_own_packages_are_followed() {
        let old = "Package: linux-image-cloud-amd64\nDepends: linux-image-6.1.0-50 (= 6.1.176-1)\n";
        assert_eq!(exact_dependencies(old), ["linux-image-6.1.0-50"]);
        let new = "Depends: dracut | initramfs-tools (>= 0.120), linux-base-7 (= 7-1), \
                   linux-modules-7 (= 7-1)\nPre-Depends: linux-base (>= 4.17~)\n";
        assert_eq!(exact_dependencies(new), ["linux-base-7", "linux-modules-7"]);
    }

    #[test]
    fn both_layouts_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for (root, files) in [
            ("old", ["boot/vmlinuz-6.1", "lib/modules/6.1/kernel/a.ko", "bin/busybox"]),
            ("new", ["usr/lib/modules/7/vmlinuz", "usr/lib/modules/7/kernel/a", "usr/bin/busybox"]),
        ] {
            let root = folder.path().join(root);
            assert!(package_files(&root).is_none());
            for file in files {
                let path = root.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, b"").unwrap();
            }
            assert!(package_files(&root).is_some_and(|found| found.image.is_file()));
        }
    }
}
