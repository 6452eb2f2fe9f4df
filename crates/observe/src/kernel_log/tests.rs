// SPDX-License-Identifier: Apache-2.0 OR MIT

use pagewise_model::{Bytes, Limit, OomConstraint, OomKill};
use proptest::prelude::*;

use super::line::tests::{any_line, any_name, any_path};
use super::*;
use crate::text::testing::{denied, host, mangled};

/// 400 seconds after boot, without the time in which it was suspended.
fn taken() -> Taken {
    Taken { unix_seconds: 1_000_000.0, awake_seconds: Some(400.0), ..Taken::default() }
}

fn log_of(raw: impl AsRef<[u8]>) -> KernelLog {
    read(&host([(PATH, raw)]), &taken())
}

/// Numbered from 7, a second apart.
fn log(texts: &[&str]) -> String {
    let numbered = texts.iter().zip(7..);
    numbered.map(|(text, at)| format!("4,{at},{at}000000,-;{text}\n")).collect()
}

pub(super) const BY_LIMIT: &[&str] = &[
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

/// The kernel prints no more when reports come fast, and the beginning may be overwritten.
#[test]
fn a_kill_alone_says_who_and_whether_a_limit_did_it() {
    let killed = BY_LIMIT[14];
    let kill = only_kill(&[killed]);
    assert_eq!((kill.constraint, kill.group), (Some(OomConstraint::Cgroup), None));
    let kill = only_kill(&[&killed.replace("Memory cgroup out", "Out")]);
    assert_eq!((kill.constraint, kill.victim.unwrap().pid), (None, 980));
    let kill = only_kill(&BY_LIMIT[13..]);
    assert_eq!(kill.group.unwrap().as_str(), "/web.service");
    // rows of a table that has no beginning belong nowhere
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
    let log = read(&HostRoot::memory([denied(PATH)]), &taken());
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

/// A clock that was set back, or one that runs slower than that of the log.
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

/// Records of 6.18 and 5.10, and what looks like one.
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

/// A kill whose own cgroup was not printed is not given that of the one before.
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

fn excerpt(raw: &[u8]) -> Vec<u8> {
    let mut excerpt = Excerpt::new(4096);
    excerpt.take(raw);
    excerpt.finish()
}

/// A record of the kernel with this text.
fn record_of(text: &[u8], sequence: u64) -> Vec<u8> {
    let head = format!("4,{sequence},{},-;", sequence * 1000);
    let record = records([head.as_bytes(), b"x\n"].concat().as_slice()).next().unwrap();
    record.head.with_text(text)
}

const SPOILT: &str = "4,1,1,-;a invoked oom-killer: gfp_mask=0x1(A), order=0, oom_score_adj=0\n\
    6,2,2,-;memory: usage 4kB, limit 4kB, failcnt 1\n6,3,2,-;Memory cgroup stats for /a:\n\
    6,4,2,-;anon 5\n6,5,2,-;[  pid  ]   uid     rss swapents oom_score_adj name\n\
    6,6,2,-;[    981]    33   981    10705 0 b\n6,7,3,-;oom-kill:constraint=CONSTRAINT_MEMCG,\
    nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a,task=b,pid=981,uid=0\n\
    3,8,3,-;Memory cgroup out of memory: Killed process 981 (b) total-vm:4kB, anon-rss:1kB\n";

/// Lines of reports in any order, messages of others between them.
fn any_log() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop_oneof![
        Just(b"usb 1-1: new device".to_vec()),
        any_name(),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    let line = prop_oneof![3 => any_line().prop_map(|line| line.printed()), 1 => noise];
    (prop::collection::vec(line, 0..40), 0u64..5).prop_map(|(lines, first)| {
        lines.iter().zip(first..).flat_map(|(text, at)| record_of(text, at)).collect()
    })
}

/// A whole report of a group's limit, in which a process and a group are called so.
fn report_of(name: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    let columns = vec!["uid", "rss", "swapents", "oom_score_adj"];
    let (group, victim_group) = (Some(path.to_vec()), [path, b"/below"].concat());
    let (constraint, message) = ("CONSTRAINT_MEMCG", line::MEMCG_KILLED);
    let (pid, uid, order, oom_score_adj) = (980, 33, 0, 0);
    let (name, gfp_mask) = (name.to_vec(), b"0xcc0(GFP_KERNEL)".to_vec());
    let sizes = vec![("total-vm", 9), ("anon-rss", 5), ("file-rss", 2), ("shmem-rss", 1)];
    let values = vec![33, 1, 0, 0];
    let choice = line::Choice { constraint, group, victim_group, name: name.clone(), pid, uid };
    let killed = line::Killed {
        message,
        pid,
        name: name.clone(),
        sizes,
        uid: Some(uid),
        oom_score_adj: Some(0),
    };
    let lines = [
        OomLine::Invoked { name: name.clone(), gfp_mask, order, oom_score_adj },
        OomLine::Usage(line::Usage { of: "memory", usage: 64, limit: 64, failures: 3 }),
        OomLine::StatsOf(path.to_vec()),
        OomLine::Stats(vec![("anon", 40960)]),
        OomLine::TaskHeader(columns),
        OomLine::Task { pid, values, name },
        OomLine::Choice(choice),
        OomLine::Killed(killed),
    ];
    lines.iter().map(OomLine::printed).collect()
}

proptest! {
    /// Whatever the victim and its group are called and whatever other messages stand between the
    /// lines, the report says the same as without them.
    #[test]
    fn other_messages_and_hostile_names_change_nothing(
        name in any_name(),
        path in any_path(),
        noise in prop::collection::vec((0usize..9, "[a-z]{1,12}( [0-9]{1,3}){0,2}"), 0..12),
    ) {
        let mut texts = report_of(&name, &path);
        for (at, text) in noise {
            texts.insert(at.min(texts.len()), text.into_bytes());
        }
        let raw: Vec<u8> = texts.iter().zip(1..).flat_map(|(text, at)| record_of(text, at)).collect();
        let log = log_of(raw);
        prop_assert_eq!(log.kills.len(), 1);
        let kill = &log.kills[0];
        let named = pagewise_model::Name::from_bytes(&name);
        let victim = kill.victim.as_ref().unwrap();
        prop_assert_eq!((&victim.name, victim.pid, victim.resident()), (&named, 980, Bytes::from_kib(8)));
        let named = |path: &[u8]| Some(pagewise_model::Name::from_bytes(path));
        prop_assert_eq!(&kill.group, &named(&path));
        prop_assert_eq!(&kill.victim_group, &named(&[path.as_slice(), b"/below"].concat()));
        let named = pagewise_model::Name::from_bytes(&name);
        prop_assert_eq!(kill.tasks.len(), 1);
        prop_assert_eq!(&kill.tasks[0].name, &named);
        prop_assert_eq!(kill.group_memory.as_ref().unwrap().memory.unwrap().reached, 3);
        prop_assert_eq!(&kill.invoker.as_ref().unwrap().name, &named);
    }

    /// What is recorded of a log says what the log said, and says so again when it is recorded.
    #[test]
    fn an_excerpt_says_what_the_log_said(raw in any_log()) {
        let kept = excerpt(&raw);
        prop_assert_eq!(&excerpt(&kept), &kept);
        prop_assert_eq!(log_of(&kept).kills, log_of(&raw).kills);
        prop_assert_eq!(log_of(&kept).records, log_of(&raw).records);
        // the whole log at once, against a naive reading of every record without an excerpt
        let mut reports = Reports::new(4096, SHOWN);
        records(&raw).for_each(|record| drop(reports.take(&record)));
        let (naive, _) = reports.done();
        let known = |kill: &OomKill| (kill.source.clone(), kill.victim.clone(), kill.tasks.clone());
        let read = log_of(&raw).kills;
        prop_assert!(naive.iter().map(known).eq(read.iter().map(known)));
    }

    #[test]
    fn a_spoilt_log_never_panics(raw in mangled(SPOILT)) {
        let kept = excerpt(&raw);
        drop(log_of(&kept));
        prop_assert_eq!(&excerpt(&kept), &kept);
    }

    /// Other names change nothing but the names.
    #[test]
    fn a_renamed_excerpt_says_the_same_of_others(raw in any_log()) {
        struct Letters;
        impl Rename for Letters {
            fn program(&mut self, name: &[u8]) -> Vec<u8> {
                format!("p{}", name.len()).into_bytes()
            }
            fn group(&mut self, path: &[u8]) -> Vec<u8> {
                path.iter().map(|&byte| if byte == b'/' { b'/' } else { b'g' }).collect()
            }
            fn user(&mut self, _: u32) -> u32 {
                7
            }
            fn boot(&self, _: &[u8]) -> String {
                "b".to_owned()
            }
        }
        let kept = excerpt(&raw);
        let other = renamed(&kept, &mut Letters);
        let (here, there) = (log_of(&kept).kills, log_of(&other).kills);
        prop_assert_eq!(here.len(), there.len());
        for (here, there) in here.iter().zip(&there) {
            prop_assert_eq!((&here.source, &here.host, here.repeats), (&there.source, &there.host, there.repeats));
            let pid = |kill: &OomKill| kill.victim.as_ref().map(|victim| (victim.pid, victim.resident()));
            prop_assert_eq!(pid(here), pid(there));
            let tasks = |kill: &OomKill| kill.tasks.iter().map(pagewise_model::OomTask::size).collect::<Vec<_>>();
            prop_assert_eq!(tasks(here), tasks(there));
            let names = there.tasks.iter().map(|task| task.name.as_str());
            prop_assert!(names.into_iter().all(|name| name.starts_with('p')));
        }
    }
}
