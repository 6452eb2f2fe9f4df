// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many predicted gains come true: many plans in one guest, each applied, measured by `verify`
//! and undone.
//!
//! For most plans, a program holds data of one kind; `scan` of its cgroup predicts how well zram
//! will compress them, and then the kernel swaps them out. The other plans predict with a formula
//! of the kernel.
//!
//! The group `ledger` runs a few plans; `cargo xtask ledger` runs all of them, with three kernels.

use serde_json::Value;

use crate::boot::{SAY, answer, document, script};

/// Kinds of data, as functions that print about 4 MiB each, without a newline, so that `tail` keeps
/// all of it in memory.
const KINDS: &str = r#"
few() { head -c 4m; }
flat() { tr -d '\n'; }
some() { awk -v seed=$1 "BEGIN { srand(seed); for (i = 0; i < 60000; i++) { $2 } }" | flat | few; }
numbers() { seq 1000000 9999999 | few | flat; }
json() { some 1 'printf "{\"id\":%d,\"user\":\"u%x\",\"at\":%d.%03d,\"ok\":%s},", i, rand()*99999, 1700000000+i, rand()*999, rand()<.5?"true":"false"'; }
logs() { some 2 'printf "2026-11-%02d 12:%02d:%02d node%d kernel: request %d took %d ms ", i%28+1, i%60, i%59, rand()*9, i, rand()*999'; }
words() { some 3 'n=split("the memory of a machine is short and pages are read back from swap when programs need them again", w, " "); for (j = 0; j < 12; j++) printf "%s ", w[int(rand()*n)+1]; printf "%d ", rand()*1000'; }
symbols() { cat /proc/kallsyms /proc/kallsyms | flat | few; }
program() { cat /bin/busybox /bin/busybox /bin/busybox | tr '\n' x | few; }
noise() { cat /dev/urandom | flat | few; }
halves() { for i in $(seq 512); do head -c 4096 /dev/zero; head -c 4096 /dev/urandom | tr '\n' x; done; }
letters() { cat /dev/urandom | tr -dc a-p | few; }
sparse() { for i in $(seq 1024); do head -c 300 /dev/urandom | tr '\n' x; head -c 3796 /dev/zero; done; }
hex() { od -An -v -tx1 /bin/busybox | tr -d ' \n' | few; }
mixed() { for kind in json noise words program; do $kind | head -c 1m; done; }
"#;

/// Random data alone is not among them: a plan adds no zram for memory that does not compress.
const NAMES: [&str; 11] = [
    "json", "numbers", "words", "halves", "logs", "program", "letters", "sparse", "symbols", "hex",
    "mixed",
];

const SCRIPT: &str = r#"
mkdir -p /var/lib /etc /sys/fs/cgroup/held
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
# so little is available that a plan for the goal "ratio" adds swap
crowd() { head -c 230m /dev/zero > /dev/shm/filled; }
# apply, measure, undo; the answers are those of the last two
carry_out() {
    name=$1
    pagewise apply --yes --settle 0 /tmp/plan.json > /tmp/said 2>&1 || { echo "bad apply of $name"; cat /tmp/said; }
    [ -z "$2" ] || $2
    get verify-$name pagewise verify --json
    pagewise undo --all > /tmp/said 2>&1 || { echo "bad undo of $name"; cat /tmp/said; }
}
away() { for i in 1 2 3; do echo 120M > /sys/fs/cgroup/held/memory.reclaim; done 2> /dev/null; true; }
plan() { pagewise plan --json "$@" > /tmp/plan.json; }
scanned() {
    $1 > /tmp/data
    (echo 0 > /sys/fs/cgroup/held/cgroup.procs
     { for i in $(seq 12); do cat /tmp/data; done; exec sleep 1000; } | tail -n 1 > /dev/null) &
    size=$(($(wc -c < /tmp/data) * 12 / 1024))
    for try in $(seq 600); do
        held=$(cat /sys/fs/cgroup/held/memory.stat | awk '$1 == "anon" { print int($2 / 1024) }')
        [ $held -ge $size ] && break; sleep 0.2
    done
    pagewise scan --cgroup /held --json > /tmp/scan.json 2> /tmp/said || cat /tmp/said
    crowd
    plan --goal ratio --only zram --from /tmp/scan.json
    rm /dev/shm/filled
    carry_out $1 away
    echo 1 > /sys/fs/cgroup/held/cgroup.kill; wait; rm /tmp/data
}
area() { crowd; plan --goal ratio --only zram; rm /dev/shm/filled; carry_out area; }
scale() {
    sysctl -q vm.watermark_scale_factor=$1; plan --only watermarks; carry_out scale
    sysctl -q vm.watermark_scale_factor=10
}
min_free() {
    old=$(cat /proc/sys/vm/min_free_kbytes)
    sysctl -q vm.min_free_kbytes=$((old * 20)); plan --only watermarks; carry_out min-free
    sysctl -q vm.min_free_kbytes=$old
}
pool() { sysctl -q vm.nr_hugepages=20; plan --goal ratio --only hugetlb; carry_out pool; sysctl -q vm.nr_hugepages=0; }
"#;

