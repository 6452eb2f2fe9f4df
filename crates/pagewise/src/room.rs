// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether this program may have the memory that it is about to need.
//!
//! A report is wanted most where memory is short: at the commit limit (overcommit 2) or under a limit of
//! address space an allocation fails, and that ends the program. So what the large parts need is asked
//! for in one piece first and given back at once. What does not fit is left out, and the rest is said.
//! Somebody else may take the room meanwhile; then the program ends as before. The stack is made as large as
//! it will get at the same time: the kernel counts it as it grows, and a program whose stack may not grow
//! dies of a segmentation fault, which says nothing.

use std::hint::black_box;

use pagewise_model::{Bytes, Refusal};
use pagewise_observe::{HostRoot, Scope, extent};
use pagewise_terminal::output;

/// What a snapshot takes without processes and cgroups, with what prints it.
const BASE: usize = 2 << 20;
/// What facts of the machine as a whole take.
const GLANCE: usize = 64 << 10;
/// The stack of the deepest verb: between 192 and 256 KiB in a build without optimization.
const STACK: usize = 256 << 10;
/// The same as [`BASE`] for each process at both ends: 3.5 KiB were measured.
const PROCESS: usize = 4 << 10;
/// The same for each cgroup with its counters at both ends.
const CGROUP: usize = 32 << 10;
/// Groups above this number are not kept.
const MOST_GROUPS: usize = 1000;
/// What looking at a thousand pages takes: threads, buffers, what algorithms need.
const CONTENTS: usize = 8 << 20;
const MORE_ROOM: &str =
    "raise the limit (ulimit -v; with overcommit 2, vm.overcommit_ratio), or end what commits most";

/// Whether the stack may grow as far as the command line needs it, with a word where it may not.
pub(crate) fn is_enough_to_start() -> bool {
    let is_enough = has(STACK);
    if !is_enough {
        let stack = Bytes::new(STACK as u64);
        output::message(format_args!("{stack} of memory for the stack could not be had"));
        output::hint(MORE_ROOM);
    }
    is_enough
}

/// `scope` where there is room for it, else facts of the machine as a whole and a word about it.
///
/// # Errors
///
/// There is no room for these facts either.
pub(crate) fn affordable(host: &HostRoot, scope: &Scope) -> Result<Scope, Refusal> {
    if !host.is_live() {
        return Ok(*scope);
    }
    let extent = extent(host);
    let needed = BASE
        + extent.processes.saturating_mul(PROCESS)
        + extent.cgroups.min(MOST_GROUPS).saturating_mul(CGROUP);
    if has(needed + STACK) {
        grow_stack(STACK);
        return Ok(*scope);
    }
    let least = GLANCE + STACK;
    if !has(least) {
        let least = Bytes::new(least as u64);
        let refused =
            format!("{least} of memory could not be had, and nothing can be read in less");
        return Err(Refusal::advised(refused, MORE_ROOM));
    }
    grow_stack(STACK);
    tell(needed, "processes, cgroups and settings are left out");
    Ok(Scope::glance())
}

/// Whether page contents can be looked at.
pub(crate) fn has_for_contents() -> bool {
    let has = has(CONTENTS);
    if !has {
        tell(CONTENTS, "no page contents are read");
    }
    has
}

fn tell(needed: usize, left_out: &str) {
    let needed = Bytes::new(needed as u64);
    output::message(format_args!("{needed} of memory could not be had: {left_out}"));
    output::hint(MORE_ROOM);
}

/// Touches so much of the stack below the caller, by pages of 4 KiB.
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

/// Whether so much can be had in one piece.
fn has(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_cannot_be_had() {
        assert!(has(1 << 20) && !has(usize::MAX / 2));
    }
}
