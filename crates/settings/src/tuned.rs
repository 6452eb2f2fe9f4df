// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the settings of TuneD: the active profile and the profiles it includes ([`Tuned`]).
//!
//! TuneD applies settings if its service is enabled and `/etc/tuned/active_profile` names a
//! profile. If none is named, it chooses one when it starts, and no file says which. Profiles in
//! `/etc` hide those in `/usr/lib`. The sections `[sysctl]`, `[sysfs]` and `[vm]` are read. Ignored
//! are sections with other names, which apply only to some machines, and values that depend on the
//! running value (`>2048`) or on a variable. Included profiles come first, so that the last
//! assignment wins.

use pagewise_hostfs::text::{Line, Text, words};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues};
use pagewise_model::{Effect, Mechanism, Name, PersistentSetting, Reading, Target, Tuned};

use crate::collector::{Collector, split_assignment};
use crate::limits::{CONFIG_LINES, TUNED_PROFILES};
use crate::{knob_path, sysctl};

pub(crate) const UNIT: &str = "etc/systemd/system/multi-user.target.wants/tuned.service";
pub(crate) const ACTIVE: &str = "etc/tuned/active_profile";
pub(crate) const MAIN: &str = "etc/tuned/tuned-main.conf";
/// Folders that contain TuneD's profiles, a folder for each; earlier ones win. Since TuneD 2.24
/// they have a folder of their own.
pub const FOLDERS: [&str; 4] =
    ["etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"];
/// Name of the file that contains a profile, in the profile's folder.
pub const FILE: &str = "tuned.conf";

/// TuneD's active profile and the settings in it; `None` if TuneD is not enabled, or no profile is
/// selected.
pub(crate) fn read(host: &HostRoot) -> Option<(Tuned, Vec<PersistentSetting>)> {
    if !host.exists(UNIT) {
        return None;
    }
    let text = host.text(ACTIVE).ok()?;
    let line = text.lines().next()?;
    let named: Vec<&[u8]> = line.words().collect();
    let profile = Reading::found(Name::from_bytes(&named.join(&b' ')), line.source());
    let all = Collector::new(host, Mechanism::Tuned);
    let mut reader = Reader { host, read: Vec::new(), all };
    named.iter().for_each(|name| reader.add(name));
    Some((Tuned { profile, reapplies_sysctl: reapplies(host) }, reader.all.finish()))
}

/// Whether sysctl files are applied again after the profile, which is the default.
fn reapplies(host: &HostRoot) -> bool {
    let Ok(text) = host.text(MAIN) else { return true };
    let message = text.lines().take(CONFIG_LINES).filter_map(|line| {
        let (key, value) = line.split_once(b'=')?;
        (key == b"reapply_sysctl").then(|| value.to_ascii_lowercase())
    });
    message.last().is_none_or(|value| matches!(value.as_slice(), b"1" | b"yes" | b"true" | b"on"))
}

struct Reader<'a> {
    host: &'a HostRoot,
    /// Names of profiles that were read or are being read, so that circular includes end.
    read: Vec<String>,
    all: Collector<'a>,
}

impl Reader<'_> {
    /// Adds the settings of a profile, after those of the profiles it includes.
    fn add(&mut self, name: &[u8]) {
        let Some(name) = plain(name) else { return };
        if self.read.len() >= TUNED_PROFILES || self.read.iter().any(|known| known == name) {
            return;
        }
        self.read.push(name.to_owned());
        let paths = FOLDERS.iter().map(|folder| format!("{folder}/{name}/{FILE}"));
        let Some(text) = paths.into_iter().find_map(|path| self.host.text(&path).ok()) else {
            return;
        };
        for included in list_included(&text) {
            self.add(&included);
        }
        for (section, line) in in_sections(&text) {
            if let Some((targets, value)) = setting(&section, line.bytes) {
                let effect = Effect::Applied;
                targets.into_iter().for_each(|it| self.all.add(it, &value, &line, &effect));
            }
        }
    }
}

