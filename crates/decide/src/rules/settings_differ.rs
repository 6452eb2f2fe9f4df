// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What runs is not what sysctl's files say: a setting is not in force, would be lost at the next
//! boot, or is set twice.
//!
//! `vm.min_free_kbytes` may be larger than a file says, because khugepaged raises it. Of a pair like
//! `vm.dirty_ratio` and `vm.dirty_bytes` the one that does not rule reads 0. A recording without any
//! file of sysctl says nothing about what would be lost.
//!
//! tuned, where it is switched on, applies its profile after sysctl's files, and then those of the
//! administrator again unless `reapply_sysctl` is 0.

use std::collections::{BTreeMap, BTreeSet};

use pagewise_model::knob::{KnobReading, Persist, Undo};
use pagewise_model::{Configuration, Finding, Interval, PersistentSetting, Severity, Snapshot};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::{counted, quoted, writes_and};

pub(super) const RULE: Rule = Rule {
    id: "settings-differ",
    doc: "The value of a kernel setting differs from the sysctl files or is in none of them, or two files set \
          different values.",
    diagnose,
};

/// Settings named in one sentence.
const NAMED: usize = 4;
/// Set at boot by the kernel's command line, or by whoever needs them.
const SET_OTHERWISE: [&str; 2] = ["vm.nr_hugepages", "vm.nr_overcommit_hugepages"];
const CONF: &str = "/etc/sysctl.conf";

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let host = &interval.end;
    [not_in_force(host), lost(host), set_twice(host), overruled(host)]
        .into_iter()
        .flatten()
        .collect()
}

/// A setting as it is and as a file wants it.
struct Difference<'a> {
    running: &'a KnobReading,
    setting: &'a PersistentSetting,
}

impl Difference<'_> {
    fn shown(&self) -> String {
        let (live, wanted) = (value(self.running), wanted_value(self.setting));
        format!(
            "{} is {live}, but {} sets it to {wanted}",
            self.running.knob.name, self.setting.value.source
        )
    }
}

fn value(reading: &KnobReading) -> &str {
    reading.live.value().map_or("", |name| name.as_str())
}

fn wanted_value(setting: &PersistentSetting) -> &str {
    setting.value.value().map_or("", |name| name.as_str())
}

fn not_in_force(host: &Snapshot) -> Option<Finding> {
    let files = &host.configuration;
    let of_tuned = files.tuned.iter().flat_map(|tuned| &tuned.settings);
    let knobs: BTreeSet<&str> =
        files.sysctl.iter().chain(of_tuned).map(|setting| setting.knob).collect();
    let differing = knobs.into_iter().filter_map(|knob| {
        let requested = files.wanted(knob)?;
        let running = host.knob(requested.knob)?;
        differs(&host.configuration, running, requested)
            .then_some(Difference { running, setting: requested })
    });
    let differing: Vec<Difference<'_>> = differing.collect();
    let first = differing.first()?;
    let name = first.running.knob.name;
    let others = match differing.len() - 1 {
        0 => String::new(),
        more => format!("; {more} more settings differ"),
    };
    let (live, wanted) = (value(first.running), wanted_value(first.setting));
    let back = format!("until the next boot; undo with sudo sysctl {name}={}", quoted(live));
    Some(Finding {
        id: RULE.id,
        severity: Severity::Info,
        title: short(format!("{name} is {live}, but a file sets it to {wanted}{others}")),
        what: format!("{}.", named(differing.iter().map(Difference::shown))),
        why: why_not(&differing),
        evidence: differing
            .iter()
            .take(NAMED)
            .fold(EvidenceList::new(), |proof, it| {
                proof.value(&it.running.live).named(it.setting.knob, &it.setting.value)
            })
            .done(),
        next: vec![
            writes_and(format!("sudo sysctl {name}={}", quoted(wanted)), &back),
            if is_of_tuned(first.setting) {
                "tuned-adm verify".to_owned()
            } else {
                "systemctl status systemd-sysctl".to_owned()
            },
        ],
    })
}

/// Whether a profile of tuned sets it.
fn is_of_tuned(setting: &PersistentSetting) -> bool {
    setting.value.source.path().ends_with("/tuned.conf")
}

