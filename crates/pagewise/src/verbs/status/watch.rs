// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise status --watch`: reads the machine again and again, and shows it until the user quits.

use std::time::{Duration, Instant};

use anyhow::Context;
use pagewise_confine::Confinement;
use pagewise_model::{HostVerdict, Interval, LiveChoice, LiveSample, LiveSubject, Refusal};
use pagewise_observe::{HostRoot, LiveReader};
use pagewise_report::live::{LiveFrame, LiveView, LiveWindow, shown_subjects};
use pagewise_report::text;
use pagewise_terminal::live::{self, LiveEvent, LiveScreen};
use pagewise_terminal::{Global, Outcome, exit, screen};

use super::keys::{KeyEffect, press};
use crate::advisers;

/// Pressure of so many intervals is kept.
const HISTORY: usize = 300;
/// Rows that are read in full; no terminal shows more without a change of the order.
const ROWS: usize = 60;

pub(super) fn run(global: &Global, every: Duration) -> anyhow::Result<Outcome> {
    if let Some(refusal) = refusal(global) {
        advisers::tell(&refusal.into());
        return Ok(Outcome::Status(exit::USAGE));
    }
    let host = HostRoot::live().context("/")?;
    Confinement::for_facts().enter();
    let mut watch = Watch::new(LiveReader::new(host));
    let screen = LiveScreen::enter()?;
    watch.show(global, screen, every)
}

/// Why there is nothing to watch, or nothing to watch it on.
fn refusal(global: &Global) -> Option<Refusal> {
    let (why, next) = if global.json {
        ("--json prints one document, and a live view never ends", "pagewise status --json")
    } else if global.root.is_some() {
        ("a recording is of one moment, and does not change", "pagewise status --root FILE")
    } else {
        (live::obstacle()?, "pagewise status (prints the overview once)")
    };
    Some(Refusal { next: Some(next.to_owned()), ..Refusal::new("status --watch", why) })
}

/// The live view.
struct Watch {
    reader: LiveReader,
    interval: Interval,
    sample: LiveSample,
    verdict: HostVerdict,
    /// Length in seconds and pressure in percent of each interval, the oldest first.
    seconds: Vec<f64>,
    pressure: Vec<f64>,
    kills_before: Option<u64>,
    view: LiveView,
}

impl Watch {
    fn new(mut reader: LiveReader) -> Self {
        let (end, sample) = reader.read(&LiveChoice::default());
        let kills_before = end.vmstat.get("oom_kill").get();
        let interval = Interval::single(end);
        let verdict = pagewise_decide::judge(&interval);
        let (seconds, pressure, view) = (Vec::new(), Vec::new(), LiveView::default());
        Self { reader, interval, sample, verdict, seconds, pressure, kills_before, view }
    }

    fn show(
        &mut self,
        global: &Global,
        mut screen: LiveScreen,
        every: Duration,
    ) -> anyhow::Result<Outcome> {
        let colour = screen::text_style(global).colour;
        let unicode = live::has_utf8();
        let mut deadline = Instant::now() + every;
        loop {
            let (width, height) = screen.size();
            let window = LiveWindow { width, height, colour, unicode };
            screen.draw(&text::live(&self.frame(), window))?;
            match screen.wait(deadline)? {
                LiveEvent::Timeout => {
                    self.update();
                    deadline = (deadline + every).max(Instant::now() + every / 2);
                }
                LiveEvent::Keys(keys) => {
                    if keys.into_iter().any(|key| self.press(key) == KeyEffect::Quit) {
                        return Ok(Outcome::Done);
                    }
                }
                LiveEvent::Redraw => {}
                LiveEvent::End(signal) if signal == live::CTRL_C => {
                    return Ok(Outcome::Status(exit::STOPPED));
                }
                LiveEvent::End(signal) => live::end_by(signal)?,
            }
        }
    }

    fn frame(&self) -> LiveFrame<'_> {
        let kills = self.interval.end.vmstat.get("oom_kill").get();
        LiveFrame {
            interval: &self.interval,
            verdict: &self.verdict,
            sample: &self.sample,
            pressure: &self.pressure,
            pressure_seconds: self.seconds.iter().sum(),
            kills: kills.zip(self.kills_before).and_then(|(now, before)| now.checked_sub(before)),
            view: &self.view,
        }
    }

    /// Takes a key. What it opens is read at once, also if the view is frozen.
    fn press(&mut self, key: live::Key) -> KeyEffect {
        let before = (self.view.groups, self.view.open.clone());
        let rows = shown_subjects(&self.sample, &self.view);
        let effect = press(&mut self.view, key, &rows);
        if before != (self.view.groups, self.view.open.clone()) {
            let (_, sample) = self.reader.read(&self.choice());
            let kswapd_percent = self.sample.kswapd_percent;
            self.sample = LiveSample { kswapd_percent, ..sample };
        }
        effect
    }

    /// Reads everything, unless the view is frozen.
    fn update(&mut self) {
        if self.view.is_frozen {
            return;
        }
        let (end, sample) = self.reader.read(&self.choice());
        self.sample = sample;
        let before = std::mem::replace(&mut self.interval.end, end);
        self.interval.start = Some(Box::new(before));
        self.verdict = pagewise_decide::judge(&self.interval);
        let stalled = self.interval.change(|host| host.psi.memory.some.total_us.clone());
        if let Some(change) = stalled {
            self.seconds.push(change.seconds);
            self.pressure.push((change.per_second / 1e4).min(100.0));
        }
        let old = self.pressure.len().saturating_sub(HISTORY);
        self.seconds.drain(..old);
        self.pressure.drain(..old);
    }

    fn choice(&self) -> LiveChoice {
        let rows = shown_subjects(&self.sample, &self.view).into_iter().take(ROWS);
        let pid = |subject| match subject {
            LiveSubject::Process(pid) => Some(pid),
            LiveSubject::Group(_) => None,
        };
        LiveChoice {
            groups: self.view.groups,
            shown: rows.filter_map(pid).collect(),
            open: self.view.open.clone(),
        }
    }
}
