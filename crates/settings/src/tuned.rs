// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the settings of TuneD: the active profile and the profiles it includes ([`Tuned`]).
//!
//! TuneD applies settings if its service is enabled and `/etc/tuned/active_profile` names a
//! profile. If the file names none, TuneD chooses one when it starts, and no file says which.
//! Profiles in `/etc` hide those in `/usr/lib`. Sections of the plugins `sysctl`, `sysfs` and `vm`
//! are read, whatever the names of the sections are. Sections that apply only to some machines
//! (`uname_regex`, `cpuinfo_regex`) are ignored. A value that depends on the running value
//! (`>2048`) or on a function is unknown. Included profiles come first, so that the last assignment
//! takes effect. If TuneD cannot parse a line in any of the profiles, or if a profile is missing,
//! it rejects all of them.

use std::collections::BTreeMap;

use pagewise_hostfs::text::Text;
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues, Refusal};
use pagewise_model::{Effect, Mechanism, Name, PersistentSetting, Reading, Target, Tuned};

use crate::collector::Collector;
use crate::limits::{CONFIG_LINES, TUNED_PROFILES};
use crate::tuned_profile::{ProfileOption, Section, Sections, parse, parse_header, split_list};
use crate::{knob_path, modules, sysctl};

pub(crate) const UNIT: &str = "etc/systemd/system/multi-user.target.wants/tuned.service";
pub(crate) const ACTIVE: &str = "etc/tuned/active_profile";
pub(crate) const MAIN: &str = "etc/tuned/tuned-main.conf";
/// Folders that contain a folder for each TuneD profile; earlier folders take precedence. Since
/// TuneD 2.24, profiles have a parent folder of their own (`profiles`).
pub const FOLDERS: [&str; 4] =
    ["etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"];
/// Name of the file that contains a profile, in the profile's folder.
pub const FILE: &str = "tuned.conf";

/// Reads TuneD's active profile and the settings in it; `None` if TuneD is not enabled or no
/// profile is selected.
pub(crate) fn read(host: &HostRoot) -> Option<(Tuned, Vec<PersistentSetting>)> {
    if !host.exists(UNIT) {
        return None;
    }
    let text = host.text(ACTIVE).ok()?;
    let line = text.lines().next()?;
    let named: Vec<&[u8]> = line.words().collect();
    let profile = Reading::found(Name::from_bytes(&named.join(&b' ')), line.source());
    let mut profiles = Profiles { host, names: Vec::new(), texts: Vec::new(), refused: None };
    named.iter().for_each(|name| profiles.load(name));
    let mut all = Collector::new(host, Mechanism::Tuned);
    profiles.collect(&mut all);
    Some((Tuned { profile, reapplies_sysctl: does_reapply(host) }, all.finish()))
}

/// Whether sysctl files are applied again after the profile, which is the default.
fn does_reapply(host: &HostRoot) -> bool {
    let Ok(text) = host.text(MAIN) else { return true };
    let message = text.lines().take(CONFIG_LINES).filter_map(|line| {
        let (key, value) = line.split_once(b'=')?;
        (key == b"reapply_sysctl").then(|| value.to_ascii_lowercase())
    });
    message.last().is_none_or(|value| matches!(value.as_slice(), b"1" | b"yes" | b"true" | b"on"))
}

/// The profiles that are applied; a profile comes after the profiles that it includes.
struct Profiles<'h> {
    host: &'h HostRoot,
    /// Names of profiles that were read or are being read, so that circular includes end.
    names: Vec<String>,
    texts: Vec<Text>,
    /// Why TuneD applies none of the profiles.
    refused: Option<String>,
}

