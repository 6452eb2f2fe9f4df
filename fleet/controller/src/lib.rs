// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The controller: turns objects into the input of [`fleet_rollout::step`], and its output into objects.
//!
//! It decides nothing itself and keeps nothing: everything is in the API. The status of the profile is
//! written before the requests of the nodes, and only if the profile is still the one that was read, so
//! that of two controllers, or of one and its own former reading, only one goes on.

pub mod convert;
pub mod lease;
pub mod run;
