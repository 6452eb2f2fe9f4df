// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiments with real commands, and a lender that logs what it lends.
//!
//! These tests are a program of their own, because an experiment reaps all children of its process.
//! For the same reason only one test runs at a time.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pagewise_lab::experiment::{Control, ExperimentError, ExperimentRuns, TrialEvent, conduct};
use pagewise_model::arm::parse_setting;
use pagewise_model::lend::{
    GroupSpec, KnobSetting, Lender, LoanId, MemoryGroup, SwapFile, SwapSpec, ZramDevice, ZramSpec,
};
use pagewise_model::{
    Bytes, Clock, Compressor, Program, Refusal, RunEnd, TrialArm, TrialRun, TrialSwap, Verdict,
};
use pagewise_stats::{Experiment, Metric, Neighbour, judge};

fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn experiment(command: &[&str]) -> Experiment {
    let arm = |name: &str, value: &str| TrialArm {
        name: name.to_owned(),
        settings: vec![parse_setting(&format!("vm.swappiness={value}")).unwrap()],
        ..TrialArm::default()
    };
    Experiment {
        program: Program::from_words(command),
        arms: vec![arm("a", "60"), arm("b", "100")],
        metrics: vec![Metric::new_time()],
        pairs: 2,
        min_effect: 0.02,
        warm_up: 1,
        seed: 1,
        memory_limit_bytes: None,
        deadline: Duration::from_secs(60),
        clock: Clock::Real,
        profile: false,
        counted_from: None,
        neighbour: None,
    }
}

/// What was lent and returned, in order.
type Log = Rc<RefCell<Vec<String>>>;

/// A lender that only logs: settings and swap have no effect, and cgroups are lent only if a test
/// asks for them.
#[derive(Default)]
struct Noting {
    log: Log,
    lent: u64,
    refuses: Option<&'static str>,
    value: Option<&'static Path>,
    /// A folder that is lent as a cgroup.
    group: Option<&'static Path>,
}

fn refused<T>(what: &str) -> Result<T, Refusal> {
    Err(Refusal::new(what, "not in this test"))
}

impl Noting {
    fn lend(&mut self, what: String) -> LoanId {
        self.lent += 1;
        self.log.borrow_mut().push(what);
        LoanId(self.lent)
    }
}

impl Lender for Noting {
    fn lend_zram(&mut self, spec: &ZramSpec) -> Result<ZramDevice, Refusal> {
        if spec.compressor == Some(Compressor::new("none")) {
            return refused("a zram device");
        }
        let loan = self.lend(format!("zram {}", spec.disksize.get()));
        let number = u32::try_from(loan.0).unwrap();
        let name = format!("zram{number}");
        let (device, sysfs) = (Path::new("/dev").join(&name), Path::new("/nowhere").join(&name));
        Ok(ZramDevice { loan, number, device, sysfs })
    }
    fn lend_swap(&mut self, spec: &SwapSpec) -> Result<LoanId, Refusal> {
        let priority = spec.priority.map_or_else(|| "-".to_owned(), |it| it.to_string());
        Ok(self.lend(format!("on {} {priority}", spec.area.path().display())))
    }
    fn swap_folder(&self) -> Option<PathBuf> {
        Some("/swaps".into())
    }
    fn lend_swap_file(&mut self, folder: &Path, size: Bytes) -> Result<SwapFile, Refusal> {
        let loan = self.lend(format!("file {}", size.get()));
        Ok(SwapFile { loan, path: folder.join(format!("file{}", loan.0)) })
    }
    fn lend_group(&mut self, spec: &GroupSpec) -> Result<MemoryGroup, Refusal> {
        let Some(folder) = self.group else { return refused("a group") };
        let swappiness = spec.swappiness;
        let loan = self.lend(swappiness.map_or("group".to_owned(), |it| format!("group {it}")));
        Ok(MemoryGroup { loan, folder: folder.to_owned(), unified: false })
    }
    fn lend_knob(&mut self, setting: &KnobSetting) -> Result<LoanId, Refusal> {
        let KnobSetting { name, instance, value } = setting;
        if let Some(instance) = instance {
            return Ok(self.lend(format!("{name}[{instance}]={value}")));
        }
        if self.refuses == Some(value) {
            return refused(name);
        }
        if let Some(path) = self.value {
            std::fs::write(path, value).unwrap();
        }
        Ok(self.lend(format!("{name}={value}")))
    }
    fn return_loan(&mut self, loan: LoanId) -> Result<(), Refusal> {
        self.log.borrow_mut().push(format!("back {}", loan.0));
        Ok(())
    }
}

