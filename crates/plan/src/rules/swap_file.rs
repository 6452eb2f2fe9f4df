// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: adds a swap file on a disk, if memory is short and swap in compressed RAM cannot help or
//! is full.
//!
//! The file is in a folder that exists on every host (`/var`), and a systemd swap unit enables it
//! at each boot. The unit must have the name that `systemd-escape --path` prints.

use pagewise_facts::tiers::{DiskKind, disk_kind};
use pagewise_model::plan::{Change, Step, StepUndo, SwapFilePlan};
use pagewise_model::{Bytes, Disk, Name, OomHost, SwapFolder, Tier};

use super::PlanRule;
use crate::context::Context;
use crate::draft::{Draft, boot_step};
use crate::names::SWAP_FILE as PATH;

pub(super) const RULE: PlanRule = PlanRule {
    id: ID,
    findings: &[
        "memory-low",
        "memory-pressure",
        "oom-kills",
        "swap-full",
        "zram-full",
        "commit-limit",
    ],
    doc: "Adds a swap file on a disk if memory is short and zram cannot be used or is full.",
    add,
};

const ID: &str = "swap-file";
const UNIT: &str = r"/etc/systemd/system/var-pagewise\x2dswap\x2d0.swap";
const LINK: &str = r"/etc/systemd/system/swap.target.wants/var-pagewise\x2dswap\x2d0.swap";
const WHAT: &str = "add a swap file";
/// The swap file has half the size of RAM, but at least this many bytes.
const SMALLEST: u64 = 512 << 20;
const LARGEST: u64 = 8 << 30;
/// The swap file uses at most the free disk space divided by this.
const PART_OF_FREE: u64 = 4;
/// If the swap file would be smaller than this, in bytes, it is not worthwhile.
const LEAST: u64 = 256 << 20;

fn add(context: &Context<'_>, draft: &mut Draft) {
    if let Some((why, is_said)) = reason_against(context, draft) {
        if is_said || context.is_asked_for(ID) {
            draft.decline(WHAT, why);
        }
        return;
    }
    match plan_file(context, None) {
        Ok(to) => add_steps(context, draft, to),
        Err(why) => draft.decline(WHAT, why),
    }
}

/// Adds a swap file because the user requested it, with the requested size or the usual one.
pub(crate) fn add_wanted(context: &Context<'_>, draft: &mut Draft, size: Option<Bytes>) {
    if context.host.tiers.iter().any(|tier| tier.path.as_str() == PATH) {
        return draft.decline(WHAT, format!("{PATH} is on already"));
    }
    match plan_file(context, size) {
        Ok(to) => add_steps(context, draft, to),
        Err(why) => draft.decline(WHAT, why),
    }
}

/// Returns the reason against a swap file, and whether to print it even if nobody requested a swap
/// file. On a host that is not short of memory it is not printed, because the rule for zram gives
/// the same reason; nor is it printed if swap on a disk has free space.
fn reason_against(context: &Context<'_>, draft: &Draft) -> Option<(String, bool)> {
    if !context.is_host_short() {
        return Some((context.explain_swap_does_not_help(), false));
    }
    let free = |tier: &&Tier| tier.is_full() != Some(true);
    let described = |tier: &Tier| match tier.used.get().zip(tier.size.get()) {
        Some((used, size)) => format!("{} has room ({} in use)", tier.path, used.part_of(size)),
        None => format!("{} is in use, and how full it is was not read", tier.path),
    };
    if let Some(tier) = context.tiers_on_disk().find(free) {
        return Some((format!("swap on a disk has room: {}", described(tier)), false));
    }
    let is_zram = |step: &Step| matches!(step.change, Change::AddZramSwap { .. });
    if draft.steps.iter().any(is_zram) {
        let why = "the plan adds zram swap, from which the kernel reads pages much faster than from a disk. If that \
                   becomes full, plan again";
        return Some((why.to_owned(), false));
    }
    // the killed process freed its swap, so that the free space will be needed the next time
    if has_been_full_at_kill(context) {
        return None;
    }
    Some((described(context.tiers_in_ram().find(free)?), true))
}

