// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Redacts each kind of file: a function takes the contents and returns the part that may be kept,
//! or `None` if nothing may be kept.

use std::io::{Read, Write};

use super::names::Names;
use super::words::{MAKERS, MODULES, OPTIONS, PARAMETERS, is_disk, is_number};
use pagewise_hostfs::text::{rewrite_lines, words};
use pagewise_settings::plain::is_plain;

/// Redacts a file line by line. It never returns `None`, because a dropped line is kept as an empty
/// line.
pub(super) fn redact_lines(
    bytes: &[u8],
    keep: impl FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    Some(rewrite_lines(bytes, keep))
}

/// Keeps a text that only the kernel writes, provided that all of it is ASCII.
pub(super) fn keep_ascii(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    let text = bytes.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    text.then(|| bytes.to_vec())
}

/// Keeps a file that contains only numbers, `max` and the words of switches; drops a file that
/// contains anything else.
pub(super) fn redact_numbers(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    words(bytes).all(|word| is_number(word) || is_switch(word)).then(|| bytes.to_vec())
}

fn is_switch(word: &[u8]) -> bool {
    word.strip_suffix(b"kB").is_some_and(is_number)
        || matches!(word, b"max" | b"Y" | b"N" | b"on" | b"off" | b"true" | b"false")
        || word
            .strip_prefix(b"0x")
            .is_some_and(|hex| hex.len() <= 16 && hex.iter().all(u8::is_ascii_hexdigit))
}

/// Keeps the reports of the OOM killer in a kernel log, with aliases for names; drops everything
/// else.
pub(super) fn redact_kernel_log(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    Some(pagewise_observe::formats::kernel_log::rename(bytes, names))
}

/// Keeps how many messages were written by programs that kill for lack of memory. What these programs
/// killed contains names, so only a recording that stays on this machine keeps it.
pub(super) fn redact_program_kills(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    use pagewise_observe::formats::kernel_log::{check_program_count, check_program_kills};
    if names.keeps_names() { check_program_kills(bytes) } else { check_program_count(bytes) }
}

/// Like [`redact_kernel_log`], for kernel messages that journald has stored.
pub(super) fn redact_kernel_journal(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    Some(pagewise_observe::formats::kernel_log::renamed_journal(bytes, names))
}

/// Keeps those lines of ZFS's statistics that Pagewise reads: `size`, `c_min` and `c_max`.
pub(super) fn redact_arcstats(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| {
        let mut columns = words(line);
        let is_read = matches!(columns.next(), Some(b"size" | b"c_min" | b"c_max"));
        (is_read && columns.all(is_number)).then(|| line.to_vec())
    })
}

/// Keeps the lines of `/proc/diskstats` about devices whose names the kernel chooses.
pub(super) fn redact_disk_stats(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    /// The column with the device's name.
    const NAME: usize = 2;
    redact_lines(bytes, |line| {
        let is_kept = words(line).enumerate().all(|(at, word)| match at {
            NAME => std::str::from_utf8(word).is_ok_and(is_disk),
            _ => is_number(word),
        });
        is_kept.then(|| line.to_vec())
    })
}

/// Keeps the list of System V IPC segments or queues without their keys, and with aliases for
/// users.
pub(super) fn redact_system_v(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    /// The columns with the ids of users and groups, in both files.
    const OWNERS: std::ops::Range<usize> = 7..11;
    redact_lines(bytes, |line| {
        let columns: Vec<&[u8]> = words(line).collect();
        if columns.first() == Some(&b"key".as_slice()) {
            let is_name = |word: &&[u8]| word.len() <= 8 && word.iter().all(u8::is_ascii_lowercase);
            return columns.iter().all(is_name).then(|| line.to_vec());
        }
        let shown = columns.iter().enumerate().map(|(at, word)| match at {
            0 => Some("0".to_owned()),
            _ if !is_number(word) => None,
            at if OWNERS.contains(&at) => Some(names.user(word).to_string()),
            _ => Some(String::from_utf8_lossy(word).into_owned()),
        });
        Some(shown.collect::<Option<Vec<String>>>()?.join(" ").into_bytes())
    })
}

