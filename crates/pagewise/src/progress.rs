// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bar on standard error while a wait lasts, where somebody watches and it is worth it.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use pagewise_model::{Name, printable};

use crate::cli::Global;
use crate::output;

/// Shorter waits show nothing.
const WORTH_IT: Duration = Duration::from_millis(1500);

/// A bar draws itself past [`output`], so what it shows is made safe to print here.
fn safe(text: &str) -> String {
    Name::from(text).to_string()
}

/// Shows progress until it is dropped.
#[derive(Debug)]
pub(crate) struct Spinner(Option<ProgressBar>);

impl Spinner {
    pub(crate) fn start(global: &Global, time: Duration) -> Self {
        let watched = std::io::stderr().is_terminal() && !global.quiet && !global.json;
        Self((watched && time > WORTH_IT).then(|| spinner(time)))
    }
}

fn spinner(time: Duration) -> ProgressBar {
    let template = "{spinner} measuring rates for {msg}, {elapsed} so far (Ctrl-C stops)";
    let style = ProgressStyle::with_template(template);
    let bar = ProgressBar::new_spinner().with_message(format!("{:.1} s", time.as_secs_f64()));
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// A bar of pages looked at.
#[derive(Debug)]
pub(crate) struct PageBar(Option<ProgressBar>);

impl PageBar {
    pub(crate) fn start(global: &Global) -> Self {
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

    /// Shows nothing.
    pub(crate) fn silent() -> Self {
        Self(None)
    }

    /// So many pages more are to come.
    pub(crate) fn expect(&self, pages: u64) {
        if let Some(bar) = &self.0 {
            bar.inc_length(pages);
        }
    }

    /// A page was looked at.
    pub(crate) fn page(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }
}

/// A bar of steps of a measurement.
#[derive(Debug)]
pub(crate) struct Measuring(Option<ProgressBar>);

impl Measuring {
    pub(crate) fn start(global: &Global, what: &str) -> Self {
        let watched = std::io::stderr().is_terminal() && !global.quiet;
        let style =
            ProgressStyle::with_template("{prefix} {bar:30} {percent} %, {msg} (Ctrl-C stops)");
        Self(watched.then(|| {
            let bar = ProgressBar::new(0).with_prefix(safe(what));
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        }))
    }

    /// So far, with the time that the plan still needs.
    pub(crate) fn show_step(&self, progress: &pagewise_bench::block::Progress) {
        self.show(progress.done, progress.total, || {
            format!("{} s left: {}", progress.left.as_secs(), progress.what)
        });
    }

    /// A line above the bar, or where the bar would be.
    pub(crate) fn note(&self, line: &str) {
        match &self.0 {
            Some(bar) => bar.println(printable(&format!("pagewise: {line}"))),
            None => output::message(line),
        }
    }

    /// So many of so many.
    pub(crate) fn show_count(&self, done: u32, all: u32) {
        let left = |bar: &ProgressBar| format!("{} s left", bar.eta().as_secs());
        self.show(done, all, || self.0.as_ref().map(left).unwrap_or_default());
    }

    /// A run of an experiment begins.
    pub(crate) fn run(&self, run: u32, of: u32, arm: &str) {
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
            bar.set_message(safe(&message()));
        }
    }
}

/// A bar of what goes on in the kernel.
#[derive(Debug)]
pub(crate) struct Following(Option<ProgressBar>);

impl Following {
    pub(crate) fn start(global: &Global, what: &str) -> Self {
        let watched = std::io::stderr().is_terminal() && !global.quiet;
        let style = ProgressStyle::with_template(
            "{prefix} {bar:30} {percent} %, {elapsed} (Ctrl-C leaves it running)",
        );
        Self(watched.then(|| {
            let bar = ProgressBar::new(0).with_prefix(safe(what));
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        }))
    }

    /// So many of so many are to go.
    pub(crate) fn left(&self, left: u64, all: u64) {
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

/// A line that says what is waited for.
#[derive(Debug)]
pub(crate) struct Idling(Option<ProgressBar>);

impl Idling {
    pub(crate) fn start(global: &Global) -> Self {
        let watched = std::io::stderr().is_terminal() && !global.quiet;
        let style = ProgressStyle::with_template("{spinner} waiting: {msg} (Ctrl-C stops)");
        Self(watched.then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar
        }))
    }

    /// Why.
    pub(crate) fn because(&self, why: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(safe(why));
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
