// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zram or zswap: the choice for many kinds of machines, with its reasons.
//!
//! Each row is a recorded host, unchanged or with changed files, and the expected choice.
//! `docs/decisions.md` is generated from this table: `BLESS=1 cargo test -p pagewise-decide --test
//! decisions` rewrites it.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests read and bless files")]

#[expect(dead_code, reason = "incidents of another table")]
mod plant;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use pagewise_decide::diagnose;
use pagewise_facts::swap_choice::Compression::{self, Neither, Zram, Zswap};
use pagewise_facts::swap_choice::{SwapDecision, SwapEvidence, SwapTrial, decide_swap};
use pagewise_testkit::scene::{Scene, slugs};

use plant::{PLAIN, V2_LIMIT, ZRAM, as_it_is, calm_group};

/// 7.2 with zswap, 213 MiB, no swap.
const NEW: &str = "debian-sid-7.2-x86_64-256m-oom-host";
/// 6.12 without zswap (Debian's cloud kernel), no swap.
const CLOUD: &str = "debian-trixie-6.12-x86_64-256m-oom-host";
/// 6.1 without zswap, no swap.
const OLD: &str = "debian-bookworm-6.1-x86_64-256m-oom-host";
/// 7.2 with zswap in front of zram, which is the only swap.
const STACKED: &str = "debian-sid-7.2-x86_64-512m-zswap-zram";
/// 6.1 with zram that has a lower priority than a disk.
const BEHIND: &str = "debian-bookworm-6.1-x86_64-512m-zram-behind-disk";

const GIB: u64 = 1 << 20;

/// One row of the table.
#[derive(Clone, Copy)]
struct Machine {
    /// A description as its owner would give it.
    what: &'static str,
    host: &'static str,
    plant: fn(Scene) -> Scene,
    evidence: fn() -> SwapEvidence,
    choice: Option<Compression>,
}

const fn row(
    what: &'static str,
    host: &'static str,
    plant: fn(Scene) -> Scene,
    choice: Option<Compression>,
) -> Machine {
    Machine { what, host, plant, evidence: SwapEvidence::default, choice }
}

/// The same machine with measured evidence.
const fn measured(machine: Machine, evidence: fn() -> SwapEvidence) -> Machine {
    Machine { evidence, ..machine }
}

