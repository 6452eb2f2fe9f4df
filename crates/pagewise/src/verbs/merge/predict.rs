// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `scan --device --duplicates` says of a device, just before it is merged.

use std::path::PathBuf;

use pagewise_model::Snapshot;
use pagewise_observe::HostRoot;

use crate::cli::{Global, Scan, Sources};
use crate::trouble::Advised;
use crate::verbs::scan;

/// How many pages of the device are a copy of another one; pages of one repeated word left out, as
/// merging leaves them out.
pub(super) fn copies(
    global: &Global,
    host: &HostRoot,
    snapshot: &Snapshot,
    name: &str,
) -> anyhow::Result<u64> {
    let device = Some(PathBuf::from(format!("/dev/{name}")));
    let source = Sources { device, ..Sources::default() };
    let wanted = Scan { source, duplicates: true, seed: 1, ..Scan::default() };
    let estimate = scan::whole(global, &wanted, host, snapshot)?;
    estimate.and_then(|whole| whole.duplicate_pages.get()).ok_or_else(|| {
        let what = format!("{name}: which pages it holds twice could not be counted");
        Advised { what, next: "merge without --predict" }.into()
    })
}
