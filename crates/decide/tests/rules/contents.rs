// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings that need page contents.

use pagewise_model::{Disturbed, EstimateSource, HugeView, Reading, Source};

use super::*;
use crate::testing::{calm, gib, line, with};

/// 4 of 16 GiB are in huge pages, with the policy `always`.
fn host() -> Interval {
    with(|host| host.memory.anon_huge_pages = line("/proc/meminfo", 33, gib(4)))
}

/// An estimate for a million pages, of which a thousandth was sampled: `huge` pages are in huge
/// pages, and `zeros` of those are zeros.
fn looked(pid: Option<u32>, huge: u64, zeros: u64) -> Estimate {
    let absent = || Reading::absent("a sample cannot tell", Source::none());
    let kind = if pid.is_some() { "process" } else { "processes" };
    Estimate {
        source: EstimateSource { kind: kind.into(), name: "java".into(), pid },
        page_bytes: Bytes::new(4096),
        pages: 1_000_000,
        pages_interval: [1_000_000; 2],
        mapped_pages: 1_000_000,
        sampled_pages: 1_000,
        sized_pages: 1_000,
        swapped_pages: 0,
        partial: None,
        zero_pages: zeros,
        zero_pages_interval: [zeros; 2],
        same_filled_pages: zeros,
        same_filled_pages_interval: [zeros; 2],
        duplicate_pages: absent(),
        duplicate_pages_exact: false,
        duplicate_pages_interval: None,
        duplicate_pages_within: absent(),
        duplicate_saved_bytes: Reading::absent("a sample cannot tell", Source::none()),
        duplicate_saved_bytes_interval: None,
        ksm_saved_bytes: Reading::absent("a sample cannot tell", Source::none()),
        most_repeated: None,
        algorithms: Vec::new(),
        huge: HugeView {
            mapped_pages: Reading::found(huge, Source::none()),
            zero_pages: Reading::found(zeros, Source::none()),
            collapsible_ranges: absent(),
        },
        cold: absent(),
        disturbed: Disturbed::default(),
    }
}

fn sample(huge: u64, zeros: u64) -> [Estimate; 3] {
    [looked(None, huge, zeros), looked(Some(7), huge / 9, 10), looked(Some(8), huge / 2, zeros / 2)]
}

#[test]
fn zeros_in_huge_pages_are_told_with_the_process_that_has_most() {
    let [finding] = &diagnose_contents(&host(), &sample(800_000, 400_000))[..] else { panic!() };
    assert_eq!((finding.id, finding.severity), ("thp-bloat", Severity::Info));
    assert_eq!(finding.title, "50 % of the memory in huge pages is zeros, mostly in java");
    // 400 of 800: the Wilson interval begins at 0.4654
    assert_eq!(
        finding.what,
        "Huge pages hold 4.0 GiB of memory (25 % of RAM), of which at least 1.9 GiB are zeros. \
         Of 800 small pages sampled in huge pages, 50 % contain only zeros. The process with \
         the most zeros is java (pid 8), with about 781.2 MiB."
    );
    assert!(finding.next[0].ends_with("--pid 8"));
    assert!(finding.evidence[0].value.starts_with("AnonHugePages"));
}

#[test]
fn it_matters_more_where_memory_is_short() {
    let mut short = host();
    short.end.memory.available = line("/proc/meminfo", 3, Bytes::new(100 << 20));
    let found = diagnose_contents(&short, &sample(800_000, 400_000));
    assert_eq!(found[0].severity, Severity::Warning);
}

#[test]
fn little_waste_few_pages_or_few_huge_pages_are_not_worth_a_word() {
    let silent = |interval: &Interval, sample: &[Estimate]| {
        assert_eq!(diagnose_contents(interval, sample), []);
    };
    silent(&host(), &[]);
    // 22 % of 800: the interval begins at 19.3 %
    silent(&host(), &sample(800_000, 176_000));
    assert_eq!(diagnose_contents(&host(), &sample(800_000, 190_000)).len(), 1);
    // all are zeros, but only 40 were sampled
    silent(&host(), &sample(40_000, 40_000));
    silent(&calm(), &sample(800_000, 400_000));
    let mut cut = sample(40_000, 40_000);
    assert_eq!(explain_unknown_contents(&host(), &cut), None, "all were read that were to be read");
    cut[0].partial = Some("the time was over".to_owned());
    let unknown = explain_unknown_contents(&host(), &cut).unwrap();
    assert!(
        unknown.contains("only 40 pages") && unknown.contains("the time was over"),
        "{unknown}"
    );
    assert_eq!(explain_unknown_contents(&calm(), &cut), None);
    cut[0].huge.mapped_pages = Reading::found(800_000, Source::none());
    assert_eq!(explain_unknown_contents(&host(), &cut), None);
    assert!(is_sampling_useful(&host()) && !is_sampling_useful(&calm()));
}
