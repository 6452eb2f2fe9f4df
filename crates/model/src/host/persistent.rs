// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One line of a configuration file that sets something at boot ([`PersistentSetting`]): by which
//! [`Mechanism`], which [`Target`], and whether anything applies it ([`Effect`]).

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::{Name, Reading};

/// What reads a configuration file and applies it, in the order in which they act at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// systemd-modules-load, from `modules-load.d`.
    ModulesLoad,
    /// modprobe, from `modprobe.d`.
    Modprobe,
    /// The kernel's command line. modprobe passes it to modules after its own options.
    CommandLine,
    /// A rule of udev.
    Udev,
    /// systemd-sysctl, from `sysctl.d`.
    Sysctl,
    /// systemd-tmpfiles, from `tmpfiles.d`.
    Tmpfiles,
    /// zram-generator, from `zram-generator.conf`.
    ZramGenerator,
    /// zramswap.service of zram-tools, from `/etc/default/zramswap`.
    ZramTools,
    /// A line of `/etc/fstab`.
    Fstab,
    /// A unit of systemd for a swap area.
    SwapUnit,
    /// A property of a unit of systemd that limits its memory.
    UnitProperty,
    /// The active profile of TuneD.
    Tuned,
}

impl Mechanism {
    /// As people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ModulesLoad => "modules-load.d",
            Self::Modprobe => "modprobe.d",
            Self::CommandLine => "kernel command line",
            Self::Udev => "udev rule",
            Self::Sysctl => "sysctl.d",
            Self::Tmpfiles => "tmpfiles.d",
            Self::ZramGenerator => "zram-generator",
            Self::ZramTools => "zram-tools",
            Self::Fstab => "fstab",
            Self::SwapUnit => "swap unit",
            Self::UnitProperty => "systemd unit",
            Self::Tuned => "tuned profile",
        }
    }

    /// Whether it sets up zram devices: it gives them a size.
    #[must_use]
    pub const fn makes_zram(self) -> bool {
        matches!(self, Self::Udev | Self::ZramGenerator | Self::ZramTools)
    }
}

/// What a configuration file sets. Prints as a name: `vm.swappiness`, `thp.size.enabled[64kB]`, `zram0`,
/// `swap /dev/zram0` or `psi`, and is that string in JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A setting of the knob table.
    Knob {
        /// Its name, as `vm.swappiness`.
        knob: &'static str,
        /// Which one of several, as [`crate::knob::KnobReading::instance`] names it; may be a pattern
        /// (`*`) that stands for all that match. Of a cgroup, also the name of its unit.
        instance: Option<Name>,
    },
    /// A zram device as a whole: who gives it a size and puts swap or a file system on it.
    ZramDevice(Name),
    /// A swap area: who switches it on, and with which priority.
    SwapArea(Name),
    /// What has no row in the knob table, as `psi` or `zram.num_devices`.
    Parameter(Name),
}

impl Target {
    /// A setting that exists once.
    #[must_use]
    pub const fn of_knob(knob: &'static str) -> Self {
        Self::Knob { knob, instance: None }
    }

    /// One of several settings of the same name.
    #[must_use]
    pub fn instance_of(knob: &'static str, instance: &str) -> Self {
        Self::Knob { knob, instance: Some(Name::from(instance)) }
    }

    /// The name in the knob table.
    #[must_use]
    pub const fn knob(&self) -> Option<&'static str> {
        match self {
            Self::Knob { knob, .. } => Some(*knob),
            Self::ZramDevice(_) | Self::SwapArea(_) | Self::Parameter(_) => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Knob { knob, instance: None } => f.write_str(knob),
            Self::Knob { knob, instance: Some(instance) } => write!(f, "{knob}[{instance}]"),
            Self::ZramDevice(name) | Self::Parameter(name) => name.fmt(f),
            Self::SwapArea(path) => write!(f, "swap {path}"),
        }
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Target {
    fn schema_name() -> Cow<'static, str> {
        "Target".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What a configuration file sets: a setting of the knob table (vm.swappiness, thp.size.enabled[64kB]), a zram device (zram0), a swap area (swap /dev/zram0), or a parameter without a row in the table (psi).",
            "type": "string"
        })
    }
}

/// Whether a line is applied at boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "is", content = "why", rename_all = "kebab-case")]
pub enum Effect {
    /// It is; another line may be applied after it.
    #[default]
    Applied,
    /// Nothing reads it, and why.
    Ignored(Cow<'static, str>),
    /// It has a part that Pagewise does not evaluate, so that its effect is not known.
    Unknown(Cow<'static, str>),
}

/// One line of a configuration file that sets something at boot.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PersistentSetting {
    /// What applies it.
    pub mechanism: Mechanism,
    /// What it sets.
    pub target: Target,
    /// The value, white space folded, and the line that says so.
    pub value: Reading<Name>,
    /// Whether it is applied.
    pub effect: Effect,
}

impl PersistentSetting {
    /// A line that is applied.
    #[must_use]
    pub const fn applied(mechanism: Mechanism, target: Target, value: Reading<Name>) -> Self {
        Self { mechanism, target, value, effect: Effect::Applied }
    }

    /// The value; empty if there is none.
    #[must_use]
    pub fn wanted(&self) -> &str {
        self.value.value().map_or("", Name::as_str)
    }

    /// Whether it is applied at boot as far as is known.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        self.effect == Effect::Applied && self.value.value().is_some()
    }

    /// Whether the administrator wrote the file, or a program for this boot; a package did otherwise.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let path = self.value.source.path();
        ["/etc/", "/run/"].iter().any(|folder| path.starts_with(folder))
    }
}
