// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The description of one kernel setting ([`Knob`]), and its value on a host ([`KnobReading`]).

use schemars::JsonSchema;
use serde::Serialize;

use super::agreement::is_on;
use crate::{Name, Reading};

/// The description of one kernel setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Knob {
    /// Stable name of the setting, such as `vm.swappiness` or `zram.disksize`.
    pub name: &'static str,
    /// Path of the setting's file without the leading `/`. It may contain `{N}` (a number assigned
    /// by the kernel: of a zram device, a kdamond, a scheme), `{size}` (a page size as in the
    /// kernel's folder names, `64kB`), `{node}` (the number of a NUMA node) or `{cgroup}` (the path
    /// of a cgroup below its hierarchy).
    pub path: &'static str,
    /// The values that the setting accepts.
    pub domain: Domain,
    /// Whether the setting can be read and written.
    pub access: Access,
    /// The kernel's own default value; `None` if it is computed or chosen at build time.
    pub default: Option<&'static str>,
    /// Ways to make the setting survive a reboot.
    pub persist: &'static [Persist],
    /// How a change of the setting is undone.
    pub undo: Undo,
    /// Names of settings that change when this one is changed, or that exclude it. A plan must
    /// consider all of them together.
    pub couples: &'static [&'static str],
    /// What the setting does, in one sentence.
    pub doc: &'static str,
}

/// The values that a setting accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Domain {
    /// A whole number between two limits.
    Int {
        /// Smallest value that is accepted.
        min: i64,
        /// Largest value that is accepted.
        max: u64,
    },
    /// A bit mask, printed in hexadecimal with `0x`; writing `y` sets all bits, `n` none.
    Bits {
        /// Mask of all bits that have a meaning.
        all: u64,
    },
    /// A switch: 0 or 1, Y or N, true or false.
    Bool,
    /// A size in bytes, with or without a unit suffix.
    Size,
    /// A size in bytes, or `max` for no limit.
    Limit,
    /// One of several fixed words; most files print all of them with the active one in brackets.
    Word {
        /// The words that are accepted.
        words: &'static [&'static str],
    },
    /// One of the words that the file itself lists, with the active one in brackets; the list
    /// differs between hosts.
    Listed,
    /// Several whole numbers in a row.
    Ints,
    /// Free text, in a syntax that this setting alone has.
    Text,
    /// Any write triggers an action and leaves no value behind.
    Trigger,
}

impl Domain {
    /// The accepted values in words, such as `0 to 200` or `always, madvise or never`.
    pub fn accepted_values(self) -> String {
        match self {
            Self::Int { min, max: u64::MAX } => format!("{min} or more"),
            Self::Int { min, max } => format!("{min} to {max}"),
            Self::Bits { all } => format!("bits of {all:#x} in hexadecimal, y or n"),
            Self::Bool => "0 or 1".to_owned(),
            Self::Size => "a size in bytes".to_owned(),
            Self::Limit => "a size in bytes, or max".to_owned(),
            Self::Word { words } => match words.split_last() {
                Some((last, [])) => (*last).to_owned(),
                Some((last, others)) => format!("{} or {last}", others.join(", ")),
                None => String::new(),
            },
            Self::Listed => "a word that its file lists".to_owned(),
            Self::Ints => "whole numbers with spaces between them".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Trigger => "nothing: a write acts at once and leaves no value".to_owned(),
        }
    }
}

/// Whether a setting can be read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// The setting can be read and written.
    ReadWrite,
    /// The setting can only be read, because it only reports something.
    ReadOnly,
    /// The setting can only be written: it cannot be read, or reading it does not return its value.
    WriteOnly,
    /// Reading the file triggers an action, so Pagewise only checks whether it exists.
    ReadActs,
}

/// How a setting is made to survive a reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each is the mechanism of that name")]
pub enum Persist {
    Sysctl,
    Tmpfiles,
    Udev,
    ZramGenerator,
    KernelCommandLine,
    Modprobe,
    Systemd,
    Fstab,
    /// By an agent or timer that writes the setting again, because the setting triggers a one-time
    /// action, or because it has no effect while a process such as kdamond does not run.
    Agent,
}

/// How a change of a setting is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum Undo {
    /// A change is undone by writing the old value.
    WriteBack,
    /// The setting is one of a pair that exclude each other, and the inactive one reads 0. A change
    /// is undone by writing the old value of the one that was not 0.
    WriteBackNonZero {
        /// Name of the other setting.
        pair: &'static str,
    },
    /// A change is undone by writing the value that another file reported before, because the
    /// setting itself cannot be read.
    WriteBackReported {
        /// The file that reports the old value.
        by: &'static str,
    },
    /// A change cannot be undone.
    Never {
        /// Why a change cannot be undone.
        because: &'static str,
    },
}

/// A setting on one host: the expanded path of its file and its current value.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct KnobReading {
    /// The row of the knob table; in JSON, the name of the setting.
    #[serde(serialize_with = "name_only")]
    #[schemars(with = "String")]
    pub knob: &'static Knob,
    /// What `{N}`, `{size}`, `{node}` or `{cgroup}` stands for; `null` if the path has no
    /// placeholder.
    pub instance: Option<Name>,
    /// The current contents of the setting's file, with white space folded; the source is the
    /// expanded path.
    pub live: Reading<Name>,
    /// The kernel's default value; `null` if it is not known.
    pub default: Option<&'static str>,
}

impl Knob {
    /// Whether the value changes without anybody setting it, as a peak value does: writing to it
    /// only restarts the recording.
    #[must_use]
    pub fn changes_by_itself(&self) -> bool {
        self.name.ends_with(".peak")
    }
}

impl KnobReading {
    /// The current value if it is one word; if the file lists all words, the active word in
    /// brackets.
    pub fn active_word(&self) -> Option<&str> {
        let live = self.live.value()?.as_str();
        let bracketed = || live.split_once('[')?.1.split_once(']').map(|(word, _)| word);
        match self.knob.domain {
            Domain::Word { .. } | Domain::Listed => bracketed().or(Some(live)),
            _ => Some(live),
        }
    }

    /// Whether the current value is the kernel's default; `None` if either is not known.
    pub fn is_default(&self) -> Option<bool> {
        let (active, default) = (self.active_word()?, self.default?);
        Some(match self.knob.domain {
            Domain::Bool => is_on(active)? == is_on(default)?,
            _ => active == default,
        })
    }
}

fn name_only<S: serde::Serializer>(knob: &&'static Knob, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(knob.name)
}
