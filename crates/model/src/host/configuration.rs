// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the configuration files of a host say about memory, which may differ from what the kernel
//! does now.

use crate::{Mechanism, Name, PersistentSetting, Reading};

/// Configuration files that concern memory. They say what the administrator wants; the values in
/// force now are in [`crate::Snapshot::knobs`]. [`crate::ownership`] compares the two.
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    /// Settings in configuration files, including lines that no program reads. The settings of one
    /// mechanism are in the order in which it applies them, so that the last setting of a target
    /// takes effect.
    pub settings: Vec<PersistentSetting>,
    /// The active profile of TuneD; `None` if TuneD is disabled or has no profile.
    pub tuned: Option<Tuned>,
    /// Installed programs and units that set up compressed swap or kill processes when memory is
    /// short; they are detected by their files.
    pub managers: Vec<Manager>,
    /// A line because of which zram-generator rejects its whole configuration, so that it sets up
    /// no device. `None` if there is no such line, or if zram-generator is not installed.
    pub refused: Option<RefusedLine>,
    /// Number of sysctl files on the host; 0 if there are none or if they could not be listed.
    pub sysctl_files: usize,
    /// The disk that the kernel resumes from after hibernation, as in `/sys/power/resume`; `0:0`
    /// means none.
    pub resume_device: Reading<Name>,
}

/// The active profile of TuneD, with the profiles that it includes.
#[derive(Debug, Clone)]
pub struct Tuned {
    /// Name of the profile. TuneD merges several profiles; then these are their names.
    pub profile: Reading<Name>,
    /// Whether TuneD applies `/etc/sysctl.conf` and the files in `/etc/sysctl.d` and
    /// `/run/sysctl.d` again after its profile, so that their settings override the profile's
    /// (`reapply_sysctl`).
    pub reapplies_sysctl: bool,
}

/// A line of a configuration file because of which its program rejects the whole configuration.
#[derive(Debug, Clone)]
pub struct RefusedLine {
    /// The text of the line, with the file and line number.
    pub line: Reading<Name>,
    /// What is wrong with the line for the program.
    pub why: &'static str,
    /// A replacement for the line with which the program accepts the file; `None` if none is known.
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
    /// The settings of one mechanism, in the order in which the mechanism applies them.
    pub fn by(&self, mechanism: Mechanism) -> impl DoubleEndedIterator<Item = &PersistentSetting> {
        self.settings.iter().filter(move |setting| setting.mechanism == mechanism)
    }
}