/// Keeps only the fact that the file exists.
pub(super) fn redact_to_presence(_: &mut Names, _: &[u8]) -> Option<Vec<u8>> {
    Some(Vec::new())
}

/// Keeps the lines of sysctl files that set a setting of the table to numbers, or that exclude it
/// from being set.
pub(super) fn redact_sysctl(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| {
        let assignment = pagewise_settings::sysctl::parse_assignment(line)?;
        let value = assignment.value.unwrap_or_default();
        words(&value).all(is_number).then(|| line.to_vec())
    })
}

/// Drops a package's configuration file if no part of it is kept.
fn keep_unless_empty(kept: Option<Vec<u8>>) -> Option<Vec<u8>> {
    kept.filter(|kept| !kept.trim_ascii().is_empty())
}

/// Keeps the lines of a tmpfiles.d file that write a known setting.
pub(super) fn redact_tmpfiles(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| pagewise_settings::tmpfiles::is_known(line).then(|| line.to_vec()))
}

/// Like [`redact_tmpfiles`], but drops a file without such lines.
pub(super) fn redact_tmpfiles_of_package(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    keep_unless_empty(redact_tmpfiles(names, bytes))
}

/// Keeps the parts of udev rules that set up zram or a sysctl.
pub(super) fn redact_udev_rules(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    if !pagewise_settings::udev::is_of_interest(bytes) {
        return Some(Vec::new());
    }
    redact_lines(bytes, pagewise_settings::udev::keep_line)
}

/// Like [`redact_udev_rules`], but drops a file without such rules.
pub(super) fn redact_udev_rules_of_package(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    keep_unless_empty(redact_udev_rules(names, bytes))
}

/// Keeps the options of kernel modules that concern memory.
pub(super) fn redact_modprobe(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| {
        let (module, options) = pagewise_settings::modules::parse_options(line)?;
        let is_known = |(key, value): &&(String, String)| {
            pagewise_settings::modules::is_parameter(module, key) && is_plain(value.as_bytes())
        };
        let known = options.iter().filter(is_known);
        let known: Vec<String> = known.map(|(key, value)| format!("{key}={value}")).collect();
        Some(format!("options {module} {}", known.join(" ")).into_bytes())
    })
}

/// Like [`redact_modprobe`], but drops a file without such options.
pub(super) fn redact_modprobe_of_package(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    keep_unless_empty(redact_modprobe(names, bytes))
}

/// Keeps the names of the modules loaded at boot that concern memory.
pub(super) fn redact_modules_load(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| {
        pagewise_settings::modules::parse_loaded_module(line)
            .map(|module| module.as_bytes().to_vec())
    })
}

/// Like [`redact_modules_load`], but drops a file without such modules.
pub(super) fn redact_modules_load_of_package(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    keep_unless_empty(redact_modules_load(names, bytes))
}

/// Keeps the devices of zram-generator and their settings, but drops paths.
pub(super) fn redact_generator(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| {
        let section = line.trim_ascii().strip_prefix(b"[").and_then(|it| it.strip_suffix(b"]"));
        if let Some(section) = section {
            let known = pagewise_settings::zram_managers::parse_zram_section(section);
            return Some(known.map_or(b"[other]".to_vec(), |_| line.to_vec()));
        }
        let (key, value) = pagewise_settings::zram_managers::parse_generator_line(line)?;
        let is_kept = match key {
            "compression-algorithm"
            | "swap-priority"
            | "zram-size"
            | "zram-resident-limit"
            | "host-memory-limit" => is_plain(value),
            _ => false,
        };
        is_kept.then(|| line.to_vec())
    })
}

/// Keeps the settings of zram-tools for its zram device.
pub(super) fn redact_zram_tools(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| {
        let (key, value) = pagewise_settings::zram_managers::parse_zram_tools_line(line)?;
        is_plain(value).then(|| [key.as_bytes(), b"=", value].concat())
    })
}

