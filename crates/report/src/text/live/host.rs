// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host as a whole in a live view: sections of one or two lines, the most important first.

use pagewise_model::{Bytes, Percent, Reading, Snapshot, Tier, Zone};

use super::super::kit::{Line, Page, Role, wrap};
use super::super::movement::{format_per_second, format_speed};
use super::super::words::{
    describe_lack, describe_stall, format_pages, format_ratio, part_of, share,
};
use super::super::{MemoryPart, memory};
use super::super::{bars, pressure, thp};
use super::{FACTS, print_fact, print_fact_line, render};
use crate::live::{LiveFrame, LiveLine, LiveWindow};

/// Number of cells of a bar next to numbers.
const BAR: usize = 8;
/// Bars need a window with at least this many columns.
const BARS: usize = 60;
/// The bar of memory and its legend need a window with at least this many lines.
const HIGH: usize = 20;
/// Maximum number of swap tiers shown.
const TIERS: usize = 4;

/// The lines of each section.
pub(super) fn sections(frame: &LiveFrame<'_>, window: LiveWindow) -> Vec<Vec<LiveLine>> {
    let snapshot = &frame.interval.end;
    let mut all = vec![
        render(window, |page| print_memory_left(page, snapshot)),
        render(window, |page| print_swap(page, snapshot, window)),
        render(window, |page| print_waiting(page, frame, window)),
        render(window, |page| print_kswapd(page, frame)),
        render(window, |page| print_effective(page, snapshot)),
        render(window, |page| print_rates(page, frame, window)),
        render(window, |page| print_huge_pages(page, snapshot)),
    ];
    if window.height > HIGH {
        all.insert(1, render(window, |page| print_bar(page, snapshot, window)));
    }
    all
}

fn print_memory_left(page: &mut Page, snapshot: &Snapshot) {
    let Some(total) = snapshot.memory.total.get() else { return };
    let available = snapshot.memory.available.get();
    let available = available.map(|size| {
        let share = share(size.get(), total.get()).map(|share| format!(" ({share})"));
        format!("{} available{}", part_of(size, total), share.unwrap_or_default())
    });
    let free = snapshot.memory.free.get().map(|free| format!("{free} free"));
    let parts: Vec<String> = available.into_iter().chain(free).collect();
    print_fact(page, "Memory", parts.join(", "));
}

fn print_bar(page: &mut Page, snapshot: &Snapshot, window: LiveWindow) {
    let Some(total) = snapshot.memory.total.get() else { return };
    let parts = memory::parts(snapshot, total);
    memory::print_bar(page, Line::indent(FACTS), &parts, total);
    if window.height > 2 * HIGH - 10 {
        let legend: Vec<String> = parts.iter().map(MemoryPart::glance).collect();
        print_wrapped(page, "", &legend.join(" · "), window);
    }
}

/// Prints the effective memory: compressed pages count with their size before compression.
fn print_effective(page: &mut Page, snapshot: &Snapshot) {
    let memory = snapshot.effective_memory();
    let Some(known) = memory.value() else {
        if let Some(why) = describe_lack(&memory) {
            print_fact(page, "Effective", why);
        }
        return;
    };
    let Some(ratio) = known.stored_per_pool() else { return };
    let of_ram = known.of_ram().map(|share| format!(" ({:.0} % of RAM)", share.get()));
    print_fact(
        page,
        "Effective",
        format!(
            "{} without compression{}: {} stored in {}, {}",
            known.uncompressed_size(),
            of_ram.unwrap_or_default(),
            known.stored,
            known.pool,
            format_ratio(ratio)
        ),
    );
}

fn print_swap(page: &mut Page, snapshot: &Snapshot, window: LiveWindow) {
    if snapshot.tiers.is_empty() {
        return print_fact(page, "Swap", "none");
    }
    let mut label = "Swap";
    for tier in snapshot.tiers.iter().take(TIERS) {
        print_tier_line(page, label, tier, snapshot, window);
        label = "";
    }
    let zswap = &snapshot.zswap;
    let stored = zswap.stored.get().zip(zswap.pool.get()).filter(|(stored, _)| stored.get() > 0);
    if let Some((stored, pool)) = stored {
        print_fact(page, "zswap", describe_stored(stored, pool));
    }
}

