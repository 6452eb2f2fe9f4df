// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise scan` on other kernels: with cgroup version 2, with multi-gen LRU, by pagemap alone.

use crate::boot::script;
use serde_json::Value;

/// A shell that holds 16 MiB of text in a cgroup of its own, and what scan says of it.
const HOLD: &str = r"
    mkdir /sys/fs/cgroup/held
    sh -c 'echo $$ > /sys/fs/cgroup/held/cgroup.procs
           held=$(seq 1 1000000 | head -c 4000000); touch /ready; sleep 60; echo $held' &
    until [ -e /ready ]; do sleep 0.2; done
    # a new generation, so that the one before can be told to be cold or not
    group=$(grep ' /held$' /sys/kernel/debug/lru_gen | tr -s ' ' | cut -d ' ' -f 2)
    [ -z $group ] || echo + $group 0 $(grep -A 9 ' /held$' /sys/kernel/debug/lru_gen | tr -s ' ' |
        grep '^ [0-9]' | head -4 | tail -1 | cut -d ' ' -f 2) > /sys/kernel/debug/lru_gen
    pagewise scan --cgroup /held --measure --json --algorithm lz4";

/// A shell with 4 MB of numbers, looked at alive, in the core that the kernel writes of it, and in half
/// of that. A line of JSON each.
const CORE: &str = r"
    cd /tmp && echo core > /proc/sys/kernel/core_pattern && echo 0 > /proc/sys/kernel/core_uses_pid
    ulimit -c unlimited
    sh -c 'held=$(seq 1 1000000 | head -c 4000000); touch /ready; sleep 60; echo $held' &
    until [ -e /ready ]; do sleep 0.2; done
    look() { pagewise scan --exact --json --algorithm lz4 $* | tr -d '\n'; echo; }
    look --pid $!
    kill -ABRT $!
    wait $!
    look --core core
    head -c $(($(stat -c %s core) / 2)) core > half
    look --core half";

/// All of the host without multi-gen LRU, once damon_stat has measured; a process; the same process
/// with a DAMON thread that watches it.
const DAMON: &str = r"
    echo n > /sys/kernel/mm/lru_gen/enabled
    sleep 60 &
    idle=/sys/module/damon_stat/parameters/memory_idle_ms_percentiles
    for i in $(seq 60); do grep -q '[1-9]' $idle && break; sleep 1; done
    look() { pagewise scan --measure --json --algorithm lz4 $* | tr -d '\n'; echo; }
    look --host
    look --pid $!
    echo N > /sys/module/damon_stat/parameters/enabled
    cd /sys/kernel/mm/damon/admin/kdamonds
    echo 1 > nr_kdamonds && echo 1 > 0/contexts/nr_contexts
    echo vaddr > 0/contexts/0/operations && echo 1 > 0/contexts/0/targets/nr_targets
    echo $! > 0/contexts/0/targets/0/pid_target && echo on > 0/state
    look --pid $!";

fn scan(suite: &str) -> Value {
    let ran = script(&["--kernel", suite], HOLD);
    assert_eq!(ran.status, 0, "{suite}: {}", ran.err);
    serde_json::from_str::<Value>(&ran.out).expect("JSON")["estimates"][0].clone()
}

#[test]
fn guest_of_every_suite_is_scanned_by_cgroup() {
    for suite in ["bookworm", "trixie", "sid"] {
        let estimate = scan(suite);
        assert_eq!(estimate["source"]["kind"], "cgroup", "{suite}: {estimate:#}");
        let pages = estimate["pages"].as_u64().expect("pages");
        assert!((900..20_000).contains(&pages), "{suite}: {pages} pages of about 4 MB");
        let ratio = estimate["algorithms"][0]["original_per_compressed"].as_f64();
        assert!(ratio.is_some_and(|ratio| ratio > 1.5), "{suite}: numbers compress: {ratio:?}");
        let marked = estimate["disturbed"]["referenced_pages"].as_u64();
        assert_eq!(marked, estimate["sampled_pages"].as_u64(), "{suite}");
    }
}

#[test]
fn guest_with_multi_gen_lru_tells_what_is_cold_and_one_without_says_why_not() {
    let young = &scan("sid")["cold"];
    assert_eq!(young["value"], 0, "nothing there is two minutes old: {young}");
    let off = &scan("bookworm")["cold"]["absent"];
    assert_eq!(off, "multi-gen LRU is off: /sys/kernel/mm/lru_gen/enabled");
}

#[test]
fn guest_core_of_every_kernel_is_what_the_process_was() {
    for suite in ["bookworm", "trixie", "sid"] {
        let ran = script(&["--kernel", suite], CORE);
        assert_eq!(ran.status, 0, "{suite}: {}", ran.err);
        let parsed = |line| serde_json::from_str::<Value>(line).expect("JSON");
        let all: Vec<Value> =
            ran.out.lines().map(|line| parsed(line)["estimates"][0].clone()).collect();
        let [alive, core, half] = all.as_slice() else { panic!("{suite}: {}", ran.out) };
        let number = |of: &Value, key: &str| of[key].as_u64().expect(key);
        let pages = number(alive, "pages");
        assert!(pages > 900, "{suite}: {pages} pages of about 4 MB");
        assert!(number(core, "pages").abs_diff(pages) <= 20, "{suite}: {alive:#} {core:#}");
        let bytes = |of: &Value| of["algorithms"][0]["compressed_bytes"].as_f64().expect("bytes");
        assert!((bytes(core) / bytes(alive) - 1.0).abs() < 0.02, "{suite}: {alive:#} {core:#}");
        assert!(core["partial"].is_null(), "{suite}: {core:#}");
        let why = half["partial"].as_str().expect("a reason");
        assert!(why.starts_with("the core is truncated after"), "{suite}: {why}");
        assert!(number(half, "pages") < pages * 3 / 4, "{suite}: {half:#}");
    }
}

/// What watches memory in the newest of them is told beside, as it says nothing of one process.
#[test]
fn guest_without_an_answer_says_who_could_give_one() {
    let looked = |script_of: &str| {
        let ran = script(&["--kernel", "sid"], script_of);
        assert_eq!(ran.status, 0, "{}", ran.err);
        let cold = |line: &str| {
            serde_json::from_str::<Value>(line).expect("JSON")["estimates"][0]["cold"]["absent"]
                .as_str()
                .map(str::to_owned)
        };
        ran.out.lines().map(cold).collect::<Vec<_>>()
    };
    let said = looked(DAMON);
    let [Some(all), Some(one), Some(watched)] = said.as_slice() else { panic!("{said:?}") };
    assert!(all.contains("multi-gen LRU is off") && all.contains("damon_stat saw 0 %"), "{all}");
    assert!(one.contains("damo start"), "{one}");
    assert!(watched.contains("damo report access"), "{watched}");
}
