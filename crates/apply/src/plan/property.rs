// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any plan on any machine, stopped at every single write: the machine is in the plan's target
//! state, in the initial state, or in a state that the journal names; then `undo` restores the
//! initial state. The same after a power failure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pagewise_model::plan::{
    Applied, Change, Goal, Plan, Step, StepUndo, SwapFilePlan, SwapHeld, ZramSwap,
};
use pagewise_model::{Bytes, Compressor};
use proptest::prelude::*;

use crate::fake::{Fake, Fault, KNOBS, STATE, State, fake_machine, new_file};
use crate::host_ops::{Config, HostOps, folder_of};
use crate::journal::Reading;
use crate::plan::check::{CheckedStep, check};
use crate::plan::run::{Failed, Options, carry_out};
use crate::plan::undo::{UndoTarget, read_journals, undo};
use pagewise_model::undo::Recovered;

pub(super) const SYSCTL: &str = "/etc/sysctl.d/90-pagewise.conf";
const DROP_IN: &str = "/etc/systemd/system/system.slice.d/50-pagewise.conf";
const MASK: &str = "/etc/systemd/system/zramswap.service";
const WANTED: &str = "/etc/systemd/system/swap.target.wants/pagewise-zram0.service";
pub(super) const SWAP_FILE: &str = "/var/pagewise-swap-0";
const THEIRS: &str = "/dev/zram0";

/// A step of a random plan, without the current value of its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    Knob(&'static str, u32),
    /// Writes a file: its path, and the index of its contents.
    File(&'static str, u32),
    Mask,
    Wanted,
    Units,
    /// Creates a zram device; `Some` is the number that it must get.
    AddZram(Option<u32>),
    /// Creates a swap file; `None` if the kernel chooses its priority.
    AddSwapFile(Option<i16>),
    /// Gives the machine's own swap another priority.
    Raise(i16),
    Drain,
}

fn wish() -> impl Strategy<Value = Wish> {
    let knob = prop_oneof![Just("swappiness"), Just("page-cluster"), Just("dirty_bytes")];
    prop_oneof![
        4 => (knob, 1u32..4).prop_map(|(name, value)| Wish::Knob(name, value)),
        3 => (1u32..3).prop_map(|seed| Wish::File(SYSCTL, seed)),
        2 => (1u32..3).prop_map(|seed| Wish::File(DROP_IN, seed)),
        1 => Just(Wish::Mask),
        1 => Just(Wish::Wanted),
        1 => Just(Wish::Units),
        2 => prop::option::of(Just(1u32)).prop_map(Wish::AddZram),
        2 => prop::option::of(Just(7i16)).prop_map(Wish::AddSwapFile),
        2 => Just(40i16).prop_map(Wish::Raise),
        2 => Just(Wish::Drain),
    ]
}

/// A random machine: its own zram device may be used as swap, and it may already have
/// configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    pub(super) swaps: bool,
    pub(super) has_file: bool,
    pub(super) has_link: bool,
    pub(super) has_empty_device: bool,
}

fn machine() -> impl Strategy<Value = Machine> {
    any::<(bool, bool, bool, bool)>().prop_map(|(swaps, has_file, has_link, has_empty_device)| {
        Machine { swaps, has_file, has_link, has_empty_device }
    })
}

impl Machine {
    pub(super) fn make(self) -> Fake {
        let fake = Fake::new(true, true);
        let mut world = fake.world();
        for folder in ["/etc/sysctl.d", "/etc/systemd", "/etc/systemd/system"] {
            world.put_config(folder, Config::Folder);
        }
        if self.has_file {
            let mut file = new_file("vm.swappiness = 30\n");
            (file.mode, file.label) = (0o640, Some("system_u:object_r:etc_t:s0".to_owned()));
            world.put_config(SYSCTL, Config::File(file));
        }
        if self.has_link {
            world.put_config(MASK, Config::Link("/usr/lib/systemd/system/x.service".to_owned()));
        }
        if self.has_empty_device {
            world.add_zram().expect("zram is there");
        }
        if self.swaps {
            world.state.swaps.insert(THEIRS.to_owned());
            world.state.priorities.insert(THEIRS.to_owned(), 5);
        }
        drop(world);
        fake
    }
}

