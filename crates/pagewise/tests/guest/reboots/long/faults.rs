// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls that fail, kills and power losses while a plan is applied or undone under systemd,
//! on a real disk: the plan has units, a swap file, and zram swap that holds data.
//!
//! In the first boot, calls fail and runs are killed, and `undo` follows at once. Each later boot
//! kills `apply` or `undo` at another write and then loses power, so the next boot starts with a
//! partially applied plan.

use std::fmt::Write as _;

use crate::boot::{SAY, answer, answer_of_success, reboots};
use crate::documents;
use crate::plans::faults::{FAULTS, TRACED, assert_undone, begin, strace};
use crate::reboots::long::plans::{GENERATOR, NO_GENERATOR, PLAN, STATE, WITH_GENERATOR, plans};

/// A swap file with data that must survive all faults.
const DATA: &str = r#"
dd if=/dev/zero of=/root/own-swap bs=1M count=64 status=none; chmod 600 /root/own-swap
mkswap /root/own-swap > /dev/null && swapon /root/own-swap
mkdir -p /sys/fs/cgroup/data
away() { echo 12M > /sys/fs/cgroup/data/memory.reclaim 2> /dev/null; true; }
(echo 0 > /sys/fs/cgroup/data/cgroup.procs; i=0
 while [ $i -lt 60000 ]; do i=$((i + 1)); echo "$i and some text that makes it $((i * 7919)) long"; done > /dev/shm/data)
sum=$(sha256sum < /dev/shm/data)
away
say used awk '$1 == "/root/own-swap" { print ($4 > 1000) ? "in swap" : $4 }' /proc/swaps
"#;

const COMMANDS: &str = "
apply='pagewise apply --yes --settle 0 /root/plan.json'
undo='pagewise undo --all'
";

/// The kills that later boots choose from: calls of `pagewise` itself that change something.
const KEEP_LIST: &str = r#"
grep -E ' (write|rename|renameat|symlinkat|unlinkat|unlink|swapon|fsync|ftruncate) signal=KILL ' /tmp/all > /root/all
swapoff /root/own-swap; rm /root/own-swap; rm /dev/shm/data; sync
say number sh -c 'wc -l < /root/all'
"#;

/// Undoes what the previous boot left, kills a run at this boot's call, and loses power.
const LOSE: &str = r#"
say failed systemctl --failed --no-legend --plain
say undo pagewise undo --all
state > /tmp/after; say difference diff /root/before /tmp/after
say left sh -c 'ls /var/lib/pagewise | grep -v lock'
"#;
const KILL: &str = r#"
all=$(wc -l < /root/all)
set -- $(sed -n "$((1 + (PAGEWISE_BOOT - 1) * all / boots))p" /root/all)
[ $1 = apply ] || $apply > /dev/null 2>&1 || echo "bad apply before $*"
eval command=\$$1
traced -f -qq -e trace=$2 -e inject=$2:$3:when=$4 -o /tmp/trace $command > /tmp/out 2>&1
say killed grep -c 'killed by SIGKILL' /tmp/trace
echo "boundary $*"
echo lose-power; sleep 1000
"#;

fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).map_or(otherwise, |number| number.parse().expect("a number"))
}

fn survive(options: &[&str], prepare: &str, planned: &str) {
    let (wanted, losses) = (number("PAGEWISE_PLAN_FAULTS", 8), number("PAGEWISE_POWER_LOSSES", 2));
    let folder = tempfile::tempdir().unwrap();
    let sent = plans(folder.path());
    let strace = strace();
    let deadline = format!("{}m", 10 + wanted / 4);
    let mut own = vec!["--memory", "512M", "--lose-power", "0", "--deadline", &deadline];
    let planned = documents::sent(planned);
    own.extend(sent.iter().chain(&strace).chain([&planned]).map(String::as_str));
    let common = format!("{SAY}{STATE}{TRACED}{COMMANDS}boots={losses}\n");
    let first = format!("{common}{prepare}{PLAN}{DATA}{}{FAULTS}{KEEP_LIST}", begin(wanted));
    let mut scripts = vec![first];
    scripts.extend((0..losses).map(|_| format!("{common}{LOSE}{KILL}")));
    scripts.push(format!("{common}{LOSE}"));
    let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
    let boots = reboots(&[&own[..], options].concat(), &scripts);
    assert_eq!(boots.len(), scripts.len(), "{boots:#?}");

    let faults = &boots[0].output;
    assert_eq!(answer(faults, "used"), ("in swap\n", "0"), "{faults}");
    assert_undone(faults, wanted);
    let all: usize = answer_of_success(faults, "number").trim().parse().unwrap();
    assert!(all >= losses, "{all} boundaries");
    let mut told = String::new();
    for boot in &boots[1..] {
        answer_of_success(&boot.output, "undo");
        assert_eq!(answer(&boot.output, "difference"), ("", "0"), "{boot:#?}");
        assert_eq!(answer(&boot.output, "left").0, "", "{boot:#?}");
        let boundary = boot.output.lines().find(|line| line.starts_with("boundary "));
        let _ = writeln!(
            told,
            "{} {:?}",
            boundary.unwrap_or("the end"),
            answer(&boot.output, "failed").0
        );
    }
    println!("{all} boundaries; power lost after\n{told}");
}

#[test]
fn guest_reboots_of_a_plan_with_a_unit_survive_faults_and_losses_of_power() {
    survive(&[], NO_GENERATOR, "unit");
}

#[test]
#[ignore = "run by cargo xtask faults"]
fn guest_reboots_of_a_plan_with_zram_generator_survive_faults_and_losses_of_power() {
    survive(&WITH_GENERATOR, GENERATOR, "generator");
}
