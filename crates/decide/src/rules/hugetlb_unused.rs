// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: preallocated huge pages (hugetlb) are not used by any program.

use pagewise_model::{Bytes, Finding, HugePool, Interval, Severity, Snapshot, Subject};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::{count_of, write_command};

pub(super) const RULE: Rule = Rule {
    id: "hugetlb-unused",
    doc: "A hugetlb pool holds huge pages that no program uses, and their memory cannot be used for anything else.",
    diagnose,
};

/// Minimum share of RAM in unused huge pages, in percent, for a finding.
const WORTH_PERCENT: f64 = 1.0;
/// Share of RAM in unused huge pages, in percent, from which on the finding is a warning.
const HURTS_PERCENT: f64 = 5.0;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let host = &interval.end;
    let pools = host.hugetlb.iter().filter(|pool| pool.node.is_none());
    pools.filter_map(|pool| finding(host, pool)).collect()
}

fn finding(host: &Snapshot, pool: &HugePool) -> Option<Finding> {
    let unused = pool.free.get()?.saturating_sub(pool.reserved.get()?);
    let bytes = Bytes::new(unused.saturating_mul(pool.page_bytes.get()));
    let percent = bytes.percent_of(host.memory.total.get()?)?.get();
    if percent < WORTH_PERCENT {
        return None;
    }
    let total = pool.total.get()?;
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::part(&pool.page_bytes.to_string())),
        severity: if percent >= HURTS_PERCENT { Severity::Warning } else { Severity::Info },
        title: format!("{bytes} in the hugetlb pool of {} huge pages are unused", pool.page_bytes),
        what: format!(
            "{unused} of the pool's {} of {} are neither in use nor reserved; they take {percent:.0} % of RAM.",
            count_of(total, "huge page"),
            pool.page_bytes
        ),
        why: "When a hugetlb pool is set up, its memory is set aside: nothing but hugetlb mappings can use \
              this memory, and the kernel can neither drop nor swap it. Unused hugetlb pages are therefore \
              wasted, unless they are meant for a program that will be started later."
            .to_owned(),
        evidence: EvidenceList::new()
            .named("total", &pool.total)
            .named("free", &pool.free)
            .named("reserved", &pool.reserved)
            .named("surplus", &pool.surplus)
            .named("MemTotal", &host.memory.total)
            .into_evidence(),
        next: next(pool, total, unused),
    })
}

/// Returns commands that shrink the pool to the pages in use. Surplus pages are not considered,
/// because the kernel releases them when they are freed.
fn next(pool: &HugePool, total: u64, unused: u64) -> Vec<String> {
    let folder = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", pool.page_bytes.get() >> 10);
    let look = format!("grep . {folder}/*hugepages");
    match pool.surplus.get() {
        Some(surplus) => {
            let kept = total.saturating_sub(surplus).saturating_sub(unused);
            vec![write_command(kept, &format!("{folder}/nr_hugepages")), look]
        }
        None => vec![look],
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{assert_silent, calm, only, pool, with};

    pub(crate) fn host_with_finding() -> Interval {
        with(|host| host.hugetlb = vec![pool(1024, 800, 288)])
    }

    #[test]
    fn free_and_promised_to_nobody() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.title, "1.0 GiB in the hugetlb pool of 2.0 MiB huge pages are unused");
        assert_eq!(
            finding.what,
            "512 of the pool's 1,024 huge pages of 2.0 MiB are neither in use nor reserved; they take 6 % of RAM."
        );
        assert_eq!(finding.severity, Severity::Warning);
        let command = "echo 512 | sudo tee /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages  # writes; until the next boot";
        assert_eq!(finding.next[0], command);
    }

    #[test]
    fn a_pool_that_is_used_or_promised_is_silent() {
        assert_silent(&RULE, &with(|host| host.hugetlb = vec![pool(1024, 800, 780)]));
        assert_silent(&RULE, &with(|host| host.hugetlb = vec![pool(1024, 10, 0)]));
        assert_silent(&RULE, &calm());
    }

    #[test]
    fn nodes_are_not_counted_twice() {
        let mut interval = host_with_finding();
        let node = HugePool { node: Some(0), ..interval.end.hugetlb[0].clone() };
        interval.end.hugetlb.push(node);
        assert_eq!(only(&RULE, &interval).id, "hugetlb-unused");
    }
}
