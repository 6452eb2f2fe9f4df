// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans in a guest whose PID 1 is systemd: files, links and units take effect and are restored, a
//! device is set up and removed, and the timer of a plan on trial undoes it.

use std::fs;

use serde_json::{Value, json};

use crate::boot::{SAY, answer, answer_of_success, document, script};

pub(crate) fn step(id: &str, change: Value) -> Value {
    let mut step = json!({
        "id": id, "reason": "a test", "finding": null, "expected": null, "risk": "none", "cost": null,
        "coupled": [], "needs": [], "undo": {"how": "restore", "what": "all"}, "survives_reboot": false,
    });
    let Value::Object(change) = change else { panic!("a change") };
    step.as_object_mut().unwrap().extend(change);
    step
}

pub(crate) fn file(id: &str, target: &str, to: &str) -> Value {
    step(id, json!({"action": "write-file", "target": target, "from": null, "to": to}))
}

pub(crate) const UNIT: &str = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n";

/// The plan with these steps; the guest fills in its machine.
pub(crate) fn plan(steps: &[Value]) -> String {
    let plan = json!({
        "schema": "pagewise/plan/1", "id": "00112233aabbccdd", "goal": "balanced",
        "machine": {"machine_id_hash": "HASH", "memory_total_bytes": 4711, "kernel": null},
        "steps": steps, "declined": [],
    });
    plan.to_string()
}

const BEGIN: &str = r#"
id=$(cat /etc/machine-id)
hash=$(printf 'pagewise machine-id %s' "$id" | sha256sum | cut -c1-32)
total=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo) * 1024))
sed -i "s/HASH/$hash/; s/4711/$total/" /opt/plan.json /opt/trial.json
state() {
    (cd /etc && find . \( -type f -o -type l \) -printf '%p %m %u %g %l\n' | sort
     find . -type f | sort | xargs sha256sum) 2>&1
    cat /proc/sys/vm/swappiness; ls /sys/block | grep zram; grep -v Filename /proc/swaps | cut -f1
    systemctl show -p MemoryLow system.slice
}
state > /tmp/before
"#;

const SESSION: &str = r#"
say untrusted pagewise apply --yes --settle 1s /opt/plan.json
say apply pagewise apply --yes --trust-commands --settle 1s /opt/plan.json
say swappiness cat /proc/sys/vm/swappiness
say slice systemctl show -p MemoryLow system.slice
say wanted systemctl is-enabled pagewise-test.service
say swap swapon --show=PRIO --noheadings
say again pagewise apply --yes --trust-commands /opt/plan.json
get verify pagewise verify --json
sysctl -q vm.swappiness=61
get drifted sh -c 'pagewise verify --json; test $? = 3'
sysctl -q vm.swappiness=77
say undo pagewise undo --all
state > /tmp/after
say difference diff /tmp/before /tmp/after
say trial pagewise apply --yes --settle 0 --trial-for 10s /opt/trial.json
say on-trial cat /proc/sys/vm/swappiness
# the time since boot decides, not this clock
date --set "@$(($(date +%s) - 3600))" > /dev/null
say unit systemd-analyze verify /etc/systemd/system/pagewise-unconfirmed.service
for i in $(seq 900); do [ $(cat /proc/sys/vm/swappiness) = 60 ] && break; sleep 0.1; done
say ended cat /proc/sys/vm/swappiness
for i in $(seq 600); do [ -e /etc/systemd/system/pagewise-unconfirmed.service ] || break; sleep 0.1; done
state > /tmp/after
say trial-difference diff /tmp/before /tmp/after
say kept sh -c 'pagewise apply --yes --settle 0 --trial-for 2m /opt/trial.json && pagewise apply --confirm 1'
say timer systemctl is-active pagewise-unconfirmed-timer.timer
say no-unit ls /etc/systemd/system/pagewise-unconfirmed.service
say kept-value cat /proc/sys/vm/swappiness
say undo-kept pagewise undo --all
say armed pagewise apply --yes --settle 0 --trial-for 3s /opt/trial.json
systemctl stop pagewise-unconfirmed-timer.timer
sleep 4
systemctl daemon-reload
say start systemctl start pagewise-unconfirmed.service
state > /tmp/after
say unit-difference diff /tmp/before /tmp/after
"#;

