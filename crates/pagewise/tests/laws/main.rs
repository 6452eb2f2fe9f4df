// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties that hold for every recorded host, and what no recording may contain.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::allow_attributes,
    reason = "tests start programs and prepare the machine by its own tools"
)]

#[path = "../shared/program.rs"]
#[expect(unused_imports, reason = "a law needs few ways to run it")]
mod program;

mod bench;
mod cases;
mod corpus;
mod earlier_end;
mod findings;
mod growth;
mod kills;
mod live;
mod one_decision;
mod pages;
mod plan;
mod redaction;
mod witness;

pub(crate) use pagewise_testkit::scene;
