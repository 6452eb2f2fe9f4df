// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise apply` of a plan with lines that run programs as root. Needs no privileges, because
//! such a plan is refused before the first change.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::program::{ProgramRun, empty_folder, finish, pagewise};

fn apply(steps: &[(&str, &str)], more: &[&str]) -> ProgramRun {
    let folder = empty_folder();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
    let step = |(at, (target, to)): (usize, &(&str, &str))| {
        json!({
            "id": format!("step-{at}"), "reason": "a test", "finding": null, "expected": null, "risk": "none",
            "cost": null, "coupled": [], "needs": [], "undo": {"how": "restore", "what": "all"},
            "survives_reboot": true, "action": "write-file", "target": target, "from": null, "to": to,
        })
    };
    let steps: Vec<Value> = steps.iter().enumerate().map(step).collect();
    let plan = json!({
        "schema": "pagewise/plan/1", "id": "00112233aabbccdd", "goal": "balanced",
        "machine": {"machine_id_hash": "another", "memory_total_bytes": 4711, "kernel": null},
        "steps": steps, "declined": [],
    });
    let path = folder.path().join("plan.json");
    std::fs::write(&path, plan.to_string()).unwrap();
    let mut command = pagewise(&[&["apply", "--yes", path.to_str().unwrap()], more].concat());
    finish(command.env("PAGEWISE_STATE", &state).env("PAGEWISE_LOCK", state.join("run")))
}

const HOSTILE: [(&str, &str, usize); 6] = [
    ("/etc/sysctl.d/90-x.conf", "vm.swappiness = 10\nkernel.core_pattern = |/tmp/x\n", 2),
    ("/etc/tmpfiles.d/x.conf", "f /etc/cron.d/x - - - - * * * * * root /tmp/x\n", 1),
    ("/etc/modprobe.d/x.conf", "# zram\ninstall zram /tmp/x\n", 2),
    ("/etc/udev/rules.d/60-x.rules", "KERNEL==\"zram0\", RUN+=\"/tmp/x\"\n", 1),
    ("/etc/init.d/pagewise", "#!/bin/sh\n/tmp/x\n", 2),
    ("/etc/systemd/system/pagewise-x.service", "[Service]\nExecStart=/tmp/x\n", 2),
];

#[test]
fn each_line_that_runs_a_program_is_named_and_the_plan_refused() {
    let steps: Vec<(&str, &str)> = HOSTILE.iter().map(|(path, text, _)| (*path, *text)).collect();
    let refused = apply(&steps, &[]);
    assert_eq!(refused.status, 1, "{}", refused.err);
    for (at, (path, _, line)) in HOSTILE.iter().enumerate() {
        let named = format!("step step-{at}: {path} line {line}: ");
        assert!(refused.err.contains(&named), "{named}: {}", refused.err);
    }
    assert_eq!(refused.err.matches("give --trust-commands").count(), 6, "{}", refused.err);
    let trusted = apply(&steps, &["--trust-commands"]);
    assert!(!trusted.err.contains("--trust-commands"), "{}", trusted.err);
    assert!(trusted.err.contains("made for another machine"), "{}", trusted.err);
}

#[test]
fn a_plan_of_settings_needs_no_trust() {
    let plan = [("/etc/sysctl.d/90-x.conf", "vm.swappiness = 10\n")];
    let refused = apply(&plan, &[]);
    assert!(!refused.err.contains("--trust-commands"), "{}", refused.err);
}
