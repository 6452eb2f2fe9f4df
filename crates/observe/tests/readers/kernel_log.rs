// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of the OOM killer in the kernel log.

use pagewise_hostfs::{HostRoot, ReadHost};
use pagewise_model::{
    Bytes, KernelLog, Limit, Name, OomConstraint, OomKill, Reading, Source, Taken,
};
use pagewise_observe::kernel_log as read;

use crate::testing::{denied_entry, file, host};

const PATH: &str = "dev/kmsg";
const SHOWN: &str = "/dev/kmsg";

/// 400 seconds after boot, time suspended not included.
fn taken() -> Taken {
    Taken { unix_seconds: 1_000_000.0, awake_seconds: Some(400.0), ..Taken::default() }
}

fn log_of(raw: impl AsRef<[u8]>) -> KernelLog {
    read(&host([(PATH, raw)]), &taken())
}

/// Records numbered from 7, a second apart.
fn log(texts: &[&str]) -> String {
    let numbered = texts.iter().zip(7..);
    numbered.map(|(text, at)| format!("4,{at},{at}000000,-;{text}\n")).collect()
}

pub(crate) const BY_LIMIT: &[&str] = &[
    "nginx invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "CPU: 0 UID: 0 PID: 139 Comm: nginx Not tainted 6.12.107",
    "memory: usage 65536kB, limit 65536kB, failcnt 845358",
    "swap: usage 0kB, limit 0kB, failcnt 9",
    "Memory cgroup stats for /web.service:",
    "anon 40960",
    "secret 7",
    "file 8192",
    "shmem 4096",
    "Tasks state (memory values in pages):",
    "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name",
    "[    981]    33   981    10705       17       16        0         1   122880        2             0 nginx",
    "[    980]    33   980    10705       41       40        0         1   122880        1            -5 ng inx",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/web.service,task_memcg=/web.service/a,task=ng inx,pid=980,uid=33",
    "Memory cgroup out of memory: Killed process 980 (ng inx) total-vm:42820kB, anon-rss:160kB, file-rss:0kB, shmem-rss:4kB, UID:33 pgtables:120kB oom_score_adj:-5",
];

fn only_kill(texts: &[&str]) -> OomKill {
    let mut log = log_of(log(texts));
    assert_eq!(log.kills.len(), 1, "{:#?}", log.kills);
    log.kills.remove(0)
}

#[test]
fn a_report_by_a_limit_is_understood() {
    let kill = only_kill(BY_LIMIT);
    assert_eq!(kill.source.to_string(), "/dev/kmsg:21");
    assert_eq!((kill.boot_seconds, kill.seconds_ago), (21.0, Some(379.0)));
    assert_eq!(kill.unix_seconds, Some(1_000_000.0 - 379.0));
    assert_eq!(kill.constraint, Some(OomConstraint::Cgroup));
    assert_eq!(kill.group.unwrap().as_str(), "/web.service");
    assert_eq!(kill.victim_group.unwrap().as_str(), "/web.service/a");
    let victim = kill.victim.unwrap();
    assert_eq!((victim.pid, victim.name.as_str(), victim.uid), (980, "ng inx", Some(33)));
    assert_eq!(victim.resident(), Bytes::from_kib(164));
    let group = kill.group_memory.unwrap();
    assert_eq!(group.memory.unwrap().reached, 845_358);
    assert_eq!(group.swap.unwrap().limit, Limit::Bytes(Bytes::new(0)));
    assert_eq!((group.anon, group.file), (Some(Bytes::new(40960)), Some(Bytes::new(4096))));
    let tasks: Vec<_> = kill.tasks.iter().map(|task| (task.pid, task.size().get() >> 12)).collect();
    assert_eq!(tasks, [(980, 42), (981, 19)]);
    assert_eq!(kill.tasks[0].oom_score_adj, -5);
    assert_eq!(kill.invoker.unwrap().gfp_mask.as_str(), "0xcc0(GFP_KERNEL)");
}

#[test]
fn a_report_of_the_host_is_understood() {
    let kill = only_kill(&[
        "sh invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_ZERO), order=0, oom_score_adj=0",
        "Mem-Info:",
        "active_anon:20 inactive_anon:10 isolated_anon:1\\x0a active_file:3 inactive_file:4 isolated_file:0\\x0a unevictable:2 dirty:0 writeback:0\\x0a slab_reclaimable:5 slab_unreclaimable:6\\x0a mapped:1 shmem:7 pagetables:8\\x0a free:9 free_pcp:1",
        "Node 0 active_anon:80kB shmem:28kB",
        "Free swap  = 4kB",
        "Total swap = 8kB",
        "100 pages RAM",
        "10 pages reserved",
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/job,task=sh,pid=3,uid=0",
        "Out of memory: Killed process 3 (sh) total-vm:8kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:0",
        "oom_reaper: reaped process 3 (sh), now anon-rss:0kB, file-rss:0kB, shmem-rss:4kB",
    ]);
    assert_eq!((kill.constraint, kill.group), (Some(OomConstraint::Host), None));
    let host = kill.host.unwrap();
    let pages = |pages: u64| Some(Bytes::new(pages << 12));
    assert_eq!((host.anon, host.file, host.shmem), (pages(24), pages(7), pages(7)));
    assert_eq!((host.total, host.free, host.other()), (pages(90), pages(9), pages(24)));
    assert_eq!((host.swap_free, host.swap_total), (pages(1), pages(2)));
    assert_eq!(kill.reaped.unwrap().shmem, Bytes::new(4096));
}

