// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages of experiments. `PAGE=FILE cargo test -p pagewise-html --test pages` saves one for
//! review by a person.

use pagewise_model::{Cost, Program, Snapshot, Trial, TrialRun, group_digits};
use pagewise_report::TrialReport;

use crate::{host, trial};

fn page(trial: &Trial, runs: &[TrialRun]) -> String {
    let (snapshot, cost) = (&Snapshot::default(), Cost::default());
    pagewise_html::trial_page(&TrialReport {
        name: None,
        snapshot,
        trial,
        runs,
        evidence: None,
        cost,
    })
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a person may want to look at it")]
fn several_arms_have_all_pictures_and_tables() {
    let (trial, runs) = (trial::wide::trial(), trial::wide::runs());
    let page = page(&trial, &runs);
    if let Some(path) = std::env::var_os("PAGE") {
        std::fs::write(path, &page).expect("a file that can be written");
    }
    // arms, runs, three pairs, settling, latencies, and all metrics three times
    assert_eq!(page.matches("<svg").count(), 1 + 1 + 3 + 2 + 3);
    for word in [
        "swap on zram 100 MiB zstd, then a file of 1 GiB; vm.swappiness = 100",
        "killed for lack of memory ×3 (pagewise)",
        "on <code>the workload swap</code>",
        "data = 224M",
        "given up",
        "compared with",
        "12.0 MiB",
        "lzo1x_1_do_compress",
        "its own top ten",
        "Settling",
        "Latency of operations",
        "tiers against zram",
    ] {
        assert!(page.contains(word), "{word}");
    }
    for outside in ["<script", "http-equiv", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    for arm in trial::wide::ARMS {
        let lines = page.matches(&format!("<tr><td><strong>{arm}</strong>")).count();
        assert_eq!(lines, 1, "{arm}");
    }
}

#[test]
fn what_an_emulated_clock_cannot_judge_has_no_verdict() {
    let page = page(&trial::wide::emulated(), &[]);
    assert!(page.contains("only counts."));
    let row = page.lines().find(|line| line.contains("<td>settling</td>")).expect("a row");
    assert!(row.contains("5.77 s") && row.contains("<td class=\"quiet\">–</td>"), "{row}");
    let row = page.lines().find(|line| line.contains("<td>major-faults</td>")).expect("a row");
    assert!(row.contains("worse, decides"), "{row}");
}

/// Names come from a file of the user and from the kernel.
#[test]
fn no_name_leaves_its_text() {
    let (mut trial, mut runs) = (trial::wide::trial(), trial::wide::runs());
    let evil = "</td></svg><script>x";
    for arm in &mut trial.arms {
        if arm.name == "file" {
            arm.name = evil.to_owned();
        }
    }
    for run in &mut runs {
        if run.arm == "file" {
            run.arm = evil.to_owned();
        }
        run.profile.push((evil.to_owned(), 1_000));
        run.refused = Some(evil.to_owned());
    }
    trial.dropped[0].why = evil.to_owned();
    assert!(!page(&trial, &runs).contains("<script"));
}

/// A preview, an arm without a course, and a trial without runs.
#[test]
fn little_is_shown_as_little() {
    let (whole, runs) = (trial::wide::trial(), trial::wide::runs());
    assert!(page(&whole, &[]).contains("Medians"));
    let plain: Vec<TrialRun> =
        runs.into_iter().map(|run| TrialRun { course: None, profile: Vec::new(), ..run }).collect();
    let page = page(&whole, &plain);
    assert!(!page.contains("Settling") && !page.contains("kswapd spent"));
}

/// Evidence files may contain any numbers: here the sums exceed 64 bits.
#[test]
fn counts_beyond_64_bits_together_are_the_most() {
    let (trial, mut runs) = (trial::wide::trial(), trial::wide::runs());
    for run in &mut runs {
        run.profile = vec![("shrink_folio_list".to_owned(), u64::MAX), ("zap".to_owned(), 9)];
        if let Some(course) = &mut run.course {
            course.latency_ns = vec![(1_000, u64::MAX), (2_000, u64::MAX), (1_000, 1)];
        }
    }
    let page = page(&trial, &runs);
    assert!(page.contains(&group_digits(u64::MAX)));
    assert!(page.contains("Latency of operations"));
}

/// The page is self-contained, contains all charts, and escapes the command.
#[test]
fn a_trial_as_a_page() {
    let (interval, runs) = (host::interval(), trial::runs());
    let program = Program::from_words(&["sh", "-c", "</code><script>x"]);
    let trial = Trial { program, ..trial::trial() };
    let snapshot = &interval.end;
    let tried = TrialReport {
        name: None,
        snapshot,
        trial: &trial,
        runs: &runs,
        evidence: None,
        cost: host::cost(),
    };
    let page = pagewise_html::trial_page(&tried);
    assert_eq!(page.matches("<svg").count(), 3);
    for outside in ["<script", "http-equiv", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    for word in ["worse", "peak-memory", "6.12.107", "lack of memory", "prefers-color-scheme:dark"]
    {
        assert!(page.contains(word), "{word}");
    }
    assert_eq!(page.matches("<tr>").count(), 2 + 4 + 19, "a row for each metric and run");
}

/// A trial without any pair, or with failed runs only, has a page too.
#[test]
fn a_trial_that_came_to_nothing_is_told() {
    let (interval, trial) = (host::interval(), trial::nothing());
    let failed: Vec<_> = trial::runs().into_iter().filter(|run| !run.end.is_good()).collect();
    for runs in [&[][..], &failed] {
        let snapshot = &interval.end;
        let tried = TrialReport {
            name: None,
            snapshot,
            trial: &trial,
            runs,
            evidence: None,
            cost: host::cost(),
        };
        assert!(pagewise_html::trial_page(&tried).contains("undecided"));
    }
}
