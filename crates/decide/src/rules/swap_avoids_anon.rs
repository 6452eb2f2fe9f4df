// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: swap is off or swappiness is 0, while page cache that was just dropped is refaulted.
//!
//! Swappiness 1 by itself does not prevent swapping: in measurements it behaves like 60. It is
//! reported only if file pages were refaulted over the interval and not a single page was swapped
//! out.

use pagewise_facts::reclaim::{self, Rereading};
use pagewise_facts::settings::{self, Setting};
use pagewise_facts::tiers;
use pagewise_model::{Evidence, FeatureState, Finding, Interval, Severity, Snapshot};

use crate::Rule;
use crate::grade::pressure;
use crate::proof::EvidenceList;
use crate::text::{count, mark_writing};

pub(super) const RULE: Rule = Rule {
    id: "swap-avoids-anon",
    doc: "Swap is off or vm.swappiness is very low, so the kernel drops file pages that programs soon have to \
          read again.",
    diagnose,
};

enum Avoids<'a> {
    SwapOff,
    Swappiness(Setting<'a>),
}

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(interval).into_iter().collect()
}

fn finding(interval: &Interval) -> Option<Finding> {
    let host = &interval.end;
    let rereading = reclaim::find_rereading(interval)?;
    let avoids = find_avoidance(interval)?;
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: pressure::present_severity(interval).unwrap_or(Severity::Warning),
        title: "files are read again right after the kernel dropped them from memory".to_owned(),
        what: describe(&avoids, &rereading, host),
        why: why(&avoids),
        evidence: proof(&avoids, &rereading, host),
        next: next(&avoids, host),
    })
}

fn find_avoidance(interval: &Interval) -> Option<Avoids<'_>> {
    let host = &interval.end;
    if tiers::is_swap_off(host) {
        return Some(Avoids::SwapOff);
    }
    let swappiness = settings::number(host, "vm.swappiness")?;
    let swapped_nothing = || interval.vmstat("pswpout").is_some_and(|change| change.delta == 0);
    let avoids = match swappiness.value {
        0 => true,
        1 => swapped_nothing(),
        _ => false,
    };
    avoids.then_some(Avoids::Swappiness(swappiness))
}

fn describe(avoids: &Avoids<'_>, rereading: &Rereading, host: &Snapshot) -> String {
    let state = match avoids {
        Avoids::SwapOff => "swap is off".to_owned(),
        Avoids::Swappiness(swappiness) => format!("vm.swappiness is {}", swappiness.value),
    };
    let refaults = &rereading.refaults;
    format!(
        "In {:.1} s, programs read back {} pages ({}/s) that the kernel had just dropped ({}), and {} page \
         faults had to wait for a disk (major faults). On this host, {state}.",
        refaults.change.seconds,
        count(refaults.change.delta),
        rereading.bytes_per_second(host),
        refaults.name,
        count(rereading.major_faults.delta),
    )
}

fn why(avoids: &Avoids<'_>) -> String {
    let removed = match avoids {
        Avoids::SwapOff => "Without swap",
        Avoids::Swappiness(_) => "With a vm.swappiness this low",
    };
    format!(
        "When memory runs short, the kernel can drop file pages, which include the code of running programs, \
         or swap out anonymous pages. {removed}, anonymous pages stay in RAM even if no program uses them, so \
         the kernel drops file pages that programs use and soon have to read from disk again."
    )
}

fn proof(avoids: &Avoids<'_>, rereading: &Rereading, host: &Snapshot) -> Vec<Evidence> {
    let proof = EvidenceList::new()
        .change(rereading.refaults.name, &rereading.refaults.change)
        .change(rereading.dropped.name, &rereading.dropped.change)
        .change("pgmajfault", &rereading.major_faults);
    match avoids {
        Avoids::SwapOff => proof.named("SwapTotal", &host.memory.swap_total),
        Avoids::Swappiness(swappiness) => proof.value(swappiness.live),
    }
    .into_evidence()
}

