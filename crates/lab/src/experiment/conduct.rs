// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An experiment → its runs, one after the other, each with its arm's settings borrowed for it.
//!
//! Everything that a run borrows is given back after it, in turned order, and the cgroup is a new one
//! each time: no run finds what another left in it. Where it ends early, by whatever, the runs so far
//! are there.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pagewise_model::{RunEnd, TrialArm, TrialForecast, TrialLook, TrialRun, Verdict};

use super::boundary::looks;
use super::forecast::forecast;
use super::judge::judge;
use super::metric::Pattern;
use super::notes::how;
use super::run::{self, NotRun, Ran, Start};
use super::{Experiment, order};
use crate::program::last_lines;
use crate::treatment::{Group, GroupWanted, LoanId, Refused, Treatment};
use crate::workload;

/// Pairs that may fail.
const FAILURES: usize = 3;

/// What somebody who watches hears.
#[derive(Debug)]
pub enum Heard<'a> {
    /// A run begins: the how many-th, of at most so many.
    Begins {
        /// Of which arm.
        arm: &'a str,
        /// Which pair; none while warming up.
        pair: Option<u32>,
        /// From 1.
        run: u32,
        /// At most.
        of: u32,
    },
    /// A run has ended.
    Ran(&'a TrialRun),
    /// The warm-up is over: what the pairs will probably show, where that can be said.
    Forecast(Option<TrialForecast>),
}

/// What may end it early, and who watches.
pub struct Control<'a> {
    /// Set by somebody else to end it.
    pub stop: &'a AtomicBool,
    /// Called as it goes on.
    pub heard: &'a mut dyn FnMut(Heard<'_>),
}

impl std::fmt::Debug for Control<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("stop", &self.stop).finish_non_exhaustive()
    }
}

/// The runs, and why they are not all.
#[derive(Debug)]
pub struct Conducted {
    /// In the order in which they ran.
    pub runs: Vec<TrialRun>,
    /// What ended it, where that was not its end.
    pub trouble: Option<Trouble>,
}

/// What ends an experiment early.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The user.
    #[error("stopped")]
    Stopped,
    /// There is no such program.
    #[error("{0}: expected a program, found none of that name")]
    NoProgram(String),
    /// Something was not lent.
    #[error("arm {arm} cannot be tried here")]
    Refused {
        /// Which.
        arm: String,
        /// What, and why.
        source: Refused,
    },
    /// Something could not be given back; the treatment tries again when it ends.
    #[error("giving back what a run of arm {arm} had borrowed")]
    Kept {
        /// Which.
        arm: String,
        /// What, and why.
        source: Refused,
    },
    /// The command could not be started.
    #[error("{0}")]
    NotRun(String),
    /// The command failed before anything was compared, or too often.
    #[error("the command failed in arm {arm} ({how}){said}")]
    Failed {
        /// Which arm.
        arm: String,
        /// How.
        how: String,
        /// The end of what it said, as `; it said: …`.
        said: String,
    },
    /// The first run said nothing that a regular expression finds.
    #[error("{pattern:?} matches nothing that the command says{said}")]
    NoMatch {
        /// Which.
        pattern: String,
        /// The end of what it said.
        said: String,
    },
}

impl Trouble {
    /// What to do about it.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        match self {
            Self::Refused { source, .. } | Self::Kept { source, .. } => source.next.clone(),
            Self::NoProgram(_) => Some("give its path, or look whether it is installed".to_owned()),
            Self::Failed { .. } => Some(
                "make it succeed by itself first; for one whose exit status means something else: \
                 -- sh -c 'CMD || true'"
                    .to_owned(),
            ),
            Self::NoMatch { .. } => Some(
                "try it with grep -E on the command's output; (?m) lets ^ and $ match at lines"
                    .to_owned(),
            ),
            Self::Stopped | Self::NotRun(_) => None,
        }
    }
}

/// Runs it to its end. Without a treatment nothing is borrowed: no settings, no cgroup.
pub fn conduct<'a>(
    experiment: &Experiment,
    treatment: Option<&'a mut (dyn Treatment + 'a)>,
    control: &mut Control<'_>,
) -> Conducted {
    let mut conductor = Conductor {
        experiment,
        treatment,
        control,
        began: Instant::now(),
        patterns: Vec::new(),
        program: PathBuf::new(),
        runs: Vec::new(),
    };
    let trouble = conductor.all().err();
    Conducted { runs: conductor.runs, trouble }
}

