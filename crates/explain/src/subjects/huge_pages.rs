// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transparent huge pages, and hugetlb pools.

use pagewise_model::{Bytes, Snapshot};

use crate::page::{Draft, add_bars, bar, count, counter, value};

/// Explains huge pages. Sources: the kernel's admin-guide/mm/transhuge and hugetlbpage documents.
/// The figures are from docs/thp.md.
pub(crate) fn explain_huge_pages(host: &Snapshot, page: &mut Draft) {
    let huge = host.thp.pmd_size.get().map_or_else(String::new, |size| format!(" ({size} here)"));
    page.add_text(format!(
        "A CPU translates addresses page by page and caches the translations (TLB). A huge page{huge} needs one entry \
         of this cache, and the same memory in small pages needs hundreds. Programs that access much memory at random \
         spend less time on translation if their memory is in huge pages. The price: a huge page is in RAM as a whole, \
         even if a program uses little of it.",
    ));
    let memory = &host.memory;
    let pools: Bytes = host
        .hugetlb
        .iter()
        .filter(|pool| pool.node.is_none())
        .filter_map(|pool| {
            let pages = pool.total.get()?;
            Some(Bytes::new(pages.saturating_mul(pool.page_bytes.get())))
        })
        .sum();
    let known = [
        bar("anonymous", memory.anon_pages.get()),
        bar("of it huge", memory.anon_huge_pages.get()),
        bar("huge shmem", memory.shmem_huge_pages.get()),
        bar("hugetlb pools", Some(pools).filter(|&size| size > Bytes::new(0))),
    ];
    page.add_bars("This machine", add_bars(known));
    let thp = &host.thp;
    page.add_values(
        "Settings and counters",
        vec![
            value("enabled", &thp.enabled),
            value("defrag", &thp.defrag),
            value("khugepaged/max_ptes_none", &thp.khugepaged.max_ptes_none),
            count("khugepaged/pages_collapsed", thp.khugepaged.pages_collapsed.clone()),
            counter(host, "thp_fault_alloc"),
            counter(host, "thp_fault_fallback"),
        ],
    );
    page.add_text(
        "Programs get huge pages when they first use memory (thp_fault_alloc; thp_fault_fallback if no free block was \
         found), later from khugepaged, which collapses small pages, or at once with `pagewise thp collapse`. With \
         enabled = madvise, only memory for which the program asks gets them. hugetlb pools are separate: they are \
         reserved, and only for programs that ask for them.",
    );
    page.add_correction(
        "huge pages are bad for databases, so switch them off",
        "The advice comes from growth and from waiting for compaction. Both can be limited: with max_ptes_none, which \
         is such by default that one used page is enough for khugepaged to make a huge page, with defrag, and for one program alone.",
    );
    page.add_correction(
        "enabled = always means that memory is in huge pages",
        "Memory that was allocated while it was fragmented, or in small parts, stays in small pages; after a fork, \
         writes split huge pages. Measure the coverage.",
    );
    page.add_command(
        "pagewise thp",
        "how much memory of the machine, cgroups and processes is in huge pages",
    );
    page.add_command("sudo pagewise thp --canary", "what they save on this machine");
    page.add_command("pagewise doctor --explain thp-coverage", "when low coverage is a finding");
}
