// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: two programs manage the same thing: compressed swap, killing when memory is short, or
//! memory settings.
//!
//! If configuration files (including udev rules) configure the same zram device, [`ownership`]
//! finds this. Other managers are recognised by the files that enable them, and not by what is
//! running: of two programs that create zram swap, the second one fails at boot or uses the next
//! device, depending on which of them starts first.

use pagewise_model::{
    Finding, Interval, KnobOwnership, Manager, Mechanism, PersistentSetting, Purpose, Severity,
    Snapshot, Subject, ownership,
};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::mark_writing_with_caution;

pub(super) const RULE: Rule = Rule {
    id: "managers-fight",
    doc: "Two enabled services do the same job: they set up compressed swap, kill processes when memory is \
          short, or change vm settings.",
    diagnose,
};

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let purposes =
        [Purpose::CompressedSwap, Purpose::SwapFile, Purpose::OomKiller, Purpose::Settings];
    let host = &interval.end;
    let found = |purpose| match purpose {
        Purpose::CompressedSwap => find_contested_device(host).or_else(|| finding(host, purpose)),
        _ => finding(host, purpose),
    };
    purposes.into_iter().filter_map(found).collect()
}

/// Returns the finding about two mechanisms that configure the same zram device.
fn find_contested_device(host: &Snapshot) -> Option<Finding> {
    let owned = ownership(host).into_iter().find(KnobOwnership::is_contested_zram)?;
    let first = owned.applied().next()?;
    let second = owned.applied().find(|it| it.mechanism != first.mechanism)?;
    let (device, name) = (&owned.target, |it: &PersistentSetting| it.mechanism.name());
    let has_tools = owned.mechanisms().contains(&Mechanism::ZramTools);
    let disable = has_tools.then(|| {
        mark_writing_with_caution(
            "sudo systemctl disable zramswap.service".to_owned(),
            "permanent; undo with sudo systemctl enable zramswap.service",
        )
    });
    let look = "pagewise report --only owners".to_owned();
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::part(&device.to_string())),
        severity: Severity::Warning,
        title: format!("{} and {} both set up {device}", name(first), name(second)),
        what: format!(
            "{} ({}) and {} ({}) both set up {device} at boot.",
            name(first),
            first.value.source,
            name(second),
            second.value.source
        ),
        why: "The first of the two gives the device a size, and the other one then fails because the device is \
              in use. Which one comes first can differ between boots. If a swap unit depends on the one that \
              fails, the host then runs without this swap."
            .to_owned(),
        evidence: owned.applied().fold(EvidenceList::new(), |all, it| all.value(&it.value)).into_evidence(),
        next: disable.into_iter().chain([look]).collect(),
    })
}

fn finding(host: &Snapshot, purpose: Purpose) -> Option<Finding> {
    let all = host.configuration.managers.iter();
    // rpi-swap sets up a swap file, too
    let is_asked = |it: &&Manager| {
        it.purpose == purpose || purpose == Purpose::SwapFile && it.name == "rpi-swap"
    };
    let all = all.filter(|it| is_asked(it) && it.found.value().is_some());
    let all: Vec<&Manager> = all.collect();
    let [first, second, ..] = all.as_slice() else { return None };
    let (what, why, severity) = match purpose {
        Purpose::CompressedSwap => (
            "set up compressed swap",
            "Each of the two services sizes its device as if there were no other, so together they may use \
             more RAM than intended. If one of them fails instead, its configuration has no effect, and which \
             one fails can differ between boots.",
            Severity::Warning,
        ),
        Purpose::SwapFile => (
            "set up swap",
            "Each of the two services sizes its swap as if there were no other, so the host has more swap on \
             its card or disk than either file says. Raspberry Pi OS 13 replaced dphys-swapfile by rpi-swap.",
            Severity::Info,
        ),
        Purpose::OomKiller => (
            "kill processes when memory is short",
            "Each of the two services kills processes at its own thresholds, and the service whose thresholds \
             are reached earlier always kills first. The other service's rules about which processes to spare \
             therefore have no effect.",
            Severity::Info,
        ),
        Purpose::Settings => (
            "set vm settings",
            "Both services write settings such as vm.dirty_writeback_centisecs when they start, and the \
             service that starts last overwrites the values of the other. systemd also stops tuned when tlp \
             starts, and tlp when tuned starts, so which of the two runs can differ between boots.",
            Severity::Info,
        ),
    };
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::part(what)),
        severity,
        title: format!("{} and {} both {what}", first.name, second.name),
        what: format!(
            "The services {} ({}) and {} ({}) are both enabled.",
            first.name,
            first.found.source.path(),
            second.name,
            second.found.source.path()
        ),
        why: why.to_owned(),
        evidence: all
            .iter()
            .fold(EvidenceList::new(), |proof, it| proof.value(&it.found))
            .into_evidence(),
        next: next(second),
    })
}

fn next(second: &Manager) -> Vec<String> {
    let unit = second.found.source.path().rsplit('/').next().filter(|it| it.ends_with(".service"));
    let disable = unit.map(|unit| {
        mark_writing_with_caution(
            format!("sudo systemctl disable {unit}"),
            &format!("permanent; undo with sudo systemctl enable {unit}"),
        )
    });
    let look = match second.purpose {
        Purpose::Settings => "systemctl status tuned tlp laptop-mode",
        _ => "systemctl list-units '*zram*' '*swap*' '*oom*' 'nohang*'",
    };
    let look = look.to_owned();
    disable.into_iter().chain([look]).collect()
}

#[cfg(test)]
#[path = "../../tests/rules/managers_fight.rs"]
pub(super) mod tests;
