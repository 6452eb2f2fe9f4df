// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise status --watch --root FILE`: a recording in the live view.
//!
//! A step is shown as the live view would have shown it: rates are those since the step before, growth is that of the
//! last six. So a jump reads some steps before the one that it leads to, and a step looks the same whichever way it
//! was reached.

use std::path::Path;
use std::time::{Duration, Instant};

use pagewise_confine::Confinement;
use pagewise_observe::{LiveReader, Replay, open_replay, psi};
use pagewise_report::live::{LiveFrame, LiveReplay};
use pagewise_terminal::live::{Key, LiveScreen};
use pagewise_terminal::{Global, Outcome};

use super::keys::{KeyEffect, press};
use super::playback::Playback;
use super::shown::{HISTORY, Shown, Source, show};

/// Readings before a step from which its numbers are made.
const BEFORE: usize = 5;
/// A step that is later than this is late because the program was stopped.
const LATE: Duration = Duration::from_secs(1);
/// A paused view waits for keys.
const PAUSED: Duration = Duration::from_secs(3600);

pub(super) fn run(global: &Global, path: &Path, screen: LiveScreen) -> anyhow::Result<Outcome> {
    let confine = |is_folder| _ = Confinement::for_recording_on_terminal(is_folder).enter();
    let replay = open_replay(path, confine)?;
    show(&mut Recorded::new(replay), global, screen)
}

/// A recording.
struct Recorded {
    replay: Replay,
    reader: LiveReader,
    playback: Playback,
    /// Microseconds of pressure at each reading that was passed so far.
    stalled: Vec<Option<u64>>,
    shown: Shown,
    position: LiveReplay,
    /// When time was counted last.
    counted: Instant,
}

impl Recorded {
    fn new(replay: Replay) -> Self {
        let mut reader = LiveReader::new(replay.host());
        let shown = Shown::new(reader.read(replay.host(), &Default::default()));
        let times = replay.times().iter().map(|at| (at.unix_seconds, at.monotonic_seconds));
        let playback = Playback::new(times);
        let stalled = vec![stalled(&replay)];
        let (position, counted) = (LiveReplay::default(), Instant::now());
        let mut recorded = Self { replay, reader, playback, stalled, shown, position, counted };
        recorded.read_anew();
        recorded
    }

    /// Reads the step of the playback.
    fn follow(&mut self) {
        let (at, to) = (self.replay.at(), self.playback.step());
        if !(at..=at + BEFORE).contains(&to) {
            return self.read_anew();
        }
        self.read_on(to);
    }

    /// Reads the step of the playback and those before it from which its numbers are made.
    fn read_anew(&mut self) {
        let to = self.playback.step();
        self.go_to(to.saturating_sub(BEFORE));
        self.reader = LiveReader::new(self.replay.host());
        let choice = self.shown.choice(0);
        match self.replay.earlier() {
            Some(earlier) => {
                self.shown.begin(self.reader.read(earlier, &choice));
                self.shown.take(self.reader.read(self.replay.host(), &choice));
            }
            None => self.shown.begin(self.reader.read(self.replay.host(), &choice)),
        }
        self.read_on(to);
    }

    fn read_on(&mut self, to: usize) {
        let choice = self.shown.choice(0);
        while self.replay.at() < to {
            self.go_to(self.replay.at() + 1);
            self.shown.take(self.reader.read(self.replay.host(), &choice));
        }
        self.show_pressure();
        self.show_position();
    }

    /// Goes to a reading without looking at it.
    fn go_to(&mut self, to: usize) {
        while self.replay.at() > to && self.replay.backward() {}
        while self.replay.at() < to && self.replay.forward() {
            if self.replay.at() == self.stalled.len() {
                self.stalled.push(stalled(&self.replay));
            }
        }
    }

    /// The pressure of the intervals up to this reading.
    fn show_pressure(&mut self) {
        let (at, times) = (self.replay.at(), self.replay.times());
        let (seconds, pressure) = (at.saturating_sub(HISTORY) + 1..=at)
            .filter_map(|step| {
                let [before, now] =
                    [step - 1, step].map(|step| self.stalled.get(step).copied().flatten());
                let seconds = times[step].monotonic_seconds - times[step - 1].monotonic_seconds;
                let stalled = now?.checked_sub(before?)? as f64;
                (seconds > 0.0).then(|| (seconds, (stalled / seconds / 1e4).min(100.0)))
            })
            .unzip();
        (self.shown.seconds, self.shown.pressure) = (seconds, pressure);
    }

    fn show_position(&mut self) {
        let (at, times, playback) = (self.replay.at(), self.replay.times(), &self.playback);
        self.position = LiveReplay {
            step: at + 1,
            steps: times.len(),
            unix_seconds: times.get(at).map_or(0.0, |at| at.unix_seconds),
            is_playing: playback.is_playing,
            pace: playback.pace(),
            early: self.replay.early().map(str::to_owned),
            typed: playback.typed.clone(),
            refused: playback.refused.clone(),
        };
    }

    fn pass_time(&mut self) {
        let now = Instant::now();
        let most = self.playback.next_in().unwrap_or_default() + LATE;
        self.playback.advance((now - self.counted).min(most));
        self.counted = now;
    }
}

impl Source for Recorded {
    fn frame(&self) -> LiveFrame<'_> {
        self.shown.frame(Some(&self.position))
    }

    fn press(&mut self, key: Key) -> KeyEffect {
        self.pass_time();
        let is_taken = !self.shown.view.is_typing && self.playback.press(key);
        let before = self.shown.read_for();
        let mut effect = KeyEffect::Shown;
        if !is_taken {
            let rows = self.shown.rows();
            effect = press(&mut self.shown.view, key, &rows);
        }
        if before == self.shown.read_for() {
            self.follow();
        } else {
            self.read_anew();
        }
        effect
    }

    fn deadline(&self) -> Instant {
        self.counted + self.playback.next_in().unwrap_or(PAUSED)
    }

    /// Of a recording, all rows are read in full.
    fn update(&mut self, _rows: usize) {
        self.pass_time();
        self.follow();
    }
}

fn stalled(replay: &Replay) -> Option<u64> {
    psi(replay.host()).memory.some.total_us.get().map(|total| total.get())
}
