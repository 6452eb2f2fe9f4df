// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans that are refused, conflicts, plans on top of each other, and rebooted machines.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pagewise_model::plan::{Change, Complaint, DifferenceKind, Plan, StepUndo, SwapFilePlan};
use pagewise_model::{Advice, Bytes, Configuration, PersistentSetting, Reading as Found, Source};

use super::check::check;
use super::property::{
    Machine, SWAP_FILE, SYSCTL, Wish, apply, options, plan_for, step, text_of, undo_all,
};
use super::run::{Failed, Options, carry_out};
use super::trial::{
    confirm, refuse_if_on_trial, undo_before_removal, undo_overdue, undo_unconfirmed,
};
use super::undo::{UndoTarget, plans_in_force, read_journals, refuse_if_interrupted, undo};
use super::verify::{VerifyTarget, doubtful_journals, verify_journals};
use crate::error::Error;
use crate::fake::{Fake, Fault, STATE, new_file};
use crate::host_ops::{Config, HostOps};
use crate::recover::{Conflicts, recover_all};
use pagewise_model::undo::{Outcome, Recovered};

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";

const PLAIN: Machine =
    Machine { swaps: false, has_file: false, has_link: false, has_empty_device: false };

fn complaints(fake: &Fake, plan: &Plan) -> Vec<Complaint> {
    check(fake, plan, false, &[]).err().unwrap_or_default()
}

#[track_caller]
fn assert_complaint(fake: &Fake, plan: &Plan, why: &str) {
    let found = complaints(fake, plan);
    assert!(found.iter().any(|it| it.why.contains(why)), "expected {why:?} in {found:#?}");
    assert_eq!(fake.world().deeds, 0, "nothing is written by a check");
}

fn plan_of_change(change: Change) -> Plan {
    Plan { steps: vec![step(0, change)], ..plan_for(&PLAIN.make(), &[]) }
}

fn plan_of_knob(target: &str, from: &str, to: &str) -> Plan {
    let (target, from, to) = (target.to_owned(), from.to_owned(), to.to_owned());
    plan_of_change(Change::SetKnob { target, from, to })
}

fn plan_of_file(target: &str, from: Option<&str>) -> Plan {
    let from = from.map(str::to_owned);
    plan_of_change(Change::WriteFile { target: target.to_owned(), from, to: "x\n".to_owned() })
}

#[test]
fn each_bad_plan_is_refused_with_its_reason() {
    let fake = PLAIN.make();
    let good = plan_for(&fake, &[Wish::Knob("swappiness", 1)]);
    assert_eq!(complaints(&fake, &good), []);
    let mut other = good.clone();
    other.machine.machine_id_hash = None;
    assert_complaint(&fake, &other, "made for another machine");
    let mut smaller = good.clone();
    smaller.machine.memory_total_bytes = Some(pagewise_model::Bytes::new(1 << 29));
    assert_complaint(&fake, &smaller, "made for 512.0 MiB of memory");
    let id = Plan { id: "../../etc".to_owned(), ..good.clone() };
    assert_complaint(&fake, &id, "16 hexadecimal digits");
    let mut needs = good.clone();
    needs.steps[0].needs = vec!["gone".to_owned()];
    assert_complaint(&fake, &needs, "it needs the step gone");
    let mut never = good.clone();
    never.steps[0].undo = StepUndo::Never { because: "it is a test".to_owned() };
    assert_complaint(&fake, &never, "it cannot be undone: it is a test");
    assert!(check(&fake, &never, true, &[]).is_ok(), "--yes-irreversible");
    let mut twice = good.clone();
    twice.steps.push(good.steps[0].clone());
    assert_complaint(&fake, &twice, "an earlier step of the plan changes it");
    for (target, from, to, why) in [
        ("vm.swapiness", "60", "10", "no knob of that name"),
        ("vm.swappiness", "60", "201", "expected 0 to 200"),
        ("vm.swappiness", "30", "10", "the plan expects 30, found 60"),
        ("vm.drop_caches", "0", "1", "cannot be borrowed"),
        ("zram.disksize[0]", "1048576", "4096", "cannot be borrowed"),
    ] {
        assert_complaint(&fake, &plan_of_knob(target, from, to), why);
    }
    for path in ["/etc/passwd", "/etc/sysctl.d/../passwd.conf", "/proc/sys/vm/swappiness"] {
        assert!(!complaints(&fake, &plan_of_file(path, None)).is_empty(), "{path}");
    }
    assert_complaint(
        &fake,
        &plan_of_file(SYSCTL, Some("was\n")),
        "expects the file as it was then, found nothing",
    );
    fake.world().put_config(SYSCTL, Config::Link("/dev/null".to_owned()));
    assert_complaint(&fake, &plan_of_file(SYSCTL, None), "found a link to /dev/null");
}

