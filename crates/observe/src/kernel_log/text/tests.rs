// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each form of a report, of made-up machines, behind each prefix that programs print, whole and in
//! parts: what is read is always what the kernel meant.

use proptest::prelude::*;

use super::*;
use pagewise_model::OomConstraint;

/// Messages of a kernel in order, without time. Those of several lines have them in one message.
type Messages = &'static [&'static str];

/// Linux 3.10 to 4.20: two lines name the process, one names both cgroups.
const GROUP_4_4: Messages = &[
    "worker invoked oom-killer: gfp_mask=0x24000c0, order=0, oom_score_adj=0",
    "worker cpuset=a mems_allowed=0",
    "CPU: 1 PID: 310 Comm: worker Not tainted 4.4.0-21-generic #37-Ubuntu",
    "Task in /docker/b/below killed as a result of limit of /docker/b",
    "memory: usage 307200kB, limit 307200kB, failcnt 912",
    "memory+swap: usage 307200kB, limit 9007199254740988kB, failcnt 0",
    "kmem: usage 4096kB, limit 9007199254740988kB, failcnt 0",
    "Memory cgroup stats for /docker/b: cache:100KB rss:1000KB rss_huge:0KB swap:8KB",
    "Memory cgroup stats for /docker/b/below: cache:50KB rss:299000KB rss_huge:0KB swap:0KB",
    "[ pid ]   uid  tgid total_vm      rss nr_ptes nr_pmds swapents oom_score_adj name",
    "[  310]  1000   310    90000    74000      90       4        0             0 worker",
    "[  298]  1000   298     4000     1000      12       3        0             0 parent of all",
    "Memory cgroup out of memory: Kill process 310 (worker) score 955 or sacrifice child",
    "Killed process 310 (worker) total-vm:360000kB, anon-rss:295000kB, file-rss:1000kB",
];

/// Linux 4.19 on a 32-bit machine, without the lines of the zones.
const HOST_4_19: Messages = &[
    "Web Content invoked oom-killer: gfp_mask=0x6000c0(GFP_KERNEL), nodemask=(null), order=0, oom_score_adj=200",
    "CPU: 0 PID: 77 Comm: Web Content Not tainted 4.19.97-v7l+ #1294",
    "Mem-Info:",
    "active_anon:40000 inactive_anon:2000 isolated_anon:0\n active_file:100 inactive_file:200 isolated_file:0\n \
     unevictable:4 dirty:4 writeback:0 unstable:0\n slab_reclaimable:5000 slab_unreclaimable:9000\n \
     mapped:400 shmem:1000 pagetables:1600 bounce:0\n free:700000 free_pcp:30 free_cma:50000",
    "Free swap  = 51200kB",
    "Total swap = 51200kB",
    "1000000 pages RAM",
    "800000 pages HighMem/MovableOnly",
    "10000 pages reserved",
    "Tasks state (memory values in pages):",
    "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
    "[     77]  1000    77   100000    30000   200000        0           200 Web Content",
    "Out of memory: Kill process 77 (Web Content) score 330 or sacrifice child",
    "Killed process 310 (worker) total-vm:360000kB, anon-rss:295000kB, file-rss:1000kB, shmem-rss:0kB",
];

/// Linux 6.12, pages of 16 KiB, all memory of the zone used up.
const HOST_6_12: Messages = &[
    "worker invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO), order=0, oom_score_adj=0",
    "CPU: 3 UID: 1000 PID: 310 Comm: worker Not tainted 6.12.9-16k #1",
    "Mem-Info:",
    "active_anon:100 inactive_anon:20000 isolated_anon:0\n active_file:10 inactive_file:20 isolated_file:0\n \
     unevictable:0 dirty:0 writeback:0\n slab_reclaimable:100 slab_unreclaimable:900\n mapped:4 shmem:100 \
     pagetables:60\n sec_pagetables:0 bounce:0\n kernel_misc_reclaimable:0\n free:700 free_pcp:30 free_cma:0",
    "Node 0 DMA free:11200kB boost:0kB min:22500kB low:28000kB high:34000kB managed:400000kB free_cma:0kB",
    "lowmem_reserve[]: 0 0 0 0",
    "Node 0 DMA: 100*16kB (UME) 100*32kB (UM) 50*64kB (U) 25*128kB (U) 0*256kB = 11200kB",
    "Free swap  = 0kB",
    "Total swap = 0kB",
    "25000 pages RAM",
    "0 pages HighMem/MovableOnly",
    "500 pages reserved",
    "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name",
    "[    310]  1000   310    22500    18500    18437       63         0   200000        0             0 worker",
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,task=worker,pid=310,uid=1000",
    "Out of memory: Killed process 310 (worker) total-vm:360000kB, anon-rss:295000kB, file-rss:1000kB, shmem-rss:0kB, UID:1000 pgtables:200kB oom_score_adj:0",
];

