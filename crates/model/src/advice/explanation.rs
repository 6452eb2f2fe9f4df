// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A subject of memory management, explained with the values of one host.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Name, Quantity, Reading};

/// What `pagewise explain SUBJECT` says.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Explanation {
    /// The name of the subject on the command line.
    pub subject: &'static str,
    /// What the subject is, in a few words.
    pub title: &'static str,
    /// The parts, in the order in which they are read.
    pub sections: Vec<Section>,
    /// Commands that show or prove more on this host.
    pub next: Vec<NextCommand>,
}

/// A part of an explanation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Section {
    /// A paragraph.
    Text {
        /// Its sentences.
        text: String,
    },
    /// Values of this host.
    Values {
        /// What they belong to.
        title: String,
        /// One in each line.
        values: Vec<NamedValue>,
    },
    /// Sizes of this host, to be drawn as bars of one scale.
    Bars {
        /// What they are sizes of.
        title: String,
        /// The amount of a bar of full length; without it, the largest one has it.
        #[serde(skip_serializing_if = "Option::is_none")]
        whole: Option<u64>,
        /// One in each line.
        bars: Vec<Bar>,
    },
    /// Something that is often read about the subject, and what is true instead.
    Correction {
        /// The common sentence.
        claim: &'static str,
        /// What is true.
        fact: String,
    },
}

/// A value of this host with its name.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NamedValue {
    /// As the kernel calls it.
    pub name: String,
    /// The value as text with its unit, or why there is none.
    pub reading: Reading<Name>,
}

impl NamedValue {
    /// A Reading under this name.
    pub fn new<T: Quantity + Clone>(name: impl Into<String>, reading: &Reading<T>) -> Self {
        let reading = reading.clone().map(|value| Name::from(value.shown().as_str()));
        Self { name: name.into(), reading }
    }
}

/// One bar of a picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bar {
    /// What it stands for.
    pub name: String,
    /// The amount with its unit.
    pub shown: String,
    /// The length, in a unit that all bars of the picture share.
    pub amount: u64,
}

impl Bar {
    /// A bar of an amount, which is shown as text.
    pub fn new(name: impl Into<String>, shown: impl Into<String>, amount: u64) -> Self {
        Self { name: name.into(), shown: shown.into(), amount }
    }
}

/// A command and what it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NextCommand {
    /// To be pasted into a shell.
    pub command: String,
    /// What it shows.
    pub shows: &'static str,
}
