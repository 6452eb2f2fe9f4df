// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A test process is killed at the limit of a test cgroup, and the kernel log of this machine
//! reports it. Nothing else on the machine is short of memory.

use std::os::unix::process::ExitStatusExt;
use std::time::Instant;

use pagewise_observe::KillsSince;
use serde_json::{Value, json};

use crate::held::Group;
use crate::program::{empty_folder, run};

const MIB: u64 = 1 << 20;

/// A process name like the end of the log line that names the killed process, with a newline in it.
const HOSTILE: &str = "a\n) total-vm:1k";

/// The kill of the process, and its explanation.
fn told(pid: u32) -> (Value, Value) {
    let ran = run(&["doctor", "--oom", "--json", "--interval", "0"]);
    assert_eq!(ran.status, 3, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).expect("a document");
    let kills = document["oom_kills"]["kills"].as_array().expect("kills");
    let kill = kills.iter().find(|kill| kill["victim"]["pid"] == pid).expect("the kill").clone();
    let explained = document["oom_explained"].as_array().expect("explanations");
    let of_kill = explained.iter().find(|told| told["at"] == kill["at"]).expect("its explanation");
    (kill, of_kill.clone())
}

#[test]
fn a_kill_by_a_limit_is_read_back_whatever_the_victim_is_called() {
    let group = Group::with_limit(32 * MIB);
    let folder = empty_folder();
    let program = folder.path().join(HOSTILE);
    std::os::unix::fs::symlink("/usr/bin/tail", &program).unwrap();
    let mut log = KillsSince::now().expect("root may read the log");
    let began = Instant::now();
    let mut child = group.command(&program).arg("/dev/zero").spawn().unwrap();
    let pid = child.id();
    assert_eq!(child.wait().unwrap().signal(), Some(9));

    let since = log.kills();
    let pids: Vec<u32> = since.iter().filter_map(|kill| Some(kill.victim.as_ref()?.pid)).collect();
    assert!(pids.contains(&pid), "{pids:?}");

    let (kill, explained) = told(pid);
    assert_eq!(kill["constraint"], "cgroup");
    assert_eq!(kill["group"], json!(group.path));
    assert_eq!(kill["victim"]["name"], json!("a\\u{a}) total-vm:1k"));
    assert_eq!(kill["group_memory"]["memory"]["limit"], json!(32 * MIB));
    assert!(kill["victim"]["anon"].as_u64().unwrap() > 24 * MIB, "{kill}");
    // the clock of the kernel log is not adjusted by NTP, unlike ours
    let ago = kill["seconds_ago"].as_f64().unwrap();
    assert!(ago <= began.elapsed().as_secs_f64() + 5.0, "{kill}");
    let task = kill["tasks"].as_array().unwrap().iter().find(|task| task["pid"] == pid).unwrap();
    assert_eq!(task["name"], kill["victim"]["name"]);
    let title = explained["title"].as_str().unwrap();
    assert!(
        title.contains(&format!(
            "because the cgroup {} reached its memory limit (32.0 MiB), not because",
            group.path
        )),
        "{title}"
    );

    // the finding is about the cgroup, and a report says so first
    let ran = run(&["doctor", "--json", "--interval", "0"]);
    let document: Value = serde_json::from_str(&ran.out).expect("a document");
    let findings = document["findings"].as_array().unwrap();
    let of_group = |finding: &&Value| finding["what"].as_str().unwrap().contains(&group.path);
    let finding = findings.iter().filter(|it| it["id"] == "oom-kills").find(of_group).unwrap();
    assert_eq!(finding["severity"], "critical");
}
