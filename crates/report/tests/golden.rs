// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a person sees, and the schemas, against files that a person has read.
//!
//! `BLESS=1 cargo test -p pagewise-report` rewrites them; read the difference.

mod bench;
mod host;

use std::path::Path;

use pagewise_model::{Cost, Interval, Snapshot};
use pagewise_report::json::{Noun, schema};
use pagewise_report::text::{self, Look, doctor, report, status};
use pagewise_report::{Answer, Benched, csv};

const WIDE: Look = Look { width: 100, colour: false };

#[expect(clippy::disallowed_methods, reason = "a test compares files of the source tree")]
fn compare(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).expect("the source tree can be written");
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, known, "{file} is not what is printed; if it should be, run with BLESS=1");
}

#[test]
fn a_host_with_everything() {
    let interval = host::interval();
    let findings = [vec![host::waiting()], host::findings()].concat();
    let answer = Answer {
        interval: &interval,
        findings: &findings,
        hidden: 0,
        estimates: &[],
        cost: host::cost(),
    };
    compare("tests/golden/report.txt", &report(&answer, WIDE));
    compare("tests/golden/report-60.txt", &report(&answer, Look { width: 60, colour: false }));
    compare("tests/golden/status.txt", &status(&answer, WIDE));
    compare("tests/golden/doctor.txt", &doctor(&answer, WIDE));
}

#[test]
fn a_bench_with_everything() {
    let interval = host::interval();
    let (snapshot, benchmark) = (&interval.end, &bench::benchmark());
    let benched = Benched { snapshot, benchmark, cost: host::cost() };
    compare("tests/golden/bench.txt", &text::bench(&benched, WIDE));
    let narrow = Look { width: 60, colour: false };
    compare("tests/golden/bench-60.txt", &text::bench(&benched, narrow));
    compare("tests/golden/bench.csv", &csv::bench(benchmark));
}

#[test]
fn a_host_of_which_nothing_is_known() {
    let interval = Interval::single(Snapshot::default());
    let answer = Answer {
        interval: &interval,
        findings: &[],
        hidden: 0,
        estimates: &[],
        cost: Cost::default(),
    };
    let all = [report(&answer, WIDE), status(&answer, WIDE), doctor(&answer, WIDE)];
    compare("tests/golden/nothing.txt", &all.join("--\n"));
}

#[test]
fn the_schemas_are_those_of_the_documents() {
    for noun in Noun::ALL {
        compare(&format!("../../docs/schema/{}.schema.json", noun.name()), &schema(noun));
    }
}
