// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two programs manage the same thing: compressed swap, killing for memory, or settings of memory.
//!
//! Known by the files that switch them on, not by what runs: the second one of two makers of zram swap
//! fails at boot or takes the next device, depending on who comes first.

use pagewise_model::{Finding, Interval, Manager, Purpose, Severity, Snapshot};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::writes_and;

pub(super) const RULE: Rule = Rule {
    id: "managers-fight",
    doc: "Two enabled services do the same job: they set up compressed swap, kill processes when memory is \
          short, or change vm settings.",
    diagnose,
};

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let purposes = [Purpose::CompressedSwap, Purpose::OomKiller, Purpose::Settings];
    purposes.into_iter().filter_map(|purpose| finding(&interval.end, purpose)).collect()
}

fn finding(host: &Snapshot, purpose: Purpose) -> Option<Finding> {
    let all = host.configuration.managers.iter();
    let all = all.filter(|it| it.purpose == purpose && it.found.value().is_some());
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
        evidence: all.iter().fold(EvidenceList::new(), |proof, it| proof.value(&it.found)).done(),
        next: next(second),
    })
}

fn next(second: &Manager) -> Vec<String> {
    let unit = second.found.source.path().rsplit('/').next().filter(|it| it.ends_with(".service"));
    let disable = unit.map(|unit| {
        writes_and(
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
pub(super) mod tests {
    use pagewise_model::Name;

    use super::*;
    use crate::testing::{assert_silent, calm, file, only, with};

    fn manager(name: &'static str, purpose: Purpose, path: &str) -> Manager {
        Manager { name, purpose, found: file(path, Name::from("present")) }
    }

    fn managed(managers: Vec<Manager>) -> Interval {
        with(|host| host.configuration.managers = managers)
    }

    const GENERATOR: &str = "/usr/lib/systemd/system-generators/zram-generator";
    const WANTS: &str = "/etc/systemd/system/multi-user.target.wants";

    pub(crate) fn firing() -> Interval {
        managed(vec![
            manager("zram-generator", Purpose::CompressedSwap, GENERATOR),
            manager("zram-tools", Purpose::CompressedSwap, &format!("{WANTS}/zramswap.service")),
        ])
    }

    pub(crate) fn firing_killers() -> Interval {
        managed(vec![
            manager("systemd-oomd", Purpose::OomKiller, &format!("{WANTS}/systemd-oomd.service")),
            manager("earlyoom", Purpose::OomKiller, &format!("{WANTS}/earlyoom.service")),
        ])
    }

    #[test]
    fn two_makers_of_swap_are_a_warning_and_two_killers_are_not() {
        let finding = only(&RULE, &firing());
        assert_eq!(finding.title, "zram-generator and zram-tools both set up compressed swap");
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.next[0].starts_with("sudo systemctl disable zramswap.service  # writes;"));
        let finding = only(&RULE, &firing_killers());
        assert_eq!(
            finding.title,
            "systemd-oomd and earlyoom both kill processes when memory is short"
        );
        assert_eq!(finding.severity, Severity::Info);
    }

    pub(crate) fn firing_settings() -> Interval {
        managed(vec![
            manager("tuned", Purpose::Settings, &format!("{WANTS}/tuned.service")),
            manager("tlp", Purpose::Settings, &format!("{WANTS}/tlp.service")),
        ])
    }

    #[test]
    fn two_that_set_settings_are_worth_knowing() {
        let finding = only(&RULE, &firing_settings());
        assert_eq!(finding.title, "tuned and tlp both set vm settings");
        assert_eq!(finding.severity, Severity::Info);
        assert!(finding.next[0].starts_with("sudo systemctl disable tlp.service  # writes;"));
        assert_eq!(finding.next[1], "systemctl status tuned tlp laptop-mode");
    }

    #[test]
    fn one_of_each_is_how_it_should_be() {
        let one_each = managed(vec![
            manager("zram-generator", Purpose::CompressedSwap, GENERATOR),
            manager("earlyoom", Purpose::OomKiller, &format!("{WANTS}/earlyoom.service")),
        ]);
        assert_silent(&RULE, &one_each);
        assert_silent(&RULE, &calm());
    }
}
