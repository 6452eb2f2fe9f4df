// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explanations of OOM killer reports.

use pagewise_decide::oom::{explain, recent_kills};
use pagewise_model::{
    Bytes, Cgroup, Interval, Limit, Name, OomExplanation, OomKill, OomUsage, Reading, Source,
};
use proptest::prelude::*;

use pagewise_testkit::made_host::kills::{blank, by_host, by_limit, usage, victim};
use pagewise_testkit::made_host::{calm, file, gib, group, line, mib, process, swappiness, with};

fn told(interval: &Interval, kill: OomKill) -> OomExplanation {
    let mut interval = interval.clone();
    interval.end.kernel_log.kills = vec![kill];
    explain(&interval).remove(0)
}

fn title(kill: &OomKill) -> String {
    told(&calm(), kill.clone()).title
}

fn fact(explanation: &OomExplanation, label: &str) -> String {
    let fact = explanation.facts.iter().find(|fact| fact.label == label);
    fact.map(|fact| fact.text.clone()).unwrap_or_default()
}

fn why_no_swap(interval: &Interval, kill: OomKill) -> String {
    fact(&told(interval, kill), "why no swap")
}

#[test]
fn a_kill_by_a_limit_is_told_in_full() {
    let explanation = told(&calm(), by_limit());
    assert_eq!(
        explanation.title,
        "nginx (pid 980) was killed because the cgroup /system.slice/web.service reached its memory limit \
         (64.0 MiB), not because the machine was out of memory"
    );
    assert_eq!(fact(&explanation, "when"), "60 minutes ago, 44 seconds after boot");
    assert_eq!(
        fact(&explanation, "the group held"),
        "anon 58.0 MiB, file 1.0 MiB, shmem 4.0 MiB, kernel 1.0 MiB, swap 0 B of 0 B"
    );
    assert_eq!(
        fact(&explanation, "victim"),
        "42.0 MiB (anon 41.0 MiB, file 0 B, shmem 1.0 MiB), 66 % of the limit"
    );
    assert_eq!(fact(&explanation, "who held it"), "nginx 980: 42.0 MiB · nginx 981: 17.0 MiB");
    assert_eq!(
        fact(&explanation, "why no swap"),
        "the cgroup was not allowed to swap: memory.swap.max was 0, although 3.5 GiB of swap are free now"
    );
    assert!(fact(&explanation, "since boot").contains("reached its limit 845,358 times"));
    assert_eq!(fact(&explanation, "asked for by"), "");
    assert_eq!(fact(&explanation, "memory was"), "");
}

#[test]
fn a_kill_of_the_machine_is_told_in_full() {
    let interval = with(|host| {
        let postgres = &mut host.processes.list[0];
        postgres.rss_file = line("/proc/4121/status", 24, Bytes::new(0));
        postgres.rss_shmem = line("/proc/4121/status", 25, Bytes::new(0));
    });
    let explanation = told(&interval, by_host());
    assert_eq!(
        explanation.title,
        "java (pid 77) was killed because the whole machine ran out of memory"
    );
    let memory = fact(&explanation, "memory was");
    assert!(
        memory.starts_with("anon 13.0 GiB, file 3.0 MiB, shmem 1.0 GiB, slab 300.0 MiB"),
        "{memory}"
    );
    assert!(
        memory.ends_with("of 16.0 GiB; no swap") && memory.contains("other 1.6 GiB"),
        "{memory}"
    );
    assert!(fact(&explanation, "victim").ends_with("75 % of all memory"));
    assert_eq!(fact(&explanation, "asked for by"), "sh: one page, 0xcc0(GFP_KERNEL)");
    assert_eq!(fact(&explanation, "why no swap"), "the machine had no swap");
    assert_eq!(fact(&explanation, "alive now"), "postgres 4121: 2.0 GiB (then 1.0 GiB)");
    assert!(
        explanation.change[0].starts_with("# contains and cures nothing: a limit for db.service")
    );
}

