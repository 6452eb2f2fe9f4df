// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--evidence` of `thp collapse --watch`: records the state of the target twice a second, from
//! before the first collapse to the end; then writes all records and an HTML page into the folder.
//!
//! A separate thread takes the records, so that there are records during a long pass, too; its CPU
//! time is not included in that of the collapse. The number of records is limited: when the limit
//! is reached, every second record is dropped, and from then on records are taken half as often.

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
/// The longest sleep in one piece between two samples, so that the end of the collapse is noticed
/// in time.
const PIECE: Duration = Duration::from_millis(50);

/// A running recording, and the folder for its result.
pub(super) struct Evidence {
    folder: PathBuf,
    counter: Option<String>,
    end: Arc<AtomicBool>,
    collapsed: Arc<AtomicU64>,
    thread: JoinHandle<Vec<WatchSample>>,
}

impl Evidence {
    /// Starts to record these processes.
    pub(super) fn begin(
        folder: &Path,
        counter: Option<&str>,
        pids: Vec<u32>,
        block: u64,
    ) -> anyhow::Result<Self> {
        output::create_empty_folder(folder)?;
        if let Some(counter) = counter {
            counter::try_counter(counter)?;
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
        let thread = thread.spawn(move || look.record_until_end())?;
        Ok(Self {
            folder: folder.to_owned(),
            counter: counter.map(str::to_owned),
            end,
            collapsed,
            thread,
        })
    }

    /// Passes on how many ranges are collapsed so far, for the next records.
    pub(super) fn set_collapsed(&self, collapsed: u64) {
        self.collapsed.store(collapsed, Ordering::Relaxed);
    }

    /// Stops recording, and fills the folder.
    pub(super) fn fill(self, done: Collapsed<'_>, redaction: &Redaction) -> anyhow::Result<()> {
        self.end.store(true, Ordering::Relaxed);
        let moments = self.thread.join().unwrap_or_default();
        let snapshot = &redaction.snapshot(done.snapshot);
        let done = Collapsed { snapshot, ..done };
        let counter = self.counter.as_deref().map(|counter| redaction.script(counter));
        let course = pagewise_decide::watch::summarize(&moments);
        let counter = counter.as_deref();
        let watched = WatchReport { done, samples: &moments, course: &course, counter };
        let command = redaction.command_line();
        let put =
            |name: &str, text: &str| output::create_file_below(&self.folder, name, text.as_bytes());
        put("moments.jsonl", &lines(&moments)?)?;
        put("answer.json", &json::collapse(&done))?;
        put("command.txt", &(command.join(" ") + "\n"))?;
        put("report.html", &pagewise_html::watched_page(&watched))
    }
}

fn lines(moments: &[WatchSample]) -> anyhow::Result<String> {
    moments.iter().map(|moment| Ok(serde_json::to_string(moment)? + "\n")).collect()
}

/// Waits before the first collapse, so that the records show the state before it.
pub(super) fn wait_before_collapse(time: Duration, stop: &AtomicBool) {
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
    fn record_until_end(self) -> Vec<WatchSample> {
        let (began, mut every, mut moments) = (Instant::now(), EVERY, Vec::new());
        while !self.end.load(Ordering::Relaxed) {
            let looked = Instant::now();
            // all processes have ended, or this user may not read them any more: the records end
            // here
            let Ok(Some(moment)) = coverage::take_sample(&self.pids, self.block) else { break };
            moments.push(WatchSample {
                seconds: began.elapsed().as_secs_f64(),
                requests: self.counter.as_deref().and_then(counter::read_counter),
                collapsed: self.collapsed.load(Ordering::Relaxed),
                ..moment
            });
            if thin_out(&mut moments, MOST) {
                every *= 2;
            }
            while looked.elapsed() < every && !self.end.load(Ordering::Relaxed) {
                std::thread::sleep(PIECE);
            }
        }
        moments
    }
}

/// Drops every second record if there are more than `most`.
fn thin_out(moments: &mut Vec<WatchSample>, most: usize) -> bool {
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
            thin_out(&mut moments, 64);
            assert!(moments.len() < 64 && moments[0].seconds == 0.0);
        }
        assert!(moments.len() >= 31 && moments.is_sorted_by(|a, b| a.seconds < b.seconds));
    }
}
