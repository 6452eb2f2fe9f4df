// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One process or group of a live view in full.

use pagewise_model::{Cgroup, LiveDetail, Process};

use super::super::kit::Page;
use super::super::words::{count, describe_stall, format_reading, spell_reading};
use super::print_fact;

pub(super) fn print(page: &mut Page, detail: &LiveDetail) {
    match detail {
        LiveDetail::Process(process) => print_process(page, process),
        LiveDetail::Group(group) => print_group(page, group),
        LiveDetail::Gone => {
            print_fact(page, "", "it has ended, or it cannot be read (Esc closes it)");
        }
    }
}

fn print_process(page: &mut Page, process: &Process) {
    print_fact(page, "Process", format!("{} (pid {})", process.name, process.pid));
    let kinds =
        [("anon", &process.rss_anon), ("file", &process.rss_file), ("shmem", &process.rss_shmem)];
    print_fact(page, "In RAM", join_parts(&kinds.map(|(name, size)| (name, format_reading(size)))));
    let swap = [("", &process.swap), ("locked in RAM", &process.locked)];
    print_fact(page, "In swap", join_parts(&swap.map(|(name, size)| (name, format_reading(size)))));
    let sizes = [("address space", &process.virtual_size), ("page tables", &process.page_tables)];
    print_fact(page, "Also", join_parts(&sizes.map(|(name, size)| (name, format_reading(size)))));
    let faults = spell_reading(&process.major_faults, |faults| count(*faults));
    print_fact(page, "Faults", format!("{faults} major faults since it began"));
    print_fact(page, "Group", spell_reading(&process.cgroup, ToString::to_string));
}

fn print_group(page: &mut Page, group: &Cgroup) {
    print_fact(page, "Group", group.path.as_str());
    let kinds = [("anon", &group.anon), ("file", &group.file), ("shmem", &group.shmem)];
    let kinds = join_parts(&kinds.map(|(name, size)| (name, format_reading(size))));
    print_fact(page, "Memory", format!("{} in use: {kinds}", format_reading(&group.current)));
    let limits = [("low", &group.low), ("high", &group.high), ("max", &group.max)];
    print_fact(
        page,
        "Limits",
        join_parts(&limits.map(|(name, limit)| (name, spell_reading(limit, ToString::to_string)))),
    );
    let most = spell_reading(&group.swap_max, ToString::to_string);
    print_fact(
        page,
        "Swap",
        format!(
            "{} in swap, limit {most}; peak of memory {}",
            format_reading(&group.swap_current),
            format_reading(&group.peak)
        ),
    );
    let number = |reading| spell_reading(reading, |number: &u64| count(*number));
    let refaults = [
        ("refaults anon", &group.refault_anon),
        ("file", &group.refault_file),
        ("major faults", &group.pgmajfault),
    ];
    print_fact(
        page,
        "Faults",
        join_parts(&refaults.map(|(name, reading)| (name, number(reading)))),
    );
    let events = [
        ("high", &group.events.high),
        ("max", &group.events.max),
        ("OOM kills", &group.events.oom_kill),
    ];
    print_fact(page, "Reached", join_parts(&events.map(|(name, reading)| (name, number(reading)))));
    let share = |reading| {
        spell_reading(reading, |share: &pagewise_model::Percent| describe_stall(share.get()))
    };
    let pressure = &group.pressure;
    print_fact(
        page,
        "Pressure",
        format!("some {}, all {}", share(&pressure.some.avg10), share(&pressure.full.avg10)),
    );
}

/// Joins the known sizes with their names: `anon 1.0 GiB, file 3.0 MiB`.
fn join_parts(parts: &[(&str, String)]) -> String {
    let parts: Vec<String> =
        parts.iter().map(|(name, value)| format!("{name} {value}").trim().to_owned()).collect();
    parts.join(", ")
}
