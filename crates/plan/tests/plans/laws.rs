// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Laws for every plan, of recorded and of made-up hosts.

use std::collections::BTreeSet;

use pagewise_model::knob::{Domain, KNOBS, Persist};
use pagewise_model::plan::{Change, Goal, Plan, StepUndo};
use pagewise_model::{
    Bytes, FeatureState, InitSystem, Installation, Interval, Level, Name, Reading, TierKind,
    ZramUse,
};
use pagewise_testkit::scene::{Scene, slugs};
use proptest::prelude::*;

use super::machine::carry_out;
use super::{GOALS, plain, plan_for};
use pagewise_testkit::made_host::{self, calm, erasers, gib, knob, stall, tier, zram};

/// What the kernel accepts; written independently of the check in the knob table's tests.
pub(crate) fn is_accepted(name: &str, value: &str) -> bool {
    let knob = KNOBS.iter().find(|knob| knob.name == name).unwrap();
    match knob.domain {
        Domain::Int { min, max } => {
            let number: i128 = value.parse().unwrap_or(i128::MIN);
            (i128::from(min)..=i128::from(max)).contains(&number)
        }
        Domain::Bool => ["0", "1", "Y", "N"].contains(&value),
        Domain::Word { words } => words.contains(&value),
        // the name of a compressor
        Domain::Text => !value.is_empty() && value.bytes().all(|it| it.is_ascii_alphanumeric()),
        other => panic!("{name}: no rule sets {other:?}"),
    }
}

fn target(change: &Change) -> (&str, &str) {
    let target = match change {
        Change::SetKnob { target, .. }
        | Change::WriteFile { target, .. }
        | Change::MakeLink { target, .. }
        | Change::ReloadUnits { target }
        | Change::AddSwapFile { target, .. }
        | Change::SetSwapPriority { target, .. }
        | Change::DrainSwap { target, .. } => target,
        Change::AddZramSwap { target, .. } => target.as_deref().unwrap_or("a new zram device"),
    };
    (change.action(), target)
}

/// Checks the laws for one plan.
fn check(plan: &Plan, interval: &Interval, installation: &Installation) {
    let mut targets = BTreeSet::new();
    let mut earlier = BTreeSet::new();
    for step in &plan.steps {
        assert!(targets.insert(target(&step.change)), "two steps for one target: {plan:#?}");
        let known = |id: &String| earlier.contains(id.as_str());
        assert!(step.needs.iter().all(known), "{}: needs {:?}", step.id, step.needs);
        assert!(earlier.insert(step.id.as_str()), "{} twice", step.id);
        let sentence =
            |text: &str| !text.is_empty() && !text.contains("  ") && !text.contains('\n');
        assert!(sentence(&step.reason) && step.reason.ends_with('.'), "{step:#?}");
        assert!(sentence(&step.risk) && !step.risk.ends_with('.'), "{step:#?}");
        assert!(matches!(step.undo, StepUndo::Restore { .. }), "{step:#?}");
        match &step.change {
            Change::SetKnob { target, from, to } => {
                assert_ne!(from, to);
                assert!(is_accepted(target, to), "{target} = {to}");
                assert_eq!(interval.end.knob(target).unwrap().active_word(), Some(from.as_str()));
                let kept = is_kept(plan, (target, to), interval, installation);
                assert_eq!(kept, step.survives_reboot, "{target}: {plan:#?}");
                assert!(kept || is_declined(plan, target), "{target}: {plan:#?}");
            }
            Change::WriteFile { target, from, to } => {
                assert_ne!(from.as_ref(), Some(to));
                assert!(
                    to.ends_with('\n')
                        && to.contains("pagewise undo")
                        && target.starts_with("/etc/")
                );
                check_lines(plan, target, to, interval, installation);
            }
            Change::AddZramSwap { to, .. } => {
                let is_kept = plan.step("zram-file").is_some()
                    || is_started(plan, "# zram swap:", installation);
                assert_eq!(step.survives_reboot, is_kept, "{plan:#?}");
                assert!(to.priority >= 0 && to.disksize_bytes >= Bytes::new(1 << 20), "{step:#?}");
            }
            Change::AddSwapFile { to, .. } => {
                let is_kept = plan.step("swap-file-unit").is_some()
                    || is_started(plan, "# swap file:", installation);
                assert_eq!(step.survives_reboot, is_kept, "{plan:#?}");
                let free = installation.swap_folder.free_bytes.unwrap();
                assert!(to.size_bytes.get() <= free.get() / 4, "{step:#?}");
                assert!(plan.step("zram").is_none(), "{plan:#?}");
            }
            _ => {}
        }
    }
    for left_out in &plan.declined {
        assert!(!left_out.what.is_empty() && left_out.why.len() > 20, "{left_out:#?}");
        assert!(!left_out.why.contains("  ") || left_out.why.contains("  # "), "{left_out:#?}");
    }
    let text = serde_json::to_string(plan).unwrap();
    assert_eq!(&serde_json::from_str::<Plan>(&text).unwrap(), plan);
    assert!(plan.id.len() == 16 && plan.id.bytes().all(|byte| byte.is_ascii_hexdigit()));
}

