// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise tune`: measure, plan, show, apply on trial, measure again, keep or undo.
//!
//! Each step is a run of another verb, so everything that tune does can also be done by hand.

mod own;

use std::time::{Duration, Instant};

use anyhow::Context;
use pagewise_model::plan::{Goal, Plan, Verified};
use pagewise_model::{HostVerdict, Interval, OomKill, Refusal};
use pagewise_observe::{HostRoot, Scope, snapshot};
use pagewise_report::{LedgerUpdate, TuneTrial, TunedPlan, json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::interrupt::{Interrupted, Stop};
use pagewise_terminal::{Global, Outcome, output, screen};
use serde_json::Value;

use self::own::Passed;
use super::{apply, verify};
use crate::cli;

/// Time limit for `scan`; together with `bench --quick` it takes less than a minute.
const SCAN_BUDGET: &str = "20s";
/// By how much the trial of a plan lasts longer than the time for watching it, for the second
/// measurement.
const SPARE: Duration = Duration::from_secs(300);

pub(super) fn run(
    global: &Global,
    args: &cli::Tune,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "tune changes this machine; a recording has nothing to change".to_owned();
        anyhow::bail!(Refusal::advised(what, "pagewise plan --root … plans for a recording"));
    }
    if !rustix::process::geteuid().is_root() {
        let what = "tune reads the memory of all users and changes settings, which needs root; nothing was changed";
        anyhow::bail!(Refusal::advised(what, "sudo pagewise tune"));
    }
    let tuner = Tuner { global, args, stop: Stop::listen()? };
    let before = State::read()?;
    let measured = tuner.measure()?;
    let document = tuner.plan(&measured)?;
    let plan: Plan = serde_json::from_value(document.clone()).context("reading the plan")?;
    if !plan.steps.is_empty() && !args.yes {
        let steps: Vec<_> = plan.steps.iter().collect();
        tuner.stop.ends_program_during(|| apply::ask(&plan, &steps))?;
    }
    let journal = if plan.steps.is_empty() { None } else { tuner.apply(&document)? };
    let tried = journal.map(|journal| tuner.keep_or_undo(&before, &journal)).transpose()?;
    let trial = tried.as_ref().map(Tried::to_report);
    let tuned = TunedPlan {
        snapshot: &before.interval.end,
        plan: &plan,
        before: &before.verdict,
        trial,
        cost: cost::so_far(started, &before.interval),
    };
    let shown = if global.json {
        json::tuned_plan_json(&tuned)
    } else {
        text::tune(&tuned, screen::text_style(global))
    };
    output::answer(global, &shown)?;
    let is_undone = tried.is_some_and(|tried| !tried.against.is_empty());
    Ok(if is_undone { Outcome::Findings } else { Outcome::Done })
}

/// How short of memory the machine is, and which processes the kernel killed so far.
struct State {
    interval: Interval,
    verdict: HostVerdict,
}

impl State {
    fn read() -> anyhow::Result<Self> {
        let scope = Scope { kernel_log: true, ..Scope::glance() };
        let interval = Interval::single(snapshot(&HostRoot::live()?, &scope));
        let verdict = pagewise_decide::judge(&interval);
        Ok(Self { interval, verdict })
    }

    fn kills(&self) -> &[OomKill] {
        &self.interval.end.kernel_log.kills
    }

    /// What became worse since `before`, in sentences.
    fn worse_than(&self, before: &Self) -> Vec<String> {
        let mut worse = Vec::new();
        let (was, is) = (before.verdict.host, self.verdict.host);
        if is > was {
            worse.push(
                format!("the verdict on memory was {was:?} before and is {is:?} now")
                    .to_lowercase(),
            );
        }
        let is_new =
            |kill: &&OomKill| before.kills().iter().all(|known| known.source != kill.source);
        let kills = self.kills().iter().filter(is_new).count();
        if kills > 0 {
            let processes = if kills == 1 { "process" } else { "processes" };
            worse.push(format!("the kernel killed {kills} {processes} for lack of memory"));
        }
        worse
    }
}

/// The result of watching a plan on trial.
struct Tried {
    journal: String,
    after: HostVerdict,
    verified: Vec<Verified>,
    ledger: LedgerUpdate,
    /// Why the plan on trial is undone; empty if it is kept.
    against: Vec<String>,
}

impl Tried {
    fn to_report(&self) -> TuneTrial<'_> {
        let Self { journal, after, verified, ledger, against } = self;
        TuneTrial { journal, after, verified, ledger, against }
    }
}

struct Tuner<'a> {
    global: &'a Global,
    args: &'a cli::Tune,
    stop: Stop,
}

