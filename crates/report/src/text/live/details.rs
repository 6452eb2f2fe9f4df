// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One process or group of a live view in full.

use pagewise_model::{Cgroup, LiveDetail, Process};

use super::super::kit::Page;
use super::super::words::{count, shown, spelled, stalled};
use super::fact;

pub(super) fn print(page: &mut Page, detail: &LiveDetail) {
    match detail {
        LiveDetail::Process(process) => print_process(page, process),
        LiveDetail::Group(group) => print_group(page, group),
        LiveDetail::Gone => fact(page, "", "it has ended, or it cannot be read (Esc closes it)"),
    }
}

fn print_process(page: &mut Page, process: &Process) {
    fact(page, "Process", format!("{} (pid {})", process.name, process.pid));
    let kinds =
        [("anon", &process.rss_anon), ("file", &process.rss_file), ("shmem", &process.rss_shmem)];
    fact(page, "In RAM", listed(&kinds.map(|(name, size)| (name, shown(size)))));
    let swap = [("", &process.swap), ("locked in RAM", &process.locked)];
    fact(page, "In swap", listed(&swap.map(|(name, size)| (name, shown(size)))));
    let sizes = [("address space", &process.virtual_size), ("page tables", &process.page_tables)];
    fact(page, "Also", listed(&sizes.map(|(name, size)| (name, shown(size)))));
    let faults = spelled(&process.major_faults, |faults| count(*faults));
    fact(page, "Faults", format!("{faults} major faults since it began"));
    fact(page, "Group", spelled(&process.cgroup, ToString::to_string));
}

fn print_group(page: &mut Page, group: &Cgroup) {
    fact(page, "Group", group.path.as_str());
    let kinds = [("anon", &group.anon), ("file", &group.file), ("shmem", &group.shmem)];
    let kinds = listed(&kinds.map(|(name, size)| (name, shown(size))));
    fact(page, "Memory", format!("{} in use: {kinds}", shown(&group.current)));
    let limits = [("low", &group.low), ("high", &group.high), ("max", &group.max)];
    fact(
        page,
        "Limits",
        listed(&limits.map(|(name, limit)| (name, spelled(limit, ToString::to_string)))),
    );
    let most = spelled(&group.swap_max, ToString::to_string);
    fact(
        page,
        "Swap",
        format!(
            "{} in swap, limit {most}; peak of memory {}",
            shown(&group.swap_current),
            shown(&group.peak)
        ),
    );
    let number = |reading| spelled(reading, |number: &u64| count(*number));
    let refaults = [
        ("refaults anon", &group.refault_anon),
        ("file", &group.refault_file),
        ("major faults", &group.pgmajfault),
    ];
    fact(page, "Faults", listed(&refaults.map(|(name, reading)| (name, number(reading)))));
    let events = [
        ("high", &group.events.high),
        ("max", &group.events.max),
        ("OOM kills", &group.events.oom_kill),
    ];
    fact(page, "Reached", listed(&events.map(|(name, reading)| (name, number(reading)))));
    let share = |reading| spelled(reading, |share: &pagewise_model::Percent| stalled(share.get()));
    let pressure = &group.pressure;
    fact(
        page,
        "Pressure",
        format!("some {}, all {}", share(&pressure.some.avg10), share(&pressure.full.avg10)),
    );
}

/// `anon 1.0 GiB, file 3.0 MiB`
fn listed(parts: &[(&str, String)]) -> String {
    let parts: Vec<String> =
        parts.iter().map(|(name, value)| format!("{name} {value}").trim().to_owned()).collect();
    parts.join(", ")
}
