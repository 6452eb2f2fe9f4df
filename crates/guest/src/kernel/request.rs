// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses which kernel a user means, and finds it: `bookworm`, `trixie/generic`, `6.12`, `host` or
//! a path.
//!
//! Text with a slash is a path, except a suite's generic kernel such as `trixie/generic`. This
//! holds even if a file of that name exists; write `./trixie/generic` for the file.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use super::Kernel;
use crate::cache::Cache;
use crate::error::Error;
use crate::item::{HOST, Item, SuiteKernel, is_suite};

/// The parsed value of `--kernel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelRequest {
    /// The kernel that this machine runs.
    Host,
    /// The newest kernel of a Debian suite, in one of its flavours.
    Suite(SuiteKernel),
    /// A kernel in /boot or in the cache whose release begins with this version.
    Version(String),
    /// A kernel image at this path.
    Path(PathBuf),
}

impl FromStr for KernelRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            (HOST, _) => Ok(Self::Host),
            (_, Ok(kernel)) => Ok(Self::Suite(kernel)),
            _ if text.contains('/') => Ok(Self::Path(text.into())),
            _ if text.starts_with(|first: char| first.is_ascii_digit()) => {
                Ok(Self::Version(text.to_owned()))
            }
            _ => Err(format!(
                "expected a suite, SUITE/generic, a version, host or a path, found {text:?}"
            )),
        }
    }
}

impl fmt::Display for KernelRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => out.write_str(HOST),
            Self::Suite(kernel) => kernel.fmt(out),
            Self::Version(version) => out.write_str(version),
            Self::Path(path) => path.display().fmt(out),
        }
    }
}

/// Finds the requested kernel; a kernel of a suite is fetched if the cache has no complete one.
pub fn find(
    requested: &KernelRequest,
    cache: &Cache,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<Kernel, Error> {
    match requested {
        KernelRequest::Suite(kernel) => {
            let item = Item::Kernel(kernel.clone());
            Ok(Kernel::from_kept(cache.get(&item, stop, tell)?))
        }
        KernelRequest::Path(path) if is_like_a_flavour(path) && !path.exists() => {
            let why =
                "no such file, and a suite has no kernels but SUITE (for virtual machines) and \
                       SUITE/generic"
                    .to_owned();
            Err(Error::NoKernel { requested: path.display().to_string(), why })
        }
        KernelRequest::Path(path) => {
            Kernel::from_file(path.display().to_string(), path.clone(), None)
        }
        KernelRequest::Host => {
            let release = rustix::system::uname().release().to_string_lossy().into_owned();
            find_on_host(&release, |found| found == release)
                .ok_or_else(|| no_kernel_error("host", &release))?
        }
        KernelRequest::Version(version) => {
            match find_on_host(version, |found| is_release_of(found, version)) {
                Some(kernel) => kernel,
                None => match cache.find_newest(|release| is_release_of(release, version))? {
                    Some(kept) => Ok(Kernel::from_kept(kept)),
                    None => Err(no_kernel_error(version, version)),
                },
            }
        }
    }
}

/// Whether a path could be meant as a suite with an unknown flavour, such as `trixie/big`; the
/// error message then mentions both meanings.
fn is_like_a_flavour(path: &Path) -> bool {
    let parts = path.to_str().and_then(|text| text.split_once('/'));
    parts.is_some_and(|(suite, flavour)| is_suite(suite) && is_suite(flavour))
}

fn no_kernel_error(requested: &str, release: &str) -> Error {
    let why = format!(
        "no such file in /boot or /lib/modules, and {release} is not in the cache (lab cache list)"
    );
    Error::NoKernel { requested: requested.to_owned(), why }
}

/// Whether a release belongs to a version: `6.1` matches `6.1.0-50-cloud-amd64` but not `6.12.1`.
fn is_release_of(release: &str, version: &str) -> bool {
    release.strip_prefix(version).is_some_and(|rest| {
        rest.is_empty() || !rest.starts_with(|next: char| next.is_ascii_digit())
    })
}

/// Finds the newest matching kernel of this host: `/boot/vmlinuz-RELEASE`, or
/// `/lib/modules/RELEASE/vmlinuz`.
fn find_on_host(name: &str, matches: impl Fn(&str) -> bool) -> Option<Result<Kernel, Error>> {
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
        let suite = |text: &str| Ok(KernelRequest::Suite(text.parse().unwrap()));
        assert_eq!("sid".parse(), suite("sid"));
        assert_eq!("sid/generic".parse(), suite("sid/generic"));
        assert_eq!("host".parse(), Ok(KernelRequest::Host));
        assert_eq!("6.12".parse(), Ok(KernelRequest::Version("6.12".to_owned())));
        assert_eq!("./vmlinuz".parse(), Ok(KernelRequest::Path("./vmlinuz".into())));
        for path in [
            "./sid/generic",
            "/boot/vmlinuz",
            "sid/generic/",
            "sid/big",
            "../generic",
            "6.1/generic",
        ] {
            assert_eq!(path.parse(), Ok(KernelRequest::Path(path.into())));
        }
        for bad in ["", "-o", "Trixie", "a b", "sid;id", "é", "systemd"] {
            assert!(bad.parse::<KernelRequest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_request_is_printed_as_it_is_typed() {
        for typed in ["host", "trixie", "trixie/generic", "6.12", "./trixie/generic", "a/b"] {
            assert_eq!(typed.parse::<KernelRequest>().unwrap().to_string(), typed);
        }
    }

    #[test]
    fn a_path_that_is_none_may_be_a_flavour_that_is_none() {
        for path in ["trixie/big", "build/vmlinux", "trixie/cloud"] {
            assert!(is_like_a_flavour(Path::new(path)), "{path}");
        }
        for path in ["./trixie/big", "/boot/vmlinuz", "trixie/", "vmlinuz", "arch/x86/boot/bzImage"]
        {
            assert!(!is_like_a_flavour(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn a_version_ends_where_its_number_ends() {
        assert!(is_release_of("6.1.0-50-cloud-amd64", "6.1"));
        assert!(is_release_of("6.1", "6.1"));
        assert!(!is_release_of("6.12.107", "6.1"));
    }
}
