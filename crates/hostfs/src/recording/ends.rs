// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of opening a recording: its [`Ends`].

use crate::root::HostRoot;

/// The hosts in a recording: at two times, or at one. For a recording over time, at the last two.
#[derive(Debug)]
pub struct Ends {
    /// The host at the earlier time; `None` if the recording is of one time.
    pub start: Option<HostRoot>,
    /// The host at the later time, or at the only one.
    pub end: HostRoot,
    /// The first two readings of a recording over time, the earlier one first.
    pub first: Option<Box<[HostRoot; 2]>>,
}
