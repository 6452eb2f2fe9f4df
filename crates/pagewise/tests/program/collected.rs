// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that a support tool collected on another machine.

use std::path::Path;

use crate::program::{ProgramRun, empty_folder, run};

const MEMINFO: &str = "MemTotal:  16303412 kB\nMemFree:  400000 kB\nMemAvailable: 9000000 kB\n";

/// A kill at the limit of a cgroup, as the kernel prints it.
const KILL: [&str; 3] = [
    "worker invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/web,\
     task_memcg=/web,task=worker,pid=41,uid=0",
    "Memory cgroup out of memory: Killed process 41 (worker) total-vm:90000kB, anon-rss:60000kB, \
     file-rss:1000kB, shmem-rss:0kB, UID:0 pgtables:200kB oom_score_adj:0",
];

fn put(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn with_prefix(prefix: &str) -> String {
    KILL.map(|line| format!("{prefix}{line}\n")).concat()
}

fn oom(words: &[&str], path: &Path) -> ProgramRun {
    run(&[words, &[path.to_str().unwrap()]].concat())
}

/// The same kill is in two logs.
#[test]
fn the_logs_of_an_sosreport_are_searched_for_kills() {
    let folder = empty_folder();
    let host = folder.path().join("sosreport-db1-2026");
    put(&host, "proc/meminfo", MEMINFO);
    put(&host, "sos_commands/kernel/dmesg", &with_prefix("[  503.100000] "));
    put(&host, "var/log/messages", &with_prefix("Nov 27 10:00:00 db1 kernel: "));
    put(&host, "sos_commands/logs/journalctl_--list-boots", &with_prefix("[    1.0] "));
    let ran = oom(&["oom", "--root"], &host);
    assert_eq!(ran.status, 3, "{}", ran.err);
    let flat = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let logs =
        "1 report of the OOM killer: 6 lines of sos_commands/kernel/dmesg, var/log/messages.";
    assert!(flat.contains(logs), "{flat}");
    assert!(flat.contains("worker (pid 41) was killed because the cgroup /web"), "{flat}");
    let found = oom(&["doctor", "--root"], &host);
    assert!(found.out.contains("worker (pid 41)"), "{}", found.out);
}

#[test]
fn what_was_not_collected_is_no_proof_of_no_kill() {
    let folder = empty_folder();
    put(folder.path(), "proc/meminfo", MEMINFO);
    let none = oom(&["oom", "--root"], folder.path());
    assert!(!none.out.contains("No process was killed"), "{}", none.out);
    put(folder.path(), "sos_commands/kernel/dmesg", "[  1.0] usb 1-1: new device\n");
    let found = oom(&["oom", "--root"], folder.path());
    assert!(found.out.contains("No kill was found: 1 line of"), "{}", found.out);
}

/// A crash dump, a must-gather, a flat folder: no files of /proc, but logs.
#[test]
fn logs_are_found_anywhere_in_a_folder() {
    for path in [
        "127.0.0.1-2026-11-27/vmcore-dmesg.txt",
        "must-gather.local.1/quay-io-x/nodes/n1/dmesg",
        "must-gather.local.1/quay-io-x/host_service_logs/masters/kubelet_service.log",
        "boot.txt",
        "dmesg.txt",
    ] {
        let folder = empty_folder();
        put(folder.path(), path, &with_prefix("[  503.100000] "));
        let ran = oom(&["oom"], folder.path());
        assert_eq!(ran.status, 3, "{path}: {}", ran.err);
        assert!(ran.out.contains("worker (pid 41)") && ran.out.contains("1 report"), "{}", ran.out);
        let no_host = oom(&["report", "--root"], folder.path());
        assert_eq!(no_host.status, 1);
        assert!(no_host.err.contains("pagewise oom FOLDER"), "{}", no_host.err);
    }
    let empty = empty_folder();
    let ran = oom(&["oom"], empty.path());
    assert!(ran.status == 1 && ran.err.contains("expected logs in this folder"), "{}", ran.err);
}

/// A machine whose swap is full, and which has killed.
const FIXTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/hosts/debian-trixie-6.12-x86_64-256m-oom-zram-full.tar"
);

/// The files of [`FIXTURE`] as a plain folder.
fn plain_copy(folder: &Path) -> std::path::PathBuf {
    let mut tar = std::process::Command::new("tar");
    assert!(tar.arg("-xf").arg(FIXTURE).arg("-C").arg(folder).status().unwrap().success());
    folder.join("end")
}

/// The files in some folders of a copy, at most `most` of each.
fn files(host: &Path, folders: &[&str], most: usize) -> Vec<std::path::PathBuf> {
    let of_folder = |folder: &&str| {
        let listed = std::fs::read_dir(host.join(folder)).into_iter().flatten();
        let mut paths: Vec<_> = listed.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths.into_iter().filter(|path| path.is_file()).take(most)
    };
    folders.iter().flat_map(of_folder).collect()
}

