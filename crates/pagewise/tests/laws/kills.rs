// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real OOM kills of three kernels, as recorded, and how each is explained.

use std::collections::BTreeSet;

use pagewise_decide::oom;
use pagewise_model::{OomConstraint, OomExplanation, OomKill};

use crate::scene::Scene;

/// The only kill in a recording, and its explanation.
fn told(slug: &str) -> (OomKill, OomExplanation) {
    let mut interval = Scene::load(slug).replay();
    let mut explained = oom::explain(&interval);
    assert_eq!((interval.end.kernel_log.kills.len(), explained.len()), (1, 1), "{slug}");
    (interval.end.kernel_log.kills.remove(0), explained.remove(0))
}

fn fact(explanation: &OomExplanation, label: &str) -> String {
    let fact = explanation.facts.iter().find(|fact| fact.label == label);
    fact.map(|fact| fact.text.clone()).unwrap_or_default()
}

fn begins(explanation: &OomExplanation, label: &str, begin: &str) {
    let message = fact(explanation, label);
    assert!(message.starts_with(begin), "{label}: {message}");
}

#[test]
fn machines_without_swap_ran_out() {
    for (slug, pid, anon) in [
        ("debian-bookworm-6.1-x86_64-256m-oom-host", 97, 128),
        ("debian-trixie-6.12-x86_64-256m-oom-host", 143, 128),
        ("debian-sid-7.2-x86_64-256m-oom-host", 107, 117),
    ] {
        let (kill, told) = told(slug);
        let title = format!(
            "redis-server (pid {pid}) was killed because the whole machine ran out of memory"
        );
        assert_eq!(told.title, title, "{slug}");
        assert_eq!(kill.constraint, Some(OomConstraint::Host));
        assert_eq!(kill.victim_group.as_ref().unwrap().as_str(), "/system.slice/redis.service");
        let host = kill.host.as_ref().unwrap();
        assert_eq!(host.anon.unwrap().get() >> 20, anon, "{slug}");
        assert_eq!(host.swap_total.unwrap().get(), 0);
        // nothing is counted twice, and only a small part is not attributed
        let (other, total) = (host.other().unwrap().get(), host.total.unwrap().get());
        assert!(other * 100 / total < 10, "{slug}: {other} of {total}");
        assert_eq!(fact(&told, "why no swap"), "the machine had no swap");
        assert!(fact(&told, "victim").ends_with("% of all memory"));
        begins(&told, "who held it", &format!("redis-server {pid}: "));
        // without swap, a limit only makes the process die sooner
        assert!(told.change[0].starts_with("pagewise bench  # measures"), "{:?}", told.change);
        assert!(told.change[1].starts_with("# contains and cures nothing"), "{:?}", told.change);
    }
}

/// Guests with two NUMA nodes, of which a service may use one: the other one still had free memory.
#[test]
fn nodes_of_a_cpuset_and_of_a_policy_ran_out() {
    for (slug, pid, constraint, why) in [
        (
            "debian-trixie-6.12-x86_64-512m-oom-cpuset",
            159,
            OomConstraint::Cpuset,
            "the NUMA nodes allowed by the cpuset of the allocating task ran out of memory",
        ),
        (
            "debian-trixie-6.12-x86_64-512m-oom-policy",
            160,
            OomConstraint::Policy,
            "the NUMA nodes allowed by the memory policy of the allocating task ran out of memory",
        ),
    ] {
        let (kill, told) = told(slug);
        let title = format!(
            "redis-server (pid {pid}) was killed because {why}; other nodes may have had free memory"
        );
        assert_eq!(
            (told.title.as_str(), kill.constraint),
            (title.as_str(), Some(constraint)),
            "{slug}"
        );
        // more than a third of the machine was free
        let host = kill.host.as_ref().unwrap();
        let (free, total) = (host.free.unwrap().get(), host.total.unwrap().get());
        assert!(free * 3 > total, "{slug}: {free} of {total}");
        assert!(told.change[0].starts_with("numastat -m"), "{:?}", told.change);
        let verdict = pagewise_decide::judge(&Scene::load(slug).replay());
        let begin = format!(
            "Memory of some NUMA nodes ran out: the kernel killed redis-server (pid {pid})"
        );
        assert!(verdict.line.starts_with(&begin), "{}", verdict.line);
    }
}

