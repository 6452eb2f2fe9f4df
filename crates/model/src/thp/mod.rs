// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transparent huge pages: settings, how much memory is in them, and the results of collapsing
//! memory into them.

mod collapse;
mod coverage;
mod pinned;
mod settings;
mod thp_profile;

pub use collapse::{
    BudgetMeasure, ByAccess, Collapse, CollapsedProcess, Failed, LeftAlone, Restrain, UnitCollapse,
};
pub use coverage::{Blocks, Coverage, MappingCoverage, MappingKind, ProcessCoverage, ScanMethod};
pub use pinned::{PinnedCode, PinnedFile};
pub use settings::{Khugepaged, Thp, ThpSize};
pub use thp_profile::ThpProfile;
