// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines whether the machine, or the cgroup of the target, currently needs memory for something else.
//!
//! The state is checked a few times a second. Facts and rule are separate: [`BrakeSignals`] are read, and
//! [`BrakeSignals::stop_reason`] compares them with limits. The limits leave a margin for memory that is used
//! before the next check.

use pagewise_model::Bytes;
use pagewise_observe::HostRoot;
use pagewise_observe::{Charge, Shortage, charge, shortage};

/// Limit on the percentage of time in which some task waits for memory.
const MOST_STALLED: f64 = 10.0;
/// Divisor of RAM: collapsing stops if less than this part of RAM, or less than `LEAST_FREE` bytes, is available.
const LEAST_SHARE: u64 = 32;
const LEAST_FREE: u64 = 128 << 20;
/// Free memory that must remain below a cgroup's limit, in blocks: during a collapse the new page
/// and the old ones exist at once.
const BLOCKS_BELOW_LIMIT: u64 = 4;

/// The measured values that decide whether collapsing must stop.
#[derive(Debug, Clone, Default)]
pub(crate) struct BrakeSignals {
    pub(crate) machine: Shortage,
    pub(crate) charges: Vec<Charge>,
    pub(crate) block: u64,
}

impl BrakeSignals {
    /// Reads the values of the machine and of the targets' cgroups.
    pub(crate) fn read(host: &HostRoot, groups: &[String], block: u64) -> Self {
        let charges = groups.iter().filter_map(|path| charge(host, path)).collect();
        Self { machine: shortage(host), charges, block }
    }

    /// Why collapsing must stop; `None` if there is no reason, or the values are not known.
    pub(crate) fn stop_reason(&self) -> Option<String> {
        self.stall_reason().or_else(|| self.shortage_reason()).or_else(|| self.limit_reason())
    }

    fn stall_reason(&self) -> Option<String> {
        let stalled = self.machine.stalled.get()?.get();
        (stalled > MOST_STALLED).then(|| {
            format!(
                "tasks wait for memory {stalled:.0} % of the time (at most {MOST_STALLED:.0} %)"
            )
        })
    }

    fn shortage_reason(&self) -> Option<String> {
        let (available, total) = (self.machine.available.get()?, self.machine.total.get()?);
        let least = Bytes::new((total.get() / LEAST_SHARE).max(LEAST_FREE));
        (available < least)
            .then(|| format!("only {available} of memory are available (at least {least})"))
    }

    fn limit_reason(&self) -> Option<String> {
        let room = Bytes::new(self.block.saturating_mul(BLOCKS_BELOW_LIMIT));
        let near = |charge: &&Charge| {
            charge.limit.is_some_and(|limit| charge.current.saturating_add(room) > limit)
        };
        let charge = self.charges.iter().find(near)?;
        let limit = charge.limit.unwrap_or_default();
        Some(format!(
            "its cgroup is at its limit: {} of {limit}, {room} must be free",
            charge.current
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::{Percent, Reading, Source};

    fn calm() -> BrakeSignals {
        let of = |bytes| Reading::found(Bytes::new(bytes), Source::none());
        let stalled = Reading::found(Percent::new(0.5), Source::none());
        let charges =
            vec![Charge { current: Bytes::new(1 << 30), limit: Some(Bytes::new(2 << 30)) }];
        let machine = Shortage { stalled, available: of(8 << 30), total: of(16 << 30) };
        BrakeSignals { machine, charges, block: 2 << 20 }
    }

    #[test]
    fn a_calm_machine_is_no_reason() {
        assert_eq!(calm().stop_reason(), None);
        assert_eq!(BrakeSignals::default().stop_reason(), None, "nothing known");
    }

    #[test]
    fn each_sign_stops_by_itself_and_says_why() {
        let stalled = Reading::found(Percent::new(11.0), Source::none());
        let listed = BrakeSignals { machine: Shortage { stalled, ..calm().machine }, ..calm() }
            .stop_reason()
            .unwrap();
        assert_eq!(listed, "tasks wait for memory 11 % of the time (at most 10 %)");
        let available = Reading::found(Bytes::new(100 << 20), Source::none());
        let listed = BrakeSignals { machine: Shortage { available, ..calm().machine }, ..calm() }
            .stop_reason()
            .unwrap();
        assert_eq!(listed, "only 100.0 MiB of memory are available (at least 512.0 MiB)");
        let limit = Some(Bytes::new((1 << 30) + (7 << 20)));
        let charges = vec![Charge { current: Bytes::new(1 << 30), limit }];
        assert!(BrakeSignals { charges, ..calm() }.stop_reason().unwrap().contains("at its limit"));
    }
}
