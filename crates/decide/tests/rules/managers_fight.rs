// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rule `managers-fight` on made-up hosts.

use pagewise_model::{Name, Target};

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

pub(crate) fn host_with_finding() -> Interval {
    managed(vec![
        manager("zram-generator", Purpose::CompressedSwap, GENERATOR),
        manager("zram-tools", Purpose::CompressedSwap, &format!("{WANTS}/zramswap.service")),
    ])
}

pub(crate) fn host_with_killers_finding() -> Interval {
    managed(vec![
        manager("systemd-oomd", Purpose::OomKiller, &format!("{WANTS}/systemd-oomd.service")),
        manager("earlyoom", Purpose::OomKiller, &format!("{WANTS}/earlyoom.service")),
    ])
}

#[test]
fn two_makers_of_swap_are_a_warning_and_two_killers_are_not() {
    let finding = only(&RULE, &host_with_finding());
    assert_eq!(finding.title, "zram-generator and zram-tools both set up compressed swap");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.next[0].starts_with("sudo systemctl disable zramswap.service  # writes;"));
    let finding = only(&RULE, &host_with_killers_finding());
    assert_eq!(finding.title, "systemd-oomd and earlyoom both kill processes when memory is short");
    assert_eq!(finding.severity, Severity::Info);
}

pub(crate) fn host_with_settings_finding() -> Interval {
    managed(vec![
        manager("tuned", Purpose::Settings, &format!("{WANTS}/tuned.service")),
        manager("tlp", Purpose::Settings, &format!("{WANTS}/tlp.service")),
    ])
}

#[test]
fn two_that_set_settings_are_worth_knowing() {
    let finding = only(&RULE, &host_with_settings_finding());
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

/// A udev rule and zram-generator configure the same device.
pub(crate) fn host_with_device_finding() -> Interval {
    with(|host| {
        let device = || Target::ZramDevice(Name::from("zram0"));
        let owner = |mechanism, path, value| {
            let value = crate::testing::line(path, 3, Name::from(value));
            PersistentSetting::applied(mechanism, device(), value)
        };
        let generator = "/etc/systemd/zram-generator.conf";
        host.configuration.settings = vec![
            owner(Mechanism::Udev, "/etc/udev/rules.d/99-zram.rules", "4G"),
            owner(Mechanism::ZramGenerator, generator, "set up"),
        ];
    })
}

#[test]
fn two_that_set_up_one_device_are_named_with_their_lines() {
    let finding = only(&RULE, &host_with_device_finding());
    assert_eq!(finding.title, "udev rule and zram-generator both set up zram0");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(
        finding.what.contains("udev rule (/etc/udev/rules.d/99-zram.rules:3)"),
        "{}",
        finding.what
    );
    let mut apart = host_with_device_finding();
    apart.end.configuration.settings[0].target = Target::ZramDevice(Name::from("zram1"));
    assert_silent(&RULE, &apart);
}

#[test]
fn the_old_and_the_new_program_of_raspberry_pi_os_are_two() {
    let new = manager("rpi-swap", Purpose::CompressedSwap, "/usr/lib/rpi-swap-generator");
    let path = format!("{WANTS}/dphys-swapfile.service");
    let old = manager("dphys-swapfile", Purpose::SwapFile, &path);
    let finding = only(&RULE, &managed(vec![new.clone(), old.clone()]));
    assert_eq!(finding.title, "rpi-swap and dphys-swapfile both set up swap");
    assert!(finding.next[0].starts_with("sudo systemctl disable dphys-swapfile.service"));
    assert_silent(&RULE, &managed(vec![new]));
    assert_silent(&RULE, &managed(vec![old]));
}
