// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures swap-in on this machine, and checks that nothing is left behind.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use crate::example::example;
use crate::faults::{check, image, number, pages_per_fault, tell};
use crate::machine::{Thing, read, take_turn};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const CLUSTERS: [u64; 4] = [0, 1, 2, 3];
const PAGES: u64 = 2048;

const CLUSTER: &str = "/proc/sys/vm/page-cluster";

/// A run of the example `swap_faults`, and the folder for its tokens.
struct Run {
    child: Child,
    told: BufReader<ChildStderr>,
    tokens: tempfile::TempDir,
}

impl Run {
    fn start(image: &Path, arguments: &[&str]) -> Self {
        take_turn();
        let tokens = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut command = Command::new(example("swap_faults"));
        command.arg(format!("image={}", image.display()));
        command.arg(format!("tokens={}", tokens.path().display())).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let listed = BufReader::new(child.stderr.take().unwrap());
        Self { child, told: listed, tokens }
    }

    /// All loans that it has made so far.
    fn lent(&self) -> Vec<Thing> {
        let list = std::fs::read_to_string(self.tokens.path().join("lent")).unwrap_or_default();
        list.lines().filter_map(Thing::parse).collect()
    }

    /// Those of its loans that exist now.
    fn there(&self) -> Vec<Thing> {
        self.lent().into_iter().filter(Thing::is_there).collect()
    }

    /// Waits until this many measurements were made.
    fn until(&mut self, done: u32) {
        let requested = format!("{done} of ");
        let mut line = String::new();
        while !line.starts_with(&requested) {
            line.clear();
            assert!(self.told.read_line(&mut line).unwrap() > 0, "it ended before {done}");
        }
    }

    fn finish(mut self) -> Value {
        let mut listed = String::new();
        self.told.read_to_string(&mut listed).unwrap();
        let mut out = Vec::new();
        self.child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {listed}");
        assert!(!self.lent().is_empty() && self.there().is_empty(), "left: {:?}", self.there());
        serde_json::from_slice(&out).unwrap()
    }

    /// Its children in the cgroup: the workers, not the children of workers.
    fn workers(&self) -> Vec<u32> {
        let own = self.child.id();
        let is_child = |pid: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line == format!("PPid:\t{own}"))
        };
        let folders = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
        let members = folders.map(|folder| {
            let path = format!("{folder}/pagewise-faults-{own}/cgroup.procs");
            std::fs::read_to_string(path).unwrap_or_default()
        });
        let pids = members.iter().flat_map(|text| text.lines()).filter_map(|pid| pid.parse().ok());
        pids.filter(is_child).collect()
    }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let image = image(folder.path(), PAGES);
    (folder, image)
}

fn kill(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::KILL).is_ok()
}

/// The numbers of measurements that were made and that failed; each combination must be there once
/// per round.
fn accounted(found: &Value) -> (u64, u64) {
    let sum = |list: &str, name: &str| {
        found[list].as_array().unwrap().iter().map(|one| one[name].as_u64().unwrap()).sum()
    };
    (sum("rows", "rounds"), sum("troubles", "times"))
}

fn reasons(found: &Value) -> Vec<&str> {
    let all = found["troubles"].as_array().unwrap().iter();
    all.map(|trouble| trouble["why"].as_str().unwrap()).collect()
}

#[test]
fn swap_is_measured_and_nothing_is_left() {
    let before = read(CLUSTER);
    let (folder, image) = folder();
    let on_disk = format!("folder={}", folder.path().display());
    let found = Run::start(&image, &["pages=2048", "rounds=2", &on_disk]).finish();
    assert_eq!(read(CLUSTER), before);
    check(&found, 2, PAGES, &CLUSTERS);
    tell("here", &found, &CLUSTERS);
    for row in found["rows"].as_array().unwrap() {
        // a guest's CPU clock may be too coarse for this
        let times = ["p50_ns", "mean_ns", "in_cpu_ns_per_page", "out_cpu_ns_per_page"];
        assert!(times.iter().all(|name| number(&row[*name]) > 0.0), "{row}");
    }
    for order in crate::faults::ORDERS {
        let private = pages_per_fault(&found, "private", order, &CLUSTERS);
        assert!(private.iter().all(|one| (0.98..=1.02).contains(one)), "{order}: {private:?}");
    }
    let ratio = &found["ratios"][0];
    assert!((0.95..=1.01).contains(&number(&ratio["file_faults_per_page"])), "{ratio}");
    assert!(number(&ratio["swap_ns_per_page"]) > 0.0 && number(&ratio["swappiness"]) <= 200.0);
    assert!(folder.path().read_dir().unwrap().count() == 1, "only the image is there");
}

