// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that set a limit: until the next boot, and for good. Pagewise runs none of them.

use pagewise_facts::groups;
use pagewise_model::{Bytes, Cgroup, Limit, Reading};

use crate::text::{quoted, writes_and};

/// The file of a limit, and what it says now.
#[derive(Debug)]
pub(super) struct LimitFile {
    path: String,
    now: Limit,
}

impl LimitFile {
    /// The limit that there is. Without one it is `memory.high`, which slows the group down where `memory.max`
    /// would kill a process in it; version 1 has only the latter.
    pub(super) fn of_limit(group: &Cgroup, limit: &Reading<Limit>) -> Self {
        let is_set = limit.get().is_some_and(|limit| limit != Limit::Max);
        let file = if is_set || group.high.value().is_none() { limit } else { &group.high };
        Self { path: file.source.path().to_owned(), now: file.get().unwrap_or(Limit::Max) }
    }

    /// What systemd calls it; `None` in version 1, whose property newer releases do not have.
    fn property(&self) -> Option<&'static str> {
        match self.path.rsplit('/').next()? {
            "memory.high" => Some("MemoryHigh"),
            "memory.max" => Some("MemoryMax"),
            _ => None,
        }
    }
}

/// Nothing where the file is not known: memory.stat of version 1 says by itself that there is no limit.
pub(super) fn commands(group: &Cgroup, file: &LimitFile, size: Bytes) -> Vec<String> {
    let mebibytes = size.get() >> 20;
    if let Some((unit, property)) = groups::system_unit(group).zip(file.property()) {
        let before = match file.now {
            Limit::Bytes(now) => now.get().to_string(),
            Limit::Max => "infinity".to_owned(),
        };
        let set = |how: &str, lasts: &str| {
            let command = format!(
                "sudo systemctl set-property {how}{} {property}={mebibytes}M",
                quoted(unit)
            );
            writes_and(command, &format!("{lasts}; undo with {property}={before}"))
        };
        return vec![set("--runtime ", "until the next boot"), set("", "permanent")];
    }
    let Some(path) = path(group, file) else { return Vec::new() };
    // version 1 takes -1 for no limit
    let before = match file.now {
        Limit::Bytes(now) => now.get().to_string(),
        Limit::Max if path.ends_with("limit_in_bytes") => "-1".to_owned(),
        Limit::Max => "max".to_owned(),
    };
    let command = format!("echo {mebibytes}M | sudo tee {}", quoted(&path));
    let lasts = "until the cgroup is created again; what makes it has to set it to make it last";
    vec![writes_and(command, &format!("{lasts}; undo with {before}"))]
}

fn path(group: &Cgroup, file: &LimitFile) -> Option<String> {
    if file.path.ends_with("memory.stat") {
        let (folder, _) = group.current.source.path().rsplit_once('/')?;
        return Some(format!("{folder}/memory.limit_in_bytes"));
    }
    (!file.path.is_empty()).then(|| file.path.clone())
}
