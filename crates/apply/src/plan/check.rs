// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares a plan with the machine and finds what each step has to do, or all complaints. Changes
//! nothing.
//!
//! A plan is a file that may have been edited, made for another machine, or made an hour ago. Every
//! step is compared with the machine before the first write, so a plan that no longer fits changes
//! nothing.

use std::collections::BTreeSet;

use pagewise_model::plan::{
    Change, Complaint, Plan, PlannedMachine, Step, StepUndo, SwapFilePlan, SwapHeld, ZramSwap,
};
use pagewise_model::{Advice, Bytes};

use crate::config_files::MAX_CONFIG;
use crate::error::Error;
use crate::host_ops::{Area, Config, HostOps, Site, folder_of};
use crate::journal::{FileChange, LinkChange, OpenChange, Reading, RecordedChange, SettingChange};
use crate::loan::config::describe;
use crate::loan::{drain, file as swap_file, knob, place, zram};

/// A step compared with this machine: the change to make, with the state that was found.
///
/// A step has this second form because nothing is written until every step was compared, and
/// because the state that was found then must still be there at the write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CheckedStep {
    /// The step has nothing to do, because its target value is in place.
    InPlace,
    Setting(SettingChange),
    File(FileChange),
    Link(LinkChange),
    ReloadUnits,
    AddZramSwap(ZramSwapToAdd),
    AddSwapFile(SwapFileToAdd),
    SetSwapPriority(SwapPriorityToSet),
    /// The swap area to disable.
    DrainSwap(String),
}

/// A step that creates swap on a zram device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ZramSwapToAdd {
    pub(crate) device: DeviceToUse,
    /// Whether files of the plan create the device again at each boot.
    pub(crate) lasts: bool,
    pub(crate) to: ZramSwap,
}

/// The zram device that a step uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceToUse {
    /// A new device; the kernel chooses its number.
    New,
    /// A new device that must get this number.
    NewWithNumber(u32),
    /// The existing device of this number, which has no size.
    Existing(u32),
}

/// A step that creates and enables a swap file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SwapFileToAdd {
    pub(crate) path: String,
    pub(crate) to: SwapFilePlan,
}

/// A step that gives another priority to an enabled swap area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SwapPriorityToSet {
    pub(crate) area: String,
    pub(crate) to: i16,
}

const MAX_STEPS: usize = 200;
/// `MemTotal` differs slightly between kernels: by at most one part in this many.
const SAME_MEMORY: u64 = 50;
const AGAIN: &str = "run `pagewise plan` again";

/// Compares each step of a plan with this machine, and returns what is to be done.
pub(crate) fn check(
    host: &dyn HostOps,
    plan: &Plan,
    allows_irreversible: bool,
    applied: &[Reading],
) -> Result<Vec<CheckedStep>, Vec<Complaint>> {
    let mut complaints = Vec::new();
    let site = host.site();
    complaints.extend(site_complaints(&site, plan));
    complaints.extend(shape_complaints(plan, allows_irreversible));
    let mut all = Vec::new();
    let mut added = 0;
    let areas = host.swaps();
    for step in plan.steps.iter().take(MAX_STEPS) {
        let checked = match &step.change {
            Change::SetKnob { target, from, to } => check_setting(host, target, from, to),
            Change::WriteFile { target, from, to } => check_file(host, target, from.as_deref(), to),
            Change::MakeLink { target, from, to } => check_link(host, target, from.as_deref(), to),
            Change::ReloadUnits { target } => check_reload(&site, target),
            Change::AddZramSwap { target, to } => {
                check_zram_swap(host, plan, step, target.as_deref(), to, applied)
            }
            Change::AddSwapFile { target, to } => check_swap_file(host, target, to),
            Change::SetSwapPriority { target, from, to } => {
                check_priority(host, &areas, target, *from, *to)
            }
            Change::DrainSwap { target, from } => check_drain(host, &areas, target, from, added),
        };
        match checked {
            Ok(step) => {
                if let CheckedStep::AddZramSwap(swap) = &step {
                    added += swap.to.disksize_bytes.get();
                }
                all.push(step);
            }
            Err(error) => complaints.push(Complaint {
                step: Some(step.id.clone()),
                what: describe_change(&step.change),
                why: without_target(&crate::recover::text_with_cause(&error), &step.change),
                next: error.next(),
            }),
        }
    }
    // systemd has to reload its units only if one of them has changed, or a device needs it
    if all.iter().all(|it| matches!(it, CheckedStep::InPlace | CheckedStep::ReloadUnits)) {
        all.fill(CheckedStep::InPlace);
    }
    if complaints.is_empty() { Ok(all) } else { Err(complaints) }
}

