// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the duplicate pages of a device with `scan --device --duplicates`, just before the device
//! is merged.
//!
//! `scan` runs as a child process, because it gives up its rights before it reads page contents.
//! This process, which is about to change the device, receives one number and no contents.

use pagewise_model::Refusal;
use std::process::Stdio;

use anyhow::Context;
use pagewise_terminal::Global;
use serde_json::Value;

use crate::again;

/// The number of pages of the device that are copies of another page. Pages filled with one
/// repeated word are not counted, because merging ignores them.
pub(super) fn count_copies(global: &Global, name: &str) -> anyhow::Result<u64> {
    let mut command = again::pagewise_command();
    command.args(["scan", "--duplicates", "--seed", "1", "--json", "--device"]);
    command.arg(format!("/dev/{name}")).args(global.quiet.then_some("--quiet"));
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.context("starting the process that reads the device")?;
    let scanned: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    // the first estimate is that of all pages together
    scanned["estimates"][0]["duplicate_pages"]["value"].as_u64().ok_or_else(|| {
        let what = format!("{name}: which pages it holds twice could not be counted");
        Refusal::with_advice(what, "merge without --predict").into()
    })
}
