// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Carries out the change that the controller asks for, and measures the node before and after.
//!
//! [`next`] decides from what is asked and what was done so far; [`Changer`] does it. What was done is in a
//! file, which is written before and after each command, so that a restart goes on where the program was.
//! The timer that undoes a change is on the host, not here: the change is undone in time also if this
//! program, the API or the whole cluster is gone.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use fleet_crd::{ChangeAction, ChangePhase, ChangeReport, ChangeRequest, ChangeRole, MetricValues};
use serde::{Deserialize, Serialize};

use crate::pagewise::{Applied, Pagewise};
use crate::report::{Counters, Report};

/// What the API said about the request.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Asked {
    /// It has not answered yet: nothing may be concluded.
    #[default]
    Unknown,
    /// There is no request.
    Nothing,
    /// There is one.
    Change(Box<ChangeRequest>),
}

/// What was done so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    profile: String,
    revision: String,
    wave: u32,
    role: ChangeRole,
    phase: ChangePhase,
    /// A command that changes something was started, and its end is not known.
    running: bool,
    journal: Option<String>,
    /// An undo was tried and failed: it is not tried again.
    #[serde(default)]
    undo_failed: bool,
    before: Option<MetricValues>,
    after: Option<MetricValues>,
    /// The counters from which the node is measured after the change.
    after_from: Option<Counters>,
    /// When the timer on the host undoes the change, in seconds since boot.
    trial_ends: Option<f64>,
    message: Option<String>,
    boot_id: Option<String>,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq)]
pub enum Task {
    /// Nothing, until there is another reading or request.
    Wait,
    /// Note that this was found, and go on.
    Note(Option<Progress>),
    /// Make the change.
    Apply(Progress),
    /// Keep the change.
    Confirm(String),
    /// Undo the change; then forget it, if nobody asks about it any longer.
    Undo {
        /// Number of the journal.
        journal: String,
        /// Nobody asks about the change any longer.
        forget: bool,
    },
    /// Check that the timer has undone the change.
    Look(String),
}

/// Seconds after the end of a trial after which the timer must have undone the change: a tenth of the
/// trial, and at most two minutes.
fn timer_takes(trial: f64) -> f64 {
    (trial / 10.0).min(120.0)
}
/// Most readings that are kept: at one each five minutes, a bit more than a day.
const MOST_READINGS: usize = 320;

impl Progress {
    fn new(request: &ChangeRequest, boot_id: Option<String>) -> Self {
        Self {
            profile: request.profile.clone(),
            revision: request.revision.clone(),
            wave: request.wave,
            role: request.role,
            phase: ChangePhase::MeasuringBefore,
            running: false,
            journal: None,
            undo_failed: false,
            before: None,
            after: None,
            after_from: None,
            trial_ends: None,
            message: None,
            boot_id,
        }
    }

    fn is_of(&self, request: &ChangeRequest) -> bool {
        self.profile == request.profile
            && self.revision == request.revision
            && self.wave == request.wave
    }

    fn is_on_trial(&self) -> bool {
        let is_open = matches!(self.phase, ChangePhase::MeasuringAfter | ChangePhase::Measured);
        is_open && self.journal.is_some()
    }

    fn with(self, phase: ChangePhase, message: impl Into<Option<String>>) -> Self {
        Self { phase, message: message.into(), running: false, ..self }
    }

    /// What is published.
    #[must_use]
    pub fn report(&self) -> ChangeReport {
        let cut = |text: &String| text.chars().take(1000).collect();
        ChangeReport {
            profile: self.profile.clone(),
            revision: self.revision.clone(),
            wave: self.wave,
            phase: self.phase,
            before: self.before.clone(),
            after: self.after.clone(),
            journal: self.journal.clone(),
            message: self.message.as_ref().map(cut),
        }
    }

    /// Whether readings are needed more often than when nothing changes.
    #[must_use]
    pub fn is_measuring(&self) -> bool {
        matches!(self.phase, ChangePhase::MeasuringBefore | ChangePhase::MeasuringAfter)
    }
}

