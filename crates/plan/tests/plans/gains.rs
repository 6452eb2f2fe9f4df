// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Predicted gains, and their measurements afterwards.

use pagewise_model::plan::{
    Change, Expected, GainOutcome, Goal, HIGH_WATERMARKS, HUGETLB_POOL, Plan, SWAP_AREA, Step,
    ZRAM_RATIO,
};
use pagewise_model::{Bytes, Interval, Pages, Reading, Snapshot, Source};
use pagewise_plan::{StepState, measure_gain};
use pagewise_testkit::scene::Scene;

use super::machine::{carry_out, set_watermarks};
use super::{plain, plan_for, plan_of};
use pagewise_testkit::made_host::{calm, knob, mib, pool, with};

/// The swap area that a step added: the one with its priority.
fn area_of(step: &Step, host: &Snapshot) -> Option<String> {
    let to = match &step.change {
        Change::AddZramSwap { to, .. } => to,
        Change::AddSwapFile { target, .. } => return Some(target.clone()),
        _ => return None,
    };
    let priority = Some(i32::from(to.priority));
    let tier = host.tiers.iter().find(|tier| tier.priority.get() == priority);
    tier.map(|tier| tier.path.as_str().to_owned())
}

fn outcome(step: &Step, host: &Snapshot) -> Option<GainOutcome> {
    let area = area_of(step, host);
    let state = StepState::InForce { area: area.as_deref() };
    measure_gain(step, state, host).map(|gain| gain.outcome)
}

/// Predictions by a formula of the kernel come true on a machine that follows the formula;
/// estimates are not measured there, because nothing is stored.
pub(crate) fn check(plan: &Plan, after: &Interval) {
    for step in &plan.steps {
        let Some(expected) = &step.expected else { continue };
        let [low, high] = expected.interval;
        assert!(low <= expected.value && expected.value <= high, "{expected:?}");
        match outcome(step, &after.end) {
            Some(GainOutcome::Measured { hit, evidence, .. }) => {
                assert!(hit && !evidence.is_empty(), "{}: {expected:?}", step.id);
            }
            other => assert_eq!(expected.metric, ZRAM_RATIO, "{}: {other:?}", step.id),
        }
    }
}

fn why(step: &Step, state: StepState<'_>, host: &Snapshot) -> String {
    match measure_gain(step, state, host).unwrap().outcome {
        GainOutcome::NotMeasured { why } => why,
        measured => panic!("{measured:?}"),
    }
}

/// A recording with a reserve that was set far too high.
fn with_reserve(kib: &str) -> Interval {
    let mut interval = Scene::load("debian-trixie-6.12-x86_64-1g-thp").replay();
    knob(&mut interval.end, "vm.min_free_kbytes", kib);
    set_watermarks(&mut interval.end);
    interval
}

