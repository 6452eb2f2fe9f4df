// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One line of a configuration file that sets something at boot ([`PersistentSetting`]): which
//! [`Mechanism`] reads it, which [`Target`] it sets, and whether it is applied ([`Effect`]).

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::{Name, Reading};

/// The mechanisms that read configuration files, in the order in which they act at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// systemd-modules-load, which reads the folders `modules-load.d`.
    ModulesLoad,
    /// modprobe, which reads the folders `modprobe.d`.
    Modprobe,
    /// The kernel's command line. modprobe passes parameters from it to modules after its own
    /// options.
    CommandLine,
    /// udev, which reads rules in the folders `rules.d`.
    Udev,
    /// systemd-sysctl, which reads the folders `sysctl.d`.
    Sysctl,
    /// systemd-tmpfiles, which reads the folders `tmpfiles.d`.
    Tmpfiles,
    /// zram-generator, which reads `zram-generator.conf`.
    ZramGenerator,
    /// zramswap.service of zram-tools, which reads `/etc/default/zramswap`.
    ZramTools,
    /// Another program that sets up swap, which reads a file of its own, such as rpi-swap.
    SwapManager,
    /// A line of `/etc/fstab`.
    Fstab,
    /// systemd, which reads a swap unit that enables a swap area.
    SwapUnit,
    /// systemd, which reads a property of a unit that limits the unit's memory.
    UnitProperty,
    /// TuneD, which applies its active profile.
    Tuned,
}

impl Mechanism {
    /// How reports name the mechanism, such as `sysctl.d` or `udev rule`.
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
            Self::SwapManager => "swap manager",
            Self::Fstab => "fstab",
            Self::SwapUnit => "swap unit",
            Self::UnitProperty => "systemd unit",
            Self::Tuned => "tuned profile",
        }
    }

    /// Whether the mechanism sets up zram devices, including their size.
    #[must_use]
    pub const fn makes_zram(self) -> bool {
        matches!(self, Self::Udev | Self::ZramGenerator | Self::ZramTools)
    }
}

/// The thing that a line of a configuration file sets. Printed, and in JSON, it is a string:
/// `vm.swappiness`, `thp.size.enabled[64kB]`, `zram0`, `swap /dev/zram0` or `psi`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A setting that is in the table of kernel settings.
    Knob {
        /// Name of the setting, such as `vm.swappiness`.
        knob: &'static str,
        /// Which instance of the setting is meant, if there are several; named as in
        /// [`crate::knob::KnobReading::instance`]. May be a pattern with `*`, or for a cgroup the
        /// name of its unit.
        instance: Option<Name>,
    },
    /// A zram device as a whole: the line that sets its size and puts swap or a file system on it.
    ZramDevice(Name),
    /// A swap area: the line that enables it and sets its priority.
    SwapArea(Name),
    /// A parameter of the kernel or of a module that has no row in the knob table, such as `psi` or
    /// `zram.num_devices`.
    Parameter(Name),
}

impl Target {
    /// The target for a setting that exists once.
    #[must_use]
    pub const fn of_knob(knob: &'static str) -> Self {
        Self::Knob { knob, instance: None }
    }

    /// The target for one instance of a setting that exists several times.
    #[must_use]
    pub fn instance_of(knob: &'static str, instance: &str) -> Self {
        Self::Knob { knob, instance: Some(Name::from(instance)) }
    }

    /// Name of the setting in the knob table; `None` if the target is not such a setting.
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
    /// The line is applied at boot; a line that is applied after it may override it.
    #[default]
    Applied,
    /// The line is not applied, because no program reads it; the text is the reason.
    Ignored(Cow<'static, str>),
    /// Whether the line is applied is not known, because Pagewise does not evaluate a part of it;
    /// the text is the reason.
    Unknown(Cow<'static, str>),
}

/// One line of a configuration file that sets something at boot.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PersistentSetting {
    /// The mechanism that reads the file.
    pub mechanism: Mechanism,
    /// The thing that the line sets.
    pub target: Target,
    /// The value that the line sets, with white space folded, and the file and line.
    pub value: Reading<Name>,
    /// Whether the line is applied at boot.
    pub effect: Effect,
}

impl PersistentSetting {
    /// Describes a line that is applied at boot.
    #[must_use]
    pub const fn applied(mechanism: Mechanism, target: Target, value: Reading<Name>) -> Self {
        Self { mechanism, target, value, effect: Effect::Applied }
    }

    /// The value that the line sets; empty if there is none.
    #[must_use]
    pub fn wanted(&self) -> &str {
        self.value.value().map_or("", Name::as_str)
    }

    /// Whether the line is applied at boot, as far as is known.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        self.effect == Effect::Applied && self.value.value().is_some()
    }

    /// Whether the file was written by the administrator, or by a program for this boot only. All
    /// other files belong to a package.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let path = self.value.source.path();
        ["/etc/", "/run/"].iter().any(|folder| path.starts_with(folder))
    }
}
