// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One guest with systemd that reboots once: a plan that `pagewise plan` makes there is applied, is
//! in force after the reboot, is verified and undone. Before that, checks that need systemd and no
//! reboot: `tune`, and a drop-in for a unit.
//!
//! Longer sessions, with other plans and suites, are in the groups plan-systemd and plan-reboots.

use serde_json::Value;

use crate::boot::{Boot, SAY, answer, answer_of_success, document, reboots};
use crate::documents;
use crate::reboots::long::plans::STATE;

const TUNE: &str = r#"
say running systemctl is-system-running
sysctl -q vm.extfrag_threshold=0
state > /tmp/before
get tune pagewise tune --yes --no-bench --watch 1s --settle 1s --keep --only extfrag-threshold --json
say tuned cat /proc/sys/vm/extfrag_threshold /etc/sysctl.d/90-pagewise.conf
say tune-timer systemctl is-active pagewise-unconfirmed-timer.timer
say undo-tune pagewise undo --all
say untuned cat /proc/sys/vm/extfrag_threshold
state > /tmp/after; say tune-difference diff /tmp/before /tmp/after
"#;

const DROP_IN: &str = r#"
printf '[Service]\nType=exec\nExecStart=/bin/sleep 600\nEnvironment=MALLOC_CONF=narenas:2\n' > /run/systemd/system/asks.service
mkdir /run/systemd/system/asks.service.d; systemctl daemon-reload
say drop-in sh -c 'pagewise thp drop-in asks > /run/systemd/system/asks.service.d/50-pagewise-thp.conf'
systemctl daemon-reload; systemctl start asks
say asks sh -c 'tr "\0" "\n" < /proc/$(systemctl show -p MainPID --value asks)/environ'
systemctl stop asks
"#;

/// Fills memory until a plan for the goal "ratio" adds a zram device.
const PLAN: &str = r#"
echo 'vm.extfrag_threshold = 0' > /etc/sysctl.d/10-own.conf; sysctl -q vm.extfrag_threshold=0
state > /root/before
head -c 200M /dev/zero > /dev/shm/filled
pagewise plan --goal ratio --only zram,extfrag-threshold --json > /root/plan.json
rm /dev/shm/filled
get plan cat /root/plan.json
say apply pagewise apply --yes --settle 0 /root/plan.json
sync
"#;

const AFTER_REBOOT: &str = r#"
say failed systemctl --failed --no-legend --plain
say swap swapon --show=NAME,SIZE,PRIO --bytes --noheadings --raw
say sysctl sysctl -n vm.extfrag_threshold
get verify pagewise verify --json
say undo pagewise undo --all
state > /tmp/after; say difference diff /root/before /tmp/after
say nothing pagewise undo
"#;

#[test]
fn guest_systemd_keeps_a_plan_over_a_reboot_and_gives_it_back() {
    let first = format!("{SAY}{STATE}{TUNE}{DROP_IN}{PLAN}");
    let second = format!("{SAY}{STATE}{AFTER_REBOOT}");
    let boots = reboots(&["--memory", "512M", "--deadline", "5m"], &[&first, &second]);
    let [first, second] = &boots[..] else { panic!("two boots: {boots:#?}") };
    first.assert_exited(0);
    second.assert_exited(0);
    assert_eq!(answer(&first.output, "running"), ("running\n", "0"));
    is_tuned(&first.output);
    a_drop_in_tells_the_allocators_of_a_unit(&first.output);
    let plan = document(&first.output, "plan");
    documents::assert_is("unit", &plan);
    answer_of_success(&first.output, "apply");
    is_in_force_and_goes_back(second, &plan);
}

#[track_caller]
fn is_in_force_and_goes_back(boot: &Boot, plan: &Value) {
    let said = &boot.output;
    assert_eq!(answer(said, "failed"), ("", "0"), "{said}");
    assert_eq!(answer_of_success(said, "sysctl"), "500\n", "{said}");
    let mut steps = plan["steps"].as_array().unwrap().iter();
    let zram = steps.find(|step| step["action"] == "add-zram-swap").expect("zram is planned");
    let size = zram["to"]["disksize_bytes"].as_u64().unwrap();
    let area = format!("/dev/zram0 {} {}\n", size - 4096, zram["to"]["priority"]);
    assert_eq!(answer_of_success(said, "swap"), area);
    let verified = document(said, "verify");
    assert_eq!(verified["drifted"], false, "{verified:#}");
    answer_of_success(said, "undo");
    assert_eq!(answer(said, "difference"), ("", "0"));
    assert_eq!(answer(said, "nothing").1, "0", "{said}");
}

fn a_drop_in_tells_the_allocators_of_a_unit(session: &str) {
    let hint = answer_of_success(session, "drop-in");
    assert!(hint.contains("asks.service.d/50-pagewise-thp.conf"), "{hint}");
    let environment = answer_of_success(session, "asks");
    for line in ["PAGEWISE_THP=on", "MALLOC_CONF=narenas:2,thp:always,metadata_thp:auto"] {
        assert!(environment.lines().any(|set| set == line), "{line}: {environment}");
    }
}

/// Checks that the setting of a finding was kept after a trial with a timer, in the kernel and in a
/// file.
fn is_tuned(session: &str) {
    let tuned = document(session, "tune");
    assert_eq!(tuned["kept"], true, "{tuned:#}");
    let tuned = answer_of_success(session, "tuned");
    assert!(
        tuned.starts_with("500\n") && tuned.contains("\nvm.extfrag_threshold = 500\n"),
        "{tuned}"
    );
    assert_eq!(answer(session, "tune-timer").0, "inactive\n");
    answer_of_success(session, "undo-tune");
    assert_eq!(answer_of_success(session, "untuned"), "0\n");
    assert_eq!(answer(session, "tune-difference"), ("", "0"));
}
