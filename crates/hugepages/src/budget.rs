// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits how much memory may grow: a hard limit that is checked before each call and measured
//! during the run.
//!
//! Each call has to stay within two limits. The first applies to the pages that our calls have
//! added over the whole run: a process that shares half its memory with a fork looks smaller than
//! it is (proportional size), and must not get a larger budget from that. The second applies to the
//! measured memory, which includes what the program itself allocates meanwhile: if the program
//! grows, less is left for us.
//!
//! A block whose pages are all present adds nothing and is always within the budget: the kernel
//! needs memory for the copy only temporarily.

use pagewise_model::Bytes;

/// How much memory the collapses of one run may add.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    before: u64,
    allowance: u64,
    /// Bytes that our collapses have added so far.
    spent: u64,
    measured: u64,
    peak: u64,
    /// Bytes that our collapses have added since the last measurement.
    since: u64,
}

impl Budget {
    /// A budget that lets the memory grow by `share`. The memory is `measured` without the bytes
    /// `spent`, which earlier calls have added and which count against the budget.
    pub(crate) fn new(measured: Bytes, share: f64, spent: Bytes) -> Self {
        let (measured, spent) = (measured.get(), spent.get());
        let before = measured.saturating_sub(spent);
        let allowance = allowance(before, share);
        Self { before, allowance, spent, measured, peak: measured, since: 0 }
    }

    /// Whether a collapse that adds this much memory is within the budget.
    pub(crate) fn has_room(&self, growth: Bytes) -> bool {
        let growth = growth.get();
        let expected = self.measured.saturating_add(self.since).saturating_add(growth);
        growth == 0 || (self.spent + growth <= self.allowance && expected <= self.limit().get())
    }

    /// Counts a collapse that has added this much memory.
    pub(crate) fn spend(&mut self, growth: Bytes) {
        self.spent = self.spent.saturating_add(growth.get());
        self.since = self.since.saturating_add(growth.get());
    }

    /// Records a new measurement of the memory that the budget limits.
    pub(crate) fn measure(&mut self, now: Bytes) {
        self.measured = now.get();
        self.peak = self.peak.max(self.measured);
        self.since = 0;
    }

    /// Whether the memory has to be measured again: more than an eighth of the allowance was added
    /// since the last measurement.
    pub(crate) fn is_measurement_due(&self) -> bool {
        self.since > self.allowance / 8
    }

    pub(crate) fn memory_before(&self) -> Bytes {
        Bytes::new(self.before)
    }

    pub(crate) fn limit(&self) -> Bytes {
        Bytes::new(self.before.saturating_add(self.allowance))
    }

    pub(crate) fn memory(&self) -> Bytes {
        Bytes::new(self.measured)
    }

    pub(crate) fn peak(&self) -> Bytes {
        Bytes::new(self.peak)
    }

    pub(crate) fn spent(&self) -> Bytes {
        Bytes::new(self.spent)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of what fits into memory, at most all of it, and not negative"
)]
fn allowance(before: u64, share: f64) -> u64 {
    (before as f64 * share.clamp(0.0, 10.0)) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is requested, in whatever order, and whatever the process itself does: all that
        /// we add is never more than the share, and right after a measurement the next call never
        /// brings memory above the limit.
        #[test]
        fn the_budget_is_never_exceeded(
            before in 0u64..1 << 30, share in 0.0..0.5f64,
            asks in prop::collection::vec((0u64..1 << 21, -(1i64 << 20)..1i64 << 20, any::<bool>()), 0..200),
        ) {
            let mut budget = Budget::new(Bytes::new(before), share, Bytes::new(0));
            let limit = budget.limit().get();
            let (mut truth, mut added) = (before, 0);
            for (growth, own, measure) in asks {
                truth = truth.saturating_add_signed(own);
                if measure {
                    budget.measure(Bytes::new(truth));
                }
                if budget.has_room(Bytes::new(growth)) {
                    budget.spend(Bytes::new(growth));
                    truth += growth;
                    added += growth;
                    prop_assert!(!measure || growth == 0 || truth <= limit);
                }
                prop_assert!(added as f64 <= before as f64 * share);
            }
            prop_assert_eq!(budget.spent().get(), added);
        }
    }

    #[test]
    fn what_earlier_calls_have_spent_is_not_there_again() {
        let mib = |mib: u64| Bytes::new(mib << 20);
        let budget = Budget::new(mib(108), 0.1, mib(8));
        assert_eq!(
            (budget.memory_before(), budget.limit(), budget.spent()),
            (mib(100), mib(110), mib(8))
        );
        assert!(budget.has_room(mib(2)) && !budget.has_room(mib(3)));
        let over = Budget::new(mib(120), 0.1, mib(20));
        assert!(over.has_room(mib(0)) && !over.has_room(Bytes::new(1)));
    }

    #[test]
    fn what_adds_nothing_is_always_within() {
        let mut budget = Budget::new(Bytes::new(1000), 0.0, Bytes::new(0));
        budget.measure(Bytes::new(5000));
        assert!(budget.has_room(Bytes::new(0)));
        assert!(!budget.has_room(Bytes::new(1)));
    }
}
