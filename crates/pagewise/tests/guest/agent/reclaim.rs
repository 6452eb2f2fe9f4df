// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise agent` takes unused memory of cgroups on real kernels: a cgroup with a sharp working set
//! keeps this set and loses the rest, page cache is taken alone, shared memory stays, and nothing is left
//! after a kill.

use crate::boot::{SAY, answer, answer_of_success, document, script};

/// In /web, 6 MiB are written once, and 12 MiB are used all the time. What such a program needs without
/// the unused memory is measured in /truth. /shared has 8 MiB in tmpfs, and /files has read 8 MiB.
const SCRIPT: &str = r#"
echo lz4 > /sys/block/zram0/comp_algorithm
echo 96M > /sys/block/zram0/disksize && mkswap /dev/zram0 > /dev/null
mkdir -p /d /etc/pagewise
echo +memory > /sys/fs/cgroup/cgroup.subtree_control
mke2fs -q /dev/vda > /dev/null && mount /dev/vda /d
echo y > /sys/kernel/mm/lru_gen/enabled
dd if=/dev/urandom of=/d/file bs=1M count=8 conv=fsync 2> /dev/null
echo 3 > /proc/sys/vm/drop_caches
cgroup=/sys/fs/cgroup
for group in web truth shared files; do mkdir $cgroup/$group; done
inside() { group=$1; shift; sh -c 'echo $$ > '$cgroup/$group'/cgroup.procs; exec "$@"' - "$@"; }
current() { cat $cgroup/$1/memory.current; }
of_stat() { awk '/^'$2' / { print $2 }' $cgroup/$1/memory.stat; }
inside shared dd if=/dev/zero of=/dev/shm/file bs=1M count=8 2> /dev/null
inside files dd if=/d/file of=/dev/null bs=1M 2> /dev/null
inside truth pagewise lab workload tiers cold=0M hot=12M operations=1000000000000 > /dev/null 2>&1 &
looks=0
while [ $looks -lt 60 ] && [ $(of_stat truth anon) -lt 12582912 ]; do sleep 1; looks=$((looks + 1)); done
sleep 5
truth=$(current truth); say truth echo $truth
echo 1 > $cgroup/truth/cgroup.kill
inside web pagewise lab workload tiers cold=6M hot=12M operations=1000000000000 > /dev/null 2>&1 &
looks=0
while [ $looks -lt 60 ] && [ $(of_stat web anon) -lt 18874368 ]; do sleep 1; looks=$((looks + 1)); done
printf '[budget]\ncpu_seconds_per_minute = 40\n' > /etc/pagewise/agent.toml
for group in web shared files; do
    printf '[reclaim."/%s"]\nidle_after = "20s"\ninterval = "2s"\n' $group >> /etc/pagewise/agent.toml
done
echo 'files_only = true' >> /etc/pagewise/agent.toml
say check pagewise agent --check
say dry pagewise agent --once --dry-run
say before current web
say shared current shared
files=$(current files); say files echo $files
say noswap cat /proc/swaps
swapon /dev/zram0
pagewise agent 2> /tmp/said & agent=$!
limit=$(($truth * 109 / 100))
looks=0
is_above() { [ $(current web) -gt $limit ] || [ $(current files) -gt $(($files - 2097152)) ]; }
while [ $looks -lt 240 ] && is_above; do sleep 1; looks=$((looks + 1)); done
sleep 20
say after current web
say shared_after current shared
say files_after current files
say swapped cat $cgroup/web/memory.swap.current
say refaults of_stat web workingset_refault_anon
say cpu awk '/usage_usec/ { print $2 }' $cgroup/web/cpu.stat
get status pagewise agent status --json
kill -9 $agent; wait $agent
say said cat /tmp/said
say undo pagewise undo
say journals ls /var/lib/pagewise
say status_text pagewise agent status
"#;

fn number(session: &str, name: &str) -> u64 {
    answer_of_success(session, name).trim().parse().unwrap()
}

fn runs(suite: &str, can_choose: bool) {
    let options = ["--kernel", suite, "--memory", "384M", "--disk", "64M", "--deadline", "9m"];
    let ran = script(&options, &format!("{SAY}{SCRIPT}"));
    assert_eq!(ran.status, 0, "{suite}: {} {}", ran.out, ran.err);
    let session = ran.out;
    println!("{suite}: {session}");
    let checked = answer_of_success(&session, "check");
    assert!(checked.contains("reclaim is switched on for 3 cgroups"), "{checked}");
    // it keeps what it uses and not a tenth more, and that costs at most 1 % of its CPU time
    let (truth, after) = (number(&session, "truth"), number(&session, "after"));
    assert!(after * 10 <= truth * 11, "{suite}: {after} of {truth}");
    let said = answer_of_success(&session, "said");
    let cost = said.split_once("a refault costs ").unwrap().1.split(' ').next().unwrap();
    let spent = number(&session, "refaults") * cost.parse::<u64>().unwrap();
    assert!(spent * 100 <= number(&session, "cpu"), "{suite}: {session}");
    // shared memory stays, and page cache goes if it can be taken alone
    let (before, after) = (number(&session, "shared"), number(&session, "shared_after"));
    assert!(after * 20 >= before * 19, "{suite}: {before} → {after}");
    let (before, after) = (number(&session, "files"), number(&session, "files_after"));
    if can_choose {
        assert!(after + (2 << 20) <= before, "{suite}: {before} → {after}");
    } else {
        assert!(said.contains("/files: left alone: this kernel cannot be asked"), "{said}");
        assert!(after * 20 >= before * 19, "{suite}: {before} → {after}");
    }
    let status = document(&session, "status");
    let targets = status["agent"]["targets"].as_array().unwrap();
    let web = targets.iter().find(|target| target["target"] == "/web").unwrap();
    assert!(web["reclaimed_bytes"].as_u64() > Some(4 << 20), "{web:#}");
    let net = web["swapped_bytes"].as_u64().unwrap() - web["uncharged_bytes"].as_u64().unwrap();
    assert!(net > 1 << 20, "{web:#}");
    assert_eq!(answer(&session, "undo").1, "0", "{session}");
}

#[test]
fn guest_the_agent_takes_unused_memory_on_bookworm() {
    runs("bookworm", false);
}

#[test]
fn guest_the_agent_takes_unused_memory_on_trixie() {
    runs("trixie", true);
}

#[test]
fn guest_the_agent_takes_unused_memory_on_sid() {
    runs("sid", true);
}