/// Keeps the swap areas in fstab under the names that `/proc/swaps` has for them; drops UUIDs and
/// labels.
pub(super) fn redact_fstab(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| {
        let swap = pagewise_settings::swap_areas::parse_fstab_line(line)?;
        let area = redact_area(names, &swap.area);
        let priority = match swap.priority.as_str() {
            "default" => "defaults".to_owned(),
            priority => format!("pri={priority}"),
        };
        let automatic = if swap.is_automatic { "" } else { ",noauto" };
        Some(format!("{area} none swap {priority}{automatic} 0 0").into_bytes())
    })
}

fn redact_area(names: &mut Names, area: &[u8]) -> String {
    if area.starts_with(b"/") {
        return names.places.alias_of_file(area);
    }
    let tags = ["UUID", "PARTUUID", "LABEL", "PARTLABEL"];
    let tag = tags.into_iter().find(|tag| area.starts_with(format!("{tag}=").as_bytes()));
    format!("{}=hidden", tag.unwrap_or("UUID"))
}

/// Keeps the swap area of a swap unit, and its priority.
pub(super) fn redact_swap_unit(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| {
        let (key, value) = pagewise_settings::swap_areas::parse_unit_line(line)?;
        match key {
            "What" => Some(format!("What={}", redact_area(names, value)).into_bytes()),
            "Priority" => is_number(value).then(|| line.to_vec()),
            _ => {
                let options = std::str::from_utf8(value).ok()?;
                let priority = pagewise_settings::swap_areas::priority_in(options)?;
                Some(format!("Options=pri={priority}").into_bytes())
            }
        }
    })
}

/// Keeps the properties of a systemd unit that limit memory; drops a unit that has none.
pub(super) fn redact_unit(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    let kept = redact_lines(bytes, |line| {
        let (name, _, value) = pagewise_settings::units::parse_property(line)?;
        is_plain(value).then(|| [name.as_bytes(), b"=", value].concat())
    });
    keep_unless_empty(kept)
}

/// Keeps the names of tuned profiles, or replaces them by aliases.
pub(super) fn redact_tuned_profiles(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    Some([redact_profile_names(names, bytes).replace(", ", " ").as_bytes(), b"\n"].concat())
}

fn redact_profile_names(names: &mut Names, bytes: &[u8]) -> String {
    let parts = bytes.split(|byte| byte.is_ascii_whitespace() || matches!(byte, b',' | b';'));
    let known = parts.filter_map(|name| {
        // `-` before a profile means that the profile may be missing
        let (mark, name) = name.strip_prefix(b"-").map_or(("", name), |name| ("-", name));
        Some(format!(
            "{mark}{}",
            names.tuned_profile(pagewise_settings::tuned::plain_profile_name(name)?)
        ))
    });
    known.collect::<Vec<String>>().join(", ")
}

/// Keeps from TuneD's configuration only whether it applies sysctl files again (`reapply_sysctl`).
pub(super) fn redact_tuned_main(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_= ".contains(byte);
    redact_lines(bytes, |line| {
        let is_it = line.trim_ascii().starts_with(b"reapply_sysctl") && line.len() <= 40;
        (is_it && line.iter().all(plain)).then(|| line.to_vec())
    })
}

