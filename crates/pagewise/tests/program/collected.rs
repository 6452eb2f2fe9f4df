// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that a support tool collected on another machine.

use std::path::Path;

use crate::program::{ProgramRun, empty_folder, run};

const MEMINFO: &str = "MemTotal:  16303412 kB\nMemFree:  400000 kB\nMemAvailable: 9000000 kB\n";

/// A kill at the limit of a cgroup, as the kernel prints it.
const KILL: [&str; 3] = [
    "worker invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/web,\
     task_memcg=/web,task=worker,pid=41,uid=0",
    "Memory cgroup out of memory: Killed process 41 (worker) total-vm:90000kB, anon-rss:60000kB, \
     file-rss:1000kB, shmem-rss:0kB, UID:0 pgtables:200kB oom_score_adj:0",
];

fn put(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn with_prefix(prefix: &str) -> String {
    KILL.map(|line| format!("{prefix}{line}\n")).concat()
}

fn oom(words: &[&str], path: &Path) -> ProgramRun {
    run(&[words, &[path.to_str().unwrap()]].concat())
}

/// The same kill is in two logs.
#[test]
fn the_logs_of_an_sosreport_are_searched_for_kills() {
    let folder = empty_folder();
    let host = folder.path().join("sosreport-db1-2026");
    put(&host, "proc/meminfo", MEMINFO);
    put(&host, "sos_commands/kernel/dmesg", &with_prefix("[  503.100000] "));
    put(&host, "var/log/messages", &with_prefix("Nov 27 10:00:00 db1 kernel: "));
    put(&host, "sos_commands/logs/journalctl_--list-boots", &with_prefix("[    1.0] "));
    let ran = oom(&["oom", "--root"], &host);
    assert_eq!(ran.status, 3, "{}", ran.err);
    let flat = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let logs =
        "1 report of the OOM killer: 6 lines of sos_commands/kernel/dmesg, var/log/messages.";
    assert!(flat.contains(logs), "{flat}");
    assert!(flat.contains("worker (pid 41) was killed because the cgroup /web"), "{flat}");
    let found = oom(&["doctor", "--root"], &host);
    assert!(found.out.contains("worker (pid 41)"), "{}", found.out);
}

#[test]
fn what_was_not_collected_is_no_proof_of_no_kill() {
    let folder = empty_folder();
    put(folder.path(), "proc/meminfo", MEMINFO);
    let none = oom(&["oom", "--root"], folder.path());
    assert!(!none.out.contains("No process was killed"), "{}", none.out);
    put(folder.path(), "sos_commands/kernel/dmesg", "[  1.0] usb 1-1: new device\n");
    let found = oom(&["oom", "--root"], folder.path());
    assert!(found.out.contains("No kill was found: 1 line of"), "{}", found.out);
}

/// A crash dump, a must-gather, a flat folder: no files of /proc, but logs.
#[test]
fn logs_are_found_anywhere_in_a_folder() {
    for path in [
        "127.0.0.1-2026-11-27/vmcore-dmesg.txt",
        "must-gather.local.1/quay-io-x/nodes/n1/dmesg",
        "must-gather.local.1/quay-io-x/host_service_logs/masters/kubelet_service.log",
        "boot.txt",
        "dmesg.txt",
    ] {
        let folder = empty_folder();
        put(folder.path(), path, &with_prefix("[  503.100000] "));
        let ran = oom(&["oom"], folder.path());
        assert_eq!(ran.status, 3, "{path}: {}", ran.err);
        assert!(ran.out.contains("worker (pid 41)") && ran.out.contains("1 report"), "{}", ran.out);
        let no_host = oom(&["report", "--root"], folder.path());
        assert_eq!(no_host.status, 1);
        assert!(no_host.err.contains("pagewise oom FOLDER"), "{}", no_host.err);
    }
    let empty = empty_folder();
    let ran = oom(&["oom"], empty.path());
    assert!(ran.status == 1 && ran.err.contains("expected logs in this folder"), "{}", ran.err);
}
