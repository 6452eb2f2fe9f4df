// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a live view from one reading to the next, and the loop that draws the view.

use std::time::Instant;

use pagewise_model::{HostVerdict, Interval, LiveChoice, LiveSample, LiveSubject, Snapshot};
use pagewise_report::live::{
    LiveFrame, LiveReplay, LiveView, LiveWindow, shown_subjects, visible_rows,
};
use pagewise_report::text;
use pagewise_terminal::live::{self, Key, LiveEvent, LiveScreen};
use pagewise_terminal::{Global, Outcome, exit, screen};

use super::keys::KeyEffect;

/// Number of intervals whose pressure is kept.
pub(super) const HISTORY: usize = 300;

/// Where the frames of a live view come from: the machine, or a recording.
pub(super) trait Source {
    fn frame(&self) -> LiveFrame<'_>;
    fn press(&mut self, key: Key) -> KeyEffect;
    /// When [`Self::update`] is due if no key is pressed.
    fn deadline(&self) -> Instant;
    /// Called when the deadline has come; the window has room for `rows` rows.
    fn update(&mut self, rows: usize);
}

/// Draws frames until the user quits.
pub(super) fn show(
    source: &mut dyn Source,
    global: &Global,
    mut screen: LiveScreen,
) -> anyhow::Result<Outcome> {
    screen.enter()?;
    let colour = screen::text_style(global).colour;
    let unicode = live::has_utf8();
    loop {
        let size = screen.size();
        let (width, height) = (size.0.into(), size.1.into());
        let window = LiveWindow { width, height, colour, unicode };
        let (lines, rows) = text::live_with_rows(&source.frame(), window);
        screen.draw(size, &lines)?;
        match screen.wait(source.deadline())? {
            LiveEvent::Timeout => source.update(rows),
            LiveEvent::Keys(keys) => {
                if keys.into_iter().any(|key| source.press(key) == KeyEffect::Quit) {
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

/// The last two readings, and the history for the pressure chart.
pub(super) struct Shown {
    pub(super) interval: Interval,
    pub(super) sample: LiveSample,
    verdict: HostVerdict,
    /// Length in seconds and pressure in percent of each interval, the oldest first.
    pub(super) seconds: Vec<f64>,
    pub(super) pressure: Vec<f64>,
    pub(super) kills_before: Option<u64>,
    pub(super) view: LiveView,
}

impl Shown {
    pub(super) fn new((end, sample): (Snapshot, LiveSample)) -> Self {
        let kills_before = end.vmstat.get("oom_kill").get();
        let interval = Interval::single(end);
        let verdict = pagewise_decide::judge(&interval);
        let (seconds, pressure, view) = (Vec::new(), Vec::new(), LiveView::default());
        Self { interval, sample, verdict, seconds, pressure, kills_before, view }
    }

    /// Starts again with this reading: as there is no reading before it, nothing has a rate.
    pub(super) fn restart(&mut self, (end, sample): (Snapshot, LiveSample)) {
        self.interval = Interval::single(end);
        self.sample = sample;
        self.verdict = pagewise_decide::judge(&self.interval);
    }

    /// Adds the next reading, and judges the interval from the previous one.
    pub(super) fn add_reading(&mut self, (end, sample): (Snapshot, LiveSample)) {
        self.sample = sample;
        let before = std::mem::replace(&mut self.interval.end, end);
        self.interval.start = Some(Box::new(before));
        self.verdict = pagewise_decide::judge(&self.interval);
    }

    /// Replaces the verdict by that of this interval, which has more than the live view reads.
    pub(super) fn judge(&mut self, interval: &Interval) {
        self.verdict = pagewise_decide::judge(interval);
    }

    pub(super) fn frame<'a>(&'a self, replay: Option<&'a LiveReplay>) -> LiveFrame<'a> {
        let kills = self.interval.end.vmstat.get("oom_kill").get();
        LiveFrame {
            interval: &self.interval,
            verdict: &self.verdict,
            sample: &self.sample,
            pressure: &self.pressure,
            pressure_seconds: self.seconds.iter().sum(),
            kills: kills.zip(self.kills_before).and_then(|(now, before)| now.checked_sub(before)),
            view: &self.view,
            replay,
        }
    }

    /// The rows that are on the screen.
    pub(super) fn rows(&self) -> Vec<LiveSubject> {
        shown_subjects(&self.sample, &self.view)
    }

    /// What to read next. Processes whose rows fit on the screen are read in full.
    pub(super) fn choice(&self, rows: usize) -> LiveChoice {
        let all = self.rows();
        let selected = all.iter().position(|row| Some(row) == self.view.selected.as_ref());
        let pid = |subject: &LiveSubject| match subject {
            LiveSubject::Process(pid) => Some(*pid),
            LiveSubject::Group(_) => None,
        };
        LiveChoice {
            groups: self.view.groups,
            shown: visible_rows(&all, selected, rows).iter().filter_map(pid).collect(),
            open: self.view.open.clone(),
        }
    }

    /// The parts of the view's state that affect what is read.
    pub(super) fn parts_that_affect_reading(&self) -> (bool, Option<LiveSubject>) {
        (self.view.groups, self.view.open.clone())
    }
}
