// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise agent` as any user runs it: its configuration, its files, signals, and kills. What it does
//! to a cgroup is tested in guests.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::program::pagewise;

/// A cgroup that is on no host.
const NONE: &str = "[aging.\"/pagewise-nonesuch\"]\ninterval = \"2s\"\n";

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(configuration: &str) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        place.write("agent.toml", configuration);
        place
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = pagewise(&[&["agent"], arguments].concat());
        command.env("PAGEWISE_STATE", self.path().join("state"));
        command.env("PAGEWISE_LOCK", self.path().join("lock"));
        command
    }

    /// Runs it to its end; what it printed, and whether it succeeded.
    fn run(&self, arguments: &[&str]) -> (String, bool) {
        let config = self.path().join("agent.toml");
        let named = ["--config", config.to_str().unwrap()];
        let is_status = matches!(arguments.first(), Some(&"status" | &"proof"));
        let all = if is_status { arguments.to_vec() } else { [&named, arguments].concat() };
        let ran = self.command(&all).output().unwrap();
        let text = [ran.stdout, ran.stderr].concat();
        (String::from_utf8(text).unwrap(), ran.status.success())
    }

    fn start(&self) -> Running {
        let config = self.path().join("agent.toml");
        let mut command = self.command(&["--config", config.to_str().unwrap()]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Running { child, lines }
    }

    fn status(&self) -> serde_json::Value {
        let (text, is_success) = self.run(&["status", "--json"]);
        assert!(is_success, "{text}");
        serde_json::from_str(&text).unwrap()
    }
}

struct Running {
    child: Child,
    lines: BufReader<ChildStderr>,
}

