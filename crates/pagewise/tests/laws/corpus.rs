// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A corpus of 120 logs: ten situations, each as twelve kernels print it, with what an expert reads in
//! it. The texts are made from the forms of `printk` in mm/oom_kill.c, mm/memcontrol.c and
//! mm/page_alloc.c of these kernels, with numbers of our own.

use pagewise_decide::oom::{explain_failures, explain_text};
use pagewise_model::{Bytes, KernelLog, OomConstraint, OomExplanation};

/// A kernel, by the forms that it prints.
#[derive(Debug, Clone, Copy)]
struct Kernel {
    release: &'static str,
    version: (u32, u32),
}

const KERNELS: [Kernel; 12] = [
    Kernel { release: "3.10.0-1160.el7.x86_64", version: (3, 10) },
    Kernel { release: "3.16.0-6-amd64", version: (3, 16) },
    Kernel { release: "4.4.0-210-generic", version: (4, 4) },
    Kernel { release: "4.9.0-13-amd64", version: (4, 9) },
    Kernel { release: "4.14.336-amzn2.x86_64", version: (4, 14) },
    Kernel { release: "4.19.0-27-amd64", version: (4, 19) },
    Kernel { release: "5.4.0-200-generic", version: (5, 4) },
    Kernel { release: "5.10.0-33-amd64", version: (5, 10) },
    Kernel { release: "5.15.0-125-generic", version: (5, 15) },
    Kernel { release: "6.1.0-41-amd64", version: (6, 1) },
    Kernel { release: "6.8.0-49-generic", version: (6, 8) },
    Kernel { release: "6.12.57+deb13-amd64", version: (6, 12) },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Situation {
    NoSwap,
    SwapFull,
    GroupLimit,
    GroupWithoutSwap,
    ZoneWithCma,
    HighMemory,
    NobodyKillable,
    Panic,
    SysRq,
    FailedAllocation,
}

const SITUATIONS: [Situation; 10] = [
    Situation::NoSwap,
    Situation::SwapFull,
    Situation::GroupLimit,
    Situation::GroupWithoutSwap,
    Situation::ZoneWithCma,
    Situation::HighMemory,
    Situation::NobodyKillable,
    Situation::Panic,
    Situation::SysRq,
    Situation::FailedAllocation,
];

const MIB: u64 = 1 << 20;
/// The victim: 1,200 MiB anonymous, 4 MiB of files, 1,500 MiB mapped.
const PID: u32 = 4242;

impl Kernel {
    fn is(self, major: u32, minor: u32) -> bool {
        self.version >= (major, minor)
    }

    fn mask(self, name: &str, old: &str) -> String {
        // names of the flags are printed since 4.6
        if self.is(4, 6) { format!("{old}({name})") } else { old.to_owned() }
    }

    fn head(self, situation: Situation) -> Vec<String> {
        let nodemask = if self.is(4, 9) && !self.is(5, 1) { "nodemask=(null), " } else { "" };
        let (mask, order) = match situation {
            Situation::ZoneWithCma | Situation::HighMemory => (self.mask("GFP_KERNEL", "0xcc0"), 0),
            Situation::SysRq => (self.mask("GFP_KERNEL", "0xcc0"), -1),
            _ => (self.mask("GFP_HIGHUSER_MOVABLE", "0x100cca"), 0),
        };
        let mask = if self.is(4, 6) { mask } else { old_mask(situation).to_owned() };
        let first = match situation {
            Situation::FailedAllocation => {
                let mode = if self.is(4, 6) {
                    "mode:0x40820(GFP_ATOMIC|__GFP_COMP)".to_owned()
                } else {
                    "mode:0x4020".to_owned()
                };
                format!("swapper/0: page allocation failure: order:3, {mode}")
            }
            _ => format!(
                "eater invoked oom-killer: gfp_mask={mask}, {nodemask}order={order}, oom_score_adj=0"
            ),
        };
        let who = if self.is(6, 11) { "CPU: 1 UID: 0 PID" } else { "CPU: 1 PID" };
        vec![
            first,
            "eater cpuset=/ mems_allowed=0".to_owned(),
            format!("{who}: {PID} Comm: eater Not tainted {} #1", self.release),
            "Call Trace:".to_owned(),
            " dump_stack+0x5c/0x80".to_owned(),
            " out_of_memory+0x1b9/0x3e0".to_owned(),
        ]
    }

    fn host(self, situation: Situation) -> Vec<String> {
        let (swap_free, swap_total) = match situation {
            Situation::SwapFull => (1024, 1_048_576),
            Situation::ZoneWithCma | Situation::HighMemory => (500_000, 524_288),
            _ => (0, 0),
        };
        let free = match situation {
            Situation::ZoneWithCma | Situation::HighMemory => 300_000,
            Situation::SysRq => 200_000,
            _ => 6_000,
        };
        let free_cma = if situation == Situation::ZoneWithCma { 128_000 } else { 0 };
        let mut lines = vec![
            "Mem-Info:".to_owned(),
            format!(
                "active_anon:320000 inactive_anon:10000 isolated_anon:0\n active_file:200 inactive_file:300 \
                 isolated_file:0\n unevictable:0 dirty:1 writeback:0 unstable:0\n slab_reclaimable:4000 \
                 slab_unreclaimable:6000\n mapped:900 shmem:2000 pagetables:1500 bounce:0\n free:{free} free_pcp:50 \
                 free_cma:{free_cma}"
            ),
        ];
        lines.extend(self.zones(situation));
        lines.extend([
            format!("Free swap  = {swap_free}kB"),
            format!("Total swap = {swap_total}kB"),
            format!("{} pages RAM", if free > 100_000 { 700_000 } else { 400_000 }),
            format!(
                "{} pages HighMem/MovableOnly",
                if situation == Situation::HighMemory { 500_000 } else { 0 }
            ),
            "20000 pages reserved".to_owned(),
        ]);
        lines
    }

    fn zones(self, situation: Situation) -> Vec<String> {
        let node = if situation == Situation::HighMemory { "" } else { "Node 0 " };
        let zone = |name: &str, free: u64, min: u64, cma: u64| {
            let low = min + 4000;
            format!(
                "{node}{name} free:{free}kB min:{min}kB low:{low}kB high:{low}kB managed:1600000kB free_cma:{cma}kB"
            )
        };
        match situation {
            Situation::ZoneWithCma => vec![
                zone("DMA", 520_000, 10_000, 512_000),
                "lowmem_reserve[]: 0 0 2800 2800".to_owned(),
                zone("HighMem", 900_000, 500, 0),
                "lowmem_reserve[]: 0 0 0 0".to_owned(),
            ],
            Situation::HighMemory => vec![
                zone("Normal", 3_000, 3_500, 0),
                "lowmem_reserve[]: 0 16000 16000".to_owned(),
                zone("HighMem", 1_190_000, 500, 0),
                "lowmem_reserve[]: 0 0 0".to_owned(),
            ],
            Situation::FailedAllocation => vec![
                zone("Normal", 90_000, 20_000, 0),
                "lowmem_reserve[]: 0 0 0 0".to_owned(),
                "Node 0 Normal: 20000*4kB (UME) 1250*8kB (UM) 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB 0*2048kB 0*4096kB = 90000kB".to_owned(),
            ],
            _ => Vec::new(),
        }
    }

    fn group(self, situation: Situation) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.is(4, 20) {
            lines.push("Task in /docker/3fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa9 killed as a result of limit of /docker/3fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa9".to_owned());
        }
        lines.push("memory: usage 1310720kB, limit 1310720kB, failcnt 1234".to_owned());
        let is_v2 = self.is(5, 10);
        match (situation, is_v2) {
            (Situation::GroupWithoutSwap, true) => {
                lines.push("swap: usage 0kB, limit 0kB, failcnt 0".to_owned());
            }
            (_, true) => {
                lines.push("swap: usage 0kB, limit 9007199254740988kB, failcnt 0".to_owned());
            }
            (Situation::GroupWithoutSwap, false) => {
                lines.push("memory+swap: usage 1310720kB, limit 1310720kB, failcnt 99".to_owned());
            }
            _ => lines.push(
                "memory+swap: usage 1310720kB, limit 9007199254740988kB, failcnt 0".to_owned(),
            ),
        }
        if self.is(5, 3) {
            lines.push("Memory cgroup stats for /docker/3fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa9:".to_owned());
            lines.push(
                "anon 1300234240\nfile 4194304\nkernel_stack 65536\nshmem 0\nunevictable 0"
                    .to_owned(),
            );
        } else {
            lines.push("Memory cgroup stats for /docker/3fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa9: cache:4096KB rss:1269760KB rss_huge:0KB shmem:0KB mapped_file:0KB swap:0KB".to_owned());
        }
        lines
    }

    fn table(self, barred: bool) -> Vec<String> {
        let score = if barred { -1000 } else { 0 };
        let (head, mid, width) = if self.is(6, 8) {
            (
                "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name",
                "307200     1024         0  2600000        0",
                8,
            )
        } else if self.is(4, 19) {
            (
                "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
                "2600000        0",
                7,
            )
        } else if self.is(4, 1) {
            (
                "[ pid ]   uid  tgid total_vm      rss nr_ptes nr_pmds swapents oom_score_adj name",
                "640       5        0",
                5,
            )
        } else {
            (
                "[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name",
                "640        0",
                5,
            )
        };
        let row = |pid: u32, vm: u32, rss: u32, name: &str| {
            format!("[{pid:>width$}]  1000  {pid} {vm:>8} {rss:>8} {mid} {score:>13} {name}")
        };
        let mut lines = Vec::new();
        if self.is(4, 19) {
            lines.push("Tasks state (memory values in pages):".to_owned());
        }
        lines.push(head.to_owned());
        lines.push(row(PID, 384_000, 308_224, "eater"));
        // its columns of 6.8 do not add up to its rss, as the kernel's counters may not either
        lines.push(row(77, 20_000, 1_000, "small one"));
        lines
    }

    fn kill(self, situation: Situation) -> Vec<String> {
        let of_group = matches!(situation, Situation::GroupLimit | Situation::GroupWithoutSwap);
        let what = if of_group { "Memory cgroup out of memory" } else { "Out of memory" };
        let sizes = if self.is(4, 5) {
            "total-vm:1536000kB, anon-rss:1228800kB, file-rss:4096kB, shmem-rss:0kB"
        } else {
            "total-vm:1536000kB, anon-rss:1228800kB, file-rss:4096kB"
        };
        if !self.is(5, 0) {
            return vec![
                format!("{what}: Kill process {PID} (eater) score 701 or sacrifice child"),
                format!("Killed process {PID} (eater) {sizes}"),
            ];
        }
        let (constraint, group) = if of_group {
            (
                "CONSTRAINT_MEMCG",
                "oom_memcg=/docker/3fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa9,task_memcg=/docker/3fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa9",
            )
        } else {
            ("CONSTRAINT_NONE", "global_oom,task_memcg=/user.slice")
        };
        let more = if self.is(5, 4) { ", UID:1000 pgtables:2600kB oom_score_adj:0" } else { "" };
        vec![
            format!(
                "oom-kill:constraint={constraint},nodemask=(null),cpuset=/,mems_allowed=0,{group},task=eater,pid={PID},uid=1000"
            ),
            format!("{what}: Killed process {PID} (eater) {sizes}{more}"),
        ]
    }

    fn log(self, situation: Situation) -> String {
        let mut lines = self.head(situation);
        lines.extend(match situation {
            Situation::GroupLimit | Situation::GroupWithoutSwap => self.group(situation),
            _ => self.host(situation),
        });
        match situation {
            Situation::FailedAllocation => {}
            Situation::NobodyKillable => {
                lines.extend(self.table(true));
                lines.push("Out of memory and no killable processes...".to_owned());
            }
            Situation::Panic => {
                lines.extend(self.table(false));
                lines.push(
                    "Kernel panic - not syncing: Out of memory: system-wide panic_on_oom is enabled".to_owned(),
                );
            }
            _ => {
                lines.extend(self.table(false));
                lines.extend(self.kill(situation));
            }
        }
        let mut text = String::new();
        for (number, message) in lines.iter().enumerate() {
            let head = format!("[  601.{:06}] ", number * 40);
            let message = message.replace('\n', &format!("\n{head}"));
            text.push_str(&format!("{head}{message}\n"));
        }
        text
    }
}