/// Linux 5.15: a cgroup of version 2, whose statistics are one message of several lines.
const GROUP_5_15: Messages = &[
    "worker invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "memory: usage 307200kB, limit 307200kB, failcnt 42",
    "swap: usage 0kB, limit 0kB, failcnt 0",
    "Memory cgroup stats for /docker/b:",
    "anon 306000000\nfile 1024\nkernel_stack 16384\nshmem 1024\nunevictable 0\nworkingset_refault_anon 0",
    "Tasks state (memory values in pages):",
    "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
    "[    310]  1000   310    90000    74000   200000        0             0 worker",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/docker/b,task_memcg=/docker/b/below,task=worker,pid=310,uid=1000",
    "Memory cgroup out of memory: Killed process 310 (worker) total-vm:360000kB, anon-rss:295000kB, file-rss:1000kB, shmem-rss:0kB, UID:1000 pgtables:200kB oom_score_adj:0",
];

const FORMS: [(&str, Messages); 4] =
    [("4.4", GROUP_4_4), ("4.19", HOST_4_19), ("6.12", HOST_6_12), ("5.15", GROUP_5_15)];

/// How a program prints a message; `number` counts the messages of the text.
type Prefix = fn(&str, u64) -> String;

fn micros(number: u64) -> u64 {
    601_270_000 + number * 1_000
}

fn bracket(number: u64) -> String {
    format!("[{:>5}.{:06}] ", micros(number) / 1_000_000, micros(number) % 1_000_000)
}

/// The lines of a message, each after the first as the program prints it.
fn indented(head: &str, message: &str) -> String {
    let mut lines = message.split('\n');
    let mut all = format!("{head}{}\n", lines.next().unwrap_or_default());
    for line in lines {
        all.push_str(&format!("{}{line}\n", " ".repeat(head.len())));
    }
    all
}

fn each(head: &str, message: &str) -> String {
    message.split('\n').map(|line| format!("{head}{line}\n")).collect()
}

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// The prefix that `dmesg` prints.
const DMESG: Prefix = |message, number| indented(&bracket(number), message);

