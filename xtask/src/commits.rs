// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the commits after a base whose message violates the rule of CONTRIBUTING.md.
//!
//! A subject has the form `scope: verb phrase`; a body explains the change, unless the diff is
//! trivial. Merges are exempt. This check does not judge whether the phrase begins with a verb, and
//! whether the body explains the change; the reviewer does.
//!
//! A shallow clone may lack the base, and its oldest commits have no parents there. The check lists
//! what it could not check.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::run;

/// The last commit before the rule was introduced.
const BASE: &str = "c3685e65ef46c3a48a1a2ad7e64fbfedff39b3b8";

/// Maximum number of characters of a commit's subject.
const LONGEST_SUBJECT: usize = 100;
/// Maximum number of characters of a commit's scope.
const LONGEST_SCOPE: usize = 40;
/// Number of added and removed lines below which a diff is trivial and needs no body.
const TRIVIAL_LINES: u64 = 10;
/// Files that a tool writes; their lines do not count in the size of a commit. passed.toml recorded
/// passed tests in earlier versions of this tool.
const GENERATED: &[&str] = &["Cargo.lock", "passed.toml"];

/// The beginning of a line that names what could not be checked in a shallow clone.
pub(crate) const NOT_CHECKED: &str = "not checked";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Check the commits after this one, instead of those after the project's base
    #[arg(long, value_name = "REV")]
    since: Option<String>,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let repository = Repository { folder: run::project().to_owned() };
    let checked = repository.check(args.since.as_deref().unwrap_or(BASE))?;
    for note in &checked.unchecked {
        println!("{NOT_CHECKED}: {note}");
    }
    if !checked.offenders.is_empty() {
        bail!(
            "CONTRIBUTING.md, \"Commits\": `scope: verb phrase`, then a body\n{}",
            checked.offenders.join("\n")
        );
    }
    println!("{} commits after {} follow the rule", checked.commits, checked.since);
    Ok(())
}

/// The result of checking the messages of commits.
#[derive(Debug)]
struct Checked {
    since: String,
    commits: usize,
    /// A line for each commit that violates the rule, with its faults.
    offenders: Vec<String>,
    /// Descriptions of what could not be checked in a shallow clone.
    unchecked: Vec<String>,
}

/// A commit's message, with its parents and the size of its diff.
#[derive(Debug, PartialEq, Eq)]
struct Commit {
    hash: String,
    parents: usize,
    subject: String,
    body: String,
    /// Number of added and removed lines outside generated files. A binary file makes the diff
    /// count as not trivial.
    lines: u64,
}

impl Commit {
    /// Parses one record of [`FORMAT`], with the output of `--numstat` after it.
    fn parse(record: &str) -> Result<Self> {
        let fields: Vec<&str> = record.splitn(5, '\0').collect();
        let &[hash, parents, subject, body, numbers] = fields.as_slice() else {
            bail!("git log printed {record:?}");
        };
        let lines = numbers.lines().filter(|line| !line.is_empty()).map(lines_of_file);
        Ok(Self {
            hash: hash.to_owned(),
            parents: parents.split_whitespace().count(),
            subject: subject.to_owned(),
            body: body.to_owned(),
            lines: lines.sum::<Result<_>>()?,
        })
    }

    fn line(&self, fault: &str) -> String {
        format!("  {:.10} {:?}: {fault}", self.hash, self.subject)
    }

    /// The ways in which the commit violates the rule.
    fn find_faults(&self) -> Vec<String> {
        let Self { lines, .. } = self;
        let needs_body = *lines >= TRIVIAL_LINES && !has_body(&self.body);
        let no_body = needs_body.then(|| {
            format!("{lines} changed lines and no body (fewer than {TRIVIAL_LINES} need none)")
        });
        let faults = find_subject_fault(&self.subject).into_iter().chain(no_body);
        faults.map(|fault| self.line(&fault)).collect()
    }
}