/// Keeps the memory settings in a TuneD profile, the profiles that it includes, and its section
/// headers with replaced names. A line that makes TuneD reject the profile becomes `?`, which has
/// the same effect.
pub(super) fn redact_tuned(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    use pagewise_settings::tuned::{
        MERGING, describe_shape, is_fixed, parse_include, section, settings_of_option,
    };
    let shape = describe_shape(bytes);
    let mut current: &[u8] = b"other";
    let mut number = 0;
    redact_lines(bytes, |line| {
        number += 1;
        if shape.unreadable == Some(number) {
            return Some(b"?".to_vec());
        }
        if let Some(name) = section(line) {
            current = match name {
                b"main" => b"main",
                _ => shape.plugins.get(name).map_or(b"other", |plugin| plugin.as_bytes()),
            };
            let is_plugin = name == current || current == b"other";
            let shown = std::str::from_utf8(current).unwrap_or_default();
            return Some(if is_plugin {
                format!("[{shown}]").into_bytes()
            } else {
                format!("[{shown}-{}]", names.tuned_section(name)).into_bytes()
            });
        }
        if let Some(included) = parse_include(line) {
            return Some(format!("include={}", redact_profile_names(names, included)).into_bytes());
        }
        let (key, value) = split_option(line)?;
        let is_merging = MERGING.iter().any(|known| known.as_bytes() == key);
        let value = match settings_of_option(current, key, value) {
            // the value is replaced, but the line is kept, because it overrides earlier lines
            Some((_, value)) if !is_fixed(&value) => return Some([key, b"=?"].concat()),
            Some((_, value)) => value,
            None if is_merging && current != b"other" => value.to_vec(),
            None => return None,
        };
        let is_word =
            |word: &[u8]| is_number(word) || is_policy(word) || (is_merging && is_merge_word(word));
        words(&value).all(is_word).then(|| line.to_vec())
    })
}

/// Returns the name and the value in a line of a TuneD profile, without a comment after them.
fn split_option(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii();
    if line.starts_with(b"#") || line.starts_with(b";") || line.contains(&b'#') {
        return None;
    }
    let at = line.iter().position(|&byte| byte == b'=')?;
    Some((line.get(..at)?.trim_ascii(), line.get(at + 1..)?.trim_ascii()))
}

/// Whether a word may be the value of an option that is not a setting (such as `replace`).
fn is_merge_word(word: &[u8]) -> bool {
    matches!(
        word,
        b"sysctl" | b"sysfs" | b"vm" | b"true" | b"True" | b"false" | b"False" | b"0" | b"1"
    )
}

/// Whether a word may be the value of a switch of transparent huge pages.
fn is_policy(word: &[u8]) -> bool {
    matches!(word, b"always" | b"madvise" | b"never" | b"defer" | b"defer+madvise")
}

/// Replaces the kernel's release by its version digits.
pub(super) fn redact_release(names: &mut Names, _: &[u8]) -> Option<Vec<u8>> {
    Some(format!("{}\n", names.release()).into_bytes())
}

/// Replaces the host's name by a hash.
pub(super) fn redact_host_name(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    Some(format!("{}\n", names.host(bytes)).into_bytes())
}

/// Replaces the boot id by a hash.
pub(super) fn redact_boot_id(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    Some(format!("{}\n", names.boot(bytes)).into_bytes())
}

/// Keeps the parameters of the kernel command line that concern memory, if their values consist of
/// plain characters.
pub(super) fn redact_command_line(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    let known = |word: &&[u8]| {
        let end = word.iter().position(|&byte| byte == b'=').unwrap_or(word.len());
        let (name, value) = word.split_at(end);
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"=,.:;+-_".contains(byte);
        let listed = PARAMETERS.iter().any(|listed| is_parameter(name, listed));
        listed && value.len() <= 64 && value.iter().all(plain)
    };
    let kept: Vec<&[u8]> = words(bytes).filter(known).collect();
    Some([kept.join(&b' '), b"\n".to_vec()].concat())
}

fn is_parameter(name: &[u8], listed: &str) -> bool {
    let plain = |rest: &[u8]| rest.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'_');
    if listed.ends_with('.') {
        name.strip_prefix(listed.as_bytes()).is_some_and(plain)
    } else {
        name == listed.as_bytes()
    }
}

/// Keeps the number of CPUs, and whether the CPUs are virtual.
pub(super) fn redact_cpuinfo(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| {
        let mut words = words(line);
        match words.next()? {
            b"processor" => Some(line.to_vec()).filter(|_| words.skip(1).all(is_number)),
            b"flags" if words.any(|flag| flag == b"hypervisor") => {
                Some(b"flags\t\t: hypervisor".to_vec())
            }
            b"flags" => Some(b"flags\t\t:".to_vec()),
            _ => None,
        }
    })
}

