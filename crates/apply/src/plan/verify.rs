// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares a plan with the machine and finds the differences, and their likely causes.
//!
//! The running value and the files that set it at boot are compared separately, because one can be
//! changed without the other. Changes nothing.

use pagewise_model::plan::{
    Change, Difference, DifferenceKind, Plan, Step, StepVerified, SwapFilePlan, Verified, ZramSwap,
};
use pagewise_model::{Configuration, Mechanism, PersistentSetting, Target, boot_order};

use crate::error::Error;
use crate::host_ops::{Config, HostOps};
use crate::journal::{FileText, Reading, SettingChange};
use crate::loan::config::describe;
use crate::loan::{drain, knob};
use crate::plan::check::{
    area_of_step, describe_change, is_as_planned, is_swap_file_as_planned, name_and_instance,
};
use crate::plan::undo::PlanJournal;

/// Which plans are compared with the machine.
#[derive(Debug, Clone, Copy)]
pub enum VerifyTarget<'a> {
    /// All plans in force.
    All,
    /// The plan in force with this journal number or plan id.
    One(&'a str),
    /// The given plan, whether it is in force or not.
    Document(&'a Plan),
}

/// A journal of a plan that cannot be read completely or is not trusted, so that it is not known
/// whether its plan is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoubtfulJournal {
    /// The path of the journal.
    pub path: String,
    /// The id of the journal for `pagewise undo`.
    pub id: String,
    /// What is wrong with the journal.
    pub why: String,
}

pub(crate) fn doubtful_journals(journals: &[PlanJournal]) -> Vec<DoubtfulJournal> {
    let doubtful = journals.iter().filter_map(|it| {
        Some(DoubtfulJournal { path: it.path.clone(), id: it.id(), why: it.why_doubtful()? })
    });
    doubtful.collect()
}

/// The journals that a step of a plan is compared with, in addition to the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    /// The journal of the plan that is compared, if the plan is in force.
    pub(crate) journal: Option<&'a Reading>,
    /// The journals of plans that were applied after the compared one.
    pub(crate) later: &'a [&'a Reading],
    pub(crate) configuration: &'a Configuration,
}

pub(crate) fn verify(
    host: &dyn HostOps,
    plan: &Plan,
    journal: Option<String>,
    context: Context<'_>,
) -> Verified {
    let steps = plan.steps.iter().map(|step| verify_step(host, plan, step, context));
    Verified { plan: plan.id.clone(), journal, steps: steps.collect(), gains: Vec::new() }
}

/// Compares plans in force, or a plan document, with the machine.
pub(crate) fn verify_journals(
    host: &dyn HostOps,
    journals: &[PlanJournal],
    which: VerifyTarget<'_>,
    configuration: &Configuration,
) -> Result<Vec<Verified>, Error> {
    let is_meant = |it: &PlanJournal| match which {
        VerifyTarget::All => it.reading.plan().is_some(),
        VerifyTarget::One(id) => it.is_meant_by(id),
        VerifyTarget::Document(plan) => it.reading.plan().is_some_and(|of| of.id == plan.id),
    };
    let mut verified = Vec::new();
    for (at, journal) in journals.iter().enumerate().filter(|(_, it)| is_meant(it)) {
        let Some(plan) = journal.reading.plan() else { continue };
        let later: Vec<&Reading> = journals[at + 1..].iter().map(|it| &it.reading).collect();
        let context = Context { journal: Some(&journal.reading), later: &later, configuration };
        verified.push(verify(host, plan, Some(journal.id()), context));
    }
    match which {
        VerifyTarget::One(id) if verified.is_empty() => {
            let known = journals.iter().map(PlanJournal::id).collect();
            Err(Error::NoJournal { id: id.to_owned(), known })
        }
        VerifyTarget::Document(plan) if verified.is_empty() => {
            let context = Context { journal: None, later: &[], configuration };
            Ok(vec![verify(host, plan, None, context)])
        }
        _ => Ok(verified),
    }
}

