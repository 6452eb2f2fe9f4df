// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs an experiment: one run after the other, each with the settings of its arm.
//!
//! The settings are borrowed from a lender, and returned in reverse order after each run, which
//! restores the former values. Each run also gets a new cgroup. So no run is affected by the one
//! before. If the experiment ends early for any reason, the runs so far are returned.
//!
//! An arm is dropped (see `pagewise_stats`) if this machine refuses its settings, or if its command
//! is repeatedly killed for lack of memory or exceeds its deadline. The others continue while at
//! least two are left. If one of the last two fails in this way, the experiment ends with an error.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pagewise_model::lend::{Lender, LoanId};
use pagewise_model::{Program, RunEnd, TrialArm, TrialLook, TrialRun, Verdict};
use pagewise_observe::{HostRoot, ThreadCpu};
use pagewise_stats::boundary::plan_looks;
use pagewise_stats::dropped::{self, is_caused_by_arm};
use pagewise_stats::{Experiment, Pattern, SAID, describe_end, forecast, judge, order};

use super::event::TrialEvent;
use super::lend::{Files, RunLoans, borrow_all};
use super::run::{self, NotRun, RunResult, RunSetup, StartedProgram};
use super::trouble::{ExperimentError, failure, quote_output};
use super::watcher::Watcher;

/// Number of runs after the warm-up that may fail; one more failure ends the experiment.
const FAILURES: usize = 3;

/// How to stop an experiment, and who receives its events.
pub struct Control<'a> {
    /// Set by another thread to stop the experiment.
    pub stop: &'a AtomicBool,
    /// Receives each event; [`ControlFlow::Break`] stops the experiment.
    pub on_event: &'a mut dyn FnMut(&TrialEvent) -> ControlFlow<()>,
}

impl std::fmt::Debug for Control<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("stop", &self.stop).finish_non_exhaustive()
    }
}

/// The runs of an experiment, and why there are no more.
#[derive(Debug)]
pub struct ExperimentRuns {
    /// The runs in the order in which they were made.
    pub runs: Vec<TrialRun>,
    /// What ended the experiment early, if anything did.
    pub trouble: Option<ExperimentError>,
}

/// Conducts an experiment. Without a lender, runs have no settings and no cgroup.
pub fn conduct<'a>(
    experiment: &Experiment,
    lender: Option<&'a mut (dyn Lender + 'a)>,
    control: &mut Control<'_>,
) -> ExperimentRuns {
    let mut conductor = Conductor {
        experiment,
        lender,
        control,
        began: Instant::now(),
        patterns: Vec::new(),
        programs: Vec::new(),
        beside: None,
        files: Files::new(),
        kswapd: HostRoot::live()
            .map_or_else(|_| ThreadCpu::default(), |host| ThreadCpu::kswapd(&host)),
        watcher: Watcher::new(),
        runs: Vec::new(),
    };
    let ended = conductor.run_all();
    let returned = conductor.return_files();
    ExperimentRuns { runs: conductor.runs, trouble: ended.and(returned).err() }
}

fn find_program(program: &Program) -> Result<PathBuf, ExperimentError> {
    let name = program.argv().first().map_or("", String::as_str);
    run::find_program(name)
}

struct Conductor<'a, 'b, 'c, 'd> {
    experiment: &'a Experiment,
    lender: Option<&'b mut (dyn Lender + 'b)>,
    control: &'c mut Control<'d>,
    began: Instant,
    patterns: Vec<(String, Pattern)>,
    /// Path of the program of each arm.
    programs: Vec<PathBuf>,
    /// Path of the neighbour's program, if the experiment has a neighbour.
    beside: Option<PathBuf>,
    files: Files,
    kswapd: ThreadCpu,
    watcher: Watcher,
    runs: Vec<TrialRun>,
}