fn run(experiment: &Experiment) -> ExperimentRuns {
    run_with(experiment, &mut Noting::default(), &AtomicBool::new(false))
}

fn run_with(experiment: &Experiment, noting: &mut Noting, stop: &AtomicBool) -> ExperimentRuns {
    let mut on_event = |_: &TrialEvent| ControlFlow::Continue(());
    conduct(experiment, Some(noting), &mut Control { stop, on_event: &mut on_event })
}

fn sh(script: &str) -> Experiment {
    experiment(&["sh", "-c", script])
}

fn good(conducted: ExperimentRuns) -> Vec<TrialRun> {
    assert!(conducted.trouble.is_none(), "{:?}", conducted.trouble);
    conducted.runs
}

#[test]
fn every_run_has_its_arms_settings_and_gives_them_back() {
    let _alone = alone();
    let mut noting = Noting::default();
    let log = noting.log.clone();
    let runs = good(run_with(&sh("true"), &mut noting, &AtomicBool::new(false)));
    assert_eq!(runs.len(), 1 + 2 + 4);
    assert_eq!(runs.iter().filter(|run| run.pair.is_none()).count(), 3);
    let log = log.borrow();
    assert_eq!(log.len(), 2 * runs.len());
    for (number, (run, noted)) in (1..).zip(runs.iter().zip(log.chunks(2))) {
        let value = if run.arm == "a" { "60" } else { "100" };
        assert_eq!(noted, [format!("vm.swappiness={value}"), format!("back {number}")]);
        assert_eq!((run.number, run.end), (number, RunEnd::Exited { status: 0 }));
        assert!(run.values["time"] > 0.0 && run.values["cpu"] >= 0.0);
    }
}

#[test]
fn what_the_arm_changes_shows_in_what_the_command_says() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path: &'static Path = Box::leak(folder.path().join("value").into_boxed_path());
    let mut noting = Noting { value: Some(path), ..Noting::default() };
    let metric = Metric::parse(r"worth (\d+)").unwrap();
    let experiment = Experiment {
        metrics: vec![Metric { higher_is_better: true, ..metric }],
        pairs: 7,
        ..sh(&format!("printf 'worth '; cat {}", path.display()))
    };
    let runs = good(run_with(&experiment, &mut noting, &AtomicBool::new(false)));
    let trial = judge(&experiment, &runs);
    assert_eq!((trial.verdict, trial.pairs, &trial.stopped), (Verdict::Better, 7, &None));
    assert!((trial.metrics[0].b_per_a.unwrap() - 100.0 / 60.0).abs() < 1e-9);
    assert_eq!(trial.primary, r"worth (\d+)");
}

/// Two loops, one of them reparented: its CPU time counts and it is killed.
#[test]
fn processes_that_get_away_are_counted_and_ended() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!(
        "rm -f {0}; setsid sh -c 'echo $$ > {0}; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; \
         echo done >> {0}; exec sleep 1000' & \
         while ! grep -q done {0} 2>/dev/null; do sleep 0.02; done",
        pid.display()
    );
    let runs = good(run(&Experiment { warm_up: 0, pairs: 1, ..sh(&script) }));
    for run in &runs {
        assert_eq!(run.left, 1);
        assert!(run.values["cpu"] > 0.02, "the loop counts: {:?}", run.values);
    }
    let last = std::fs::read_to_string(&pid).unwrap();
    let last = last.lines().next().unwrap();
    assert!(!Path::new(&format!("/proc/{last}")).exists(), "{last} is gone");
}