fn print_tier_line(
    page: &mut Page,
    label: &str,
    tier: &Tier,
    snapshot: &Snapshot,
    window: LiveWindow,
) {
    let path = tier.path.as_str();
    let name = path.strip_prefix("/dev/").unwrap_or(path);
    let fill = tier.used.get().zip(tier.size.get());
    let is_full = tier.is_full() == Some(true);
    let role = if is_full { Role::Warning } else { Role::Plain };
    let device =
        snapshot.compressed_devices().find(|zram| tier.kind.is_ram() && zram.name() == name);
    let held = device.and_then(|zram| {
        let (stored, pool) = zram.mm_stat.original.get().zip(zram.mm_stat.memory_used.get())?;
        (stored.get() > 0).then(|| describe_stored(stored, pool))
    });
    print_fact_line(page, label, |mut line| {
        line = line.plain(name).plain(" ");
        if let Some((used, size)) = fill.filter(|_| window.width >= BARS) {
            line = line.span(role, bars::draw_bar(used.get(), size.get(), BAR)).plain(" ");
        }
        if let Some((used, size)) = fill {
            let share = share(used.get(), size.get()).map(|share| format!(" ({share})"));
            line = line.span(role, part_of(used, size)).plain(share.unwrap_or_default());
        }
        held.map_or(line.clone(), |held| line.plain(format!(", {held}")))
    });
}

/// Describes a store of compressed pages: `3.0 GiB in 1.0 GiB (3.00 to 1)`.
fn describe_stored(stored: Bytes, pool: Bytes) -> String {
    let ratio = pagewise_model::Ratio::from_sizes(stored, pool);
    let ratio = ratio.map(|ratio| format!(" ({})", format_ratio(ratio))).unwrap_or_default();
    format!("stores {stored} in {pool}{ratio}")
}

fn print_waiting(page: &mut Page, frame: &LiveFrame<'_>, window: LiveWindow) {
    let psi = &frame.interval.end.psi;
    if let Some(why) = pressure::unknown(psi) {
        return print_fact(page, "Pressure", why);
    }
    let share = |reading: &Reading<Percent>| {
        reading.get().map_or_else(|| "–".to_owned(), |share| describe_stall(share.get()))
    };
    let text =
        format!("some {}, all {}", share(&psi.memory.some.avg10), share(&psi.memory.full.avg10));
    print_fact_line(page, "Pressure", |line| {
        let line = line.plain(text).plain("  ");
        let span = format!(" {}", super::super::words::seconds(frame.pressure_seconds));
        let room = window.width.saturating_sub(line.width() + span.len() + 1).min(60);
        if frame.pressure.is_empty() || room < 4 {
            return line;
        }
        line.span(Role::Info, sparkline(frame.pressure, room)).span(Role::Quiet, span)
    });
}

/// A sparkline. Each cell shows the largest of its values; the full height is 10 % or the largest
/// value, whichever is more.
fn sparkline(values: &[f64], cells: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const LEAST: f64 = 10.0;
    let per_cell = values.len().div_ceil(cells.max(1)).max(1);
    // aligned at the end, so that the last cell always contains the latest values
    let first = values.len() % per_cell;
    let (head, rest) = values.split_at(first);
    let chunks =
        Some(head).filter(|head| !head.is_empty()).into_iter().chain(rest.chunks(per_cell));
    let most = values.iter().copied().fold(LEAST, f64::max);
    let block = |value: f64| {
        let steps = (value / most * 7.0).ceil().clamp(0.0, 7.0);
        let at = (0..7).filter(|&step| f64::from(step) < steps).count();
        BLOCKS[at]
    };
    chunks.map(|chunk| block(chunk.iter().copied().fold(0.0, f64::max))).collect()
}

