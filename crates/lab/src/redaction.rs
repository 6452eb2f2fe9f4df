// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Removes private data about the machine and command lines from evidence before it is written,
//! because folders of evidence are meant to be shared, like recordings.
//!
//! As in a recording, host name and boot id are replaced by hashes with a random key that is not
//! stored; within one folder, the same name has the same hash. Of a user's command only the name of
//! the program is kept, and that it had arguments. Of our own command line, options and sizes are
//! kept. The command line of a workload is kept completely, because it contains nothing that the
//! experiment does not contain. Names of programs that the OOM killer killed, and of processes that
//! `thp collapse` was used on, are kept. With `--keep-names` nothing is removed.

use std::hash::{BuildHasher, RandomState};

use pagewise_model::{Name, Program, Reading, Snapshot, Trial, TrialArm};
use pagewise_stats::Experiment;
use pagewise_workload::recognise;
use serde_json::{Value, json};

/// The text that replaces each removed word.
const LEFT_OUT: &str = "…";

/// Removes private data from evidence; hashes names with a random key of its own.
#[derive(Debug)]
pub struct Redaction {
    keeps_names: bool,
    hasher: RandomState,
}

impl Redaction {
    /// Makes a redaction; with `keeps_names` it removes nothing.
    #[must_use]
    pub fn new(keeps_names: bool) -> Self {
        Self { keeps_names, hasher: RandomState::new() }
    }

    /// Replaces the host name and the boot id by hashes; all other readings are kept.
    #[must_use]
    pub fn snapshot(&self, snapshot: &Snapshot) -> Snapshot {
        let mut snapshot = snapshot.clone();
        if !self.keeps_names {
            let name = |hash: u64| format!("host-{:08x}", hash >> 32);
            self.hash(&mut snapshot.host.name, "host", name);
            self.hash(&mut snapshot.taken.boot_id, "boot", |hash| format!("{hash:016x}"));
        }
        snapshot
    }

    fn hash(&self, reading: &mut Reading<Name>, kind: &str, shown: impl Fn(u64) -> String) {
        let hashed = reading.value().map(|name| shown(self.hasher.hash_one((kind, name.as_str()))));
        if let Some(hashed) = hashed {
            *reading = Reading::found(Name::from(hashed.as_str()), reading.source.clone());
        }
    }

    /// Redacts the words of a user's command.
    #[must_use]
    pub fn command(&self, words: &[String]) -> Vec<String> {
        self.program(&recognise(words.to_vec())).argv().to_vec()
    }

    fn program(&self, program: &Program) -> Program {
        let Some((first, rest)) = program.argv().split_first().filter(|_| !self.keeps_names) else {
            return program.clone();
        };
        let first = base_name(first);
        match program {
            Program::Workload { keys, .. } => {
                let argv = [first].into_iter().chain(rest.iter().cloned()).collect();
                Program::Workload { argv, keys: keys.clone() }
            }
            Program::Argv(_) => {
                let left_out = rest.iter().map(|_| LEFT_OUT.to_owned());
                Program::Argv([first].into_iter().chain(left_out).collect())
            }
        }
    }

    /// Redacts the words of a line for a shell.
    #[must_use]
    pub fn script(&self, text: &str) -> String {
        if self.keeps_names { text.to_owned() } else { LEFT_OUT.to_owned() }
    }

    fn arms(&self, arms: &mut [TrialArm]) {
        for program in arms.iter_mut().filter_map(|arm| arm.program.as_mut()) {
            *program = self.program(program);
        }
    }

    /// Redacts the commands of an experiment.
    #[must_use]
    pub fn experiment(&self, experiment: &Experiment) -> Experiment {
        let mut experiment = experiment.clone();
        experiment.program = self.program(&experiment.program);
        self.arms(&mut experiment.arms);
        experiment
    }

    /// Redacts the commands in the result of an experiment.
    #[must_use]
    pub fn trial(&self, trial: &Trial) -> Trial {
        let mut trial = trial.clone();
        trial.program = self.program(&trial.program);
        self.arms(&mut trial.arms);
        trial
    }