pub(super) fn text_of(seed: u32) -> String {
    format!("vm.swappiness = {}\n", 60 + seed)
}

/// The plan with these steps, as it would be made for this machine.
pub(super) fn plan_for(fake: &Fake, wishes: &[Wish]) -> Plan {
    let state = fake.world().state.clone();
    let mut steps: Vec<Step> = Vec::new();
    for wish in wishes {
        let change = change(&state, *wish);
        let step = step(steps.len(), change);
        steps.push(step);
    }
    let id = "00112233aabbccdd".to_owned();
    Plan { id, goal: Goal::Balanced, machine: fake_machine(), steps, declined: Vec::new() }
}

pub(super) fn step(at: usize, change: Change) -> Step {
    Step {
        id: format!("step-{at}"),
        change,
        reason: "a test".to_owned(),
        finding: None,
        expected: None,
        risk: "none".to_owned(),
        cost: None,
        coupled: Vec::new(),
        needs: Vec::new(),
        undo: StepUndo::Restore { what: "all of it".to_owned() },
        survives_reboot: false,
    }
}

fn change(state: &State, wish: Wish) -> Change {
    let text = |path: &str| match state.config.get(path) {
        Some(Config::File(file)) => Some(file.text.clone()),
        _ => None,
    };
    let link = |path: &str| match state.config.get(path) {
        Some(Config::Link(to)) => Some(to.clone()),
        _ => None,
    };
    match wish {
        Wish::Knob(name, value) => {
            let value = if name == "dirty_bytes" { value * 8192 } else { value };
            let from = state.knobs[&format!("/proc/sys/vm/{name}")].clone();
            Change::SetKnob { target: format!("vm.{name}"), from, to: value.to_string() }
        }
        Wish::File(path, seed) => {
            Change::WriteFile { target: path.to_owned(), from: text(path), to: text_of(seed) }
        }
        Wish::Mask => {
            let (target, to) = (MASK.to_owned(), "/dev/null".to_owned());
            Change::MakeLink { target, from: link(MASK), to }
        }
        Wish::Wanted => {
            let (target, to) = (WANTED.to_owned(), "../pagewise-zram0.service".to_owned());
            Change::MakeLink { target, from: None, to }
        }
        Wish::Units => Change::ReloadUnits { target: "systemd".to_owned() },
        Wish::AddZram(number) => Change::AddZramSwap {
            target: number.map(|number| format!("/dev/zram{number}")),
            to: ZramSwap {
                compressor: Compressor::new("lz4"),
                disksize_bytes: Bytes::new(2 << 20),
                mem_limit_bytes: None,
                priority: 100,
            },
        },
        Wish::AddSwapFile(priority) => Change::AddSwapFile {
            target: SWAP_FILE.to_owned(),
            to: SwapFilePlan { size_bytes: Bytes::new(3 << 20), priority },
        },
        Wish::Raise(to) => Change::SetSwapPriority { target: THEIRS.to_owned(), from: 5, to },
        Wish::Drain => Change::DrainSwap {
            target: THEIRS.to_owned(),
            from: SwapHeld {
                size_bytes: Bytes::new(1 << 20),
                used_bytes: Bytes::new(4096),
                priority: 5,
            },
        },
    }
}

