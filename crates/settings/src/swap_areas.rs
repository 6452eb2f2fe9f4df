// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads which swap areas are enabled at boot: lines of `/etc/fstab` and systemd's `.swap` units.
//!
//! systemd makes a unit from each line of fstab, unless `systemd.swap=no` or `fstab=no` is on the
//! kernel's command line or the unit is masked (systemd-fstab-generator(8), systemd.unit(5)).
//!
//! The value of such a setting is the priority, or `default` if no priority is given and the kernel
//! chooses it. An area that is given by UUID or label keeps that name, because no configuration
//! file says which device it is.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pagewise_hostfs::text::{unescape, words};
use pagewise_hostfs::{HostRoot, ReadHost, Refusal};
use pagewise_model::{Effect, Mechanism, Name, PersistentSetting, Target};

use crate::collector::{Collector, parse_section, split_assignment};
use crate::{modules, units};

/// Path of the table of file systems and swap areas.
pub const FSTAB: &str = "etc/fstab";
/// Folders whose links enable a unit at boot.
const WANTS: [&str; 2] =
    ["etc/systemd/system/swap.target.wants", "etc/systemd/system/multi-user.target.wants"];

pub(crate) fn read_fstab(host: &HostRoot) -> Vec<PersistentSetting> {
    let mut all = Collector::new(host, Mechanism::Fstab);
    let by_kernel = find_switch_off(host);
    all.lines(FSTAB, |all, line| {
        let Some(swap) = parse_fstab_line(line.bytes) else { return };
        let unit = unit_of(&swap.area);
        let masked = unit.filter(|unit| is_masked(all.host, unit));
        let effect = match (swap.is_automatic, &by_kernel, masked) {
            (false, ..) => Effect::Ignored("noauto leaves it off at boot".into()),
            (true, Some(word), _) => {
                Effect::Ignored(format!("{word} on the kernel's command line leaves it off").into())
            }
            (true, None, Some(unit)) => Effect::Ignored(format!("{unit} is masked").into()),
            (true, None, None) => Effect::Applied,
        };
        let area = Target::SwapArea(Name::from_bytes(&swap.area));
        all.add(area, swap.priority.as_bytes(), line, &effect);
    });
    all.finish()
}

/// Returns the word on the kernel's command line that makes systemd ignore swap in fstab.
fn find_switch_off(host: &HostRoot) -> Option<String> {
    let line = host.bytes(modules::COMMAND_LINE).ok()?;
    let is_off = |value: &str| matches!(value, "0" | "no" | "n" | "false" | "f" | "off");
    let words = words(&line).filter_map(|word| std::str::from_utf8(word).ok());
    let mut off: [Option<String>; 2] = [None, None];
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, "1"));
        let place = match key.replace('-', "_").as_str() {
            "systemd.swap" => 0,
            "fstab" => 1,
            _ => continue,
        };
        // if there are several, the last one is used
        off[place] = is_off(value.to_ascii_lowercase().as_str()).then(|| word.to_owned());
    }
    off.into_iter().flatten().next()
}

/// Returns the name of the unit that systemd makes for a swap area. It is derived from the area's
/// path; for `UUID=` or `LABEL=`, from the path of the link below /dev/disk.
fn unit_of(area: &[u8]) -> Option<String> {
    let area = std::str::from_utf8(area).ok()?;
    let tags = ["UUID", "LABEL", "PARTUUID", "PARTLABEL"];
    let by_tag = area.split_once('=').and_then(|(tag, value)| {
        let tag = tags.into_iter().find(|known| *known == tag)?;
        // udev encodes some bytes in the link of a label; names with such bytes are not compared
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"#+-.:=@_".contains(&byte);
        let value = value.trim_matches('"');
        value.bytes().all(is_plain).then(|| format!("/dev/disk/by-{}/{value}", tag.to_lowercase()))
    });
    let path = by_tag.unwrap_or_else(|| area.to_owned());
    let path = path.strip_prefix('/')?;
    let mut name = String::new();
    for (at, byte) in path.trim_end_matches('/').bytes().enumerate() {
        match byte {
            b'/' => name.push('-'),
            b'.' if at == 0 => name.push_str(r"\x2e"),
            byte if byte.is_ascii_alphanumeric() || b":_.".contains(&byte) => {
                name.push(char::from(byte));
            }
            other => write!(name, r"\x{other:02x}").ok()?,
        }
    }
    Some(format!("{name}.swap"))
}

