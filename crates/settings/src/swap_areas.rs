// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads which swap areas are enabled at boot: lines of `/etc/fstab` and systemd's `.swap` units.
//!
//! The value is the priority, or `default` if none is given: then the kernel chooses one. Areas
//! given by UUID or label keep that name, because no configuration file says which device it is.

use std::collections::BTreeMap;

use pagewise_hostfs::text::{unescape, words};
use pagewise_hostfs::{HostRoot, ReadHost};
use pagewise_model::{Effect, Mechanism, Name, PersistentSetting, Target};

use crate::collector::{Collector, section, split_assignment};
use crate::units;

/// Path of the table of file systems and swap areas.
pub const FSTAB: &str = "etc/fstab";
/// Folders whose links enable a unit at boot.
const WANTS: [&str; 2] =
    ["etc/systemd/system/swap.target.wants", "etc/systemd/system/multi-user.target.wants"];

pub(crate) fn read_fstab(host: &HostRoot) -> Vec<PersistentSetting> {
    let mut all = Collector::new(host, Mechanism::Fstab);
    all.lines(FSTAB, |all, line| {
        let Some(swap) = fstab_line(line.bytes) else { return };
        let effect = if swap.is_automatic {
            Effect::Applied
        } else {
            Effect::Ignored("noauto leaves it off at boot".into())
        };
        let area = Target::SwapArea(Name::from_bytes(&swap.area));
        all.add(area, swap.priority.as_bytes(), line, &effect);
    });
    all.finish()
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
pub fn fstab_line(line: &[u8]) -> Option<FstabSwap> {
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
    let Some(text) = all.text(path) else { return };
    let (mut area, mut priority, mut place) = (None, None, None);
    for line in text.first_lines(all.host, crate::limits::CONFIG_LINES) {
        if section(line.bytes).is_some() {
            continue;
        }
        match unit_key(line.bytes) {
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

/// The key and value of a line in a `.swap` unit, if it matters here.
#[must_use]
pub fn unit_key(line: &[u8]) -> Option<(&'static str, &[u8])> {
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
