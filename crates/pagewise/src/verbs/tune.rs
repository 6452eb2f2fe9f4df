// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise tune`: measure, plan, show, watch, apply on trial, watch again, keep or undo.
//!
//! `tune` runs the verbs scan, bench, plan, apply and undo as programs of their own, so that each
//! step can also be done by hand. [`watch`] judges the changes.

mod live;
mod own;
mod watch;

use std::time::Duration;

use anyhow::Context;
use pagewise_apply::plan::{doubtful_journals, plans_in_force};
use pagewise_apply::state_folder;
use pagewise_model::plan::{Goal, Plan, Verified};
use pagewise_model::undo::InForce;
use pagewise_model::{Difference, HostVerdict, Interval, Name, OomKill, PeriodsVerdict, Refusal};
use pagewise_observe::{HostRoot, Scope, snapshot};
use pagewise_report::{LedgerUpdate, TuneTrial, TunedPlan, json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::{Global, Outcome, output, screen};
use serde_json::Value;

use self::live::Live;
use self::own::{Guard, Passed};
use self::watch::{Brake, Named, Slice, Times};
use super::undo::format_utc_to_minute;
use super::{apply, verify};
use crate::cli;

/// Time limit for `scan`, so that it takes less than a minute together with `bench --quick`.
const SCAN_BUDGET: &str = "20s";
/// Pause between the measurements and the time for which the machine is watched.
const REST: Duration = Duration::from_secs(5);
/// The timer that undoes a plan on trial runs out this long after the times for settling and
/// watching.
const SPARE: Duration = Duration::from_secs(300);

pub(super) fn run(
    global: &Global,
    args: &cli::Tune,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "tune changes this machine; a recording has nothing to change".to_owned();
        anyhow::bail!(Refusal::with_advice(what, "pagewise plan --root … plans for a recording"));
    }
    if !rustix::process::geteuid().is_root() {
        let what = "tune reads the memory of all users and changes settings, which needs root; nothing was changed";
        anyhow::bail!(Refusal::with_advice(what, "sudo pagewise tune"));
    }
    refuse_unfinished()?;
    let tuner = Tuner { global, args, stop: Stop::listen()? };
    let before = State::read()?;
    let mut live = Live::new(&tuner.stop, args.measure.as_deref(), args.counter.as_ref())?;
    let named = live.try_measure(args.lower_is_better)?;
    let measured = tuner.measure()?;
    let document = tuner.plan(&measured)?;
    let plan: Plan = serde_json::from_value(document.clone()).context("reading the plan")?;
    if !plan.steps.is_empty() && !args.yes {
        let steps: Vec<_> = plan.steps.iter().collect();
        tuner.stop.ends_program_during(|| apply::ask(&plan, &steps))?;
    }
    let tried = if plan.steps.is_empty() {
        None
    } else {
        tuner.try_plan(&mut live, &document, &plan, named.as_ref())?
    };
    let trial = tried.as_ref().map(Tried::to_report);
    let tuned = TunedPlan {
        snapshot: &before.interval.end,
        plan: &plan,
        before: &before.verdict,
        trial,
        cost: cost::measure_since(started, &before.interval),
    };
    let shown = if global.json {
        json::tuned_plan_json(&tuned)
    } else {
        text::tune(&tuned, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
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

    /// Number of processes that the kernel killed since `before`, counted in its log, because
    /// kernels before 4.13 have no counter for kills.
    fn kills_since(&self, before: &Self) -> usize {
        let is_new =
            |kill: &&OomKill| before.kills().iter().all(|known| known.source != kill.source);
        self.kills().iter().filter(is_new).count()
    }
}

/// Refuses to start if an earlier plan was interrupted or is still on trial: its changes would be
/// taken for the machine's own settings, and a new plan would say that there is nothing to change.
fn refuse_unfinished() -> anyhow::Result<()> {
    let state = state_folder();
    let doubtful = doubtful_journals(&state)?;
    if !doubtful.is_empty() {
        return Err(verify::refuse_doubtful(&doubtful).into());
    }
    let unfinished = plans_in_force(&state)?.into_iter().find(is_unfinished);
    let Some(plan) = unfinished else { return Ok(()) };
    let what = format!(
        "an earlier plan is neither kept nor undone, so nothing was measured or changed: {}",
        describe_unfinished(&plan)
    );
    let journal = &plan.journal;
    let keep = if plan.applied && !plan.partly_undone && plan.trial_until.is_some() {
        format!("; to keep it: pagewise apply --confirm {journal}")
    } else {
        String::new()
    };
    Err(Refusal::with_advice(what, format!("to undo it: pagewise undo {journal}{keep}")).into())
}

fn is_unfinished(plan: &InForce) -> bool {
    !plan.applied || plan.partly_undone || plan.trial_until.is_some()
}

/// Which changes of the plan are in force, and whether a timer undoes them.
fn describe_unfinished(plan: &InForce) -> String {
    let InForce { journal, left, .. } = plan;
    let how = match (plan.applied, plan.partly_undone) {
        (_, true) => "is undone in part",
        (false, false) => "was not applied completely",
        (true, false) => "is on trial",
    };
    let left = match left.as_slice() {
        [] => "none of its changes is in force".to_owned(),
        left => {
            let names: Vec<String> =
                left.iter().map(|it| Name::from(it.as_str()).to_string()).collect();
            format!("in force: {} (its other steps are not)", names.join(", "))
        }
    };
    let timer = match plan.trial_until {
        Some(until) => format!("; a timer undoes it at {}", format_utc_to_minute(until)),
        None => "; no timer undoes it".to_owned(),
    };
    let id = Name::from(plan.plan.id.as_str());
    format!("plan {id} (journal {journal}) {how}; {left}{timer}")
}

/// Describes which changes of this plan are still in force although the plan should be undone.
fn describe_left(id: &str) -> String {
    let plans = match plans_in_force(&state_folder()) {
        Ok(plans) => plans,
        Err(error) => return format!("what is in force is not known: {error}"),
    };
    match plans.iter().find(|plan| plan.plan.id == id && is_unfinished(plan)) {
        Some(plan) => {
            let journal = &plan.journal;
            format!("{}; to undo it: sudo pagewise undo {journal}", describe_unfinished(plan))
        }
        None => "none of the plan's changes is in force".to_owned(),
    }
}

/// The result of watching a plan on trial.
struct Tried {
    journal: String,
    after: HostVerdict,
    judgement: PeriodsVerdict,
    verified: Vec<Verified>,
    ledger: LedgerUpdate,
    /// Why the plan on trial is undone; empty if it is kept.
    against: Vec<String>,
}

impl Tried {
    fn to_report(&self) -> TuneTrial<'_> {
        let Self { journal, after, judgement, verified, ledger, against } = self;
        TuneTrial { journal, after, judgement, verified, ledger, against }
    }
}

/// What is known of the machine before the changes.
struct Before {
    state: State,
    slices: Vec<Slice>,
}

struct Tuner<'a> {
    global: &'a Global,
    args: &'a cli::Tune,
    stop: Stop,
}