#[test]
fn all_complaints_come_at_once() {
    let mut plan = plan_of_knob("vm.swapiness", "60", "10");
    plan.steps.push(step(1, Change::ReloadUnits { target: "runit".to_owned() }));
    plan.machine.machine_id_hash = None;
    assert_eq!(complaints(&PLAIN.make(), &plan).len(), 3);
}

#[test]
fn swap_that_does_not_fit_is_refused_before_the_first_write() {
    let machine = Machine { swaps: true, ..PLAIN };
    let fake = machine.make();
    let plan = plan_for(&fake, &[Wish::Knob("swappiness", 1), Wish::Drain]);
    fake.world().available = 4096;
    assert_complaint(&fake, &plan, "of memory are available");
    fake.world().available = 1 << 30;
    fake.world().is_strict = true;
    assert_complaint(&fake, &plan, "vm.overcommit_memory is 2");
}

#[test]
fn what_somebody_else_has_changed_since_stays_and_so_does_the_journal() {
    let fake = PLAIN.make();
    let wishes = [Wish::Knob("swappiness", 1), Wish::File(SYSCTL, 1)];
    apply(&fake, &plan_for(&fake, &wishes)).unwrap().unwrap();
    let theirs = Config::File(new_file("vm.swappiness = 7\n"));
    fake.world().state.knobs.insert(SWAPPINESS.to_owned(), "7".to_owned());
    fake.world().put_config(SYSCTL, theirs.clone());
    for _ in 0..2 {
        let told = undo_all(&fake);
        let outcomes: Vec<&Outcome> = told[0].returns.iter().map(|it| &it.outcome).collect();
        assert!(
            matches!(outcomes[..], [Outcome::Conflict { .. }, Outcome::Conflict { .. }]),
            "{told:?}"
        );
        assert_eq!(fake.world().state.knobs[SWAPPINESS], "7");
        assert_eq!(fake.config(SYSCTL).unwrap(), theirs);
        assert_eq!(fake.world().journals.len(), 1);
    }
}

#[test]
fn a_plan_below_a_later_one_waits_for_that() {
    let fake = PLAIN.make();
    let first = plan_for(&fake, &[Wish::File(SYSCTL, 1)]);
    apply(&fake, &first).unwrap().unwrap();
    let mut second = plan_for(&fake, &[Wish::File(SYSCTL, 2)]);
    second.id = "ffffffffffffffff".to_owned();
    apply(&fake, &second).unwrap().unwrap();
    let undo = |id: &str| undo(&mut fake.clone(), STATE, UndoTarget::One(id));
    let refused = undo("1").unwrap_err();
    assert!(matches!(&refused, Error::Under { id, target, .. } if id == "2" && target == SYSCTL));
    assert!(matches!(undo("9"), Err(Error::NoJournal { .. })));
    undo("ffffffffffffffff").unwrap();
    assert_eq!(fake.config(SYSCTL).unwrap(), Config::File(new_file(&text_of(1))));
    undo("1").unwrap();
    assert_eq!(fake.config(SYSCTL).unwrap(), Config::Missing);
}

/// After a reboot the running value may be that of the file or the kernel's default: neither is a
/// conflict.
#[test]
fn after_a_boot_the_running_value_and_the_file_are_undone_apart() {
    let wishes = [Wish::Knob("swappiness", 61), Wish::File(SYSCTL, 1)];
    for with_file in [true, false] {
        let fake = PLAIN.make();
        let at_boot = fake.world().state.clone();
        apply(&fake, &plan_for(&fake, &wishes[..1 + usize::from(with_file)])).unwrap().unwrap();
        fake.world().boot(&at_boot);
        let running = if with_file { "61" } else { "60" };
        assert_eq!(fake.world().state.knobs[SWAPPINESS], running);
        let told = undo_all(&fake);
        assert!(told.iter().all(Recovered::is_settled), "{told:?}");
        assert_eq!(fake.world().state.knobs[SWAPPINESS], "60");
        assert_eq!(fake.config(SYSCTL).unwrap(), Config::Missing);
    }
}

