// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the user asks for: planned whether or not memory is short, or declined with a reason.

use pagewise_model::knob::{Domain, KNOBS, Persist};
use pagewise_model::plan::{Change, Goal, Plan, Want};
use pagewise_model::{Installation, Interval, TierKind};
use pagewise_plan::{Measured, Request, make_plan, root_commands};
use pagewise_testkit::made_host::{calm, gib, knob, line, mib, tier, with};
use pagewise_testkit::scene::{Scene, slugs};

use super::{declined, file, ids, plain};

fn asked_on(
    interval: &Interval,
    installation: &Installation,
    wants: &[&str],
    anyway: bool,
) -> Plan {
    let wants: Vec<Want> = wants.iter().map(|text| text.parse().unwrap()).collect();
    let measured = &Measured::default();
    let goal = Goal::Balanced;
    make_plan(&Request { interval, installation, measured, goal, only: &[], wants: &wants, anyway })
}

fn asked(interval: &Interval, wants: &[&str]) -> Plan {
    asked_on(interval, &plain(), wants, false)
}

/// A host with much free memory and no swap.
fn idle() -> Interval {
    with(|host| {
        host.tiers.clear();
        host.zram.clear();
    })
}

#[test]
fn zram_on_a_calm_machine_is_planned_on_request_and_offered_without() {
    let interval = idle();
    let plan = asked(&interval, &["zram"]);
    assert_eq!(ids(&plan), ["zram", "zram-file", "zram-link", "zram-reload"], "{plan:#?}");
    let step = &plan.steps[0];
    assert!(step.survives_reboot && step.cost.as_ref().unwrap().contains("slot table"));
    for said in ["It was asked for", "does not help against a leak", "Memory is not short"] {
        assert!(step.reason.contains(said), "{said}: {}", step.reason);
    }
    let offer = super::plan_of(&interval);
    let why = declined(&offer, "add swap in compressed RAM");
    assert!(why.contains("`pagewise plan --want zram`") && offer.steps.is_empty(), "{why}");
}

#[test]
fn a_size_is_taken_and_one_that_does_harm_is_not() {
    let interval = idle();
    let size = |plan: &Plan| match &plan.steps[0].change {
        Change::AddZramSwap { to, .. } => to.disksize_bytes,
        other => panic!("{other:?}"),
    };
    let ram = interval.end.memory.total.get().unwrap();
    let plan = asked(&interval, &["zram=3G"]);
    assert_eq!(size(&plan), gib(3));
    assert!(
        plan.steps[0].reason.contains("The size is the one that was asked for; recommended is")
    );
    // more than could ever be filled: a doubt, which gives way
    let large = format!("zram={}", pagewise_model::Bytes::new(ram.get() * 3).format_typed());
    let why = asked(&interval, &[&large]);
    assert!(declined(&why, "zram").contains("With --anyway the plan contains it"), "{why:#?}");
    assert_eq!(size(&asked_on(&interval, &plain(), &[&large], true)).get(), ram.get() * 3);
    // its slot table alone is a twentieth of RAM: harm, which does not
    let huge = format!("zram={}", pagewise_model::Bytes::new(ram.get() * 9).format_typed());
    let plan = asked_on(&interval, &plain(), &[&huge], true);
    assert!(plan.steps.is_empty() && declined(&plan, "zram").contains("slot table alone"));
}

#[test]
fn zram_behind_zswap_needs_zswap_off_or_anyway() {
    let mut interval = idle();
    let on = line("/sys/module/zswap/parameters/enabled", 1, true);
    interval.end.zswap.enabled = on;
    knob(&mut interval.end, "zswap.enabled", "Y");
    assert!(declined(&asked(&interval, &["zram"]), "zram").contains("--want zswap.enabled=N"));
    let both = asked(&interval, &["zram", "zswap.enabled=N"]);
    assert!(ids(&both).contains(&"zram") && ids(&both).contains(&"zswap.enabled"), "{both:#?}");
    assert!(ids(&asked_on(&interval, &plain(), &["zram"], true)).contains(&"zram"));
}

#[test]
fn zswap_needs_swap_on_a_disk() {
    let mut interval = idle();
    for (name, value) in [
        ("zswap.enabled", "N"),
        ("zswap.shrinker_enabled", "N"),
        ("zswap.max_pool_percent", "20"),
        ("zswap.compressor", "lzo"),
    ] {
        knob(&mut interval.end, name, value);
    }
    assert!(declined(&asked(&interval, &["zswap"]), "zswap").contains("--want swapfile"));
    interval.end.tiers.push(tier("/dev/sda2", TierKind::Partition, mib(0), -2));
    let plan = asked(&interval, &["zswap"]);
    assert!(ids(&plan).contains(&"zswap.enabled"), "{plan:#?}");
    // one of the two, in whatever order they are asked for
    for wants in [["zswap", "zram"], ["zram", "zswap"]] {
        let plan = asked(&interval, &wants);
        assert!(ids(&plan).contains(&"zram") && !ids(&plan).contains(&"zswap.enabled"));
        assert!(declined(&plan, "zswap").contains("ask for one of the two"));
    }
}

