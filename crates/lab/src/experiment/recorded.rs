// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a folder of evidence: the experiment and its raw runs, which can then be judged again.
//!
//! The program writes `experiment.json` before the first run, one line of `runs.jsonl` after each
//! run, and `summary.json` at the end. A killed experiment has no summary, and its last line may be
//! incomplete.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use pagewise_guest::{Error, ErrorContext};
use pagewise_model::{Program, TrialArm, TrialRun};
use pagewise_observe::UserFile;
use pagewise_stats::Experiment;
use pagewise_workload::recognise;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Name of the file that describes the experiment.
pub const EXPERIMENT: &str = "experiment.json";
/// Name of the file with one line for each run.
pub const RUNS: &str = "runs.jsonl";
/// Name of the file with the results.
pub const SUMMARY: &str = "summary.json";

/// Name and version of the format of `experiment.json`.
const SCHEMA: &str = "pagewise/experiment/1";

/// The key in `experiment.json` with the workload's parameters, in addition to its command line.
const WORKLOAD: &str = "workload";

/// Maximum size of `experiment.json` and `summary.json`, in bytes. Parsed as [`Value`], a file may
/// take 32 times as much memory.
pub(crate) const LONGEST_DOCUMENT: u64 = 1 << 20;
/// Maximum size of `runs.jsonl`, in bytes: 100 pairs of ten arms have about 3 MB.
const LONGEST_RUNS: u64 = 32 << 20;
/// Maximum length of a line of `runs.jsonl`, in bytes.
const LONGEST_LINE: u64 = 256 << 10;
/// Maximum number of runs in a folder of evidence; 100 pairs and 100 warm-up rounds of ten arms
/// make 2,000 runs.
const MOST_RUNS: usize = 10_000;
/// Maximum number of values of all runs together: a value of a few bytes in the file takes ten
/// times as much memory.
const MOST_VALUES: usize = 400_000;

/// Contents of `experiment.json`: the experiment, the program version and the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// Name and version of the format of the file.
    pub schema: String,
    /// Version of the program that recorded the experiment.
    pub pagewise: String,
    /// The machine, in the same form as in other documents.
    pub machine: Value,
    /// Origin of the experiment: its file and the command line; null for a trial.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub source: Value,
    /// The description of the experiment.
    pub experiment: Experiment,
}

impl Described {
    /// Describes an experiment of this version of the program.
    #[must_use]
    pub fn new(experiment: Experiment, machine: Value) -> Self {
        let pagewise = env!("CARGO_PKG_VERSION").to_owned();
        let (schema, source) = (SCHEMA.to_owned(), Value::Null);
        Self { schema, pagewise, machine, source, experiment }
    }
}

/// What was read from a folder of evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Name of the experiment; a trial has none.
    pub name: Option<String>,
    /// The description of the experiment.
    pub experiment: Experiment,
    /// The raw runs of the experiment.
    pub runs: Vec<TrialRun>,
    /// Contents of `summary.json`; `None` if the experiment did not finish.
    pub summary: Option<Value>,
}

impl Recorded {
    /// Reads a folder of evidence.
    ///
    /// # Errors
    /// If a file is missing, or its contents are not valid.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let document = |name: &str| {
            UserFile::open_in(folder, name, LONGEST_DOCUMENT)?.into_bytes().map_err(Error::from)
        };
        let described = document(EXPERIMENT)?;
        let runs = UserFile::open_in(folder, RUNS, LONGEST_RUNS)?.into_reader();
        let has_summary = folder.join(SUMMARY).symlink_metadata().is_ok();
        let summary = has_summary.then(|| document(SUMMARY)).transpose()?;
        Self::parse(folder, &described, runs, summary.as_deref())
    }

    /// Parses the files of `folder`, which are already read or opened.
    pub(crate) fn parse(
        folder: &Path,
        described: &[u8],
        runs: impl Read,
        summary: Option<&[u8]>,
    ) -> Result<Self, Error> {
        let described: Described = parse_document(folder, EXPERIMENT, described)?;
        if described.schema != SCHEMA {
            let what = format!("expected {SCHEMA}, found {:?}", described.schema);
            return Err(Error::Unusable { path: folder.join(EXPERIMENT), what });
        }
        let name = described.source["experiment"].as_str().map(str::to_owned);
        let experiment = recognise_workloads(described.experiment);
        experiment.check().map_err(|error| Error::Unusable {
            path: folder.join(EXPERIMENT),
            what: error.to_string(),
        })?;
        let runs = parse_runs(folder, runs)?;
        let summary = summary.map(|text| parse_document(folder, SUMMARY, text)).transpose()?;
        Ok(Self { name, experiment, runs, summary })
    }

    /// Keys whose values in the summary differ from those in `found`; empty if there is no
    /// difference.
    #[must_use]
    pub fn differences(&self, found: &impl Serialize) -> Vec<String> {
        let Some(Value::Object(said)) = &self.summary else { return Vec::new() };
        // `found` is converted to JSON text and back, like the summary, because parsing may change
        // the last digit of a number
        let text = serde_json::to_string(found).unwrap_or_default();
        let Ok(Value::Object(mut found)) = serde_json::from_str(&text) else { return Vec::new() };
        drop_new_keys(said, &mut found);
        // summaries of earlier versions do not name the clock; it was always the real one
        let is_old = |key: &str, value: &Value| key == "clock" && *value == "real";
        let differs = |(key, value): &(&String, &Value)| match said.get(*key) {
            Some(said) => said != *value,
            None => !is_old(key, value),
        };
        found.iter().filter(differs).map(|(key, _)| key.clone()).collect()
    }
}

