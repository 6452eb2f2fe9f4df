// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the experiment that the command line names, and makes its cells.

use anyhow::Context;
use pagewise_lab::library::{self, Cell, Choice, DefaultRunner, File};

use pagewise_terminal::output;

use crate::cli::lab::{Picked, Runner};

pub(super) fn pick(picked: &Picked) -> anyhow::Result<(File, Vec<Cell>)> {
    if let Some(file) = library::find_ignored(&picked.experiment) {
        output::print_message(file);
    }
    let file = library::find(&picked.experiment)?;
    let program = std::env::current_exe().context("finding this program's own file")?;
    let cells = library::cells(&file, &choice(picked), &program)?;
    Ok((file, cells))
}

fn choice(picked: &Picked) -> Choice {
    Choice {
        place: picked.runner.map(|runner| match runner {
            Runner::Host => DefaultRunner::Host,
            Runner::Guest => DefaultRunner::Guest,
        }),
        kernels: picked.kernel.clone(),
        memory: picked.memory.clone(),
        no_count: picked.no_count,
        arms: picked.arm.clone(),
        pairs: picked.pairs,
        preview: picked.preview,
        seed: picked.seed.unwrap_or_else(draw_seed),
        set: picked.set.clone(),
    }
}

/// A random seed with few digits, so that it is easy to type again.
fn draw_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |since| u64::from(since.subsec_micros()) + 1)
}