#[test]
fn lower_watermarks_are_predicted_exactly_and_measured() {
    let interval = with_reserve("204800");
    let plan = plan_of(&interval);
    let step = plan.step("min-free").unwrap_or_else(|| panic!("{plan:#?}"));
    let expected = step.expected.clone().unwrap();
    assert_eq!(expected.metric, HIGH_WATERMARKS);
    assert!(expected.before > Some(expected.value) && expected.interval == [expected.value; 2]);
    let (mut after, _) = carry_out(&plan, &interval, &plain());
    check(&plan, &after);
    // somebody has raised them in the meantime
    let zone = after.end.zones.iter_mut().rfind(|zone| zone.high_pages.get() > Some(Pages::new(0)));
    let high = &mut zone.unwrap().high_pages;
    *high = Reading::found(high.get().unwrap().saturating_add(Pages::new(1)), high.source.clone());
    match outcome(step, &after.end) {
        Some(GainOutcome::Measured { measured, hit, evidence }) => {
            assert_eq!((measured, hit), (expected.value + 4096.0, false));
            assert!(evidence.iter().any(|it| it.path == "/proc/zoneinfo"), "{evidence:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn watermarks_that_do_not_follow_the_formula_are_not_predicted() {
    let mut interval = with_reserve("204800");
    let high = &mut interval.end.zones[0].high_pages;
    *high = Reading::found(Pages::new(1_000_000), high.source.clone());
    let plan = plan_of(&interval);
    assert_eq!(plan.step("min-free").unwrap().expected, None);
}

#[test]
fn what_a_step_itself_sets_is_not_predicted() {
    let predicted = |surplus: u64, configured: &str| {
        let mut interval = with(|host| host.hugetlb = vec![pool(1024, 800, 288)]);
        let at = interval.end.hugetlb[0].surplus.source.clone();
        interval.end.hugetlb[0].surplus = Reading::found(surplus, at);
        knob(&mut interval.end, "vm.nr_hugepages", configured);
        let plan = plan_for(&interval, &plain(), Goal::Ratio);
        let expected = plan.step("hugetlb").expect("it is planned").expected.clone();
        check(&plan, &carry_out(&plan, &interval, &plain()).0);
        expected.map(|it| it.metric)
    };
    assert_eq!(predicted(0, "1024"), None);
    assert_eq!(predicted(8, "1024"), None);
    // what an earlier version has predicted is not measured
    let (host, path) = storing(32 << 20, 16 << 20, 0);
    let state = StepState::InForce { area: Some(&path) };
    for metric in [HUGETLB_POOL, SWAP_AREA] {
        assert_eq!(measure_gain(&zram_step(metric), state, &host), None, "{metric}");
    }
}

/// A step that adds the zram device of the calm host.
fn zram_step(metric: &str) -> Step {
    let mut interval = calm();
    interval.end.tiers.clear();
    interval.end.zram.clear();
    interval.end.memory.available = Reading::found(mib(200), Source::line("/proc/meminfo", 3));
    let mut step = plan_of(&interval).step("zram").unwrap().clone();
    assert_eq!(step.expected, None);
    let exact = Expected::exact(metric, 2.5, None, "scan".to_owned());
    step.expected = Some(Expected { interval: [2.0, 3.0], ..exact });
    step
}

/// The calm host with a zram device that stores `original` bytes in `used` bytes.
fn storing(original: u64, used: u64, on_disk: u64) -> (Snapshot, String) {
    let mut host = calm().end;
    let found = |bytes| Reading::found(Bytes::new(bytes), Source::file("/sys/block/zram0/mm_stat"));
    let device = host.zram.first_mut().unwrap();
    (device.mm_stat.original, device.mm_stat.memory_used) = (found(original), found(used));
    device.bd_stat.held = found(on_disk);
    let path = device.path();
    (host, path)
}

#[test]
fn a_ratio_is_measured_once_enough_is_stored() {
    let step = zram_step(ZRAM_RATIO);
    let at = |original, used, on_disk| {
        let (host, path) = storing(original, used, on_disk);
        let state = StepState::InForce { area: Some(&path) };
        measure_gain(&step, state, &host).unwrap().outcome
    };
    let hit = |outcome| match outcome {
        GainOutcome::Measured { measured, hit, evidence } => {
            assert_eq!(evidence.len(), 2);
            assert!(evidence[0].value.ends_with(" bytes"), "{evidence:?}");
            Ok((measured, hit))
        }
        GainOutcome::NotMeasured { why } => Err(why),
    };
    assert_eq!(hit(at(32 << 20, 16 << 20, 0)), Ok((2.0, true)));
    assert_eq!(hit(at(32 << 20, 8 << 20, 0)), Ok((4.0, false)));
    let little =
        "the device stores 3.0 MiB, and a ratio is measured only if it stores 16.0 MiB or more";
    assert_eq!(hit(at(3 << 20, 1 << 20, 0)), Err(little.to_owned()));
    assert!(hit(at(32 << 20, 8 << 20, 4096)).unwrap_err().contains("on the backing device"));
    assert!(hit(at(32 << 20, 0, 0)).unwrap_err().contains("uses no memory"));
}

#[test]
fn what_cannot_be_measured_says_why() {
    let (host, path) = storing(32 << 20, 16 << 20, 0);
    let ratio = zram_step(ZRAM_RATIO);
    let off = StepState::NotInForce { why: "no such swap" };
    assert_eq!(why(&ratio, off, &host), "the step is not in force: no such swap");
    let other = StepState::InForce { area: Some("/dev/sda2") };
    assert_eq!(why(&ratio, other, &host), "/dev/sda2 is no zram device");
    let unknown = StepState::InForce { area: None };
    assert!(why(&ratio, unknown, &host).contains("is not known"));
    let in_force = StepState::InForce { area: Some(&path) };
    let future = zram_step("speed_per_watt");
    assert!(why(&future, in_force, &host).contains("cannot measure speed_per_watt"));
    let none = zram_step(HIGH_WATERMARKS);
    assert!(why(&none, in_force, &Snapshot::default()).contains("could not be read"));
    let without = Step { expected: None, ..ratio };
    assert_eq!(measure_gain(&without, in_force, &host), None);
}
