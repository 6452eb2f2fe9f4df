// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bar on standard error while a wait lasts, where somebody watches and it is worth it.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::Global;

/// Shorter waits show nothing.
const WORTH_IT: Duration = Duration::from_millis(1500);

/// Shows progress until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting(Option<ProgressBar>);

impl Waiting {
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
pub(crate) struct Looking(Option<ProgressBar>);

impl Looking {
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

impl Drop for Looking {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
