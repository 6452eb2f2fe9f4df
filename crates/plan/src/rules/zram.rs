// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: adds swap in compressed RAM if there is none and memory is short.

use pagewise_facts::ratio::measured_ratio;
use pagewise_facts::swap_choice::{Compression, DENSE, size_mib, zram_size};
use pagewise_model::plan::{Change, Goal, Step, StepUndo, ZramSwap};
use pagewise_model::{Bytes, Compressor, FeatureState, Hierarchy, Ratio, Snapshot, ZramUse};

use super::PlanRule;
use crate::compressor;
use crate::context::Context;
use crate::draft::{Draft, boot_step};
use crate::zram_files::{DROP_IN, LINK, UNIT, drop_in_text, unit_text};

pub(super) const RULE: PlanRule = PlanRule {
    id: "zram",
    findings: &[
        "zram-unused",
        "memory-low",
        "memory-pressure",
        "memory-grows",
        "oom-kills",
        "swap-full",
        "swap-avoids-anon",
        "commit-limit",
    ],
    doc: "Adds swap in compressed RAM if there is none and memory is short.",
    add,
};

pub(super) const WHAT: &str = "add swap in compressed RAM (zram)";
/// The compression ratio that the recommended size assumes if none was measured.
const ASSUMED_RATIO: f64 = 2.0;
/// For the goal ratio, zram is planned if less than this percentage of RAM is available.
const RATIO_PERCENT: f64 = 50.0;
/// Size of a page's slot in the slot table: 16 to 24 bytes, depending on the kernel.
const SLOT_BYTES: u64 = 24;
/// A device whose slot table takes more than this percentage of RAM is refused.
const MOST_TABLE_PERCENT: f64 = 5.0;

fn add(context: &Context<'_>, draft: &mut Draft) {
    if context.tiers_in_ram().next().is_some() {
        return;
    }
    if let Some(why) = reason_not_wanted(context) {
        // zram is suggested for a machine without swap, whether or not there is a problem
        if context.host.tiers.is_empty() {
            return draft.decline_openly(WHAT, why);
        }
        return draft.decline(WHAT, why);
    }
    if let Some(why) = reason_not_possible(context) {
        return draft.decline(WHAT, why);
    }
    if let Some(why) = reason_for_zswap(context) {
        return draft.decline("zram", why);
    }
    add_steps(context, draft, None);
}

/// Adds swap in compressed RAM because the user requested it, with the requested size or the
/// recommended one.
pub(crate) fn add_wanted(context: &Context<'_>, draft: &mut Draft, size: Option<Bytes>) {
    if let Some(tier) = context.tiers_in_ram().next() {
        let size = tier.size.get().map(|size| format!(", {size}")).unwrap_or_default();
        let why = format!(
            "swap in compressed RAM is on already ({}{size}). `pagewise plan --only zram-size` compares its \
             size with the recommended one",
            tier.path
        );
        return draft.decline(WHAT, why);
    }
    let against =
        reason_not_possible(context).or_else(|| reason_if_too_large(context, size)).or_else(|| {
            let doubts = context
                .reason_of_kubernetes()
                .or_else(|| reason_of_zswap_on(context))
                .or_else(|| reason_if_never_full(context, size));
            context.reason_unless_overridden(doubts)
        });
    match against {
        Some(why) => draft.decline(WHAT, why),
        None => add_steps(context, draft, size),
    }
}

/// Returns why a device of this size would do harm; `None` if it would not.
fn reason_if_too_large(context: &Context<'_>, size: Option<Bytes>) -> Option<String> {
    let (size, ram) = (size?, context.ram()?);
    let table = slot_table(size);
    let is_too_large = table.percent_of(ram).is_some_and(|part| part.get() > MOST_TABLE_PERCENT);
    is_too_large.then(|| {
        format!(
            "a device of {size} takes {table} of the {ram} of RAM for its slot table alone, even while it is \
             empty. The recommended size is that of `--want zram`, without a size"
        )
    })
}

