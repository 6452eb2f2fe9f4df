// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that a recording may contain, and how they are redacted. There is one row per path,
//! and all other files are dropped. Rows exist only for files that a reader of Pagewise requests,
//! because a tape contains nothing else. The kernel's command line is an exception: it has no
//! reader yet.
//!
//! A pattern is a path in which components may contain `{n}` (digits), `{disk}` (kernel name of a
//! block device), `{device}` (its number, `254:0`), `{release}` (the release of this kernel) or
//! `{any}` (lower case letters, digits, `_`, `-` and `.`; used only below folders in which only the
//! kernel chooses names). There may be text before and after the braces. Files of settings in the
//! table are kept according to the values that they accept. Files of cgroups have a list of their
//! own, because people choose the names of their folders.

use std::collections::HashMap;
use std::sync::LazyLock;

use pagewise_model::knob::{Domain, KNOBS};

use super::files as by;
use super::names::Names;
use super::processes as of;
use super::words::is_disk;
use pagewise_hostfs::Entry;
use pagewise_settings::conf_files::{is_systemd_folder, lacks_suffix};
use pagewise_settings::{swap_areas, sysctl, tuned, units, zram_managers};

/// Redacts the contents of a file; returns `None` if nothing of the file may be kept.
type Keep = fn(&mut Names, &[u8]) -> Option<Vec<u8>>;

