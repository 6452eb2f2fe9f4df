// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise age` on real kernels: on 6.12 and 7.2 the refaults of a cgroup that the kernel never
//! ages fall after it was aged; 6.1 ages the same cgroup itself. docs/age.md has measurements.

use serde_json::{Value, json};

use crate::boot::{
    PRIVILEGES, SAY, answer, answer_of_success, assert_all_privileges, document, script,
};

/// Code in use and data that is not, slightly above the limit of a cgroup, with zram. The window of
/// the data moves by a page in each iteration, so that most of the data stays unused. If refaults do
/// not fall, the workload starts anew in another cgroup, a few times at most. debugfs is not mounted.
const SCRIPT: &str = r#"
echo lz4 > /sys/block/zram0/comp_algorithm
echo 128M > /sys/block/zram0/disksize && mkswap /dev/zram0 > /dev/null && swapon /dev/zram0
mkdir -p /sys/fs/cgroup/idle /d
echo +memory > /sys/fs/cgroup/cgroup.subtree_control
mke2fs -q /dev/vda > /dev/null && mount /dev/vda /d
umount /sys/kernel/debug 2> /dev/null
echo y > /sys/kernel/mm/lru_gen/enabled
say missing pagewise age --cgroup /none
say root pagewise age --cgroup /
echo 'nobody:x:65534:65534::/:/bin/sh' >> /etc/passwd
say stranger su nobody -c 'pagewise age --cgroup /idle'
get idle pagewise age --cgroup /idle --every 2s --json
say privileges privileges pagewise age --cgroup /idle --every 2s
for again in 1 2 3 4; do
    group=/sys/fs/cgroup/aged$again
    mkdir $group
    echo 48M > $group/memory.max
    TMPDIR=/d sh -c 'echo $$ > '$group'/cgroup.procs; exec "$@"' - pagewise lab workload swap data=40M code=12M \
        window=4M step=4K seconds=900 iterations=100000 > /tmp/out 2>&1 &
    looks=0
    counted() { awk '/workingset_refault_file/ { print $2 }' $group/memory.stat; }
    while [ $looks -lt 40 ] && [ $(counted) -lt 3000 ]; do sleep 1; looks=$((looks + 1)); done
    pagewise --json age --cgroup /aged$again --every 2s --times 8 > /tmp/age 2>&1; status=$?
    grep -q did-not-fall /tmp/age || break
    echo 1 > $group/cgroup.kill; wait $!
done
say status echo $status
say age cat /tmp/age
get history pagewise age --history --json
say mounts grep debugfs /proc/self/mountinfo
say undo pagewise undo
echo n > /sys/kernel/mm/lru_gen/enabled
say off pagewise age --cgroup /idle
echo 1 > $group/cgroup.kill
"#;

fn session(suite: &str) -> String {
    let options = ["--kernel", suite, "--memory", "512M", "--disk", "128M"];
    let options = [&options[..], &["--deadline", "12m"]].concat();
    let ran = script(&options, &format!("{SAY}{PRIVILEGES}{SCRIPT}"));
    assert_eq!(ran.status, 0, "{suite}: {} {}", ran.out, ran.err);
    ran.out
}

/// What is refused, a group that has no refaults, and that no mount of debugfs is left. Returns the
/// document of the group that has refaults, or whose pages the kernel ages by itself.
fn aging(suite: &str) -> Value {
    let session = session(suite);
    for (name, why) in [
        ("missing", "no memory cgroup /none"),
        ("root", "the root of all cgroups"),
        ("stranger", "run as root of the host"),
        ("off", "multi-gen LRU is off"),
    ] {
        let (text, status) = answer(&session, name);
        assert!(status == "1" && text.contains(why) && text.contains("\n  next   "), "{text}");
    }
    assert_all_privileges(&session, "privileges");
    let idle = document(&session, "idle");
    assert_eq!(idle["aging"]["ended"], "few-refaults", "{idle:#}");
    assert_eq!(idle["aging"]["rounds"], json!([]), "{idle:#}");
    let aging = document(&session, "age")["aging"].clone();
    println!("{suite}: {aging:#}");
    let expected = if aging["ended"] == "did-not-fall" { "3" } else { "0" };
    assert_eq!(answer_of_success(&session, "status").trim(), expected, "{aging:#}");
    for round in aging["rounds"].as_array().unwrap() {
        let nodes = round["nodes"].as_array().unwrap();
        assert!(!nodes.is_empty() && round["after"]["seconds"].is_number(), "{aging:#}");
        for node in nodes {
            assert!(node["to"].as_u64() > node["from"].as_u64(), "{aging:#}");
        }
    }
    let history = document(&session, "history")["history"].clone();
    let rounds = aging["rounds"].as_array().unwrap();
    assert!(history.as_array().unwrap().ends_with(rounds), "{history:#}");
    // debugfs was mounted for the process alone
    assert_eq!(answer(&session, "mounts"), ("", "1"));
    assert_eq!(answer(&session, "undo").1, "0", "{session}");
    aging
}

/// The kernel never ages the group by itself: after it was aged, it has at most half of the refaults.
fn is_aged(suite: &str) {
    let aging = aging(suite);
    assert_eq!(aging["ended"], "fell", "{aging:#}");
    let before = aging["before"]["file"].as_u64().unwrap();
    let after = aging["rounds"].as_array().unwrap().last().unwrap()["after"]["file"].as_u64();
    assert!(before >= 100 && after.is_some_and(|after| after * 2 <= before), "{aging:#}");
}

#[test]
fn guest_a_group_that_the_kernel_ages_is_left_alone_on_bookworm() {
    let aging = aging("bookworm");
    assert_eq!(aging["ended"], "few-refaults", "{aging:#}");
}

#[test]
fn guest_a_group_is_aged_on_trixie() {
    is_aged("trixie");
}

#[test]
fn guest_a_group_is_aged_on_sid() {
    is_aged("sid");
}
