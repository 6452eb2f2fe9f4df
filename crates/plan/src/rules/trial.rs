// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: applies the settings of the arm (variant) that a trial found to be better.

use pagewise_model::arm;
use pagewise_model::knob::{KNOBS, Knob};

use super::PlanRule;
use crate::context::Context;
use crate::draft::{Draft, SettingRequest};

pub(super) const RULE: PlanRule = PlanRule {
    id: "trial",
    findings: &[],
    doc: "Sets what `pagewise trial` has shown to be better (only if --from gives its output).",
    add,
};

const WHAT: &str = "the settings of the trial";

fn add(context: &Context<'_>, draft: &mut Draft) {
    let Some(tried) = context.measured.trial() else { return };
    let winner = match tried.find_winner() {
        Ok(winner) => winner,
        Err(why) => return draft.decline(WHAT, why),
    };
    if !tried.is_of_real_machine() {
        let why = "the trial ran in an emulated machine, and what is faster there may be slower here. Run \
                   `pagewise trial` on this machine";
        return draft.decline(WHAT, why);
    }
    let told = tried.describe_winner(&winner);
    if tried.find_better_swap().is_some() {
        // the rules for zram and zswap use this result
        return;
    }
    if winner.arm.swap.is_some() {
        let why = format!(
            "{told}. This arm of the trial had swap of its own, and with the swap of this machine the \
             settings may not be better. Repeat the trial without swap=…"
        );
        return draft.decline(WHAT, why);
    }
    if winner.arm.program.is_some() {
        return draft.decline(WHAT, "the arms of the trial ran different commands");
    }
    for set in &winner.arm.settings {
        let what = format!("{} = {}", set.knob, set.value.escape_debug());
        // the document may come from anybody, and the value becomes a line of a configuration file
        let is_plain = !set.value.contains(|letter: char| letter.is_control() || letter == '%');
        let checked = arm::parse_setting(&format!("{}={}", set.knob, set.value));
        if let Err(why) = checked
            .and_then(|_| is_plain.then_some(()).ok_or_else(|| "expected plain text".to_owned()))
        {
            draft.decline(what, format!("the trial's document is no such setting: {why}"));
            continue;
        }
        let (bare, _) = arm::split_instance(&set.knob);
        let of_machine = |knob: &&Knob| {
            knob.name == bare && !arm::is_of_zram(bare) && !knob.path.contains("{cgroup}")
        };
        if !KNOBS.iter().any(|knob| of_machine(&knob)) {
            let why = format!("{told}. A plan sets only settings of the whole machine");
            draft.decline(what, why);
            continue;
        }
        let request = SettingRequest {
            id: set.knob.clone().into(),
            knob: set.knob.clone().into(),
            to: set.value.clone(),
            reason: format!("{told}."),
            finding: None,
            expected: None,
            risk:
                "the trial measured one command; other programs on this machine may become slower"
                    .to_owned(),
        };
        draft.set(context, request);
    }
    if winner.arm.settings.is_empty() {
        draft.decline(
            "any setting of the trial",
            format!("{told}, so the settings stay as they are"),
        );
    }
}