#[test]
fn time_is_not_what_starting_takes() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let group = cgroup(folder.path());
    // the shell that joins this cgroup blocks until somebody reads its pid from the FIFO, which
    // happens late
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.path().join("cgroup.procs"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let late = Duration::from_secs(1);
    let one = Experiment { pairs: 1, ..experiment(&["sleep", "0.2"]) };
    let number = 1 + 2 + 2;
    let joined = std::thread::spawn(move || {
        let join = |_| {
            std::thread::sleep(late);
            let began = Instant::now();
            std::fs::read(group.join("cgroup.procs")).unwrap();
            began
        };
        (0..number).map(join).collect::<Vec<Instant>>()
    });
    let mut ended = Vec::new();
    let mut on_event = |event: &TrialEvent| {
        if let TrialEvent::Ran(_) = event {
            ended.push(Instant::now());
        }
        ControlFlow::Continue(())
    };
    let mut noting = Noting { group: Some(group), ..Noting::default() };
    let stop = AtomicBool::new(false);
    let mut control = Control { stop: &stop, on_event: &mut on_event };
    let runs = good(conduct(&one, Some(&mut noting), &mut control));
    let joined = joined.join().unwrap();
    assert_eq!((runs.len(), ended.len()), (number, number));
    for ((run, joined), ended) in runs.iter().zip(joined).zip(ended) {
        let (time, whole) = (run.values["time"], (ended - joined).as_secs_f64());
        assert!(time >= 0.2 && time <= whole, "{time} of {whole} s");
        assert!(run.values["cpu"] < 0.1, "{:?}", run.values);
    }
}

#[test]
fn a_command_that_cannot_be_started_is_named() {
    let _alone = alone();
    for name in ["surely-no-program-of-that-name", "/etc/passwd", "./none"] {
        let conducted = run(&experiment(&[name]));
        assert!(matches!(&conducted.trouble, Some(ExperimentError::NoProgram(it)) if it == name));
        assert!(conducted.runs.is_empty());
    }
}

#[test]
fn a_command_that_fails_at_once_ends_it_with_what_it_said() {
    let _alone = alone();
    let conducted = run(&sh("echo first; echo no such table >&2; exit 3"));
    let message = conducted.trouble.unwrap().to_string();
    assert!(message.contains("exit status 3") && message.contains("no such table"), "{message}");
    assert_eq!(conducted.runs.len(), 1, "what was run is kept");
    let killed = run(&sh("kill -SEGV $$")).trouble.unwrap().to_string();
    assert!(killed.contains("killed by signal 11") && killed.contains("nothing"), "{killed}");
}

#[test]
fn a_run_that_fails_later_costs_its_pair_and_many_end_it() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let failing = |which: &str| {
        let count = count.display();
        sh(&format!("n=$(($(cat {count} 2>/dev/null)+1)); echo $n > {count}; [ $n {which} ]"))
    };
    // the fifth run belongs to the first pair
    let experiment = Experiment { pairs: 7, ..failing("-ne 5") };
    let mut runs = good(run(&experiment));
    // six real times are in the same order by chance, now and then
    for time in runs.iter_mut().filter_map(|run| run.values.get_mut("time")) {
        *time = 0.25;
    }
    let trial = judge(&experiment, &runs);
    assert_eq!((trial.pairs, trial.failed_pairs, &trial.stopped), (6, 1, &None));
    assert!(trial.notes.iter().any(|note| note.contains("1 run of")), "{:?}", trial.notes);
    assert_ne!(trial.verdict, Verdict::Better, "six pairs of nothing");

    std::fs::remove_file(&count).unwrap();
    let conducted = run(&Experiment { pairs: 9, ..failing("-lt 5") });
    let message = conducted.trouble.unwrap().to_string();
    assert!(message.contains("no more are tried"), "{message}");
    assert!(conducted.runs.len() < 12, "{}", conducted.runs.len());
}

