// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise status --watch`: reads the machine again and again, and shows it until the user quits.

use std::time::{Duration, Instant};

use anyhow::Context;
use pagewise_model::{LiveSample, Refusal};
use pagewise_observe::{HostRoot, LiveReader};
use pagewise_report::live::LiveFrame;
use pagewise_sandbox::Confinement;
use pagewise_terminal::live::{self, LiveScreen};
use pagewise_terminal::{Global, Outcome, exit};

use super::keys::{KeyEffect, press};
use super::replay;
use super::shown::{HISTORY, Shown, Source, show};
use crate::advisers;

pub(super) fn run(global: &Global, every: Duration, at: Option<&str>) -> anyhow::Result<Outcome> {
    if let Some(refusal) = refusal(global) {
        advisers::print_error(&refusal.into());
        return Ok(Outcome::Status(exit::USAGE));
    }
    let screen = LiveScreen::prepare()?;
    if let Some(path) = &global.root {
        return replay::run(global, path, at, screen);
    }
    let host = HostRoot::live().context("/")?;
    Confinement::for_facts().enter();
    show(&mut Watch::new(host, every), global, screen)
}

/// Why the live view cannot run: nothing to watch, or no terminal to show it on.
fn refusal(global: &Global) -> Option<Refusal> {
    let (why, next) = if global.json {
        ("--json prints one document, and a live view never ends", "pagewise status --json")
    } else {
        (live::obstacle()?, "pagewise status (prints the overview once)")
    };
    Some(Refusal { next: Some(next.to_owned()), ..Refusal::new("status --watch", why) })
}

/// The live machine as a source of frames.
struct Watch {
    host: HostRoot,
    reader: LiveReader,
    shown: Shown,
    every: Duration,
    deadline: Instant,
    /// Number of rows that fitted into the window at the last update.
    rows: usize,
}

impl Watch {
    fn new(host: HostRoot, every: Duration) -> Self {
        let mut reader = LiveReader::new(&host);
        let shown = Shown::new(reader.read(&host, &Default::default()));
        Self { host, reader, shown, every, deadline: Instant::now() + every, rows: 0 }
    }

    /// Adds the pressure of the last interval to the history.
    fn keep_pressure(&mut self) {
        let Shown { interval, seconds, pressure, .. } = &mut self.shown;
        let stalled = interval.change(|host| host.psi.memory.some.total_us.clone());
        if let Some(change) = stalled {
            seconds.push(change.seconds);
            pressure.push((change.per_second / 1e4).min(100.0));
        }
        let old = pressure.len().saturating_sub(HISTORY);
        seconds.drain(..old);
        pressure.drain(..old);
    }
}

impl Source for Watch {
    fn frame(&self) -> LiveFrame<'_> {
        self.shown.frame(None)
    }

    /// Handles a key. If the key opens a row, its details are read at once, even if the view is
    /// frozen.
    fn press(&mut self, key: live::Key) -> KeyEffect {
        let before = self.shown.parts_that_affect_reading();
        let rows = self.shown.rows();
        let effect = press(&mut self.shown.view, key, &rows);
        if before != self.shown.parts_that_affect_reading() {
            let (_, sample) = self.reader.read(&self.host, &self.shown.choice(self.rows));
            let kswapd_percent = self.shown.sample.kswapd_percent;
            self.shown.sample = LiveSample { kswapd_percent, ..sample };
        }
        effect
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Reads the machine, unless the view is frozen.
    fn update(&mut self, rows: usize) {
        if rows > 0 {
            self.rows = rows;
        }
        if !self.shown.view.is_frozen {
            self.shown.add_reading(self.reader.read(&self.host, &self.shown.choice(self.rows)));
            self.keep_pressure();
        }
        self.deadline = (self.deadline + self.every).max(Instant::now() + self.every / 2);
    }
}
