// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that set a limit, until the next boot and permanently. Pagewise itself does not run
//! them.

use pagewise_facts::groups;
use pagewise_model::{Bytes, Cgroup, Limit, Reading};

use crate::text::{quoted, writes_and};

/// The file of a limit, and its current value.
#[derive(Debug)]
pub(super) struct LimitFile {
    path: String,
    now: Limit,
}

impl LimitFile {
    /// The file of the existing limit. Without one it is `memory.high`, which throttles the group
    /// where `memory.max` would kill a process in it; version 1 has only the equivalent of
    /// `memory.max`.
    pub(super) fn of_limit(group: &Cgroup, limit: &Reading<Limit>) -> Self {
        let is_set = limit.get().is_some_and(|limit| limit != Limit::Max);
        let file = if is_set || group.high.value().is_none() { limit } else { &group.high };
        Self { path: file.source.path().to_owned(), now: file.get().unwrap_or(Limit::Max) }
    }

    /// The name of the limit's property in systemd; `None` with version 1, whose property newer
    /// releases have dropped.
    fn property(&self) -> Option<&'static str> {
        match self.path.rsplit('/').next()? {
            "memory.high" => Some("MemoryHigh"),
            "memory.max" => Some("MemoryMax"),
            _ => None,
        }
    }
}

/// Commands that set the limit of a group. Empty if the path of the file is unknown: with version 1
/// the absence of a limit is read from memory.stat.
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
    // with version 1 a limit is removed by writing -1
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
