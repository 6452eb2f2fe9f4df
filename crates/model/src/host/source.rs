// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a value was read: a file, and a line of it.

use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::Name;
use crate::units::name::plain;

/// The file that a [`Reading`](crate::Reading) came from, and the line if the file has several.
///
/// Prints as `/proc/meminfo:3`, or `/proc/sys/vm/swappiness` for a file with one value. Like a
/// [`Name`], it is safe to print: any user can choose the name of a cgroup, and so part of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    path: Arc<str>,
    line: u32,
}

impl Source {
    /// Names a file as a whole. `path` is the absolute path on the host, even if the host was read
    /// through another root.
    pub fn file(path: impl Into<Arc<str>>) -> Self {
        Self::line(path, 0)
    }

    /// Names a line of a file, counted from 1.
    pub fn line(path: impl Into<Arc<str>>, line: u32) -> Self {
        let path = path.into();
        let path = match plain(path.as_bytes()) {
            Some(_) => path,
            None => Name::from(&*path).as_str().into(),
        };
        Self { path, line }
    }

    /// Names another line of the same file, counted from 1.
    pub fn at_line(&self, line: u32) -> Self {
        Self { path: self.path.clone(), line }
    }

    /// Names no source, for a value that was not requested.
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
