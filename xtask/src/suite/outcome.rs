// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outcome of a job, and how it is printed.

use super::libtest::Results;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Passed,
    /// Tests of the job failed. They will run again, alone, and that result counts.
    FailedOnce,
    Failed,
    NotStarted,
    /// Not started, because it would not have ended within the time for all jobs.
    NoTime,
}

impl State {
    /// Whether jobs that wait for a job with this state may start.
    pub(super) fn is_good(self) -> bool {
        matches!(self, Self::Passed | Self::FailedOnce)
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Passed => "ok",
            Self::FailedOnce => "once more",
            Self::Failed => "FAILED",
            Self::NotStarted => "not run",
            Self::NoTime => "no time",
        }
    }
}

#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) state: State,
    /// Text to print: after a failure, everything that helps to find the cause; otherwise one line,
    /// or nothing.
    pub(super) text: String,
    /// The results of the tests that the job ran.
    pub(super) tests: Results,
}

impl Outcome {
    pub(super) fn new(state: State, text: String) -> Self {
        Self { state, text, tests: Results::default() }
    }

    /// Describes the outcome of a job: a line for a job that passed; for another job, also its
    /// output.
    pub(super) fn describe(&self, name: &str, seconds: f64) -> String {
        let word = self.state.word();
        let text = self.text.trim_end();
        match self.state {
            State::Failed | State::FailedOnce => {
                format!("  {word:9} {name}, {}\n{text}\n  ^ {name}", format_seconds(seconds))
            }
            _ if text.is_empty() => format!("  {word:9} {name}, {}", format_seconds(seconds)),
            _ => format!("  {word:9} {name}, {}: {text}", format_seconds(seconds)),
        }
    }
}

/// Formats a number of seconds for readers.
pub(super) fn format_seconds(seconds: f64) -> String {
    match seconds {
        short if short < 10.0 => format!("{short:.1} s"),
        middle if middle < 100.0 => format!("{middle:.0} s"),
        long => format!("{:.1} min", long / 60.0),
    }
}

#[cfg(test)]
mod check {
    use super::*;

    #[test]
    fn a_failure_shows_what_was_printed_and_ends_with_its_name() {
        let told = Outcome::new(State::Failed, "error: x\n\n".to_owned()).describe("clippy", 100.0);
        assert_eq!(told, "  FAILED    clippy, 1.7 min\nerror: x\n  ^ clippy");
        let told = Outcome::new(State::Passed, String::new()).describe("clippy", 2.34);
        assert_eq!(told, "  ok        clippy, 2.3 s");
        let told = Outcome::new(State::Passed, "44 tests".to_owned()).describe("fuzz", 0.0);
        assert_eq!(told, "  ok        fuzz, 0.0 s: 44 tests");
        // the failed test will run again, and then reports its own result
        let told =
            Outcome::new(State::FailedOnce, "error: x\n".to_owned()).describe("guest a", 1.0);
        assert_eq!(told, "  once more guest a, 1.0 s\nerror: x\n  ^ guest a");
    }
}
