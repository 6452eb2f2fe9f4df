// SPDX-License-Identifier: Apache-2.0 OR MIT
//! khugepaged wants to work and waits for a CPU.

use pagewise_model::{Change, Finding, Interval, Severity, Snapshot};

use crate::Rule;
use crate::proof::Proof;
use crate::text::writes;

pub(super) const RULE: Rule = Rule {
    id: "khugepaged-starves",
    doc: "khugepaged waits longer for a CPU than it runs: huge pages come late or not at all.",
    look,
};

/// Waiting a tenth of the time or more: measured on a busy machine, it was half.
const WAITING_PERCENT: f64 = 10.0;

fn look(interval: &Interval) -> Vec<Finding> {
    finding(interval).into_iter().collect()
}

fn finding(interval: &Interval) -> Option<Finding> {
    let host = &interval.end;
    let pid = same_thread(interval)?;
    let wait = interval.change(|host| host.thp.khugepaged.run_queue_wait.clone())?;
    let cpu = interval.change(|host| host.thp.khugepaged.cpu_time.clone())?;
    let percent = seconds(&wait) * 100.0 / wait.seconds;
    if percent < WAITING_PERCENT || wait.delta <= cpu.delta {
        return None;
    }
    Some(Finding {
        id: RULE.id,
        severity: Severity::Info,
        title: format!("khugepaged waits for a CPU {percent:.0} % of the time"),
        what: format!(
            "In {:.1} s it ran {:.2} s and waited {:.2} s to run.",
            wait.seconds,
            seconds(&cpu),
            seconds(&wait)
        ),
        why: "khugepaged turns small pages into huge ones afterwards, and it runs at the lowest \
              ordinary priority (nice 19). On a busy machine it hardly gets a CPU, so memory that \
              missed its huge page at the first touch never gets one."
            .to_owned(),
        evidence: Proof::new()
            .change("run-queue wait ns", &wait)
            .change("CPU time ns", &cpu)
            .value(&host.thp.khugepaged.pages_collapsed)
            .done(),
        next: vec![
            writes(format!("sudo renice -n 0 -p {pid}")),
            format!("cat /proc/{pid}/schedstat"),
        ],
    })
}

/// Its process id, where it is the same thread at both ends: a new one counts from zero.
fn same_thread(interval: &Interval) -> Option<u32> {
    let pid = |host: &Snapshot| host.thp.khugepaged.pid.get();
    let (before, after) = (pid(interval.start.as_deref()?)?, pid(&interval.end)?);
    (before == after).then_some(after)
}

fn seconds(nanos: &Change) -> f64 {
    nanos.delta as f64 / 1e9
}