#[test]
fn groups_reached_their_limit_and_were_barred_from_swap() {
    for (slug, pid) in [
        ("debian-bookworm-6.1-x86_64-256m-oom-limit", 102),
        (crate::cases::OOM_LIMIT, 147),
        ("debian-sid-7.2-x86_64-256m-oom-limit", 111),
    ] {
        let (kill, told) = told(slug);
        let title = format!(
            "nginx (pid {pid}) was killed because the cgroup /system.slice/nginx.service reached its memory \
             limit (64.0 MiB), not because the machine was out of memory"
        );
        assert_eq!(told.title, title, "{slug}");
        assert_eq!((kill.constraint, &kill.host), (Some(OomConstraint::Cgroup), &None));
        let why = "the cgroup was not allowed to swap: memory.swap.max was 0, although 128.0 MiB of swap are \
                   free now";
        assert_eq!(fact(&told, "why no swap"), why);
        begins(&told, "the group held", "anon 63.8 MiB, file 0 B");
        begins(&told, "alive now", "php-fpm ");
        assert!(
            told.change[0].contains("nginx.service MemorySwapMax=infinity"),
            "{:?}",
            told.change
        );
        let recent = oom::recent_kills(&Scene::load(slug).replay());
        assert_eq!((recent.host.len(), recent.groups.len()), (0, 1));
    }
}

#[test]
fn a_group_of_version_1_reached_its_limit() {
    let (kill, told) = told("debian12-6.18-x86_64-24g-oom-limit");
    assert!(told.title.ends_with(
        "because the cgroup /cg-1 reached its memory limit (64.0 MiB), not because the machine was \
                              out of memory"
    ));
    let memory = kill.group_memory.as_ref().unwrap();
    assert_eq!(memory.memory.unwrap().reached, 19);
    assert!(memory.memory_and_swap.is_some() && memory.swap.is_none());
    begins(
        &told,
        "the group held",
        "anon 63.7 MiB, file 0 B, shmem 0 B, kernel 260.0 KiB, swap 0 B",
    );
    begins(&told, "alive now", "sleep 21905: ");
    assert!(fact(&told, "since boot").contains("1 process was killed in it until now"));
    let raise = "echo 96M | sudo tee /sys/fs/cgroup/memory/cg-1/memory.limit_in_bytes  # writes; ";
    assert!(told.change[0].starts_with(raise), "{:?}", told.change);
    assert!(told.change[0].ends_with(
        "undo with echo 67108864 | sudo tee /sys/fs/cgroup/memory/cg-1/memory.limit_in_bytes"
    ));
}

#[test]
fn the_exit_status_says_whether_there_was_a_kill() {
    let status = |slug: &str| {
        let archive = format!("{slug}.tar");
        let words = ["doctor", "--oom", "--root", &archive];
        crate::program::run_in(&crate::scene::recordings(), &words).status
    };
    assert_eq!(status("debian-sid-7.2-x86_64-256m-oom-group"), 3);
    assert_eq!(status(crate::cases::PLAIN), 0);
}

#[test]
fn a_group_was_killed_as_a_whole() {
    for (slug, victim, second, sleep) in [
        ("debian-bookworm-6.1-x86_64-256m-oom-group", 98, 96, 95),
        ("debian-sid-7.2-x86_64-256m-oom-group", 109, 107, 106),
    ] {
        let (kill, told) = told(slug);
        let title = format!(
            "postgres (pid {victim}) was killed with 2 other processes because the cgroup /system.slice/"
        );
        assert!(told.title.starts_with(&title), "{}", told.title);
        assert!(kill.whole_group);
        let others: BTreeSet<_> = kill.others.iter().map(|it| (it.pid, it.name.as_str())).collect();
        assert_eq!(others, BTreeSet::from([(second, "postgres"), (sleep, "sleep")]), "{slug}");
    }
}

#[test]
fn zram_was_full_of_what_does_not_compress() {
    let (kill, told) = told("debian-trixie-6.12-x86_64-256m-oom-zram-full");
    begins(
        &told,
        "why no swap",
        "swap was full: 64.0 MiB of 64.0 MiB were in use; all swap is in compressed RAM, which probably held most of the 68.3 MiB",
    );
    assert_eq!(kill.tasks[0].swapped.get() >> 20, 47);
    assert!(told.title.ends_with("because the whole machine ran out of memory"));
}

#[test]
fn a_group_in_which_nobody_may_be_killed_reports_again_and_again() {
    for (slug, pid, size, times) in [
        ("debian-bookworm-6.1-x86_64-256m-oom-unkillable", 96, "25.0", 47),
        ("debian-trixie-6.12-x86_64-256m-oom-unkillable", 149, "24.9", 32),
    ] {
        let (kill, told) = told(slug);
        let title = format!(
            "/system.slice/mysqld.service was at its memory limit (24.0 MiB) and no process could be \
             killed; the kernel log contains {times} earlier reports of the same kind"
        );
        assert_eq!((told.title, kill.victim), (title, None));
        let fact = told.facts.iter().find(|fact| fact.label == "who held it");
        let held = format!("mysqld {pid}: {size} MiB, never killed");
        assert!(fact.is_some_and(|fact| fact.text.starts_with(&held)), "{fact:?}");
        // the process has ended since, and its pid may be that of another
        let has_command = told.change.iter().any(|it| it.contains("oom_score_adj"));
        assert!(!has_command, "{:?}", told.change);
        // the log is full, so earlier records are lost
        let log = Scene::load(slug).replay().end.kernel_log;
        assert!(log.wrapped && log.oldest_boot_seconds.unwrap() > 4.0);
    }
}