#[rustfmt::skip]
const MACHINES: &[Machine] = &[
    row("server: 16 GiB of RAM, swap of 16 GiB on NVMe, 7.2", NEW, |host| nvme(large(host), 16 * GIB, GIB), Some(Zswap)),
    row("virtual machine: swap on a virtio disk that calls itself rotational, 7.2", NEW, |host| virtio(large(host)), Some(Zswap)),
    row("laptop: hibernation, swap on LVM on LUKS on NVMe, 7.2", NEW, |host| resumes(luks(large(host))), Some(Zswap)),
    row("server: encrypted swap (dm-crypt) on an SSD, 7.2", NEW, |host| crypt(large(host)), Some(Zswap)),
    row("server: swap on NVMe, zswap on, its shrinker off, 7.2", NEW, |host| zswap_on(nvme(large(host), 16 * GIB, GIB)), Some(Zswap)),
    row("container host: cgroups with memory limits, none at its limit, swap on NVMe, 7.2", V2_LIMIT, |host| nvme(calm_group(host), GIB, 0), Some(Zswap)),
    row("container host: a service is at its memory limit, swap on NVMe, 7.2", V2_LIMIT, |host| nvme(host, GIB, 0), None),
    row("container host: the service with most memory has memory.zswap.writeback 0, swap on NVMe, 7.2", V2_LIMIT, |host| plant::service(nvme(calm_group(host), GIB, GIB / 8), "zswap.writeback", "0\n"), None),
    row("flash-only board: swap on a memory card, 7.2", NEW, |host| on(large(host), "mmcblk0p2", "mmcblk0", "0", 16 * GIB), Some(Zram)),
    row("server: swap on a network disk (nbd), 7.2", NEW, |host| on(large(host), "nbd0", "nbd0", "0", 16 * GIB), Some(Zram)),
    row("server: swap on a hard disk, not virtual, 7.2", NEW, |host| on(not_virtual(large(host)), "sda2", "sda", "1", 16 * GIB), None),
    row("guest: RAM only, no disk, 7.2 (as recorded)", NEW, as_it_is, Some(Zram)),
    row("server: no swap at all, kernel for clouds without zswap, 6.12 (as recorded)", CLOUD, as_it_is, Some(Zram)),
    row("server: swap on NVMe, kernel for clouds without zswap, 6.12", CLOUD, |host| nvme(large(host), 16 * GIB, GIB), Some(Zram)),
    row("server: swap on NVMe, zswap without shrinker, 6.1", OLD, |host| old_zswap(nvme(large(host), 16 * GIB, GIB), "N"), Some(Zram)),
    row("server: swap on NVMe, zswap without shrinker is on already, 6.1", OLD, |host| old_zswap(nvme(large(host), 16 * GIB, GIB), "Y"), None),
    row("laptop: hibernation is set up, zram is the only swap, 6.18", ZRAM, |host| host.file("sys/power/resume", "254:2\n"), None),
    row("laptop: hibernation, swap on NVMe, no zswap, 6.12", CLOUD, |host| resumes(nvme(large(host), 16 * GIB, GIB)), Some(Zram)),
    row("desktop: zram is on and has room, swap on NVMe behind it, 7.2", NEW, |host| zram_too(nvme(large(host), 16 * GIB, 0), GIB), Some(Zram)),
    row("desktop: zram is full, swap on NVMe behind it, 7.2", NEW, |host| zram_too(nvme(large(host), 16 * GIB, GIB), 8 * GIB), None),
    row("zswap is on in front of zram, which is the only swap, 7.2 (as recorded)", STACKED, as_it_is, Some(Zram)),
    row("zram behind a full disk, no zswap, 6.1 (as recorded)", BEHIND, as_it_is, Some(Zram)),
    row("server: 16 GiB of RAM, swap of 1 GiB on NVMe, 7.2", NEW, |host| nvme(large(host), GIB, 0), Some(Zram)),
    row("server: swap on NVMe, multi-gen LRU off, 7.2", NEW, |host| nvme(large(host), 16 * GIB, 0).file("sys/kernel/mm/lru_gen/enabled", "0x0000\n"), None),
    row("server: swap on LVM, of which nothing more is known, 7.2", NEW, |host| on(large(host), "dm-7", "dm-7", "0", 16 * GIB), None),
    row("node of Kubernetes without swap, 7.2", NEW, kubernetes, Some(Neither)),
    row("container (docker), 6.18", PLAIN, |host| host.file("run/systemd/container", "docker\n"), Some(Neither)),
    measured(row("server: swap on NVMe, memory that does not compress (scan: 1.05 : 1), 7.2", NEW, |host| nvme(large(host), 16 * GIB, GIB), Some(Neither)), || SwapEvidence { ratio: Some(1.05), ..SwapEvidence::default() }),
    measured(row("server: swap on NVMe, hardly any cold pages (scan: 2 %), 7.2", NEW, |host| nvme(large(host), 16 * GIB, GIB), None), || SwapEvidence { cold: Some(0.02), ..SwapEvidence::default() }),
    measured(row("desktop: zram with room, 40 % of pages do not compress (scan), swap on NVMe behind it, 7.2", NEW, |host| zram_too(nvme(large(host), 16 * GIB, 0), GIB), None), || SwapEvidence { incompressible: Some(0.4), ..SwapEvidence::default() }),
    measured(row("server: swap on a hard disk, and a trial showed zswap to be better, 7.2", NEW, |host| on(not_virtual(large(host)), "sda2", "sda", "1", 16 * GIB), Some(Zswap)), || tried(Zswap)),
    measured(row("server: swap on NVMe, and a trial showed zram to be better, 7.2", NEW, |host| nvme(large(host), 16 * GIB, GIB), Some(Zram)), || tried(Zram)),
];

