// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab selftest`: how often this machine reports a difference between identical arms, and
//! which effects it can detect.

use pagewise_model::{SelfTest, SelfTestMetric};

use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, Table};
use super::words::plural;
use crate::phrases;

pub(super) fn print(page: &mut Page, found: &SelfTest) {
    let items = vec![
        plural(found.trials.into(), "trial"),
        format!("{} pairs each", found.pairs),
        phrases::format_rough(found.seconds),
    ];
    let start = Line::default().span(Role::Strong, "selftest: A against A, where nothing differs");
    page.hang_items(start, 2, &items);
    let (role, verdict) = match (found.trials, found.sound) {
        (0, _) => (Role::Warning, "No trial finished."),
        (_, true) => (Role::Good, "No more false alarms than chance: trials can be trusted here."),
        (_, false) => {
            (Role::Critical, "More false alarms than chance: trust counts here, not times.")
        }
    };
    page.prose(2, role, verdict);
    page.gap();
    print_metrics(page, &found.metrics);
    page.gap();
    let text = "A false alarm is due in 1 of 20 trials. What can be shown is for a command as short \
        as this one (some dozens of milliseconds); longer ones vary less.";
    page.prose(2, Role::Quiet, text);
    print_noise(page, found);
}

fn print_metrics(page: &mut Page, metrics: &[SelfTestMetric]) {
    let columns = vec![
        Column::left("metric"),
        Column::right("false alarms"),
        Column::right("runs vary by"),
        Column::right("7 pairs show"),
        Column::right("20 pairs show"),
    ];
    let mut table = Table::new(2, columns);
    for metric in metrics {
        let effect =
            |effect: Option<f64>| Cell::from(effect.map(phrases::effect).unwrap_or_default());
        table.row(vec![
            metric.name.clone().into(),
            metric.false_alarms.to_string().into(),
            effect(metric.run_spread),
            effect(metric.detectable_with_7),
            effect(metric.detectable_with_20),
        ]);
    }
    table.print(page);
}

fn print_noise(page: &mut Page, found: &SelfTest) {
    let mut output = Vec::new();
    let mut processors = |who: &str, count: Option<f64>| {
        output.extend(count.map(|count| format!("{who} {count:.2} processors")));
    };
    processors("others used", found.noise.others_processors);
    processors("the host of this virtual machine kept", found.noise.stolen_processors);
    if !output.is_empty() {
        page.prose(2, Role::Quiet, &format!("Meanwhile {}.", output.join(", ")));
    }
}
