// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each rule reads, from where on it speaks, and how to act: for `doctor --list` and `--explain`.
//!
//! The numbers stand in the rules as constants with their reasons; who changes one changes the
//! sentence here. That every rule has an entry, and no finding is outside of the severities that its
//! entry says, is tested.

use pagewise_model::{RuleExplanation, Severity};

use crate::{CONTENTS_RULES, RULES};

/// The part of an explanation that is not in the rule.
struct Entry {
    id: &'static str,
    severities: [Severity; 2],
    readings: &'static [&'static str],
    thresholds: &'static str,
    act: &'static str,
}

/// Every rule's id and what it looks for: those that need Readings, then those that need contents.
pub fn rules() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_readings = RULES.iter().map(|rule| (rule.id, rule.doc));
    of_readings.chain(CONTENTS_RULES.iter().map(|rule| (rule.id, rule.doc)))
}

/// Every rule, explained, in the order of [`rules`].
pub fn explanations() -> Vec<RuleExplanation> {
    let explained = rules().filter_map(|(id, doc)| {
        let entry = ENTRIES.iter().find(|entry| entry.id == id)?;
        let [least, most] = entry.severities;
        Some(RuleExplanation {
            id,
            least,
            most,
            doc,
            readings: entry.readings,
            thresholds: entry.thresholds,
            act: entry.act,
        })
    });
    explained.collect()
}

use Severity::{Critical, Info, Warning};

const PRESSURE: &str = "/proc/pressure/memory";
const VMSTAT: &str = "/proc/vmstat at both ends of the interval";
const SWAPS: &str = "/proc/swaps";
const MEMINFO: &str = "/proc/meminfo";
const ZRAM: &str = "/sys/block/zramN/mm_stat";
const ZMERGE: &str = "/sys/block/zmergeN/mm_stat";

