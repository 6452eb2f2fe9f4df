// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reason why a device is empty: memory was short, but swappiness is so low that nearly only file
//! pages are reclaimed.
//!
//! Classic reclaim divides scanning between the anonymous and the file lists. In the kernel's
//! `get_scan_count`, the anonymous list has the weight `s·(total+1)/(anon_cost+1)` and the file
//! list `(200−s)·(total+1)/(file_cost+1)`, each multiplied by the size of the list. The kernel does
//! not export the two costs; if they are equal, the weights are `s/200` and `(200−s)/200`. That is
//! a strong assumption: with swappiness 1 the difference of the costs soon matters more, and only a
//! swappiness of 0 always prevents swapping.

use pagewise_facts::settings::{self, Setting};
use pagewise_facts::{reclaim, zones};
use pagewise_model::{Bytes, Finding, Reading, Snapshot};

use super::zones::distances;
use super::{Case, RULE, pages_swapped_out, prove_emptiness, severity};
use crate::text::mark_writing;

/// If less than this share of scanning, in percent, is for anonymous pages, they are hardly
/// reclaimed while there are file pages: fewer than two of a batch of 32 pages. Two shares have to
/// be below it: the share with the lists of this machine, and the share with lists of equal length,
/// which depends only on the setting. On a host with hardly any anonymous memory, the first share
/// is small with any swappiness.
const LOSES_PERCENT: f64 = 5.0;
/// Largest swappiness that counts as low with multi-gen LRU: 0 means that nothing is swapped, 1
/// that file pages are reclaimed first. With larger values, refaults decide.
const GENERATIONS_LOW: u64 = 1;

pub(super) fn reason(case: Case<'_>) -> Option<Finding> {
    let host = &case.interval.end;
    case.tier?;
    if !has_been_short(host) || pages_swapped_out(host).get()? > 0 {
        return None;
    }
    let swappiness = settings::number(host, "vm.swappiness")?;
    let explained = explain_swappiness(host, swappiness)?;
    let proof = prove_emptiness(case)
        .value(swappiness.live)
        .named("pswpout", &pages_swapped_out(host))
        .named("Active(anon)", &host.memory.active_anon)
        .named("Inactive(anon)", &host.memory.inactive_anon)
        .named("Active(file)", &host.memory.active_file)
        .named("Inactive(file)", &host.memory.inactive_file)
        .value(&host.mglru.enabled)
        .all(distances(host));
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: severity(case.interval),
        title: format!(
            "{} is empty: with vm.swappiness {}, only file pages are reclaimed",
            case.device.name(),
            swappiness.value
        ),
        what: explained,
        why: "vm.swappiness weighs the cost of swapping against the cost of reading files again; its default of 60 \
              suits swap on a disk, but swapping to compressed RAM is far cheaper. With a very low vm.swappiness, \
              the kernel drops code and page cache and keeps anonymous pages in RAM even if no program uses them."
            .to_owned(),
        evidence: proof.into_evidence(),
        next: vec![
            mark_writing("sudo sysctl vm.swappiness=100"),
            "grep -E 'refault|pswpout|pgscan' /proc/vmstat".to_owned(),
        ],
    })
}

/// Whether reclaim has scanned pages since boot, or has to reclaim now.
fn has_been_short(host: &Snapshot) -> bool {
    let scanned = reclaim::scanned_pages(host).is_some_and(|scanned| scanned.count > 0);
    scanned || zones::all_above_low(host) == Some(false)
}

/// Explains what the setting of swappiness does on this host; `None` if it is not low.
fn explain_swappiness(host: &Snapshot, swappiness: Setting<'_>) -> Option<String> {
    let value = swappiness.value;
    match detect_lru(host) {
        Lru::Classic => {
            let lists = lists(host)?;
            let loses =
                |lists: Lists| lists.anon_percent(value).filter(|&share| share < LOSES_PERCENT);
            loses(Lists { anon: lists.file, file: lists.file })?;
            let percent = loses(lists)?;
            Some(format!(
                "vm.swappiness is {value}, so the kernel scans anonymous pages with weight {value}/200 and file \
                 pages with {}/200. With {} of anonymous and {} of file pages, about {percent:.1} % of the \
                 scanned pages are anonymous (an estimate: the kernel also counts what recent reclaim of \
                 each kind cost, which it does not show).",
                200u64.saturating_sub(value),
                lists.anon,
                lists.file
            ))
        }
        Lru::Generations => (value <= GENERATIONS_LOW).then(|| {
            format!(
                "vm.swappiness is {value}, and multi-gen LRU is on. With a swappiness of 0, multi-gen LRU \
                 never swaps; with 1, it reclaims file pages first."
            )
        }),
        Lru::Unknown => (value == 0)
            .then(|| format!("vm.swappiness is {value}, so the kernel avoids swapping anonymous pages, \
                              whether multi-gen LRU is on or off.")),
    }
}

/// How this kernel chooses pages for reclaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lru {
    /// Active and inactive lists, weighted by swappiness.
    Classic,
    /// Multi-gen LRU is on: the formula for the classic lists does not apply.
    Generations,
    /// Which lists are in use is unknown: the file was not read, or access was denied.
    Unknown,
}

