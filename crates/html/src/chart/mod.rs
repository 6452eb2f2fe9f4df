// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts as self-contained SVG without scripts, in the colour scheme of the reader (light or
//! dark).
//!
//! Charts use a few colours, each with a role. A style sheet inside the SVG replaces each of them
//! by another colour if the reader's screen is dark.

mod colours;
mod incident;
mod pareto;
mod plane;
mod trial;
mod watched;

pub(crate) use incident::KILL_LINES;
pub use incident::draw_incident;
pub use pareto::draw_pareto;
pub use trial::{draw_arms, draw_intervals, draw_latencies, draw_pairs, draw_runs, draw_settling};
pub use watched::draw_watched;
