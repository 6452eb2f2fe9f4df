// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise trial` and the commands that evaluate it again, as a user runs them. Needs no
//! privileges: no setting is changed. What root adds is tested in `tests/root/trial.rs`.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::program::{ProgramRun, empty_folder, finish, pagewise};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A folder for the evidence, and one for the state of loans.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(empty_folder())
    }

    fn evidence(&self) -> String {
        self.0.path().join("evidence").to_str().unwrap().to_owned()
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = pagewise(arguments);
        command.env("PAGEWISE_STATE", self.0.path().join("state"));
        command.env("PAGEWISE_LOCK", self.0.path().join("run"));
        command
    }

    fn run(&self, arguments: &[&str]) -> ProgramRun {
        finish(&mut self.command(arguments))
    }

    /// Compares A with A, with the fewest runs that give a result.
    fn trial(&self, options: &[&str], command: &[&str]) -> ProgramRun {
        self.run(&[&["trial", "--aa", "--warm-up", "1"], options, &["--"], command].concat())
    }
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

#[test]
fn wrong_usage_says_what_was_expected() {
    let place = Place::new();
    for (line, says) in [
        (&["trial"][..], "CMD"),
        (&["trial", "--b", "vm.swappiness", "--", "true"], "KNOB=VALUE"),
        (&["trial", "--b", "vm.swapiness=1", "--", "true"], "did you mean vm.swappiness?"),
        (&["trial", "--b", "vm.swappiness=1000", "--", "true"], "from 0 to 200"),
        (&["trial", "--aa", "--metric", "tiem", "--", "true"], "major-faults"),
        (&["trial", "--aa", "--metric", "(", "--", "true"], "regular expression"),
        (&["trial", "--aa", "--pairs", "0", "--", "true"], "--pairs"),
        (&["trial", "--aa", "--min-effect", "x", "--", "true"], "percentage"),
        (&["trial", "--aa", "--memory", "1", "--", "true"], "256M"),
        (&["lab", "compare", "a"], "DIR"),
    ] {
        let ran = place.run(line);
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{line:?}: {}", ran.err);
        assert!(ran.err.contains(says), "{line:?}: {}", ran.err);
    }
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    let place = Place::new();
    let folder = place.evidence();
    for (line, says) in [
        (&["trial", "--", "true"][..], "A and B are the same"),
        (
            &["trial", "--a", "vm.swappiness=1", "--b", "vm.swappiness=1", "--", "true"],
            "A and B are the same",
        ),
        (
            &["trial", "--b", "vm.swappiness=1", "--b", "vm.swappiness=2", "--", "true"],
            "sets vm.swappiness twice",
        ),
        (&["trial", "--aa", "--metric", "time", "--metric", "time", "--", "true"], "twice"),
        (&["trial", "--aa", "--higher-is-better", "--", "true"], "--higher-is-better"),
        (&["trial", "--aa", "--root", "/", "--", "true"], "a recording runs nothing"),
    ] {
        let ran = place.run(&[&line[..1], &["--evidence", &folder], &line[1..]].concat());
        assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{line:?}");
        assert!(ran.err.contains(says), "{line:?}: {}", ran.err);
    }
    assert!(!Path::new(&folder).exists());
}

#[test]
fn an_arm_that_sets_what_the_machine_has_compares_nothing() {
    let place = Place::new();
    // a setting that no other test changes
    let now = std::fs::read_to_string("/proc/sys/vm/dirty_expire_centisecs").unwrap();
    let same = format!("vm.dirty_expire_centisecs={}", now.trim());
    let ran = place.run(&["trial", "--b", &same, "--", "true"]);
    assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{}", ran.err);
    let says = format!("same on this machine: vm.dirty_expire_centisecs is {} already", now.trim());
    assert!(ran.err.contains(&says) && ran.err.contains("--aa"), "{}", ran.err);
}

#[test]
fn a_page_shows_the_runs_of_one_machine() {
    let several = concat!(env!("CARGO_MANIFEST_DIR"), "/../../evidence/2026-11-23-guests-swap-48m");
    let page = Place::new().evidence() + ".html";
    let ran = Place::new().run(&["lab", "replay", "--html", &page, several]);
    assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{}", ran.err);
    assert!(ran.err.contains("has the runs of 3 machines") && ran.err.contains("one of them"));
    assert!(!Path::new(&page).exists());
}

