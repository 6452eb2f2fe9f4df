// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise bench` with other kernels: every algorithm that each offers. Guests are emulated here,
//! so times mean nothing; the tests check what is measured, and that nothing is left behind.

use std::collections::BTreeSet;

use crate::boot::{ProgramRun, SAY, answer, document};

/// With two CPUs, a guest has a clock that is precise enough to time single requests.
const RUN: &str = r#"
    say processors nproc
    ls /sys/block > /before
    get measured pagewise bench --quick --size 4M --mix text:70,random:30 --json
    ls /sys/block > /after
    say devices cmp /before /after
    say swaps wc -l /proc/swaps
"#;

/// Measures the same pages with one algorithm at two levels.
const LEVELS: &str = "get levels pagewise bench --quick --size 4M --mix text:100 --no-swap --json \
    --algorithm zstd:-5 --algorithm zstd:12";

/// Starts the guest once more if its kernel panicked before the command began: with QEMU 7.2 and
/// two emulated CPUs, sid's kernel does that in about 1 of 90 boots.
fn booted(options: &[&str], script: &str) -> ProgramRun {
    let ran = crate::boot::script(options, script);
    let has_begun = ran.out.contains("== processors");
    if has_begun || !ran.err.contains("the kernel panicked") {
        return ran;
    }
    eprintln!("started again after: {}", ran.err);
    crate::boot::script(options, script)
}

fn measured(suite: &str, more: &str, expected: &[&str]) -> String {
    let options = ["--kernel", suite, "--cpus", "2", "--memory", "768M", "--deadline", "10m"];
    let ran = booted(&options, &format!("{SAY}{RUN}{more}"));
    assert_eq!(ran.status, 0, "{} {}", ran.out, ran.err);
    assert_eq!(answer(&ran.out, "processors"), ("2\n", "0"));
    let message = document(&ran.out, "measured");
    assert_eq!(message["layer"], "zram", "{}", message["not_measured"]);
    let rows = message["rows"].as_array().expect("rows");
    let measured: BTreeSet<&str> =
        rows.iter().filter_map(|row| row["algorithm"].as_str()).collect();
    assert_eq!(measured, expected.iter().copied().collect());
    for row in rows {
        let ratio = row["original_per_compressed"].as_f64();
        assert!(ratio.is_some_and(|ratio| (1.2..2.5).contains(&ratio)), "{row}");
    }
    assert_eq!(answer(&ran.out, "devices"), ("", "0"));
    assert_eq!(answer(&ran.out, "swaps"), ("1 /proc/swaps\n", "0"));
    ran.out
}

#[test]
fn guest_of_bookworm_has_all_its_algorithms_measured() {
    measured("bookworm", "", &["lz4", "lz4hc", "lzo", "lzo-rle", "zstd"]);
}

/// If a kernel supports levels, they must show in the ratio.
#[test]
fn guest_of_trixie_has_all_its_algorithms_measured_and_sets_the_level_that_is_asked_for() {
    let session = measured("trixie", LEVELS, &["deflate", "lz4", "lz4hc", "zstd"]);
    let message = document(&session, "levels");
    let rows = message["rows"].as_array().expect("rows");
    let ratio = |level: i32| {
        let row = rows.iter().find(|row| row["level"] == level);
        row.and_then(|row| row["original_per_compressed"].as_f64()).expect("a row of that level")
    };
    assert!(ratio(12) > 1.1 * ratio(-5), "{} and {}", ratio(12), ratio(-5));
}

#[test]
fn guest_of_sid_has_all_its_algorithms_measured() {
    measured("sid", "", &["deflate", "lz4", "lz4hc", "zstd"]);
}
