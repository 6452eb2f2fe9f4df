// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Grades of severity that the verdict and rules, or several rules, share.

use pagewise_model::{Bytes, Snapshot};

pub(crate) mod commit;
pub(crate) mod growth;
pub(crate) mod headroom;
pub(crate) mod pressure;
pub(crate) mod spared;
pub(crate) mod stranded;

/// The least number of bytes that is worth a finding: `most`, but an eighth of RAM on a machine so small
/// that `most` would be more.
pub(crate) fn worth(host: &Snapshot, most: Bytes) -> Bytes {
    host.memory.total.get().map_or(most, |ram| most.min(Bytes::new(ram.get() / 8)))
}
