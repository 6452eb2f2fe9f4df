// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: the running settings differ from the configuration files. A setting is not in force, would
//! be lost at the next boot, or is set twice.
//!
//! [`ownership`] determines which line takes effect at boot, and whether its value is in force. If
//! a recording contains no sysctl file at all, it does not show which settings would be lost.

use pagewise_model::knob::{KnobReading, Persist, Undo};
use pagewise_model::{
    Finding, InForce, Interval, KnobOwnership, Mechanism, PersistentSetting, Severity, Snapshot,
    Subject, ownership,
};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::{count_of, mark_writing_with_caution, quoted, setting, shorten_title};

pub(super) const RULE: Rule = Rule {
    id: "settings-differ",
    doc: "The value of a kernel setting differs from the sysctl files or is in none of them, or two files set \
          different values.",
    diagnose,
};

/// Maximum number of settings named in one sentence.
const NAMED: usize = 4;
/// Settings that are usually set on the kernel command line, or by the program that needs the
/// pages.
const SET_OTHERWISE: [&str; 2] = ["vm.nr_hugepages", "vm.nr_overcommit_hugepages"];
const CONF: &str = "/etc/sysctl.conf";

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let host = &interval.end;
    let owned = ownership(host);
    [
        find_not_in_force(&owned),
        find_lost(host, &owned),
        find_set_twice(&owned),
        find_overruled(host, &owned),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A setting, and the line of a configuration file that sets another value at boot.
struct Difference<'a> {
    owned: &'a KnobOwnership,
    setting: &'a PersistentSetting,
}

impl Difference<'_> {
    fn live_value(&self) -> &str {
        self.owned.running.value().map_or("", |name| name.as_str())
    }

    fn describe(&self) -> String {
        let (live, wanted) = (self.live_value(), self.setting.wanted());
        let (name, place) = (setting(&self.owned.target), &self.setting.value.source);
        format!("{name} is {live}, but {place} sets it to {wanted}")
    }

    /// Returns the commands that put the configured value in force, and that show where it is set.
    fn next(&self) -> Vec<String> {
        let (name, wanted) = (self.owned.target.to_string(), quoted(self.setting.wanted()));
        let path = self.owned.running.source.path();
        let undo = |command| format!("until the next boot; undo with {command}");
        let live = quoted(self.live_value());
        match self.setting.mechanism {
            Mechanism::UnitProperty => {
                let unit = path.rsplit('/').nth(1).unwrap_or_default();
                let reload =
                    "permanent; undo by restoring the unit's files and repeating the command";
                return vec![
                    mark_writing_with_caution("sudo systemctl daemon-reload".to_owned(), reload),
                    format!("systemctl show {} -p MemoryMax -p MemoryHigh", quoted(unit)),
                ];
            }
            _ if name.starts_with("zram.") => return vec!["zramctl --output-all".to_owned()],
            _ => {}
        }
        let write = if path.starts_with("/proc/sys/") {
            let undo = undo(format!("sudo sysctl {name}={live}"));
            mark_writing_with_caution(format!("sudo sysctl {name}={wanted}"), &undo)
        } else {
            let undo = undo(format!("echo {live} | sudo tee {path}"));
            mark_writing_with_caution(format!("echo {wanted} | sudo tee {path}"), &undo)
        };
        let who = match self.setting.mechanism {
            Mechanism::Tuned => "tuned-adm verify",
            Mechanism::Sysctl => "systemctl status systemd-sysctl",
            Mechanism::Tmpfiles => "systemctl status systemd-tmpfiles-setup",
            _ => "pagewise report --only owners",
        };
        vec![write, who.to_owned()]
    }
}

