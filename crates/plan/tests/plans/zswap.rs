// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zram or zswap: which of them a plan configures, and its reasons against the other.

use pagewise_model::plan::{Change, Goal, Plan};
use pagewise_model::{
    Algorithms, Bytes, Capability, FeatureState, Installation, Interval, Name, Reading, TierKind,
    ZramUse,
};
use pagewise_plan::{Measured, Request, make_plan};

use super::machine::carry_out;
use super::{declined, ids, plain, plan_for, plan_of};
use pagewise_testkit::made_host::{file, gib, grow, knob, line, mib, on_nvme, tier, with, zram};

const FOLDER: &str = "/sys/module/zswap/parameters";

/// Swap on NVMe, `used` of it in use, with zswap and its shrinker off, as by default.
fn disk(available: Bytes, used: Bytes) -> Interval {
    with(|host| {
        on_nvme(host, used);
        host.memory.available = line("/proc/meminfo", 3, available);
        for (name, value) in [
            ("zswap.enabled", "N"),
            ("zswap.shrinker_enabled", "N"),
            ("zswap.compressor", "lzo"),
            ("zswap.max_pool_percent", "20"),
        ] {
            knob(host, name, value);
        }
    })
}

fn short() -> Interval {
    disk(mib(200), gib(1))
}

fn switched_on(mut interval: Interval) -> Interval {
    interval.end.zswap.enabled = file(&format!("{FOLDER}/enabled"), true);
    knob(&mut interval.end, "zswap.enabled", "Y");
    interval
}

fn set(plan: &Plan) -> Vec<(&str, &str)> {
    let changes = plan.steps.iter().filter_map(|step| match &step.change {
        Change::SetKnob { target, to, .. } => Some((target.as_str(), to.as_str())),
        _ => None,
    });
    changes.collect()
}

#[test]
fn a_short_host_with_swap_on_an_ssd_gets_zswap_with_its_shrinker_now_and_at_each_boot() {
    let interval = short();
    let plan = plan_of(&interval);
    assert_eq!(
        set(&plan),
        [("zswap.shrinker_enabled", "Y"), ("zswap.compressor", "lz4"), ("zswap.enabled", "Y")]
    );
    let (path, text) = super::file(&plan, "tmpfiles-file");
    assert_eq!(path, "/etc/tmpfiles.d/05-pagewise.conf");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("w ")).collect();
    let expected = [
        "shrinker_enabled - - - - Y",
        "max_pool_percent - - - - 20",
        "compressor - - - - lz4",
        "enabled - - - - Y",
    ];
    assert_eq!(lines, expected.map(|end| format!("w {FOLDER}/{end}")));
    assert!(plan.steps[0].reason.contains("25 to 64 % fewer pages"));
    let why = declined(&plan, "zram");
    assert!(why.starts_with("zswap is the better choice here"), "{why}");
    assert!(
        why.ends_with("--b swap=zswap:lz4:20:shrinker+file:16384M --b vm.page-cluster=0 -- CMD`"),
        "{why}"
    );
    let (after, installation) = carry_out(&plan, &interval, &plain());
    assert_eq!(ids(&plan_for(&after, &installation, Goal::Balanced)), [""; 0]);
}

#[test]
fn reading_ahead_ends_where_zswap_is_switched_on() {
    let mut interval = short();
    knob(&mut interval.end, "vm.page-cluster", "3");
    let plan = plan_of(&interval);
    assert_eq!(set(&plan).last(), Some(&("vm.page-cluster", "0")));
    let (_, text) = super::file(&plan, "sysctl-file");
    assert!(text.contains("vm.page-cluster = 0"), "{text}");
    let (after, installation) = carry_out(&plan, &interval, &plain());
    assert_eq!(ids(&plan_for(&after, &installation, Goal::Balanced)), [""; 0]);
}

#[test]
fn only_the_shrinker_is_switched_on_if_that_is_all_that_lacks() {
    let plan = plan_of(&switched_on(short()));
    assert_eq!(set(&plan), [("zswap.shrinker_enabled", "Y")]);
    assert_eq!(super::file(&plan, "tmpfiles-file").1.matches("\nw ").count(), 4);
    let lzo = "compressor - - - - lzo";
    assert!(super::file(&plan, "tmpfiles-file").1.contains(lzo), "what somebody chose stays");
}

