// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls that fail, and kills, while a plan is applied or undone in a real kernel:
//! afterwards each setting, file and swap area is as before, as planned, or named in a journal, and
//! `pagewise undo` restores all of them.
//!
//! strace makes one call of a run fail, or kills the program as it enters that call. So a run is
//! interrupted once at each write to the machine and at each record of the journal. The plan sets a
//! value, writes a new and an existing file, makes a link, makes a zram device, and switches off
//! another one that holds data.
//!
//! The group `plan-faults` (`cargo xtask groups`) tries some of the calls; `cargo xtask faults`
//! tries more.

use std::process::Command;

use serde_json::{Value, json};

use crate::applied::{file, plan, step};
use crate::boot::{SAY, answer, script};

const EXISTING: &str = "/etc/sysctl.d/50-existing.conf";

/// Calls that read are among them: if a plan cannot read a value, it must not write it.
const CALLS: &str = "write openat read fsync fdatasync rename renameat renameat2 unlink unlinkat rmdir mkdir \
                     mkdirat symlink symlinkat swapon swapoff fchmod fchown ftruncate";

/// A shell function `traced` that runs strace.
pub(crate) const TRACED: &str = r#"
chmod 755 /opt/strace/*
traced() { /opt/strace/ld.so --library-path /opt/strace /opt/strace/strace "$@"; }
"#;

/// Makes one call after the other fail, `$wanted` of the `$calls` that complete runs make. The
/// script defines before this: the functions `state` and `away`, which swaps out `/dev/shm/data`
/// (its checksum is `$sum`), and the commands `$apply` and `$undo`.
pub(crate) const FAULTS: &str = r#"
state > /tmp/before
traced -f -qq -e trace=$calls -o /tmp/apply.trace $apply > /tmp/out 2>&1; say apply cat /tmp/out
state > /tmp/target
traced -f -qq -e trace=$calls -o /tmp/undo.trace $undo > /tmp/out 2>&1; say undo cat /tmp/out
state > /tmp/now; say difference diff /tmp/before /tmp/now
journals() { ls /var/lib/pagewise 2> /dev/null | grep -c plan; }
# verb, call, what happens, which of the calls
fault() {
    away
    if [ $1 = undo ]; then $apply > /dev/null 2>&1 || echo "bad apply before $*"; away; fi
    eval command=\$$1
    traced -f -qq -e trace=$2 -e inject=$2:$3:when=$4 -o /tmp/trace $command > /tmp/out 2>&1
    status=$?
    if [ $3 = signal=KILL ]; then hit=$(grep -c 'killed by SIGKILL' /tmp/trace); else hit=$(grep -c INJECTED /tmp/trace); fi
    state > /tmp/was
    was=other; cmp -s /tmp/was /tmp/target && was=target; cmp -s /tmp/was /tmp/before && was=before
    left=$(journals)
    $undo > /tmp/undone 2>&1; undone=$?
    state > /tmp/now
    now=other; cmp -s /tmp/now /tmp/before && now=before
    data=lost; [ "$(sha256sum < /dev/shm/data)" = "$sum" ] && data=kept
    echo "fault $1 $2 $3 $4 hit $hit status $status was $was journals $left undone $undone now $now data $data journals $(journals)"
    if [ $now = other ]; then
        echo "about $*"; cat /tmp/out /tmp/undone; diff /tmp/before /tmp/was; diff /tmp/before /tmp/now
        exit 1
    fi
}
# all calls of both runs, as often as they were made
for verb in apply undo; do
    for call in $(echo $calls | tr , ' '); do
        n=$(grep -c "^[0-9]* *$call(" /tmp/$verb.trace); k=0
        # thousands of reads: only some of them
        case $call in read | openat) step=$((n / 20 + 1));; *) step=1;; esac
        while [ $((k + step)) -le $n ]; do k=$((k + step)); echo "$verb $call signal=KILL $k"; echo "$verb $call error=EIO $k"; done
    done
done > /tmp/all
all=$(wc -l < /tmp/all); echo "faults $all"
# every so many of them, from the first on
awk -v all=$all -v wanted=$wanted 'int(NR * wanted / all) != int((NR - 1) * wanted / all)' /tmp/all > /tmp/chosen
while read verb call how k; do fault $verb $call $how $k < /dev/null; done < /tmp/chosen
say end true
"#;

const SCRIPT: &str = r#"
mkdir -p /etc/sysctl.d /var/lib /tmp /run /dev/shm /sys/fs/cgroup/data
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
hash=$(printf 'pagewise machine-id %s' "$(cat /etc/machine-id)" | sha256sum | cut -c1-32)
total=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo) * 1024))
sed -i "s/HASH/$hash/; s/4711/$total/" /opt/plan.json
echo 'vm.dirty_ratio = 20' > /etc/sysctl.d/50-existing.conf
chmod 640 /etc/sysctl.d/50-existing.conf
echo 64M > /sys/block/zram0/disksize && mkswap /dev/zram0 > /dev/null && swapon /dev/zram0
mountpoint -q /dev/shm || mount -t tmpfs shm /dev/shm
state() {
    find /etc | sort | xargs stat -c '%N %a %u %g'
    find /etc -type f | sort | xargs sha256sum
    cat /proc/sys/vm/swappiness
    while read area kind size used priority; do
        case $priority in -*) priority=of-the-kernel;; esac; echo "$area $size $priority"
    done < /proc/swaps
    for zram in /sys/block/zram*; do echo "$zram $(cat $zram/disksize $zram/comp_algorithm | tr '\n' ' ')"; done
}
# data that must outlive all of it, most of it in swap
away() { echo 12M > /sys/fs/cgroup/data/memory.reclaim 2> /dev/null; true; }
(echo 0 > /sys/fs/cgroup/data/cgroup.procs; i=0
 while [ $i -lt 60000 ]; do i=$((i + 1)); echo "$i and some text that makes it $((i * 7919)) long"; done > /dev/shm/data)
sum=$(sha256sum < /dev/shm/data)
away
say used awk '$1 == "/dev/zram0" { print ($4 > 1000) ? "in swap" : $4 }' /proc/swaps
apply="pagewise apply --yes --settle 0 /opt/plan.json"
undo="pagewise undo --all"
"#;

/// The number of calls to make fail.
fn wanted() -> usize {
    std::env::var("PAGEWISE_PLAN_FAULTS")
        .map_or(16, |number| number.parse().expect("how many faults"))
}

fn steps() -> Vec<Value> {
    let zram = json!({
        "compressor": {"algorithm": "zstd", "level": 3}, "disksize_bytes": 67_108_864,
        "mem_limit_bytes": 33_554_432, "priority": 50,
    });
    let existing = json!({
        "action": "write-file", "target": EXISTING, "from": "vm.dirty_ratio = 20\n",
        "to": "vm.dirty_ratio = 30\n",
    });
    let mask = json!({
        "action": "make-link", "target": "/etc/sysctl.d/10-other.conf", "from": null, "to": "/dev/null",
    });
    let knob = json!({"action": "set-knob", "target": "vm.swappiness", "from": "60", "to": "77"});
    let held = json!({"size_bytes": 67_104_768, "used_bytes": 0, "priority": -2});
    let drain = json!({"action": "drain-swap", "target": "/dev/zram0", "from": held});
    vec![
        step("knob", knob),
        file("sysctl", "/etc/sysctl.d/90-pagewise.conf", "vm.swappiness = 77\n"),
        step("existing", existing),
        step("mask", mask),
        step("zram", json!({"action": "add-zram-swap", "target": null, "to": zram})),
        step("drain", drain),
    ]
}

/// Options that send strace and its libraries from this machine into a guest.
pub(crate) fn strace() -> Vec<String> {
    let ran = Command::new("ldd").arg("/usr/bin/strace").output().expect("ldd runs");
    let listed = String::from_utf8(ran.stdout).unwrap();
    let paths = listed.lines().flat_map(str::split_whitespace).filter(|word| word.starts_with('/'));
    let sent = |path: &str| {
        let name = path.rsplit('/').next().unwrap();
        let name = if name.starts_with("ld-linux") { "ld.so" } else { name };
        format!("--file={path}:/opt/strace/{name}")
    };
    paths.map(sent).chain(["--file=/usr/bin/strace:/opt/strace/strace".to_owned()]).collect()
}

/// The result of one fault: `fault apply write error=EIO 3 hit 1 status 1 was before …`.
#[derive(Debug)]
struct Fault<'a> {
    line: &'a str,
    words: Vec<&'a str>,
}

impl<'a> Fault<'a> {
    /// The word after this one.
    fn of(&self, name: &str) -> &'a str {
        let at = self.words.iter().position(|word| *word == name);
        at.map_or("", |at| self.words[at + 1])
    }

    /// What is wrong with the result; `None` if it is as it should be.
    fn trouble(&self) -> Option<&'static str> {
        let is_apply = self.words[1] == "apply";
        let [status, was, left] = ["status", "was", "journals"].map(|name| self.of(name));
        let is_named = left != "0";
        if self.of("data") != "kept" {
            return Some("data are lost");
        }
        if self.of("undone") != "0" || self.of("now") != "before" || self.words.last() != Some(&"0")
        {
            return Some("undo does not end at the start");
        }
        match (was, status) {
            ("other", _) if !is_named => Some("a state that no journal names"),
            ("target", _) if !is_named => Some("in force without a journal"),
            ("before" | "other", "0") if is_apply => Some("a failure is not told"),
            ("target" | "other", "0") if !is_apply => Some("a failure of undo is not told"),
            _ => None,
        }
    }
}

#[test]
fn guest_plan_whose_system_calls_fail_or_that_is_killed_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.json");
    std::fs::write(&path, plan(&steps())).unwrap();
    let sent = format!("--file={}:/opt/plan.json", path.display());
    let strace = strace();
    let minutes = format!("{}m", 4 + wanted() / 6);
    let mut options = vec!["--kernel", "trixie", "--memory", "384M", "--module", "zram"];
    options.extend(["--deadline", &minutes, &sent]);
    options.extend(strace.iter().map(String::as_str));
    let ran = script(&options, &format!("{SAY}{}{TRACED}{SCRIPT}{FAULTS}", begin(wanted())));
    assert_eq!(answer(&ran.out, "used"), ("in swap\n", "0"), "{}", ran.out);
    assert_undone(&ran.out, wanted());
}

/// Script variables: the system calls, and how many calls must fail.
pub(crate) fn begin(wanted: usize) -> String {
    let calls = CALLS.split_whitespace().collect::<Vec<_>>().join(",");
    format!("calls={calls}\nwanted={wanted}\n")
}

/// Checks that this many calls failed according to the output of [`FAULTS`], and that `undo`
/// restored everything after each.
#[track_caller]
pub(crate) fn assert_undone(session: &str, wanted: usize) {
    assert_eq!(answer(session, "difference"), ("", "0"), "{session}");
    let lines = session.lines().filter(|line| line.starts_with("fault "));
    let faults: Vec<Fault<'_>> =
        lines.map(|line| Fault { line, words: line.split_whitespace().collect() }).collect();
    let bad: Vec<_> = faults.iter().filter_map(|it| Some((it.trouble()?, it.line))).collect();
    assert!(bad.is_empty(), "{bad:#?}\n{session}");
    assert_eq!(answer(session, "end").1, "0", "{session}");
    let hit = faults.iter().filter(|fault| fault.of("hit") != "0").count();
    assert_eq!(faults.len(), wanted, "{session}");
    assert!(hit * 10 >= faults.len() * 8, "{hit} of {} faults happened\n{session}", faults.len());
    let was = |state: &str| faults.iter().filter(|fault| fault.of("was") == state).count();
    println!(
        "{} faults, {hit} happened; found as before {}, as planned {}, named by a journal {}; all undone",
        faults.len(),
        was("before"),
        was("target"),
        was("other"),
    );
    assert!(was("before") > 0 && was("other") + was("target") > 0, "{session}");
}
