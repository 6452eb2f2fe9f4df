// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of limits: how many objects of each kind are read of a host.
//!
//! A kernel could list millions of them, and so could a forged recording. Each limit is higher than
//! what any machine is known to have. Readers take their constants from here, and `docs/reading-limits.md`
//! is generated from the same table: `BLESS=1 cargo test -p pagewise-observe limits` rewrites it.
//! Limits on the size of a recording are in `pagewise_hostfs::recording`.

pub(crate) use pagewise_hostfs::limits::first;

pagewise_hostfs::limit_table! {
    SWAP_AREAS = 64,
        "swap areas", "/proc/swaps",
        "the first; a problem says how many there are";
    ZRAM_DEVICES = 256,
        "zram devices, and devices of zmerge, the kernel module of Pagewise", "/sys/block",
        "those used as swap come before the others; a problem says how many there are";
    DISKS = 4096,
        "block devices and partitions whose requests are counted", "/proc/diskstats",
        "the first; a problem says how many there are";
    SIZE_CLASSES = 1024,
        "lines about the size classes of a zram device", "/sys/kernel/debug/zsmalloc",
        "the first; a problem says how many there are";
    MOUNTS = 32_768,
        "mounts", "/proc/self/mountinfo",
        "the first; a problem says how many there are";
    SAR_FILES = 64,
        "texts of sar", "sos_commands/sar, /var/log/sa and /var/log/sysstat",
        "the first by folder and name";
    SAR_TIMES = 50_000,
        "times in texts of sar", "the same",
        "the first";
    MAPPED_DEVICES = 4096,
        "device-mapper devices whose names are read", "/sys/block/dm-*",
        "the first; a problem says how many there are";
    CGROUPS = 1000,
        "memory cgroups that are read in full", "/sys/fs/cgroup",
        "those with the most memory (one half) and with the most OOM kills and limit hits (the other half); \
         the others are only counted";
    CGROUP_DEPTH = 64,
        "levels of memory cgroups", "/sys/fs/cgroup",
        "the upper levels; cgroups below them are neither read nor counted";
    IO_LIMITS = 64,
        "block devices with a limit in one cgroup", "io.max",
        "the first; a problem says how many there are";
    CGROUPS_WITH_LIMITS = 50,
        "memory cgroups whose limits are listed as settings", "/sys/fs/cgroup",
        "cgroups that have a limit come before those that have none";
    SETTING_PLACES = 256,
        "files of a setting that has several files, such as one for each block device", "/proc/sys and /sys",
        "the first; a problem names one such setting";
    MEMINFO_LINES = 512,
        "lines of meminfo", "/proc/meminfo",
        "the first; a problem says how many there are";
    COUNTER_LINES = 2048,
        "counters of one file", "/proc/vmstat and the like",
        "the first; a problem says how many there are";
    ZONES = 4096,
        "zones", "/proc/zoneinfo, /proc/buddyinfo",
        "the first; a problem says so";
    NODES = 1024,
        "NUMA nodes with pools of huge pages", "/sys/devices/system/node",
        "the first; a problem says how many there are";
    HUGE_PAGE_SIZES = 64,
        "sizes of huge pages", "/sys/kernel/mm",
        "the first";
    HUGE_PAGE_STATS = 64,
        "statistics of one size of huge pages", "/sys/kernel/mm/transparent_hugepage",
        "the first; a problem says how many there are";
    KERNEL_THREADS = 4096,
        "kernel threads that are searched for khugepaged", "/proc",
        "the oldest; if khugepaged is not among them, the output says so";
    KDAMONDS = 64,
        "DAMON threads", "/sys/kernel/mm/damon/admin",
        "the first; a problem says how many there are";
    DAMON_TARGETS = 64,
        "processes that one DAMON thread observes", "/sys/kernel/mm/damon/admin",
        "the first; a problem says how many there are";
    DAMON_REGIONS = 4096,
        "regions of one DAMON thread", "/sys/kernel/mm/damon/admin",
        "the first; a problem says how many there are";
    GENERATION_LINES = 65_536,
        "lines about the generations of pages (MGLRU)", "/sys/kernel/debug/lru_gen",
        "the first; a problem says how many there are";
    OOM_KILLS = 64,
        "kills by the OOM killer", "/dev/kmsg and journald's files",
        "the newest; the others are counted";
    OOM_TASKS = 10,
        "tasks in the kernel's report of one kill", "/dev/kmsg",
        "the largest; the others are counted";
    OOM_OTHERS = 100,
        "other processes that were killed in the same kill (memory.oom.group)", "/dev/kmsg",
        "the first";
    LOG_RECORDS = pagewise_hostfs::RECORDS,
        "records of the kernel log", "/dev/kmsg",
        "the oldest";
    JOURNAL_FILES = 32,
        "files of journald that are searched for kills", "/var/log/journal, /run/log/journal",
        "the newest; the others are counted";
    JOURNAL_REPORTS = 16,
        "places in journald's files that contain reports of kills", "/var/log/journal, /run/log/journal",
        "the newest";
    JOURNAL_ENTRIES = 16_384,
        "messages in journald's files", "/var/log/journal, /run/log/journal",
        "those around the newest reports; the output says how many files were not searched in full";
    JOURNAL_BLOCKS = 4096,
        "blocks of 8 KiB in journald's files", "/var/log/journal, /run/log/journal",
        "those around the newest reports; the output says how many files were not searched in full";
    NAMED_JOURNALS = 256,
        "files of journald in a folder that pagewise oom is given", "the folder",
        "the first by name; the output says how many were not read";
    NAMED_JOURNAL_ENTRIES = 4_194_304,
        "messages in files of journald that pagewise oom is given", "the files",
        "those of the oldest files; the output says how many messages were not read";
    NAMED_JOURNAL_BLOCKS = 1_048_576,
        "blocks of 8 KiB in files of journald that pagewise oom is given", "the files",
        "those of the oldest files; the output says how many messages were not read";
    PROGRAM_MESSAGES = 1024,
        "messages of each program that kills for lack of memory", "a file of journald",
        "the newest; doctor --oom says how many were not read";
    SYSLOG_MIB = 16,
        "MiB of a syslog, of a machine without files of journald", "/var/log/syslog, /var/log/messages",
        "the end";
    COLLECTED_LOGS = 64,
        "logs among files that somebody else collected", "the folder or archive",
        "the first; the output names those that were read";
    COLLECTED_LOG_MIB = 1024,
        "MiB of such logs together", "the folder or archive",
        "the first";
    COLLECTED_FOLDERS = 10_000,
        "folders in which such logs are searched", "the folder or archive",
        "the first";
    MEMORY_MOUNTS = 512,
        "mounts of tmpfs and the like whose size is read", "/proc/self/mountinfo",
        "the first; the others are counted";
    OPEN_FILE_LINKS = 8192,
        "open files of all processes, to find deleted files", "/proc/PID/fd",
        "the first; JSON has the number of processes whose open files were not read";
    GPU_CLIENTS = 4096,
        "open files of GPUs whose memory is read", "/proc/PID/fdinfo",
        "the first";
    MAPPED_SEARCHED = 16,
        "processes whose mappings are searched for deleted files", "/proc/PID/maps",
        "those with the most shared memory in RAM";
    DELETED_FILES = 100,
        "deleted files in memory that are still open", "/proc/PID/fd",
        "the largest";
    SHARED_SEGMENTS = 65_536,
        "segments of System V shared memory", "/proc/sysvipc/shm",
        "the first; a problem says how many there are";
    MESSAGE_QUEUES = 65_536,
        "System V message queues", "/proc/sysvipc/msg",
        "the first; a problem says how many there are";
    KEPT_SEGMENTS = 100,
        "segments, and message queues, that are kept", "/proc/sysvipc",
        "the largest; the others are counted";
    PROCESSES = 12_000,
        "processes", "/proc",
        "those with the most memory in RAM; the output says how many there are, and kernel threads are not counted";
    PROCESS_IDS = 65_536,
        "processes whose memory in RAM is compared, to find the largest", "/proc",
        "those with the lowest ids";
    SWAPPED_PROCESSES = 128,
        "processes whose amount of memory in swap is read twice, to compute its growth", "/proc/PID/status",
        "those with the most memory in RAM";
    PEAKS_BEFORE = 32,
        "processes whose peak of memory in RAM is read twice, to tell growth from what comes and goes",
        "/proc/PID/status",
        "those with the most memory in RAM";
    PROCESS_LIMITS = 64,
        "processes whose limits on address space are read", "/proc/PID/limits",
        "those with the most private writable address space, of all with 64 MiB of address space or more";
    PROBLEMS = pagewise_hostfs::PROBLEMS,
        "problems from one reading of a host", "",
        "the first";
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the document is a file of the project")]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    use pagewise_hostfs::limits::Limit;

    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reading-limits.md");

    fn all() -> impl Iterator<Item = &'static Limit> {
        LIMITS.iter().chain(pagewise_settings::LIMITS)
    }

    fn page() -> String {
        let mut page = String::from(
            "# Limits on what is read\n\nPagewise reads at most a fixed number of each kind of thing that a \
             host lists, such as mounts or cgroups. Without these\nlimits, a faulty kernel, or a forged \
             recording (see `pagewise capture`), could list millions of mounts and make\nPagewise use much \
             memory and time. Most limits are higher than any known machine needs.\n\n\
             The table shows each limit. If a host has more things of a kind than the limit, the last column \
             says which of them\nPagewise reads. A *problem* in that column is a message about something \
             that Pagewise could not read in full. Problems\nare shown by `report`, by every command with \
             `-v`, and in JSON.\n\n\
             | at most | of | listed in | if there are more, these are read |\n|---|---|---|---|\n",
        );
        for Limit { most, what, listed_in, beyond } in all() {
            let most = pagewise_model::group_digits(*most as u64);
            let listed_in = if listed_in.is_empty() { "–" } else { listed_in };
            writeln!(page, "| {most} | {what} | {listed_in} | {beyond} |").unwrap();
        }
        page
    }

    #[test]
    fn the_document_is_the_table() {
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(PAGE, page()).unwrap();
        }
        let known = std::fs::read_to_string(PAGE).unwrap_or_default();
        assert_eq!(page(), known, "docs/reading-limits.md: BLESS=1 rewrites it");
    }

    #[test]
    fn no_two_limits_are_of_the_same_things() {
        let names: BTreeSet<&str> = all().map(|limit| limit.what).collect();
        assert_eq!(names.len(), all().count());
        assert!(all().all(|limit| limit.most > 0 && !limit.beyond.is_empty()));
    }
}
