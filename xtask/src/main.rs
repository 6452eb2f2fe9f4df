// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The project's own chores: dependency arrows, benchmarks, fuzzing, golden files.
fn main() {}