static ENTRIES: &[Entry] = &[
    Entry {
        id: "memory-pressure",
        severities: [Warning, Critical],
        readings: &[PRESSURE, VMSTAT, "memory.pressure and memory.events of cgroups"],
        thresholds: "Warning: some task waited 10 % of the last 10 s or 5 % of the last minute; or, without PSI, \
            more than half of what is read from disk are refaults. Critical: all tasks \
            waited 20 % of the last 10 s or 10 % of the last minute.",
        act: "Find who holds memory (pagewise report --sort size) and who grows (--sort growth). Then give the \
            machine or the group more memory, give it swap in compressed RAM, or run less at a time.",
    },
    Entry {
        id: "zram-unused",
        severities: [Info, Critical],
        readings: &[
            SWAPS,
            ZRAM,
            "/sys/block/zramN/initstate",
            "swappiness of the host and of cgroups",
            PRESSURE,
        ],
        thresholds: "A device could be set up, or is, and stores nothing. Info where memory is not short; \
            warning where pages are on a disk tier meanwhile or tasks wait for memory; critical where both hold.",
        act: "The finding names the reason: no size, no swap signature, not switched on, a lower priority than a \
            disk, or a swappiness that keeps anonymous pages. Undo that one.",
    },
    Entry {
        id: "swap-avoids-anon",
        severities: [Warning, Critical],
        readings: &[SWAPS, "/proc/sys/vm/swappiness", VMSTAT, PRESSURE],
        thresholds: "At least 100 refaults of files and 10 major faults per second, while swap is off, \
            swappiness is 0, or swappiness is 1 and nothing was swapped out. As severe as the pressure.",
        act: "Give the kernel somewhere to put cold anonymous pages: swap in compressed RAM, and a swappiness \
            of 60 or more. pagewise trial shows which value your own work likes.",
    },
    Entry {
        id: "tier-order",
        severities: [Info, Critical],
        readings: &[SWAPS, "the kind of each device below /sys/block", PRESSURE],
        thresholds: "A slower tier has the same or a higher priority than a faster one. Info while the slow one is \
            empty; warning where it holds pages; critical where tasks wait for memory, too.",
        act: "Switch the slow tier off and on again with a lower priority (swapoff, swapon -p), at a quiet time: what \
            it holds has to come back.",
    },
    Entry {
        id: "zram-full",
        severities: [Warning, Critical],
        readings: &[SWAPS, ZRAM, ZMERGE, "/sys/block/zramN/io_stat"],
        thresholds: "Warning: 99 % of the device's size are used, or 90 % of its mem_limit. Critical: no other tier has room \
            and little memory is available, the limit is reached, or writes failed in the interval.",
        act: "See who is in swap (pagewise report --sort swap). Raise mem_limit, add a tier behind it, or use less.",
    },
    Entry {
        id: "zram-zswap-stacked",
        severities: [Warning, Warning],
        readings: &["/sys/module/zswap/parameters/enabled", SWAPS],
        thresholds: "zswap is on while a device in compressed RAM is a swap tier.",
        act: "Switch one of the two off; zswap is the one that only makes sense in front of a disk.",
    },
    Entry {
        id: "zram-incompressible",
        severities: [Warning, Warning],
        readings: &[ZRAM, ZMERGE],
        thresholds: "Pages that did not compress take at least 50 % of the pool's memory and at least 64 MiB.",
        act: "Find whose data it is (pagewise scan --name NAME). Write such pages back to a backing device where there is one, \
            or keep that program out of swap (memory.swap.max).",
    },
    Entry {
        id: "zram-oversized",
        severities: [Info, Warning],
        readings: &["/sys/block/zramN/disksize", ZRAM, MEMINFO],
        thresholds: "Full, all devices together would take more than RAM, at the ratio that they measured (two to one before). \
            Warning where their slot tables take 2 % of RAM.",
        act: "Set a smaller disksize when the device is made the next time; bound what it may take with mem_limit.",
    },
    Entry {
        id: "zmerge-few-copies",
        severities: [Info, Info],
        readings: &[
            "/sys/block/zmergeN/merge_mode",
            "/sys/block/zmergeN/merge_hits and merge_misses",
        ],
        thresholds: "merge_mode is inline, at least 16,384 pages were searched in the index, and less than 1 % had a copy.",
        act: "Set merge_mode to adaptive, which stops searching while copies are few.",
    },
    Entry {
        id: "thp-coverage",
        severities: [Info, Info],
        readings: &[
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/proc/PID/smaps_rollup",
            VMSTAT,
        ],
        thresholds: "enabled is always and a process of at least 256 MiB of anonymous memory has less than 50 % of it in huge \
            pages; or of at least 100 requests in the interval less than half were met.",
        act: "pagewise thp --pid PID shows where and why; pagewise thp collapse makes huge pages in a running program.",
    },
    Entry {
        id: "khugepaged-starves",
        severities: [Info, Info],
        readings: &["/proc/PID/schedstat of khugepaged at both ends of the interval"],
        thresholds: "khugepaged waits for a CPU 10 % of the time or more, and longer than it runs.",
        act: "Raise its priority (renice), or collapse the memory of the programs that matter (pagewise thp collapse).",
    },
    Entry {
        id: "thp-bloat-guard-off",
        severities: [Info, Info],
        readings: &[
            "/sys/kernel/mm/transparent_hugepage/shrink_underused",
            "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none",
            MEMINFO,
        ],
        thresholds: "shrink_underused is on, max_ptes_none has its largest value, and huge pages hold at least 5 % of RAM.",
        act: "Lower max_ptes_none, so that huge pages that are mostly zeros can be split.",
    },
    Entry {
        id: "thp-bloat",
        severities: [Info, Warning],
        readings: &[MEMINFO, "the contents of a sample of pages", "/proc/PID/pagemap"],
        thresholds: "Huge pages hold at least 5 % of RAM, at least 50 of their pages were sampled, and surely (in 95 of \
            100 samples) at least 20 % of what they hold, and 5 % of RAM, are zeros. A warning where memory is tight.",
        act: "pagewise thp restrain finds and splits huge pages that are mostly zeros; enabled madvise leaves huge pages \
            to the programs that ask for them.",
    },
    Entry {
        id: "cache-not-cache",
        severities: [Info, Warning],
        readings: &[
            MEMINFO,
            SWAPS,
            "statfs of each tmpfs that is mounted",
            "links in /proc/PID/fd",
        ],
        thresholds: "Shared memory and tmpfs are at least 33 % of buff/cache and 18 % of RAM, or 5 % of RAM while little is \
            available. Warning where swap is off then.",
        act: "The finding names the mounts and processes that hold most of it, as far as this user may read them. Remove what a \
            mount does not need, or bound it with its size option; ipcs -m shows System V shared memory, which no mount holds.",
    },
    Entry {
        id: "deleted-files",
        severities: [Info, Warning],
        readings: &["links in /proc/PID/fd, and the sizes of what they lead to", MEMINFO],
        thresholds: "Deleted files in tmpfs that one process keeps open are 2 % of RAM or more. Warning if memory is low. Searched \
            where shared memory is 5 % of RAM or more; without root in the user's own processes only.",
        act: "Have the program close them: many reopen their files on a signal (systemctl reload), all do at a restart.",
    },
    Entry {
        id: "hugetlb-unused",
        severities: [Info, Warning],
        readings: &["/sys/kernel/mm/hugepages/hugepages-NkB/*_hugepages", MEMINFO],
        thresholds: "Pages of a pool that are free and not reserved take at least 1 % of RAM. Warning from 5 % on.",
        act: "Make the pool smaller (nr_hugepages), unless the program that it is for is still to start.",
    },
    Entry {
        id: "fragmentation",
        severities: [Warning, Warning],
        readings: &[VMSTAT, "/proc/buddyinfo"],
        thresholds: "At least one task per second stalled in compaction, and half of free memory or more lies in pieces \
            smaller than a huge page.",
        act: "Compact at a quiet time (/proc/sys/vm/compact_memory), or let fewer programs ask for huge pages at the first touch \
            (transparent_hugepage/defrag).",
    },
    Entry {
        id: "mglru-off",
        severities: [Info, Info],
        readings: &["/sys/kernel/mm/lru_gen/enabled"],
        thresholds: "The kernel has multi-gen LRU, and the first bit of enabled is not set.",
        act: "Switch it on and prove it on your own work: pagewise trial --a mglru.enabled=0 --b mglru.enabled=7 -- CMD.",
    },
    Entry {
        id: "memory-low",
        severities: [Warning, Critical],
        readings: &[MEMINFO, SWAPS, ZRAM, "/proc/PID/status of the largest process"],
        thresholds: "MemAvailable below 10 % of RAM and 4 GiB is tight, below 5 % and 2 GiB short, below 2.5 % and 1 GiB \
            critical; one level milder where swapping could free enough to be calm. Compressed RAM counts for what it \
            would free at the ratio that it measured.",
        act: "Find who holds memory (pagewise report --sort size) and who grows (--sort growth); end or limit that, or add swap \
            in compressed RAM.",
    },
    Entry {
        id: "group-limit",
        severities: [Warning, Critical],
        readings: &[
            "memory.max, high, current, stat, events and pressure of cgroups at both ends",
            "version 1: memory.limit_in_bytes, usage_in_bytes, failcnt, oom_control",
        ],
        thresholds: "The group reached its own limit over the interval and a task was killed (critical), its tasks waited 10 % of \
            10 s or 5 % of a minute (critical: all of them 20 or 10 %), or it refaults 100 pages and faults 10 times a second; or \
            90 % of the limit is memory that cannot be dropped and swap has no room for a tenth of it. On a host with memory to \
            spare the waiting of the host is that of the group.",
        act: "Raise the limit, or let the group do less at a time. The host's memory and swap do not help it.",
    },
    Entry {
        id: "memory-grows",
        severities: [Warning, Critical],
        readings: &[
            "/proc/PID/status, statm and stat at both ends",
            "/proc/uptime",
            MEMINFO,
            "limits of cgroups, and anon, shmem and swap.current of each at both ends",
        ],
        thresholds: "At least 1 MiB over the interval, and what is available and what swap can take (or the limit of its cgroup) would \
            be used up within the hour, at the rate of the interval or four times the average since the process began, whichever \
            is lower. A process younger than 30 s counts if it holds 10 % of RAM. The same rule applies to the anonymous memory of a \
            cgroup and the age of its oldest process. A cgroup is named if the processes and cgroups in it that fill memory within \
            the hour explain less than half of its growth. Critical: within two minutes.",
        act: "Watch it (pagewise report --sort growth). A leak needs a fix or a restart; a limit on its unit lets it end alone.",
    },
    Entry {
        id: "commit-limit",
        severities: [Warning, Critical],
        readings: &["/proc/sys/vm/overcommit_memory", MEMINFO],
        thresholds: "vm.overcommit_memory is 2, and Committed_AS is 90 % of CommitLimit; critical from 97 %.",
        act: "Raise vm.overcommit_ratio or add swap, which raise the limit, or use mode 0.",
    },
    Entry {
        id: "swap-full",
        severities: [Info, Warning],
        readings: &[MEMINFO, SWAPS],
        thresholds: "90 % of all swap is used: info while memory is available, warning when it is low, too. One full device in \
            compressed RAM is told by zram-full.",
        act: "See what lies there (pagewise report --sort swap). Add a tier if the next peak needs one.",
    },
    Entry {
        id: "oom-kills",
        severities: [Info, Critical],
        readings: &[
            "/dev/kmsg",
            "files of journald in /var/log/journal or /run/log/journal",
            VMSTAT,
            "memory.events of cgroups; version 1: memory.oom_control",
        ],
        thresholds: "Critical: within the last ten minutes or the interval; warning: within a day, or of a time that is not known; \
            info: before. A kill at the limit of a group that no longer exists is a warning for an hour only. Where neither the kernel \
            log nor journald's files have a kill of this boot, the counters since boot.",
        act: "pagewise doctor --oom says whose limit it was, who held the memory, and why swap did not help.",
    },
    Entry {
        id: "ksm-loss",
        severities: [Warning, Warning],
        readings: &["/sys/kernel/mm/ksm"],
        thresholds: "run is 1, two full scans are over, and general_profit (or the same formula) is a loss of 1 MiB or more.",
        act: "Stop it (run 0), or let only programs ask for it that have copies. pagewise scan --duplicates says which do.",
    },
    Entry {
        id: "watermarks-extreme",
        severities: [Warning, Warning],
        readings: &[
            "/proc/sys/vm/min_free_kbytes",
            "/proc/sys/vm/watermark_scale_factor",
            "/proc/zoneinfo",
        ],
        thresholds: "min_free_kbytes over 5 % of RAM (khugepaged sets up to that by itself) or below 1024; or 10 % of RAM between the \
            low and high watermarks.",
        act: "Set it back to what the kernel began with, or to a tenth, and watch allocation stalls (allocstall_* in /proc/vmstat).",
    },
    Entry {
        id: "dirty-stall",
        severities: [Warning, Warning],
        readings: &[MEMINFO, "/proc/pressure/io", "vm.dirty_* settings"],
        thresholds: "1 GiB or more of written data waits for the disk while somebody waited for I/O 10 % of the last minute.",
        act: "Lower vm.dirty_bytes and vm.dirty_background_bytes to what the disk writes in a second or two.",
    },
    Entry {
        id: "kernel-memory",
        severities: [Warning, Warning],
        readings: &[MEMINFO],
        thresholds: "32 MiB or more and 10 % of RAM (slab, vmalloc), 5 % (page tables, per-CPU memory) or 3 % (kernel stacks); or half of \
            that and grew by 16 MiB over the interval.",
        act: "Find the cache (slabtop), or the process with the page tables (VmPTE in /proc/PID/status): many processes that map \
            the same memory, or a sparse mapping.",
    },
    Entry {
        id: "memory-locked",
        severities: [Info, Warning],
        readings: &[MEMINFO, "VmLck in /proc/PID/status"],
        thresholds: "Unevictable memory is 25 % of RAM; warning from 50 %.",
        act: "Lock less, or count it off what other programs may use.",
    },
    Entry {
        id: "swap-stuck",
        severities: [Info, Info],
        readings: &[MEMINFO, SWAPS, ZRAM],
        thresholds: "More is in swap than is available, and that is 5 % of RAM or more; what compressed RAM would free counts \
            as available. Not while memory is low anyway.",
        act: "Free memory before swapoff, before a zram device is set up anew, and before a shutdown that has to be quick.",
    },
    Entry {
        id: "swap-heavy-group",
        severities: [Warning, Warning],
        readings: &["memory.current, swap.current, stat and pressure of cgroups at both ends"],
        thresholds: "64 MiB or more of a group are in swap, more than it has in RAM, it reads back 100 pages a second, and its tasks \
            waited 1 % of the last minute (version 1: 10 major faults a second); not where its own limit is the reason.",
        act: "Protect its working set (memory.low), or find what grew beside it.",
    },
    Entry {
        id: "min-ttl-set",
        severities: [Info, Warning],
        readings: &["/sys/kernel/mm/lru_gen/min_ttl_ms"],
        thresholds: "Not 0; warning above 3000 ms, from where the kernel's manual expects premature kills.",
        act: "1000 ms for a desktop, 0 for a server, unless it was tried on the work that it does.",
    },
    Entry {
        id: "extfrag-threshold",
        severities: [Info, Info],
        readings: &["/proc/sys/vm/extfrag_threshold"],
        thresholds: "Not 500, with which the kernel begins.",
        act: "Set it back to 500, unless somebody measured that another value helps.",
    },
    Entry {
        id: "managers-fight",
        severities: [Info, Warning],
        readings: &[
            "links in /etc/systemd/system/multi-user.target.wants",
            "zram-generator's program and files",
            "the active profile of tuned",
        ],
        thresholds: "Two are switched on that make compressed swap (warning), two that kill for memory, or two of tuned, tlp and \
            laptop-mode-tools (information); tuned only where its profile sets vm settings. Running services are not checked.",
        act: "Keep one of the two and disable the other, with systemctl or by an empty zram-generator.conf.",
    },
    Entry {
        id: "settings-differ",
        severities: [Info, Info],
        readings: &[
            "/etc/sysctl.d, /run/sysctl.d, /usr/local/lib/sysctl.d, /usr/lib/sysctl.d, /etc/sysctl.conf",
            "/etc/tuned/active_profile, tuned-main.conf and tuned.conf of the profiles",
            "/proc/sys/vm",
        ],
        thresholds: "A file sets another value than the one that runs; a value that is not the kernel's is in no file; two files below \
            /etc or /run disagree; the profile of tuned overrules one of those files. Profiles count where tuned is switched on. Larger vm.min_free_kbytes and the pairs of bytes and ratio are no difference.",
        act: "Write the value that you want into one file of /etc/sysctl.d, and apply it with sysctl --system.",
    },
    Entry {
        id: "generator-parameters",
        severities: [Info, Info],
        readings: &["zram-generator.conf and its drop-ins"],
        thresholds: "The second or a later algorithm of compression-algorithm has a level or a dictionary.",
        act: "Take a version of zram-generator that sets them (after 1.2.1), or live with the default level.",
    },
    Entry {
        id: "hibernation-zram",
        severities: [Info, Info],
        readings: &["/sys/power/resume", SWAPS],
        thresholds: "A device to resume from is set, and every swap tier is compressed RAM.",
        act: "Switch on a swap area on a disk that is as large as memory in use, with a lower priority than zram.",
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::diagnose;
    use crate::rules::FIRING;

    #[test]
    fn every_rule_is_explained_and_nothing_else() {
        let rules: BTreeSet<&str> = rules().map(|(id, _)| id).collect();
        let entries: BTreeSet<&str> = ENTRIES.iter().map(|entry| entry.id).collect();
        assert_eq!(entries, rules);
        assert_eq!((ENTRIES.len(), explanations().len()), (rules.len(), rules.len()));
        for explained in explanations() {
            let sentences = [explained.doc, explained.thresholds, explained.act];
            assert!(sentences.iter().all(|text| text.ends_with('.')), "{}", explained.id);
            assert!(explained.least <= explained.most, "{}", explained.id);
            assert!(!explained.readings.is_empty(), "{}", explained.id);
        }
    }

    #[test]
    fn no_finding_is_outside_of_the_severities_that_its_rule_is_said_to_have() {
        for (id, firing) in FIRING {
            for finding in diagnose(&firing()) {
                let explained = explanations().into_iter().find(|one| one.id == finding.id);
                let one = explained.unwrap_or_else(|| panic!("{id}"));
                assert!((one.least..=one.most).contains(&finding.severity), "{id}: {finding:#?}");
            }
        }
    }
}