impl Profiles<'_> {
    /// Reads a profile, after the profiles that it includes.
    fn load(&mut self, name: &[u8]) {
        // a profile with `-` before its name may be missing
        let (name, may_be_missing) =
            name.strip_prefix(b"-").map_or((name, false), |name| (name, true));
        let Some(name) = plain_profile_name(name) else { return };
        if self.names.len() >= TUNED_PROFILES || self.names.iter().any(|known| known == name) {
            return;
        }
        self.names.push(name.to_owned());
        let paths = FOLDERS.map(|folder| format!("{folder}/{name}/{FILE}"));
        let Some(text) = paths.iter().find_map(|path| self.host.text(path).ok()) else {
            // a profile that was not collected, or that Pagewise may not read, may exist
            // nevertheless
            let is_absent = |path: &String| matches!(self.host.text(path), Err(Refusal::Absent(_)));
            if !may_be_missing && paths.iter().all(is_absent) {
                self.refuse(format!("there is no profile {name}"));
            }
            return;
        };
        let included = match parse(text.first_lines(self.host, CONFIG_LINES)) {
            Ok(sections) => list_included(&sections),
            Err(error) => {
                self.refuse(format!("{} {}", error.line.source(), error.why));
                Vec::new()
            }
        };
        included.iter().take(TUNED_PROFILES).for_each(|name| self.load(name));
        self.texts.push(text);
    }

    fn refuse(&mut self, why: String) {
        self.refused.get_or_insert(why);
    }

    /// Adds the settings of all profiles.
    fn collect(&self, all: &mut Collector<'_>) {
        let mut sections = Sections::default();
        for text in &self.texts {
            sections.add(parse(text.lines().take(CONFIG_LINES)).unwrap_or_default());
        }
        let refused = self
            .refused
            .as_ref()
            .map(|why| Effect::Ignored(format!("TuneD refuses its profile: {why}").into()));
        let boots_with_policy = self.host.bytes(modules::COMMAND_LINE).is_ok_and(|line| {
            memchr::memmem::find(&line, b"transparent_hugepage=").is_some_and(|at| at > 0)
        });
        for section in sections.applied_sections() {
            for ProfileOption { key, value, line } in &section.options {
                let expanded = sections.expand(value);
                let value = expanded.as_ref().unwrap_or(value);
                let is_of_one_line = !value.contains(&b'\n');
                let Some((targets, value)) = settings_of_option(section.plugin(), key, value)
                else {
                    continue;
                };
                let is_computed = !(is_of_one_line && is_fixed(&value));
                for target in targets {
                    let is_policy = target == Target::of_knob("thp.enabled");
                    let is_left = section.plugin() == b"vm" && is_policy && boots_with_policy;
                    let effect = match &refused {
                        Some(refused) => refused.clone(),
                        None if is_left => Effect::Ignored(KERNEL_HAS_POLICY.into()),
                        None if is_computed => Effect::Unknown(COMPUTED.into()),
                        None => Effect::Applied,
                    };
                    all.add(target, &value, line, &effect);
                }
            }
        }
    }
}

const COMPUTED: &str = "TuneD computes the value when it applies the profile";

const KERNEL_HAS_POLICY: &str =
    "TuneD leaves the policy alone that transparent_hugepage= on the kernel's command line sets";

/// Returns the name of a profile, if it is a plain folder name that cannot lead to another folder.
pub fn plain_profile_name(name: &[u8]) -> Option<&str> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let name = std::str::from_utf8(name).ok()?;
    let fits = (1..=64).contains(&name.len()) && !name.starts_with('.');
    (fits && name.bytes().all(|byte| is_plain(&byte))).then_some(name)
}

/// Parses a line such as `[sysctl]` into the name of the section that it begins.
pub fn section(line: &[u8]) -> Option<&[u8]> {
    parse_header(line.trim_ascii())
}

/// The names after `include=` in `[main]`, in order.
fn list_included(profile: &[Section<'_>]) -> Vec<Vec<u8>> {
    let main = profile.iter().find(|section| section.name == b"main");
    main.and_then(|main| main.last_value(b"include")).map(split_list).unwrap_or_default()
}

/// The parts of a profile that a recording may contain.
#[derive(Debug, Default)]
pub struct ProfileShape {
    /// Names of the sections of plugins that are read, with the plugin of each section.
    pub plugins: BTreeMap<Vec<u8>, &'static str>,
    /// Number of the first line because of which TuneD rejects the profile.
    pub unreadable: Option<u32>,
}

/// Finds the sections of a profile that set memory settings.
#[must_use]
pub fn describe_shape(profile: &[u8]) -> ProfileShape {
    let text = Text::new("", profile.to_vec());
    let sections = match parse(text.lines().take(CONFIG_LINES)) {
        Ok(sections) => sections,
        Err(error) => {
            return ProfileShape {
                unreadable: Some(error.line.number()),
                ..ProfileShape::default()
            };
        }
    };
    let plugin = |section: Section<'_>| {
        let known = PLUGINS.into_iter().find(|known| known.as_bytes() == section.plugin())?;
        (!section.is_conditional()).then_some((section.name, known))
    };
    ProfileShape { plugins: sections.into_iter().filter_map(plugin).collect(), unreadable: None }
}

/// The plugins whose sections are read here.
const PLUGINS: [&str; 3] = ["sysctl", "sysfs", "vm"];

/// Options that say how a section is merged with one of the same name. They set nothing themselves.
pub const MERGING: [&str; 4] = ["type", "enabled", "replace", "priority"];

/// Returns the value of a line `include=…` in a profile.
pub fn parse_include(line: &[u8]) -> Option<&[u8]> {
    let rest = line.trim_ascii().strip_prefix(b"include")?.trim_ascii();
    Some(rest.strip_prefix(b"=")?.trim_ascii())
}