/// The result of a trial of a made-up command.
fn tried(better: Compression) -> SwapEvidence {
    let told = "In a trial with `build` (9 pairs of runs), time was 12.0 % lower with the better one (95 % interval 5.0 \
                to 20.0 %)";
    let trial = SwapTrial { better, told: told.to_owned() };
    SwapEvidence { trial: Some(trial), ..SwapEvidence::default() }
}

/// 16 GiB of RAM, of which half is available.
fn large(host: Scene) -> Scene {
    plant::available(host, 8 * GIB).line("proc/meminfo", "MemTotal:", "MemTotal: 16777216 kB")
}

/// Adds a line to the swap areas.
fn area(host: Scene, line: &str) -> Scene {
    let known = host.text("end", "proc/swaps").unwrap_or_default();
    let known = if known.is_empty() { "Filename\tType\tSize\tUsed\tPriority\n" } else { known };
    let text = format!("{known}{line}\n");
    host.file("proc/swaps", text)
}

/// Swap only on a partition or a whole disk, of `size` KiB.
fn on(host: Scene, device: &str, disk: &str, rotational: &str, size: u64) -> Scene {
    used_on(host, device, disk, rotational, size, 0)
}

fn used_on(host: Scene, device: &str, disk: &str, rotational: &str, size: u64, used: u64) -> Scene {
    let number = device.strip_prefix(disk).unwrap().trim_start_matches('p');
    let number = if number.is_empty() { String::new() } else { format!("PARTN={number}\n") };
    let host = host.file("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n");
    area(host, &format!("/dev/{device} partition {size} {used} -2"))
        .line("proc/meminfo", "SwapTotal:", &format!("SwapTotal: {size} kB"))
        .line("proc/meminfo", "SwapFree:", &format!("SwapFree: {} kB", size - used))
        .file(&format!("sys/class/block/{device}/uevent"), format!("DEVNAME={device}\n{number}"))
        .file(&format!("sys/block/{disk}/queue/rotational"), format!("{rotational}\n"))
}

fn nvme(host: Scene, size: u64, used: u64) -> Scene {
    used_on(host, "nvme0n1p3", "nvme0n1", "0", size, used)
}

fn virtio(host: Scene) -> Scene {
    on(host, "vda2", "vda", "1", 16 * GIB)
}

/// dm-crypt on a partition of an SSD.
fn crypt(host: Scene) -> Scene {
    on(host, "dm-0", "dm-0", "0", 16 * GIB)
        .file("sys/block/dm-0/dm/uuid", "CRYPT-\n")
        .file("sys/block/dm-0/slaves/sdb1", "")
        .file("sys/class/block/sdb1/uevent", "DEVNAME=sdb1\nPARTN=1\n")
}

/// LVM on LUKS on a partition of an NVMe disk.
fn luks(host: Scene) -> Scene {
    on(host, "dm-1", "dm-1", "0", 16 * GIB)
        .file("sys/block/dm-1/slaves/dm-0", "")
        .file("sys/class/block/dm-0/uevent", "DEVNAME=dm-0\n")
        .file("sys/block/dm-0/dm/uuid", "CRYPT-\n")
        .file("sys/block/dm-0/slaves/nvme0n1p3", "")
        .file("sys/class/block/nvme0n1p3/uevent", "DEVNAME=nvme0n1p3\nPARTN=3\n")
}

fn resumes(host: Scene) -> Scene {
    host.file("sys/power/resume", "254:2\n")
}

fn zswap_on(host: Scene) -> Scene {
    plant::zswap_on(host)
}

/// zswap as in the generic kernels of Debian 12.
fn old_zswap(host: Scene, enabled: &str) -> Scene {
    let file = |name: &str| format!("sys/module/zswap/parameters/{name}");
    host.file(&file("enabled"), format!("{enabled}\n"))
        .file(&file("compressor"), "lzo\n")
        .file(&file("max_pool_percent"), "20\n")
        .file(&file("accept_threshold_percent"), "90\n")
}

/// A physical machine.
fn not_virtual(host: Scene) -> Scene {
    let cpuinfo = host.text("end", "proc/cpuinfo").unwrap().replace(" hypervisor", "");
    let clock = "sys/devices/system/clocksource/clocksource0/available_clocksource";
    host.file("proc/cpuinfo", cpuinfo).file(clock, "tsc hpet acpi_pm\n")
}

