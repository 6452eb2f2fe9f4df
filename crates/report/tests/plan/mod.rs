// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plan with each kind of change.

#[allow(dead_code, clippy::allow_attributes, reason = "each test program uses a part of it")]
pub(crate) mod gains;

use pagewise_model::plan::{
    Change, Declined, Expected, Goal, Plan, PlannedMachine, Step, StepUndo, SwapFilePlan, SwapHeld,
    ZramSwap,
};
use pagewise_model::{Bytes, Compressor, Snapshot};
use pagewise_report::PlannedChanges;

use super::host;

fn step(id: &str, change: Change) -> Step {
    Step {
        id: id.to_owned(),
        change,
        reason: "A page costs less from zram than from the disk (5.1 us and 98.0 us).".to_owned(),
        finding: Some("zram-full".to_owned()),
        expected: None,
        risk: "programs whose idle memory is swapped out wait when they use it again".to_owned(),
        cost: None,
        coupled: Vec::new(),
        needs: Vec::new(),
        undo: StepUndo::Restore { what: "writes 60 back".to_owned() },
        survives_reboot: false,
    }
}

pub(crate) fn plan() -> Plan {
    let text = |text: &str| text.to_owned();
    let zram = ZramSwap {
        compressor: Compressor::with_level("zstd", 3),
        disksize_bytes: Bytes::new(8 << 30),
        mem_limit_bytes: Some(Bytes::new(6 << 30)),
        priority: 101,
    };
    let expected = Expected {
        metric: text("zram_original_per_memory_used"),
        value: 3.1,
        interval: [2.9, 3.3],
        before: None,
        source: text("pagewise scan: 20000 of 120000 pages compressed with zstd"),
    };
    let held = SwapHeld {
        size_bytes: Bytes::new(4 << 30),
        used_bytes: Bytes::new(1 << 30),
        priority: 100,
    };
    let swappiness =
        Change::SetKnob { target: text("vm.swappiness"), from: text("60"), to: text("150") };
    let file = Change::WriteFile {
        target: text("/etc/sysctl.d/90-pagewise.conf"),
        from: Some(text("# Written by pagewise\nvm.page-cluster = 0\n")),
        to: text("# Written by pagewise\nvm.page-cluster = 0\nvm.swappiness = 150\n"),
    };
    let unit = text("/etc/systemd/system/pagewise-zram.service");
    let link = Change::MakeLink {
        target: text("/etc/systemd/system/swap.target.wants/pagewise-zram.service"),
        from: None,
        to: unit,
    };
    let never = StepUndo::Never { because: text("its pages have moved") };
    let disk = SwapFilePlan { size_bytes: Bytes::new(2 << 30), priority: None };
    let steps = vec![
        Step {
            expected: Some(expected),
            cost: Some(text("up to 48.0 MiB of RAM for the table of slots")),
            ..step("zram-new", Change::AddZramSwap { target: None, to: zram })
        },
        step("swap-file", Change::AddSwapFile { target: text("/var/pagewise-swap-0"), to: disk }),
        Step { survives_reboot: true, ..step("swappiness", swappiness) },
        Step {
            needs: vec![text("swappiness")],
            survives_reboot: true,
            ..step("sysctl-file", file)
        },
        Step { risk: text("none known"), ..step("zram-link", link) },
        step("zram-reload", Change::ReloadUnits { target: text("systemd") }),
        Step {
            needs: vec![text("zram-new")],
            undo: never,
            ..step("zram-drain", Change::DrainSwap { target: text("/dev/zram0"), from: held })
        },
        step(
            "zram-priority",
            Change::SetSwapPriority { target: text("/dev/zram1"), from: -2, to: 100 },
        ),
    ];
    let declined = vec![Declined {
        what: text("switch multi-gen LRU on"),
        why: text("in our trials it ran no program faster"),
        is_about_finding: true,
    }];
    let machine = PlannedMachine {
        machine_id_hash: Some(text("00112233445566778899aabbccddeeff")),
        memory_total_bytes: Some(Bytes::new(16 << 30)),
        kernel: Some(text("6.12.107")),
    };
    Plan { id: text("0123456789abcdef"), goal: Goal::Balanced, machine, steps, declined }
}

pub(crate) fn planned<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> PlannedChanges<'a> {
    PlannedChanges { snapshot, plan, not_addressed: &[], why_not: false, cost: host::cost() }
}