/// systemd has already loaded a unit of the plan, and starts it as soon as it notices that the
/// plan's own unit, which is removed first, is gone.
#[test]
fn at_a_later_boot_units_are_stopped_before_systemd_reads_again() {
    const UNIT: &str = "/etc/systemd/system/pagewise-zram.service";
    let fake = PLAIN.make();
    fake.world().put_config("/etc/systemd/system", Config::Folder);
    let at_boot = fake.world().state.clone();
    apply(&fake, &plan_for(&fake, &[Wish::File(UNIT, 1), Wish::Units])).unwrap().unwrap();
    fake.world().boot(&at_boot);
    fake.world().calls_of_systemd.clear();
    let told = undo_all(&fake);
    assert!(told.len() == 1 && told[0].is_settled() && told[0].returns.len() == 2, "{told:?}");
    assert_eq!(fake.config(UNIT).unwrap(), Config::Missing);
    assert_eq!(fake.world().calls_of_systemd, ["stop pagewise-zram.service", "daemon-reload"]);
    assert!(fake.world().journals.is_empty());
}

/// At a later boot the unit of the plan has enabled the file: a file in use cannot be removed.
#[test]
fn a_swap_file_is_switched_off_and_removed_after_a_boot_too() {
    for is_on in [true, false] {
        let fake = PLAIN.make();
        let at_boot = fake.world().state.clone();
        apply(&fake, &plan_for(&fake, &[Wish::AddSwapFile(None)])).unwrap().unwrap();
        fake.world().boot(&at_boot);
        assert_eq!(fake.world().state.files.keys().collect::<Vec<_>>(), [SWAP_FILE]);
        if is_on {
            fake.world().state.swaps.insert(SWAP_FILE.to_owned());
            fake.world().state.priorities.insert(SWAP_FILE.to_owned(), -2);
        }
        let verified = verify_journals(
            &fake,
            &read_journals(&fake, STATE).unwrap(),
            VerifyTarget::All,
            &Configuration::default(),
        );
        assert_eq!(verified.unwrap()[0].steps[0].differences.is_empty(), is_on);
        let told = undo_all(&fake);
        assert!(told.iter().all(Recovered::is_settled), "{told:?}");
        assert!(fake.world().state.files.is_empty() && fake.world().state.swaps.is_empty());
    }
}

#[test]
fn a_swap_file_goes_where_no_other_file_is() {
    let fake = PLAIN.make();
    let of = |target: &str, mib: u64, priority| {
        let to = SwapFilePlan { size_bytes: Bytes::new(mib << 20), priority };
        plan_of_change(Change::AddSwapFile { target: target.to_owned(), to })
    };
    assert_complaint(&fake, &of("/etc/cron.d/pagewise-swap-0", 2, None), "is called /var/pagewise");
    assert_complaint(&fake, &of("/var/swapfile", 2, None), "is called /var/pagewise");
    assert_complaint(&fake, &of(SWAP_FILE, 0, None), "a size of at least 1 MiB");
    assert_complaint(&fake, &of(SWAP_FILE, 2, Some(-1)), "a priority of 0 to 32767");
    assert_complaint(&fake, &of(SWAP_FILE, 1 << 20, None), "1.0 GiB");
    fake.world().state.files.insert(SWAP_FILE.to_owned(), 4096);
    assert_complaint(&fake, &of(SWAP_FILE, 2, None), "which is not this swap");
}

#[test]
fn no_run_undoes_a_plan_by_itself_and_an_interrupted_one_is_told() {
    let fake = PLAIN.make();
    let plan = plan_for(&fake, &[Wish::Knob("swappiness", 1), Wish::Knob("page-cluster", 1)]);
    fake.world().faults = vec![Fault::KillAfter(4)];
    apply(&fake, &plan).unwrap().unwrap_err();
    fake.revive();
    recover_all(&mut fake.clone(), STATE, Conflicts::Close).unwrap();
    assert_eq!(fake.world().state.knobs[SWAPPINESS], "1");
    let left = read_journals(&fake, STATE).unwrap();
    assert!(matches!(refuse_if_interrupted(&left), Err(Error::Interrupted { .. })));
    undo(&mut fake.clone(), STATE, UndoTarget::Interrupted).unwrap();
    assert_eq!(fake.world().state.knobs[SWAPPINESS], "60");
    apply(&fake, &plan).unwrap().unwrap();
    undo(&mut fake.clone(), STATE, UndoTarget::Interrupted).unwrap();
    assert_eq!(fake.world().state.knobs[SWAPPINESS], "1", "it was applied whole");
}

