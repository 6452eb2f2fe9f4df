// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the groups of tests that have not passed with their current inputs, makes jobs for these,
//! and lists which inputs have changed. Does the same for past commits.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::fixed::{self, Setting};
use super::groups::{GROUPS, GUEST, Group, ONLY_IN_ALL, Program, Runs};
use super::jobs::Job;
use super::keys::{self, Keys, Lean, Parts, hash_of_bytes, toolchain};
use super::outcome::{Outcome, State};
use super::passes::{Pass, Passes};
use super::programs::{self, Targets, TestProgram};
use super::tree::{Texts, Tree};
use super::{child, trace};
use crate::run;

const PHASE: &str = "groups";

/// A group of tests and the key of its current inputs.
#[derive(Debug, Clone)]
pub(super) struct Keyed {
    pub(super) group: &'static Group,
    pub(super) key: String,
    inputs: Parts,
    /// The group's pass with that key; `None` if it has not passed with its current inputs.
    pub(super) pass: Option<Pass>,
    /// The group's last pass with other inputs.
    last: Option<Pass>,
    /// Duration of the group in minutes: as last measured on this machine; if it was not measured,
    /// as estimated in the table.
    pub(super) minutes: f64,
}

/// Builds the lean program, whose bytes are part of the keys of groups.
pub(super) fn lean_program() -> Result<PathBuf> {
    let script = run::project().join("xtask/scripts/build-static.sh");
    let log = "lean program";
    let ended = child::run_logged(run::program(&script).arg("--lean"), log, child::DEADLINE)?;
    ensure!(ended.has_succeeded(), "{log}: {}{}", ended.output()?, ended.describe_end());
    let path = run::output(run::program(script).args(["--lean", "--where"]))?;
    Ok(run::project().join(path.trim()))
}

/// Computes the keys of all groups for the working tree.
pub(super) fn compute_keys(passes: &Passes, lean: &Path) -> Result<Vec<Keyed>> {
    let bytes = std::fs::read(lean).with_context(|| lean.display().to_string())?;
    let tree = Tree::of_work_tree(run::project())?;
    let keys = Keys::new(tree, toolchain()?, Lean::Bytes(hash_of_bytes(&bytes)))?;
    let keyed = |group: &'static Group| {
        let inputs = keys.parts(group.inputs);
        let key = keys::key(&group.description(), &inputs);
        let (pass, last) = (passes.find(group.name, &key), passes.last(group.name));
        // a file with the right name is not accepted if it records other inputs
        let pass = pass.filter(|pass| pass.inputs == inputs);
        let minutes = last.as_ref().map_or(group.minutes, |last| last.minutes);
        Keyed { group, key, inputs, pass, last, minutes }
    };
    Ok(GROUPS.iter().map(keyed).collect())
}

fn differing_names<'a>(before: &'a Parts, now: &'a Parts) -> BTreeSet<&'a str> {
    let names = before.keys().chain(now.keys());
    names.filter(|name| before.get(*name) != now.get(*name)).map(String::as_str).collect()
}

/// Lists some of the names, and how many more there are.
fn list_in_words(names: &BTreeSet<&str>) -> Option<String> {
    const SHOWN: usize = 2;
    let first: Vec<&str> = names.iter().take(SHOWN).copied().collect();
    let more = names.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!first.is_empty()).then(|| format!("{}{rest}", first.join(", ")))
}

