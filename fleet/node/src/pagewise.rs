// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command lines of `pagewise`, and what its answers mean. Nothing else here starts it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use fleet_crd::ChangeRequest;
use serde::Deserialize;
use tokio::process::Command;

/// Longest time of a command that only reads. A machine that is out of memory answers late.
const READS_WITHIN: Duration = Duration::from_secs(120);
/// Longest time of a command that changes settings: disabling a swap area takes minutes.
const CHANGES_WITHIN: Duration = Duration::from_secs(900);
/// Most bytes of an answer that are read.
const MOST_BYTES: usize = 32 << 20;

/// The program, as it is installed on the node.
#[derive(Debug, Clone)]
pub struct Pagewise {
    /// Path of the program; below `root`, if that is given.
    pub program: PathBuf,
    /// Where the file system of the host is, if this program runs in a container.
    pub root: Option<PathBuf>,
    /// Whether changes may be made on this node; if not, each is refused.
    pub may_change: bool,
}

/// The hidden command of the node program that runs a program in another root; see [`enter`].
pub const IN_ROOT: &str = "in-root";

/// Replaces this process by a program of another root, which sees only the files of that root.
///
/// # Errors
/// If the root cannot be entered, which needs CAP_SYS_CHROOT, or the program not be run. On success, this
/// does not return.
pub fn enter(root: &Path, program: &[String]) -> std::io::Error {
    use std::os::unix::process::CommandExt as _;
    if let Err(error) = rustix::process::chroot(root).and_then(|()| rustix::process::chdir("/")) {
        return error.into();
    }
    let Some((program, arguments)) = program.split_first() else {
        return std::io::ErrorKind::InvalidInput.into();
    };
    std::process::Command::new(program).args(arguments).exec()
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The program could not be started.
    #[error("{program}: {error}", program = .program.display())]
    Start {
        /// Path of the program.
        program: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The program did not end in time.
    #[error("pagewise {command} did not end within {} s", .within.as_secs())]
    Late {
        /// The arguments.
        command: String,
        /// The time that it had.
        within: Duration,
    },
    /// The program reported an error.
    #[error("pagewise {command}: {message}")]
    Failed {
        /// The arguments.
        command: String,
        /// What it printed.
        message: String,
    },
    /// The answer is not what this program expects.
    #[error("pagewise {command} printed no such document: {error}")]
    Answer {
        /// The arguments.
        command: String,
        /// What is wrong with it.
        error: String,
    },
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// The change is in force until its timer ends.
    Changed {
        /// Number of the journal.
        journal: String,
    },
    /// Nothing was changed; why.
    Refused(String),
}

/// The parts of the document of `apply --json` that are used.
#[derive(Debug, Deserialize)]
struct ApplyDocument {
    applied: Option<AppliedPart>,
    refused: Option<Vec<Complaint>>,
}

#[derive(Debug, Deserialize)]
struct AppliedPart {
    journal: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Complaint {
    what: String,
    why: String,
}

/// The parts of the document of `verify --json` that are used.
#[derive(Debug, Deserialize)]
struct VerifyDocument {
    plans: Vec<InForce>,
}

#[derive(Debug, Deserialize)]
struct InForce {
    journal: Option<String>,
}

/// The exit status with which `verify` says that the machine differs from a plan.
const DIFFERS: i32 = 3;

/// The arguments that make the change of a request, with a timer on the node that undoes it.
#[must_use]
pub fn apply_arguments(request: &ChangeRequest) -> Vec<String> {
    let mut arguments = vec!["apply".to_owned(), "--json".to_owned(), "--yes".to_owned()];
    arguments.extend(["--trial-for".to_owned(), format!("{}s", request.trial_seconds)]);
    for want in &request.want {
        // As one argument: a value that begins with a dash stays a value.
        arguments.push(format!("--want={want}"));
    }
    arguments
}

/// The arguments that keep a change.
#[must_use]
pub fn confirm_arguments(journal: &str) -> Vec<String> {
    vec!["apply".to_owned(), "--json".to_owned(), format!("--confirm={journal}")]
}

/// The arguments that undo a change.
#[must_use]
pub fn undo_arguments(journal: &str) -> Vec<String> {
    ["undo", "--json", "--", journal].map(str::to_owned).to_vec()
}

/// The arguments that list the plans in force. `undo` lists them, too, but it would also undo what an
/// interrupted run of somebody else left.
#[must_use]
pub fn list_arguments() -> Vec<String> {
    ["verify", "--json"].map(str::to_owned).to_vec()
}

impl Pagewise {
    /// The document of `report --json`; with `contents` it also samples how well memory compresses.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn report(&self, contents: bool) -> Result<String, Failure> {
        let mut arguments = vec!["report".to_owned(), "--json".to_owned()];
        if !contents {
            arguments.push("--no-contents".to_owned());
        }
        self.read(&arguments).await
    }

    /// The labels of the node, as node-feature-discovery reads them.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn labels(&self) -> Result<String, Failure> {
        self.read(&["capabilities".to_owned(), "--labels".to_owned()]).await
    }

    /// The document of `limits --json`.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn limits(&self) -> Result<String, Failure> {
        self.read(&["limits".to_owned(), "--json".to_owned()]).await
    }

    async fn read(&self, arguments: &[String]) -> Result<String, Failure> {
        let (code, answer, error) = self.run(arguments, READS_WITHIN).await?;
        if code == Some(0) { Ok(answer) } else { Err(failed(arguments, &error)) }
    }

    /// Makes the change of a request.
    ///
    /// # Errors
    /// If the command fails after it may have changed something; pagewise then undoes it itself, and the
    /// message says what is left.
    pub async fn apply(&self, request: &ChangeRequest) -> Result<Applied, Failure> {
        if !self.may_change {
            let why = "changes are not enabled on this node: its program runs without --changes";
            return Ok(Applied::Refused(why.to_owned()));
        }
        let arguments = apply_arguments(request);
        let (code, answer, error) = self.run(&arguments, CHANGES_WITHIN).await?;
        let success = code == Some(0);
        let document: ApplyDocument = match serde_json::from_str(&answer) {
            Ok(document) => document,
            Err(_) if !success => return Err(failed(&arguments, &error)),
            Err(why) => return Err(unreadable(&arguments, &why)),
        };
        if let Some(complaints) = document.refused {
            let all: Vec<String> =
                complaints.iter().map(|it| format!("{}: {}", it.what, it.why)).collect();
            return Ok(Applied::Refused(all.join("; ")));
        }
        match document.applied {
            Some(AppliedPart { journal: Some(journal) }) if success => {
                Ok(Applied::Changed { journal })
            }
            Some(AppliedPart { journal: None }) if success => Ok(Applied::Refused(
                "everything that is wanted is in force already; nothing was changed".to_owned(),
            )),
            _ => Err(failed(&arguments, &error)),
        }
    }

    /// Keeps a change: stops its timer.
    ///
    /// # Errors
    /// If the command fails, for example because the timer has undone the change.
    pub async fn confirm(&self, journal: &str) -> Result<(), Failure> {
        let arguments = confirm_arguments(journal);
        let (code, _, error) = self.run(&arguments, CHANGES_WITHIN).await?;
        if code == Some(0) { Ok(()) } else { Err(failed(&arguments, &error)) }
    }

    /// Undoes a change.
    ///
    /// # Errors
    /// If the command fails; the message says what is left.
    pub async fn undo(&self, journal: &str) -> Result<(), Failure> {
        let arguments = undo_arguments(journal);
        let (code, _, error) = self.run(&arguments, CHANGES_WITHIN).await?;
        if code == Some(0) { Ok(()) } else { Err(failed(&arguments, &error)) }
    }

    /// Whether a change is in force.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn is_in_force(&self, journal: &str) -> Result<bool, Failure> {
        let arguments = list_arguments();
        let (code, answer, error) = self.run(&arguments, READS_WITHIN).await?;
        if code != Some(0) && code != Some(DIFFERS) {
            return Err(failed(&arguments, &error));
        }
        let document: VerifyDocument =
            serde_json::from_str(&answer).map_err(|why| unreadable(&arguments, &why))?;
        Ok(document.plans.iter().any(|plan| plan.journal.as_deref() == Some(journal)))
    }

    async fn run(
        &self,
        arguments: &[String],
        within: Duration,
    ) -> Result<(Option<i32>, String, String), Failure> {
        let start = |error| Failure::Start { program: self.program.clone(), error };
        let mut command = match &self.root {
            None => Command::new(&self.program),
            Some(root) => {
                let mut command = Command::new(std::env::current_exe().map_err(start)?);
                command.arg(IN_ROOT).arg(root).arg("--").arg(&self.program);
                command
            }
        };
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        command.env_remove("PAGER").env("NO_COLOR", "1");
        let late = |_| Failure::Late { command: arguments.join(" "), within };
        let output = tokio::time::timeout(within, command.output()).await.map_err(late)?;
        let output = output.map_err(start)?;
        if output.stdout.len() > MOST_BYTES {
            let error = format!("it has more than {MOST_BYTES} bytes");
            return Err(Failure::Answer { command: arguments.join(" "), error });
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
    }
}

fn failed(arguments: &[String], message: &str) -> Failure {
    Failure::Failed { command: arguments.join(" "), message: message.trim().to_owned() }
}

fn unreadable(arguments: &[String], error: &serde_json::Error) -> Failure {
    Failure::Answer { command: arguments.join(" "), error: error.to_string() }
}
