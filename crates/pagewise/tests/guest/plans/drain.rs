// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Switching swap off, checked against the kernel: if `apply` refuses, swapoff would have failed or
//! caused a kill; if `apply` does it, no process is harmed.
//!
//! A process in a cgroup holds memory, part of it in zram swap, and knows its contents. For each
//! case the guest changes limits and swap, lets `apply` switch the zram swap off, and then lets the
//! process check its memory. If `apply` refuses, the guest runs swapoff itself.

use serde_json::json;

use crate::applied::{plan, step};
use crate::boot::{SAY, answer_of_success, script};

/// Name of the case, whether the pages fit, and words of the script that change the machine before
/// swapoff.
const CASES: [(&str, bool, &str); 20] = [
    ("other-swap", true, ""),
    ("no-other-swap", false, "other 0"),
    ("no-other-swap-and-no-limit", true, "other 0; set memory.max max"),
    ("no-other-swap-and-a-limit-that-suffices", true, "other 0; set memory.max 60M"),
    ("no-other-swap-and-a-limit-that-does-not", false, "other 0; set memory.max 15M"),
    ("other-swap-that-is-too-small", false, "other 4"),
    ("other-swap-that-just-suffices", true, "other 40"),
    ("other-zram-with-a-mem-limit", false, "other 128; echo 1M > /sys/block/zram1/mem_limit"),
    ("no-swap-allowed", false, "set memory.swap.max 0"),
    ("no-more-swap-allowed", false, "set memory.swap.max $(cat $group/memory.swap.current)"),
    ("more-swap-allowed", true, "set memory.swap.max 64M"),
    (
        "no-swap-allowed-and-a-limit-that-suffices",
        true,
        "set memory.swap.max 0; set memory.max 60M",
    ),
    ("swappiness-0", false, "echo 0 > /proc/sys/vm/swappiness"),
    ("swappiness-1", true, "echo 1 > /proc/sys/vm/swappiness"),
    ("a-limit-above", false, "set memory.max max; above memory.max 12M; other 0"),
    ("a-limit-above-that-suffices", true, "set memory.max max; above memory.max 60M; other 0"),
    ("a-limit-above-and-other-swap", true, "set memory.max max; above memory.max 12M"),
    ("no-swap-allowed-above", false, "above memory.swap.max 0"),
    ("strict-overcommit", false, "other 8; strict 60"),
    ("strict-overcommit-with-room", true, "strict 200"),
];

