// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The documents that other programs may rely on (`--json`).
//!
//! The structure of the documents is that of the types in `pagewise-model`, so a new field there
//! appears here and in the schema without further changes. Sizes are in bytes; a value that a host
//! lacks is `{"absent": why}`, never 0. All fields are borrowed: a document is written without a
//! second copy of the snapshot.

mod head;
mod plans;
mod thp;

use std::collections::BTreeMap;

use head::{Head, print_document};
use pagewise_model::knob::KnobReading;
use pagewise_model::{
    AgentReport, AgingReport, Benchmark, Capability, Cgroups, Comparison, Cost, Counters, Damon,
    Effective, Estimate, Explanation, Finding, FleetReport, FreeBlocks, HostVerdict, HugePool,
    Incident, Interval, KernelLog, KnobOwnership, Ksm, LimitSurvey, LogText, Memory, MemoryFiles,
    Mglru, Name, OomEvent, OomExplanation, OomProof, PinnedCode, Problem, ProcessChange, Processes,
    Psi, Reading, RuleExplanation, SettableKnob, Snapshot, Thp, Tier, Trial as Tested, TrialRun,
    Zone, Zram, Zswap,
};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, json_schema};
use serde::Serialize;

use crate::{
    Answer, Benched, CellTried, Experimented, Merged, OomFound, OomText, PlannedChanges,
    ScanReport, TrialReport,
};

pub use head::Noun;
pub use plans::{apply, ledger, tuned_plan_json, undo, verify};
pub use thp::{collapse, restrain, thp};

/// The values that were read. Empty for parts that the document does not cover.
#[derive(Debug, Serialize, JsonSchema)]
struct Facts<'a> {
    memory: &'a Memory,
    memory_files: &'a MemoryFiles,
    vmstat: &'a Counters,
    psi: &'a Psi,
    zones: &'a [Zone],
    free_blocks: &'a [FreeBlocks],
    /// In the order in which the kernel fills them.
    tiers: &'a [Tier],
    zram: &'a [Zram],
    /// Devices of the module zmerge: the values of zram, and how they merge.
    zmerge: &'a [Zram],
    zswap: &'a Zswap,
    ksm: &'a Ksm,
    hugetlb: &'a [HugePool],
    thp: &'a Thp,
    mglru: &'a Mglru,
    damon: &'a Damon,
    knobs: &'a [KnobReading],
    capabilities: &'a [Capability],
    processes: &'a Processes,
    cgroups: &'a Cgroups,
    /// Processes killed for lack of memory, according to the kernel log.
    oom_kills: &'a KernelLog,
    problems: &'a [Problem],
    /// Rates; left out if the host was read only once.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<Rates<'a>>,
}

/// Changes between two readings.
#[derive(Debug, Serialize, JsonSchema)]
struct Rates<'a> {
    /// Time between the readings.
    seconds: f64,
    /// Counters of `/proc/vmstat` that grew, with their growth per second.
    changes: BTreeMap<&'a Name, f64>,
    /// Processes that exist in both readings and changed, in order of process id.
    processes: Vec<ProcessRate>,
}

/// Changes of a process per second. A value that was not read both times is left out.
#[derive(Debug, Serialize, JsonSchema)]
struct ProcessRate {
    pid: u32,
    /// Growth of anonymous memory, in RAM and in swap together; negative if it shrank.
    growth_bytes: f64,
    /// The part of the growth that is in swap.
    swap_bytes: f64,
    /// CPU time in percent of one CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_percent: Option<f64>,
    /// Major page faults.
    #[serde(skip_serializing_if = "Option::is_none")]
    major_faults: Option<f64>,
}

impl ProcessRate {
    fn from_change(change: &ProcessChange<'_>) -> Option<Self> {
        let per_second = |count: f64| count / change.seconds;
        let rate = Self {
            pid: change.end.pid,
            growth_bytes: change.growth_per_second()?,
            swap_bytes: per_second(change.swap_growth()? as f64),
            cpu_percent: change.cpu_percent(),
            major_faults: change.major_faults().map(|faults| per_second(faults as f64)),
        };
        let used = rate.cpu_percent.is_some_and(|cpu| cpu > 0.0)
            || rate.major_faults.is_some_and(|faults| faults > 0.0);
        (rate.growth_bytes != 0.0 || rate.swap_bytes != 0.0 || used).then_some(rate)
    }
}