/// zram of 8 GiB with a higher priority than the disk; `used` KiB are stored in it.
fn zram_too(host: Scene, used: u64) -> Scene {
    let stored = used * 1024;
    area(host, &format!("/dev/zram0 partition {} {used} 100", 8 * GIB))
        .file("sys/block/zram0/initstate", "1\n")
        .file("sys/block/zram0/disksize", format!("{}\n", 8 * GIB * 1024))
        .file("sys/block/zram0/mm_stat", format!("{stored} {0} {0} 0 {0} 0 0 0 0\n", stored / 3))
}

fn kubernetes(host: Scene) -> Scene {
    let file = |name: &str| format!("sys/fs/cgroup/kubepods.slice/memory.{name}");
    host.file(&file("current"), "4096\n")
        .file(&file("stat"), "anon 4096\n")
        .file(&file("events"), "max 0\n")
}

fn decided(machine: &Machine) -> SwapDecision {
    let interval = (machine.plant)(Scene::load(machine.host)).replay();
    decide_swap(&interval, &(machine.evidence)())
}

fn word(choice: Option<Compression>) -> &'static str {
    match choice {
        Some(Zram) => "zram",
        Some(Zswap) => "zswap",
        Some(Neither) => "neither",
        None => "not decided",
    }
}

#[test]
fn each_machine_gets_its_decision_in_two_sentences() {
    let mut failed = String::new();
    for machine in MACHINES {
        let decision = decided(machine);
        if decision.choice != machine.choice {
            let (got, want) = (word(decision.choice), word(machine.choice));
            writeln!(failed, "{}: {got}, not {want}: {}", machine.what, decision.why).unwrap();
        }
        let sentences = decision.why.matches(". ").count() + 1;
        assert!(sentences == 2 && decision.why.ends_with('.'), "{}", decision.why);
        assert!(decision.changes.ends_with('.') && !decision.why.contains("  "), "{decision:?}");
    }
    assert!(failed.is_empty(), "\n{failed}");
    assert!(MACHINES.len() >= 12);
}

/// The choice contradicts no finding of the same host: a finding sets up only what was chosen, or
/// nothing.
#[test]
fn no_decision_contradicts_a_finding() {
    let rows = MACHINES.iter().map(|it| (it.what.to_owned(), (it.plant)(Scene::load(it.host))));
    let recorded = slugs().into_iter().map(|slug| (slug.clone(), Scene::load(&slug)));
    let (mut zram, mut zswap) = (0, 0);
    for (name, scene) in rows.chain(recorded) {
        let interval = scene.replay();
        let decision = decide_swap(&interval, &SwapEvidence::default());
        for finding in diagnose(&interval) {
            let sets = |words: &[&str]| {
                finding.next.iter().any(|next| words.iter().any(|word| next.contains(word)))
            };
            if sets(&[
                "zramctl --size",
                "modprobe zram",
                "mkswap /dev/zram",
                "echo N | sudo tee /sys/module/zswap",
            ]) {
                assert_ne!(decision.choice, Some(Zswap), "{name}: {finding:#?}");
                zram += 1;
            }
            if sets(&["echo Y | sudo tee /sys/module/zswap"]) {
                assert_eq!(decision.choice, Some(Zswap), "{name}: {finding:#?}");
                zswap += 1;
            }
        }
    }
    assert!(zram >= 5 && zswap >= 3, "{zram} {zswap}");
}

/// The size and algorithm of zram are those that findings recommend.
#[test]
fn the_device_is_the_one_that_findings_recommend() {
    let mut compared = 0;
    for slug in slugs() {
        let interval = Scene::load(&slug).replay();
        let (algorithm, size) = decide_swap(&interval, &SwapEvidence::default()).zram;
        for next in diagnose(&interval).iter().flat_map(|finding| &finding.next) {
            let Some((_, rest)) = next.split_once("zramctl --size ") else { continue };
            let words: Vec<&str> = rest.split_whitespace().collect();
            assert_eq!(words[0], format!("{}M", size.get() >> 20), "{slug}");
            assert_eq!(words[2], algorithm.as_str(), "{slug}");
            compared += 1;
        }
    }
    assert!(compared >= 5, "{compared}");
}

