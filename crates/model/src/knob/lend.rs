// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The contract for borrowing: which parts of a host an experiment or a benchmark may change for
//! some time.
//!
//! Code that measures does not change a setting itself. It calls a [`Lender`], which makes the
//! change (a *loan*) and undoes it later. The implementation in `pagewise-apply` records each loan
//! in a journal before it makes the change, and undoes all loans even after a failure; tests have
//! implementations of their own. A loan that is not returned with [`Lender::return_loan`] is undone
//! when the lender is dropped or finished.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Bytes, Compressor, Refusal};

/// The number of a loan, unique within its lender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoanId(pub u64);

/// Describes a zram device to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZramSpec {
    /// Uncompressed capacity of the device (disksize).
    pub disksize: Bytes,
    /// Compression algorithm of the device; `None` leaves the choice to the kernel.
    pub compressor: Option<Compressor>,
    /// Path of a file with a compression dictionary for the algorithm.
    pub dictionary: Option<PathBuf>,
    /// Limit on the RAM that the device uses.
    pub mem_limit: Option<Bytes>,
    /// Where the device writes idle pages, and how often; `None` keeps all pages in RAM.
    pub writeback: Option<ZramWriteback>,
}

impl ZramSpec {
    /// Creates a description of a zram device of this size, with the kernel's defaults.
    #[must_use]
    pub fn new(disksize: Bytes) -> Self {
        Self { disksize, compressor: None, dictionary: None, mem_limit: None, writeback: None }
    }
}

/// A block device to which a zram device writes idle pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZramWriteback {
    /// Path of the block device, such as /dev/vda. Its contents are lost.
    pub device: String,
    /// Seconds between writebacks: each writes the pages that were not used since the previous one.
    pub every_seconds: u64,
}

/// Prints the writeback as `writing idle pages to /dev/vda every 5 s`.
impl fmt::Display for ZramWriteback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "writing idle pages to {} every {} s", self.device, self.every_seconds)
    }
}

/// A zram device that a lender created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZramDevice {
    /// Number of the loan, with which the device is returned.
    pub loan: LoanId,
    /// Number of the device: the N of `zramN`.
    pub number: u32,
    /// Path of the device: `/dev/zramN`.
    pub device: PathBuf,
    /// Folder of the device's settings: `/sys/block/zramN`.
    pub sysfs: PathBuf,
}

/// A temporary configuration of zswap, which applies to the whole host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZswapSpec {
    /// The kernel's name of the compressor.
    pub algorithm: String,
    /// Size limit of the pool, in percent of RAM; if missing, the host's setting
    /// is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pool_percent: Option<u8>,
    /// A full pool accepts pages again once it is below this percentage of its limit; if missing,
    /// the host's setting is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_threshold_percent: Option<u8>,
    /// Whether the shrinker writes cold pages of the pool back to swap.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shrinker: bool,
}

impl ZswapSpec {
    /// Creates a configuration of zswap with this compressor, without the shrinker, and with the
    /// host's own limits.
    #[must_use]
    pub fn new(algorithm: impl Into<String>) -> Self {
        let algorithm = algorithm.into();
        Self { algorithm, max_pool_percent: None, accept_threshold_percent: None, shrinker: false }
    }
}

/// Prints the configuration as `zswap lz4 in at most 20 % of RAM, with shrinker`.
impl fmt::Display for ZswapSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zswap {}", self.algorithm)?;
        if let Some(percent) = self.max_pool_percent {
            write!(f, " in at most {percent} % of RAM")?;
        }
        if let Some(percent) = self.accept_threshold_percent {
            write!(f, ", accepting below {percent} % of that")?;
        }
        f.write_str(if self.shrinker { ", with shrinker" } else { "" })
    }
}

/// Describes a swap area to enable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapSpec {
    /// The device or file of the swap area.
    pub area: SwapArea,
    /// Priority of the swap area; `None` leaves the choice to the kernel.
    pub priority: Option<i16>,
}

/// The device or file of a swap area. A new swap header is written to either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwapArea {
    /// A zram device or file that this lender created.
    Lent(PathBuf),
    /// A block device of the machine; its contents are lost. Lenders of an ordinary host refuse it.
    Device(PathBuf),
}

impl SwapArea {
    /// The path of the device or file.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Lent(path) | Self::Device(path) => path,
        }
    }
}

/// Prints the request as `swap on /dev/zram1`.
impl fmt::Display for SwapSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "swap on {}", self.area.path().display())
    }
}

/// A file for swap that a lender created; it has no holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapFile {
    /// Number of the loan, with which the file is returned.
    pub loan: LoanId,
    /// Path of the file.
    pub path: PathBuf,
}

/// Describes a memory cgroup to create. A limit that is `None` is left at the kernel's default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupSpec {
    /// The limit on memory (`memory.max`, `memory.limit_in_bytes`).
    pub max: Option<Bytes>,
    /// The limit above which the group is throttled and reclaimed (`memory.high`); cgroup version 2
    /// only.
    pub high: Option<Bytes>,
    /// The limit on swap (`memory.swap.max`; with version 1, `memory.memsw.limit_in_bytes` is set
    /// to this plus `max`, which is required then).
    pub swap_max: Option<Bytes>,
    /// The limit on the group's compressed pages in zswap's pool (`memory.zswap.max`); cgroup
    /// version 2 only.
    pub zswap_max: Option<Bytes>,
    /// Whether zswap may write the group's pages back to disk (`memory.zswap.writeback`); cgroup
    /// version 2 only.
    pub zswap_writeback: Option<bool>,
    /// The group's own swappiness (`memory.swappiness`). Cgroup version 2 has no such file: there
    /// the value is ignored, and `vm.swappiness` applies.
    pub swappiness: Option<u32>,
}

