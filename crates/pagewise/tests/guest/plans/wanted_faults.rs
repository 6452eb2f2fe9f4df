// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls that fail, and kills, while a plan of what was asked for is applied or undone: a
//! swap file, zram, huge pages, and the start script that sets them up at each boot, as OpenRC and
//! as System V start it. The plan is made in the guest, by the program that applies it.
//!
//! What is checked is that of [`super::faults`]. Two guests share the number of faults.

use std::process::Command;

use super::faults::{FAULTS, TRACED, assert_undone, begin, strace};
use crate::boot::{SAY, document, script};

/// Before the plan is made: a machine without swap, whose swap files are on ext4.
const SETUP: &str = r#"
mkdir -p /etc/sysctl.d /etc/init.d /tmp /run /dev/shm /sys/fs/cgroup/data /var
mount -t ext4 /dev/vda /var && mkdir -p /var/lib || exit 9
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
mountpoint -q /dev/shm || mount -t tmpfs shm /dev/shm
state() {
    find /etc /var -path /var/lib/pagewise -prune -o -print | sort | xargs stat -c '%N %a %u %g'
    find /etc -type f | sort | xargs sha256sum
    cat /proc/sys/vm/swappiness /sys/kernel/mm/transparent_hugepage/enabled
    tail -n +2 /proc/swaps | while read area kind size used priority; do
        case $priority in -*) priority=of-the-kernel;; esac; echo "$area $size $priority"
    done
    for zram in /sys/block/zram*; do echo "$zram $(cat $zram/disksize)"; done
}
# data that must outlive all of it; after apply, part of it is in swap
away() { echo 4M > /sys/fs/cgroup/data/memory.reclaim 2> /dev/null; true; }
(echo 0 > /sys/fs/cgroup/data/cgroup.procs; i=0
 while [ $i -lt 60000 ]; do i=$((i + 1)); echo "$i and some text that makes it $((i * 7919)) long"; done > /dev/shm/data)
sum=$(sha256sum < /dev/shm/data)
"#;

const PLAN: &str = r#"
pagewise plan $wants --anyway -o /opt/plan.json > /tmp/plan.txt 2>&1 || cat /tmp/plan.txt
get plan cat /opt/plan.json
apply="pagewise apply --yes --settle 0 /opt/plan.json"
undo="pagewise undo --all"
"#;

/// The number of system calls that fail in each of the two guests.
fn wanted() -> usize {
    let all = std::env::var("PAGEWISE_PLAN_FAULTS");
    all.map_or(8, |number| number.parse::<usize>().expect("how many faults").div_ceil(2))
}

/// Applies the plan of what `wants` asks for on a machine that `install` prepares; the plan must
/// have these actions and write these files.
fn is_undone(install: &str, wants: &str, actions: &[&str], targets: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    std::fs::File::create(&disk).unwrap().set_len(96 << 20).unwrap();
    let mut make = Command::new("/usr/sbin/mke2fs");
    assert!(make.args(["-q", "-t", "ext4"]).arg(&disk).status().unwrap().success());
    let minutes = format!("{}m", 6 + wanted() / 5);
    let disk = format!("{},rw", disk.display());
    let mut options = vec!["--kernel", "trixie", "--memory", "384M"];
    options.extend(["--module", "zram", "--module", "ext4", "--disk", &disk]);
    options.extend(["--deadline", &minutes]);
    let strace = strace();
    options.extend(strace.iter().map(String::as_str));
    let wants = format!("wants='{wants}'\n");
    let parts = [SAY, &begin(wanted()), TRACED, SETUP, install, &wants, PLAN, FAULTS];
    let ran = script(&options, &parts.concat());
    let plan = document(&ran.out, "plan");
    let steps = plan["steps"].as_array().unwrap();
    for (key, expected) in [("action", actions), ("target", targets)] {
        for one in expected {
            assert!(steps.iter().any(|step| step[key] == *one), "{one}: {plan:#}");
        }
    }
    assert_undone(&ran.out, wanted());
}

#[test]
fn guest_plan_with_zram_a_swap_file_and_a_script_of_openrc_is_undone_after_any_fault() {
    is_undone(
        "mkdir -p /run/openrc /etc/runlevels/boot\n",
        "--want zram=64M --want swapfile=16M --want hugepages=madvise --want vm.swappiness=77",
        &["add-zram-swap", "add-swap-file", "set-knob", "make-link", "write-file"],
        &["/etc/init.d/pagewise", "/etc/runlevels/boot/pagewise"],
    );
}

#[test]
fn guest_plan_with_a_swap_file_and_a_script_of_system_v_is_undone_after_any_fault() {
    is_undone(
        "printf '#!/bin/sh\\n' > /etc/init.d/first && chmod 755 /etc/init.d/first\n\
         mkdir -p /etc/rcS.d && ln -s ../init.d/first /etc/rcS.d/S01first\n",
        "--want swapfile=16M --want hugepages=madvise --want vm.swappiness=77",
        &["add-swap-file", "set-knob", "make-link", "write-file"],
        &["/etc/init.d/pagewise", "/etc/rcS.d/S99pagewise"],
    );
}
