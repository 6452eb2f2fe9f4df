// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: sets `vm.swappiness`, but only from measured costs or as a finding recommends, and never
//! to a guessed value.

use pagewise_model::Bytes;

use super::PlanRule;
use crate::context::Context;
use crate::draft::{Draft, SettingRequest};

pub(super) const RULE: PlanRule = PlanRule {
    id: "swappiness",
    findings: &["swap-avoids-anon", "zram-unused"],
    doc: "Sets the weight of swapping against dropping file pages (vm.swappiness).",
    add,
};

const KNOB: &str = "vm.swappiness";
/// Maximum swappiness that a plan sets. With 200, classic reclaim never scans file pages, so that a
/// file that is read only once would displace the memory of programs to swap. With this value, file
/// pages still have a tenth of the weight.
const MOST: u32 = 180;

fn add(context: &Context<'_>, draft: &mut Draft) {
    if let Some(request) = measured_request(context, draft) {
        return draft.set(context, request);
    }
    for finding in RULE.findings {
        let Some(to) = context.advised_sysctl(finding, KNOB) else { continue };
        let what = context.finding(finding).map(|it| it.what.clone()).unwrap_or_default();
        let risk =
            "programs whose idle memory is swapped out wait when they use it again".to_owned();
        let request = SettingRequest {
            id: "swappiness".into(),
            knob: KNOB.into(),
            to,
            reason: what,
            finding: Some(finding),
            expected: None,
            risk,
        };
        return draft.set(context, request);
    }
    let held: Bytes = context.tiers_in_ram().filter_map(|tier| tier.used.get()).sum();
    if held > Bytes::new(0) || draft.first_zram.is_some() {
        decline_unmeasured(context, draft);
    }
}

fn decline_unmeasured(context: &Context<'_>, draft: &mut Draft) {
    let Some(now) = context.host.knob(KNOB).and_then(|reading| reading.active_word()) else {
        return;
    };
    let trials = if context.tiers_on_disk().next().is_some() {
        "in which a small zram device was filled before a swap file, 180 was better than 60 (19 % less time \
         per iteration), and no difference was shown for 100 and 133"
    } else {
        "in which zram was the only swap, no value from 100 to 180 was shown to be better than 60"
    };
    let why = format!(
        "it is {now}. The best value depends on the time to read a page from swap and from a file, which was \
         not measured here. In trials by the authors of Pagewise {trials}. To measure it, run `sudo pagewise \
         bench --disk /var/tmp --json >bench.json`, then `pagewise plan --from bench.json`"
    );
    draft.decline(format!("another value of {KNOB}"), why);
}

fn measured_request(context: &Context<'_>, draft: &Draft) -> Option<SettingRequest> {
    let algorithm = draft.algorithm(context)?;
    let ratio = context.measured.cost_ratio(algorithm.as_str())?;
    let (implied, mix) = match share_of_swap_in_ram(context) {
        Some(share) if share < 1.0 => {
            let mix = context.measured.tier_mix(share)?;
            let text = format!(
                "; {:.0} % of the swapped pages are in zram, and the others on a disk",
                share * 100.0
            );
            (mix.swappiness, text)
        }
        _ => (ratio.swappiness, String::new()),
    };
    let to = implied.min(MOST);
    let capped = if implied > MOST {
        format!(
            "; the plan sets {MOST}, so that file pages keep a tenth of the weight and a large file that is \
             read once does not push programs out of RAM"
        )
    } else {
        String::new()
    };
    let [low, high] = ratio.swappiness_spread;
    Some(SettingRequest {
        id: "swappiness".into(),
        knob: KNOB.into(),
        to: to.to_string(),
        reason: format!(
            "`pagewise bench` measured {:.1} us for a page from zram ({algorithm}) and {:.1} us for a page \
             from a file ({} rounds){mix}. For these costs, the kernel's formula gives {implied} ({low} to \
             {high} in single rounds){capped}.",
            ratio.swap_ns_per_page / 1000.0,
            ratio.file_ns_per_page / 1000.0,
            ratio.rounds
        ),
        finding: None,
        expected: None,
        risk:
            "the formula counts only costs, not which pages programs use; compare both values with `pagewise \
             trial`"
                .to_owned(),
    })
}

/// Returns the share of swapped pages that are in zram; `None` if no page is swapped.
fn share_of_swap_in_ram(context: &Context<'_>) -> Option<f64> {
    let in_ram: Bytes = context.tiers_in_ram().filter_map(|tier| tier.used.get()).sum();
    let on_disk: Bytes = context.tiers_on_disk().filter_map(|tier| tier.used.get()).sum();
    let all = in_ram.saturating_add(on_disk);
    in_ram.percent_of(all).map(|percent| percent.get() / 100.0)
}
