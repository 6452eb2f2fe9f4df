// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Invented values for several tests.

use pagewise_model::{Bytes, Coverage, WatchCourse, WatchPhase, WatchSample};

/// Makes samples of a server whose memory is collapsed after 5 s and again after 20 s, and that has
/// a forked child from 10 to 15 s.
pub(crate) fn watched_server() -> (Vec<WatchSample>, WatchCourse) {
    let phase = |seconds, shared, collapsed, covered| WatchPhase {
        seconds,
        shared,
        collapsed,
        covered: Some(covered),
        most: Some(Bytes::new(362 << 20)),
        used: Some(2e-6),
    };
    let course = WatchCourse {
        phases: vec![
            phase([0.0, 4.0], false, 0, 0.0),
            phase([5.0, 9.0], false, 180, 99.4),
            phase([10.0, 14.0], true, 0, 5.5),
            phase([15.0, 19.0], false, 0, 5.5),
            phase([20.0, 24.0], false, 170, 99.4),
        ],
        covered: vec![(0.0, 0.0), (5.0, 99.4), (24.0, 99.4)],
        used: vec![(0.5, 2e-6), (12.0, 2.1e-6), (23.5, 1.9e-6)],
        forks: vec![[10.0, 14.0]],
        counts_requests: true,
    };
    let sample = |second: u32| WatchSample {
        seconds: f64::from(second),
        coverage: Coverage::default(),
        memory: Some(Bytes::new(u64::from(362 + second) << 20)),
        collapsed: if second < 5 { 0 } else { 180 },
        ..WatchSample::default()
    };
    ((0..25).map(sample).collect(), course)
}
