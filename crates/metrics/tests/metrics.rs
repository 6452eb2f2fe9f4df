// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The metrics of recorded and planted hosts: bounded, unique, well-formed, and never a value that
//! was not read.

#![allow(clippy::unwrap_used, clippy::allow_attributes, reason = "tests")]

use std::collections::BTreeSet;

use pagewise_metrics::{
    GROUP_SERIES, Kind, METRICS, MOST_SERIES, Plans, Scrape, format_classic, format_openmetrics,
};
use pagewise_model::{
    AgentLoop, AgentProof, Bytes, Cost, HostVerdict, IdleMemory, IdleMethod, Interval,
    KernelThread, Level, Limit, LimitAdvice, LimitVerdict, Name, Nanos, OomConstraint, OomKill,
    Pages, ProofVerdict, Reading, Severity, Snapshot, Source, ThpSize, Tier, TierKind, WorkingSet,
    Zone, Zram,
};
use pagewise_testkit::finding;
use proptest::prelude::*;

fn found<T>(value: T) -> Reading<T> {
    Reading::found(value, Source::file("/x"))
}

fn group(path: &str) -> WorkingSet {
    WorkingSet {
        group: Name::from(path),
        current: found(Bytes::new(100)),
        peak: Reading::not_read(),
        limit: found(Limit::Bytes(Bytes::new(300))),
        headroom: Some(Bytes::new(200)),
        swap: Reading::not_read(),
        refaults_per_second: None,
        waited: Reading::not_read(),
        max_events: Reading::not_read(),
        oom_kills: Reading::not_read(),
        unevictable: Reading::not_read(),
        idle: Some(IdleMemory {
            method: IdleMethod::Generations,
            seconds: Some(60.0),
            anon: None,
            file: Bytes::new(20),
            left_out: String::new(),
        }),
        hot: Some(Bytes::new(80)),
        advice: LimitAdvice {
            verdict: LimitVerdict::CouldBe,
            size: Some(Bytes::new(120)),
            confidence: None,
            reasons: Vec::new(),
            commands: Vec::new(),
        },
    }
}

/// A host that has everything that a metric is made of, and more than enough of it.
fn full_host() -> Snapshot {
    let mut host = Snapshot::default();
    host.memory.total = found(Bytes::new(1 << 30));
    host.memory.available = found(Bytes::new(1 << 29));
    host.memory.anon_pages = found(Bytes::new(1 << 28));
    host.memory.anon_huge_pages = found(Bytes::new(1 << 27));
    let mut zram = Zram { initialised: found(true), ..Zram::default() };
    zram.mm_stat.original = found(Bytes::new(300));
    zram.mm_stat.compressed = found(Bytes::new(90));
    zram.mm_stat.memory_used = found(Bytes::new(100));
    zram.mm_stat.memory_limit = found(Bytes::new(500));
    zram.mm_stat.same_filled_pages = found(Pages::new(3));
    zram.mm_stat.huge_pages = found(Pages::new(4));
    zram.bd_stat.held = found(Bytes::new(50));
    host.zram = vec![zram.clone(), zram];
    host.zswap.enabled = found(true);
    host.zswap.pool = found(Bytes::new(10));
    host.zswap.stored = found(Bytes::new(30));
    host.zswap.written_back = found(7);
    let tier = |path: &str, kind| Tier {
        path: Name::from(path),
        kind,
        size: found(Bytes::new(1000)),
        used: found(Bytes::new(100)),
        priority: found(1),
        disk: Default::default(),
        zswap_in_front: Reading::not_read(),
    };
    let kinds = [TierKind::Zram, TierKind::Zmerge, TierKind::Partition, TierKind::File];
    host.tiers = kinds.into_iter().map(|kind| tier("/x", kind)).collect();
    let zone = |node, name: &str, free| Zone {
        node,
        name: Name::from(name),
        free_pages: found(Pages::new(free)),
        low_pages: found(Pages::new(10)),
        managed_pages: found(Pages::new(1000)),
        ..Zone::default()
    };
    host.zones = vec![zone(0, "DMA", 500), zone(0, "Normal", 4), zone(1, "Normal", 40)];
    let counters = [
        "pgscan_kswapd",
        "pgscan_direct",
        "workingset_refault_anon",
        "workingset_refault_file",
        "oom_kill",
    ];
    host.vmstat = counters.into_iter().map(|name| (Name::from(name), found(5))).collect();
    host.kernel_threads = vec![
        KernelThread { name: Name::from("kswapd0"), cpu_time: found(Nanos::new(1_500_000_000)) },
        KernelThread { name: Name::from("kswapd1"), cpu_time: found(Nanos::new(500_000_000)) },
    ];
    host.psi.memory.some.total_us = found(pagewise_model::Micros::new(2_000_000));
    host.psi.memory.full.total_us = found(pagewise_model::Micros::new(1_000_000));
    host.kernel_log.records = found(9);
    let kill = OomKill { constraint: Some(OomConstraint::Cgroup), ..OomKill::default() };
    host.kernel_log.kills = vec![kill];
    host.thp.pmd_size = found(Bytes::new(2 << 20));
    host.thp.sizes = [64, 128, 256, 512, 2048]
        .map(|kib| {
            let stats = [(Name::from("nr_anon"), found(kib))].into_iter().collect();
            ThpSize { bytes: Bytes::new(kib << 10), stats, ..ThpSize::default() }
        })
        .into();
    host.thp.khugepaged.cpu_time = found(Nanos::new(1));
    host.ksm.general_profit_bytes = found(-4096);
    host
}