/// Everything.
#[derive(Debug, Serialize, JsonSchema)]
struct Report<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    verdict: &'a HostVerdict,
    /// Most severe first.
    findings: &'a [Finding],
    /// Estimated compressed size of the largest processes that may be read, from a small sample:
    /// all of them together first, then each process. Empty if no page was read.
    estimates: &'a [Estimate],
    /// The configuration that sets each setting, zram device and swap area at boot, by name.
    owners: &'a [KnobOwnership],
    #[serde(flatten)]
    facts: Facts<'a>,
}

/// Facts alone.
#[derive(Debug, Serialize, JsonSchema)]
struct Status<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    verdict: &'a HostVerdict,
    #[serde(flatten)]
    facts: Facts<'a>,
}

/// Findings alone.
#[derive(Debug, Serialize, JsonSchema)]
struct Doctor<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    verdict: &'a HostVerdict,
    /// Most severe first.
    findings: &'a [Finding],
    not_shown: NotShown,
    /// Processes killed for lack of memory, according to the kernel log; with --oom.
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_kills: Option<&'a KernelLog>,
    /// Explanations of the newest kills, newest first; with --oom.
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_explained: Option<&'a [OomExplanation]>,
    /// Explanations of the newest allocations that failed without a kill, newest first; with --oom.
    #[serde(skip_serializing_if = "Option::is_none")]
    failures_explained: Option<&'a [OomExplanation]>,
    /// Explanations of the newest tasks that did not run for a long time, newest first; with --oom.
    #[serde(skip_serializing_if = "Option::is_none")]
    hung_tasks_explained: Option<&'a [OomExplanation]>,
    /// Explanations of kills by programs, and of units that systemd reports, oldest first; with
    /// --oom.
    #[serde(skip_serializing_if = "Option::is_none")]
    programs_explained: Option<&'a [OomExplanation]>,
    /// The kills by the kernel and by programs, oldest first; with --oom.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_line: Option<&'a [OomEvent]>,
    /// Commands that may show kills which the kernel log lacks, or which could not be read; with
    /// --oom.
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_elsewhere: Option<&'a [String]>,
    /// The newest kill, done again in a guest; with `oom --prove`.
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_proof: Option<&'a OomProof>,
}

/// Numbers of findings that are left out.
#[derive(Debug, Serialize, JsonSchema)]
struct NotShown {
    /// Findings below `--min-severity`.
    below_min_severity: usize,
    /// Findings of ignored rules.
    ignored: usize,
}

/// The rules of `doctor`.
#[derive(Debug, Serialize)]
struct Rules<'a> {
    schema: &'static str,
    pagewise: &'static str,
    rules: &'a [RuleExplanation],
}

/// The kills and failed allocations of a text.
#[derive(Debug, Serialize, JsonSchema)]
struct Oom<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// What the text is.
    text: &'a LogText,
    /// The reports in the text.
    oom_kills: &'a KernelLog,
    /// Explanations of the newest kills, newest first.
    oom_explained: &'a [OomExplanation],
    /// Explanations of the newest allocations that failed without a kill, newest first.
    failures_explained: &'a [OomExplanation],
    /// Explanations of the newest tasks that did not run for a long time, newest first.
    hung_tasks_explained: &'a [OomExplanation],
    /// Explanations of kills by programs, and of units that systemd reports, oldest first.
    programs_explained: &'a [OomExplanation],
    /// The kills by the kernel and by programs, oldest first.
    time_line: &'a [OomEvent],
    /// The newest kill, done again in a guest; with `--prove`.
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_proof: Option<&'a OomProof>,
}

/// Code that is locked.
#[derive(Debug, Serialize, JsonSchema)]
struct Pin<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    pin: &'a PinnedCode,
}

/// What the kernel can do.
#[derive(Debug, Serialize, JsonSchema)]
struct Capabilities<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    capabilities: &'a [Capability],
}

/// A subject with the values of the host.
#[derive(Debug, Serialize, JsonSchema)]
struct Explain<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    explanation: &'a Explanation,
}

/// Two hosts, or one at two times.
#[derive(Debug, Serialize, JsonSchema)]
struct Compare<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