#[test]
fn guest_systemd_plan_takes_effect_goes_back_and_a_trial_ends_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let knob = json!({"action": "set-knob", "target": "vm.swappiness", "from": "60", "to": "77"});
    let zram = json!({
        "compressor": {"algorithm": "zstd", "level": 3}, "disksize_bytes": 67_108_864,
        "mem_limit_bytes": 33_554_432, "priority": 50,
    });
    let steps = [
        step("knob", knob.clone()),
        file("sysctl", "/etc/sysctl.d/90-pagewise.conf", "vm.swappiness = 77\n"),
        file("unit", "/etc/systemd/system/pagewise-test.service", UNIT),
        step(
            "enable",
            json!({
                "action": "make-link", "from": null, "to": "../pagewise-test.service",
                "target": "/etc/systemd/system/swap.target.wants/pagewise-test.service",
            }),
        ),
        file(
            "drop-in",
            "/etc/systemd/system/system.slice.d/50-pagewise.conf",
            "[Slice]\nMemoryLow=1M\n",
        ),
        step("reload", json!({"action": "reload-units", "target": "systemd"})),
        step("zram", json!({"action": "add-zram-swap", "target": null, "to": zram})),
    ];
    let [whole, trial] =
        [("plan.json", &steps[..]), ("trial.json", &steps[..1])].map(|(name, steps)| {
            let path = folder.path().join(name);
            fs::write(&path, plan(steps)).unwrap();
            format!("--file={}:/opt/{name}", path.display())
        });
    let ran = script(&["--userland=systemd", &whole, &trial], &format!("{SAY}{BEGIN}{SESSION}"));
    assert_eq!(ran.status, 0, "{} {}", ran.out, ran.err);
    takes_effect_and_goes_back(&ran.out);
    ends_by_itself(&ran.out);
}

fn takes_effect_and_goes_back(session: &str) {
    let (refused, status) = answer(session, "untrusted");
    assert!(status == "1" && refused.contains("--trust-commands"), "{refused}");
    assert!(refused.contains("/etc/systemd/system/pagewise-test.service line 4"), "{refused}");
    answer_of_success(session, "apply");
    assert_eq!(answer_of_success(session, "swappiness"), "77\n");
    assert_eq!(answer_of_success(session, "slice"), "MemoryLow=1048576\n");
    assert_eq!(
        answer_of_success(session, "wanted"),
        "enabled
"
    );
    assert!(answer_of_success(session, "swap").contains("50"));
    assert!(answer_of_success(session, "again").contains("nothing to do"));
    assert_eq!(document(session, "verify")["drifted"], false);
    let drifted = document(session, "drifted");
    let difference = &drifted["plans"][0]["steps"][0]["differences"];
    assert_eq!(difference[0]["found"], "61", "{difference:#}");
    answer_of_success(session, "undo");
    assert_eq!(answer(session, "difference"), ("", "0"));
}

fn ends_by_itself(session: &str) {
    answer_of_success(session, "trial");
    assert_eq!(answer_of_success(session, "on-trial"), "77\n");
    assert_eq!(answer(session, "unit"), ("", "0"), "systemd has no complaint about the unit");
    assert_eq!(answer_of_success(session, "ended"), "60\n");
    assert_eq!(answer(session, "trial-difference"), ("", "0"));
    answer_of_success(session, "kept");
    assert_eq!(answer(session, "timer").0, "inactive\n");
    assert_eq!(answer(session, "no-unit").1, "2");
    assert_eq!(answer_of_success(session, "kept-value"), "77\n");
    // starts the unit of the next boot, without rebooting
    answer_of_success(session, "armed");
    answer_of_success(session, "start");
    assert_eq!(answer(session, "unit-difference"), ("", "0"));
}
