// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise trial` with real settings and cgroups: each run has the settings of its arm, and all
//! are restored.

use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::host_loans::HostLoans;
use pagewise_lab::experiment::{Control, ExperimentRuns, TrialEvent, conduct};
use pagewise_model::arm::parse_setting;
use pagewise_model::knob::{Access, Domain, KNOBS};
use pagewise_model::lend::ZswapSpec;
use pagewise_model::{Clock, Program, RunEnd, TrialArm, TrialRun, TrialSwap};
use pagewise_stats::{Experiment, Metric, judge};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::machine::{Place, Thing, note_made, read, said};

/// A setting that can be changed for a moment without any effect on programs.
const KNOB: &str = "/proc/sys/vm/extfrag_threshold";
const SWAPPINESS: &str = "/proc/sys/vm/swappiness";

fn trial(place: &Place, options: &[&str], command: &[&str]) -> Value {
    let ended = place.output(&[&["trial", "--json"], options, &["--"], command].concat());
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    serde_json::from_slice(&ended.stdout).expect("JSON on standard output")
}

fn runs(document: &Value) -> &[Value] {
    document["runs"].as_array().expect("runs")
}

#[test]
fn each_run_has_what_its_arm_says() {
    let (place, before) = (Place::new(), read(KNOB));
    let options = ["--a", "vm.extfrag_threshold=400", "--b", "vm.extfrag_threshold=600"];
    let metric = ["--metric", "^([0-9]+)", "--higher-is-better"];
    let document = trial(&place, &[&options[..], &metric].concat(), &["cat", KNOB]);
    for run in runs(&document) {
        let expected = if run["arm"] == "a" { 400.0 } else { 600.0 };
        assert_eq!(run["values"]["^([0-9]+)"], expected, "{run}");
        assert!(run["values"]["peak-memory"].as_f64().unwrap() > 0.0, "{run}");
        let wide = run["host_wide"].as_array().unwrap();
        assert!(!wide.iter().any(|name| name == "refaults"), "its cgroup counts them: {run}");
    }
    assert_eq!((&document["verdict"], &document["pairs"]), (&"better".into(), &7.into()));
    assert_eq!(document["metrics"][0]["b_per_a"], 1.5);
    assert_eq!(read(KNOB), before);
}

#[test]
fn swappiness_of_a_command_in_a_limited_cgroup() {
    let (place, before) = (Place::new(), read(SWAPPINESS));
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("file");
    let script = format!("dd if=/dev/zero of={0} bs=1M count=32; cat {0} {0}", file.display());
    let options = ["--a", "vm.swappiness=60", "--b", "vm.swappiness=100", "--memory", "12M"];
    let document = trial(&place, &options, &["sh", "-c", &script]);
    assert_eq!(document["memory_limit_bytes"], 12 << 20);
    assert_eq!(read(SWAPPINESS), before);
    for run in runs(&document) {
        let values = &run["values"];
        assert!(values["peak-memory"].as_f64().unwrap() <= f64::from(12 << 20), "{run}");
        assert!(values["refaults"].as_f64().unwrap() > 0.0, "32 MiB do not fit: {run}");
        // only cgroup v2 counts the reclaim of a single cgroup
        let listed = values["scanned"].as_f64();
        assert!(listed.is_none_or(|scanned| scanned > 0.0), "{run}");
    }
}

/// A cgroup of v1 keeps the swappiness that was set when it was created.
#[test]
fn swappiness_reaches_the_cgroup() {
    let place = Place::new();
    let script = "at=$(sed -n 's/^[0-9]*:[a-z,_]*memory[a-z,_]*://p' /proc/self/cgroup); \
                  cat /sys/fs/cgroup/memory$at/memory.swappiness 2>/dev/null \
                  || cat /proc/sys/vm/swappiness";
    let options = ["--a", "vm.swappiness=33", "--b", "vm.swappiness=144", "--memory", "24M"];
    let metric = ["--metric", "^([0-9]+)", "--higher-is-better"];
    let document = trial(&place, &[&options[..], &metric].concat(), &["sh", "-c", script]);
    for run in runs(&document) {
        let expected = if run["arm"] == "a" { 33.0 } else { 144.0 };
        assert_eq!(run["values"]["^([0-9]+)"], expected, "{run}");
    }
}

/// Text without a newline, which tail keeps until there is one: half as much again as the limit.
const EATER: &str = "yes 'text of some length' | tr '\\n' ' ' | head -c 48M | tail > /dev/null";
const LIMIT: u64 = 32 << 20;

