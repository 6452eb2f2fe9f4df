// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a metric is, and what the metrics of a host are made of.

use std::borrow::Cow;

use pagewise_model::{Cost, Finding, HostVerdict, Interval, WorkingSet};

/// Largest number of series of a host, without those of cgroups.
pub const MOST_SERIES: usize = 45;
/// Number of series of each cgroup that was chosen.
pub const GROUP_SERIES: usize = 4;

/// Everything that the metrics of a host are made of.
#[derive(Debug)]
pub struct Scrape<'a> {
    /// The readings. Counters are of its end.
    pub interval: &'a Interval,
    /// How short of memory the host is.
    pub verdict: &'a HostVerdict,
    /// The findings, most severe first.
    pub findings: &'a [Finding],
    /// The cgroups that the user chose, with the limits that they need.
    pub groups: &'a [WorkingSet],
    /// Time since the youngest page of the oldest generation of multi-gen LRU was used, in seconds;
    /// `None` if it is not known.
    pub oldest_generation_seconds: Option<f64>,
    /// The plans that are applied; `None` if the journals were not read.
    pub plans: Option<Plans>,
    /// Processes that were killed for lack of memory by programs such as systemd-oomd, according to
    /// the logs; `None` if the logs were not read.
    pub program_kills: Option<u64>,
    /// What reading the host cost.
    pub cost: Cost,
}

/// The number of plans that are applied and how many of their settings differ now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plans {
    /// Plans that are in force.
    pub applied: u64,
    /// Settings of these plans that have another value now.
    pub drifted: u64,
}

/// Whether a value may fall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value that may rise and fall.
    Gauge,
    /// A value that only rises, until the host or Pagewise starts anew.
    Counter,
}

/// The unit that a metric's name ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// No unit: a number of things, or a level.
    None,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// A part of 1.
    Ratio,
    /// Pages of memory, of the size that the kernel uses.
    Pages,
}

impl Unit {
    /// The unit as names spell it; empty if there is none.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Bytes => "bytes",
            Self::Seconds => "seconds",
            Self::Ratio => "ratio",
            Self::Pages => "pages",
        }
    }
}

/// A row of the table of metrics.
pub struct Metric {
    /// The name without prefix, unit and `_total`.
    pub name: &'static str,
    /// Whether the value may fall.
    pub kind: Kind,
    /// The unit that the name ends with.
    pub unit: Unit,
    /// What the value is, for people.
    pub help: &'static str,
    /// Names of the labels, in the order of the values of [`Series::labels`].
    pub labels: &'static [&'static str],
    /// The series of a scrape; none if the host has no such value.
    pub read: fn(&Scrape<'_>) -> Vec<Series>,
}

impl std::fmt::Debug for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metric").field("name", &self.full_name()).finish_non_exhaustive()
    }
}

impl Metric {
    /// The name of a sample, such as `pagewise_swap_tier_used_bytes`.
    pub fn full_name(&self) -> String {
        let mut name = format!("{PREFIX}_{}", self.name);
        if self.unit != Unit::None {
            name.push('_');
            name.push_str(self.unit.word());
        }
        if self.kind == Kind::Counter {
            name.push_str("_total");
        }
        name
    }
}

pub(crate) const PREFIX: &str = "pagewise";

/// A value with the values of its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Values of the labels, in the order of [`Metric::labels`].
    pub labels: Vec<Cow<'static, str>>,
    /// The value, in the unit of the metric.
    pub value: f64,
}