#[test]
fn a_whole_group_is_one_report() {
    let victim = "Memory cgroup out of memory: Killed process 980 (ng inx) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0";
    let other = victim.replace("980 (ng inx)", "981 (b)");
    let whole = "Tasks in /web.service are going to be killed due to memory.oom.group set";
    let kill = only_kill(&[BY_LIMIT, &[whole, victim, &other]].concat());
    assert!(kill.whole_group);
    assert_eq!(kill.others.iter().map(|other| other.pid).collect::<Vec<_>>(), [981]);
    assert_eq!(kill.victim.unwrap().pid, 980);
}

#[test]
fn reports_without_a_victim_are_one_that_repeats() {
    let report = [&BY_LIMIT[..13], &["Out of memory and no killable processes..."]].concat();
    let kill = only_kill(&[&report[..], &report, &report].concat());
    assert_eq!((kill.repeats, kill.victim), (2, None));
    assert_eq!(kill.group.unwrap().as_str(), "/web.service");
    assert_eq!(kill.source.to_string(), format!("/dev/kmsg:{}", 7 + 3 * 14 - 1));
}

/// The kernel omits the rest if reports come too fast, or its beginning was overwritten.
#[test]
fn a_kill_alone_says_who_and_whether_a_limit_did_it() {
    let killed = BY_LIMIT[14];
    let kill = only_kill(&[killed]);
    assert_eq!((kill.constraint, kill.group), (Some(OomConstraint::Cgroup), None));
    let kill = only_kill(&[&killed.replace("Memory cgroup out", "Out")]);
    assert_eq!((kill.constraint, kill.victim.unwrap().pid), (None, 980));
    let kill = only_kill(&BY_LIMIT[13..]);
    assert_eq!(kill.group.unwrap().as_str(), "/web.service");
    // rows of a task table without its heading are ignored
    assert_eq!(only_kill(&BY_LIMIT[11..]).tasks, []);
}

#[test]
fn a_line_in_pieces_is_put_together_by_who_wrote_it() {
    let raw = "4,7,1,-,caller=T1;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/\n\
        6,8,1,-,caller=C0;usb: new device\n6,9,1,c,caller=T2;,task_memcg=/x,task=y,pid=1,uid=1\n\
        4,10,1,c,caller=T1;,mems_allowed=0,oom_memcg=/a,task_memcg=/a/b,task=x,pid=5,uid=0\n\
        3,11,1,-;Memory cgroup out of memory: Killed process 5 (x) total-vm:1kB, anon-rss:1kB\n";
    let log = log_of(raw);
    assert_eq!(log.kills[0].group.as_ref().unwrap().as_str(), "/a");
    assert_eq!(log.kills[0].victim_group.as_ref().unwrap().as_str(), "/a/b");
}

#[test]
fn what_a_program_wrote_is_no_report() {
    let raw = log(BY_LIMIT).replace("4,", "12,");
    let log = log_of(raw);
    assert_eq!((log.kills.len(), log.records.get()), (0, Some(15)));
}

#[test]
fn a_log_says_how_far_back_it_goes() {
    let log = log_of("6,0,0,-;Linux version\n6,1,2000000,-;x\n");
    assert_eq!(
        (log.wrapped, log.oldest_boot_seconds, log.records.get()),
        (false, Some(0.0), Some(2))
    );
    let log = log_of("6,40,3000000,-;x\n6,49,4000000,-;y\n");
    assert_eq!(
        (log.wrapped, log.oldest_boot_seconds, log.records.get()),
        (true, Some(3.0), Some(10))
    );
}

#[test]
fn a_log_that_cannot_be_read_says_what_would_help() {
    let log = read(&HostRoot::memory([denied_entry(PATH)]), &taken());
    assert_eq!(log.records, Reading::denied("run as root", Source::file(SHOWN)));
    let none: [(&str, &str); 0] = [];
    let log = read(&host(none), &taken());
    assert!(format!("{:?}", log.records).contains("no /dev/kmsg"), "{:?}", log.records);
    assert!(log_of("garbage").records.value().is_none());
}

#[test]
fn files_of_journald_are_known_to_be_there() {
    let journal = |path| read(&host([(PATH, "x"), (path, "")]), &taken()).journal;
    let kind = |path| journal(path).value().map(ToString::to_string);
    assert_eq!(kind("var/log/journal").as_deref(), Some("persistent"));
    assert_eq!(kind("run/log/journal").as_deref(), Some("volatile"));
    assert_eq!(kind("var/log/syslog"), None);
}