/// The lines of sysctl files that set it, in order.
fn sysctl_lines<'a>(
    interval: &'a Interval,
    name: &'a str,
) -> impl Iterator<Item = &'a pagewise_model::PersistentSetting> {
    use pagewise_model::{Mechanism, Target};
    let lines = interval.end.configuration.by(Mechanism::Sysctl);
    lines.filter(move |it| matches!(&it.target, Target::Knob { knob, .. } if *knob == name))
}

/// Whether the start script of the plan has a line that begins so, and is run at boot.
fn is_started(plan: &Plan, begin: &str, installation: &Installation) -> bool {
    let is_run = !matches!(
        installation.init,
        InitSystem::SysVRegistered | InitSystem::BusyboxRcs | InitSystem::Unknown
    );
    let script = plan.step("start-script").map(|step| match &step.change {
        Change::WriteFile { to, .. } => to.as_str(),
        other => panic!("{other:?}"),
    });
    is_run && script.is_some_and(|text| text.lines().any(|line| line.starts_with(begin)))
}

/// Each running value is in a file: of this plan, of an earlier one, or of somebody else.
fn is_kept(
    plan: &Plan,
    (name, to): (&str, &str),
    interval: &Interval,
    installation: &Installation,
) -> bool {
    let knob = KNOBS.iter().find(|knob| knob.name == name).unwrap();
    let line = format!("set_value /{} {}", knob.path, pagewise_model::quote_for_shell(to));
    if is_started(plan, &line, installation) {
        return true;
    }
    // systemd does not read this file
    let read =
        |it: &&pagewise_model::PersistentSetting| it.value.source.path() != "/etc/sysctl.conf";
    let last = sysctl_lines(interval, name).filter(read).last();
    if last.and_then(|it| it.value.value()).is_some_and(|value| value.as_str() == to) {
        return true;
    }
    let line = if knob.persist.contains(&Persist::Sysctl) {
        format!("{name} = {to}")
    } else {
        format!("w /{} - - - - {to}", knob.path)
    };
    let of_plan = plan.steps.iter().filter_map(|step| match &step.change {
        Change::WriteFile { to, .. } => Some(to),
        _ => None,
    });
    let mut files = of_plan.chain(installation.own_files.values());
    files.any(|text| text.lines().any(|known| known == line))
}

/// The plan has declined to keep it, with a reason.
fn is_declined(plan: &Plan, name: &str) -> bool {
    plan.declined.iter().any(|it| {
        it.what.starts_with("keep ")
            && it.what.contains(name)
            && it.what.ends_with(" over a reboot")
    })
}