fn why_not(differing: &[Difference<'_>]) -> String {
    if differing.first().is_some_and(|it| is_of_tuned(it.setting)) {
        return "tuned applies its profile when tuned starts and when an administrator selects a profile, after \
                the sysctl files were applied. Either the value was changed later, or tuned does not run."
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
    format!(
        "Sysctl files are applied at boot and by sysctl --system, but not when somebody edits them. {second}"
    )
}

/// Whether the running value is another than the file's, and nothing explains it.
fn differs(files: &Configuration, running: &KnobReading, wanted: &PersistentSetting) -> bool {
    let (Some(live), Some(wish)) = (running.live.value(), wanted.value.value()) else {
        return false;
    };
    let (live, wish) = (live.as_str(), wish.as_str());
    if same(live, wish) || live == "0" && has_partner(files, running) {
        return false;
    }
    let raised = live.parse::<u64>().ok().zip(wish.parse::<u64>().ok());
    !(running.knob.name == "vm.min_free_kbytes" && raised.is_some_and(|(live, wish)| live > wish))
}

/// Numbers are compared as numbers: a file may say 0010.
fn same(live: &str, wish: &str) -> bool {
    let word = |word: &str| word.parse::<i64>().map_or_else(|_| word.to_owned(), |n| n.to_string());
    live.split_whitespace().map(word).eq(wish.split_whitespace().map(word))
}

/// Whether a file sets the setting that excludes this one.
fn has_partner(files: &Configuration, running: &KnobReading) -> bool {
    match running.knob.undo {
        Undo::WriteBackNonZero { pair } => files.wanted(pair).is_some(),
        _ => false,
    }
}

fn lost(host: &Snapshot) -> Option<Finding> {
    if host.configuration.sysctl_files == 0 {
        return None;
    }
    let lost: Vec<&KnobReading> =
        host.knobs.iter().filter(|reading| is_lost(&host.configuration, reading)).collect();
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
        severity: Severity::Info,
        title: format!("{} in no sysctl file", counted_changed(lost.len())),
        what: format!("{}.", named(shown)),
        why: "A value that somebody set by hand is lost at the next boot, and the host then behaves \
              differently. If a service such as kubelet sets the value again at boot, nothing is lost."
            .to_owned(),
        evidence: lost
            .iter()
            .take(NAMED)
            .fold(EvidenceList::new(), |proof, it| proof.value(&it.live))
            .done(),
        next: vec![writes_and(
            format!("echo '{line}' | sudo tee -a /etc/sysctl.d/90-memory.conf"),
            "permanent; undo by deleting the line",
        )],
    })
}

fn counted_changed(number: usize) -> String {
    match number {
        1 => "1 setting differs from its default and is".to_owned(),
        more => format!("{} differ from their defaults and are", counted(more as u64, "setting")),
    }
}

fn is_lost(files: &Configuration, reading: &KnobReading) -> bool {
    let (Some(live), Some(default)) = (reading.live.value(), reading.default) else { return false };
    let knob = reading.knob;
    knob.persist.contains(&Persist::Sysctl)
        && !SET_OTHERWISE.contains(&knob.name)
        && !same(live.as_str(), default)
        && files.wanted(knob.name).is_none()
        && !has_partner(files, reading)
}

fn set_twice(host: &Snapshot) -> Option<Finding> {
    let own = host.configuration.sysctl.iter().filter(|setting| is_administrators(setting));
    let mut by_knob: BTreeMap<&str, Vec<&PersistentSetting>> = BTreeMap::new();
    own.for_each(|setting| by_knob.entry(setting.knob).or_default().push(setting));
    let disagree = |all: &Vec<&PersistentSetting>| {
        all.iter().any(|one| !same(wanted_value(one), wanted_value(all[0])))
    };
    let (knob, all) = by_knob.into_iter().find(|(_, all)| disagree(all))?;
    let (first, last) = (all[0], all[all.len() - 1]);
    Some(Finding {
        id: RULE.id,
        severity: Severity::Info,
        title: short(format!(
            "two files set {knob} to different values: {} and {}",
            wanted_value(first),
            wanted_value(last)
        )),
        what: format!(
            "{} sets {knob} to {}, but the file {} is applied later and sets it to {}.",
            first.value.source,
            wanted_value(first),
            last.value.source,
            wanted_value(last)
        ),
        why: "systemd-sysctl and sysctl --system apply the files of all sysctl.d folders in the order of their \
              file names; sysctl --system then applies /etc/sysctl.conf. The value that is applied last takes \
              effect, so the value in the other file is never used."
            .to_owned(),
        evidence: EvidenceList::new().named(knob, &first.value).named(knob, &last.value).done(),
        next: vec![format!("grep -n {knob} {} {}", first.value.source.path(), last.value.source.path())],
    })
}

