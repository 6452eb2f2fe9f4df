// SPDX-License-Identifier: Apache-2.0 OR MIT
//! There is no zram device at all: the module is not loaded, or we are in a container.

use pagewise_model::{Capability, Evidence, FeatureState, Finding, Interval, Severity, Snapshot};

use super::{RULE, severity, swap_is_wanted, with_disk};
use crate::facts::tiers;
use crate::proof::Proof;
use crate::text::writes;

pub(super) fn reason(interval: &Interval) -> Option<Finding> {
    let host = &interval.end;
    let zram = host.capability("zram").filter(|_| swap_is_wanted(host))?;
    let finding = match zram.state {
        FeatureState::Loadable { module } => not_loaded(host, zram, module),
        FeatureState::OutsideContainer => in_container(host, zram),
        _ => return None,
    };
    (!finding.evidence.is_empty()).then_some(finding)
}

fn not_loaded(host: &Snapshot, zram: &Capability, module: &str) -> Finding {
    Finding {
        id: RULE.id,
        severity: severity(host),
        title: "zram is not loaded, and swap goes to slower places or nowhere".to_owned(),
        what: format!(
            "This kernel has the module {module} on disk and not loaded; {}.",
            instead(host)
        ),
        why: "zram keeps swapped pages compressed in RAM, commonly in a third to a half of their \
              size, and gives them back in microseconds. Nothing loads the module by itself: \
              somebody has to ask for it and set up a device."
            .to_owned(),
        evidence: evidence(host, zram),
        next: vec![
            writes(format!("sudo modprobe {module}")),
            "swapon --show=NAME,TYPE,SIZE,USED,PRIO".to_owned(),
        ],
    }
}

fn in_container(host: &Snapshot, zram: &Capability) -> Finding {
    let kind = host.host.container.value();
    let kind = kind.map_or_else(String::new, |kind| format!(" ({kind})"));
    Finding {
        id: RULE.id,
        severity: Severity::Info,
        title: "this container cannot have zram of its own".to_owned(),
        what: format!(
            "We are in a container{kind}, and swap belongs to the host outside; {}.",
            instead(host)
        ),
        why: "Swap is a setting of the whole machine: a container uses what its host has switched \
              on, up to its own limit. zram helps this container only when the host outside is \
              given a device."
            .to_owned(),
        evidence: Proof::new()
            .all(evidence(host, zram))
            .named("container", &host.host.container)
            .done(),
        next: vec!["pagewise report  # on the host outside".to_owned()],
    }
}

fn instead(host: &Snapshot) -> String {
    match tiers::on_disk(host).next() {
        Some(tier) => match tier.used.get() {
            Some(used) => format!("{} holds {used} instead", tier.path),
            None => format!("{} is used instead", tier.path),
        },
        None => "memory is short and there is no swap tier".to_owned(),
    }
}

fn evidence(host: &Snapshot, zram: &Capability) -> Vec<Evidence> {
    let proof = Proof::new().all(zram.evidence.iter().cloned());
    let proof = proof.named("some avg60", &host.psi.memory.some.avg60);
    with_disk(proof, host)
}