/// Whether the kernel killed a process in this boot while less than a sixteenth of all swap was
/// free.
fn has_been_full_at_kill(context: &Context<'_>) -> bool {
    let kills = context.host.kernel_log.kills.iter().filter(|it| it.earlier_boot.is_none());
    let is_full = |host: &OomHost| {
        let (total, free) = (host.swap_total?.get(), host.swap_free?.get());
        Some(total > 0 && free < total / 16)
    };
    kills
        .filter(|it| it.group.is_none())
        .filter_map(|it| it.host.as_ref())
        .any(|it| is_full(it) == Some(true))
}

/// Returns the swap file to create; as an error, the reason why there is none.
fn plan_file(context: &Context<'_>, size: Option<Bytes>) -> Result<SwapFilePlan, String> {
    let against = context.reason_of_kubernetes();
    let against =
        if context.wants_swap_file() { context.reason_unless_overridden(against) } else { against };
    if let Some(why) = against {
        return Err(why);
    }
    let SwapFolder { disk, free_bytes } = &context.installation.swap_folder;
    let file_system = disk.file_system.value().map(Name::as_str);
    check_file_system(file_system)?;
    check_disk(disk, context.is_asked_for(ID) || context.wants_swap_file())?;
    let ram = context.ram().ok_or("the size of memory is not known")?;
    let free = free_bytes.ok_or("how much space is free in /var was not read")?;
    if let Some(size) = size {
        return plan_requested_file(size, free);
    }
    let size = (ram.get() / 2).clamp(SMALLEST, LARGEST).min(free.get() / PART_OF_FREE) >> 20 << 20;
    if size < LEAST {
        return Err(format!(
            "only {free} are free in /var, and a swap file is to take a quarter of the free space at most"
        ));
    }
    Ok(SwapFilePlan { size_bytes: Bytes::new(size), priority: None })
}

/// Returns a swap file of the size that the user requested, unless it would fill the disk.
fn plan_requested_file(size: Bytes, free: Bytes) -> Result<SwapFilePlan, String> {
    // a full /var affects more than swap: logs, the package manager, databases
    let most = Bytes::new(free.get() / 10 * 9);
    if size > most {
        return Err(format!("{free} are free in /var, and a file of {size} would fill it"));
    }
    Ok(SwapFilePlan { size_bytes: Bytes::new(size.get() >> 20 << 20), priority: None })
}

/// Returns an error if swap files on this file system are not possible or not advisable.
fn check_file_system(file_system: Option<&str>) -> Result<(), String> {
    match file_system {
        Some("ext4" | "xfs") => Ok(()),
        Some("btrfs") => {
            let why = "/var is on btrfs, which makes no snapshots of a subvolume with an active swap file. Make \
                       a subvolume for it: `btrfs subvolume create /swap`, then `btrfs filesystem mkswapfile \
                       --size 2G /swap/swapfile` and `swapon /swap/swapfile`; a line in /etc/fstab keeps it";
            Err(why.to_owned())
        }
        Some(other) => {
            Err(format!("/var is on {other}; this rule makes swap files only on ext4 and xfs"))
        }
        None => Err("the file system of /var is not known".to_owned()),
    }
}

/// Returns an error if this disk should not be written to often.
fn check_disk(disk: &Disk, is_asked_for: bool) -> Result<(), String> {
    let name = disk.lowest.value().map(Name::as_str).unwrap_or_default();
    match disk_kind(disk, false) {
        Some(DiskKind::Card) if !is_asked_for => Err(format!(
            "/var is on a memory card or eMMC ({name}), which wears out if the kernel swaps to it often. With \
             `--only {ID}` the plan contains it all the same"
        )),
        Some(DiskKind::Network) => Err(format!(
            "/var is on a disk that is reached over a network ({name}). To swap there takes memory when none is \
             free, and the machine can hang"
        )),
        _ => Ok(()),
    }
}