/// Recognises workloads by their command lines, because earlier versions did not record that a
/// command is a workload.
fn recognise_workloads(experiment: Experiment) -> Experiment {
    let typed = |program: Program| match program {
        Program::Argv(argv) => recognise(argv),
        workload @ Program::Workload { .. } => workload,
    };
    let of_arm = |arm: TrialArm| TrialArm { program: arm.program.map(typed), ..arm };
    let arms = experiment.arms.into_iter().map(of_arm).collect();
    Experiment { program: typed(experiment.program), arms, ..experiment }
}

/// Drops from `found` the keys of workloads, if the version that wrote the summary did not write
/// them.
fn drop_new_keys(said: &Map<String, Value>, found: &mut Map<String, Value>) {
    if !said.contains_key(WORKLOAD) {
        found.remove(WORKLOAD);
    }
    let arms = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let said = arms(said.get("arms"));
    let Some(Value::Array(found)) = found.get_mut("arms") else { return };
    for (said, found) in said.iter().zip(found.iter_mut().filter_map(Value::as_object_mut)) {
        if said.get(WORKLOAD).is_none() {
            found.remove(WORKLOAD);
        }
    }
}

fn parse_document<T: for<'a> Deserialize<'a>>(
    folder: &Path,
    name: &str,
    text: &[u8],
) -> Result<T, Error> {
    serde_json::from_slice(text)
        .map_err(|error| Error::Unusable { path: folder.join(name), what: error.to_string() })
}

/// Parses `runs.jsonl` line by line, so that the text is never in memory as a whole; the runs may
/// have at most [`MOST_VALUES`] values together. An incomplete last line is ignored, because the
/// writer was killed while it wrote that line.
fn parse_runs(folder: &Path, text: impl Read) -> Result<Vec<TrialRun>, Error> {
    let unusable = |what: String| Error::Unusable { path: folder.join(RUNS), what };
    let mut text = BufReader::new(text);
    let (mut runs, mut values, mut line) = (Vec::new(), 0, Vec::new());
    loop {
        line.clear();
        let read = text.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        read.with_path(&folder.join(RUNS))?;
        let number = runs.len() + 1;
        let Some(whole) = line.strip_suffix(b"\n") else {
            if line.len() as u64 == LONGEST_LINE {
                return Err(unusable(format!(
                    "line {number}: expected at most 256 KiB, found more"
                )));
            }
            return Ok(runs);
        };
        let run: TrialRun = serde_json::from_slice(whole)
            .map_err(|error| unusable(format!("line {number}: {error}")))?;
        values += count_values(&run);
        if runs.len() == MOST_RUNS || values > MOST_VALUES {
            let most = format!("at most {MOST_RUNS} runs and {MOST_VALUES} values in all");
            return Err(unusable(format!("line {number}: expected {most}, found more")));
        }
        runs.push(run);
    }
}

