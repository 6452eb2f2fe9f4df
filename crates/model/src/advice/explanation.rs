// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A subject of memory management, explained with values that were read on one host.

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
    /// Parts of the explanation, in reading order.
    pub sections: Vec<Section>,
    /// Commands that show more about the subject on this host, or that prove a claim of the text.
    pub next: Vec<NextCommand>,
}

/// A part of an explanation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Section {
    /// A paragraph of text.
    Text {
        /// Sentences of the paragraph.
        text: String,
    },
    /// A list of values of this host.
    Values {
        /// Title of the list of values.
        title: String,
        /// Values in the list, one per line.
        values: Vec<NamedValue>,
    },
    /// Sizes of this host, drawn as bars on one scale.
    Bars {
        /// Title of the bar chart.
        title: String,
        /// The amount that a bar of full length stands for; if missing, the largest amount in the
        /// chart.
        #[serde(skip_serializing_if = "Option::is_none")]
        whole: Option<u64>,
        /// Bars of the chart, one per line.
        bars: Vec<Bar>,
    },
    /// A common but wrong claim about the subject, and the facts.
    Correction {
        /// The wrong claim about the subject, as people state it.
        claim: &'static str,
        /// What is true instead of the claim.
        fact: String,
    },
}

/// A value of this host, with the kernel's name for that value.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NamedValue {
    /// The kernel's name for the value.
    pub name: String,
    /// The value as text with its unit, or why the value could not be read.
    pub reading: Reading<Name>,
}

impl NamedValue {
    /// Creates a named value from a Reading, which is converted to text.
    pub fn new<T: Quantity + Clone>(name: impl Into<String>, reading: &Reading<T>) -> Self {
        let reading = reading.clone().map(|value| Name::from(value.shown().as_str()));
        Self { name: name.into(), reading }
    }
}

/// One bar of a chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bar {
    /// Label of the bar.
    pub name: String,
    /// The amount that the bar stands for, as text with its unit.
    pub shown: String,
    /// Length of the bar, in a unit that all bars of the chart share.
    pub amount: u64,
}

impl Bar {
    /// Creates a bar with a label, the text to print beside it, and its length.
    pub fn new(name: impl Into<String>, shown: impl Into<String>, amount: u64) -> Self {
        Self { name: name.into(), shown: shown.into(), amount }
    }
}

/// A command that shows more about a subject, and what it shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NextCommand {
    /// The command, ready to paste into a shell.
    pub command: String,
    /// What the command shows.
    pub shows: &'static str,
}
