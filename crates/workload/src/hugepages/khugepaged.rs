// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processor time of khugepaged: everybody's, as there is one for all. It ends and begins anew with some
//! settings, so it is looked for each time.

use pagewise_observe::{HostRoot, ThreadCpu};

/// Seconds so far; `None` where there is none, or in a container that does not see it.
pub(super) fn processor_time() -> Option<f64> {
    let host = HostRoot::live().ok()?;
    let time = ThreadCpu::khugepaged(&host).time(&host)?;
    Some(time.get() as f64 / 1e9)
}
