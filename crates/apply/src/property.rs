// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any sequence of loans, stopped at any write: after the next start the initial state is restored,
//! or the journal names the difference.

use std::path::{Path, PathBuf};

use pagewise_model::Bytes;
use pagewise_model::lend::{
    GroupSpec, KnobSetting, LoanId, SwapFile, ZramSpec, ZramWriteback, ZswapSpec,
};
use proptest::prelude::*;

use crate::fake::{DISK, Fake, Fault, MOUNT, STATE, State, ZSWAP};
use crate::journal::fuzzing::open_in;
use crate::journal::{Reading, Record, RecordedChange};
use crate::recover::{Conflicts, recover_all};
use crate::session::Session;
use pagewise_model::undo::{Outcome, Recovered};

/// A step of a random run.
#[derive(Debug, Clone)]
enum Step {
    Zram,
    /// A device with a backing disk, with such a long interval that nothing is written.
    ZramWithDisk,
    SwapFile,
    /// Enables swap on the newest device or file.
    SwapOn,
    Group,
    /// A process with this id joins the newest group.
    Join(u32),
    Knob(&'static str, u32),
    /// Enables zswap with this compressor; the simulated kernel lacks one of those used.
    Zswap(&'static str),
    /// Returns the loan with this index among the loans so far.
    GiveBack(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let knob = prop_oneof![
        Just("vm.swappiness"),
        Just("vm.page-cluster"),
        Just("vm.dirty_ratio"),
        Just("vm.dirty_bytes")
    ];
    prop_oneof![
        2 => Just(Step::Zram),
        1 => Just(Step::ZramWithDisk),
        2 => Just(Step::SwapFile),
        3 => Just(Step::SwapOn),
        2 => Just(Step::Group),
        2 => (100u32..110).prop_map(Step::Join),
        4 => (knob, 0u32..4).prop_map(|(name, value)| Step::Knob(name, value * 8192)),
        1 => prop_oneof![Just("lzo"), Just("lz4"), Just("none")].prop_map(Step::Zswap),
        2 => (0usize..8).prop_map(Step::GiveBack),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    let at = 0usize..60;
    prop_oneof![
        at.clone().prop_map(Fault::Fail),
        at.clone().prop_map(Fault::FailOn),
        at.clone().prop_map(Fault::Stuck),
        at.clone().prop_map(Fault::KillBefore),
        at.prop_map(Fault::KillAfter),
    ]
}

/// A value in the domain of a knob.
fn value(name: &str, seed: u32) -> String {
    match name {
        "vm.dirty_bytes" => (8192 + seed).to_string(),
        "vm.page-cluster" => (seed / 8192).to_string(),
        _ => (seed / 8192 * 10 + 10).to_string(),
    }
}

/// Carries out all steps, even if some fail, and lets the session end.
fn run(fake: &Fake, steps: &[Step]) {
    let mut session = Session::new(Box::new(fake.clone()), STATE);
    session.allow_devices();
    let mut taken: Vec<LoanId> = Vec::new();
    let mut area: Option<PathBuf> = None;
    let mut group: Option<PathBuf> = None;
    for step in steps {
        match step {
            Step::Zram | Step::ZramWithDisk => {
                let writeback =
                    ZramWriteback { device: "/dev/vda".to_owned(), every_seconds: 3600 };
                let writeback = Some(writeback).filter(|_| matches!(step, Step::ZramWithDisk));
                let spec = ZramSpec { writeback, ..ZramSpec::new(Bytes::new(1 << 20)) };
                if let Ok(device) = session.zram(&spec) {
                    taken.push(device.loan);
                    area = Some(device.device);
                }
            }
            Step::SwapFile => {
                if let Ok(SwapFile { loan, path }) =
                    session.swap_file(Path::new(DISK), Bytes::new(4096))
                {
                    taken.push(loan);
                    area = Some(path);
                }
            }
            Step::SwapOn => {
                let on = area.as_ref().map(|area| session.swap_on(area, Some(5)));
                taken.extend(on.and_then(Result::ok));
            }
            Step::Group => {
                let wish = GroupSpec { max: Some(Bytes::new(1 << 20)), ..GroupSpec::default() };
                if let Ok(made) = session.group(&wish) {
                    taken.push(made.loan);
                    group = Some(made.folder);
                }
            }
            Step::Join(pid) => {
                let folder = group.as_ref().map(|folder| folder.display().to_string());
                let mut world = fake.world();
                if !world.is_dead {
                    let group = folder.and_then(|folder| world.state.groups.get_mut(&folder));
                    group.map(|group| group.members.insert(*pid));
                }
            }
            Step::Knob(name, seed) => {
                taken.extend(session.knob(&KnobSetting::new(name, value(name, *seed))));
            }
            Step::Zswap(algorithm) => {
                let spec = ZswapSpec {
                    max_pool_percent: Some(15),
                    shrinker: true,
                    ..ZswapSpec::new(*algorithm)
                };
                taken.extend(session.zswap(&spec).unwrap_or_default());
            }
            Step::GiveBack(which) => {
                if !taken.is_empty() {
                    let _ = session.give_back(taken[which % taken.len()]);
                }
            }
        }
    }
    session.end();
}

fn state(fake: &Fake) -> State {
    fake.world().state.clone()
}

fn recover(fake: &Fake) -> Vec<Recovered> {
    recover_all(&mut fake.clone(), STATE, Conflicts::Keep).expect("a folder that can be read")
}

/// Recovers, with kills during recovery, then once without faults.
fn recover_at_last(fake: &Fake, kills: &[usize]) {
    for kill in kills {
        fake.revive();
        fake.world().faults = vec![Fault::KillAfter(*kill)];
        let _ = recover_all(&mut fake.clone(), STATE, Conflicts::Keep);
    }
    fake.revive();
    recover(fake);
}

fn names_of_open(fake: &Fake) -> String {
    let journals = fake.world().journals.clone();
    journals.values().flat_map(|bytes| open_in(bytes)).collect::<Vec<_>>().join("\n")
}

/// Checks that each difference between the states is named in `names`.
fn assert_named(before: &State, after: &State, names: &str) -> Result<(), TestCaseError> {
    let named = |what: &str| prop_assert_named(names, what);
    for number in after.zrams.keys().filter(|number| !before.zrams.contains_key(number)) {
        // a device that could not be recorded is named without its number
        if !names.contains("a zram device") {
            named(&format!("zram{number}"))?;
        }
    }
    after.swaps.difference(&before.swaps).try_for_each(|area| named(area))?;
    let new = |key: &&String| !before.files.contains_key(*key);
    after.files.keys().filter(new).try_for_each(|path| named(path))?;
    let new = |key: &&String| !before.groups.contains_key(*key);
    after.groups.keys().filter(new).try_for_each(|folder| named(folder))?;
    for (path, value) in &after.knobs {
        let name = path.rsplit('/').next().unwrap_or_default();
        if before.knobs[path] != *value && !name.starts_with("dirty") {
            let area = if path.starts_with(ZSWAP) { "zswap" } else { "vm" };
            named(&format!("{area}.{name}"))?;
        }
    }
    if before.is_loaded != after.is_loaded {
        named("module zram")?;
    }
    if before.hands_down != after.hands_down {
        named(&format!("memory controller below {MOUNT}"))?;
    }
    Ok(())
}

fn prop_assert_named(names: &str, what: &str) -> Result<(), TestCaseError> {
    prop_assert!(names.contains(what), "{what} is not named in:\n{names}");
    Ok(())
}

/// The values that a journal allows to be restored: the `back` of each setting that it names.
fn ways_back(journal: &[u8]) -> Vec<(String, String)> {
    let records = Reading::parse(journal).records.into_iter();
    let back = records.filter_map(|record| match record {
        Record::Announced { what: RecordedChange::Setting(setting), .. } => {
            Some((setting.back.path, setting.back.value))
        }
        _ => None,
    });
    back.collect()
}

/// Recovers a copy of the machine with this journal; returns the machine and the results.
fn recover_with(fake: &Fake, path: &str, journal: Vec<u8>) -> (Fake, Vec<Recovered>) {
    let machine = fake.copy();
    machine.world().journals.insert(path.to_owned(), journal);
    machine.world().written.clear();
    let recovered = recover(&machine);
    (machine, recovered)
}

fn only_ways_back(machine: &Fake, allowed: &[(String, String)]) -> Result<(), TestCaseError> {
    for write in machine.world().written.iter().filter(|(path, _)| path.starts_with("/proc/")) {
        prop_assert!(allowed.contains(write), "{write:?} is not in the journal");
    }
    Ok(())
}

/// A simulated machine on which a run was killed.
#[derive(Debug)]
struct KilledRun {
    fake: Fake,
    /// The state of the machine before the run.
    before: State,
    path: String,
    journal: Vec<u8>,
}

/// Runs the steps until the process is killed after this many writes.
fn kill_after(steps: &[Step], at: usize, unified: bool) -> Option<KilledRun> {
    let fake = Fake::new(unified, true);
    let before = state(&fake);
    fake.world().faults = vec![Fault::KillAfter(at)];
    run(&fake, steps);
    fake.revive();
    let journals = fake.world().journals.clone();
    let (path, journal) = journals.into_iter().next()?;
    Some(KilledRun { fake, before, path, journal })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// A journal with any byte changed: no value is written that its other lines do not name,
    /// nothing of others is touched, the damage is reported, and the journal is kept as it was
    /// found.
    #[test]
    fn a_changed_byte_is_told_and_writes_nothing_else(
        steps in prop::collection::vec(step(), 1..8),
        at in 3usize..60,
        change in 1u8..,
        unified: bool,
    ) {
        let Some(run) = kill_after(&steps, at, unified) else { return Ok(()) };
        let KilledRun { fake, before, path, journal } = run;
        for byte in 0..journal.len() {
            let mut damaged = journal.clone();
            damaged[byte] ^= change;
            let reading = Reading::parse(&damaged);
            // half a line announced nothing: a change in it does not matter, nor does one in the
            // last line end
            if reading == Reading::parse(&journal) || reading.lacks_end {
                continue;
            }
            let allowed = ways_back(&damaged);
            let (machine, told) = recover_with(&fake, &path, damaged.clone());
            only_ways_back(&machine, &allowed)?;
            prop_assert_eq!(told.len(), 1);
            prop_assert!(told[0].damaged_line.is_some(), "byte {}", byte);
            prop_assert_eq!(&machine.world().journals[&path], &damaged);
            assert_theirs_stay(&before, &state(&machine))?;
        }
    }

    /// A journal cut anywhere, as by a disk that lost its end: no value is written that it does not
    /// name, and every loan that it still names is returned or reported.
    #[test]
    fn a_cut_journal_gives_back_all_that_it_still_names(
        steps in prop::collection::vec(step(), 1..8),
        at in 3usize..60,
        unified: bool,
    ) {
        let Some(run) = kill_after(&steps, at, unified) else { return Ok(()) };
        let KilledRun { fake, before, path, journal } = run;
        for length in 0..journal.len() {
            let cut = journal[..length].to_vec();
            let named = Reading::parse(&cut).open_changes().len();
            let (machine, told) = recover_with(&fake, &path, cut.clone());
            only_ways_back(&machine, &ways_back(&cut))?;
            let returns: usize = told.iter().map(|run| run.returns.len()).sum();
            prop_assert_eq!(returns, named);
            let is_settled = told.iter().all(Recovered::is_settled);
            prop_assert_eq!(machine.world().journals.contains_key(&path), !is_settled);
            assert_theirs_stay(&before, &state(&machine))?;
        }
    }
}

/// Checks that what existed before a run exists after it.
fn assert_theirs_stay(before: &State, after: &State) -> Result<(), TestCaseError> {
    for (number, device) in &before.zrams {
        prop_assert_eq!(after.zrams.get(number), Some(device));
    }
    for group in before.groups.keys() {
        prop_assert!(after.groups.contains_key(group), "{} is gone", group);
    }
    prop_assert!(after.is_loaded);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Without faults a session leaves nothing, not even a journal.
    #[test]
    fn all_goes_back(steps in prop::collection::vec(step(), 0..14), unified: bool, is_loaded: bool) {
        let fake = Fake::new(unified, is_loaded);
        let before = state(&fake);
        run(&fake, &steps);
        prop_assert_eq!(state(&fake), before);
        prop_assert!(fake.world().journals.is_empty());
    }

    /// Wherever writes fail or the process is killed, including during recovery, the next start
    /// restores everything; before that, whatever is not restored is named.
    #[test]
    fn all_goes_back_or_is_named(
        steps in prop::collection::vec(step(), 1..14),
        faults in prop::collection::vec(fault(), 1..4),
        kills in prop::collection::vec(0usize..20, 0..3),
        unified: bool,
        is_loaded: bool,
    ) {
        let fake = Fake::new(unified, is_loaded);
        let before = state(&fake);
        fake.world().faults = faults;
        run(&fake, &steps);
        assert_named(&before, &state(&fake), &names_of_open(&fake))?;
        recover_at_last(&fake, &kills);
        prop_assert_eq!(state(&fake), before);
        let journals = fake.world().journals.clone();
        prop_assert!(journals.is_empty(), "{:?}", journals);
    }

    /// After a reboot kernel objects are gone; files on disk are removed.
    #[test]
    fn after_a_boot_nothing_remains(
        steps in prop::collection::vec(step(), 1..14),
        at in 0usize..60,
        unified: bool,
    ) {
        let fake = Fake::new(unified, true);
        let before = state(&fake);
        fake.world().faults = vec![Fault::KillAfter(at)];
        run(&fake, &steps);
        fake.world().boot(&before);
        fake.revive();
        recover(&fake);
        prop_assert_eq!(state(&fake), before);
        prop_assert!(fake.world().journals.is_empty());
    }

    /// Changes by others between the kill and the next start are kept: a new device, whatever its
    /// number, and a knob, which is reported until somebody has asked for it.
    #[test]
    fn what_others_did_stays(
        steps in prop::collection::vec(step(), 1..14),
        at in 0usize..60,
        sets in any::<bool>(),
        adds in any::<bool>(),
        has_size in any::<bool>(),
    ) {
        let fake = Fake::new(false, true);
        let mut expected = state(&fake);
        fake.world().faults = vec![Fault::KillAfter(at)];
        run(&fake, &steps);
        fake.revive();
        let swappiness = "/proc/sys/vm/swappiness".to_owned();
        let mut is_disputed = false;
        if sets {
            let old = fake.world().state.knobs.insert(swappiness.clone(), "77".to_owned());
            is_disputed = old != expected.knobs.insert(swappiness, "77".to_owned());
        }
        if adds {
            let mut world = fake.world();
            world.clock += 60_000;
            let number = world.add_zram().expect("zram is there");
            let device = world.state.zrams.get_mut(&number).expect("just made");
            device.disksize = if has_size { 4096 } else { 0 };
            let device = device.clone();
            drop(world);
            expected.zrams.insert(number, device);
        }
        let recovered = recover(&fake);
        let conflicts = |recovered: &[Recovered]| {
            let returns = recovered.iter().flat_map(|it| &it.returns);
            returns.filter(|it| matches!(it.outcome, Outcome::Conflict { .. })).count()
        };
        prop_assert!(!is_disputed || conflicts(&recovered) > 0);
        prop_assert_eq!(state(&fake), expected.clone());
        // the conflict is reported once more, then closed, then forgotten
        let again = recover_all(&mut fake.clone(), STATE, Conflicts::Close).expect("readable");
        prop_assert_eq!(conflicts(&again), conflicts(&recovered));
        prop_assert!(recover(&fake).is_empty());
        prop_assert_eq!(state(&fake), expected);
        prop_assert!(fake.world().journals.is_empty());
    }
}