/// Returns why a device of this size could never be full; `None` if it could.
fn reason_if_never_full(context: &Context<'_>, size: Option<Bytes>) -> Option<String> {
    let (size, ram) = (size?, context.ram()?);
    let ratio = measured_ratio(context.host).map_or(ASSUMED_RATIO, Ratio::get);
    let limit = mem_limit(ram);
    let full = size.get() as f64 / ratio;
    (full > limit.get() as f64 * 1.5).then(|| {
        format!(
            "at a compression ratio of {ratio:.1} : 1 it reaches {limit} of RAM, where the plan limits it, long before \
             it holds {size}; the rest is only a larger slot table"
        )
    })
}

/// Returns why pages would be compressed twice with zram; `None` if zswap is off.
fn reason_of_zswap_on(context: &Context<'_>) -> Option<String> {
    (context.host.zswap.enabled.get() == Some(true)).then(|| {
        "zswap is on and would compress pages before zram does it again. Switch it off in the same plan: \
         --want zram --want zswap.enabled=N"
            .to_owned()
    })
    .filter(|_| !context.wants_zswap_off())
}

fn add_steps(context: &Context<'_>, draft: &mut Draft, size: Option<Bytes>) {
    let Some(priority) = context.priority_above_all() else {
        return draft.decline(WHAT, "a swap area has the highest possible priority already, 32767");
    };
    let Some(mut planned) = planned_zram(context, priority) else {
        return draft.decline(WHAT, "the size of memory is not known");
    };
    if let Some(size) = size {
        planned.size = format!(
            "the size is the one that was asked for; recommended is {}, because {}",
            planned.zram.disksize_bytes, planned.size
        );
        planned.zram.disksize_bytes = size;
    }
    draft.first_zram = Some(planned.zram.compressor.algorithm.clone());
    let generator = context.installation.has_generator
        && context.reason_against_files().is_none()
        && context.start_place().is_none();
    let number = generator.then(|| first_free_number(context.host));
    draft.steps.push(swap_step(context, &planned, number));
    add_files(context, draft, &planned.zram, number);
}

/// The planned zram device, and the reasons for its properties.
pub(super) struct PlannedZram {
    pub(super) zram: ZramSwap,
    /// The reason for the compression algorithm.
    pub(super) algorithm: String,
    /// The reason for the device's size.
    pub(super) size: String,
}

/// Returns the zram device that a plan recommends for this host and goal.
pub(super) fn planned_zram(context: &Context<'_>, priority: i16) -> Option<PlannedZram> {
    let ram = context.ram()?;
    let choice = match context.measured.zram(context.goal, ram) {
        Some(choice) => {
            let ratio = choice.original_per_memory_used;
            let why = format!("{}, the best for this goal in `pagewise bench`", choice.contender);
            SizedCompressor {
                compressor: choice.contender,
                disksize: choice.disksize_bytes,
                algorithm: why,
                size: describe_size(ratio, "measured by `pagewise bench`"),
            }
        }
        None => choose_unmeasured(context, ram),
    };
    let SizedCompressor { compressor, disksize: disksize_bytes, algorithm, size } = choice;
    // when the limit is reached, writes fail and pages stay in RAM, so compressible data must not
    // reach it
    let limit = mem_limit(ram);
    let zram = ZramSwap { compressor, disksize_bytes, mem_limit_bytes: Some(limit), priority };
    Some(PlannedZram { zram, algorithm, size })
}

/// Returns the maximum RAM that a new device may use.
fn mem_limit(ram: Bytes) -> Bytes {
    Bytes::new((ram.get() / 4 * 3) >> 20 << 20)
}

fn describe_size(ratio: f64, from: &str) -> String {
    format!(
        "at a compression ratio of {ratio:.1} : 1 ({from}), the new device takes half of RAM when it is full"
    )
}

