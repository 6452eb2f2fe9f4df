// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes the OOM killer choose the server, which has the data. This process must survive to report
//! the kill.
//!
//! The OOM killer chooses the process with the largest score (`proc_pid_oom_score_adj(5)`). Until
//! the memory of the first victim is freed it may choose a second: what we send to the server is
//! charged to us too, and on Linux 6.18 our process was killed as well in 3 of 10 runs. So we set
//! our score to the minimum, which requires `CAP_SYS_RESOURCE`. If that is refused and our process
//! is killed, the process that runs the experiment notices.

use std::fs;

const OURS: &str = "/proc/self/oom_score_adj";
const FIRST: &str = "1000";
const NEVER: &str = "-1000";

/// Makes a process the first choice of the OOM killer, even if it is the child of a protected
/// process.
pub(super) fn prefer_for_oom(process: u32) {
    let _ = fs::write(format!("/proc/{process}/oom_score_adj"), FIRST);
}

/// Protects this process from the OOM killer while this value exists.
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

    /// Whether this process may lower its OOM score, determined from its capabilities,
    /// independently of trying.
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