/// Keeps the words in the vendor's name that identify a virtual machine, and whether the machine is
/// rented bare metal.
pub(super) fn redact_maker(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(bytes);
    let known = MAKERS.iter().find(|maker| text.starts_with(**maker)).copied().unwrap_or("other");
    let metal = if text.contains(".metal") { ".metal" } else { "" };
    Some(format!("{known}{metal}\n").into_bytes())
}

/// Keeps the words in `known` that occur in the text, one per line.
fn keep_known_words(known: &[&str], bytes: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(bytes);
    let found: Vec<&str> = known.iter().filter(|word| text.contains(**word)).copied().collect();
    Some(found.join("\n").into_bytes())
}

/// Keeps the part of a device tree that concerns virtualization.
pub(super) fn redact_device_tree(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    keep_known_words(&["linux,kvm", "xen", "vmware", "linux,dummy-virt", "qemu,pseries"], bytes)
}

/// Keeps from Xen's capabilities only whether this is the first domain (dom0).
pub(super) fn redact_xen(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    keep_known_words(&["control_d"], bytes)
}

/// Keeps from the environment of process 1 only the kind of container, if it is a known one. No
/// other variable shows what kind of machine this is.
pub(super) fn redact_environ_to_container(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    let listed = bytes.split(|&byte| byte == 0).find_map(|one| one.strip_prefix(b"container="))?;
    redact_kind(names, listed).map(|kind| [b"container=".as_slice(), &kind].concat())
}

/// Replaces the name of a device-mapper device by the alias of the device.
pub(super) fn redact_dm_name(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    let place = names.places.alias_of_file(&[b"/dev/mapper/", bytes.trim_ascii()].concat());
    Some(format!("{}\n", place.rsplit('/').next()?).into_bytes())
}

/// Keeps from a device-mapper id only whether dm-crypt created the device.
pub(super) fn redact_dm_uuid(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    bytes.starts_with(b"CRYPT-").then(|| b"CRYPT-\n".to_vec())
}

/// Keeps the kind of container or hypervisor, if it is a known word such as `kvm` or `docker`.
pub(super) fn redact_kind(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    const KINDS: &[&[u8]] = &[
        b"docker",
        b"podman",
        b"lxc",
        b"lxc-libvirt",
        b"systemd-nspawn",
        b"rkt",
        b"wsl",
        b"oci",
        b"openvz",
        b"proot",
        b"pouch",
        b"xen",
        b"kvm",
    ];
    KINDS.contains(&bytes.trim_ascii()).then(|| bytes.to_vec())
}

pub(super) fn redact_swaps(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| names.places.redact_swap_line(line))
}

pub(super) fn redact_mountinfo(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| {
        let mut places = std::mem::take(&mut names.places);
        let shown = places.redact_mount_line(line, |root| names.redact_group_path(root));
        names.places = places;
        shown
    })
}

/// Redacts a file that consists of the path of a device or file, such as `backing_dev`.
pub(super) fn redact_place(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    match bytes.trim_ascii() {
        b"none" | b"" => Some(bytes.to_vec()),
        path => Some(format!("{}\n", names.places.alias_of_file(path)).into_bytes()),
    }
}

/// Keeps the line of udev's database that contains the type of the file system on a device.
pub(super) fn redact_udev(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| {
        let kind = line.strip_prefix(b"E:ID_FS_TYPE=")?;
        let plain = kind.len() <= 16 && kind.iter().all(u8::is_ascii_alphanumeric);
        plain.then(|| line.to_vec())
    })
}

