// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process that may be searched for pages: [`Candidate`].

use pagewise_model::Name;

/// A process to be searched, with the facts about it that are already known.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) pid: u32,
    pub(crate) name: Name,
    pub(crate) cgroup: Option<Name>,
}
