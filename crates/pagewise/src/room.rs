// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that the memory that this program is about to need can be allocated.
//!
//! Reports matter most when memory is short, but at the commit limit (overcommit 2) or under an
//! address space limit (`ulimit -v`) an allocation fails, which aborts the program. So the size
//! that the large parts need is first allocated in one piece and freed at once. If that fails,
//! those parts are left out, and a message says so. Another process may take the memory in between;
//! then the program aborts after all. The stack is grown to its final size at the same time: the
//! kernel charges it as it grows, and a program whose stack cannot grow dies of a segmentation
//! fault without any message.

use std::hint::black_box;

use pagewise_model::{Bytes, Refusal};
use pagewise_observe::{HostRoot, Scope, extent};
use pagewise_terminal::output;

/// Bytes of memory that a snapshot without processes and cgroups takes, including the code that
/// prints it.
const BASE: usize = 2 << 20;
/// Bytes of memory needed to read the facts about the machine as a whole (`Scope::glance`).
const GLANCE: usize = 64 << 10;
/// Bytes of stack that the deepest verb uses: between 192 and 256 KiB in a build without
/// optimization.
const STACK: usize = 256 << 10;
/// Bytes of memory for each process, with both ends of the interval: 3.5 KiB were measured.
const PROCESS: usize = 4 << 10;
/// Snapshots keep at most this many processes.
const MOST_PROCESSES: usize = 12_000;
/// Bytes of memory needed for each cgroup, with its counters at both ends of the interval.
const CGROUP: usize = 32 << 10;
/// Snapshots keep at most this many cgroups.
const MOST_GROUPS: usize = 1000;
/// Bytes of memory needed to read a thousand pages: threads, buffers, and the state of the
/// compressors.
const CONTENTS: usize = 8 << 20;
const MORE_ROOM: &str =
    "raise the limit (ulimit -v; with overcommit 2, vm.overcommit_ratio), or end what commits most";

/// Whether the stack can grow as far as parsing the command line needs; prints a message if not.
pub(crate) fn is_enough_to_start() -> bool {
    let is_enough = can_allocate(STACK);
    if !is_enough {
        let stack = Bytes::new(STACK as u64);
        output::print_message(format_args!("{stack} of memory for the stack could not be had"));
        output::print_hint(MORE_ROOM);
    }
    is_enough
}

/// Returns `scope` if there is memory for it; otherwise prints a message and returns
/// [`Scope::glance`].
///
/// # Errors
///
/// There is not even memory for [`Scope::glance`].
pub(crate) fn choose_affordable_scope(host: &HostRoot, scope: &Scope) -> Result<Scope, Refusal> {
    if !host.is_live() {
        return Ok(*scope);
    }
    let extent = extent(host);
    let needed = BASE
        + extent.processes.min(MOST_PROCESSES).saturating_mul(PROCESS)
        + extent.cgroups.min(MOST_GROUPS).saturating_mul(CGROUP);
    if can_allocate(needed + STACK) {
        grow_stack(STACK);
        return Ok(*scope);
    }
    let least = GLANCE + STACK;
    if !can_allocate(least) {
        let least = Bytes::new(least as u64);
        let refused =
            format!("{least} of memory could not be had, and nothing can be read in less");
        return Err(Refusal::with_advice(refused, MORE_ROOM));
    }
    grow_stack(STACK);
    print_lack(needed, "processes, cgroups and settings are left out");
    Ok(Scope::glance())
}

/// Whether there is memory for reading page contents; prints a message if not.
pub(crate) fn has_memory_for_contents() -> bool {
    let has = can_allocate(CONTENTS);
    if !has {
        print_lack(CONTENTS, "no page contents are read");
    }
    has
}

fn print_lack(needed: usize, left_out: &str) {
    let needed = Bytes::new(needed as u64);
    output::print_message(format_args!("{needed} of memory could not be had: {left_out}"));
    output::print_hint(MORE_ROOM);
}

/// Grows the stack by `bytes` below the caller, by touching it in frames of 4 KiB.
#[inline(never)]
fn grow_stack(bytes: usize) {
    const FRAME: usize = 4 << 10;
    let mut frame = [0_u8; FRAME];
    black_box(&mut frame);
    if bytes > FRAME {
        grow_stack(bytes - FRAME);
    }
    black_box(&frame);
}

/// Whether this many bytes can be allocated in one piece.
fn can_allocate(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_cannot_be_had() {
        assert!(can_allocate(1 << 20) && !can_allocate(usize::MAX / 2));
    }
}
