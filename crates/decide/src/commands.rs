// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that look at a device in compressed RAM or give it a size: zramctl knows zram's alone.

use pagewise_model::{Driver, Snapshot, Zram};

use crate::facts::advice;
use crate::text::quoted;

/// Shows what is in the device; `columns` are those of zramctl.
pub(crate) fn show_device(device: &Zram, columns: &str) -> String {
    match (device.driver, columns) {
        (Driver::Zram, "") => "zramctl".to_owned(),
        (Driver::Zram, columns) => format!("zramctl --output {columns}"),
        (Driver::Zmerge, _) => {
            let folder = format!("/sys/block/{}", device.name());
            format!("grep . {folder}/disksize {folder}/mm_stat {folder}/merged_bytes")
        }
    }
}

/// Gives it the recommended size and algorithm.
pub(crate) fn set_size(host: &Snapshot, device: &Zram) -> String {
    let mib = advice::size_mib(host);
    let algorithm = advice::algorithm(device).map(|name| quoted(name.as_str()));
    let name = device.name();
    match device.driver {
        Driver::Zram => {
            let algorithm = algorithm.map(|algorithm| format!("--algorithm {algorithm} "));
            format!("sudo zramctl --size {mib}M {}/dev/{name}", algorithm.unwrap_or_default())
        }
        Driver::Zmerge => {
            let folder = format!("/sys/block/{name}");
            let put =
                |algorithm| format!("echo {algorithm} | sudo tee {folder}/comp_algorithm && ");
            let algorithm = algorithm.map(put).unwrap_or_default();
            format!("{algorithm}echo {mib}M | sudo tee {folder}/disksize")
        }
    }
}

/// Takes its size and all that is in it away.
pub(crate) fn reset(device: &Zram) -> String {
    let name = device.name();
    match device.driver {
        Driver::Zram => format!("sudo zramctl --reset /dev/{name}"),
        Driver::Zmerge => format!("echo 1 | sudo tee /sys/block/{name}/reset"),
    }
}