/// `$group` is in `$outer`, which has no limit.
const SCRIPT: &str = r#"
cat /sys/class/zram-control/hot_add > /dev/null
mount -t cgroup2 none /sys/fs/cgroup 2> /dev/null
outer=/sys/fs/cgroup/outer; group=$outer/group
mkdir -p /etc /var/lib /tmp /run $outer
echo +memory > /sys/fs/cgroup/cgroup.subtree_control; echo +memory > $outer/cgroup.subtree_control
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
hash=$(printf 'pagewise machine-id %s' "$(cat /etc/machine-id)" | sha256sum | cut -c1-32)
total=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo) * 1024))
sed -i "s/HASH/$hash/; s/4711/$total/" /opt/plan.json
new() { echo 1 > /sys/block/zram$1/reset; echo ${2}M > /sys/block/zram$1/disksize && mkswap /dev/zram$1 > /dev/null && swapon /dev/zram$1; }
set() { echo $2 > $group/$1; }
above() { echo $2 > $outer/$1; }
other() { swapoff /dev/zram1; [ $1 = 0 ] || new 1 $1; }
# so many MiB may be committed in addition
strict() {
    committed=$(sed -n 's/^Committed_AS: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
    swap=$(sed -n 's/^SwapTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
    echo $((committed + $1 * 1024 - swap)) > /proc/sys/vm/overcommit_kbytes; echo 2 > /proc/sys/vm/overcommit_memory
}
# holds memory, and says at each line that it reads whether that is as it was
cat > /tmp/holder <<'END'
BEGIN {
    for (i = 0; i < 200000; i++) a[i] = "some text " i
    print "filled"; fflush()
    while ((getline line < "/tmp/ask") >= 0) {
        close("/tmp/ask"); bad = 0
        for (i = 0; i < 200000; i++) bad += a[i] != "some text " i
        print (bad ? "lost " bad : "intact"); fflush()
    }
}
END
mkfifo /tmp/ask
waits_for() { for k in $(seq 480); do grep -q "$1" /tmp/told && return; sleep 0.25; done; return 1; }
begin() {
    new 0 64; new 1 128; : > /tmp/told
    mkdir $group; set memory.max 12M
    (echo 0 > $group/cgroup.procs; exec awk -f /tmp/holder > /tmp/told 2>&1) & holder=$!
    waits_for filled
}
end() {
    echo 0 > /proc/sys/vm/overcommit_memory; echo 60 > /proc/sys/vm/swappiness
    kill -9 $holder 2> /dev/null; wait $holder 2> /dev/null
    swapoff /dev/zram0 2> /dev/null; swapoff /dev/zram1 2> /dev/null
    above memory.max max; above memory.swap.max max
    for k in $(seq 600); do rmdir $group 2> /dev/null && break; sleep 0.1; done
}
killed() { cat $outer/memory.events | sed -n 's/^oom_kill //p'; }
try() {
    begin
    swapped=$(($(cat $group/memory.swap.current) >> 20)); before=$(killed)
    eval "$2"
    pagewise apply --yes --settle 0 /opt/plan.json > /tmp/out 2>&1; status=$?
    alive=0; kill -0 $holder 2> /dev/null && alive=1
    echo "case $1 swapped $swapped status $status killed $(($(killed) - before)) alive $alive on $(grep -c zram0 /proc/swaps)"
    if [ $status != 0 ]; then
        sed 's/^/about /' /tmp/out
        before=$(killed); timeout 60 swapoff /dev/zram0 > /tmp/out 2>&1; raw=$?
        echo "without $1 status $raw killed $(($(killed) - before))"
    else
        # where a refusal was right, the process may not even read its memory
        : > /tmp/told; echo > /tmp/ask; waits_for 'intact\|lost'; echo "contents $1 $(cat /tmp/told)"
        pagewise undo --all > /tmp/out 2>&1 || { echo "undo failed"; cat /tmp/out; }
    fi
    end
}
"#;

/// Twenty programs hold memory in zram swap, and start to grow at some moment of the drain: first
/// without `apply`, then so many seconds after the kernel has begun swapoff.
const STARTS: [&str; 5] = ["0", "0.05", "0.1", "0.2", "0.4"];
const FILLERS: u64 = 20;

const GROWTH: &str = r#"
cat /sys/class/zram-control/hot_add > /dev/null
mount -t cgroup2 none /sys/fs/cgroup 2> /dev/null
group=/sys/fs/cgroup/fillers
mkdir -p /etc /var/lib /tmp /run $group
echo +memory > /sys/fs/cgroup/cgroup.subtree_control
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
hash=$(printf 'pagewise machine-id %s' "$(cat /etc/machine-id)" | sha256sum | cut -c1-32)
total=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo) * 1024))
sed -i "s/HASH/$hash/; s/4711/$total/" /opt/plan.json
# holds 7 MiB; after the start, it grows by 10 MiB in steps of 1 MiB
cat > /tmp/filler <<'END'
BEGIN {
    for (i = 0; i < 7; i++) a[i] = sprintf("%1048576d", i)
    print "filled"; fflush()
    getline line < "/tmp/start"
    for (i = 7; i < 17; i++) a[i] = sprintf("%1048576d", i)
    for (i = 0; i < 17; i++) bad += a[i] + 0 != i || length(a[i]) != 1048576
    print (bad ? "lost " bad : "intact"); fflush()
    getline line < "/tmp/end"
}
END
mkfifo /tmp/start /tmp/end
killed() { sed -n 's/^oom_kill //p' /proc/vmstat; }
kib() { sed -n "s/^$1: *\([0-9]*\) kB$/\1/p" /proc/meminfo; }
# until so many programs have said this word
waits_for() { for k in $(seq 300); do [ $(cat /tmp/told.* | grep -c "$1") -ge $2 ] && return; sleep 0.2; done; return 1; }
try() {
    echo 1 > /sys/block/zram0/reset; echo 320M > /sys/block/zram0/disksize
    mkswap /dev/zram0 > /dev/null; swapon /dev/zram0
    rm -f /tmp/told.*; pids=
    for n in $(seq 20); do
        (echo 0 > $group/cgroup.procs; exec awk -f /tmp/filler > /tmp/told.$n 2>&1) & pids="$pids $!"
    done
    waits_for filled 20
    echo 130M > $group/memory.reclaim 2> /dev/null
    swapped=$(($(cat $group/memory.swap.current) >> 20)); available=$(($(kib MemAvailable) >> 10))
    before=$(killed); status=none; total=$(kib SwapTotal)
    if [ $1 != without ]; then
        pagewise apply --yes --settle 5s /opt/plan.json > /tmp/out 2>&1 & apply=$!
        # swapoff begins with taking the area from the total
        for k in $(seq 3000); do [ "$(kib SwapTotal)" = "$total" ] || break; done
        [ $1 = 0 ] || sleep $1
    fi
    echo "during $1: $(grep zram0 /proc/swaps)"
    : > /tmp/start
    [ $1 = without ] || { wait $apply; status=$?; }
    waits_for 'intact\|lost' 20
    alive=0; for pid in $pids; do kill -0 $pid 2> /dev/null && alive=$((alive + 1)); done
    echo "start $1 swapped $swapped available $available status $status killed $(($(killed) - before)) alive $alive intact $(cat /tmp/told.* | grep -c intact) on $(grep -c zram0 /proc/swaps)"
    [ $1 = without ] || sed 's/^/about /' /tmp/out
    kill -9 $pids 2> /dev/null; wait $pids 2> /dev/null
    pagewise undo > /tmp/out 2>&1 || { echo "undo failed"; cat /tmp/out; }
    [ -z "$(ls /var/lib/pagewise/*.plan* 2> /dev/null)" ] || echo "a journal was left: $(ls /var/lib/pagewise)"
    swapoff /dev/zram0 2> /dev/null
}
"#;