const PREFIXES: &[(&str, Prefix)] = &[
    ("bare", |message, _| format!("{message}\n")),
    ("dmesg", |message, number| indented(&bracket(number), message)),
    ("dmesg with caller", |message, number| {
        indented(&format!("{}[ T310] ", bracket(number)), message)
    }),
    ("dmesg -T", |message, _| indented("[Di Aug 12 03:54:03 2025] ", message)),
    ("dmesg -x", |message, number| {
        indented(&format!("kern  :err   : {}", bracket(number)), message)
    }),
    ("dmesg -H", |message, _| indented("[Aug12 03:54] ", message)),
    ("dmesg -d", |message, number| {
        indented(&format!("[{}.{:06} <    0.000100>] ", 601 + number, 270_000), message)
    }),
    ("dmesg --time-format iso", |message, _| {
        indented("2025-08-12T03:54:03,123456+02:00 ", message)
    }),
    ("dmesg --json", |message, number| {
        format!(
            "      {{\n         \"pri\": 4,\n         \"time\":    {}.{:06},\n         \"msg\": {}\n      }},\n",
            micros(number) / 1_000_000,
            micros(number) % 1_000_000,
            json(message)
        )
    }),
    ("printk levels", |message, number| indented(&format!("<4>{}", bracket(number)), message)),
    ("kern.log", |message, number| {
        each(&format!("Aug 12 03:54:03 web-1 kernel: {}", bracket(number)), message)
    }),
    ("kern.log without time", |message, _| each("Aug  2 03:54:03 web-1 kernel: ", message)),
    ("rsyslog iso", |message, number| {
        each(
            &format!("2025-08-12T03:54:03.123456+02:00 web-1 kernel: {}", bracket(number)),
            message,
        )
    }),
    ("journalctl short-full", |message, _| {
        indented("Tue 2025-08-12 03:54:03 UTC web-1 kernel: ", message)
    }),
    ("journalctl short-unix", |message, _| indented("1754970843.123456 web-1 kernel: ", message)),
    ("journalctl short-monotonic", |message, number| {
        indented(&format!("{}web-1 kernel: ", bracket(number)), message)
    }),
    ("journalctl json", |message, number| {
        format!(
            "{{\"_TRANSPORT\":\"kernel\",\"MESSAGE\":{},\"_SOURCE_MONOTONIC_TIMESTAMP\":\"{}\",\"_HOSTNAME\":\"web-1\"}}\n",
            json(message),
            micros(number)
        )
    }),
    ("journalctl export", |message, number| {
        let size = (message.len() as u64).to_le_bytes().map(char::from);
        let field = if message.contains('\n') {
            format!("MESSAGE\n{}{message}\n", String::from_iter(size))
        } else {
            format!("MESSAGE={message}\n")
        };
        format!(
            "__CURSOR=s=1;i={number}\n__REALTIME_TIMESTAMP=1754970843123456\n_TRANSPORT=kernel\nPRIORITY=4\n{field}\
             _SOURCE_MONOTONIC_TIMESTAMP={}\n\n",
            micros(number)
        )
    }),
    ("journalctl verbose", |message, number| {
        let message = message.replace('\n', "\n            ");
        format!(
            "Tue 2025-08-12 03:54:03.1 UTC [s=1;i={number}]\n    _TRANSPORT=kernel\n    PRIORITY=4\n    MESSAGE={message}\n    \
             _HOSTNAME=web-1\n"
        )
    }),
    ("kmsg", |message, number| {
        format!("4,{number},{},-;{}\n", micros(number), message.replace('\n', "\\x0a"))
    }),
    ("docker", |message, number| {
        message
            .split('\n')
            .map(|line| {
                let line = json(&format!("{}{line}\n", bracket(number)));
                format!(
                    "{{\"log\":{line},\"stream\":\"stdout\",\"time\":\"2025-08-12T03:54:03.1Z\"}}\n"
                )
            })
            .collect()
    }),
    ("kubernetes", |message, number| {
        each(&format!("2025-08-12T03:54:03.123456789Z stdout F {}", bracket(number)), message)
    }),
    ("talos", |message, _| each("kern:    info: [2026-07-25T14:23:17.527201795Z]: ", message)),
    ("logcat", |message, _| each("08-12 03:54:03.123     0     0 W kernel  : ", message)),
    ("quoted", |message, number| each(&format!("> {}", bracket(number)), message)),
    ("quoted twice", |message, number| each(&format!("> > {}", bracket(number)), message)),
    ("escaped for a page", |message, number| {
        indented(&format!("&lt;4&gt;{}", bracket(number)), &message.replace('&', "&amp;"))
    }),
    ("coloured", |message, number| {
        indented(&format!("\x1b[32m{}\x1b[0m", bracket(number)), message)
    }),
    ("grep -n", |message, number| {
        message
            .split('\n')
            .map(|line| format!("{}:{}{line}\n", number + 7, bracket(number)))
            .collect()
    }),
    ("grep -H", |message, number| {
        each(
            &format!("/var/log/kern.log:Aug 12 03:54:03 host kernel: {}", bracket(number)),
            message,
        )
    }),
    ("RFC 5424", |message, number| {
        each(
            &format!("<4>1 2025-08-12T03:54:03.123456+02:00 host kernel - - - {}", bracket(number)),
            message,
        )
    }),
    ("logread of OpenWrt", |message, number| {
        each(&format!("Tue Aug 12 03:54:03 2025 kern.warn kernel: {}", bracket(number)), message)
    }),
    ("syslog of a router", |message, _| each("Aug 12 03:54:03 router vmunix: ", message)),
];

fn text_of(messages: &[&str], prefix: Prefix) -> String {
    messages.iter().zip(0..).map(|(message, number)| prefix(message, number)).collect()
}

fn read(text: &str) -> (KernelLog, LogText) {
    read_text(text.as_bytes(), "a.log").unwrap()
}

/// Everything of a report but when and where it was written.
fn meaning(log: &KernelLog) -> Vec<OomKill> {
    let kills = log.kills.iter().map(|kill| OomKill {
        source: Source::none(),
        boot_seconds: 0.0,
        stamp: None,
        machine: None,
        ..kill.clone()
    });
    kills.collect()
}

