// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One rule for each group of settings, in the order in which their steps are applied.

mod extfrag;
mod huge_pages;
mod hugetlb;
mod limits;
mod mglru;
mod owners;
mod page_cluster;
mod protection;
pub(crate) mod swap_file;
mod swappiness;
mod tier_order;
mod trial;
mod watermarks;
pub(crate) mod zram;
mod zram_size;
pub(crate) mod zswap;

use crate::context::Context;
use crate::draft::Draft;

/// A rule: adds certain changes to a plan because of certain findings.
#[derive(Debug, Clone, Copy)]
pub struct PlanRule {
    /// The rule's name, such as `swappiness`.
    pub id: &'static str,
    /// The ids of the findings that the rule fixes.
    pub findings: &'static [&'static str],
    /// What the rule changes, in a sentence.
    pub doc: &'static str,
    pub(crate) add: fn(&Context<'_>, &mut Draft),
}

/// Every rule that can add steps to a plan.
pub static RULES: &[PlanRule] = &[
    // the result of a trial with the user's own command takes precedence over everything else
    trial::RULE,
    zram::RULE,
    zram_size::RULE,
    tier_order::RULE,
    swap_file::RULE,
    zswap::RULE,
    page_cluster::RULE,
    swappiness::RULE,
    watermarks::RULE,
    extfrag::RULE,
    mglru::RULE,
    huge_pages::RULE,
    hugetlb::RULE,
    protection::RULE,
    limits::RULE,
    owners::RULE,
];