/// The number after this word.
fn number(line: &str, word: &str) -> u64 {
    let mut words = line.split_whitespace().skip_while(|it| *it != word).skip(1);
    words.next().and_then(|it| it.parse().ok()).unwrap_or_else(|| panic!("{word} in {line}"))
}

/// A plan that disables `/dev/zram0`, in a file.
struct DrainPlan(tempfile::TempDir);

impl DrainPlan {
    fn new(size: u64) -> Self {
        let held = json!({"size_bytes": size, "used_bytes": 0, "priority": -2});
        let drain = json!({"action": "drain-swap", "target": "/dev/zram0", "from": held});
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("plan.json"), plan(&[step("drain", drain)])).unwrap();
        Self(folder)
    }

    /// The option that puts it into a guest.
    fn option(&self) -> String {
        format!("--file={}:/opt/plan.json", self.0.path().join("plan.json").display())
    }
}

/// The line that begins with these words.
#[track_caller]
fn line<'a>(session: &'a str, start: &str) -> &'a str {
    let found = session.lines().find(|line| line.starts_with(start));
    found.unwrap_or_else(|| panic!("{start}: {session}"))
}

#[test]
fn guest_programs_that_grow_while_swap_is_switched_off_are_not_killed() {
    let sent = DrainPlan::new((320 << 20) - 4096);
    let sent = sent.option();
    let tries: Vec<String> = STARTS.iter().map(|start| format!("try {start}\n")).collect();
    let options = [
        "--kernel",
        "trixie",
        "--memory",
        "384M",
        "--module",
        "zram",
        "--cpus",
        "2",
        "--deadline",
        "8m",
        &sent,
    ];
    let ran =
        script(&options, &format!("{SAY}{GROWTH}try without\n{}say end true\n", tries.concat()));
    let session = &ran.out;
    answer_of_success(session, "end");
    let without = line(session, "start without ");
    assert_eq!(number(without, "intact"), FILLERS, "{session}");
    let kills = number(without, "killed");
    let mut stopped = 0;
    for start in STARTS {
        let case = line(session, &format!("start {start} "));
        assert!(number(case, "swapped") >= 50, "{case}\n{session}");
        assert!(number(case, "killed") <= kills, "{case}\n{session}");
        assert_eq!(
            (number(case, "alive"), number(case, "intact")),
            (FILLERS, FILLERS),
            "{session}"
        );
        // all of it fits nowhere but in swap
        assert_eq!(number(case, "on"), 1, "{case}\n{session}");
        stopped += u64::from(case.contains("status 1 "));
    }
    assert_eq!(stopped, 5, "{session}");
    assert!(
        !session.contains("undo failed") && !session.contains("a journal was left"),
        "{session}"
    );
    assert_eq!(session.matches("a program grew meanwhile").count(), 5, "{session}");
    println!("{session}");
}

#[test]
fn guest_swap_is_switched_off_only_if_nobody_is_killed_for_it() {
    let sent = DrainPlan::new(67_104_768);
    let sent = sent.option();
    let tries: Vec<String> =
        CASES.iter().map(|(name, _, change)| format!("try {name} '{change}'\n")).collect();
    let options =
        ["--kernel", "trixie", "--memory", "384M", "--module", "zram", "--deadline", "12m", &sent];
    let ran = script(&options, &format!("{SAY}{SCRIPT}{}say end true\n", tries.concat()));
    let session = &ran.out;
    answer_of_success(session, "end");
    let line = |start: String| line(session, &start);
    for (name, fits, _) in CASES {
        let case = line(format!("case {name} "));
        assert!(number(case, "swapped") >= 5, "{case}\n{session}");
        let (status, on) = (number(case, "status"), number(case, "on"));
        assert_eq!((status == 0, on == 0), (fits, fits), "{case}\n{session}");
        assert_eq!((number(case, "killed"), number(case, "alive")), (0, 1), "{case}\n{session}");
        if fits {
            assert_eq!(line(format!("contents {name} ")), format!("contents {name} intact"));
        } else {
            // apply refused: without it, the process must be harmed or swapoff must fail
            let without = line(format!("without {name} "));
            let is_harmed = number(without, "status") != 0 || number(without, "killed") > 0;
            assert!(is_harmed, "{without}\n{session}");
        }
    }
    assert!(!session.contains("undo failed"), "{session}");
    println!("{} cases, each decided as the kernel would have", CASES.len());
}
