// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reason why zram is not used: there is no zram device, because the module is not loaded or
//! because this is a container.

use pagewise_facts::tiers;
use pagewise_model::{Capability, Evidence, FeatureState, Finding, Interval, Severity, Snapshot};

use super::{RULE, add_disk_tiers, is_swap_wanted, severity};
use crate::proof::EvidenceList;
use crate::text::mark_writing;

pub(super) fn reason(interval: &Interval) -> Option<Finding> {
    let host = &interval.end;
    let zram = host.capability("zram").filter(|_| is_swap_wanted(interval))?;
    let finding = match zram.state {
        FeatureState::Loadable { module } => finding_not_loaded(interval, zram, module),
        FeatureState::OutsideContainer => finding_in_container(host, zram),
        _ => return None,
    };
    (!finding.evidence.is_empty()).then_some(finding)
}

fn finding_not_loaded(interval: &Interval, zram: &Capability, module: &str) -> Finding {
    let host = &interval.end;
    Finding {
        id: RULE.id,
        about: None,
        severity: severity(interval),
        title: "the zram module is not loaded, so swap is on a slower device or absent".to_owned(),
        what: format!(
            "The kernel module {module} is installed but not loaded; {}.",
            describe_swap_used_instead(host)
        ),
        why: "zram stores swapped pages compressed in RAM, usually in a third to a half of their size, and \
              reads them back within microseconds. The kernel does not load the zram module by itself: an \
              administrator or a service has to load the module and set up a device."
            .to_owned(),
        evidence: evidence(host, zram),
        next: vec![
            mark_writing(format!("sudo modprobe {module}")),
            "swapon --show=NAME,TYPE,SIZE,USED,PRIO".to_owned(),
        ],
    }
}

fn finding_in_container(host: &Snapshot, zram: &Capability) -> Finding {
    let kind = host.host.container.value();
    let kind = kind.map_or_else(String::new, |kind| format!(" ({kind})"));
    Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Info,
        title: "this container cannot have its own zram device".to_owned(),
        what: format!(
            "Pagewise runs in a container{kind}, and a container uses the swap of its host; {}.",
            describe_swap_used_instead(host)
        ),
        why: "Swap is set up for the whole machine, and a container can use it up to the limit of its cgroup. \
              zram therefore helps this container only if the host uses a zram device as swap."
            .to_owned(),
        evidence: EvidenceList::new()
            .all(evidence(host, zram))
            .named("container", &host.host.container)
            .into_evidence(),
        next: vec!["pagewise report  # on the host of the container".to_owned()],
    }
}

fn describe_swap_used_instead(host: &Snapshot) -> String {
    match tiers::on_disk(host).next() {
        Some(tier) => match tier.used.get() {
            Some(used) => format!("instead, {used} of swapped pages are in {}", tier.path),
            None => format!("instead, {} is used as swap", tier.path),
        },
        None => "memory is short and there is no swap".to_owned(),
    }
}

fn evidence(host: &Snapshot, zram: &Capability) -> Vec<Evidence> {
    let proof = EvidenceList::new().all(zram.evidence.iter().cloned());
    let proof = proof.named("some avg60", &host.psi.memory.some.avg60);
    add_disk_tiers(proof, host)
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::TierKind;

    use super::*;
    use crate::testing::{assert_silent, capability, gib, host, only, still, tier, word};

    fn no_device(state: FeatureState) -> Snapshot {
        let mut host = host();
        host.zram.clear();
        host.tiers = vec![tier("/swapfile", TierKind::File, gib(1), -2)];
        capability(&mut host, state);
        host
    }

    pub(crate) fn host_with_finding() -> Interval {
        still(no_device(FeatureState::Loadable { module: "zram" }))
    }

    pub(crate) fn host_with_in_container_finding() -> Interval {
        let mut host = no_device(FeatureState::OutsideContainer);
        host.host.container = word("/run/systemd/container", "docker");
        still(host)
    }

    #[test]
    fn a_module_on_disk_while_swap_goes_to_a_file() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(
            finding.what,
            "The kernel module zram is installed but not loaded; instead, 1.0 GiB of swapped pages are in /swapfile."
        );
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.next[0], "sudo modprobe zram  # writes; until the next boot");
    }

    #[test]
    fn nobody_wants_swap_or_the_kernel_has_none() {
        let mut no_swap = no_device(FeatureState::Loadable { module: "zram" });
        no_swap.tiers.clear();
        assert_silent(&RULE, &still(no_swap));
        let not_built = no_device(FeatureState::NotBuilt { option: "CONFIG_ZRAM" });
        assert_silent(&RULE, &still(not_built));
    }

    #[test]
    fn a_container_is_told_to_ask_outside() {
        let finding = only(&RULE, &host_with_in_container_finding());
        assert!(
            finding.what.starts_with("Pagewise runs in a container (docker), and a container uses")
        );
        assert_eq!(finding.severity, Severity::Info);
        let mut no_swap = no_device(FeatureState::OutsideContainer);
        no_swap.tiers.clear();
        assert_silent(&RULE, &still(no_swap));
    }
}
