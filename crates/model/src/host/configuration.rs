// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the configuration files of a host say about memory, which may differ from what the kernel
//! does now.

use crate::{Mechanism, Name, PersistentSetting, Reading};

/// Configuration files that concern memory. They state what the administrator wants; the values
/// that are in force are in [`crate::Snapshot::knobs`]. [`crate::ownership`] compares the two.
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    /// Settings in configuration files: for each mechanism in the order in which it applies them,
    /// so that the last one for a target wins. Lines that no program reads are included.
    pub settings: Vec<PersistentSetting>,
    /// The active profile of TuneD; `None` if TuneD is disabled or has no profile.
    pub tuned: Option<Tuned>,
    /// Programs and units that set up compressed swap or kill processes for lack of memory, known
    /// by their files.
    pub managers: Vec<Manager>,
    /// The line for which zram-generator refuses all its files, so that it sets up no device;
    /// `None` also if zram-generator is not installed.
    pub refused: Option<RefusedLine>,
    /// Number of sysctl files on the host; 0 also if they could not be listed.
    pub sysctl_files: usize,
    /// The disk that the kernel resumes from after hibernation, as in `/sys/power/resume`; `0:0`
    /// means none.
    pub resume_device: Reading<Name>,
}

/// The active profile of TuneD, with the profiles that it includes.
#[derive(Debug, Clone)]
pub struct Tuned {
    /// Name of the profile; several names mean profiles that are merged.
    pub profile: Reading<Name>,
    /// Whether TuneD applies `/etc/sysctl.conf` and the files in `/etc/sysctl.d` and
    /// `/run/sysctl.d` again after its profile, so that those win (`reapply_sysctl`).
    pub reapplies_sysctl: bool,
}

/// A line of a configuration file that makes its program refuse the whole configuration.
#[derive(Debug, Clone)]
pub struct RefusedLine {
    /// The line as it stands in the file, and its place.
    pub line: Reading<Name>,
    /// What the program does not accept.
    pub why: &'static str,
    /// A line to put in its place, with which the program accepts the file; `None` if none was
    /// found.
    pub mended: Option<Name>,
}

/// What a manager is for. Two managers with the same purpose interfere with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The manager sets up swap in compressed RAM.
    CompressedSwap,
    /// The manager sets up swap in a file.
    SwapFile,
    /// The manager kills processes before the kernel does.
    OomKiller,
    /// The manager sets `vm` settings when it starts.
    Settings,
}

/// A program that manages memory, detected by the file that enables the program.
#[derive(Debug, Clone)]
pub struct Manager {
    /// Name of the manager, such as `zram-generator`.
    pub name: &'static str,
    /// What the manager is for.
    pub purpose: Purpose,
    /// The setting that enables the manager, and the file that contains it.
    pub found: Reading<Name>,
}

impl Configuration {
    /// The settings of one mechanism, in the order in which it applies them.
    pub fn by(&self, mechanism: Mechanism) -> impl DoubleEndedIterator<Item = &PersistentSetting> {
        self.settings.iter().filter(move |setting| setting.mechanism == mechanism)
    }
}