fn add_steps(context: &Context<'_>, draft: &mut Draft, to: SwapFilePlan) {
    let is_zram_left_out = draft.declined.iter().any(|it| it.what == super::zram::WHAT);
    draft.steps.push(swap_step(context, to, is_zram_left_out));
    if let Some(why) = context.reason_against_files() {
        return draft.note_lost("the swap file", why);
    }
    if context.start_place().is_some() {
        draft.started.file = Some(to);
        return;
    }
    let known = &context.installation.own_files;
    let text = unit(to);
    let needs = || vec![ID.to_owned()];
    if known.get(UNIT) != Some(&text) {
        let from = known.get(UNIT).cloned();
        let undo =
            if from.is_some() { "writes the earlier contents back" } else { "removes the file" };
        draft.steps.push(Step {
            change: Change::WriteFile { target: UNIT.to_owned(), from, to: text },
            reason: "With this unit, systemd switches the swap on at each boot.".to_owned(),
            needs: needs(),
            ..boot_step("swap-file-unit", undo)
        });
    }
    if !known.contains_key(UNIT) {
        draft.steps.push(Step {
            change: Change::MakeLink { target: LINK.to_owned(), from: None, to: UNIT.to_owned() },
            reason: "systemd starts the unit at boot only if this link exists.".to_owned(),
            needs: needs(),
            ..boot_step("swap-file-link", "removes the link")
        });
        draft.steps.push(Step {
            change: Change::ReloadUnits { target: "systemd".to_owned() },
            reason: "systemd knows the new unit only after it has read its unit files again."
                .to_owned(),
            risk: "none known; no unit is started or stopped".to_owned(),
            needs: needs(),
            ..boot_step("swap-file-reload", "reads the unit files again, without the new one")
        });
    }
}

fn swap_step(context: &Context<'_>, to: SwapFilePlan, is_zram_left_out: bool) -> Step {
    let state = context.verdict.line.trim_end_matches('.');
    let swap = match context.host.tiers.first() {
        Some(tier) if tier.is_full() == Some(true) => format!("{} is full", tier.path),
        Some(_) => "All swap was full when the kernel killed it".to_owned(),
        None if is_zram_left_out => {
            "There is no swap, and zram swap is left out (see below)".to_owned()
        }
        None => {
            "There is no swap. Swap in compressed RAM would be faster (`pagewise plan --want zram`)"
                .to_owned()
        }
    };
    let finding = RULE.findings.iter().find(|id| context.finding(id).is_some());
    Step {
        id: ID.to_owned(),
        change: Change::AddSwapFile { target: PATH.to_owned(), to },
        reason: format!(
            "{state}. {swap}. The kernel can then move pages that programs do not use to the disk. {}",
            if context.wants_sized_swap_file() {
                "The size is the one that was asked for."
            } else {
                "The size is half of RAM, but at least 512 MiB, at most 8 GiB, and at most a quarter of the \
                 free space in /var."
            }
        ),
        finding: finding.map(|&id| id.to_owned()),
        expected: None,
        risk: "to read a page from a disk takes much longer than from zram: if programs use more memory than there is, \
               they become very slow before the kernel kills one. Pages on the disk are not encrypted unless the disk \
               is"
            .to_owned(),
        cost: Some(format!("{} of space in /var", to.size_bytes)),
        coupled: vec!["vm.swappiness".to_owned()],
        needs: Vec::new(),
        undo: StepUndo::Restore {
            what: "switches the swap off, which reads its pages back into RAM, and removes the file".to_owned(),
        },
        survives_reboot: context.do_files_survive_reboot(),
    }
}

fn unit(to: SwapFilePlan) -> String {
    let priority = to.priority.map(|priority| format!("Priority={priority}\n"));
    format!(
        "\
# Written by pagewise (pagewise plan, pagewise apply). To undo: pagewise undo.
[Unit]
Description=Swap file of {size}, made by pagewise
ConditionVirtualization=!container

[Swap]
What={PATH}
{priority}
[Install]
WantedBy=swap.target
",
        size = to.size_bytes,
        priority = priority.unwrap_or_default(),
    )
}
