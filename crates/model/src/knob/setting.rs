// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of one kernel setting ([`Knob`]), and what it said ([`KnobReading`]).

use schemars::JsonSchema;
use serde::Serialize;

use super::agreement::is_on;
use crate::{Name, Reading};

/// One kernel setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Knob {
    /// Stable name, as `vm.swappiness` or `zram.disksize`.
    pub name: &'static str,
    /// Path below `/`, without it; may hold `{N}` (a number that the kernel gave: of a zram device,
    /// a kdamond, a scheme), `{size}` (a page size as the kernel's folder spells it, `64kB`),
    /// `{node}` (a NUMA node's number) or `{cgroup}` (a cgroup's path below its hierarchy).
    pub path: &'static str,
    /// What it takes.
    pub domain: Domain,
    /// How it is read.
    pub access: Access,
    /// The kernel's own default; `None` where it is computed or a build option.
    pub default: Option<&'static str>,
    /// How it may be made to last.
    pub persist: &'static [Persist],
    /// How a change is undone.
    pub undo: Undo,
    /// Settings that change with it or exclude it, by name: take all of them into one plan.
    pub couples: &'static [&'static str],
    /// One sentence: what it does.
    pub doc: &'static str,
}

/// What a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Domain {
    /// A whole number.
    Int {
        /// Smallest.
        min: i64,
        /// Largest.
        max: u64,
    },
    /// A set of bits, printed in hexadecimal with `0x`; `y` sets all, `n` none.
    Bits {
        /// All bits that mean something.
        all: u64,
    },
    /// 0 or 1, Y or N, true or false.
    Bool,
    /// Bytes, with or without a suffix.
    Size,
    /// Bytes or `max`.
    Limit,
    /// One of these words; most files print all of them with the active one in brackets.
    Word {
        /// All words.
        words: &'static [&'static str],
    },
    /// One of the words that the file itself lists, the active one in brackets: they differ from
    /// host to host.
    Listed,
    /// Several whole numbers.
    Ints,
    /// Free text in a syntax of its own.
    Text,
    /// Any write does something now and leaves no value behind.
    Trigger,
}

impl Domain {
    /// What it takes in words, as `0 to 200` or `always, madvise or never`.
    pub fn accepts(self) -> String {
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

/// Whether a setting can be read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Read and written.
    ReadWrite,
    /// Only read: it informs.
    ReadOnly,
    /// Only written: its value cannot be known, or what it prints is not its value.
    WriteOnly,
    /// Reading it does something. Only its presence may be asked.
    ReadActs,
}

/// How a setting may be made to last over a boot.
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
    /// An agent or timer: it is a one-shot, or loses its meaning at rest.
    Agent,
}

/// How a change of a setting is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum Undo {
    /// Write the old value back.
    WriteBack,
    /// It and another exclude each other, and the one that does not rule reads 0: write back
    /// whichever was not 0.
    WriteBackNonZero {
        /// The other's name.
        pair: &'static str,
    },
    /// It cannot be read, but another file reports it: write that back.
    WriteBackReported {
        /// Where the old value stands.
        by: &'static str,
    },
    /// Not at all.
    Never {
        /// Why.
        because: &'static str,
    },
}

/// A setting as one host has it: expanded path and live value.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct KnobReading {
    /// The row of the table; in JSON its name.
    #[serde(serialize_with = "name_only")]
    #[schemars(with = "String")]
    pub knob: &'static Knob,
    /// What stands for `{N}`, `{size}`, `{node}` or `{cgroup}`; `null` where the path has none.
    pub instance: Option<Name>,
    /// The live value as the file has it, white space folded; its place is the expanded path.
    pub live: Reading<Name>,
    /// The kernel's default, where it is known.
    pub default: Option<&'static str>,
}

impl KnobReading {
    /// The live value where it is one word: the word in brackets of a file that lists all.
    pub fn active(&self) -> Option<&str> {
        let live = self.live.value()?.as_str();
        let bracketed = || live.split_once('[')?.1.split_once(']').map(|(word, _)| word);
        match self.knob.domain {
            Domain::Word { .. } | Domain::Listed => bracketed().or(Some(live)),
            _ => Some(live),
        }
    }

    /// Whether it stands at the kernel's default; `None` where either is not known.
    pub fn is_default(&self) -> Option<bool> {
        let (active, default) = (self.active()?, self.default?);
        Some(match self.knob.domain {
            Domain::Bool => is_on(active)? == is_on(default)?,
            _ => active == default,
        })
    }
}

fn name_only<S: serde::Serializer>(knob: &&'static Knob, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(knob.name)
}
