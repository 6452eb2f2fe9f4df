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
    /// What tuned sets; `None` where it is not switched on or has no profile.
    pub tuned: Option<Tuned>,
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

/// The active profile of tuned, with those that it includes.
#[derive(Debug, Clone)]
pub struct Tuned {
    /// Its name; several names are profiles that are merged.
    pub profile: Reading<Name>,
    /// Settings of the knob table, in the order in which they are applied: of several for one knob the
    /// last wins.
    pub settings: Vec<PersistentSetting>,
    /// Whether tuned applies `/etc/sysctl.conf` and the files in `/etc/sysctl.d` and `/run/sysctl.d` again
    /// after its profile, so that those win (`reapply_sysctl`).
    pub reapplies_sysctl: bool,
}

impl Tuned {
    /// The assignment of this knob that wins.
    pub fn last(&self, knob: &str) -> Option<&PersistentSetting> {
        self.settings.iter().rev().find(|setting| setting.knob == knob)
    }
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

impl PersistentSetting {
    /// Whether tuned applies the file of this setting again after its profile.
    pub fn is_reapplied(&self) -> bool {
        let path = self.value.source.path();
        path == "/etc/sysctl.conf" || ["/etc/", "/run/"].iter().any(|it| path.starts_with(it))
    }
}

impl Configuration {
    /// The assignment of this knob that is in force after the host has started: tuned comes after
    /// sysctl's files, and then perhaps some of those again.
    pub fn wanted(&self, knob: &str) -> Option<&PersistentSetting> {
        let of_file = self.last(knob);
        let Some(tuned) = &self.tuned else { return of_file };
        let wins = of_file.filter(|file| tuned.reapplies_sysctl && file.is_reapplied());
        wins.or_else(|| tuned.last(knob)).or(of_file)
    }

    /// The assignment of this knob that wins.
    pub fn last(&self, knob: &str) -> Option<&PersistentSetting> {
        self.sysctl.iter().rev().find(|setting| setting.knob == knob)
    }
}
