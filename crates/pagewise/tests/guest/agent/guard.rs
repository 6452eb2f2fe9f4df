// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guard on a real kernel: after a kill, the loops pause, and a plan that was applied before is named, or
//! undone if the configuration says so; one that has changed swap is not.

use crate::boot::{SAY, answer_of_success, script};

const SCRIPT: &str = r#"
echo +memory > /sys/fs/cgroup/cgroup.subtree_control
mkdir -p /sys/fs/cgroup/web /sys/fs/cgroup/hog /etc/pagewise
echo 24M > /sys/fs/cgroup/hog/memory.max
start() {
    cat > /etc/pagewise/agent.toml << END
[budget]
cpu_seconds_per_minute = 60
[aging."/web"]
interval = "2s"
[guard]
interval = "2s"
$1
END
    pagewise agent 2> /tmp/said & agent=$!
    until grep -q 'web: ' /tmp/said; do sleep 1; done
}
until_said() { for i in $(seq 120); do grep -q "$1" /tmp/said && return; sleep 1; done; return 1; }
kill_one() { sh -c 'echo $$ > /sys/fs/cgroup/hog/cgroup.procs; exec tail /dev/zero'; }
stop() { kill $agent; wait $agent; cat /tmp/said; }
start 'undo = false'
say apply pagewise apply --yes --want vm.page-cluster=0
say kill kill_one
say named until_said 'undoes it, if it is the cause'
say paused until_said 'web: pauses: memory was short'
say kept cat /proc/sys/vm/page-cluster
say first stop
start 'undo = true'
kill_one
say undone until_said 'it was undone'
say restored cat /proc/sys/vm/page-cluster
say second stop
say no-plan pagewise undo
"#;

#[test]
fn guest_trixie_a_kill_stops_the_loops_and_undoes_a_plan() {
    let options = ["--kernel", "trixie", "--memory", "384M", "--deadline", "6m"];
    let ran = script(&options, &format!("{SAY}{SCRIPT}"));
    println!("{}", ran.out);
    assert_eq!(ran.status, 0, "{} {}", ran.out, ran.err);
    let value = |name| answer_of_success(&ran.out, name).trim();
    for name in ["apply", "named", "paused", "undone"] {
        value(name);
    }
    assert_eq!((value("kept"), value("restored")), ("0", "3"));
    assert!(value("first").contains("the kernel killed a program for memory; all loops pause"));
    assert!(!value("first").contains("it was undone"));
    assert_eq!(value("no-plan"), "nothing to put back");
}
