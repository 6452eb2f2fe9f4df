// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel reclaims, how it selects pages, and how long programs wait for it.

use pagewise_model::{Bar, Snapshot};

use crate::page::{Draft, add_bars, bar, count, counter, setting, value};

/// Explains swappiness. Source: the kernel's sysctl/vm document and `get_scan_count` in
/// mm/vmscan.c. The figures are from docs/measured/claims.md.
pub(crate) fn explain_swappiness(host: &Snapshot, page: &mut Draft) {
    /// The sum of the two weights of reclaim, those of anonymous pages and of file pages.
    const SUM: u64 = 200;
    page.add_text(
        "When memory is short, the kernel reclaims two kinds of pages: file pages, which are dropped (or written to \
         their file) and read again when needed, and anonymous pages (data of programs), which are swapped out. \
         vm.swappiness, 0 to 200, says which of both is cheaper to bring back. With 100, both cost the same; with less, \
         swap costs more; with more, swap costs less than the disk of the files.",
    );
    let swappiness: Option<u64> = host
        .knob("vm.swappiness")
        .and_then(|knob| knob.active_word()?.parse().ok())
        .filter(|&value| value <= SUM);
    if let Some(value) = swappiness {
        let weights = [("anonymous pages", value), ("file pages", SUM - value)];
        let bars = weights.map(|(name, weight)| Bar::new(name, weight.to_string(), weight));
        page.add_bars("Weight of each kind in reclaim on this machine", bars.to_vec());
    }
    let memory = &host.memory;
    let known = [bar("anonymous", memory.anon_pages.get()), bar("page cache", memory.cached.get())];
    page.add_bars("What there is to reclaim", add_bars(known));
    page.add_values(
        "This machine",
        vec![
            setting(host, "vm.swappiness"),
            counter(host, "pswpout"),
            counter(host, "workingset_refault_anon"),
            counter(host, "workingset_refault_file"),
        ],
    );
    page.add_text(
        "A refault is a page that was reclaimed and soon needed again. Many file refaults beside few anonymous ones \
         mean that the value is too low for this workload; the other way round, too high.",
    );
    page.add_correction(
        "swappiness is the percentage of memory at which the kernel begins to swap",
        "Watermarks decide when it reclaims (`pagewise explain watermarks`); swappiness only weighs both kinds.",
    );
    page.add_correction(
        "a low swappiness keeps programs fast",
        "Program code is file pages. With data and code a little larger than memory, an iteration of our experiment \
         `swap` took 138 ms without swap, 143 ms with swappiness 0 and a swap file, and 5 ms with swappiness 60.",
    );
    page.add_command("pagewise lab run swap", "the experiment, on this machine");
    page.add_command(
        "sudo pagewise trial --a vm.swappiness=60 --b vm.swappiness=133 --memory 512M -- CMD",
        "which value suits your own command; --memory: less than it uses, or nothing is swapped",
    );
}

/// Explains multi-gen LRU. Sources: the kernel's mm/multigen_lru and admin-guide/mm/multigen_lru
/// documents. The figures are from docs/measured/claims.md.
pub(crate) fn explain_mglru(host: &Snapshot, page: &mut Draft) {
    page.add_text(
        "To reclaim memory, the kernel has to know which pages were not used for long. The classic LRU has an active \
         and an inactive list of each kind. The multi-gen LRU (MGLRU, Linux 6.1 and later) sorts pages into four \
         generations or fewer: aging makes a new, youngest generation and moves pages into it that were accessed since \
         the last aging. Pages of the oldest generation are reclaimed.",
    );
    let memory = &host.memory;
    let known = [
        bar("active anon", memory.active_anon.get()),
        bar("inactive anon", memory.inactive_anon.get()),
        bar("active file", memory.active_file.get()),
        bar("inactive file", memory.inactive_file.get()),
    ];
    page.add_bars(
        "Lists of this machine (with MGLRU: the two youngest generations, and older ones)",
        add_bars(known),
    );
    let enabled = host.mglru.enabled.clone().map(|bits| format!("{bits:#06x}"));
    let enabled = enabled.map(|bits| pagewise_model::Name::from(bits.as_str()));
    page.add_values(
        "This machine",
        vec![
            value("lru_gen/enabled", &enabled),
            value("lru_gen/min_ttl_ms", &host.mglru.min_ttl),
            counter(host, "workingset_refault_anon"),
            counter(host, "workingset_refault_file"),
        ],
    );
    page.add_text(
        "enabled is a sum of bits: 1 is MGLRU itself, 2 and 4 make aging cheaper. In our guests, MGLRU always scanned \
         fewer pages per reclaimed page. Whether it chose colder pages depends on the kernel: on 6.1 it had 57 % fewer \
         refaults than the classic LRU, on 6.12 46 % more, and on 7.2 83 % more.",
    );
    page.add_correction(
        "MGLRU is better for every workload",
        "In a cgroup of 48 MiB, 6.12 and 7.2 swapped out nothing with MGLRU and read code again 13 to 16 times as \
         often. `pagewise doctor` names a cgroup in this state, and `pagewise age` ages it.",
    );
    page.add_correction(
        "min_ttl_ms makes a machine under pressure faster",
        "The kernel kills a process rather than reclaim pages used within this time. With 1,000, 4 of 11 runs of our \
         experiment ended so.",
    );
    page.add_command("pagewise lab run coldpages", "both on a kernel of your choice, in a guest");
    page.add_command("pagewise doctor --explain mglru-off", "when it should be on");
}

/// Explains pressure stall information (PSI). Source: the kernel's accounting/psi document.
pub(crate) fn explain_psi(host: &Snapshot, page: &mut Draft) {
    page.add_text(
        "PSI (pressure stall information) is the share of time in which tasks waited for memory: for reclaim, for \
         compaction, or for a page to be read back from swap or from its file. \"some\" means that at least one task \
         waited; \"full\" means that every task that had work waited, so that this time is lost.",
    );
    let memory = &host.psi.memory;
    let shares = [
        ("some, 10 s", &memory.some.avg10),
        ("some, 60 s", &memory.some.avg60),
        ("some, 300 s", &memory.some.avg300),
        ("full, 10 s", &memory.full.avg10),
        ("full, 60 s", &memory.full.avg60),
        ("full, 300 s", &memory.full.avg300),
    ];
    page.add_shares(
        "Share of the last 10, 60 and 300 s in which tasks of this machine waited",
        &shares,
    );
    let totals = [("some total, µs", &memory.some), ("full total, µs", &memory.full)];
    let totals = totals
        .map(|(name, stall)| count(name, stall.total_us.clone().map(pagewise_model::Micros::get)));
    page.add_values("Since boot", totals.to_vec());
    page.add_text(
        "A machine can have much memory in use and no pressure, or little in use and much pressure, if a cgroup is at \
         its limit: memory.pressure of each cgroup (version 2) tells whose tasks wait. As a rule of Pagewise, some of \
         10 % over 10 s is a warning, and full of 20 % is critical.",
    );
    page.add_correction(
        "much swap in use means that the machine is slow",
        "Pages that nobody uses do not slow anything down in swap. PSI and the rate of swap-ins tell whether somebody \
         waits.",
    );
    page.add_correction(
        "the load average shows a lack of memory",
        "It counts tasks that run or wait for a CPU or for a disk, for whatever reason.",
    );
    page.add_command(
        "pagewise report --only pressure",
        "memory, CPU and I/O, for the host and for cgroups",
    );
    page.add_command("pagewise doctor --explain memory-pressure", "the thresholds and what to do");
}
