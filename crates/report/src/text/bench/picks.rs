// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A line for each goal: the winner, its value, and whether the runner-up is significantly worse.

use pagewise_model::{Benchmark, Pick, RunnerUp};

use super::super::kit::{Page, Role};
use super::super::table::{Cell, Column, Table};
use super::format_time;

pub(super) fn print(page: &mut Page, benchmark: &Benchmark) {
    let picks = &benchmark.picks;
    let goals = [
        ("balanced", &picks.balanced),
        ("latency", &picks.latency),
        ("throughput", &picks.throughput),
        ("IOPS", &picks.iops),
        ("ratio", &picks.ratio),
    ];
    let [goal, algorithm, reaches] = ["best for", "algorithm", "reaches"].map(Column::left);
    let mut table = Table::new(2, vec![goal, algorithm, reaches, Column::words("next best")]);
    for (goal, pick) in goals {
        pick.iter().for_each(|pick| table.row(row(goal, pick)));
    }
    if !table.is_empty() {
        page.gap();
        table.print(page);
        let rule = "balanced: the least product of time to read 4 KiB, time to write it and memory used; \
                    1.00 × ideal would be best in all three, 1.03 costs 3 % more (the geometric mean \
                    of the three, each against its best)";
        page.prose(2, Role::Quiet, rule);
    }
    if let Some(chosen) = &benchmark.recommended {
        let text = format!(
            "Recommended for swap on this machine: a zram device of {} with {}, the best for the goal balanced \
             (or as good as the best). Full of memory like this it takes half of RAM, at {:.2} to 1.",
            chosen.disksize_bytes, chosen.contender, chosen.original_per_memory_used
        );
        page.prose(2, Role::Plain, &text);
    }
}

fn row(goal: &str, pick: &Pick) -> Vec<Cell> {
    let next = pick.runner_up.as_ref().map(|next| describe_runner_up(next, pick.unit.as_str()));
    vec![
        goal.into(),
        Cell::new(Role::Strong, pick.winner.to_string()),
        format_value(pick.value, pick.unit.as_str()).into(),
        next.unwrap_or_else(|| "there is no other".to_owned()).into(),
    ]
}

fn format_value(value: f64, unit: &str) -> String {
    match unit {
        "bytes_per_second" => format!("{:.0} MiB/s", value / f64::from(1 << 20)),
        "ns" => format!("{} a read", format_time(value)),
        "iops" => format!("{value:.0} reads/s"),
        "original_per_memory_used" => format!("{value:.2} to 1"),
        _ => format!("{value:.2} × ideal"),
    }
}

/// Describes the runner-up: `lzo-rle 5.01 µs a read, 1.47 times the cost (1.44 to 1.50)`.
fn describe_runner_up(next: &RunnerUp, unit: &str) -> String {
    let who = format!("{} {}", next.contender, format_value(next.value, unit));
    let between = next.interval.map(|[low, high]| format!(" ({low:.2} to {high:.2})"));
    let between = between.unwrap_or_default();
    if next.is_real {
        format!("{who}, {:.2} times the cost{between}", next.cost_per_winner)
    } else {
        format!("{who}: no difference shown{between}")
    }
}
