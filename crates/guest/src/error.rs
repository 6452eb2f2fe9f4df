// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What keeps a guest from being started.

use std::io;
use std::path::{Path, PathBuf};

use pagewise_model::{Advice, Bytes};
use pagewise_observe::{FolderError, UserFileError};

/// Why no guest was started. A failure after the start is an [`Outcome`](crate::qemu::Outcome), not
/// an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder, of the cache or named by the user, cannot be read or written.
    #[error("{}", path.display())]
    At {
        /// Path of the file or folder.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// A file that the user named cannot be used.
    #[error(transparent)]
    Input(#[from] UserFileError),
    /// A program that is needed to start a guest is not installed.
    #[error("{program} is not installed (looked through PATH)")]
    Missing {
        /// Name of the missing program.
        program: String,
        /// The Debian package that contains it.
        package: &'static str,
    },
    /// A program ended with an error.
    #[error("{program}: {message}")]
    Failed {
        /// Name of the program that failed.
        program: String,
        /// The end of the program's error output.
        message: String,
    },
    /// `--kernel` names nothing that is installed, cached or can be fetched.
    #[error("no kernel {requested}: {why}")]
    NoKernel {
        /// The value of `--kernel` as typed.
        requested: String,
        /// What was searched, and why it did not match.
        why: String,
    },
    /// `--userland` names nothing that is cached or can be made.
    #[error("no userland {requested}: {why}")]
    NoUserland {
        /// The value of `--userland` as typed.
        requested: String,
        /// What was searched, and why it did not match.
        why: String,
    },
    /// `--package` names a package that the userland does not offer.
    #[error("no package {name} that can be left on the root disk: expected {expected}")]
    NoPackage {
        /// The value of `--package` as typed.
        name: String,
        /// The packages that the userland offers.
        expected: String,
    },
    /// The guest is to reboot, but its userland has no root disk.
    #[error("the minimal userland has no root disk, so nothing in it outlives a reboot")]
    NoRootDisk,
    /// A guest that reboots was given a disk that does not keep what is written to it.
    #[error(
        "{}: what the guest writes to this disk would be discarded at the end of each boot",
        path.display()
    )]
    Forgetful {
        /// Path of the image.
        path: PathBuf,
    },
    /// The contents of a file are not as expected.
    #[error("{}: {what}", path.display())]
    Unusable {
        /// Path of the file.
        path: PathBuf,
        /// What was expected and what was found.
        what: String,
    },
    /// Another user could put files into the cache folder, or into a folder above it.
    #[error("{} cannot hold the cache, from which programs are run: {why}", path.display())]
    Unsafe {
        /// The cache's folder, or one above it.
        path: PathBuf,
        /// Who owns the folder, or who may write to it.
        why: String,
        /// The environment variable that named the cache folder.
        named_by: Option<&'static str>,
    },
    /// The guest's memory is too small for the kernel and the initramfs.
    #[error("{given} of memory, but kernel and initramfs alone take {needed}")]
    TooLittle {
        /// The value of `--memory` as given.
        given: Bytes,
        /// Size of kernel and initramfs when unpacked.
        needed: Bytes,
    },
    /// The user stopped the program before the guest ran.
    #[error("stopped before a guest ran")]
    Stopped,
}

impl Error {
    /// Adds to the error the environment variable that named the folder.
    pub(crate) fn with_variable(self, variable: &'static str) -> Self {
        match self {
            Self::Unsafe { path, why, .. } => Self::Unsafe { path, why, named_by: Some(variable) },
            other => other,
        }
    }
}

impl Advice for Error {
    fn next(&self) -> Option<String> {
        match self {
            Self::Input(error) => error.next(),
            Self::Missing { package, .. } => Some(format!("apt-get install {package}")),
            Self::NoKernel { .. } => Some(
                "try --kernel bookworm, trixie, sid, one of these with /generic, host, or the path of a \
                 vmlinuz"
                    .to_owned(),
            ),
            Self::Unsafe { path, named_by, .. } => Some(advise_other_folder(path, *named_by)),
            Self::NoRootDisk => Some("add --userland systemd".to_owned()),
            Self::Forgetful { path } => Some(format!(
                "write {0},rw to keep what the guest writes, or {0},ro",
                path.display()
            )),
            Self::TooLittle { .. } => Some("give more with --memory".to_owned()),
            Self::At { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space, or let PAGEWISE_CACHE name a folder elsewhere".to_owned())
            }
            Self::Failed { program, .. } if program.starts_with("apt") => Some(
                "check that the suite exists and that the network is reachable; \
                 `pagewise lab cache list` lists what was fetched before"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

impl From<FolderError> for Error {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::At { path, source } => Self::At { path, source },
            FolderError::Untrusted { path, why } => Self::Unsafe { path, why, named_by: None },
        }
    }
}

/// Advice for the user about a folder that others can change.
fn advise_other_folder(path: &Path, named_by: Option<&str>) -> String {
    let named = named_by.map_or(String::new(), |name| format!(" ({name} led to this one)"));
    format!(
        "let PAGEWISE_CACHE name a folder below one of your own{named}; or, if nobody else has put anything \
         there, `chown` it to yourself or `chmod go-w {}`",
        path.display()
    )
}

/// Adds a path to an input/output error.
pub trait ErrorContext<T> {
    /// Wraps the error with this path.
    ///
    /// # Errors
    /// The original error, as [`Error::At`].
    fn with_path(self, path: &Path) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> ErrorContext<T> for Result<T, E> {
    fn with_path(self, path: &Path) -> Result<T, Error> {
        self.map_err(|error| Error::At { path: path.to_owned(), source: error.into() })
    }
}