#[rustfmt::skip]
const ROWS: &[(&str, Keep)] = &[
    // files about memory as a whole
    ("proc/meminfo", by::keep_ascii), ("proc/uptime", by::redact_numbers), ("proc/vmstat", by::keep_ascii), ("proc/zoneinfo", by::keep_ascii),
    ("proc/buddyinfo", by::keep_ascii), ("proc/pressure/{any}", by::keep_ascii),
    ("proc/spl/kstat/zfs/arcstats", by::redact_arcstats),
    // files about the machine
    ("proc/sys/kernel/random/boot_id", by::redact_boot_id), ("proc/sys/kernel/hostname", by::redact_host_name),
    ("proc/sys/kernel/osrelease", by::redact_release), ("proc/sys/kernel/arch", by::keep_ascii),
    ("proc/cpuinfo", by::redact_cpuinfo), ("proc/cmdline", by::redact_command_line),
    ("sys/devices/system/cpu/online", by::redact_numbers),
    ("sys/devices/system/clocksource/clocksource{n}/available_clocksource", by::keep_ascii),
    ("sys/class/dmi/id/sys_vendor", by::redact_maker), ("sys/class/dmi/id/product_name", by::redact_maker),
    ("sys/class/dmi/id/board_vendor", by::redact_maker), ("sys/class/dmi/id/bios_vendor", by::redact_maker),
    ("sys/hypervisor/type", by::redact_kind), ("proc/xen/capabilities", by::redact_xen),
    ("proc/device-tree/compatible", by::redact_device_tree),
    ("proc/device-tree/hypervisor/compatible", by::redact_device_tree),
    ("proc/1/environ", by::redact_environ_to_container), ("run/systemd/container", by::redact_kind),
    (".dockerenv", by::redact_to_presence), ("run/.containerenv", by::redact_to_presence),
    ("proc/vz", by::redact_to_presence), ("proc/bc", by::redact_to_presence),
    // files about how the kernel was built
    ("proc/config.gz", by::redact_config_gz), ("boot/config-{release}", by::redact_config),
    ("lib/modules/{release}/config", by::redact_config),
    ("lib/modules/{release}/modules.dep", by::redact_module_list),
    ("lib/modules/{release}/modules.builtin", by::redact_module_list),
    ("run/booted-system/kernel-modules/lib/modules/{release}/modules.dep", by::redact_module_list),
    ("run/booted-system/kernel-modules/lib/modules/{release}/modules.builtin", by::redact_module_list),
    ("proc/crypto", by::redact_compressor_names), ("sys/module/zstd/initstate", by::keep_ascii),
    ("sys/module/zram/initstate", by::keep_ascii), ("dev/userfaultfd", by::redact_to_presence),
    // files about swap, devices and mounts
    ("proc/swaps", by::redact_swaps), ("proc/self/mountinfo", by::redact_mountinfo),
    ("proc/diskstats", by::redact_disk_stats),
    ("statfs/{device}", by::redact_numbers), ("processes/left_out", by::redact_numbers), ("proc/sysvipc/shm", by::redact_system_v), ("proc/sysvipc/msg", by::redact_system_v),
    ("sys/block/{disk}/queue/rotational", by::redact_numbers), ("sys/block/{disk}/dm/name", by::redact_dm_name),
    ("sys/block/{disk}/loop/backing_file", by::redact_place),
    ("sys/block/{disk}/dm/uuid", by::redact_dm_uuid), ("sys/block/{disk}/slaves/{disk}", by::redact_to_presence),
    ("sys/block/{disk}/holders/{disk}", by::redact_to_presence),
    ("sys/class/block/{disk}/uevent", by::redact_disk_event),
    ("sys/dev/block/{device}/uevent", by::redact_disk_event),
    ("run/udev/data/b{device}", by::redact_udev), ("dev/{disk}", by::redact_signature),
    ("sys/class/zram-control", by::redact_to_presence),
    ("sys/kernel/debug/zram/zram{n}/block_state", by::redact_to_presence),
    ("sys/kernel/debug/zsmalloc/zram{n}/classes", by::keep_ascii),
    ("sys/block/zram{n}/backing_dev", by::redact_place), ("sys/block/zram{n}/{any}", by::keep_ascii),
    ("sys/block/zmerge{n}/{any}", by::keep_ascii),
    ("sys/module/zswap/parameters/{any}", by::keep_ascii),
    ("dev/kmsg", by::redact_kernel_log), ("journal/kernel", by::redact_kernel_journal),
    ("journal/programs", by::redact_program_kills),
    ("var/log/journal", by::redact_to_presence), ("run/log/journal", by::redact_to_presence),
    // settings of memory management
    ("proc/sys/vm/{any}", by::redact_numbers), ("proc/sys/kernel/numa_balancing", by::redact_numbers),
    ("sys/kernel/mm/transparent_hugepage/{any}", by::keep_ascii),
    ("sys/kernel/mm/transparent_hugepage/khugepaged/{any}", by::keep_ascii),
    ("sys/kernel/mm/transparent_hugepage/hugepages-{n}kB/{any}", by::keep_ascii),
    ("sys/kernel/mm/transparent_hugepage/hugepages-{n}kB/stats/{any}", by::redact_numbers),
    ("sys/kernel/mm/hugepages", by::redact_to_presence),
    ("sys/kernel/mm/hugepages/hugepages-{n}kB/{any}", by::redact_numbers),
    ("sys/devices/system/node/node{n}/hugepages/hugepages-{n}kB/{any}", by::redact_numbers),
    ("sys/kernel/mm/ksm/{any}", by::keep_ascii), ("sys/kernel/mm/lru_gen/{any}", by::redact_numbers),
    ("sys/kernel/mm/swap/{any}", by::redact_numbers), ("sys/kernel/mm/numa/{any}", by::redact_numbers),
    ("sys/kernel/mm/page_idle/bitmap", by::redact_to_presence), ("sys/kernel/debug/lru_gen", by::redact_to_presence),
    ("sys/kernel/mm/damon/admin", by::redact_to_presence),
    ("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", by::redact_numbers),
    ("sys/kernel/mm/damon/admin/kdamonds/{n}/state", by::keep_ascii),
    ("sys/kernel/mm/mempolicy/weighted_interleave", by::redact_to_presence),
    // files about what is set at boot; configuration files are in `settings_row`
    (sysctl::BOOTED_BY_SYSTEMD, by::redact_to_presence),
    ("usr/lib/systemd/system-generators/zram-generator", by::redact_to_presence),
    ("etc/systemd/system/multi-user.target.wants/zramswap.service", by::redact_to_presence),
    ("etc/systemd/system/multi-user.target.wants/zram-config.service", by::redact_to_presence),
    ("etc/systemd/system/multi-user.target.wants/systemd-swap.service", by::redact_to_presence),
    ("etc/systemd/system/multi-user.target.wants/systemd-oomd.service", by::redact_to_presence),
    ("etc/systemd/system/multi-user.target.wants/earlyoom.service", by::redact_to_presence),
    ("etc/systemd/system/multi-user.target.wants/nohang.service", by::redact_to_presence),
    ("etc/systemd/system/multi-user.target.wants/nohang-desktop.service", by::redact_to_presence),
    ("etc/systemd/system/multi-user.target.wants/tuned.service", by::redact_to_presence),
    ("etc/systemd/system/multi-user.target.wants/tlp.service", by::redact_to_presence),
    ("etc/systemd/system/multi-user.target.wants/laptop-mode.service", by::redact_to_presence),
    ("etc/tuned/active_profile", by::redact_tuned_profiles), ("etc/tuned/tuned-main.conf", by::redact_tuned_main),
    ("sys/power/resume", by::redact_numbers),
    // files of processes
    ("proc/{n}/status", of::redact_status), ("proc/{n}/comm", of::redact_comm), ("proc/{n}/stat", of::redact_stat),
    ("proc/{n}/statm", by::redact_numbers), ("proc/{n}/fd", by::keep_ascii), ("proc/{n}/fdinfo", by::keep_ascii), ("proc/{n}/map_files", by::keep_ascii),
    ("proc/{n}/cgroup", of::redact_cgroup_file), ("proc/{n}/smaps_rollup", of::redact_smaps_rollup),
    ("proc/{n}/schedstat", by::redact_numbers), ("proc/{n}/task/{n}/children", by::redact_numbers),
    ("proc/{n}/limits", by::keep_ascii),
];