/// Returns the settings that an option of a plugin sets, with the value; `None` if it sets none.
/// The value may be one that is computed when the profile is applied (see [`is_fixed`]).
#[must_use]
pub fn settings_of_option(
    plugin: &[u8],
    key: &[u8],
    value: &[u8],
) -> Option<(Vec<Target>, Vec<u8>)> {
    let key = std::str::from_utf8(key).ok()?;
    let value = crate::collector::fold_spaces(value);
    let (targets, value) = match plugin {
        b"sysctl" => (sysctl::targets_of(key), remove_quotes(value)),
        b"sysfs" => (knob_path::find_targets(key.trim_start_matches('/')), value),
        b"vm" => settings_of_vm_option(key, value)?,
        _ => return None,
    };
    (!targets.is_empty()).then_some((targets, value))
}

/// Returns the settings that an option of the plugin `vm` sets (`tuned/plugins/plugin_vm.py`);
/// `None` if the plugin rejects the value or has no such option.
fn settings_of_vm_option(key: &str, value: Vec<u8>) -> Option<(Vec<Target>, Vec<u8>)> {
    let percent = value.strip_suffix(b"%").map(<[u8]>::to_vec);
    let knob = match (key, &percent) {
        ("transparent_hugepages" | "transparent_hugepage", None) => {
            return matches!(value.as_slice(), b"always" | b"madvise" | b"never")
                .then(|| (vec![Target::of_knob("thp.enabled")], value));
        }
        ("transparent_hugepage.defrag", None) => "thp.defrag",
        ("dirty_bytes", Some(_)) | ("dirty_ratio", None) => "vm.dirty_ratio",
        ("dirty_bytes", None) => "vm.dirty_bytes",
        ("dirty_background_bytes", Some(_)) | ("dirty_background_ratio", None) => {
            "vm.dirty_background_ratio"
        }
        ("dirty_background_bytes", None) => "vm.dirty_background_bytes",
        _ => return None,
    };
    Some((vec![Target::of_knob(knob)], percent.unwrap_or(value)))
}

/// Returns a value without the quotation marks around it.
fn remove_quotes(value: Vec<u8>) -> Vec<u8> {
    let inner = value.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\""));
    inner.map(<[u8]>::to_vec).unwrap_or(value)
}

