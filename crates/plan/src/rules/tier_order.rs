// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A slower swap area that is filled before zram: zram is put above it, if little has to move for that.
//!
//! The priority of a swap area is fixed while it is on, so zram moves to a new device above the disk. An
//! empty one moves nothing.

use pagewise_model::{Bytes, Tier};

use super::PlanRule;
use super::zram::planned_zram;
use super::zram_size::{NEW, fits, replace};
use crate::context::Context;
use crate::draft::Draft;

pub(super) const RULE: PlanRule = PlanRule {
    id: "tier-order",
    findings: &["tier-order", "zram-unused"],
    doc: "Puts zram above a swap area on a disk that is filled first.",
    add,
};

fn add(context: &Context<'_>, draft: &mut Draft) {
    let Some(zram) = context.tiers_in_ram().next() else { return between_disks(context, draft) };
    let is_first = |disk: &&Tier| {
        disk.zswap_in_front.get() != Some(true)
            && disk.priority.get().zip(zram.priority.get()).is_some_and(|(disk, zram)| disk >= zram)
    };
    let Some(disk) = context.tiers_on_disk().find(is_first) else {
        return between_disks(context, draft);
    };
    let what = format!("give {} a higher priority than {}", zram.path, disk.path);
    let is_replaced = draft.steps.iter().any(|step| step.id == NEW);
    if is_replaced {
        return;
    }
    let in_disk = disk.used.get().unwrap_or_default();
    if !context.is_short() && in_disk == Bytes::new(0) && zram.used.get() == Some(Bytes::new(0)) {
        let why = "both are empty, and memory is not short, so the order does not matter now. To change it \
                   for the next boot, set the priority where the zram device is set up (pri= in fstab, \
                   Priority= of a swap unit, swap-priority= of zram-generator)";
        return draft.decline(what, why);
    }
    let planned = context.priority_above_all().and_then(|priority| planned_zram(context, priority));
    let used = zram.used.get().unwrap_or_default();
    let (Some(mut planned), Some(device)) = (planned, context.device(zram)) else {
        return draft.decline(what, "no higher priority exists, or the zram device was not read");
    };
    if !fits(context, used) {
        let why = format!(
            "{used} of pages have to move to a new device with a higher priority, and only {} are available",
            context.available()
        );
        return draft.decline(what, why);
    }
    if context.finding("zram-oversized").is_none() && context.finding("zram-full").is_none() {
        // Only the order is wrong: the size that somebody chose stays.
        planned.zram.disksize_bytes = device.disksize.get().unwrap_or(planned.zram.disksize_bytes);
        let limit = device.mm_stat.memory_limit.get().filter(|&limit| limit > Bytes::new(0));
        planned.zram.mem_limit_bytes = limit;
    }
    if let Some(algorithms) = device.algorithm.value() {
        planned.zram.compressor = pagewise_model::Compressor::new(algorithms.active.as_str());
    }
    let priority = |tier: &Tier| tier.priority.get().unwrap_or_default();
    let reason = format!(
        "The kernel fills {} (priority {}) before {} (priority {}), so {in_disk} of swapped pages are on the \
         disk. A new zram device of {} with priority {} will be filled first; pages on the disk stay there \
         until programs use them.",
        disk.path,
        priority(disk),
        zram.path,
        priority(zram),
        planned.zram.disksize_bytes,
        planned.zram.priority
    );
    let finding =
        if context.finding("tier-order").is_some() { "tier-order" } else { "zram-unused" };
    replace(context, draft, zram, device, &planned, &reason, finding);
}

/// Two disks in the wrong order: no step can change a priority.
fn between_disks(context: &Context<'_>, draft: &mut Draft) {
    let Some(finding) = context.finding("tier-order") else { return };
    let why = format!(
        "{} The areas are on disks. To change their order, set the priorities in the file that switches them \
         on (pri= in fstab, Priority= of a swap unit)",
        finding.what
    );
    draft.decline("another order of swap areas", why);
}