/// Files of a cgroup that are kept, for all cgroup versions. They contain keywords of the kernel
/// with numbers. `memory.kmem.slabinfo`, `cgroup.procs` and similar files are not among them.
#[rustfmt::skip]
const GROUP_FILES: &[(&str, Keep)] = &[
    ("cgroup.controllers", by::keep_ascii), ("cgroup.pressure", by::redact_numbers),
    ("cgroup.events", by::keep_ascii), ("cgroup.stat", by::keep_ascii),
    ("memory.current", by::redact_numbers), ("memory.peak", by::redact_numbers), ("memory.min", by::redact_numbers),
    ("memory.low", by::redact_numbers), ("memory.high", by::redact_numbers), ("memory.max", by::redact_numbers),
    ("memory.stat", by::keep_ascii), ("memory.events", by::keep_ascii),
    ("io.max", by::keep_ascii), ("memory.pressure", by::keep_ascii), ("memory.oom.group", by::redact_numbers),
    ("memory.reclaim", by::redact_to_presence), ("memory.swap.current", by::redact_numbers),
    ("memory.swap.peak", by::redact_numbers), ("memory.swap.high", by::redact_numbers),
    ("memory.swap.max", by::redact_numbers),
    ("memory.zswap.current", by::redact_numbers), ("memory.zswap.max", by::redact_numbers),
    ("memory.zswap.writeback", by::redact_numbers), ("memory.usage_in_bytes", by::redact_numbers),
    ("memory.max_usage_in_bytes", by::redact_numbers), ("memory.limit_in_bytes", by::redact_numbers),
    ("memory.memsw.limit_in_bytes", by::redact_numbers), ("memory.failcnt", by::redact_numbers),
    ("memory.swappiness", by::redact_numbers), ("memory.oom_control", by::keep_ascii),
    ("pids.current", by::redact_numbers), ("pids.max", by::redact_numbers), ("pids.events", by::keep_ascii),
];