impl Running {
    /// Reads lines until one contains `text`.
    fn wait_for(&mut self, text: &str) -> String {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            if line.contains(text) {
                return line;
            }
            line.clear();
        }
        panic!("it ended before it said {text:?}");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(mut self) {
        self.signal(Signal::TERM);
        self.wait_for("ended");
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn a_configuration_is_checked_without_running() {
    let place = Place::new("[budget]\ncpu_seconds_per_minute = 0.5\n");
    let (text, is_success) = place.run(&["--check"]);
    assert!(is_success && text.contains("nothing is switched on"), "{text}");
    place.write("agent.toml.d/20-web.conf", "[aging.\"/web\"]\nagings_per_hour = 4\n");
    place.write("agent.toml.d/30-web.toml", "[aging.\"/web\"]\nagings_per_hour = 5\n");
    place.write("agent.toml.d/10-web.toml", "[aging.\"/web\"]\nagings_per_hour = 3\n");
    place.write("agent.toml.d/99-web.toml.bak", "no TOML");
    let (text, is_success) = place.run(&["--check"]);
    assert!(
        is_success && text.contains("/web: from 50 refaults/s, at most 5 agings per hour"),
        "{text}"
    );
    let order = ["agent.toml\n", "10-web.toml", "20-web.conf", "30-web.toml"]
        .map(|name| text.find(name).unwrap());
    assert!(order.is_sorted(), "{text}");
    assert!(!place.path().join("state").exists() && !place.path().join("lock").exists());
    let device = "[zram.zram7]\nflash_per_day = \"64M\"\n";
    place.write("agent.toml.d/35-zram.toml", device);
    let (text, is_success) = place.run(&["--check"]);
    let expected =
        "aging is switched on for 1 cgroup; the loop for zram is switched on for 1 device";
    assert!(is_success && text.contains(expected), "{text}");
    let expected =
        "zram7: pages unused for 60 min, recompressed, at most 64.0 MiB per day written to flash";
    assert!(text.contains(expected), "{text}");
    place.write("agent.toml.d/40-typo.toml", "\n[aging.\"/web\"]\nintervall = \"5s\"\n");
    for arguments in [&["--check"][..], &[]] {
        let (text, is_success) = place.run(arguments);
        assert!(!is_success, "{text}");
        let expected = "40-typo.toml:3: aging.\"/web\".intervall: no such key is known; did you mean interval?";
        assert!(text.contains(expected) && text.contains("\n  next   "), "{text}");
    }
    let missing = place.path().join("nonesuch.toml");
    let ran = place.command(&["--check", "--config", missing.to_str().unwrap()]).output().unwrap();
    assert!(!ran.status.success());
}

#[test]
fn one_decision_is_made_and_dry_run_writes_nothing() {
    let place = Place::new(NONE);
    let (text, is_success) = place.run(&["--once", "--dry-run"]);
    assert!(is_success && text.contains("/pagewise-nonesuch: "), "{text}");
    assert!(!place.path().join("state").exists() && !place.path().join("lock").exists());
    assert_eq!(place.status()["agent"], serde_json::Value::Null);
    let (text, is_success) = place.run(&["--once"]);
    assert!(is_success && text.contains("/pagewise-nonesuch: "), "{text}");
    let status = place.status();
    assert_eq!(status["is_running"], false);
    assert_eq!(status["agent"]["targets"][0]["target"], "/pagewise-nonesuch");
    let log = std::fs::read_to_string(place.path().join("state/agent.log")).unwrap();
    assert!(log.lines().count() == 3 && log.contains(" UTC /pagewise-nonesuch: "), "{log}");
}

#[test]
fn a_second_agent_is_refused_and_a_bad_configuration_changes_nothing() {
    let place = Place::new(NONE);
    let mut first = place.start();
    first.wait_for("started; aging is switched on for 1 cgroup");
    let (text, is_success) = place.run(&[]);
    assert!(!is_success && text.contains("another agent runs on this machine"), "{text}");
    place.write("agent.toml", "[agin]\n");
    first.signal(Signal::HUP);
    let line = first.wait_for("configuration refused, the one before stays in force");
    assert!(
        line.contains("agent.toml:1: agin: no such section is known; did you mean aging?"),
        "{line}"
    );
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while place.status()["agent"]["refused_configuration"].is_null() {
        assert!(std::time::Instant::now() < until, "the state says nothing of it");
        std::thread::sleep(Duration::from_millis(50));
    }
    let status = place.status();
    assert_eq!(status["is_running"], true);
    assert_eq!(status["agent"]["targets"][0]["target"], "/pagewise-nonesuch");
    let (text, _) = place.run(&["status"]);
    assert!(text.contains("runs as process") && text.contains("stays in force"), "{text}");
    place.write("agent.toml", "[budget]\ncpu_seconds_per_minute = 1\n");
    first.signal(Signal::HUP);
    first.wait_for("read its configuration again; nothing is switched on");
    first.end();
    let status = place.status();
    assert!(status["agent"]["refused_configuration"].is_null(), "{status}");
    assert_eq!(status["agent"]["targets"], serde_json::json!([]));
    assert_eq!(status["is_running"], false);
}

/// An agent that is killed leaves a state that can be read, no lock, and no other files.
#[test]
fn kills_leave_nothing_but_its_files() {
    let place = Place::new(NONE);
    let kills: u32 =
        std::env::var("PAGEWISE_AGENT_KILLS").map_or(12, |kills| kills.parse().unwrap());
    for kill in 0..kills {
        let mut agent = place.start();
        // from before its first line to after its first decision
        if kill % 3 > 0 {
            agent.wait_for("started");
        }
        if kill % 3 > 1 {
            agent.wait_for("/pagewise-nonesuch: ");
        }
        std::thread::sleep(Duration::from_micros(fastrand::u64(0..3000)));
        agent.child.kill().unwrap();
        agent.child.wait().unwrap();
        assert_eq!(place.status()["is_running"], false);
    }
    place.start().wait_for_and_end("started");
    let names = |folder: &str| {
        let entries = std::fs::read_dir(place.path().join(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names("state"), ["agent.log"]);
    let mut run = names("lock");
    // a kill between the two steps in which the state is replaced leaves the new one unnamed
    run.retain(|name| name != "agent.json.new");
    assert_eq!(run, ["agent.json", "agent.lock"]);
}

/// A loop on a cgroup that is on no host, which is proved.
const PROVED: &str = "[aging.\"/pagewise-nonesuch\"]\ninterval = \"2s\"\n\
                      [switchback.aging]\ncgroup = \"/pagewise-nonesuch\"\n";

/// Makes the agent write its record, and returns it.
fn record(place: &Place) -> serde_json::Value {
    place.start().wait_for_and_end("started");
    let text = std::fs::read(place.path().join("state/agent.switchback")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn what_switchback_measured_survives_a_restart_and_harm_switches_the_loop_off() {
    let place = Place::new(PROVED);
    let mut planted = record(&place);
    let seed = planted["aging"]["seed"].as_u64().unwrap();
    assert_eq!(record(&place)["aging"]["seed"], seed, "the plan stays");
    let (text, is_success) = place.run(&["proof"]);
    assert!(is_success && text.contains("not shown yet: needs 3"), "{text}");
    // blocks of 32 days until today in which the loop made the work a tenth worse
    let day = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
        / 86_400;
    let start = (day - 32).next_multiple_of(2);
    let hour = Duration::from_secs(3600);
    let plan = pagewise_stats::switchback::SwitchbackPlan::new(seed, hour * 4, hour / 2).unwrap();
    let blocks: Vec<serde_json::Value> = (start..day)
        .flat_map(|day| (0..6).map(move |number| (day, number)))
        .map(|(day, number)| {
            let is_on = plan.is_on(pagewise_stats::switchback::Block { day, number });
            let noise = (day * 7 + number * 5) as f64 % 13.0 / 1000.0;
            let work = if is_on { 1.1 } else { 1.0 } + noise;
            serde_json::json!({"day": day, "number": number, "work": work, "refaults": 1.0, "memory": 1e6})
        })
        .collect();
    planted["aging"]["start"] = start.into();
    planted["aging"]["blocks"] = blocks.into();
    place.write("state/agent.switchback", &planted.to_string());
    let mut agent = place.start();
    agent.wait_for("aging: switchback: this loop harms, and is switched off");
    agent.wait_for("/pagewise-nonesuch: switched off: switchback has shown that this loop harms");
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while place.status()["agent"]["proofs"][0]["verdict"] != "harms" {
        assert!(std::time::Instant::now() < until, "the state says nothing of it");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut metrics = pagewise(&["metrics"]);
    metrics.env("PAGEWISE_STATE", place.path().join("state"));
    let metrics = metrics.env("PAGEWISE_LOCK", place.path().join("lock")).output().unwrap();
    let metrics = String::from_utf8(metrics.stdout).unwrap();
    assert!(metrics.contains("pagewise_agent_loop_verdict{loop=\"aging\"} 3.0"), "{metrics}");
    assert!(metrics.contains("pagewise_agent_loop_on{loop=\"aging\"} 0.0"), "{metrics}");
    agent.end();
    assert!(record(&place)["aging"]["stopped"].is_u64(), "also after a restart");
    let status = place.status();
    let proof = &status["agent"]["proofs"][0];
    assert_eq!((&proof["verdict"], &proof["is_on"]), (&"harms".into(), &false.into()), "{proof}");
    assert!((proof["work"]["ratio"].as_f64().unwrap() - 1.1).abs() < 0.02, "{proof}");
    let (text, _) = place.run(&["proof"]);
    assert!(text.contains("aging   harms; ") && text.contains("switched off"), "{text}");
    assert!(text.contains("CPU time of /pagewise-nonesuch per second, less is better: "), "{text}");
}

#[test]
fn a_damaged_record_of_switchback_begins_anew_and_says_so() {
    let place = Place::new(PROVED);
    let seed = record(&place)["aging"]["seed"].clone();
    for damage in ["", "{\"aging\": {\"seed\": 1", "[]", "{\"aging\": 3}"] {
        place.write("state/agent.switchback", damage);
        let mut agent = place.start();
        let line = agent.wait_for("switchback begins anew");
        assert!(line.contains("agent.switchback"), "{line}");
        agent.end();
    }
    assert_ne!(record(&place)["aging"]["seed"], seed);
}

#[test]
fn a_proof_is_checked_and_a_dry_run_switches_nothing() {
    let place = Place::new(PROVED);
    let (text, is_success) = place.run(&["--check"]);
    assert!(is_success && text.contains("switchback proves whether aging pays"), "{text}");
    let expected = "aging: on and off in blocks of 240 min, of which the first 30 min do not count; compares the CPU time of";
    assert!(text.contains(expected), "{text}");
    let (text, is_success) = place.run(&["--once", "--dry-run"]);
    assert!(is_success && !text.contains("switched off") && !text.contains("to compare"), "{text}");
    assert!(!place.path().join("state").exists());
    place.write("agent.toml.d/10.toml", "[switchback.aging]\nblock = \"7h\"\n");
    let (text, is_success) = place.run(&["--check"]);
    assert!(
        !is_success && text.contains("10.toml:1: switchback.aging: expected a block"),
        "{text}"
    );
}

impl Running {
    fn wait_for_and_end(mut self, text: &str) {
        self.wait_for(text);
        self.end();
    }
}
