// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup whose pages are in zswap's pool → how many of them the kernel writes back on request, and the CPU time.
//!
//! `memory.reclaim` of the cgroup runs zswap's shrinker for its pages, in the thread that writes to the file: so its
//! CPU time is that of decompressing the pages and of submitting the writes. Cgroups of version 1 have no such file,
//! and their `memory.force_empty` does not run the shrinker (Linux 6.18).

#![expect(clippy::disallowed_methods, reason = "it asks for reclaim of the cgroup that was lent")]

use std::fs;
use std::path::{Path, PathBuf};

use super::failure::{ErrorContext, Failure};
use super::worker::{grown, thread_cpu_ns, vmstat};

/// The file of a cgroup that asks for its reclaim.
const RECLAIM: &str = "memory.reclaim";
const MEMBERS: &str = "cgroup.procs";
/// The shrinker passes over a page once before it takes it, and takes part of the pool at a time.
const MOST_REQUESTS: u32 = 200;
/// Requests in a row that wrote nothing.
const MOST_IDLE: u32 = 8;

/// Whether the kernel writes back the pages of this cgroup on request.
pub(super) fn is_possible(group: &Path) -> bool {
    group.join(RECLAIM).exists()
}

/// The file that takes this process back to the cgroup that it is in, before it joins another one of the same
/// hierarchy (version 2).
pub(super) fn home(group: &Path) -> Result<PathBuf, Failure> {
    let text = fs::read_to_string("/proc/self/cgroup").context("/proc/self/cgroup")?;
    let own = text.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let is_cgroup = |folder: &&Path| folder.join(MEMBERS).exists();
    let root = group.ancestors().take_while(is_cgroup).last().unwrap_or(group);
    Ok(root.join(own).join(MEMBERS))
}

/// How many of `pages` were written back, and the CPU time of all requests up to the last one that wrote any.
pub(super) fn request(group: &Path, pages: u64) -> Result<(u64, u64), Failure> {
    let file = group.join(RECLAIM);
    let bytes = pages.saturating_mul(rustix::param::page_size() as u64);
    let (mut written, mut cpu_ns, mut since_written_ns, mut idle) = (0, 0, 0, 0);
    for _ in 0..MOST_REQUESTS {
        let (before, cpu) = (vmstat()?, thread_cpu_ns());
        let asked = fs::write(&file, bytes.to_string());
        let taken_ns = thread_cpu_ns() - cpu;
        // "again": less than that was reclaimed, as nothing of the cgroup is in memory
        match asked {
            Err(error) if error.raw_os_error() != Some(libc::EAGAIN) => {
                return Err(error).context(file.display());
            }
            _ => {}
        }
        let now = grown(&before, &vmstat()?, "zswpwb")?;
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
