// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a recording is opened into: its [`Ends`].

use crate::root::HostRoot;

/// The hosts of a recording: at two times, or at one.
#[derive(Debug)]
pub struct Ends {
    /// The earlier end.
    pub start: Option<HostRoot>,
    /// The later end.
    pub end: HostRoot,
}
