// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of metrics that Pagewise's own workloads print, in addition to those that every run
//! has.

use pagewise_model::MetricKind;

use crate::standard_metrics::StandardMetric;

/// Metrics that workloads of Pagewise print, sorted by reliability.
pub const SAID: &[StandardMetric] = &[
    StandardMetric {
        name: "precision",
        unit: "share",
        kind: MetricKind::Count,
        higher_is_better: true,
        doc: "share of the evicted pages that were the least used ones, anonymous and file pages \
              ranked together",
    },
    StandardMetric {
        name: "cold-kept",
        unit: "pages",
        kind: MetricKind::Count,
        higher_is_better: false,
        doc: "pages of the streamed file that were read and are still in memory",
    },
    StandardMetric {
        name: "fault-share",
        unit: "share",
        kind: MetricKind::Count,
        higher_is_better: false,
        doc: "share of the accesses in the second half that had to read a page (major faults)",
    },
    StandardMetric {
        name: "cold-accesses",
        unit: "count",
        kind: MetricKind::Count,
        higher_is_better: false,
        doc: "accesses to the cold set",
    },
    StandardMetric {
        name: "operations",
        unit: "count",
        kind: MetricKind::Count,
        higher_is_better: true,
        doc: "operations that the run completed",
    },
    StandardMetric {
        name: "coverage",
        unit: "share",
        kind: MetricKind::Count,
        higher_is_better: true,
        doc: "share of the memory that is in huge pages at the end",
    },
    StandardMetric {
        name: "held",
        unit: "bytes",
        kind: MetricKind::Count,
        higher_is_better: false,
        doc: "memory of the workload that is in RAM at the end",
    },
    StandardMetric {
        name: "neighbour-huge",
        unit: "bytes",
        kind: MetricKind::Count,
        higher_is_better: false,
        doc: "memory in huge pages for which no huge pages were requested",
    },
    StandardMetric {
        name: "khugepaged-cpu",
        unit: "seconds",
        kind: MetricKind::Cpu,
        higher_is_better: false,
        doc: "CPU time of khugepaged during the run, for all processes",
    },
    time("start-up", "seconds", "until the memory was written for the first time"),
    time("time-to-coverage", "seconds", "from start-up until 90 % of the memory is in huge pages"),
    time("steady-iteration", "seconds", "one iteration in the steady state: the median"),
    time("settling", "seconds", "from the start to the steady state"),
    rate("operations-per-second", "operations in the steady state"),
    rate("set-per-second", "SET requests that redis answered"),
    rate("get-per-second", "GET requests that redis answered"),
    time("p50", "seconds", "latency of an operation: half of all are faster"),
    time("p99", "seconds", "latency of an operation: 99 of 100 are faster"),
    time("p99.9", "seconds", "latency of an operation: 999 of 1000 are faster"),
    time("set-p50", "seconds", "latency of a SET request: half of all are faster"),
    time("set-p99", "seconds", "latency of a SET request: 99 of 100 are faster"),
    time("get-p50", "seconds", "latency of a GET request: half of all are faster"),
    time("get-p99", "seconds", "latency of a GET request: 99 of 100 are faster"),
];

const fn time(name: &'static str, unit: &'static str, doc: &'static str) -> StandardMetric {
    StandardMetric { name, unit, kind: MetricKind::Time, higher_is_better: false, doc }
}

const fn rate(name: &'static str, doc: &'static str) -> StandardMetric {
    StandardMetric { name, unit: "per second", kind: MetricKind::Time, higher_is_better: true, doc }
}
