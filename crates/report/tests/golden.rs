// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the text output and the schemas with files that a person has reviewed.
//!
//! `BLESS=1 cargo test -p pagewise-report` rewrites them; review the difference.

mod age;
mod agent;
mod bench;
mod host;
mod huge;
mod killed;
mod merge;
mod plan;
mod trial;

use std::collections::BTreeMap;
use std::path::Path;

use pagewise_model::plan::Ledger;
use pagewise_model::{
    Benchmark, Bytes, Cgroup, Cost, Difference, Interval, Name, PageWalks, Picks, Reading,
    Snapshot, Source,
};
use pagewise_report::json::{self, COMPRESSED_SCHEMAS, Noun, schema};
use pagewise_report::text::{self, TextStyle, doctor, report, report_in_view, status};
use pagewise_report::view::{ProcessView, Section, Sort, View};
use pagewise_report::{
    Answer, Benched, LedgerReport, LedgerUpdate, OomFound, TrialReport, TuneTrial, TunedPlan, csv,
};

const WIDE: TextStyle = TextStyle { width: 100, colour: false };

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
    let owners = host::owners();
    let answer = Answer {
        interval: &interval,
        verdict: host::verdict(),
        findings: &findings,
        hidden: 0,
        owners: &owners,
        estimates: &[],
        cost: host::cost(),
    };
    compare("tests/golden/report.txt", &report(&answer, WIDE));
    compare("tests/golden/report-60.txt", &report(&answer, TextStyle { width: 60, colour: false }));
    compare("tests/golden/status.txt", &status(&answer, WIDE));
    compare("tests/golden/doctor.txt", &doctor(&answer, WIDE));
    let killed = killed::explained();
    compare(
        "tests/golden/oom.txt",
        &text::oom(
            &answer,
            &OomFound { failures: &[], hung: &[], ..killed::found(&killed) },
            &killed::elsewhere(),
            WIDE,
        ),
    );
}

#[test]
fn who_is_in_swap_and_who_grows() {
    let interval = host::interval();
    let cost = host::cost();
    let answer = Answer {
        interval: &interval,
        verdict: host::verdict(),
        findings: &[],
        hidden: 0,
        owners: &[],
        estimates: &[],
        cost,
    };
    let tables = |sort| {
        let users = [(1000, Name::from("ada"))].into_iter().collect();
        let processes = Some(ProcessView { sort, users, ..ProcessView::default() });
        let sections = vec![Section::Cgroups, Section::Processes];
        let view = View { sections, processes, ..View::default() };
        report_in_view(&answer, &view, WIDE)
    };
    let text = [Sort::Swap, Sort::Growth, Sort::Refaults].map(tables).join("\n");
    compare("tests/golden/report-sorted.txt", &text);
}

#[test]
fn a_bench_with_everything() {
    let interval = host::interval();
    let (snapshot, benchmark) = (&interval.end, &bench::benchmark());
    let benched = Benched { snapshot, benchmark, cost: host::cost() };
    compare("tests/golden/bench.txt", &text::bench(&benched, WIDE));
    let narrow = TextStyle { width: 60, colour: false };
    compare("tests/golden/bench-60.txt", &text::bench(&benched, narrow));
    compare("tests/golden/bench.csv", &csv::bench(benchmark));
    let swap_alone = Benchmark {
        rows: Vec::new(),
        references: Vec::new(),
        picks: Picks::default(),
        recommended: None,
        ..bench::with_zswap()
    };
    let benched = Benched { benchmark: &swap_alone, ..benched };
    compare("tests/golden/bench-zswap.txt", &text::bench(&benched, WIDE));
}

#[test]
fn huge_pages_and_what_was_done_about_them() {
    let interval = host::interval();
    let looked = [huge::looked()];
    compare(
        "tests/golden/thp.txt",
        &text::thp(&huge::seen(&interval, &looked, &huge::walks()), WIDE),
    );
    let (collapse, restrain) = (huge::collapse(), huge::restrain());
    let done = huge::collapsed(&interval.end, &collapse);
    let found = huge::restrained(&interval.end, &restrain);
    let both = text::collapse(&done, WIDE) + "\n" + &text::restrain(&found, WIDE);
    compare("tests/golden/collapse.txt", &both);
}

