// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A capture contains the numbers of a host and none of its names.
//!
//! Redaction of each file is tested next to its implementation; here a host is read by all readers,
//! captured, packed, and read again.

use std::io::Read;
use std::time::Duration;

use pagewise_model::Snapshot;
use pagewise_observe::{Entry, HostRoot, Recording, Scope};
use serde_json::{Value, json};

const SECRET: &str = "quokka";
const SCOPE: Scope = Scope::everything(Duration::from_secs(5));

/// A report of the OOM killer, and other messages.
const KERNEL_LOG: &str = "6,3,1,-;Linux version 6.12.107-quokka\n\
    6,4,1,-;usb 1-1: Product: quokka 7\n SUBSYSTEM=usb\n DEVICE=+usb:quokka\n\
    4,5,2,-;quokka-db invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n\
    4,6,2,-;CPU: 0 UID: 1000 PID: 77 Comm: quokka-db Not tainted 6.12.107-quokka\n\
    6,7,2,-;memory: usage 64kB, limit 64kB, failcnt 3\n\
    6,8,2,-;Memory cgroup stats for /quokka.slice/quokka-db.service:\n\
    6,9,2,-;anon 61440\n6,10,2,-;quokka 17\n6,11,2,-;[  pid  ]   uid     rss swapents oom_score_adj name\n\
    6,12,2,-;[     77]  1000      15        2             0 quokka-db\n\
    6,13,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=quokka,mems_allowed=0,\
    oom_memcg=/quokka.slice/quokka-db.service,task_memcg=/quokka.slice/quokka-db.service/quokka,\
    task=quokka-db,pid=77,uid=1000\n\
    3,14,3,-;Memory cgroup out of memory: Killed process 77 (quokka-db) total-vm:90kB, anon-rss:60kB, \
    file-rss:4kB, shmem-rss:0kB, UID:1000 pgtables:4kB oom_score_adj:0\n\
    6,15,3,-;oom_reaper: reaped process 77 (quokka-db), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB\n\
    6,16,4,-;quokka: the end\n";

