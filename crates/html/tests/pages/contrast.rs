// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The contrast of a page's colours with its background, as WCAG 2 defines it, in both schemes.

use std::collections::BTreeMap;

use pagewise_model::HostVerdict;
use pagewise_report::Answer;
use pagewise_report::view::View;

use crate::host;

const TEXT: [&str; 6] = ["ink", "quiet", "good", "bad", "open", "warn"];
const AREAS: [&str; 6] = ["anon", "shmem", "file", "kernel", "compressed", "rest"];

/// The colours of each scheme by name: first the light one, then the dark one.
fn schemes(page: &str) -> Vec<BTreeMap<&str, &str>> {
    let blocks = page.split(":root{").skip(1);
    blocks
        .map(|block| {
            let block = block.split('}').next().unwrap_or_default();
            let pairs = block.split([';', '\n']).filter_map(|pair| pair.trim().split_once(':'));
            pairs
                .filter_map(|(name, colour)| {
                    Some((name.strip_prefix("--")?, colour.strip_prefix('#')?))
                })
                .collect()
        })
        .collect()
}

/// Relative luminance of `rrggbb`.
fn luminance(colour: &str) -> f64 {
    let channel = |at: usize| {
        let value =
            f64::from(u8::from_str_radix(&colour[at..at + 2], 16).expect("a colour")) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
}

fn contrast(one: &str, other: &str) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn text_and_areas_stand_out_in_both_schemes() {
    let interval = host::interval();
    let answer = Answer {
        interval: &interval,
        verdict: &HostVerdict::default(),
        findings: &[],
        hidden: 0,
        owners: &[],
        estimates: &[],
        cost: host::cost(),
    };
    let page = pagewise_html::report_page(&answer, &View::default());
    let schemes = schemes(&page);
    assert_eq!(schemes.len(), 2);
    for scheme in schemes {
        for (names, least) in [(TEXT, 4.5), (AREAS, 3.0)] {
            for name in names {
                let contrast = contrast(scheme[name], scheme["paper"]);
                assert!(contrast >= least, "{name}: {contrast:.2} in {scheme:?}");
            }
        }
        assert!(contrast(scheme["ink"], scheme["code"]) >= 4.5, "{scheme:?}");
    }
    assert!((contrast("ffffff", "000000") - 21.0).abs() < 1e-9);
}