/// The share of a container in the work of khugepaged, if the kernel counts it.
#[test]
fn groups_say_how_many_huge_pages_were_made_at_fault_and_by_collapse() {
    let mut interval = host::interval();
    let mut group = |path: &str, counters: &[(&str, u64)]| {
        let found = |(name, count): &(&str, u64)| {
            (Name::from(*name), Reading::found(*count, Source::file("memory.stat")))
        };
        let stat = counters.iter().map(found).collect();
        let group = Cgroup {
            stat,
            anon: host::found(Bytes::new(1 << 30), "memory.stat"),
            ..Cgroup::default()
        };
        interval.end.cgroups.groups.push(Cgroup { path: Name::from(path), ..group });
    };
    group("/counted", &[("thp_fault_alloc", 12), ("thp_collapse_alloc", 3_456)]);
    group("/version1", &[]);
    let walks = huge::walks();
    let seen = huge::seen(&interval, &[], &walks);
    let text = text::thp(&seen, WIDE);
    let row = |path| text.lines().find(|line| line.contains(path)).unwrap().trim_end();
    assert!(text.contains("at fault  by collapse"), "{text}");
    assert!(row("/counted").ends_with("        12        3,456"), "{text}");
    assert!(row("/version1").ends_with("1.0 GiB"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&json::thp(&seen)).unwrap();
    let groups = json["cgroups"].as_array().unwrap();
    let counted = groups.iter().find(|group| group["path"] == "/counted").unwrap();
    assert_eq!(counted["thp_collapse_alloc"]["value"], 3_456);
    let absent = groups.iter().find(|group| group["path"] == "/version1").unwrap();
    assert!(absent["thp_collapse_alloc"]["absent"].is_string(), "{absent}");
}

#[test]
fn a_machine_without_counters_says_so_and_names_the_canary() {
    let interval = host::interval();
    let none = || Reading::<u64>::denied("root may", Source::file("perf event"));
    let blank = PageWalks {
        cycles: none(),
        load_misses: none(),
        store_misses: none(),
        fetch_misses: none(),
        ..huge::walks()
    };
    let text = text::thp(&huge::seen(&interval, &[], &blank), WIDE);
    assert!(text.contains("Page walks   not counted\n    root may\n"), "{text}");
    assert!(text.contains("pagewise thp --canary") && !text.contains("TLB misses"), "{text}");
}

#[test]
fn what_aging_a_group_did() {
    use pagewise_model::{AgingEnd, AgingReport};
    let ends = [
        AgingEnd::Fell,
        AgingEnd::DidNotFall,
        AgingEnd::Budget,
        AgingEnd::FewRefaults,
        AgingEnd::Stopped,
    ];
    let of = |ended| AgingReport { aging: Some(age::aging(ended)), ..AgingReport::default() };
    let mut all: Vec<String> = ends.map(|ended| text::age(&of(ended), WIDE)).to_vec();
    all.push(text::age(&age::history(), WIDE));
    all.push(text::age(&age::report(), TextStyle { width: 60, colour: false }));
    compare("tests/golden/age.txt", &all.join("--\n"));
}

#[test]
fn what_the_agent_does_and_did() {
    use pagewise_model::AgentReport;
    let mut stopped = agent::report();
    stopped.is_running = false;
    if let Some(status) = &mut stopped.agent {
        status.refused_configuration = None;
        status.waits_seconds = 0.0;
        status.targets.clear();
        status.decisions.clear();
    }
    let all = [agent::report(), stopped, AgentReport::default()];
    let mut all: Vec<String> = all.iter().map(|report| text::agent(report, WIDE)).collect();
    all.push(text::agent(&agent::report(), TextStyle { width: 60, colour: false }));
    all.push(text::agent_proof(&agent::report(), WIDE));
    all.push(text::agent_proof(&AgentReport::default(), WIDE));
    all.push(text::agent_proof(&agent::report(), TextStyle { width: 60, colour: false }));
    compare("tests/golden/agent.txt", &all.join("--\n"));
}

#[test]
fn what_merging_gave_back() {
    let (interval, merge) = (host::interval(), merge::merge());
    let merged = merge::merged(&interval.end, &merge);
    let narrow = TextStyle { width: 60, colour: false };
    let both = text::merge(&merged, WIDE) + "--\n" + &text::merge(&merged, narrow);
    compare("tests/golden/merge.txt", &both);
}

#[test]
fn a_trial_with_everything() {
    let interval = host::interval();
    let (trial, runs) = (trial::trial(), trial::runs());
    let evidence = Some(Path::new("evidence/2026-11-20-web-07-make"));
    let snapshot = &interval.end;
    let tried = TrialReport {
        name: None,
        snapshot,
        trial: &trial,
        runs: &runs,
        evidence,
        cost: host::cost(),
    };
    let narrow = TextStyle { width: 60, colour: false };
    let undecided = trial::undecided();
    let other = TrialReport { trial: &undecided, evidence: None, ..tried };
    let texts = [text::trial(&tried, WIDE), text::trial(&tried, narrow), text::trial(&other, WIDE)];
    compare("tests/golden/trial.txt", &texts.join("--\n"));
    let (wide, emulated, runs) =
        (trial::wide::trial(), trial::wide::emulated(), trial::wide::runs());
    let several = TrialReport { name: Some("swap"), trial: &wide, runs: &runs, ..tried };
    let guest = TrialReport {
        name: Some("coldpages"),
        trial: &emulated,
        runs: &[],
        evidence: None,
        ..tried
    };
    let texts =
        [text::trial(&several, WIDE), text::trial(&several, narrow), text::trial(&guest, WIDE)];
    compare("tests/golden/trial-arms.txt", &texts.join("--\n"));
    let selftest = text::selftest(&trial::selftest(), WIDE);
    let compared = text::compare((&trial, &undecided), &trial::replicated(), WIDE);
    compare("tests/golden/lab.txt", &[selftest, compared].join("--\n"));
}

/// A trial without any pair, or with failed runs only, is printed too.
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
        assert!(text::trial(&tried, WIDE).contains("only 0 of 7 pairs"));
    }
}

