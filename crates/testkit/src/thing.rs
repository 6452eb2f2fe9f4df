// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Describes a thing that a test, or the program that it runs, created on this machine. A thing can
//! be written as a line of text, and it can be determined whether it still exists.
//!
//! Other programs may create and remove zram devices, swap and cgroups while tests run. For this
//! reason, lists of all things on the machine are not compared. Each thing is checked by itself,
//! and a zram device also by its sequence number, because the kernel reuses device numbers.
//!
//! `xtask` compiles this file as well, and uses no crate of the project.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A thing that a test, or the program that it runs, created on this machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    /// A zram device, with its number and sequence number.
    Zram {
        /// Number of the device: the N of `zramN`.
        number: u32,
        /// The kernel's sequence number of the disk, which is never reused.
        diskseq: u64,
    },
    /// A swap area that was enabled.
    Swap {
        /// Path of the device or file that holds the swap area.
        area: String,
        /// The kernel's sequence number of the disk, if the area is on a zram device.
        diskseq: Option<u64>,
    },
    /// A cgroup or a swap file, by its path.
    Path(PathBuf),
    /// A loop device with its backing file.
    Loop {
        /// Path of the device, such as `/dev/loop0`.
        device: String,
        /// Path of the backing file.
        file: PathBuf,
    },
    /// A folder of journals. It counts as existing as long as one of its journals lists a loan.
    Journals(PathBuf),
}

impl Thing {
    /// Returns the zram device with this number; `None` if it does not exist.
    #[must_use]
    pub fn zram(number: u32) -> Option<Self> {
        Some(Self::Zram { number, diskseq: diskseq(&format!("zram{number}"))? })
    }

    /// Returns the swap area on this device or file.
    #[must_use]
    pub fn swap(area: &str) -> Self {
        let is_zram = |name: &&str| name.starts_with("zram");
        let diskseq = area.strip_prefix("/dev/").filter(is_zram).and_then(diskseq);
        Self::Swap { area: area.to_owned(), diskseq }
    }

    /// Whether the thing still exists.
    #[must_use]
    pub fn is_there(&self) -> bool {
        match self {
            Self::Zram { number, diskseq: own } => diskseq(&format!("zram{number}")) == Some(*own),
            Self::Swap { area, diskseq: own } => {
                let is_own = |own| area.strip_prefix("/dev/").and_then(diskseq) == Some(own);
                own.is_none_or(is_own) && is_swap(area)
            }
            Self::Path(path) => path.symlink_metadata().is_ok(),
            Self::Loop { device, file } => {
                let name = device.trim_start_matches("/dev/");
                let backing = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
                backing.is_ok_and(|text| Path::new(text.trim_end_matches('\n')) == file)
            }
            Self::Journals(folder) => {
                let is_journal =
                    |name: fs::DirEntry| name.file_name().to_string_lossy().ends_with(".journal");
                fs::read_dir(folder).into_iter().flatten().flatten().any(is_journal)
            }
        }
    }

    /// Returns a shell command that succeeds as long as a zram device, or something with a path,
    /// exists.
    #[must_use]
    pub fn is_there_in_shell(&self) -> String {
        match self {
            Self::Zram { number, diskseq } => {
                format!("grep -qsx {diskseq} /sys/block/zram{number}/diskseq")
            }
            Self::Path(path) => format!("test -e '{}'", path.display()),
            _ => "true".to_owned(),
        }
    }

    /// Parses a line that [`Display`](fmt::Display) printed.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let (kind, rest) = line.split_once(' ')?;
        Some(match kind {
            "zram" => {
                let (number, diskseq) = rest.split_once(' ')?;
                Self::Zram { number: number.parse().ok()?, diskseq: diskseq.parse().ok()? }
            }
            "swap" => {
                let (diskseq, area) = rest.split_once(' ')?;
                Self::Swap { area: area.to_owned(), diskseq: diskseq.parse().ok() }
            }
            "path" => Self::Path(rest.into()),
            "loop" => {
                let (device, file) = rest.split_once(' ')?;
                Self::Loop { device: device.to_owned(), file: file.into() }
            }
            "journals" => Self::Journals(rest.into()),
            _ => return None,
        })
    }
}

/// Prints a thing as a line such as `zram 1 17`, `swap - /swapfile`, `path /sys/fs/cgroup/x`, `loop
/// /dev/loop0 /image` or `journals /state`.
impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zram { number, diskseq } => write!(f, "zram {number} {diskseq}"),
            Self::Swap { area, diskseq: Some(diskseq) } => write!(f, "swap {diskseq} {area}"),
            Self::Swap { area, diskseq: None } => write!(f, "swap - {area}"),
            Self::Path(path) => write!(f, "path {}", path.display()),
            Self::Loop { device, file } => write!(f, "loop {device} {}", file.display()),
            Self::Journals(folder) => write!(f, "journals {}", folder.display()),
        }
    }
}

/// Returns the kernel's sequence number of the disk with this name; `None` if it does not exist.
fn diskseq(name: &str) -> Option<u64> {
    fs::read_to_string(format!("/sys/block/{name}/diskseq")).ok()?.trim().parse().ok()
}

fn is_swap(area: &str) -> bool {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    // the kernel prints a space in a name as \040
    let area = area.replace(' ', "\\040");
    swaps.lines().any(|line| line.split_whitespace().next() == Some(area.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_all_of_it() {
        let file = PathBuf::from("/a folder/file");
        for thing in [
            Thing::Zram { number: 3, diskseq: 17 },
            Thing::Swap { area: "/dev/zram3".to_owned(), diskseq: Some(17) },
            Thing::Swap { area: "/a folder/swap".to_owned(), diskseq: None },
            Thing::Path(file.clone()),
            Thing::Loop { device: "/dev/loop0".to_owned(), file: file.clone() },
            Thing::Journals(file),
        ] {
            assert_eq!(Thing::parse(&thing.to_string()), Some(thing));
        }
        for other in ["", "zram", "zram x 1", "disk 1 2"] {
            assert_eq!(Thing::parse(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_not_there_is_told_from_what_is() {
        let folder = tempfile::tempdir().unwrap();
        let (path, state) = (folder.path().join("x"), folder.path().to_owned());
        assert!(!Thing::Path(path.clone()).is_there() && !Thing::Journals(path.clone()).is_there());
        assert!(
            Thing::Path(state.clone()).is_there() && !Thing::Journals(state.clone()).is_there()
        );
        fs::write(state.join("1.journal"), "").unwrap();
        assert!(Thing::Journals(state).is_there());
        // no device has ever had the sequence number 0
        assert!(!Thing::Zram { number: 0, diskseq: 0 }.is_there());
        assert!(!Thing::Swap { area: path.display().to_string(), diskseq: None }.is_there());
        assert!(!Thing::Loop { device: "/dev/loop0".to_owned(), file: path }.is_there());
    }
}
