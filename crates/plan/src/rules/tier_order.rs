// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: a slower swap area is filled before zram. Gives zram a higher priority, if only little
//! data has to be moved for that.
//!
//! The priority of a swap area cannot be changed while it is enabled. Swap on an empty zram device
//! is disabled and enabled again. A device with data is replaced by a new device with a priority
//! above the disk's, so that zram swap is available all the time.

use pagewise_model::plan::{Change, Step, StepUndo};
use pagewise_model::{Bytes, Tier};

use super::PlanRule;
use super::zram::planned_zram;
use super::zram_size::{Kept, NEW, do_pages_fit, keep_over_reboot, replace};
use crate::context::Context;
use crate::draft::Draft;

pub(super) const RULE: PlanRule = PlanRule {
    id: "tier-order",
    findings: &["tier-order", "zram-unused"],
    doc: "Puts zram above a swap area on a disk that is filled first.",
    add,
};

fn add(context: &Context<'_>, draft: &mut Draft) {
    let Some(zram) = context.tiers_in_ram().next() else {
        return decline_between_disks(context, draft);
    };
    let is_first = |disk: &&Tier| {
        disk.zswap_in_front.get() != Some(true)
            && disk.priority.get().zip(zram.priority.get()).is_some_and(|(disk, zram)| disk >= zram)
    };
    let Some(disk) = context.tiers_on_disk().find(is_first) else {
        return decline_between_disks(context, draft);
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
    if !do_pages_fit(context, used) {
        let why = format!(
            "{used} of pages have to move to a new device with a higher priority, and only {} are available",
            context.describe_available()
        );
        return draft.decline(what, why);
    }
    if context.finding("zram-oversized").is_none() && context.finding("zram-full").is_none() {
        // only the order is wrong, so the size is not changed
        planned.zram.disksize_bytes = device.disksize.get().unwrap_or(planned.zram.disksize_bytes);
        let limit = device.mm_stat.memory_limit.get().filter(|&limit| limit > Bytes::new(0));
        planned.zram.mem_limit_bytes = limit;
    }
    if let Some(algorithms) = device.algorithm.value() {
        planned.zram.compressor = pagewise_model::Compressor::new(algorithms.active.as_str());
    }
    let priority = |tier: &Tier| tier.priority.get().unwrap_or_default();
    let state = format!(
        "The kernel fills {} (priority {}) before {} (priority {}), so {in_disk} of swapped pages are on the \
         disk.",
        disk.path,
        priority(disk),
        zram.path,
        priority(zram)
    );
    let to = planned.zram.priority;
    let finding =
        if context.finding("tier-order").is_some() { "tier-order" } else { "zram-unused" };
    if used == Bytes::new(0)
        && planned.zram.disksize_bytes == device.disksize.get().unwrap_or_default()
    {
        let reason = format!(
            "{state} With priority {to}, {} will be filled first; pages on the disk stay there until programs use \
             them.",
            zram.path
        );
        draft.steps.push(raise_step(zram, to, reason, finding));
        let what = format!("the priority of {}", zram.path);
        let kept = Kept { step: RAISE, what: &what, given: "priority" };
        return keep_over_reboot(context, draft, device, &planned, &kept);
    }
    let reason = format!(
        "{state} A new zram device of {} with priority {to} will be filled first; pages on the disk stay there until \
         programs use them.",
        planned.zram.disksize_bytes
    );
    replace(context, draft, zram, device, &planned, &reason, finding);
}

/// The id of the step that changes the priority of an empty zram device.
const RAISE: &str = "zram-priority";

fn raise_step(zram: &Tier, to: i16, reason: String, finding: &str) -> Step {
    let from = zram.priority.get().unwrap_or_default();
    Step {
        id: RAISE.to_owned(),
        change: Change::SetSwapPriority { target: zram.path.to_string(), from, to },
        reason,
        finding: Some(finding.to_owned()),
        expected: None,
        risk: format!("{} is not available as swap for a moment", zram.path),
        cost: None,
        coupled: Vec::new(),
        needs: Vec::new(),
        undo: StepUndo::Restore { what: format!("gives it priority {from} again") },
        survives_reboot: false,
    }
}

/// Declines the change if two disks are in the wrong order, because no step can change the priority
/// of a disk.
fn decline_between_disks(context: &Context<'_>, draft: &mut Draft) {
    let Some(finding) = context.finding("tier-order") else { return };
    let why = format!(
        "{} The areas are on disks. To change their order, set the priorities in the file that switches them \
         on (pri= in fstab, Priority= of a swap unit)",
        finding.what
    );
    draft.decline("another order of swap areas", why);
}