#[test]
fn killed_at_any_moment_nothing_is_left() {
    let before = read(CLUSTER);
    let (_folder, image) = folder();
    for (done, milliseconds) in [(0, 0), (1, 0), (1, 20), (4, 5), (7, 40), (12, 10)] {
        let mut run = Run::start(&image, &["pages=2048", "rounds=5"]);
        run.until(done);
        std::thread::sleep(Duration::from_millis(milliseconds));
        let workers = run.workers();
        // stopped, so that nothing is created or removed between reading the list and the kill
        kill_process(Pid::from_child(&run.child), Signal::STOP).unwrap();
        let lent = run.there();
        run.child.kill().unwrap();
        run.child.wait().unwrap();
        // the cgroup exists before the first measurement
        assert!(!lent.is_empty(), "killed after {done}, while nothing was borrowed");
        // the helper that undoes loans and the kernel's signals to the workers take some time
        let is_back = (0..6000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            run.there().is_empty() && read(CLUSTER) == before
        });
        assert!(is_back, "killed after {done}: {:?} are left", run.there());
        // they may be zombies until the process that inherits them has reaped them
        let lives = |pid: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.contains("State:") && !status.contains("State:\tZ")
        };
        assert!(!workers.iter().any(lives), "{workers:?}");
    }
}

#[test]
fn a_killed_worker_costs_its_round_and_the_rest_comes() {
    let (_folder, image) = folder();
    let mut run = Run::start(&image, &["pages=2048", "rounds=2", "clusters=0,3"]);
    run.until(3);
    // several, because one may have answered already and be about to end
    let mut killed = BTreeSet::new();
    while killed.len() < 8 && run.child.try_wait().unwrap().is_none() {
        let workers = run.workers().into_iter().filter(|pid| !killed.contains(pid));
        let now: Vec<u32> = workers.filter(|pid| kill(*pid)).collect();
        killed.extend(now);
        std::thread::sleep(Duration::from_millis(1));
    }
    let found = run.finish();
    let (measured, lost) = accounted(&found);
    assert_eq!(found["ended"], "complete");
    assert!((1..=8).contains(&lost), "{killed:?} killed: {}", found["troubles"]);
    assert!(reasons(&found).iter().all(|why| why.contains("signal 9")), "{}", found["troubles"]);
    assert_eq!(measured + lost, 2 * 12);
}

#[test]
fn what_cannot_be_measured_is_said() {
    let before = read(CLUSTER);
    let (folder, image) = folder();
    let run = |arguments: &[&str]| {
        Run::start(&image, &[&["pages=2048", "rounds=1", "clusters=0"], arguments].concat())
            .finish()
    };
    let tight = run(&["limit=4194304"]);
    assert_eq!(accounted(&tight), (0, 7), "six and the warm-up: {tight}");
    assert!(reasons(&tight).iter().all(|why| why.contains("limit")), "{tight}");

    let full = run(&["disksize=4194304"]);
    assert_eq!(accounted(&full), (0, 7), "{full}");
    assert!(reasons(&full).iter().all(|why| why.contains("device is full")), "{full}");

    let unknown = run(&["devices=nonsense,lz4"]);
    assert_eq!(accounted(&unknown), (6, 1), "{unknown}");
    assert_eq!(unknown["troubles"][0]["what"], "nonsense");

    // the first round is measured completely, however late it is
    let late = Run::start(&image, &["pages=2048", "rounds=100000", "seconds=0"]).finish();
    assert_eq!((&late["ended"], accounted(&late)), (&"out_of_time".into(), (24, 0)), "{late}");

    let in_memory = run(&["folder=/dev/shm"]);
    assert_eq!(accounted(&in_memory), (6, 1), "{in_memory}");
    assert!(reasons(&in_memory)[0].contains("left memory"), "{in_memory}");

    std::fs::write(folder.path().join("image"), vec![0; 1 << 20]).unwrap();
    let nothing = run(&[]);
    assert_eq!(accounted(&nothing), (0, 7), "{nothing}");
    assert!(reasons(&nothing).iter().all(|why| why.contains("one word")), "{nothing}");
    assert_eq!(read(CLUSTER), before);
}