fn verify_step(host: &dyn HostOps, plan: &Plan, step: &Step, context: Context<'_>) -> StepVerified {
    let what = describe_change(&step.change);
    let id = step.id.clone();
    let (differences, skipped, is_superseded, area) = (vec![], None, false, None);
    let verified = StepVerified { id, what, differences, skipped, is_superseded, area };
    let mut later = context.later.iter().filter_map(|journal| journal.plan());
    if let Some(later) = later.find(|plan| has_same_target(plan, &step.change)) {
        let skipped = Some(format!("plan {} changed it later", later.id));
        return StepVerified { skipped, is_superseded: true, ..verified };
    }
    let compared = match &step.change {
        Change::SetKnob { target, to, .. } => {
            compare_setting(host, target, to, context.configuration)
        }
        Change::WriteFile { target, to, .. } => {
            compare_entry(host, target, &Config::File(file_text(to)))
        }
        Change::MakeLink { target, to, .. } => {
            compare_entry(host, target, &Config::Link(to.clone()))
        }
        Change::ReloadUnits { .. } => {
            let skipped = Some("it leaves nothing to compare".to_owned());
            return StepVerified { skipped, is_superseded: true, ..verified };
        }
        Change::AddZramSwap { target, to } => {
            let made = context.journal.and_then(|journal| area_of_step(journal, &step.id));
            let area = target.clone().or(made).unwrap_or_default();
            return match compare_zram_swap(host, area, to, step.survives_reboot) {
                Ok(area) => StepVerified { area: Some(area), ..verified },
                Err(difference) => StepVerified { differences: vec![difference], ..verified },
            };
        }
        Change::AddSwapFile { target, to } => {
            let differences = compare_swap_file(host, target, to);
            let area = differences.is_empty().then(|| target.clone());
            return StepVerified { differences, area, ..verified };
        }
        Change::SetSwapPriority { target, to, .. } => Ok(compare_priority(host, target, *to)),
        Change::DrainSwap { target, .. } => Ok(compare_drained(host, plan, target)),
    };
    match compared {
        Ok(differences) => StepVerified { differences, ..verified },
        Err(why) => StepVerified { skipped: Some(why), ..verified },
    }
}

fn has_same_target(plan: &Plan, change: &Change) -> bool {
    let target = |change: &Change| match change {
        Change::SetKnob { target, .. }
        | Change::WriteFile { target, .. }
        | Change::SetSwapPriority { target, .. }
        | Change::MakeLink { target, .. } => Some(target.clone()),
        _ => None,
    };
    let own = target(change);
    own.is_some() && plan.steps.iter().any(|step| target(&step.change) == own)
}

/// The setting of which a larger value is not a difference, because khugepaged raises it by
/// itself.
const AT_LEAST: &str = "vm.min_free_kbytes";

fn compare_setting(
    host: &dyn HostOps,
    target: &str,
    to: &str,
    configuration: &Configuration,
) -> Result<Vec<Difference>, String> {
    let (name, instance) = name_and_instance(target);
    let change = knob::new_change(host, name, instance, to).map_err(|error| error.to_string())?;
    let SettingChange { old: found, ours: planned, .. } = change;
    let mut differences = Vec::new();
    let number = |text: &str| text.parse::<u64>().ok();
    let is_raised = name == AT_LEAST && number(&found) >= number(&planned);
    if found != planned && !is_raised {
        let by =
            list_setters(name, configuration).into_iter().rev().find(|(_, value)| *value == found);
        differences.push(Difference {
            kind: DifferenceKind::Running,
            planned: planned.clone(),
            found,
            by: by.map(|(by, _)| by),
        });
    }
    // the last line wins at boot
    if let Some((by, value)) = list_setters(name, configuration).pop() {
        if instance.is_none() && value != planned {
            let by = Some(by);
            differences.push(Difference {
                kind: DifferenceKind::AtBoot,
                planned,
                found: value,
                by,
            });
        }
    }
    Ok(differences)
}

/// Where configuration files set a knob, and the value of each such line, in the order of
/// application; the last one wins.
fn list_setters(name: &str, configuration: &Configuration) -> Vec<(String, String)> {
    let is_it = |setting: &&PersistentSetting| {
        let is_of_knob =
            matches!(&setting.target, Target::Knob { knob, instance: None } if *knob == name);
        is_of_knob && setting.is_applied()
    };
    let reapplies = configuration.tuned.as_ref().is_some_and(|tuned| tuned.reapplies_sysctl);
    let mut lines: Vec<&PersistentSetting> = configuration.settings.iter().filter(is_it).collect();
    lines.sort_by_key(|setting| boot_order(setting, reapplies));
    let profile = configuration.tuned.as_ref().and_then(|tuned| tuned.profile.value());
    let named = |setting: &&PersistentSetting| {
        let source = &setting.value.source;
        let by = match (setting.mechanism, profile) {
            (Mechanism::Tuned, Some(profile)) => format!("tuned profile {profile}, {source}"),
            _ => source.to_string(),
        };
        (by, setting.wanted().to_owned())
    };
    lines.iter().map(named).collect()
}

fn file_text(text: &str) -> FileText {
    let text = text.to_owned();
    FileText { text, mode: 0, user: 0, group: 0, label: None }
}

