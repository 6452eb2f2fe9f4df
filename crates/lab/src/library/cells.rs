// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes cells from an experiment file and the user's choice: one for each kernel and memory size.
//!
//! Nothing is checked on this machine here: only when a cell is run does it turn out whether the
//! machine has the swap, the settings and the kernels.

use std::path::Path;

use pagewise_guest::kernel::KernelRequest;
use pagewise_model::arm::{self, are_equivalent};
use pagewise_model::{Bytes, Clock, Program, TrialArm, TrialSwap};
use pagewise_stats::{Experiment, Metric, Neighbour, NotAMetric, Unsound, prefer_more};
use pagewise_workload::{FILLED, STEADY, Size, Workload};
use serde::Deserialize;
use toml::{Spanned, Table, Value};

use super::area::Area;
use super::file::{Arm, DefaultRunner, File, FileError, Measure, parse_setting};

/// Number of pairs in a preview, which gives a first impression and no verdicts.
pub const PREVIEW_PAIRS: u32 = 3;
/// Number of arms in a preview, if none is marked in the file.
const PREVIEW_ARMS: usize = 5;
/// Maximum number of arms of an experiment.
const MOST_ARMS: usize = 16;
/// Path of this program in a guest.
const INSIDE: &str = "/init";
/// Memory of a guest if neither the file nor the user names a size.
const USUAL_MEMORY: Bytes = Bytes::new(512 << 20);

/// The user's choices for an experiment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// Where to run the experiment (host or guests); `None`: where its file says.
    pub place: Option<DefaultRunner>,
    /// Names of the kernels to use instead of those in the file.
    pub kernels: Vec<String>,
    /// Memory sizes of guests to use instead of those in the file.
    pub memory: Vec<Bytes>,
    /// Whether not to count instructions in guests. With KVM, elapsed time can then be judged.
    pub no_count: bool,
    /// Names of the arms to run, without the others; if empty, all arms are run.
    pub arms: Vec<String>,
    /// Number of pairs to run instead of the file's number.
    pub pairs: Option<u32>,
    /// Whether to run a preview: few arms, few pairs, no verdicts.
    pub preview: bool,
    /// Seed for the random order of the runs.
    pub seed: u64,
    /// Changes of the workload's parameters, as `workload.KEY=VALUE`.
    pub set: Vec<String>,
}

/// One experiment on one kind of machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Name of the cell: `host`, or kernel and memory, such as `trixie-320M` or
    /// `trixie-generic-320M`.
    pub name: String,
    /// The machine on which the cell runs.
    pub runner: Runner,
    /// The workload of arms that name no other.
    pub workload: Workload,
    /// The description of the experiment.
    pub experiment: Experiment,
    /// Whether the cell is a preview, without a verdict.
    pub preview: bool,
}

/// Where a cell runs: on this host or in a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runner {
    /// On this host.
    Host,
    /// In a guest.
    Guest(Machine),
}

/// The machine of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The kernel that the guest boots.
    pub kernel: KernelRequest,
    /// Size of the guest's memory.
    pub memory: Bytes,
    /// Number of virtual processors.
    pub cpus: u32,
    /// Whether to count instructions: the guest's clock then advances with the instructions that it
    /// executes.
    pub count: bool,
    /// Size of an empty disk that the guest gets as /dev/vda; `None`: no disk.
    pub disk: Option<Bytes>,
}

/// Makes the cells of an experiment file for the user's choice. `program` is the path of this
/// program.
///
/// # Errors
/// What is invalid in the file or the choice, and in which line.
pub fn cells(file: &File, choice: &Choice, program: &Path) -> Result<Vec<Cell>, FileError> {
    let runners = list_runners(file, choice)?;
    let inside = |runner: &Runner| matches!(runner, Runner::Guest(_));
    let program = if runners.iter().all(inside) { Path::new(INSIDE) } else { program };
    let table = workload_table(file, choice)?;
    let workload = parse_workload(&table)
        .map_err(|error| file.error_at(&file.parts.workload, error.to_string()))?;
    let arms = make_arms(file, choice, &table, program)?;
    check_places(file, &runners[0], &arms, &workload)?;
    check_mark(file, &workload)?;
    let experiment = Experiment {
        neighbour: neighbour(file, program)?,
        ..make_experiment(file, choice, workload.program(program), arms)?
    };
    let unsound =
        |error: Unsound| file.error_at(&file.parts.measure, Mistake::from(error).to_string());
    experiment.check().map_err(unsound)?;
    let cell = |(name, runner)| Cell {
        name,
        runner,
        workload: workload.clone(),
        experiment: experiment.clone(),
        preview: choice.preview,
    };
    Ok(runners.into_iter().map(|runner| (cell_name(&runner), runner)).map(cell).collect())
}