#[test]
fn each_reason_why_swap_did_not_help() {
    let limit = |swap: Option<OomUsage>| {
        let mut kill = by_limit();
        kill.group_memory.as_mut().unwrap().swap = swap;
        kill
    };
    let calm = calm();
    let used_up = limit(usage(mib(32), Limit::Bytes(mib(32)), 4));
    assert!(why_no_swap(&calm, used_up).contains("memory.swap.max was 32.0 MiB"));
    let free = || limit(usage(mib(2), Limit::Max, 0));
    assert!(why_no_swap(&calm, free()).starts_with("2.0 MiB of the cgroup's memory were in swap"));
    let none = with(|host| {
        host.tiers.clear();
        host.memory.swap_total = line("/proc/meminfo", 15, Bytes::new(0));
    });
    assert_eq!(why_no_swap(&none, free()), "the machine has no swap now");
    let full = with(|host| host.tiers[0].used = host.tiers[0].size.clone());
    assert!(
        why_no_swap(&full, free()).starts_with("all swap of the machine is full now; zram0 holds")
    );
    let refusing =
        with(|host| host.zram[0].io_stat.failed_writes = line("/sys/block/zram0/io_stat", 1, 9));
    assert_eq!(why_no_swap(&refusing, free()), "zram0 has refused 9 writes until now");
    let at_limit = with(|host| {
        host.zram[0].mm_stat.memory_limit = host.zram[0].mm_stat.memory_used.clone();
    });
    assert!(why_no_swap(&at_limit, free()).starts_with("zram0 accepts no more pages now"));
    let mut locked = free();
    locked.group_memory.as_mut().unwrap().unevictable = Some(mib(50));
    assert!(why_no_swap(&calm, locked).contains("locked in memory (mlock)"));
}

#[test]
fn limits_around_the_group_and_of_version_1_are_told() {
    let in_group = |change: fn(&mut Cgroup)| {
        let mut kill = by_limit();
        kill.group_memory.as_mut().unwrap().swap = None;
        kill.group = Some(Name::from("/system.slice/web.service"));
        let host = with(|host| {
            let mut web = group("/system.slice/web.service");
            change(&mut web);
            host.cgroups.groups.push(web);
        });
        (host, kill)
    };
    let (host, kill) =
        in_group(|web| web.swappiness = file("/sys/fs/cgroup/memory/web/memory.swappiness", 0));
    assert!(why_no_swap(&host, kill).starts_with("memory.swappiness of the cgroup is 0 now"));
    let (mut host, kill) = in_group(|_| {});
    host.end.cgroups.groups[1].swap_max =
        file("/sys/fs/cgroup/system.slice/memory.swap.max", Limit::Bytes(Bytes::new(0)));
    assert_eq!(
        why_no_swap(&host, kill),
        "/system.slice is not allowed to swap: memory.swap.max is 0 now"
    );
    let (host, mut kill) = in_group(|_| {});
    let memory = kill.group_memory.as_mut().unwrap();
    memory.memory_and_swap = usage(mib(64), Limit::Bytes(mib(64)), 7);
    assert!(
        why_no_swap(&host, kill.clone()).contains("was 64.0 MiB, the same as that of memory alone")
    );
    kill.group_memory.as_mut().unwrap().memory_and_swap = usage(mib(96), Limit::Bytes(mib(96)), 7);
    assert!(why_no_swap(&host, kill).contains("at the cgroup's limit of 96.0 MiB"));
}

#[test]
fn why_the_machines_swap_did_not_help() {
    let of = |free: Bytes, change: fn(&mut OomKill)| {
        let mut kill = by_host();
        let memory = kill.host.as_mut().unwrap();
        (memory.swap_total, memory.swap_free) = (Some(gib(4)), Some(free));
        change(&mut kill);
        kill
    };
    let calm = calm();
    assert!(
        why_no_swap(&calm, of(Bytes::new(0), |_| {}))
            .starts_with("swap was full: 4.0 GiB of 4.0 GiB")
    );
    assert!(why_no_swap(&calm, of(gib(1), |_| {})).contains("does not show why"));
    let poorly = of(Bytes::new(0), |kill| kill.host.as_mut().unwrap().anon = Some(gib(10)));
    assert!(
        why_no_swap(&calm, poorly.clone())
            .contains("4.6 GiB of memory that no other counter explains")
    );
    let on_disk = with(|host| host.tiers[0].kind = pagewise_model::TierKind::Partition);
    assert!(!why_no_swap(&on_disk, poorly).contains("compressed poorly"));
    let order = of(gib(1), |kill| kill.invoker.as_mut().unwrap().order = 3);
    assert!(why_no_swap(&calm, order).contains("needed contiguous pages"));
    let locked = of(gib(1), |kill| kill.host.as_mut().unwrap().unevictable = Some(gib(9)));
    assert!(why_no_swap(&calm, locked).contains("9.0 GiB were locked"));
    let zero = with(|host| swappiness(host, "0"));
    assert!(why_no_swap(&zero, of(gib(1), |_| {})).contains("vm.swappiness is 0 now"));
    assert_eq!(why_no_swap(&calm, blank(Source::none())), "the kernel's report does not show why");
}