/// A file of the administrator that a profile of tuned overrules.
fn overruled(host: &Snapshot) -> Option<Finding> {
    let tuned = host.configuration.tuned.as_ref()?;
    let mut pairs = tuned.settings.iter().rev().filter_map(|setting| {
        let file = host.configuration.last(setting.knob).filter(|file| is_administrators(file))?;
        let wins = host.configuration.wanted(setting.knob)?;
        wins.value.value()?;
        (is_of_tuned(wins) && !same(wanted_value(wins), wanted_value(file))).then_some((wins, file))
    });
    let (wins, file) = pairs.next()?;
    let (knob, profile) = (wins.knob, tuned.profile.value()?);
    Some(Finding {
        id: RULE.id,
        severity: Severity::Info,
        title: short(format!("tuned overrides the sysctl file: {knob} = {}", wanted_value(wins))),
        what: format!(
            "{} sets {knob} to {}, but the tuned profile {profile} ({}) is applied later and sets it to {}.",
            file.value.source,
            wanted_value(file),
            wins.value.source,
            wanted_value(wins)
        ),
        why: "tuned applies its profile after the sysctl files, and because reapply_sysctl in \
              /etc/tuned/tuned-main.conf is off, it does not apply the sysctl files again. The value in the \
              sysctl file therefore has no effect."
            .to_owned(),
        evidence: EvidenceList::new()
            .named(knob, &file.value)
            .named(knob, &wins.value)
            .named("active profile", &tuned.profile)
            .done(),
        next: vec!["tuned-adm active".to_owned(), "grep reapply_sysctl /etc/tuned/tuned-main.conf".to_owned()],
    })
}

/// Only these have to agree: a vendor's file is meant to be overruled.
fn is_administrators(setting: &PersistentSetting) -> bool {
    let path = setting.value.source.path();
    setting.value.value().is_some() && (path.starts_with("/etc/") || path.starts_with("/run/"))
}