/// The name of a profile, if it is a plain folder name that cannot lead to another folder.
pub fn plain(name: &[u8]) -> Option<&str> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let name = std::str::from_utf8(name).ok()?;
    let fits = (1..=64).contains(&name.len()) && !name.starts_with('.');
    (fits && name.bytes().all(|byte| is_plain(&byte))).then_some(name)
}

/// Each line of a profile, with the name of the section that it is in.
fn in_sections(text: &Text) -> impl Iterator<Item = (Vec<u8>, Line<'_>)> {
    let mut current = Vec::new();
    text.lines().take(CONFIG_LINES).filter_map(move |line| {
        if let Some(name) = section(line.bytes) {
            current = name.to_vec();
            return None;
        }
        Some((current.clone(), line))
    })
}

/// Parses a line such as `[sysctl]` into the name of the section that it begins.
pub fn section(line: &[u8]) -> Option<&[u8]> {
    line.trim_ascii().strip_prefix(b"[")?.strip_suffix(b"]")
}

/// The profile names after `include=` in `[main]`, in order.
fn list_included(text: &Text) -> Vec<Vec<u8>> {
    let of_main = in_sections(text).filter(|(section, _)| section == b"main");
    let names = of_main.filter_map(|(_, line)| include(line.bytes).map(<[u8]>::to_vec));
    let names: Vec<Vec<u8>> = names.collect();
    let words = names.iter().flat_map(|names| names.split(|&byte| byte == b','));
    words.flat_map(words_of).take(TUNED_PROFILES).collect()
}

fn words_of(names: &[u8]) -> impl Iterator<Item = Vec<u8>> + use<'_> {
    words(names).map(<[u8]>::to_vec)
}

/// The value of a line `include=…` of a profile.
pub fn include(line: &[u8]) -> Option<&[u8]> {
    let rest = line.trim_ascii().strip_prefix(b"include")?.trim_ascii();
    Some(rest.strip_prefix(b"=")?.trim_ascii())
}

