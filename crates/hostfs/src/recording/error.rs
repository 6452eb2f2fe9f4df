// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a recording cannot be used at all.

use pagewise_model::Advice;
use std::path::PathBuf;

/// Why a recording cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The recording cannot be opened.
    #[error("{}", path.display())]
    Io {
        /// The path of the recording.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The path is that of neither a file nor a folder.
    #[error("{}: expected a folder or a .tar.zst file, found {found}", path.display())]
    WrongKind {
        /// The path of the recording.
        path: PathBuf,
        /// What the path is instead, such as a device.
        found: &'static str,
    },
    /// A folder that does not contain files of a host.
    #[error("{}: expected host.toml or a folder proc in it, found neither", path.display())]
    NoHost {
        /// The path of the folder.
        path: PathBuf,
    },
    /// An archive that does not contain files of a host.
    #[error(
        "{label}: expected a recording (.tar.zst with host.toml in it) or an archive with proc, found {found}"
    )]
    NoRecording {
        /// Name of the archive in messages.
        label: String,
        /// What the archive is instead.
        found: String,
    },
}

impl Advice for OpenError {
    fn next(&self) -> Option<String> {
        let next = match self {
            Self::Io { .. } => "check the path and your right to read it",
            Self::WrongKind { .. } => {
                "give a file made by `pagewise capture`, or a folder that holds proc and sys"
            }
            Self::NoHost { .. } => {
                "give a file made by `pagewise capture`, or a folder that holds proc and sys; \
                 for logs without these: pagewise oom FOLDER"
            }
            Self::NoRecording { .. } => {
                "give a file made by `pagewise capture`; where it is one, copy it again"
            }
        };
        Some(next.to_owned())
    }
}