#[test]
fn where_zswap_is_as_it_should_be_nothing_is_added() {
    let mut interval = switched_on(short());
    interval.end.zswap.shrinker_enabled = file(&format!("{FOLDER}/shrinker_enabled"), true);
    knob(&mut interval.end, "zswap.shrinker_enabled", "Y");
    let plan = plan_of(&interval);
    assert_eq!(ids(&plan), [""; 0]);
    assert!(
        declined(&plan, "zram").starts_with("zswap and its shrinker are on, and are the better")
    );
}

/// The finding that its pool is full is a sufficient reason before memory as a whole is short.
#[test]
fn a_full_pool_is_a_reason() {
    let mut interval = switched_on(disk(gib(9), gib(5)));
    assert_eq!(ids(&plan_of(&interval)), [""; 0]);
    interval.end.zswap.pool = line("/proc/meminfo", 39, mib(3000));
    grow(&mut interval, "pswpin", 5_000);
    let plan = plan_of(&interval);
    assert_eq!(set(&plan), [("zswap.shrinker_enabled", "Y")]);
    assert_eq!(plan.steps[0].finding.as_deref(), Some("zswap-unused"));
}

#[test]
fn a_calm_host_keeps_what_it_has_and_learns_what_would_be_chosen() {
    let plan = plan_of(&disk(gib(9), Bytes::new(0)));
    assert_eq!(ids(&plan), [""; 0]);
    let why = declined(&plan, "zswap");
    assert!(why.starts_with(
        "memory is not short: 9.0 of 16.0 GiB are available. If it becomes short, zswap is"
    ));
}

#[test]
fn a_kernel_without_the_shrinker_gets_zram_and_the_reason() {
    let mut interval = short();
    let shrinker = &mut interval.end.zswap.shrinker_enabled;
    *shrinker = Reading::absent("no such file", shrinker.source.clone());
    let plan = plan_of(&interval);
    assert_eq!(ids(&plan)[0], "zram");
    assert!(declined(&plan, "zswap").contains("has no shrinker"));
}

#[test]
fn on_a_hard_disk_zram_is_added_and_the_trial_that_would_decide_is_named() {
    let mut interval = short();
    interval.end.tiers[0].disk.rotational = file("/sys/block/sda/queue/rotational", true);
    let plan = plan_of(&interval);
    assert_eq!(ids(&plan)[0], "zram");
    let why = declined(&plan, "zswap");
    assert!(
        why.contains("is on a hard disk")
            && why.contains("`sudo pagewise trial --allow-shared-swap "),
        "{why}"
    );
    // behind zswap, zram would compress pages twice
    let plan = plan_of(&switched_on(interval));
    assert_eq!(ids(&plan), [""; 0]);
    assert!(declined(&plan, "zram").contains("is on a hard disk"));
}

#[test]
fn zswap_in_front_of_zram_with_room_is_switched_off() {
    let mut interval = switched_on(short());
    interval.end.tiers.insert(0, tier("/dev/zram0", TierKind::Zram, mib(300), 100));
    interval.end.zram = vec![pagewise_testkit::made_host::zram(
        0,
        pagewise_model::ZramUse::Swap { priority: 100 },
        mib(300),
    )];
    let plan = plan_of(&interval);
    assert!(set(&plan).contains(&("zswap.enabled", "N")), "{plan:#?}");
    assert!(declined(&plan, "zswap").contains("/dev/zram0 is on and has room"));
    interval.end.tiers[0].used = line("/proc/swaps", 2, gib(4));
    let plan = plan_of(&interval);
    assert!(!set(&plan).contains(&("zswap.enabled", "N")), "{plan:#?}");
    assert!(declined(&plan, "switch zswap off").contains("Use only one of the two"));
}

#[test]
fn settings_that_were_not_read_are_not_set() {
    let mut interval = short();
    interval.end.knobs.retain(|it| it.knob.name != "zswap.compressor");
    let plan = plan_of(&interval);
    assert_eq!(ids(&plan), [""; 0]);
    assert!(declined(&plan, "zswap").contains("were not read"));
}

