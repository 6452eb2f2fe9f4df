// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Huge pages on other kernels: without PAGEMAP_SCAN (6.1), where splitting gives nothing back
//! (before 6.12), and where it does.

use crate::boot::script;
use serde_json::Value;

/// A shell that holds 16 MiB of numbers: looked at, collapsed, looked at again; then what happens
/// where the machine's policy is never. The shell starts nothing after it has filled them: a fork
/// write-protects all pages, and 6.1 and 6.12 refuse a piece in which none was written since.
///
/// Beside it another goes through its 5 MiB again and again, so that access can be told. A third needs
/// the processor now and then: only when it changes hands the emulated one looks into page tables again.
/// A guest that gets little of a processor goes through them seldom, so it is looked at longer then.
const COLLAPSE: &str = r#"
    echo madvise > /sys/kernel/mm/transparent_hugepage/enabled
    mkfifo /wait
    sh -c 'held=$(seq 1 3000000 | head -c 16000000); : > /ready; read x < /wait; echo $held' &
    COLD=$!
    until [ -e /ready ]; do sleep 0.2; done
    line() { tr -d '\n'; echo; }
    sh -c 'held=$(seq 1 800000); : > /hot; while :; do x=${#held}; done' &
    HOT=$!
    until [ -e /hot ]; do sleep 0.2; done
    while :; do :; done &
    for time in 2s 8s 32s; do
        SEEN=$(pagewise --json thp collapse --pid $COLD --pid $HOT --by-access $time --dry-run | line)
        case $SEEN in *'"used": 0'*) ;; *) break ;; esac
    done
    echo "$SEEN"
    kill $! $HOT
    cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds || echo 0
    pagewise --json thp --pid $COLD | line
    pagewise --json thp collapse --pid $COLD --max-growth 30% | line
    pagewise --json thp --pid $COLD | line
    pagewise lab workload hugepages data=32M neighbour=8M fragment=16M seconds=0.1
    echo never > /sys/kernel/mm/transparent_hugepage/enabled
    pagewise --json thp collapse --pid $COLD | line"#;

fn documents(suite: &str) -> Vec<Value> {
    let ran = script(&["--kernel", suite, "--memory", "768M", "--deadline", "300s"], COLLAPSE);
    assert_eq!(ran.status, 0, "{suite}: {}", ran.err);
    let lines = ran.out.lines().filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn number(document: &Value, path: &str) -> u64 {
    document.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}: {document}"))
}

#[test]
fn guest_of_every_suite_collapses_from_outside() {
    for (suite, method) in
        [("bookworm", "pagemap"), ("trixie", "pagemap-scan"), ("sid", "pagemap-scan")]
    {
        let all = documents(suite);
        let [seen, threads, before, done, after, filled, _never] = all.as_slice() else {
            panic!("{suite}: {all:?}")
        };
        what_is_in_use_comes_first(suite, seen);
        assert_eq!(threads.as_u64(), Some(0), "{suite}: threads of DAMON were left");
        let value = |name: &str| filled["values"][name].as_f64().unwrap_or(f64::NAN);
        assert!(value("coverage") > 0.5, "{suite}: {filled}");
        assert_eq!(value("neighbour-huge"), 0.0, "{suite}: nobody wanted that: {filled}");
        let looked = |document: &Value| document["looked"][0].clone();
        assert_eq!(looked(before)["method"], method, "{suite}");
        assert!(number(done, "/collapsed") >= 4, "{suite}: {done}");
        assert!(number(done, "/memory_after") <= number(done, "/memory_limit"), "{suite}: {done}");
        let huge = |document: &Value| number(&looked(document), "/coverage/anon_huge");
        let collapsed = number(done, "/collapsed") * (2 << 20);
        assert!(huge(after) >= huge(before) + collapsed, "{suite}: {done}");
    }
}

/// Debian's 6.1 is built without DAMON.
fn what_is_in_use_comes_first(suite: &str, seen: &Value) {
    if suite == "bookworm" {
        assert!(seen["by_access"]["unknown"].is_string(), "{suite}: {seen}");
        return;
    }
    assert!(seen["by_access"]["unknown"].is_null(), "{suite}: {seen}");
    let (blocks, used) = (number(seen, "/by_access/blocks"), number(seen, "/by_access/used"));
    // of the 16 MiB that sleep nothing, but for what lies in a region with something used
    assert!(used >= 1 && used + 5 <= blocks, "{suite}: {seen}");
}