/// Redacts the path and the contents of a file; `None` if the file must be dropped.
pub(super) fn redact(path: &str, entry: &Entry, names: &mut Names) -> Option<(String, Entry)> {
    let (path, keep) = match names.places.hierarchy(path) {
        Some((root, rest)) => group_row(&root, rest, names)?,
        None => settings_row(path, names).or_else(|| row_of_path(path, names))?,
    };
    let entry = match entry {
        Entry::File(bytes) if bytes.is_empty() => Entry::File(Vec::new()),
        Entry::File(bytes) => Entry::File(keep(names, bytes)?),
        Entry::Refused(refusal) => Entry::Refused(refusal.clone()),
    };
    Some((path, entry))
}

/// Returns the redacted path and the redaction for a file of a cgroup, or for its folder, of which
/// only the existence is kept.
fn group_row(root: &str, rest: &str, names: &mut Names) -> Option<(String, Keep)> {
    let (group, file) = rest.rsplit_once('/').unwrap_or(("", rest));
    if let Some((file, keep)) = GROUP_FILES.iter().find(|(known, _)| *known == file) {
        let group = names.redact_group_path(group.as_bytes());
        let parts = [root, &group, file];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        return Some((parts.join("/"), *keep));
    }
    // A path that is not listed may be a file, whose name the kernel chooses, or a folder, whose
    // name people choose. They cannot be distinguished, so both are dropped.
    (rest.is_empty()).then(|| (root.to_owned(), by::redact_to_presence as Keep))
}

/// Rows of paths that cgroups and people name are elsewhere; of all others, the first row that matches counts.
fn row_of_path(path: &str, names: &Names) -> Option<(String, Keep)> {
    let rows = INDEX.get(&index_key(path))?;
    rows.iter().find_map(|(pattern, keep)| Some((match_pattern(pattern, path, names)?, *keep)))
}

/// Rows by [`index_key`].
type Index = HashMap<(usize, &'static str), Vec<(&'static str, Keep)>>;

/// The rows, and those of the settings in the table, by what a path must have in common with their pattern. A monitor
/// compares about a thousand paths in each reading, and there are some hundred rows.
static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let knobs = KNOBS.iter().filter(|knob| !knob.path.contains("{cgroup}"));
    let knobs = knobs.map(|knob| (knob.path, redaction_for(knob.domain)));
    let mut index: HashMap<_, Vec<_>> = HashMap::new();
    for (pattern, keep) in ROWS.iter().copied().chain(knobs) {
        index.entry(index_key(pattern)).or_default().push((pattern, keep));
    }
    index
});

/// The number of components of a path or pattern, and the first one, which has braces in no row.
fn index_key(path: &str) -> (usize, &str) {
    (path.split('/').count(), path.split('/').next().unwrap_or_default())
}

/// Returns the redacted path and the redaction for a configuration file of sysctl, tmpfiles, udev,
/// modprobe, zram-generator, zram-tools, systemd or TuneD. People choose the names of these files,
/// so only the part that determines their order is kept, and names that packages use.
fn settings_row(path: &str, names: &mut Names) -> Option<(String, Keep)> {
    // thousands of the paths in a reading begin like this, and none of them is a configuration file
    if path.starts_with("proc/") || path.starts_with("sys/") {
        return None;
    }
    let single: [(&str, Keep); 3] = [
        (sysctl::CONF, by::redact_sysctl),
        (swap_areas::FSTAB, by::redact_fstab),
        (zram_managers::ZRAM_TOOLS, by::redact_zram_tools),
    ];
    if let Some((_, keep)) = single.into_iter().find(|(known, _)| *known == path) {
        return Some((path.to_owned(), keep));
    }
    if zram_managers::generator_files().iter().any(|known| known == path) {
        return Some((path.to_owned(), by::redact_generator));
    }
    let (folder, file) = path.rsplit_once('/')?;
    if let Some((place, profile)) = folder.rsplit_once('/').filter(|_| file == tuned::FILE) {
        let profile = tuned::plain_profile_name(profile.as_bytes())
            .filter(|_| tuned::FOLDERS.contains(&place))?;
        return Some((
            format!("{place}/{}/{file}", names.tuned_profile(profile)),
            by::redact_tuned,
        ));
    }
    if let Some(unit) = unit_row(folder, file, names) {
        return Some(unit);
    }
    let (suffix, keep) = folder_row(folder)?;
    let suffix = if lacks_suffix(file) { "" } else { suffix };
    file.ends_with(suffix)
        .then(|| (format!("{folder}/{}", names.settings_file(file, suffix)), keep))
}