/// A compressor, and the size of a device that uses it, with the reasons.
struct SizedCompressor {
    compressor: Compressor,
    disksize: Bytes,
    /// The reason for the compression algorithm.
    algorithm: String,
    /// The reason for the device's size.
    size: String,
}

/// Chooses the compressor and size of a zram device if `bench` measured nothing.
fn choose_unmeasured(context: &Context<'_>, ram: Bytes) -> SizedCompressor {
    let expected = |compressor: &Compressor| context.measured.ratio(compressor);
    let compressor = compressor::choose_for_goal(context.goal, context.host);
    let algorithm = if context.goal == Goal::Ratio && compressor.algorithm.as_str() == DENSE {
        "zstd, because the goal is ratio: in a trial by the authors of Pagewise with redis, it used 45 % less \
         memory and 52 % more CPU time than lz4"
            .to_owned()
    } else {
        format!(
            "{}, which read pages back fastest in measurements by the authors of Pagewise",
            compressor.algorithm
        )
    };
    let is_enough = context.measured.is_enough_to_size();
    if let Some(scanned) = expected(&compressor).filter(|_| is_enough) {
        let disksize = zram_size(ram, Some(scanned.value));
        let size = describe_size(scanned.value, "predicted by `pagewise scan`");
        return SizedCompressor { compressor, disksize, algorithm, size };
    }
    let disksize = Bytes::new(size_mib(context.host) << 20);
    let size = match measured_ratio(context.host).map(Ratio::get) {
        Some(ratio) => describe_size(ratio, "measured on this host's zram"),
        None => describe_size(ASSUMED_RATIO, "assumed, because nothing was measured"),
    };
    SizedCompressor { compressor, disksize, algorithm, size }
}

fn reason_not_wanted(context: &Context<'_>) -> Option<String> {
    if let Some(why) = context.reason_of_kubernetes() {
        return Some(why);
    }
    let is_low = context.available_percent().is_some_and(|percent| percent < RATIO_PERCENT);
    if context.is_host_short() || (context.goal == Goal::Ratio && is_low) {
        return None;
    }
    let why = context.explain_swap_does_not_help();
    if !context.host.tiers.is_empty() || context.is_short() {
        return Some(why);
    }
    Some(format!("{why}. To have it before memory is short: `pagewise plan --want zram`"))
}

/// Returns the reason against zram: zswap is the better choice, or it is not decided which is
/// better and zswap is enabled.
fn reason_for_zswap(context: &Context<'_>) -> Option<String> {
    let decision = &context.swap;
    let zswap = &context.host.zswap;
    let is_zswap_on = zswap.enabled.get() == Some(true);
    match decision.choice {
        Some(Compression::Zram) => None,
        Some(Compression::Zswap) if is_zswap_on && zswap.shrinker_enabled.get() == Some(true) => {
            Some(format!(
                "zswap and its shrinker are on, and are the better choice here: {}",
                decision.argument()
            ))
        }
        Some(Compression::Zswap) => Some(format!(
            "zswap is the better choice here (`pagewise plan --only zswap`). {}",
            decision.next()
        )),
        Some(Compression::Neither) => Some(decision.argument()),
        // if it is not decided, zram is added unless zswap is enabled, because pages would be
        // compressed twice
        None => is_zswap_on.then(|| decision.argument()),
    }
}

fn reason_not_possible(context: &Context<'_>) -> Option<String> {
    let host = context.host;
    let state = host.capability("zram").map(|capability| &capability.state);
    let why = match state {
        Some(FeatureState::Present | FeatureState::Loadable { .. }) => None,
        Some(FeatureState::NotBuilt { option }) => {
            Some(format!("this kernel was built without zram ({option})"))
        }
        Some(FeatureState::Missing) | None => {
            Some("this kernel has neither zram built in nor a zram module".to_owned())
        }
        Some(other) => Some(format!("zram is not available here ({other:?})")),
    };
    why.or_else(|| reason_of_owner(context)).or_else(|| reason_of_hibernation(context))
}