fn compare_entry(
    host: &dyn HostOps,
    path: &str,
    planned: &Config,
) -> Result<Vec<Difference>, String> {
    let found = host.config(path).map_err(|error| error.to_string())?;
    let (planned, found) = match (planned, &found) {
        (Config::File(planned), Config::File(found)) if planned.text == found.text => {
            return Ok(Vec::new());
        }
        (Config::File(planned), Config::File(found)) => {
            first_difference(&planned.text, &found.text)
        }
        (planned, found) if planned == found => return Ok(Vec::new()),
        (planned, found) => (describe(planned), describe(found)),
    };
    Ok(vec![Difference { kind: DifferenceKind::File, planned, found, by: None }])
}

/// The first line in which the two texts differ.
fn first_difference(planned: &str, found: &str) -> (String, String) {
    let (mut planned, mut found) = (planned.lines(), found.lines());
    let mut number = 0;
    loop {
        number += 1;
        let said = |line: Option<&str>| match line {
            Some(line) => format!("line {number}: {line}"),
            None => format!("no line {number}"),
        };
        match (planned.next(), found.next()) {
            (None, None) => return ("its line ends".to_owned(), "others".to_owned()),
            (one, other) if one == other => {}
            (one, other) => return (said(one), said(other)),
        }
    }
}

/// The swap area that a step of the plan created, if it is set up as planned: `area`, or another
/// zram device if files of the plan create the area at each boot.
fn compare_zram_swap(
    host: &dyn HostOps,
    area: String,
    to: &ZramSwap,
    survives_reboot: bool,
) -> Result<String, Difference> {
    if is_as_planned(host, &area, to) {
        return Ok(area);
    }
    let after_boot = || drain::area_as_planned(host, &area, to).map(|(area, _)| area.path);
    if let Some(area) = survives_reboot.then(after_boot).flatten() {
        return Ok(area);
    }
    let planned = format!(
        "{} of swap on zram with {} and priority {}",
        to.disksize_bytes, to.compressor, to.priority
    );
    Err(Difference {
        kind: DifferenceKind::Swap,
        planned,
        found: describe_swap(host, &area) + &list_other_zram_swap(host, &area),
        by: None,
    })
}

/// The swap on zram that something else has set up, such as zram-generator, to which the unit of
/// a plan yields; empty if there is none.
fn list_other_zram_swap(host: &dyn HostOps, area: &str) -> String {
    let areas = host.swaps().into_iter().map(|it| it.path);
    let others: Vec<String> =
        areas.filter(|path| path.starts_with("/dev/zram") && path != area).collect();
    if others.is_empty() {
        return String::new();
    }
    format!("; swap on zram that the plan has not set up: {}", others.join(", "))
}

fn compare_swap_file(host: &dyn HostOps, path: &str, to: &SwapFilePlan) -> Vec<Difference> {
    if is_swap_file_as_planned(host, path, to) {
        return Vec::new();
    }
    let priority = to.priority.map_or("a priority below all others".to_owned(), |priority| {
        format!("priority {priority}")
    });
    let planned = format!("{} of swap with {priority}", to.size_bytes);
    vec![Difference {
        kind: DifferenceKind::Swap,
        planned,
        found: describe_swap(host, path),
        by: None,
    }]
}

fn describe_swap(host: &dyn HostOps, area: &str) -> String {
    match drain::find_area(host, area) {
        Some(found) => format!("{} of swap with priority {}", found.size, found.priority),
        None => "no such swap".to_owned(),
    }
}

fn compare_priority(host: &dyn HostOps, area: &str, to: i16) -> Vec<Difference> {
    if drain::find_area(host, area).is_some_and(|found| found.priority == i32::from(to)) {
        return Vec::new();
    }
    vec![Difference {
        kind: DifferenceKind::Swap,
        planned: format!("swap with priority {to}"),
        found: describe_swap(host, area),
        by: None,
    }]
}

/// Compares a swap area that the plan disabled. It is no difference if another step of the plan has
/// created swap on a device with the same number.
fn compare_drained(host: &dyn HostOps, plan: &Plan, target: &str) -> Vec<Difference> {
    let is_new = plan.steps.iter().any(|step| match &step.change {
        Change::AddZramSwap { to, .. } => is_as_planned(host, target, to),
        _ => false,
    });
    match drain::find_area(host, target).filter(|_| !is_new) {
        None => Vec::new(),
        Some(found) => vec![Difference {
            kind: DifferenceKind::Swap,
            planned: "no swap there".to_owned(),
            found: format!("{} of swap with priority {}", found.size, found.priority),
            by: None,
        }],
    }
}
