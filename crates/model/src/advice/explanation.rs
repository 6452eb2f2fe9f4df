// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A subject of memory management, explained with values of one host.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Name, Quantity, Reading};

/// The output of `pagewise explain SUBJECT`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Explanation {
    /// The name of the subject on the command line.
    pub subject: &'static str,
    /// What the subject is, in a few words.
    pub title: &'static str,
    /// Its parts, in reading order.
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
        /// Title of the list.
        title: String,
        /// The values, one per line.
        values: Vec<NamedValue>,
    },
    /// Sizes of this host, drawn as bars on one scale.
    Bars {
        /// Title of the chart.
        title: String,
        /// The amount that a bar of full length stands for; if missing, the largest amount.
        #[serde(skip_serializing_if = "Option::is_none")]
        whole: Option<u64>,
        /// The bars, one per line.
        bars: Vec<Bar>,
    },
    /// A common but wrong claim about the subject, and the facts.
    Correction {
        /// The claim.
        claim: &'static str,
        /// The facts.
        fact: String,
    },
}

/// A value of this host with its name.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NamedValue {
    /// The kernel's name for it.
    pub name: String,
    /// The value as text with its unit, or why it could not be read.
    pub reading: Reading<Name>,
}

impl NamedValue {
    /// The Reading as text under this name.
    pub fn new<T: Quantity + Clone>(name: impl Into<String>, reading: &Reading<T>) -> Self {
        let reading = reading.clone().map(|value| Name::from(value.shown().as_str()));
        Self { name: name.into(), reading }
    }
}

/// One bar of a chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bar {
    /// Its label.
    pub name: String,
    /// The amount with its unit.
    pub shown: String,
    /// Its length, in a unit that all bars of the chart share.
    pub amount: u64,
}

impl Bar {
    /// A bar with a label, the text to print beside it, and its length.
    pub fn new(name: impl Into<String>, shown: impl Into<String>, amount: u64) -> Self {
        Self { name: name.into(), shown: shown.into(), amount }
    }
}

/// A command and what it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NextCommand {
    /// The command, ready to paste into a shell.
    pub command: String,
    /// What it shows.
    pub shows: &'static str,
}