#[test]
fn the_answer_the_folder_and_the_replay_say_the_same() {
    let place = Place::new();
    let folder = place.evidence();
    let options = ["--json", "--pairs", "6", "--metric", "n=([0-9]+)", "--evidence", &folder];
    let ran = place.trial(&[&options[..], &["--keep-names"]].concat(), &["sh", "-c", "echo n=7"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(answer["schema"], "pagewise/trial/1");
    assert_eq!((&answer["verdict"], &answer["pairs"]), (&"equivalent".into(), &6.into()));
    assert_eq!(answer["metrics"][0]["interval"], serde_json::json!([1.0, 1.0]));
    assert_eq!(answer["runs"].as_array().unwrap().len(), 1 + 2 + 12);
    for name in ["cpu", "time", "major-faults"] {
        assert!(answer["runs"][0]["values"][name].is_number(), "{name}: {answer:#}");
    }
    let summary = std::fs::read(Path::new(&folder).join("summary.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&summary).unwrap(), answer);
    let page = std::fs::read_to_string(Path::new(&folder).join("report.html")).unwrap();
    assert!(page.contains("equivalent") && page.matches("<svg").count() == 3);

    let replayed = place.run(&["lab", "replay", &folder]);
    assert_eq!(replayed.status, 0, "{}", replayed.err);
    assert!(replayed.err.contains("the same as the folder's summary"), "{}", replayed.err);
    assert!(replayed.out.contains("EQUIVALENT"), "{}", replayed.out);
    let again = format!("{folder}/again.html");
    let paged = place.run(&["lab", "replay", "--html", &again, &folder]);
    assert_eq!((paged.status, paged.out.as_str()), (0, ""), "{}", paged.err);
    let pictures = |page: &str| page.split("<svg").skip(1).map(str::to_owned).collect::<Vec<_>>();
    let drawn = std::fs::read_to_string(&again).unwrap();
    let first = |page: &str| pictures(page)[0].split("</svg>").next().unwrap().to_owned();
    assert_eq!((first(&drawn), pictures(&drawn).len()), (first(&page), 3));
    let refused = place.run(&["lab", "replay", "--html", &again, &folder]);
    assert!(refused.err.contains("expected no file of that name"), "{}", refused.err);
    std::fs::remove_file(&again).unwrap();
    let compared = place.run(&["lab", "compare", "--json", &folder, &folder]);
    let document: Value = serde_json::from_str(&compared.out).unwrap();
    let metrics = document["metrics"].as_array().unwrap();
    assert!(metrics.iter().all(|metric| metric["agreement"] == "agree"), "{document:#}");

    // a folder that is not empty is refused
    let again = place.trial(&["--evidence", &folder], &["true"]);
    assert!(again.status == 1 && again.err.contains("expected an empty folder"), "{}", again.err);
}

/// As in a recording, the host name and boot ID are hashed and arguments left out, in every file.
#[test]
fn evidence_names_neither_the_host_nor_what_was_typed() {
    let place = Place::new();
    let folder = place.evidence();
    let options = ["--json", "--pairs", "6", "--evidence", &folder];
    let ran = place.trial(&options, &["sh", "-c", "true # quokka-secret"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let read = |path: &str| std::fs::read_to_string(path).unwrap().trim().to_owned();
    let host = read("/proc/sys/kernel/hostname");
    let boot = read("/proc/sys/kernel/random/boot_id");
    assert!(ran.out.contains(&boot) && ran.out.contains("quokka-secret"), "the answer says all");
    for name in ["experiment.json", "runs.jsonl", "summary.json", "report.html"] {
        let text = std::fs::read_to_string(Path::new(&folder).join(name)).unwrap();
        for secret in [format!("\"{host}\""), boot.clone(), "quokka".to_owned()] {
            assert!(!text.contains(&secret), "{name} holds {secret}");
        }
    }
    let document = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(Path::new(&folder).join(name)).unwrap()).unwrap()
    };
    let (described, summary) = (document("experiment.json"), document("summary.json"));
    assert_eq!(described["experiment"]["command"], serde_json::json!(["sh", "…", "…"]));
    assert_eq!(summary["command"], serde_json::json!(["sh", "…", "…"]));
    let hashed = &described["machine"]["host"]["name"]["value"];
    assert!(hashed.as_str().is_some_and(|name| name.starts_with("host-")), "{hashed}");
    assert_eq!(&summary["host"]["name"]["value"], hashed);
    let replayed = place.run(&["lab", "replay", &folder]);
    assert!(replayed.err.contains("the same as the folder's summary"), "{}", replayed.err);
}

#[test]
fn a_folder_that_was_changed_is_noticed() {
    let place = Place::new();
    let folder = place.evidence();
    let ran = place.trial(&["--pairs", "6", "--evidence", &folder], &["true"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let runs = Path::new(&folder).join("runs.jsonl");
    let text = std::fs::read_to_string(&runs).unwrap();

    // a kill may leave half a line at the end
    std::fs::write(&runs, format!("{text}{{\"number\":99,").as_bytes()).unwrap();
    assert_eq!(place.run(&["lab", "replay", &folder]).status, 0);

    let faster = text.replace("\"time\":0", "\"time\":7");
    std::fs::write(&runs, faster.as_bytes()).unwrap();
    let ran = place.run(&["lab", "replay", &folder]);
    assert!(ran.status == 1 && ran.err.contains("says otherwise in"), "{}", ran.err);

    std::fs::write(&runs, b"nonsense\n").unwrap();
    let ran = place.run(&["lab", "replay", &folder]);
    assert!(ran.status == 1 && ran.err.contains("runs.jsonl: line 1"), "{}", ran.err);
    let ran = place.run(&["lab", "replay", "/nowhere"]);
    assert!(ran.status == 1 && ran.err.contains("/nowhere/experiment.json"), "{}", ran.err);
}

#[test]
fn a_command_that_cannot_be_judged_says_why_and_what_to_do() {
    let place = Place::new();
    for (metric, command, says) in [
        ("time", &["surely-no-program"][..], "found none of that name"),
        ("time", &["sh", "-c", "echo oh no >&2; exit 4"], "exit status 4); it said: oh no"),
        ("x=([0-9]+)", &["echo", "y=7"], "matches nothing that the command says; it said: y=7"),
    ] {
        let ran = place.trial(&["--metric", metric], command);
        assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{command:?}");
        assert!(ran.err.contains(says) && ran.err.contains("\n  next   "), "{}", ran.err);
    }
}

/// The command does not receive the Ctrl-C itself; it is ended, and the completed runs are kept.
#[test]
fn ctrl_c_keeps_the_runs_and_exits_with_130() {
    let place = Place::new();
    let folder = place.evidence();
    let runs = Path::new(&folder).join("runs.jsonl");
    // so many that even a slow machine has not completed them all before the signal
    let arguments = ["trial", "--aa", "--pairs", "20", "--evidence", &folder, "--", "sleep", "0.3"];
    let mut command = place.command(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while lines(&runs) < 7 {
        assert!(Instant::now() < until, "waited for a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let output = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{output}");
    assert!(output.contains("stopped after") && output.contains("given back"), "{output}");
    assert!(ended.stdout.is_empty());
    let replayed = place.run(&["lab", "replay", &folder]);
    assert_eq!(replayed.status, 0, "{}", replayed.err);
    assert!(replayed.out.contains("stopped early: only"), "{}", replayed.out);
}

/// One trial on this machine; how often false alarms happen is tested on a simulated machine, in
/// the lab's `experiment::selftest`.
#[test]
fn selftest_tries_a_against_a_on_this_machine() {
    let place = Place::new();
    let ran = place.run(&["lab", "selftest", "--trials", "1", "--json"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(document["schema"], "pagewise/selftest/1");
    assert_eq!((&document["trials"], &document["pairs"]), (&1.into(), &7.into()));
    assert_eq!(document["stopped"], false);
    // one false alarm in one trial may be chance
    assert_eq!(document["sound"], true, "{document:#}");
    let metrics = document["metrics"].as_array().unwrap();
    let names: Vec<&str> = metrics.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["time", "cpu", "major-faults"]);
    for metric in &metrics[..2] {
        assert!(metric["run_spread"].as_f64().unwrap() > 0.0, "{metric}");
        let detectable = |with: &str| metric[with].as_f64().unwrap();
        assert!(detectable("detectable_with_20") < detectable("detectable_with_7"), "{metric}");
    }
    assert!(metrics.iter().all(|metric| metric["false_alarms"].as_u64().unwrap() <= 1));
    let seconds = document["seconds"].as_f64().unwrap();
    assert!(seconds > 0.0, "{seconds}");
    assert_eq!(place.run(&["lab", "selftest", "--trials", "0"]).status, 2);
}
