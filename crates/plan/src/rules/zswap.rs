// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: enables zswap with its shrinker if the choice between zram and zswap is certain, and
//! disables it in front of zram. Otherwise declines, with the reason and with the command that
//! would decide.
//!
//! Before zswap is enabled for the first time, the kernel accepts any name as its compressor, and
//! falls back to the default if it does not have that compressor. The plan therefore sets the
//! compressor before it enables zswap. At boot, systemd-tmpfiles writes the values in the order of
//! the lines in its files and after the root file system is mounted, so that the kernel can load
//! the compressor's module. With a parameter on the kernel command line, it cannot.

use pagewise_facts::swap_choice::{Compression, DENSE};
use pagewise_model::Severity;

use super::PlanRule;
use crate::context::Context;
use crate::draft::{Draft, SettingRequest};

pub(super) const RULE: PlanRule = PlanRule {
    id: "zswap",
    findings: &["zswap-unused", "zram-zswap-stacked"],
    doc: "Switches zswap and its shrinker on where that is known to be better than zram, and off in front of zram.",
    add,
};

const STACKED: &str = "zram-zswap-stacked";
const UNUSED: &str = "zswap-unused";
const ENABLED: &str = "zswap.enabled";
const PAGE_CLUSTER: &str = "vm.page-cluster";

fn add(context: &Context<'_>, draft: &mut Draft) {
    let decision = &context.swap;
    if decision.choice == Some(Compression::Zswap) {
        return switch_on(context, draft);
    }
    switch_off(context, draft);
    draft.decline("zswap", decision.argument());
}

fn switch_on(context: &Context<'_>, draft: &mut Draft) {
    let (decision, zswap) = (&context.swap, &context.host.zswap);
    if (zswap.enabled.get(), zswap.shrinker_enabled.get()) == (Some(true), Some(true)) {
        return;
    }
    if let Some(tier) = context.tiers_in_ram().next() {
        let why = format!("{} {} is on: switch it off first", decision.argument(), tier.path);
        return draft.decline("zswap", why);
    }
    let finding = context.finding(UNUSED);
    let is_warning = finding.is_some_and(|finding| finding.severity >= Severity::Warning);
    if !context.is_host_short() && !is_warning {
        let why = format!(
            "memory is not short: {} are available. If it becomes short, zswap is the better choice: {}",
            context.describe_available(),
            decision.argument()
        );
        return draft.decline("zswap", why);
    }
    add_settings_to_enable(context, draft);
}

/// Enables zswap because the user requested it.
pub(crate) fn add_wanted(context: &Context<'_>, draft: &mut Draft) {
    let zswap = &context.host.zswap;
    if (zswap.enabled.get(), zswap.shrinker_enabled.get()) == (Some(true), Some(true)) {
        return draft.decline("zswap", "zswap and its shrinker are on already");
    }
    let has_disk = context.tiers_on_disk().next().is_some() || draft.adds_swap_file();
    if !has_disk {
        let why = "zswap keeps pages on their way to swap on a disk, and there is none. In the same plan: --want \
                   swapfile --want zswap; without a disk: --want zram";
        return draft.decline("zswap", why);
    }
    let doubled = match (context.tiers_in_ram().next(), &draft.first_zram) {
        (Some(tier), _) => Some(format!(
            "{} is on, and pages in it would be compressed twice: switch it off first",
            tier.path
        )),
        (None, Some(_)) => Some(
            "the plan adds zram, and pages in it would be compressed twice: ask for one of the two"
                .to_owned(),
        ),
        (None, None) => None,
    };
    match context.reason_unless_overridden(doubled) {
        Some(why) => draft.decline("zswap", why),
        None => add_settings_to_enable(context, draft),
    }
}

