// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Swap-in with the kernels of three suites. Only counts are checked: times of an emulated CPU mean
//! nothing.

use crate::boot::script;
use crate::example::into_guest;
use crate::faults::{KINDS, check, image, is_read_ahead, pages_per_fault, tell};
use serde_json::Value;

const CLUSTERS: [u64; 4] = [0, 1, 2, 3];
const PAGES: u64 = 1024;

fn measured(suite: &str) -> Value {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tool = into_guest("swap_faults");
    let image = format!("{}:/image", image(folder.path(), PAGES).display());
    let options = ["--emulate", "--kernel", suite, "--file", &image, "--deadline", "5m"];
    let options = options.into_iter().chain(tool.iter().map(String::as_str)).collect::<Vec<_>>();
    let measure = "mkdir /tmp/tokens; /swap_faults image=/image tokens=/tmp/tokens pages=1024 \
                   rounds=2 2> /tmp/told || { cat /tmp/told >&2; exit 1; }";
    let ran = script(&options, measure);
    assert_eq!(ran.status, 0, "{suite}: {}", ran.err);
    serde_json::from_str(&ran.out).expect("JSON")
}

/// Measures, and checks for which kinds of memory the kernel reads ahead if page-cluster is not 0.
/// On a device as fast as zram, no kernel reads private memory ahead.
fn reads_ahead(suite: &str, read_ahead: &[&str]) {
    let found = measured(suite);
    check(&found, 2, PAGES, &CLUSTERS);
    tell(suite, &found, &CLUSTERS);
    for kind in KINDS {
        let counts = pages_per_fault(&found, kind, "sequential", &CLUSTERS);
        for (cluster, count) in counts.iter().enumerate() {
            let window = if read_ahead.contains(&kind) { f64::from(1 << cluster) } else { 1.0 };
            let near = 0.95 * window..=1.02 * window;
            assert!(near.contains(count), "{suite}, {kind}: {counts:?}");
        }
        let counts = pages_per_fault(&found, kind, "random", &CLUSTERS);
        assert!(counts.iter().all(|count| *count < 1.5), "{suite}, {kind}: {counts:?}");
    }
    let judged: Vec<&str> = KINDS.into_iter().filter(|kind| is_read_ahead(&found, kind)).collect();
    assert_eq!(judged, read_ahead, "{suite}");
}

#[test]
fn guest_of_bookworm_reads_ahead_what_is_shared() {
    reads_ahead("bookworm", &["forked", "shmem"]);
}

#[test]
fn guest_of_trixie_reads_ahead_what_is_shared() {
    reads_ahead("trixie", &["forked", "shmem"]);
}

#[test]
fn guest_of_sid_reads_nothing_ahead() {
    reads_ahead("sid", &[]);
}
