// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of settings: from findings, from measurements, or declined.

use pagewise_model::plan::{Change, Goal, Plan};
use pagewise_model::{Bytes, Interval, Limit, Reading, TierKind};
use pagewise_plan::{Measured, Request, make_plan};
use pagewise_testkit::scene::Scene;

use super::{declined, ids, plain, plan_for, plan_of};
use pagewise_testkit::made_host::{calm, file, gib, knob, line, mib, set_knob, stall, tier, with};

fn value<'a>(plan: &'a Plan, id: &str) -> &'a str {
    match &plan.step(id).unwrap_or_else(|| panic!("no step {id}: {plan:#?}")).change {
        Change::SetKnob { to, .. } => to,
        other => panic!("{other:?}"),
    }
}

fn with_bench(interval: &Interval, bench: &str) -> Plan {
    let measured = Measured::from_json(bench).unwrap();
    let installation = plain();
    make_plan(&Request {
        interval,
        installation: &installation,
        measured: &measured,
        goal: Goal::Balanced,
        only: &[],
        wants: &[],
        anyway: false,
    })
}

fn bench(swappiness: u32, mix: &str, cluster: &str) -> String {
    format!(
        r#"{{"schema": "pagewise/bench/1", "cost_ratios": [{{"algorithm": "lz4", "rounds": 7,
        "swap_ns_per_page": 5100.0, "file_ns_per_page": 98000.0, "swappiness": {swappiness},
        "swappiness_spread": [150, 195]}}], "tier_mixes": [{mix}], "cluster_choices": [{cluster}]}}"#
    )
}

#[test]
fn swappiness_follows_measured_costs_and_leaves_file_pages_some_weight() {
    let mut interval = calm();
    knob(&mut interval.end, "vm.page-cluster", "0");
    let plan = with_bench(&interval, &bench(160, "", ""));
    assert_eq!(
        (ids(&plan), value(&plan, "swappiness")),
        (vec!["swappiness", "sysctl-file"], "160")
    );
    assert!(
        plan.steps[0].reason.contains("measured 5.1 us for a page from zram (lz4) and 98.0 us")
    );
    let capped = with_bench(&interval, &bench(190, "", ""));
    assert_eq!(value(&capped, "swappiness"), "180");
    assert!(
        capped.steps[0].reason.contains("gives 190 (150 to 195 in single rounds); the plan sets")
    );
    assert_eq!(plan.steps[0].expected, None, "how much faster a program becomes was not measured");
}

#[test]
fn a_device_of_the_same_plan_counts_with_its_algorithm() {
    let interval = with(|host| {
        host.tiers.clear();
        host.zram.clear();
        host.memory.available = line("/proc/meminfo", 3, mib(200));
    });
    let plan = with_bench(&interval, &bench(160, "", ""));
    assert_eq!(value(&plan, "swappiness"), "160");
    assert_eq!(ids(&plan)[0], "zram");
}

#[test]
fn with_a_disk_below_the_measured_mix_counts() {
    let mut interval = calm();
    interval.end.tiers.push(tier("/swapfile", TierKind::File, mib(512), -2));
    let mixes = r#"{"zram_share": 0.9, "fault_ns": 1.0, "swappiness": 140}, {"zram_share": 0.5, "fault_ns": 1.0, "swappiness": 90}"#;
    let plan = with_bench(&interval, &bench(190, mixes, ""));
    assert_eq!(value(&plan, "swappiness"), "90");
    assert!(plan.steps[0].reason.contains("50 % of the swapped"), "{}", plan.steps[0].reason);
}

#[test]
fn unmeasured_swappiness_is_left_alone() {
    let plan = plan_of(&calm());
    assert!(plan.steps.is_empty());
    let why = declined(&plan, "another value of vm.swappiness");
    assert!(why.starts_with("it is 60") && why.contains("bench --disk"), "{why}");
}

