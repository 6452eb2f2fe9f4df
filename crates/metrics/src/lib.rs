// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints what Pagewise knows about a host's memory as metrics, in the text format of OpenMetrics.
//!
//! A [`Scrape`] (readings, verdict, findings, limits) is converted to text; nothing is read or
//! judged here. The table [`METRICS`] contains all metrics; documentation, alerts and dashboards
//! are made from it as well. A value that the host lacks, or that may not be read, has no series:
//! it is never written as 0.
//!
//! All names begin with `pagewise_`, so that none conflicts with a name of node_exporter. The
//! number of series is limited to [`MOST_SERIES`] for the host plus [`GROUP_SERIES`] for each
//! cgroup that the user chose.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod dashboard;
mod encode;
mod metric;
mod rule;
mod table;

pub use dashboard::{DASHBOARDS, Dashboard};
pub use encode::{format_classic, format_openmetrics};
pub use metric::{GROUP_SERIES, Kind, MOST_SERIES, Metric, Plans, Scrape, Series, Unit};
pub use rule::{Does, MOST_RULES, RULES, Rule, format_rules_file};
pub use table::METRICS;