/// Which limit each cgroup needs.
#[derive(Debug, Serialize, JsonSchema)]
struct Limits<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    survey: &'a LimitSurvey,
}

/// Many machines at once. The keys about one host are empty.
#[derive(Debug, Serialize, JsonSchema)]
struct Fleet<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    report: &'a FleetReport,
}

/// What happened to memory in some time.
#[derive(Debug, Serialize, JsonSchema)]
struct Why<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    incident: &'a Incident,
}

/// The subjects of `explain`.
#[derive(Debug, Serialize)]
struct Subjects<'a> {
    schema: &'static str,
    pagewise: &'static str,
    subjects: Vec<Subject<'a>>,
}

#[derive(Debug, Serialize)]
struct Subject<'a> {
    subject: &'a str,
    title: &'a str,
}

/// What memory would become.
#[derive(Debug, Serialize, JsonSchema)]
struct Scan<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// The estimate for all memory first, then for each part if there are several.
    estimates: &'a [Estimate],
    /// What the machine could hold with a zram device of half its memory, full of memory like this,
    /// compressed with the first algorithm; left out if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    effective: Option<Effective>,
    /// Remarks about the sample.
    notes: &'a [String],
}

/// What each algorithm costs, and which is best for what.
#[derive(Debug, Serialize, JsonSchema)]
struct Bench<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    benchmark: &'a Benchmark,
}

/// One arm against another, and every run.
#[derive(Debug, Serialize, JsonSchema)]
struct Trial<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    trial: &'a Tested,
    /// In the order in which they ran.
    runs: &'a [TrialRun],
}

/// The settings that an arm of a trial may set.
#[derive(Debug, Serialize, JsonSchema)]
struct Knobs<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// In the order of Pagewise's table of settings.
    settings: &'a [SettableKnob<'a>],
}

/// What `trial --list-knobs --json` prints, with a trailing newline.
pub fn settable_knobs(settings: &[SettableKnob<'_>], snapshot: &Snapshot, cost: Cost) -> String {
    print_document(&Knobs { head: Head::new(Noun::Knobs, snapshot, cost), settings })
}

/// The results of an experiment, on each machine.
#[derive(Debug, Serialize, JsonSchema)]
struct Lab<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// The name of the experiment.
    experiment: &'a str,
    /// The question of the experiment.
    about: &'a str,
    /// The published claim that it tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<&'a str>,
    /// A preview with few runs: no conclusions may be drawn.
    preview: bool,
    /// Why there are fewer cells than planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<&'a str>,
    cells: Vec<LabCell<'a>>,
}

/// An experiment on one machine.
#[derive(Debug, Serialize, JsonSchema)]
struct LabCell<'a> {
    /// `host`, or kernel and memory of a guest, as `trixie-320M`.
    cell: &'a str,
    /// The release of the kernel that it ran on.
    kernel: &'a Reading<Name>,
    /// The total memory of that machine.
    memory: &'a Reading<pagewise_model::Bytes>,
    /// Why it ended early, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<&'a str>,
    #[serde(flatten)]
    trial: &'a Tested,
    /// In the order in which they ran.
    runs: &'a [TrialRun],
}

/// What `lab run --json` prints, with a trailing newline.
pub fn lab<'a>(answered: &Experimented<'a>) -> String {
    let Experimented { snapshot, name, about, claim, preview, stopped, cells, cost } = *answered;
    let cell = |cell: &CellTried<'a>| LabCell {
        cell: cell.name,
        kernel: &cell.snapshot.taken.kernel,
        memory: &cell.snapshot.memory.total,
        trouble: cell.trouble,
        trial: cell.trial,
        runs: cell.runs,
    };
    let head = Head::new(Noun::Lab, snapshot, cost);
    let cells = cells.iter().map(cell).collect();
    print_document(&Lab { head, experiment: name, about, claim, preview, stopped, cells })
}

/// Agings of a memory cgroup.
#[derive(Debug, Serialize, JsonSchema)]
struct Age<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    report: &'a AgingReport,
}

/// What the agent does on this machine.
#[derive(Debug, Serialize, JsonSchema)]
struct Agent<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    report: &'a AgentReport,
}

/// The result of a pass over zmerge devices.
#[derive(Debug, Serialize, JsonSchema)]
struct Merge<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    merge: &'a pagewise_model::Merge,
}

