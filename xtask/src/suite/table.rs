// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints how long the parts of a run took: a table of its jobs, by phase, with the budgets of the
//! phases.

use std::collections::BTreeMap;
use std::fs;
use std::io::IsTerminal;

use anyhow::{Context, Result, ensure};

use super::jobs::Finished;
use super::outcome::{State, format_seconds};
use crate::run;

const SLOWEST: usize = 10;

/// The budget of each phase of a run, in minutes.
#[derive(Debug, Default)]
pub(super) struct Budgets(BTreeMap<String, f64>);

impl Budgets {
    /// Reads the budgets of a part of the checks from `xtask/budgets.toml`.
    pub(super) fn read(tier: &str) -> Result<Self> {
        let path = run::project().join("xtask/budgets.toml");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let mut tiers: BTreeMap<String, BTreeMap<String, f64>> =
            toml::from_str(&text).with_context(|| path.display().to_string())?;
        let budgets = tiers.remove(tier);
        Ok(Self(budgets.with_context(|| format!("{}: no [{tier}]", path.display()))?))
    }

    /// Checks that every phase has a budget, because a phase without a budget could never exceed
    /// it.
    pub(super) fn check_phases(&self, phases: &[&str]) -> Result<()> {
        let bare: Vec<&&str> = phases.iter().filter(|name| !self.0.contains_key(**name)).collect();
        ensure!(bare.is_empty(), "xtask/budgets.toml has no budget for {bare:?}");
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Phase {
    jobs: usize,
    seconds: f64,
    ended_at: f64,
    state: Option<State>,
}

/// Prints how long the parts of a run took: a line for each phase, and the slowest tests.
///
/// Phases overlap, so the sum of their minutes is more than the run took.
pub(super) fn print_table(
    finished: &[Finished],
    budgets: &Budgets,
    tests: &[(String, f64)],
) -> String {
    let bold = std::io::stdout().is_terminal();
    let mut phases: Vec<(&str, Phase)> = Vec::new();
    for one in finished {
        let at = phases.iter().position(|(name, _)| *name == one.phase);
        let at = at.unwrap_or_else(|| {
            phases.push((one.phase, Phase::default()));
            phases.len() - 1
        });
        let phase = &mut phases[at].1;
        phase.jobs += 1;
        phase.seconds += one.seconds;
        phase.ended_at = phase.ended_at.max(one.ended_at);
        phase.state = worse_state(phase.state, one.outcome.state);
    }
    let mut text = format!(
        "\n{:22} {:>5} {:>10} {:>10} {:>8}\n",
        "phase", "jobs", "job time", "ended at", "budget"
    );
    for (name, phase) in &phases {
        text += &row(name, phase, budgets.0.get(*name).copied(), bold);
    }
    let mut slowest: Vec<&(String, f64)> = tests.iter().collect();
    slowest.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    text += "\nslowest tests\n";
    for (name, seconds) in slowest.into_iter().take(SLOWEST) {
        text += &format!("{:>10}  {name}\n", format_seconds(*seconds));
    }
    text
}

/// Makes the row of a phase. If the phase took more than 1.5 times its budget, the row is bold;
/// that is not a failure.
fn row(name: &str, phase: &Phase, budget: Option<f64>, bold: bool) -> String {
    let state = phase.state.map_or("", State::word);
    let time = format_seconds(phase.seconds);
    let over = budget.is_some_and(|minutes| phase.seconds > minutes * 60.0 * 1.5);
    let budget = budget.map_or(String::new(), |minutes| format!("{minutes} min"));
    let note = if over { "  over budget" } else { "" };
    let Phase { jobs, ended_at, .. } = phase;
    let ended_at = format_seconds(*ended_at);
    let line = format!("{name:22} {jobs:>5} {time:>10} {ended_at:>10} {budget:>8}  {state}{note}");
    if over && bold { format!("\x1b[1m{line}\x1b[0m\n") } else { format!("{line}\n") }
}

fn worse_state(one: Option<State>, other: State) -> Option<State> {
    let rank = |state| match state {
        State::Passed => 1,
        State::FailedOnce => 2,
        State::NoTime => 3,
        State::NotStarted => 4,
        State::Failed => 5,
    };
    let Some(one) = one else { return Some(other) };
    Some(if rank(one) > rank(other) { one } else { other })
}

#[cfg(test)]
mod check {
    use super::*;
    use crate::suite::outcome::Outcome;

    fn finished(phase: &'static str, seconds: f64, state: State) -> Finished {
        let outcome = Outcome::new(state, String::new());
        Finished { name: phase.to_owned(), phase, seconds, ended_at: 2.0 * seconds, outcome }
    }

    #[test]
    fn a_phase_adds_up_and_tells_the_worst() {
        let jobs = [
            finished("unit tests", 30.0, State::Passed),
            finished("unit tests", 40.0, State::Failed),
            finished("fuzz", 0.0, State::FailedOnce),
        ];
        let budgets = Budgets([("unit tests".to_owned(), 1.0), ("fuzz".to_owned(), 1.0)].into());
        let tests: Vec<(String, f64)> = (0..12).map(|n| (format!("t{n}"), f64::from(n))).collect();
        let text = print_table(&jobs, &budgets, &tests);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "unit tests                 2       70 s       80 s    1 min  FAILED");
        assert!(lines[3].ends_with("once more"), "{text}");
        let slowest: Vec<&str> = lines[6..].iter().map(|line| line.trim()).collect();
        assert_eq!((slowest.len(), slowest[0], slowest[9]), (10, "11 s  t11", "2.0 s  t2"));
    }

    #[test]
    fn over_by_more_than_half_is_said_and_bold_on_a_terminal() {
        let phase = |seconds| Phase { jobs: 1, seconds, ended_at: 1.0, state: Some(State::Passed) };
        assert!(!row("a", &phase(90.0), Some(1.0), true).contains("over budget"));
        let over = row("a", &phase(91.0), Some(1.0), true);
        assert!(over.starts_with("\x1b[1m") && over.contains("over budget"), "{over}");
        assert!(!row("a", &phase(91.0), Some(1.0), false).contains('\x1b'));
    }

    #[test]
    fn a_phase_without_a_budget_is_refused() {
        let budgets = Budgets([("a".to_owned(), 1.0)].into());
        assert!(budgets.check_phases(&["a"]).is_ok());
        assert!(budgets.check_phases(&["a", "b"]).unwrap_err().to_string().contains("\"b\""));
    }
}
