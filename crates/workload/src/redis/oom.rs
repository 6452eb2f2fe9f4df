// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who of us goes where memory is out: the server, whose data it is. We must live to tell it.
//!
//! The kernel picks the largest score (`proc_pid_oom_score_adj(5)`). Until the memory of the first is
//! given back it may pick a second: what we send to the server is charged, too, and on Linux 6.18 that
//! ended us as well in 3 of 10 runs. So we ask not to be picked at all, which takes
//! `CAP_SYS_RESOURCE`. Nothing else depends on it: where it is refused, whoever watches us sees it.

use std::fs;

const OURS: &str = "/proc/self/oom_score_adj";
const FIRST: &str = "1000";
const NEVER: &str = "-1000";

/// This one goes before all others; so does a child of a runner that is spared.
pub(super) fn goes_first(process: u32) {
    let _ = fs::write(format!("/proc/{process}/oom_score_adj"), FIRST);
}

/// We are not picked as long as this lives.
#[derive(Debug)]
pub(super) struct OomProtection {
    before: Option<String>,
}

impl OomProtection {
    pub(super) fn new() -> Self {
        let before = fs::read_to_string(OURS).ok();
        let spared = fs::write(OURS, NEVER).is_ok();
        Self { before: before.filter(|_| spared) }
    }
}

impl Drop for OomProtection {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = fs::write(OURS, before.trim());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asked of the kernel in another way than by trying.
    fn may_be_spared() -> bool {
        const SYS_RESOURCE: u32 = 24;
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
        u64::from_str_radix(line, 16).unwrap() >> SYS_RESOURCE & 1 == 1
    }

    #[test]
    fn who_may_be_is_spared_and_then_as_before() {
        let score = || fs::read_to_string(OURS).unwrap().trim().to_owned();
        let before = score();
        let spared = OomProtection::new();
        assert_eq!(score(), if may_be_spared() { NEVER } else { &before });
        drop(spared);
        assert_eq!(score(), before);
    }
}
