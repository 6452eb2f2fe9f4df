// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of metrics that Pagewise's own workloads print, besides those that every run has.

use pagewise_model::MetricKind;

use crate::standard_metrics::StandardMetric;

/// The values that workloads of ours say, in the order in which they are to be trusted.
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
        doc: "pages in memory that were read once and never will be again",
    },
    StandardMetric {
        name: "operations",
        unit: "count",
        kind: MetricKind::Count,
        higher_is_better: true,
        doc: "what was done until the end, or until its time was over",
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
        doc: "memory in RAM at the end, where what was written is as large in each arm",
    },
    StandardMetric {
        name: "neighbour-huge",
        unit: "bytes",
        kind: MetricKind::Count,
        higher_is_better: false,
        doc: "memory beside it that nobody wanted in huge pages, and that is",
    },
    StandardMetric {
        name: "khugepaged-cpu",
        unit: "seconds",
        kind: MetricKind::Cpu,
        higher_is_better: false,
        doc: "processor time of khugepaged meanwhile, for whomever it worked",
    },
    time("start-up", "seconds", "until all memory was touched for the first time"),
    time("time-to-coverage", "seconds", "from then until nine tenths are in huge pages"),
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
