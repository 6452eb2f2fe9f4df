// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--evidence` of `thp collapse --watch`: what the target is, twice a second, from before the first
//! collapse to its end; then a folder with all of it and a page.
//!
//! A thread of its own looks, so that a long pass has moments too; what that costs is not in the
//! collapse's own processor time. However long it lasts, so many moments are kept: when there would be
//! more, every second one goes, and they are taken half as often.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pagewise_model::WatchSample;
use pagewise_procmem::coverage;
use pagewise_report::{Collapsed, WatchReport, json};
use pagewise_terminal::output;

use super::counter;
use pagewise_lab::redaction::Redaction;

const EVERY: Duration = Duration::from_millis(500);
const MOST: usize = 2400;
/// Waiting goes on in pieces, so that an end is seen.
const PIECE: Duration = Duration::from_millis(50);

/// A folder that will say how it went.
pub(super) struct Evidence {
    folder: PathBuf,
    counter: Option<String>,
    end: Arc<AtomicBool>,
    collapsed: Arc<AtomicU64>,
    thread: JoinHandle<Vec<WatchSample>>,
}

impl Evidence {
    /// Begins to look at these processes.
    pub(super) fn begin(
        folder: &Path,
        counter: Option<&str>,
        pids: Vec<u32>,
        block: u64,
    ) -> anyhow::Result<Self> {
        output::empty_folder(folder)?;
        if let Some(counter) = counter {
            counter::tried(counter)?;
        }
        let (end, collapsed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let look = WatchRound {
            pids,
            block,
            counter: counter.map(str::to_owned),
            end: end.clone(),
            collapsed: collapsed.clone(),
        };
        let thread = std::thread::Builder::new().name("evidence".to_owned());
        let thread = thread.spawn(move || look.until_the_end())?;
        Ok(Self {
            folder: folder.to_owned(),
            counter: counter.map(str::to_owned),
            end,
            collapsed,
            thread,
        })
    }

    /// So many blocks are collapsed by now.
    pub(super) fn tell(&self, collapsed: u64) {
        self.collapsed.store(collapsed, Ordering::Relaxed);
    }

    /// Ends it, and fills the folder.
    pub(super) fn fill(self, done: Collapsed<'_>, redaction: &Redaction) -> anyhow::Result<()> {
        self.end.store(true, Ordering::Relaxed);
        let moments = self.thread.join().unwrap_or_default();
        let snapshot = &redaction.snapshot(done.snapshot);
        let done = Collapsed { snapshot, ..done };
        let counter = self.counter.as_deref().map(|counter| redaction.script(counter));
        let course = pagewise_decide::watch::course(&moments);
        let counter = counter.as_deref();
        let watched = WatchReport { done, samples: &moments, course: &course, counter };
        let command = redaction.own_command_line();
        let put =
            |name: &str, text: &str| output::new_file_below(&self.folder, name, text.as_bytes());
        put("moments.jsonl", &lines(&moments)?)?;
        put("answer.json", &json::collapse(&done))?;
        put("command.txt", &(command.join(" ") + "\n"))?;
        put("report.html", &pagewise_html::watched(&watched))
    }
}

fn lines(moments: &[WatchSample]) -> anyhow::Result<String> {
    moments.iter().map(|moment| Ok(serde_json::to_string(moment)? + "\n")).collect()
}

/// Waits before the first collapse, so that there is something to compare with.
pub(super) fn before(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PIECE);
    }
}

struct WatchRound {
    pids: Vec<u32>,
    block: u64,
    counter: Option<String>,
    end: Arc<AtomicBool>,
    collapsed: Arc<AtomicU64>,
}

impl WatchRound {
    fn until_the_end(self) -> Vec<WatchSample> {
        let (began, mut every, mut moments) = (Instant::now(), EVERY, Vec::new());
        while !self.end.load(Ordering::Relaxed) {
            let looked = Instant::now();
            // nobody is left, or may not be looked at: then that is all there is
            let Ok(Some(moment)) = coverage::moment(&self.pids, self.block) else { break };
            moments.push(WatchSample {
                seconds: began.elapsed().as_secs_f64(),
                requests: self.counter.as_deref().and_then(counter::asked),
                collapsed: self.collapsed.load(Ordering::Relaxed),
                ..moment
            });
            if thinned(&mut moments, MOST) {
                every *= 2;
            }
            while looked.elapsed() < every && !self.end.load(Ordering::Relaxed) {
                std::thread::sleep(PIECE);
            }
        }
        moments
    }
}

/// Leaves out every second one where there are too many.
fn thinned(moments: &mut Vec<WatchSample>, most: usize) -> bool {
    if moments.len() < most {
        return false;
    }
    let mut number = 0;
    moments.retain(|_| {
        number += 1;
        number % 2 == 1
    });
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_long_it_lasts_moments_are_few_and_in_order() {
        let mut moments = Vec::new();
        for second in 0..1000 {
            moments.push(WatchSample { seconds: f64::from(second), ..WatchSample::default() });
            thinned(&mut moments, 64);
            assert!(moments.len() < 64 && moments[0].seconds == 0.0);
        }
        assert!(moments.len() >= 31 && moments.is_sorted_by(|a, b| a.seconds < b.seconds));
    }
}
