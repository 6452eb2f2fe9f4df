// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes the kernel write back pages of a cgroup from zswap's pool; measures how many pages it
//! writes, and the CPU time.
//!
//! Writing to the cgroup's `memory.reclaim` runs zswap's shrinker for its pages, in the writing
//! thread; so the CPU time is that of decompressing the pages and submitting the writes. v1 cgroups
//! have no such file, and their `memory.force_empty` does not run the shrinker (Linux 6.18).

#![expect(clippy::disallowed_methods, reason = "it asks for reclaim of the cgroup that was lent")]

use std::fs;
use std::path::{Path, PathBuf};

use super::failure::{ErrorContext, Failure};
use super::worker::{growth, read_vmstat, thread_cpu_ns};

/// Name of the cgroup file that requests reclaim.
const RECLAIM: &str = "memory.reclaim";
const MEMBERS: &str = "cgroup.procs";
/// Maximum number of requests: the shrinker skips each page once before it writes the page back,
/// and one request handles only a part of the pool.
const MOST_REQUESTS: u32 = 200;
/// Number of consecutive requests without effect after which no more are made.
const MOST_IDLE: u32 = 8;

/// Whether the kernel writes back the pages of this cgroup on request.
pub(super) fn is_possible(group: &Path) -> bool {
    group.join(RECLAIM).exists()
}

/// Path of the `cgroup.procs` file of this process's present cgroup, by which it can return after
/// it has joined another cgroup of the same hierarchy (v2).
pub(super) fn home_procs_file(group: &Path) -> Result<PathBuf, Failure> {
    let text = fs::read_to_string("/proc/self/cgroup").context("/proc/self/cgroup")?;
    let own = text.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let is_cgroup = |folder: &&Path| folder.join(MEMBERS).exists();
    let root = group.ancestors().take_while(is_cgroup).last().unwrap_or(group);
    Ok(root.join(own).join(MEMBERS))
}

/// Requests writeback; returns how many of `pages` were written back, and the CPU time in
/// nanoseconds of all requests up to the last one that had an effect.
pub(super) fn request_writeback(group: &Path, pages: u64) -> Result<(u64, u64), Failure> {
    let file = group.join(RECLAIM);
    let bytes = pages.saturating_mul(rustix::param::page_size() as u64);
    let (mut written, mut cpu_ns, mut since_written_ns, mut idle) = (0, 0, 0, 0);
    for _ in 0..MOST_REQUESTS {
        let (before, cpu) = (read_vmstat()?, thread_cpu_ns());
        let asked = fs::write(&file, bytes.to_string());
        let taken_ns = thread_cpu_ns() - cpu;
        // EAGAIN: less than requested was reclaimed, because none of the cgroup's pages are in
        // memory
        match asked {
            Err(error) if error.raw_os_error() != Some(libc::EAGAIN) => {
                return Err(error).context(file.display());
            }
            _ => {}
        }
        let now = growth(&before, &read_vmstat()?, "zswpwb")?;
        since_written_ns += taken_ns;
        idle += 1;
        if now > 0 {
            written += now;
            cpu_ns += since_written_ns;
            (since_written_ns, idle) = (0, 0);
        }
        if written >= pages || idle == MOST_IDLE {
            break;
        }
    }
    Ok((written, cpu_ns))
}
