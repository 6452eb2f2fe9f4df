// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pictures: SVG that stands alone and needs no script, in the colours of whoever looks.
//!
//! Charts are drawn in a few colours that stand for roles. A style sheet inside the SVG gives each
//! role another colour where the reader's screen is dark.

mod pareto;
mod plane;
mod trial;
mod watched;

pub use pareto::pareto;
pub use trial::{arms, intervals, latencies, pairs, runs, settling};
pub use watched::watched;

use plotters::style::RGBColor;

/// What a colour is for.
struct Role {
    /// As it is drawn.
    light: RGBColor,
    /// As it looks on a dark screen.
    dark: &'static str,
}

const INK: Role = Role { light: RGBColor(0x1f, 0x23, 0x28), dark: "#e6edf3" };
const PAPER: Role = Role { light: RGBColor(0xfe, 0xfe, 0xfe), dark: "#0d1117" };
const GRID: Role = Role { light: RGBColor(0xd8, 0xde, 0xe4), dark: "#30363d" };
const GOOD: Role = Role { light: RGBColor(0x09, 0x69, 0xda), dark: "#58a6ff" };
const REST: Role = Role { light: RGBColor(0x8c, 0x95, 0x9f), dark: "#768390" };
const OTHER: Role = Role { light: RGBColor(0xbc, 0x4c, 0x00), dark: "#f0883e" };
const THIRD: Role = Role { light: RGBColor(0x1a, 0x7f, 0x37), dark: "#56d364" };
const FOURTH: Role = Role { light: RGBColor(0x82, 0x50, 0xdf), dark: "#d2a8ff" };
const FIFTH: Role = Role { light: RGBColor(0xcf, 0x22, 0x6e), dark: "#ff7bb5" };
const SIXTH: Role = Role { light: RGBColor(0x4d, 0x2d, 0x00), dark: "#e3b341" };
const SEVENTH: Role = Role { light: RGBColor(0x0a, 0x9b, 0xa3), dark: "#39d0d8" };

const ROLES: [&Role; 11] =
    [&INK, &PAPER, &GRID, &GOOD, &REST, &OTHER, &THIRD, &FOURTH, &FIFTH, &SIXTH, &SEVENTH];

/// Colours of arms, in order; those of an eighth arm and further ones return.
const ARMS: [&Role; 7] = [&GOOD, &OTHER, &THIRD, &FOURTH, &FIFTH, &SIXTH, &SEVENTH];

/// The style sheet that goes into each picture.
fn style() -> String {
    let rules = ROLES.iter().map(|Role { light: RGBColor(red, green, blue), dark }| {
        let light = format!("#{red:02X}{green:02X}{blue:02X}");
        format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}")
    });
    let rules: String = rules.collect();
    format!("<style>@media(prefers-color-scheme:dark){{{rules}}}</style>")
}

/// Puts the style sheet behind the opening tag.
fn styled(svg: &str) -> String {
    let opening = svg.find("<svg").and_then(|start| Some(start + svg[start..].find('>')? + 1));
    let (head, body) = svg.split_at(opening.unwrap_or(0));
    format!("{head}{}{body}", style())
}
