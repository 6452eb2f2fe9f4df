// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which metrics can be judged, given the clock of the machine on which they were measured.

use pagewise_model::{Clock, MetricKind};

/// Returns why a metric of this kind cannot be judged with this clock; `None` if it can.
pub(crate) fn explain_not_judged(kind: MetricKind, clock: Clock) -> Option<&'static str> {
    match (kind, clock) {
        (MetricKind::Count | MetricKind::Said, _) | (_, Clock::Real) => None,
        (MetricKind::Cpu, Clock::Counted) => None,
        (MetricKind::Cpu, Clock::Emulated) => Some("processor time under emulation is not judged"),
        (MetricKind::Time, _) => Some("time under emulation is not judged"),
    }
}