fn find_not_in_force(owned: &[KnobOwnership]) -> Option<Finding> {
    let is_knob = |it: &&KnobOwnership| it.target.knob().is_some() && it.in_force == InForce::No;
    let differing = owned.iter().filter(is_knob);
    let differing: Vec<Difference<'_>> = differing
        .filter_map(|owned| Some(Difference { owned, setting: owned.winning_line()? }))
        .collect();
    let first = differing.first()?;
    let name = setting(&first.owned.target);
    let others = match differing.len() - 1 {
        0 => String::new(),
        1 => " (and 1 more setting like this)".to_owned(),
        more => format!(" (and {more} more settings like this)"),
    };
    let (live, wanted) = (first.live_value(), first.setting.wanted());
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Info,
        title: shorten_title(format!("{name} is {live}, but a file sets it to {wanted}{others}")),
        what: format!("{}.", join_names(differing.iter().map(Difference::describe))),
        why: explain_differences(&differing),
        evidence: differing
            .iter()
            .take(NAMED)
            .fold(EvidenceList::new(), |proof, it| {
                let name = it.owned.target.to_string();
                proof.value(&it.owned.running).named(&name, &it.setting.value)
            })
            .into_evidence(),
        next: first.next(),
    })
}

fn explain_differences(differing: &[Difference<'_>]) -> String {
    let first = differing.first().map(|it| it.setting.mechanism);
    if first == Some(Mechanism::Tuned) {
        return "tuned applies its profile when tuned starts and when an administrator selects a profile, after the \
                 sysctl files were applied. Either the value was changed later, or tuned does not run."
            .to_owned();
    }
    let in_conf = differing.iter().any(|it| it.setting.value.source.path() == CONF);
    let second = if in_conf {
        "systemd-sysctl reads /etc/sysctl.conf only through a link in /etc/sysctl.d, and Debian has no such \
         link since version 13."
    } else {
        "Either the setting was changed after its file was applied, or the file was changed and not applied; \
         at the next boot, the value in the file takes effect."
    };
    if first != Some(Mechanism::Sysctl) {
        let name = first.map_or("", Mechanism::name);
        return format!(
            "The value in the file ({name}) is applied once: at boot, or when the device or unit is set up. \
             The setting was changed after that; at the next boot, the value in the file takes effect again."
        );
    }
    format!(
        "Sysctl files are applied at boot and by sysctl --system, but not when somebody edits them. {second}"
    )
}

fn find_lost(host: &Snapshot, owned: &[KnobOwnership]) -> Option<Finding> {
    if host.configuration.sysctl_files == 0 {
        return None;
    }
    let lost: Vec<&KnobReading> =
        host.knobs.iter().filter(|reading| is_lost(owned, reading)).collect();
    let first = lost.first()?;
    let shown = lost.iter().map(|reading| {
        format!(
            "{} is {}, but its default is {}",
            reading.knob.name,
            value(reading),
            reading.default.unwrap_or("")
        )
    });
    let line = format!("{} = {}", first.knob.name, value(first));
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::part("defaults")),
        severity: Severity::Info,
        title: format!("{} in no sysctl file", describe_changed_count(lost.len())),
        what: format!("{}.", join_names(shown)),
        why: "A value that somebody set by hand is lost at the next boot, and the host then behaves \
              differently. If a service such as kubelet sets the value again at boot, nothing is lost."
            .to_owned(),
        evidence: lost
            .iter()
            .take(NAMED)
            .fold(EvidenceList::new(), |proof, it| proof.value(&it.live))
            .into_evidence(),
        next: vec![mark_writing_with_caution(
            format!("echo '{line}' | sudo tee -a /etc/sysctl.d/90-memory.conf"),
            "permanent; undo by deleting the line",
        )],
    })
}

fn value(reading: &KnobReading) -> &str {
    reading.live.value().map_or("", |name| name.as_str())
}

fn describe_changed_count(number: usize) -> String {
    match number {
        1 => "1 setting differs from its default and is".to_owned(),
        more => format!("{} differ from their defaults and are", count_of(more as u64, "setting")),
    }
}

