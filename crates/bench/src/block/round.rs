// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of a shape of requests in one round.

/// The cost of a shape of requests in one round. Rounds with the same number ran under the same
/// conditions: they are pairs for a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// Number of the round, counted from 0; a round that was cut short is missing.
    pub number: u32,
    /// Number of requests in the round.
    pub requests: u64,
    /// Number of requests per second, all jobs together.
    pub iops: f64,
    /// Mean time of a request in nanoseconds. Like all times here, this includes the time of one
    /// reading of the clock.
    pub mean_ns: f64,
    /// Median time of a request in nanoseconds: half of the requests took at most this.
    pub p50_ns: f64,
    /// Time in nanoseconds that 99 % of the requests did not exceed.
    pub p99_ns: f64,
    /// Time in nanoseconds that 99.9 % of the requests did not exceed; with fewer than 1,000
    /// requests it is the longest.
    pub p999_ns: f64,
    /// CPU time per request in nanoseconds, in kernel and user space.
    pub cpu_ns_per_io: f64,
    /// The part of the CPU time per request that was spent in the kernel, in nanoseconds; `None` if
    /// requests are not system calls.
    pub kernel_ns_per_io: Option<f64>,
}