/// Each line of a file has a step that sets the running value, unless it is right already; and no
/// other file that sets the same key overrides it.
fn check_lines(
    plan: &Plan,
    path: &str,
    text: &str,
    interval: &Interval,
    installation: &Installation,
) {
    let name = path.rsplit('/').next().unwrap();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some((key, value)) = line.split_once(" = ").filter(|_| path.contains("/sysctl.d/")) {
            let now = interval.end.knob(key).unwrap().active_word().unwrap();
            let set = plan.steps.iter().any(|step| {
                matches!(&step.change, Change::SetKnob { target, to, .. } if target == key && to == value)
            });
            assert!(set || now == value, "{key} is {now} and gets no step");
            for other in sysctl_lines(interval, key).map(|other| other.value.source.path()) {
                let last = other.rsplit('/').next().unwrap();
                assert!(other == "/etc/sysctl.conf" || last <= name, "{other} comes after {path}");
            }
        }
        if line.starts_with("w ") {
            let mut names = installation.tmpfiles_names.iter();
            assert!(names.all(|other| name <= other.as_str()), "{path} is not the first");
        }
    }
}

/// After a plan was applied, a second plan has nothing to do; checks the laws for both.
fn check_all_goals(interval: &Interval, installation: &Installation) {
    for goal in GOALS {
        let plan = plan_for(interval, installation, goal);
        check(&plan, interval, installation);
        assert_eq!(plan, plan_for(interval, installation, goal), "the same host, another plan");
        let (after, installed) = carry_out(&plan, interval, installation);
        super::gains::check(&plan, &after);
        let again = plan_for(&after, &installed, goal);
        check(&again, &after, &installed);
        let (left, first) = (super::ids(&again), super::ids(&plan));
        assert!(left.is_empty(), "{goal:?}: after {first:?} still {left:?}: {again:#?}");
    }
}

#[test]
fn plans_of_all_recordings_obey_the_laws() {
    for slug in slugs() {
        let interval = Scene::load(&slug).replay();
        check_all_goals(&interval, &plain());
        check_all_goals(&interval, &Installation::default());
    }
}

#[test]
fn recordings_of_healthy_machines_get_no_step() {
    for slug in slugs() {
        let interval = Scene::load(&slug).replay();
        let verdict = pagewise_decide::judge(&interval);
        let findings = pagewise_decide::diagnose(&interval);
        let matters = |it: &pagewise_model::Finding| it.severity > pagewise_model::Severity::Info;
        if verdict.level == Level::Calm && !findings.iter().any(matters) {
            let plan = plan_for(&interval, &plain(), Goal::Balanced);
            assert!(plan.steps.is_empty() || slug.contains("behind-file"), "{slug}: {plan:#?}");
        }
    }
}