#[test]
fn each_form_says_the_same_behind_each_prefix() {
    let mut compared = 0;
    for (form, messages) in FORMS {
        let (bare, _) = read(&text_of(messages, PREFIXES[0].1));
        assert_eq!(bare.kills.len(), 1, "{form}");
        for (name, prefix) in PREFIXES {
            let (log, about) = read(&text_of(messages, *prefix));
            assert_eq!(meaning(&log), meaning(&bare), "{form} behind {name}: {about:?}");
            assert_eq!((log.not_understood, about.by_programs), (0, 0), "{form} behind {name}");
            compared += 1;
        }
    }
    assert_eq!(compared, 4 * PREFIXES.len());
}

#[test]
fn the_old_forms_say_what_the_kernel_meant() {
    let (log, about) = read(&text_of(GROUP_4_4, DMESG));
    let kill = &log.kills[0];
    assert_eq!(about.kernels, [Name::from("4.4.0-21-generic")]);
    assert_eq!(kill.constraint, Some(OomConstraint::Cgroup));
    assert_eq!(kill.group, Some(Name::from("/docker/b")));
    assert_eq!(kill.victim_group, Some(Name::from("/docker/b/below")));
    let victim = kill.victim.as_ref().unwrap();
    assert_eq!((victim.pid, victim.anon), (310, Bytes::from_kib(295_000)));
    let group = kill.group_memory.as_ref().unwrap();
    // the sum of the two groups
    assert_eq!((group.anon, group.swapped), (Bytes::from_kib(300_000), Bytes::from_kib(8)));
    assert_eq!(group.memory.unwrap().usage, Bytes::from_kib(307_200).unwrap());
    assert_eq!(kill.tasks.len(), 2);
    assert_eq!(kill.tasks[1].name, Name::from("parent of all"));
}

#[test]
fn a_child_that_is_killed_for_its_parent_is_the_victim() {
    let (log, _) = read(&text_of(HOST_4_19, PREFIXES[10].1));
    let kill = &log.kills[0];
    assert_eq!(kill.constraint, Some(OomConstraint::Host));
    assert_eq!(kill.victim.as_ref().unwrap().pid, 310);
    assert_eq!(kill.machine, Some(Name::from("web-1")));
    assert_eq!(kill.stamp, Some(Name::from("Aug 12 03:54:03")));
    let host = kill.host.as_ref().unwrap();
    assert_eq!(host.high_memory, Some(Bytes::new(800_000 << 12)));
    assert_eq!(host.total, Some(Bytes::new(990_000 << 12)));
}

#[test]
fn the_size_of_a_page_is_that_of_the_smallest_block() {
    let (log, about) = read(&text_of(HOST_6_12, DMESG));
    assert_eq!(about.page_size, Bytes::from_kib(16));
    let kill = &log.kills[0];
    assert_eq!(kill.tasks[0].rss, Bytes::new(18_500 << 14));
    assert_eq!(kill.host.as_ref().unwrap().free, Some(Bytes::new(700 << 14)));
    assert_eq!(kill.zones.len(), 1);
    assert_eq!(kill.zones[0].min, Bytes::from_kib(22_500));
}

#[test]
fn a_fragment_has_what_it_has() {
    for (form, messages) in FORMS {
        let last = &messages[messages.len() - 1..];
        let (log, _) = read(&text_of(last, DMESG));
        assert_eq!(log.kills[0].victim.as_ref().unwrap().pid, 310, "{form}");
        // the line about the choice alone
        let chosen = &messages[messages.len() - 2..messages.len() - 1];
        let (log, _) = read(&text_of(chosen, DMESG));
        assert_eq!(log.kills.len(), 1, "{form}");
        // everything but the kill
        let (log, _) = read(&text_of(&messages[..messages.len() - 1], PREFIXES[10].1));
        assert_eq!(log.kills.len(), 1, "{form}");
    }
}

