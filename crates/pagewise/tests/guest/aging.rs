// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise age` on real kernels: a cgroup with refaults gets new generations. How far refaults
//! fall is not checked: whether the kernel ages the cgroup itself depends on chance in an emulated
//! guest. docs/age.md has measurements.

use crate::boot::{SAY, answer, answer_of_success, document, script};

/// Code in use and data that is not, slightly above the limit of a cgroup, with zram. The window of
/// the data moves by a page in each iteration, so that most of the data stays unused. If the cgroup
/// has few refaults, because the kernel swapped out the data by itself, the workload starts anew, a
/// few times at most. debugfs is not mounted.
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
counted() { awk "/workingset_refault_file/ { print \$2 }" /sys/fs/cgroup/job/memory.stat; }
for again in 1 2 3 4 5 6; do
    mkdir -p /sys/fs/cgroup/job
    echo 48M > /sys/fs/cgroup/job/memory.max
    (echo 0 > /sys/fs/cgroup/job/cgroup.procs; exec env TMPDIR=/d pagewise lab workload swap data=40M code=12M \
        window=4M step=4K seconds=900 iterations=100000 > /tmp/out 2>&1) &
    looks=0
    while [ $looks -lt 60 ] && [ $(counted) -lt 3000 ]; do sleep 1; looks=$((looks + 1)); done
    pagewise --json age --cgroup /job --every 2s --times 8 > /tmp/age 2>&1; status=$?
    grep -q '"to": [0-9]' /tmp/age && break
    echo 1 > /sys/fs/cgroup/job/cgroup.kill; wait $!
    looks=0; until rmdir /sys/fs/cgroup/job 2> /dev/null || [ $looks = 20 ]; do sleep 0.2; looks=$((looks + 1)); done
done
say status echo $status
say age cat /tmp/age
get history pagewise age --history --json
say mounts grep debugfs /proc/self/mountinfo
say undo pagewise undo
echo n > /sys/kernel/mm/lru_gen/enabled
say off pagewise age --cgroup /job
echo 1 > /sys/fs/cgroup/job/cgroup.kill
"#;

fn session(suite: &str) -> String {
    let options = ["--kernel", suite, "--memory", "512M", "--cpus", "1", "--disk", "128M"];
    let options = [&options[..], &["--deadline", "12m"]].concat();
    let ran = script(&options, &format!("{SAY}{SCRIPT}"));
    assert_eq!(ran.status, 0, "{suite}: {} {}", ran.out, ran.err);
    ran.out
}

/// Each aging adds a generation and is recorded; nothing is aged that must not be, and no mount of
/// debugfs is left.
fn is_aged(suite: &str) {
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
    let idle = document(&session, "idle");
    assert_eq!(idle["aging"]["ended"], "few-refaults", "{idle:#}");
    assert_eq!(idle["aging"]["rounds"], serde_json::json!([]), "{idle:#}");
    let aging = document(&session, "age")["aging"].clone();
    println!("{suite}: {aging:#}");
    let expected = if aging["ended"] == "did-not-fall" { "3" } else { "0" };
    assert_eq!(answer_of_success(&session, "status").trim(), expected, "{aging:#}");
    let rounds = aging["rounds"].as_array().unwrap();
    assert!(!rounds.is_empty() && aging["before"]["file"].as_u64() >= Some(100), "{aging:#}");
    for round in rounds {
        let nodes = round["nodes"].as_array().unwrap();
        assert!(!nodes.is_empty() && round["after"]["seconds"].is_number(), "{aging:#}");
        for node in nodes {
            assert!(node["to"].as_u64() > node["from"].as_u64(), "{aging:#}");
        }
    }
    let history = document(&session, "history");
    assert_eq!(history["history"], aging["rounds"], "{history:#}");
    // debugfs was mounted for the process alone
    assert_eq!(answer(&session, "mounts"), ("", "1"));
    assert_eq!(answer(&session, "undo").1, "0", "{session}");
}

#[test]
fn guest_a_group_is_aged_on_bookworm() {
    is_aged("bookworm");
}

#[test]
fn guest_a_group_is_aged_on_trixie() {
    is_aged("trixie");
}

#[test]
fn guest_a_group_is_aged_on_sid() {
    is_aged("sid");
}