/// Files whose lack is named in the first lines, and by which words.
const NAMED: [(&str, &str); 4] = [
    ("meminfo", "memory totals"),
    ("vmstat", "counters (vmstat)"),
    ("zoneinfo", "zones"),
    ("swaps", "swap areas"),
];

/// Whichever file was not collected, the report does not claim that the machine lacks what the file
/// would have shown.
#[test]
fn a_file_that_was_not_collected_is_never_an_absence() {
    let folder = empty_folder();
    let host = plain_copy(folder.path());
    let folders = [
        "proc",
        "proc/pressure",
        "proc/sys/vm",
        "proc/sys/kernel",
        "sys/block/zram0",
        "sys/kernel/mm/transparent_hugepage",
        "sys/kernel/mm/lru_gen",
        "sys/module/zswap/parameters",
    ];
    let files = files(&host, &folders, 30);
    assert!(files.len() > 30, "{files:?}");
    let away = folder.path().join("away");
    for file in files {
        std::fs::rename(&file, &away).unwrap();
        let ran = oom(&["report", "--no-contents", "--no-pager", "--root"], &host);
        std::fs::rename(&away, &file).unwrap();
        assert_eq!(ran.status, 0, "{}: {}", file.display(), ran.err);
        for claim in ["none here", "no such file", "no swap", "No process was killed", "refused"] {
            let line = ran.out.lines().find(|line| line.contains(claim));
            assert_eq!(line, None, "without {}", file.display());
        }
        let name = file.file_name().unwrap().to_str().unwrap();
        if let Some((_, missing)) = NAMED.iter().find(|(file, _)| *file == name) {
            let flat = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
            let (_, rest) = flat.split_once("These are copies of some files").unwrap();
            assert!(rest.split_once(". ").unwrap().0.contains(missing), "{name}: {flat}");
        }
    }
}

/// Support tools store the output of commands where they do not copy the file.
#[test]
fn the_first_lines_name_the_machine_and_what_is_missing() {
    let folder = empty_folder();
    put(folder.path(), "proc/meminfo", MEMINFO);
    put(folder.path(), "uname", "Linux db1 5.14.0-70.el9.x86_64 #1 SMP x86_64 GNU/Linux\n");
    let ran = oom(&["report", "--root"], folder.path());
    let flat = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.starts_with("pagewise report · db1 · Linux 5.14.0-70.el9.x86_64 · 15.5 GiB RAM"));
    let missing =
        "without: counters (vmstat), pressure, zones, swap areas, MGLRU, processes, cgroups";
    assert!(flat.contains(missing), "{flat}");
    put(
        folder.path(),
        "sos_commands/kernel/sysctl_-a",
        "vm.page-cluster = 3\nvm.swappiness = 73\n",
    );
    put(folder.path(), "sos_commands/date/date", "Fri Nov 27 03:12:44 UTC 2026\n");
    let ran = oom(&["report", "--no-pager", "--root"], folder.path());
    let flat = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("in an sosreport of Fri Nov 27 03:12:44 UTC 2026, without"), "{flat}");
    assert!(flat.contains("vm.swappiness 73 60"), "{flat}");
}

/// A supportconfig has no folder `proc`: the files are in sections of a few texts.
#[test]
fn a_supportconfig_is_read_like_the_files_in_it() {
    let folder = empty_folder();
    let host = plain_copy(folder.path());
    let support = folder.path().join("scc_db1_261127");
    std::fs::create_dir(&support).unwrap();
    let section = |path: &str| {
        let text = std::fs::read_to_string(host.join(path)).unwrap();
        format!("#==[ Command ]==========================#\n# /bin/cat /{path}\n{text}\n")
    };
    let memory: String = ["proc/meminfo", "proc/vmstat", "proc/zoneinfo", "proc/swaps"]
        .into_iter()
        .map(section)
        .collect();
    put(&support, "memory.txt", &memory);
    let basic = "#==[ Command ]====#\n# /bin/date\nFri Nov 27 03:12:44 UTC 2026\n\n\
                 #==[ Command ]====#\n# /bin/uname -a\nLinux db1 5.14.21-150500 #1 SMP x86_64\n\n";
    put(&support, "basic-environment.txt", basic);
    put(&support, "env.txt", "#==[ Command ]====#\n# /sbin/sysctl -a\nvm.swappiness = 73\n");
    let archive = folder.path().join("scc_db1_261127.txz");
    let mut tar = std::process::Command::new("tar");
    tar.arg("-cJf").arg(&archive).arg("-C").arg(folder.path()).arg("scc_db1_261127");
    assert!(tar.status().unwrap().success());
    let total = oom(&["report", "--json", "--root"], &host);
    for root in [&support, &archive] {
        let text = oom(&["report", "--no-contents", "--no-pager", "--root"], root);
        assert_eq!(text.status, 0, "{}", text.err);
        let flat = text.out.split_whitespace().collect::<Vec<_>>().join(" ");
        let first = "pagewise report · db1 · Linux 5.14.21-150500 ·";
        assert!(flat.starts_with(first), "{flat}");
        let copies = "in a supportconfig of Fri Nov 27 03:12:44 UTC 2026, without: pressure,";
        assert!(flat.contains(copies), "{flat}");
        // the counters say that there was a kill, and no log was collected
        assert!(flat.contains("pagewise oom FILE # a log of this machine"), "{flat}");
        assert!(!flat.contains("no log has the kill"), "{flat}");
        let json = oom(&["report", "--json", "--root"], root);
        let value = |ran: &ProgramRun, path: &str| {
            let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
            document.pointer(path).cloned().unwrap_or_default()
        };
        for path in ["/memory/total/value", "/memory/free/value", "/tiers/0/size/value"] {
            assert_eq!(value(&json, path), value(&total, path), "{path}");
            assert!(value(&json, path).is_u64(), "{path}: {}", value(&json, path));
        }
        let knob = value(&json, "/knobs");
        let text = knob.to_string();
        assert!(text.contains("vm.swappiness") && text.contains("73"), "{text}");
    }
}

