// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The colours of charts, each with a role.

use plotters::style::RGBColor;

use crate::page::describe_svg;

/// A colour of the charts, named by its role.
pub(super) struct Role {
    /// The colour in the SVG itself, for a light screen.
    pub(super) light: RGBColor,
    /// The colour on a dark screen.
    pub(super) dark: &'static str,
}

pub(super) const INK: Role = Role { light: RGBColor(0x1f, 0x23, 0x28), dark: "#e6edf3" };
pub(super) const PAPER: Role = Role { light: RGBColor(0xfe, 0xfe, 0xfe), dark: "#0d1117" };
pub(super) const GRID: Role = Role { light: RGBColor(0xd8, 0xde, 0xe4), dark: "#30363d" };
pub(super) const GOOD: Role = Role { light: RGBColor(0x09, 0x69, 0xda), dark: "#58a6ff" };
pub(super) const REST: Role = Role { light: RGBColor(0x8c, 0x95, 0x9f), dark: "#768390" };
pub(super) const OTHER: Role = Role { light: RGBColor(0xbc, 0x4c, 0x00), dark: "#f0883e" };
pub(super) const THIRD: Role = Role { light: RGBColor(0x1a, 0x7f, 0x37), dark: "#3fb950" };
pub(super) const FOURTH: Role = Role { light: RGBColor(0x82, 0x50, 0xdf), dark: "#d2a8ff" };
pub(super) const FIFTH: Role = Role { light: RGBColor(0xcf, 0x22, 0x6e), dark: "#ff7bb5" };
pub(super) const SIXTH: Role = Role { light: RGBColor(0x4d, 0x2d, 0x00), dark: "#e3b341" };
pub(super) const SEVENTH: Role = Role { light: RGBColor(0x0a, 0x9b, 0xa3), dark: "#39d0d8" };
pub(super) const BAD: Role = Role { light: RGBColor(0xcf, 0x22, 0x2e), dark: "#ff7b72" };
pub(super) const WARN: Role = Role { light: RGBColor(0x8a, 0x5a, 0x00), dark: "#d29922" };

const ROLES: [&Role; 13] = [
    &INK, &PAPER, &GRID, &GOOD, &REST, &OTHER, &THIRD, &FOURTH, &FIFTH, &SIXTH, &SEVENTH, &BAD,
    &WARN,
];

/// The colours of the arms (variants) of an experiment, in order. They repeat from the eighth arm
/// on.
pub(super) const ARMS: [&Role; 7] = [&GOOD, &OTHER, &THIRD, &FOURTH, &FIFTH, &SIXTH, &SEVENTH];

/// Returns the style sheet that is added to each chart.
fn style() -> String {
    let rules = ROLES.iter().map(|Role { light: RGBColor(red, green, blue), dark }| {
        let light = format!("#{red:02X}{green:02X}{blue:02X}");
        format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}")
    });
    let rules: String = rules.collect();
    format!("<style>@media screen and (prefers-color-scheme:dark){{{rules}}}</style>")
}

/// Adds title, description and style sheet after the opening tag.
pub(super) fn add_style(svg: &str, title: &str, description: &str) -> String {
    let svg = describe_svg(svg, title, description);
    svg.replacen("</desc>", &format!("</desc>{}", style()), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a page, the style sheets of page and chart both apply to a chart, so a colour that both
    /// have must become the same colour on a dark screen.
    #[test]
    fn a_colour_of_page_and_chart_is_the_same_on_a_dark_screen() {
        let sheet = include_str!("../style.css");
        let (light, dark) = sheet.split_once("@media").unwrap();
        let mut both = 0;
        for Role { light: RGBColor(red, green, blue), dark: expected } in ROLES {
            let colour = format!(":#{red:02x}{green:02x}{blue:02x}");
            let Some((before, _)) = light.split_once(&colour) else { continue };
            let name = before.rsplit("--").next().unwrap();
            let (_, rest) = dark.split_once(&format!("--{name}:")).unwrap();
            assert!(rest.starts_with(expected), "{name}");
            both += 1;
        }
        assert!(both >= 5, "{both}");
    }
}
