// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The HTML page of every recording: small and self-contained.

use pagewise_decide::{diagnose, judge};
use pagewise_model::{Cost, ownership};
use pagewise_report::Answer;
use pagewise_report::view::View;

use crate::scene::{Scene, slugs};

/// Maximum bytes of a page.
const MOST: usize = 400 << 10;

fn page(scene: &Scene) -> String {
    let interval = scene.replay();
    let (findings, verdict) = (diagnose(&interval), judge(&interval));
    let owners = ownership(&interval.end);
    let answer = Answer {
        interval: &interval,
        verdict: &verdict,
        findings: &findings,
        hidden: 0,
        owners: &owners,
        estimates: &[],
        cost: Cost::default(),
    };
    pagewise_html::report(&answer, &View::default())
}

#[test]
fn every_recording_has_a_page_of_at_most_400_kib_that_needs_nothing_else() {
    let mut pages = 0;
    for name in slugs() {
        let page = page(&Scene::load(&name));
        assert!(page.len() <= MOST, "{name}: {} bytes", page.len());
        for outside in ["<script", "http:", "https:", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{name}: {outside}");
        }
        assert!(page.contains("id=\"memory\"") && page.contains("id=\"zones\""), "{name}");
        pages += 1;
    }
    assert!(pages > 30, "only {pages} recordings");
}
