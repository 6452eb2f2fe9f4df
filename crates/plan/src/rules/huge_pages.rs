// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: settings of transparent huge pages, namely their policy, how many empty pages khugepaged
//! may fill in a collapse, and how often khugepaged scans.

use pagewise_model::plan::Goal;

use super::PlanRule;
use crate::context::Context;
use crate::draft::{Draft, SettingRequest};

pub(super) const RULE: PlanRule = PlanRule {
    id: "huge-pages",
    findings: &["thp-bloat-guard-off", "thp-coverage", "khugepaged-starves"],
    doc: "Sets how huge pages are made and split again (khugepaged).",
    add,
};

const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged";

fn add(context: &Context<'_>, draft: &mut Draft) {
    decline_policy_change(context, draft);
    add_bloat_guard(context, draft);
    add_scan_sleep(context, draft);
    if context.finding("khugepaged-starves").is_some() {
        let why = "the nice value of a kernel thread is lost at the next boot. `pagewise thp collapse` makes \
                   huge pages at ordinary priority, within a memory budget";
        draft.decline("let khugepaged run at a higher priority", why);
    }
}

/// Declines a change of the policy, because only a trial with the user's program shows whether huge
/// pages help that program.
fn decline_policy_change(context: &Context<'_>, draft: &mut Draft) {
    const KNOB: &str = "thp.enabled";
    let is_planned = draft.granted.iter().any(|it| it.knob.starts_with("thp."));
    let is_told = RULE.findings.iter().any(|id| context.finding(id).is_some());
    if is_planned || !(is_told || context.is_asked_for(RULE.id)) {
        return;
    }
    let Some(now) = context.host.knob(KNOB).and_then(|it| it.active_word()) else { return };
    let other = if now == "always" { "madvise" } else { "always" };
    let why = format!(
        "it is {now}. Which value is better depends on the program and was not measured. To measure it with your \
         program, run `sudo pagewise trial --b {KNOB}={other} --json -- COMMAND >trial.json`, then `pagewise plan \
         --from trial.json`; `--b 'thp.size.enabled[64kB]={other}'` measures one size of huge pages"
    );
    draft.decline(format!("another value of {KNOB}"), why);
}

/// Adds a limit for `max_ptes_none`, which protects against huge pages that are mostly zeros.
fn add_bloat_guard(context: &Context<'_>, draft: &mut Draft) {
    const ID: &str = "thp-bloat-guard-off";
    let Some(to) = context.advised_write(ID, &format!("{FOLDER}/max_ptes_none")) else { return };
    let what = context.finding(ID).map(|it| it.what.clone()).unwrap_or_default();
    if context.goal != Goal::Ratio && !context.is_short() {
        let why = format!(
            "memory is not short ({} are available), and with {to} khugepaged makes fewer huge pages",
            context.describe_available()
        );
        return draft.decline(format!("thp.khugepaged.max_ptes_none = {to}"), why);
    }
    let request = SettingRequest {
        id: "max-ptes-none".into(),
        knob: "thp.khugepaged.max_ptes_none".into(),
        to,
        reason: format!(
            "{what} In a trial by the authors of Pagewise, a cgroup used an eighth of each of its huge \
             pages; with max_ptes_none = 64, it shrank from 263 to 34 MB under memory pressure."
        ),
        finding: Some(ID),
        expected: None,
        risk: "khugepaged collapses fewer ranges that are partly empty, so sparse heaps have fewer huge pages".to_owned(),
    };
    draft.set(context, request);
}

/// Adds the time that khugepaged sleeps between its passes.
fn add_scan_sleep(context: &Context<'_>, draft: &mut Draft) {
    const ID: &str = "thp-coverage";
    let Some(to) = context.advised_write(ID, &format!("{FOLDER}/scan_sleep_millisecs")) else {
        return;
    };
    let what = context.finding(ID).map(|it| it.what.clone()).unwrap_or_default();
    if !matches!(context.goal, Goal::Throughput | Goal::Latency) {
        let why = "it takes CPU time continuously. `pagewise thp collapse` makes huge pages of one program \
                   once, within a memory budget; with --goal throughput or latency, the plan contains this \
                   setting";
        return draft.decline(format!("thp.khugepaged.scan_sleep_millisecs = {to}"), why);
    }
    if context.is_short() {
        let why = "memory is short, and a huge page also takes memory for those of its small pages that no \
                   program has used";
        return draft.decline(format!("thp.khugepaged.scan_sleep_millisecs = {to}"), why);
    }
    let request = SettingRequest {
        id: "khugepaged-pace".into(),
        knob: "thp.khugepaged.scan_sleep_millisecs".into(),
        to,
        reason: format!(
            "{what} By default khugepaged examines 16 MiB every 10 s, with the new value every second."
        ),
        finding: Some(ID),
        expected: None,
        risk: "khugepaged takes up to ten times as much CPU time (at nice 19), and huge pages also take \
               memory for small pages that no program has used"
            .to_owned(),
    };
    draft.set(context, request);
}