const HEAD: &str = "# Decisions: zram or zswap

This page shows for machines of many kinds whether Pagewise chooses zram or zswap, and why. Look for the row that
resembles your machine. For your own machine, run `pagewise plan --why-not`: it prints the decision under *Considered
and left out*, with a command that compares zram and zswap with your own program ([plan.md](plan.md#zram-or-zswap)). If
the plan has a step that adds zram or enables zswap, this step has the reason.

Each row of the table is a host that was recorded with `pagewise capture`. In most recordings, files were then changed,
so that the host has the swap that the row describes. The test `crates/decide/tests/decisions.rs` prints this table, and
fails if Pagewise decides otherwise.

The column *decision* has one of four values:

- **zram**: swap on a zram device (compressed RAM).
- **zswap**: zswap with its shrinker, in front of swap on a disk. The shrinker writes cold pages from the pool of zswap
  to the disk.
- **neither**: compression is not possible on this machine, or would free no memory.
- **not decided**: what is known about the machine is not enough for a decision. The last column says what would decide
  it.

The column *why* gives the reasons for the decision, and then the reasons against it.

## What the decisions rest on

- **Measurements by the authors of Pagewise**, in small emulated guests with synthetic programs. Reads and writes of the
  disk with Linux 6.12 and 7.2 were measured in six or seven pairs of runs ([zram-or-zswap.md](zram-or-zswap.md)). The
  following was measured with at most four seeds and without statistics: reads and writes with Linux 6.1, the CPU time
  per page, how the number of swap slots limits zswap, the page faults of a cgroup at its limit, and what happens to
  pages that do not compress. Times on real disks were not measured.
- **The documentation and the source of the kernel**. zswap needs a swap slot on a disk for each page. The shrinker of
  zswap is off by default, and can be switched on at any time. The pool of zswap counts against the limit of a cgroup
  (version 2), and the memory of a zram device does not. Hibernation needs swap on a disk.

If Pagewise cannot read a value, it decides as it would with this value, or the result is *not decided*.

## Machines

| machine | decision | why | what would change this |
|---|---|---|---|
";

/// The reason that the rows about zswap share: what follows the facts about the disk of the first one.
fn shared_reason() -> String {
    let why = decided(&MACHINES[0]).why;
    why.split_once("; ").unwrap().1.to_owned()
}

/// Breaks a text into lines of at most 120 characters.
fn wrap(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().unwrap();
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= 120 {
            *last += &format!(" {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

#[test]
fn the_page_is_this_table() {
    let mut page = String::from(HEAD);
    let shared = shared_reason();
    for machine in MACHINES {
        let SwapDecision { choice, why, changes, .. } = decided(machine);
        let why =
            why.replace(&format!("; {shared}"), "; and [what zswap gains](#what-zswap-gains).");
        writeln!(page, "| {} | {} | {why} | {changes} |", machine.what, word(choice)).unwrap();
    }
    let server = decided(&MACHINES[0]);
    let gains = format!("Several rows have this reason, and what speaks against it: {shared}");
    writeln!(page, "\n## What zswap gains\n\n{}", wrap(&gains)).unwrap();
    write!(
        page,
        "\n## Measure it\n\nOn the first machine of the table, this command compares zram and zswap with your own program (CMD). The \
         program must\nneed more memory than the machine has:\n\n```\n{}\n```\n",
        server.trial.unwrap()
    )
    .unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/decisions.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(page, known, "docs/decisions.md: BLESS=1 rewrites it");
}

#[test]
fn no_machine_is_there_twice() {
    let hosts: BTreeSet<_> = MACHINES
        .iter()
        .map(|it| ((it.plant)(Scene::load(it.host)).into_files(), format!("{:?}", (it.evidence)())))
        .collect();
    assert_eq!(hosts.len(), MACHINES.len());
}