/// Somebody cut the log with `tail`: what is left of the report still counts, down to the table.
#[test]
fn a_report_without_its_first_lines_keeps_the_others() {
    for (form, messages) in FORMS {
        let whole = &read(&text_of(messages, DMESG)).0.kills[0];
        let table = messages.iter().position(|line| line.contains("total_vm")).unwrap();
        for cut in 1..=table {
            let (log, _) = read(&text_of(&messages[cut..], DMESG));
            let [kill] = &log.kills[..] else { panic!("{form} {cut}: {log:?}") };
            assert_eq!(kill.tasks, whole.tasks, "{form} {cut}");
            assert_eq!((&kill.victim, log.not_understood), (&whole.victim, 0), "{form} {cut}");
            let has = |words: &str| messages[cut..].iter().any(|line| line.contains(words));
            if has("memory: usage") {
                let limit = |kill: &OomKill| kill.group_memory.as_ref().and_then(|it| it.memory);
                assert_eq!(limit(kill), limit(whole), "{form} {cut}");
            }
            if has("active_anon:") {
                let anon = |kill: &OomKill| kill.host.as_ref().and_then(|host| host.anon);
                assert_eq!(anon(kill), anon(whole), "{form} {cut}");
            }
        }
    }
}

#[test]
fn tasks_that_did_not_run_are_read_behind_each_prefix() {
    const HUNG: Messages = &[
        "INFO: task kworker/u8:2:310 blocked for more than 120 seconds.",
        "      Not tainted 6.12.9 #1",
        "Call Trace:",
        " <TASK>",
        " io_schedule+0x46/0x80",
        " do_swap_page+0x1a/0x9c0",
        " </TASK>",
    ];
    for (name, prefix) in PREFIXES {
        let (log, _) = read(&text_of(HUNG, *prefix));
        let [task] = &log.hung_tasks[..] else { panic!("{name}: {log:?}") };
        assert_eq!(
            (task.name.as_str(), task.pid, task.seconds),
            ("kworker/u8:2", 310, 120),
            "{name}"
        );
        let stack: Vec<&str> = task.stack.iter().map(Name::as_str).collect();
        assert_eq!(stack, ["io_schedule", "do_swap_page"], "{name}");
        assert_eq!((log.kills.len(), log.not_understood), (0, 0), "{name}");
    }
}

/// `journalctl -r`: one kill is one kill, and gets no sizes of another.
#[test]
fn a_text_with_its_newest_line_first_is_seen() {
    for (form, messages) in [("6.12", HOST_6_12), ("5.15", GROUP_5_15), ("4.4", GROUP_4_4)] {
        let text = text_of(messages, DMESG);
        let mut lines: Vec<&str> = text.lines().collect();
        lines.reverse();
        let both = [lines.clone(), lines].concat().join("\n");
        let (log, about) = read(&both);
        assert!(about.is_reversed, "{form}");
        assert_eq!(log.kills.len(), 2, "{form}: {log:?}");
        assert!(
            log.kills.iter().all(|kill| kill.tasks.is_empty() && kill.zones.is_empty()),
            "{form}"
        );
        assert!(!read(&text).1.is_reversed, "{form}");
    }
}

#[test]
fn boots_and_machines_are_told_apart() {
    let one = text_of(GROUP_5_15, DMESG);
    let (log, about) = read(&format!("{one}[    0.000000] Linux version 6.9.1 (x) #1\n{one}"));
    assert_eq!((log.kills.len(), about.boots), (2, 2));
    // the lines of two machines alternate
    let other =
        |message: &str, number: u64| PREFIXES[10].1(message, number).replace("web-1", "db-7");
    let mixed: String = (0..)
        .zip(GROUP_5_15.iter().zip(GROUP_4_4))
        .map(|(number, (new, old))| PREFIXES[10].1(new, number) + &other(old, number))
        .collect();
    let rest: String =
        (10..).zip(&GROUP_4_4[10..]).map(|(number, message)| other(message, number)).collect();
    let (log, about) = read(&(mixed + &rest));
    assert_eq!(about.machines, [Name::from("db-7"), Name::from("web-1")]);
    assert_eq!(log.kills.len(), 2);
    assert!(log.kills.iter().all(|kill| kill.group_memory.is_some() && !kill.tasks.is_empty()));
}

#[test]
fn what_a_program_wrote_is_counted_and_not_used() {
    let text = "Aug 12 03:54:03 web-1 shop[12]: Out of memory: Killed process 1 (init) total-vm:4kB, anon-rss:1kB\n";
    let (log, about) = read(text);
    assert_eq!((log.kills.len(), about.by_programs, log.not_understood), (0, 1, 0));
}

#[test]
fn a_form_that_is_not_known_is_counted() {
    let text = "[    1.000000] Out of memory: Sacrificed process 7 of nine\n[    2.000000] eth0: link up\n";
    let (log, _) = read(text);
    assert_eq!((log.kills.len(), log.not_understood), (0, 1));
    assert_eq!(log.first_not_understood, Some(Source::line("a.log", 1)));
}

