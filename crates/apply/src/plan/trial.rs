// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans that are undone automatically unless somebody confirms them: for changes that may cut the
//! connection over which they were made.
//!
//! Two things undo such a plan, and both are set up before its first step: a systemd timer while
//! the machine runs, and a unit that runs at the next boot, because a timer does not survive a
//! reboot. Both start `pagewise undo --unconfirmed`, which finds in the journal that nobody has
//! confirmed the plan.

use std::time::Duration;

use crate::error::{Doing, Error};
use crate::host_ops::{HostChange, HostOps};
use crate::journal::{
    FileChange, Journal, JournalName, LinkChange, Reading, Record, RecordedChange,
    TRIAL_LINK as LINK, TRIAL_UNIT as UNIT,
};
use crate::loan::config;
use crate::loan::run::Run;
use crate::plan::undo::{PlanJournal, UndoTarget, read_journals, undo};
use crate::recover::{Conflicts, boot_id, recover_one, undo_and_record};
use crate::transaction::Transaction;
use pagewise_model::undo::Recovered;

const LINKED: &str = "../pagewise-unconfirmed.service";

/// Text of the systemd unit that runs at each boot until the plan is confirmed: before the plan's
/// files are applied, and before swap is enabled.
fn unit_text(program: &str, state: &str) -> String {
    format!(
        "\
# Written by pagewise apply --trial-for; removed when the plan is confirmed or undone.
[Unit]
Description=Undo plans of pagewise that were applied on trial and not confirmed
DefaultDependencies=no
RequiresMountsFor={state} {program}
After=systemd-remount-fs.service
Before=swap.target systemd-sysctl.service systemd-tmpfiles-setup.service sysinit.target
Before=pagewise-zram.service systemd-zram-setup@zram0.service systemd-zram-setup@zram1.service
Before=var-pagewise\\x2dswap\\x2d0.swap
Conflicts=shutdown.target

[Service]
Type=oneshot
Environment=PAGEWISE_STATE={state}
ExecStart={program} undo --unconfirmed
"
    )
}

/// Sets up the timer and the unit that undo a plan unless it is confirmed. They are removed when
/// the plan is undone, or when it is confirmed.
pub(crate) fn set_up_undo_timer(
    changes: &mut Transaction,
    state: &str,
    time: Duration,
) -> Result<(), Error> {
    let program = changes.host().program().doing(|| "the path of this program".to_owned())?;
    for path in [&program, state] {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
        if !path.bytes().all(is_plain) {
            let why = "a unit of systemd needs a path of letters, digits, and / - _ .".to_owned();
            return Err(Error::Uncertain { what: (*path).to_owned(), why });
        }
    }
    let until = changes.host().now() / 1000 + time.as_secs();
    let until_since_boot = Some(changes.host().since_boot() / 1000 + time.as_secs());
    changes.add_record(&Record::Trial { until, until_since_boot })?;
    let journal = changes.journal_path().and_then(|path| path.rsplit('/').next());
    let journal = journal.unwrap_or_default().to_owned();
    let text = unit_text(&program, state);
    let unit = FileChange { path: UNIT.to_owned(), old: None, ours: text };
    changes.make_folders(UNIT)?;
    changes.make(RecordedChange::File(unit.clone()), |host| config::set_file(host, &unit))?;
    let link = LinkChange { path: LINK.to_owned(), old: None, ours: LINKED.to_owned() };
    changes.make_folders(LINK)?;
    changes.make(RecordedChange::Link(link.clone()), |host| config::set_link(host, &link))?;
    let seconds = time.as_secs();
    changes.make(RecordedChange::Timer, |host| {
        host.make_change(&HostChange::Arm { seconds, program: &program, state, journal: &journal })
            .doing(|| "systemd-run --on-active".to_owned())
    })?;
    Ok(())
}

/// Refuses to go on if a plan is on trial.
pub(crate) fn refuse_if_on_trial(journals: &[PlanJournal]) -> Result<(), Error> {
    match journals.iter().find(|it| it.reading.trial_end().is_some()) {
        None => Ok(()),
        Some(it) => Err(Error::OnTrial { id: it.id(), plan: it.plan() }),
    }
}

