// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the knob table.

use pagewise_model::*;

use crate::root::HostRoot;

use pagewise_model::knob::KnobReading;
pub(crate) fn read(_host: &HostRoot, _cgroups: &Cgroups) -> Vec<KnobReading> {
    Vec::new()
}