#[test]
fn a_pattern_that_never_matches_ends_it_after_the_first_run() {
    let _alone = alone();
    let metrics = vec![Metric::parse(r"speed (\d+)").unwrap()];
    let conducted = run(&Experiment { metrics, ..sh("echo sped 17") });
    let message = conducted.trouble.unwrap().to_string();
    assert!(message.contains("speed") && message.contains("sped 17"), "{message}");
    assert_eq!(conducted.runs.len(), 1);
}

#[test]
fn an_arm_that_is_refused_is_named_and_what_was_lent_goes_back() {
    let _alone = alone();
    let mut noting = Noting { refuses: Some("100"), ..Noting::default() };
    let log = noting.log.clone();
    let mut experiment = sh("true");
    experiment.arms[1].settings.insert(0, parse_setting("vm.page-cluster=0").unwrap());
    let conducted = run_with(&experiment, &mut noting, &AtomicBool::new(false));
    let trouble = conducted.trouble.unwrap();
    assert!(matches!(&trouble, ExperimentError::Refused { arm, .. } if arm == "b"), "{trouble}");
    assert_eq!(log.borrow()[4..], ["vm.page-cluster=0", "back 3"]);
}

#[test]
fn a_group_without_a_limit_may_lack_and_one_with_may_not() {
    let _alone = alone();
    let experiment = Experiment { memory_limit_bytes: Some(64 << 20), ..sh("true") };
    let trouble = run(&experiment).trouble.unwrap();
    assert!(matches!(trouble, ExperimentError::Refused { .. }), "{trouble}");
}

/// Also a run that ignores SIGTERM.
#[test]
fn a_run_that_lasts_too_long_is_ended() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let heard = folder.path().join("heard");
    let script =
        format!("trap 'echo TERM >> {}' TERM; while :; do sleep 0.1; done", heard.display());
    // on a busy machine it may take longer until the trap is set
    let refused = [1, 5, 60].into_iter().any(|seconds| {
        let conducted = run(&Experiment { deadline: Duration::from_secs(seconds), ..sh(&script) });
        let trouble = conducted.trouble.unwrap().to_string();
        assert!(trouble.contains("took too long"), "{trouble}");
        assert_eq!(conducted.runs[0].end, RunEnd::TimedOut);
        heard.exists()
    });
    assert!(refused, "it never heard that it was to end");
}

#[test]
fn who_stops_it_keeps_the_runs_and_nothing_stays_lent() {
    let _alone = alone();
    let (stop, mut noting) = (AtomicBool::new(false), Noting::default());
    let log = noting.log.clone();
    let mut on_event = |event: &TrialEvent| {
        if let TrialEvent::Begins { pair: Some(2), .. } = event {
            stop.store(true, Ordering::SeqCst);
        }
        ControlFlow::Continue(())
    };
    let experiment = sh("sleep 0.3");
    let mut control = Control { stop: &stop, on_event: &mut on_event };
    let conducted = conduct(&experiment, Some(&mut noting), &mut control);
    assert!(matches!(conducted.trouble, Some(ExperimentError::Stopped)));
    assert_eq!(conducted.runs.len(), 1 + 2 + 2);
    assert_eq!(log.borrow().len(), 2 * (5 + 1), "the sixth was lent its setting, and gave it back");
    let trial = judge(&experiment, &conducted.runs);
    assert_eq!(trial.stopped.as_deref(), Some("only 1 of 2 pairs were run"));
}