fn cell_name(runner: &Runner) -> String {
    let Runner::Guest(machine) = runner else { return "host".to_owned() };
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let kernel = match &machine.kernel {
        KernelRequest::Path(path) => path.file_name().unwrap_or_default().to_string_lossy().into(),
        other => other.to_string(),
    };
    let kernel: String = kernel.chars().map(plain).collect();
    format!("{kernel}-{}M", machine.memory.get() >> 20)
}

/// The machines on which to run an experiment: this host, or a guest for each kernel and each
/// memory size.
fn list_runners(file: &File, choice: &Choice) -> Result<Vec<Runner>, FileError> {
    let usual = super::file::Machine::default();
    let machine = file.parts.machine.as_ref().map_or(&usual, Spanned::get_ref);
    let wrong = |what: String| match &file.parts.machine {
        Some(part) => file.error_at(part, what),
        None => file.error_in_file(what),
    };
    if choice.place.unwrap_or(machine.runner) == DefaultRunner::Host {
        let of_guests = !choice.kernels.is_empty() || !choice.memory.is_empty();
        let what = "kernels and memory sizes are those of guests: add --runner guest";
        return if of_guests { Err(file.error_in_file(what)) } else { Ok(vec![Runner::Host]) };
    }
    let (cpus, count) = (machine.cpus.unwrap_or(1), machine.count && !choice.no_count);
    if !(1..=64).contains(&cpus) || (count && cpus > 1) {
        return Err(wrong(format!("expected 1 to 64 cpus, and 1 with count, found {cpus}")));
    }
    if count && machine.disk.is_some() {
        return Err(wrong("count: a disk takes no instructions, only time: leave one away".into()));
    }
    let mut runners = Vec::new();
    for typed in &first_given(&choice.kernels, &machine.kernels, "trixie".to_owned()) {
        let kernel: KernelRequest = typed.parse().map_err(&wrong)?;
        let sizes: Vec<Bytes> = machine.memory.iter().map(|size| size.0).collect();
        for memory in
            first_given(&choice.memory, &sizes, default_memory(machine.limit.map(|it| it.0)))
        {
            let disk = machine.disk.map(|size| size.0);
            let machine = Machine { kernel: kernel.clone(), memory, cpus, count, disk };
            runners.push(Runner::Guest(machine));
        }
    }
    let twice = (1..runners.len()).find(|&at| runners[..at].contains(&runners[at]));
    let what = |at: usize| wrong(format!("{} is asked for twice", cell_name(&runners[at])));
    twice.map_or(Ok(()), |at| Err(what(at)))?;
    Ok(runners)
}

fn first_given<T: Clone>(typed: &[T], written: &[T], usual: T) -> Vec<T> {
    match (typed.is_empty(), written.is_empty()) {
        (false, _) => typed.to_vec(),
        (true, false) => written.to_vec(),
        (true, true) => vec![usual],
    }
}

/// Default memory of a guest for a cgroup limit: twice the limit, so that as much remains for
/// everything outside the cgroup.
fn default_memory(limit: Option<Bytes>) -> Bytes {
    let twice = limit.map_or(0, |limit| limit.get().saturating_mul(2));
    Bytes::new(twice.max(USUAL_MEMORY.get()))
}

/// The parameters of the file's workload, changed by those on the command line.
fn workload_table(file: &File, choice: &Choice) -> Result<Table, FileError> {
    let mut table = file.parts.workload.get_ref().clone();
    for text in &choice.set {
        let (key, value) = parse_setting(text).map_err(|what| file.error_in_file(what))?;
        table.insert(key, value);
    }
    Ok(table)
}

/// The workload that runs beside the command, with the memory limit of its cgroup. It gets no
/// scratch file system.
fn neighbour(file: &File, program: &Path) -> Result<Option<Neighbour>, FileError> {
    let Some(part) = &file.parts.neighbour else { return Ok(None) };
    let wrong = |what: String| file.error_at(part, format!("neighbour: {what}"));
    let mut table = part.get_ref().clone();
    let limit = table.remove("limit").ok_or_else(|| wrong("expected a limit".to_owned()))?;
    let limit: Size =
        limit.try_into().map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
    let ready = table.remove("ready").map(String::deserialize).transpose();
    let ready = ready.map_err(|error| wrong(format!("ready: {}", error.message())))?;
    let workload = parse_workload(&table).map_err(|mistake| wrong(mistake.to_string()))?;
    match (&workload, ready.as_deref()) {
        (Workload::Command { .. }, _) | (Workload::Tiers(_), None | Some(FILLED | STEADY)) => {}
        (Workload::Tiers(_), Some(line)) => {
            let what = format!("ready: expected {FILLED:?} or {STEADY:?}, found {line:?}");
            return Err(wrong(what));
        }
        _ => return Err(wrong("expected kind = \"tiers\" or \"command\"".to_owned())),
    }
    let memory_limit_bytes = Some(limit.0.get());
    Ok(Some(Neighbour { program: workload.program(program), memory_limit_bytes, ready }))
}

