// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The controller against a real API server, with simulated nodes that answer through the API.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod faults;
mod nodes;
mod thousand;
