// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What keeps a guest from being started.

use std::io;
use std::path::{Path, PathBuf};

use pagewise_model::Bytes;
use pagewise_observe::UserFileError;

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
    #[error("{program}: {said}")]
    Failed {
        /// Its name.
        program: String,
        /// The end of what it said.
        said: String,
    },
    /// `--kernel` names nothing that is here or can be fetched.
    #[error("no kernel {wanted}: {why}")]
    NoKernel {
        /// As typed.
        wanted: String,
        /// What was looked for.
        why: String,
    },
    /// `--userland` names nothing that is here or can be made.
    #[error("no userland {wanted}: {why}")]
    NoUserland {
        /// As typed.
        wanted: String,
        /// What was looked for.
        why: String,
    },
    /// A file is not what it should be.
    #[error("{}: {what}", path.display())]
    Unusable {
        /// Which.
        path: PathBuf,
        /// Expected and found.
        what: String,
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
    /// What to do about it.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        match self {
            Self::Input(error) => Some(error.next().to_owned()),
            Self::Missing { package, .. } => Some(format!("apt-get install {package}")),
            Self::NoKernel { .. } => Some(
                "try --kernel bookworm, trixie, sid, host, or the path of a vmlinuz".to_owned(),
            ),
            Self::TooLittle { .. } => Some("give more with --memory".to_owned()),
            Self::At { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space, or let PAGEWISE_CACHE name a folder elsewhere".to_owned())
            }
            Self::Failed { program, .. } if program.starts_with("apt") => Some(
                "look whether that suite is there and the network is; what was fetched before \
                 is listed by `pagewise lab cache list`"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

/// Names the place where something went wrong.
pub(crate) trait At<T> {
    /// The error with its path.
    fn at(self, path: &Path) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, path: &Path) -> Result<T, Error> {
        self.map_err(|error| Error::At { path: path.to_owned(), source: error.into() })
    }
}