/// The expected state after these changes: a second implementation, without journal and order of
/// writes.
fn target(before: &State, wishes: &[Wish]) -> State {
    let mut state = before.clone();
    for wish in wishes {
        match change(before, *wish) {
            Change::SetKnob { target, to, .. } => {
                let path = format!("/proc/sys/{}", target.replace("vm.", "vm/"));
                if target == "vm.dirty_bytes" {
                    state.knobs.insert("/proc/sys/vm/dirty_ratio".to_owned(), "0".to_owned());
                }
                state.knobs.insert(path, to);
            }
            Change::WriteFile { target, to, .. } => {
                let file = match state.config.get(&target) {
                    Some(Config::File(old)) => crate::journal::FileText { text: to, ..old.clone() },
                    _ => new_file(&to),
                };
                state.config.insert(folder_of(&target).to_owned(), Config::Folder);
                state.config.insert(target, Config::File(file));
            }
            Change::MakeLink { target, to, .. } => {
                state.config.insert(folder_of(&target).to_owned(), Config::Folder);
                state.config.insert(target, Config::Link(to));
            }
            Change::ReloadUnits { .. } => {}
            Change::AddZramSwap { to, .. } => {
                let Wish::AddZram(number) = *wish else { continue };
                let new = u32::try_from(state.zrams.len()).expect("few");
                let number = number.unwrap_or(new);
                let area = format!("/dev/zram{number}");
                let diskseq =
                    state.zrams.get(&number).map_or(5 + u64::from(number), |it| it.diskseq);
                let disksize = to.disksize_bytes.get();
                let made =
                    crate::fake::FakeZram { diskseq, disksize, algorithm: "lz4", backing: None };
                state.zrams.insert(number, made);
                state.swaps.insert(area.clone());
                state.priorities.insert(area, i32::from(to.priority));
            }
            Change::AddSwapFile { target, to } => {
                state.files.insert(target.clone(), to.size_bytes.get());
                state.swaps.insert(target.clone());
                state.priorities.insert(target, to.priority.map_or(-2, i32::from));
            }
            Change::SetSwapPriority { target, to, .. } => {
                state.priorities.insert(target, i32::from(to));
            }
            Change::DrainSwap { target, .. } => {
                if state.swaps.remove(&target) {
                    state.priorities.remove(&target);
                    let device = state.zrams.get_mut(&0).expect("it is there");
                    (device.disksize, device.algorithm) = (0, "lzo");
                }
            }
        }
    }
    state
}

pub(super) fn options() -> Options {
    Options { settle: Duration::from_secs(1), trial: None, stop: Arc::new(AtomicBool::new(false)) }
}

fn check_plan(fake: &Fake, plan: &Plan) -> Option<Vec<CheckedStep>> {
    let applied = read_journals(fake, STATE).expect("a folder that can be read");
    let applied: Vec<Reading> = applied.into_iter().map(|it| it.reading).collect();
    check(fake, plan, false, &applied).ok()
}

pub(super) fn apply(fake: &Fake, plan: &Plan) -> Option<Result<Applied, Box<Failed>>> {
    let steps = check_plan(fake, plan)?;
    let host = Box::new(fake.clone());
    Some(carry_out(host, STATE, plan, &steps, &options(), &mut |_| {}))
}

pub(super) fn undo_all(fake: &Fake) -> Vec<Recovered> {
    undo(&mut fake.clone(), STATE, UndoTarget::All).expect("a folder that can be read")
}

fn state(fake: &Fake) -> State {
    fake.world().state.clone()
}

/// All changes that the journals name as in force, in words.
fn names_in_force(fake: &Fake) -> String {
    let journals = read_journals(fake, STATE).expect("a folder that can be read");
    let open = journals.iter().flat_map(|it| it.reading.open_changes());
    open.map(|it| it.describe()).collect::<Vec<_>>().join("\n")
}