fn reason_of_owner(context: &Context<'_>) -> Option<String> {
    if let Some((place, mended)) = context.owners().find_rejected_line() {
        return Some(format!(
            "zram-generator is configured on this host, but refuses {place} and therefore sets up nothing. \
             Mend that line first{mended}; a second file would be refused with it"
        ));
    }
    let (name, path) = context.owners().find_compressed_swap()?;
    Some(format!(
        "{name} is configured to set up compressed swap on this host ({path}), but none is in use. Find out \
         why it failed (systemctl --failed); a second program for the same device could make both fail"
    ))
}

fn reason_of_hibernation(context: &Context<'_>) -> Option<String> {
    let device = context.owners().resume_device()?;
    context.tiers_on_disk().next().is_none().then(|| {
        format!(
            "the host is set up to resume from hibernation (device {device}), but no swap on a disk is on. \
             Switch such swap on first, because zram cannot keep the hibernation image"
        )
    })
}

/// Returns the number of a zram device that is not in use, for zram-generator.
fn first_free_number(host: &Snapshot) -> u32 {
    let is_used = |number: u32| {
        let device = host.zram.iter().find(|device| device.id == number);
        device.is_some_and(|device| device.used_as.value() != Some(&ZramUse::NotInitialised))
    };
    (0..u32::MAX).find(|&number| !is_used(number)).unwrap_or_default()
}

fn swap_step(context: &Context<'_>, planned: &PlannedZram, number: Option<u32>) -> Step {
    let zram = &planned.zram;
    let finding = RULE.findings.iter().find(|id| context.finding(id).is_some());
    Step {
        id: "zram".to_owned(),
        change: Change::AddZramSwap {
            target: number.map(|number| format!("/dev/zram{number}")),
            to: zram.clone(),
        },
        reason: reason(context, planned),
        finding: finding.map(|&id| id.to_owned()),
        expected: context.measured.ratio(&zram.compressor),
        risk: risk(context, zram),
        cost: Some(table_cost(zram)),
        coupled: Vec::new(),
        needs: Vec::new(),
        undo: StepUndo::Restore {
            what:
                "switches the swap off, which reads its pages back into RAM, and removes the device"
                    .to_owned(),
        },
        survives_reboot: context.do_files_survive_reboot(),
    }
}

/// Returns the memory that the slot table of a device of this size takes.
fn slot_table(disksize: Bytes) -> Bytes {
    Bytes::new(disksize.get() / 4096 * SLOT_BYTES)
}

/// Returns a sentence about the memory that the slot table takes.
pub(super) fn table_cost(zram: &ZramSwap) -> String {
    let table = slot_table(zram.disksize_bytes);
    format!(
        "up to {table} of RAM for the slot table (one entry for each page of the device), even while the \
         device is empty, and CPU time to compress and decompress each page"
    )
}

fn reason(context: &Context<'_>, planned: &PlannedZram) -> String {
    let state = context.verdict.line.trim_end_matches('.');
    let swap = match context.tiers_on_disk().next() {
        Some(tier) => {
            format!(
                "Swap is only on {}, which the kernel will fill after the new device",
                tier.path
            )
        }
        None => "Without swap, idle memory of programs cannot leave RAM".to_owned(),
    };
    let commit = if context.finding("commit-limit").is_some() {
        " The new swap also raises the commit limit (vm.overcommit_memory is 2)."
    } else {
        ""
    };
    let size = capitalize(&planned.size);
    let wanted = if context.wants_zram() && !context.is_host_short() {
        " It was asked for: it helps as soon as programs hold memory that they rarely use, and does not help \
         against a leak, which fills it too, nor for memory that does not compress."
    } else {
        ""
    };
    format!("{state}. {swap}.{wanted}{commit} {size}. The algorithm is {}.", planned.algorithm)
}

