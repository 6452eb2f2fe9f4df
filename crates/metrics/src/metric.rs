// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The description of a metric, and the data from which metrics are made.

use std::borrow::Cow;

use pagewise_model::{AgentProof, Cost, Finding, HostVerdict, Interval, WorkingSet};

/// Maximum number of series for a host, without those of cgroups.
pub const MOST_SERIES: usize = 51;
/// Maximum number of series for each cgroup that the user chose.
pub const GROUP_SERIES: usize = 5;

/// The data from which the metrics of a host are made.
#[derive(Debug)]
pub struct Scrape<'a> {
    /// The readings of the host. Counters have their values at the end of the interval.
    pub interval: &'a Interval,
    /// How short of memory the host is.
    pub verdict: &'a HostVerdict,
    /// The findings, most severe first.
    pub findings: &'a [Finding],
    /// The cgroups that the user chose, with the limits that they need.
    pub groups: &'a [WorkingSet],
    /// Age of the oldest generation of multi-gen LRU: the time, in seconds, since its most recently
    /// used page was used. `None` if it is not known.
    pub oldest_generation_seconds: Option<f64>,
    /// The plans that are applied; `None` if the journals were not read.
    pub plans: Option<Plans>,
    /// The loops of the agent that are proved by switchback; none if no agent runs, or if its state was not
    /// read.
    pub proofs: &'a [AgentProof],
    /// Processes that were killed for lack of memory by programs such as systemd-oomd, according to
    /// the logs; `None` if the logs were not read.
    pub program_kills: Option<u64>,
    /// What reading the host cost.
    pub cost: Cost,
}

/// The number of plans that are applied, and how many of their settings were changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plans {
    /// Number of plans that are in force.
    pub applied: u64,
    /// Number of settings of these plans that have another value now.
    pub drifted: u64,
}

/// Whether the value of a metric may decrease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The value may increase and decrease.
    Gauge,
    /// The value only increases, until the host or Pagewise restarts.
    Counter,
}

/// The unit of a metric, with which its name ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// No unit: a number of things, or a level.
    None,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// A fraction from 0 to 1.
    Ratio,
    /// Pages of memory, of the size that the kernel uses.
    Pages,
}

impl Unit {
    /// The unit as it is spelled in names of metrics; empty if there is none.
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
    /// Whether the value may decrease.
    pub kind: Kind,
    /// The unit that the name ends with.
    pub unit: Unit,
    /// A sentence for users that says what the value is.
    pub help: &'static str,
    /// Names of the labels, in the order of the values of [`Series::labels`].
    pub labels: &'static [&'static str],
    /// Returns the series of this metric in a scrape; none if the host does not have the value.
    pub read: fn(&Scrape<'_>) -> Vec<Series>,
}

impl std::fmt::Debug for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metric").field("name", &self.full_name()).finish_non_exhaustive()
    }
}

impl Metric {
    /// Returns the full name of the metric, such as `pagewise_swap_tier_used_bytes`.
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

/// A value of a metric, with the values of its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Values of the labels, in the order of [`Metric::labels`].
    pub labels: Vec<Cow<'static, str>>,
    /// The value, in the unit of the metric.
    pub value: f64,
}