/// Keeps the numbers, the type and the kernel name of a block device.
pub(super) fn redact_disk_event(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| {
        let (field, value) = line.split_at(line.iter().position(|&byte| byte == b'=')? + 1);
        let value_text = std::str::from_utf8(value).ok()?;
        let kept = match field {
            b"MAJOR=" | b"MINOR=" | b"DISKSEQ=" | b"PARTN=" => is_number(value),
            b"DEVNAME=" => super::words::is_disk(value_text),
            b"DEVTYPE=" => matches!(value, b"disk" | b"partition"),
            _ => false,
        };
        kept.then(|| line.to_vec())
    })
}

/// Keeps the swap signature of a device, if it has one, and replaces all other contents of the
/// device by zeros.
pub(super) fn redact_signature(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    const SIGNATURES: [&[u8]; 2] = [b"SWAPSPACE2", b"SWAP-SPACE"];
    let mut zeros = vec![0; bytes.len().min(1 << 16)];
    for signature in SIGNATURES {
        let at = bytes.windows(signature.len()).position(|window| window == signature);
        let place = at.and_then(|at| zeros.get_mut(at..at + signature.len()));
        if let Some(place) = place {
            place.copy_from_slice(signature);
        }
    }
    Some(zeros)
}

/// Keeps the names of the compression algorithms that the kernel has loaded. Other algorithms are
/// dropped, because they do not concern memory.
pub(super) fn redact_compressor_names(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    const KEPT: [&[u8]; 7] = [b"lz4", b"lz4hc", b"lzo", b"lzo-rle", b"zstd", b"deflate", b"842"];
    redact_lines(bytes, |line| {
        let name = words(line.strip_prefix(b"name")?).nth(1)?;
        KEPT.contains(&name).then(|| line.to_vec())
    })
}

/// Keeps the lines of `modules.dep` and `modules.builtin` whose module concerns memory.
pub(super) fn redact_module_list(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| {
        let kept: Vec<&[u8]> = words(line).filter(|path| is_module_path(path)).collect();
        let first = words(line).next()?;
        is_module_path(first).then(|| kept.join(&b' '))
    })
}

/// Whether a path is the path of a known module in the kernel's own folder. Modules in `extra/` and
/// similar folders are dropped, because people choose their names.
fn is_module_path(path: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/_-.:".contains(byte);
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let known = MODULES.iter().any(|module| name.starts_with(module.as_bytes()));
    path.starts_with(b"kernel/") && path.iter().all(plain) && known
}

/// Keeps the build options of the kernel that concern memory.
pub(super) fn redact_config(_: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    redact_lines(bytes, |line| {
        let line = line.trim_ascii();
        let option = line.strip_prefix(b"# ").unwrap_or(line).strip_prefix(b"CONFIG_")?;
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_=\"-# ".contains(byte);
        let known = OPTIONS.iter().any(|known| option.starts_with(known.as_bytes()));
        (known && line.len() <= 100 && line.iter().all(plain)).then(|| line.to_vec())
    })
}

