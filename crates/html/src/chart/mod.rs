// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pictures: SVG that stands alone and needs no script, in the colours of whoever looks.
//!
//! Charts are drawn in a few colours that stand for roles. A style sheet inside the SVG gives each
//! role another colour where the reader's screen is dark.

mod colours;
mod pareto;
mod plane;
mod trial;
mod watched;

pub use pareto::pareto;
pub use trial::{arms, intervals, latencies, pairs, runs, settling};
pub use watched::watched;
