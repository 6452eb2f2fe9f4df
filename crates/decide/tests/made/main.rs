// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Verdicts and explanations of made-up hosts.

#![expect(clippy::unwrap_used, reason = "a test may stop anywhere")]

mod calm;
mod laws;
mod oom;
mod thp_profile;
mod watch;
mod what_if;