#[test]
fn page_cluster_follows_the_kernels_counters_the_goal_or_bench() {
    let mut interval = calm();
    let host = &mut interval.end;
    knob(host, "vm.page-cluster", "3");
    set_knob(host, "swap_ra", 8_000);
    set_knob(host, "swap_ra_hit", 1_040);
    let plan = plan_of(&interval);
    assert_eq!(value(&plan, "page-cluster"), "0");
    assert!(
        plan.steps[0]
            .reason
            .contains("of 8,000 pages that were read ahead since boot, 13 % were used")
    );
    set_knob(&mut interval.end, "swap_ra_hit", 7_000);
    assert!(declined(&plan_of(&interval), "page-cluster").contains("88 % were used"));
    assert_eq!(value(&plan_for(&interval, &plain(), Goal::Latency), "page-cluster"), "0");
    let chosen = |implied: &str| {
        format!(
            r#"{{"algorithm": "lz4", "memory": ["forked"], "rounds": 5, "candidates": [], "implied": {implied}}}"#
        )
    };
    let measured = with_bench(&interval, &bench(60, "", &chosen("1")));
    assert_eq!(value(&measured, "page-cluster"), "1");
    let equal = with_bench(&interval, &bench(60, "", &chosen("null")));
    assert!(declined(&equal, "page-cluster").contains("no difference"));
    interval.end.tiers.push(tier("/swapfile", TierKind::File, gib(1), -2));
    assert!(declined(&plan_of(&interval), "page-cluster").contains("/swapfile is on a disk"));
}

#[test]
fn values_are_those_that_findings_advise() {
    let interval = with(|host| {
        knob(host, "vm.extfrag_threshold", "0");
        knob(host, "vm.min_free_kbytes", "4194304");
    });
    let plan = plan_of(&interval);
    assert_eq!(value(&plan, "extfrag-threshold"), "500");
    assert_eq!(value(&plan, "min-free"), "16384");
    assert_eq!(plan.step("min-free").unwrap().coupled, ["thp.enabled", "thp.size.enabled"]);
    for (id, finding) in
        [("extfrag-threshold", "extfrag-threshold"), ("min-free", "watermarks-extreme")]
    {
        assert_eq!(plan.step(id).unwrap().finding.as_deref(), Some(finding));
        let findings = pagewise_decide::diagnose(&interval);
        let next = &findings.iter().find(|it| it.id == finding).unwrap().next[0];
        assert!(next.contains(&format!("={}  #", value(&plan, id))), "{next}");
    }
    let file = super::file(&plan, "sysctl-file").1;
    assert!(
        file.contains("\nvm.extfrag_threshold = 500\n")
            && file.contains("\nvm.min_free_kbytes = 16384\n")
    );
}

#[test]
fn only_what_was_named_is_planned() {
    let interval = with(|host| {
        knob(host, "vm.extfrag_threshold", "0");
        knob(host, "vm.min_free_kbytes", "4194304");
    });
    let only = |name: &str| {
        let (installation, measured) = (plain(), Measured::default());
        let only = [name.to_owned()];
        let request = Request {
            interval: &interval,
            installation: &installation,
            measured: &measured,
            goal: Goal::Balanced,
            only: &only,
            wants: &[],
            anyway: false,
        };
        let plan = make_plan(&request);
        ids(&plan).join(" ")
    };
    assert_eq!(only("watermarks"), "min-free sysctl-file");
    assert_eq!(only("watermarks-extreme"), "min-free sysctl-file");
    assert_eq!(only("extfrag-threshold"), "extfrag-threshold sysctl-file");
    assert_eq!(only("zram"), "");
    assert!(pagewise_plan::names().contains(&"watermarks-extreme"));
}

/// According to `docs/measured/claims.md`: fewer pages scanned, no program faster, small groups worse.
#[test]
fn multi_gen_lru_is_not_switched_on() {
    let plan = plan_of(&Scene::load("debian-bookworm-6.1-x86_64-512m-zram-pressure").replay());
    assert!(declined(&plan, "multi-gen LRU").contains("small cgroup"));
}

#[test]
fn huge_pages_follow_the_goal() {
    let bloated = |available| {
        with(|host| {
            let folder = "/sys/kernel/mm/transparent_hugepage";
            host.thp.khugepaged.max_ptes_none =
                file(&format!("{folder}/khugepaged/max_ptes_none"), 511);
            host.thp.shrink_underused = file(&format!("{folder}/shrink_underused"), true);
            host.memory.anon_huge_pages = line("/proc/meminfo", 30, gib(4));
            host.memory.available = line("/proc/meminfo", 3, available);
            knob(host, "thp.khugepaged.max_ptes_none", "511");
        })
    };
    let plan = plan_of(&bloated(gib(9)));
    assert!(declined(&plan, "max_ptes_none").contains("memory is not short"));
    let ratio = plan_for(&bloated(gib(9)), &plain(), Goal::Ratio);
    assert_eq!(value(&ratio, "max-ptes-none"), "64");
    let line = "w /sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none - - - - 64";
    assert!(super::file(&ratio, "tmpfiles-file").1.lines().any(|known| known == line));
    assert_eq!(value(&plan_of(&bloated(mib(300))), "max-ptes-none"), "64");
}