/// Whether a unit is a link to `/dev/null` or an empty file, which means that it is never started.
fn is_masked(host: &HostRoot, unit: &str) -> bool {
    let paths = units::FOLDERS.into_iter().map(|folder| format!("{folder}/{unit}"));
    let mut found = paths.filter(|path| host.exists(path));
    found.next().is_some_and(|path| match host.bytes(&path) {
        Ok(bytes) => bytes.is_empty(),
        // the path leads to a device, which is not read
        Err(refusal) => matches!(refusal, Refusal::Absent(_)) && !refusal.is_missing(),
    })
}

/// A line of `/etc/fstab` that names a swap area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FstabSwap {
    /// The path of the area, or `UUID=…`.
    pub area: Vec<u8>,
    /// The swap priority as text, or `default`.
    pub priority: String,
    /// Whether the area is enabled at boot (no `noauto`).
    pub is_automatic: bool,
}

/// Parses a line of fstab such as `/dev/sda2 none swap sw,pri=5 0 0`; `None` if it is not about
/// swap.
#[must_use]
pub fn parse_fstab_line(line: &[u8]) -> Option<FstabSwap> {
    let mut fields = words(line);
    let area = fields.next().filter(|area| !area.starts_with(b"#"))?;
    let _mount_point = fields.next()?;
    fields.next().filter(|kind| *kind == b"swap")?;
    let options = std::str::from_utf8(fields.next().unwrap_or_default()).ok()?;
    Some(FstabSwap {
        area: unescape(area),
        priority: priority_in(options).unwrap_or("default").to_owned(),
        is_automatic: !options.split(',').any(|option| option == "noauto"),
    })
}

/// The swap priority in the mount options of a line of fstab, such as `5` in `discard,pri=5`.
#[must_use]
pub fn priority_in(options: &str) -> Option<&str> {
    let found = options.split(',').rev().find_map(|option| option.trim().strip_prefix("pri="));
    found.filter(|value| value.parse::<i32>().is_ok())
}

pub(crate) fn read_units(host: &HostRoot) -> Vec<PersistentSetting> {
    let mut all = Collector::new(host, Mechanism::SwapUnit);
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for folder in units::FOLDERS {
        for name in host.names(folder).into_iter().filter(|name| name.ends_with(".swap")) {
            known.entry(name.clone()).or_insert_with(|| format!("{folder}/{name}"));
        }
    }
    for (name, path) in known.into_iter().take(crate::limits::UNIT_FILES) {
        if is_masked(all.host, &name) {
            continue;
        }
        let is_enabled = WANTS.iter().any(|wants| host.exists(&format!("{wants}/{name}")));
        let effect = if is_enabled {
            Effect::Applied
        } else {
            Effect::Ignored(format!("{name} is not enabled").into())
        };
        read_unit(&mut all, &path, &effect);
    }
    all.finish()
}

fn read_unit(all: &mut Collector<'_>, path: &str, effect: &Effect) {
    let Some(text) = all.read_text(path) else { return };
    let (mut area, mut priority, mut place) = (None, None, None);
    for line in text.first_lines(all.host, crate::limits::CONFIG_LINES) {
        if parse_section(line.bytes).is_some() {
            continue;
        }
        match parse_unit_line(line.bytes) {
            Some(("What", value)) => {
                area = Some(value.to_vec());
                place.get_or_insert(line);
            }
            Some(("Priority", value)) => {
                priority = std::str::from_utf8(value).ok().map(str::to_owned);
                place = Some(line);
            }
            Some(("Options", value)) => {
                let named = std::str::from_utf8(value).ok().and_then(priority_in);
                priority = named.map(str::to_owned).or(priority);
            }
            _ => {}
        }
    }
    if let (Some(area), Some(line)) = (area, place) {
        let value = priority.unwrap_or_else(|| "default".to_owned());
        all.add(Target::SwapArea(Name::from_bytes(&area)), value.as_bytes(), &line, effect);
    }
}

