// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise tune`: measure, plan, show, apply on trial, measure again, keep or undo.
//!
//! Each part is one of the other verbs, so whatever tune does can be done by hand.

mod own;

use std::time::{Duration, Instant};

use anyhow::Context;
use pagewise_model::plan::{Goal, Plan};
use pagewise_model::{Name, Refusal};
use pagewise_observe::HostRoot;
use serde_json::{Value, json};

use self::own::Passed;
use super::{Outcome, apply};
use crate::cli::{self, Global};
use crate::interrupt::Stop;
use crate::{exit, output};

/// How long `scan` may take; together with `bench --quick` that is less than a minute.
const SCAN_BUDGET: &str = "20s";
/// How much longer than the time for watching a trial lasts: for the second measurement.
const SPARE: Duration = Duration::from_secs(300);

pub(super) fn run(global: &Global, args: &cli::Tune) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "tune changes this machine; a recording has nothing to change".to_owned();
        anyhow::bail!(Refusal::advised(what, "pagewise plan --root … plans for a recording"));
    }
    if !rustix::process::geteuid().is_root() {
        let what = "tune reads the memory of all users and changes settings, which needs root; nothing was changed";
        anyhow::bail!(Refusal::advised(what, "sudo pagewise tune"));
    }
    let tuner = Tuner { global, args, stop: Stop::listen()? };
    let before = tuner.verb(&["status"])?;
    let measured = tuner.measure()?;
    let document = tuner.plan(&measured)?;
    let plan: Plan = serde_json::from_value(document.clone()).context("reading the plan")?;
    if plan.steps.is_empty() {
        return tuner.end(&plan, &before, None);
    }
    if !args.yes {
        let steps: Vec<_> = plan.steps.iter().collect();
        tuner.stop.ends_program_during(|| apply::ask(&plan, &steps))?;
    }
    let Some(journal) = tuner.apply(&document)? else {
        return tuner.end(&plan, &before, None);
    };
    let tried = tuner.watch(&before, &journal);
    let tried = match tried {
        Ok(tried) => tried,
        Err(error) => {
            tuner.undo(&journal)?;
            if tuner.stop.is_asked() {
                output::message(format_args!("stopped: plan {} is undone", plan.id));
                return Ok(Outcome::Status(exit::STOPPED));
            }
            return Err(error.context(format!("plan {} is undone", plan.id)));
        }
    };
    if tried.against.is_empty() {
        tuner.verb(&["apply", "--confirm", &journal])?;
    } else {
        tuner.undo(&journal)?;
    }
    tuner.end(&plan, &before, Some(&tried))
}

/// What was found while the plan was on trial.
struct Tried {
    journal: String,
    /// The verdict on this machine.
    after: Value,
    /// The document of `verify`.
    verified: Value,
    /// Why the plan is not kept; empty if it is.
    against: Vec<String>,
}

struct Tuner<'a> {
    global: &'a Global,
    args: &'a cli::Tune,
    stop: Stop,
}

