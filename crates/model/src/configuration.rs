// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the configuration files of a host want of its memory, beside what the kernel does now.

use crate::{Name, Reading};

/// Configuration files that concern memory. They are the administrator's: a value here is a wish, and
/// what is in force stands in [`crate::Snapshot::knobs`].
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    /// Settings of the knob table in sysctl's files, in the order in which they are applied: of
    /// several for one knob the last wins.
    pub sysctl: Vec<PersistentSetting>,
    /// Lines of zram-generator's files.
    pub generator: Vec<GeneratorLine>,
    /// Programs and units that set up compressed swap or kill for memory, by their files.
    pub managers: Vec<Manager>,
    /// How many files of sysctl there are; 0 also where they could not be listed.
    pub sysctl_files: usize,
    /// The disk that hibernation resumes from, as `/sys/power/resume` has it: `0:0` is none.
    pub resume_device: Reading<Name>,
}

/// One assignment of a sysctl file.
#[derive(Debug, Clone)]
pub struct PersistentSetting {
    /// The knob's name, as `vm.swappiness`.
    pub knob: &'static str,
    /// What it is to be, white space folded, and the line that says so.
    pub value: Reading<Name>,
}

/// One line of zram-generator's configuration.
#[derive(Debug, Clone)]
pub struct GeneratorLine {
    /// The section, as `zram0`.
    pub device: Name,
    /// The value of `compression-algorithm`, the only key that is read.
    pub algorithms: Reading<Name>,
}

/// What a manager is for: two of one purpose fight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Makes swap in compressed RAM.
    CompressedSwap,
    /// Kills processes before the kernel does.
    OomKiller,
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
    /// The assignment of this knob that wins.
    pub fn last(&self, knob: &str) -> Option<&PersistentSetting> {
        self.sysctl.iter().rev().find(|setting| setting.knob == knob)
    }
}
