// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: replaces a zram swap device in use that has the wrong size, or whose data does not
//! compress, if this is worth reading all its pages back into RAM.
//!
//! The size of a device in use cannot be changed. A new device with a higher priority receives the
//! pages of the old one, so that swapoff of the old device does not need free RAM for all of them.

use pagewise_model::plan::{Change, Step, StepUndo, SwapHeld};
use pagewise_model::{Bytes, Level, Severity, Tier, Zram};

use super::PlanRule;
use super::zram::{PlannedZram, capitalize, planned_zram, table_cost};
use crate::context::Context;
use crate::draft::Draft;
use crate::start_script::does_set_up_zram;
use crate::zram_files::{DROP_IN, UNIT, drop_in_text, unit_text};

pub(super) const RULE: PlanRule = PlanRule {
    id: "zram-size",
    findings: &["zram-full", "zram-oversized", "zram-incompressible"],
    doc: "Replaces a zram swap device of the wrong size, or adds a second one to a full one.",
    add,
};

/// The id of the step that creates a new zram device.
pub(super) const NEW: &str = "zram-new";
/// A change is not worthwhile if the new size and the present one differ by less than this factor.
const WORTH: f64 = 1.25;

fn add(context: &Context<'_>, draft: &mut Draft) {
    if context.finding("zram-incompressible").is_some() {
        draft.decline(
            "replace the zram device because its data does not compress",
            "no algorithm compresses encrypted or already compressed data, so a new device would hold the \
             same pages at the same size. In swap on a disk, such pages take no RAM",
        );
    }
    if let Some(finding) = context.finding("zram-full") {
        let tier = context.tiers_in_ram().find(|tier| tier.is_full() == Some(true));
        match tier.and_then(|tier| Some((tier, context.device(tier)?))) {
            Some((tier, device)) => add_for_full(context, draft, tier, device),
            None => draft.decline(
                "replace the zram device because it is near its mem_limit",
                format!(
                    "the mem_limit of a device in use can be changed without a new device: {}",
                    finding.next.first().map_or("", String::as_str)
                ),
            ),
        }
    }
    let is_changed = draft.steps.iter().any(|step| step.id == NEW);
    if let Some(finding) = context.finding("zram-oversized").filter(|_| !is_changed) {
        let is_warning = finding.severity >= Severity::Warning;
        shrink_oversized(context, draft, is_warning);
    }
}

/// Returns the only zram swap area. If there are several, the administrator has to decide which one
/// to replace.
fn only_zram<'a>(context: &Context<'a>) -> Option<(&'a Tier, &'a Zram)> {
    let mut tiers = context.tiers_in_ram();
    let only = tiers.next()?;
    if tiers.next().is_some() { None } else { Some((only, context.device(only)?)) }
}

fn add_for_full(context: &Context<'_>, draft: &mut Draft, tier: &Tier, device: &Zram) {
    let what = format!("more zram swap than {}", tier.path);
    let Some(Replacement { planned, size, used }) = find_replacement(context, tier) else {
        return draft.decline(what, "its size, its priority or the size of memory is not known");
    };
    let others = || context.tiers_in_ram().filter(|other| other.path != tier.path);
    if let Some(next) = others().find(|other| other.is_full() == Some(false)) {
        let why =
            format!("{} has room and takes the pages that are swapped out from now on", next.path);
        return draft.decline(what, why);
    }
    let recommended = planned.zram.disksize_bytes;
    let size = others().filter_map(|other| other.size.get()).fold(size, Bytes::saturating_add);
    if (recommended.get() as f64) < size.get() as f64 * WORTH {
        let why = format!(
            "the zram swap of {size} is not much smaller than the recommended {recommended}, and more of it \
             would leave too little RAM for the pages in use. Swap on a disk with a lower priority, or \
             programs that use less memory, would help"
        );
        return draft.decline(what, why);
    }
    let is_replaceable = context.verdict.host <= Level::Tight && do_pages_fit(context, used);
    if is_replaceable && only_zram(context).is_some() {
        let reason = format!(
            "{} is full ({used} of {size}), but its data takes only {} of RAM. This step adds a larger \
             device. {}.",
            tier.path,
            describe_size(device.mm_stat.memory_used.get()),
            capitalize(&planned.size)
        );
        return replace(context, draft, tier, device, &planned, &reason, "zram-full");
    }
    let more = Bytes::new(recommended.saturating_sub(size).get() >> 20 << 20);
    add_second_device(context, draft, tier, planned, more, used);
}

