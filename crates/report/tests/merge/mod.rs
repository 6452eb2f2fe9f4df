// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A merge pass: a device with newly merged pages, an inline one without, one without a result, and
//! one that was left out.

use pagewise_model::{LeftOut, Merge, MergedDevice, Name, Snapshot, Zram};
use pagewise_report::Merged;

use super::host;

pub(crate) fn merge() -> Merge {
    let of = |before: Zram| MergedDevice {
        name: Name::from(before.name().as_str()),
        predicted_pages: None,
        before,
        after: None,
        seconds: None,
        stopped: false,
    };
    let devices = vec![
        MergedDevice {
            predicted_pages: Some(32_768),
            after: Some(host::zmerge_device(0, "request", 32_768)),
            seconds: Some(0.412),
            ..of(host::zmerge_device(0, "request", 0))
        },
        MergedDevice {
            after: Some(host::zmerge_device(1, "inline", 32_768)),
            seconds: Some(0.094),
            ..of(host::zmerge_device(1, "inline", 32_768))
        },
        of(host::zmerge_device(2, "request", 0)),
    ];
    let why = "its merge_mode is off".to_owned();
    let left_out = vec![LeftOut { name: Name::from("zmerge3"), why }];
    Merge { devices, left_out, waited_seconds: Some(4.02) }
}

pub(crate) fn merged<'a>(snapshot: &'a Snapshot, merge: &'a Merge) -> Merged<'a> {
    Merged { snapshot, merge, cost: host::cost() }
}