/// Makes the jobs of these groups, and the builds that must run before them. With `is_traced`, a
/// group also fails if it opened files of the project that are not among its inputs; these are
/// listed.
pub(super) fn jobs(
    setting: &Arc<Setting>,
    chosen: &[Keyed],
    passes: &Passes,
    is_traced: bool,
) -> Vec<Job> {
    let mut jobs = Vec::new();
    let (mut anywhere, mut in_guests) = (Vec::new(), Vec::new());
    for one in chosen {
        match one.group.runs {
            Runs::Tests { .. } => anywhere.push(one.clone()),
            Runs::Guests { .. } => in_guests.push(one.clone()),
            Runs::Command(_) | Runs::Chore(_) | Runs::Borrowing(_) => {
                jobs.push(job(setting, one, passes, Vec::new(), is_traced));
            }
        }
    }
    let is_borrowing = |one: &Keyed| matches!(one.group.runs, Runs::Borrowing(_));
    let needs_whole =
        chosen.iter().any(|one| one.group.runs_program(Program::Whole) || is_borrowing(one));
    if needs_whole {
        jobs.push(fixed::make_urgent(Job { phase: PHASE, ..fixed::quick_program_job(&[]) }));
    }
    let builds: [(&'static str, Vec<Keyed>, Targets, &[&'static str]); 2] = [
        ("build unit tests", anywhere, Targets::Anywhere, &[]),
        (
            "build root tests",
            in_guests,
            Targets::Root,
            if needs_whole { &["quick program"] } else { &[] },
        ),
    ];
    for (name, wanted, targets, after) in builds {
        if wanted.is_empty() {
            continue;
        }
        let (setting, passes) = (Arc::clone(setting), passes.clone());
        let work = move || {
            let (outcome, programs) = match targets {
                Targets::Anywhere => fixed::build(name, targets)?,
                Targets::Root => fixed::build_root_tests()?,
            };
            let followers = wanted.iter().filter(|_| outcome.state.is_good());
            let followers =
                followers.map(|one| job(&setting, one, &passes, programs.clone(), is_traced));
            let followers = followers.collect();
            Ok((outcome, followers))
        };
        jobs.push(fixed::make_urgent(fixed::job(name, PHASE, after, 60.0, Box::new(work))));
    }
    jobs
}

fn job(
    setting: &Arc<Setting>,
    one: &Keyed,
    passes: &Passes,
    programs: Vec<TestProgram>,
    is_traced: bool,
) -> Job {
    let (own, one, passes) = (Arc::clone(setting), one.clone(), passes.clone());
    let (group, minutes) = (one.group, one.minutes);
    let after: &[&str] = if let Runs::Borrowing(_) = group.runs { &["quick program"] } else { &[] };
    let work = move || run_group(&own, &one, &passes, &programs, is_traced);
    let guess = minutes * 60.0;
    let job = match group.runs {
        Runs::Borrowing(_) => {
            fixed::machine_changing_job(group.name, PHASE, after, guess, move || Ok(work()?.0))
        }
        _ => fixed::job(group.name, PHASE, after, guess, Box::new(work)),
    };
    Job { guest_cpus: group.guest_cpus(), may_be_left_out: true, ..job }
}

/// Runs a group, and records a pass if its inputs have not changed meanwhile.
fn run_group(
    setting: &Setting,
    one: &Keyed,
    passes: &Passes,
    programs: &[TestProgram],
    is_traced: bool,
) -> Result<(Outcome, Vec<Job>)> {
    let group = one.group;
    let mut command = command_of(setting, group, programs)?;
    if is_traced {
        command = trace::trace(&command, &trace::log_path(group.name)?);
    }
    let started = Instant::now();
    let ended = child::run_logged(&mut command, group.name, child::DEADLINE)?;
    let mut outcome = match group.runs {
        Runs::Guests { .. } | Runs::Tests { .. } => programs::outcome(&ended)?,
        _ if ended.has_succeeded() => Outcome::new(State::Passed, String::new()),
        _ => Outcome::new(State::Failed, format!("{}{}", ended.output()?, ended.describe_end())),
    };
    if is_traced && outcome.state == State::Passed {
        outcome = trace::judge(group, outcome)?;
    }
    if outcome.state == State::Passed {
        let minutes = (started.elapsed().as_secs_f64() / 6.0).round() / 10.0;
        let (tests, inputs) = (outcome.tests.passed, one.inputs.clone());
        let pass = Pass { passed: today()?, minutes, tests, inputs };
        outcome.text = record_pass(setting, one, passes, &pass)?.unwrap_or(outcome.text);
    }
    if let Runs::Guests { .. } = group.runs {
        let guest = programs::find(programs, GUEST)?;
        let given = setting.inputs_for(group);
        return Ok(programs::outcome_with_retry(outcome, group.name, PHASE, guest, &given, false));
    }
    Ok((outcome, Vec::new()))
}