struct Conductor<'a, 'b, 'c, 'd> {
    experiment: &'a Experiment,
    treatment: Option<&'b mut (dyn Treatment + 'b)>,
    control: &'c mut Control<'d>,
    began: Instant,
    patterns: Vec<(String, Pattern)>,
    program: PathBuf,
    runs: Vec<TrialRun>,
}

impl Conductor<'_, '_, '_, '_> {
    fn all(&mut self) -> Result<(), Trouble> {
        self.prepare()?;
        self.warm_up()?;
        let looks = looks(self.experiment.pairs as usize);
        let rounds = order::rounds(
            self.experiment.seed,
            self.experiment.arms.len(),
            self.experiment.pairs as usize,
        );
        for (pair, round) in (1..).zip(rounds) {
            for arm in round {
                self.one(arm, Some(pair))?;
            }
            self.too_often(pair)?;
            if self.is_clear(&looks) {
                break;
            }
        }
        Ok(())
    }

    fn prepare(&mut self) -> Result<(), Trouble> {
        let name = self.experiment.command.first().map_or("", String::as_str);
        self.program = run::find(name).ok_or_else(|| Trouble::NoProgram(name.to_owned()))?;
        for metric in self.experiment.metrics.iter().filter(|metric| metric.known().is_none()) {
            let pattern = Pattern::new(&metric.name).map_err(Trouble::NotRun)?;
            self.patterns.push((metric.name.clone(), pattern));
        }
        Ok(())
    }

    /// The first run fills caches; the rounds after it tell how much runs vary.
    fn warm_up(&mut self) -> Result<(), Trouble> {
        self.one(0, None)?;
        for _ in 0..self.experiment.warm_up {
            for arm in 0..self.experiment.arms.len() {
                self.one(arm, None)?;
            }
        }
        let forecast = forecast(self.experiment, &self.runs);
        (self.control.heard)(Heard::Forecast(forecast));
        Ok(())
    }

    /// A look that was planned, and an answer.
    fn is_clear(&self, looks: &[TrialLook]) -> bool {
        let first = looks.first().map_or(0, |look| look.pairs as usize);
        if self.experiment.arms.len() != 2 || looks.len() < 2 || self.runs.len() < 2 * first {
            return false;
        }
        let trial = judge(self.experiment, &self.runs);
        let may_look = looks.iter().any(|look| look.pairs == trial.pairs);
        may_look && trial.verdict != Verdict::Undecided
    }

    fn one(&mut self, arm: usize, pair: Option<u32>) -> Result<(), Trouble> {
        if self.control.stop.load(Ordering::SeqCst) {
            return Err(Trouble::Stopped);
        }
        let experiment = self.experiment;
        let number = u32::try_from(self.runs.len() + 1).unwrap_or(u32::MAX);
        let arms = u32::try_from(experiment.arms.len()).unwrap_or(u32::MAX);
        let of = 1 + arms * (experiment.warm_up + experiment.pairs);
        let arm = &experiment.arms[arm];
        (self.control.heard)(Heard::Begins { arm: &arm.name, pair, run: number, of });
        let started_seconds = self.began.elapsed().as_micros() as f64 / 1e6;
        let ran = self.treated(arm)?;
        let said =
            |(name, pattern): &(String, Pattern)| Some((name.clone(), pattern.number(&ran.said)?));
        let mut values = ran.changed.values.clone();
        values.extend(self.patterns.iter().filter_map(said));
        let workload = workload::said(&ran.said);
        values.extend(workload.iter().flat_map(|said| said.values.clone()));
        let run = TrialRun {
            number,
            pair,
            arm: arm.name.clone(),
            started_seconds,
            end: ran.end,
            left: ran.left,
            values,
            host_wide: ran.changed.host_wide.clone(),
            others_cpu_seconds: ran.others_cpu_seconds,
            stolen_seconds: ran.changed.stolen_seconds,
            slept_seconds: ran.changed.slept_seconds,
            refused: None,
            victims: Vec::new(),
            course: workload.map(|said| said.course),
            profile: Vec::new(),
        };
        (self.control.heard)(Heard::Ran(&run));
        let usable = if pair.is_none() { self.is_usable(&run, &ran.said) } else { Ok(()) };
        self.runs.push(run);
        usable
    }

