// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains for each rule what it reads, what its thresholds are, and how to act on its findings.
//! Printed by `doctor --list` and `doctor --explain`.
//!
//! The sentences here repeat thresholds that are constants in the rules, so that both must be
//! changed together. Tests check that every rule has an entry, and that no finding has a severity
//! that the entry does not mention.

use pagewise_model::{RuleExplanation, Severity};

use crate::{CONTENTS_RULES, RULES};

/// The explanation of a rule, without what the rule itself contains (id and description).
struct Entry {
    id: &'static str,
    severities: [Severity; 2],
    readings: &'static [&'static str],
    thresholds: &'static str,
    act: &'static str,
}

/// Returns the id and description of every rule: first the rules that need only Readings, then
/// those that need page contents.
pub fn rules() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_readings = RULES.iter().map(|rule| (rule.id, rule.doc));
    of_readings.chain(CONTENTS_RULES.iter().map(|rule| (rule.id, rule.doc)))
}

/// Returns the explanation of every rule, in the order of [`rules`].
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
        severities: [Info, Critical],
        readings: &[
            PRESSURE,
            VMSTAT,
            "memory.pressure, memory.events and io.max of cgroups",
            "/proc/diskstats at both ends of the interval, and /proc/pressure/io",
        ],
        thresholds: "Warning: at least one task waited for memory (PSI some) 10 % of the last 10 s or 5 % of \
            the last minute; or, if the kernel has no PSI, more than half of the data read from disk are \
            refaults (pages that the kernel had dropped shortly before). Critical: all tasks waited for memory \
            at the same time (PSI full) 20 % of the last 10 s or 10 % of the last minute. One level less if the \
            pressure has ended: its total did not grow over the interval, and either the average over 10 s is less \
            than half of that over a minute, or the kernel reclaimed no page. A disk with swap is named if requests to it \
            took 10 ms or more on average, at least one was always in its queue, and 10 pages per second were swapped \
            to or from disks; if memory is low too, the same thresholds of /proc/pressure/io are then enough for a \
            warning. Pages in zram do not count. The io.max of the cgroup that waited most (or of one above it) is named if the \
            pages that it read back are half to one and a half times what the limit allows.",
        act: "Find out which processes hold memory (pagewise report --sort size) and which grow (pagewise \
            report --sort growth). Then give the machine or the cgroup more memory, add swap in compressed RAM \
            (zram), or run fewer programs at a time.",
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
        thresholds: "A zram or zmerge device exists or could be created, but stores nothing. Info if memory is \
            not short; warning if swapped pages are on a disk or tasks wait for memory; critical if a disk \
            with a higher swap priority holds pages while tasks wait for memory.",
        act: "The finding names the reason, and you correct what it names: the device has no size or no swap \
            signature, was not enabled with swapon, or has a lower priority than a disk; or vm.swappiness or a \
            cgroup limit keeps anonymous pages out of swap.",
    },
    Entry {
        id: "zswap-unused",
        severities: [Info, Warning],
        readings: &[
            "/sys/module/zswap/parameters",
            SWAPS,
            "the kind of each disk below /sys/block",
            MEMINFO,
            VMSTAT,
            PRESSURE,
        ],
        thresholds: "Only if zswap is the better choice here: the kernel has its shrinker, swap is on an SSD or a \
            virtual disk with room for what the pool would hold, no zram is used as swap, the multi-gen LRU is on, \
            no cgroup is at its limit, and cgroups that keep zswap from their memory hold less than half of it. Info: zswap is off, and pages are in swap on a disk; warning if tasks also wait \
            for memory. Warning: zswap's pool is full, its shrinker is off, and 100 pages per second are read from the \
            disk.",
        act: "Switch zswap and its shrinker on (pagewise plan --only zswap keeps that over a reboot). pagewise trial \
            compares zswap with zram for your own programs.",
    },
    Entry {
        id: "swap-avoids-anon",
        severities: [Warning, Critical],
        readings: &[SWAPS, "/proc/sys/vm/swappiness", VMSTAT, PRESSURE],
        thresholds: "There are at least 100 refaults of file pages and 10 major faults per second, while swap \
            is off, vm.swappiness is 0, or vm.swappiness is 1 and no page was swapped out. The severity is \
            that of the rule memory-pressure, or warning if there is no memory pressure.",
        act: "Let the kernel swap out cold anonymous pages: add swap in compressed RAM (zram), and set \
            vm.swappiness to 60 or more. pagewise trial measures which value suits your own workload.",
    },
    Entry {
        id: "swap-needs-memory",
        severities: [Warning, Warning],
        readings: &[
            SWAPS,
            "the kind of each device below /sys/block",
            "/sys/block/loopN/loop/backing_file",
            "/proc/self/mountinfo",
        ],
        thresholds: "A swap area is on a loop device, a volume of ZFS, or a disk or file system reached over a network; \
            or it is itself in RAM: a RAM disk, or a loop device whose file is in a tmpfs or ramfs.",
        act: "Put swap on a local disk, in a swap file on it, or in compressed RAM (zram).",
    },
    Entry {
        id: "tier-order",
        severities: [Info, Critical],
        readings: &[SWAPS, "the kind of each device below /sys/block", PRESSURE],
        thresholds: "A slower swap area has the same or a higher priority than a faster one. Info if the slower area \
            is empty; warning if it holds pages; critical if it holds pages and tasks wait for memory.",
        act: "Disable one of the two swap areas (swapoff) and enable it again with another priority (swapon \
            -p), so that the faster area has the higher priority. Run swapoff while the machine is idle, \
            because it reads all pages in the swap area back into memory.",
    },
    Entry {
        id: "zram-full",
        severities: [Warning, Critical],
        readings: &[SWAPS, ZRAM, ZMERGE, "/sys/block/zramN/io_stat"],
        thresholds: "Warning: the device uses 99 % of its size, or 90 % of its mem_limit. Critical: no other \
            swap area has room and little memory is available, or mem_limit is reached, or writes to the \
            device failed during the interval.",
        act: "Find out which processes are in swap (pagewise report --sort swap). Then raise mem_limit, add a \
              swap area with a lower priority, or run fewer programs.",
    },
    Entry {
        id: "zram-zswap-stacked",
        severities: [Warning, Warning],
        readings: &["/sys/module/zswap/parameters/enabled", SWAPS],
        thresholds: "zswap is on while a zram or zmerge device is used as swap.",
        act: "Switch off either zswap or the device. Usually this is zswap, because zswap is useful only in \
              front of swap on a disk.",
    },
    Entry {
        id: "zram-incompressible",
        severities: [Warning, Warning],
        readings: &[ZRAM, ZMERGE],
        thresholds: "Incompressible pages take at least 50 % of the memory that a zram or zmerge device uses, \
                     and at least 64 MiB (an eighth of RAM if that is less).",
        act: "Find out which program's memory does not compress (pagewise scan --name NAME). If the zram \
            device has a backing device, write the incompressible pages to it; or keep the program out of swap \
            (memory.swap.max).",
    },
    Entry {
        id: "zram-oversized",
        severities: [Info, Warning],
        readings: &["/sys/block/zramN/disksize", ZRAM, MEMINFO],
        thresholds: "If all zram and zmerge devices were full, they would use more memory than the machine \
            has, at the compression ratio measured on this host (2 : 1 if nothing was stored yet). Warning if \
            the slot tables of these devices take 2 % of RAM.",
        act: "Choose a smaller disksize the next time that you set up the device, or limit the memory that the \
              device uses with mem_limit.",
    },
    Entry {
        id: "zmerge-few-copies",
        severities: [Info, Info],
        readings: &[
            "/sys/block/zmergeN/merge_mode",
            "/sys/block/zmergeN/merge_hits and merge_misses",
        ],
        thresholds: "merge_mode is inline, zmerge searched for copies of at least 16,384 pages, and less than \
                     1 % of these pages had one.",
        act: "Set merge_mode to adaptive, in which zmerge searches for copies of only one page in eleven \
              while few pages have copies.",
    },
    Entry {
        id: "thp-coverage",
        severities: [Info, Info],
        readings: &[
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/proc/PID/smaps_rollup",
            VMSTAT,
        ],
        thresholds: "transparent_hugepage/enabled is always, and a process with at least 256 MiB of anonymous memory \
            has less than 50 % of it in huge pages; or at least 100 page faults requested a huge page, and at least \
            half of them got small pages (in the interval or, if it has too few such faults, since boot).",
        act: "pagewise thp --pid PID shows which mappings of a process lack huge pages and why; pagewise thp \
              collapse collapses memory of a running process into huge pages.",
    },
    Entry {
        id: "khugepaged-starves",
        severities: [Info, Info],
        readings: &["/proc/PID/schedstat of khugepaged at both ends of the interval"],
        thresholds: "khugepaged waits for a CPU for at least 10 % of the interval, and for longer than it runs.",
        act: "Raise the priority of khugepaged (renice), or collapse the memory of important programs with \
              pagewise thp collapse.",
    },
    Entry {
        id: "thp-bloat-guard-off",
        severities: [Info, Info],
        readings: &[
            "/sys/kernel/mm/transparent_hugepage/shrink_underused",
            "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none",
            MEMINFO,
        ],
        thresholds: "shrink_underused is on, max_ptes_none is at its maximum, and huge pages hold at least 5 % \
                     of RAM.",
        act: "Lower max_ptes_none, so that the kernel can split huge pages that are mostly zeros.",
    },
    Entry {
        id: "thp-bloat",
        severities: [Info, Warning],
        readings: &[MEMINFO, "the contents of a sample of pages", "/proc/PID/pagemap"],
        thresholds: "Huge pages hold at least 5 % of RAM, at least 50 small pages in them were sampled, and \
            with 95 % confidence zeros are at least 20 % of the memory in huge pages and at least 5 % of RAM. \
            Warning if memory is tight.",
        act: "pagewise thp restrain finds and splits huge pages that are mostly zeros. With \
            transparent_hugepage/enabled set to madvise, only memory for which a program requests huge pages \
            gets them.",
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
        thresholds: "Shared memory and files in tmpfs are at least 33 % of buff/cache and at least 18 % of RAM \
            (5 % if little memory is available). Warning if little memory is available and swap is off.",
        act: "The finding names the mounts and processes that hold most of this memory, as far as the user who \
            runs doctor may read them. Delete files in tmpfs that are not needed, or limit the tmpfs with its \
            mount option size; ipcs -m shows System V shared memory, which is in no mount.",
    },
    Entry {
        id: "memory-unexplained",
        severities: [Info, Warning],
        readings: &[
            MEMINFO,
            ZRAM,
            ZMERGE,
            "/proc/spl/kstat/zfs/arcstats",
            "/proc/vmstat",
            "/proc/zoneinfo",
            "/proc/PID/fdinfo of open files of a GPU",
        ],
        thresholds: "At least 30 % of RAM is in use that is neither anonymous memory, page cache, swap cache, slab, \
            page tables, vmalloc, per-CPU memory, kernel stacks, hugetlb pools, ZFS's cache, the balloon of a \
            hypervisor nor compressed swap. If one of the large counts is not known, nothing is reported. Or the balloon \
            holds at least 30 %: info if the driver has lowered MemTotal by it (the zones have that many more pages), \
            else a warning. Processes with buffers of amdgpu, radeon, nouveau, xe, vmwgfx or qxl in system memory are named; \
            those of other drivers count as shared memory.",
        act: "Find the driver: /proc/allocinfo on kernels with allocation profiling, the fdinfo of processes that use \
            a GPU, or unload modules one after the other on a test machine. A balloon can only be \
            made smaller on the hypervisor.",
    },
    Entry {
        id: "shared-memory-left",
        severities: [Info, Warning],
        readings: &["/proc/sysvipc/shm and /proc/sysvipc/msg", MEMINFO],
        thresholds: "Segments of System V shared memory without an attachment take 2 % of RAM or more in RAM and swap, \
            or the messages in System V queues do. Warning from 30 % of RAM on, or if memory is low. Only the IPC \
            namespace in which Pagewise runs is read, so segments of most containers are not seen.",
        act: "Find out whose it is (ipcs -m -i ID, ipcs -q -i ID). If no program needs it any more, remove it with \
            ipcrm; its data is lost.",
    },
    Entry {
        id: "deleted-files",
        severities: [Info, Warning],
        readings: &[
            "links in /proc/PID/fd and /proc/PID/map_files, and the sizes of the files that they refer to",
            MEMINFO,
        ],
        thresholds: "One process keeps deleted files in tmpfs open or mapped that take 2 % of RAM or more. Warning \
            from 30 % of RAM on, or if memory is low. Pagewise searches for such files only if shared memory is 5 % of RAM or more, and \
            without root only in the user's own processes. Files that are only mapped are found by root alone, in the 16 \
            processes with the most shared memory in RAM.",
        act: "Make the program close the deleted files: many programs reopen their files on a signal \
              (systemctl reload), and a restart closes them in any case.",
    },
    Entry {
        id: "hugetlb-unused",
        severities: [Info, Warning],
        readings: &["/sys/kernel/mm/hugepages/hugepages-NkB/*_hugepages", MEMINFO],
        thresholds: "Huge pages of a hugetlb pool that are free and not reserved take at least 1 % of RAM. \
                     Warning from 5 % on.",
        act: "Make the pool smaller (nr_hugepages), unless the program that needs the pool has not started yet.",
    },
    Entry {
        id: "fragmentation",
        severities: [Warning, Warning],
        readings: &[VMSTAT, "/proc/buddyinfo"],
        thresholds: "At least one allocation per second had to wait for compaction, and at least half of the \
            free memory is in blocks smaller than a huge page.",
        act: "Compact memory while the machine is idle (write 1 to /proc/sys/vm/compact_memory), or let fewer \
            page faults compact memory for a huge page (transparent_hugepage/defrag).",
    },
    Entry {
        id: "mglru-off",
        severities: [Info, Info],
        readings: &["/sys/kernel/mm/lru_gen/enabled"],
        thresholds: "The kernel has multi-gen LRU, but bit 0 of /sys/kernel/mm/lru_gen/enabled is not set.",
        act: "Measure whether multi-gen LRU helps your own workload before you switch it on: pagewise trial \
              --a mglru.enabled=0 --b mglru.enabled=7 -- CMD.",
    },
    Entry {
        id: "memory-low",
        severities: [Warning, Critical],
        readings: &[MEMINFO, SWAPS, ZRAM, "/proc/PID/status of the largest process"],
        thresholds: "Memory is tight if MemAvailable is below both 10 % of RAM and 4 GiB, short below 5 % and \
            2 GiB, and critical below 2.5 % and 1 GiB; each of these is one level milder if swapping could \
            free enough memory. Swap in compressed RAM counts only with the memory that swapping would free at \
            its measured compression ratio.",
        act: "Find out which processes hold memory (pagewise report --sort size) and which grow (pagewise \
            report --sort growth). Stop or limit these processes, or add swap in compressed RAM (zram).",
    },
    Entry {
        id: "group-limit",
        severities: [Warning, Critical],
        readings: &[
            "memory.max, high, current, stat, events and pressure of cgroups at both ends of the interval",
            "cgroup version 1: memory.limit_in_bytes, usage_in_bytes, failcnt, oom_control",
        ],
        thresholds: "Warning: the cgroup reached its own limit during the interval, and its tasks waited for \
            memory 10 % of the last 10 s or 5 % of the last minute, or had 100 refaults and 10 major faults \
            per second; or memory that cannot be dropped takes 90 % of the limit, and swap has no room for a \
            tenth of that memory. Critical: the cgroup reached its own limit during the interval, and the \
            kernel killed one of its tasks, or all tasks waited at the same time 20 % of the last 10 s or 10 \
            % of the last minute. If the host itself has enough memory, the rule attributes the memory \
            pressure of the host to the cgroup.",
        act: "Raise the limit of the cgroup, or let its programs do less at a time. Free memory of the host \
              does not help a cgroup at its limit. If files are read again, half of the limit is anonymous \
              memory, swap has room and nothing was swapped, multi-gen LRU may be the cause: switch it off \
              and see whether refaults stop.",
    },
    Entry {
        id: "memory-grows",
        severities: [Info, Critical],
        readings: &[
            "/proc/PID/status, statm and stat at both ends of the interval",
            "/proc/uptime",
            MEMINFO,
            "memory.max and high of cgroups, their current and peak, and their anon, shmem and swap.current at both ends \
             of the interval",
        ],
        thresholds: "A process grew by at least 64 KiB during the interval, was never as large before (VmHWM), and at \
            this rate would use up the available memory and the free swap, or reach memory.max or memory.high of its \
            cgroup or of a parent, within an hour. Warning: its rate is 0.8 to 2 times the average since it started, it \
            has run for 30 s, and it has filled a seventh of what there was for it, so that it has grown for a sixth of \
            the time that is left; or it has filled half, or three quarters if its rate differs more. Critical: the same, \
            and memory would be used up within two minutes. Info: all other such growth, because a program that starts \
            and a cache that is being filled look the same at first. The same applies to the anonymous memory of a \
            cgroup, with the age of its oldest process; a cgroup is reported only if neither a process nor a cgroup in \
            it explains half of its growth.",
        act: "Watch the growth (pagewise report --sort growth). A memory leak needs a fix or a restart; with a \
              memory limit on the systemd unit of the program, the kernel kills a process of that unit and not \
              another program.",
    },
    Entry {
        id: "commit-limit",
        severities: [Warning, Critical],
        readings: &["/proc/sys/vm/overcommit_memory", MEMINFO, "VmData in /proc/PID/status"],
        thresholds: "vm.overcommit_memory is 2, and Committed_AS is at least 90 % of CommitLimit; critical \
                     from 97 % on. Or the private writable memory of a process (VmData) is more than what is left \
                     below CommitLimit, so that the process cannot fork.",
        act: "Raise vm.overcommit_ratio or add swap, both of which raise CommitLimit, or set \
              vm.overcommit_memory to 0.",
    },
    Entry {
        id: "tasks-limit",
        severities: [Info, Warning],
        readings: &[
            "pids.current, pids.max and pids.events of cgroups (version 2)",
            "Threads in /proc/PID/status",
        ],
        thresholds: "A fork was refused during the interval because of the pids.max of a cgroup: warning. Or the cgroup \
            has as many tasks as its pids.max allows, or one less, and its pids.max is 8 or more: info. Cgroups without a \
            memory controller are not read, nor those of version 1.",
        act: "Find out why the program has so many threads or processes; a leak of them needs a fix. If it needs them, \
            raise the limit where it is set: TasksMax= of the systemd unit, docker update --pids-limit, podPidsLimit of \
            the kubelet. More memory or swap changes nothing.",
    },
    Entry {
        id: "process-limit",
        severities: [Warning, Warning],
        readings: &["/proc/PID/limits", "VmSize and VmData in /proc/PID/status", MEMINFO],
        thresholds: "The address space (VmSize) of a process is 95 % of its RLIMIT_AS or more, or its private writable \
            address space (VmData) is 95 % of its RLIMIT_DATA or more, and the limit is at least 64 MiB. The limits are \
            read of the 64 processes with the largest VmData.",
        act: "Raise the limit where it is set: LimitAS= or LimitDATA= of the systemd unit, ulimit in the script that starts \
            the program, or /etc/security/limits.conf; then restart the program. More memory or swap changes nothing.",
    },
    Entry {
        id: "swap-full",
        severities: [Info, Warning],
        readings: &[MEMINFO, SWAPS],
        thresholds: "At least 90 % of all swap is used: info if enough memory is available, warning if little memory \
            is available. If the only swap area is a full zram or zmerge device, only the rule zram-full reports it.",
        act: "Find out which processes are in swap (pagewise report --sort swap). Add a swap area if the next \
              peak of memory use will need one.",
    },
    Entry {
        id: "oom-kills",
        severities: [Info, Critical],
        readings: &[
            "/dev/kmsg",
            "files of journald in /var/log/journal or /run/log/journal",
            VMSTAT,
            "memory.events of cgroups; cgroup version 1: memory.oom_control",
        ],
        thresholds: "Critical: the kernel killed a process in the last ten minutes or during the interval. Warning: \
            the kill was in the last day or at an unknown time. Info: the kill was earlier. A kill at the limit of a \
            cgroup that no longer exists is never critical, and a warning for only one hour. If neither the kernel log nor journald's \
            files contain a kill of this boot, the rule uses the kernel's counters of kills since boot.",
        act: "Run pagewise doctor --oom to see which limit was reached, which processes held the memory, and \
              why swap did not help.",
    },
    Entry {
        id: "ksm-loss",
        severities: [Warning, Warning],
        readings: &["/sys/kernel/mm/ksm"],
        thresholds: "KSM is on (run is 1), has completed two full scans, and general_profit (or the same \
                     formula on kernels without this file) shows a loss of 1 MiB or more.",
        act: "Stop KSM (write 0 to run), or enable it only for programs that have many identical pages. \
              pagewise scan --duplicates shows which programs have them.",
    },
    Entry {
        id: "watermarks-extreme",
        severities: [Warning, Warning],
        readings: &[
            "/proc/sys/vm/min_free_kbytes",
            "/proc/sys/vm/watermark_scale_factor",
            "/proc/zoneinfo",
        ],
        thresholds: "vm.min_free_kbytes is above 5 % of RAM (khugepaged itself raises this setting to at most \
            5 %) or below 1024; or the distance between the low and high watermarks is above 10 % of RAM.",
        act: "Set the setting that the finding names back to its default, and then watch allocation stalls \
              (allocstall_* in /proc/vmstat).",
    },
    Entry {
        id: "dirty-stall",
        severities: [Warning, Warning],
        readings: &[MEMINFO, "/proc/pressure/io", "vm.dirty_* settings"],
        thresholds: "1 GiB or more of dirty data waits to be written to disk, and tasks waited for I/O (PSI \
                     some) 10 % of the last minute.",
        act: "Lower vm.dirty_bytes and vm.dirty_background_bytes to the amount of data that the disk writes in \
              one or two seconds.",
    },
    Entry {
        id: "kernel-memory",
        severities: [Warning, Warning],
        readings: &[MEMINFO],
        thresholds: "One kind of kernel memory takes at least 32 MiB and at least 10 % of RAM (slab, vmalloc), \
            5 % (page tables, per-CPU memory) or 3 % (kernel stacks); half of this share is enough if this \
            kind of memory grew by 16 MiB during the interval.",
        act: "Find the largest slab cache (slabtop), or the process with the largest page tables (VmPTE in \
            /proc/PID/status). Page tables are large if many processes map the same memory, or if a process \
            uses only scattered pages of a large mapping.",
    },
    Entry {
        id: "memory-locked",
        severities: [Info, Warning],
        readings: &[MEMINFO, "VmLck in /proc/PID/status"],
        thresholds: "Unevictable memory is at least 25 % of RAM; warning from 50 % on. If mlock explains less than half \
            of it: warning if the rest is 30 % of RAM or memory is low.",
        act: "Let programs lock less memory, or limit the other programs to the memory that is not locked. Delete \
            files in a ramfs that nobody needs, or move them to a tmpfs with a size limit.",
    },
    Entry {
        id: "swap-stuck",
        severities: [Info, Info],
        readings: &[MEMINFO, SWAPS, ZRAM],
        thresholds: "The data in swap is larger than the available memory, and at least 5 % of RAM. RAM that \
                     compressed swap (zram) would free when its data is swapped in counts as available. The \
                     rule reports nothing while memory is low, because the rule memory-low does.",
        act: "Free memory before you run swapoff, before you change the size of a zram device, and before a \
              shutdown that has to be quick.",
    },
    Entry {
        id: "swap-heavy-group",
        severities: [Warning, Warning],
        readings: &[
            "memory.current, swap.current, stat and pressure of cgroups at both ends of the interval",
        ],
        thresholds: "A cgroup has at least 64 MiB (an eighth of RAM if that is less) in swap and more in swap \
            than in RAM, its tasks swap in at least 100 pages per second, and they waited for memory 1 % of the last minute (cgroup version 1: \
            10 major faults per second). The rule reports nothing if the cgroup's own limit is the reason.",
        act: "Protect the memory of the cgroup (memory.low), or find out which other cgroup grew.",
    },
    Entry {
        id: "protection-starves",
        severities: [Warning, Critical],
        readings: &[
            "memory.min, memory.low, memory.current and memory.pressure of cgroups",
            PRESSURE,
            VMSTAT,
        ],
        thresholds: "A cgroup holds at least 30 % of RAM under its memory.min or memory.low, and the host waits for \
            memory as the rule memory-pressure says, but not mainly in that cgroup. The severity is that of \
            memory-pressure.",
        act: "Find out how much of its memory the cgroup uses (pagewise limits --cgroup PATH). Lower its protection \
            to that, or give the machine more memory.",
    },
    Entry {
        id: "groups-idle",
        severities: [Info, Warning],
        readings: &[
            "cgroup.events and memory.current of cgroups",
            "/sys/fs/cgroup/cgroup.stat",
            MEMINFO,
        ],
        thresholds: "A frozen cgroup (version 2) uses 10 % of RAM or more: info, warning from 30 % on or if memory is \
            low. Or the kernel keeps 2,000 deleted cgroups or more: info.",
        act: "Thaw the cgroup with the tool that froze it (systemctl thaw, docker unpause), or end what is in it. For \
            deleted cgroups, find out what is restarted all the time.",
    },
    Entry {
        id: "group-swappiness",
        severities: [Info, Info],
        readings: &[
            "memory.swappiness and memory.usage_in_bytes of cgroups",
            "/proc/sys/vm/swappiness",
        ],
        thresholds: "With cgroups of version 1: the swappiness of upper cgroups with at least half of the memory in \
            cgroups differs from vm.swappiness by 10 or more.",
        act: "Set memory.swappiness of these cgroups and of those below them, or use cgroups of version 2, which have no \
            swappiness of their own.",
    },
    Entry {
        id: "protection-limited",
        severities: [Warning, Warning],
        readings: &[
            "memory.low, memory.min, memory.max, memory.high and memory.current of cgroups",
        ],
        thresholds: "memory.low or memory.min of a cgroup is larger than that of a cgroup above it, and at least \
            16 MiB of the memory in use lose their protection by this. The rule reports nothing if a cgroup above \
            has a limit of its own (memory.max or memory.high).",
        act: "Give each cgroup above at least as much protection, or remove the protection.",
    },
    Entry {
        id: "min-ttl-set",
        severities: [Info, Warning],
        readings: &["/sys/kernel/mm/lru_gen/min_ttl_ms"],
        thresholds: "min_ttl_ms is not 0. Warning above 3000, because the kernel's documentation warns of \
                     premature OOM kills with large values.",
        act: "Set min_ttl_ms to 1000 on a desktop and to 0 on a server, unless you have tested another value \
              with your own workload.",
    },
    Entry {
        id: "extfrag-threshold",
        severities: [Info, Info],
        readings: &["/proc/sys/vm/extfrag_threshold"],
        thresholds: "vm.extfrag_threshold is not 500, its default.",
        act: "Set vm.extfrag_threshold back to 500, unless you have measured that another value helps.",
    },
    Entry {
        id: "managers-fight",
        severities: [Info, Warning],
        readings: &[
            "links in /etc/systemd/system/multi-user.target.wants",
            "zram-generator's program and files, /etc/default/zramswap, udev rules",
            "the active profile of tuned",
        ],
        thresholds: "Warning: two of zram-generator, zram-tools and a udev rule set up the same zram device, \
            or two enabled services set up compressed swap. Info: two enabled services kill processes when \
            memory is short, or two of tuned, tlp and laptop-mode-tools are enabled; tuned counts only if \
            its profile changes vm settings. The rule checks which services are enabled, not which are \
            running.",
        act: "Keep one of the two services and disable the other with systemctl; zram-generator is disabled by \
              an empty zram-generator.conf.",
    },
    Entry {
        id: "settings-differ",
        severities: [Info, Info],
        readings: &[
            "/etc/sysctl.d, /run/sysctl.d, /usr/local/lib/sysctl.d, /usr/lib/sysctl.d, /etc/sysctl.conf",
            "tmpfiles.d, udev rules, modprobe.d, units of systemd and the kernel command line",
            "/etc/tuned/active_profile, tuned-main.conf and tuned.conf of the profiles",
            "/proc/sys/vm and /sys",
        ],
        thresholds: "The line that wins at boot sets another value than the one in effect; a value is neither the kernel's \
            default nor in a file; two files below /etc or /run set different values; or the profile of tuned \
            overrides one of these files. Profiles count only if tuned is enabled. Two differences are not \
            reported: a vm.min_free_kbytes above the value in the file, and the unused setting of a pair such \
            as vm.dirty_bytes and vm.dirty_ratio.",
        act: "Write the value that you want into a single file in /etc/sysctl.d, and apply it with sysctl --system.",
    },
    Entry {
        id: "setting-unread",
        severities: [Info, Info],
        readings: &[
            "configuration files below /etc and /run with memory, zram or swap settings",
            "/proc/cmdline",
        ],
        thresholds: "A line sets something, but no program reads it at boot: the file's name does not end in .conf, \
            the program or service that reads it is missing, or another file or line replaces it. A line is left \
            out if what wins at boot has the same value.",
        act: "Move the line to a file that is read, or delete it; pagewise report --only owners shows which line \
              wins.",
    },
    Entry {
        id: "generator-parameters",
        severities: [Info, Info],
        readings: &["zram-generator.conf and its drop-ins"],
        thresholds: "In zram-generator.conf, the second or a later algorithm of compression-algorithm has a \
                     level or a dictionary.",
        act: "Use a version of zram-generator after 1.2.1, which applies these parameters, or accept the \
              default level.",
    },
    Entry {
        id: "hibernation-zram",
        severities: [Info, Info],
        readings: &["/sys/power/resume", SWAPS],
        thresholds: "A device to resume from is configured, and every swap area is in compressed RAM (zram or \
                     zmerge).",
        act: "Enable a swap area on a disk that is at least as large as the memory in use, with a lower \
              priority than zram.",
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
        for (id, host_with_finding) in FIRING {
            for finding in diagnose(&host_with_finding()) {
                let explained = explanations().into_iter().find(|one| one.id == finding.id);
                let one = explained.unwrap_or_else(|| panic!("{id}"));
                assert!((one.least..=one.most).contains(&finding.severity), "{id}: {finding:#?}");
            }
        }
    }
}