/// Undoes the plans whose trial is over, and those on trial since an earlier boot.
pub(crate) fn undo_unconfirmed(
    host: &mut dyn HostOps,
    folder: &str,
    journal: Option<&str>,
) -> Result<Vec<Recovered>, Error> {
    let boot_id = boot_id(host)?;
    let (now, since_boot) = (host.now() / 1000, host.since_boot() / 1000);
    let is_over = |it: &PlanJournal| {
        let Some(until) = it.reading.trial_end() else { return false };
        let is_earlier = it.reading.run().is_none_or(|run| run.boot_id != boot_id);
        // a timer may expire a fraction of a second early
        is_earlier
            || match it.reading.trial_end_since_boot() {
                Some(until) => since_boot + 1 >= until,
                None => now + 1 >= until,
            }
    };
    let is_meant =
        |it: &PlanJournal| journal.is_none_or(|id| JournalName::parse(&it.path).is_meant_by(id));
    undo_trials(host, folder, &|it| is_meant(it) && is_over(it))
}

/// Undoes the chosen plans, newest first, except one that a damaged line may have confirmed.
fn undo_trials(
    host: &mut dyn HostOps,
    folder: &str,
    is_chosen: &dyn Fn(&PlanJournal) -> bool,
) -> Result<Vec<Recovered>, Error> {
    let boot_id = boot_id(host)?;
    let journals = read_journals(host, folder)?;
    let undone = journals.iter().rev().filter(|it| is_chosen(it)).map(|it| {
        if it.reading.may_be_confirmed() {
            return it.report_kept("that the plan was confirmed");
        }
        recover_one(host, &it.path, Conflicts::Keep, &boot_id).0
    });
    Ok(undone.collect())
}

/// Undoes plans on trial whose time is over, although their timer did not, and plans whose run was
/// interrupted.
pub(crate) fn undo_overdue(host: &mut dyn HostOps, folder: &str) -> Result<Vec<Recovered>, Error> {
    let undone = undo_unconfirmed(host, folder, None)?;
    add_interrupted(undone, host, folder)
}

/// Undoes every plan on trial, and plans whose run was interrupted.
pub(crate) fn undo_before_removal(
    host: &mut dyn HostOps,
    folder: &str,
) -> Result<Vec<Recovered>, Error> {
    let undone = undo_trials(host, folder, &|it| it.reading.trial_end().is_some())?;
    add_interrupted(undone, host, folder)
}

/// Undoes the interrupted plans too, and adds the results to those of the plans that were undone
/// already.
fn add_interrupted(
    mut undone: Vec<Recovered>,
    host: &mut dyn HostOps,
    folder: &str,
) -> Result<Vec<Recovered>, Error> {
    let interrupted = undo(host, folder, UndoTarget::Interrupted)?;
    let is_new = |it: &Recovered| undone.iter().all(|known| known.journal != it.journal);
    let new: Vec<Recovered> = interrupted.into_iter().filter(is_new).collect();
    undone.extend(new);
    Ok(undone)
}

/// Confirms a plan that is on trial. When this returns, nothing undoes it automatically any more.
pub(crate) fn confirm(host: &mut dyn HostOps, folder: &str, id: &str) -> Result<(), Error> {
    let journals = read_journals(host, folder)?;
    let on_trial = |it: &&PlanJournal| it.reading.trial_end().is_some();
    let meant = journals.iter().filter(on_trial).find(|it| it.is_meant_by(id));
    let Some(it) = meant else {
        let known = journals.iter().filter(on_trial).map(PlanJournal::id).collect();
        return Err(Error::NotOnTrial { id: id.to_owned(), known });
    };
    if !it.reading.is_applied() {
        return Err(Error::Interrupted { id: it.id(), plan: it.plan() });
    }
    let written = host.journal(&it.path).map(|bytes| bytes.len() as u64).unwrap_or_default();
    let mut journal = Journal::resume(host, &it.path, written, &it.reading);
    journal.add(host, &Record::Confirmed)?;
    // from here on the plan is kept; what remains of the trial has no effect, and is removed with
    // the plan
    for (_, open) in
        it.reading.open_changes_by_step().iter().rev().filter(|(step, _)| step.is_empty())
    {
        undo_and_record(host, &mut journal, open, Run::OWN_PLAN)?;
    }
    Ok(())
}

impl Reading {
    /// End of the trial in seconds since the boot in which it began; `None` if the journal, of
    /// version 0.1, has only the time that can be set.
    fn trial_end_since_boot(&self) -> Option<u64> {
        self.records.iter().find_map(|record| match record {
            Record::Trial { until_since_boot, .. } => *until_since_boot,
            _ => None,
        })
    }

    /// End of the trial, in seconds of Unix time; `None` if the plan is not on trial or was
    /// confirmed.
    pub(crate) fn trial_end(&self) -> Option<u64> {
        let is_confirmed = self.records.contains(&Record::Confirmed);
        let trial = self.records.iter().find_map(|record| match record {
            Record::Trial { until, .. } => Some(*until),
            _ => None,
        });
        trial.filter(|_| !is_confirmed)
    }
}