fn next(avoids: &Avoids<'_>, host: &Snapshot) -> Vec<String> {
    let change = match avoids {
        Avoids::Swappiness(_) => mark_writing("sudo sysctl vm.swappiness=60"),
        Avoids::SwapOff if is_zram_loadable(host) => mark_writing("sudo modprobe zram"),
        Avoids::SwapOff => "lsblk --output NAME,SIZE,ROTA,FSTYPE,MOUNTPOINT".to_owned(),
    };
    vec![change, "grep -E 'refault|pgmajfault' /proc/vmstat".to_owned()]
}

fn is_zram_loadable(host: &Snapshot) -> bool {
    host.capability("zram")
        .is_some_and(|zram| matches!(zram.state, FeatureState::Loadable { module: "zram" }))
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::Bytes;

    use super::*;
    use crate::testing::{
        assert_silent, calm, grow, line, only, proof_of, swappiness, unset, with,
    };

    fn rereading(mut interval: Interval) -> Interval {
        grow(&mut interval, "workingset_refault_file", 78_112);
        grow(&mut interval, "pgsteal_file", 78_000);
        grow(&mut interval, "pgmajfault", 700);
        interval
    }

    fn swap_off(host: &mut Snapshot) {
        host.tiers.clear();
        host.memory.swap_total = line("/proc/meminfo", 15, Bytes::new(0));
    }

    pub(crate) fn host_with_finding() -> Interval {
        rereading(with(|host| swappiness(host, "0")))
    }

    pub(crate) fn host_with_without_swap_finding() -> Interval {
        rereading(with(swap_off))
    }

    #[test]
    fn swappiness_0_while_files_come_back() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(
            finding.what,
            "In 10.0 s, programs read back 78,112 pages (30.5 MiB/s) that the kernel had just dropped \
             (workingset_refault_file), and 700 page faults had to wait for a disk (major faults). On this \
             host, vm.swappiness is 0."
        );
        assert!(proof_of(&finding).contains("/proc/sys/vm/swappiness = 0"));
        assert_eq!(finding.next[0], "sudo sysctl vm.swappiness=60  # writes; until the next boot");
    }

    #[test]
    fn swap_off_while_files_come_back() {
        let finding = only(&RULE, &host_with_without_swap_finding());
        assert!(finding.what.ends_with("swap is off."), "{}", finding.what);
        assert!(finding.why.contains("anonymous pages stay in RAM"));
    }

    #[test]
    fn pages_dropped_long_ago_say_nothing_about_today() {
        let dropping = |pages| {
            let mut interval = with(swap_off);
            grow(&mut interval, "workingset_refault_file", 80_000);
            grow(&mut interval, "pgsteal_file", pages);
            grow(&mut interval, "pgmajfault", 700);
            interval
        };
        assert_silent(&RULE, &dropping(0));
        assert_silent(&RULE, &dropping(19_999));
        assert_eq!(only(&RULE, &dropping(20_000)).id, "swap-avoids-anon");
    }

    #[test]
    fn older_kernels_count_all_refaults_in_one() {
        let mut interval = rereading(with(|host| {
            swap_off(host);
            unset(host, "workingset_refault_file");
        }));
        for host in interval.start.as_deref_mut().into_iter().chain([&mut interval.end]) {
            unset(host, "workingset_refault_file");
            unset(host, "pgsteal_file");
        }
        grow(&mut interval, "workingset_refault", 2_000);
        grow(&mut interval, "pgsteal_kswapd", 1_500);
        assert!(only(&RULE, &interval).what.starts_with("In 10.0 s, programs read back 2,000"));
    }

    #[test]
    fn swappiness_1_counts_only_where_nothing_was_swapped() {
        let mut interval = rereading(with(|host| swappiness(host, "1")));
        assert_eq!(only(&RULE, &interval).id, "swap-avoids-anon");
        grow(&mut interval, "pswpout", 1);
        assert_silent(&RULE, &interval);
    }

    #[test]
    fn no_swap_is_fine_where_nothing_comes_back_or_nobody_waits() {
        assert_silent(&RULE, &with(swap_off));
        let mut nobody_waits = with(swap_off);
        grow(&mut nobody_waits, "workingset_refault_file", 78_112);
        assert_silent(&RULE, &nobody_waits);
        assert_silent(&RULE, &rereading(calm()));
    }
}