fn print_kswapd(page: &mut Page, frame: &LiveFrame<'_>) {
    let snapshot = &frame.interval.end;
    let mut parts = Vec::new();
    parts.extend(frame.sample.kswapd_percent.map(|percent| match percent {
        none if none <= 0.0 => "asleep".to_owned(),
        some => format!("awake, {} CPU", describe_stall(some)),
    }));
    let size = snapshot.page_size();
    parts.extend(snapshot.tightest_zone().and_then(|zone| marks(zone, size)));
    if !parts.is_empty() {
        print_fact(page, "kswapd", parts.join("; "));
    }
}

/// Free memory of a zone next to its watermarks.
fn marks(zone: &Zone, page_size: Bytes) -> Option<String> {
    let [free, low, high] = [&zone.free_pages, &zone.low_pages, &zone.high_pages].map(Reading::get);
    Some(format!(
        "{}: {} free, low {}, high {}",
        zone.name,
        format_pages(free?, page_size),
        format_pages(low?, page_size),
        format_pages(high?, page_size)
    ))
}

/// Counters of pages, and their labels.
const PAGES: [(&[&str], &str); 4] = [
    (&["workingset_refault_anon", "workingset_refault_file"], "refaults"),
    (&["pswpin"], "swap in"),
    (&["pswpout"], "out"),
    (&["pgscan_kswapd", "pgscan_direct"], "scanned"),
];

fn print_rates(page: &mut Page, frame: &LiveFrame<'_>, window: LiveWindow) {
    let interval = frame.interval;
    let Some(seconds) = interval.seconds() else { return };
    let moved = |(counters, name): &(&[&str], &str)| {
        let deltas = counters.iter().filter_map(|counter| interval.vmstat(counter));
        let pages = deltas.map(|change| change.delta).reduce(u64::saturating_add)?;
        let bytes = Bytes::new(pages.saturating_mul(interval.end.page_size().get()));
        Some(format!("{name} {}", format_speed(bytes, seconds)))
    };
    let mut items: Vec<String> = PAGES.iter().filter_map(moved).collect();
    let faults = interval.vmstat("pgmajfault");
    let faults = faults.map(|change| match change.delta {
        0 => "major faults 0/s".to_owned(),
        _ => format!("major faults {}/s", format_per_second(change.per_second)),
    });
    items.splice(1.min(items.len())..1.min(items.len()), faults);
    items.extend(frame.kills.map(|kills| format!("OOM kills {kills} since start")));
    print_wrapped(page, "Rates", &items.join(", "), window);
}

fn print_huge_pages(page: &mut Page, snapshot: &Snapshot) {
    let memory = &snapshot.memory;
    if memory.anon_huge_pages.value().is_some() {
        print_fact(page, "Huge", thp::in_use(memory));
    }
}

/// Prints a label and its content on at most two lines.
fn print_wrapped(page: &mut Page, label: &str, text: &str, window: LiveWindow) {
    let mut lines = wrap(text, window.width.saturating_sub(FACTS).max(1));
    if lines.len() > 2 {
        let rest = lines.split_off(1).join(" ");
        lines.push(rest);
    }
    let mut label = label;
    for line in lines {
        let start = Line::default().span(Role::Strong, label).pad_to(FACTS - 1).plain(" ");
        page.line(&start.plain(line));
        label = "";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_little_pressure_shows_and_the_last_cell_is_the_last_value() {
        assert_eq!(sparkline(&[0.0, 0.1, 10.0], 10), "▁▂█");
        assert_eq!(sparkline(&[0.0, 0.0, 50.0, 100.0], 2), "▁█");
        let values = [vec![100.0; 7], vec![0.0]].concat();
        assert_eq!(sparkline(&values, 4).chars().count(), 4);
        assert!(sparkline(&[100.0, 0.0, 0.0, 0.0, 0.0], 3).ends_with('▁'));
    }
}
