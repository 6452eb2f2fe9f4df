// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets of huge page settings that should be set together, as data. `thp profiles` prints them, and
//! plans propose them.
//!
//! Names and values must be those of the table of settings; a test compares them.

use pagewise_model::ThpProfile;

/// Every profile of huge page settings.
pub static PROFILES: &[ThpProfile] = &[
    ThpProfile {
        name: "kernel",
        purpose: "the kernel's defaults, except for the setting enabled, which distributions choose",
        source: "the defaults in the kernel's source",
        knobs: &[
            ("thp.defrag", "madvise"),
            ("thp.khugepaged.pages_to_scan", "4096"),
            ("thp.khugepaged.scan_sleep_millisecs", "10000"),
            ("thp.khugepaged.alloc_sleep_millisecs", "60000"),
            ("thp.khugepaged.max_ptes_none", "511"),
        ],
    },
    ThpProfile {
        name: "operator",
        purpose: "settings of one large operator for services with large heaps: programs have to request huge \
                  pages, and memory use grows by about 10 %",
        source: "Baidu's publication about its clusters; it was not measured here, and a khugepaged at this pace \
                 takes more CPU time than at the kernel's",
        knobs: &[
            ("thp.enabled", "madvise"),
            ("thp.defrag", "never"),
            ("thp.khugepaged.pages_to_scan", "2048"),
            ("thp.khugepaged.scan_sleep_millisecs", "100"),
            ("thp.khugepaged.alloc_sleep_millisecs", "100"),
            ("thp.khugepaged.max_ptes_none", "511"),
        ],
    },
    ThpProfile {
        name: "guarded",
        purpose: "programs have to request huge pages, and the kernel splits huge pages that are mostly zeros, \
                  which it does only if max_ptes_none is below 511",
        source: "our measurement: with max_ptes_none at 64, a cgroup with a memory limit shrank from 263 to 34 \
                 MB; with 511, it did not shrink",
        knobs: &[
            ("thp.enabled", "madvise"),
            ("thp.defrag", "defer+madvise"),
            ("thp.khugepaged.max_ptes_none", "64"),
            ("thp.shrink_underused", "1"),
        ],
    },
    ThpProfile {
        name: "collapse",
        purpose: "khugepaged hardly runs, and thp collapse --watch creates the huge pages instead: it does not \
                  wait for a CPU at nice 19 as khugepaged does, and it limits how much memory grows",
        source: "our measurement: on a busy machine, khugepaged waited for a CPU 16 of 30 s",
        knobs: &[
            ("thp.enabled", "madvise"),
            ("thp.khugepaged.max_ptes_none", "64"),
            ("thp.shrink_underused", "1"),
            ("thp.khugepaged.scan_sleep_millisecs", "60000"),
        ],
    },
];
