// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of cgroups, and what the kernel does if no memory can be reclaimed.

use pagewise_model::{Cgroup, Hierarchy, Limit, Snapshot};

use crate::page::{Draft, add_bars, bar, count, counter, setting, value};

/// Explains the OOM killer. Sources: mm/oom_kill.c (`oom_badness`, `out_of_memory`), the kernel's
/// proc and cgroup-v2 documents.
pub(crate) fn explain_oom(host: &Snapshot, page: &mut Draft) {
    page.add_text(
        "If an allocation needs memory and neither dropping nor swapping frees any, the kernel kills a process (OOM \
         killer). If a cgroup is at its limit, it chooses among the processes of this cgroup, however much memory the \
         machine has left; otherwise among all processes. It kills the one with the most memory: RAM, swap and page \
         tables together, plus oom_score_adj thousandths of the memory that counts.",
    );
    let memory = &host.memory;
    let swap = memory.swap_total.get().zip(memory.swap_free.get());
    let known = [
        bar("available", memory.available.get()),
        bar("free swap", memory.swap_free.get()),
        bar("swap in use", swap.map(|(total, free)| total.saturating_sub(free))),
        bar("anonymous", memory.anon_pages.get()),
    ];
    page.add_bars("What is left on this machine", add_bars(known));
    let mut values = vec![counter(host, "oom_kill")];
    values.extend(
        host.cgroups
            .groups
            .iter()
            .filter(|group| group.events.oom_kill.get() > Some(0))
            .take(4)
            .map(|group| {
                count(&format!("oom_kill of {}", short_name(group)), group.events.oom_kill.clone())
            }),
    );
    values.push(setting(host, "vm.panic_on_oom"));
    values.push(setting(host, "vm.oom_kill_allocating_task"));
    page.add_values("Kills since boot, and settings", values);
    page.add_text(
        "A kill comes late: the kernel tries to reclaim for long first, and the machine may hardly react meanwhile. \
         systemd-oomd and earlyoom kill earlier. `oom_score_adj` of -1000 exempts a process; memory.oom.group kills a \
         whole cgroup at once, so that no half of a service is left.",
    );
    page.add_correction(
        "a kill means that the machine had no memory",
        "Often a cgroup was at its own limit. The kernel log says which: `constraint=CONSTRAINT_MEMCG` and the path of \
         the cgroup.",
    );
    page.add_correction(
        "overcommit causes kills, so vm.overcommit_memory=2 prevents them",
        "It makes allocations fail instead, of programs that would never have used the memory. Kills by a cgroup's \
         limit stay.",
    );
    page.add_command(
        "pagewise doctor --oom",
        "each kill that the kernel log has: who, why, and what would help",
    );
    page.add_command("pagewise doctor --explain oom-kills", "when kills are a finding");
}

/// Returns the last component of a cgroup's path, shortened so that the value fits next to it on
/// the line: a name may have 255 characters.
fn short_name(group: &Cgroup) -> String {
    const LONGEST: usize = 32;
    let path = group.path.as_str();
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.chars().count() <= LONGEST {
        return name.to_owned();
    }
    name.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// Explains memory cgroups. Sources: the kernel's cgroup-v2 and cgroup-v1/memory documents.
pub(crate) fn explain_cgroups(host: &Snapshot, page: &mut Draft) {
    let (hierarchy, is_old) = match host.cgroups.hierarchy {
        Hierarchy::V2 => ("This machine has version 2.", false),
        Hierarchy::V1 | Hierarchy::Hybrid => (
            "This machine has version 1: of the files below, it has only the limit, as memory.limit_in_bytes.",
            true,
        ),
        Hierarchy::None => ("This machine has no cgroups for memory.", false),
    };
    page.add_text(format!(
        "A cgroup is a group of processes, such as a service or a container, whose memory the kernel counts and can \
         limit. What a cgroup uses counts for all cgroups above it, too. {hierarchy}"
    ));
    let mut largest: Vec<&Cgroup> =
        host.cgroups.groups.iter().filter(|group| group.path.as_str() != "/").collect();
    largest.sort_by_key(|group| std::cmp::Reverse(group.current.get()));
    let shown =
        largest.iter().take(5).filter_map(|group| bar(&short_name(group), group.current.get()));
    page.add_bars("The largest cgroups of this machine", shown.collect());
    let is_limited = |group: &&&Cgroup| matches!(group.max.get(), Some(Limit::Bytes(_)));
    if let Some(group) = largest.iter().find(is_limited) {
        page.add_values(
            format!("The largest cgroup with a limit: {}", group.path),
            vec![
                value("current", &group.current),
                value("peak", &group.peak),
                value("max", &group.max),
                value("swap.max", &group.swap_max),
                count("times at the limit", group.events.max.clone()),
            ],
        );
    }
    page.add_text(
        "memory.max: at this limit, the kernel reclaims only from this cgroup, and kills in it if that is not enough. \
         memory.high: its processes are slowed down instead. memory.low and memory.min: what is below them is \
         reclaimed last, or never, as far as the cgroups above are protected as well. memory.swap.max limits its swap.",
    );
    if is_old {
        page.add_text(
            "With version 1, each cgroup has its own memory.swappiness, and swap counts in memory.memsw.limit_in_bytes \
             together with memory.",
        );
    }
    page.add_correction(
        "a limit keeps a service from slowing down others",
        "At its limit, a service swaps and reads again what was dropped, with the disk and the CPUs of all. And what \
         zram takes to store its pages does not count for the cgroup (with zswap, it does).",
    );
    page.add_correction(
        "memory.current near memory.max means that the service needs more",
        "Page cache counts as well, and fills any limit in time. Watch memory.pressure and the refaults of the cgroup.",
    );
    page.add_command(
        "pagewise report --only cgroups",
        "each cgroup with its limits and its pressure",
    );
    page.add_command("pagewise doctor --explain group-limit", "when a limit is too small");
}
