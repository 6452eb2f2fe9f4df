// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the properties of systemd units that limit memory (`MemoryMax=`, `MemoryHigh=` …), from
//! units and drop-ins that were written by the administrator or by `systemctl set-property`.
//!
//! The drop-ins of all folders are read after the unit, in the order of their names; a drop-in
//! hides those of the same name in later folders. The instance of the target is the unit's name,
//! because the unit's cgroup is not known here. Units of packages below `/usr`, and drop-ins for
//! all units of a type (`service.d`) or with a prefix, are not read.

use std::collections::BTreeMap;

use pagewise_hostfs::limits::last;
use pagewise_hostfs::{HostRoot, ReadHost};
use pagewise_model::{Effect, Mechanism, Name, PersistentSetting, Target};

use crate::collector::{Collector, parse_section, split_assignment};
use crate::conf_files::list_in_order;
use crate::limits::UNIT_FILES;

/// Folders with units that the administrator wrote; earlier folders win.
pub const FOLDERS: [&str; 4] = [
    "etc/systemd/system.control",
    "run/systemd/system.control",
    "etc/systemd/system",
    "run/systemd/system",
];
/// Suffixes of units that have a cgroup.
const KINDS: [&str; 6] = [".service", ".slice", ".scope", ".socket", ".mount", ".swap"];

/// Properties of units that limit memory, and the cgroup file that each one sets.
const PROPERTIES: [(&str, Option<&str>); 14] = [
    ("MemoryMin", Some("cgroup.memory.min")),
    ("MemoryLow", Some("cgroup.memory.low")),
    ("MemoryHigh", Some("cgroup.memory.high")),
    ("MemoryMax", Some("cgroup.memory.max")),
    ("MemorySwapMax", Some("cgroup.memory.swap.max")),
    ("MemoryZSwapMax", Some("cgroup.memory.zswap.max")),
    ("MemoryZSwapWriteback", Some("cgroup.memory.zswap.writeback")),
    ("StartupMemoryLow", None),
    ("StartupMemoryHigh", None),
    ("StartupMemoryMax", None),
    ("StartupMemorySwapMax", None),
    ("MemoryTHP", None),
    ("MemoryKSM", None),
    ("OOMPolicy", None),
];

/// The files of one unit itself, and the files in its drop-in folders; earlier folders take
/// precedence.
#[derive(Debug, Default)]
struct UnitFiles {
    own: Vec<String>,
    drop_ins: Vec<String>,
}

pub(crate) fn read(host: &HostRoot) -> Vec<PersistentSetting> {
    let mut all = Collector::new(host, Mechanism::UnitProperty);
    let mut units: BTreeMap<String, UnitFiles> = BTreeMap::new();
    for folder in FOLDERS {
        for name in host.names(folder) {
            let path = format!("{folder}/{name}");
            match name.strip_suffix(".d") {
                Some(unit) if is_unit(unit) => {
                    units.entry(unit.to_owned()).or_default().drop_ins.push(path);
                }
                None if is_unit(&name) => units.entry(name).or_default().own.push(path),
                _ => {}
            }
        }
    }
    let units = last(host, FOLDERS[2], UNIT_FILES, units.into_iter().collect());
    for (unit, files) in units {
        if let Some((own, hidden)) = files.own.split_first() {
            read_file(&mut all, &unit, own, &Effect::Applied);
            let why = || format!("/{own} has the same name and is read instead");
            hidden.iter().for_each(|path| {
                read_file(&mut all, &unit, path, &Effect::Ignored(why().into()));
            });
        }
        for file in list_in_order(host, &files.drop_ins, ".conf") {
            read_file(&mut all, &unit, &file.path, &file.effect());
        }
    }
    all.finish()
}

/// Whether a name is the name of a unit that has a cgroup.
#[must_use]
pub fn is_unit(name: &str) -> bool {
    KINDS.iter().any(|kind| name.strip_suffix(kind).is_some_and(|name| !name.is_empty()))
}

fn read_file(all: &mut Collector<'_>, unit: &str, path: &str, effect: &Effect) {
    all.lines_with(&["Memory", "OOMPolicy"], path, |all, line| {
        if parse_section(line.bytes).is_some() {
            return;
        }
        let Some((property, knob, value)) = parse_property(line.bytes) else { return };
        let target = match knob {
            Some(knob) => Target::Knob { knob, instance: Some(Name::from(unit)) },
            None => Target::Parameter(Name::from(format!("{unit} {property}").as_str())),
        };
        all.add(target, value, line, effect);
    });
}

/// Parses a line that sets a property which limits memory. Returns the property, the cgroup setting
/// that it sets, and its value.
#[must_use]
pub fn parse_property(line: &[u8]) -> Option<(&'static str, Option<&'static str>, &[u8])> {
    let (key, value) = split_assignment(line)?;
    let (name, knob) = PROPERTIES.into_iter().find(|(name, _)| name.as_bytes() == key)?;
    (!value.is_empty()).then_some((name, knob, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{host, show_all};

    #[test]
    fn drop_ins_come_after_the_unit_in_the_order_of_their_names() {
        let host = host([
            (
                "etc/systemd/system/db.service",
                "[Service]\nExecStart=/x\nMemoryMax=1G\nMemoryTHP=madvise\n",
            ),
            ("etc/systemd/system/db.service.d/50-a.conf", "[Service]\nMemoryMax=2G\n"),
            (
                "etc/systemd/system.control/db.service.d/50-MemoryHigh.conf",
                "[Service]\nMemoryHigh=infinity\n",
            ),
            ("run/systemd/system/db.service.d/50-a.conf", "[Service]\nMemoryMax=3G\n"),
            (
                "run/systemd/system/db.service.d/40-b.conf",
                "[Service]\nMemorySwapMax=0\n#MemoryMax=1\nMemoryLow=\n",
            ),
            ("etc/systemd/system/multi-user.target.wants/db.service", "[Service]\nMemoryMax=9G\n"),
        ]);
        let etc = "/etc/systemd/system/db.service";
        assert_eq!(
            show_all(&read(&host)),
            [
                format!("cgroup.memory.max[db.service] 1G {etc}:3"),
                format!("db.service MemoryTHP madvise {etc}:4"),
                "cgroup.memory.swap.max[db.service] 0 /run/systemd/system/db.service.d/40-b.conf:2"
                    .to_owned(),
                "cgroup.memory.high[db.service] infinity \
                 /etc/systemd/system.control/db.service.d/50-MemoryHigh.conf:2"
                    .to_owned(),
                format!("cgroup.memory.max[db.service] 2G {etc}.d/50-a.conf:2"),
                format!(
                    "cgroup.memory.max[db.service] 3G /run/systemd/system/db.service.d/50-a.conf:2 ignored: \
                     {etc}.d/50-a.conf has the same name and is read instead"
                ),
            ]
        );
    }
}
