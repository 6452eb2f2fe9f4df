// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Grades that are used by both the verdict and rules, or by several rules.

use pagewise_model::{Bytes, Snapshot};

pub(crate) mod commit;
pub(crate) mod growth;
pub(crate) mod headroom;
pub(crate) mod pressure;
pub(crate) mod spared;
pub(crate) mod stranded;

/// The smallest number of bytes that is worth a finding: `most`, or an eighth of RAM if that is
/// less.
pub(crate) fn least_worthwhile(host: &Snapshot, most: Bytes) -> Bytes {
    host.memory.total.get().map_or(most, |ram| most.min(Bytes::new(ram.get() / 8)))
}
