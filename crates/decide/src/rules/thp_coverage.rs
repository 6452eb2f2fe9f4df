// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: huge pages were requested but not allocated.
//!
//! Only in two cases is it known who requested huge pages. With `always`, every process requests
//! them unless it opts out, so the coverage of every process whose smaps was read can be judged.
//! Under any policy, a page fault that fell back to small pages (`thp_fault_fallback`) was a
//! request. With `madvise`, the kernel does not show for which memory huge pages were requested, so
//! low coverage alone proves nothing.
//!
//! Only PMD-sized huge pages are counted: the kernel's `AnonHugePages` does not include other
//! sizes.

use pagewise_model::{Bytes, Finding, Interval, Millis, Process, Severity, Snapshot};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::{count, shorten_name, trigger_command, write_command};

pub(super) const RULE: Rule = Rule {
    id: "thp-coverage",
    doc: "Memory that may use transparent huge pages consists mostly of small pages.",
    diagnose,
};

/// A process has lost most of the benefit of huge pages if less than this share of its anonymous
/// memory, in percent, is in huge pages.
const LOW_PERCENT: f64 = 50.0;
/// Minimum size of a process for a finding; the TLB covers most of the memory of smaller processes
/// anyway.
const LARGE: Bytes = Bytes::new(256 << 20);
/// With fewer requests for huge pages than this, their success rate says nothing.
const REQUESTS: u64 = 100;
/// Maximum number of processes listed as evidence.
const NAMED: usize = 3;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    find_low_processes(&interval.end).or_else(|| find_failed_faults(interval)).into_iter().collect()
}

/// A large process, with the share of its memory that is in huge pages.
struct Covered<'a> {
    process: &'a Process,
    anon: Bytes,
    huge: Bytes,
    percent: f64,
}

fn find_low_processes(host: &Snapshot) -> Option<Finding> {
    host.thp.enabled.value().filter(|choice| choice.active.as_str() == "always")?;
    let mut low: Vec<Covered<'_>> = host.processes.list.iter().filter_map(low_coverage).collect();
    low.sort_by_key(|covered| std::cmp::Reverse(covered.anon));
    let worst = low.first()?;
    let name = shorten_name(worst.process.name.as_str());
    let others = match low.len() {
        1 => String::new(),
        2 => {
            "; another large process also has less than half of its anonymous memory in huge pages"
                .to_owned()
        }
        more => format!(
            "; {} other large processes also have less than half of their anonymous memory in huge pages",
            more - 1
        ),
    };
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Info,
        title: format!(
            "{name} has only {:.0} % of its memory in huge pages",
            worst.percent
        ),
        what: format!(
            "{name} (pid {}) has {} of its {} of anonymous memory in huge pages, although THP is set to \
             always{others}.",
            worst.process.pid, worst.huge, worst.anon
        ),
        why:
            "Memory gets a huge page at its first access if a free block of that size exists; otherwise it \
              gets small pages, which khugepaged collapses later, but slowly. When a process writes to a \
              huge page after a fork, copy-on-write replaces this page by small pages. A database that saves \
              snapshots in a child process can therefore lose nearly all of its huge pages."
                .to_owned(),
        evidence: low.iter().take(NAMED).fold(proof(host), process_proof).into_evidence(),
        next: next(host, worst),
    })
}

/// Returns commands that make khugepaged scan faster, unless it scans that fast already.
fn next(host: &Snapshot, worst: &Covered<'_>) -> Vec<String> {
    const SLEEP: Millis = Millis::new(1000);
    let slow = host.thp.khugepaged.scan_sleep.get().is_none_or(|sleep| sleep > SLEEP);
    let faster = slow.then(|| write_command(SLEEP.get(), SLEEP_FILE));
    let look = format!("grep AnonHugePages /proc/{}/smaps_rollup", worst.process.pid);
    faster.into_iter().chain([look]).collect()
}

const SLEEP_FILE: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs";

fn low_coverage(process: &Process) -> Option<Covered<'_>> {
    let (anon, huge) = (process.rss_anon.get()?, process.anon_huge.get()?);
    let percent = huge.percent_of(anon)?.get();
    let allowed = process.thp_allowed.get() != Some(false);
    let low = allowed && anon >= LARGE && percent < LOW_PERCENT;
    low.then_some(Covered { process, anon, huge, percent })
}

fn proof(host: &Snapshot) -> EvidenceList {
    EvidenceList::new()
        .value(&host.thp.enabled)
        .named("AnonHugePages", &host.memory.anon_huge_pages)
        .named("AnonPages", &host.memory.anon_pages)
}

fn process_proof(proof: EvidenceList, covered: &Covered<'_>) -> EvidenceList {
    proof
        .named("AnonHugePages", &covered.process.anon_huge)
        .named("RssAnon", &covered.process.rss_anon)
}

/// Requests for a huge page at page faults: how many succeeded, and how many fell back to small
/// pages.
struct Requests {
    given: u64,
    fallen_back: u64,
    over: String,
    proof: EvidenceList,
}

