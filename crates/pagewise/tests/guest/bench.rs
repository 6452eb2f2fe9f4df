// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise bench` on other kernels: every algorithm that each offers. Guests are emulated here, so
//! no time says anything; what is measured, and that nothing is left, does.

use std::collections::BTreeSet;

use crate::boot::script;
use serde_json::Value;

/// With two processors a guest has a clock that times single requests.
const RUN: &str = r#"
    set -e
    ls /sys/block > /before
    pagewise bench --quick --size 4M --mix text:70,random:30 --json > /answer
    ls /sys/block | cmp - /before
    test "$(wc -l < /proc/swaps)" = 1
    cat /answer
"#;

#[test]
fn guest_of_every_suite_has_all_its_algorithms_measured() {
    let suites = [
        ("bookworm", ["lz4", "lz4hc", "lzo", "lzo-rle", "zstd"].as_slice()),
        ("trixie", &["deflate", "lz4", "lz4hc", "zstd"]),
        ("sid", &["deflate", "lz4", "lz4hc", "zstd"]),
    ];
    for (suite, expected) in suites {
        let ran = script(&["--kernel", suite, "--cpus", "2", "--memory", "768M"], RUN);
        assert_eq!(ran.status, 0, "{suite}: {}", ran.err);
        let said: Value = serde_json::from_str(&ran.out).expect("an answer");
        assert_eq!(said["layer"], "zram", "{suite}: {}", said["not_measured"]);
        let rows = said["rows"].as_array().expect("rows");
        let measured: BTreeSet<&str> =
            rows.iter().filter_map(|row| row["algorithm"].as_str()).collect();
        assert_eq!(measured, expected.iter().copied().collect(), "{suite}");
        for row in rows {
            let ratio = row["original_per_compressed"].as_f64();
            assert!(ratio.is_some_and(|ratio| (1.2..2.5).contains(&ratio)), "{suite}: {row}");
        }
    }
}

/// The same pages, one algorithm, two levels: where a kernel takes levels they must show in the ratio.
#[test]
fn guest_bench_sets_the_level_that_is_asked_for() {
    let run = "pagewise bench --quick --size 4M --mix text:100 --no-swap --json \
        --algorithm zstd:-5 --algorithm zstd:12";
    let ran = script(&["--kernel", "trixie", "--cpus", "2", "--memory", "768M"], run);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let said: Value = serde_json::from_str(&ran.out).expect("an answer");
    let rows = said["rows"].as_array().expect("rows");
    let ratio = |level: i32| {
        let row = rows.iter().find(|row| row["level"] == level);
        row.and_then(|row| row["original_per_compressed"].as_f64()).expect("a row of that level")
    };
    assert!(ratio(12) > 1.1 * ratio(-5), "{} and {}", ratio(12), ratio(-5));
}
