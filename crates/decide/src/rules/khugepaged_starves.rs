// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: khugepaged is runnable but has to wait for a CPU.

use pagewise_model::{Change, Finding, Interval, Severity, Snapshot};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::mark_writing;

pub(super) const RULE: Rule = Rule {
    id: "khugepaged-starves",
    doc: "khugepaged waits longer for a CPU than it runs, so it creates huge pages late or not at all.",
    diagnose,
};

/// khugepaged counts as starved if it waits for a CPU for at least this share of the time, in
/// percent. On a busy machine, half of the time was measured.
const WAITING_PERCENT: f64 = 10.0;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(interval).into_iter().collect()
}

fn finding(interval: &Interval) -> Option<Finding> {
    let host = &interval.end;
    let pid = find_same_thread(interval)?;
    let wait = interval.change(|host| host.thp.khugepaged.run_queue_wait.clone())?;
    let cpu = interval.change(|host| host.thp.khugepaged.cpu_time.clone())?;
    // the kernel updates the wait time when the thread gets a CPU, so the share may exceed 100 % by
    // a tick
    let percent = (seconds(&wait) * 100.0 / wait.seconds).min(100.0);
    if percent < WAITING_PERCENT || wait.delta <= cpu.delta {
        return None;
    }
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Info,
        title: format!("khugepaged waits for a CPU {percent:.0} % of the time"),
        what: format!(
            "In {:.2} s, khugepaged ran for {:.2} s and waited for a CPU for {:.2} s.",
            wait.seconds,
            seconds(&cpu),
            seconds(&wait)
        ),
        why: "khugepaged, the kernel thread that collapses small pages of running programs into huge pages, \
              runs at the lowest ordinary priority (nice 19). On a busy machine khugepaged hardly gets CPU \
              time, so memory that did not get a huge page at its first access keeps its small pages."
            .to_owned(),
        evidence: EvidenceList::new()
            .change("run-queue wait ns", &wait)
            .change("CPU time ns", &cpu)
            .value(&host.thp.khugepaged.pages_collapsed)
            .into_evidence(),
        next: vec![
            mark_writing(format!("sudo renice -n 0 -p {pid}")),
            format!("cat /proc/{pid}/schedstat"),
        ],
    })
}

/// Returns khugepaged's pid if it is the same thread in both snapshots; the counters of a new
/// thread start at zero.
fn find_same_thread(interval: &Interval) -> Option<u32> {
    let pid = |host: &Snapshot| host.thp.khugepaged.pid.get();
    let (before, after) = (pid(interval.start.as_deref()?)?, pid(&interval.end)?);
    (before == after).then_some(after)
}

fn seconds(nanos: &Change) -> f64 {
    nanos.delta as f64 / 1e9
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{Nanos, Reading};

    use super::*;
    use crate::testing::{assert_silent, calm, file, only};

    fn ran(interval: &mut Interval, cpu_ms: u64, wait_ms: u64) {
        let thread = &mut interval.end.thp.khugepaged;
        let after = |reading: &mut Reading<Nanos>, ms: u64| {
            let before = reading.get().unwrap().get();
            *reading = file("/proc/40/schedstat", Nanos::new(before + ms * 1_000_000));
        };
        after(&mut thread.cpu_time, cpu_ms);
        after(&mut thread.run_queue_wait, wait_ms);
    }

    pub(crate) fn host_with_finding() -> Interval {
        let mut interval = calm();
        ran(&mut interval, 800, 5_400);
        interval
    }

    #[test]
    fn it_waits_longer_than_it_runs() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.title, "khugepaged waits for a CPU 54 % of the time");
        assert_eq!(
            finding.what,
            "In 10.00 s, khugepaged ran for 0.80 s and waited for a CPU for 5.40 s."
        );
        assert_eq!(finding.next[0], "sudo renice -n 0 -p 40  # writes; until the next boot");
    }

    #[test]
    fn short_waits_and_busy_times_are_silent() {
        assert_silent(&RULE, &calm());
        let mut short = calm();
        ran(&mut short, 0, 900);
        assert_silent(&RULE, &short);
        let mut busy = calm();
        ran(&mut busy, 7_000, 2_000);
        assert_silent(&RULE, &busy);
    }

    #[test]
    fn a_new_thread_counts_from_zero() {
        let mut interval = host_with_finding();
        interval.end.thp.khugepaged.pid = file("/proc/41/comm", 41);
        assert_silent(&RULE, &interval);
    }
}