    /// While warming up everything must be as it should.
    fn is_usable(&self, run: &TrialRun, said: &str) -> Result<(), Trouble> {
        if !run.end.is_good() {
            return Err(failed(&run.arm, run.end, said));
        }
        let missing = |(name, _): &&(String, Pattern)| !run.values.contains_key(name);
        match self.patterns.iter().find(missing) {
            Some((name, _)) => Err(Trouble::NoMatch { pattern: name.clone(), said: quoted(said) }),
            None => Ok(()),
        }
    }

    fn too_often(&self, pairs: u32) -> Result<(), Trouble> {
        let bad = self.runs.iter().filter(|run| run.pair.is_some() && !run.end.is_good());
        let bad: Vec<&TrialRun> = bad.collect();
        match bad.last() {
            Some(last) if bad.len() > FAILURES && pairs < self.experiment.pairs => {
                let said = format!("; {} runs did, and no more are tried", bad.len());
                Err(Trouble::Failed { arm: last.arm.clone(), how: how(last.end), said })
            }
            _ => Ok(()),
        }
    }

    /// Borrows, runs, gives back.
    fn treated(&mut self, arm: &TrialArm) -> Result<Ran, Trouble> {
        let mut loans = Vec::new();
        let group = self.borrowed(arm, &mut loans);
        let ran = match &group {
            Ok(group) => self.started(group.as_ref()),
            Err(_) => Err(Trouble::Stopped),
        };
        let given = self.give_back(arm, loans);
        group?;
        let ran = ran?;
        given.map(|()| ran)
    }

    fn borrowed(
        &mut self,
        arm: &TrialArm,
        loans: &mut Vec<LoanId>,
    ) -> Result<Option<Group>, Trouble> {
        let Some(treatment) = self.treatment.as_deref_mut() else { return Ok(None) };
        let refused = |source| Trouble::Refused { arm: arm.name.clone(), source };
        let limit = self.experiment.memory_limit_bytes.map(pagewise_model::Bytes::new);
        let group = match treatment.group(GroupWanted { limit, swappiness: None }) {
            Ok(group) => Some(group),
            // without a limit the group only counts
            Err(_) if limit.is_none() => None,
            Err(source) => return Err(refused(source)),
        };
        loans.extend(group.as_ref().map(|group| group.loan));
        for set in &arm.settings {
            loans.push(treatment.knob(&set.knob, &set.value).map_err(refused)?);
        }
        Ok(group)
    }

    fn started(&mut self, group: Option<&Group>) -> Result<Ran, Trouble> {
        let start = Start {
            program: &self.program,
            arguments: &self.experiment.command[1..],
            group,
            limited: self.experiment.memory_limit_bytes.is_some(),
            deadline: self.experiment.deadline,
        };
        run::run(&start, self.control.stop).map_err(|why| match why {
            NotRun::Stopped => Trouble::Stopped,
            NotRun::Failed(why) => Trouble::NotRun(why),
        })
    }

    /// The last one first. All of them are tried.
    fn give_back(&mut self, arm: &TrialArm, loans: Vec<LoanId>) -> Result<(), Trouble> {
        let Some(treatment) = self.treatment.as_deref_mut() else { return Ok(()) };
        let given = loans.into_iter().rev().map(|loan| treatment.give_back(loan));
        let kept = given.filter_map(Result::err).next();
        kept.map_or(Ok(()), |source| Err(Trouble::Kept { arm: arm.name.clone(), source }))
    }
}

fn failed(arm: &str, end: RunEnd, said: &str) -> Trouble {
    Trouble::Failed { arm: arm.to_owned(), how: how(end), said: quoted(said) }
}

fn quoted(said: &str) -> String {
    let last = last_lines(said, 3).join("; ");
    if last.is_empty() { "; it said nothing".to_owned() } else { format!("; it said: {last}") }
}