fn find_failed_faults(interval: &Interval) -> Option<Finding> {
    let host = &interval.end;
    let requests = recent_requests(interval).or_else(|| requests_since_boot(host))?;
    let all = requests.given.saturating_add(requests.fallen_back);
    let percent = requests.fallen_back as f64 * 100.0 / all as f64;
    if percent < LOW_PERCENT {
        return None;
    }
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Info,
        title: format!("{percent:.0} % of the page faults that requested a huge page got a small page"),
        what: format!(
            "Of {} page faults that requested a huge page {}, {} got a small page instead.",
            count(all),
            requests.over,
            count(requests.fallen_back)
        ),
        why: "A huge page needs a free contiguous block at the moment of the page fault; the setting \
              transparent_hugepage/defrag determines how hard the kernel tries to create one. Memory that got \
              small pages keeps them until khugepaged collapses them into huge pages."
            .to_owned(),
        evidence: requests
            .proof
            .value(&host.thp.enabled)
            .value(&host.thp.defrag)
            .named("AnonHugePages", &host.memory.anon_huge_pages)
            .into_evidence(),
        next: vec![
            trigger_command(1, "/proc/sys/vm/compact_memory"),
            "grep -E 'thp_fault|compact_(stall|fail|success)' /proc/vmstat".to_owned(),
        ],
    })
}

fn recent_requests(interval: &Interval) -> Option<Requests> {
    let given = interval.vmstat("thp_fault_alloc")?;
    let fallen_back = interval.vmstat("thp_fault_fallback")?;
    keep_if_enough(Requests {
        given: given.delta,
        fallen_back: fallen_back.delta,
        over: format!("in {:.1} s", given.seconds),
        proof: EvidenceList::new()
            .change("thp_fault_alloc", &given)
            .change("thp_fault_fallback", &fallen_back),
    })
}

fn requests_since_boot(host: &Snapshot) -> Option<Requests> {
    let given = host.vmstat.get("thp_fault_alloc");
    let fallen_back = host.vmstat.get("thp_fault_fallback");
    keep_if_enough(Requests {
        given: given.get()?,
        fallen_back: fallen_back.get()?,
        over: "since boot".to_owned(),
        proof: EvidenceList::new()
            .named("thp_fault_alloc", &given)
            .named("thp_fault_fallback", &fallen_back),
    })
}

fn keep_if_enough(requests: Requests) -> Option<Requests> {
    (requests.given.saturating_add(requests.fallen_back) >= REQUESTS).then_some(requests)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{
        assert_silent, calm, choice, file, gib, grow, line, mib, only, process, proof_of, set_knob,
        with,
    };

    fn always(host: &mut Snapshot) {
        host.thp.enabled = choice("/sys/kernel/mm/transparent_hugepage/enabled", "always");
    }

    pub(crate) fn host_with_finding() -> Interval {
        with(|host| {
            always(host);
            host.processes.list = vec![
                process("small", mib(100), mib(0)),
                process("redis-server", gib(14), mib(600)),
            ];
        })
    }

    pub(crate) fn host_with_on_faults_finding() -> Interval {
        let mut interval = calm();
        grow(&mut interval, "thp_fault_alloc", 100);
        grow(&mut interval, "thp_fault_fallback", 900);
        interval
    }

    #[test]
    fn a_khugepaged_that_is_fast_already_is_not_slowed_down() {
        let offered = |millis| {
            let mut interval = host_with_finding();
            interval.end.thp.khugepaged.scan_sleep = file(SLEEP_FILE, Millis::new(millis));
            only(&RULE, &interval).next.first().unwrap().contains("scan_sleep")
        };
        assert!(offered(10_000) && !offered(1000) && !offered(0));
    }

    #[test]
    fn a_large_process_under_always() {
        let finding = only(&RULE, &host_with_finding());
        let title = "redis-server has only 4 % of its memory in huge pages";
        assert_eq!(finding.title, title);
        assert_eq!(
            finding.what,
            "redis-server (pid 4121) has 600.0 MiB of its 14.0 GiB of anonymous memory in huge pages, although \
             THP is set to always."
        );
        assert!(
            proof_of(&finding).contains("/proc/4121/smaps_rollup:12 = AnonHugePages 600.0 MiB")
        );
    }

    #[test]
    fn who_asked_is_unknown_under_madvise_and_a_process_may_refuse() {
        let mut madvise = host_with_finding();
        madvise.end.thp.enabled = choice("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
        assert_silent(&RULE, &madvise);
        let mut refused = host_with_finding();
        refused.end.processes.list[1].thp_allowed = line("/proc/4121/status", 30, false);
        assert_silent(&RULE, &refused);
        assert_silent(&RULE, &with(always));
    }

    #[test]
    fn faults_that_fell_back_did_ask() {
        let finding = only(&RULE, &host_with_on_faults_finding());
        let what = "Of 1,000 page faults that requested a huge page in 10.0 s, 900 got a small page instead.";
        assert_eq!(finding.what, what);
        let since_boot = with(|host| set_knob(host, "thp_fault_fallback", 9_000));
        let what = only(&RULE, &since_boot).what;
        assert!(
            what.starts_with("Of 9,900 page faults that requested a huge page since boot, "),
            "{what}"
        );
    }

    #[test]
    fn recent_faults_count_before_old_ones() {
        let mut better = with(|host| set_knob(host, "thp_fault_fallback", 9_000));
        grow(&mut better, "thp_fault_alloc", 500);
        assert_silent(&RULE, &better);
    }
}
