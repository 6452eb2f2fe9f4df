// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rule `settings-differ` on made-up hosts.

use pagewise_model::{Name, Target, Tuned};

use super::*;
use crate::testing::{assert_silent, calm, knob, line, only, with};

fn file(host: &mut Snapshot, path: &str, knob: &'static str, value: &str) {
    let value = line(path, 3, Name::from(value));
    let target = Target::of_knob(knob);
    let setting = PersistentSetting::applied(Mechanism::Sysctl, target, value);
    host.configuration.settings.push(setting);
    host.configuration.sysctl_files += 1;
}

pub(crate) fn host_with_finding() -> Interval {
    with(|host| file(host, "/etc/sysctl.d/90-swap.conf", "vm.swappiness", "180"))
}

pub(crate) fn host_with_lost_finding() -> Interval {
    with(|host| {
        knob(host, "vm.dirty_ratio", "40");
        host.configuration.sysctl_files = 2;
    })
}

pub(crate) fn host_with_twice_finding() -> Interval {
    with(|host| {
        file(host, "/etc/sysctl.d/10-bob.conf", "vm.swappiness", "10");
        file(host, "/etc/sysctl.d/90-swap.conf", "vm.swappiness", "60");
    })
}

/// tuned with a profile that sets this swappiness.
fn tuned(host: &mut Snapshot, value: &str, reapplies_sysctl: bool) {
    let path = "/usr/lib/tuned/virtual-guest/tuned.conf";
    let value = line(path, 22, Name::from(value));
    host.configuration.tuned = Some(Tuned {
        profile: line("/etc/tuned/active_profile", 1, Name::from("virtual-guest")),
        reapplies_sysctl,
    });
    let target = Target::of_knob("vm.swappiness");
    let setting = PersistentSetting::applied(Mechanism::Tuned, target, value);
    host.configuration.settings.push(setting);
}

pub(crate) fn host_with_tuned_finding() -> Interval {
    with(|host| tuned(host, "30", true))
}

pub(crate) fn host_with_tuned_over_a_file_finding() -> Interval {
    with(|host| {
        tuned(host, "60", false);
        file(host, "/etc/sysctl.d/90-swap.conf", "vm.swappiness", "180");
    })
}

#[test]
fn the_profile_of_tuned_is_a_wish_like_a_file() {
    let finding = only(&RULE, &host_with_tuned_finding());
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
    let finding = only(&RULE, &host_with_tuned_over_a_file_finding());
    assert_eq!(finding.title, "tuned overrides the sysctl file: vm.swappiness = 60");
    assert!(finding.what.contains("the tuned profile virtual-guest ("), "{}", finding.what);
    // sysctl files are applied again, so the file wins and its value is expected to run
    let with_file = |path: &str| {
        with(|host| {
            tuned(host, "30", true);
            file(host, path, "vm.swappiness", "60");
        })
    };
    assert_silent(&RULE, &with_file("/etc/sysctl.d/90-swap.conf"));
    // a vendor's file is not applied again
    let vendor = only(&RULE, &with_file("/usr/lib/sysctl.d/10-vendor.conf"));
    assert_eq!(vendor.title, "vm.swappiness is 60, but a file sets it to 30");
}

#[test]
fn a_file_that_is_not_in_force_is_named_with_its_line() {
    let finding = only(&RULE, &host_with_finding());
    assert_eq!(finding.title, "vm.swappiness is 60, but a file sets it to 180");
    assert_eq!(
        finding.what,
        "vm.swappiness is 60, but /etc/sysctl.d/90-swap.conf:3 sets it to \
                              180."
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
    let finding = only(&RULE, &host_with_lost_finding());
    assert_eq!(finding.title, "1 setting differs from its default and is in no sysctl file");
    assert_eq!(finding.what, "vm.dirty_ratio is 40, but its default is 20.");
    let mut unknown = host_with_lost_finding();
    unknown.end.configuration.sysctl_files = 0;
    assert_silent(&RULE, &unknown);
}

#[test]
fn two_files_of_the_administrator_that_disagree() {
    let finding = only(&RULE, &host_with_twice_finding());
    assert_eq!(finding.title, "two files set vm.swappiness to different values: 10 and 60");
    let vendor = with(|host| {
        file(host, "/usr/lib/sysctl.d/10.conf", "vm.swappiness", "10");
        file(host, "/etc/sysctl.d/90-swap.conf", "vm.swappiness", "60");
    });
    assert_silent(&RULE, &vendor);
    assert_silent(&RULE, &calm());
}