/// The settings and the value in a line of a profile. Only plain values: others are computed when
/// the profile is applied.
#[must_use]
pub fn setting(section: &[u8], line: &[u8]) -> Option<(Vec<Target>, Vec<u8>)> {
    let (key, value) = split_assignment(line)?;
    let key = std::str::from_utf8(key).ok()?;
    let targets = match section {
        b"sysctl" => sysctl::targets_of(key),
        b"sysfs" => knob_path::targets(key.trim_start_matches('/')),
        b"vm" => match key {
            "transparent_hugepages" | "transparent_hugepage" => {
                vec![Target::of_knob("thp.enabled")]
            }
            "transparent_hugepage.defrag" => vec![Target::of_knob("thp.defrag")],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    let value = crate::collector::fold_spaces(value);
    (!targets.is_empty() && is_fixed(&value)).then_some((targets, value))
}

fn is_fixed(value: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" -+_".contains(byte);
    !value.is_empty() && value.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, mangle, show_all};

    // as in Debian's package 2.20.0, without comments
    const THROUGHPUT: &str = "[main]\nsummary=Broadly applicable tuning\n\n[variables]\n\
        thunderx_cpuinfo_regex=CPU part\\s+:\\s+(0x0?516)\n\n[cpu]\ngovernor=performance\n\n\
        [vm.thunderx]\ntype=vm\nuname_regex=aarch64\ntransparent_hugepages=never\n\n[disk]\n\
        readahead=>4096\n\n[sysctl]\nvm.dirty_ratio = 40\nvm.dirty_background_ratio = 10\n\
        vm.swappiness=10\nnet.core.somaxconn=>2048\n\n[sysctl.thunderx]\ntype=sysctl\n\
        kernel.numa_balancing=0\n";
    const GUEST: &str = "[main]\nsummary=Optimize for running inside a virtual guest\n\
        include=throughput-performance\n\n[sysctl]\nvm.dirty_ratio = 30\n\nvm.swappiness = 30\n";

    fn machine(active: &'static str, more: &[(&'static str, &'static str)]) -> HostRoot {
        let all = [
            (UNIT, ""),
            (ACTIVE, active),
            ("usr/lib/tuned/throughput-performance/tuned.conf", THROUGHPUT),
            ("usr/lib/tuned/virtual-guest/tuned.conf", GUEST),
        ];
        host(all.into_iter().chain(more.iter().copied()))
    }

    #[test]
    fn an_included_profile_comes_first_and_the_last_assignment_wins() {
        let (tuned, settings) = read(&machine("virtual-guest\n", &[])).unwrap();
        assert_eq!(tuned.profile.value().unwrap().as_str(), "virtual-guest");
        assert_eq!(tuned.profile.source.to_string(), "/etc/tuned/active_profile:1");
        let at = |setting: &str, profile: &str, line: u32| {
            format!("{setting} /usr/lib/tuned/{profile}/tuned.conf:{line}")
        };
        assert_eq!(
            show_all(&settings),
            [
                at("vm.dirty_ratio 40", "throughput-performance", 19),
                at("vm.dirty_background_ratio 10", "throughput-performance", 20),
                at("vm.swappiness 10", "throughput-performance", 21),
                at("vm.dirty_ratio 30", "virtual-guest", 6),
                at("vm.swappiness 30", "virtual-guest", 8),
            ]
        );
        assert!(tuned.reapplies_sysctl);
    }

    #[test]
    fn a_profile_of_the_administrator_hides_that_of_the_package() {
        let text = "[vm]\ntransparent_hugepages=never\n[sysfs]\n/sys/kernel/mm/ksm/run=0\n";
        let own = [("etc/tuned/virtual-guest/tuned.conf", text)];
        let (_, settings) = read(&machine("virtual-guest\n", &own)).unwrap();
        let path = "/etc/tuned/virtual-guest/tuned.conf";
        assert_eq!(
            show_all(&settings),
            [format!("thp.enabled never {path}:2"), format!("ksm.run 0 {path}:4")]
        );
    }

    #[test]
    fn tuned_that_is_off_or_has_no_profile_sets_nothing() {
        assert!(read(&host([(ACTIVE, "virtual-guest\n")])).is_none());
        // the state after installation, before the service has chosen a profile
        assert!(read(&machine("", &[])).is_none());
        let (_, settings) = read(&machine("no-such-profile\n", &[])).unwrap();
        assert!(settings.is_empty());
    }

    #[test]
    fn files_of_sysctl_are_applied_again_unless_that_is_switched_off() {
        for (said, reapplies) in [
            ("# reapply_sysctl = 0\n", true),
            ("reapply_sysctl = 1\n", true),
            ("reapply_sysctl=0\n", false),
            ("reapply_sysctl = False\n", false),
        ] {
            let (tuned, _) = read(&machine("virtual-guest\n", &[(MAIN, said)])).unwrap();
            assert_eq!(tuned.reapplies_sysctl, reapplies, "{said}");
        }
    }

    #[test]
    fn profiles_that_include_each_other_end_and_no_name_leads_elsewhere() {
        let own = [
            (
                "etc/tuned/a/tuned.conf",
                "[main]\ninclude=b, ../../passwd,a\n[sysctl]\nvm.swappiness=1\n",
            ),
            (
                "etc/tuned/b/tuned.conf",
                "[main]\ninclude = a\n[sysctl]\nvm.swappiness=${x}\nvm.dirty_ratio=>9\n",
            ),
        ];
        let (_, settings) = read(&machine("a b\n", &own)).unwrap();
        assert_eq!(settings.len(), 1, "{:?}", show_all(&settings));
        assert_eq!(
            (plain(b"../x"), plain(b".."), plain(b"a/b"), plain(b"")),
            (None, None, None, None)
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(active in mangle("virtual-guest oracle\n"), profile in mangle(THROUGHPUT)) {
            let files = [
                (UNIT, Vec::new()),
                (ACTIVE, active),
                ("usr/lib/tuned/virtual-guest/tuned.conf", profile),
            ];
            read(&host(files));
        }
    }
}
