// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise agent` on real kernels: it ages a cgroup that the kernel never ages, and leaves alone one
//! that the kernel ages, one whose `lru_gen` is locked, and a host without multi-gen LRU.

mod guard;
mod hugepages;
mod ksm;
mod reclaim;
mod service;
mod zram;

use serde_json::Value;

use crate::boot::{SAY, answer, answer_of_success, document, script};

/// The workload of the tests of `pagewise age`: code in use and data that is not, slightly above the
/// limit of a cgroup, with zram. The agent runs before it starts. If agings do not help, the workload
/// starts anew in another cgroup, a few times at most. In the end debugfs is locked, and the agent is
/// asked about a cgroup that refaults as much.
const SCRIPT: &str = r#"
echo lz4 > /sys/block/zram0/comp_algorithm
echo 128M > /sys/block/zram0/disksize && mkswap /dev/zram0 > /dev/null && swapon /dev/zram0
mkdir -p /d /etc/pagewise
echo +memory > /sys/fs/cgroup/cgroup.subtree_control
mke2fs -q /dev/vda > /dev/null && mount /dev/vda /d
umount /sys/kernel/debug 2> /dev/null
echo y > /sys/kernel/mm/lru_gen/enabled
printf '[budget]\ncpu_seconds_per_minute = 40\n' > /etc/pagewise/agent.toml
for number in 1 2 3 4; do
    printf '[aging."/aged%s"]\ninterval = "2s"\nagings_per_hour = 9\n' $number >> /etc/pagewise/agent.toml
done
say check pagewise agent --check
workload() {
    group=/sys/fs/cgroup/$1
    mkdir $group
    echo 48M > $group/memory.max
    TMPDIR=/d sh -c 'echo $$ > '$group'/cgroup.procs; exec "$@"' - pagewise lab workload swap data=40M code=12M \
        window=4M step=4K seconds=900 iterations=100000 > /tmp/out 2>&1 &
}
counted() { awk '/workingset_refault_file/ { print $2 }' $group/memory.stat; }
pagewise agent 2> /tmp/said & agent=$!
for again in 1 2 3 4; do
    workload aged$again
    looks=0
    while [ $looks -lt 120 ] && ! grep -q "/aged$again: .*aged .*refaults" /tmp/said; do
        sleep 1; looks=$((looks + 1))
    done
    grep -q "/aged$again: .*did not help" /tmp/said || break
    echo 1 > $group/cgroup.kill
done
sleep 3
get status pagewise agent status --json
say second pagewise agent
kill -9 $agent; wait $agent
say killed pagewise agent status
say said cat /tmp/said
say log cat /var/lib/pagewise/agent.log
get history pagewise age --history --json
say mounts grep debugfs /proc/self/mountinfo
say undo pagewise undo
echo 1 > $group/cgroup.kill
mount -t securityfs none /sys/kernel/security
echo integrity > /sys/kernel/security/lockdown
workload locked
looks=0
while [ $looks -lt 40 ] && [ $(counted) -lt 3000 ]; do sleep 1; looks=$((looks + 1)); done
printf '[budget]\ncpu_seconds_per_minute = 40\n[aging."/locked"]\ninterval = "2s"\n' > /etc/pagewise/agent.toml
say lockdown cat /sys/kernel/security/lockdown
say locked pagewise agent --once
echo n > /sys/kernel/mm/lru_gen/enabled
say off pagewise agent --once
echo 1 > $group/cgroup.kill
"#;

fn session(suite: &str) -> String {
    let options = ["--kernel", suite, "--memory", "512M", "--disk", "128M"];
    let options = [&options[..], &["--deadline", "12m"]].concat();
    let ran = script(&options, &format!("{SAY}{SCRIPT}"));
    assert_eq!(ran.status, 0, "{suite}: {} {}", ran.out, ran.err);
    println!("{suite}: {}", ran.out);
    ran.out
}

/// What holds on every kernel. Returns the answers of the guest.
fn agent(suite: &str) -> String {
    let session = session(suite);
    let checked = answer_of_success(&session, "check");
    assert!(checked.contains("aging is switched on for 4 cgroups"), "{checked}");
    let (second, status) = answer(&session, "second");
    assert!(status == "1" && second.contains("another agent runs"), "{second}");
    assert!(answer_of_success(&session, "killed").contains("does not run"), "{session}");
    let (log, said) = (answer_of_success(&session, "log"), answer_of_success(&session, "said"));
    assert_eq!(log.lines().count(), said.lines().count(), "{log}\n{said}");
    // debugfs was mounted for the process alone
    assert_eq!(answer(&session, "mounts"), ("", "1"));
    assert_eq!(answer(&session, "undo").1, "0", "{session}");
    assert!(answer_of_success(&session, "off").contains("multi-gen LRU is off"), "{session}");
    session
}

/// The cgroup that the agent aged last, and the agings that are recorded of it.
fn aged(session: &str) -> (Value, Vec<Value>) {
    let status = document(session, "status");
    let targets = status["agent"]["targets"].as_array().unwrap();
    let is_aged = |target: &&Value| target["actions_in_hour"].as_u64() > Some(0);
    let target = targets.iter().rfind(is_aged).unwrap_or_else(|| panic!("{status:#}")).clone();
    let history = document(session, "history")["history"].clone();
    let of_it = |record: &&Value| record["group"] == target["target"];
    (target.clone(), history.as_array().unwrap().iter().filter(of_it).cloned().collect())
}

/// The kernel never ages the cgroup by itself: after the agent aged it, it has at most half of the
/// refaults, and every aging is recorded and within the bound.
fn is_aged(suite: &str) {
    let session = agent(suite);
    let (target, records) = aged(&session);
    let last = records.last().unwrap();
    let before = last["before"]["file"].as_u64().unwrap();
    let after = last["after"]["file"].as_u64().unwrap();
    assert!(before >= 100 && after * 2 <= before, "{last:#}");
    assert!((1..=9).contains(&records.len()), "{records:#?}");
    assert_eq!(target["actions_in_hour"].as_u64(), Some(records.len() as u64), "{target:#}");
    let lockdown = answer_of_success(&session, "lockdown");
    assert!(lockdown.contains("[integrity]"), "{lockdown}");
    let locked = answer_of_success(&session, "locked");
    assert!(locked.contains("/locked: left alone: lru_gen"), "{locked}");
}

#[test]
fn guest_the_agent_leaves_alone_what_the_kernel_ages_on_bookworm() {
    let session = agent("bookworm");
    let history = document(&session, "history")["history"].clone();
    assert_eq!(history, serde_json::json!([]), "{history:#}");
}

#[test]
fn guest_the_agent_ages_a_group_on_trixie() {
    is_aged("trixie");
}

#[test]
fn guest_the_agent_ages_a_group_on_sid() {
    is_aged("sid");
}