#[test]
fn without_a_clock_there_is_no_time() {
    let log = read(&host([(PATH, log(BY_LIMIT))]), &Taken::default());
    assert_eq!((log.kills[0].unix_seconds, log.kills[0].seconds_ago), (None, None));
}

/// The wall clock was set back, or runs slower than the clock of the log.
#[test]
fn a_kill_is_never_in_the_future() {
    let taken = Taken { unix_seconds: 5.0, awake_seconds: Some(1.0), ..Taken::default() };
    let log = read(&host([(PATH, log(BY_LIMIT))]), &taken);
    assert_eq!((log.kills[0].unix_seconds, log.kills[0].seconds_ago), (Some(5.0), Some(0.0)));
}

#[test]
fn only_the_newest_reports_are_kept_and_the_others_counted() {
    let many: Vec<&str> = std::iter::repeat_n(BY_LIMIT, 70).flatten().copied().collect();
    let log = log_of(log(&many));
    assert_eq!((log.kills.len(), log.left_out), (64, 6));
}

/// Records of 6.18 and 5.10, and one that only looks similar.
#[test]
fn names_of_the_killed_are_found() {
    for (text, found) in [
        (
            "Memory cgroup out of memory: Killed process 4711 (tail) total-vm:86012kB, \
             anon-rss:62464kB, file-rss:1792kB, shmem-rss:0kB, UID:0 pgtables:212kB oom_score_adj:0",
            Some((4711, "tail")),
        ),
        ("Out of memory: Killed process 12 (a (b) c) total-vm:1kB, anon", Some((12, "a (b) c"))),
        ("oom-kill:constraint=CONSTRAINT_MEMCG,task=tail,pid=4711,uid=0", None),
        ("Killed process x (a)", None),
        ("Out of memory: Killed process x (a) total-vm:1kB", None),
    ] {
        let kills = log_of(log(&[text])).kills;
        let names = kills.iter().filter_map(|kill| kill.victim.as_ref());
        let names: Vec<_> = names.map(|victim| (victim.pid, victim.name.as_str())).collect();
        assert_eq!(names, found.into_iter().collect::<Vec<_>>(), "{text}");
    }
}

/// A kill whose cgroup was not printed must not get the cgroup of the previous kill.
#[test]
fn a_group_is_only_given_to_the_process_that_it_was_printed_for() {
    let other = BY_LIMIT[14].replace("980", "981");
    let kills = log_of(log(&[BY_LIMIT[13], &other, BY_LIMIT[14]])).kills;
    let groups: Vec<_> = kills.iter().map(|kill| kill.victim_group.is_some()).collect();
    assert_eq!(groups, [false, false]);
}

#[test]
fn the_live_log_is_read_to_its_end_or_refused() {
    let log = read(&HostRoot::live().unwrap(), &taken());
    let exists = std::path::Path::new("/dev/kmsg").exists();
    match log.records.outcome {
        pagewise_model::Outcome::Value(count) => assert!(exists && count > 0),
        pagewise_model::Outcome::Denied(_) => assert!(exists),
        pagewise_model::Outcome::Absent(_) => assert!(!exists),
    }
}

/// A task that waited for memory is found in the kernel log, also in a recording of it, and not if a
/// program wrote the message.
#[test]
fn tasks_that_did_not_run_are_found_and_recorded() {
    const LINES: [&str; 5] = [
        "INFO: task postgres:310 blocked for more than 120 seconds.",
        "      Tainted: G  OE 6.12.9 #1",
        " __schedule+0x3f2/0x1500",
        " try_to_free_pages+0xdb/0x1b0",
        " </TASK>",
    ];
    let written = |priority: u32| -> String {
        let lines = LINES.iter().zip(7..);
        lines.map(|(text, at)| format!("{priority},{at},{at}000000,-;{text}\n")).collect()
    };
    let files = HostRoot::memory([file("dev/kmsg", written(3) + &written(11))]).start_remembering();
    let log = read(&files, &Taken::default());
    let [task] = &log.hung_tasks[..] else { panic!("{:#?}", log.hung_tasks) };
    assert_eq!((task.name.as_str(), task.pid, task.seconds), ("postgres", 310, 120));
    assert_eq!((task.boot_seconds, task.source.to_string().as_str()), (7.0, "/dev/kmsg:7"));
    let stack: Vec<&str> = task.stack.iter().map(Name::as_str).collect();
    assert_eq!(stack, ["__schedule", "try_to_free_pages"]);
    let recorded = files.into_remembered_files();
    assert!(!format!("{recorded:?}").contains("Tainted"), "{recorded:?}");
    let replay = read(&HostRoot::memory(recorded), &Taken::default());
    assert_eq!(replay.hung_tasks, log.hung_tasks);
}