/// Adds a second zram device beside a full one, so that no pages have to move.
fn add_second_device(
    context: &Context<'_>,
    draft: &mut Draft,
    tier: &Tier,
    mut planned: PlannedZram,
    more: Bytes,
    used: Bytes,
) {
    planned.zram.disksize_bytes = more;
    planned.zram.mem_limit_bytes = None;
    let reason = format!(
        "{} is full with {used}, and memory is too short now to move its pages to a larger device. A second \
         device of {more} takes new pages instead, and nothing has to move.",
        tier.path
    );
    draft.steps.push(new_device(context, &planned, reason, "zram-full"));
    draft.decline(
        format!("one larger device that replaces {}, and keep it over a reboot", tier.path),
        "switching the full device off would move all of its pages while memory is short. Run `pagewise \
         plan` again when memory is not short",
    );
}

fn shrink_oversized(context: &Context<'_>, draft: &mut Draft, is_warning: bool) {
    let Some((tier, device)) = only_zram(context) else {
        return draft.decline(
            "smaller zram devices",
            "there are several devices, and it is not known which of them are needed",
        );
    };
    let what = format!("a smaller device instead of {}", tier.path);
    let Some(Replacement { planned, size, used }) = find_replacement(context, tier) else {
        return draft.decline(what, "its size, its priority or the size of memory is not known");
    };
    let recommended = planned.zram.disksize_bytes;
    if (size.get() as f64) < recommended.get() as f64 * WORTH {
        let why = format!(
            "its size of {size} is near the recommended {recommended}; other devices, or all devices \
             together, are too large"
        );
        return draft.decline(what, why);
    }
    let table = describe_size(device.slot_table.get());
    if !is_warning && used > Bytes::new(0) {
        let why = format!(
            "its size of {size} costs only its slot table ({table}), but it holds {used}, and to replace it, \
             all of its pages would have to be read back into RAM"
        );
        return draft.decline(what, why);
    }
    if !do_pages_fit(context, used) {
        let why = format!(
            "its pages ({used}) would have to move, and only {} are available",
            context.describe_available()
        );
        return draft.decline(what, why);
    }
    let reason = format!(
        "{} has a size of {size}, so its slot table takes {table} of RAM. This step adds a smaller one. {}.",
        tier.path,
        capitalize(&planned.size)
    );
    replace(context, draft, tier, device, &planned, &reason, "zram-oversized");
}

fn describe_size(size: Option<Bytes>) -> String {
    size.map_or_else(|| "an unknown amount".to_owned(), |size| size.to_string())
}

/// The recommended zram device with a priority above all swap areas, and the area that it could
/// replace.
struct Replacement {
    planned: PlannedZram,
    /// Size of the swap area to replace.
    size: Bytes,
    /// How much of the swap area to replace is in use.
    used: Bytes,
}

/// Returns the device that could replace this swap area; `None` if the size or use of the area is
/// not known.
fn find_replacement(context: &Context<'_>, tier: &Tier) -> Option<Replacement> {
    let planned = planned_zram(context, context.priority_above_all()?)?;
    Some(Replacement { planned, size: tier.size.get()?, used: tier.used.get()? })
}

/// Whether the area's pages certainly fit into the available RAM, even uncompressed.
pub(super) fn do_pages_fit(context: &Context<'_>, used: Bytes) -> bool {
    let available = context.host.memory.available.get().unwrap_or_default();
    used.get() <= available.get() / 2
}

fn new_device(context: &Context<'_>, planned: &PlannedZram, reason: String, finding: &str) -> Step {
    Step {
        id: NEW.to_owned(),
        change: Change::AddZramSwap { target: None, to: planned.zram.clone() },
        reason,
        finding: Some(finding.to_owned()),
        expected: context.measured.ratio(&planned.zram.compressor),
        risk: "data that does not compress takes as much RAM as before".to_owned(),
        cost: Some(table_cost(&planned.zram)),
        coupled: Vec::new(),
        needs: Vec::new(),
        undo: StepUndo::Restore {
            what:
                "switches the swap off, which reads its pages back into RAM, and removes the device"
                    .to_owned(),
        },
        survives_reboot: false,
    }
}