/// Changes to this machine, for `apply`: it reads the keys after `cost` and ignores the others.
#[derive(Debug, Serialize, JsonSchema)]
struct Plan<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    plan: &'a pagewise_model::plan::Plan,
}

/// What `plan --json` prints, with a trailing newline.
pub fn plan(planned: &PlannedChanges<'_>) -> String {
    let head = Head::new(Noun::Plan, planned.snapshot, planned.cost);
    print_document(&Plan { head, plan: planned.plan })
}

/// What `age --json` prints, with a trailing newline.
pub fn age(report: &AgingReport, snapshot: &Snapshot, cost: Cost) -> String {
    print_document(&Age { head: Head::new(Noun::Age, snapshot, cost), report })
}

/// What `agent status --json` prints, with a trailing newline.
pub fn agent(report: &AgentReport, snapshot: &Snapshot, cost: Cost) -> String {
    print_document(&Agent { head: Head::new(Noun::Agent, snapshot, cost), report })
}

/// What `merge --json` prints, with a trailing newline.
pub fn merge(merged: &Merged<'_>) -> String {
    let head = Head::new(Noun::Merge, merged.snapshot, merged.cost);
    print_document(&Merge { head, merge: merged.merge })
}

/// What `trial --json` prints, with a trailing newline.
pub fn trial(tried: &TrialReport<'_>) -> String {
    let head = Head::new(Noun::Trial, tried.snapshot, tried.cost);
    print_document(&Trial { head, trial: tried.trial, runs: tried.runs })
}

/// What `bench --json` prints, with a trailing newline.
pub fn bench(benched: &Benched<'_>) -> String {
    let head = Head::new(Noun::Bench, benched.snapshot, benched.cost);
    print_document(&Bench { head, benchmark: benched.benchmark })
}

/// What `scan --json` prints, with a trailing newline.
pub fn scan(scanned: &ScanReport<'_>) -> String {
    let head = Head::new(Noun::Scan, scanned.snapshot, scanned.cost);
    let ScanReport { estimates, effective, notes, .. } = *scanned;
    print_document(&Scan { head, estimates, effective, notes })
}

/// What `report --json` prints, with a trailing newline.
pub fn report(answer: &Answer<'_>) -> String {
    let (head, facts) =
        (Head::of_answer(Noun::Report, answer), Facts::from_interval(answer.interval));
    let Answer { verdict, findings, estimates, owners, .. } = *answer;
    print_document(&Report { head, verdict, findings, estimates, owners, facts })
}

/// What `status --json` prints, with a trailing newline.
pub fn status(answer: &Answer<'_>) -> String {
    print_document(&Status {
        head: Head::of_answer(Noun::Status, answer),
        verdict: answer.verdict,
        facts: Facts::from_interval(answer.interval),
    })
}

/// What `doctor --json` prints, with a trailing newline.
pub fn doctor(answer: &Answer<'_>) -> String {
    doctor_but(answer, 0)
}

/// What `doctor --json` prints, as [`doctor()`] does, with the number of findings that were left
/// out because their rules are ignored.
pub fn doctor_but(answer: &Answer<'_>, ignored: usize) -> String {
    print_document(&doctor_document(answer, ignored))
}

/// What `doctor --oom --json` prints, with a trailing newline.
pub fn oom(answer: &Answer<'_>, found: &OomFound<'_>, elsewhere: &[String]) -> String {
    print_document(&Doctor {
        oom_kills: Some(&answer.interval.end.kernel_log),
        oom_explained: Some(found.explained),
        failures_explained: Some(found.failures),
        hung_tasks_explained: Some(found.hung),
        programs_explained: Some(found.programs),
        time_line: Some(found.time_line),
        oom_elsewhere: Some(elsewhere),
        ..doctor_document(answer, 0)
    })
}

/// What `oom FILE --json` prints, with a trailing newline. Nothing is known of the machine, so that
/// the snapshot is an empty one.
pub fn oom_text(log: &KernelLog, text: &OomText<'_>, snapshot: &Snapshot, cost: Cost) -> String {
    print_document(&Oom {
        head: Head::new(Noun::Oom, snapshot, cost),
        text: text.about,
        oom_kills: log,
        oom_explained: text.found.explained,
        failures_explained: text.found.failures,
        hung_tasks_explained: text.found.hung,
        programs_explained: text.found.programs,
        time_line: text.found.time_line,
        oom_proof: None,
    })
}