#[test]
fn who_hears_of_a_run_can_end_it_without_the_users_flag() {
    let _alone = alone();
    let (stop, mut noting) = (AtomicBool::new(false), Noting::default());
    let log = noting.log.clone();
    let mut on_event = |event: &TrialEvent| match event {
        TrialEvent::Ran(run) if run.pair == Some(1) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let mut control = Control { stop: &stop, on_event: &mut on_event };
    let conducted = conduct(&sh("true"), Some(&mut noting), &mut control);
    assert!(matches!(conducted.trouble, Some(ExperimentError::Stopped)));
    assert_eq!(conducted.runs.len(), 1 + 2 + 1, "the run that was told is kept");
    assert!(!stop.load(Ordering::SeqCst));
    let (lent, back) =
        (log.borrow().len(), log.borrow().iter().filter(|it| it.starts_with("back")).count());
    assert_eq!(lent, 2 * back, "{:?}", log.borrow());
}

/// One arm for each script; the first arm is `a`.
fn scripts(of: &[&str]) -> Experiment {
    let arm = |(name, script): (char, &&str)| TrialArm {
        name: name.to_string(),
        program: Some(Program::from_words(&["sh", "-c", *script])),
        ..TrialArm::default()
    };
    Experiment { arms: ('a'..).zip(of).map(arm).collect(), ..sh("exit 9") }
}

/// A folder that looks like a v1 cgroup; a script that writes `oom_kill 1` to it counts as
/// OOM-killed.
fn cgroup(folder: &Path) -> &'static Path {
    std::fs::write(folder.join("memory.oom_control"), "oom_kill 0\n").unwrap();
    Box::leak(folder.to_owned().into_boxed_path())
}

#[test]
fn what_a_run_borrows_comes_in_order_and_goes_back_in_turn() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let zram = TrialSwap::Zram {
        size_bytes: 1 << 20,
        algorithm: None,
        mem_limit_bytes: None,
        writeback: None,
        priority: None,
    };
    let areas = vec![
        zram,
        TrialSwap::File { size_bytes: 2 << 20, priority: None },
        TrialSwap::Device { path: "/dev/vdz".to_owned(), priority: Some(7) },
    ];
    // if nothing were set for zswap, it would be switched off if it is on, so the loans would
    // depend on this machine
    let settings = [
        "zram.writeback_limit_enable=1",
        "vm.swappiness=180",
        "thp.size.enabled[64kB]=never",
        "zswap.enabled=N",
    ];
    let mut experiment = sh("true");
    experiment.arms[1].settings =
        settings.iter().map(|text| parse_setting(text).unwrap()).collect();
    experiment.arms[1].swap = Some(areas);
    experiment.check().unwrap();
    let mut noting = Noting { group: Some(cgroup(folder.path())), ..Noting::default() };
    let log = noting.log.clone();
    let runs = good(run_with(&experiment, &mut noting, &AtomicBool::new(false)));
    let first = runs.iter().position(|run| run.arm == "b").unwrap();
    assert_eq!(first, 2, "a, then a and b warm up");
    let log = log.borrow();
    assert_eq!(log[..4], ["vm.swappiness=60", "group 60", "back 2", "back 1"]);
    let taken_for_b = [
        "vm.swappiness=180",
        "thp.size.enabled[64kB]=never",
        "zswap.enabled=N",
        "zram 1048576",
        "zram.writeback_limit_enable[8]=1",
        "on /dev/zram8 6",
        "file 2097152",
        "on /swaps/file11 5",
        "on /dev/vdz 7",
        "group 180",
    ];
    assert_eq!(log[8..18], taken_for_b);
    assert_eq!(log[18..27], [14, 13, 12, 10, 9, 8, 7, 6, 5].map(|loan| format!("back {loan}")));
    // the swap file serves all runs and is returned at the end
    assert_eq!(log.iter().filter(|line| line.starts_with("file")).count(), 1);
    assert_eq!(log.last().unwrap(), "back 11");
    let taken = log.iter().filter(|line| !line.starts_with("back")).count();
    assert_eq!(log.len(), 2 * taken, "{log:?}");
}