/// Returns the key and value of a line in a `.swap` unit, if the key is one that is used here.
#[must_use]
pub fn parse_unit_line(line: &[u8]) -> Option<(&'static str, &[u8])> {
    let (key, value) = split_assignment(line)?;
    let key = ["What", "Priority", "Options"].into_iter().find(|it| it.as_bytes() == key)?;
    (!value.is_empty()).then_some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{host, show_all};

    #[test]
    fn lines_of_fstab_are_swap_areas_with_their_priority() {
        let text = "# /dev/sda1 none swap sw 0 0\n/dev/sda1 / ext4 defaults 0 1\n\
                    /swap\\040file none swap defaults,pri=5,discard 0 0\n\
                    UUID=1-2 none swap sw,noauto,pri=x 0 0\nLABEL=a none swap\n";
        assert_eq!(
            show_all(&read_fstab(&host([(FSTAB, text)]))),
            [
                "swap /swap file 5 /etc/fstab:3",
                "swap UUID=1-2 default /etc/fstab:4 ignored: noauto leaves it off at boot",
                "swap LABEL=a default /etc/fstab:5",
            ]
        );
    }

    #[test]
    fn the_kernels_command_line_and_masks_leave_swap_of_fstab_off() {
        let text = "/dev/sda2 none swap sw 0 0\n";
        let with = |path: &'static str, bytes: &'static str| {
            show_all(&read_fstab(&host([(FSTAB, text), (path, bytes)]))).remove(0)
        };
        let line = "swap /dev/sda2 default /etc/fstab:1";
        for (words, off) in [
            ("quiet systemd.swap=no", Some("systemd.swap=no")),
            ("fstab=0 quiet", Some("fstab=0")),
            ("systemd.swap=0 systemd.swap", None),
            ("systemd.swap=1", None),
            ("resume=off", None),
        ] {
            let ignored = off.map_or(String::new(), |off| {
                format!(" ignored: {off} on the kernel's command line leaves it off")
            });
            assert_eq!(with(modules::COMMAND_LINE, words), format!("{line}{ignored}"), "{words}");
        }
        let masked = with("etc/systemd/system/dev-sda2.swap", "");
        assert_eq!(masked, format!("{line} ignored: dev-sda2.swap is masked"));
        assert_eq!(with("run/systemd/system/dev-sda2.swap", "[Swap]\n"), line);
    }

    #[test]
    fn a_unit_has_the_escaped_name_of_its_area() {
        for (area, unit) in [
            ("/dev/sda2", "dev-sda2.swap"),
            ("/swap file", r"swap\x20file.swap"),
            ("/var/lib/a-b/", r"var-lib-a\x2db.swap"),
            ("/.swap", r"\x2eswap.swap"),
            ("UUID=1-2", r"dev-disk-by\x2duuid-1\x2d2.swap"),
            ("PARTLABEL=x", r"dev-disk-by\x2dpartlabel-x.swap"),
        ] {
            assert_eq!(unit_of(area.as_bytes()).as_deref(), Some(unit), "{area}");
        }
        assert_eq!(unit_of(b"LABEL=a b"), None);
        assert_eq!(unit_of(b"sda"), None);
    }

    #[test]
    fn units_are_switched_on_by_a_link() {
        let unit =
            "[Unit]\nDescription=x\n[Swap]\nWhat=/dev/zram0\nPriority=100\nOptions=discard\n";
        let path = "etc/systemd/system/dev-zram0.swap";
        let off = host([(path, unit)]);
        assert_eq!(
            show_all(&read_units(&off)),
            [format!("swap /dev/zram0 100 /{path}:5 ignored: dev-zram0.swap is not enabled")]
        );
        let on =
            host([(path, unit), ("etc/systemd/system/swap.target.wants/dev-zram0.swap", unit)]);
        assert_eq!(show_all(&read_units(&on)), [format!("swap /dev/zram0 100 /{path}:5")]);
    }
}