fn add_settings_to_enable(context: &Context<'_>, draft: &mut Draft) {
    let (decision, zswap) = (&context.swap, &context.host.zswap);
    let finding = context.finding(UNUSED);
    let state = match finding.filter(|_| !context.is_host_short()) {
        Some(finding) => &finding.what,
        None => &context.verdict.line,
    };
    let settings = &decision.zswap;
    let compressor = if zswap.enabled.get() == Some(true) {
        "This is the compressor that zswap has now."
    } else if settings.compressor.as_str() == DENSE {
        "zstd, because the goal is ratio: of the kernel's algorithms, it compresses best, and it takes more CPU time \
         than lz4. The compressor is set before zswap is switched on."
    } else {
        "Of the kernel's algorithms, lz4 read pages back fastest in measurements by the authors of Pagewise. The \
         compressor is set before zswap is switched on."
    };
    let wanted = [
        (
            "zswap.shrinker_enabled",
            "Y".to_owned(),
            format!("{}. {}", state.trim_end_matches('.'), decision.why),
            "cold pages are written to the disk earlier, and a program that uses them again waits for the disk",
        ),
        (
            "zswap.max_pool_percent",
            settings.max_pool_percent.to_string(),
            "The pool takes at most this part of RAM.".to_owned(),
            "none known",
        ),
        (
            "zswap.compressor",
            settings.compressor.to_string(),
            compressor.to_owned(),
            "a kernel without this compressor uses its default one as soon as zswap is switched on, and `pagewise \
             verify` reports the difference",
        ),
        (
            ENABLED,
            "Y".to_owned(),
            "zswap keeps swapped pages compressed in RAM, as long as its pool has room.".to_owned(),
            "pages in the pool stay there, also after undo, until programs use them or swap is switched off. The pool \
             counts against the limit of a cgroup",
        ),
    ];
    let is_readable =
        |name: &str| context.host.knob(name).and_then(|it| it.active_word()).is_some();
    if !wanted.iter().all(|(name, ..)| is_readable(name)) {
        return draft.decline("zswap", "its settings were not read");
    }
    let is_found = finding.is_some();
    for (knob, to, reason, risk) in wanted {
        let request = SettingRequest {
            id: knob.into(),
            knob: knob.into(),
            to,
            reason,
            finding: is_found.then_some(UNUSED),
            expected: None,
            risk: risk.to_owned(),
        };
        draft.set(context, request);
    }
    if zswap.enabled.get() != Some(true) && is_readable(PAGE_CLUSTER) {
        draft.set(context, request_no_readahead());
    }
}

/// Creates the request that nothing is read ahead: the kernel reads ahead from zswap in the same
/// way as from a disk.
fn request_no_readahead() -> SettingRequest {
    SettingRequest {
        id: "page-cluster".into(),
        knob: PAGE_CLUSTER.into(),
        to: "0".to_owned(),
        reason: "With zswap, a page fault also decompresses neighbours of its page, which a program with random \
                 accesses does not need: in a trial on Linux 6.18, one took 89 % longer with zswap than with zram if \
                 this was 3 (95 % interval 85 to 107 %), and no difference was shown if it was 0."
            .to_owned(),
        finding: None,
        expected: None,
        risk: "the kernel no longer reads ahead from the disk behind zswap, either: programs that use swapped memory \
               in order then wait for the disk more often"
            .to_owned(),
    }
}

/// Disables zswap in front of zram, because pages would be compressed twice.
fn switch_off(context: &Context<'_>, draft: &mut Draft) {
    let path = "/sys/module/zswap/parameters/enabled";
    let is_on = context.host.zswap.enabled.get() == Some(true);
    let first = draft.first_zram.is_some() && is_on;
    let Some(to) = context.advised_write(STACKED, path).or_else(|| first.then(|| "N".to_owned()))
    else {
        return;
    };
    let stored = context.host.zswap.stored.get().unwrap_or_default();
    let has_disk = context.tiers_on_disk().next().is_some();
    if has_disk && context.swap.choice != Some(Compression::Zram) {
        let why = format!(
            "there is also swap on a disk, in front of which zswap may be the better choice, and zswap holds {stored} \
             now. Use only one of the two: zswap in front of the disk, or zram"
        );
        return draft.decline("switch zswap off", why);
    }
    let order = if has_disk { "zram is used as swap" } else { "all swap is zram" };
    let request = SettingRequest {
        id: "zswap".into(),
        knob: ENABLED.into(),
        to,
        reason: format!(
            "zswap is on and {order}, so the kernel compresses pages twice; zswap holds {stored} now."
        ),
        finding: context.finding(STACKED).map(|_| STACKED),
        expected: None,
        risk: "pages that zswap holds stay there until they are used or swap is switched off"
            .to_owned(),
    };
    draft.set(context, request);
}
