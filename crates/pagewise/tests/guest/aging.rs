// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup at its limit whose pages the kernel does not age (6.12, 7.2): `doctor` names it, and
//! `pagewise age` lowers its refaults. Only ratios within one run are checked.

use serde_json::Value;

use crate::boot::{SAY, answer, answer_of_success, document, script};

/// Code in use and data that is not, slightly above the limit of a cgroup, with zram. The window of
/// the data moves by a page in each iteration, so that most of the data stays unused. debugfs is not
/// mounted.
const SCRIPT: &str = r#"
echo lz4 > /sys/block/zram0/comp_algorithm
echo 128M > /sys/block/zram0/disksize && mkswap /dev/zram0 > /dev/null && swapon /dev/zram0
mkdir -p /sys/fs/cgroup/job /sys/fs/cgroup/idle /d
echo +memory > /sys/fs/cgroup/cgroup.subtree_control
echo 48M > /sys/fs/cgroup/job/memory.max
mke2fs -q /dev/vda > /dev/null && mount /dev/vda /d
umount /sys/kernel/debug 2> /dev/null
echo y > /sys/kernel/mm/lru_gen/enabled
say missing pagewise age --cgroup /none
say root pagewise age --cgroup /
echo 'nobody:x:65534:65534::/:/bin/sh' >> /etc/passwd
say stranger su nobody -c 'pagewise age --cgroup /idle'
get idle pagewise age --cgroup /idle --every 2s --json
(echo 0 > /sys/fs/cgroup/job/cgroup.procs
 exec env TMPDIR=/d pagewise lab workload swap data=40M code=12M window=4M step=4K seconds=900 \
    iterations=100000 > /dev/null 2>&1) &
counted() { awk "/workingset_refault_file/ { print \$2 }" /sys/fs/cgroup/job/memory.stat; }
looks=0
while [ $looks -lt 240 ] && [ $(counted) -lt $enough ]; do sleep 1; looks=$((looks + 1)); done
echo "== refaults $(counted)"
doctor() { pagewise --json doctor --interval 5s; [ $? = 3 ] || [ $? = 0 ]; }
get doctor doctor
say age pagewise --json age --cgroup /job --every 5s --times 8
get history pagewise age --history --json
say mounts grep debugfs /proc/self/mountinfo
say undo pagewise undo
echo n > /sys/kernel/mm/lru_gen/enabled
say off pagewise age --cgroup /job
kill $!
"#;

fn session(suite: &str, enough: u64) -> String {
    let options = ["--kernel", suite, "--memory", "512M", "--cpus", "1", "--disk", "128M"];
    let options = [&options[..], &["--deadline", "12m"]].concat();
    let ran = script(&options, &format!("{SAY}enough={enough}\n{SCRIPT}"));
    assert_eq!(ran.status, 0, "{suite}: {} {}", ran.out, ran.err);
    ran.out
}

/// What the answers have in common on all kernels.
fn is_careful(session: &str) {
    for (name, why) in [
        ("missing", "no memory cgroup /none"),
        ("root", "the root of all cgroups"),
        ("stranger", "run as root of the host"),
        ("off", "multi-gen LRU is off"),
    ] {
        let (text, status) = answer(session, name);
        assert!(status == "1" && text.contains(why) && text.contains("\n  next   "), "{text}");
    }
    let idle = document(session, "idle");
    assert_eq!(idle["aging"]["ended"], "few-refaults", "{idle:#}");
    assert_eq!(idle["aging"]["rounds"], serde_json::json!([]), "{idle:#}");
    // debugfs was mounted for the process alone
    assert_eq!(answer(session, "mounts"), ("", "1"));
    assert_eq!(answer(session, "undo").1, "0", "{session}");
}

fn aging_of(session: &str) -> Value {
    let (text, status) = answer(session, "age");
    let document: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"));
    let aging = document["aging"].clone();
    let expected = if aging["ended"] == "did-not-fall" { "3" } else { "0" };
    assert_eq!(status, expected, "{aging:#}");
    aging
}

fn per_second(refaults: &Value) -> f64 {
    let of = |key: &str| refaults[key].as_f64().unwrap();
    (of("file") + of("anon")) / of("seconds")
}

/// The cgroup is named by `doctor` with `age` as its first command; aging lets the kernel swap data
/// that nobody uses, and refaults fall.
fn is_aged(suite: &str) {
    let session = session(suite, 20_000);
    is_careful(&session);
    let doctor = document(&session, "doctor");
    let findings = doctor["findings"].as_array().unwrap();
    let finding = findings.iter().find(|it| it["id"] == "group-limit").unwrap();
    let next = finding["next"].as_array().unwrap();
    assert!(next[0].as_str().unwrap().starts_with("sudo pagewise age --cgroup /job "), "{next:#?}");
    assert!(next[1].as_str().unwrap().contains("lru_gen/enabled"), "{next:#?}");
    let aging = aging_of(&session);
    let rounds = aging["rounds"].as_array().unwrap();
    println!("{suite}: {aging:#}");
    assert_eq!(aging["before"]["swap"], 0, "{aging:#}");
    for round in rounds {
        for node in round["nodes"].as_array().unwrap() {
            assert!(node["to"].as_u64() > node["from"].as_u64(), "{aging:#}");
        }
    }
    let before = per_second(&aging["before"]);
    let shares = rounds.iter().map(|round| per_second(&round["after"]) / before);
    let least = shares.fold(f64::INFINITY, f64::min);
    assert!(least < 0.6, "{least}: {aging:#}");
    let swapped = rounds.last().unwrap()["after"]["swap"].as_u64().unwrap();
    assert!(swapped > 4 << 20, "{aging:#}");
    let history = document(&session, "history");
    let kept = history["history"].as_array().unwrap();
    assert_eq!(kept, rounds, "{history:#}");
    answer_of_success(&session, "history");
}

#[test]
fn guest_a_group_that_trixie_does_not_age_is_aged() {
    is_aged("trixie");
}

#[test]
fn guest_a_group_that_sid_does_not_age_is_aged() {
    is_aged("sid");
}

/// 6.1 ages the cgroup itself, and swaps its data.
#[test]
fn guest_bookworm_ages_such_a_group_itself() {
    let session = session("bookworm", 2_000);
    is_careful(&session);
    let aging = aging_of(&session);
    println!("bookworm: {aging:#}");
    assert!(aging["before"]["swap"].as_u64().unwrap() > 4 << 20, "{aging:#}");
}
