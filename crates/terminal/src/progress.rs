// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress bars on standard error, shown if that is a terminal and the wait is long enough.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use pagewise_model::{Name, make_printable};

use crate::{Global, output};

/// Shortest expected wait for which a spinner is shown.
const WORTH_IT: Duration = Duration::from_millis(1500);

/// Makes text safe to print: a bar draws itself without [`output`].
fn make_label(text: &str) -> String {
    Name::from(text).to_string()
}

/// A spinner during the time between two readings; it is removed when this value is dropped.
#[derive(Debug)]
pub struct Spinner(Option<ProgressBar>);

impl Spinner {
    /// Starts a spinner; for a short `time` nothing is shown.
    pub fn start(global: &Global, time: Duration) -> Self {
        let watched = std::io::stderr().is_terminal() && !global.quiet && !global.json;
        Self((watched && time > WORTH_IT).then(|| make_spinner(time)))
    }
}

fn make_spinner(time: Duration) -> ProgressBar {
    let template = "{spinner} measuring rates for {msg}, {elapsed} so far (Ctrl-C stops)";
    let style = ProgressStyle::with_template(template);
    let bar = ProgressBar::new_spinner().with_message(format!("{:.1} s", time.as_secs_f64()));
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// A bar that counts the pages that were read.
#[derive(Debug)]
pub struct PageBar(Option<ProgressBar>);

impl PageBar {
    /// Starts a bar that expects no pages yet; `expect` adds to them.
    pub fn start(global: &Global) -> Self {
        let watched = std::io::stderr().is_terminal() && !global.quiet;
        let style = ProgressStyle::with_template(
            "{spinner} {bar:30} {human_pos} of {human_len} pages, {eta} left (Ctrl-C stops)",
        );
        Self(watched.then(|| {
            let bar = ProgressBar::new(0);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        }))
    }

    /// Returns a bar that shows nothing.
    pub fn silent() -> Self {
        Self(None)
    }

    /// Adds to the expected number of pages.
    pub fn expect(&self, pages: u64) {
        if let Some(bar) = &self.0 {
            bar.inc_length(pages);
        }
    }

    /// Counts a page that was read.
    pub fn count_page(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }
}

/// A bar that counts the steps of a measurement.
#[derive(Debug)]
pub struct Measuring(Option<ProgressBar>);

impl Measuring {
    /// Starts a bar; `what` is the name of the measurement, for example `canary`.
    pub fn start(global: &Global, what: &str) -> Self {
        let watched = std::io::stderr().is_terminal() && !global.quiet;
        let style =
            ProgressStyle::with_template("{prefix} {bar:30} {percent} %, {msg} (Ctrl-C stops)");
        Self(watched.then(|| {
            let bar = ProgressBar::new(0).with_prefix(make_label(what));
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        }))
    }

    /// Shows that `done` of `all` steps are done, the remaining time, and the current step.
    pub fn show_step(&self, done: u32, all: u32, left: Duration, what: &str) {
        self.show(done, all, || format!("{} s left: {what}", left.as_secs()));
    }

    /// Prints a line above the bar, or a message if there is no bar.
    pub fn note(&self, line: &str) {
        match &self.0 {
            Some(bar) => bar.println(make_printable(&format!("pagewise: {line}"))),
            None => output::print_message(line),
        }
    }

    /// Shows that `done` of `all` are done.
    pub fn show_count(&self, done: u32, all: u32) {
        let left = |bar: &ProgressBar| format!("{} s left", bar.eta().as_secs());
        self.show(done, all, || self.0.as_ref().map(left).unwrap_or_default());
    }

    /// Shows the start of a run of an experiment.
    pub fn show_run(&self, run: u32, of: u32, arm: &str) {
        let message = |bar: &ProgressBar| {
            let seconds = bar.elapsed().as_secs();
            let left =
                if run > 1 { format!(", {} s left", bar.eta().as_secs()) } else { String::new() };
            format!("run {run} of {of}, arm {arm}, {seconds} s{left}")
        };
        self.show(run - 1, of, || self.0.as_ref().map(message).unwrap_or_default());
    }

    fn show(&self, done: u32, all: u32, message: impl FnOnce() -> String) {
        if let Some(bar) = &self.0 {
            bar.set_length(all.into());
            bar.set_position(done.into());
            bar.set_message(make_label(&message()));
        }
    }
}

/// A bar for work that the kernel does.
#[derive(Debug)]
pub struct Following(Option<ProgressBar>);

impl Following {
    /// Starts a bar; `what` is the work, for example `merging zmerge0`.
    pub fn start(global: &Global, what: &str) -> Self {
        let watched = std::io::stderr().is_terminal() && !global.quiet;
        let style = ProgressStyle::with_template(
            "{prefix} {bar:30} {percent} %, {elapsed} (Ctrl-C leaves it running)",
        );
        Self(watched.then(|| {
            let bar = ProgressBar::new(0).with_prefix(make_label(what));
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        }))
    }

    /// Shows that `left` of `all` remain to be done.
    pub fn show_left(&self, left: u64, all: u64) {
        if let Some(bar) = &self.0 {
            bar.set_length(all);
            bar.set_position(all.saturating_sub(left));
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// A line that says why the program waits.
#[derive(Debug)]
pub struct Idling(Option<ProgressBar>);

impl Idling {
    /// Starts a line without a reason.
    pub fn start(global: &Global) -> Self {
        let watched = std::io::stderr().is_terminal() && !global.quiet;
        let style = ProgressStyle::with_template("{spinner} waiting: {msg} (Ctrl-C stops)");
        Self(watched.then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar
        }))
    }

    /// Sets the reason.
    pub fn show_reason(&self, why: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(make_label(why));
            bar.tick();
        }
    }
}

impl Drop for Idling {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Time between two frames of a spinner.
const TICK: Duration = Duration::from_millis(100);

/// A spinner with the current step of other code. It is ended when that code prints its own output,
/// because the last line of that may be incomplete.
#[derive(Debug)]
pub struct StepSpinner {
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl StepSpinner {
    /// Starts a spinner with the first step.
    pub fn start(global: &Global, step: &'static str) -> Self {
        let watched = std::io::stderr().is_terminal() && !global.quiet;
        let bar = watched.then(|| {
            let style =
                ProgressStyle::with_template("{spinner} {prefix}{msg}, {elapsed} (Ctrl-C stops)");
            let bar = ProgressBar::new_spinner().with_message(step);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(TICK);
            bar
        });
        Self { bar, quiet: global.quiet }
    }

    /// Starts the spinner again, even after its end; `prefix` is printed before each step.
    pub fn restart(&self, prefix: &str) {
        if let Some(bar) = &self.bar {
            bar.reset();
            bar.enable_steady_tick(TICK);
            bar.set_prefix(make_label(prefix));
        }
    }

    /// Sets the current step.
    pub fn set_step(&self, step: &'static str) {
        if let Some(bar) = &self.bar {
            bar.set_message(step);
        }
    }

    /// Prints a line above the spinner; if there is no spinner, a message, unless `--quiet` is set.
    pub fn note(&self, line: &str) {
        match &self.bar {
            Some(bar) if !bar.is_finished() => {
                bar.println(make_printable(&format!("pagewise: {line}")));
            }
            _ if self.quiet => {}
            _ => output::print_message(line),
        }
    }

    /// Removes the spinner.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for StepSpinner {
    fn drop(&mut self) {
        self.end();
    }
}

/// Shortest workload for which a bar is shown.
const WORKLOAD_WORTH_IT: Duration = Duration::from_secs(2);
/// Minimum time between two updates of the bar of a workload.
const DRAWN_EVERY: Duration = Duration::from_millis(100);

/// The bar of a workload. The process has a single thread, because some workloads fork, so the bar
/// is only drawn when progress is reported.
#[derive(Debug)]
pub struct WorkloadBar {
    watched: bool,
    since: Instant,
    drawn: Instant,
    bar: Option<ProgressBar>,
}

impl WorkloadBar {
    /// Prepares a bar that is not drawn yet.
    pub fn start(global: &Global) -> Self {
        let watched = std::io::stderr().is_terminal() && !global.quiet && !global.json;
        let now = Instant::now();
        Self { watched, since: now, drawn: now, bar: None }
    }

    /// Shows the current step, and the share of the workload that is done, from 0 to 1.
    pub fn show_step(&mut self, what: &str, share: f64) {
        let is_time =
            self.since.elapsed() >= WORKLOAD_WORTH_IT && self.drawn.elapsed() >= DRAWN_EVERY;
        if !self.watched || !is_time {
            return;
        }
        self.drawn = Instant::now();
        let bar = self.bar.get_or_insert_with(make_workload_bar);
        bar.set_message(make_label(what));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
        bar.set_position((share.clamp(0.0, 1.0) * 100.0) as u64);
    }
}

fn make_workload_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("workload {bar:30} {percent} %, {msg} (Ctrl-C stops)");
    let bar = ProgressBar::new(100);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

impl Drop for WorkloadBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Drop for PageBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