/// Like [`redact_config`], for a compressed file as the kernel provides it, or for an excerpt as plain
/// text.
pub(super) fn redact_config_gz(names: &mut Names, bytes: &[u8]) -> Option<Vec<u8>> {
    const GZIP: &[u8] = b"\x1f\x8b";
    if !bytes.starts_with(GZIP) {
        return redact_config(names, bytes);
    }
    let mut text = Vec::new();
    let limit = pagewise_hostfs::MAX_FILE as u64;
    flate2::read::GzDecoder::new(bytes).take(limit).read_to_end(&mut text).ok()?;
    let kept = redact_config(names, &text)?;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&kept).ok()?;
    packed.finish().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_observe::Tape;

    fn kept(by: fn(&mut Names, &[u8]) -> Option<Vec<u8>>, text: &str) -> Option<String> {
        let mut names = Names::from_tape(&Tape { page_size: None, ends: Vec::new() });
        by(&mut names, text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn of_the_kernels_ciphers_only_the_names_that_compress_are_kept() {
        let text =
            "name         : zstd\ndriver       : zstd-scomp\n\nname         : aes\nname : zstdx\n";
        let names = kept(redact_compressor_names, text).unwrap();
        assert_eq!(names, "name         : zstd\n\n\n\n\n");
    }

    #[test]
    fn of_the_command_line_only_memory_settings_stay() {
        let line = "root=UUID=1234 zswap.enabled=1 psi=1 password=x hugepages=4 psi=/home/bob\n";
        assert_eq!(kept(redact_command_line, line).unwrap(), "zswap.enabled=1 psi=1 hugepages=4\n");
    }

    #[test]
    fn dropped_lines_keep_the_numbers_of_the_others() {
        let text = "# Linux for Bob\nCONFIG_LOCALVERSION=\"-bob\"\nCONFIG_ZRAM=m\n# CONFIG_KSM is not set\n";
        assert_eq!(
            kept(redact_config, text).unwrap(),
            "\n\nCONFIG_ZRAM=m\n# CONFIG_KSM is not set\n"
        );
    }

    #[test]
    fn a_packed_configuration_is_packed_again() {
        let pack = |text: &[u8]| {
            let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gz.write_all(text).unwrap();
            gz.finish().unwrap()
        };
        let mut names = Names::from_tape(&Tape { page_size: None, ends: Vec::new() });
        let kept = redact_config_gz(&mut names, &pack(b"CONFIG_BOB=y\nCONFIG_ZSWAP=y\n")).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(kept.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "\nCONFIG_ZSWAP=y\n");
        assert_eq!(redact_config_gz(&mut names, b"\x1f\x8bbroken"), None);
        assert_eq!(redact_config_gz(&mut names, b"CONFIG_BOB=y").unwrap(), b"");
    }

    #[test]
    fn of_a_profile_of_tuned_stays_what_it_sets_of_memory() {
        let text = "# bob's\n[main]\nsummary=payroll\ninclude=payroll, virtual-guest\n[sysctl]\n\
                    vm.swappiness=10\nkernel.hostname=bob\n[bob]\nx=bob\n[sysctl.bob]\n\
                    type=sysctl\nvm.dirty_ratio=>${bob}\n";
        let expected = "\n[main]\n\ninclude=profile-1, virtual-guest\n[sysctl]\nvm.swappiness=10\n\n[other]\n\n\
                        [sysctl-1]\ntype=sysctl\nvm.dirty_ratio=?\n";
        assert_eq!(kept(redact_tuned, text).unwrap(), expected);
        assert_eq!(kept(redact_tuned, "[bob]\nbob\n").unwrap(), "[other]\n?\n");
        assert_eq!(kept(redact_tuned_profiles, "payroll oracle\n").unwrap(), "profile-1 oracle\n");
        assert_eq!(
            kept(redact_tuned_main, "a=bob\nreapply_sysctl = 0\n").unwrap(),
            "\nreapply_sysctl = 0\n"
        );
    }

    #[test]
    fn of_a_device_only_the_signature_stays() {
        let mut names = Names::from_tape(&Tape { page_size: None, ends: Vec::new() });
        let mut page = vec![b's'; 4096];
        page[4086..].copy_from_slice(b"SWAPSPACE2");
        let kept = redact_signature(&mut names, &page).unwrap();
        assert_eq!(&kept[4086..], b"SWAPSPACE2");
        assert!(kept[..4086].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn module_lists_keep_what_concerns_memory() {
        let dep = "kernel/drivers/block/zram/zram.ko.zst: kernel/mm/zsmalloc.ko.zst kernel/x/bob.ko\n\
                   kernel/fs/bob.ko:\nupdates/zram-bob.ko:\n";
        let expected = "kernel/drivers/block/zram/zram.ko.zst: kernel/mm/zsmalloc.ko.zst\n\n\n";
        assert_eq!(kept(redact_module_list, dep).unwrap(), expected);
    }

    #[test]
    fn of_the_environment_only_a_known_kind_of_container_stays() {
        let environment = "HOME=/bob\0container=docker\0TOKEN=bob";
        assert_eq!(kept(redact_environ_to_container, environment).unwrap(), "container=docker");
        assert_eq!(kept(redact_environ_to_container, "HOME=/bob\0"), None);
        assert_eq!(kept(redact_environ_to_container, "container=bob"), None);
    }

    #[test]
    fn numbers_hide_no_words() {
        assert_eq!(kept(redact_numbers, "256 -1 max\n").as_deref(), Some("256 -1 max\n"));
        assert_eq!(kept(redact_numbers, "60 bob\n"), None);
        assert_eq!(kept(keep_ascii, "caf\u{e9}\n"), None);
    }

    #[test]
    fn files_of_settings_keep_what_is_about_memory() {
        let text = "# bob's\nvm.swappiness = 10\nkernel.hostname=bob\nvm.dirty_ratio=bob\n";
        assert_eq!(kept(redact_sysctl, text).unwrap(), "\nvm.swappiness = 10\n\n\n");
        let text = "[zram0]\nfs-type = bob\ncompression-algorithm = zstd(dict=/bob)\n[bob]\n\
                    compression-algorithm = zstd(level=3) lz4\nzram-size = min(ram / 2, 4096)\nzram-size = bob\n";
        let expected = "[zram0]\n\n\n[other]\ncompression-algorithm = zstd(level=3) lz4\n\
                        zram-size = min(ram / 2, 4096)\n\n";
        assert_eq!(kept(redact_generator, text).unwrap(), expected);
    }

    #[test]
    fn of_other_configuration_files_stays_what_sets_memory() {
        let text = "w /sys/kernel/mm/ksm/run - - - - 1\nd /home/bob\n";
        assert_eq!(kept(redact_tmpfiles, text).unwrap(), "w /sys/kernel/mm/ksm/run - - - - 1\n\n");
        assert_eq!(kept(redact_tmpfiles_of_package, "d /home/bob\n"), None);
        let text = "options zram num_devices=2 bob=/home/bob\noptions bob x=1\n";
        assert_eq!(kept(redact_modprobe, text).unwrap(), "options zram num_devices=2\n\n");
        assert_eq!(kept(redact_modules_load, "bob\nzram\n").unwrap(), "\nzram\n");
        let text = "UUID=4-2 none swap sw,pri=5 0 0\n/dev/sda2 none swap noauto 0 0\n/dev/sda1 /bob ext4 x 0 0\n";
        assert_eq!(
            kept(redact_fstab, text).unwrap(),
            "UUID=hidden none swap pri=5 0 0\n/dev/sda2 none swap defaults,noauto 0 0\n\n"
        );
        let text = "[Swap]\nWhat=/dev/zram0\nPriority=5\nOptions=discard,pri=7,x-bob\n";
        assert_eq!(
            kept(redact_swap_unit, text).unwrap(),
            "\nWhat=/dev/zram0\nPriority=5\nOptions=pri=7\n"
        );
        let text = "[Service]\nExecStart=/home/bob\nMemoryMax=1G\n";
        assert_eq!(kept(redact_unit, text).unwrap(), "\n\nMemoryMax=1G\n");
        assert_eq!(kept(redact_unit, "[Service]\nExecStart=/home/bob\n"), None);
        assert_eq!(kept(redact_zram_tools, "# bob\nSIZE=256\nBOB=1\n").unwrap(), "\nSIZE=256\n\n");
    }

    #[test]
    fn processors_are_counted_and_nothing_else() {
        let text = "processor\t: 0\nmodel name\t: Bob's CPU\nflags\t\t: fpu hypervisor bob\n";
        assert_eq!(
            kept(redact_cpuinfo, text).unwrap(),
            "processor\t: 0\n\nflags\t\t: hypervisor\n"
        );
        assert_eq!(kept(redact_cpuinfo, "flags : fpu bob\n").unwrap(), "flags\t\t:\n");
        assert_eq!(kept(redact_maker, "QEMU of Bob\n").unwrap(), "QEMU\n");
        assert_eq!(kept(redact_maker, "Bob's QEMU\n").unwrap(), "other\n");
    }
}