fn is_lost(owned: &[KnobOwnership], reading: &KnobReading) -> bool {
    let knob = reading.knob;
    let is_owned = |name: &str| {
        let mut all = owned.iter().filter(|it| it.target.knob() == Some(name));
        all.any(|it| it.applied().next().is_some())
    };
    let is_pair_owned = match knob.undo {
        Undo::WriteBackNonZero { pair } => is_owned(pair),
        _ => false,
    };
    knob.persist.contains(&Persist::Sysctl)
        && !SET_OTHERWISE.contains(&knob.name)
        && reading.is_default() == Some(false)
        && !is_owned(knob.name)
        && !is_pair_owned
}

fn find_set_twice(owned: &[KnobOwnership]) -> Option<Finding> {
    let (knob, first, last) = owned.iter().find_map(|it| {
        let own: Vec<&PersistentSetting> = it.applied().filter(|it| is_sysctl(it)).collect();
        let (first, last) = (own.first()?, own.last()?);
        let disagree = own.iter().any(|one| one.wanted() != first.wanted());
        disagree.then_some((it.target.knob()?, *first, *last))
    })?;
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::part("files")),
        severity: Severity::Info,
        title: shorten_title(format!(
            "two files set {knob} to different values: {} and {}",
            first.wanted(),
            last.wanted()
        )),
        what: format!(
            "{} sets {knob} to {}, but the file {} is applied later and sets it to {}.",
            first.value.source,
            first.wanted(),
            last.value.source,
            last.wanted()
        ),
        why: "systemd-sysctl and sysctl --system apply the files of all sysctl.d folders in the order of their \
              file names; sysctl --system then applies /etc/sysctl.conf. The value that is applied last takes \
              effect, so the value in the other file is never used."
            .to_owned(),
        evidence: EvidenceList::new().named(knob, &first.value).named(knob, &last.value).into_evidence(),
        next: vec![format!("grep -n {knob} {} {}", first.value.source.path(), last.value.source.path())],
    })
}

/// Returns the finding about a file of the administrator that a TuneD profile overrides.
fn find_overruled(host: &Snapshot, owned: &[KnobOwnership]) -> Option<Finding> {
    let tuned = host.configuration.tuned.as_ref()?;
    let (knob, wins, file) = owned.iter().find_map(|it| {
        let wins = it.winning_line().filter(|wins| wins.mechanism == Mechanism::Tuned)?;
        let file = it.applied().rev().find(|file| is_sysctl(file))?;
        (file.wanted() != wins.wanted()).then_some((it.target.knob()?, wins, file))
    })?;
    let profile = tuned.profile.value()?;
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::part("tuned")),
        severity: Severity::Info,
        title: shorten_title(format!("tuned overrides the sysctl file: {knob} = {}", wins.wanted())),
        what: format!(
            "{} sets {knob} to {}, but the tuned profile {profile} ({}) is applied later and sets it to {}.",
            file.value.source,
            file.wanted(),
            wins.value.source,
            wins.wanted()
        ),
        why: "tuned applies its profile after the sysctl files, and because reapply_sysctl in \
              /etc/tuned/tuned-main.conf is off, it does not apply the sysctl files again. The value in the \
              sysctl file therefore has no effect."
            .to_owned(),
        evidence: EvidenceList::new()
            .named(knob, &file.value)
            .named(knob, &wins.value)
            .named("active profile", &tuned.profile)
            .into_evidence(),
        next: vec!["tuned-adm active".to_owned(), "grep reapply_sysctl /etc/tuned/tuned-main.conf".to_owned()],
    })
}

/// Whether a setting comes from a sysctl file of the administrator. Only such files must not
/// contradict each other; a vendor's file is meant to be overridden.
fn is_sysctl(setting: &PersistentSetting) -> bool {
    setting.mechanism == Mechanism::Sysctl && setting.is_local()
}

fn join_names(all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.collect();
    let shown = all.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    match all.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

#[cfg(test)]
#[path = "../../tests/rules/settings_differ.rs"]
pub(super) mod tests;
