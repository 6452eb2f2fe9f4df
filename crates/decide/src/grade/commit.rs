// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Strict overcommit accounting: how close committed memory is to its limit.
//!
//! With `vm.overcommit_memory` 2 the kernel refuses a mapping that would raise `Committed_AS` above
//! `CommitLimit`, regardless of free memory. In the other modes the limit has no effect. Source:
//! the kernel's `Documentation/mm/overcommit-accounting.rst`.

use pagewise_model::{Bytes, Level, Name, Percent, Reading, Snapshot};

const NEAR_PERCENT: f64 = 90.0;
const AT_PERCENT: f64 = 97.0;

/// How close committed memory is to the limit of strict overcommit accounting.
#[derive(Debug)]
pub(crate) struct NearLimit {
    pub(crate) level: Level,
    pub(crate) committed: Bytes,
    pub(crate) limit: Bytes,
    pub(crate) share: Percent,
}

/// Returns the setting `vm.overcommit_memory` if its value is 2.
pub(crate) fn strict_mode(host: &Snapshot) -> Option<&Reading<Name>> {
    let mode = &host.knob("vm.overcommit_memory")?.live;
    (mode.value()?.as_str() == "2").then_some(mode)
}

/// Returns how much more memory may be committed; `None` in other overcommit modes, or if it is
/// unknown.
pub(crate) fn remaining_commit(host: &Snapshot) -> Option<Bytes> {
    strict_mode(host)?;
    Some(host.memory.commit_limit.get()?.saturating_sub(host.memory.committed.get()?))
}

/// Returns the committed memory and its limit if they are close; `None` in other overcommit modes,
/// if enough is left, or if the values are unknown.
pub(crate) fn find_near_limit(host: &Snapshot) -> Option<NearLimit> {
    strict_mode(host)?;
    let (committed, limit) = (host.memory.committed.get()?, host.memory.commit_limit.get()?);
    let share = committed.percent_of(limit)?;
    let level = match share.get() {
        percent if percent >= AT_PERCENT => Level::Short,
        percent if percent >= NEAR_PERCENT => Level::Tight,
        _ => return None,
    };
    Some(NearLimit { level, committed, limit, share })
}