/// Refuses a trial if nothing on this machine can end it.
pub(crate) fn check_trial(
    checked: Result<Vec<CheckedStep>, Vec<Complaint>>,
    is_trial: bool,
    host: &dyn HostOps,
) -> Result<Vec<CheckedStep>, Vec<Complaint>> {
    if !is_trial || host.site().has_systemd {
        return checked;
    }
    let complaint = Complaint {
        step: None,
        what: "--trial-for".to_owned(),
        why: "systemd does not run on this machine, and its timer is what undoes a plan that is not confirmed"
            .to_owned(),
        next: Some("apply it without a trial; `pagewise undo` undoes it".to_owned()),
    };
    let others = checked.err().unwrap_or_default();
    Err([vec![complaint], others].concat())
}

/// Complaints about a plan that was made for another machine, or cannot be carried out here.
fn site_complaints(site: &Site, plan: &Plan) -> Vec<Complaint> {
    let mut all = Vec::new();
    let mut add = |why: String, next: &str| {
        let (what, next) = ("the plan".to_owned(), Some(next.to_owned()));
        all.push(Complaint { step: None, what, why, next });
    };
    let PlannedMachine { machine_id_hash, memory_total_bytes, .. } = &plan.machine;
    if *machine_id_hash != site.machine.machine_id_hash {
        let id = |hash: &Option<String>| hash.clone().unwrap_or_else(|| "none".to_owned());
        let why = format!(
            "it was made for another machine: the hash of /etc/machine-id is {} in the plan and {} here",
            id(machine_id_hash),
            id(&site.machine.machine_id_hash)
        );
        add(why, AGAIN);
    }
    let planned = memory_total_bytes.unwrap_or_default().get();
    let found = site.machine.memory_total_bytes.unwrap_or_default().get();
    if planned.abs_diff(found) > planned.max(found) / SAME_MEMORY {
        let (planned, found) = (Bytes::new(planned), Bytes::new(found));
        let why = format!("it was made for {planned} of memory (MemTotal), and there are {found}");
        add(why, AGAIN);
    }
    if let Some(kind) = &site.container {
        let why =
            format!("this is a container ({kind}): its settings and swap are those of the host");
        add(why, "run it on the host");
    }
    all
}

/// Complaints about a plan that do not depend on the machine.
pub(crate) fn shape_complaints(plan: &Plan, allows_irreversible: bool) -> Vec<Complaint> {
    let mut all = Vec::new();
    let mut add = |step: Option<&Step>, what: &str, why: String, next: &str| {
        let (step, what) = (step.map(|step| step.id.clone()), what.to_owned());
        all.push(Complaint { step, what, why, next: Some(next.to_owned()) });
    };
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if plan.id.len() != 16 || !plan.id.bytes().all(is_digit) {
        add(None, "its id", format!("expected 16 hexadecimal digits, found {:?}", plan.id), AGAIN);
    }
    if plan.steps.len() > MAX_STEPS {
        let why = format!("expected at most {MAX_STEPS}, found {}", plan.steps.len());
        add(None, "its steps", why, AGAIN);
    }
    let mut ids = BTreeSet::new();
    let mut targets = BTreeSet::new();
    for step in &plan.steps {
        if step.id.is_empty() || !ids.insert(step.id.as_str()) {
            add(Some(step), "its id", "expected a name that no other step has".to_owned(), AGAIN);
        }
        if let Some(target) = target(&step.change).filter(|it| !targets.insert(it.to_string())) {
            let why = "an earlier step of the plan changes it, too".to_owned();
            add(Some(step), target, why, AGAIN);
        }
        if let Some(missing) = step.needs.iter().find(|id| plan.step(id).is_none()) {
            let why = format!("it needs the step {missing}, which the plan does not have");
            add(Some(step), "the step", why, "apply the whole plan, or plan again with --only");
        }
        if let StepUndo::Never { because } = &step.undo {
            if !allows_irreversible {
                let why = format!("it cannot be undone: {because}");
                add(Some(step), "the step", why, "allow it with --yes-irreversible");
            }
        }
    }
    all
}

