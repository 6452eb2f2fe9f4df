// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines that run programs and lines that do not, for every format of file that a plan may write.

use super::*;
use pagewise_model::plan::{Goal, PlannedMachine, StepUndo, ZramSwap};
use pagewise_model::{Bytes, Compressor};
use proptest::prelude::*;

fn step(change: Change) -> Step {
    Step {
        id: "files".to_owned(),
        change,
        reason: String::new(),
        finding: None,
        expected: None,
        risk: String::new(),
        cost: None,
        coupled: Vec::new(),
        needs: Vec::new(),
        undo: StepUndo::Restore { what: String::new() },
        survives_reboot: true,
    }
}

fn plan(steps: Vec<Step>) -> Plan {
    Plan {
        id: String::new(),
        goal: Goal::Balanced,
        machine: PlannedMachine { machine_id_hash: None, memory_total_bytes: None, kernel: None },
        steps,
        declined: Vec::new(),
    }
}

fn write(path: &str, from: Option<&str>, to: &str) -> Step {
    let (target, from, to) = (path.to_owned(), from.map(str::to_owned), to.to_owned());
    step(Change::WriteFile { target, from, to })
}

fn commands_in(path: &str, from: Option<&str>, to: &str) -> Vec<usize> {
    let found = root_commands(&plan(vec![write(path, from, to)]));
    assert!(found.iter().all(|it| it.path == path && it.step == "files"), "{found:?}");
    found.into_iter().map(|it| it.line).collect()
}

const SYSCTL: &str = "/etc/sysctl.d/90-x.conf";
const TMPFILES: &str = "/etc/tmpfiles.d/x.conf";
const MODPROBE: &str = "/etc/modprobe.d/x.conf";
const UDEV: &str = "/etc/udev/rules.d/60-x.rules";
const UNIT: &str = "/etc/systemd/system/pagewise-x.service";
const DROP_IN: &str = "/etc/systemd/system/ssh.service.d/50-pagewise.conf";
const GENERATOR: &str = "/etc/systemd/zram-generator.conf";

