// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise bench`: the best algorithm for each goal first, then the measurements.

mod blocks;
mod picks;
mod stores;
mod swap;

use pagewise_model::{BenchInput, BenchLayer, Benchmark, Noise, group_digits};

use super::kit::{Line, Page, Role};
use super::words::plural;
use crate::Benched;

pub(super) fn print(page: &mut Page, benched: &Benched<'_>) {
    let benchmark = benched.benchmark;
    print_heading(page, benched);
    picks::print(page, benchmark);
    blocks::print(page, benchmark);
    swap::print(page, benchmark);
    print_remarks(page, benchmark);
}

fn print_heading(page: &mut Page, benched: &Benched<'_>) {
    let (input, cost) = (&benched.benchmark.input, benched.cost);
    let layer = match benched.benchmark.layer {
        BenchLayer::Zram => "zram of this kernel",
        BenchLayer::Codecs => "libraries, not zram",
    };
    let left_out = match input.same_filled_left_out {
        0 => String::new(),
        some => format!(" ({} same-filled ones left out)", group_digits(some)),
    };
    let items = vec![
        input.measured_bytes.to_string(),
        format!("{}{left_out}", plural(input.pages, "page")),
        layer.to_owned(),
        format!("{:.0} s", cost.wall_seconds),
        format!("{:.0} s CPU", cost.cpu_seconds),
    ];
    let start = Line::default().span(Role::Strong, format!("bench of {}", input.name));
    page.hang_items(start, 2, &items);
    if benched.benchmark.stopped {
        page.prose(2, Role::Warning, "stopped early: what follows is of the rounds until then");
    }
}

/// Says how many same-filled pages were left out. Ratios apply to the pages that reach the
/// algorithm; with the same-filled pages included they are higher.
fn describe_left_out(input: &BenchInput) -> String {
    let (left_out, pages) = (input.same_filled_left_out, input.pages);
    let times = (left_out + pages) as f64 / pages.max(1) as f64;
    format!(
        "{} left out of times and ratios: zram stores their word in the slot table, and no algorithm ever \
         sees one. Of all {} together, original per memory used is {times:.2} times as high.",
        plural(left_out, "same-filled page"),
        plural(left_out + pages, "page"),
    )
}

/// Formats a time in nanoseconds in a suitable unit.
fn format_time(ns: f64) -> String {
    match ns {
        ..1_000.0 => format!("{ns:.0} ns"),
        ..100_000.0 => format!("{:.2} µs", ns / 1e3),
        ..1_000_000.0 => format!("{:.0} µs", ns / 1e3),
        _ => format!("{:.2} ms", ns / 1e6),
    }
}

fn print_remarks(page: &mut Page, benchmark: &Benchmark) {
    page.gap();
    print_noise(page, &benchmark.noise);
    if let Some(step) = coarse_resolution(&benchmark.noise) {
        let text = format!(
            "This machine's clock goes by steps of {}: only means over many requests say anything.",
            format_time(step)
        );
        page.prose(2, Role::Warning, &text);
    }
    if benchmark.input.same_filled_left_out > 0 {
        page.prose(2, Role::Quiet, &describe_left_out(&benchmark.input));
    }
    for missing in &benchmark.not_measured {
        page.prose(2, Role::Warning, &format!("not measured: {}: {}", missing.what, missing.why));
        missing.next.iter().for_each(|next| page.prose(4, Role::Quiet, &format!("next: {next}")));
    }
    benchmark.notes.iter().for_each(|note| page.prose(2, Role::Quiet, note));
}

/// Formats a percentile of a time, unless the resolution of the clock is too low for it.
fn percentile(ns: f64, noise: &Noise) -> String {
    if coarse_resolution(noise).is_some_and(|step| ns < 10.0 * step) {
        "–".to_owned()
    } else {
        format_time(ns)
    }
}

/// The resolution of a clock that is too coarse to time single requests.
fn coarse_resolution(noise: &Noise) -> Option<f64> {
    noise.clock_step_ns.filter(|step| *step > 500.0)
}

/// A spread of the measurements, or CPU use of other processes, above this share is printed as a
/// warning.
const RESTLESS: f64 = 0.2;

fn print_noise(page: &mut Page, noise: &Noise) {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let mut parts = Vec::new();
    parts.extend(
        noise.others_share.map(|share| format!("others used {} of the processors", percent(share))),
    );
    parts.extend(noise.stolen_share.map(|share| format!("the hypervisor took {}", percent(share))));
    let spread = noise.calm_p50_spread;
    let calm = noise.calm.as_ref().zip(spread);
    parts.extend(calm.map(|(calm, spread)| {
        format!("what should be the same in every round ({calm}) differed by {}", percent(spread))
    }));
    if parts.is_empty() {
        return;
    }
    let restless = [spread, noise.others_share].into_iter().flatten().any(|share| share > RESTLESS);
    let advice = if restless { ". Times are unsure: measure when less else runs" } else { "" };
    let role = if restless { Role::Warning } else { Role::Quiet };
    page.prose(2, role, &format!("Meanwhile {}{advice}.", parts.join(", ")));
}