#[test]
fn ctrl_c_undoes_and_a_killed_program_too() {
    for (is_stopped, message) in [
        (true, "stopped by a signal (Ctrl-C or SIGTERM)"),
        (false, "the kernel killed 2 processes"),
    ] {
        let fake = PLAIN.make();
        let plan = plan_for(&fake, &[Wish::Knob("swappiness", 1), Wish::Knob("page-cluster", 1)]);
        let todo = check(&fake, &plan, false, &[]).unwrap();
        let options = options();
        let mut steps = 0;
        let ended = carry_out(Box::new(fake.clone()), STATE, &plan, &todo, &options, &mut |_| {
            steps += 1;
            if steps == 2 && is_stopped {
                options.stop.store(true, Ordering::Relaxed);
            } else if steps == 2 {
                fake.world().oom_kills = 2;
            }
        });
        let failed = ended.unwrap_err();
        assert!(failed.source.to_string().contains(message), "{failed:?}");
        assert_eq!(failed.returns.len(), 2);
        assert_eq!(fake.world().state.knobs[SWAPPINESS], "60");
        assert!(fake.world().journals.is_empty());
    }
}

/// A plan that adds swap, disables the old one, and then fails at its last step.
struct FailedAfterDrain {
    fake: Fake,
    before: crate::fake::State,
    failed: Box<Failed>,
}

fn fail_after_drain(fail: impl Fn(&Fake, &Options)) -> FailedAfterDrain {
    let machine = Machine { swaps: true, ..PLAIN };
    let fake = machine.make();
    let before = fake.world().state.clone();
    let wishes = [
        Wish::AddZram(None),
        Wish::Drain,
        Wish::Knob("swappiness", 1),
        Wish::Knob("page-cluster", 1),
    ];
    let plan = plan_for(&fake, &wishes);
    let todo = check(&fake, &plan, false, &[]).unwrap();
    let options = options();
    let mut report = |event: super::Progress<'_>| {
        if matches!(event, super::Progress::Step(4, ..)) {
            fail(&fake, &options);
        }
    };
    let ended = carry_out(Box::new(fake.clone()), STATE, &plan, &todo, &options, &mut report);
    let failed = ended.unwrap_err();
    assert_eq!(fake.world().state.knobs[SWAPPINESS], "60");
    FailedAfterDrain { fake, before, failed }
}

fn swap_paths(fake: &Fake) -> Vec<String> {
    fake.swaps().into_iter().map(|area| area.path).collect()
}

