// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of huge pages that belong together, as data: shown by `thp profiles`, and what a plan may propose.
//!
//! Names and values are those of the knob table; a test compares them with it.

use pagewise_model::ThpProfile;

/// Every profile.
pub static PROFILES: &[ThpProfile] = &[
    ThpProfile {
        name: "kernel",
        purpose: "what an untouched kernel does, but for enabled, which distributions choose",
        source: "the kernel's own defaults, as in the table of knobs",
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
        purpose: "one large operator's fleet of services with large heaps: programs opt in, and \
                  memory grows by about 10 %",
        source: "Baidu's published account of its clusters; its pacing of khugepaged is not in \
                 what we could read, so it is left out rather than guessed",
        knobs: &[("thp.enabled", "madvise"), ("thp.khugepaged.max_ptes_none", "511")],
    },
    ThpProfile {
        name: "guarded",
        purpose: "programs opt in, and huge pages that are mostly zeros are split again: \
                  max_ptes_none below 511 is what switches that guard on",
        source: "ours: with max_ptes_none 64 a limited group went from 263 to 34 MB, where 511 \
                 kept all of it",
        knobs: &[
            ("thp.enabled", "madvise"),
            ("thp.defrag", "defer+madvise"),
            ("thp.khugepaged.max_ptes_none", "64"),
            ("thp.shrink_underused", "1"),
        ],
    },
    ThpProfile {
        name: "collapse",
        purpose: "khugepaged rests, and thp collapse --watch makes huge pages within a budget: it \
                  waits for no processor at nice 19, and looks how full memory is before it fills it",
        source: "ours: khugepaged waited 16 of 30 s for a processor on a busy machine",
        knobs: &[
            ("thp.enabled", "madvise"),
            ("thp.khugepaged.max_ptes_none", "64"),
            ("thp.shrink_underused", "1"),
            ("thp.khugepaged.scan_sleep_millisecs", "60000"),
        ],
    },
];