/// One difference from a calm host.
#[derive(Debug, Clone)]
enum Oddity {
    Knob(&'static str, u64),
    File(&'static str, &'static str, u64),
    Zswap,
    ZramSize(u64),
    ZramUsed(u64),
    NoZram,
    /// Without zram swap, on a kernel built without zram.
    ZramNotBuilt,
    DiskFirst(u64),
    /// Swap on NVMe instead of zram: MiB in use, and whether zswap and its shrinker are on.
    Nvme(u64, bool, bool),
    Available(u64),
    Pressure(f64),
    HugePages(u64),
    Erase(prop::sample::Index),
}

const KNOB_NAMES: [&str; 5] = [
    "vm.swappiness",
    "vm.page-cluster",
    "vm.extfrag_threshold",
    "vm.min_free_kbytes",
    "vm.watermark_scale_factor",
];
const FILE_NAMES: [&str; 4] = [
    "/etc/sysctl.d/10-a.conf",
    "/usr/lib/sysctl.d/95-b.conf",
    "/etc/sysctl.d/zzz.conf",
    "/etc/sysctl.conf",
];

fn oddity() -> impl Strategy<Value = Oddity> {
    let number = || prop_oneof![Just(0u64), Just(1), 0..300u64, 0..4_000_000u64];
    prop_oneof![
        (prop::sample::select(&KNOB_NAMES[..]), number())
            .prop_map(|(knob, to)| Oddity::Knob(knob, to)),
        (prop::sample::select(&FILE_NAMES[..]), prop::sample::select(&KNOB_NAMES[..]), number())
            .prop_map(|(file, knob, to)| Oddity::File(file, knob, to)),
        Just(Oddity::Zswap),
        (1..200u64).prop_map(Oddity::ZramSize),
        (0..=4096u64).prop_map(Oddity::ZramUsed),
        Just(Oddity::NoZram),
        Just(Oddity::ZramNotBuilt),
        (0..4096u64).prop_map(Oddity::DiskFirst),
        (0..16_384u64, any::<bool>(), any::<bool>())
            .prop_map(|(used, is_on, shrinks)| Oddity::Nvme(used, is_on, shrinks)),
        (0..16_000u64).prop_map(Oddity::Available),
        (0.0..60.0f64).prop_map(Oddity::Pressure),
        (0..511u64).prop_map(Oddity::HugePages),
        any::<prop::sample::Index>().prop_map(Oddity::Erase),
    ]
}

fn make(interval: &mut Interval, oddity: &Oddity) {
    let host = &mut interval.end;
    let mib = |mib: u64| Bytes::new(mib << 20);
    match oddity {
        Oddity::Knob(name, value) => {
            knob(host, name, &value.to_string());
            if ["vm.min_free_kbytes", "vm.watermark_scale_factor"].contains(name) {
                super::machine::set_watermarks(host);
            }
        }
        Oddity::File(path, name, value) => {
            let knob = KNOBS.iter().find(|knob| knob.name == *name).unwrap().name;
            let value = made_host::line(path, 3, Name::from(value.to_string().as_str()));
            let (target, sysctl) =
                (pagewise_model::Target::of_knob(knob), pagewise_model::Mechanism::Sysctl);
            let setting = pagewise_model::PersistentSetting::applied(sysctl, target, value);
            host.configuration.settings.push(setting);
            let by_name = |it: &pagewise_model::PersistentSetting| {
                let path = it.value.source.path();
                (path == "/etc/sysctl.conf", path.rsplit('/').next().unwrap().to_owned())
            };
            host.configuration.settings.sort_by_key(by_name);
        }
        Oddity::Zswap => {
            let path = "/sys/module/zswap/parameters/enabled";
            host.zswap.enabled = made_host::file(path, true);
            knob(host, "zswap.enabled", "Y");
        }
        Oddity::ZramSize(size) => {
            if let (Some(device), Some(tier)) = (host.zram.first_mut(), host.tiers.first_mut()) {
                device.disksize = made_host::file("/sys/block/zram0/disksize", gib(*size));
                device.slot_table = made_host::file(
                    "/sys/block/zram0/disksize",
                    Bytes::new((size << 30) / 4096 * 16),
                );
                tier.size = made_host::line("/proc/swaps", 2, gib(*size));
            }
        }
        Oddity::ZramUsed(used) => {
            if let Some(tier) = host.tiers.first_mut() {
                tier.used = made_host::line("/proc/swaps", 2, mib(*used));
            }
        }
        Oddity::NoZram => {
            host.tiers.clear();
            host.zram = vec![zram(0, ZramUse::NotInitialised, Bytes::new(0))];
        }
        Oddity::ZramNotBuilt => {
            host.tiers.clear();
            host.zram.clear();
            made_host::capability(host, FeatureState::NotBuilt { option: "CONFIG_ZRAM" });
        }
        Oddity::DiskFirst(used) => {
            host.tiers.insert(0, tier("/swapfile", TierKind::File, mib(*used), 200));
        }
        Oddity::Nvme(used, is_on, shrinks) => {
            made_host::on_nvme(host, mib(*used));
            let at = |name: &str| format!("/sys/module/zswap/parameters/{name}");
            host.zswap.enabled = made_host::file(&at("enabled"), *is_on);
            host.zswap.shrinker_enabled = made_host::file(&at("shrinker_enabled"), *shrinks);
            let word = |is: bool| if is { "Y" } else { "N" };
            knob(host, "zswap.enabled", word(*is_on));
            knob(host, "zswap.shrinker_enabled", word(*shrinks));
            knob(host, "zswap.compressor", "lzo");
            knob(host, "zswap.max_pool_percent", "20");
        }
        Oddity::Available(available) => {
            host.memory.available = made_host::line("/proc/meminfo", 3, mib(*available));
        }
        Oddity::Pressure(percent) => {
            stall(&mut host.psi.memory.some, *percent, *percent);
            stall(&mut host.psi.memory.full, percent / 2.0, percent / 2.0);
        }
        Oddity::HugePages(none) => {
            let path = "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none";
            host.thp.khugepaged.max_ptes_none = made_host::file(path, *none);
            knob(host, "thp.khugepaged.max_ptes_none", &none.to_string());
        }
        Oddity::Erase(index) => {
            let erasers = erasers();
            index.get(&erasers).1(host);
        }
    }
}

/// All settings that a plan may set, at the kernel's defaults.
pub(crate) fn with_knobs() -> Interval {
    let mut interval = calm();
    for name in KNOB_NAMES {
        let known = KNOBS.iter().find(|knob| knob.name == name).unwrap().default;
        knob(&mut interval.end, name, known.unwrap_or("67584"));
    }
    knob(&mut interval.end, "zswap.enabled", "N");
    knob(&mut interval.end, "thp.khugepaged.max_ptes_none", "511");
    interval
}

const INITS: &[InitSystem] = &[
    InitSystem::OpenRc,
    InitSystem::Procd,
    InitSystem::RunitCoreServices,
    InitSystem::SysV,
    InitSystem::SysVRegistered,
    InitSystem::BusyboxScripts,
    InitSystem::BusyboxRcs,
    InitSystem::Unknown,
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// For any differences from a calm host the laws hold, and after a plan was applied nothing is
    /// left to do.
    #[test]
    fn plans_of_made_up_hosts_obey_the_laws(
        oddities in prop::collection::vec(oddity(), 0..6),
        has_systemd in any::<bool>(),
        has_generator in any::<bool>(),
        names in prop::collection::vec("[0-9a-z]{1,3}\\.conf", 0..4),
        init in prop::sample::select(INITS),
        is_read in any::<bool>(),
    ) {
        let mut interval = with_knobs();
        oddities.iter().for_each(|oddity| make(&mut interval, oddity));
        let mut tmpfiles_names = names;
        tmpfiles_names.sort();
        let mut installation =
            Installation { has_systemd, has_generator, tmpfiles_names, ..Installation::default() };
        if !has_systemd {
            installation.init = init;
            installation.sysctl_reader = is_read.then(|| "/etc/init.d/sysctl".to_owned());
        }
        let var = &mut installation.swap_folder;
        var.disk.file_system = Reading::found(Name::from("ext4"), pagewise_model::Source::none());
        var.free_bytes = Some(gib(100));
        check_all_goals(&interval, &installation);
    }
}

#[test]
fn a_host_of_which_nothing_is_known_gets_no_step() {
    let plan = plan_for(&Interval::default(), &plain(), Goal::Balanced);
    assert!(plan.steps.is_empty());
    assert!(super::declined(&plan, "any change").contains("size of memory"));
}

#[test]
fn a_container_gets_no_step_and_its_host_is_named() {
    let mut interval = with_knobs();
    knob(&mut interval.end, "vm.extfrag_threshold", "0");
    interval.end.host.container =
        Reading::found(Name::from("docker"), pagewise_model::Source::none());
    let plan = plan_for(&interval, &plain(), Goal::Balanced);
    assert!(plan.steps.is_empty());
    assert!(super::declined(&plan, "any change").contains("(docker)"));
}
