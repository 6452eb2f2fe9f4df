// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a recording is opened into: its [`Ends`].

use crate::root::HostRoot;

/// The hosts of a recording: at two times, or at one; of one over time, at the last two.
#[derive(Debug)]
pub struct Ends {
    /// The earlier end.
    pub start: Option<HostRoot>,
    /// The later end.
    pub end: HostRoot,
    /// The first two readings of a recording over time, the earlier one first.
    pub first: Option<Box<[HostRoot; 2]>>,
}