#[test]
fn nobody_to_kill_whole_groups_and_sysrq_have_titles_of_their_own() {
    let mut kill = OomKill { victim: None, repeats: 8, ..by_limit() };
    kill.tasks[0].oom_score_adj = -1000;
    let alive = with(|host| host.processes.list[0].pid = 980);
    let renamed = told(&alive, kill.clone());
    assert!(renamed.change.iter().all(|it| !it.contains("oom_score_adj")), "another process");
    let alive = with(|host| {
        host.processes.list[0].pid = 980;
        host.processes.list[0].name = "nginx".into();
    });
    let explanation = told(&alive, kill);
    assert_eq!(
        explanation.title,
        "/system.slice/web.service was at its memory limit (64.0 MiB) and no process could be killed; the \
         kernel log contains 8 earlier reports of the same kind"
    );
    assert!(
        explanation
            .change
            .iter()
            .any(|it| it.starts_with("echo 0 | sudo tee /proc/980/oom_score_adj  # writes"))
    );
    let mut kill = by_limit();
    kill.others = vec![victim(981, "nginx", mib(16))];
    assert!(title(&kill).starts_with(
        "nginx (pid 980) was killed with 1 other process because the cgroup \
         /system.slice/web.service reached its memory limit"
    ));
    let mut kill = by_host();
    kill.invoker.as_mut().unwrap().order = -1;
    assert!(
        title(&kill).ends_with("because somebody asked the kernel to kill a process (SysRq f)")
    );
    let bare = OomKill { victim: Some(victim(1, "x", mib(1))), ..blank(Source::none()) };
    assert_eq!(
        title(&bare),
        "x (pid 1) was killed for lack of memory; the kernel printed no report with the reason"
    );
}

#[test]
fn recent_kills_are_told_apart_by_whose_they_are() {
    let at = |seconds, kill| OomKill { seconds_ago: seconds, ..kill };
    let mut interval = calm();
    interval.end.kernel_log.kills = vec![
        at(Some(601.0), by_host()),
        at(Some(600.0), by_host()),
        at(Some(5.0), by_limit()),
        at(None, by_limit()),
        at(Some(1.0), blank(Source::none())),
    ];
    let told = recent_kills(&interval);
    assert_eq!((told.host.len(), told.groups.len()), (2, 1));
    interval.start.as_mut().unwrap().taken.monotonic_seconds -= 5000.0;
    assert_eq!(recent_kills(&interval).host.len(), 3);
}

/// Current processes and settings are not used to explain a kill of an earlier boot.
#[test]
fn a_kill_of_an_earlier_boot_is_told_without_what_is_now() {
    let host = with(|host| {
        host.processes.list = vec![process("nginx", gib(2), gib(0))];
        host.processes.list[0].pid = 980;
        host.processes.list[0].rss_shmem = line("/proc/980/status", 24, gib(0));
        swappiness(host, "0");
    });
    let now = told(&host, by_limit());
    assert_ne!(fact(&now, "since boot"), "");
    let earlier = OomKill { earlier_boot: Some(Name::from("b00t-1")), ..by_limit() };
    let then = told(&host, earlier.clone());
    assert_eq!(fact(&then, "alive now") + &fact(&then, "since boot"), "");
    assert_eq!(
        fact(&then, "when"),
        "60 minutes ago, in an earlier boot, 44 seconds after it began"
    );
    assert!(fact(&then, "why no swap").starts_with("the cgroup was not allowed to swap"));
    let mut barred = OomKill { victim: None, ..earlier };
    barred.tasks[0].oom_score_adj = -1000;
    assert!(told(&host, barred).change.iter().all(|command| !command.contains("oom_score_adj")));
    let of_host = OomKill { earlier_boot: Some(Name::from("b00t-1")), ..by_host() };
    assert!(!fact(&told(&host, of_host), "why no swap").contains("now"));
}

#[test]
fn the_newest_ten_are_told_newest_first() {
    let mut interval = calm();
    let kill = |at| OomKill { source: Source::line("/dev/kmsg", at), ..by_host() };
    interval.end.kernel_log.kills = (1..=14).map(kill).collect();
    let explanation = explain(&interval);
    let lines: Vec<_> = explanation.iter().filter_map(|it| it.source.line_number()).collect();
    assert_eq!(lines, (5..=14).rev().collect::<Vec<_>>());
}

/// The groups that `trial` makes run out of memory because they are meant to.
#[test]
fn a_kill_in_a_group_of_our_own_run_is_no_finding() {
    let with_kill_in = |path: &str| {
        let mut interval = calm();
        let group = Some(Name::from(path));
        interval.end.kernel_log.kills =
            vec![OomKill { group, seconds_ago: Some(3.0), ..by_limit() }];
        (pagewise_decide::judge(&interval).level, pagewise_decide::diagnose(&interval).len())
    };
    let (level, findings) = with_kill_in("/system.slice/db.service");
    assert!(level == pagewise_model::Level::Critical && findings > 0);
    // a group that no longer exists is not short of memory any more
    assert_eq!(with_kill_in("/system.slice/web.service").0, pagewise_model::Level::Short);
    assert_eq!(with_kill_in("/pagewise-9037-4"), (pagewise_model::Level::Calm, 0));
}