/// Returns which page lists are in use: those of multi-gen LRU or the classic ones. A kernel
/// without multi-gen LRU's file has only the classic lists.
fn detect_lru(host: &Snapshot) -> Lru {
    let enabled = &host.mglru.enabled;
    match host.mglru.is_on() {
        Some(true) => Lru::Generations,
        Some(false) => Lru::Classic,
        None if enabled.is_denied() || enabled.source.path().is_empty() => Lru::Unknown,
        None => Lru::Classic,
    }
}

/// The sizes of the lists that classic reclaim chooses from: anonymous and file pages.
#[derive(Debug, Clone, Copy)]
struct Lists {
    anon: Bytes,
    file: Bytes,
}

fn lists(host: &Snapshot) -> Option<Lists> {
    let memory = &host.memory;
    let sum = |a: &Reading<Bytes>, b: &Reading<Bytes>| Some(a.get()?.saturating_add(b.get()?));
    Some(Lists {
        anon: sum(&memory.active_anon, &memory.inactive_anon)?,
        file: sum(&memory.active_file, &memory.inactive_file)?,
    })
}

impl Lists {
    /// Returns the share of scanning that is for anonymous pages, in percent, if both costs are
    /// equal; `None` if both lists are empty.
    fn anon_percent(self, swappiness: u64) -> Option<f64> {
        let swappiness = swappiness.min(200) as f64;
        let anon = self.anon.get() as f64 * swappiness;
        let file = self.file.get() as f64 * (200.0 - swappiness);
        (anon + file > 0.0).then(|| anon * 100.0 / (anon + file))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{Interval, Reading};

    use super::super::tests::empty_tier;
    use super::*;
    use crate::testing::{
        erase, file, line, mib, only, proof_of, set_knob, still, swappiness as set_swappiness,
    };

    fn low(value: &str, generations: u32) -> Snapshot {
        let mut host = empty_tier();
        set_swappiness(&mut host, value);
        host.mglru.enabled = file("/sys/kernel/mm/lru_gen/enabled", generations);
        host
    }

    pub(crate) fn host_with_finding() -> Interval {
        still(low("5", 0))
    }

    #[test]
    fn the_classic_formula_with_this_machines_numbers() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(
            finding.title,
            "zram0 is empty: with vm.swappiness 5, only file pages are reclaimed"
        );
        assert_eq!(
            finding.what,
            "vm.swappiness is 5, so the kernel scans anonymous pages with weight 5/200 and file pages with \
             195/200. With 4.0 GiB of anonymous and 4.0 GiB of file pages, about 2.5 % of the scanned pages \
             are anonymous (an estimate: the kernel also counts what recent reclaim of each kind cost, which \
             it does not show)."
        );
        let proof = proof_of(&finding);
        assert!(proof.contains("node 0 Normal: free 2.7 GiB, 2.6 GiB above low: idle"), "{proof}");
    }

    #[test]
    fn little_anonymous_memory_is_no_low_swappiness() {
        let mut much_cache = low("60", 0);
        for reading in [&mut much_cache.memory.active_anon, &mut much_cache.memory.inactive_anon] {
            *reading = line("/proc/meminfo", 10, mib(30));
        }
        let title = only(&RULE, &still(much_cache)).title;
        assert!(title.contains("page cache has been enough"), "{title}");
    }

    #[test]
    fn generations_do_not_use_that_formula() {
        let finding = only(&RULE, &still(low("0", 7)));
        assert!(finding.what.contains("multi-gen LRU never swaps"));
        let weighed = only(&RULE, &still(low("5", 7)));
        assert!(weighed.title.contains("page cache has been enough"), "{}", weighed.title);
    }

    #[test]
    fn a_kernel_without_generations_is_classic_and_an_unread_one_unknown() {
        let mut without = low("5", 0);
        erase(&mut without.mglru.enabled);
        assert!(only(&RULE, &still(without)).what.starts_with("vm.swappiness is 5, so the "));
        let mut unread = low("5", 0);
        unread.mglru.enabled = Reading::not_read();
        assert!(!only(&RULE, &still(unread)).what.starts_with("vm.swappiness is 5, so the "));
    }

    #[test]
    fn it_is_not_the_reason_at_60_or_where_memory_was_never_short() {
        let at_60 = only(&RULE, &still(low("60", 0)));
        assert!(at_60.title.contains("page cache has been enough"), "{}", at_60.title);
        let mut never = low("0", 0);
        set_knob(&mut never, "pgscan_kswapd", 0);
        set_knob(&mut never, "pgscan_direct", 0);
        assert!(only(&RULE, &still(never)).title.contains("never short since boot"));
    }
    #[test]
    fn equal_costs_share_scanning_by_swappiness_and_list_size() {
        let lists = |anon, file| Lists { anon: Bytes::new(anon), file: Bytes::new(file) };
        assert_eq!(lists(100, 100).anon_percent(100), Some(50.0));
        assert_eq!(lists(100, 100).anon_percent(60), Some(30.0));
        assert_eq!(lists(300, 100).anon_percent(100), Some(75.0));
        assert_eq!(lists(100, 100).anon_percent(0), Some(0.0));
        assert_eq!(lists(0, 0).anon_percent(60), None);
    }
}
