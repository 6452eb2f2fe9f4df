// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The changes that the rules request, before they become a [`Plan`](pagewise_model::plan::Plan):
//! steps, values to be kept in a file, and declined changes.

use std::borrow::Cow;

use pagewise_model::knob::{Knob, KnobReading};
use pagewise_model::plan::{Change, Declined, Expected, Step, StepUndo};
use pagewise_model::{Name, Outcome, arm};

use crate::context::Context;

/// A value that a rule requests for a setting, now and after each boot.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    /// The step's id.
    pub(crate) id: Cow<'static, str>,
    /// The setting's name in the knob table; if it has several instances, with the instance in
    /// brackets, as `thp.size.enabled[64kB]`.
    pub(crate) knob: Cow<'static, str>,
    /// The value, as the kernel accepts it.
    pub(crate) to: String,
    pub(crate) reason: String,
    pub(crate) finding: Option<&'static str>,
    pub(crate) expected: Option<Expected>,
    pub(crate) risk: String,
}

/// A [`Wish`] that is possible on this host.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    pub(crate) wish: Wish,
    pub(crate) knob: &'static Knob,
    /// The setting's file, without the leading slash.
    pub(crate) path: String,
    /// Whether a step changes the running value; without one it is right already.
    pub(crate) has_step: bool,
}

/// The changes requested so far.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) steps: Vec<Step>,
    /// Swap areas to be switched off, after all other steps.
    pub(crate) drains: Vec<Step>,
    pub(crate) granted: Vec<Granted>,
    pub(crate) declined: Vec<Declined>,
    /// Changes that a reboot resets, and the reason why no file keeps them.
    lost: Vec<(String, String)>,
    /// The algorithm of the first compressed swap of the host, if a step of the plan creates it.
    pub(crate) first_zram: Option<Name>,
}

impl Draft {
    pub(crate) fn decline(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.declined.push(Declined { what: what.into(), why: why.into() });
    }

    /// The algorithm of the host's compressed swap after the plan; `None` if there is none.
    pub(crate) fn algorithm(&self, context: &Context<'_>) -> Option<Name> {
        let mut devices = context.tiers_in_ram().filter_map(|tier| context.device(tier));
        let in_use = devices.find_map(|device| Some(device.algorithm.value()?.active.clone()));
        in_use.or_else(|| self.first_zram.clone())
    }

    /// Notes that a reboot resets a change, and why no file keeps it.
    pub(crate) fn lose(&mut self, what: &str, why: String) {
        self.lost.push((what.to_owned(), why));
    }

    /// Declines to keep the changes that a reboot resets; those with the same reason together.
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

    /// Adds a step that sets the running value, unless it is right already. A value that an earlier
    /// rule has set is kept.
    pub(crate) fn set(&mut self, context: &Context<'_>, wish: Wish) {
        if self.granted.iter().any(|it| it.wish.knob == wish.knob) {
            return;
        }
        let what = format!("{} = {}", wish.knob, wish.to);
        let Some(reading) = reading_of(context, &wish.knob) else {
            return self.decline(what, "this setting was not read");
        };
        let Some(from) = reading.active() else {
            let why = match &reading.live.outcome {
                Outcome::Denied(help) => format!("its present value is not known: {help}"),
                _ => "this kernel does not have the setting".to_owned(),
            };
            return self.decline(what, why);
        };
        if let Some(owner) = context.owners().overruler(&wish.knob, &wish.to) {
            let why = format!(
                "TuneD sets it at boot ({owner}) and does not apply the files of sysctl.d afterwards \
                 (reapply_sysctl is off). Set the value in your own TuneD profile"
            );
            return self.decline(what, why);
        }
        let has_step = from != wish.to;
        if has_step {
            self.steps.push(running(&wish, reading, from));
        }
        let path = reading.live.source.path().trim_start_matches('/').to_owned();
        self.granted.push(Granted { knob: reading.knob, path, wish, has_step });
    }
}

fn reading_of<'a>(context: &Context<'a>, name: &str) -> Option<&'a KnobReading> {
    let (bare, which) = arm::instance(name);
    let is_it =
        |it: &&KnobReading| it.knob.name == bare && it.instance.as_ref().map(Name::as_str) == which;
    context.host.knobs.iter().find(is_it)
}

/// The step that writes the running value.
fn running(wish: &Wish, reading: &KnobReading, from: &str) -> Step {
    Step {
        id: wish.id.clone().into_owned(),
        change: Change::SetKnob {
            target: wish.knob.clone().into_owned(),
            from: from.to_owned(),
            to: wish.to.clone(),
        },
        reason: wish.reason.clone(),
        finding: wish.finding.map(str::to_owned),
        expected: wish.expected.clone(),
        risk: wish.risk.clone(),
        cost: None,
        coupled: reading.knob.couples.iter().map(|&name| name.to_owned()).collect(),
        needs: Vec::new(),
        undo: StepUndo::Restore { what: format!("writes {from} back") },
        survives_reboot: false,
    }
}