/// The plans that predict with a formula.
const EXACT: [(&str, &str); 2] = [("scale", "scale 2000"), ("min-free", "min_free")];
/// The plans that predict nothing, because the step itself sets what could be measured.
const SET: [(&str, &str); 2] = [("area", "area"), ("pool", "pool")];

/// The number of kinds of data to use: all of them or a few.
fn kinds() -> usize {
    std::env::var("PAGEWISE_LEDGER_KINDS").map_or(2, |number| number.parse().expect("how many"))
}

fn predictions_come_true(kernel: &str) {
    let kinds = &NAMES[..kinds().min(NAMES.len())];
    let calls = kinds.iter().map(|kind| format!("scanned {kind}\n"));
    let exact = EXACT.iter().chain(&SET).map(|(_, call)| format!("{call}\n"));
    let calls: String = calls.chain(exact).collect();
    let session = format!("{SAY}{KINDS}{SCRIPT}{calls}get ledger pagewise ledger --json\n");
    let options = ["--kernel", kernel, "--memory", "512M", "--module", "zram", "--deadline", "40m"];
    let ran = script(&options, &session);
    let ledger = document(&ran.out, "ledger");
    assert!(!ran.out.contains("bad "), "{} {}", ran.out, ran.err);
    let names = kinds.iter().copied().chain(EXACT.map(|(name, _)| name));
    for name in names {
        let verified = document(&ran.out, &format!("verify-{name}"));
        let gains = &verified["plans"][0]["gains"];
        let first = gains[0].to_string();
        assert!(gains.as_array().is_some_and(|it| !it.is_empty()), "{name}: {verified:#}");
        println!("{kernel} {name} {first}");
    }
    for (name, _) in SET {
        let verified = document(&ran.out, &format!("verify-{name}"));
        assert_eq!(verified["plans"][0]["gains"], serde_json::json!([]), "{name}: {verified:#}");
    }
    assert_eq!(answer(&ran.out, "ledger").1, "0");
    let hits = |is_exact: bool| {
        let entries = ledger["entries"].as_array().unwrap().iter();
        let entries =
            entries.filter(|it| (it["metric"] != "zram_original_per_memory_used") == is_exact);
        let hits: Vec<bool> = entries.map(|it| it["hit"] == Value::Bool(true)).collect();
        (hits.iter().filter(|hit| **hit).count(), hits.len())
    };
    println!("{kernel}: estimates {:?}, exact {:?} came true", hits(false), hits(true));
    assert_eq!(hits(true), (EXACT.len(), EXACT.len()), "{ledger:#}");
    let (hit, all) = hits(false);
    assert_eq!(all, kinds.len(), "{ledger:#}");
    // by chance one in twenty misses, sometimes more: two of twelve are not unusual
    assert!(hit * 6 + 6 > all * 5, "{hit} of {all}: {ledger:#}");
}

#[test]
fn guest_of_trixie_measures_the_gains_of_many_plans() {
    predictions_come_true("trixie");
}

#[test]
#[ignore = "run by cargo xtask ledger"]
fn guest_of_bookworm_measures_the_gains_of_many_plans() {
    predictions_come_true("bookworm");
}

#[test]
#[ignore = "run by cargo xtask ledger"]
fn guest_of_sid_measures_the_gains_of_many_plans() {
    predictions_come_true("sid");
}