#[test]
fn a_setting_is_set_and_kept_and_one_that_is_so_is_only_kept() {
    let mut interval = calm();
    knob(&mut interval.end, "vm.dirty_ratio", "20");
    let plan = asked(&interval, &["dirty_ratio=10"]);
    assert_eq!(ids(&plan), ["vm.dirty_ratio", "sysctl-file"]);
    assert!(file(&plan, "sysctl-file").1.contains("\nvm.dirty_ratio = 10\n"));
    let kept = asked(&interval, &["vm.dirty_ratio=20"]);
    assert!(ids(&kept).is_empty(), "the kernel's default needs no file: {kept:#?}");
    knob(&mut interval.end, "vm.dirty_ratio", "33");
    assert_eq!(ids(&asked(&interval, &["vm.dirty_ratio=33"])), ["sysctl-file"]);
    let without = Installation { distribution: Some("nixos".to_owned()), ..plain() };
    let plan = asked_on(&interval, &without, &["vm.dirty_ratio=33"], false);
    assert!(declined(&plan, "vm.dirty_ratio = 33").contains("has this value now"));
}

#[test]
fn a_profile_of_huge_pages_is_planned_whole() {
    let mut interval = calm();
    let profile = pagewise_decide::thp_profile::PROFILES.iter().find(|it| it.name == "operator");
    let profile = profile.unwrap();
    for (name, _) in profile.knobs {
        knob(&mut interval.end, name, "0");
    }
    let plan = asked(&interval, &["hugepages=operator"]);
    let text = file(&plan, "tmpfiles-file").1;
    for (name, value) in profile.knobs {
        let step = plan.step(name).unwrap();
        assert!(matches!(&step.change, Change::SetKnob { to, .. } if to == value), "{name}");
        assert!(text.contains(&format!("{name}: ")), "{name}: {text}");
    }
    let unknown = asked(&interval, &["hugepages=most"]);
    assert!(declined(&unknown, "hugepages=most").contains("operator"));
}

/// Each row of the knob table that a file can keep: now and at boot, or a reason.
#[test]
fn every_setting_that_can_last_is_planned_with_its_file() {
    let mut planned = 0;
    for row in KNOBS {
        let lasts = [Persist::Sysctl, Persist::Tmpfiles];
        let can_last = row.persist.iter().any(|way| lasts.contains(way));
        let value = match row.domain {
            Domain::Int { min, max } if max >= 7 && min <= 7 => "7".to_owned(),
            Domain::Int { min, .. } => min.to_string(),
            Domain::Word { words } => words[0].to_owned(),
            Domain::Bool => "1".to_owned(),
            _ => continue,
        };
        let parsed = format!("{}={value}", row.name).parse::<Want>();
        if !can_last || row.path.contains('{') {
            assert!(can_last || parsed.is_err(), "{}", row.name);
            continue;
        }
        let Ok(Want::Knob(_)) = parsed else { continue };
        let mut interval = calm();
        knob(&mut interval.end, row.name, "5");
        let plan = asked(&interval, &[&format!("{}={value}", row.name)]);
        assert!(plan.step(row.name).is_some_and(|step| step.survives_reboot), "{plan:#?}");
        assert_eq!(plan.steps.len(), 2, "{plan:#?}");
        planned += 1;
    }
    assert!(planned > 40, "{planned}");
}

/// On every recorded host, each request is planned or declined with a reason, and in any order the
/// plan has the same steps.
#[test]
fn no_request_is_passed_over_in_silence() {
    let all = ["zram", "zswap", "swapfile=256M", "hugepages=operator", "vm.swappiness=77"];
    let mut steps = 0;
    for slug in slugs() {
        let interval = &Scene::load(&slug).replay();
        for want in all {
            let plan = asked(interval, &[want]);
            assert!(!plan.steps.is_empty() || !plan.declined.is_empty(), "{slug} {want}");
            assert!(plan.declined.iter().all(|it| it.why.len() > 10), "{slug} {want}: {plan:#?}");
            steps += plan.steps.len();
            // a plan of this program needs no --trust-commands
            let foreign = root_commands(&plan).into_iter().find(|it| !it.is_own);
            assert!(foreign.is_none(), "{slug} {want}: {foreign:?}");
        }
        let mut reversed = all;
        reversed.reverse();
        let names = |wants: &[&str]| {
            let plan = asked(interval, wants);
            let mut names: Vec<String> = plan.steps.into_iter().map(|step| step.id).collect();
            names.sort();
            names
        };
        assert_eq!(names(&all), names(&reversed), "{slug}");
    }
    assert!(steps > 100, "{steps}");
}
