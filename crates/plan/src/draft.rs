// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The changes that rules requested so far, from which the [`Plan`](pagewise_model::plan::Plan) is
//! made: steps, values to keep in a configuration file, and declined changes.

use std::borrow::Cow;

use pagewise_model::knob::KnobReading;
use pagewise_model::plan::{Change, Declined, Expected, Step, StepUndo, SwapFilePlan, ZramSwap};
use pagewise_model::{Name, Outcome};

use crate::context::Context;

/// A value that a rule requests for a setting, now and after each boot.
///
/// A rule makes this request and not the step itself, because it does not know whether the host has
/// the setting, what its current value is, and which file sets it at boot.
#[derive(Debug, Clone)]
pub(crate) struct SettingRequest {
    /// The id of the step that sets the value.
    pub(crate) id: Cow<'static, str>,
    /// The setting's name in the table of settings; if it has several instances, with the instance
    /// in brackets, as in `thp.size.enabled[64kB]`.
    pub(crate) knob: Cow<'static, str>,
    /// The value to set, as the kernel accepts it.
    pub(crate) to: String,
    pub(crate) reason: String,
    pub(crate) finding: Option<&'static str>,
    pub(crate) expected: Option<Expected>,
    pub(crate) risk: String,
}

/// The swap that the start script of a plan sets up, on a host without systemd.
#[derive(Debug, Default)]
pub(crate) struct StartedSwap {
    pub(crate) zram: Option<ZramSwap>,
    pub(crate) file: Option<SwapFilePlan>,
}

/// The changes to the host requested so far.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) steps: Vec<Step>,
    /// Steps that switch swap areas off; they come after all other steps.
    pub(crate) drains: Vec<Step>,
    /// Accepted requests: the host has these settings, and a configuration file must keep their
    /// values.
    pub(crate) granted: Vec<SettingRequest>,
    pub(crate) declined: Vec<Declined>,
    /// Whether the current rule has no finding to fix. The changes that it declines are then
    /// printed only on request.
    pub(crate) is_aside: bool,
    /// Changes that a reboot reverts, each with the reason why no file keeps it.
    lost: Vec<(String, String)>,
    /// The swap that the start script sets up, on a host without systemd.
    pub(crate) started: StartedSwap,
    /// The compression algorithm of the host's first swap in compressed RAM, if a step of the plan
    /// creates it.
    pub(crate) first_zram: Option<Name>,
}

impl Draft {
    pub(crate) fn decline(&mut self, what: impl Into<String>, why: impl Into<String>) {
        let is_about_finding = !self.is_aside;
        self.declined.push(Declined { what: what.into(), why: why.into(), is_about_finding });
    }

    /// Declines a change that is printed even if no finding is about it.
    pub(crate) fn decline_openly(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.decline(what, why);
        self.declined.last_mut().into_iter().for_each(|last| last.is_about_finding = true);
    }

    /// Returns the algorithm of the host's compressed swap after the plan; `None` if there will be
    /// none.
    pub(crate) fn algorithm(&self, context: &Context<'_>) -> Option<Name> {
        let mut devices = context.tiers_in_ram().filter_map(|tier| context.device(tier));
        let in_use = devices.find_map(|device| Some(device.algorithm.value()?.active.clone()));
        in_use.or_else(|| self.first_zram.clone())
    }

    /// Whether a step adds a swap file.
    pub(crate) fn adds_swap_file(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.change, Change::AddSwapFile { .. }))
    }

    /// Records that a reboot reverts a change, and why no file keeps it.
    pub(crate) fn note_lost(&mut self, what: &str, why: String) {
        self.lost.push((what.to_owned(), why));
    }

    /// Declines to keep the changes that a reboot reverts; changes with the same reason are
    /// combined.
    pub(crate) fn decline_lost(&mut self) {
        let mut lost = std::mem::take(&mut self.lost);
        while let Some((_, why)) = lost.first().cloned() {
            let (same, others): (Vec<_>, Vec<_>) =
                lost.into_iter().partition(|(_, other)| *other == why);
            let what: Vec<String> = same.into_iter().map(|(what, _)| what).collect();
            self.decline(format!("keep {} over a reboot", what.join(", ")), why);
            lost = others;
        }
    }

    /// Adds a step that sets the running value, unless the value is in force already. If an earlier
    /// rule has set a value, that one is kept.
    pub(crate) fn set(&mut self, context: &Context<'_>, request: SettingRequest) {
        if self.granted.iter().any(|it| it.knob == request.knob) {
            return;
        }
        let what = format!("{} = {}", request.knob, request.to);
        let Some(reading) = context.knob_reading(&request.knob) else {
            return self.decline(what, "this setting was not read");
        };
        let Some(from) = reading.active_word() else {
            let why = match &reading.live.outcome {
                Outcome::Denied(help) => format!("its present value is not known: {help}"),
                _ => "this kernel does not have the setting".to_owned(),
            };
            return self.decline(what, why);
        };
        if let Some(owner) = context.owners().find_overriding_line(&request.knob, &request.to) {
            let why = format!(
                "TuneD sets it at boot ({owner}) and does not apply the files of sysctl.d afterwards \
                 (reapply_sysctl is off). Set the value in your own TuneD profile"
            );
            return self.decline(what, why);
        }
        if from != request.to {
            self.steps.push(request.step(reading, from));
        }
        self.granted.push(request);
    }
}

/// Creates a step that makes a change last over a reboot, which has no measured gain. The caller
/// adds the change itself, its reason and its risk.
pub(crate) fn boot_step(id: &str, undo: &str) -> Step {
    Step {
        id: id.to_owned(),
        change: Change::ReloadUnits { target: String::new() },
        reason: String::new(),
        finding: None,
        expected: None,
        risk: "none known".to_owned(),
        cost: None,
        coupled: Vec::new(),
        needs: Vec::new(),
        undo: StepUndo::Restore { what: undo.to_owned() },
        survives_reboot: true,
    }
}

impl SettingRequest {
    /// Creates the step that writes the running value of the setting.
    fn step(&self, reading: &KnobReading, from: &str) -> Step {
        Step {
            id: self.id.clone().into_owned(),
            change: Change::SetKnob {
                target: self.knob.clone().into_owned(),
                from: from.to_owned(),
                to: self.to.clone(),
            },
            reason: self.reason.clone(),
            finding: self.finding.map(str::to_owned),
            expected: self.expected.clone(),
            risk: self.risk.clone(),
            cost: None,
            coupled: reading.knob.couples.iter().map(|&name| name.to_owned()).collect(),
            needs: Vec::new(),
            undo: StepUndo::Restore { what: format!("writes {from} back") },
            survives_reboot: false,
        }
    }
}
