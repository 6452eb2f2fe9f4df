// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adds what the user requests with `--want`, whether or not memory is short. A request is declined
//! if it would do harm or is not possible. If there is another reason against it, `--anyway`
//! overrides that reason.

use pagewise_decide::thp_profile::PROFILES;
use pagewise_model::TrialSetting;
use pagewise_model::plan::Want;

use crate::context::Context;
use crate::draft::{Draft, SettingRequest};
use crate::rules::{swap_file, zram, zswap};

/// Adds the steps for everything that the user requests. The order of the requests does not matter:
/// swap on a disk is added first, because zswap needs it, and zram before zswap, because a plan
/// adds only one of these two.
pub(crate) fn add(context: &Context<'_>, draft: &mut Draft) {
    let mut wants: Vec<&Want> = context.wants.iter().collect();
    wants.sort_by_key(|want| match want {
        Want::SwapFile { .. } => 0,
        Want::Zram { .. } => 1,
        Want::Zswap => 2,
        Want::HugePages(_) | Want::Knob(_) => 3,
    });
    for want in wants {
        match want {
            Want::SwapFile { size } => swap_file::add_wanted(context, draft, *size),
            Want::Zram { size } => zram::add_wanted(context, draft, *size),
            Want::Zswap => zswap::add_wanted(context, draft),
            Want::HugePages(policy) => add_huge_pages(context, draft, policy),
            Want::Knob(setting) => set(context, draft, setting, "It was asked for."),
        }
    }
}

/// Adds the policy of huge pages, or all settings of a profile.
fn add_huge_pages(context: &Context<'_>, draft: &mut Draft, policy: &str) {
    let setting =
        |knob: &str, value: &str| TrialSetting { knob: knob.to_owned(), value: value.to_owned() };
    if matches!(policy, "always" | "madvise" | "never") {
        return set(context, draft, &setting("thp.enabled", policy), "It was asked for.");
    }
    let Some(profile) = PROFILES.iter().find(|profile| profile.name == policy) else {
        let names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
        let why = format!(
            "there is neither such a policy (always, madvise, never) nor such a profile ({})",
            names.join(", ")
        );
        return draft.decline(format!("hugepages={policy}"), why);
    };
    let reason = format!("It is a setting of the profile {}: {}.", profile.name, profile.purpose);
    for (knob, value) in profile.knobs {
        set(context, draft, &setting(knob, value), &reason);
    }
}

/// Adds a step that changes one setting of the running kernel.
pub(crate) fn set(context: &Context<'_>, draft: &mut Draft, setting: &TrialSetting, reason: &str) {
    let doc = context.knob_reading(&setting.knob).map_or("", |reading| reading.knob.doc);
    let request = SettingRequest {
        id: setting.knob.clone().into(),
        knob: setting.knob.clone().into(),
        to: setting.value.clone(),
        reason: format!("{reason} {doc}").trim_end().to_owned(),
        finding: None,
        expected: None,
        risk: "whether it helps this machine's programs was not measured: `pagewise trial` compares both values \
               with a command of yours"
            .to_owned(),
    };
    let is_set = context.knob_reading(&setting.knob).and_then(|it| it.active_word());
    if is_set == Some(&*setting.value) && context.reason_against_files().is_some() {
        draft.decline(format!("{} = {}", setting.knob, setting.value), "it has this value now");
    }
    draft.set(context, request);
}
