// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reason why a device is empty: a swap area on a disk with free space has a higher priority and
//! is filled first.

use pagewise_facts::tiers;
use pagewise_model::{Bytes, Finding, Interval, Severity, Snapshot, Tier};

use super::{Case, RULE, prove_emptiness};
use crate::grade::pressure;
use crate::text::{mark_writing, shorten_name};

pub(super) fn reason(case: Case<'_>) -> Option<Finding> {
    let host = &case.interval.end;
    let own = case.tier?.priority.get()?;
    let (disk, priority) = find_disk_filled_first(host)?;
    if priority <= own || disk.is_full()? {
        return None;
    }
    let name = case.device.name();
    let (used, size) = (disk.used.get()?, disk.size.get()?);
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: severity(case.interval, used),
        title: format!(
            "{name} is not used: its swap priority is {own}, and {} has {priority}",
            shorten_name(disk.path.as_str())
        ),
        what: format!(
            "The swap area {} has priority {priority} and still has room ({used} of {size} used). Therefore \
             {name}, with priority {own}, stores nothing.",
            disk.path
        ),
        why: "The kernel fills the swap area with the highest priority first, and the next one only when the \
              first is full. As long as a swap area on a disk has the highest priority and still has room, \
              every swapped page goes to this disk and is read back from it."
            .to_owned(),
        evidence: prove_emptiness(case)
            .named("priority", &case.tier?.priority)
            .named(&format!("{} priority", disk.path), &disk.priority)
            .named(&format!("{} used", disk.path), &disk.used)
            .named("some avg60", &host.psi.memory.some.avg60)
            .into_evidence(),
        next: next(&name, priority),
    })
}

fn find_disk_filled_first(host: &Snapshot) -> Option<(&Tier, i32)> {
    let known = tiers::on_disk(host).filter_map(|tier| Some((tier, tier.priority.get()?)));
    known.max_by_key(|&(_, priority)| priority)
}

fn severity(interval: &Interval, on_disk: Bytes) -> Severity {
    match pressure::present_severity(interval) {
        Some(_) if on_disk > Bytes::new(0) => Severity::Critical,
        _ => super::severity(interval),
    }
}

/// Returns commands that raise the priority of the device. The device is empty, so that swapoff and
/// swapon move no data.
fn next(name: &str, above: i32) -> Vec<String> {
    let look = "swapon --show=NAME,TYPE,SIZE,USED,PRIO".to_owned();
    // 32767 is the maximum priority that swapon accepts
    match above.checked_add(1).filter(|&priority| priority <= i32::from(i16::MAX)) {
        None => vec![look],
        Some(above) => {
            let priority = above.max(100);
            let command =
                format!("sudo swapoff /dev/{name} && sudo swapon -p {priority} /dev/{name}");
            vec![mark_writing(command), look]
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{Interval, TierKind};

    use super::super::tests::empty_tier;
    use super::*;
    use crate::testing::{gib, only, stall, still, tier};

    fn behind(used: Bytes, above: i32) -> Snapshot {
        let mut host = empty_tier();
        host.tiers.insert(0, tier("/swapfile", TierKind::File, used, above));
        host
    }

    pub(crate) fn host_with_finding() -> Interval {
        still(behind(gib(2), 50))
    }

    #[test]
    fn a_file_is_filled_first() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(
            finding.title,
            "zram0 is not used: its swap priority is 5, and /swapfile has 50"
        );
        assert_eq!(
            finding.what,
            "The swap area /swapfile has priority 50 and still has room (2.0 GiB of 4.0 GiB used). \
             Therefore zram0, with priority 5, stores nothing."
        );
        assert_eq!(finding.severity, Severity::Warning);
        let command = "sudo swapoff /dev/zram0 && sudo swapon -p 100 /dev/zram0  # writes; until the next boot";
        assert_eq!(finding.next[0], command);
    }

    #[test]
    fn it_is_critical_while_somebody_waits_and_a_note_while_nothing_is_swapped() {
        let mut waiting = behind(gib(2), 50);
        stall(&mut waiting.psi.memory.some, 14.0, 11.0);
        assert_eq!(only(&RULE, &still(waiting)).severity, Severity::Critical);
        let idle = behind(Bytes::new(0), 50);
        assert_eq!(only(&RULE, &still(idle)).severity, Severity::Info);
    }

    #[test]
    fn the_highest_priority_cannot_be_passed() {
        let command = &only(&RULE, &still(behind(gib(2), 32_767))).next[0];
        assert!(command.starts_with("swapon --show"), "{command}");
    }

    #[test]
    fn it_is_not_the_reason_behind_a_full_disk_or_before_one() {
        let title = |host| (RULE.diagnose)(&still(host)).pop().map(|finding| finding.title);
        let other = Some("zram0 is empty: dropping page cache has been enough so far".to_owned());
        assert_eq!(title(behind(gib(4), 50)), other);
        assert_eq!(title(behind(gib(2), 4)), other);
    }
}