/// Files of `/proc` that somebody copied side by side.
#[test]
fn files_side_by_side_are_those_of_proc() {
    let folder = empty_folder();
    let host = plain_copy(folder.path());
    let flat = folder.path().join("flat");
    std::fs::create_dir(&flat).unwrap();
    for name in ["meminfo", "vmstat", "zoneinfo", "swaps"] {
        std::fs::copy(host.join("proc").join(name), flat.join(format!("{name}.txt"))).unwrap();
    }
    let of = |root: &Path| {
        let ran = oom(&["report", "--json", "--root"], root);
        let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        document.pointer("/memory/available/value").cloned()
    };
    assert!(of(&host).is_some() && of(&host) == of(&flat), "{:?}", of(&flat));
    // a folder of other things is no host
    std::fs::remove_file(flat.join("meminfo.txt")).unwrap();
    let ran = oom(&["report", "--root"], &flat);
    assert!(ran.status == 1 && ran.err.contains("next"), "{} {}", ran.status, ran.err);
}

/// What `sar -A` of sysstat 12.6 prints, in part.
const SAR: &str = "Linux 6.12.0 (db1) \t11/27/26 \t_x86_64_\t(2 CPU)\n\n\
    03:00:01    kbmemfree   kbavail kbmemused\n03:10:01       400000   9000000   7000000\n\
    03:20:01        40000    120000  16100000\nAverage:       220000   4560000  11550000\n\n\
    03:00:01    kbswpfree kbswpused  %swpused\n03:20:01            0    900000    100.00\n";

/// `why` names the worst time according to sar, from a folder and from an archive, and says how to make
/// a text of a binary file.
#[test]
fn the_worst_time_of_an_sosreport_is_that_of_sar() {
    let folder = empty_folder();
    let name = "sosreport-db1-2026";
    let host = folder.path().join(name);
    put(&host, "proc/meminfo", MEMINFO);
    put(&host, "sos_commands/sar/sar27", SAR);
    put(&host, "var/log/sa/sa26", "\u{96}d binary");
    put(&host, "var/log/sa/sa27", "\u{96}d binary");
    let archive = folder.path().join("sosreport-db1-2026.tar.xz");
    let mut tar = std::process::Command::new("tar");
    tar.arg("-cJf").arg(&archive).arg("-C").arg(folder.path()).arg(name);
    assert!(tar.status().unwrap().success());
    for root in [&host, &archive] {
        let root = root.to_str().unwrap();
        let text = run(&["why", "--root", root]);
        assert_eq!(text.status, 0, "{}", text.err);
        let flat = text.out.split_whitespace().collect::<Vec<_>>().join(" ");
        let worst = "worst time 03:20:01 on 11/27/26 · 117.2 MiB available";
        assert!(flat.contains(worst), "{flat}");
        assert!(flat.contains("swap 100.0 % full"), "{flat}");
        let command = "cd var/log/sa && LC_ALL=C sar -A -f sa26 > sar26";
        assert!(flat.contains(command) && !flat.contains("sa27"), "{flat}");
        let json = run(&["why", "--root", root, "--json"]);
        let document: serde_json::Value = serde_json::from_str(&json.out).unwrap();
        assert_eq!(document["sar"]["times"], 2, "{document}");
        assert_eq!(document["sar"]["least_available"]["available"], 120_000 * 1024);
        assert!(document["sar"]["most_waiting"].is_null(), "{document}");
    }
    std::fs::remove_dir_all(host.join("sos_commands")).unwrap();
    std::fs::remove_dir_all(host.join("var")).unwrap();
    let none = run(&["why", "--root", host.to_str().unwrap()]);
    assert!(!none.out.contains("sar"), "{}", none.out);
}