/// Records a pass. If that fails, returns why; the tests are still passed.
fn record_pass(
    setting: &Setting,
    one: &Keyed,
    passes: &Passes,
    pass: &Pass,
) -> Result<Option<String>> {
    let now = match compute_keys(passes, &setting.lean) {
        Ok(now) => now,
        Err(error) => return Ok(Some(format!("this pass is not remembered: {error:#}"))),
    };
    if now.iter().any(|other| other.group.name == one.group.name && other.key != one.key) {
        return Ok(Some("its inputs changed meanwhile: this pass is not remembered".to_owned()));
    }
    let recorded = passes.record(one.group.name, &one.key, pass);
    Ok(recorded.err().map(|error| format!("this pass is not remembered: {error:#}")))
}

fn command_of(setting: &Setting, group: &Group, built: &[TestProgram]) -> Result<Command> {
    Ok(match group.runs {
        Runs::Command(words) => fixed::script_command(words)(),
        Runs::Chore(words) => fixed::chore_command(words)?,
        Runs::Borrowing(words) => {
            let mut chore = fixed::chore_command(words)?;
            chore.arg(&setting.given.static_program);
            chore
        }
        Runs::Guests { .. } => {
            let guest = programs::find(built, GUEST)?;
            let ignored = guest.ignored_tests()?;
            let is_own = |test: &String| {
                let own = super::groups::group_of_guest_test(test).map(|group| group.name);
                own == Some(group.name) && !ignored.contains(test)
            };
            let tests: Vec<String> = guest.tests()?.into_iter().filter(is_own).collect();
            ensure!(
                !tests.is_empty(),
                "{}: no test in guests begins with what it names",
                group.name
            );
            let mut arguments = vec!["--test-threads=1", "--exact"];
            arguments.extend(tests.iter().map(String::as_str));
            guest.command(&arguments, Some(&setting.inputs_for(group)))
        }
        Runs::Tests { program, module } => {
            programs::find(built, program)?.command(&["--include-ignored", module], None)
        }
    })
}

fn today() -> Result<String> {
    Ok(run::output(run::program("date").arg("+%F"))?.trim().to_owned())
}