/// Decides what is next. `readings` are of this boot, the newest last, and not empty.
#[must_use]
pub fn next(asked: &Asked, progress: Option<&Progress>, readings: &[Counters]) -> Task {
    let Some(now) = readings.last() else { return Task::Wait };
    if let Some(task) = progress.and_then(|progress| check(progress, now)) {
        return task;
    }
    match (asked, progress) {
        (Asked::Unknown, _) | (Asked::Nothing, None) => Task::Wait,
        (Asked::Nothing, Some(progress)) => match &progress.journal {
            Some(journal) if progress.is_on_trial() => {
                Task::Undo { journal: journal.clone(), forget: true }
            }
            _ => Task::Note(None),
        },
        (Asked::Change(request), Some(progress)) if progress.is_of(request) => {
            go_on(request, progress, readings)
        }
        (Asked::Change(request), Some(progress)) => match &progress.journal {
            // What another revision changed must not stay below this one.
            Some(journal) if progress.is_on_trial() || progress.phase == ChangePhase::Kept => {
                Task::Undo { journal: journal.clone(), forget: true }
            }
            _ => Task::Note(Some(begin(request, now))),
        },
        (Asked::Change(request), None) => Task::Note(Some(begin(request, now))),
    }
}

/// What follows from the machine alone, whatever is asked.
fn check(progress: &Progress, now: &Counters) -> Option<Task> {
    if progress.running {
        let message = "the program on the node ended while the change was made. The timer on the node undoes it; \
                       `pagewise undo` lists what is in force";
        return Some(Task::Note(Some(
            progress.clone().with(ChangePhase::Failed, message.to_owned()),
        )));
    }
    let rebooted = progress.boot_id.is_some() && progress.boot_id != now.boot_id;
    if rebooted && progress.is_on_trial() {
        let message = "the node was rebooted during the trial, which undoes the change at boot";
        return Some(Task::Note(Some(
            progress.clone().with(ChangePhase::Undone, message.to_owned()),
        )));
    }
    if rebooted && progress.is_measuring() {
        let message = "the node was rebooted while it was measured";
        return Some(Task::Note(Some(
            progress.clone().with(ChangePhase::Failed, message.to_owned()),
        )));
    }
    let ended = progress.trial_ends.is_some_and(|ends| now.at > ends);
    if ended && progress.is_on_trial() {
        return progress.journal.clone().map(Task::Look);
    }
    None
}

fn begin(request: &ChangeRequest, now: &Counters) -> Progress {
    let new = Progress::new(request, now.boot_id.clone());
    match request.action {
        ChangeAction::Try => new,
        ChangeAction::Undo if request.role == ChangeRole::Compare => new.with(ChangePhase::Undone, None),
        ChangeAction::Keep | ChangeAction::Undo => new.with(
            ChangePhase::Failed,
            "the node has no record of this change; `pagewise undo` on the node lists what is in force".to_owned(),
        ),
    }
}

fn go_on(request: &ChangeRequest, progress: &Progress, readings: &[Counters]) -> Task {
    let note = |progress: Progress| Task::Note(Some(progress));
    match (progress.phase, request.action) {
        (ChangePhase::Failed, ChangeAction::Undo) => match &progress.journal {
            Some(journal) if !progress.undo_failed => {
                Task::Undo { journal: journal.clone(), forget: false }
            }
            _ => Task::Wait,
        },
        (ChangePhase::Undone | ChangePhase::Refused | ChangePhase::Failed, _) => Task::Wait,
        (ChangePhase::Kept, ChangeAction::Keep | ChangeAction::Try) => Task::Wait,
        (ChangePhase::MeasuringBefore, ChangeAction::Undo | ChangeAction::Keep) => {
            note(progress.clone().with(ChangePhase::Undone, "the change was not made".to_owned()))
        }
        (_, ChangeAction::Undo) => match &progress.journal {
            Some(journal) => Task::Undo { journal: journal.clone(), forget: false },
            None => note(progress.clone().with(ChangePhase::Undone, None)),
        },
        (ChangePhase::MeasuringBefore, ChangeAction::Try) => {
            let Some(before) = measure(readings, request.window_seconds) else { return Task::Wait };
            let measured = Progress { before: Some(before), ..progress.clone() };
            match request.role {
                ChangeRole::Change => Task::Apply(measured),
                ChangeRole::Compare => note(Progress {
                    phase: ChangePhase::MeasuringAfter,
                    after_from: readings.last().cloned(),
                    ..measured
                }),
            }
        }
        (ChangePhase::MeasuringAfter, _) => {
            let values = readings.last().zip(progress.after_from.as_ref());
            let values = values.and_then(|(now, from)| now.since(from));
            match values.filter(|values| values.seconds >= f64::from(request.window_seconds)) {
                Some(after) => note(Progress {
                    after: Some(after),
                    ..progress.clone().with(ChangePhase::Measured, None)
                }),
                None => Task::Wait,
            }
        }
        (ChangePhase::Measured, ChangeAction::Try) => Task::Wait,
        (ChangePhase::Measured, ChangeAction::Keep) => match &progress.journal {
            Some(journal) => Task::Confirm(journal.clone()),
            None => Task::Wait,
        },
    }
}