impl Tuner<'_> {
    fn verb(&self, words: &[&str]) -> anyhow::Result<Value> {
        own::document(self.global, words, None, &self.stop)
    }

    fn say(&self, what: &str) {
        if !self.global.quiet {
            output::message(what);
        }
    }

    /// What `scan` and `bench` say. One that fails has said why, and the plan is made without it.
    fn measure(&self) -> anyhow::Result<Vec<Value>> {
        let mut measured = Vec::new();
        let scan = ["scan", "--host", "--measure", "--budget", SCAN_BUDGET];
        let bench = ["bench", "--host", "--measure", "--quick"];
        let verbs: &[&[&str]] = if self.args.no_bench { &[&scan] } else { &[&scan, &bench] };
        for words in verbs {
            self.say(&format!("measuring: pagewise {}", words.join(" ")));
            match self.verb(words) {
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
        self.verb(&words)
    }

    /// Carries the plan out on trial; answers its journal, or nothing if all of it was in place.
    fn apply(&self, plan: &Value) -> anyhow::Result<Option<String>> {
        let passed = Passed::new(plan)?;
        let (path, seconds) = (passed.path(), (self.args.watch + SPARE).as_secs());
        let trial = format!("{seconds}s");
        let mut words = vec!["apply", "--yes", &path];
        if pagewise_observe::installation(&HostRoot::live()?).has_systemd {
            words.extend(["--trial-for", &trial]);
        } else {
            let what = "systemd does not run here, so no timer undoes the plan if tune is killed: `pagewise undo` does";
            output::message(what);
        }
        let applied = self.verb(&words)?;
        Ok(applied["applied"]["journal"].as_str().map(str::to_owned))
    }

    /// Waits, looks again, and compares.
    fn watch(&self, before: &Value, journal: &str) -> anyhow::Result<Tried> {
        let seconds = self.args.watch.as_secs();
        self.say(&format!("watching the machine for {seconds} s before measuring again"));
        let until = Instant::now() + self.args.watch;
        while Instant::now() < until && !self.stop.is_asked() {
            std::thread::sleep(Duration::from_millis(100));
        }
        if self.stop.is_asked() {
            anyhow::bail!("stopped while the plan was on trial");
        }
        let after = self.verb(&["status"])?;
        let verified =
            own::document(self.global, &["verify", journal], Some(exit::FINDINGS), &self.stop)?;
        let against = against(before, &after, &verified);
        Ok(Tried { journal: journal.to_owned(), after, verified, against })
    }

    fn undo(&self, journal: &str) -> anyhow::Result<()> {
        self.say(&format!("undoing plan {journal}"));
        // Ctrl-C asked for this
        let never = Stop::never();
        let undone = own::document(self.global, &["undo", journal], None, &never);
        undone.map(|_| ()).with_context(|| {
            format!("the plan is still in force; try again: sudo pagewise undo {journal}")
        })
    }

    fn end(&self, plan: &Plan, before: &Value, tried: Option<&Tried>) -> anyhow::Result<Outcome> {
        let shown = if self.global.json {
            document(plan, before, tried)
        } else {
            text(plan, before, tried)
        };
        output::answer(self.global, &shown)?;
        let is_undone = tried.is_some_and(|tried| !tried.against.is_empty());
        Ok(if is_undone { Outcome::Findings } else { Outcome::Done })
    }
}

fn goal_name(goal: Goal) -> String {
    serde_json::to_value(goal)
        .ok()
        .and_then(|goal| goal.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// What speaks against keeping a plan, in sentences.
fn against(before: &Value, after: &Value, verified: &Value) -> Vec<String> {
    let mut against = Vec::new();
    let levels = (level(before), level(after));
    if let (Some(was), Some(is)) = levels
        && is > was
    {
        against.push(format!("memory was {} before and is {} now", LEVELS[was], LEVELS[is]));
    }
    let kills = kills_since(after, before);
    if kills > 0 {
        let processes = if kills == 1 { "process" } else { "processes" };
        against.push(format!("the kernel killed {kills} {processes} for lack of memory"));
    }
    if verified["drifted"] == json!(true) {
        against
            .push("the machine differs from the plan (`pagewise verify` shows where)".to_owned());
    }
    against
}

/// From the best to the worst.
const LEVELS: [&str; 4] = ["calm", "tight", "short", "critical"];

fn level(status: &Value) -> Option<usize> {
    let level = status["verdict"]["host"].as_str()?;
    LEVELS.iter().position(|known| *known == level)
}

/// Kills that the second status knows and the first one does not.
fn kills_since(after: &Value, before: &Value) -> usize {
    let kills = |status: &Value| {
        let all = status["oom_kills"]["kills"].as_array().cloned().unwrap_or_default();
        all.into_iter().map(|kill| kill["at"].to_string()).collect::<Vec<_>>()
    };
    let known = kills(before);
    kills(after).iter().filter(|kill| !known.contains(kill)).count()
}

fn document(plan: &Plan, before: &Value, tried: Option<&Tried>) -> String {
    let document = json!({
        "schema": "pagewise/tune/1",
        "pagewise": env!("CARGO_PKG_VERSION"),
        "plan": plan,
        "journal": tried.map(|tried| &tried.journal),
        "kept": tried.map(|tried| tried.against.is_empty()),
        "against": tried.map(|tried| &tried.against),
        "verdict_before": before["verdict"],
        "verdict_after": tried.map(|tried| &tried.after["verdict"]),
        "verified": tried.map(|tried| &tried.verified["plans"]),
    });
    format!("{document:#}\n")
}

fn text(plan: &Plan, before: &Value, tried: Option<&Tried>) -> String {
    let id = Name::from(plan.id.as_str());
    let mut lines = Vec::new();
    match tried {
        None if plan.steps.is_empty() => {
            lines.push("nothing to change on this machine".to_owned());
            let declined = plan.declined.iter().map(|declined| {
                format!(
                    "  not: {}: {}",
                    Name::from(declined.what.as_str()),
                    Name::from(declined.why.as_str())
                )
            });
            lines.extend(declined);
        }
        None => lines.push(format!("plan {id}: every step is in place already")),
        Some(tried) => lines.extend(ended(plan, tried)),
    }
    let line = |status: &Value| {
        Name::from(status["verdict"]["line"].as_str().unwrap_or("not known")).to_string()
    };
    lines.push(format!("  before   {}", line(before)));
    if let Some(tried) = tried {
        lines.push(format!("  after    {}", line(&tried.after)));
    }
    lines.join("\n") + "\n"
}

fn ended(plan: &Plan, tried: &Tried) -> Vec<String> {
    let (id, journal) = (Name::from(plan.id.as_str()), &tried.journal);
    if tried.against.is_empty() {
        return vec![format!(
            "kept: plan {id} (journal {journal}), {} steps; to undo it: pagewise undo {journal}",
            plan.steps.len()
        )];
    }
    let mut lines = vec![format!("undone: plan {id} ({} steps)", plan.steps.len())];
    lines.extend(tried.against.iter().map(|why| format!("  because  {why}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(level: &str, kills: &[&str]) -> Value {
        let kills: Vec<Value> = kills.iter().map(|at| json!({ "at": at })).collect();
        json!({ "verdict": { "host": level }, "oom_kills": { "kills": kills } })
    }

    #[test]
    fn a_plan_is_kept_unless_something_became_worse() {
        let same = json!({ "drifted": false });
        let known = status("tight", &["/dev/kmsg:1"]);
        assert_eq!(against(&known, &known, &same), Vec::<String>::new());
        assert_eq!(against(&known, &status("calm", &[]), &same), Vec::<String>::new());
        let worse = status("critical", &["/dev/kmsg:1", "/dev/kmsg:9"]);
        assert_eq!(
            against(&known, &worse, &json!({ "drifted": true })),
            [
                "memory was tight before and is critical now",
                "the kernel killed 1 process for lack of memory",
                "the machine differs from the plan (`pagewise verify` shows where)",
            ]
        );
    }

    #[test]
    fn the_levels_are_those_of_the_verdict() {
        let all = [
            pagewise_model::Level::Calm,
            pagewise_model::Level::Tight,
            pagewise_model::Level::Short,
            pagewise_model::Level::Critical,
        ];
        for (at, level) in all.iter().enumerate() {
            let name = serde_json::to_value(level).unwrap();
            assert_eq!(name, json!(LEVELS[at]));
        }
    }
}