/// Path of a file, a line in it, and whether the line runs a program.
const LINES: [(&str, &str, bool); 54] = [
    (SYSCTL, "kernel.core_pattern = |/tmp/x %p", true),
    (SYSCTL, "-kernel/core_pattern=|/tmp/x", true),
    (SYSCTL, "kernel.core_* = |/tmp/x", true),
    (SYSCTL, "kernel.core_pattern = core.%p", false),
    (SYSCTL, "kernel.modprobe = /tmp/x", true),
    (SYSCTL, "kernel.poweroff_cmd=/tmp/x", true),
    (SYSCTL, "fs.binfmt_misc.register = :x:M::x::/tmp/x:", true),
    (SYSCTL, "vm.swappiness = 10", false),
    (SYSCTL, "net.ipv4.conf.*.rp_filter = 1", false),
    (SYSCTL, "-vm.watermark_scale_factor=100", false),
    (TMPFILES, "w /sys/kernel/mm/lru_gen/enabled - - - - 7", false),
    (TMPFILES, "w! /proc/sys/vm/swappiness - - - - 7", false),
    (TMPFILES, "w /sys/block/zram*/mem_limit - - - - 1G", false),
    (TMPFILES, "d /run/x 0755 root root", false),
    (TMPFILES, "w /proc/sys/kernel/core_pattern - - - - |/tmp/x", true),
    (TMPFILES, "w /proc/sys/kernel/../kernel/modprobe - - - - /tmp/x", true),
    (TMPFILES, "w /sys/kernel/uevent_h* - - - - /tmp/x", true),
    (TMPFILES, "w /sys/kernel/uevent%%_helper - - - - /tmp/x", true),
    (TMPFILES, "f+ /etc/cron.d/x - - - - * * * * * root /tmp/x", true),
    (TMPFILES, "L+ /usr/bin/ls - - - - /tmp/x", true),
    (TMPFILES, "C /root/.ssh - - - - /tmp/x", true),
    (TMPFILES, "z /tmp/x 4755 root root", true),
    (TMPFILES, "w /etc/passwd - - - - x", true),
    (MODPROBE, "install zram /bin/sh -c true", true),
    (MODPROBE, "  remove zram /bin/sh -c true", true),
    (MODPROBE, "install\tzram /bin/sh", true),
    (MODPROBE, "options zram num_devices=2", false),
    (MODPROBE, "blacklist zram", false),
    (MODPROBE, "options zram install=1", false),
    (UDEV, r#"KERNEL=="zram0", RUN+="/bin/sh -c x""#, true),
    (UDEV, r#"KERNEL=="zram0",RUN{program} += "/bin/x""#, true),
    (UDEV, r#"KERNEL=="zram0", PROGRAM="/bin/x""#, true),
    (UDEV, r#"KERNEL=="zram0", PROGRAM=="/bin/x", RESULT=="y""#, true),
    (UDEV, r#"KERNEL=="zram0", IMPORT{program}="/bin/x""#, true),
    (UDEV, r#"KERNEL=="zram0", IMPORT="/bin/x""#, true),
    (UDEV, r#"ACTION=="add", ENV{SYSTEMD_WANTS}+="x.service""#, true),
    (UDEV, r#"ACTION=="add", SYSCTL{kernel.core_pattern}="|/x""#, true),
    (UDEV, r#"KERNEL=="a\"", RUN+="/bin/x""#, true),
    (UDEV, r#"KERNEL=="zram0", ATTR{disksize}="1G""#, false),
    (UDEV, r#"KERNEL=="zram0", ENV{X}="RUN PROGRAM", TAG+="y""#, false),
    (UDEV, r#"KERNEL=="zram0", RUN{builtin}+="kmod load x""#, false),
    (UDEV, r#"KERNEL=="zram0", IMPORT{builtin}="path_id""#, false),
    (UNIT, "ExecStart=/bin/x", true),
    (UNIT, "ExecCondition = /bin/x", true),
    (UNIT, "ExecStart=", false),
    (UNIT, "Type=oneshot", false),
    (UNIT, "Description=no Exec= here", false),
    (DROP_IN, "ExecStartPre=-/bin/x", true),
    (DROP_IN, "Environment=LD_PRELOAD=/tmp/x.so", true),
    (DROP_IN, "EnvironmentFile=/tmp/x", true),
    (DROP_IN, "MemoryLow=1G", false),
    (GENERATOR, "set!top = /bin/x", true),
    (GENERATOR, "zram-size = min(ram / 2, 4096)", false),
    ("/etc/modules-load.d/x.conf", "zram", false),
];

#[test]
fn every_line_is_judged_alone() {
    for (path, line, is_command) in LINES {
        let expected = if is_command { vec![1] } else { Vec::new() };
        assert_eq!(commands_in(path, None, line), expected, "{path}: {line}");
        assert_eq!(commands_in(path, None, &format!("# {line}\n")), [0; 0], "{path}: {line}");
        assert_eq!(commands_in(path, Some(line), line), [0; 0], "there before: {line}");
        for end in ['\r', '\0'] {
            // systemd reads this as two lines
            let text = format!("# a comment{end}{line}\n");
            assert_eq!(commands_in(path, None, &text), expected, "{path}: {text:?}");
        }
    }
}

#[test]
fn a_command_may_lie_over_several_lines() {
    for (path, text, lines) in [
        (MODPROBE, "inst\\\nall zram /bin/sh\n", vec![1]),
        (MODPROBE, "install\\\n  zram /bin/sh\n", vec![1]),
        // white space after the backslash: the next line does not continue this one
        (MODPROBE, "options a \\ \ninstall zram /bin/sh\n", vec![2]),
        (MODPROBE, "options a \\\\\ninstall zram /bin/sh\n", vec![1]),
        (UDEV, "KERNEL==\"x\", \\\n  RU\\\nN+=\"/bin/x\"\n", vec![1]),
        (UNIT, "[Service]\n# x\nExecStart=/bin/sh \\\n # c\n -c x\nType=oneshot\n", vec![3]),
    ] {
        assert_eq!(commands_in(path, None, text), lines, "{text}");
    }
}

#[test]
fn a_script_and_an_unknown_place_are_commands() {
    for path in ["/etc/init.d/pagewise", "/etc/runit/core-services/99-pagewise.sh", "/etc/x"] {
        assert_eq!(commands_in(path, None, "#!/bin/sh\n\n/bin/x\n/bin/y\n"), [3], "{path}");
    }
}

#[test]
fn what_this_program_writes_is_its_own_only_if_nothing_was_added() {
    let zram = ZramSwap {
        compressor: Compressor::new("zstd"),
        disksize_bytes: Bytes::new(1 << 30),
        mem_limit_bytes: None,
        priority: 100,
    };
    let unit = zram_files::unit_text(&zram);
    let own = |steps: Vec<Step>| root_commands(&plan(steps)).iter().all(|it| it.is_own);
    let swap = || step(Change::AddZramSwap { target: None, to: zram.clone() });
    let found = root_commands(&plan(vec![swap(), write(zram_files::UNIT, None, &unit)]));
    assert_eq!(found.len(), 2, "ExecStart and ExecStop: {found:?}");
    assert!(found.iter().all(|it| it.is_own));
    assert!(!own(vec![write(zram_files::UNIT, None, &unit)]), "for no device of the plan");
    let bare: String = unit.split_inclusive('\n').filter(|line| !line.starts_with('#')).collect();
    assert_ne!(bare, unit);
    assert!(own(vec![swap(), write(zram_files::UNIT, None, &bare)]), "comments do not count");
    for end in ["\r", "\0"] {
        let hidden = unit.replacen('#', &format!("# x{end}ExecStartPost=/bin/x{end}#"), 1);
        assert!(!own(vec![swap(), write(zram_files::UNIT, None, &hidden)]), "{end:?}");
    }
    let more = unit.replace("[Install]", "ExecStartPost=/bin/x\n\n[Install]");
    assert!(!own(vec![swap(), write(zram_files::UNIT, None, &more)]));
    assert!(!own(vec![swap(), write(UNIT, None, &unit)]), "at another place");
}

/// Whether anything in a text could run a program, judged by single words only. It reports rather
/// too many texts than too few.
fn runs_by_words(text: &str) -> bool {
    let words = [
        "|/",
        "modprobe",
        "_cmd",
        "register",
        "uevent",
        "install ",
        "install\t",
        "remove ",
        "RUN",
        "PROGRAM",
        "IMPORT",
        "WANTS",
        "SYSCTL{",
        "Exec",
        "Environment",
        "set!",
        "/etc/",
        "/usr/",
        "/root/",
        "/tmp/",
    ];
    words.iter().any(|word| text.contains(word))
}

proptest! {
    /// From any lines of a file, in any order and with comments in between, exactly the lines that
    /// run something are found. In a text without any word that could run something, nothing is
    /// found.
    #[test]
    fn exactly_the_lines_that_run_something_are_found(
        path in 0..LINES.len(),
        chosen in proptest::collection::vec((0..LINES.len(), any::<bool>(), any::<bool>()), 0..8),
    ) {
        let path = LINES[path].0;
        let of_path: Vec<_> = LINES.iter().filter(|it| it.0 == path).collect();
        let (mut text, mut expected, mut at) = (String::new(), Vec::new(), 0);
        let mut seen = BTreeSet::new();
        for (index, has_comment, has_gap) in chosen {
            let (_, line, is_command) = *of_path[index % of_path.len()];
            if !seen.insert(line) {
                continue;
            }
            if has_comment {
                text.push_str("# ExecStart=/x, RUN+=\"x\"\n");
                at += 1;
            }
            if has_gap {
                text.push_str("  \n");
                at += 1;
            }
            at += 1;
            text.push_str(&format!("{line}\n"));
            expected.extend(is_command.then_some(at));
        }
        let found = commands_in(path, None, &text);
        prop_assert!(found.is_empty() || runs_by_words(&text), "{}", text);
        prop_assert_eq!(found, expected, "{}", text);
    }
}