#[test]
fn a_plan_with_each_kind_of_change() {
    let interval = host::interval();
    let plan = plan::plan();
    compare("tests/golden/plan.txt", &text::plan(&plan::planned(&interval.end, &plan), WIDE));
    compare("tests/golden/plan.diff", &text::plan_diff(&plan));
}

#[test]
fn a_tuned_machine_with_what_was_measured() {
    let (interval, plan, judgement) = (host::interval(), plan::plan(), plan::gains::judgement());
    let (ledger, verified) = (LedgerUpdate { added: 4, not_added: None }, plan::gains::verified());
    let mut unclear = judgement.clone();
    unclear.difference = Difference::NotShown;
    unclear.why = "waiting for memory: the difference is not larger than the noise".to_owned();
    unclear.measures.iter_mut().for_each(|it| it.difference = Difference::NotShown);
    let why = [format!("no difference is shown. {}", unclear.why)];
    let shown = |against: &[String], judgement| {
        let (journal, after) = ("3", host::verdict());
        let (verified, ledger) = (&verified[..], &ledger);
        let trial = Some(TuneTrial { journal, against, judgement, after, verified, ledger });
        let snapshot = &interval.end;
        let tuned =
            TunedPlan { snapshot, plan: &plan, before: host::verdict(), trial, cost: host::cost() };
        text::tune(&tuned, TextStyle { width: 80, colour: false })
    };
    compare("tests/golden/tune-kept.txt", &shown(&[], judgement));
    compare("tests/golden/tune-undone.txt", &shown(&why, &unclear));
}

#[test]
fn predicted_gains_and_what_became_of_them() {
    let interval = host::interval();
    compare("tests/golden/gains.txt", &text::gains(&plan::gains::gains(), WIDE));
    let report = |ledger: &Ledger| {
        let snapshot = &interval.end;
        text::ledger(&LedgerReport { snapshot, ledger, cost: host::cost() }, WIDE)
    };
    let empty = report(&Ledger::new(Vec::new(), Vec::new(), false));
    let both = report(&plan::gains::ledger()) + "\n" + &empty;
    compare("tests/golden/ledger.txt", &both);
}

#[test]
fn a_host_of_which_nothing_is_known() {
    let interval = Interval::single(Snapshot::default());
    let answer = Answer {
        interval: &interval,
        verdict: host::verdict(),
        findings: &[],
        hidden: 0,
        owners: &[],
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

/// The program contains the schemas compressed.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test compares files of the source tree")]
fn the_schemas_of_the_program_are_those_of_the_documents() {
    let all: BTreeMap<&str, String> =
        Noun::ALL.into_iter().map(|noun| (noun.name(), schema(noun))).collect();
    let text = serde_json::to_vec(&all).unwrap();
    let file = "src/json/schemas.zst";
    let mut compressed = COMPRESSED_SCHEMAS.to_vec();
    if std::env::var_os("BLESS").is_some() {
        const BEST: i32 = 19;
        compressed = zstd::encode_all(text.as_slice(), BEST).unwrap();
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(file), &compressed).unwrap();
    }
    let known = zstd::decode_all(compressed.as_slice()).unwrap();
    assert!(known == text, "{file} is not up to date: BLESS=1 cargo test -p pagewise-report");
}

/// docs/formats.md says what stays true of a document: none may be missing.
#[test]
fn every_document_is_in_the_list_of_formats() {
    let formats = include_str!("../../../docs/formats.md");
    for noun in Noun::ALL {
        let name = format!("`pagewise/{}/1`", noun.name());
        assert!(formats.contains(&name), "{name}");
    }
}