#[test]
fn an_unused_pool_is_given_back_only_for_the_goal_ratio() {
    let interval = Scene::load("debian-trixie-6.12-x86_64-1g-thp").replay();
    assert!(declined(&plan_of(&interval), "unused huge pages").contains("may need the pool"));
    let plan = plan_for(&interval, &plain(), Goal::Ratio);
    assert_eq!(value(&plan, "hugetlb"), "0");
}

#[test]
fn contradictions_are_named_and_not_decided() {
    let plan = plan_of(&Scene::load("debian-trixie-6.12-x86_64-512m-settings").replay());
    assert!(plan.steps.is_empty());
    assert!(
        declined(&plan, "vm.swappiness is 60, but a file sets it to 180")
            .contains("administrator's decision")
    );
    assert!(declined(&plan, "generator-parameters").contains("zram-generator"));
}

/// A finding that mentions a plan has a rule that fixes it; the others are only ever declined.
/// Protection takes memory from other cgroups, so the plan only names the commands.
#[test]
fn protection_is_left_to_the_operator() {
    const STAT: &str = "/sys/fs/cgroup/system.slice/db.service/memory.stat";
    let mut interval = with(|host| {
        for group in &mut host.cgroups.groups {
            group.low = file("/memory.low", Limit::Bytes(Bytes::new(0)));
        }
    });
    let start = interval.start.as_deref_mut().unwrap();
    for (host, refaults) in [(start, 8_000u64), (&mut interval.end, 16_000)] {
        let group = &mut host.cgroups.groups[2];
        group.current = file("/memory.current", mib(300));
        group.swap_current = file("/memory.swap.current", mib(900));
        group.refault_anon = line(STAT, 40, refaults);
        stall(&mut group.pressure.some, 6.0, 4.0);
    }
    let plan = plan_of(&interval);
    let why = declined(&plan, "protect a cgroup");
    assert!(why.contains("takes MemoryLow of at least 1.2 GiB of system.slice and"), "{why}");
    assert!(why.contains("no command is given, because it would be for a whole slice"), "{why}");
    let mut protected = interval.clone();
    for group in &mut protected.end.cgroups.groups {
        group.low = file("/memory.low", Limit::Max);
    }
    let why = declined(&plan_of(&protected), "protect a cgroup").to_owned();
    assert!(why.contains("or this cgroup has enough protection already"), "{why}");
    for group in &mut interval.end.cgroups.groups {
        group.low = Reading::not_read();
    }
    let why = declined(&plan_of(&interval), "protect a cgroup").to_owned();
    assert!(
        why.ends_with("cgroup version 1, which this host has, has no such protection"),
        "{why}"
    );
}

/// A plan does not decide how much a cgroup may use, but it tells a user who asks for it.
#[test]
fn limits_are_left_to_the_operator() {
    const WHAT: &str = "raise the memory limit of /system.slice/";
    let plan = plan_of(&Scene::load("debian-trixie-6.12-x86_64-256m-oom-limit").replay());
    let why = declined(&plan, WHAT);
    let commands = "run `sudo systemctl set-property nginx.service MemorySwapMax=infinity` or \
                    `sudo systemctl set-property nginx.service MemoryMax=96M`";
    assert!(plan.steps.is_empty() && why.contains(commands), "{why}");
    let mut interval = Scene::load("debian-sid-7.2-x86_64-512m-zram-full").replay();
    assert!(declined(&plan_of(&interval), WHAT).contains("cg-2.service MemoryMax="));
    interval.end.memory.available = line("/proc/meminfo", 3, mib(1));
    let plan = plan_of(&interval);
    assert!(plan.declined.iter().all(|it| !it.what.starts_with("raise")), "{plan:#?}");
}

#[test]
fn findings_and_rules_name_each_other() {
    const DECLINED: [&str; 8] = [
        "generator-parameters",
        "group-limit",
        "hibernation-zram",
        "khugepaged-starves",
        "managers-fight",
        "mglru-off",
        "settings-differ",
        "zram-incompressible",
    ];
    let rules = pagewise_plan::RULES.iter().flat_map(|rule| rule.findings);
    let mended: std::collections::BTreeSet<&str> =
        rules.copied().filter(|id| !DECLINED.contains(id)).collect();
    let named: std::collections::BTreeSet<&str> =
        pagewise_decide::PLANNED.iter().copied().collect();
    assert_eq!(mended, named);
    let interval = with(|host| knob(host, "vm.extfrag_threshold", "0"));
    let findings = pagewise_decide::diagnose(&interval);
    assert_eq!(findings[0].next.last().unwrap(), "pagewise plan --only extfrag-threshold");
}
