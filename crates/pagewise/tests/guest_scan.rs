// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise scan` on other kernels: with cgroup version 2, with multi-gen LRU, by pagemap alone.

mod guest;

use guest::script;
use serde_json::Value;

/// A shell that holds 16 MiB of text in a cgroup of its own, and what scan says of it.
const HOLD: &str = r"
    mkdir /sys/fs/cgroup/held
    sh -c 'echo $$ > /sys/fs/cgroup/held/cgroup.procs
           held=$(seq 1 1000000 | head -c 4000000); touch /ready; sleep 60; echo $held' &
    until [ -e /ready ]; do sleep 0.2; done
    # a new generation, so that the one before can be told to be cold or not
    group=$(grep ' /held$' /sys/kernel/debug/lru_gen | tr -s ' ' | cut -d ' ' -f 2)
    [ -z $group ] || echo + $group 0 $(grep -A 9 ' /held$' /sys/kernel/debug/lru_gen | tr -s ' ' |
        grep '^ [0-9]' | head -4 | tail -1 | cut -d ' ' -f 2) > /sys/kernel/debug/lru_gen
    pagewise scan --cgroup /held --measure --json --algorithm lz4";

fn scan(suite: &str) -> Value {
    let ran = script(&["--kernel", suite], HOLD);
    assert_eq!(ran.status, 0, "{suite}: {}", ran.err);
    serde_json::from_str::<Value>(&ran.out).expect("JSON")["estimates"][0].clone()
}

#[test]
fn guest_of_every_suite_is_scanned_by_cgroup() {
    for suite in ["bookworm", "trixie", "sid"] {
        let estimate = scan(suite);
        assert_eq!(estimate["source"]["kind"], "cgroup", "{suite}: {estimate:#}");
        let pages = estimate["pages"].as_u64().expect("pages");
        assert!((900..20_000).contains(&pages), "{suite}: {pages} pages of about 4 MB");
        let ratio = estimate["algorithms"][0]["original_per_compressed"].as_f64();
        assert!(ratio.is_some_and(|ratio| ratio > 1.5), "{suite}: numbers compress: {ratio:?}");
        let marked = estimate["disturbed"]["referenced_pages"].as_u64();
        assert_eq!(marked, estimate["sampled_pages"].as_u64(), "{suite}");
    }
}

#[test]
fn guest_with_multi_gen_lru_tells_what_is_cold_and_one_without_says_why_not() {
    let young = &scan("sid")["cold"];
    assert_eq!(young["value"], 0, "nothing there is two minutes old: {young}");
    let off = scan("bookworm")["cold"]["absent"].clone();
    assert_eq!(off, "multi-gen LRU is off");
}