#[test]
fn an_arm_that_is_refused_is_dropped_where_two_others_go_on() {
    let _alone = alone();
    let mut experiment = scripts(&["true", "true", "true"]);
    let no_zram = TrialSwap::Zram {
        size_bytes: 1 << 20,
        algorithm: Some("none".to_owned()),
        mem_limit_bytes: None,
        writeback: None,
        priority: None,
    };
    experiment.arms[1].swap = Some(vec![no_zram]);
    let conducted = run(&experiment);
    let runs = good(conducted);
    let of_b: Vec<&TrialRun> = runs.iter().filter(|run| run.arm == "b").collect();
    assert_eq!((of_b.len(), of_b[0].end), (1, RunEnd::NotRun));
    assert_eq!(of_b[0].refused.as_deref(), Some("a zram device: not in this test"));
    assert_eq!(runs.len(), 1 + 3 + 2 * 2);
    let trial = judge(&experiment, &runs);
    assert_eq!((trial.dropped.len(), &*trial.dropped[0].arm), (1, "b"));
    let names: Vec<&str> = trial.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!((names, trial.pairs, trial.others.len()), (vec!["a", "c", "b"], 2, 0));
    assert!(
        trial.notes.iter().any(|note| note.contains("given up: b: a zram")),
        "{:?}",
        trial.notes
    );
    replayed(&experiment, &runs);
}

/// Judging the recorded runs again gives the same result.
fn replayed(experiment: &Experiment, runs: &[TrialRun]) {
    let again: Vec<TrialRun> = serde_json::from_str(&serde_json::to_string(runs).unwrap()).unwrap();
    let same: Experiment =
        serde_json::from_str(&serde_json::to_string(experiment).unwrap()).unwrap();
    assert_eq!(judge(&same, &again), judge(experiment, runs));
}

#[test]
fn a_first_arm_that_is_killed_for_memory_leaves_its_place_to_the_next() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let group = cgroup(folder.path());
    let control = group.join("memory.oom_control");
    let says = |kills: u32| format!("echo oom_kill {kills} > {}", control.display());
    let mut experiment = scripts(&[&format!("{}; kill -9 $$", says(1)), &says(0), &says(0)]);
    experiment.pairs = 3;
    let mut noting = Noting { group: Some(group), ..Noting::default() };
    let runs = good(run_with(&experiment, &mut noting, &AtomicBool::new(false)));
    let of_a: Vec<RunEnd> = runs.iter().filter(|run| run.arm == "a").map(|run| run.end).collect();
    assert_eq!(of_a, [RunEnd::OutOfMemory { kills: 1 }; 2], "its warm-up is its answer");
    let trial = judge(&experiment, &runs);
    assert_eq!(trial.dropped[0].why, "killed for lack of memory in 2 of 2 runs");
    assert_eq!((&*trial.arms[0].name, &*trial.arms[1].name, trial.pairs), ("b", "c", 3));
    assert!(trial.notes.iter().any(|note| note.contains("compared with b")), "{:?}", trial.notes);
    replayed(&experiment, &runs);
}

#[test]
fn an_arm_that_hangs_is_dropped_and_one_that_fails_is_trouble() {
    let _alone = alone();
    // must be long enough for the other arms to end in time on a busy machine
    let deadline = Duration::from_secs(3);
    let hangs = Experiment { deadline, pairs: 1, ..scripts(&["true", "true", "sleep 100"]) };
    let runs = good(run(&hangs));
    let trial = judge(&hangs, &runs);
    assert_eq!(trial.dropped[0].why, "it took too long in 1 of 1 runs");
    let trouble = run(&scripts(&["true", "true", "exit 3"])).trouble.unwrap();
    assert!(matches!(&trouble, ExperimentError::Failed { arm, .. } if arm == "c"), "{trouble}");
    let two = Experiment { deadline, ..scripts(&["true", "sleep 100"]) };
    assert!(
        matches!(run(&two).trouble, Some(ExperimentError::Failed { .. })),
        "with one nothing goes on"
    );
}

#[test]
fn time_cannot_decide_by_a_clock_that_is_none() {
    let mut experiment = Experiment { clock: Clock::Emulated, ..sh("true") };
    let why = experiment.check().unwrap_err().to_string();
    assert!(why.contains("under emulation is not judged") && why.contains("refaults"), "{why}");
    experiment.metrics = vec![Metric::parse("cpu").unwrap()];
    assert!(experiment.check().is_err());
    experiment.clock = Clock::Counted;
    experiment.check().unwrap();
    experiment.metrics.insert(0, Metric::parse("scan-efficiency").unwrap());
    experiment.check().unwrap();
}