/// Adds a proof to what [`oom()`] or [`oom_text`] printed.
///
/// # Errors
/// If `printed` is no document.
pub fn with_proof(printed: &[u8], proof: &OomProof) -> serde_json::Result<String> {
    let mut document: serde_json::Value = serde_json::from_slice(printed)?;
    document["oom_proof"] = serde_json::to_value(proof)?;
    Ok(print_document(&document))
}

fn doctor_document<'a>(answer: &Answer<'a>, ignored: usize) -> Doctor<'a> {
    Doctor {
        head: Head::of_answer(Noun::Doctor, answer),
        verdict: answer.verdict,
        findings: answer.findings,
        not_shown: NotShown { below_min_severity: answer.hidden, ignored },
        oom_kills: None,
        oom_explained: None,
        failures_explained: None,
        hung_tasks_explained: None,
        programs_explained: None,
        time_line: None,
        oom_proof: None,
        oom_elsewhere: None,
    }
}

/// What `doctor --list --json` and `doctor --explain ID --json` print, with a trailing newline.
pub fn rules(rules: &[RuleExplanation]) -> String {
    print_document(&Rules {
        schema: "pagewise/rules/1",
        pagewise: env!("CARGO_PKG_VERSION"),
        rules,
    })
}

/// What `explain --json` prints without a subject: the name and the title of each, with a trailing
/// newline.
pub fn subjects(subjects: &[(&str, &str)]) -> String {
    let listed = subjects.iter().map(|&(subject, title)| Subject { subject, title });
    print_document(&Subjects {
        schema: "pagewise/subjects/1",
        pagewise: env!("CARGO_PKG_VERSION"),
        subjects: listed.collect(),
    })
}

/// What `pin --json` prints, with a trailing newline.
pub fn pin(pin: &PinnedCode, snapshot: &Snapshot, cost: Cost) -> String {
    print_document(&Pin { head: Head::new(Noun::Pin, snapshot, cost), pin })
}

/// What `capabilities --json` prints, with a trailing newline.
pub fn capabilities(snapshot: &Snapshot, cost: Cost) -> String {
    let head = Head::new(Noun::Capabilities, snapshot, cost);
    print_document(&Capabilities { head, capabilities: &snapshot.capabilities })
}

/// What `explain SUBJECT --json` prints, with a trailing newline.
pub fn explain(explanation: &Explanation, snapshot: &Snapshot, cost: Cost) -> String {
    print_document(&Explain { head: Head::new(Noun::Explain, snapshot, cost), explanation })
}

/// What `compare --json` prints, with a trailing newline; the host is the second of the two.
pub fn compare(comparison: &Comparison, snapshot: &Snapshot, cost: Cost) -> String {
    print_document(&Compare { head: Head::new(Noun::Compare, snapshot, cost), comparison })
}

/// What `limits --json` prints, with a trailing newline.
pub fn limits(survey: &LimitSurvey, snapshot: &Snapshot, cost: Cost) -> String {
    print_document(&Limits { head: Head::new(Noun::Limits, snapshot, cost), survey })
}

/// What `fleet report --json` prints, with a trailing newline.
pub fn fleet(report: &FleetReport, cost: Cost) -> String {
    let none = Snapshot::default();
    print_document(&Fleet { head: Head::new(Noun::Fleet, &none, cost), report })
}

/// What `why --json` prints, with a trailing newline; the host is that of the last reading.
pub fn why(incident: &Incident, snapshot: &Snapshot, cost: Cost) -> String {
    print_document(&Why { head: Head::new(Noun::Why, snapshot, cost), incident })
}

/// All results of [`schema`], as a JSON object with [`Noun::name`] as keys, compressed with zstd.
/// The program prints these texts instead of generating them: the generator would add 0.6 MB to it,
/// the texts add 0.03 MB.
pub const COMPRESSED_SCHEMAS: &[u8] = include_bytes!("json/schemas.zst");

