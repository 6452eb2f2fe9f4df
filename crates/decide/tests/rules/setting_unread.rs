// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rule `setting-unread` on made-up hosts.

use pagewise_model::{Name, Target};

use super::*;
use crate::testing::{assert_silent, calm, line, only, with};

const GENERATOR: &str = "/etc/systemd/zram-generator.conf";

fn unread(mechanism: Mechanism, path: &str, why: &'static str) -> PersistentSetting {
    let value = line(path, 3, Name::from("180"));
    let target = Target::of_knob("vm.swappiness");
    PersistentSetting {
        effect: Effect::Ignored(why.into()),
        ..PersistentSetting::applied(mechanism, target, value)
    }
}

fn host_with(settings: Vec<PersistentSetting>) -> Interval {
    with(|host| host.configuration.settings = settings)
}

pub(crate) fn host_with_finding() -> Interval {
    host_with(vec![unread(
        Mechanism::Sysctl,
        "/etc/sysctl.d/99-swap",
        "its name does not end in .conf",
    )])
}

pub(crate) fn host_with_conf_finding() -> Interval {
    host_with(vec![unread(Mechanism::Sysctl, "/etc/sysctl.conf", "systemd does not read it")])
}

#[test]
fn a_line_that_nothing_reads_is_named_with_the_reason() {
    let finding = only(&RULE, &host_with_finding());
    assert_eq!(finding.title, "nothing reads vm.swappiness in /etc/sysctl.d/99-swap");
    assert_eq!(
        finding.what,
        "/etc/sysctl.d/99-swap:3 sets vm.swappiness to 180, but its name does not end in .conf; it is 60 \
         now."
    );
    assert!(
        finding.next[0]
            .starts_with("sudo mv /etc/sysctl.d/99-swap /etc/sysctl.d/99-swap.conf  # writes")
    );
    assert!(
        only(&RULE, &host_with_conf_finding()).next[0].starts_with("sudo ln -s ../sysctl.conf")
    );
    let why = "zram-generator is not installed";
    let many = vec![unread(Mechanism::ZramGenerator, GENERATOR, why); 3];
    let finding = only(&RULE, &host_with(many));
    assert!(finding.what.ends_with("; 2 more lines are not read either."), "{}", finding.what);
    assert_eq!(finding.next, ["pagewise report --only owners"]);
}

#[test]
fn what_packages_hide_and_what_is_set_anyway_is_no_finding() {
    let vendor = unread(Mechanism::Sysctl, "/usr/lib/sysctl.d/50.conf", "hidden");
    assert_silent(&RULE, &host_with(vec![vendor]));
    let value = line("/etc/sysctl.d/90.conf", 1, Name::from("180"));
    let same =
        PersistentSetting::applied(Mechanism::Sysctl, Target::of_knob("vm.swappiness"), value);
    let conf = unread(Mechanism::Sysctl, "/etc/sysctl.conf", "not read");
    let mut interval = host_with(vec![same, conf]);
    interval.end.knobs.clear();
    assert_silent(&RULE, &interval);
    assert_silent(&RULE, &calm());
}