#[test]
fn a_panic_and_a_failed_allocation_are_no_kills_of_a_process() {
    let mut panic = HOST_6_12[..HOST_6_12.len() - 2].to_vec();
    panic.push("Kernel panic - not syncing: Out of memory: system-wide panic_on_oom is enabled");
    let (log, _) = read(&text_of(&panic, DMESG));
    assert_eq!(log.kills.len(), 1);
    assert!(log.kills[0].panic.is_some() && log.kills[0].victim.is_none());
    let mut failed = HOST_6_12[2..12].to_vec();
    failed.insert(0, "kworker/0:1: page allocation failure: order:2, mode:0x40820(GFP_ATOMIC|__GFP_COMP), nodemask=(null)");
    let (log, _) = read(&text_of(&failed, DMESG));
    assert_eq!((log.kills.len(), log.failures.len()), (0, 1));
    assert_eq!((log.failures[0].order, log.failures[0].zones.len()), (2, 1));
    assert!(log.failures[0].host.is_some());
}

#[test]
fn a_report_whose_end_is_missing_is_counted() {
    for (form, messages) in FORMS {
        let (log, _) = read(&text_of(&messages[..4], DMESG));
        assert_eq!((log.kills.len(), log.not_understood), (0, 1), "{form}");
        let twice = text_of(&messages[..4], DMESG) + &text_of(messages, DMESG);
        let (log, _) = read(&twice);
        assert_eq!((log.kills.len(), log.not_understood), (1, 1), "{form}");
    }
}

#[test]
fn a_panic_after_a_report_without_a_victim_is_part_of_it() {
    let mut deadlock = HOST_6_12[..HOST_6_12.len() - 2].to_vec();
    deadlock.push("Out of memory and no killable processes...");
    deadlock.push("Kernel panic - not syncing: System is deadlocked on memory");
    let (log, _) = read(&text_of(&deadlock, DMESG));
    assert_eq!(log.kills.len(), 1);
    assert!(log.kills[0].panic.is_some() && log.kills[0].host.is_some());
    let (log, _) = read(&text_of(&deadlock[deadlock.len() - 1..], DMESG));
    assert_eq!(log.kills.len(), 1);
}

#[test]
fn texts_in_utf_16_and_with_a_mark_are_read() {
    let text = text_of(GROUP_5_15, DMESG);
    let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let marked = [b"\xff\xfe".as_slice(), &little].concat();
    let utf_8 = [b"\xef\xbb\xbf".as_slice(), text.as_bytes()].concat();
    let plain = meaning(&read(&text).0);
    for bytes in [little, big, marked, utf_8] {
        let (log, _) = read_text(bytes.as_slice(), "a").unwrap();
        assert_eq!(meaning(&log), plain);
    }
}

#[test]
fn signs_of_a_kill_without_a_report_are_counted() {
    let signs = [
        "Aug 12 03:54:03 a systemd[1]: foo.service: A process of this unit has been killed by the OOM killer.",
        "Aug 12 03:54:03 a systemd[1]: foo.service: Failed with result 'oom-kill'.",
        "[    1.000000] oom_reaper: reaped process 40 (hog), now anon-rss:0kB, file-rss:0kB",
        "[    1.000000] Tasks in /a/b are going to be killed due to memory.oom.group set",
        "Aug 12 03:54:03 a kubelet[9]: System OOM encountered, victim process: hog, pid: 4000",
        "    Reason:       OOMKilled",
        "<6>[    1.000000] lowmemorykiller: Killing 'org.shop' (4567), adj 900",
    ];
    for sign in signs {
        let (log, about) = read(&format!("{sign}\n"));
        assert_eq!((log.kills.len(), about.signs), (0, 1), "{sign}");
        assert_eq!(about.first_sign, Some(Source::line("a.log", 1)), "{sign}");
    }
    for (form, messages) in FORMS {
        let (_, about) = read(&text_of(messages, DMESG));
        assert_eq!(about.signs, 0, "{form}");
    }
}

#[test]
fn packed_texts_are_unpacked_and_damaged_ones_are_errors() {
    use std::io::Write;
    let text = text_of(GROUP_5_15, DMESG);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let options = lzma_rust2::XzOptions::with_preset(0);
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    xz.write_all(text.as_bytes()).unwrap();
    let xz = xz.finish().unwrap();
    for packed in [gzip, zstd, xz] {
        let (log, _) = read_text(unpack_text(packed.as_slice()).unwrap(), "a").unwrap();
        assert_eq!(log.kills.len(), 1);
        let half = &packed[..packed.len() / 2];
        assert!(unpack_text(half).and_then(|text| read_text(text, "a")).is_err());
    }
}