fn arm(name: &str, swap: Option<Vec<TrialSwap>>) -> TrialArm {
    TrialArm { name: name.to_owned(), swap, ..TrialArm::default() }
}

fn eating(arms: Vec<TrialArm>) -> Experiment {
    Experiment {
        program: Program::from_words(&["sh", "-c", EATER]),
        arms,
        metrics: vec![Metric::parse("swapped-out").unwrap()],
        pairs: 2,
        min_effect: 0.02,
        warm_up: 1,
        seed: 1,
        memory_limit_bytes: Some(LIMIT),
        deadline: Duration::from_secs(600),
        clock: Clock::Real,
        profile: true,
        counted_from: None,
        neighbour: None,
    }
}

impl Place {
    /// Runs the experiment in this process, with the lender that the program itself uses.
    fn conducted(&self, experiment: &Experiment) -> Vec<TrialRun> {
        experiment.check().unwrap();
        let state = self.folder.path().join("state");
        std::fs::create_dir_all(&state).unwrap();
        let mut loans = HostLoans::open_in(&state, false).unwrap();
        let (stop, mut on_event) =
            (AtomicBool::new(false), |_: &TrialEvent| ControlFlow::Continue(()));
        let mut control = Control { stop: &stop, on_event: &mut on_event };
        let ExperimentRuns { runs, trouble } =
            conduct(experiment, Some(&mut loans.session), &mut control);
        assert_eq!(loans.end(), Vec::<String>::new(), "all went back as it came");
        assert!(trouble.is_none(), "{trouble:?}");
        runs
    }
}

/// Arms with two tiers, with a file, and without swap, for a command that does not fit into its
/// limit.
#[test]
fn arms_bring_their_own_swap_and_the_one_without_is_killed() {
    let place = Place::new();
    let zram = TrialSwap::Zram {
        size_bytes: 8 << 20,
        algorithm: None,
        mem_limit_bytes: None,
        writeback: None,
        priority: None,
    };
    let file = TrialSwap::File { size_bytes: 64 << 20, priority: None };
    let experiment = eating(vec![
        arm("off", Some(Vec::new())),
        arm("tiers", Some(vec![zram, file.clone()])),
        arm("file", Some(vec![file])),
    ]);
    let runs = place.conducted(&experiment);
    place.lent.assert_zram_went_back();
    assert!(!place.folder.path().join("state").read_dir().unwrap().any(is_journal));
    assert!(!Path::new("/var/tmp").read_dir().unwrap().any(is_swap_of_ours));
    let of = |name: &str| runs.iter().filter(move |run| run.arm == name).collect::<Vec<_>>();
    assert_eq!(of("off").len(), 2, "its warm-up is its answer");
    for run in of("off") {
        assert!(matches!(run.end, RunEnd::OutOfMemory { .. }), "{run:?}");
        assert_eq!(run.victims.first().map(String::as_str), Some("tail"), "{run:?}");
        assert_eq!(run.values["swap-used"], 0.0);
    }
    for run in [of("tiers"), of("file")].concat() {
        assert_eq!(run.end, RunEnd::Exited { status: 0 });
        assert!(run.victims.is_empty(), "{run:?}");
        let used = run.values["swap-used"];
        assert!(used > f64::from(8 << 20) && used <= f64::from(72 << 20), "{used}");
        assert!(run.values["swapped-out"] > 2048.0, "{run:?}");
        let pool = run.values.get("pool").copied();
        // text is compressible
        let is_small = |pool: f64| pool > 0.0 && pool < f64::from(8 << 20);
        assert_eq!(pool.is_some_and(is_small), run.arm == "tiers", "{run:?}");
        assert_eq!(pool.is_some(), run.arm == "tiers", "{run:?}");
    }
    let trial = judge(&experiment, &runs);
    assert_eq!(trial.dropped[0].why, "killed for lack of memory in 2 of 2 runs");
    assert_eq!((&*trial.arms[0].name, trial.pairs), ("tiers", 2));
    assert!(trial.notes.iter().any(|note| note.contains("compared with tiers")));
}

/// The parameters of zswap, each with its value.
fn zswap_parameters() -> Vec<String> {
    let folder = Path::new("/sys/module/zswap/parameters").read_dir().expect("a kernel with zswap");
    let value = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        format!("{}={}", path.display(), read(&path.display().to_string()))
    };
    let mut values: Vec<String> = folder.map(value).collect();
    values.sort();
    values
}

