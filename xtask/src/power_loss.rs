// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the test of power losses with the requested number of disks. The group `plan-power-loss`
//! runs the same test with fewer disks.
//!
//! A guest writes one recording of its disk writes, from which the disks after power losses are
//! made. The same seed and recording make the same disks, so the recording can be kept in a folder
//! that the user names.

use std::path::PathBuf;

use anyhow::Result;

use crate::{run, suite};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Different disks for each kind of plan
    #[arg(long, value_name = "N", default_value_t = 5000)]
    states: usize,
    /// Decides which writes reach the disk
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the recording in this folder; if the folder has one, replay it and start no guest that writes
    #[arg(long, value_name = "FOLDER")]
    recording: Option<PathBuf>,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    run::run_to_success(run::program(suite::static_builder()).arg("--quick"))?;
    let mut test = run::cargo();
    test.args(["test", "--locked", "--package", "pagewise", "--test", "guest"]);
    test.args(["plans::power_loss::", "--", "--nocapture"]);
    suite::for_guests(&["--quick"])?.set_variables(&mut test);
    test.env("PAGEWISE_POWER_LOSS_STATES", args.states.to_string());
    test.env("PAGEWISE_POWER_LOSS_SEED", args.seed.to_string());
    if let Some(folder) = &args.recording {
        test.env("PAGEWISE_POWER_LOSS_FOLDER", std::path::absolute(folder)?);
    }
    run::run_to_success(&mut test)
}