impl<'a> Conductor<'a, '_, '_, '_> {
    fn run_all(&mut self) -> Result<(), ExperimentError> {
        self.prepare()?;
        self.warm_up()?;
        let looks = plan_looks(self.experiment.pairs);
        let rounds = order::draw_rounds(
            self.experiment.seed,
            self.experiment.arms.len(),
            self.experiment.pairs,
        );
        for (pair, round) in (1..).zip(rounds) {
            for arm in round {
                self.run_one(arm, Some(pair))?;
            }
            self.check_failures(pair)?;
            if self.may_end(&looks) {
                break;
            }
        }
        Ok(())
    }

    fn prepare(&mut self) -> Result<(), ExperimentError> {
        for arm in &self.experiment.arms {
            self.programs.push(find_program(self.experiment.program_of(arm))?);
        }
        let beside = self.experiment.neighbour.as_ref();
        self.beside = beside.map(|beside| find_program(&beside.program)).transpose()?;
        for metric in
            self.experiment.metrics.iter().filter(|metric| metric.standard_row().is_none())
        {
            let pattern = Pattern::new(&metric.name)
                .map_err(|error| ExperimentError::NotRun(error.to_string()))?;
            self.patterns.push((metric.name.clone(), pattern));
        }
        Ok(())
    }

    /// Runs the warm-up: the first run fills caches; the rounds after it show how much the results
    /// of runs vary.
    fn warm_up(&mut self) -> Result<(), ExperimentError> {
        self.run_one(0, None)?;
        for _ in 0..self.experiment.warm_up {
            for arm in 0..self.experiment.arms.len() {
                self.run_one(arm, None)?;
            }
        }
        let forecast = forecast(self.experiment, &self.runs);
        self.report(&TrialEvent::Forecast(forecast))
    }

    /// The arms that were not dropped.
    fn kept_arms(&self) -> Vec<&'a TrialArm> {
        dropped::find_kept_arms(
            self.experiment,
            &dropped::find_dropped_arms(self.experiment, &self.runs),
        )
    }

    /// Whether the experiment can end now: if an interim look was planned after this number of
    /// pairs, and the verdict is already decided.
    fn may_end(&self, looks: &[TrialLook]) -> bool {
        let first = looks.first().map_or(0, |look| look.pairs as usize);
        if self.kept_arms().len() != 2 || looks.len() < 2 || self.runs.len() < 2 * first {
            return false;
        }
        let trial = judge(self.experiment, &self.runs);
        let may_look = looks.iter().any(|look| look.pairs == trial.pairs);
        may_look && trial.verdict != Verdict::Undecided
    }

    fn run_one(&mut self, at: usize, pair: Option<u32>) -> Result<(), ExperimentError> {
        if self.control.stop.load(Ordering::SeqCst) {
            return Err(ExperimentError::Stopped);
        }
        let arm = &self.experiment.arms[at];
        let kept = self.kept_arms();
        if !kept.contains(&arm) {
            return Ok(());
        }
        let announced = self.announce(arm, pair)?;
        let (run, output, marked) = match self.run_with_loans(at) {
            Ok(result) => (self.with_results(announced, &result), result.message, result.marked),
            Err(ExperimentError::Refused { source, .. }) if kept.len() > 2 => {
                (TrialRun { refused: Some(source.to_string()), ..announced }, String::new(), false)
            }
            Err(trouble) => return Err(trouble),
        };
        let reported = self.report(&TrialEvent::Ran(Box::new(run.clone())));
        let usable = match pair {
            None => self.check_usable(&run, &output, marked, kept.len() > 2),
            Some(_) => Ok(()),
        };
        self.runs.push(run);
        reported.and(usable)
    }

    fn report(&mut self, event: &TrialEvent) -> Result<(), ExperimentError> {
        match (self.control.on_event)(event) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(ExperimentError::Stopped),
        }
    }

    /// Announces a run, and returns its record without results.
    fn announce(&mut self, arm: &TrialArm, pair: Option<u32>) -> Result<TrialRun, ExperimentError> {
        let experiment = self.experiment;
        let number = u32::try_from(self.runs.len() + 1).unwrap_or(u32::MAX);
        let of = experiment.runs();
        self.report(&TrialEvent::Begins { arm: arm.name.clone(), pair, run: number, of })?;
        let started_seconds = self.began.elapsed().as_micros() as f64 / 1e6;
        Ok(TrialRun { started_seconds, ..TrialRun::new_unstarted(number, pair, &arm.name) })
    }

    /// Fills in the record of a run. If a workload was killed before it printed its results, the
    /// record has none.
    fn with_results(&self, announced: TrialRun, run: &RunResult) -> TrialRun {
        let message = |(name, pattern): &(String, Pattern)| {
            Some((name.clone(), pattern.number(&run.message)?))
        };
        let mut values = run.changed.values.clone();
        values.extend(self.patterns.iter().filter_map(message));
        let workload = pagewise_workload::parse_summary(&run.message);
        values.extend(workload.iter().flat_map(|summary| summary.values.clone()));
        TrialRun {
            end: run.end,
            left: run.left,
            values,
            host_wide: run.changed.host_wide.clone(),
            others_cpu_seconds: run.others_cpu_seconds,
            stolen_seconds: run.changed.stolen_seconds,
            slept_seconds: run.changed.slept_seconds,
            victims: run.victims.clone(),
            course: workload.map(|summary| summary.course),
            profile: run.profile.clone(),
            ..announced
        }
    }

    /// Checks a run of the warm-up: it must succeed and print everything that is measured. A
    /// failure that counts as the result of its arm is accepted while more than two arms are left.
    fn check_usable(
        &self,
        run: &TrialRun,
        message: &str,
        marked: bool,
        others: bool,
    ) -> Result<(), ExperimentError> {
        if run.end == RunEnd::NotRun || others && is_caused_by_arm(run.end) {
            return Ok(());
        }
        if !run.end.is_good() {
            return Err(failure(&run.arm, run.end, message));
        }
        if let Some(line) = self.experiment.counted_from.as_ref().filter(|_| !marked) {
            return Err(ExperimentError::NotMarked {
                line: line.clone(),
                message: quote_output(message),
            });
        }
        let missing = |name: &String| !run.values.contains_key(name);
        if let Some((name, _)) = self.patterns.iter().find(|(name, _)| missing(name)) {
            return Err(ExperimentError::NoMatch {
                pattern: name.clone(),
                message: quote_output(message),
            });
        }
        let primary = self.experiment.primary();
        let is_said = SAID.iter().any(|known| known.name == primary.name);
        if is_said && missing(&primary.name) {
            let metric = primary.name.clone();
            return Err(ExperimentError::NotTold { metric, message: quote_output(message) });
        }
        Ok(())
    }

    fn check_failures(&self, pairs: u32) -> Result<(), ExperimentError> {
        let kept = self.kept_arms();
        let is_kept = |run: &&TrialRun| kept.iter().any(|arm| arm.name == run.arm);
        let bad = self.runs.iter().filter(|run| run.pair.is_some() && !run.end.is_good());
        let bad: Vec<&TrialRun> = bad.filter(is_kept).collect();
        match bad.last() {
            Some(last) if bad.len() > FAILURES && pairs < self.experiment.pairs => {
                let message = format!("; {} runs did, and no more are tried", bad.len());
                Err(ExperimentError::Failed {
                    arm: last.arm.clone(),
                    how: describe_end(last.end),
                    message,
                })
            }
            _ => Ok(()),
        }
    }

    /// Sets up the arm, runs the command, and restores the settings.
    fn run_with_loans(&mut self, at: usize) -> Result<RunResult, ExperimentError> {
        let arm = &self.experiment.arms[at];
        let mut lent = RunLoans::default();
        let ran = match self.borrow_settings(arm, &mut lent) {
            Ok(()) => self.run_command(at, &lent),
            Err(refused) => Err(refused),
        };
        let returned = self.return_loans(&arm.name, std::mem::take(&mut lent.loans));
        // if restoring failed, that error is reported instead of a refusal, because it is more
        // serious
        if let Err(ExperimentError::Refused { .. }) = &ran {
            returned?;
            return ran;
        }
        let ran = ran?;
        returned.map(|()| ran)
    }

    fn borrow_settings(
        &mut self,
        arm: &TrialArm,
        lent: &mut RunLoans,
    ) -> Result<(), ExperimentError> {
        let Some(lender) = self.lender.as_deref_mut() else { return Ok(()) };
        borrow_all(lender, arm, self.experiment, &mut self.files, lent)
            .map_err(|source| ExperimentError::Refused { arm: arm.name.clone(), source })
    }

    fn run_command(&mut self, at: usize, lent: &RunLoans) -> Result<RunResult, ExperimentError> {
        let beside = self.experiment.neighbour.as_ref().zip(self.beside.as_deref());
        let start = RunSetup {
            command: StartedProgram {
                file: &self.programs[at],
                arguments: &self.experiment.program_of(&self.experiment.arms[at]).argv()[1..],
                group: lent.group.as_ref(),
            },
            neighbour: beside.map(|(beside, file)| StartedProgram {
                file,
                arguments: &beside.program.argv()[1..],
                group: lent.neighbour.as_ref(),
            }),
            neighbour_ready: beside.and_then(|(beside, _)| beside.ready.as_deref()),
            limited: self.experiment.memory_limit_bytes.is_some(),
            deadline: self.experiment.deadline,
            swap: &lent.swap,
            kswapd: &self.kswapd,
            profile: self.experiment.profile,
            counted_from: self.experiment.counted_from.as_deref(),
        };
        run::run(&start, &mut self.watcher, self.control.stop).map_err(|why| match why {
            NotRun::Stopped => ExperimentError::Stopped,
            NotRun::Failed(why) => ExperimentError::NotRun(why),
        })
    }

    /// Returns loans in reverse order. If one cannot be returned, the others still are.
    fn return_loans(&mut self, arm: &str, loans: Vec<LoanId>) -> Result<(), ExperimentError> {
        let Some(lender) = self.lender.as_deref_mut() else { return Ok(()) };
        let returned = loans.into_iter().rev().map(|loan| lender.return_loan(loan));
        let kept: Vec<_> = returned.filter_map(Result::err).collect();
        kept.into_iter()
            .next()
            .map_or(Ok(()), |source| Err(ExperimentError::Kept { arm: arm.to_owned(), source }))
    }

    /// Returns the swap files, which all runs used.
    fn return_files(&mut self) -> Result<(), ExperimentError> {
        let loans: Vec<LoanId> = self.files.values().map(|file| file.loan).collect();
        let arm = self.runs.last().map_or_else(String::new, |run| run.arm.clone());
        self.return_loans(&arm, loans)
    }
}
