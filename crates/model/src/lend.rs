// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an experiment may borrow from the host it runs on.
//!
//! This crate changes no setting itself. It asks a [`Treatment`], which the program implements with
//! apply's loans: each is journalled before it is taken and given back whatever happens. What is
//! not given back with [`Treatment::give_back`] goes back when the treatment ends.

use std::path::{Path, PathBuf};

use crate::Bytes;

/// Names a loan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoanId(pub u64);

/// A zram device to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZramWanted {
    /// Its uncompressed capacity.
    pub disksize: Bytes,
    /// The kernel's name of the algorithm; the kernel's own choice where there is none.
    pub algorithm: Option<String>,
    /// The algorithm's level, where it has any.
    pub level: Option<i32>,
    /// The most memory it may use.
    pub mem_limit: Option<Bytes>,
}

/// A zram device of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zram {
    /// Gives it back.
    pub loan: LoanId,
    /// The N of `zramN`.
    pub number: u32,
    /// `/dev/zramN`.
    pub device: PathBuf,
    /// `/sys/block/zramN`.
    pub sysfs: PathBuf,
}

/// A file that is ready for `swap_on`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapFile {
    /// Gives it back.
    pub loan: LoanId,
    /// Where it is.
    pub path: PathBuf,
}

/// A memory cgroup to make.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupWanted {
    /// The most memory of its processes (`memory.limit_in_bytes`, `memory.max`).
    pub limit: Option<Bytes>,
    /// The most of them in swap (`memory.swap.max`; in version 1 the part of
    /// `memory.memsw.limit_in_bytes` beyond the limit on memory, which it needs).
    pub swap_max: Option<Bytes>,
    /// Its own swappiness, where the hierarchy has one per group (version 1).
    pub swappiness: Option<u32>,
}

/// A memory cgroup of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Gives it back; processes that are left in it are ended first.
    pub loan: LoanId,
    /// Its folder: a process joins by writing its pid to `cgroup.procs` there.
    pub folder: PathBuf,
    /// Whether it is of version 2.
    pub unified: bool,
}

/// Why something was not lent, in words for the user, the innermost cause last.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Refused {
    /// What was asked for.
    pub what: String,
    /// Why it was not lent.
    pub why: String,
    /// What would help, where that is known.
    pub next: Option<String>,
}

/// Lends parts of the host for a while.
pub trait Treatment {
    /// Makes a zram device.
    ///
    /// # Errors
    /// Where there is no zram, or the kernel refuses the algorithm or the size.
    fn zram(&mut self, wanted: &ZramWanted) -> Result<Zram, Refused>;

    /// Writes `mkswap`'s head on a device or file of ours and switches it on.
    ///
    /// # Errors
    /// Where the kernel refuses, or other swap of the host is in use.
    fn swap_on(&mut self, area: &Path, priority: Option<i16>) -> Result<LoanId, Refused>;

    /// Writes `mkswap`'s head on a block device that the machine has for it, and switches it on: what it
    /// held is lost. Who lends it must know that it is nobody's.
    ///
    /// # Errors
    /// Where such devices are not lent, as usual on a host, or the kernel refuses.
    fn swap_device(&mut self, device: &Path, _priority: Option<i16>) -> Result<LoanId, Refused> {
        Err(Refused {
            what: format!("swap on {}", device.display()),
            why: "devices that are not ours are not lent here".to_owned(),
            next: None,
        })
    }

    /// Where files for swap should be; none leaves the choice to the experiment.
    fn swap_folder(&self) -> Option<PathBuf> {
        None
    }

    /// Makes a file for swap, without holes.
    ///
    /// # Errors
    /// Where it does not fit or the file system cannot hold swap.
    fn swap_file(&mut self, folder: &Path, size: Bytes) -> Result<SwapFile, Refused>;

    /// Makes a memory cgroup.
    ///
    /// # Errors
    /// Where there is no memory controller or the kernel refuses the limit.
    fn group(&mut self, wanted: GroupWanted) -> Result<Group, Refused>;

    /// Sets a knob of the knob table, by its name there, as `vm.page-cluster`.
    ///
    /// # Errors
    /// Where the host lacks it or refuses the value.
    fn knob(&mut self, name: &str, value: &str) -> Result<LoanId, Refused>;

    /// The same for a knob of which there are several: `instance` is what stands in its path, as `2048kB`
    /// or the number of a zram device.
    ///
    /// # Errors
    /// As for [`Treatment::knob`].
    fn knob_of(&mut self, name: &str, instance: &str, _value: &str) -> Result<LoanId, Refused> {
        Err(Refused {
            what: format!("{name} of {instance}"),
            why: "settings of which there are several are not lent here".to_owned(),
            next: None,
        })
    }

    /// Gives one loan back before the others.
    ///
    /// # Errors
    /// Where it is not as it was lent, or in use.
    fn give_back(&mut self, loan: LoanId) -> Result<(), Refused>;
}