/// A host with the secret wherever people can choose names.
fn host(seconds: u32) -> HostRoot {
    let faults = 1000 + 100 * seconds;
    let status = |name: &str, pid: u32, uid: u32, rss: u32| {
        format!(
            "Name:\t{name}\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t{pid}\nPid:\t{pid}\nPPid:\t1\n\
             Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nVmSize:\t  90000 kB\nVmRSS:\t    {rss} kB\n\
             RssAnon:\t    {rss} kB\nRssFile:\t    12 kB\nRssShmem:\t    0 kB\nVmSwap:\t    3 kB\n\
             THP_enabled:\t1\nThreads:\t1\n"
        )
    };
    let files: Vec<(&str, String)> = vec![
        ("proc/meminfo", "MemTotal: 16303412 kB\nMemFree: 812345 kB\nSwapTotal: 999 kB\n".into()),
        ("proc/vmstat", format!("pgfault {faults}\npgmajfault 3\nworkingset_refault_file 9\n")),
        ("proc/sys/kernel/hostname", "quokka-07\n".into()),
        ("proc/sys/kernel/osrelease", "6.12.107-quokka\n".into()),
        ("proc/sys/kernel/random/boot_id", "0a1b2c3d-quokka\n".into()),
        ("proc/sys/vm/swappiness", "60\n".into()),
        ("proc/cmdline", "root=/dev/mapper/quokka quokka=1 psi=1\n".into()),
        ("proc/cpuinfo", "processor\t: 0\nmodel name\t: quokka\nflags\t\t: hypervisor\n".into()),
        ("proc/1/status", status("systemd", 1, 0, 1234)),
        ("proc/1/comm", "systemd\n".into()),
        ("proc/1/environ", "container=docker\0PASSWORD=quokka\0".into()),
        ("proc/1/cgroup", "0::/init.scope\n".into()),
        ("proc/77/status", status("quokka-db", 77, 1000, 5678)),
        ("proc/77/comm", "quokka-db\n".into()),
        ("proc/77/stat", format!("77 (quokka-db) S 1{}\n", " 0".repeat(48))),
        ("proc/77/cmdline", "quokka-db\0--password=quokka\0".into()),
        ("proc/77/environ", "PASSWORD=quokka\0".into()),
        ("proc/77/cgroup", "0::/quokka.slice/quokka-db.service\n".into()),
        (
            "proc/77/smaps_rollup",
            "5566-7788 ---p 00000000 00:00 0    [rollup]\nRss: 5678 kB\nPss: 5000 kB\n\
             AnonHugePages: 2048 kB\nSwap: 3 kB\nSwapPss: 2 kB\n"
                .into(),
        ),
        (
            "proc/swaps",
            "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
             /home/quokka/swap\t\tfile\t\t1048572\t\t1024\t\t50\n\
             /dev/zram0\t\tpartition\t\t524284\t\t0\t\t5\n"
                .into(),
        ),
        (
            "proc/self/mountinfo",
            "27 1 254:0 / / rw - ext4 /dev/vda rw\n\
             30 27 8:1 / /home/quokka rw - ext4 /dev/sdb1 rw\n\
             31 27 0:40 / /quokka rw - nfs server.quokka:/x rw\n\
             32 27 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
                .into(),
        ),
        ("dev/kmsg", KERNEL_LOG.into()),
        ("sys/dev/block/8:1/partition", "1\n".into()),
        ("sys/block/sdb/queue/rotational", "1\n".into()),
        ("sys/block/sdb/sdb1/partition", "1\n".into()),
        ("sys/block/zram0/disksize", "536870912\n".into()),
        ("sys/block/zram0/initstate", "1\n".into()),
        ("sys/block/zram0/mm_stat", "4096 74 12288 0 12288 0 0 0 0\n".into()),
        ("sys/block/zram0/comp_algorithm", "lzo [lz4] zstd\n".into()),
        ("sys/block/zram0/backing_dev", "/dev/mapper/quokka\n".into()),
        ("sys/block/zmerge0/disksize", "536870912\n".into()),
        ("sys/block/zmerge0/initstate", "1\n".into()),
        ("sys/block/zmerge0/mm_stat", "8192 74 12288 0 12288 0 0 0 0\n".into()),
        ("sys/block/zmerge0/merge_mode", "off [request] inline adaptive \n".into()),
        ("sys/block/zmerge0/merge", "0\n".into()),
        ("sys/block/zmerge0/merged_pages", "1\n".into()),
        ("sys/fs/cgroup/cgroup.controllers", "memory pids\n".into()),
        ("sys/fs/cgroup/memory.stat", "anon 9\n".into()),
        ("sys/fs/cgroup/quokka.slice/memory.current", "8192\n".into()),
        ("sys/fs/cgroup/quokka.slice/quokka-db.service/memory.current", "4096\n".into()),
        ("sys/fs/cgroup/quokka.slice/quokka-db.service/memory.max", "max\n".into()),
        ("sys/fs/cgroup/quokka.slice/quokka-db.service/memory.stat", "anon 4096\nfile 7\n".into()),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n".into()),
        ("sys/devices/virtual/dmi/id/sys_vendor", "QEMU of quokka\n".into()),
        ("lib/modules/6.12.107-quokka/modules.dep", "extra/quokka.ko:\n".into()),
        ("boot/config-6.12.107-quokka", "CONFIG_QUOKKA=y\nCONFIG_ZSWAP=y\n".into()),
    ];
    HostRoot::memory(
        files.into_iter().map(|(path, text)| (path.to_owned(), Entry::File(text.into_bytes()))),
    )
}

fn two_ends() -> Recording {
    Recording { start: Some(host(0)), end: host(1) }
}

/// Reads, captures and packs the recording: the snapshot at its end, and the archive.
fn captured(recording: Recording, scope: &Scope) -> (Snapshot, Vec<u8>) {
    let (interval, tape) = recording.record::<()>(scope, || Ok(())).unwrap();
    let mut packed = Vec::new();
    pagewise_capture::Capture::from_tape(tape).pack(&mut packed).unwrap();
    (interval.end, packed)
}

/// The unpacked archive, including paths.
fn unpacked(packed: &[u8]) -> String {
    let mut text = String::new();
    let decoded = zstd::decode_all(packed).unwrap();
    for entry in tar::Archive::new(decoded.as_slice()).entries().unwrap() {
        let mut entry = entry.unwrap();
        text += &entry.path().unwrap().to_string_lossy();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        text += &format!("\n{}\n", String::from_utf8_lossy(&bytes));
    }
    text
}

/// Every number and every reason for a missing one, with its place, but without the order of lists,
/// because aliases sort differently from names. User IDs are left out, because they are aliases,
/// too; so are processes that ended before they were read.
fn numbers(snapshot: &Snapshot) -> Vec<String> {
    let capabilities: Vec<String> = snapshot
        .capabilities
        .iter()
        .map(|one| format!("{} {:?}", one.feature, one.state))
        .collect();
    let nouns = json!({
        "memory": snapshot.memory, "vmstat": snapshot.vmstat, "psi": snapshot.psi,
        "zones": snapshot.zones, "free_blocks": snapshot.free_blocks, "tiers": snapshot.tiers,
        "zram": snapshot.zram, "zmerge": snapshot.zmerge, "zswap": snapshot.zswap, "ksm": snapshot.ksm,
        "hugetlb": snapshot.hugetlb, "thp": snapshot.thp, "mglru": snapshot.mglru,
        "damon": snapshot.damon, "knobs": snapshot.knobs, "processes": snapshot.processes,
        "cgroups": snapshot.cgroups, "oom_kills": snapshot.kernel_log,
        "page_size": snapshot.host.page_size, "cpus": snapshot.host.cpus,
        "when": [snapshot.taken.unix_seconds, snapshot.taken.monotonic_seconds],
    });
    let mut found: Vec<String> =
        snapshot.problems.iter().map(ToString::to_string).chain(capabilities).collect();
    collect(&nouns, "", &mut found);
    found.sort_unstable();
    found
}