/// A memory cgroup that a lender created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryGroup {
    /// Number of the loan. Processes that are still in the group are killed before it is removed.
    pub loan: LoanId,
    /// Folder of the cgroup. A process joins the group by writing its pid to `cgroup.procs` there.
    pub folder: PathBuf,
    /// Whether the group is a cgroup of version 2.
    pub unified: bool,
}

/// A setting of the [table](crate::knob::KNOBS) and the value to write to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnobSetting {
    /// Name of the setting in the table, such as `vm.page-cluster`.
    pub name: String,
    /// The instance, if the setting exists several times: `2048kB`, or the number of a zram device.
    pub instance: Option<String>,
    /// The value to write, as the kernel spells it.
    pub value: String,
}

impl KnobSetting {
    /// Creates a setting that exists once, with the value to write.
    #[must_use]
    pub fn new(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.to_owned(), instance: None, value: value.into() }
    }

    /// Creates one instance of a setting that exists several times, with the value to write.
    #[must_use]
    pub fn of_instance(name: &str, instance: &str, value: impl Into<String>) -> Self {
        Self { instance: Some(instance.to_owned()), ..Self::new(name, value) }
    }
}

/// Prints the setting as `vm.swappiness = 60`, or `zram.mem_limit = 0 of 3` for an instance.
impl fmt::Display for KnobSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, self.value)?;
        self.instance.as_ref().map_or(Ok(()), |instance| write!(f, " of {instance}"))
    }
}

/// Changes parts of a host for some time and restores them. The default implementation of each
/// method refuses.
pub trait Lender {
    /// Creates a zram device.
    ///
    /// # Errors
    /// If the host has no zram, if the kernel refuses the algorithm or the size, or if this lender
    /// does not allow the writeback device to be used.
    fn lend_zram(&mut self, _spec: &ZramSpec) -> Result<ZramDevice, Refusal> {
        Err(refuse_lending("a zram device"))
    }

    /// Writes a swap header and enables the swap area.
    ///
    /// # Errors
    /// If the kernel refuses, if other swap of the host is in use, or if this lender does not allow
    /// the area to be used.
    fn lend_swap(&mut self, spec: &SwapSpec) -> Result<LoanId, Refusal> {
        Err(refuse_lending(&spec.to_string()))
    }

    /// Enables zswap and returns the loans that this needed, in order. Borrow the swap area behind
    /// zswap after this call, so that the area is returned first: disabling the area empties
    /// zswap's pool.
    ///
    /// # Errors
    /// If the kernel has no zswap, no such compressor or no shrinker, or other swap of the host is
    /// in use. In this case nothing is lent.
    fn lend_zswap(&mut self, spec: &ZswapSpec) -> Result<Vec<LoanId>, Refusal> {
        Err(refuse_lending(&spec.to_string()))
    }

    /// The folder in which to create swap files; `None` leaves the choice to the borrower.
    fn swap_folder(&self) -> Option<PathBuf> {
        None
    }

    /// Creates a file without holes for swap.
    ///
    /// # Errors
    /// If there is not enough space, or the file system does not support swap files.
    fn lend_swap_file(&mut self, _folder: &Path, _size: Bytes) -> Result<SwapFile, Refusal> {
        Err(refuse_lending("a swap file"))
    }

    /// Creates a memory cgroup.
    ///
    /// # Errors
    /// If there is no memory controller, or the kernel refuses a limit.
    fn lend_group(&mut self, _spec: &GroupSpec) -> Result<MemoryGroup, Refusal> {
        Err(refuse_lending("a memory cgroup"))
    }

    /// Sets a kernel setting.
    ///
    /// # Errors
    /// If the host does not have the setting or refuses the value, or if the old value could not be
    /// restored later.
    fn lend_knob(&mut self, setting: &KnobSetting) -> Result<LoanId, Refusal> {
        Err(refuse_lending(&setting.to_string()))
    }

    /// Undoes one loan before the lender is finished.
    ///
    /// # Errors
    /// If the thing that was lent is in use, if somebody else has changed it since, or if a zram
    /// device could not write its idle pages to the backing device.
    fn return_loan(&mut self, loan: LoanId) -> Result<(), Refusal>;
}

fn refuse_lending(what: &str) -> Refusal {
    Refusal::new(what, "it is not lent here")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct RefusingLender;

    impl Lender for RefusingLender {
        fn return_loan(&mut self, _: LoanId) -> Result<(), Refusal> {
            Ok(())
        }
    }

    #[test]
    fn what_a_lender_does_not_implement_is_refused_by_name() {
        let area = SwapArea::Device("/dev/vdb".into());
        let swap = RefusingLender.lend_swap(&SwapSpec { area, priority: None }).unwrap_err();
        assert_eq!(swap.to_string(), "swap on /dev/vdb: it is not lent here");
        let zram = KnobSetting::of_instance("zram.mem_limit", "3", "0");
        let knob = RefusingLender.lend_knob(&zram).unwrap_err();
        assert_eq!(knob.what, "zram.mem_limit = 0 of 3");
        assert!(RefusingLender.lend_zram(&ZramSpec::new(Bytes::new(4096))).is_err());
        assert!(RefusingLender.lend_group(&GroupSpec::default()).is_err());
        let zswap = ZswapSpec::new("lz4");
        assert_eq!(RefusingLender.lend_zswap(&zswap).unwrap_err().what, "zswap lz4");
        assert!(RefusingLender.lend_swap_file(Path::new("/tmp"), Bytes::new(4096)).is_err());
        assert_eq!(RefusingLender.swap_folder(), None);
    }
}