/// Returns the suffix of the configuration files in a folder, and how these are redacted. A
/// package's file without any relevant line is dropped. A file of the administrator is kept even
/// then, because it may hide other files.
fn folder_row(folder: &str) -> Option<(&'static str, Keep)> {
    if zram_managers::is_generator_file(&format!("{folder}/x")) {
        return Some((".conf", by::redact_generator));
    }
    type Kind = (&'static str, &'static str, Keep, Keep);
    const KINDS: [Kind; 5] = [
        ("sysctl.d", ".conf", by::redact_sysctl, by::redact_sysctl),
        ("tmpfiles.d", ".conf", by::redact_tmpfiles, by::redact_tmpfiles_of_package),
        ("udev/rules.d", ".rules", by::redact_udev_rules, by::redact_udev_rules_of_package),
        ("modprobe.d", ".conf", by::redact_modprobe, by::redact_modprobe_of_package),
        ("modules-load.d", ".conf", by::redact_modules_load, by::redact_modules_load_of_package),
    ];
    let is_in = |(name, ..): &Kind| is_systemd_folder(folder, name);
    let (_, suffix, local, of_package) = KINDS.into_iter().find(is_in)?;
    Some((suffix, if folder.starts_with("usr/") { of_package } else { local }))
}

/// Returns the redacted path and the redaction for a systemd unit, a drop-in of a unit, or the link
/// that enables a swap area.
fn unit_row(folder: &str, file: &str, names: &mut Names) -> Option<(String, Keep)> {
    if file.ends_with(".swap")
        && (units::FOLDERS.contains(&folder) || folder.ends_with(".target.wants"))
    {
        let is_units = units::FOLDERS.contains(&folder);
        let keep = if is_units { by::redact_swap_unit as Keep } else { by::redact_to_presence };
        let known = ["swap.target.wants", "multi-user.target.wants"];
        let of_target = folder.rsplit('/').next().unwrap_or_default();
        let name = names.swap_unit(file);
        return (is_units || known.contains(&of_target))
            .then(|| (format!("{folder}/{name}"), keep));
    }
    if units::FOLDERS.contains(&folder) {
        let name = units::is_unit(file).then(|| names.group(file.as_bytes()))?;
        return Some((format!("{folder}/{name}"), by::redact_unit));
    }
    let (place, unit) =
        folder.rsplit_once('/').filter(|(place, _)| units::FOLDERS.contains(place))?;
    let unit = unit.strip_suffix(".d").filter(|unit| units::is_unit(unit))?;
    let unit = names.group(unit.as_bytes());
    let file = file.ends_with(".conf").then(|| names.settings_file(file, ".conf"))?;
    Some((format!("{place}/{unit}.d/{file}"), by::redact_unit))
}

/// How the file of a setting is redacted. One with free text is dropped, because the text may contain anything.
fn redaction_for(domain: Domain) -> Keep {
    match domain {
        Domain::Word { .. } | Domain::Listed => by::keep_ascii,
        Domain::Text | Domain::Trigger => by::redact_to_presence,
        _ => by::redact_numbers,
    }
}