#[test]
fn lines_end_in_any_way_and_a_mail_wraps_them() {
    let text = text_of(GROUP_5_15, DMESG);
    let (log, _) = read(&text);
    let (windows, _) = read(&text.replace('\n', "\r\n"));
    assert_eq!(meaning(&windows), meaning(&log));
    // a terminal of 80 columns
    let wrapped: String = text
        .lines()
        .flat_map(|line| {
            line.as_bytes().chunks(80).map(|part| String::from_utf8_lossy(part) + "\n")
        })
        .collect();
    assert_eq!(meaning(&read(&wrapped).0)[0].victim, meaning(&log)[0].victim);
    // a mail program, between words
    let mail: String = text.lines().flat_map(|line| textwrap_like(line, 76)).collect();
    assert_eq!(meaning(&read(&mail).0)[0].victim, meaning(&log)[0].victim);
}

/// Breaks a line between words.
fn textwrap_like(line: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last_mut().unwrap();
        if last.len() + word.len() + 1 > width && !last.trim().is_empty() {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() || lines.len() == 1 && line.starts_with(' ') {
                lines.last_mut().unwrap().push(' ');
            }
            lines.last_mut().unwrap().push_str(word);
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

proptest! {
    /// Other messages before, after and between change nothing.
    #[test]
    fn other_messages_change_nothing(
        form in 0..FORMS.len(),
        prefix in 0..PREFIXES.len(),
        at in any::<prop::sample::Index>(),
        other in prop::sample::select(vec![
            "eth0: link up", "usb 1-1: new device", "audit: type=1400 x", "EXT4-fs (sda1): mounted",
        ]),
    ) {
        let (_, messages) = FORMS[form];
        let (_, prefix) = PREFIXES[prefix];
        let mut more = messages.to_vec();
        more.insert(at.index(messages.len() + 1), other);
        let (log, _) = read(&text_of(&more, prefix));
        let (plain, _) = read(&text_of(messages, prefix));
        prop_assert_eq!(meaning(&log), meaning(&plain));
    }

    /// Any bytes, also with parts of a report among them, are read to their end.
    #[test]
    fn garbage_never_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        form in 0..FORMS.len(),
        prefix in 0..PREFIXES.len(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut text = text_of(FORMS[form].1, PREFIXES[prefix].1).into_bytes();
        let at = cut.index(text.len());
        text.splice(at..(at + bytes.len() / 2).min(text.len()), bytes.iter().copied());
        let (log, _) = read_text(text.as_slice(), "a").unwrap();
        prop_assert!(log.kills.len() <= 4);
    }
}

#[test]
fn nohang_and_docker_name_their_victims() {
    let (log, _) = read(
        "Nov 20 10:00:01 h1 nohang[700]:   PID:       77, name: indexer, state: S, EUID: 1000, SID: 5 (sh)\n\
         Nov 20 10:00:01 h1 nohang[700]: Implementing a corrective action:\n\
         Nov 20 10:00:01 h1 nohang[700]:   Sending SIGTERM to the victim\n",
    );
    let kills = log.user_kills;
    assert_eq!(kills.len(), 1);
    assert_eq!((kills[0].victim.as_str(), kills[0].pid), ("indexer", Some(77)));
}

/// A file of journald with these messages, a millisecond apart, each with the number of its boot.
fn journal_of(messages: &[(u8, &str)]) -> Vec<u8> {
    use pagewise_journald::written::{Variant, Written, make_journal};
    let entries: Vec<Written> = messages
        .iter()
        .zip(1_u64..)
        .map(|((boot, text), at)| {
            let clock_zero = (1 << 50) + (u64::from(*boot) << 40);
            Written::by_kernel([*boot; 16], clock_zero, 600_000_000 + at * 1000, text.as_bytes())
        })
        .collect();
    make_journal(
        &Variant { is_compact: true, is_keyed: true, buckets: 64, ..Variant::default() },
        &entries,
    )
}

fn read_journal_files(files: &[&[u8]]) -> (KernelLog, LogText) {
    use pagewise_hostfs::{Entry as Stored, HostRoot, ReadHost};
    let named = files
        .iter()
        .enumerate()
        .map(|(at, bytes)| (format!("{at}.journal"), Stored::File(bytes.to_vec())));
    let host = HostRoot::memory(named);
    let opened = (0..files.len()).map(|at| host.pieces(&format!("{at}.journal")).unwrap());
    read_journals(opened.collect(), "files")
}

/// The same messages as a file of journald and as its export give the same kills.
#[test]
fn a_file_of_journald_says_what_its_text_says() {
    for messages in [GROUP_4_4, HOST_4_19, HOST_6_12] {
        let of_boot: Vec<(u8, &str)> = messages.iter().map(|text| (1, *text)).collect();
        let (log, about) = read_journal_files(&[&journal_of(&of_boot)]);
        let lines: Vec<String> =
            messages.iter().map(|text| format!("[  601.273226] {text}")).collect();
        let (of_text, _) = read_text(lines.join("\n").as_bytes(), "text").unwrap();
        let victims = |log: &KernelLog| -> Vec<String> {
            log.kills
                .iter()
                .map(|kill| format!("{:?} {:?}", kill.victim, kill.constraint))
                .collect()
        };
        assert_eq!(victims(&log), victims(&of_text));
        assert_eq!((log.kills.len(), log.not_understood), (1, 0));
        assert_eq!((about.lines, about.boots), (messages.len() as u64, 1));
        assert_eq!((about.files_unread, about.messages_unread), (0, 0));
        assert!(about.names_kernel);
    }
}

/// A report whose boot ended in its middle is not continued by the next boot's.
#[test]
fn boots_in_files_of_journald_are_kept_apart() {
    let (begin, end) = HOST_6_12.split_at(HOST_6_12.len() / 2);
    let first: Vec<(u8, &str)> = begin.iter().map(|text| (1, *text)).collect();
    let second: Vec<(u8, &str)> = HOST_6_12.iter().map(|text| (2, *text)).collect();
    let files = [journal_of(&second), journal_of(&first)];
    let (log, about) = read_journal_files(&[&files[0], &files[1]]);
    assert_eq!(about.boots, 2);
    let whole =
        log.kills.iter().filter(|kill| kill.victim.is_some() && !kill.tasks.is_empty()).count();
    assert_eq!(whole, 1, "{:?}", log.kills);
    let (alone, _) = read_journal_files(&[&journal_of(&[(2, end[0])]), &files[0]]);
    assert_eq!(
        alone.kills.iter().filter(|kill| kill.victim.is_some() && !kill.tasks.is_empty()).count(),
        1
    );
}

/// A file that was cut anywhere is read up to there, and the output never is that of a whole file.
#[test]
fn a_file_of_journald_that_was_cut_says_so() {
    let messages: Vec<(u8, &str)> = HOST_6_12.iter().map(|text| (1, *text)).collect();
    let whole = journal_of(&messages);
    for length in (0..whole.len()).step_by(97) {
        let (log, about) = read_journal_files(&[&whole[..length]]);
        let is_said = about.files_unread > 0 || about.messages_unread > 0;
        assert!(is_said, "cut at {length} of {}: {} lines", whole.len(), about.lines);
        assert!(log.kills.len() <= 1);
    }
}

/// A packed text of many times its size is read to a limit that follows from its size, and what was
/// read counts.
#[test]
fn a_packed_text_is_not_unpacked_to_any_length() {
    use std::io::Read;
    let kill = "Out of memory: Killed process 7 (b) total-vm:9kB, anon-rss:1kB, file-rss:0kB\n";
    let zeros = std::io::repeat(b'a').take(512 << 20);
    let packed = zstd::encode_all(kill.as_bytes().chain(zeros), 1).unwrap();
    assert!(packed.len() < 1 << 20, "{}", packed.len());
    let mut unpacked = unpack_text(packed.as_slice()).unwrap();
    let read = std::io::copy(&mut unpacked, &mut std::io::sink());
    assert_eq!(read.unwrap_err().kind(), packed::TOO_MUCH);
    let (log, about) = read_text(unpack_text(packed.as_slice()).unwrap(), "a").unwrap();
    assert!(about.is_cut && about.lines == 2, "{about:?}");
    assert_eq!(log.kills.len(), 1);
    let short = zstd::encode_all(kill.repeat(1000).as_bytes(), 1).unwrap();
    let (_, about) = read_text(unpack_text(short.as_slice()).unwrap(), "a").unwrap();
    assert_eq!((about.is_cut, about.lines), (false, 1000));
}
