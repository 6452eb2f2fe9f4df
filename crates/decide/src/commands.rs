// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that several rules suggest: they show a device in compressed RAM, set its size (zramctl
//! supports zram only), or raise the memory protection of a systemd unit.

use pagewise_facts::protection::Protection;
use pagewise_facts::swap_choice::{SwapEvidence, algorithm, decide_swap, size_mib};
use pagewise_model::{Driver, Interval, Limit, Snapshot, Zram};

use crate::text::{quoted, writes_and};

/// Command that shows the device's usage; `columns` are those of zramctl.
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

/// Command that sets the recommended size and algorithm of a zram device.
pub(crate) fn set_size(host: &Snapshot, device: &Zram) -> String {
    let mib = size_mib(host);
    let algorithm = algorithm(device).map(|name| quoted(name.as_str()));
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

/// Command that resets the device, which discards its size and content.
pub(crate) fn reset(device: &Zram) -> String {
    let name = device.name();
    match device.driver {
        Driver::Zram => format!("sudo zramctl --reset /dev/{name}"),
        Driver::Zmerge => format!("echo 1 | sudo tee /sys/block/{name}/reset"),
    }
}

/// Command that raises the memory protection of a systemd unit, at once and permanently.
pub(crate) fn set_property(raised: &Protection) -> String {
    let (property, size) = (raised.property, raised.size.get().div_ceil(1 << 20));
    let undo = match raised.now {
        Limit::Bytes(now) => now.get().to_string(),
        Limit::Max => "infinity".to_owned(),
    };
    writes_and(
        format!("sudo systemctl set-property {} {property}={size}M", quoted(&raised.unit)),
        &format!("permanent; takes this memory from other cgroups; undo with {property}={undo}"),
    )
}

/// Command that measures zram against zswap with a program of the user, if the Readings are not
/// sufficient to choose one.
pub(crate) fn open_trial(interval: &Interval) -> Option<String> {
    let decision = decide_swap(interval, &SwapEvidence::default());
    decision.trial.filter(|_| decision.choice.is_none())
}
