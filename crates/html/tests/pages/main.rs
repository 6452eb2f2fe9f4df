// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of made-up hosts and experiments.

mod answers;
#[path = "../../../report/tests/bench/mod.rs"]
mod bench;
mod contrast;
mod elements;
#[path = "../../../report/tests/host/mod.rs"]
mod host;
#[path = "../../../report/tests/huge/mod.rs"]
mod huge;
mod report;
#[path = "../../../report/tests/trial/mod.rs"]
mod trial;
mod trials;
mod why;