fn proofs() -> Vec<AgentProof> {
    let proof = |loop_, verdict| AgentProof {
        loop_,
        measured: "CPU time of /a per second".to_owned(),
        is_more_better: false,
        is_on: verdict != ProofVerdict::Harms,
        until_unix_seconds: 0,
        stopped_unix_seconds: None,
        trouble: None,
        verdict,
        more_days: None,
        blocks: 0,
        days: 0,
        pairs: 0,
        confidence: 0.985,
        work: None,
        refaults_per_second: None,
        memory_bytes: None,
    };
    let [aging, reclaim, zram] = [AgentLoop::Aging, AgentLoop::Reclaim, AgentLoop::Zram];
    vec![
        proof(aging, ProofVerdict::NotShownYet),
        proof(reclaim, ProofVerdict::Harms),
        proof(zram, ProofVerdict::Pays),
    ]
}

fn with<T>(host: Snapshot, groups: &[WorkingSet], look: impl FnOnce(&Scrape<'_>) -> T) -> T {
    let interval = Interval::single(host);
    let verdict = HostVerdict { level: Level::Short, ..HostVerdict::default() };
    let findings = ["a", "b", "b", "c", "d", "e"].map(|id| finding(id, Severity::Warning));
    let scrape = Scrape {
        interval: &interval,
        verdict: &verdict,
        findings: &findings,
        groups,
        oldest_generation_seconds: Some(12.0),
        plans: Some(Plans { applied: 1, drifted: 0 }),
        proofs: &proofs(),
        program_kills: Some(2),
        cost: Cost::default(),
    };
    look(&scrape)
}

/// The samples of a text: name with labels, and value.
fn samples(text: &str) -> Vec<(String, f64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let split = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    lines.map(split).collect()
}

fn value(text: &str, name: &str) -> Option<f64> {
    samples(text).into_iter().find(|(found, _)| found == name).map(|(_, value)| value)
}

#[test]
fn the_number_of_series_is_bounded() {
    let text = with(full_host(), &[], format_openmetrics);
    let all = samples(&text);
    assert_eq!(
        all.len(),
        MOST_SERIES - 1,
        "one finding is left out, as two rules are the same: {text}"
    );
    let groups: Vec<WorkingSet> = (0..5).map(|at| group(&format!("/g{at}"))).collect();
    let more = samples(&with(full_host(), &groups, format_openmetrics)).len() - all.len();
    assert_eq!(more, groups.len() * GROUP_SERIES);
    let names: BTreeSet<String> = all.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names.len(), all.len(), "each series once");
}