/// Every difference from the initial state is named by a journal.
fn assert_named(before: &State, now: &State, names: &str) -> Result<(), TestCaseError> {
    let is_named = |what: &str| {
        prop_assert!(names.contains(what), "{} is not named in:\n{}", what, names);
        Ok(())
    };
    for (path, entry) in &now.config {
        if before.config.get(path) != Some(entry) {
            // a temporary file belongs to the file that it is going to replace
            let path = path.replace("/.", "/").replace(".pagewise-new", "");
            is_named(&path)?;
        }
    }
    for path in before.config.keys().filter(|path| !now.config.contains_key(*path)) {
        is_named(path)?;
    }
    for (path, value) in &now.knobs {
        let name = path.rsplit('/').next().unwrap_or_default();
        if before.knobs[path] != *value && name != "dirty_ratio" {
            is_named(&format!("vm.{name}"))?;
        }
    }
    for area in now.swaps.symmetric_difference(&before.swaps) {
        is_named(area)?;
    }
    for (number, device) in &now.zrams {
        let is_new = before.zrams.get(number) != Some(device);
        if is_new && !names.contains("a zram device") && !names.contains("swap off") {
            is_named(&format!("zram{number}"))?;
        }
    }
    Ok(())
}

fn deduplicate(mut wishes: Vec<Wish>) -> Vec<Wish> {
    let mut kinds = BTreeMap::new();
    wishes.retain(|wish| {
        let kind = match wish {
            Wish::Knob(name, _) => (*name).to_owned(),
            Wish::File(path, _) => (*path).to_owned(),
            Wish::AddZram(_) => "add".to_owned(),
            other => format!("{other:?}"),
        };
        kinds.insert(kind, ()).is_none()
    });
    wishes
}

/// Generates a machine and a plan that fits it.
fn case() -> impl Strategy<Value = (Machine, Vec<Wish>)> {
    let wishes = prop::collection::vec(wish(), 1..7).prop_map(deduplicate);
    (machine(), wishes).prop_filter("the plan fits", |(machine, wishes)| {
        let fake = machine.make();
        check_plan(&fake, &plan_for(&fake, wishes)).is_some()
    })
}

/// Number of writes to the machine that applying the plan takes.
fn writes(machine: Machine, wishes: &[Wish]) -> usize {
    let fake = machine.make();
    let plan = plan_for(&fake, wishes);
    apply(&fake, &plan).expect("it fits").expect("nothing fails");
    fake.world().deeds
}

