// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads options of kernel modules in `modprobe.d`, modules to load in `modules-load.d`, and the
//! kernel's command line.

use pagewise_hostfs::HostRoot;
use pagewise_hostfs::text::{Line, words};
use pagewise_model::{Effect, Mechanism, Name, PersistentSetting, Target};

use crate::collector::Collector;
use crate::conf_files::{list_in_order, systemd_folders};
use crate::{knob_path, sysctl};

/// Path of the file that contains the kernel's command line.
pub const COMMAND_LINE: &str = "proc/cmdline";
const MEBIBYTE_SIZES: [(char, u64); 3] = [('K', 1), ('M', 1 << 10), ('G', 1 << 20)];

/// Kernel modules whose options concern memory.
pub const MODULES: [&str; 6] =
    ["zram", "zswap", "damon_reclaim", "damon_lru_sort", "damon_stat", "page_reporting"];
/// The modules among [`MODULES`] that are always built in, so that modprobe does not apply options
/// to them.
const BUILT_IN: [&str; 5] =
    ["zswap", "damon_reclaim", "damon_lru_sort", "damon_stat", "page_reporting"];

pub(crate) fn read(host: &HostRoot) -> Vec<PersistentSetting> {
    let mut loaded = Collector::new(host, Mechanism::ModulesLoad);
    for file in list_in_order(host, &systemd_folders("modules-load.d"), ".conf") {
        let effect = file.effect();
        loaded.lines(&file.path, |all, line| {
            if let Some(module) = parse_loaded_module(line.bytes) {
                let target = Target::Parameter(Name::from(format!("module {module}").as_str()));
                all.add(target, b"loaded", line, &effect);
            }
        });
    }
    let mut options = Collector::new(host, Mechanism::Modprobe);
    for file in list_in_order(host, &systemd_folders("modprobe.d"), ".conf") {
        let effect = file.effect();
        options.lines(&file.path, |all, line| add_options(all, line, &effect));
    }
    let mut all = loaded.finish();
    all.extend(options.finish());
    all.extend(command_line(host));
    all
}

/// The module that a line of `modules-load.d` loads, if it is one of [`MODULES`].
#[must_use]
pub fn parse_loaded_module(line: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(line.trim_ascii()).ok()?;
    MODULES.contains(&name).then_some(name)
}

/// Parses a line of `modprobe.d` such as `options zram num_devices=2` into the module and its
/// options.
#[must_use]
pub fn parse_options(line: &[u8]) -> Option<(&'static str, Vec<(String, String)>)> {
    let mut words = words(line);
    if words.next()? != b"options" {
        return None;
    }
    let name = std::str::from_utf8(words.next()?).ok()?.replace('-', "_");
    let module = MODULES.into_iter().find(|module| *module == name)?;
    let pairs = words.filter_map(|word| {
        let (key, value) = std::str::from_utf8(word).ok()?.split_once('=')?;
        Some((key.replace('-', "_"), value.trim_matches('"').to_owned()))
    });
    Some((module, pairs.take(64).collect()))
}

/// Whether a module has a parameter of this name. Only known names may go into a recording, because
/// they reveal nothing about the host.
#[must_use]
pub fn is_parameter(module: &str, key: &str) -> bool {
    key == "num_devices" || matches!(target_of_parameter(module, key), Target::Knob { .. })
}

fn add_options(all: &mut Collector<'_>, line: &Line<'_>, effect: &Effect) {
    let Some((module, pairs)) = parse_options(line.bytes) else { return };
    let why = "it is built into the kernel, and modprobe passes options to modules only";
    let built_in = Effect::Ignored(why.into());
    let is_built_in = BUILT_IN.contains(&module) && *effect == Effect::Applied;
    let effect = if is_built_in { &built_in } else { effect };
    for (key, value) in pairs {
        all.add(target_of_parameter(module, &key), value.as_bytes(), line, effect);
    }
}

/// Returns the target of a module's parameter: a setting of the table, or a parameter that is not
/// in the table.
fn target_of_parameter(module: &str, key: &str) -> Target {
    let path = format!("sys/module/{module}/parameters/{key}");
    let known = knob_path::find_targets(&path).into_iter().next();
    known.unwrap_or_else(|| Target::Parameter(Name::from(format!("{module}.{key}").as_str())))
}

fn command_line(host: &HostRoot) -> Vec<PersistentSetting> {
    let mut all = Collector::new(host, Mechanism::CommandLine);
    all.lines(COMMAND_LINE, |all, line| {
        let mut page_size = None;
        for word in words(line.bytes) {
            let Ok(word) = std::str::from_utf8(word) else { continue };
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "hugepagesz" => page_size = Some(value),
                "hugepages" => {
                    all.add(pool_of_size(page_size), value.as_bytes(), line, &Effect::Applied);
                }
                _ => {
                    for (target, value) in parse_parameter(key, value) {
                        all.add(target, value.as_bytes(), line, &Effect::Applied);
                    }
                }
            }
        }
    });
    all.finish()
}