pub(super) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn risk(context: &Context<'_>, zram: &ZramSwap) -> String {
    let limit = zram.mem_limit_bytes.unwrap_or_default();
    let mut risks = vec![format!(
        "if data does not compress, the device can take up to {limit} of RAM (its mem_limit); then writes to \
         it fail, and the pages stay in RAM"
    )];
    if matches!(context.host.cgroups.hierarchy, Hierarchy::V1 | Hierarchy::Hybrid) {
        risks.push(
            "the memory of zram is charged to no cgroup, and in trials by the authors of Pagewise, processes \
             of a cgroup (version 1) were killed at its limit although swap was free"
                .to_owned(),
        );
    }
    if !matches!(context.host.capability("zram").map(|it| &it.state), Some(FeatureState::Present)) {
        risks.push(
            "which algorithms the zram module offers is known only after it is loaded".to_owned(),
        );
    }
    risks.join("; ")
}

/// Adds the files that create the zram device at each boot, for the mechanism that this host uses.
pub(super) fn add_files(
    context: &Context<'_>,
    draft: &mut Draft,
    zram: &ZramSwap,
    number: Option<u32>,
) {
    if let Some(why) = context.reason_against_files() {
        return draft.note_lost("the zram swap", why);
    }
    if context.start_place().is_some() {
        draft.started.zram = Some(zram.clone());
        return;
    }
    match number {
        Some(number) => {
            let reason = format!(
                "zram-generator is installed; with this file, it sets up zram{number} at each boot."
            );
            let risk = format!(
                "`systemctl restart systemd-zram-setup@zram{number}` would reset the device: do not run this \
                 command while its swap is on"
            );
            draft.steps.push(file_step(
                context,
                "zram-file",
                DROP_IN,
                drop_in_text(zram, number),
                reason,
                risk,
            ));
        }
        None => add_unit(context, draft, zram),
    }
}

fn add_unit(context: &Context<'_>, draft: &mut Draft, zram: &ZramSwap) {
    let mut reason =
        "zram-generator is not installed, so this unit sets the device up at each boot.".to_owned();
    if context.installation.is_ostree {
        reason.push_str(" The system is an image of ostree, and its updates keep files in /etc.");
    }
    let risk = "if another program that sets up zram is installed later, the two may compete; the unit yields \
                to zram-generator and fstab, and does nothing if zram swap is already on";
    draft.steps.push(file_step(
        context,
        "zram-file",
        UNIT,
        unit_text(zram),
        reason,
        risk.to_owned(),
    ));
    if !context.installation.own_files.contains_key(UNIT) {
        draft.steps.push(Step {
            change: Change::MakeLink { target: LINK.to_owned(), from: None, to: UNIT.to_owned() },
            reason: "systemd starts the unit at boot only if this link exists.".to_owned(),
            needs: vec!["zram-file".to_owned()],
            ..boot_step("zram-link", "removes the link")
        });
    }
    draft.steps.push(Step {
        change: Change::ReloadUnits { target: "systemd".to_owned() },
        reason: "systemd knows the new unit only after it has read its unit files again."
            .to_owned(),
        risk: "none known; no unit is started or stopped".to_owned(),
        needs: vec!["zram-file".to_owned()],
        ..boot_step("zram-reload", "reads the unit files again, without the new one")
    });
}

fn file_step(
    context: &Context<'_>,
    id: &str,
    target: &str,
    to: String,
    reason: String,
    risk: String,
) -> Step {
    let from = context.installation.own_files.get(target).cloned();
    let undo = if from.is_some() { "writes the earlier contents back" } else { "removes the file" };
    Step {
        change: Change::WriteFile { target: target.to_owned(), from, to },
        reason,
        risk,
        needs: vec!["zram".to_owned()],
        ..boot_step(id, undo)
    }
}