impl Tuner<'_> {
    fn run_verb_as_json(&self, words: &[&str]) -> anyhow::Result<Value> {
        own::document(self.global, words, &self.stop)
    }

    fn say(&self, what: &str) {
        if !self.global.quiet {
            output::message(what);
        }
    }

    /// Runs `scan` and `bench`, and returns their documents. If one of the two fails, it prints
    /// why, and the plan is made without its document.
    fn measure(&self) -> anyhow::Result<Vec<Value>> {
        let mut measured = Vec::new();
        let scan = ["scan", "--host", "--measure", "--budget", SCAN_BUDGET];
        let bench = ["bench", "--host", "--measure", "--quick"];
        let verbs: &[&[&str]] = if self.args.no_bench { &[&scan] } else { &[&scan, &bench] };
        for words in verbs {
            self.say(&format!("measuring: pagewise {}", words.join(" ")));
            match self.run_verb_as_json(words) {
                Ok(document) => measured.push(document),
                Err(error) if self.stop.is_asked() => return Err(error),
                Err(error) => {
                    output::message(format_args!("{error:#}; the plan is made without it"));
                }
            }
        }
        Ok(measured)
    }

    fn plan(&self, measured: &[Value]) -> anyhow::Result<Value> {
        let passed = measured.iter().map(Passed::new).collect::<anyhow::Result<Vec<_>>>()?;
        let paths: Vec<String> = passed.iter().map(Passed::path).collect();
        let goal = goal_name(self.args.goal.into());
        let mut words = vec!["plan", "--goal", &goal];
        paths.iter().for_each(|path| words.extend(["--from", path]));
        let only = self.args.only.join(",");
        if !only.is_empty() {
            words.extend(["--only", &only]);
        }
        self.run_verb_as_json(&words)
    }

    /// Applies the plan on trial; returns the ID of its journal, or `None` if all changes were
    /// already in place.
    fn apply(&self, plan: &Value) -> anyhow::Result<Option<String>> {
        let passed = Passed::new(plan)?;
        let (path, seconds) = (passed.path(), (self.args.watch + SPARE).as_secs());
        let trial = format!("{seconds}s");
        let mut words = vec!["apply", "--yes", &path];
        if pagewise_observe::installation(&HostRoot::live()?).has_systemd {
            words.extend(["--trial-for", &trial]);
        } else {
            let what = "systemd does not run here, so no timer undoes the plan if tune is killed: \
                        run `pagewise undo` then";
            output::message(what);
        }
        // apply handles Ctrl-C itself; if only tune was stopped, it still needs the journal's ID to
        // undo the plan
        let applied = own::document(self.global, &words, &Stop::never())?;
        Ok(applied["applied"]["journal"].as_str().map(str::to_owned))
    }

    /// Watches the machine while the plan is on trial; undoes the plan on any error.
    fn keep_or_undo(&self, before: &State, journal: &str) -> anyhow::Result<Tried> {
        let tried = self.watch(before, journal);
        let is_kept = tried.as_ref().is_ok_and(|tried| tried.against.is_empty());
        if is_kept {
            // without systemd there is no timer, so nothing to confirm
            if pagewise_observe::installation(&HostRoot::live()?).has_systemd {
                own::document(self.global, &["apply", "--confirm", journal], &Stop::never())?;
            }
        } else {
            self.undo(journal)?;
        }
        tried.with_context(|| format!("the plan of journal {journal} is undone"))
    }

    /// Waits, reads the machine again, and compares it with the state before the plan.
    fn watch(&self, before: &State, journal: &str) -> anyhow::Result<Tried> {
        let seconds = self.args.watch.as_secs();
        self.say(&format!("watching the machine for {seconds} s before measuring again"));
        let begun = Instant::now();
        while begun.elapsed() < self.args.watch && !self.stop.is_asked() {
            std::thread::sleep(Duration::from_millis(100));
        }
        if self.stop.is_asked() {
            anyhow::bail!(Interrupted { after: begun.elapsed() });
        }
        let after = State::read()?;
        let (verified, ledger) = verify::verify_applied(journal)?;
        let mut against = after.worse_than(before);
        if verified.iter().any(Verified::has_drifted) {
            let what = "the machine differs from the plan, so something else changed it meanwhile";
            against.push(what.to_owned());
        }
        let after = after.verdict;
        Ok(Tried { journal: journal.to_owned(), after, verified, ledger, against })
    }

    fn undo(&self, journal: &str) -> anyhow::Result<()> {
        self.say(&format!("undoing the plan of journal {journal}"));
        // `Stop::never`, because the signal that ended the trial asked for exactly this undo
        let undone = own::document(self.global, &["undo", journal], &Stop::never());
        undone.map(|_| ()).with_context(|| {
            format!("the plan is still in force; try again: sudo pagewise undo {journal}")
        })
    }
}

fn goal_name(goal: Goal) -> String {
    let name = serde_json::to_value(goal).ok();
    name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Level, Source};

    use super::*;

    fn state(host: Level, kills: &[u32]) -> State {
        let mut end = pagewise_model::Snapshot::default();
        let kill =
            |line: &u32| OomKill { source: Source::line("/dev/kmsg", *line), ..OomKill::default() };
        end.kernel_log.kills = kills.iter().map(kill).collect();
        let verdict = HostVerdict { host, ..HostVerdict::default() };
        State { interval: Interval::single(end), verdict }
    }

    #[test]
    fn a_plan_is_kept_unless_something_became_worse() {
        let before = state(Level::Tight, &[1]);
        for better in [state(Level::Tight, &[1]), state(Level::Calm, &[])] {
            assert_eq!(better.worse_than(&before), Vec::<String>::new());
        }
        assert_eq!(
            state(Level::Critical, &[1, 9]).worse_than(&before),
            [
                "the verdict on memory was tight before and is critical now",
                "the kernel killed 1 process for lack of memory",
            ]
        );
    }
}