/// Returns the hugetlb pool whose size `hugepages=` sets: the one for the `hugepagesz=` before it,
/// or the one of the default size.
fn pool_of_size(page_size: Option<&str>) -> Target {
    match page_size.and_then(kernel_size) {
        Some(size) => Target::instance_of("hugetlb.nr_hugepages", &size),
        None => Target::of_knob("vm.nr_hugepages"),
    }
}

/// Converts a size such as `2M` to the form in the kernel's folder names: `2048kB`.
fn kernel_size(text: &str) -> Option<String> {
    let unit = text.chars().next_back()?.to_ascii_uppercase();
    let (_, kib) = MEBIBYTE_SIZES.into_iter().find(|(letter, _)| *letter == unit)?;
    let number: u64 = text.get(..text.len() - 1)?.parse().ok()?;
    Some(format!("{}kB", number.checked_mul(kib)?))
}

/// Kernel parameters without a dot in the name that concern memory and have no row in the knob
/// table.
const PLAIN: [&str; 8] = [
    "psi",
    "default_hugepagesz",
    "hugetlb_cma",
    "hugetlb_free_vmemmap",
    "swapaccount",
    "systemd.zram",
    "transparent_hugepage_tmpfs",
    "numa_balancing",
];

/// Returns the settings that one parameter of the kernel's command line sets, with their values.
fn parse_parameter(key: &str, value: &str) -> Vec<(Target, String)> {
    let one = |target| vec![(target, value.to_owned())];
    match key {
        "transparent_hugepage" => one(Target::of_knob("thp.enabled")),
        "transparent_hugepage_shmem" => one(Target::of_knob("thp.shmem_enabled")),
        "thp_anon" => parse_by_size("thp.size.enabled", value),
        "thp_shmem" => parse_by_size("thp.size.shmem_enabled", value),
        key if PLAIN.contains(&key) => one(Target::Parameter(Name::from(key))),
        key => match key.split_once('.') {
            Some(("sysctl", name)) => {
                sysctl::targets_of(name).into_iter().map(|it| (it, value.to_owned())).collect()
            }
            Some((module, name)) if MODULES.contains(&module.replace('-', "_").as_str()) => {
                one(target_of_parameter(&module.replace('-', "_"), &name.replace('-', "_")))
            }
            _ => Vec::new(),
        },
    }
}

/// Parses a parameter that contains values for several huge page sizes, such as
/// `16K-64K,2M:always;32K:never`.
fn parse_by_size(knob: &'static str, value: &str) -> Vec<(Target, String)> {
    let mut all = Vec::new();
    for group in value.split(';') {
        let Some((sizes, policy)) = group.split_once(':') else { continue };
        for range in sizes.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (Some(mut kib), Some(last)) = (kib(first), kib(last)) else { continue };
            while kib <= last && kib > 0 && all.len() < 64 {
                all.push((Target::instance_of(knob, &format!("{kib}kB")), policy.to_owned()));
                kib = kib.saturating_mul(2);
            }
        }
    }
    all
}

fn kib(text: &str) -> Option<u64> {
    kernel_size(text)?.strip_suffix("kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{host, show_all};

    #[test]
    fn options_of_modules_and_of_what_is_none() {
        let host = host([
            (
                "etc/modprobe.d/zram.conf",
                "# x\noptions zram num_devices=2\noptions zswap enabled=1\nalias a b\n",
            ),
            ("etc/modules-load.d/zram.conf", "zram\nloop\n"),
        ]);
        assert_eq!(
            show_all(&read(&host)),
            [
                "module zram loaded /etc/modules-load.d/zram.conf:1",
                "zram.num_devices 2 /etc/modprobe.d/zram.conf:2",
                "zswap.enabled 1 /etc/modprobe.d/zram.conf:3 ignored: it is built into the kernel, and \
                 modprobe passes options to modules only",
            ]
        );
    }

    #[test]
    fn the_command_line_sets_knobs_and_parameters() {
        let line = "root=/dev/sda zswap.enabled=1 transparent_hugepage=never thp_anon=16K-64K,2M:always;32K:never \
                    hugepages=8 hugepagesz=1G hugepages=2 psi=1 sysctl.vm.swappiness=10 zram.num_devices=3 \
                    systemd.zram=0 quiet\n";
        let host = host([("proc/cmdline", line)]);
        let all = show_all(&read(&host));
        let at = |text: &str| format!("{text} /proc/cmdline:1");
        let expected = [
            "zswap.enabled 1",
            "thp.enabled never",
            "thp.size.enabled[16kB] always",
            "thp.size.enabled[32kB] always",
            "thp.size.enabled[64kB] always",
            "thp.size.enabled[2048kB] always",
            "thp.size.enabled[32kB] never",
            "vm.nr_hugepages 8",
            "hugetlb.nr_hugepages[1048576kB] 2",
            "psi 1",
            "vm.swappiness 10",
            "zram.num_devices 3",
            "systemd.zram 0",
        ];
        assert_eq!(all, expected.map(at));
    }

    #[test]
    fn sizes_that_never_end_end() {
        assert_eq!(parse_by_size("thp.size.enabled", "0K-9999999999999999999G:always").len(), 0);
        assert!(parse_by_size("thp.size.enabled", "1K-17179869183G:always").len() <= 64);
    }
}
