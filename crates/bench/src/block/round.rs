// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a shape of requests cost in one round.

/// What a shape cost in one round. Rounds of the same number ran beside each other: pairs for a
/// comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// From 0; a round that was cut short is missing.
    pub number: u32,
    /// How many.
    pub requests: u64,
    /// A second, all jobs together.
    pub iops: f64,
    /// Mean time of a request, one reading of the clock included, as all times here.
    pub mean_ns: f64,
    /// Half took at most this.
    pub p50_ns: f64,
    /// 99 of 100 did.
    pub p99_ns: f64,
    /// 999 of 1,000 did; of fewer requests it is the longest.
    pub p999_ns: f64,
    /// Processor time of a request, in the kernel and outside.
    pub cpu_ns_per_io: f64,
    /// Of it in the kernel; nothing where requests are no system calls.
    pub kernel_ns_per_io: Option<f64>,
}