/// Format of `git log`: hash, parents, subject and body, with separators that no message contains.
const FORMAT: &str = "--format=%x1e%H%x00%P%x00%s%x00%b%x00";

/// A folder that is a git repository.
#[derive(Debug)]
struct Repository {
    folder: PathBuf,
}

impl Repository {
    fn git(&self, arguments: &[&str]) -> Command {
        let mut git = Command::new("git");
        // git sets variables for a hook that name the hook's repository, which may be another one.
        for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            git.env_remove(variable);
        }
        // In CI, the checkout may belong to another user.
        git.current_dir(&self.folder).args(["-c", "safe.directory=*"]).args(arguments);
        git
    }

    fn output(&self, arguments: &[&str]) -> Result<String> {
        run::output(&mut self.git(arguments))
    }

    fn check(&self, revision: &str) -> Result<Checked> {
        let is_shallow = self.output(&["rev-parse", "--is-shallow-repository"])?.trim() == "true";
        let mut unchecked = Vec::new();
        let mut range = vec!["HEAD".to_owned()];
        if self.has_commit(revision)? {
            range.push(format!("^{revision}"));
        } else {
            ensure!(
                is_shallow,
                "{revision}: this repository has no such commit, and it is not a shallow clone"
            );
            unchecked.push(format!(
                "commits older than this shallow clone, which lacks {revision:.10}; \
                 `git fetch --unshallow` brings them"
            ));
        }
        let commits = self.commits(&range)?;
        let mut offenders = Vec::new();
        for commit in &commits {
            // A shallow clone does not show whether its oldest commits are merges, or what they
            // change.
            if is_shallow && commit.parents == 0 {
                unchecked.push(commit.line("this shallow clone lacks its parent"));
            } else if commit.parents <= 1 {
                offenders.extend(commit.find_faults());
            }
        }
        let since = format!("{revision:.10}");
        Ok(Checked { since, commits: commits.len(), offenders, unchecked })
    }

    fn has_commit(&self, revision: &str) -> Result<bool> {
        let name = format!("{revision}^{{commit}}");
        let mut verify = self.git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name]);
        let output = verify.output().context("git rev-parse")?;
        Ok(output.status.success())
    }

    /// The commits in a range, the newest first.
    fn commits(&self, range: &[String]) -> Result<Vec<Commit>> {
        let mut arguments = vec!["log", "--no-show-signature", "-M", "--numstat", FORMAT];
        arguments.extend(range.iter().map(String::as_str));
        let records = self.output(&arguments)?;
        records.split('\x1e').skip(1).map(Commit::parse).collect()
    }
}

/// Number of added and removed lines, from a line of `--numstat`: `added TAB removed TAB path`.
fn lines_of_file(line: &str) -> Result<u64> {
    let fields: Vec<&str> = line.splitn(3, '\t').collect();
    let &[added, removed, path] = fields.as_slice() else { bail!("git log printed {line:?}") };
    if GENERATED.contains(&path.rsplit('/').next().unwrap_or(path)) {
        return Ok(0);
    }
    if added == "-" {
        return Ok(TRIVIAL_LINES);
    }
    let parse = |count: &str| count.parse::<u64>().with_context(|| format!("git log: {line:?}"));
    Ok(parse(added)? + parse(removed)?)
}

fn find_subject_fault(subject: &str) -> Option<String> {
    let length = subject.chars().count();
    if length > LONGEST_SUBJECT {
        return Some(format!("subject of {length} characters (at most {LONGEST_SUBJECT})"));
    }
    let Some((scope, phrase)) = subject.split_once(": ") else {
        return Some("subject without a scope: expected `scope: verb phrase`".to_owned());
    };
    if !is_scope(scope) {
        return Some(format!(
            "{scope:?} is not a scope: expected words, separated by `, ` or spaces"
        ));
    }
    if phrase.trim().is_empty() {
        return Some("nothing after the scope".to_owned());
    }
    phrase.ends_with('.').then(|| "subject ends with a full stop".to_owned())
}

