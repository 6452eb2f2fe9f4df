// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is fetched: `trixie`, the kernel of a suite, or `systemd/trixie`, its userland.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// How an item says that it is a userland.
pub(crate) const SYSTEMD: &str = "systemd/";
/// What names the kernel that this machine runs, and so no suite.
pub(crate) const HOST: &str = "host";

/// Something that is fetched: a suite's kernel, written `trixie`, or its userland, written
/// `systemd/trixie`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// The kernel of a suite.
    Kernel(String),
    /// The userland of a suite.
    Userland(String),
}

impl FromStr for Item {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // It becomes the name of a folder and part of apt's sources.
        let suite = |text: &str| is_suite(text).then(|| text.to_owned());
        let found = match text.strip_prefix(SYSTEMD) {
            Some(name) => suite(name).map(Self::Userland),
            None => suite(text).map(Self::Kernel),
        };
        found.ok_or_else(|| {
            format!("expected the name of a suite, or {SYSTEMD} and a suite, found {text:?}")
        })
    }
}

impl fmt::Display for Item {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(suite) => out.write_str(suite),
            Self::Userland(suite) => write!(out, "{SYSTEMD}{suite}"),
        }
    }
}

impl Item {
    pub(crate) fn suite(&self) -> &str {
        match self {
            Self::Kernel(suite) | Self::Userland(suite) => suite,
        }
    }

    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Self::Kernel(_) => "kernel",
            Self::Userland(_) => "userland",
        }
    }

    /// One name for both shelves; no suite has such a letter.
    pub(crate) fn file_name(&self) -> String {
        self.to_string().replace('/', "+")
    }

    pub(crate) fn unusable(&self, why: String) -> Error {
        match self {
            Self::Kernel(suite) => Error::NoKernel { requested: suite.clone(), why },
            Self::Userland(_) => Error::NoUserland { requested: self.to_string(), why },
        }
    }
}

/// Whether it may be the name of a suite. It becomes the name of a folder and part of apt's sources.
pub(crate) fn is_suite(text: &str) -> bool {
    let is_in_word = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_in_word) && !text.starts_with('-') && text != HOST
}