#[test]
fn what_scan_found_counts() {
    let plan_with = |huge: u64, used: u64, cold: &str| {
        let scan = format!(
            r#"{{"schema": "pagewise/scan/1", "estimates": [{{"page_bytes": 4096, "pages": 20000, "sized_pages": 10000,
            "cold": {cold}, "algorithms": [{{"name": "lz4", "huge_pages": {huge}, "memory_used_bytes": {used},
            "memory_used_interval": [{used}, {used}]}}]}}]}}"#
        );
        let measured = Measured::from_json(&scan).unwrap();
        let (interval, installation) = (short(), Installation { has_systemd: true, ..plain() });
        let request = Request {
            interval: &interval,
            installation: &installation,
            measured: &measured,
            goal: Goal::Balanced,
            only: &[],
            wants: &[],
            anyway: false,
        };
        make_plan(&request)
    };
    let absent = r#"{"absent": "not measured"}"#;
    assert_eq!(ids(&plan_with(0, 40_960_000, absent))[0], "zswap.shrinker_enabled");
    assert_eq!(ids(&plan_with(0, 40_960_000, r#"{"value": 8000}"#))[0], "zswap.shrinker_enabled");
    let few_cold = plan_with(0, 40_960_000, r#"{"value": 400}"#);
    assert!(declined(&few_cold, "zswap").starts_with("only 2 % of pages were not used lately"));
    let random = plan_with(19_600, 80_000_000, absent);
    assert_eq!(ids(&random), [""; 0]);
    assert!(declined(&random, "zram").starts_with("the memory in use compresses by 1.02 : 1 only"));
}

#[test]
fn the_goal_ratio_takes_zstd_for_zswap_where_the_kernel_has_it_or_can_load_it() {
    let compressor = |state: Option<FeatureState>, goal| {
        let mut interval = short();
        let of_zswap =
            |state| Capability { feature: "zswap.zstd", doc: "", state, evidence: Vec::new() };
        interval.end.capabilities.extend(state.map(of_zswap));
        let plan = plan_for(&interval, &plain(), goal);
        let (_, to) = set(&plan).into_iter().find(|(name, _)| *name == "zswap.compressor").unwrap();
        to.to_owned()
    };
    let loadable = FeatureState::Loadable { module: "zstd" };
    for state in [FeatureState::Present, loadable.clone()] {
        assert_eq!(compressor(Some(state), Goal::Ratio), "zstd");
    }
    for state in [FeatureState::Missing, FeatureState::Denied] {
        assert_eq!(compressor(Some(state), Goal::Ratio), "lz4");
    }
    assert_eq!(compressor(None, Goal::Ratio), "lz4");
    assert_eq!(compressor(Some(loadable), Goal::Balanced), "lz4");
}

/// Random letters: lz4 finds no repetition in them, and zstd encodes each in about half a byte.
#[test]
fn without_a_disk_the_ratio_of_the_planned_algorithm_counts() {
    let scan = r#"{"schema": "pagewise/scan/1", "estimates": [{"page_bytes": 4096, "pages": 20000, "sized_pages": 10000,
        "algorithms": [{"name": "lz4", "memory_used_bytes": 81920000, "memory_used_interval": [81920000, 81920000]},
        {"name": "zstd", "memory_used_bytes": 40960000, "memory_used_interval": [40960000, 40960000]}]}]}"#;
    let plan_of = |offered: &[&str], goal| {
        let mut interval = short();
        let host = &mut interval.end;
        host.tiers.clear();
        host.memory.swap_total = line("/proc/meminfo", 15, Bytes::new(0));
        host.memory.swap_free = line("/proc/meminfo", 16, Bytes::new(0));
        let available = offered.iter().map(|name| Name::from(*name)).collect();
        host.zram = vec![zram(0, ZramUse::NotInitialised, Bytes::new(0))];
        host.zram[0].algorithm = file(
            "/sys/block/zram0/comp_algorithm",
            Algorithms { active: Name::from("lz4"), available },
        );
        let measured = &Measured::from_json(scan).unwrap();
        let installation = &plain();
        make_plan(&Request {
            interval: &interval,
            installation,
            measured,
            goal,
            only: &[],
            wants: &[],
            anyway: false,
        })
    };
    let plan = plan_of(&["lz4", "zstd"], Goal::Ratio);
    assert!(
        matches!(&plan.steps[0].change,
            Change::AddZramSwap { to, .. } if to.compressor.to_string() == "zstd"),
        "{plan:?}"
    );
    for (offered, goal) in [(&["lz4", "zstd"][..], Goal::Balanced), (&["lz4"], Goal::Ratio)] {
        let plan = plan_of(offered, goal);
        let why = declined(&plan, "zram");
        assert!(why.starts_with("the memory in use compresses by 1.00 : 1 only"), "{why}");
    }
}
