// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of made-up hosts and experiments.

mod elements;
#[path = "../../../report/tests/host/mod.rs"]
mod host;
mod report;
#[path = "../../../report/tests/trial/mod.rs"]
mod trial;
mod trials;
