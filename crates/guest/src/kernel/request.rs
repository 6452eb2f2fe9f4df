// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bookworm`, `6.12`, `host` or a path → which kernel is meant, and where it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use super::Kernel;
use crate::cache::Cache;
use crate::error::Error;
use crate::item::{HOST, Item, is_suite};

/// What was typed behind `--kernel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelRequest {
    /// The kernel that this machine runs.
    Host,
    /// The newest cloud kernel of a Debian suite.
    Suite(String),
    /// What begins with this version: in /boot, or already fetched.
    Version(String),
    /// An image file.
    Path(PathBuf),
}

impl FromStr for KernelRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            HOST => Ok(Self::Host),
            _ if text.contains('/') => Ok(Self::Path(text.into())),
            _ if text.starts_with(|first: char| first.is_ascii_digit()) => {
                Ok(Self::Version(text.to_owned()))
            }
            _ if is_suite(text) => Ok(Self::Suite(text.to_owned())),
            _ => Err(format!("expected a suite, a version, host or a path, found {text:?}")),
        }
    }
}

/// Finds the kernel; a suite is fetched where the cache does not have it whole.
pub fn find(
    requested: &KernelRequest,
    cache: &Cache,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<Kernel, Error> {
    match requested {
        KernelRequest::Suite(suite) => {
            let item = Item::Kernel(suite.clone());
            Ok(Kernel::from_kept(cache.get(&item, stop, tell)?))
        }
        KernelRequest::Path(path) => {
            Kernel::from_file(path.display().to_string(), path.clone(), None)
        }
        KernelRequest::Host => {
            let release = rustix::system::uname().release().to_string_lossy().into_owned();
            host(&release, |found| found == release).ok_or_else(|| absent("host", &release))?
        }
        KernelRequest::Version(version) => match host(version, |found| is_of(found, version)) {
            Some(kernel) => kernel,
            None => match cache.newest(|release| is_of(release, version))? {
                Some(kept) => Ok(Kernel::from_kept(kept)),
                None => Err(absent(version, version)),
            },
        },
    }
}

fn absent(requested: &str, release: &str) -> Error {
    let why = format!(
        "no such file in /boot or /lib/modules, and {release} is not in the cache (lab cache list)"
    );
    Error::NoKernel { requested: requested.to_owned(), why }
}

/// `6.1` means `6.1.0-50-cloud-amd64` but not `6.12.1`.
fn is_of(release: &str, version: &str) -> bool {
    release.strip_prefix(version).is_some_and(|rest| {
        rest.is_empty() || !rest.starts_with(|next: char| next.is_ascii_digit())
    })
}

/// An image of this host: `/boot/vmlinuz-RELEASE`, or `/lib/modules/RELEASE/vmlinuz`.
fn host(name: &str, matches: impl Fn(&str) -> bool) -> Option<Result<Kernel, Error>> {
    let names = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let boot = names("/boot").into_iter().filter_map(|file| {
        let release = file.strip_prefix("vmlinuz-")?.to_owned();
        Some((Path::new("/boot").join(file), release))
    });
    let library = names("/lib/modules")
        .into_iter()
        .map(|release| (Path::new("/lib/modules").join(&release).join("vmlinuz"), release));
    let mut found: Vec<(PathBuf, String)> = boot.chain(library).collect();
    found.retain(|(path, release)| matches(release) && path.is_file());
    found.sort_by(|one, two| one.1.cmp(&two.1));
    let (path, release) = found.pop()?;
    let modules = Some(Path::new("/lib/modules").join(release)).filter(|folder| folder.is_dir());
    Some(Kernel::from_file(name.to_owned(), path, modules))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_is_told_apart() {
        assert_eq!("sid".parse(), Ok(KernelRequest::Suite("sid".to_owned())));
        assert_eq!("host".parse(), Ok(KernelRequest::Host));
        assert_eq!("6.12".parse(), Ok(KernelRequest::Version("6.12".to_owned())));
        assert_eq!("./vmlinuz".parse(), Ok(KernelRequest::Path("./vmlinuz".into())));
        for bad in ["", "-o", "Trixie", "a b", "sid;id", "é"] {
            assert!(bad.parse::<KernelRequest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_version_ends_where_its_number_ends() {
        assert!(is_of("6.1.0-50-cloud-amd64", "6.1"));
        assert!(is_of("6.1", "6.1"));
        assert!(!is_of("6.12.107", "6.1"));
    }
}