/// Returns the redacted path if the path matches the pattern, otherwise `None`. It allocates no
/// memory for a path that does not match, because some thousand paths are compared with some
/// hundred patterns.
fn match_pattern(pattern: &str, path: &str, names: &Names) -> Option<String> {
    // most patterns differ from a path before the first brace
    let literal = pattern.bytes().zip(path.bytes()).find(|(one, other)| one != other);
    if literal.is_some_and(|(one, _)| one != b'{') {
        return None;
    }
    let (mut patterns, mut parts) = (pattern.split('/'), path.split('/'));
    loop {
        match (patterns.next(), parts.next()) {
            (Some(pattern), Some(text)) => _ = match_component(pattern, text, names)?,
            (None, None) => break,
            _ => return None,
        }
    }
    let shown = pattern.split('/').zip(path.split('/')).filter_map(|(pattern, text)| {
        let (before, inner, after) = match_component(pattern, text, names)?;
        Some([before, inner, after].concat())
    });
    Some(shown.collect::<Vec<String>>().join("/"))
}

/// Matches a component of a path with a component of a pattern. Returns the text before the braces,
/// the text that replaces the braces, and the text after them.
fn match_component<'a>(
    pattern: &'a str,
    text: &'a str,
    names: &'a Names,
) -> Option<(&'a str, &'a str, &'a str)> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return (pattern == text).then_some((text, "", ""));
    };
    let (kind, after) = rest.split_once('}')?;
    let inner = text.strip_prefix(before)?.strip_suffix(after)?;
    let shown = match kind {
        // `N` and `node` are the spelling in the table of settings
        "n" | "N" | "node" => is_id(inner).then_some(inner)?,
        "disk" => is_disk(inner).then_some(inner)?,
        "device" => inner.split_once(':').filter(|(a, b)| is_id(a) && is_id(b)).map(|_| inner)?,
        "release" => names.alias_of_release_in(inner.as_bytes())?,
        _ => is_kernel_name(inner).then_some(inner)?,
    };
    Some((before, shown, after))
}