/// The value of this name in /proc/meminfo.
fn meminfo(name: &str) -> String {
    let text = read("/proc/meminfo");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line of meminfo");
    line.trim_start_matches(':').trim().to_owned()
}

/// One arm has zswap in front of its file, the other the file alone: zswap stores pages, which are
/// then not written to the file, and swap-ins are counted in the same way. Afterwards zswap is off
/// and empty, as before.
#[test]
fn an_arm_with_zswap_has_its_pages_there_and_the_other_none() {
    let (place, before) = (Place::new(), zswap_parameters());
    let file = TrialSwap::File { size_bytes: 64 << 20, priority: None };
    let compressor = read("/sys/module/zswap/parameters/compressor").trim().to_owned();
    let zswap =
        TrialSwap::Zswap(ZswapSpec { max_pool_percent: Some(30), ..ZswapSpec::new(compressor) });
    let arms = vec![arm("file", Some(vec![file.clone()])), arm("zswap", Some(vec![zswap, file]))];
    let metrics = vec![Metric::parse("disk-swap-writes").unwrap()];
    let experiment = Experiment { metrics, ..eating(arms) };
    let runs = place.conducted(&experiment);
    assert_eq!(zswap_parameters(), before);
    assert!(place.lent.all().iter().any(|thing| matches!(thing, Thing::Swap { .. })));
    assert_eq!(place.lent.there(), []);
    assert_eq!(meminfo("Zswapped"), "0 kB");
    let of = |name: &str| runs.iter().filter(move |run| run.arm == name).collect::<Vec<_>>();
    for run in of("zswap") {
        assert!(run.values["zswap-out"] > 2048.0, "{run:?}");
        assert_eq!(run.values["disk-swap-writes"], 0.0, "all of it fits into the pool: {run:?}");
        assert_eq!(run.values["refused-share"], 0.0, "{run:?}");
        let pool = run.values["pool"];
        assert!(pool > 4096.0 && pool < f64::from(32 << 20), "text shrinks: {run:?}");
        assert!(run.host_wide.iter().any(|name| name == "swap-ins"), "{run:?}");
    }
    for run in of("file") {
        assert_eq!(run.values["zswap-out"], 0.0, "{run:?}");
        assert!(run.values["disk-swap-writes"] > 2048.0, "{run:?}");
        assert_eq!(run.values["disk-swap-writes"], run.values["swapped-out"], "{run:?}");
        assert!(
            !run.values.contains_key("pool") && !run.values.contains_key("refused-share"),
            "{run:?}"
        );
    }
    let trial = judge(&experiment, &runs);
    let metric = |name: &str| trial.metrics.iter().find(|metric| metric.name == name).unwrap();
    assert!(metric("swapped-out").lack.as_deref().unwrap().contains("disks only"), "{trial:?}");
    assert_eq!(metric("swap-ins").lack, None);
}

/// A compressor that the kernel lacks is refused before anything runs, and nothing stays changed.
#[test]
fn an_arm_whose_compressor_the_kernel_lacks_is_refused() {
    let (place, before) = (Place::new(), zswap_parameters());
    let swap = "swap=zswap:nosuch+file:64M";
    let ended =
        place.output(&["trial", "--a", "swap=off", "--b", swap, "--memory", "32M", "--", "true"]);
    assert_eq!(ended.status.code(), Some(1), "{}", said(&ended));
    assert!(said(&ended).contains("zswap.compressor = nosuch"), "{}", said(&ended));
    assert_eq!(zswap_parameters(), before);
}

