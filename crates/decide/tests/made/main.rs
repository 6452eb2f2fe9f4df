// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Verdicts and explanations of made-up hosts.

#![expect(clippy::unwrap_used, reason = "a test may stop anywhere")]

mod calm;
mod laws;
mod oom;
mod swap_decision;
#[expect(dead_code, reason = "rules are tested with the rest of it")]
mod testing;
mod thp_profile;
mod watch;

use pagewise_decide::Rule;