/// A group whose limit can be raised, on a machine with available memory and swap.
#[test]
fn what_to_change_says_whether_it_lasts_and_how_to_undo_it() {
    let host = with(|host| {
        let mut web = group("/system.slice/web.service");
        web.max = file("/sys/fs/cgroup/system.slice/web.service/memory.max", Limit::Bytes(mib(64)));
        web.swap_max = file(
            "/sys/fs/cgroup/system.slice/web.service/memory.swap.max",
            Limit::Bytes(Bytes::new(0)),
        );
        web.current = file("/sys/fs/cgroup/system.slice/web.service/memory.current", mib(60));
        host.cgroups.groups.push(web);
    });
    let explanation = told(&host, by_limit());
    assert_eq!(
        explanation.change,
        [
            "sudo systemctl set-property web.service MemorySwapMax=infinity  # writes; lets the group \
             swap; permanent; undo with sudo systemctl set-property web.service MemorySwapMax=0",
            "sudo systemctl set-property web.service MemoryMax=96M  # writes; 1.5 times the limit; takes the \
             group's shortage away, not a leak; permanent; undo with sudo systemctl set-property web.service \
             MemoryMax=67108864",
            "pagewise scan --cgroup /system.slice/web.service  # estimates how much memory compression would \
             free",
        ]
    );
}

proptest! {
    /// With any part of the report missing there is an explanation, and a kill by a limit never
    /// says that the machine was short.
    #[test]
    fn a_report_with_holes_is_told_as_far_as_it_goes(
        holes in prop::collection::vec(any::<bool>(), 8),
        of_host in any::<bool>(),
    ) {
        let mut kill = if of_host { by_host() } else { by_limit() };
        if holes[0] { kill.group = None; }
        if holes[1] { kill.victim = None; }
        if holes[2] { kill.victim_group = None; }
        if holes[3] { kill.invoker = None; }
        if holes[4] { kill.host = None; }
        if holes[5] { kill.group_memory = None; }
        if holes[6] { kill.tasks.clear(); }
        if holes[7] { kill.seconds_ago = None; }
        let explanation = told(&calm(), kill);
        prop_assert!(!explanation.title.is_empty() && !explanation.change.is_empty());
        prop_assert!(explanation.facts.iter().all(|fact| !fact.text.is_empty()));
        let all = format!("{} {:?}", explanation.title, explanation.facts);
        prop_assert!(of_host || !all.contains("machine ran out of memory"), "{}", all);
    }
}

#[test]
fn a_process_that_was_replaced_is_not_alive() {
    let interval = with(|host| {
        host.processes.list = vec![process("other", gib(2), gib(0))];
        host.processes.list[0].pid = 980;
        host.processes.list[0].rss_file = Reading::not_read();
    });
    assert_eq!(fact(&told(&interval, by_limit()), "alive now"), "");
}

/// The largest part of memory that no process gives back when it is killed is the reason.
#[test]
fn what_mainly_held_the_memory_is_named_if_it_was_not_processes() {
    let why = |change: fn(&mut OomKill)| {
        let mut kill = by_host();
        change(&mut kill);
        fact(&told(&calm(), kill), "why")
    };
    let host = |kill: &mut OomKill| kill.host.clone().unwrap_or_default();
    assert_eq!(why(|_| {}), "", "13 of 16 GiB are those of processes");
    for (part, words) in [
        ("slab", "slab caches of the kernel that cannot be reclaimed held 9.0 GiB of 16.0 GiB"),
        (
            "shmem",
            "shared memory (files of a tmpfs, /dev/shm and SysV stay when a process ends) held 9.0 GiB",
        ),
        ("page tables", "page tables held 9.0 GiB"),
        ("locked", "memory that cannot be reclaimed (mlock, ramfs) held 9.0 GiB"),
        ("other", "what no number of the report covers"),
    ] {
        let mut kill = by_host();
        let mut held = host(&mut kill);
        held.anon = Some(gib(4));
        let nine = Some(gib(9));
        match part {
            "slab" => held.slab_unreclaimable = nine,
            "shmem" => held.shmem = nine,
            "page tables" => held.page_tables = nine,
            "locked" => {
                // a part of what is counted elsewhere
                held.unevictable = nine;
                held.file = Some(gib(10));
            }
            _ => {}
        }
        kill.host = Some(held);
        let why = fact(&told(&calm(), kill), "why");
        assert!(why.contains(words), "{part}: {why}");
        assert!(why.ends_with("more than the 4.0 GiB of anonymous memory of processes"), "{why}");
    }
    let mut kill = by_limit();
    let group = kill.group_memory.as_mut().unwrap();
    (group.anon, group.kernel) = (Some(mib(9)), Some(mib(50)));
    let why = fact(&told(&calm(), kill), "why");
    assert!(why.starts_with("the kernel for the group (slab, page tables"), "{why}");
}
