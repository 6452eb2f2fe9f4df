// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Huge pages with other kernels: without PAGEMAP_SCAN (6.1), with kernels where splitting frees no
//! memory (before 6.12), and where it does.

use crate::boot::script;
use crate::example::into_guest;
use serde_json::Value;

/// A program holds 16 MiB of text: it is examined, collapsed, examined again; then collapse is
/// tried while the machine's policy is never. Between filling and collapsing it must not fork: a
/// fork write-protects all pages, and 6.1 and 6.12 refuse to collapse a range without a page that
/// was written since.
///
/// Before that, another program writes one byte to each of its huge pages: a finding of the doctor.
///
/// At the same time another one writes to its 5 MiB again and again, so that DAMON sees accesses. A
/// third uses the CPU now and then, because an emulated CPU reads page tables again only after a
/// task switch. If the guest gets little CPU time, it is observed for longer.
const COLLAPSE: &str = r#"
    line() { tr -d '\n'; echo; }
    # a byte in each huge page: the rest of them is zeros
    echo always > /sys/kernel/mm/transparent_hugepage/enabled
    /hold 96 sparse still < /dev/null > /sparse &
    until grep -q held /sparse; do sleep 0.2; done
    # doctor reads pages for 0.3 s: where the guest got little of a processor meanwhile, it says that they are
    # too few to tell, and is asked again
    for again in 1 2 3 4 5 6 7 8; do
        SEEN=$(pagewise --json doctor --min-severity info --interval 0 | line)
        case $SEEN in *"how much of the memory in huge pages is zeros"*) ;; *) break ;; esac
    done
    echo "$SEEN"
    kill $!; wait $!
    echo madvise > /sys/kernel/mm/transparent_hugepage/enabled
    /hold 16 text still < /dev/null > /cold &
    COLD=$!
    /hold 5 text busy < /dev/null > /hot &
    HOT=$!
    for file in /cold /hot; do until grep -q held $file; do sleep 0.2; done; done
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
    /hold 6 text still < /dev/null > /new &
    until grep -q held /new; do sleep 0.2; done
    pagewise --json thp collapse --pid $! | line"#;

fn documents(suite: &str) -> Vec<Value> {
    let hold = into_guest("hold");
    let options = ["--kernel", suite, "--memory", "768M", "--deadline", "10m"].into_iter();
    let options = options.chain(hold.iter().map(String::as_str)).collect::<Vec<_>>();
    let ran = script(&options, COLLAPSE);
    assert_eq!(ran.status, 0, "{suite}: {}", ran.err);
    let lines = ran.out.lines().filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn number(document: &Value, path: &str) -> u64 {
    document.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}: {document}"))
}

fn collapses(suite: &str, method: &str) {
    let all = documents(suite);
    let [bloat, seen, threads, before, done, after, filled, never] = all.as_slice() else {
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
    // an explicit collapse works even with the policy never
    assert!(number(never, "/collapsed") >= 2, "{suite}: {never}");
    zeros_in_huge_pages_are_found(suite, bloat);
}

#[test]
fn guest_of_bookworm_collapses_from_outside() {
    collapses("bookworm", "pagemap");
}

#[test]
fn guest_of_trixie_collapses_from_outside() {
    collapses("trixie", "pagemap-scan");
}

#[test]
fn guest_of_sid_collapses_from_outside() {
    collapses("sid", "pagemap-scan");
}

/// PAGEMAP_SCAN shows which page is part of a huge page; 6.1 does not have it, so there the flags
/// of the page frame are read.
fn zeros_in_huge_pages_are_found(suite: &str, doctor: &Value) {
    let mut findings = doctor["findings"].as_array().unwrap().iter();
    let found = findings.find(|finding| finding["id"] == "thp-bloat");
    let title = found.map(|finding| finding["title"].as_str().unwrap());
    assert!(title.is_some_and(|title| title.ends_with("mostly in hold")), "{suite}: {doctor}");
}

/// Debian's 6.1 is built without DAMON.
fn what_is_in_use_comes_first(suite: &str, seen: &Value) {
    if suite == "bookworm" {
        assert!(seen["by_access"]["unknown"].is_string(), "{suite}: {seen}");
        return;
    }
    assert!(seen["by_access"]["unknown"].is_null(), "{suite}: {seen}");
    let (blocks, used) = (number(seen, "/by_access/blocks"), number(seen, "/by_access/used"));
    // nothing of the idle 16 MiB may count, except what shares a region with accessed memory
    assert!(used >= 1 && used + 5 <= blocks, "{suite}: {seen}");
}
