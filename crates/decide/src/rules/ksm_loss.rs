// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: KSM is running and uses more memory than it saves.
//!
//! The kernel keeps a record of 64 bytes for each scanned page, and saves a page for each merged
//! page. With pages of 4 KiB, KSM therefore loses memory if fewer than one in 64 pages is merged.

use pagewise_facts::ksm::{profit, tracked_pages};
use pagewise_model::{Bytes, Evidence, Finding, Interval, Ksm, Severity, Snapshot};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::{count, write_command_with_undo};

pub(super) const RULE: Rule = Rule {
    id: "ksm-loss",
    doc: "KSM (kernel same-page merging) is on, but the records that it keeps of pages take more memory than \
          merging saves.",
    diagnose,
};

/// Number of full scans before KSM is judged. A page is merged in its second scan at the earliest,
/// so that every host shows a loss before.
const SETTLED_SCANS: u64 = 2;
/// Minimum loss in bytes for a finding: the size of the kernel's records for 64 MiB of memory.
const WORTH: Bytes = Bytes::new(1 << 20);

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(&interval.end).into_iter().collect()
}

fn finding(host: &Snapshot) -> Option<Finding> {
    let ksm = &host.ksm;
    let runs = ksm.run.get()? == 1 && ksm.full_scans.get()? >= SETTLED_SCANS;
    let loss = loss(ksm, host.page_size()).filter(|&loss| runs && loss >= WORTH)?;
    let (merged, tracked) = (ksm.pages_sharing.get()?, tracked_pages(ksm)?);
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Warning,
        title: format!("KSM uses {loss} more memory than it saves"),
        what: format!(
            "After {} full scans of mergeable memory, merging saves {} pages, but KSM keeps a record for each \
             of {} pages.",
            count(ksm.full_scans.get()?),
            count(merged.get()),
            count(tracked.get())
        ),
        why: "The kernel keeps a record of 64 bytes for each page that KSM scans, so merging saves memory only if \
              KSM can merge more than one page in 64. In addition, scanning takes CPU time as long as KSM is on."
            .to_owned(),
        evidence: proof(ksm),
        next: next(ksm),
    })
}

/// Returns how many bytes KSM uses more than it saves; `None` if KSM saves memory or if the values
/// are unknown.
fn loss(ksm: &Ksm, page: Bytes) -> Option<Bytes> {
    u64::try_from(-i128::from(profit(ksm, page)?)).ok().map(Bytes::new)
}

fn proof(ksm: &Ksm) -> Vec<Evidence> {
    EvidenceList::new()
        .named("run", &ksm.run)
        .named("full_scans", &ksm.full_scans)
        .named("general_profit", &ksm.general_profit_bytes)
        .named("pages_sharing", &ksm.pages_sharing)
        .named("pages_unshared", &ksm.pages_unshared)
        .named("pages_volatile", &ksm.pages_volatile)
        .into_evidence()
}

fn next(ksm: &Ksm) -> Vec<String> {
    let each = ksm.general_profit_bytes.get();
    let each = each.map(|_| "grep -H ksm_process_profit /proc/[0-9]*/ksm_stat".to_owned());
    let caution = "until the next boot; merged pages stay merged";
    let stop = write_command_with_undo(0, 1, "/sys/kernel/mm/ksm/run", caution);
    let off = "systemctl status ksmtuned ksm  # services that switch KSM on".to_owned();
    [Some(stop), each, Some(off)].into_iter().flatten().collect()
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::Pages;

    use super::*;
    use crate::testing::{assert_silent, calm, erase, file, only, with};

    fn ksm(sharing: u64, unshared: u64, profit: i64) -> Interval {
        let at = |name: &str| format!("/sys/kernel/mm/ksm/{name}");
        with(|host| {
            host.ksm.run = file(&at("run"), 1);
            host.ksm.full_scans = file(&at("full_scans"), 12);
            host.ksm.pages_shared = file(&at("pages_shared"), Pages::new(sharing / 2));
            host.ksm.pages_sharing = file(&at("pages_sharing"), Pages::new(sharing));
            host.ksm.pages_unshared = file(&at("pages_unshared"), Pages::new(unshared));
            host.ksm.general_profit_bytes = file(&at("general_profit"), profit);
        })
    }

    pub(crate) fn host_with_finding() -> Interval {
        ksm(100, 500_000, 100 * 4096 - 500_150 * 64)
    }

    #[test]
    fn a_loss_is_told_with_its_size() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.title, "KSM uses 30.1 MiB more memory than it saves");
        assert!(finding.next[0].starts_with("echo 0 | sudo tee /sys/kernel/mm/ksm/run  # writes;"));
    }

    #[test]
    fn kernels_without_the_figure_are_judged_by_the_same_formula() {
        let mut interval = host_with_finding();
        erase(&mut interval.end.ksm.general_profit_bytes);
        assert_eq!(only(&RULE, &interval).title, "KSM uses 30.1 MiB more memory than it saves");
        let mut gain = ksm(50_000, 500_000, 0);
        erase(&mut gain.end.ksm.general_profit_bytes);
        assert_silent(&RULE, &gain);
    }

    #[test]
    fn a_gain_a_first_scan_and_a_stopped_ksm_are_silent() {
        assert_silent(&RULE, &calm());
        assert_silent(&RULE, &ksm(50_000, 500_000, 170_000_000));
        assert_silent(&RULE, &ksm(0, 1000, -64_000));
        let mut interval = host_with_finding();
        interval.end.ksm.full_scans = file("/sys/kernel/mm/ksm/full_scans", 1);
        assert_silent(&RULE, &interval);
        let mut interval = host_with_finding();
        interval.end.ksm.run = file("/sys/kernel/mm/ksm/run", 0);
        assert_silent(&RULE, &interval);
    }
}
