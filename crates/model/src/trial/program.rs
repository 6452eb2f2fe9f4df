// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an experiment runs: one of the workloads that come with Pagewise, or a command.
//!
//! A workload is described by its keys, so that code that prints an experiment need not parse the
//! command line that starts the workload. In JSON, `command` contains the command line of any
//! program; a workload has its keys in `workload` in addition. Documents of earlier versions lack
//! `workload`: such a workload is read as a plain command until the crate that generates the
//! command lines recognises it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The program that an experiment runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "WrittenProgram", into = "WrittenProgram")]
#[schemars(rename = "Program")]
pub enum Program {
    /// A workload that comes with Pagewise.
    Workload {
        /// The command line that starts the workload.
        argv: Vec<String>,
        /// The keys that describe the workload, with their values; `kind` is always one of them.
        keys: Map<String, Value>,
    },
    /// Any other command: the program and its arguments.
    Argv(Vec<String>),
}

impl Program {
    /// Creates a command from these words: the program and its arguments.
    #[must_use]
    pub fn from_words<T: AsRef<str>>(words: &[T]) -> Self {
        Self::Argv(words.iter().map(|word| word.as_ref().to_owned()).collect())
    }

    /// The command line: the program and its arguments.
    #[must_use]
    pub fn argv(&self) -> &[String] {
        match self {
            Self::Workload { argv, .. } | Self::Argv(argv) => argv,
        }
    }

    /// The keys that describe the workload; `None` for any other command.
    #[must_use]
    pub fn workload(&self) -> Option<&Map<String, Value>> {
        match self {
            Self::Workload { keys, .. } => Some(keys),
            Self::Argv(_) => None,
        }
    }
}

/// The representation of a program in JSON.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct WrittenProgram {
    /// The command line: the program and its arguments.
    command: Vec<String>,
    /// The keys that describe the workload, including `kind`; missing if the program is not a
    /// workload of Pagewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workload: Option<Map<String, Value>>,
}

impl From<WrittenProgram> for Program {
    fn from(WrittenProgram { command, workload }: WrittenProgram) -> Self {
        match workload {
            Some(keys) => Self::Workload { argv: command, keys },
            None => Self::Argv(command),
        }
    }
}

impl From<Program> for WrittenProgram {
    fn from(program: Program) -> Self {
        match program {
            Program::Workload { argv, keys } => Self { command: argv, workload: Some(keys) },
            Program::Argv(command) => Self { command, workload: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn a_command_is_written_as_before_and_a_workload_has_its_keys_beside_it() {
        let command = Program::from_words(&["make", "-j2"]);
        assert_eq!(serde_json::to_value(&command).unwrap(), json!({"command": ["make", "-j2"]}));
        let Value::Object(keys) = json!({"kind": "swap", "data": "48M"}) else { panic!() };
        let argv = vec!["pagewise".to_owned()];
        let workload = Program::Workload { argv, keys };
        let written = serde_json::to_value(&workload).unwrap();
        assert_eq!(written["command"], json!(["pagewise"]));
        assert_eq!(written["workload"], json!({"kind": "swap", "data": "48M"}));
        for program in [command, workload] {
            let written = serde_json::to_value(&program).unwrap();
            assert_eq!(from_value::<Program>(written).unwrap(), program);
        }
    }
}