fn parse_workload(table: &Table) -> Result<Workload, Mistake> {
    let workload = Workload::deserialize(Value::Table(table.clone()))
        .map_err(|error| Mistake::Text(error.message().trim_end().replace('\n', "; ")))?;
    workload.check()?;
    Ok(workload)
}

/// An error in a part of an experiment file; the caller adds the line.
#[derive(Debug, thiserror::Error)]
enum Mistake {
    /// A text of the file cannot be parsed.
    #[error("{0}")]
    Text(String),
    /// Parameters of a workload are invalid.
    #[error(transparent)]
    Workload(#[from] pagewise_workload::Error),
    /// Parameters of an arm's workload are invalid.
    #[error("workload: {0}")]
    OfArm(Box<Mistake>),
    /// A name is too long or has characters that are not allowed.
    #[error("expected a name of at most 24 letters, digits, - and _")]
    Name,
    /// A metric is unknown.
    #[error(transparent)]
    Metric(#[from] NotAMetric),
    /// The file says which direction of a metric is better, but no metric is a regular expression.
    #[error("higher_is_better: no metric is a regular expression")]
    NoPattern,
    /// The experiment is inconsistent.
    #[error(transparent)]
    Unsound(#[from] Unsound),
}

/// Errors of the parsers of settings and swap areas.
impl From<String> for Mistake {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

fn make_arms(
    file: &File,
    choice: &Choice,
    table: &Table,
    program: &Path,
) -> Result<Vec<TrialArm>, FileError> {
    let mut arms: Vec<(&Spanned<Arm>, TrialArm)> = Vec::new();
    for written in &file.parts.arms {
        let arm = make_arm(written.get_ref(), table, program);
        let arm = arm.map_err(|what| {
            file.error_at(written, format!("arm {:?}: {what}", written.get_ref().name))
        })?;
        if let Some((_, other)) = arms.iter().find(|(_, other)| other.name == arm.name) {
            return Err(file.error_at(written, format!("two arms are called {:?}", other.name)));
        }
        if let Some((_, other)) = arms.iter().find(|(_, other)| are_equivalent(other, &arm)) {
            let what = format!("arms {:?} and {:?} are the same", other.name, arm.name);
            return Err(file.error_at(written, what));
        }
        arms.push((written, arm));
    }
    if !(2..=MOST_ARMS).contains(&arms.len()) {
        let what = format!("expected 2 to {MOST_ARMS} arms ([[arm]]), found {}", arms.len());
        return Err(file.error_in_file(what));
    }
    pick_arms(file, choice, arms)
}

/// Selects the chosen arms, in the order of the file: the first is the one with which the others
/// are compared.
fn pick_arms(
    file: &File,
    choice: &Choice,
    arms: Vec<(&Spanned<Arm>, TrialArm)>,
) -> Result<Vec<TrialArm>, FileError> {
    let names: Vec<String> = arms.iter().map(|(_, arm)| arm.name.clone()).collect();
    if let Some(name) = choice.arms.iter().find(|name| !names.contains(name)) {
        let what = format!("no arm {name:?}; its arms are {}", names.join(", "));
        return Err(file.error_in_file(what));
    }
    let marked = arms.iter().any(|(written, _)| written.get_ref().preview);
    let matches = |at: usize, written: &Arm| match (choice.arms.is_empty(), choice.preview) {
        (false, _) => choice.arms.contains(&written.name),
        (true, false) => true,
        (true, true) if marked => written.preview,
        (true, true) => at < PREVIEW_ARMS,
    };
    let all = arms.into_iter().enumerate();
    let kept = all.filter(|(at, (written, _))| matches(*at, written.get_ref()));
    let kept: Vec<TrialArm> = kept.map(|(_, (_, arm))| arm).collect();
    match kept.len() {
        0 | 1 => Err(file.error_in_file("expected two arms to compare: name another with --arm")),
        _ => Ok(kept),
    }
}

fn make_arm(written: &Arm, table: &Table, program: &Path) -> Result<TrialArm, Mistake> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !(1..=24).contains(&written.name.len()) || !written.name.bytes().all(plain) {
        return Err(Mistake::Name);
    }
    let set =
        written.set.iter().map(|(knob, value)| arm::parse_setting(&format!("{knob}={value}")));
    let areas = |areas: &Vec<Area>| areas.iter().map(Area::to_swap).collect::<Result<_, String>>();
    let own = (!written.workload.is_empty()).then(|| override_workload(table, &written.workload));
    Ok(TrialArm {
        name: written.name.clone(),
        settings: set.collect::<Result<_, String>>()?,
        swap: written.swap.as_ref().map(areas).transpose()?,
        program: own.transpose()?.map(|workload| workload.program(program)),
    })
}

fn override_workload(table: &Table, over: &Table) -> Result<Workload, Mistake> {
    let mut table = table.clone();
    table.extend(over.iter().map(|(key, value)| (key.clone(), value.clone())));
    parse_workload(&table).map_err(|mistake| Mistake::OfArm(Box::new(mistake)))
}

/// Checks that this kind of machine has what the arms and the workload need.
fn check_places(
    file: &File,
    runner: &Runner,
    arms: &[TrialArm],
    workload: &Workload,
) -> Result<(), FileError> {
    let areas = || arms.iter().filter_map(|arm| arm.swap.as_ref()).flatten();
    let disk = areas().any(|area| area.disk().is_some());
    let in_file = areas().any(|area| matches!(area, TrialSwap::File { .. }));
    let limited = file.parts.machine.as_ref().is_some_and(|it| it.get_ref().limit.is_some());
    let ours = !matches!(workload, Workload::Command { .. });
    let what = match runner {
        Runner::Host if disk => {
            "disk: swap on a disk is for guests, and so is writeback; { file = \"512M\" } is a file"
        }
        Runner::Host if ours && !limited => {
            "expected a limit in [machine]: without one it would fill this host's memory"
        }
        Runner::Guest(machine) if disk && machine.disk.is_none() => {
            "disk: this guest has none; [machine] disk = \"512M\" gives it one"
        }
        Runner::Guest(machine) if in_file && machine.count => {
            "count: a guest that counts has no disk, and so no file for swap"
        }
        _ => return Ok(()),
    };
    Err(file.error_in_file(what))
}

/// Checks that a workload prints the line from which on it is measured; a user's command is not
/// checked, because its output is unknown.
fn check_mark(file: &File, workload: &Workload) -> Result<(), FileError> {
    let measure = &file.parts.measure;
    let Some(line) = &measure.get_ref().from else { return Ok(()) };
    let ours = !matches!(workload, Workload::Command { .. });
    if ours && !(workload.is_marked() && line == STEADY) {
        let what = format!(
            "from: expected \"{STEADY}\" with a workload that prints it (swap, coldpages, tiers), or any line \
             with kind = \"command\", found {line:?}"
        );
        return Err(file.error_at(measure, what));
    }
    Ok(())
}

fn make_experiment(
    file: &File,
    choice: &Choice,
    program: Program,
    arms: Vec<TrialArm>,
) -> Result<Experiment, FileError> {
    let measure = file.parts.measure.get_ref();
    let wrong = |mistake: Mistake| file.error_at(&file.parts.measure, mistake.to_string());
    let limit = file.parts.machine.as_ref().and_then(|machine| machine.get_ref().limit);
    let (pairs, warm_up) = if choice.preview {
        (PREVIEW_PAIRS, 0)
    } else {
        (choice.pairs.unwrap_or(measure.pairs), measure.warm_up)
    };
    let experiment = Experiment {
        program,
        arms,
        metrics: list_metrics(measure).map_err(wrong)?,
        pairs,
        min_effect: measure.min_effect.0,
        warm_up,
        seed: choice.seed,
        memory_limit_bytes: limit.map(|size| size.0.get()),
        deadline: measure.deadline.0,
        clock: Clock::Real,
        profile: measure.profile,
        counted_from: measure.from.clone(),
        neighbour: None,
    };
    Ok(experiment)
}

/// The metrics that an experiment file lists. For a regular expression, higher is better only if
/// the file says so.
fn list_metrics(measure: &Measure) -> Result<Vec<Metric>, Mistake> {
    let names = [&measure.primary].into_iter().chain(&measure.guards);
    let mut metrics = names.map(|name| Metric::parse(name)).collect::<Result<Vec<_>, _>>()?;
    if measure.higher_is_better && !prefer_more(&mut metrics) {
        return Err(Mistake::NoPattern);
    }
    Ok(metrics)
}
