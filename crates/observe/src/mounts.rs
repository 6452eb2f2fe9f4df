// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads mountinfo.

use crate::root::HostRoot;

/// What is mounted.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    cgroup2: Option<String>,
    cgroup1_memory: Option<String>,
}

impl Mounts {
    /// Where cgroup v2 is mounted, without the leading slash.
    pub(crate) fn cgroup2(&self) -> Option<&str> {
        self.cgroup2.as_deref()
    }

    /// Where the memory controller of cgroup v1 is mounted, without the leading slash.
    pub(crate) fn cgroup1_memory(&self) -> Option<&str> {
        self.cgroup1_memory.as_deref()
    }
}

pub(crate) fn read(host: &HostRoot) -> Mounts {
    let mut mounts = Mounts::default();
    let Ok(text) = host.text("proc/self/mountinfo") else { return mounts };
    for line in text.lines() {
        let words: Vec<String> =
            line.words().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let Some(dash) = words.iter().position(|word| word == "-") else { continue };
        let Some(point) = words.get(4).and_then(|point| point.strip_prefix('/')) else { continue };
        match words.get(dash + 1).map(String::as_str) {
            Some("cgroup2") => mounts.cgroup2 = Some(point.to_owned()),
            Some("cgroup")
                if words.last().is_some_and(|o| o.split(',').any(|one| one == "memory")) =>
            {
                mounts.cgroup1_memory = Some(point.to_owned());
            }
            _ => {}
        }
    }
    mounts
}