/// The JSON Schema (draft 2020-12) of the document, with a trailing newline.
pub fn schema(noun: Noun) -> String {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = match noun {
        Noun::Report => generator.into_root_schema_for::<Report<'_>>(),
        Noun::Status => generator.into_root_schema_for::<Status<'_>>(),
        Noun::Doctor => generator.into_root_schema_for::<Doctor<'_>>(),
        Noun::Oom => generator.into_root_schema_for::<Oom<'_>>(),
        Noun::Pin => generator.into_root_schema_for::<Pin<'_>>(),
        Noun::Capabilities => generator.into_root_schema_for::<Capabilities<'_>>(),
        Noun::Explain => generator.into_root_schema_for::<Explain<'_>>(),
        Noun::Compare => generator.into_root_schema_for::<Compare<'_>>(),
        Noun::Limits => generator.into_root_schema_for::<Limits<'_>>(),
        Noun::Fleet => generator.into_root_schema_for::<Fleet<'_>>(),
        Noun::Why => generator.into_root_schema_for::<Why<'_>>(),
        Noun::Scan => generator.into_root_schema_for::<Scan<'_>>(),
        Noun::Bench => generator.into_root_schema_for::<Bench<'_>>(),
        Noun::Trial => generator.into_root_schema_for::<Trial<'_>>(),
        Noun::Knobs => generator.into_root_schema_for::<Knobs<'_>>(),
        Noun::Lab => generator.into_root_schema_for::<Lab<'_>>(),
        Noun::Thp => generator.into_root_schema_for::<thp::Thp<'_>>(),
        Noun::Collapse => generator.into_root_schema_for::<thp::Collapse<'_>>(),
        Noun::Restrain => generator.into_root_schema_for::<thp::Restrain<'_>>(),
        Noun::Agent => generator.into_root_schema_for::<Agent<'_>>(),
        Noun::Age => generator.into_root_schema_for::<Age<'_>>(),
        Noun::Merge => generator.into_root_schema_for::<Merge<'_>>(),
        Noun::Plan => generator.into_root_schema_for::<Plan<'_>>(),
        Noun::Apply => generator.into_root_schema_for::<plans::Apply<'_>>(),
        Noun::Verify => generator.into_root_schema_for::<plans::Verify<'_>>(),
        Noun::Ledger => generator.into_root_schema_for::<plans::Ledger<'_>>(),
        Noun::Tune => generator.into_root_schema_for::<plans::Tune<'_>>(),
        Noun::Undo => generator.into_root_schema_for::<plans::Undo<'_>>(),
    };
    name_version(&mut schema, noun);
    print_document(&schema)
}

/// Sets the title and the one value that identifies the document, which a reader must check.
fn name_version(schema: &mut Schema, noun: Noun) {
    schema.insert("title".to_owned(), format!("pagewise {} --json", noun.command()).into());
    let properties = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut);
    if let Some(properties) = properties {
        properties.insert("schema".to_owned(), json_schema!({ "const": noun.version() }).into());
    }
}

impl<'a> Facts<'a> {
    fn from_interval(interval: &'a Interval) -> Self {
        let end: &'a Snapshot = &interval.end;
        Self {
            memory: &end.memory,
            memory_files: &end.memory_files,
            vmstat: &end.vmstat,
            psi: &end.psi,
            zones: &end.zones,
            free_blocks: &end.free_blocks,
            tiers: &end.tiers,
            zram: &end.zram,
            zmerge: &end.zmerge,
            zswap: &end.zswap,
            ksm: &end.ksm,
            hugetlb: &end.hugetlb,
            thp: &end.thp,
            mglru: &end.mglru,
            damon: &end.damon,
            knobs: &end.knobs,
            capabilities: &end.capabilities,
            processes: &end.processes,
            cgroups: &end.cgroups,
            oom_kills: &end.kernel_log,
            problems: &end.problems,
            interval: Rates::from_interval(interval),
        }
    }
}

impl<'a> Rates<'a> {
    fn from_interval(interval: &'a Interval) -> Option<Self> {
        let seconds = interval.seconds()?;
        let moved = interval.end.vmstat.iter().filter_map(|(name, _)| {
            let change = interval.vmstat(name.as_str()).filter(|change| change.delta > 0)?;
            Some((name, change.per_second))
        });
        let processes = interval.process_changes();
        let processes = processes.iter().filter_map(ProcessRate::from_change).collect();
        Some(Self { seconds, changes: moved.collect(), processes })
    }
}
