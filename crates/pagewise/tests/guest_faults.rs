// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens in swap with the kernels of three suites: counts, as emulation knows no times.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "the pages for the guests")]

mod faults;
mod guest;

use faults::{check, image, pages_per_fault, tell, tool};
use guest::script;
use serde_json::Value;

const CLUSTERS: [u64; 4] = [0, 1, 2, 3];
const PAGES: u64 = 1024;

fn measured(suite: &str) -> Value {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tool = format!("{}:/swap_faults", tool().display());
    let image = format!("{}:/image", image(folder.path(), PAGES).display());
    let options = ["--kernel", suite, "--file", &tool, "--file", &image, "--deadline", "5m"];
    let measure = "mkdir /tmp/tokens; /swap_faults image=/image tokens=/tmp/tokens pages=1024 \
                   rounds=2 2> /tmp/told || { cat /tmp/told >&2; exit 1; }";
    let ran = script(&options, measure);
    assert_eq!(ran.status, 0, "{suite}: {}", ran.err);
    serde_json::from_str(&ran.out).expect("JSON")
}

#[test]
fn guest_of_every_suite_reads_ahead_only_for_what_is_shared() {
    for suite in ["bookworm", "trixie", "sid"] {
        let found = measured(suite);
        check(&found, 2, PAGES, &CLUSTERS);
        tell(suite, &found, &CLUSTERS);
        let counts = |kind, order| pages_per_fault(&found, kind, order, &CLUSTERS);
        for order in faults::ORDERS {
            let private = counts("private", order);
            assert!(private.iter().all(|one| (0.98..=1.02).contains(one)), "{suite}: {private:?}");
        }
        let forked = counts("forked", "sequential");
        for (cluster, count) in forked.iter().enumerate() {
            let window = f64::from(1 << cluster);
            assert!((0.9 * window..=window).contains(count), "{suite}: {forked:?}");
        }
    }
}