/// Chooses the groups that have not passed with their current inputs; with `regardless`, chooses
/// all groups.
pub(super) fn choose(all: Vec<Keyed>, names: &[String], regardless: bool) -> Result<Vec<Keyed>> {
    for name in names {
        let known = || GROUPS.iter().map(|group| group.name).collect::<Vec<_>>().join(", ");
        let is_known = all.iter().any(|one| one.group.name == name);
        ensure!(is_known, "no group {name}: there are {}", known());
    }
    let is_chosen = |one: &Keyed| {
        if names.is_empty() {
            regardless || (one.pass.is_none() && !ONLY_IN_ALL.contains(&one.group.name))
        } else {
            names.iter().any(|name| name == one.group.name) && (regardless || one.pass.is_none())
        }
    };
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// Makes the table of groups: for each, whether it has passed with its current inputs, or which
/// inputs have changed since its last pass.
pub(super) fn table(all: &[Keyed]) -> String {
    let mut text = format!("{:20} {:>7}  {:16}  state\n", "group", "minutes", "key");
    for one in all {
        let Keyed { group, key, pass, last, minutes, .. } = one;
        let state = match (pass, last) {
            (Some(pass), _) => format!("passed on {}", pass.passed),
            _ if ONLY_IN_ALL.contains(&group.name) => "only in make test-all".to_owned(),
            (None, Some(last)) => {
                format!("to run: changed since {}: {}", last.passed, describe_change(one, last))
            }
            (None, None) => "to run: no pass on this machine".to_owned(),
        };
        text += &format!("{:20} {minutes:>7.1}  {key:16}  {state}\n", group.name);
        text += &format!("{:20} proves: {}\n", "", group.proves);
    }
    text
}

fn describe_change(one: &Keyed, last: &Pass) -> String {
    list_in_words(&differing_names(&last.inputs, &one.inputs))
        .unwrap_or_else(|| "its description".to_owned())
}

/// Prints for each of the last `count` commits which groups had to run, and the mean of their
/// minutes.
///
/// The bytes of the lean program are not known for past commits. Its sources are used instead,
/// which change more often, so the printed minutes are rather too high than too low.
pub(super) fn replay(count: usize, passes: &Passes) -> Result<()> {
    let list = ["rev-list", "--first-parent", "--max-count"];
    let listed =
        run::output(run::program("git").args(list).arg((count + 1).to_string()).arg("HEAD"))?;
    let commits: Vec<&str> = listed.lines().collect();
    let texts: Rc<Texts> = Rc::default();
    let keys_of = |commit: &str| -> Result<Vec<String>> {
        let tree = Tree::of_commit(commit, &texts)?;
        let keys =
            Keys::new(tree, String::new(), Lean::Sources).with_context(|| commit.to_owned())?;
        let key = |group: &Group| keys::key(&group.description(), &keys.parts(group.inputs));
        Ok(GROUPS.iter().map(key).collect())
    };
    let mut after = keys_of(commits.first().context("no commit")?)?;
    let minutes: Vec<f64> = GROUPS
        .iter()
        .map(|group| passes.last(group.name).map_or(group.minutes, |last| last.minutes))
        .collect();
    let mut often = vec![0_usize; GROUPS.len()];
    let mut each = Vec::new();
    for commit in &commits[1..] {
        let before = keys_of(commit)?;
        let mut sum = 0.0;
        for (at, group) in GROUPS.iter().enumerate() {
            let runs = before[at] != after[at] && !ONLY_IN_ALL.contains(&group.name);
            often[at] += usize::from(runs);
            sum += if runs { minutes[at] } else { 0.0 };
        }
        each.push(sum);
        after = before;
    }
    let commits = each.len();
    println!("{:20} {:>7} {:>8} {:>15}", "group", "minutes", "commits", "minutes/commit");
    for (at, group) in GROUPS.iter().enumerate() {
        let share = minutes[at] * often[at] as f64 / commits as f64;
        println!("{:20} {:>7.1} {:>8} {share:>15.2}", group.name, minutes[at], often[at]);
    }
    each.sort_by(f64::total_cmp);
    let mean = each.iter().sum::<f64>() / commits as f64;
    let none = each.iter().filter(|minutes| **minutes == 0.0).count();
    println!(
        "\n{commits} commits: {mean:.1} minutes of groups each on average, at most {:.1}; {none} ran none",
        each.last().unwrap_or(&0.0)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compute_keys(at: usize, pass: bool) -> Keyed {
        let of = |inputs: &[(&str, &str)]| -> Parts {
            inputs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let inputs = of(&[("a", "2")]);
        let last = Pass {
            passed: "2026-11-26".to_owned(),
            minutes: 1.0,
            tests: 1,
            inputs: of(&[("a", "1")]),
        };
        let pass = pass.then(|| Pass { inputs: inputs.clone(), ..last.clone() });
        Keyed {
            group: &GROUPS[at],
            key: "k".to_owned(),
            inputs,
            pass,
            last: Some(last),
            minutes: 1.0,
        }
    }

    #[test]
    fn only_groups_without_a_pass_run_unless_all_are_wanted() {
        let all = || vec![compute_keys(0, true), compute_keys(1, false), compute_keys(2, true)];
        let names =
            |chosen: Vec<Keyed>| chosen.iter().map(|one| one.group.name).collect::<Vec<_>>();
        assert_eq!(names(choose(all(), &[], false).unwrap()), [GROUPS[1].name]);
        assert_eq!(choose(all(), &[], true).unwrap().len(), 3);
        let first = [GROUPS[0].name.to_owned()];
        assert_eq!(choose(all(), &first, false).unwrap().len(), 0, "it has passed");
        assert_eq!(names(choose(all(), &first, true).unwrap()), [GROUPS[0].name]);
        let unknown = choose(all(), &["nonesuch".to_owned()], false).unwrap_err().to_string();
        assert!(unknown.starts_with("no group nonesuch: there are simulations, "), "{unknown}");
    }

    #[test]
    fn the_table_says_what_changed_since_the_last_pass() {
        let text = table(&[compute_keys(0, true), compute_keys(1, false)]);
        assert!(text.contains("k                 passed on 2026-11-26\n"), "{text}");
        assert!(text.contains("k                 to run: changed since 2026-11-26: a\n"), "{text}");
    }

    #[test]
    fn a_difference_is_named_and_counted() {
        let parts = |pairs: &[(&str, &str)]| -> Parts {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let before = parts(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let now = parts(&[("a", "1"), ("b", "2"), ("d", "1"), ("e", "1")]);
        let names = differing_names(&before, &now);
        assert_eq!(list_in_words(&names).as_deref(), Some("b, c and 2 more"));
        assert_eq!(list_in_words(&differing_names(&now, &now)), None);
    }
}
