// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Verdicts and explanations of made-up hosts.

#![expect(clippy::unwrap_used, reason = "a test may stop anywhere")]

mod laws;
mod oom;
#[expect(dead_code, reason = "rules are tested with the rest of it")]
mod testing;

use pagewise_decide::Rule;