/// Removes the target from the error's text, because the complaint names it already.
fn without_target(why: &str, change: &Change) -> String {
    let own = target(change).and_then(|target| why.strip_prefix(target)?.strip_prefix(": "));
    own.unwrap_or(why).to_owned()
}

fn target(change: &Change) -> Option<&str> {
    match change {
        Change::SetKnob { target, .. }
        | Change::WriteFile { target, .. }
        | Change::MakeLink { target, .. }
        | Change::SetSwapPriority { target, .. }
        | Change::DrainSwap { target, .. }
        | Change::AddSwapFile { target, .. } => Some(target),
        Change::ReloadUnits { .. } | Change::AddZramSwap { .. } => None,
    }
}

/// Describes a change of a plan in a few words.
pub(crate) fn describe_change(change: &Change) -> String {
    match change {
        Change::SetKnob { target, to, .. } => format!("{target} = {to}"),
        Change::WriteFile { target, .. } => format!("file {target}"),
        Change::MakeLink { target, to, .. } => format!("link {target} to {to}"),
        Change::ReloadUnits { .. } => "systemctl daemon-reload".to_owned(),
        Change::AddZramSwap { target, to } => {
            let device = target.as_deref().unwrap_or("a new zram device");
            format!("swap of {} on {device} with {}", to.disksize_bytes, to.compressor)
        }
        Change::AddSwapFile { target, to } => {
            format!("swap of {} on the file {target}", to.size_bytes)
        }
        Change::SetSwapPriority { target, to, .. } => format!("priority {to} for swap on {target}"),
        Change::DrainSwap { target, .. } => format!("swapoff {target}"),
    }
}

fn stale_error(what: &str, planned: impl Into<String>, found: impl Into<String>) -> Error {
    Error::Stale { what: what.to_owned(), planned: planned.into(), found: found.into() }
}

/// Splits a name such as `thp.size.enabled[64kB]` into name and instance.
pub(crate) fn name_and_instance(target: &str) -> (&str, Option<&str>) {
    match target.strip_suffix(']').and_then(|it| it.split_once('[')) {
        Some((name, instance)) => (name, Some(instance)),
        None => (target, None),
    }
}

fn check_setting(
    host: &dyn HostOps,
    target: &str,
    from: &str,
    to: &str,
) -> Result<CheckedStep, Error> {
    let (name, instance) = name_and_instance(target);
    let change = knob::new_change(host, name, instance, to)?;
    if change.old == change.ours {
        return Ok(CheckedStep::InPlace);
    }
    if change.old != from.split_whitespace().collect::<Vec<_>>().join(" ") {
        return Err(stale_error(target, from, change.old));
    }
    Ok(CheckedStep::Setting(change))
}

/// Reads what exists at a path; fails if a plan may not write there or the folder is not writable.
fn read_config(host: &dyn HostOps, path: &str) -> Result<Config, Error> {
    let kernel = |source| Error::Kernel { doing: path.to_owned(), source };
    host.check_config_writable(folder_of(path)).map_err(kernel)?;
    host.config(path).map_err(kernel)
}

fn place_error(what: &str, why: String) -> Error {
    Error::Place { what: what.to_owned(), why }
}

fn check_file(
    host: &dyn HostOps,
    path: &str,
    from: Option<&str>,
    to: &str,
) -> Result<CheckedStep, Error> {
    place::check_path(path, false).map_err(|why| place_error(path, why))?;
    if to.len() > MAX_CONFIG {
        return Err(place_error(path, format!("its contents are longer than {MAX_CONFIG} bytes")));
    }
    let found = read_config(host, path)?;
    let (path, ours) = (path.to_owned(), to.to_owned());
    match found {
        Config::File(file) if file.text == to => Ok(CheckedStep::InPlace),
        Config::File(file) if Some(file.text.as_str()) == from => {
            Ok(CheckedStep::File(FileChange { path, old: Some(file), ours }))
        }
        Config::Missing if from.is_none() => {
            Ok(CheckedStep::File(FileChange { path, old: None, ours }))
        }
        other => {
            let planned = if from.is_some() { "the file as it was then" } else { "no file" };
            let other = match &other {
                Config::File(_) => "other contents".to_owned(),
                other => describe(other),
            };
            Err(stale_error(&path, planned, other))
        }
    }
}