/// Number of values of a run that occupy memory of their own.
fn count_values(run: &TrialRun) -> usize {
    let course = run.course.as_ref();
    let course = course.map_or(0, |it| it.iteration_seconds.len() + it.latency_ns.len());
    run.values.len() + run.host_wide.len() + run.victims.len() + run.profile.len() + course
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;

    use super::*;
    use crate::fuzzing;

    /// Makes a folder with the evidence of a short trial.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let parts = fuzzing::evidence();
        for (name, text) in
            [EXPERIMENT, RUNS, SUMMARY].iter().zip(parts.split(|&byte| byte == 0xff))
        {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    fn refusal(folder: &tempfile::TempDir) -> String {
        Recorded::read(folder.path()).unwrap_err().to_string()
    }

    #[test]
    fn a_folder_of_regular_files_is_read() {
        let recorded = Recorded::read(folder().path()).unwrap();
        assert_eq!((recorded.runs.len(), recorded.summary.is_some()), (14, true));
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        for name in [EXPERIMENT, RUNS, SUMMARY] {
            let folder = folder();
            let path = folder.path().join(name);
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
            assert!(refusal(&folder).ends_with("expected a file, found a symbolic link"), "{name}");
            fs::remove_file(&path).unwrap();
            let fifo = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, rustix::fs::Mode::RUSR, 0).unwrap();
            assert!(refusal(&folder).ends_with("expected a file, found a pipe"), "{name}");
        }
    }

    #[test]
    fn what_is_longer_than_any_evidence_is_refused_by_its_limit() {
        for (name, limit) in [(EXPERIMENT, "1.0 MiB"), (RUNS, "32.0 MiB"), (SUMMARY, "1.0 MiB")] {
            let folder = folder();
            let file = File::options().write(true).open(folder.path().join(name)).unwrap();
            file.set_len(200 << 20).unwrap();
            let expected = format!("expected a file of at most {limit}, found more");
            assert!(refusal(&folder).ends_with(&expected), "{}", refusal(&folder));
        }
    }

    #[test]
    fn too_long_a_line_and_too_many_runs_and_values_are_refused_by_line() {
        let with = |more: &dyn Fn(&mut File)| {
            let folder = folder();
            more(&mut File::options().append(true).open(folder.path().join(RUNS)).unwrap());
            refusal(&folder)
        };
        let long = with(&|file| file.write_all(&vec![b' '; 300 << 10]).unwrap());
        assert!(long.ends_with("line 15: expected at most 256 KiB, found more"), "{long}");
        let run = |values: usize| {
            let profile = (0..values).map(|at| (String::new(), at as u64)).collect();
            let run = TrialRun { profile, ..TrialRun::new_unstarted(1, None, "a") };
            serde_json::to_string(&run).unwrap() + "\n"
        };
        let many = with(&|file| file.write_all(run(0).repeat(MOST_RUNS).as_bytes()).unwrap());
        assert!(many.contains("line 10001: expected at most 10000 runs"), "{many}");
        let wide = with(&|file| file.write_all(run(20_000).repeat(21).as_bytes()).unwrap());
        assert!(wide.contains("line 34: expected at most 10000 runs and 400000 values"), "{wide}");
    }

    /// Evidence of versions that wrote a workload's command line but not its parameters.
    #[test]
    fn a_workload_of_old_evidence_is_recognised_and_its_summary_still_agrees() {
        let workload = pagewise_workload::Workload::from_words("swap", &[]).unwrap();
        let program = workload.program("/init".as_ref());
        let own = TrialArm { program: Some(program.clone()), ..TrialArm::default() };
        let arms = ["a", "b"].map(|name| TrialArm { name: name.to_owned(), ..own.clone() });
        let experiment = Experiment { program, arms: arms.into(), ..fuzzing::trial(&["a", "b"]) };
        let trial = pagewise_stats::judge(&experiment, &[]);
        let old = |mut value: Value| {
            value.as_object_mut().unwrap().remove(WORKLOAD);
            for arm in value["arms"].as_array_mut().unwrap() {
                arm.as_object_mut().unwrap().remove(WORKLOAD).unwrap();
            }
            value
        };
        let mut described =
            serde_json::to_value(Described::new(experiment.clone(), Value::Null)).unwrap();
        described["experiment"] = old(serde_json::to_value(&experiment).unwrap());
        let (described, summary) =
            (described.to_string(), old(serde_json::to_value(&trial).unwrap()).to_string());
        let read = |summary: &str| {
            let (folder, runs): (_, &[u8]) = (Path::new("x"), &[]);
            Recorded::parse(folder, described.as_bytes(), runs, Some(summary.as_bytes())).unwrap()
        };
        assert_eq!(read(&summary).experiment, experiment);
        assert_eq!(read(&summary).differences(&trial), [""; 0]);
        let other = summary.replace("/init", "/other");
        assert_eq!(read(&other).differences(&trial), ["arms", "command"]);
    }

    #[test]
    fn half_a_last_line_is_left_out() {
        let folder = folder();
        let file = File::options().append(true).open(folder.path().join(RUNS));
        file.unwrap().write_all(b"{\"number\":15,").unwrap();
        assert_eq!(Recorded::read(folder.path()).unwrap().runs.len(), 14);
    }
}