#[test]
fn values_are_in_base_units() {
    let text = with(full_host(), &[group("/a")], format_openmetrics);
    for (name, expected) in [
        ("pagewise_verdict_level", 3.0),
        ("pagewise_finding{id=\"b\",severity=\"warning\"}", 1.0),
        ("pagewise_zram_original_bytes", 600.0),
        ("pagewise_zram_limit_bytes", 1000.0),
        ("pagewise_zram_same_filled_pages", 6.0),
        ("pagewise_swap_tier_used_bytes{tier=\"2\",kind=\"zmerge\"}", 100.0),
        ("pagewise_zone_above_low_bytes{node=\"0\",zone=\"Normal\"}", -6.0 * 4096.0),
        ("pagewise_kswapd_cpu_seconds_total", 2.0),
        ("pagewise_pressure_memory_waiting_seconds_total{kind=\"some\"}", 2.0),
        ("pagewise_kills_in_log{by=\"cgroup\"}", 1.0),
        ("pagewise_kills_in_log{by=\"host\"}", 0.0),
        ("pagewise_kills_in_log{by=\"program\"}", 2.0),
        ("pagewise_thp_anon_bytes{size=\"2097152\"}", 2048.0 * 2097152.0),
        ("pagewise_thp_anon_coverage_ratio", 0.5),
        ("pagewise_ksm_profit_bytes", -4096.0),
        ("pagewise_agent_loop_verdict{loop=\"reclaim\"}", 3.0),
        ("pagewise_agent_loop_verdict{loop=\"zram\"}", 1.0),
        ("pagewise_agent_loop_on{loop=\"reclaim\"}", 0.0),
        ("pagewise_agent_loop_on{loop=\"aging\"}", 1.0),
        ("pagewise_group_memory_headroom_bytes{group=\"/a\"}", 200.0),
        ("pagewise_group_memory_takeable_bytes{group=\"/a\"}", 20.0),
        ("pagewise_group_memory_suggested_limit_bytes{group=\"/a\"}", 120.0),
    ] {
        assert_eq!(value(&text, name), Some(expected), "{name}\n{text}");
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn what_was_not_read_has_no_series() {
    let mut host = full_host();
    host.zram[1].mm_stat.memory_limit = found(Bytes::new(0));
    host.zram[1].mm_stat.memory_used = Reading::denied("run as root", Source::none());
    host.zswap.pool = Reading::absent("no zswap", Source::none());
    let text = with(host, &[], format_openmetrics);
    for name in
        ["pagewise_zram_limit_bytes", "pagewise_zram_used_bytes", "pagewise_zswap_pool_bytes"]
    {
        assert_eq!(value(&text, name), None, "{name}");
    }
    let bare = with(Snapshot::default(), &[], format_openmetrics);
    let names: Vec<String> = samples(&bare).into_iter().map(|(name, _)| name).collect();
    let of_host = names.iter().filter(|name| {
        [
            "pagewise_verdict",
            "pagewise_finding",
            "pagewise_own",
            "pagewise_plan",
            "pagewise_kills",
            "pagewise_mglru",
            "pagewise_agent",
        ]
        .iter()
        .all(|known| !name.starts_with(known))
    });
    assert_eq!(of_host.count(), 0, "{names:?}");
}

#[test]
fn names_are_ours_and_say_what_they_are() {
    let mut names = BTreeSet::new();
    for metric in METRICS {
        let name = metric.full_name();
        assert!(name.starts_with("pagewise_"), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert!(metric.help.ends_with('.') && metric.help.len() <= 120, "{name}");
        assert!(names.insert(name));
    }
}

#[test]
fn a_textfile_has_counters_by_their_full_names_and_no_end_mark() {
    let text = with(full_host(), &[], format_classic);
    assert!(text.contains("# TYPE pagewise_kswapd_cpu_seconds_total counter\n"), "{text}");
    assert!(text.contains("# TYPE pagewise_verdict_level gauge\n"), "{text}");
    assert!(!text.contains("# UNIT") && !text.contains("# EOF"), "{text}");
    assert_eq!(samples(&text), samples(&with(full_host(), &[], format_openmetrics)));
}

proptest! {
    /// Whatever a cgroup is called, each series is one line, and its label reads as the name.
    #[test]
    fn hostile_names_stay_in_their_labels(path in "\\PC{0,40}") {
        let name = Name::from(path.as_str());
        let text = with(Snapshot::default(), &[group(name.as_str())], format_openmetrics);
        let escaped = name.as_str().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let wanted = format!("pagewise_group_memory_used_bytes{{group=\"{escaped}\"}} 100.0");
        prop_assert!(text.lines().any(|line| line == wanted), "{}\n{}", wanted, text);
    }
}