fn collect(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(number) => found.push(format!("{place} {number}")),
        Value::Array(all) => all.iter().for_each(|one| collect(one, place, found)),
        Value::Object(fields) => {
            for (name, field) in
                fields.iter().filter(|(name, _)| !matches!(name.as_str(), "uid" | "vanished"))
            {
                let place = format!("{place}.{name}");
                match (name.as_str(), field) {
                    ("absent" | "denied" | "state" | "smaps", Value::String(text)) => {
                        found.push(format!("{place} {text}"));
                    }
                    _ => collect(field, &place, found),
                }
            }
        }
        Value::Bool(flag) => found.push(format!("{place} {flag}")),
        Value::Null | Value::String(_) => {}
    }
}

fn replayed(packed: &[u8], scope: &Scope) -> Snapshot {
    let recording = Recording::from_archive(packed, "x").unwrap();
    recording.interval::<()>(scope, || Err(())).unwrap().end
}

fn assert_same_numbers(original: &Snapshot, replay: &Snapshot) {
    let (original, replay) = (numbers(original), numbers(replay));
    let lost: Vec<&String> = original.iter().filter(|one| !replay.contains(one)).collect();
    let new: Vec<&String> = replay.iter().filter(|one| !original.contains(one)).collect();
    assert_eq!((lost, new), (Vec::new(), Vec::new()));
    assert_eq!(original, replay);
}

#[test]
fn a_capture_holds_no_names() {
    let text = unpacked(&captured(two_ends(), &SCOPE).1).to_lowercase();
    let at = text.find(SECRET);
    assert_eq!(at, None, "…{}…", at.map_or("", |at| &text[at.saturating_sub(90)..at + 20]));
    assert!(text.contains("memtotal: 16303412 kb"));
}

#[test]
fn a_capture_holds_all_numbers() {
    let (original, packed) = captured(two_ends(), &SCOPE);
    assert!(numbers(&original).len() > 5);
    assert_same_numbers(&original, &replayed(&packed, &SCOPE));
}

/// The aliases are those of the other files, so the victim and its cgroup can still be found in
/// them.
#[test]
fn a_report_of_the_oom_killer_keeps_its_numbers_and_its_aliases() {
    let (original, packed) = captured(two_ends(), &SCOPE);
    let replay = replayed(&packed, &SCOPE);
    let [before, after] = [&original, &replay].map(|host| host.kernel_log.kills.first().unwrap());
    assert_eq!(
        (before.victim.as_ref().unwrap().name.as_str(), before.tasks.len()),
        ("quokka-db", 1)
    );
    let victim = after.victim.as_ref().unwrap();
    let process = replay.processes.list.iter().find(|process| process.pid == 77).unwrap();
    assert_eq!((&victim.name, victim.uid), (&process.name, process.uid.get()));
    assert_eq!(after.tasks[0].uid, victim.uid.unwrap());
    assert_eq!(after.group.as_ref(), process.cgroup.value());
    assert_eq!(replay.kernel_log.records.get(), Some(14));
}

#[test]
fn rates_replay_too() {
    let packed = captured(two_ends(), &SCOPE).1;
    let recording = Recording::from_archive(packed.as_slice(), "x").unwrap();
    let interval = recording.interval::<()>(&SCOPE, || Err(())).unwrap();
    let faults = |snapshot: &Snapshot| snapshot.vmstat.get("pgfault").get();
    assert_eq!(faults(interval.start.as_deref().unwrap()), Some(1000));
    assert_eq!(faults(&interval.end), Some(1100));
}

/// On any machine: its capture contains the same values as the machine, and not its name.
#[test]
fn a_capture_of_this_machine_replays() {
    let scope = Scope::everything(Duration::ZERO);
    let (original, packed) = captured(Recording::live().unwrap(), &scope);
    assert_same_numbers(&original, &replayed(&packed, &scope));
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let text = unpacked(&packed);
    assert!(name.trim().len() < 5 || name.trim() == "localhost" || !text.contains(name.trim()));
    assert!(!text.contains("PATH="));
}
