// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chooses the blocks that qualify for a collapse, the fullest first, and gives the reason for the
//! others.
//!
//! The kernel's own limit for filling gaps (`max_ptes_none`) does not apply to a collapse by
//! MADV_COLLAPSE, which would allocate a whole huge page for a block with a single page. So at
//! least half of the pages must be present.

use pagewise_model::LeftAlone;
use pagewise_procmem::coverage::{Block, Exclusive};

/// Which blocks are collapsed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CollapsePolicy {
    /// Number of pages in a block, which is as large as a huge page.
    pub(crate) pages: u32,
    /// Also choose blocks with pages in swap, which a collapse swaps in.
    pub(crate) swapped: bool,
}

/// Why a block is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkipReason {
    /// The block is a huge page, or has no pages.
    Nothing,
    Sparse,
    Swapped,
    Shared,
    /// The address of the block now belongs to a mapping of a file.
    Changed,
}

impl CollapsePolicy {
    /// Whether a block qualifies for a collapse, judged by the page tables.
    pub(crate) fn judge(self, block: &Block) -> Result<(), SkipReason> {
        if block.huge || block.present == 0 {
            Err(SkipReason::Nothing)
        } else if block.swapped > 0 && !self.swapped {
            Err(SkipReason::Swapped)
        } else if block.present < self.pages.div_ceil(2) {
            Err(SkipReason::Sparse)
        } else {
            Ok(())
        }
    }

    /// Whether a block still qualifies directly before the collapse, judged by pagemap's
    /// information about each page. Zero pages do not count as shared, although every process maps
    /// them, because a collapse replaces them.
    pub(crate) fn judge_again(self, block: &Block, pages: Exclusive) -> Result<(), SkipReason> {
        self.judge(block)?;
        if pages.of_file > 0 {
            Err(SkipReason::Changed)
        } else if pages.present.saturating_sub(pages.exclusive) > block.zero {
            Err(SkipReason::Shared)
        } else if pages.swapped > 0 && !self.swapped {
            Err(SkipReason::Swapped)
        } else {
            Ok(())
        }
    }
}

/// The blocks that qualify, fullest first; equally full ones in order of address.
pub(crate) fn pick(blocks: Vec<Block>, policy: CollapsePolicy, left: &mut LeftAlone) -> Vec<Block> {
    let worth = |block: &Block| match policy.judge(block) {
        Ok(()) => true,
        Err(why) => {
            count_skipped(left, why);
            false
        }
    };
    let mut picked: Vec<Block> = blocks.into_iter().filter(worth).collect();
    picked.sort_by_key(|block| (std::cmp::Reverse(block.present), block.address));
    picked
}

/// Counts a block that is skipped, by the reason.
pub(crate) fn count_skipped(left: &mut LeftAlone, why: SkipReason) {
    match why {
        SkipReason::Nothing => (),
        SkipReason::Sparse => left.sparse += 1,
        SkipReason::Swapped => left.swapped += 1,
        SkipReason::Shared => left.shared += 1,
        SkipReason::Changed => left.changed += 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: CollapsePolicy = CollapsePolicy { pages: 512, swapped: false };

    fn block() -> impl Strategy<Value = Block> {
        let parts = (0u64..64, 0u32..=512, 0u32..=4, 0u32..=4, any::<bool>());
        parts.prop_map(|(at, present, zero, swapped, huge)| Block {
            address: at << 21,
            present,
            zero: zero.min(512 - present),
            swapped: swapped.min(512 - present),
            huge,
        })
    }

    proptest! {
        /// Every block is either picked or counted, except huge and empty ones; and of two picked
        /// blocks the fuller one comes first.
        #[test]
        fn each_block_is_picked_or_counted(blocks in prop::collection::vec(block(), 0..60)) {
            let mut left = LeftAlone::default();
            let picked = pick(blocks.clone(), POLICY, &mut left);
            let nothing = blocks.iter().filter(|block| block.huge || block.present == 0).count();
            let seen = (picked.len() + nothing) as u64 + left.total();
            prop_assert_eq!(seen, blocks.len() as u64);
            prop_assert!(picked.iter().all(|b| !b.huge && b.swapped == 0 && b.present >= 256));
            prop_assert!(picked.is_sorted_by(|a, b| a.present >= b.present));
        }
    }

    #[test]
    fn a_page_that_somebody_else_maps_is_enough_to_leave_it() {
        let block = Block { present: 500, zero: 3, ..Block::default() };
        let all_ours = Exclusive { present: 503, exclusive: 500, ..Exclusive::default() };
        assert_eq!(POLICY.judge_again(&block, all_ours), Ok(()));
        let one_shared = Exclusive { exclusive: 499, ..all_ours };
        assert_eq!(POLICY.judge_again(&block, one_shared), Err(SkipReason::Shared));
        let a_file = Exclusive { of_file: 1, ..all_ours };
        assert_eq!(POLICY.judge_again(&block, a_file), Err(SkipReason::Changed));
        let swapped = Exclusive { swapped: 1, ..all_ours };
        assert_eq!(POLICY.judge_again(&block, swapped), Err(SkipReason::Swapped));
    }
}
