// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What keeps a guest from being started.

use std::io;
use std::path::{Path, PathBuf};

use pagewise_model::{Advice, Bytes};
use pagewise_observe::{FolderError, UserFileError};

/// Why there is no guest. What a started guest comes to is an outcome, not an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder of ours or the user's.
    #[error("{}", path.display())]
    At {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that the user named.
    #[error(transparent)]
    Input(#[from] UserFileError),
    /// A program that we start is not installed.
    #[error("{program} is not installed (looked through PATH)")]
    Missing {
        /// Its name.
        program: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A program that we started could not do it.
    #[error("{program}: {message}")]
    Failed {
        /// Its name.
        program: String,
        /// The end of what it said.
        message: String,
    },
    /// `--kernel` names nothing that is here or can be fetched.
    #[error("no kernel {requested}: {why}")]
    NoKernel {
        /// As typed.
        requested: String,
        /// What was looked for.
        why: String,
    },
    /// `--userland` names nothing that is here or can be made.
    #[error("no userland {requested}: {why}")]
    NoUserland {
        /// As typed.
        requested: String,
        /// What was looked for.
        why: String,
    },
    /// `--package` names none that the userland has.
    #[error("no package {name} that can be left on the root disk: expected {expected}")]
    NoPackage {
        /// As typed.
        name: String,
        /// Those that there are.
        expected: String,
    },
    /// A guest that reboots needs a root disk of its own.
    #[error("the minimal userland has no root disk, so nothing in it outlives a reboot")]
    NoRootDisk,
    /// A guest that reboots has a disk that would forget.
    #[error(
        "{}: what the guest writes to this disk would be discarded at the end of each boot",
        path.display()
    )]
    Forgetful {
        /// The image.
        path: PathBuf,
    },
    /// A file is not what it should be.
    #[error("{}: {what}", path.display())]
    Unusable {
        /// Which.
        path: PathBuf,
        /// Expected and found.
        what: String,
    },
    /// A folder on the cache's path that somebody else could put things into.
    #[error("{} cannot hold the cache, from which programs are run: {why}", path.display())]
    Unsafe {
        /// The cache's folder, or one above it.
        path: PathBuf,
        /// Whose it is, or who may write there.
        why: String,
        /// The variable of the environment that led there.
        named_by: Option<&'static str>,
    },
    /// The kernel would not even fit.
    #[error("{given} of memory, but kernel and initramfs alone take {needed}")]
    TooLittle {
        /// `--memory`.
        given: Bytes,
        /// What the images take once unpacked.
        needed: Bytes,
    },
    /// The user stopped us before the guest ran.
    #[error("stopped before a guest ran")]
    Stopped,
}

impl Error {
    /// Says which variable named the folder.
    pub(crate) fn named_by(self, variable: &'static str) -> Self {
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
            Self::Unsafe { path, named_by, .. } => Some(other_folder(path, *named_by)),
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

/// What to do about a folder that others can change.
fn other_folder(path: &Path, named_by: Option<&str>) -> String {
    let named = named_by.map_or(String::new(), |name| format!(" ({name} led to this one)"));
    format!(
        "let PAGEWISE_CACHE name a folder below one of your own{named}; or, if nobody else has put anything \
         there, `chown` it to yourself or `chmod go-w {}`",
        path.display()
    )
}

/// Names the place where something went wrong.
pub trait ErrorContext<T> {
    /// The error with its path.
    ///
    /// # Errors
    /// The same, named.
    fn with_path(self, path: &Path) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> ErrorContext<T> for Result<T, E> {
    fn with_path(self, path: &Path) -> Result<T, Error> {
        self.map_err(|error| Error::At { path: path.to_owned(), source: error.into() })
    }
}
