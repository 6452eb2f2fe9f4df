// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab selftest`: trials with two identical arms on this machine.

use anyhow::Context;
use pagewise_lab::experiment::{exercise::exercise as work, selftest};
use pagewise_model::SelfTest;
use pagewise_report::text;
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::progress::Measuring;
use pagewise_terminal::{Global, Outcome, exit, output, screen};
use serde_json::json;

/// The hidden subcommand whose run time is measured; it belongs to this program, so it exists on
/// every machine.
const EXERCISE: [&str; 2] = ["lab", "exercise"];

pub(super) fn run(global: &Global, trials: u32) -> anyhow::Result<Outcome> {
    let program = std::env::current_exe().context("finding this program's own file")?;
    let stop = Stop::listen()?;
    let shown = Measuring::start(global, "selftest");
    let mut progress = |done: u32, of: u32| shown.show_count(done, of);
    let found = selftest(&program, &EXERCISE, trials, stop.flag(), &mut progress)?;
    drop(shown);
    print(global, &found)?;
    Ok(if found.stopped { Outcome::Status(exit::STOPPED) } else { Outcome::Done })
}

fn print(global: &Global, found: &SelfTest) -> anyhow::Result<()> {
    let text = if global.json {
        let mut document = serde_json::to_value(found)?;
        document["schema"] = json!("pagewise/selftest/1");
        document["pagewise"] = json!(env!("CARGO_PKG_VERSION"));
        format!("{document:#}\n")
    } else {
        text::selftest(found, screen::text_style(global))
    };
    output::print_answer(global, &text)?;
    Ok(())
}

pub(super) fn exercise() -> anyhow::Result<Outcome> {
    std::hint::black_box(work());
    Ok(Outcome::Done)
}
