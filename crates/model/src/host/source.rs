// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The place where a value was read: a file, and a line of it.

use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::Name;
use crate::units::name::as_plain_ascii;

/// The file that a [`Reading`](crate::Reading) came from, and the line if the file has several.
///
/// `Display` prints `/proc/meminfo:3`, or `/proc/sys/vm/swappiness` for a file with a single value.
/// Printing is safe even though any user can choose the name of a cgroup, and so a part of a path:
/// control characters are replaced by visible escapes, as in a [`Name`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    path: Arc<str>,
    line: u32,
}

impl Source {
    /// Creates a source for a file as a whole. `path` is the absolute path on the host, even if the
    /// host was read through another root folder.
    pub fn file(path: impl Into<Arc<str>>) -> Self {
        Self::line(path, 0)
    }

    /// Creates a source for a line of a file, counted from 1.
    pub fn line(path: impl Into<Arc<str>>, line: u32) -> Self {
        let path = path.into();
        let path = match as_plain_ascii(path.as_bytes()) {
            Some(_) => path,
            None => Name::from(&*path).as_str().into(),
        };
        Self { path, line }
    }

    /// Creates a source for another line of the same file, counted from 1.
    pub fn at_line(&self, line: u32) -> Self {
        Self { path: self.path.clone(), line }
    }

    /// Creates the source of a value that was not requested: no file.
    pub fn none() -> Self {
        static NOWHERE: LazyLock<Source> = LazyLock::new(|| Source::file(""));
        NOWHERE.clone()
    }

    /// Absolute path of the file on the host; empty for [`Source::none`].
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Number of the line, counted from 1; `None` if the file as a whole is meant.
    pub fn line_number(&self) -> Option<u32> {
        (self.line > 0).then_some(self.line)
    }
}

impl Default for Source {
    fn default() -> Self {
        Self::none()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.path),
            line => write!(f, "{}:{line}", self.path),
        }
    }
}
