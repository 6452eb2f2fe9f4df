// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints what Pagewise knows of a host's memory in the text format of OpenMetrics.
//!
//! A [`Scrape`] (readings, verdict, findings, limits) becomes text; nothing is read or judged here.
//! [`METRICS`] is the one table of all metrics, from which documentation, alerts and dashboards are
//! made too. A value that the host lacks, or that may not be read, has no series: it is never 0.
//!
//! All names begin with `pagewise_`, so that none is a name of node_exporter. The number of series
//! is bounded: [`MOST_SERIES`] for the host, and [`GROUP_SERIES`] for each cgroup that the user chose.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod dashboard;
mod encode;
mod metric;
mod rule;
mod table;

pub use dashboard::{DASHBOARDS, Dashboard};
pub use encode::{classic, openmetrics};
pub use metric::{GROUP_SERIES, Kind, MOST_SERIES, Metric, Plans, Scrape, Series, Unit};
pub use rule::{Does, MOST_RULES, RULES, Rule, rules_file};
pub use table::METRICS;