fn check_link(
    host: &dyn HostOps,
    path: &str,
    from: Option<&str>,
    to: &str,
) -> Result<CheckedStep, Error> {
    place::check_path(path, true).map_err(|why| place_error(path, why))?;
    place::check_target(path, to).map_err(|why| place_error(path, why))?;
    let found = read_config(host, path)?;
    let (path, ours) = (path.to_owned(), to.to_owned());
    match found {
        Config::Link(target) if target == to => Ok(CheckedStep::InPlace),
        Config::Link(target) if Some(target.as_str()) == from => {
            Ok(CheckedStep::Link(LinkChange { path, old: Some(target), ours }))
        }
        Config::Missing if from.is_none() => {
            Ok(CheckedStep::Link(LinkChange { path, old: None, ours }))
        }
        other => {
            let planned = from.map_or("nothing".to_owned(), |from| format!("a link to {from}"));
            Err(stale_error(&path, planned, describe(&other)))
        }
    }
}

fn check_reload(site: &Site, target: &str) -> Result<CheckedStep, Error> {
    if target != "systemd" {
        return Err(stale_error(target, "systemd", "another manager of units"));
    }
    if !site.has_systemd {
        let what = "systemctl daemon-reload".to_owned();
        return Err(Error::Absent { what, why: "systemd does not run on this machine" });
    }
    Ok(CheckedStep::ReloadUnits)
}

fn check_zram_swap(
    host: &dyn HostOps,
    plan: &Plan,
    step: &Step,
    target: Option<&str>,
    to: &ZramSwap,
    applied: &[Reading],
) -> Result<CheckedStep, Error> {
    let (to, lasts) = (to.clone(), step.survives_reboot);
    let value = |expected: &str, found: String| Error::Value {
        name: "add-zram-swap".to_owned(),
        expected: expected.to_owned(),
        found,
    };
    if to.priority < 0 {
        return Err(value("a priority of 0 to 32767", to.priority.to_string()));
    }
    if to.disksize_bytes.get() < 1 << 20 {
        return Err(value("a size of at least 1 MiB", to.disksize_bytes.to_string()));
    }
    let algorithm = to.compressor.algorithm.as_str();
    if let Some(offered) = zram::offered_algorithms(host) {
        if !offered.split_whitespace().any(|word| word == algorithm) {
            return Err(value(&format!("one of {offered}"), algorithm.to_owned()));
        }
    }
    let Some(target) = target else {
        let mine = applied.iter().filter(|it| it.plan().is_some_and(|of| of.id == plan.id));
        let mut areas = mine.filter_map(|journal| area_of_step(journal, &step.id));
        let is_in_place = areas.any(|area| {
            // files of the plan may have created it with another number at a later boot
            is_as_planned(host, &area, &to)
                || lasts && drain::area_as_planned(host, &area, &to).is_some()
        });
        let swap = ZramSwapToAdd { device: DeviceToUse::New, lasts, to };
        return Ok(if is_in_place { CheckedStep::InPlace } else { CheckedStep::AddZramSwap(swap) });
    };
    let number = zram::number_of(target)
        .ok_or_else(|| value("a device as /dev/zram0", target.to_owned()))?;
    if is_as_planned(host, target, &to) {
        return Ok(CheckedStep::InPlace);
    }
    let exists = host.exists(&format!("/sys/block/zram{number}"));
    if exists && zram::has_size(host, number) {
        return Err(stale_error(
            target,
            "no such device, or one without a size",
            "a device in use",
        ));
    }
    if !exists {
        let numbers = if zram::is_loaded(host) { zram::numbers(host)? } else { Vec::new() };
        let next = (0..).find(|number| !numbers.contains(number)).unwrap_or_default();
        if next != number {
            let found = format!("that the next new device would be /dev/zram{next}");
            return Err(stale_error(target, "to get this number", found));
        }
    }
    let device =
        if exists { DeviceToUse::Existing(number) } else { DeviceToUse::NewWithNumber(number) };
    Ok(CheckedStep::AddZramSwap(ZramSwapToAdd { device, lasts, to }))
}

