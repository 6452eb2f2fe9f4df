// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop for kernel same-page merging, as the service of the packages: it switches KSM on, keeps it on
//! while a program has identical pages, and off afterwards; what a killed agent has set is listed, and
//! undone by the next one; what somebody else has switched on stays on.

use std::path::Path;

use crate::boot::{SAY, answer, answer_of_success, finish, lab};
use serde_json::Value;

/// dd keeps its buffer of 64 MiB of zeros as long as nobody reads the pipe. systemd offers its memory
/// for merging.
const SCRIPT: &str = r#"
ksm=/sys/kernel/mm/ksm
unit=pagewise-agent
mkfifo /run/pipe
echo 2000 > $ksm/pages_to_scan
cat > /run/systemd/system/hog.service << END
[Service]
MemoryKSM=yes
ExecStart=sh -c 'exec dd if=/dev/zero bs=64M count=1 iflag=fullblock of=/run/pipe'
END
systemctl daemon-reload
mkdir -p /etc/pagewise
printf '[budget]\ncpu_seconds_per_minute = 40\n[ksm]\ninterval = "2s"\nretry_after = "1h"\ncpu_percent = 100\n' > /etc/pagewise/agent.toml
until_true() { for i in $(seq 150); do eval "$1" > /dev/null 2>&1 && return; sleep 0.5; done; return 1; }
told() { journalctl -u $unit -o cat --no-pager | grep -q "$1"; }
state() { pagewise agent status | grep -q "$1"; }
say before cat $ksm/run
say check pagewise agent --check
say dry pagewise agent --dry-run --once
say untouched cat $ksm/run
systemctl start hog
sleep 10000 <> /run/pipe & sleep 1
say start systemctl start $unit
say pays until_true 'state "on: saves"'
say on cat $ksm/run
say profit cat $ksm/general_profit
say status pagewise agent status
get json pagewise agent status --json
say plans pagewise undo
systemctl stop hog
say ends until_true 'told "switched off"'
say off cat $ksm/run
say after pagewise agent status
say no-plan pagewise undo
systemctl stop $unit
say again systemctl start $unit
say tried until_true 'grep -q 1 $ksm/run'
systemctl kill --signal KILL $unit
say mended until_true 'told "an agent that was killed"'
say goes-on until_true 'grep -q 1 $ksm/run'
say one-plan pagewise undo
say stop systemctl stop $unit
say ended cat $ksm/run
say nothing-left pagewise undo
echo 1 > $ksm/run
systemctl start $unit
say alone until_true 'state "left alone: somebody else has switched KSM on"'
systemctl stop $unit
say others cat $ksm/run
echo 0 > $ksm/run
say log journalctl -u $unit -o cat --no-pager
"#;

#[test]
fn guest_sid_ksm_is_on_while_it_pays() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging/systemd/pagewise-agent.service");
    let file = format!("--file={}:/etc/systemd/system/pagewise-agent.service", unit.display());
    let common = ["--quiet", "--kernel", "sid", "--userland=systemd", "--memory", "512M"];
    let script = format!("{SAY}{SCRIPT}");
    let rest = ["--deadline", "8m", &file, "--", "sh", "-c", &script];
    let ran = finish(&mut lab(&[&common[..], &rest[..]].concat()));
    let session = format!("{}\n{}", ran.out, ran.err);
    println!("{session}");
    for name in ["start", "pays", "ends", "again", "tried", "mended", "goes-on", "stop", "alone"] {
        assert_eq!(answer(&session, name).1, "0", "{name}: {session}");
    }
    let value = |name| answer_of_success(&session, name).trim();
    let switched = ["before", "untouched", "on", "off", "ended", "others"].map(value);
    assert_eq!(switched, ["0", "0", "1", "0", "0", "1"], "{session}");
    assert!(value("check").contains("KSM: must save at least 16.0 MiB"), "{}", value("check"));
    assert!(value("dry").contains("would switch KSM on"), "{}", value("dry"));
    assert!(value("profit").parse::<i64>().unwrap() > 32 << 20, "{session}");
    assert!(value("plans").contains("1 changes in force"), "{}", value("plans"));
    assert!(value("one-plan").contains("1 changes in force"), "{}", value("one-plan"));
    for name in ["no-plan", "nothing-left"] {
        assert!(!value(name).contains("1 changes in force"), "{name}: {}", value(name));
    }
    let status: Value = serde_json::from_str(value("json")).unwrap();
    let saved = status["agent"]["targets"][0]["profit_bytes"].as_i64();
    assert!(saved.is_some_and(|saved| saved > 32 << 20), "{status}");
    assert!(value("after").contains(": it saves"), "{}", value("after"));
}