#[test]
fn arms_that_make_no_sense_are_refused() {
    let swap = |area: TrialSwap| {
        let mut experiment = sh("true");
        experiment.arms[1].swap = Some(vec![area]);
        experiment.check().unwrap_err().to_string()
    };
    assert!(swap(TrialSwap::File { size_bytes: 0, priority: None }).contains("no size"));
    let below = swap(TrialSwap::File { size_bytes: 1, priority: Some(-1) });
    assert!(below.contains("from 0 on"), "{below}");
    let mut experiment = sh("true");
    experiment.arms[0].settings = vec![parse_setting("zram.writeback_limit_enable=1").unwrap()];
    assert!(experiment.check().unwrap_err().to_string().contains("no zram device"));
}

#[test]
fn a_workloads_value_that_nobody_says_ends_it_at_once() {
    let _alone = alone();
    let metrics = vec![Metric::parse("precision").unwrap()];
    let conducted = run(&Experiment { metrics, ..sh("echo nothing of it") });
    let message = conducted.trouble.unwrap().to_string();
    assert!(message.contains("precision") && message.contains("nothing of it"), "{message}");
}

/// Uses CPU time in a child that it waits for before the line, and hardly any after it.
const BURNS: &str = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; echo unsteady; echo steady; sleep 0.2";

#[test]
fn what_is_used_before_the_line_is_not_counted() {
    let _alone = alone();
    let cpu = |counted_from: Option<&str>| {
        let counted_from = counted_from.map(str::to_owned);
        let experiment = Experiment { counted_from, warm_up: 0, pairs: 1, ..sh(BURNS) };
        let runs = good(run(&experiment));
        let trial = judge(&experiment, &runs);
        let noted = trial.notes.iter().any(|note| note.contains("line \"steady\" on"));
        assert_eq!(noted, experiment.counted_from.is_some(), "{:?}", trial.notes);
        for run in &runs {
            assert!(run.values["time"] >= 0.2 && run.values.contains_key("scanned"), "{run:?}");
            assert!(run.others_cpu_seconds.unwrap() >= 0.0);
        }
        runs.iter().map(|run| run.values["cpu"]).fold(0.0, f64::max)
    };
    let whole = cpu(None);
    let late = cpu(Some("steady"));
    assert!(late < whole / 3.0, "{late} of {whole}");
}

#[test]
fn a_line_that_never_comes_ends_it_after_the_first_run() {
    let _alone = alone();
    for output in ["echo unsteady; sleep 0.1", "printf steady; sleep 0.1"] {
        let counted_from = Some("steady".to_owned());
        let conducted = run(&Experiment { counted_from, ..sh(output) });
        let message = conducted.trouble.unwrap().to_string();
        assert!(message.contains("the line \"steady\""), "{output}: {message}");
        let values = &conducted.runs[0].values;
        assert_eq!(values.keys().collect::<Vec<_>>(), ["time"], "nothing is counted: {values:?}");
    }
    let no_line = Experiment { counted_from: Some("a\nb".to_owned()), ..sh("true") };
    assert!(no_line.check().unwrap_err().to_string().contains("expected a line"), "{no_line:?}");
}

fn beside(script: &str) -> Option<Neighbour> {
    let program = Program::from_words(&["sh", "-c", script]);
    Some(Neighbour { program, memory_limit_bytes: None, ready: None })
}

