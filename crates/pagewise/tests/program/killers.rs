// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kills by programs beside those of the kernel, in a folder with collected files.

use std::path::Path;

use pagewise_journald::written::{Variant, Written, make_journal};
use serde_json::Value;

use crate::program::{empty_folder, run};

const MEMINFO: &str = "MemTotal:  16303412 kB\nMemFree:  400000 kB\nMemAvailable: 9000000 kB\n";
const BOOT: [u8; 16] = [5; 16];
/// When the boot began, in seconds since 1970.
const BEGAN: u64 = 1_764_000_000;

/// A kill in a unit, as the kernel prints it.
const KILL: [&str; 3] = [
    "worker invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/system.slice/web.service,\
     task_memcg=/system.slice/web.service,task=worker,pid=41,uid=0",
    "Memory cgroup out of memory: Killed process 41 (worker) total-vm:90000kB, anon-rss:60000kB, \
     file-rss:1000kB, shmem-rss:0kB, UID:0 pgtables:200kB oom_score_adj:0",
];

const BY_SWAP: &str = "Killed /user.slice/user-1000.slice/user@1000.service/app.slice/editor.scope due to memory used \
    (15460000000) / total (16000000000) and swap used (7730000000) / total (8500000000) being more than 90.00%";

fn put(folder: &Path, path: &str, bytes: &[u8]) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn message(at: u64, fields: &[&str], text: &str) -> Written {
    Written::by_program(BOOT, (BEGAN + at) * 1_000_000, fields, text)
}

fn failed(at: u64, unit: &str) -> Written {
    let text = format!("{unit}: Failed with result 'oom-kill'.");
    message(at, &["_PID=1", "UNIT_RESULT=oom-kill"], &text)
}

fn put_journal(folder: &Path, messages: &[Written]) {
    let variant = Variant { is_compact: true, is_keyed: true, buckets: 64, ..Variant::default() };
    let path = "var/log/journal/0123456789abcdef0123456789abcdef/system.journal";
    put(folder, path, &make_journal(&variant, messages));
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn one_time_line_has_the_kills_of_all_killers() {
    let folder = empty_folder();
    put(folder.path(), "proc/meminfo", MEMINFO.as_bytes());
    let kernel =
        |text: &str| Written::by_kernel(BOOT, BEGAN * 1_000_000, 500_000_000, text.as_bytes());
    let mut messages = vec![message(100, &["_SYSTEMD_UNIT=systemd-oomd.service"], BY_SWAP)];
    messages.extend(KILL.map(kernel));
    messages.push(failed(501, "web.service"));
    messages.push(failed(900, "db.service"));
    let earlyoom = "sending SIGTERM to process 999 uid 1000 \"tab\": badness 900, VmRSS 3000 MiB";
    messages.push(message(950, &["_SYSTEMD_UNIT=earlyoom.service"], earlyoom));
    put_journal(folder.path(), &messages);
    let dmesg: String = KILL.map(|line| format!("[  500.000000] {line}\n")).concat();
    put(folder.path(), "sos_commands/kernel/dmesg", dmesg.as_bytes());
    // the same files by their path
    let journals = folder.path().join("var/log/journal");
    let by_path = flat(&run(&["oom", journals.to_str().unwrap()]).out);
    for said in
        ["editor.scope was killed by systemd-oomd", "web.service failed with result oom-kill"]
    {
        assert!(by_path.contains(said), "{said}: {by_path}");
    }
    let root = folder.path().to_str().unwrap();
    let ran = run(&["oom", "--root", root]);
    assert_eq!(ran.status, 3, "{}", ran.err);
    let text = flat(&ran.out);
    assert!(text.contains("Kills in order of time"), "{}", ran.out);
    assert!(text.contains("editor.scope was killed by systemd-oomd"), "{}", ran.out);
    assert!(text.contains("515.0 MiB of memory was available all the same"), "{}", ran.out);
    assert!(text.contains("web.service failed with result oom-kill for it"), "{}", ran.out);
    assert!(
        text.contains("systemd reports that something was killed for lack of memory in db.service")
    );
    let json = run(&["oom", "--json", "--root", root]);
    let document: Value = serde_json::from_str(&json.out).unwrap();
    let line = document["time_line"].as_array().unwrap();
    let killers: Vec<&str> = line.iter().map(|event| event["by"].as_str().unwrap()).collect();
    let mut sorted = killers.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["earlyoom", "kernel", "not known", "systemd-oomd"], "{}", json.out);
    let of_kernel = line.iter().find(|event| event["by"] == "kernel").unwrap();
    assert_eq!(of_kernel["unit"], "web.service");
}

#[test]
fn without_a_kill_the_text_says_which_logs_were_read() {
    let folder = empty_folder();
    put(folder.path(), "proc/meminfo", MEMINFO.as_bytes());
    let root = folder.path().to_str().unwrap();
    let none = run(&["oom", "--root", root]);
    let text = flat(&none.out);
    let unknown = "Kills by programs (systemd-oomd, earlyoom and others): not known: no files of journald and no syslog here";
    assert!(text.contains(unknown), "{}", none.out);
    put_journal(folder.path(), &[message(1, &["_SYSTEMD_UNIT=systemd-oomd.service"], "quiet")]);
    let read = run(&["oom", "--root", root]);
    assert!(!flat(&read.out).contains("Kills by programs"), "{}", read.out);
    assert_eq!(read.status, 0, "{} {}", read.out, read.err);
}

/// A kill that only a syslog names.
#[test]
fn a_syslog_is_read_where_there_is_no_journal() {
    let folder = empty_folder();
    put(folder.path(), "proc/meminfo", MEMINFO.as_bytes());
    let syslog = format!("Nov 20 10:00:01 h1 systemd-oomd[840]: {BY_SWAP}\n");
    put(folder.path(), "var/log/syslog", syslog.as_bytes());
    let ran = run(&["oom", "--root", folder.path().to_str().unwrap()]);
    assert_eq!(ran.status, 3, "{}", ran.err);
    assert!(flat(&ran.out).contains("editor.scope was killed by systemd-oomd"), "{}", ran.out);
}
