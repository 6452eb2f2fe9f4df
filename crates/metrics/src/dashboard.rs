// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Grafana dashboards: one for a single machine, and one for many.
//!
//! In the expressions of a panel, `$NAME` is replaced by the full name of a metric in the table,
//! and `@` by the machines that the user selected. The title of a panel is written here; its
//! description is the help text of its first metric.

use serde_json::{Value, json};

use crate::rule::expand_names;
use crate::table::METRICS;

/// A Grafana dashboard.
#[derive(Debug, Clone, Copy)]
pub struct Dashboard {
    /// The name of the dashboard's file, without `.json`.
    pub file: &'static str,
    title: &'static str,
    /// Whether the user selects several machines and not only one.
    has_many: bool,
    panels: &'static [Panel],
}

/// A panel with time series; all its expressions have the same unit.
#[derive(Debug, Clone, Copy)]
struct Panel {
    title: &'static str,
    /// The unit, as Grafana names it.
    unit: &'static str,
    /// The expressions, each with the name of its line in the chart.
    lines: &'static [(&'static str, &'static str)],
}

const ONE: &[Panel] = &[
    Panel {
        title: "Verdict (1 calm, 2 tight, 3 short, 4 critical)",
        unit: "none",
        lines: &[("$verdict_level@", "verdict")],
    },
    Panel { title: "Findings", unit: "none", lines: &[("$finding@", "{{id}} ({{severity}})")] },
    Panel {
        title: "Time in which tasks waited for memory",
        unit: "percentunit",
        lines: &[("rate($pressure_memory_waiting@[5m])", "{{kind}}")],
    },
    Panel {
        title: "Killed processes",
        unit: "none",
        lines: &[
            ("increase($oom_kills@[10m])", "by the kernel, in 10 minutes"),
            ("$kills_in_log@", "in the logs: {{by}}"),
        ],
    },
    Panel {
        title: "Free memory above the low watermark",
        unit: "bytes",
        lines: &[("$zone_above_low@", "node {{node}} {{zone}}")],
    },
    Panel {
        title: "Swap areas",
        unit: "bytes",
        lines: &[
            ("$swap_tier_used@", "{{tier}} {{kind}} used"),
            ("$swap_tier_size@", "{{tier}} {{kind}} size"),
        ],
    },
    Panel {
        title: "zram",
        unit: "bytes",
        lines: &[
            ("$zram_original@", "original"),
            ("$zram_compressed@", "compressed"),
            ("$zram_used@", "used"),
            ("$zram_limit@", "limit"),
            ("$zram_written_back@", "written back"),
        ],
    },
    Panel {
        title: "zswap",
        unit: "bytes",
        lines: &[("$zswap_stored@", "stored"), ("$zswap_pool@", "pool")],
    },
    Panel {
        title: "Memory in use, if nothing were compressed",
        unit: "bytes",
        lines: &[("$memory_in_use_uncompressed@", "uncompressed")],
    },
    Panel {
        title: "Compression ratio",
        unit: "none",
        lines: &[("$memory_compression@", "original : used")],
    },
    Panel {
        title: "Scanned pages a second",
        unit: "none",
        lines: &[("rate($reclaim_scanned@[5m])", "{{by}}")],
    },
    Panel {
        title: "Refaults a second",
        unit: "none",
        lines: &[("rate($refaults@[5m])", "{{type}}")],
    },
    Panel {
        title: "CPU of kernel threads and of Pagewise",
        unit: "percentunit",
        lines: &[
            ("rate($kswapd_cpu@[5m])", "kswapd"),
            ("rate($khugepaged_cpu@[5m])", "khugepaged"),
            ("rate($own_cpu@[5m])", "pagewise"),
        ],
    },
    Panel {
        title: "Anonymous memory in huge pages",
        unit: "bytes",
        lines: &[("$thp_anon@", "{{size}} bytes")],
    },
    Panel {
        title: "Coverage by huge pages",
        unit: "percentunit",
        lines: &[("$thp_anon_coverage@", "anonymous memory")],
    },
    Panel {
        title: "Age of the oldest pages",
        unit: "s",
        lines: &[("$mglru_oldest_generation_age@", "oldest generation")],
    },
    Panel { title: "Gain of KSM", unit: "bytes", lines: &[("$ksm_profit@", "profit")] },
    Panel {
        title: "Plans of Pagewise",
        unit: "none",
        lines: &[
            ("$plans_applied@", "in force"),
            ("$plan_settings_drifted@", "settings that differ"),
        ],
    },
    Panel {
        title: "Loops of the agent: 0 not shown yet, 1 pays, 2 does not pay, 3 harms",
        unit: "none",
        lines: &[("$agent_loop_verdict@", "{{loop}}"), ("$agent_loop_on@", "{{loop}} is on")],
    },
    Panel {
        title: "Cgroups",
        unit: "bytes",
        lines: &[
            ("$group_memory_used@", "{{group}} used"),
            ("$group_memory_working_set@", "{{group}} working set"),
            ("$group_memory_takeable@", "{{group}} could be taken"),
            ("$group_memory_suggested_limit@", "{{group}} suggested limit"),
        ],
    },
    Panel {
        title: "Room of cgroups below their limits",
        unit: "bytes",
        lines: &[("$group_memory_headroom@", "{{group}}")],
    },
    Panel {
        title: "Pages in zram by kind",
        unit: "none",
        lines: &[
            ("$zram_same_filled@", "same filled"),
            ("$zram_incompressible@", "incompressible"),
        ],
    },
    Panel {
        title: "Pages that zswap wrote back, a second",
        unit: "none",
        lines: &[("rate($zswap_written_back@[5m])", "pages")],
    },
    Panel {
        title: "Memory of Pagewise itself",
        unit: "bytes",
        lines: &[("$own_memory_peak@", "peak")],
    },
];

