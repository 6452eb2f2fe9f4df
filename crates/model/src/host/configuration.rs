// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the configuration files of a host want of its memory, beside what the kernel does now.

use crate::{Mechanism, Name, PersistentSetting, Reading};

/// Configuration files that concern memory. They are the administrator's: a value here is a wish, and
/// what is in force stands in [`crate::Snapshot::knobs`]. [`crate::ownership`] compares the two.
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    /// What configuration files set: for each mechanism its lines in the order in which it applies them,
    /// so that of several for one target the last wins. Lines that nothing reads are here too.
    pub settings: Vec<PersistentSetting>,
    /// The profile of tuned; `None` where tuned is not switched on or has no profile.
    pub tuned: Option<Tuned>,
    /// Programs and units that set up compressed swap or kill for memory, by their files.
    pub managers: Vec<Manager>,
    /// How many files of sysctl there are; 0 also where they could not be listed.
    pub sysctl_files: usize,
    /// The disk that hibernation resumes from, as `/sys/power/resume` has it: `0:0` is none.
    pub resume_device: Reading<Name>,
}

/// The active profile of tuned, with those that it includes.
#[derive(Debug, Clone)]
pub struct Tuned {
    /// Its name; several names are profiles that are merged.
    pub profile: Reading<Name>,
    /// Whether tuned applies `/etc/sysctl.conf` and the files in `/etc/sysctl.d` and `/run/sysctl.d` again
    /// after its profile, so that those win (`reapply_sysctl`).
    pub reapplies_sysctl: bool,
}

/// What a manager is for: two of one purpose fight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Makes swap in compressed RAM.
    CompressedSwap,
    /// Kills processes before the kernel does.
    OomKiller,
    /// Sets `vm` settings when it starts.
    Settings,
}

/// A program that manages memory, known by a file that switches it on.
#[derive(Debug, Clone)]
pub struct Manager {
    /// As `zram-generator`.
    pub name: &'static str,
    /// What it is for.
    pub purpose: Purpose,
    /// What switches it on, and where.
    pub found: Reading<Name>,
}

impl Configuration {
    /// What one mechanism sets, in the order in which it applies it.
    pub fn by(&self, mechanism: Mechanism) -> impl DoubleEndedIterator<Item = &PersistentSetting> {
        self.settings.iter().filter(move |setting| setting.mechanism == mechanism)
    }
}
