// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise status`: the most important values, one or two lines each.

use pagewise_model::{Actor, Pressure, Snapshot, Tier};

use super::block::MemoryPart;
use super::kit::{FACTS, Line, Page, Role};
use super::words::{describe_lack, describe_stall, format_reading, part_of, share};
use super::{
    findings, first_screen, header, memory, movement, oom, pressure, processes, savers, thp,
    verdict, zones, zram,
};
use crate::Answer;

pub(super) fn print(page: &mut Page, answer: &Answer<'_>) {
    let snapshot = &answer.interval.end;
    header::print(page, "status", answer);
    page.gap();
    if let Some(why) = verdict::unreadable(snapshot) {
        page.prose(2, Role::Strong, &why);
    } else {
        page.prose(2, verdict::role(answer.verdict.level), &answer.verdict.line);
        page.gap();
    }
    print_who(page, answer);
    print_where_memory_is(page, snapshot);
    print_swap(page, snapshot);
    print_zram_devices(page, snapshot);
    print_waiting(page, snapshot);
    print_zone_states(page, snapshot);
    print_moving(page, answer);
    print_huge_pages(page, snapshot);
    savers::facts(snapshot).iter().for_each(|(label, text)| page.fact(label, text));
    if let Some(killed) = oom::glance(snapshot) {
        page.fact("OOM kills", &killed);
    }
}

/// Prints the worst finding, and the process or the cgroup that it is about; the largest process if
/// it is about the machine as a whole.
fn print_who(page: &mut Page, answer: &Answer<'_>) {
    let Some(worst) = answer.findings.first() else { return };
    let label = findings::label(worst.severity);
    page.fact("Finding", &format!("{label} {} (pagewise doctor)", worst.title));
    let snapshot = &answer.interval.end;
    if let Some(actor) = Actor::find_first(answer.findings, answer.verdict, snapshot) {
        return page.fact("Who", &first_screen::describe(&actor));
    }
    if let Some(largest) = processes::largest(&snapshot.processes, 1).first() {
        page.fact("Largest", &first_screen::describe(&Actor::from_process(largest)));
    }
}

fn print_where_memory_is(page: &mut Page, snapshot: &Snapshot) {
    let Some(total) = snapshot.memory.total.get() else { return };
    let parts = memory::parts(snapshot, total);
    let mut items: Vec<String> = Vec::new();
    items.extend(memory::in_use(&snapshot.memory).map(|used| format!("{used} in use")));
    items.extend(snapshot.memory.available.get().map(|size| format!("{size} available")));
    page.fact_items("Memory", &items);
    memory::print_bar(page, Line::indent(FACTS), &parts, total);
    let legend: Vec<String> = parts.iter().map(MemoryPart::glance).collect();
    page.fact_items("", &legend);
}

fn print_swap(page: &mut Page, snapshot: &Snapshot) {
    let memory = &snapshot.memory;
    if snapshot.tiers.is_empty() {
        if memory.swap_total.get().is_some_and(|total| total.get() == 0) {
            page.fact("Swap", "none");
        }
        return;
    }
    page.fact_items("Swap", &snapshot.tiers.iter().map(tier).collect::<Vec<_>>());
}

fn tier(tier: &Tier) -> String {
    let fill = tier.used.get().zip(tier.size.get());
    let used = fill.map_or_else(|| format_reading(&tier.used), |(used, size)| part_of(used, size));
    let share = fill.and_then(|(used, size)| share(used.get(), size.get()));
    let share = share.map(|share| format!(" ({share})")).unwrap_or_default();
    format!("{} {used}{share}, priority {}", tier.path, format_reading(&tier.priority))
}

fn print_zram_devices(page: &mut Page, snapshot: &Snapshot) {
    for (label, devices) in [("zram", &snapshot.zram), ("zmerge", &snapshot.zmerge)] {
        if !devices.is_empty() {
            page.fact_items(label, &devices.iter().map(zram::glance).collect::<Vec<_>>());
        }
    }
}

fn print_waiting(page: &mut Page, snapshot: &Snapshot) {
    if let Some(why) = pressure::unknown(&snapshot.psi) {
        return page.fact("Pressure", &why);
    }
    let psi = &snapshot.psi;
    let resources = [("memory", &psi.memory), ("io", &psi.io), ("cpu", &psi.cpu)];
    let items: Vec<String> =
        resources.iter().filter_map(|(name, pressure)| describe_wait(name, pressure)).collect();
    if !items.is_empty() {
        let text = format!("in the last 10 s somebody waited for {}", items.join(", "));
        page.fact("Pressure", &text);
    }
}

/// Describes the pressure of one resource: `memory 14 % (everybody 3.9 %)`.
fn describe_wait(name: &str, pressure: &Pressure) -> Option<String> {
    let some = describe_stall(pressure.some.avg10.get()?.get());
    let full = pressure.full.avg10.get().filter(|full| full.get() > 0.0);
    let full = full.map(|full| format!(" (everybody {})", describe_stall(full.get())));
    Some(format!("{name} {some}{}", full.unwrap_or_default()))
}

fn print_zone_states(page: &mut Page, snapshot: &Snapshot) {
    let states: Vec<String> = zones::group_by_state(&snapshot.zones)
        .iter()
        .map(|(state, names)| {
            format!("{}: kswapd {}", names.join(", "), zones::describe_state(*state))
        })
        .collect();
    if !states.is_empty() {
        page.fact_items("Zones", &states);
    }
}

fn print_moving(page: &mut Page, answer: &Answer<'_>) {
    let moves = movement::glance(answer.interval);
    if !moves.is_empty() {
        page.fact_items("Movement", &moves);
    }
}

fn print_huge_pages(page: &mut Page, snapshot: &Snapshot) {
    let thp = &snapshot.thp;
    if let Some(why) = describe_lack(&thp.enabled) {
        page.fact("Huge pages", &why);
    } else if thp.enabled.value().is_some() {
        let mut items = vec![format_reading(&thp.enabled)];
        items.extend(Some(thp::in_use(&snapshot.memory)).filter(|in_use| !in_use.is_empty()));
        page.fact("Huge pages", &items.join(": "));
    }
}
