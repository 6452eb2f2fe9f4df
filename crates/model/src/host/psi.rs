// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pressure stall information (PSI): how much time tasks lost waiting for a resource.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Micros, Percent, Reading};

/// One line of a pressure file: the shares of recent time, and the total time, that were stalled:
/// in which tasks waited for the resource. Source: the kernel's accounting/psi document.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Stall {
    /// Share of the last 10 s that was stalled.
    pub avg10: Reading<Percent>,
    /// Share of the last 60 s that was stalled.
    pub avg60: Reading<Percent>,
    /// Share of the last 300 s that was stalled.
    pub avg300: Reading<Percent>,
    /// Total stalled time since boot.
    pub total_us: Reading<Micros>,
}

/// Pressure on one resource: the time in which at least one task waited for the resource, and the
/// time in which all tasks waited.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Pressure {
    /// Time in which at least one task waited.
    pub some: Stall,
    /// Time in which all non-idle tasks waited at once, so that no work was done.
    pub full: Stall,
}

/// Contents of the files in `/proc/pressure`. If the kernel has PSI but it is switched off, reading
/// these files fails, and all fields are absent with this reason.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the file of the same name")]
pub struct Psi {
    pub cpu: Pressure,
    pub memory: Pressure,
    pub io: Pressure,
}
