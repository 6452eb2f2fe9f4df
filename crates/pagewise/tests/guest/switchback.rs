// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Switchback of the loop reclaim on a real kernel, for a simulated day: the guest's clock counts
//! instructions, and idle time is skipped. While the agent says that the loop is off, the kernel reclaims
//! nothing of the cgroup; what was measured is kept after a kill, and a clock that is set drops blocks.

use crate::boot::{SAY, answer_of_success, document, script};

/// The program in /web uses 4 MiB each minute, and writes 4 MiB anew each hour. A sample each ten minutes
/// has what the agent says, and the pages that were reclaimed of the cgroup. After 7 hours the agent is
/// killed in the middle of a block, and after 14 hours the clock is set by three hours, and back again.
const SCRIPT: &str = r#"
echo lz4 > /sys/block/zram0/comp_algorithm
echo 64M > /sys/block/zram0/disksize && mkswap /dev/zram0 > /dev/null && swapon /dev/zram0
echo y > /sys/kernel/mm/lru_gen/enabled
echo 600 > /proc/sys/vm/stat_interval
date -s @$((20784 * 86400 - 600)) > /dev/null
mkdir -p /etc/pagewise /run
echo '+memory +cpu' > /sys/fs/cgroup/cgroup.subtree_control
group=/sys/fs/cgroup/web
mkdir $group
cat > /etc/pagewise/agent.toml <<'T'
[reclaim."/web"]
idle_after = "10m"
interval = "2m"
[switchback.reclaim]
cgroup = "/web"
metric_file = "/served"
block = "2h"
wash_out = "20m"
T
cat > /web <<'T'
BEGIN {
    for (at = 0; at < 1024; at++) { hot[at] = sprintf("%4000d", at); batch[at] = sprintf("%4000d", at) }
    while (1) {
        if (++minute % 60 == 15) for (at = 0; at < 1024; at++) batch[at] = sprintf("%4000d", minute + at)
        for (at = 0; at < 1024; at++) found += index(hot[at], "none")
        print minute > "/served"; close("/served")
        system("sleep 60")
    }
}
T
echo 0 > /served
sh -c 'echo $$ > '$group'/cgroup.procs; exec awk -f /web' & web=$!
pagewise agent 2> /tmp/said & agent=$!
field() { awk '/^'$1' / { print $2 }' $group/memory.stat; }
sample() {
    is_on=$(awk 'BEGIN { RS = "\0" } { print /"is_on": *true/ ? "on" : "off" }' /run/pagewise/agent.json)
    echo $(date +%s) $is_on $(field pgsteal) $(cat $group/memory.current) >> /samples
}
blocks() { grep -o '"day"' /var/lib/pagewise/agent.switchback 2> /dev/null | wc -l; }
samples() { number=0; while [ $number -lt $1 ]; do sleep 600; sample; number=$((number + 1)); done; }
samples 42
say before_kill blocks
kill -9 $agent; wait $agent 2> /dev/null
sleep 100
pagewise agent 2>> /tmp/said & agent=$!
sleep 10
say after_kill blocks
samples 42
say before_clock blocks
date -s @$(($(date +%s) + 10800)) > /dev/null
samples 12
date -s @$(($(date +%s) - 10800)) > /dev/null
samples 36
say blocks blocks
get proof pagewise agent proof --json
say text pagewise agent proof
kill $agent; wait $agent
say said cat /tmp/said
say samples cat /samples
kill $web
"#;

fn number(session: &str, name: &str) -> u64 {
    answer_of_success(session, name).trim().parse().unwrap()
}

#[test]
fn guest_switchback_reclaims_only_while_it_says_so_on_trixie() {
    let count = ["--kernel", "trixie", "--memory", "320M", "--count", "--boots", "1"];
    // with a disk the guest has a timer that wakes it less often
    let fast = ["--disk", "4M", "--append", "tsc=reliable nowatchdog", "--deadline", "25m"];
    let ran = script(&[&count[..], &fast[..]].concat(), &format!("{SAY}{SCRIPT}"));
    assert_eq!(ran.status, 0, "{} {}", ran.out, ran.err);
    let session = ran.out;
    println!("{session}");
    // what was measured outlives a kill -9, and of the block only this one is lost
    assert_eq!(number(&session, "before_kill"), number(&session, "after_kill"));
    assert!(number(&session, "before_kill") >= 2, "{session}");
    assert!(number(&session, "before_clock") >= number(&session, "after_kill") + 2, "{session}");
    assert!(number(&session, "blocks") > number(&session, "before_clock"), "{session}");
    let proof = document(&session, "proof")["agent"]["proofs"][0].clone();
    assert_eq!(proof["verdict"], "not-shown-yet", "{proof:#}");
    let text = answer_of_success(&session, "text");
    assert!(text.contains("not shown yet: needs 30 more days"), "{text}");
    let samples: Vec<Vec<&str>> = answer_of_success(&session, "samples")
        .lines()
        .map(|line| line.split(' ').collect())
        .collect();
    // a sample right after a switch has the state of the minute before: three in a row are needed
    let (mut off, mut reclaimed_on) = (0, 0);
    for three in samples.windows(3) {
        let states = [three[0][1], three[1][1], three[2][1]];
        let pages = |at: usize| three[at][2].parse::<u64>().unwrap();
        let reclaimed = pages(2) - pages(1);
        if states == ["off"; 3] {
            off += 1;
            assert_eq!(reclaimed, 0, "reclaimed while off: {three:?}\n{session}");
        } else if states == ["on"; 3] {
            reclaimed_on += reclaimed;
        }
    }
    // a coin for each of the 12 blocks: all on or all off once in 2,048 runs
    assert!(off > 0 && reclaimed_on > 0, "{off} {reclaimed_on}: {session}");
}
