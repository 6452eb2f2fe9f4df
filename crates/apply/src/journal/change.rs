// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A change of the machine as the journal records it ([`RecordedChange`]): what is needed to undo it.
//!
//! A change does not say for how long it is made: the run that makes it decides. A session of loans
//! undoes its changes when it ends; the changes of a plan stay until the plan is undone.

use pagewise_model::plan::ZramSwap;
use serde::{Deserialize, Serialize};

/// The unit that undoes a plan on trial at the next boot.
pub(crate) const TRIAL_UNIT: &str = "/etc/systemd/system/pagewise-unconfirmed.service";
/// The link that enables this unit.
pub(crate) const TRIAL_LINK: &str =
    "/etc/systemd/system/sysinit.target.wants/pagewise-unconfirmed.service";

/// A change of the machine with all that undoing it needs; written to disk before the change is
/// made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub(crate) enum RecordedChange {
    Module(LoadedModule),
    Zram(NewZram),
    SwapFile(NewSwapFile),
    SwapOn(EnabledSwap),
    Group(NewGroup),
    Controller(MemoryController),
    Setting(SettingChange),
    File(FileChange),
    Link(LinkChange),
    Folder(NewFolder),
    /// systemd reloaded its unit files.
    Units,
    /// systemd's timer that undoes a plan on trial.
    Timer,
    ZramSize(ZramSizeChange),
    Drained(DisabledSwap),
}

/// A kernel module that we loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoadedModule {
    pub(crate) name: String,
}

/// A zram device that we create; its number is known only afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewZram {
    /// Numbers of the zram devices that existed before.
    pub(crate) others: Vec<u32>,
    /// The largest disk sequence number (`diskseq`) that existed before.
    pub(crate) newest_diskseq: u64,
    /// When this record was written, in milliseconds of Unix time; missing in early versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) announced: Option<u64>,
}

/// A swap file that we create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewSwapFile {
    pub(crate) path: String,
    /// Inode number of the folder that contains the file: another number means that the file
    /// system is not mounted.
    pub(crate) folder_inode: u64,
}

/// A swap area that we enabled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EnabledSwap {
    pub(crate) area: String,
    /// Disk sequence number, which distinguishes a zram device from a later one with the same
    /// number.
    pub(crate) diskseq: Option<u64>,
    /// The settings of the zram device, if files of the plan create it again at each boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) zram: Option<ZramSwap>,
}

/// A memory cgroup that we create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewGroup {
    pub(crate) folder: String,
    /// The cgroup that our process was in before it joined the new one.
    pub(crate) home: Option<String>,
}

/// The memory controller that we enabled for the child groups of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemoryController {
    pub(crate) folder: String,
}

/// A setting that was changed, with the old value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SettingChange {
    /// Name of the setting in the knob table.
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) old: String,
    /// The value that we wrote, as the kernel prints it.
    pub(crate) ours: String,
    /// The write to a file that restores the old value.
    pub(crate) back: Write,
}

/// A configuration file that a plan wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileChange {
    pub(crate) path: String,
    /// The file that existed before; `None` if there was none.
    pub(crate) old: Option<FileText>,
    pub(crate) ours: String,
}

/// A symbolic link that a plan made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkChange {
    pub(crate) path: String,
    /// The target of the link that existed before; `None` if there was none.
    pub(crate) old: Option<String>,
    pub(crate) ours: String,
}

/// A folder for configuration files that a plan made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewFolder {
    pub(crate) path: String,
}

/// The size and algorithm that a plan gave to an existing zram device without a size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ZramSizeChange {
    pub(crate) device: Device,
    /// The compression algorithm of the device before.
    pub(crate) algorithm: String,
    /// The size that we gave the device, in bytes.
    pub(crate) disksize: u64,
}

/// A swap area that a plan disabled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DisabledSwap {
    pub(crate) area: String,
    pub(crate) priority: i32,
    /// The settings of the area's zram device, whose memory was released; `None` if the device was
    /// kept.
    pub(crate) zram: Option<ZramSetup>,
}

/// A configuration file: its text, and the attributes that replacing it by a new file would lose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileText {
    pub(crate) text: String,
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// The SELinux context of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
}

/// The settings of a zram device. The kernel does not report the level of an algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ZramSetup {
    pub(crate) number: u32,
    pub(crate) algorithm: String,
    pub(crate) disksize: u64,
    pub(crate) mem_limit: u64,
}

/// A value to write to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Write {
    pub(crate) path: String,
    pub(crate) value: String,
}

/// The identity of a block device by number and disk sequence number: device numbers are reused,
/// sequence numbers never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Device {
    pub(crate) number: u32,
    pub(crate) diskseq: u64,
}

/// The identity of a file or folder: the device of its file system, and its inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl RecordedChange {
    /// Whether this is the timer of a trial, or a file of the unit that does the same at boot.
    pub(crate) fn is_of_trial(&self) -> bool {
        match self {
            Self::Timer => true,
            Self::File(file) => file.path == TRIAL_UNIT,
            Self::Link(link) => link.path == TRIAL_LINK,
            _ => false,
        }
    }

    /// Whether the change has to be undone after a reboot, too: it is a file, or makes systemd
    /// read files again. Objects of the kernel do not survive a reboot.
    pub(crate) const fn outlives_boot(&self) -> bool {
        match self {
            Self::SwapFile(_) | Self::File(_) | Self::Link(_) | Self::Folder(_) | Self::Units => {
                true
            }
            Self::Module(_)
            | Self::Zram(_)
            | Self::SwapOn(_)
            | Self::Group(_)
            | Self::Controller(_)
            | Self::Setting(_)
            | Self::Timer
            | Self::ZramSize(_)
            | Self::Drained(_) => false,
        }
    }

    /// Describes the change in words, such as `swap on /dev/zram3`.
    pub(crate) fn describe(&self, made: Option<Device>) -> String {
        match self {
            Self::Module(module) => format!("module {}", module.name),
            Self::Zram(_) => match made {
                Some(device) => format!("zram device zram{}", device.number),
                None => "a zram device".to_owned(),
            },
            Self::SwapFile(file) => format!("swap file {}", file.path),
            Self::SwapOn(swap) => format!("swap on {}", swap.area),
            Self::File(file) => format!("file {}", file.path),
            Self::Link(link) => format!("link {} to {}", link.path, link.ours),
            Self::Folder(folder) => format!("folder {}", folder.path),
            Self::Timer => "timer of the trial".to_owned(),
            Self::Units => "units of systemd, read again".to_owned(),
            Self::ZramSize(change) => format!("size of zram{}", change.device.number),
            Self::Drained(swap) => format!("swap off {}", swap.area),
            Self::Group(group) => format!("memory cgroup {}", group.folder),
            Self::Controller(controller) => {
                format!("memory controller below {}", controller.folder)
            }
            Self::Setting(SettingChange { name, old, ours, .. }) => {
                format!("{name} = {ours} (was {old})")
            }
        }
    }
}
