// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processor time of khugepaged: everybody's, as there is one for all. It ends and begins anew with some
//! settings, so it is looked for each time.

use std::fs;

/// Seconds so far; `None` where there is none, or in a container that does not see it.
pub(super) fn processor_time() -> Option<f64> {
    let all = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pid = pids.find(|pid| is_it(*pid))?;
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let nanos: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanos / 1e9)
}

/// A thread of the kernel has no command line: anybody may have that name.
fn is_it(pid: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let line = || fs::read(format!("/proc/{pid}/cmdline"));
    name.trim() == "khugepaged" && line().is_ok_and(|line| line.is_empty())
}