/// The kernel log covers the whole host: killed processes of other cgroups must not count.
#[test]
fn neighbours_that_are_killed_meanwhile_are_no_victims() {
    let mut place = Place::new();
    let memory = Path::new("/sys/fs/cgroup/memory");
    let (mount, limit) = if memory.exists() {
        (memory, "memory.limit_in_bytes")
    } else {
        (Path::new("/sys/fs/cgroup"), "memory.max")
    };
    let neighbour = mount.join(format!("pagewise-test-neighbour-{}", std::process::id()));
    let shown = neighbour.display();
    place
        .loans
        .promise(&format!("for i in $(seq 600); do rmdir '{shown}' && break; sleep 0.1; done"));
    note_made(&Thing::Path(neighbour.clone()));
    std::fs::create_dir(&neighbour).unwrap();
    crate::machine::write(&format!("{shown}/{limit}"), "8M");
    let status = place.folder.path().join("status");
    let is_killed = format!(
        "sh -c 'echo $$ > {shown}/cgroup.procs; exec dd if=/dev/zero of=/dev/null bs=64M count=1'; \
         echo $? >> {}; ",
        status.display()
    );
    let program = |script: &str| Some(Program::from_words(&["sh", "-c", script]));
    let both = TrialArm {
        program: program(&(is_killed.clone() + EATER)),
        ..arm("both", Some(Vec::new()))
    };
    let neighbours =
        TrialArm { program: program(&(is_killed + "true")), ..arm("neighbours", Some(Vec::new())) };
    let third = arm("third", Some(Vec::new()));
    let third = TrialArm { program: program("true"), ..third };
    let runs = place.conducted(&eating(vec![neighbours, third, both]));
    let killed = std::fs::read_to_string(&status).unwrap();
    let of = |name: &str| runs.iter().filter(move |run| run.arm == name).collect::<Vec<_>>();
    let started = of("both").len() + of("neighbours").len();
    assert!(started > 4 && killed == "137\n".repeat(started), "{started} neighbours: {killed}");
    for run in of("neighbours") {
        assert_eq!(run.end, RunEnd::Exited { status: 0 }, "{run:?}");
        assert!(run.victims.is_empty(), "{run:?}");
    }
    for run in of("both") {
        assert!(matches!(run.end, RunEnd::OutOfMemory { .. }), "{run:?}");
        assert_eq!(run.victims.first().map(String::as_str), Some("tail"), "{run:?}");
        assert!(!run.victims.iter().any(|name| name == "dd"), "{run:?}");
    }
}

fn is_swap_of_ours(entry: std::io::Result<std::fs::DirEntry>) -> bool {
    let ours = format!("pagewise-swap-{}-", std::process::id());
    entry.unwrap().file_name().to_string_lossy().starts_with(&ours)
}

fn is_journal(entry: std::io::Result<std::fs::DirEntry>) -> bool {
    entry.unwrap().file_name().to_string_lossy().ends_with(".journal")
}

/// Swap of somebody else (here a device of the test) is on: an arm without swap must not use it.
#[test]
fn an_arm_without_swap_uses_none_although_the_host_has_some() {
    let mut place = Place::new();
    let device = format!("/dev/zram{}", place.loans.zram("64M"));
    crate::machine::run("mkswap", &[&device]);
    place.loans.swap_on(&device, 5);
    let swappiness = vec![parse_setting("vm.swappiness=100").unwrap()];
    let own = TrialArm { settings: swappiness, ..arm("hosts", None) };
    let twice = arm("again", None);
    let runs = place.conducted(&eating(vec![own, twice, arm("none", Some(Vec::new()))]));
    for run in &runs {
        let is_none = run.arm == "none";
        assert_eq!(matches!(run.end, RunEnd::OutOfMemory { .. }), is_none, "{run:?}");
        assert_eq!(run.values["swap-used"] == 0.0, is_none, "{run:?}");
    }
    // an arm with its own swap would share the host's: that is refused
    let shares = vec![TrialSwap::File { size_bytes: 1 << 20, priority: None }];
    let arms = vec![arm("a", None), arm("b", None), arm("c", Some(shares))];
    let runs =
        place.conducted(&Experiment { program: Program::from_words(&["true"]), ..eating(arms) });
    let refused = runs.iter().find_map(|run| run.refused.clone()).unwrap();
    assert!(refused.contains("the host's own swap is on"), "{refused}");
    drop(place);
}

/// Without a cgroup, the processes can only be found by their process group.
#[test]
fn killed_without_root_it_leaves_no_processes() {
    let place = Place::new();
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let copy = folder.path().join("pagewise");
    let program = std::env::var("PAGEWISE_STATIC");
    let program = program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_pagewise").to_owned());
    std::fs::copy(program, &copy).unwrap();
    crate::machine::run("chmod", &["777", &folder.path().display().to_string()]);
    let pids = folder.path().join("pids");
    let script = format!("echo $$ > {0}; sleep 999 & echo $! >> {0}; wait", pids.display());
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&copy);
    command.args(["trial", "--aa", "--", "sh", "-c", &script]);
    let mut trial = Killed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_for(|| pids_in(&pids).len() == 2);
    trial.kill();
    wait_for(|| pids_in(&pids).iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
    drop(place);
}

#[test]
fn a_command_that_its_limit_kills_is_told() {
    let place = Place::new();
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=1"];
    let ended = place.output(&[&["trial", "--aa", "--memory", "16M", "--"][..], &dd].concat());
    assert_eq!(ended.status.code(), Some(1));
    assert!(said(&ended).contains("killed for lack of memory"), "{}", said(&ended));
}