fn named(all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.collect();
    let shown = all.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    match all.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// Values may be lists of numbers.
fn short(title: String) -> String {
    const COLUMNS: usize = 80;
    if title.chars().count() <= COLUMNS {
        return title;
    }
    let kept: String = title.chars().take(COLUMNS - 1).collect();
    format!("{kept}…")
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{Name, Tuned};

    use super::*;
    use crate::testing::{assert_silent, calm, knob, line, only, with};

    fn file(host: &mut Snapshot, path: &str, knob: &'static str, value: &str) {
        let value = line(path, 3, Name::from(value));
        host.configuration.sysctl.push(PersistentSetting { knob, value });
        host.configuration.sysctl_files += 1;
    }

    pub(crate) fn firing() -> Interval {
        with(|host| file(host, "/etc/sysctl.d/90-swap.conf", "vm.swappiness", "180"))
    }

    pub(crate) fn firing_lost() -> Interval {
        with(|host| {
            knob(host, "vm.dirty_ratio", "40");
            host.configuration.sysctl_files = 2;
        })
    }

    pub(crate) fn firing_twice() -> Interval {
        with(|host| {
            file(host, "/etc/sysctl.d/10-bob.conf", "vm.swappiness", "10");
            file(host, "/etc/sysctl.d/90-swap.conf", "vm.swappiness", "60");
        })
    }

    /// tuned with a profile that wants so much swappiness.
    fn tuned(host: &mut Snapshot, value: &str, reapplies_sysctl: bool) {
        let path = "/usr/lib/tuned/virtual-guest/tuned.conf";
        let value = line(path, 22, Name::from(value));
        host.configuration.tuned = Some(Tuned {
            profile: line("/etc/tuned/active_profile", 1, Name::from("virtual-guest")),
            settings: vec![PersistentSetting { knob: "vm.swappiness", value }],
            reapplies_sysctl,
        });
    }

    pub(crate) fn firing_tuned() -> Interval {
        with(|host| tuned(host, "30", true))
    }

    pub(crate) fn firing_tuned_over_a_file() -> Interval {
        with(|host| {
            tuned(host, "60", false);
            file(host, "/etc/sysctl.d/90-swap.conf", "vm.swappiness", "180");
        })
    }

    #[test]
    fn the_profile_of_tuned_is_a_wish_like_a_file() {
        let finding = only(&RULE, &firing_tuned());
        assert_eq!(finding.title, "vm.swappiness is 60, but a file sets it to 30");
        assert!(finding.what.contains("/usr/lib/tuned/virtual-guest/tuned.conf:22 sets it to 30"));
        assert!(finding.why.starts_with("tuned applies its profile when"), "{}", finding.why);
        assert_eq!(finding.next[1], "tuned-adm verify");
        assert_silent(&RULE, &with(|host| tuned(host, "60", true)));
    }

    #[test]
    fn what_tuned_sets_is_not_lost() {
        let set_by_tuned = with(|host| {
            knob(host, "vm.swappiness", "30");
            host.configuration.sysctl_files = 2;
            tuned(host, "30", true);
        });
        assert_silent(&RULE, &set_by_tuned);
    }

    #[test]
    fn who_wins_depends_on_whether_tuned_applies_files_again() {
        let finding = only(&RULE, &firing_tuned_over_a_file());
        assert_eq!(finding.title, "tuned overrides the sysctl file: vm.swappiness = 60");
        assert!(finding.what.contains("the tuned profile virtual-guest ("), "{}", finding.what);
        // applied again, the file wins, and then it is what has to run
        let with_file = |path: &str| {
            with(|host| {
                tuned(host, "30", true);
                file(host, path, "vm.swappiness", "60");
            })
        };
        assert_silent(&RULE, &with_file("/etc/sysctl.d/90-swap.conf"));
        // a file of the vendor is not applied again
        let vendor = only(&RULE, &with_file("/usr/lib/sysctl.d/10-vendor.conf"));
        assert_eq!(vendor.title, "vm.swappiness is 60, but a file sets it to 30");
    }

    #[test]
    fn a_file_that_is_not_in_force_is_named_with_its_line() {
        let finding = only(&RULE, &firing());
        assert_eq!(finding.title, "vm.swappiness is 60, but a file sets it to 180");
        assert_eq!(
            finding.what,
            "vm.swappiness is 60, but /etc/sysctl.d/90-swap.conf:3 sets it to 180."
        );
        let silent = with(|host| file(host, "/etc/sysctl.d/90.conf", "vm.swappiness", "060"));
        assert_silent(&RULE, &silent);
    }

    #[test]
    fn the_file_that_systemd_does_not_read_is_explained() {
        let interval = with(|host| file(host, CONF, "vm.swappiness", "1"));
        assert!(only(&RULE, &interval).why.contains("only through a link"));
    }

    #[test]
    fn what_the_kernel_changes_by_itself_is_no_difference() {
        let raised = |live| {
            with(|host| {
                knob(host, "vm.min_free_kbytes", live);
                file(host, "/etc/sysctl.d/90.conf", "vm.min_free_kbytes", "16384");
            })
        };
        assert_silent(&RULE, &raised("67584"));
        assert_eq!((RULE.diagnose)(&raised("9000")).len(), 1);
        let pair = with(|host| {
            knob(host, "vm.dirty_ratio", "0");
            knob(host, "vm.dirty_bytes", "268435456");
            file(host, "/etc/sysctl.d/10.conf", "vm.dirty_ratio", "10");
            file(host, "/etc/sysctl.d/90.conf", "vm.dirty_bytes", "268435456");
        });
        assert_silent(&RULE, &pair);
    }

    #[test]
    fn what_no_file_sets_is_lost_where_files_are_known() {
        let finding = only(&RULE, &firing_lost());
        assert_eq!(finding.title, "1 setting differs from its default and is in no sysctl file");
        assert_eq!(finding.what, "vm.dirty_ratio is 40, but its default is 20.");
        let mut unknown = firing_lost();
        unknown.end.configuration.sysctl_files = 0;
        assert_silent(&RULE, &unknown);
    }

    #[test]
    fn two_files_of_the_administrator_that_disagree() {
        let finding = only(&RULE, &firing_twice());
        assert_eq!(finding.title, "two files set vm.swappiness to different values: 10 and 60");
        let vendor = with(|host| {
            file(host, "/usr/lib/sysctl.d/10.conf", "vm.swappiness", "10");
            file(host, "/etc/sysctl.d/90-swap.conf", "vm.swappiness", "60");
        });
        assert_silent(&RULE, &vendor);
        assert_silent(&RULE, &calm());
    }
}
