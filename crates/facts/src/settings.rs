// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of the kernel whose value is a number.

use pagewise_model::{Name, Reading, Snapshot};

/// A setting whose value is one whole number.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// The number, in the unit that the table of settings states.
    pub value: u64,
    /// The Reading that contains the number.
    pub live: &'a Reading<Name>,
}

/// The setting with this name; `None` if this host lacks it, or it is not a number.
pub fn number<'a>(host: &'a Snapshot, name: &str) -> Option<Setting<'a>> {
    let live = &host.knob(name)?.live;
    Some(Setting { value: live.value()?.as_str().parse().ok()?, live })
}