const KINDS: [fn(usize) -> Fault; 5] =
    [Fault::Fail, Fault::FailOn, Fault::Stuck, Fault::KillBefore, Fault::KillAfter];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Without faults the machine reaches the target; applying again does nothing; undo restores
    /// the initial state and leaves no journal.
    #[test]
    fn a_plan_reaches_its_target_once_and_goes_back((machine, wishes) in case()) {
        let fake = machine.make();
        let before = state(&fake);
        let plan = plan_for(&fake, &wishes);
        let expected = target(&before, &wishes);
        let applied = apply(&fake, &plan).expect("it fits").expect("nothing fails");
        prop_assert_eq!(&state(&fake), &expected);
        prop_assert_eq!(applied.journal.is_some(), applied.steps.iter().any(|it| it.changed));
        let deeds = fake.world().deeds;
        let again = apply(&fake, &plan).expect("it fits").expect("nothing fails");
        prop_assert_eq!(again.journal, None, "applied twice");
        prop_assert_eq!(fake.world().deeds, deeds, "nothing is written the second time");
        undo_all(&fake);
        prop_assert_eq!(state(&fake), before);
        prop_assert!(fake.world().journals.is_empty());
        let world = fake.world();
        prop_assert!(world.units == world.state.config || !wishes.contains(&Wish::Units));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// At every single write: it fails, it and all later ones fail, or the process is killed. Then
    /// the machine is in the target state or the initial state, or the journal names the
    /// difference; and undo restores the initial state.
    #[test]
    fn a_plan_that_is_stopped_anywhere_goes_back((machine, wishes) in case()) {
        let drains = wishes.contains(&Wish::Drain) && machine.swaps;
        for at in 0..writes(machine, &wishes) {
            for kind in KINDS {
                let fake = machine.make();
                let before = state(&fake);
                let plan = plan_for(&fake, &wishes);
                fake.world().faults = vec![kind(at)];
                let ended = apply(&fake, &plan).expect("it fits");
                let now = state(&fake);
                if matches!(kind(at), Fault::Fail(_)) && !drains && ended.is_err() {
                    prop_assert_eq!(&now, &before, "{:?}", kind(at));
                }
                if ended.is_ok() {
                    prop_assert_eq!(&now, &target(&before, &wishes), "{:?}", kind(at));
                }
                fake.revive();
                assert_named(&before, &now, &names_in_force(&fake))?;
                let told = undo_all(&fake);
                prop_assert_eq!(state(&fake), before, "{:?} {:?}", kind(at), told);
                prop_assert!(fake.world().journals.is_empty(), "{:?} {:?}", kind(at), told);
            }
        }
    }

    /// The undo is stopped at every single write, by a failure or a kill; the next one restores the
    /// initial state.
    #[test]
    fn an_undo_that_is_stopped_anywhere_is_finished_by_the_next((machine, wishes) in case()) {
        let fake = machine.make();
        let before = state(&fake);
        apply(&fake, &plan_for(&fake, &wishes)).expect("it fits").expect("nothing fails");
        fake.revive();
        let whole = fake.copy();
        undo_all(&whole);
        let writes = whole.world().deeds;
        for at in 0..writes {
            for kind in KINDS {
                let fake = fake.copy();
                fake.world().faults = vec![kind(at)];
                let _ = undo(&mut fake.clone(), STATE, UndoTarget::All);
                fake.revive();
                assert_named(&before, &state(&fake), &names_in_force(&fake))?;
                undo_all(&fake);
                prop_assert_eq!(state(&fake), before.clone(), "{:?}", kind(at));
                prop_assert!(fake.world().journals.is_empty());
            }
        }
    }

    /// The power fails after any write, including those of the undo: each file is old or new, and
    /// after the reboot undo restores the initial state, whichever of the unsynced names are on
    /// disk.
    #[test]
    fn a_power_loss_anywhere_leaves_old_or_new_and_undo_ends_at_the_start(
        (machine, wishes) in case(),
        luck in any::<usize>(),
        undoes in any::<bool>(),
    ) {
        let fresh = machine.make();
        let before = state(&fresh);
        let plan = plan_for(&fresh, &wishes);
        let expected = target(&before, &wishes);
        if undoes {
            apply(&fresh, &plan).expect("it fits").expect("nothing fails");
            fresh.revive();
        }
        for at in 0..120 {
            let fake = fresh.copy();
            fake.world().faults = vec![Fault::KillAfter(at)];
            if undoes {
                let _ = undo(&mut fake.clone(), STATE, UndoTarget::All);
            } else {
                let _ = apply(&fake, &plan).expect("it fits");
            }
            let is_over = !fake.world().is_dead;
            fake.revive();
            // after a reboot the machine has none of the swap areas and devices it had before
            let mut at_boot = before.clone();
            at_boot.swaps.clear();
            at_boot.priorities.clear();
            fake.world().lose_power(luck, &at_boot);
            for (path, entry) in &state(&fake).config {
                let is_staged = path.contains("/.");
                let is_known = [&before, &expected].iter().any(|it| it.config.get(path) == Some(entry));
                prop_assert!(is_staged || is_known, "{} is {:?}", path, entry);
            }
            assert_named(&before, &State { knobs: before.knobs.clone(), swaps: before.swaps.clone(), ..state(&fake) }, &names_in_force(&fake))?;
            undo_all(&fake);
            prop_assert_eq!(&state(&fake).config, &before.config, "after write {}", at);
            prop_assert!(fake.world().journals.is_empty());
            for (name, _) in KNOBS {
                let path = format!("/proc/sys/vm/{name}");
                let boot = if before.config.contains_key(SYSCTL) { "30" } else { "60" };
                let boot = if name == "swappiness" { boot } else { &before.knobs[&path] };
                let is_expected = fake.read(&path).expect("it is there") == boot;
                prop_assert!(is_expected || name == "swappiness", "{} at {}", name, at);
            }
            if is_over {
                break;
            }
        }
    }
}
