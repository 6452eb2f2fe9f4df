// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab hold`: allocates memory and keeps it, as one of the processes when an OOM kill is
//! repeated in a guest.
//!
//! It starts to allocate when it reads a line from standard input: by then its parent has moved it
//! into a cgroup. It exits when standard input ends.

#![expect(clippy::disallowed_methods, reason = "a file of the guest, which is given by its runner")]

use std::fs::OpenOptions;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Duration;

use anyhow::Context;
use pagewise_model::Bytes;
use pagewise_terminal::Outcome;
use pagewise_workload::{Holding, fill_file, hold};

use crate::cli::lab::Hold;

pub(super) fn run(wanted: &Hold) -> anyhow::Result<Outcome> {
    let mut starter = stdin().lock();
    starter.read_line(&mut String::new()).context("waiting for the starter")?;
    let pause = Duration::from_millis(wanted.pause);
    let mut on_held = |held: Bytes| {
        std::thread::sleep(pause);
        let mut out = stdout().lock();
        writeln!(out, "held {}", held.get())?;
        out.flush()
    };
    let take = Bytes::new(wanted.take);
    let held = match &wanted.file {
        Some(path) => {
            let file = OpenOptions::new().write(true).create_new(true).open(path);
            let mut file = file.with_context(|| path.display().to_string())?;
            fill_file(&mut file, take, &mut on_held)?;
            None
        }
        None => Some(hold(&Holding { take, map: Bytes::new(wanted.map) }, &mut on_held)?),
    };
    writeln!(stdout(), "all").context("saying that all is held")?;
    starter.read_line(&mut String::new()).context("waiting for the end")?;
    drop(held);
    Ok(Outcome::Done)
}