/// Whether a text is a scope of one or more names, such as `xtask`, `thp restrain` or
/// `doctor, report`.
fn is_scope(scope: &str) -> bool {
    let is_name = |name: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
        !name.is_empty() && name.chars().all(plain)
    };
    let is_group = |group: &str| group.split(' ').all(is_name);
    scope.len() <= LONGEST_SCOPE && scope.split(", ").all(is_group)
}

/// Whether the body contains anything except trailers such as `Signed-off-by: …`.
fn has_body(body: &str) -> bool {
    let is_trailer = |line: &str| {
        let key = line.split_once(": ").map_or("", |(key, _)| key);
        key.contains('-') && key.chars().all(|c| c.is_ascii_alphabetic() || c == '-')
    };
    body.lines().any(|line| !line.trim().is_empty() && !is_trailer(line))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A repository with commits that a test makes.
    struct MadeUp {
        folder: tempfile::TempDir,
    }

    impl MadeUp {
        fn new() -> Self {
            let made = Self { folder: tempfile::tempdir().unwrap() };
            made.git(&["init", "--quiet", "--initial-branch=main"]);
            made
        }

        fn repository(&self) -> Repository {
            Repository { folder: self.folder.path().to_owned() }
        }

        fn command(&self, arguments: &[&str]) -> Command {
            let mut git = self.repository().git(arguments);
            git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
            for who in ["AUTHOR", "COMMITTER"] {
                git.env(format!("GIT_{who}_NAME"), "A").env(format!("GIT_{who}_EMAIL"), "a@b");
            }
            git
        }

        fn git(&self, arguments: &[&str]) -> String {
            run::output(&mut self.command(arguments)).unwrap().trim_end().to_owned()
        }

        /// Commits `lines` new lines of `path` and returns the hash.
        fn commit(&self, message: &str, path: &str, lines: usize) -> String {
            let path = self.folder.path().join(path);
            let old = fs::read_to_string(&path).unwrap_or_default();
            let new: String = (0..lines).map(|line| format!("line {line}\n")).collect();
            fs::write(&path, old + &new).unwrap();
            self.git(&["add", "--all"]);
            self.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
            self.git(&["rev-parse", "HEAD"])
        }

        fn check(&self, since: &str) -> Checked {
            self.repository().check(since).unwrap()
        }
    }

    #[test]
    fn large_diffs_without_a_body_and_bad_subjects_are_named() {
        let made = MadeUp::new();
        let base = made.commit("whatever this was", "a", 50);
        let long = format!("a: {}", "x".repeat(98));
        let cases = [
            ("a: change nine lines", "a", 9, None),
            ("a: change many lines\n\nThey were wrong.", "a", 300, None),
            ("a: update dependencies", "Cargo.lock", 300, None),
            (
                "a: change ten lines\n\nSigned-off-by: A <a@b>",
                "a",
                10,
                Some("\"a: change ten lines\": 10 changed lines and no body"),
            ),
            ("a: add a picture", "b.png", 0, Some("10 changed lines and no body")),
            ("wrong", "a", 1, Some("subject without a scope")),
            (&long, "a", 1, Some("subject of 101 characters")),
        ];
        let mut faults: Vec<&str> = Vec::new();
        for (at, (message, path, lines, fault)) in cases.into_iter().enumerate() {
            // A binary file is not a trivial diff.
            if path == "b.png" {
                fs::write(made.folder.path().join(path), [0, 1, 2, 0]).unwrap();
            }
            made.commit(message, path, lines);
            faults.splice(0..0, fault);
            let Checked { commits, offenders, .. } = made.check(&base);
            assert_eq!((commits, offenders.len()), (at + 1, faults.len()), "{offenders:?}");
            let named = offenders.iter().zip(&faults).all(|(line, fault)| line.contains(fault));
            assert!(named, "{offenders:?}");
        }
    }

    #[test]
    fn merges_are_exempt_and_what_they_bring_is_not() {
        let made = MadeUp::new();
        let base = made.commit("a: begin", "a", 1);
        made.git(&["checkout", "--quiet", "-b", "side"]);
        made.commit("side without a scope", "b", 1);
        made.git(&["checkout", "--quiet", "main"]);
        made.commit("a: go on", "a", 1);
        made.git(&["merge", "--quiet", "--no-edit", "side"]);
        let checked = made.check(&base);
        assert_eq!(checked.commits, 3);
        assert_eq!(checked.offenders.len(), 1, "{:?}", checked.offenders);
    }

    /// A shallow clone that contains the last `depth` commits.
    fn shallow(of: &MadeUp, depth: usize) -> (tempfile::TempDir, Repository) {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("clone");
        let from = format!("file://{}", of.folder.path().display());
        let to = folder.to_str().unwrap();
        of.git(&["clone", "--quiet", &format!("--depth={depth}"), &from, to]);
        (place, Repository { folder })
    }

    #[test]
    fn a_shallow_clone_checks_what_it_has_and_names_what_it_lacks() {
        let made = MadeUp::new();
        let base = made.commit("a: begin", "a", 1);
        made.commit("a: change without a body", "a", 100);
        made.commit("a: change another without a body", "a", 100);
        let (_place, clone) = shallow(&made, 2);
        let checked = clone.check(&base).unwrap();
        assert_eq!((checked.commits, checked.offenders.len()), (2, 1));
        assert!(checked.offenders[0].contains("another"), "{checked:?}");
        assert_eq!(checked.unchecked.len(), 2, "{checked:?}");
        assert!(checked.unchecked[0].contains("lacks"), "{checked:?}");
        assert!(checked.unchecked[1].contains("\"a: change without a body\""), "{checked:?}");
        // if the clone is deep enough, as many commits are checked in it as in the full clone
        let (_place, clone) = shallow(&made, 3);
        let checked = clone.check(&base).unwrap();
        assert_eq!((checked.offenders.len(), checked.unchecked.len()), (2, 0), "{checked:?}");
    }

    #[test]
    fn a_merge_at_the_end_of_a_shallow_clone_is_still_a_merge() {
        let made = MadeUp::new();
        let base = made.commit("a: begin", "a", 1);
        made.git(&["checkout", "--quiet", "-b", "side"]);
        made.commit("b: begin", "b", 1);
        made.git(&["checkout", "--quiet", "main"]);
        made.commit("a: go on", "a", 1);
        made.git(&["merge", "--quiet", "--no-edit", "side"]);
        let (_place, clone) = shallow(&made, 1);
        let checked = clone.check(&base).unwrap();
        assert_eq!((checked.commits, checked.offenders.len()), (1, 0), "{checked:?}");
    }

    #[test]
    fn an_unknown_revision_is_refused_in_a_whole_repository() {
        let made = MadeUp::new();
        made.commit("a: begin", "a", 1);
        let error = made.repository().check("0123456789").unwrap_err();
        assert!(error.to_string().contains("no such commit"), "{error:#}");
    }

    #[test]
    fn scopes_are_names() {
        for good in
            ["xtask: check commits", "doctor, report: agree", "thp restrain: give up rights"]
        {
            assert_eq!(find_subject_fault(good), None);
        }
        for bad in ["no scope", ": nothing", "a: ", "really?: yes", "a: end.", "a,b: c"] {
            assert!(find_subject_fault(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn trailers_are_no_body() {
        assert!(!has_body("\nSigned-off-by: A <a@b>\nCo-authored-by: B\n"));
        assert!(has_body("Signed-off-by: A\n\nBecause."));
        assert!(has_body("Effect: none"));
    }
}