/// Names of the flags are not printed before 4.6, and their bits were others.
fn old_mask(situation: Situation) -> &'static str {
    match situation {
        Situation::ZoneWithCma | Situation::HighMemory | Situation::SysRq => "0xd0",
        _ => "0x280da",
    }
}

fn fact(explained: &OomExplanation, label: &str) -> String {
    let fact = explained.facts.iter().find(|fact| fact.label == label);
    fact.map(|fact| fact.text.clone()).unwrap_or_default()
}

/// What an expert reads in each log, whatever kernel printed it.
fn check(kernel: Kernel, situation: Situation, log: &KernelLog) {
    let of = format!("{} {situation:?}: {log:#?}", kernel.release);
    assert_eq!(log.not_understood, 0, "{of}");
    if situation == Situation::FailedAllocation {
        let failed = explain_failures(log);
        assert_eq!((log.kills.len(), failed.len()), (0, 1), "{of}");
        assert!(failed[0].title.starts_with("an allocation of swapper/0 failed"), "{of}");
        let why = fact(&failed[0], "why");
        assert!(why.contains("32.0 KiB in one piece"), "{why} {of}");
        return;
    }
    let [kill] = &log.kills[..] else { panic!("{of}") };
    let explained = explain_text(log).remove(0);
    let title = &explained.title;
    let is_group = matches!(situation, Situation::GroupLimit | Situation::GroupWithoutSwap);
    let constraint = if is_group { OomConstraint::Cgroup } else { OomConstraint::Host };
    assert_eq!(kill.constraint, Some(constraint), "{of}");
    assert_eq!(kill.tasks.first().map(|task| task.pid), Some(PID), "{of}");
    assert_eq!(kill.tasks[0].rss, Bytes::new(1204 * MIB), "{of}");
    assert_eq!(kill.tasks[0].total_vm, Some(Bytes::new(1500 * MIB)), "{of}");
    match situation {
        Situation::NobodyKillable => {
            assert_eq!(
                title, "the machine was out of memory and no process could be killed",
                "{of}"
            );
            return;
        }
        Situation::Panic => {
            assert!(
                title.starts_with("the machine ran out of memory and the kernel panicked"),
                "{title} {of}"
            );
            assert!(explained.change[0].contains("vm.panic_on_oom=0"), "{of}");
            return;
        }
        _ => {}
    }
    let victim = kill.victim.as_ref().unwrap_or_else(|| panic!("{of}"));
    assert_eq!((victim.pid, victim.anon), (PID, Some(Bytes::new(1200 * MIB))), "{of}");
    let why = fact(&explained, "why");
    let no_swap = fact(&explained, "why no swap");
    match situation {
        Situation::NoSwap => {
            assert!(title.ends_with("because the whole machine ran out of memory"), "{title} {of}");
            assert_eq!(no_swap, "the machine had no swap", "{of}");
        }
        Situation::SwapFull => {
            assert!(title.ends_with("because the whole machine ran out of memory"), "{title} {of}");
            assert!(no_swap.starts_with("swap was full: 1023.0 MiB of 1.0 GiB"), "{no_swap} {of}");
        }
        Situation::GroupLimit => {
            assert!(
                title.contains("the cgroup /docker/3fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa9 reached its memory limit (1.2 GiB)"),
                "{title} {of}"
            );
            assert!(
                explained.change.iter().any(|line| line.contains("docker update --memory")),
                "{of}"
            );
        }
        Situation::GroupWithoutSwap => {
            assert!(
                title.contains("the cgroup /docker/3fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa93fa9 reached its memory limit"),
                "{title} {of}"
            );
            assert!(no_swap.starts_with("the cgroup was not allowed to swap"), "{no_swap} {of}");
        }
        Situation::ZoneWithCma => {
            assert!(title.contains("because zone DMA ran out of memory"), "{title} {of}");
            assert!(
                why.contains("500.0 MiB of it are reserved for movable pages (CMA)"),
                "{why} {of}"
            );
        }
        Situation::HighMemory => {
            assert!(title.contains("because zone Normal ran out of memory"), "{title} {of}");
            assert!(why.contains("of zone HighMem were free and cannot be used"), "{why} {of}");
        }
        Situation::SysRq => {
            assert!(
                title.ends_with("because somebody asked the kernel to kill a process (SysRq f)"),
                "{title} {of}"
            );
        }
        Situation::NobodyKillable | Situation::Panic | Situation::FailedAllocation => {}
    }
}

#[test]
fn each_of_120_logs_is_read_as_an_expert_reads_it() {
    let mut read = 0;
    for kernel in KERNELS {
        for situation in SITUATIONS {
            let text = kernel.log(situation);
            let (log, about) =
                pagewise_observe::kernel_log_of_text(text.as_bytes(), "log").unwrap();
            assert_eq!(about.kernels.len(), 1, "{text}");
            assert_eq!(about.kernels[0].as_str(), kernel.release, "{text}");
            check(kernel, situation, &log);
            read += 1;
        }
    }
    assert_eq!(read, 120);
}