/// Whether a value is used as it is written, and not computed from other values.
#[must_use]
pub fn is_fixed(value: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" -+_".contains(byte);
    !value.is_empty() && value.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, mangle, show_all};

    // the profile of Debian's package 2.20.0, without comments
    const THROUGHPUT: &str = "[main]\nsummary=Broadly applicable tuning\n\n[variables]\n\
        thunderx_cpuinfo_regex=CPU part\\s+:\\s+(0x0?516)\n\n[cpu]\ngovernor=performance\n\n\
        [vm.thunderx]\ntype=vm\nuname_regex=aarch64\ntransparent_hugepages=never\n\n[disk]\n\
        readahead=>4096\n\n[sysctl]\nvm.dirty_ratio = 40\nvm.dirty_background_ratio = 10\n\
        vm.swappiness=10\nnet.core.somaxconn=>2048\n\n[sysctl.thunderx]\ntype=sysctl\n\
        kernel.numa_balancing=0\nuname_regex=aarch64\n";
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
        for (said, does_reapply) in [
            ("# reapply_sysctl = 0\n", true),
            ("reapply_sysctl = 1\n", true),
            ("reapply_sysctl=0\n", false),
            ("reapply_sysctl = False\n", false),
        ] {
            let (tuned, _) = read(&machine("virtual-guest\n", &[(MAIN, said)])).unwrap();
            assert_eq!(tuned.reapplies_sysctl, does_reapply, "{said}");
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
        let known = settings.iter().filter(|setting| setting.effect == Effect::Applied).count();
        assert_eq!((settings.len(), known), (3, 1), "{:?}", show_all(&settings));
        assert_eq!(
            (
                plain_profile_name(b"../x"),
                plain_profile_name(b".."),
                plain_profile_name(b"a/b"),
                plain_profile_name(b"")
            ),
            (None, None, None, None)
        );
    }

    /// Returns the settings of an active profile of the administrator.
    fn shown(profile: &'static str) -> Vec<String> {
        let own = [("etc/tuned/virtual-guest/tuned.conf", profile)];
        let (_, settings) = read(&machine("virtual-guest\n", &own)).unwrap();
        let short = |line: String| line.replace(" /etc/tuned/virtual-guest/tuned.conf", " ");
        show_all(&settings).into_iter().map(short).collect()
    }

    #[test]
    fn the_plugin_of_memory_takes_what_tuned_takes() {
        let text = "[vm]\ntransparent_hugepages=sometimes\ntransparent_hugepage.defrag=defer\n\
                    dirty_bytes = 10%\ndirty_background_bytes=67108864\nswappiness=10\n";
        assert_eq!(
            shown(text),
            [
                "thp.defrag defer :3",
                "vm.dirty_ratio 10 :4",
                "vm.dirty_background_bytes 67108864 :5"
            ]
        );
        let booted = [
            (modules::COMMAND_LINE, "quiet transparent_hugepage=always\n"),
            ("etc/tuned/virtual-guest/tuned.conf", "[vm]\ntransparent_hugepages=never\n"),
        ];
        let (_, settings) = read(&machine("virtual-guest\n", &booted)).unwrap();
        assert!(show_all(&settings)[0].ends_with(&format!(" ignored: {KERNEL_HAS_POLICY}")));
    }

    #[test]
    fn sections_have_any_name_and_are_merged_by_it() {
        let named = "[sysctl.db]\ntype=sysctl\nvm.swappiness=1 # low\n[sysctl.off]\ntype=sysctl\n\
                     enabled=0\nvm.dirty_ratio=1\n[variables]\nx=\"7\"\n[mine]\ntype=sysctl\n\
                     vm.dirty_background_ratio=${x}\nvm.page-cluster=${y}\n";
        assert_eq!(
            shown(named),
            [
                "vm.swappiness 1 :3".to_owned(),
                "vm.dirty_background_ratio 7 :12".to_owned(),
                format!("vm.page-cluster ${{y}} :13 unknown: {COMPUTED}"),
            ]
        );
        for (own, expected) in [
            ("replace=true\nvm.swappiness=5\n", vec!["vm.swappiness 5 :5"]),
            (
                "drop=vm.dirty_ratio, vm.swappiness\nvm.swappiness=5\n",
                vec!["vm.dirty_background_ratio 10", "vm.swappiness 5 :5"],
            ),
            ("enabled=false\n", vec![]),
        ] {
            let text = format!("[main]\ninclude=throughput-performance\n[sysctl]\n{own}");
            let own = [("etc/tuned/virtual-guest/tuned.conf", text.as_str())];
            let files = [
                (UNIT, ""),
                (ACTIVE, "virtual-guest"),
                ("usr/lib/tuned/throughput-performance/tuned.conf", THROUGHPUT),
            ];
            let (_, settings) = read(&host(files.into_iter().chain(own))).unwrap();
            let shown = show_all(&settings).join("\n");
            assert_eq!(settings.len(), expected.len(), "{text}{shown}");
            for line in expected {
                let line = line.replace(" :", " /etc/tuned/virtual-guest/tuned.conf:");
                assert!(shown.contains(&line), "{text}{shown}");
            }
        }
        let late =
            "[a]\ntype=sysctl\npriority=5\nvm.swappiness=1\n[b]\ntype=sysctl\nvm.swappiness=2\n";
        assert_eq!(shown(late), ["vm.swappiness 2 :7", "vm.swappiness 1 :4"]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test makes copied files")]
    fn a_profile_that_tuned_cannot_read_sets_nothing() {
        let good = "[sysctl]\nvm.swappiness=1\n";
        for (bad, why) in [
            ("[sysctl]\nvm.swappiness=1\n[vm]\nnonsense\n", ":4 has no name and value"),
            ("vm.swappiness=1\n[sysctl]\n", ":1 is in no section"),
            ("[sysctl]\nvm.swappiness=1\n=2\n", ":3 has no name and value"),
        ] {
            let files = [
                (UNIT, ""),
                (ACTIVE, "a b"),
                ("etc/tuned/a/tuned.conf", good),
                ("etc/tuned/b/tuned.conf", bad),
            ];
            let (_, settings) = read(&host(files)).unwrap();
            let expected =
                format!("ignored: TuneD refuses its profile: /etc/tuned/b/tuned.conf{why}");
            assert_eq!(settings.len(), 1);
            assert!(show_all(&settings)[0].ends_with(&expected), "{:?}", show_all(&settings));
        }
        let missing = |name: &'static str| {
            let text = format!("[main]\ninclude={name}\n{good}");
            let files = [(UNIT, ""), (ACTIVE, "a"), ("etc/tuned/a/tuned.conf", text.as_str())];
            show_all(&read(&host(files)).unwrap().1).remove(0)
        };
        assert!(missing("x").ends_with("TuneD refuses its profile: there is no profile x"));
        // if only some files were copied, a profile may be missing in the copy
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put(UNIT, "");
        put(ACTIVE, "a\n");
        put("etc/tuned/a/tuned.conf", &format!("[main]\ninclude=virtual-guest\n{good}"));
        let copies = HostRoot::folder(folder.path()).unwrap();
        let shown = show_all(&read(&copies).unwrap().1);
        assert_eq!(shown, ["vm.swappiness 1 /etc/tuned/a/tuned.conf:4"]);
        assert!(missing("-x").ends_with("/etc/tuned/a/tuned.conf:4"));
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
