// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise agent` and a zram device on real kernels: unused pages leave RAM, flash takes the limit of
//! the day and not a byte more, also if the agent is killed while it writes, and nothing that it set
//! stays.

use serde_json::Value;

use crate::boot::{SAY, answer, answer_of_success, document, script};

/// Text, and one part in eight that cannot be compressed, is swapped out to zram, whose backing device
/// is /dev/vda. The agent first may write 12 MiB of it, and is killed while it writes; the next ones
/// must keep to the 12 MiB. Then it may write enough for all. In the end somebody else limits the
/// writeback of the device.
const SCRIPT: &str = r#"
z=/sys/block/zram0
echo lz4 > $z/comp_algorithm 2> /dev/null || echo lzo > $z/comp_algorithm
echo /dev/vda > $z/backing_dev
echo 96M > $z/disksize && mkswap /dev/zram0 > /dev/null && swapon /dev/zram0
mkdir -p /etc/pagewise
group=/sys/fs/cgroup/held
echo +memory > /sys/fs/cgroup/cgroup.subtree_control 2> /dev/null
mkdir $group
seq 100000 4900000 | head -c 33554432 > /text; dd if=/dev/urandom of=/noise bs=1M count=4 2> /dev/null
(
    echo 0 > $group/cgroup.procs
    cp /text /dev/shm/text && cp /noise /dev/shm/noise
    echo 40M > $group/memory.reclaim
) 2> /dev/null
sum=$(cat /text /noise | sha256sum)
rm /text /noise
written() { echo $(($(awk '{ print $3 }' $z/bd_stat) * 4096)) $(($(awk '{ print $7 }' /sys/block/vda/stat) * 512)); }
ram() { awk '{ print $3 }' $z/mm_stat; }
configure() {
    printf '[budget]\ncpu_seconds_per_minute = %s\n[zram.zram0]\nidle_after = "4s"\ninterval = "2s"\nflash_per_day = "%s"\n' \
        $1 $2 > /etc/pagewise/agent.toml
}
until_said() {
    looks=0
    while [ $looks -lt 240 ] && ! grep -q "$1" /tmp/said; do sleep 0.5; looks=$((looks + 1)); done
}
configure 40 12M
say check pagewise agent --check
say dry pagewise agent --dry-run --once
say before ram
say unwritten written
sleep 5
kills=0
while [ $kills -lt 6 ]; do
    pagewise agent 2>> /tmp/killed & agent=$!
    sleep 0.$((kills * 37 % 10))
    [ $kills != 0 ] || { looks=0; while [ $looks -lt 100 ] && [ "$(cat $z/writeback_limit_enable)" = 0 ]; do sleep 0.1; looks=$((looks + 1)); done; }
    kill -9 $agent; wait $agent 2> /dev/null
    kills=$((kills + 1))
done
say killed cat $z/writeback_limit_enable
pagewise agent 2> /tmp/said & agent=$!
until_said 'of flash are spent'
sleep 5
kill $agent; wait $agent
say spent written
say said cat /tmp/killed /tmp/said
get status pagewise agent status --json
say limited cat $z/writeback_limit_enable
say first ram
configure 40 64M
pagewise agent 2> /tmp/said & agent=$!
looks=0
while [ $looks -lt 60 ] && [ $(awk '{ print $1 }' $z/bd_stat) -lt 7000 ]; do
    sleep 0.5; looks=$((looks + 1))
done
kill $agent; wait $agent
say all cat /tmp/said
say after ram
say stored cat $z/bd_stat
say state cat $z/writeback_limit_enable
say undo pagewise undo
say files ls /var/lib/pagewise
[ "$(cat /dev/shm/text /dev/shm/noise | sha256sum)" = "$sum" ]; say intact echo $?
echo 1 > $z/writeback_limit_enable
say others pagewise agent --once
"#;

fn numbers(session: &str, name: &str) -> Vec<u64> {
    let text = answer_of_success(session, name);
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

fn runs(suite: &str) {
    let options = ["--kernel", suite, "--memory", "384M", "--disk", "96M", "--deadline", "12m"];
    let ran = script(&options, &format!("{SAY}{SCRIPT}"));
    assert_eq!(ran.status, 0, "{suite}: {} {}", ran.out, ran.err);
    let session = ran.out;
    println!("{suite}: {session}");
    assert!(answer_of_success(&session, "dry").contains("zram0: would "), "{session}");
    let unwritten = numbers(&session, "unwritten");
    assert_eq!(unwritten[0], 0, "a dry run wrote");
    // to the byte, by zram's own counter and by the disk's
    let spent = numbers(&session, "spent");
    let limit = 12 << 20;
    assert_eq!((spent[0], spent[1] - unwritten[1]), (limit, limit), "{suite}: {session}");
    let status = document(&session, "status");
    let device = &status["agent"]["targets"][0];
    assert_eq!(device["flash_bytes_today"], Value::from(limit), "{status:#}");
    assert_eq!(answer_of_success(&session, "limited"), "0\n");
    // all that was unused left RAM
    let (before, after) = (numbers(&session, "before")[0], numbers(&session, "after")[0]);
    assert!(after * 4 <= before * 3, "{suite}: {before} → {after}");
    assert_eq!(answer_of_success(&session, "state"), "0\n", "{suite}: {session}");
    assert_eq!(answer(&session, "undo").1, "0", "{session}");
    assert_eq!(answer_of_success(&session, "intact").trim(), "0");
    assert!(answer_of_success(&session, "others").contains("somebody else limits"), "{session}");
}

#[test]
fn guest_the_agent_writes_unused_pages_of_zram_on_bookworm() {
    runs("bookworm");
}

#[test]
fn guest_the_agent_writes_unused_pages_of_zram_on_trixie() {
    runs("trixie");
}

#[test]
fn guest_the_agent_writes_unused_pages_of_zram_on_sid() {
    runs("sid");
}