impl Tuner<'_> {
    fn run_verb_as_json(&self, words: &[&str]) -> anyhow::Result<Value> {
        own::run_for_document(self.global, words, &self.stop)
    }

    fn print(&self, what: &str) {
        if !self.global.quiet {
            output::print_message(what);
        }
    }

    /// Runs `scan` and `bench`, and returns their documents. If one of the two fails, this prints
    /// the error, and the plan is made without that document.
    fn measure(&self) -> anyhow::Result<Vec<Value>> {
        let mut measured = Vec::new();
        let scan = ["scan", "--host", "--measure", "--budget", SCAN_BUDGET];
        let bench = ["bench", "--host", "--measure", "--quick"];
        let verbs: &[&[&str]] = if self.args.no_bench { &[&scan] } else { &[&scan, &bench] };
        for words in verbs {
            self.print(&format!("measuring: pagewise {}", words.join(" ")));
            match self.run_verb_as_json(words) {
                Ok(document) => measured.push(document),
                Err(error) if self.stop.is_asked() => return Err(error),
                Err(error) => {
                    output::print_message(format_args!("{error:#}; the plan is made without it"));
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

    fn times(&self) -> Times {
        Times { watch: self.args.watch, settle: self.args.settle }
    }

    /// Watches, applies the plan on trial, watches again, and keeps or undoes it. `None` if all
    /// changes were already in place.
    fn try_plan(
        &self,
        live: &mut Live<'_>,
        document: &Value,
        plan: &Plan,
        named: Option<&Named>,
    ) -> anyhow::Result<Option<Tried>> {
        let seconds = self.args.watch.as_secs();
        self.print(&format!("watching the machine for {seconds} s before the changes"));
        watch::Machine::pass(live, REST.min(self.args.watch))?;
        let slices = watch::watch_before(live, self.times())?;
        let before = Before { state: State::read()?, slices };
        let has_systemd = pagewise_observe::installation(&HostRoot::live()?).has_systemd;
        let guard = if has_systemd { None } else { Some(Guard::start(&plan.id)?) };
        let tried = self.carry_out(live, document, &plan.id, &before, named, has_systemd);
        // an error means that the plan is undone, or that the guard process has to try the undo
        // again
        let is_left = tried.is_err()
            && plans_in_force(&state_folder())
                .is_ok_and(|plans| plans.iter().any(|it| it.plan.id == plan.id));
        guard.into_iter().filter(|_| !is_left).for_each(Guard::finish);
        tried
    }

    /// Applies the plan on trial, watches the machine, and keeps or undoes the plan.
    fn carry_out(
        &self,
        live: &mut Live<'_>,
        document: &Value,
        id: &str,
        before: &Before,
        named: Option<&Named>,
        has_systemd: bool,
    ) -> anyhow::Result<Option<Tried>> {
        let applied = self.apply(live, document, has_systemd);
        let Some(journal) = applied.with_context(|| describe_left(id))? else { return Ok(None) };
        let tried = self.watch_trial(live, before, &journal, named);
        if tried.as_ref().is_ok_and(|tried| tried.against.is_empty()) {
            // without systemd there is no timer, so nothing to confirm
            if has_systemd {
                own::run_for_document(
                    self.global,
                    &["apply", "--confirm", &journal],
                    &Stop::never(),
                )?;
            }
        } else {
            self.undo(&journal, id)?;
        }
        tried.map(Some).with_context(|| format!("the plan of journal {journal} is undone"))
    }

    /// Applies the plan on trial; returns the ID of its journal, or `None` if all changes were
    /// already in place.
    fn apply(
        &self,
        live: &Live<'_>,
        plan: &Value,
        has_systemd: bool,
    ) -> anyhow::Result<Option<String>> {
        let passed = Passed::new(plan)?;
        let Times { watch, settle } = self.times();
        let (path, seconds) =
            (passed.path(), (settle + live.longest_period(watch) + SPARE).as_secs());
        let trial = format!("{seconds}s");
        // `apply` must not undo the plan because all tasks wait right after a change: tune watches
        // for longer
        let mut words = vec!["apply", "--yes", "--settle", "0", &path];
        if has_systemd {
            words.extend(["--trial-for", &trial]);
        } else {
            let what = "systemd does not run here, so no timer undoes the plan after a crash of the machine: \
                        run `pagewise undo` then";
            output::print_message(what);
        }
        // apply handles Ctrl-C itself, and tune needs the journal's ID to undo the plan
        let applied = own::run_for_document(self.global, &words, &Stop::never())?;
        Ok(applied["applied"]["journal"].as_str().map(str::to_owned))
    }

    /// Lets the machine settle, watches it, and judges the changes.
    fn watch_trial(
        &self,
        live: &mut Live<'_>,
        before: &Before,
        journal: &str,
        named: Option<&Named>,
    ) -> anyhow::Result<Tried> {
        let times = self.times();
        let (settle, watch) = (times.settle.as_secs(), times.watch.as_secs());
        self.print(&format!(
            "letting programs settle for {settle} s, then watching the machine for {watch} s"
        ));
        let mut brake = Brake::new(live, &before.slices);
        let watched = watch::watch_after(live, times, &mut brake)?;
        let mut judgement = watch::judge(&before.slices, &watched.slices, times, named);
        let after = State::read()?;
        let kills = after.kills_since(&before.state);
        let by_log = (kills > 0).then(|| {
            let processes = if kills == 1 { "process" } else { "processes" };
            format!("the kernel killed {kills} {processes} for lack of memory")
        });
        if let Some(why) = watched.braked.or(by_log) {
            (judgement.difference, judgement.why) = (Difference::Worse, why);
        }
        let (verified, ledger) = verify::verify_applied(journal)?;
        let is_drifted = verified.iter().any(Verified::has_drifted);
        let against = reasons_against(&judgement, self.args.keep, is_drifted);
        let (journal, after) = (journal.to_owned(), after.verdict);
        Ok(Tried { journal, after, judgement, verified, ledger, against })
    }

    fn undo(&self, journal: &str, id: &str) -> anyhow::Result<()> {
        self.print(&format!("undoing the plan of journal {journal}"));
        // `Stop::never`, because the signal that ended the trial asked for exactly this undo
        let undone = own::run_for_document(self.global, &["undo", journal], &Stop::never());
        undone.map(|_| ()).with_context(|| describe_left(id))
    }
}

/// Why the changes are undone; empty if they are kept. Without a measured difference they are
/// undone, unless the user wants to keep them: a setting should stay only for a reason.
fn reasons_against(judgement: &PeriodsVerdict, keep: bool, is_drifted: bool) -> Vec<String> {
    let mut against = Vec::new();
    let why = &judgement.why;
    match judgement.difference {
        Difference::Better => {}
        Difference::NotShown if keep => {}
        Difference::NotShown => against.push(format!("no difference is shown. {why}")),
        Difference::Worse => against.push(why.clone()),
    }
    if is_drifted {
        let what = "the machine differs from the plan, so something else changed it meanwhile";
        against.push(what.to_owned());
    }
    against
}

fn goal_name(goal: Goal) -> String {
    let name = serde_json::to_value(goal).ok();
    name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pagewise_model::Source;

    use super::*;

    fn state(kills: &[u32]) -> State {
        let mut end = pagewise_model::Snapshot::default();
        let kill =
            |line: &u32| OomKill { source: Source::line("/dev/kmsg", *line), ..OomKill::default() };
        end.kernel_log.kills = kills.iter().map(kill).collect();
        State { interval: Interval::single(end), verdict: HostVerdict::default() }
    }

    #[test]
    fn only_new_kills_count() {
        let before = state(&[1]);
        assert_eq!(state(&[1]).kills_since(&before), 0);
        assert_eq!(state(&[1, 9, 12]).kills_since(&before), 2);
    }

    #[test]
    fn a_plan_is_kept_if_it_helps_and_otherwise_only_on_request() {
        let against = |difference, keep, is_drifted| {
            let why = "waiting for memory: it was falling before the change already".to_owned();
            let (measures, unknown) = (Vec::new(), Vec::new());
            let (settle_seconds, watch_seconds) = (20.0, 45.0);
            let judgement = PeriodsVerdict {
                difference,
                why,
                settle_seconds,
                watch_seconds,
                measures,
                unknown,
            };
            reasons_against(&judgement, keep, is_drifted).len()
        };
        use Difference::{Better, NotShown, Worse};
        for (difference, keep, reasons) in [
            (Better, false, 0),
            (Better, true, 0),
            (NotShown, false, 1),
            (NotShown, true, 0),
            (Worse, false, 1),
            (Worse, true, 1),
        ] {
            assert_eq!(against(difference, keep, false), reasons, "{difference:?} {keep}");
            assert_eq!(against(difference, keep, true), reasons + 1, "drifted");
        }
    }

    #[test]
    fn an_unfinished_plan_is_described_exactly() {
        let plan: Plan = serde_json::from_value(serde_json::json!({
            "id": "00112233aabbccdd", "goal": "balanced", "steps": [], "declined": [],
            "machine": {"machine_id_hash": null, "memory_total_bytes": null, "kernel": null},
        }))
        .unwrap();
        let on_trial = InForce {
            journal: "4".to_owned(),
            applied: true,
            changes: 3,
            partly_undone: false,
            left: vec!["swap on /dev/zram1".to_owned(), "vm.swappiness".to_owned()],
            trial_until: Some(1_790_000_000),
            unix_seconds: 1_780_000_000,
            plan,
        };
        assert_eq!(
            describe_unfinished(&on_trial),
            "plan 00112233aabbccdd (journal 4) is on trial; in force: swap on /dev/zram1, \
             vm.swappiness (its other steps are not); a timer undoes it at 2026-09-21 14:13 UTC"
        );
        let left = vec!["swap on /dev/zram1".to_owned()];
        let half = InForce { partly_undone: true, trial_until: None, left, ..on_trial.clone() };
        let text = describe_unfinished(&half);
        assert!(text.contains("is undone in part; in force: swap on /dev/zram1 ("), "{text}");
        assert!(text.ends_with("no timer undoes it") && is_unfinished(&half), "{text}");
        let kept = InForce { trial_until: None, ..on_trial };
        assert!(
            !is_unfinished(&kept) && is_unfinished(&InForce { applied: false, ..kept.clone() })
        );
    }
}