fn is_id(text: &str) -> bool {
    (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_kernel_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    !text.is_empty() && text.len() <= 64 && text != ".." && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_observe::Tape;

    fn path_of(path: &str) -> Option<String> {
        let mut names = Names::from_tape(&Tape { page_size: None, ends: Vec::new() });
        redact(path, &Entry::File(Vec::new()), &mut names).map(|(path, _)| path)
    }

    #[test]
    fn what_is_not_listed_is_dropped() {
        for path in [
            "proc/2/environ",
            "proc/1/cmdline",
            "proc/1/maps",
            "proc/kcore",
            "etc/passwd",
            "sys/block/mybox/size",
            "dev/mem",
            "proc/1/root/etc/hostname",
            "home/bob/meminfo",
            "sys/fs/cgroup/bob/memory.kmem.slabinfo",
            "sys/block/zram0/../../../etc/passwd",
            "lib/modules/secret/modules.dep",
        ] {
            assert_eq!(path_of(path), None, "{path}");
        }
    }

    #[test]
    fn listed_paths_keep_what_the_kernel_named() {
        for path in [
            "proc/meminfo",
            "proc/4711/status",
            "sys/block/zram12/mm_stat",
            "sys/block/zmerge0/merge_mode",
            "dev/zmerge0",
            "dev/sda2",
            "sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled",
            "sys/dev/block/8:1/uevent",
            "run/udev/data/b254:0",
        ] {
            assert_eq!(path_of(path).as_deref(), Some(path));
        }
    }

    #[test]
    fn files_of_settings_keep_their_order_and_no_name() {
        let kept = |path| path_of(path).unwrap();
        assert_eq!(kept("etc/sysctl.d/99-sysctl.conf"), "etc/sysctl.d/99-sysctl.conf");
        assert_eq!(kept("etc/sysctl.d/50-bobs-payroll.conf"), "etc/sysctl.d/50-file-1.conf");
        assert_eq!(kept("etc/sysctl.d/bob.conf"), "etc/sysctl.d/file-1.conf");
        let drop_in = "etc/systemd/zram-generator.conf.d/10-bob.conf";
        assert_eq!(kept(drop_in), "etc/systemd/zram-generator.conf.d/10-file-1.conf");
        assert_eq!(path_of("etc/sysctl.d/README"), None);
        assert_eq!(kept("etc/sysctl.d/99-bob"), "etc/sysctl.d/99-file-1");
        assert_eq!(kept("etc/tmpfiles.d/bob.conf"), "etc/tmpfiles.d/file-1.conf");
        assert_eq!(kept("run/udev/rules.d/60-bob.rules"), "run/udev/rules.d/60-file-1.rules");
        assert_eq!(path_of("run/udev/rules.d/60-bob.conf"), None);
        let units = "etc/systemd/system";
        assert_eq!(kept("etc/systemd/system/bob.service"), format!("{units}/cg-1.service"));
        let drop_in = kept("etc/systemd/system/bob.service.d/50-bob.conf");
        assert_eq!(drop_in, format!("{units}/cg-1.service.d/50-file-1.conf"));
        assert_eq!(kept("etc/systemd/system/home-bob.swap"), format!("{units}/cg-1.swap"));
        assert_eq!(kept("etc/systemd/system/dev-zram0.swap"), format!("{units}/dev-zram0.swap"));
        assert_eq!(path_of("etc/systemd/system/bob.target.wants/home-bob.swap"), None);
        assert_eq!(path_of("etc/systemd/system/bob.target"), None);
        assert_eq!(path_of("etc/other.d/10-bob.conf"), None);
    }

    #[test]
    fn profiles_of_tuned_keep_names_that_the_package_gives() {
        let kept = |path| path_of(path);
        let stock = "usr/lib/tuned/virtual-guest/tuned.conf";
        assert_eq!(kept(stock).as_deref(), Some(stock));
        let own = kept("etc/tuned/profiles/bobs-payroll/tuned.conf");
        assert_eq!(own.as_deref(), Some("etc/tuned/profiles/profile-1/tuned.conf"));
        assert_eq!(kept("etc/tuned/bob/script.sh"), None);
        assert_eq!(kept("home/bob/x/tuned.conf"), None);
    }

    #[test]
    fn cgroups_in_paths_are_numbered() {
        let path = "sys/fs/cgroup/system.slice/payroll.service/memory.current";
        let expected = "sys/fs/cgroup/system.slice/cg-1.service/memory.current";
        assert_eq!(path_of(path).as_deref(), Some(expected));
        assert_eq!(
            path_of("sys/fs/cgroup/memory.stat").as_deref(),
            Some("sys/fs/cgroup/memory.stat")
        );
    }

    /// The index leaves out rows that cannot match: otherwise a file would be missing in a recording.
    #[test]
    fn the_first_component_of_each_row_has_no_braces() {
        for (pattern, _) in ROWS {
            assert!(!index_key(pattern).1.contains('{'), "{pattern}");
        }
        let indexed: usize = INDEX.values().map(Vec::len).sum();
        let knobs = KNOBS.iter().filter(|knob| !knob.path.contains("{cgroup}")).count();
        assert_eq!(indexed, ROWS.len() + knobs);
    }

    #[test]
    fn every_knob_that_is_not_a_cgroups_has_a_row() {
        let names = Names::from_tape(&Tape { page_size: None, ends: Vec::new() });
        for knob in KNOBS.iter().filter(|knob| !knob.path.contains("{cgroup}")) {
            let path =
                knob.path.replace("{N}", "0").replace("{node}", "0").replace("{size}", "64kB");
            assert!(row_of_path(&path, &names).is_some(), "{path}");
        }
    }

    #[test]
    fn every_cgroup_knob_is_listed() {
        for knob in KNOBS.iter().filter(|knob| knob.path.contains("{cgroup}")) {
            let file = knob.path.rsplit('/').next().unwrap();
            assert!(GROUP_FILES.iter().any(|(known, _)| *known == file), "{}", knob.path);
        }
    }
}