const MANY: &[Panel] = &[
    Panel {
        title: "Machines that are short of memory, or worse",
        unit: "none",
        lines: &[("count($verdict_level@ >= 3) or vector(0)", "machines")],
    },
    Panel {
        title: "Verdict (1 calm, 2 tight, 3 short, 4 critical)",
        unit: "none",
        lines: &[("$verdict_level@", "{{instance}}")],
    },
    Panel {
        title: "Machines by finding",
        unit: "none",
        lines: &[("count by (id) ($finding@)", "{{id}}")],
    },
    Panel {
        title: "Time in which tasks waited for memory: the ten highest",
        unit: "percentunit",
        lines: &[("topk(10, rate($pressure_memory_waiting{kind=\"some\",@}[5m]))", "{{instance}}")],
    },
    Panel {
        title: "Processes that the kernel killed, in 10 minutes",
        unit: "none",
        lines: &[("increase($oom_kills@[10m]) > 0", "{{instance}}")],
    },
    Panel {
        title: "Swap in use: the ten highest",
        unit: "percentunit",
        lines: &[(
            "topk(10, sum by (instance) ($swap_tier_used@) / sum by (instance) ($swap_tier_size@ > 0))",
            "{{instance}}",
        )],
    },
    Panel {
        title: "Least free memory above a low watermark: the ten lowest",
        unit: "bytes",
        lines: &[("bottomk(10, min by (instance) ($zone_above_low@))", "{{instance}}")],
    },
    Panel {
        title: "Settings that differ from applied plans",
        unit: "none",
        lines: &[("$plan_settings_drifted@ > 0", "{{instance}}")],
    },
];

/// All dashboards.
pub const DASHBOARDS: &[Dashboard] = &[
    Dashboard {
        file: "pagewise-machine",
        title: "Pagewise: memory of one machine",
        has_many: false,
        panels: ONE,
    },
    Dashboard {
        file: "pagewise-machines",
        title: "Pagewise: memory of many machines",
        has_many: true,
        panels: MANY,
    },
];

/// Number of columns in the grid of a dashboard, which Grafana fixes.
const COLUMNS: usize = 24;
const WIDTH: usize = 12;
const HEIGHT: usize = 8;

impl Dashboard {
    /// Returns the queries of the dashboard's panels. `chosen` is the label matcher for the
    /// selected machines.
    fn queries(
        &self,
        chosen: &str,
    ) -> impl Iterator<Item = (&'static Panel, Vec<(String, &'static str)>)> {
        let fill = move |expression: &str| {
            let matchers = format!("{{{chosen}}}");
            expand_names(
                &expression.replace(",@}", &format!(",{chosen}}}")).replace('@', &matchers),
            )
        };
        self.panels.iter().map(move |panel| {
            (panel, panel.lines.iter().map(|(line, legend)| (fill(line), *legend)).collect())
        })
    }

    /// Returns each query of the dashboard, for all machines.
    pub fn all_queries(&self) -> Vec<String> {
        let queries = self.queries("instance=~\".+\"");
        queries.flat_map(|(_, lines)| lines.into_iter().map(|(query, _)| query)).collect()
    }

    /// Returns the dashboard as JSON that Grafana can import.
    pub fn document(&self) -> String {
        let chosen = "instance=~\"$instance\"";
        let source = json!({ "type": "prometheus", "uid": "${datasource}" });
        let panels = self.queries("instance=~\"INSTANCE\"").enumerate().map(|(at, (panel, lines))| {
            let targets = lines.into_iter().enumerate().map(|(line, (query, legend))| {
                json!({
                    "refId": char::from(b'A' + u8::try_from(line).unwrap_or(25)).to_string(),
                    "datasource": source,
                    "expr": query.replace("instance=~\"INSTANCE\"", chosen),
                    "legendFormat": legend,
                })
            });
            json!({
                "id": at + 1,
                "type": "timeseries",
                "title": panel.title,
                "description": describe(panel),
                "datasource": source,
                "gridPos": {
                    "x": at * WIDTH % COLUMNS, "y": at * WIDTH / COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT,
                },
                "fieldConfig": { "defaults": { "unit": panel.unit }, "overrides": [] },
                "targets": targets.collect::<Vec<Value>>(),
            })
        });
        let document = json!({
            "uid": self.file,
            "title": self.title,
            "tags": ["pagewise", "memory"],
            "editable": true,
            "schemaVersion": 39,
            "refresh": "1m",
            "time": { "from": "now-6h", "to": "now" },
            "templating": { "list": [
                { "name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source" },
                {
                    "name": "instance",
                    "type": "query",
                    "label": "Machine",
                    "datasource": source,
                    "query": expand_names("label_values($verdict_level, instance)"),
                    "refresh": 2,
                    "multi": self.has_many,
                    "includeAll": self.has_many,
                },
            ] },
            "panels": panels.collect::<Vec<Value>>(),
        });
        format!("{document:#}\n")
    }
}

/// Returns the help text of the first metric in a panel.
fn describe(panel: &Panel) -> &'static str {
    let named = METRICS.iter().filter(|metric| {
        panel
            .lines
            .first()
            .is_some_and(|(line, _)| expand_names(line).contains(&metric.full_name()))
    });
    // the name of one metric may be the beginning of another name
    named.max_by_key(|metric| metric.name.len()).map_or("", |metric| metric.help)
}
