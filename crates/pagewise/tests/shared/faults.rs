// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The example `swap_faults`: pages for it, and its results.

use std::path::{Path, PathBuf};

use serde_json::Value;

pub(crate) const KINDS: [&str; 3] = ["private", "forked", "shmem"];
pub(crate) const ORDERS: [&str; 2] = ["sequential", "random"];

/// Writes pages that are all different, half of each random; every sixteenth page is zeros.
pub(crate) fn image(folder: &Path, pages: u64) -> PathBuf {
    let mut state = 88_172_645_463_325_252_u64;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_ne_bytes()
    };
    let mut bytes = Vec::new();
    for page in 0..pages {
        let text = format!("page {page} of memory that is swapped out. ");
        let half = (0..256).flat_map(|_| noise()).chain(text.bytes().cycle());
        let keep = if page % 16 == 15 { 0 } else { 0xff };
        bytes.extend(half.take(4096).map(|byte| byte & keep));
    }
    let path = folder.join("image");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// The row of one combination; panics if it was not measured.
pub(crate) fn row<'a>(found: &'a Value, kind: &str, order: &str, cluster: u64) -> &'a Value {
    let is_it = |row: &&Value| {
        row["memory"] == kind && row["access"] == order && row["page_cluster"] == cluster
    };
    let row = found["rows"].as_array().unwrap().iter().find(is_it);
    row.unwrap_or_else(|| panic!("{kind}, {order}, {cluster}: {}", found["troubles"]))
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Pages swapped in by one fault, for each page-cluster.
pub(crate) fn pages_per_fault(
    found: &Value,
    kind: &str,
    order: &str,
    clusters: &[u64],
) -> Vec<f64> {
    let of = |&cluster: &u64| number(&row(found, kind, order, cluster)["pages_per_fault"]);
    clusters.iter().map(of).collect()
}

/// Checks what must be true on any kernel.
pub(crate) fn check(found: &Value, rounds: u64, pages: u64, clusters: &[u64]) {
    assert_eq!(found["ended"], "complete");
    assert_eq!(found["troubles"], Value::Array(Vec::new()));
    for (kind, order) in KINDS.iter().flat_map(|kind| ORDERS.map(|order| (kind, order))) {
        for &cluster in clusters {
            let row = row(found, kind, order, cluster);
            let count = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}"));
            let what = format!("{kind}, {order}, {cluster}: {row}");
            assert_eq!((count("rounds"), count("wrong_pages")), (rounds, 0), "{what}");
            let out = count("swapped_out_pages");
            let all = rounds * pages;
            assert!((all * 99 / 100..=all * 101 / 100).contains(&out), "{what}");
            let touched = rounds * if order == "random" { pages / 8 } else { pages };
            assert_eq!(count("touched_pages"), touched, "{what}");
            assert!(count("major_faults") <= touched, "{what}");
            assert!(count("swapped_in_pages") >= touched * 99 / 100, "{what}");
        }
        let all = pages_per_fault(found, kind, order, clusters);
        assert!(
            (0.98..=1.02).contains(&all[0]),
            "{kind}, {order}: nothing is read ahead at 0: {all:?}"
        );
        assert!(all.iter().all(|one| *one <= 8.0), "{kind}, {order}: {all:?}");
    }
    assert_eq!(found["effects"].as_array().unwrap().len(), 6);
    let choice = &found["choices"][0];
    let kinds: Vec<&str> = KINDS.into_iter().filter(|kind| is_read_ahead(found, kind)).collect();
    assert_eq!(choice["memory"], Value::from(kinds.clone()));
    let candidates = if kinds.is_empty() { 0 } else { clusters.len() };
    assert_eq!(choice["candidates"].as_array().unwrap().len(), candidates);
    assert_eq!(choice["implied"], Value::Null, "two rounds are too few to imply anything");
}

/// Whether the kernel reads ahead for a kind of memory, according to the result.
pub(crate) fn is_read_ahead(found: &Value, kind: &str) -> bool {
    let effects = found["effects"].as_array().unwrap();
    effects.iter().any(|effect| effect["memory"] == kind && effect["reads_ahead"] == true)
}

/// Prints a line of a table.
pub(crate) fn tell(label: &str, found: &Value, clusters: &[u64]) {
    for kind in KINDS {
        for order in ORDERS {
            let counts: Vec<String> = pages_per_fault(found, kind, order, clusters)
                .iter()
                .map(|count| format!("{count:5.2}"))
                .collect();
            println!("{label:10} {kind:8} {order:10} pages per fault {}", counts.join(" "));
        }
    }
}