/// The settings are restored by the next undo; the command and its children end.
#[test]
fn killed_it_leaves_nothing() {
    let (place, before) = (Place::new(), read(KNOB));
    let pids = place.folder.path().join("pids");
    let script =
        format!("echo $$ > {0}; setsid sh -c 'echo $$ >> {0}; sleep 999' & wait", pids.display());
    let arguments = ["trial", "--a", "vm.extfrag_threshold=600", "--", "sh", "-c", &script];
    let mut command = place.command(&arguments);
    let mut trial = Killed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_for(|| pids_in(&pids).len() == 2);
    assert_eq!(read(KNOB), "600");
    trial.kill();
    let undone = place.output(&["undo"]);
    assert!(undone.status.success(), "{}", said(&undone));
    assert_eq!(read(KNOB), before);
    wait_for(|| pids_in(&pids).iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
}

/// If somebody else changed a setting meanwhile, the message must not claim that everything was
/// restored.
#[test]
fn stopped_it_says_what_was_not_given_back() {
    let (mut place, before) = (Place::new(), read(KNOB));
    place.loans.setting(KNOB, &before);
    let script = format!("echo 777 > {KNOB}; exec sleep 600");
    let options = ["trial", "--a", "vm.extfrag_threshold=400", "--b", "vm.extfrag_threshold=600"];
    let mut command = place.command(&[&options[..], &["--", "sh", "-c", &script]].concat());
    let mut trial = Killed(command.stderr(Stdio::piped()).spawn().unwrap());
    wait_for(|| read(KNOB) == "777");
    kill_process(Pid::from_child(&trial.0), Signal::INT).unwrap();
    let status = trial.0.wait().unwrap();
    let mut told = String::new();
    trial.0.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(status.code(), Some(130), "{told}");
    for words in [
        "vm.extfrag_threshold",
        "somebody has set 777 since",
        "next   `pagewise undo`",
        "stopped after 0 of 7 pairs; what is named above was not given back",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(place.output(&["undo"]).status.success());
}

/// A process that is killed when the test ends.
struct Killed(Child);

impl Killed {
    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.kill();
    }
}

fn pids_in(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn wait_for(what: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !what() {
        assert!(Instant::now() < until, "waited for a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// If the disk is full, the evidence is lost but the answer is printed.
#[test]
fn a_full_disk_costs_the_folder_and_not_the_answer() {
    let mut place = Place::new();
    let evidence = place.small_disk().join("evidence").display().to_string();
    let ended = place.output(&["trial", "--aa", "--evidence", &evidence, "--", "true"]);
    assert_eq!(ended.status.code(), Some(1), "{}", said(&ended));
    let answer = String::from_utf8_lossy(&ended.stdout);
    assert!(answer.contains("7 pairs in random order"), "{answer}");
    assert!(said(&ended).contains("runs.jsonl: No space left"), "{}", said(&ended));
}

#[test]
fn a_setting_that_this_kernel_lacks_is_refused_with_the_reason() {
    let place = Place::new();
    let lacks = |path: &str| !path.contains('{') && !Path::new("/").join(path).exists();
    let missing = KNOBS.iter().find(|knob| {
        let takes_1 = matches!(knob.domain, Domain::Bool | Domain::Int { min: ..=1, max: 1.. });
        takes_1 && knob.access == Access::ReadWrite && lacks(knob.path)
    });
    let name = missing.expect("no kernel has all settings, new ones and removed ones").name;
    let ended = place.output(&["trial", "--b", &format!("{name}=1"), "--", "true"]);
    assert_eq!(ended.status.code(), Some(1));
    let message = said(&ended);
    assert!(message.contains("arm b cannot be tried here") && message.contains(name), "{message}");
}

#[test]
fn others_may_not_set_anything() {
    let place = Place::new();
    let program = std::env::var("PAGEWISE_STATIC");
    let program = program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_pagewise").to_owned());
    let copy = Path::new("/tmp").join(format!("pagewise-trial-{}", std::process::id()));
    std::fs::copy(program, &copy).unwrap();
    let ended = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&copy)
        .args(["trial", "--b", "vm.swappiness=1", "--", "true"])
        .output();
    std::fs::remove_file(&copy).unwrap();
    let ended = ended.unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(said(&ended).contains("borrowed by root only"), "{}", said(&ended));
    drop(place);
}