/// The rates over the shortest time that is at least the window.
fn measure(readings: &[Counters], window: u32) -> Option<MetricValues> {
    let now = readings.last()?;
    let mut values = readings.iter().rev().skip(1).filter_map(|earlier| now.since(earlier));
    values.find(|values| values.seconds >= f64::from(window))
}

/// Does what [`next`] decides.
#[derive(Debug)]
pub struct Changer {
    pagewise: Pagewise,
    file: PathBuf,
    progress: Option<Progress>,
    readings: VecDeque<Counters>,
}

impl Changer {
    /// Goes on with what the file says.
    ///
    /// # Errors
    /// If the file cannot be read. If what it says cannot be understood, nothing is known of a change that
    /// may be in force, so this is an error, too.
    pub fn open(pagewise: Pagewise, folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let file = folder.join("change.json");
        let progress = match std::fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
                format!(
                    "{} is damaged. `pagewise undo` lists what is in force; then remove the file",
                    file.display()
                )
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| file.display().to_string()),
        };
        Ok(Self { pagewise, file, progress, readings: VecDeque::new() })
    }

    /// What was done so far.
    #[must_use]
    pub fn progress(&self) -> Option<&Progress> {
        self.progress.as_ref()
    }

    /// Adds a reading.
    pub fn add(&mut self, counters: Counters) {
        self.readings.retain(|it| it.boot_id == counters.boot_id && it.at < counters.at);
        if self.readings.len() == MOST_READINGS {
            self.readings.pop_front();
        }
        self.readings.push_back(counters);
    }

    /// Does one thing that is to be done. Returns whether there may be more.
    ///
    /// # Errors
    /// If the file cannot be written; nothing is changed on the machine then.
    pub async fn advance(&mut self, asked: &Asked) -> Result<bool> {
        match next(asked, self.progress.as_ref(), self.readings.make_contiguous()) {
            Task::Wait => return Ok(false),
            Task::Note(progress) => self.store(progress)?,
            Task::Apply(progress) => self.apply(asked, progress).await?,
            Task::Confirm(journal) => {
                let result = self.pagewise.confirm(&journal).await;
                let (phase, message) = match result {
                    Ok(()) => (ChangePhase::Kept, None),
                    Err(error) => (ChangePhase::Failed, Some(error.to_string())),
                };
                self.store(self.progress.clone().map(|it| it.with(phase, message)))?;
            }
            Task::Undo { journal, forget } => self.undo(&journal, forget).await?,
            Task::Look(journal) => return self.look(&journal).await,
        }
        Ok(true)
    }

    async fn apply(&mut self, asked: &Asked, progress: Progress) -> Result<()> {
        let Asked::Change(request) = asked else { return Ok(()) };
        // Stored before the command starts: whoever reads it later knows that something may be changed.
        self.store(Some(Progress { running: true, ..progress.clone() }))?;
        let result = self.pagewise.apply(request).await;
        let done = match result {
            Ok(Applied::Changed { journal }) => {
                let after_from = self.read().await;
                let trial = f64::from(request.trial_seconds);
                let ends = crate::seconds_since_boot() + trial + timer_takes(trial);
                let changed =
                    Progress { journal: Some(journal), trial_ends: Some(ends), ..progress };
                match after_from {
                    Some(from) => Progress {
                        after_from: Some(from),
                        ..changed.with(ChangePhase::MeasuringAfter, None)
                    },
                    None => changed.with(
                        ChangePhase::Failed,
                        "the node could not be read after the change; the timer on the node undoes it".to_owned(),
                    ),
                }
            }
            Ok(Applied::Refused(why)) => progress.with(ChangePhase::Refused, why),
            Err(error) => progress.with(ChangePhase::Failed, error.to_string()),
        };
        self.store(Some(done))
    }

    async fn read(&self) -> Option<Counters> {
        let text = self.pagewise.report(false).await.ok()?;
        Report::parse(&text).ok().map(|report| report.counters(crate::seconds_since_boot()))
    }

    async fn undo(&mut self, journal: &str, forget: bool) -> Result<()> {
        let done = match self.pagewise.undo(journal).await {
            Ok(()) if forget => None,
            Ok(()) => self.progress.clone().map(|it| it.with(ChangePhase::Undone, None)),
            Err(error) => {
                let failed = |it: Progress| it.with(ChangePhase::Failed, error.to_string());
                self.progress.clone().map(|it| Progress { undo_failed: true, ..failed(it) })
            }
        };
        self.store(done)
    }

    /// Checks that the timer has undone the change. Returns whether this was decided.
    async fn look(&mut self, journal: &str) -> Result<bool> {
        let (phase, message) = match self.pagewise.is_in_force(journal).await {
            Ok(false) => (
                ChangePhase::Undone,
                "the node was not asked in time to keep the change, so its timer has undone it"
                    .to_owned(),
            ),
            Ok(true) => (
                ChangePhase::Failed,
                format!(
                    "the timer has not undone the change; next: `pagewise undo {journal}` on the node"
                ),
            ),
            Err(error) => (ChangePhase::Failed, error.to_string()),
        };
        self.store(self.progress.clone().map(|it| it.with(phase, message)))?;
        Ok(true)
    }

    /// Stores what was done, so that it is on the disk when this returns.
    fn store(&mut self, progress: Option<Progress>) -> Result<()> {
        let name = || self.file.display().to_string();
        let folder = self.file.parent().context("a file has a folder")?;
        let new = tempfile::NamedTempFile::new_in(folder).with_context(name)?;
        serde_json::to_writer(&new, &progress)?;
        new.as_file().sync_all().with_context(name)?;
        new.persist(&self.file).with_context(name)?;
        std::fs::File::open(folder).and_then(|it| it.sync_all()).with_context(name)?;
        self.progress = progress;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn request(action: ChangeAction) -> ChangeRequest {
        ChangeRequest {
            profile: "p".to_owned(),
            revision: "r1".to_owned(),
            wave: 0,
            role: ChangeRole::Change,
            action,
            want: vec!["zram".to_owned(), "swappiness=100".to_owned()],
            window_seconds: 60,
            trial_seconds: 600,
            requested_at: Time("2026-11-28T20:00:00Z".parse().unwrap()),
        }
    }

    fn asked(action: ChangeAction) -> Asked {
        Asked::Change(Box::new(request(action)))
    }

    fn reading(at: f64, boot: &str) -> Counters {
        let text = format!(
            r#"{{"schema": "pagewise/report/1", "boot_id": {{"value": "{boot}"}}, "vmstat": {{"oom_kill": {{"value": 1}}}}}}"#
        );
        Report::parse(&text).unwrap().counters(at)
    }

    fn on_trial() -> Progress {
        Progress {
            phase: ChangePhase::Measured,
            journal: Some("7".to_owned()),
            trial_ends: Some(1000.0),
            ..Progress::new(&request(ChangeAction::Try), Some("b".to_owned()))
        }
    }

    fn decide(asked: &Asked, progress: Option<&Progress>, at: f64) -> Task {
        next(asked, progress, &[reading(at - 100.0, "b"), reading(at, "b")])
    }

    /// After a start, before the API has answered, nothing may be undone: the API may only be away.
    #[test]
    fn an_api_that_does_not_answer_changes_nothing() {
        assert_eq!(decide(&Asked::Unknown, Some(&on_trial()), 500.0), Task::Wait);
        assert_eq!(decide(&Asked::Unknown, None, 500.0), Task::Wait);
    }

    #[test]
    fn a_change_on_trial_is_undone_when_nobody_asks_for_it() {
        let undo = Task::Undo { journal: "7".to_owned(), forget: true };
        assert_eq!(decide(&Asked::Nothing, Some(&on_trial()), 500.0), undo);
        let kept = Progress { phase: ChangePhase::Kept, ..on_trial() };
        assert_eq!(
            decide(&Asked::Nothing, Some(&kept), 500.0),
            Task::Note(None),
            "it stays, as the profile said"
        );
        let other = Asked::Change(Box::new(ChangeRequest {
            revision: "r2".to_owned(),
            ..request(ChangeAction::Try)
        }));
        assert_eq!(
            decide(&other, Some(&kept), 500.0),
            undo,
            "one change must not lie below another"
        );
    }

    #[test]
    fn keep_and_undo_do_what_they_say() {
        let progress = on_trial();
        assert_eq!(decide(&asked(ChangeAction::Try), Some(&progress), 500.0), Task::Wait);
        assert_eq!(
            decide(&asked(ChangeAction::Keep), Some(&progress), 500.0),
            Task::Confirm("7".to_owned())
        );
        let undo = Task::Undo { journal: "7".to_owned(), forget: false };
        assert_eq!(decide(&asked(ChangeAction::Undo), Some(&progress), 500.0), undo);
        let failed = progress.clone().with(ChangePhase::Failed, None);
        assert_eq!(
            decide(&asked(ChangeAction::Undo), Some(&failed), 500.0),
            undo,
            "it may still be in force"
        );
        let twice = Progress { undo_failed: true, ..failed };
        assert_eq!(decide(&asked(ChangeAction::Undo), Some(&twice), 500.0), Task::Wait);
        let undone = progress.with(ChangePhase::Undone, None);
        assert_eq!(decide(&asked(ChangeAction::Undo), Some(&undone), 500.0), Task::Wait);
    }

    #[test]
    fn the_end_of_the_timer_is_looked_at_and_not_assumed() {
        assert_eq!(
            decide(&asked(ChangeAction::Try), Some(&on_trial()), 1001.0),
            Task::Look("7".to_owned())
        );
        assert_eq!(decide(&Asked::Unknown, Some(&on_trial()), 1001.0), Task::Look("7".to_owned()));
    }

    #[test]
    fn a_reboot_and_a_killed_program_are_noticed() {
        let rebooted =
            next(&asked(ChangeAction::Keep), Some(&on_trial()), &[reading(5.0, "other boot")]);
        let Task::Note(Some(progress)) = rebooted else { panic!("{rebooted:?}") };
        assert_eq!(progress.phase, ChangePhase::Undone);
        let running = Progress {
            running: true,
            ..Progress::new(&request(ChangeAction::Try), Some("b".to_owned()))
        };
        let Task::Note(Some(progress)) = decide(&asked(ChangeAction::Try), Some(&running), 500.0)
        else {
            panic!()
        };
        assert_eq!(progress.phase, ChangePhase::Failed);
        assert!(progress.message.unwrap().contains("pagewise undo"));
    }

    #[test]
    fn the_node_is_measured_for_a_whole_window_before_it_is_changed() {
        let fresh = Progress::new(&request(ChangeAction::Try), Some("b".to_owned()));
        let short =
            next(&asked(ChangeAction::Try), Some(&fresh), &[reading(1.0, "b"), reading(60.0, "b")]);
        assert_eq!(short, Task::Wait);
        let long = next(
            &asked(ChangeAction::Try),
            Some(&fresh),
            &[reading(1.0, "b"), reading(50.0, "b"), reading(111.0, "b")],
        );
        let Task::Apply(progress) = long else { panic!("{long:?}") };
        assert_eq!(progress.before.unwrap().seconds, 61.0, "the shortest time that is long enough");
    }

    #[test]
    fn a_lost_record_is_a_failure_and_not_a_success() {
        for action in [ChangeAction::Keep, ChangeAction::Undo] {
            let Task::Note(Some(progress)) = decide(&asked(action), None, 500.0) else { panic!() };
            assert_eq!(progress.phase, ChangePhase::Failed);
        }
    }

    /// Each value is one argument, and a value cannot become an option.
    #[test]
    fn the_command_line_is_what_a_person_would_type() {
        use crate::pagewise::{apply_arguments, confirm_arguments, undo_arguments};
        assert_eq!(
            apply_arguments(&request(ChangeAction::Try)).join(" "),
            "apply --json --yes --trial-for 600s --want=zram --want=swappiness=100"
        );
        assert_eq!(confirm_arguments("7").join(" "), "apply --json --confirm=7");
        assert_eq!(undo_arguments("7").join(" "), "undo --json -- 7");
    }
}