/// Adds a new zram device with a priority above the old one, and then disables swap on the old one.
pub(super) fn replace(
    context: &Context<'_>,
    draft: &mut Draft,
    tier: &Tier,
    device: &Zram,
    planned: &PlannedZram,
    reason: &str,
    finding: &'static str,
) {
    let held = SwapHeld {
        size_bytes: tier.size.get().unwrap_or_default(),
        used_bytes: tier.used.get().unwrap_or_default(),
        priority: tier.priority.get().unwrap_or_default(),
    };
    draft.steps.push(new_device(context, planned, reason.to_owned(), finding));
    draft.drains.push(drain_step(tier, held, finding));
    keep_over_reboot(context, draft, device, planned, &NEW_DEVICE);
}

fn drain_step(tier: &Tier, held: SwapHeld, finding: &str) -> Step {
    let risk = if held.used_bytes > Bytes::new(0) {
        format!(
            "all {} in it are read back into RAM, which takes seconds or minutes. If the pages of a cgroup \
             do not fit below its memory limit, the kernel could kill its processes, so apply checks this \
             first",
            held.used_bytes
        )
    } else {
        "none known while it is empty".to_owned()
    };
    Step {
        id: "zram-drain".to_owned(),
        change: Change::DrainSwap { target: tier.path.to_string(), from: held },
        reason: format!(
            "The new device replaces {}: it has a higher priority, so pages that leave RAM again go to the \
             new device.",
            tier.path
        ),
        finding: Some(finding.to_owned()),
        expected: None,
        risk,
        cost: Some("CPU time to decompress all of its pages".to_owned()),
        coupled: Vec::new(),
        needs: vec![NEW.to_owned()],
        undo: StepUndo::Restore {
            what: "sets the old device up again with the size, algorithm and priority that it had, but \
                   empty; its pages are not moved back"
                .to_owned(),
        },
        survives_reboot: false,
    }
}

/// A change of a zram device that should last over a reboot.
pub(super) struct Kept<'a> {
    /// The id of the step that changes the device now; it is the last step of the draft.
    pub(super) step: &'a str,
    /// A description of the change.
    pub(super) what: &'a str,
    /// The property of the device that the configuration file sets.
    pub(super) given: &'a str,
}

const NEW_DEVICE: Kept<'_> = Kept { step: NEW, what: "the new zram device", given: "size" };

/// Adds a step that changes the size or priority in the file that configures the device at boot, if
/// that file is known.
pub(super) fn keep_over_reboot(
    context: &Context<'_>,
    draft: &mut Draft,
    device: &Zram,
    planned: &PlannedZram,
    kept: &Kept<'_>,
) {
    let new = draft.steps.len().saturating_sub(1);
    if let Some(why) = context.reason_against_files() {
        return draft.note_lost(kept.what, why);
    }
    if context.start_place().is_some_and(|place| does_set_up_zram(context, place)) {
        if let Some(step) = draft.steps.get_mut(new).filter(|step| step.id == kept.step) {
            step.survives_reboot = context.do_files_survive_reboot();
        }
        draft.started.zram = Some(planned.zram.clone());
        return;
    }
    let own = &context.installation.own_files;
    let (target, to) = if own.contains_key(UNIT) {
        (UNIT, unit_text(&planned.zram))
    } else if context.owners().is_generator_active() {
        (DROP_IN, drop_in_text(&planned.zram, device.id))
    } else {
        let why = match context.owners().find_compressed_swap() {
            Some((name, path)) => {
                format!(
                    "{name} sets up the device at boot ({path}): change size and priority there"
                )
            }
            None => format!(
                "it is not known which program sets up {} at boot, and a second program would compete with \
                 it. To find the program: `grep -rs zram /etc/systemd /etc/udev /etc/default \
                 /etc/modprobe.d`",
                device.name()
            ),
        };
        return draft.decline(format!("keep {} over a reboot", kept.what), why);
    };
    if let Some(step) = draft.steps.get_mut(new).filter(|step| step.id == kept.step) {
        step.survives_reboot = true;
    }
    let from = own.get(target).cloned();
    let undo = if from.is_some() { "writes the earlier contents back" } else { "removes the file" };
    draft.steps.push(Step {
        id: "zram-file".to_owned(),
        change: Change::WriteFile { target: target.to_owned(), from, to },
        reason: format!("This file gives {} its {} at each boot.", device.name(), kept.given),
        finding: None,
        expected: None,
        risk: "the service that sets up the device must not be restarted while its swap is on"
            .to_owned(),
        cost: None,
        coupled: Vec::new(),
        needs: vec![kept.step.to_owned()],
        undo: StepUndo::Restore { what: undo.to_owned() },
        survives_reboot: true,
    });
}
