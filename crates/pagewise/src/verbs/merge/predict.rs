// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `scan --device --duplicates` says of a device, just before it is merged.
//!
//! `scan` runs as a child: it gives up its rights before it reads what programs have stored, and this
//! process, which is to change the device, sees one number and no contents.

use pagewise_model::Refusal;
use std::process::Stdio;

use anyhow::Context;
use pagewise_terminal::Global;
use serde_json::Value;

use crate::again;

/// How many pages of the device are a copy of another one; pages of one repeated word left out, as
/// merging leaves them out.
pub(super) fn copies(global: &Global, name: &str) -> anyhow::Result<u64> {
    let mut command = again::pagewise();
    command.args(["scan", "--duplicates", "--seed", "1", "--json", "--device"]);
    command.arg(format!("/dev/{name}")).args(global.quiet.then_some("--quiet"));
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.context("starting the process that reads the device")?;
    let scanned: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    // the first estimate is that of everything
    scanned["estimates"][0]["duplicate_pages"]["value"].as_u64().ok_or_else(|| {
        let what = format!("{name}: which pages it holds twice could not be counted");
        Refusal::advised(what, "merge without --predict").into()
    })
}