/// The pages of the disabled area are in the new swap now, so the changes before it are kept.
#[test]
fn after_swap_was_switched_off_what_was_done_before_stays() {
    let FailedAfterDrain { fake, before, failed } = fail_after_drain(|_, options| {
        options.stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(failed.stay, ["step-0", "step-1"]);
    assert_eq!(failed.journal.as_deref(), Some("1"));
    assert_eq!(swap_paths(&fake), ["/dev/zram1"]);
    undo(&mut fake.clone(), STATE, UndoTarget::Interrupted).unwrap();
    assert_eq!(fake.world().state, before);
}

/// If programs are killed, they may lack the swap that was disabled: it is enabled again.
#[test]
fn if_programs_are_killed_swap_that_was_switched_off_is_on_again() {
    let FailedAfterDrain { fake, before, failed } =
        fail_after_drain(|fake, _| fake.world().oom_kills = 1);
    assert_eq!(failed.stay, ["step-0"]);
    assert_eq!(failed.journal.as_deref(), Some("1"));
    assert_eq!(swap_paths(&fake), ["/dev/zram0", "/dev/zram1"]);
    let state = failed.state().unwrap();
    assert!(state.contains("these steps stay, because swap was switched off: step-0"), "{state}");
    undo(&mut fake.clone(), STATE, UndoTarget::Interrupted).unwrap();
    assert_eq!(fake.world().state, before);
}

/// Growth that begins after swapoff is noticed while programs are observed.
#[test]
fn if_memory_runs_short_while_programs_are_observed_swap_is_on_again() {
    let fake = Machine { swaps: true, ..PLAIN }.make();
    let before = fake.world().state.clone();
    let plan = plan_for(&fake, &[Wish::Drain]);
    let todo = check(&fake, &plan, false, &[]).unwrap();
    let options = Options { settle: Duration::from_secs(1), ..options() };
    let mut report = |event: super::Progress<'_>| {
        if matches!(event, super::Progress::Settling(_)) {
            assert!(fake.swaps().is_empty());
            fake.world().available = 1 << 20;
        }
    };
    let ended = carry_out(Box::new(fake.clone()), STATE, &plan, &todo, &options, &mut report);
    let failed = ended.unwrap_err();
    assert!(failed.source.to_string().contains("a program grew meanwhile"), "{failed:?}");
    assert_eq!((failed.stay.len(), failed.journal.as_deref()), (0, None));
    assert_eq!(fake.world().state, before);
    assert!(fake.world().journals.is_empty());
}

/// A temporary file that a forgotten run left must not stop a plan.
#[test]
fn a_staged_file_of_an_earlier_run_is_replaced() {
    let fake = PLAIN.make();
    let staged = crate::loan::config::staged_name(SYSCTL);
    fake.world().put_config(&staged, Config::File(new_file("half")));
    apply(&fake, &plan_for(&fake, &[Wish::File(SYSCTL, 1)])).unwrap().unwrap();
    assert_eq!(fake.config(&staged).unwrap(), Config::Missing);
}

/// Replaces the first line of the only journal that contains `text` by other bytes.
fn damage(fake: &Fake, text: &str) {
    let mut world = fake.world();
    let journal = world.journals.values_mut().next().expect("there is one");
    let lines: Vec<&[u8]> = journal.split_inclusive(|&byte| byte == b'\n').collect();
    let is_it = |line: &&[u8]| line.windows(text.len()).any(|part| part == text.as_bytes());
    let at = lines.iter().position(is_it).expect("a line has it");
    let mut damaged: Vec<Vec<u8>> = lines.iter().map(|line| line.to_vec()).collect();
    damaged[at] = b"{\"record\":?}\n".to_vec();
    *journal = damaged.concat();
}

/// Damage of the line that says that all was applied, or of a later one, must not undo the plan
/// without anybody asking for it.
#[test]
fn a_plan_whose_last_lines_are_damaged_is_not_undone_by_itself() {
    let fake = PLAIN.make();
    let before = fake.world().state.clone();
    let plan = plan_for(&fake, &[Wish::Knob("swappiness", 1), Wish::Knob("page-cluster", 1)]);
    apply(&fake, &plan).unwrap().unwrap();
    damage(&fake, "\"applied\"");
    let told = undo(&mut fake.clone(), STATE, UndoTarget::Interrupted).unwrap();
    assert_eq!(fake.world().state.knobs[SWAPPINESS], "1", "{told:#?}");
    let is_left = |it: &Outcome| {
        matches!(it, Outcome::Left { why, next: Some(next) }
            if why.contains("is damaged") && next.contains("pagewise undo 1"))
    };
    assert_eq!(told[0].returns.len(), 2);
    assert!(told[0].returns.iter().all(|it| is_left(&it.outcome)), "{told:#?}");
    undo(&mut fake.clone(), STATE, UndoTarget::One("1")).unwrap();
    assert_eq!(fake.world().state, before);
}

/// Steps that follow the damage show that the plan was not applied completely before it.
#[test]
fn a_plan_that_was_interrupted_behind_damage_is_undone() {
    let fake = PLAIN.make();
    let plan = plan_for(&fake, &[Wish::Knob("swappiness", 1), Wish::Knob("page-cluster", 1)]);
    apply(&fake, &plan).unwrap().unwrap();
    let mut world = fake.world();
    let journal = world.journals.values_mut().next().unwrap();
    let end = journal.windows(9).position(|part| part == b"\"applied\"").unwrap();
    let end = journal[..end].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    journal.truncate(end);
    drop(world);
    damage(&fake, "\"done\"");
    let told = undo(&mut fake.clone(), STATE, UndoTarget::Interrupted).unwrap();
    assert_eq!(fake.world().state.knobs[SWAPPINESS], "60", "{told:#?}");
}

#[test]
fn a_trial_that_a_damaged_line_may_have_confirmed_is_kept() {
    let fake = PLAIN.make();
    apply_on_trial(&fake, &[Wish::Knob("swappiness", 1)]);
    confirm(&mut fake.clone(), STATE, "1").unwrap();
    damage(&fake, "\"confirmed\"");
    fake.world().clock += 1_000_000_000;
    let told = undo_unconfirmed(&mut fake.clone(), STATE, None).unwrap();
    assert_eq!(fake.world().state.knobs[SWAPPINESS], "1", "{told:#?}");
    assert!(!told[0].is_settled(), "{told:#?}");
}

/// A journal of a plan that is damaged or that others can have written: `verify` must not say that
/// no plan is applied.
#[test]
fn verify_names_journals_that_are_not_believed() {
    let fake = PLAIN.make();
    apply(&fake, &plan_for(&fake, &[Wish::Knob("swappiness", 1)])).unwrap().unwrap();
    let doubtful = || doubtful_journals(&read_journals(&fake, STATE).unwrap());
    assert_eq!(doubtful(), []);
    damage(&fake, "\"planned\"");
    assert_eq!(doubtful()[0].why, "line 1 is damaged");
    fake.world().journals.values_mut().for_each(Vec::clear);
    assert_eq!(doubtful(), [], "nothing was announced");
}

/// What the first `undo` had to leave is tried again by a plain `undo`, and named until it is done.
#[test]
fn what_an_undo_has_left_is_tried_again() {
    let fake = PLAIN.make();
    let before = fake.world().state.clone();
    let wishes = [Wish::Knob("swappiness", 1), Wish::AddSwapFile(None)];
    apply(&fake, &plan_for(&fake, &wishes)).unwrap().unwrap();
    let plain = || undo(&mut fake.clone(), STATE, UndoTarget::Interrupted).unwrap();
    assert_eq!(plain(), [], "the plan is in force");
    let left = |told: &[Recovered]| {
        let returns = told.iter().flat_map(|run| &run.returns);
        returns.filter(|it| matches!(it.outcome, Outcome::Left { .. })).count()
    };
    let next = fake.world().deeds;
    fake.world().faults = vec![Fault::Stuck(next)];
    assert!(left(&undo(&mut fake.clone(), STATE, UndoTarget::One("1")).unwrap()) > 0);
    assert!(left(&plain()) > 0, "it is named again");
    fake.world().faults.clear();
    assert_eq!(left(&plain()), 0);
    assert_eq!(fake.world().state, before);
    assert!(fake.world().journals.is_empty());
}

fn apply_on_trial(fake: &Fake, wishes: &[Wish]) -> Plan {
    let plan = plan_for(fake, wishes);
    let todo = check(fake, &plan, false, &[]).unwrap();
    let options = Options { trial: Some(Duration::from_secs(600)), ..options() };
    let host = Box::new(fake.clone());
    carry_out(host, STATE, &plan, &todo, &options, &mut |_| {}).unwrap();
    plan
}

/// Links and folders of the trial are removed with it.
#[test]
fn a_trial_is_undone_when_its_time_is_over_or_at_the_next_boot() {
    let wishes = [Wish::Knob("swappiness", 61), Wish::File(SYSCTL, 1)];
    for boots in [false, true] {
        let fake = PLAIN.make();
        let before = fake.world().state.clone();
        apply_on_trial(&fake, &wishes);
        let timer = fake.world().timer.expect("it is armed");
        assert!(matches!(
            refuse_if_on_trial(&read_journals(&fake, STATE).unwrap()),
            Err(Error::OnTrial { .. })
        ));
        assert_eq!(undo_unconfirmed(&mut fake.clone(), STATE, None).unwrap(), [], "too early");
        if boots {
            fake.world().boot(&before);
        } else {
            fake.world().clock = timer * 1000;
        }
        let told = undo_unconfirmed(&mut fake.clone(), STATE, None).unwrap();
        assert!(told[0].is_settled(), "{told:?}");
        assert_eq!(fake.world().state, before);
        let world = fake.world();
        assert!(world.journals.is_empty() && world.timer.is_none());
    }
}

/// Without this program nothing would undo a trial when its time is over. An applied plan stays.
#[test]
fn before_removal_a_trial_is_undone_and_an_applied_plan_stays() {
    let fake = PLAIN.make();
    apply(&fake, &plan_for(&fake, &[Wish::Knob("swappiness", 1)])).unwrap().unwrap();
    let before = fake.world().state.clone();
    apply_on_trial(&fake, &[Wish::File(SYSCTL, 1)]);
    assert_ne!(fake.world().state, before);
    let told = undo_before_removal(&mut fake.clone(), STATE).unwrap();
    assert!(told.len() == 1 && told[0].is_settled(), "{told:?}");
    assert_eq!(fake.world().state, before);
    assert!(fake.world().journals.len() == 1 && fake.world().timer.is_none());
}

/// Somebody sets the clock back by an hour while the plan is on trial.
#[test]
fn a_trial_ends_by_the_time_since_boot() {
    for named in [None, Some("1")] {
        let fake = PLAIN.make();
        let before = fake.world().state.clone();
        apply_on_trial(&fake, &[Wish::Knob("swappiness", 1)]);
        let timer = fake.world().timer.expect("it is armed");
        fake.world().set_back = 900_000;
        assert_eq!(undo_unconfirmed(&mut fake.clone(), STATE, named).unwrap(), [], "too early");
        fake.world().clock = timer * 1000;
        assert_eq!(undo_unconfirmed(&mut fake.clone(), STATE, Some("2")).unwrap(), []);
        undo_unconfirmed(&mut fake.clone(), STATE, named).unwrap();
        assert_eq!(fake.world().state, before);
    }
}

/// The timer could not undo the plan, for example because it had no lock: `undo` does.
#[test]
fn a_plain_undo_ends_a_trial_whose_time_is_over() {
    let fake = PLAIN.make();
    let before = fake.world().state.clone();
    apply_on_trial(&fake, &[Wish::Knob("swappiness", 1)]);
    assert_eq!(undo_overdue(&mut fake.clone(), STATE).unwrap(), [], "it is on trial");
    let timer = fake.world().timer.expect("it is armed");
    fake.world().clock = timer * 1000;
    let told = undo_overdue(&mut fake.clone(), STATE).unwrap();
    assert_eq!(told.len(), 1);
    assert_eq!(fake.world().state, before);
}

#[test]
fn a_plan_that_was_confirmed_stays_and_leaves_no_trace_of_the_trial() {
    let fake = PLAIN.make();
    let before = fake.world().state.clone();
    apply_on_trial(&fake, &[Wish::Knob("swappiness", 1)]);
    assert!(matches!(confirm(&mut fake.clone(), STATE, "7"), Err(Error::NotOnTrial { .. })));
    confirm(&mut fake.clone(), STATE, "1").unwrap();
    assert_eq!(fake.world().state.config, before.config);
    assert_eq!(fake.world().timer, None);
    fake.world().clock += 1_000_000_000;
    assert_eq!(undo_unconfirmed(&mut fake.clone(), STATE, None).unwrap(), []);
    assert_eq!(fake.world().state.knobs[SWAPPINESS], "1");
    undo_all(&fake);
    assert_eq!(fake.world().state, before);
}

/// At every single write: a killed trial is undone, and a killed confirmation either keeps the plan
/// or does not.
#[test]
fn a_trial_that_is_killed_anywhere_is_undone_or_kept() {
    let wishes = [Wish::Knob("swappiness", 1), Wish::File(SYSCTL, 1)];
    for at in 0..60 {
        let fake = PLAIN.make();
        let before = fake.world().state.clone();
        fake.world().faults = vec![Fault::KillAfter(at)];
        let plan = plan_for(&fake, &wishes);
        let todo = check(&fake, &plan, false, &[]).unwrap();
        let options = Options { trial: Some(Duration::from_secs(600)), ..options() };
        let _ = carry_out(Box::new(fake.clone()), STATE, &plan, &todo, &options, &mut |_| {});
        fake.revive();
        fake.world().clock += 1_000_000_000;
        undo_unconfirmed(&mut fake.clone(), STATE, None).unwrap();
        undo(&mut fake.clone(), STATE, UndoTarget::Interrupted).unwrap();
        assert_eq!(fake.world().state, before, "{at}");
    }
    for at in 0..20 {
        let fake = PLAIN.make();
        let before = fake.world().state.clone();
        apply_on_trial(&fake, &wishes);
        fake.revive();
        fake.world().faults = vec![Fault::KillAfter(at)];
        let _ = confirm(&mut fake.clone(), STATE, "1");
        fake.revive();
        fake.world().clock += 1_000_000_000;
        undo_unconfirmed(&mut fake.clone(), STATE, None).unwrap();
        let now = fake.world().state.clone();
        assert!(now.knobs[SWAPPINESS] == "1" || now == before, "{at}");
        undo_all(&fake);
        assert_eq!(fake.world().state, before, "{at}");
    }
}

/// Wherever a single write fails while a trial is undone: if something is left, its timer is armed,
/// and undoes it when the trial is over.
#[test]
fn a_trial_that_cannot_be_undone_keeps_its_timer() {
    let wishes = [Wish::Knob("swappiness", 1), Wish::File(SYSCTL, 1), Wish::AddZram(None)];
    let mut halves = 0;
    for at in 0..40 {
        let fake = PLAIN.make();
        let before = fake.world().state.clone();
        apply_on_trial(&fake, &wishes);
        let deeds = fake.world().deeds;
        fake.world().faults = vec![Fault::Fail(deeds + at)];
        let told = undo(&mut fake.clone(), STATE, UndoTarget::One("1")).unwrap();
        let in_force = plans_in_force(&fake, STATE).unwrap();
        let left: Vec<&String> = in_force.iter().flat_map(|plan| &plan.left).collect();
        fake.world().faults.clear();
        if !left.is_empty() {
            halves += 1;
            assert!(fake.world().timer.is_some(), "{at}: {left:?} without a timer");
            assert!(in_force[0].partly_undone, "{at}: {told:?}");
            let of_trial = |it: &&pagewise_model::undo::Return| it.what.contains("timer");
            assert_eq!(told[0].returns.iter().find(of_trial), None, "the timer is no failure");
            fake.world().clock += 1_000_000_000;
            undo_unconfirmed(&mut fake.clone(), STATE, None).unwrap();
        }
        undo(&mut fake.clone(), STATE, UndoTarget::Interrupted).unwrap();
        assert_eq!(fake.world().state, before, "{at}");
        assert!(fake.world().timer.is_none(), "{at}");
    }
    assert!(halves >= 3, "{halves} of the faults leave something");
}

fn sysctl(value: &str, line: u32) -> PersistentSetting {
    let source = Source::line("/etc/sysctl.d/99-local.conf", line);
    let value = Found::found(pagewise_model::Name::from(value), source);
    let target = pagewise_model::Target::of_knob("vm.swappiness");
    PersistentSetting::applied(pagewise_model::Mechanism::Sysctl, target, value)
}

/// Running value, file and the next boot are compared separately, and the line that explains a
/// difference is named.
#[test]
fn verify_names_what_differs_and_who_set_it() {
    let fake = PLAIN.make();
    let plan = plan_for(&fake, &[Wish::Knob("swappiness", 1), Wish::File(SYSCTL, 1)]);
    apply(&fake, &plan).unwrap().unwrap();
    let verified = |configuration: &Configuration| {
        let journals = read_journals(&fake, STATE).unwrap();
        let mut all = verify_journals(&fake, &journals, VerifyTarget::All, configuration).unwrap();
        all.remove(0)
    };
    let none = Configuration::default();
    assert!(!verified(&none).has_drifted());
    let theirs = Configuration { settings: vec![sysctl("1", 2), sysctl("7", 3)], ..none.clone() };
    let at_boot = verified(&theirs).steps[0].differences.clone();
    assert_eq!(at_boot.len(), 1, "it runs as planned");
    assert_eq!(at_boot[0].kind, DifferenceKind::AtBoot);
    assert_eq!(at_boot[0].by.as_deref(), Some("/etc/sysctl.d/99-local.conf:3"));
    fake.world().state.knobs.insert(SWAPPINESS.to_owned(), "7".to_owned());
    let running = verified(&theirs).steps[0].differences[0].clone();
    assert_eq!((running.kind, &*running.found), (DifferenceKind::Running, "7"));
    assert_eq!(running.by.as_deref(), Some("/etc/sysctl.d/99-local.conf:3"));
    assert_eq!(verified(&none).steps[0].differences[0].by, None, "nobody is known");
    fake.world().put_config(SYSCTL, Config::Missing);
    fake.world().state.config.remove(SYSCTL);
    let file = verified(&none).steps[1].differences[0].clone();
    assert_eq!((file.kind, &*file.found), (DifferenceKind::File, "nothing"));
}

/// zram-generator was installed later: the unit of the plan yields to it at boot.
#[test]
fn verify_names_zram_swap_that_another_program_has_set_up() {
    let fake = PLAIN.make();
    let at_boot = fake.world().state.clone();
    apply(&fake, &plan_for(&fake, &[Wish::AddZram(None)])).unwrap().unwrap();
    fake.world().boot(&at_boot);
    fake.world().state.swaps.insert("/dev/zram0".to_owned());
    fake.world().state.priorities.insert("/dev/zram0".to_owned(), 100);
    let journals = read_journals(&fake, STATE).unwrap();
    let configuration = Configuration::default();
    let all = verify_journals(&fake, &journals, VerifyTarget::All, &configuration).unwrap();
    let found = &all[0].steps[0].differences[0].found;
    assert!(found.contains("not set up: /dev/zram0"), "{found}");
}

/// What a later plan changed does not count as a difference from the earlier one.
#[test]
fn verify_leaves_to_a_later_plan_what_that_changed() {
    let fake = PLAIN.make();
    apply(&fake, &plan_for(&fake, &[Wish::File(SYSCTL, 1)])).unwrap().unwrap();
    let mut second = plan_for(&fake, &[Wish::File(SYSCTL, 2)]);
    second.id = "ffffffffffffffff".to_owned();
    apply(&fake, &second).unwrap().unwrap();
    let journals = read_journals(&fake, STATE).unwrap();
    let configuration = Configuration::default();
    let all = verify_journals(&fake, &journals, VerifyTarget::All, &configuration).unwrap();
    assert!(all.iter().all(|it| !it.has_drifted()), "{all:?}");
    assert!(all[0].steps[0].skipped.as_deref().is_some_and(|why| why.contains("ffffffffffffffff")));
}