    /// Redacts the origin of an experiment: keeps the name of its file, and its text if all
    /// commands are workloads.
    #[must_use]
    pub fn source(&self, source: Value, experiment: &Experiment) -> Value {
        if self.keeps_names || source.is_null() {
            return source;
        }
        let programs = experiment.arms.iter().filter_map(|arm| arm.program.as_ref());
        let mut programs = programs.chain([&experiment.program]);
        let is_ours = programs.all(|program| program.workload().is_some());
        let mut source = source;
        if !is_ours {
            source["text"] = json!(LEFT_OUT);
        }
        if let Some(place) = source["place"].as_str().map(base_name) {
            source["place"] = json!(place);
        }
        source["command_line"] = json!(self.command_line());
        source
    }

    /// Returns the command line of this process, redacted.
    #[must_use]
    pub fn command_line(&self) -> Vec<String> {
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        self.redact_words(&words.collect::<Vec<_>>())
    }

    fn redact_words(&self, words: &[String]) -> Vec<String> {
        if self.keeps_names {
            return words.to_vec();
        }
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        let (ours, command) = words.split_at(end);
        let ours = ours.iter().enumerate().map(|(at, word)| match at {
            0 => base_name(word),
            _ => redact_word(word),
        });
        let mut all: Vec<String> = ours.collect();
        if let Some((dashes, command)) = command.split_first() {
            all.push(dashes.clone());
            all.extend(self.command(command));
        }
        all
    }
}

/// Keeps a word if it is an option, a verb, a number with a unit, or a kernel setting; replaces all
/// others.
fn redact_word(word: &str) -> String {
    if let Some((option, value)) = word.strip_prefix("--").and_then(|it| it.split_once('=')) {
        return format!("--{option}={}", redact_word(value));
    }
    let is_option = word.starts_with('-');
    let is_size = word.bytes().next().is_some_and(|it| it.is_ascii_digit())
        && word.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'.' || it == b'%');
    if is_option || is_size || VERBS.contains(&word) || is_setting(word) {
        return word.to_owned();
    }
    LEFT_OUT.to_owned()
}

const VERBS: [&str; 6] = ["trial", "lab", "run", "bench", "thp", "collapse"];

/// Whether a word is a setting such as `vm.swappiness=10`.
fn is_setting(word: &str) -> bool {
    let named = word.split_once('=').map(|(name, _)| name.split('[').next().unwrap_or(name));
    named.is_some_and(|name| pagewise_model::knob::KNOBS.iter().any(|knob| knob.name == name))
}

fn base_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn of_a_command_the_programs_name_stays() {
        let redaction = Redaction::new(false);
        let command = words("/opt/bob/bin/psql --password secret host");
        assert_eq!(redaction.command(&command), words("psql … … …"));
        let ours = words("/opt/bob/pagewise lab workload --described {}");
        assert_eq!(redaction.command(&ours), words("pagewise lab workload --described {}"));
        let near = words("/opt/bob/pagewise lab workload --described {} secret");
        assert_eq!(redaction.command(&near), words("pagewise … … … … …"));
        assert_eq!(redaction.command(&[]), words("")[1..]);
        assert_eq!(Redaction::new(true).command(&command), command);
    }

    #[test]
    fn of_our_command_line_options_sizes_and_settings_stay() {
        let line = "/home/bob/pagewise trial --b vm.swappiness=10 --memory=64M --metric bob=([0-9]+) \
                    --evidence /home/bob/e --pairs 6 -- /bin/psql secret";
        let shown = "pagewise trial --b vm.swappiness=10 --memory=64M --metric … --evidence … --pairs 6 \
                     -- psql …";
        assert_eq!(Redaction::new(false).redact_words(&words(line)), words(shown));
        assert_eq!(Redaction::new(true).redact_words(&words(line)), words(line));
    }

    #[test]
    fn a_host_and_its_boot_are_hashed_alike_in_one_folder_and_never_in_two() {
        let mut snapshot = Snapshot::default();
        snapshot.host.name = Reading::found("quokka".into(), pagewise_model::Source::none());
        snapshot.taken.boot_id = Reading::found("b-1".into(), pagewise_model::Source::none());
        let one = Redaction::new(false);
        let name = |redaction: &Redaction| {
            redaction.snapshot(&snapshot).host.name.value().unwrap().as_str().to_owned()
        };
        assert!(name(&one).starts_with("host-"));
        assert_eq!(name(&one), name(&one));
        assert_ne!(name(&one), name(&Redaction::new(false)));
        let hashed = one.snapshot(&snapshot);
        let boot = hashed.taken.boot_id.value().unwrap().as_str();
        assert!(boot.len() == 16 && !boot.contains('-'));
        assert_eq!(name(&Redaction::new(true)), "quokka");
    }
}