/// The neighbour runs while the command does, its processes end with it, and its usage is not
/// counted for the command.
#[test]
fn a_neighbour_runs_beside_the_command_and_ends_with_it() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec sleep 1000";
    let neighbour =
        beside(&format!("sh -c '{burn}' & printf '%s %s\\n' $$ $! >> {}; {burn}", pids.display()));
    let wait = "n=0; while [ $n -lt 20 ]; do n=$((n+1)); sleep 0.05; done";
    let experiment = Experiment { neighbour, pairs: 1, warm_up: 0, ..sh(wait) };
    let mut noting = Noting { group: Some(cgroup(folder.path())), ..Noting::default() };
    let log = noting.log.clone();
    let runs = good(run_with(&experiment, &mut noting, &AtomicBool::new(false)));
    for run in &runs {
        assert!(run.values["cpu"] < 0.3 && run.left == 0, "{:?}", run.values);
    }
    let pids = std::fs::read_to_string(&pids).unwrap();
    assert_eq!(pids.lines().count(), runs.len());
    for pid in pids.split_whitespace() {
        let is_gone = || !Path::new("/proc").join(pid).exists();
        let until = Instant::now() + Duration::from_secs(60);
        while !is_gone() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(is_gone(), "{pid}");
    }
    let taken = log.borrow().iter().filter(|line| line.starts_with("group")).count();
    assert_eq!(taken, 2 * runs.len(), "each has a group of its own");
}

#[test]
fn a_neighbour_that_ends_before_the_command_ends_the_experiment() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let experiment = Experiment { neighbour: beside("echo bye; exit 3"), ..sh("sleep 0.3") };
    let mut noting = Noting { group: Some(cgroup(folder.path())), ..Noting::default() };
    let conducted = run_with(&experiment, &mut noting, &AtomicBool::new(false));
    let why = conducted.trouble.unwrap().to_string();
    assert!(why.contains("the neighbour: it ended before the command did with status 3"), "{why}");
    assert!(why.contains("it said: bye"), "{why}");
}

#[test]
fn the_command_starts_when_its_neighbour_is_ready() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let shown = mark.display();
    let neighbour = |script: &str| {
        let ready = Some("filled".to_owned());
        Some(Neighbour { ready, ..beside(script).unwrap() })
    };
    let conducted = |experiment: &Experiment| {
        let mut noting = Noting { group: Some(cgroup(folder.path())), ..Noting::default() };
        run_with(experiment, &mut noting, &AtomicBool::new(false))
    };
    // the file exists only from shortly before the line
    let slow = format!(
        "rm -f {shown}; echo unfilled; sleep 0.3; touch {shown}; echo filled; exec sleep 1000"
    );
    let command = sh(&format!("test -e {shown}"));
    let experiment =
        Experiment { neighbour: neighbour(&slow), pairs: 1, warm_up: 0, ..command.clone() };
    for run in good(conducted(&experiment)) {
        assert!(run.end == RunEnd::Exited { status: 0 }, "{run:?}");
    }
    for (script, why, milliseconds) in [
        ("echo full; exit 3", "it ended before it printed \"filled\"", 60_000),
        ("echo full; exec sleep 1000", "it did not print \"filled\" before the deadline", 500),
    ] {
        let deadline = Duration::from_millis(milliseconds);
        let experiment = Experiment { neighbour: neighbour(script), deadline, ..command.clone() };
        let trouble = conducted(&experiment).trouble.unwrap().to_string();
        assert!(trouble.contains(why), "{trouble}");
    }
}

/// Runs are read exactly as they were written, to the last digit, so recorded runs are judged the
/// same.
#[test]
fn raw_runs_survive_their_text() {
    let _alone = alone();
    let metrics = vec![Metric::new_time(), Metric::parse(r"([0-9.]+)").unwrap()];
    let experiment = Experiment { metrics, pairs: 7, ..sh("echo 0.1234567890123456789; date +%N") };
    let runs = good(run(&experiment));
    let text = serde_json::to_string(&runs).unwrap();
    let again: Vec<TrialRun> = serde_json::from_str(&text).unwrap();
    assert_eq!(again, runs);
    let same: Experiment =
        serde_json::from_str(&serde_json::to_string(&experiment).unwrap()).unwrap();
    assert_eq!(judge(&same, &again), judge(&experiment, &runs));
}