fn check_swap_file(
    host: &dyn HostOps,
    path: &str,
    to: &SwapFilePlan,
) -> Result<CheckedStep, Error> {
    let value = |expected: &str, found: String| Error::Value {
        name: "add-swap-file".to_owned(),
        expected: expected.to_owned(),
        found,
    };
    place::check_swap_file(path).map_err(|why| place_error(path, why))?;
    if to.priority.is_some_and(|priority| priority < 0) {
        let found = to.priority.unwrap_or_default().to_string();
        return Err(value("a priority of 0 to 32767, or none", found));
    }
    if to.size_bytes.get() < 1 << 20 {
        return Err(value("a size of at least 1 MiB", to.size_bytes.to_string()));
    }
    if is_swap_file_as_planned(host, path, to) {
        return Ok(CheckedStep::InPlace);
    }
    if host.exists(path) {
        return Err(stale_error(path, "no file", "a file, which is not this swap"));
    }
    swap_file::new_file_at(host, path, to.size_bytes)?;
    Ok(CheckedStep::AddSwapFile(SwapFileToAdd { path: path.to_owned(), to: *to }))
}

/// Whether swap on this file is enabled as the plan says.
pub(crate) fn is_swap_file_as_planned(host: &dyn HostOps, path: &str, to: &SwapFilePlan) -> bool {
    let Some(area) = drain::find_area(host, path) else { return false };
    let is_priority = match to.priority {
        Some(priority) => area.priority == i32::from(priority),
        None => area.priority < 0,
    };
    is_priority && host.entry(path).is_ok_and(|entry| entry.size == to.size_bytes.get())
}

/// The path of the swap area that a step of an applied plan created.
pub(crate) fn area_of_step(journal: &Reading, step: &str) -> Option<String> {
    let open = journal.open_changes_by_step();
    let areas =
        open.iter().filter(|(id, _)| id == step).map(|(_, open): &(String, OpenChange)| open);
    areas.into_iter().find_map(|open| match &open.change {
        RecordedChange::SwapOn(swap) => Some(swap.area.clone()),
        _ => None,
    })
}

/// Whether swap on this device is enabled as the plan says.
pub(crate) fn is_as_planned(host: &dyn HostOps, path: &str, to: &ZramSwap) -> bool {
    let Some(area) = drain::find_area(host, path) else { return false };
    let setup = drain::zram_setup(host, path).ok().flatten();
    setup.is_some_and(|setup| zram::is_as_planned(&setup, area.priority, to))
}

fn check_priority(
    host: &dyn HostOps,
    areas: &[Area],
    target: &str,
    from: i32,
    to: i16,
) -> Result<CheckedStep, Error> {
    let Some(area) = areas.iter().find(|area| area.path == target) else {
        return Err(stale_error(target, format!("swap with priority {from}"), "no swap"));
    };
    if area.priority == i32::from(to) {
        return Ok(CheckedStep::InPlace);
    }
    if zram::number_of(target).is_none() {
        return Err(stale_error(target, "swap on a zram device", "swap on a disk"));
    }
    if to < 0 {
        return Err(stale_error(target, "a priority of 0 to 32767", to.to_string()));
    }
    if area.priority != from {
        return Err(stale_error(
            target,
            format!("priority {from}"),
            format!("priority {}", area.priority),
        ));
    }
    drain::check_fit(area, areas, Bytes::new(0), &host.memory_facts())?;
    Ok(CheckedStep::SetSwapPriority(SwapPriorityToSet { area: target.to_owned(), to }))
}

fn check_drain(
    host: &dyn HostOps,
    areas: &[Area],
    target: &str,
    from: &SwapHeld,
    added: u64,
) -> Result<CheckedStep, Error> {
    let Some(area) = areas.iter().find(|area| area.path == target) else {
        return Ok(CheckedStep::InPlace);
    };
    if area.size != from.size_bytes || area.priority != from.priority {
        let planned = format!("{} of swap with priority {}", from.size_bytes, from.priority);
        return Err(stale_error(
            target,
            planned,
            format!("{} with priority {}", area.size, area.priority),
        ));
    }
    drain::check_fit(area, areas, Bytes::new(added), &host.memory_facts())?;
    Ok(CheckedStep::DrainSwap(target.to_owned()))
}
