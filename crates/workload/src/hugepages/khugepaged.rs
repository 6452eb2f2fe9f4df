// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU time of khugepaged, which works for all processes. The thread ends and restarts when some
//! settings change, so it is searched for each time.

use pagewise_observe::{HostRoot, ThreadCpu};

/// CPU time of khugepaged so far, in seconds; `None` if there is no such thread, or in a container
/// where it is not visible.
pub(super) fn processor_time() -> Option<f64> {
    let host = HostRoot::live().ok()?;
    let time = ThreadCpu::khugepaged(&host).time(&host)?;
    Some(time.get() as f64 / 1e9)
}
