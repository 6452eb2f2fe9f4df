// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that several rules suggest: to show a device in compressed RAM, to set its size
//! (zramctl supports zram only), or to raise the memory protection of a systemd unit.

use pagewise_facts::protection::Protection;
use pagewise_facts::swap_choice::{SwapEvidence, algorithm, decide_swap, size_mib};
use pagewise_model::{Driver, Interval, Limit, Snapshot, Zram};

use crate::text::{mark_writing_with_undo, quoted};

/// Returns the command that shows the device's usage; `columns` are column names of zramctl.
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

/// Returns the command that sets the recommended size and algorithm of a zram device.
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

/// Returns the command that resets the device, which discards its size and content.
pub(crate) fn reset(device: &Zram) -> String {
    let name = device.name();
    match device.driver {
        Driver::Zram => format!("sudo zramctl --reset /dev/{name}"),
        Driver::Zmerge => format!("echo 1 | sudo tee /sys/block/{name}/reset"),
    }
}

/// Advice on how to raise the protection of a cgroup.
pub(crate) struct ProtectionAdvice {
    /// A sentence, with a leading space, that says which property to set for which unit; empty if
    /// nothing has to be set.
    pub(crate) sentence: String,
    /// The commands; empty if one of them would be for a slice, because a property of a slice
    /// affects everything in it and takes memory from everything outside of it.
    pub(crate) commands: Vec<String>,
}

/// Says how to raise these protections.
pub(crate) fn advise_protection(raised: &[Protection]) -> ProtectionAdvice {
    let Some(first) = raised.first() else {
        return ProtectionAdvice { sentence: String::new(), commands: Vec::new() };
    };
    let each = raised.iter().map(|it| format!("{} of {}", it.size, it.unit));
    let sentence = format!(
        " Protecting it takes {} of at least {}, as the sum of what is protected there.",
        first.property,
        each.collect::<Vec<_>>().join(" and ")
    );
    let has_slice = raised.iter().any(|it| it.unit.ends_with(".slice"));
    let commands = raised.iter().filter(|_| !has_slice).map(set_property).collect();
    ProtectionAdvice { sentence, commands }
}

/// Returns the command that raises the memory protection of a systemd unit, at once and
/// permanently.
fn set_property(raised: &Protection) -> String {
    let (property, size) = (raised.property, raised.size.get().div_ceil(1 << 20));
    let undo = match raised.now {
        Limit::Bytes(now) => now.get().to_string(),
        Limit::Max => "infinity".to_owned(),
    };
    let set = |value: &str| {
        format!("sudo systemctl set-property {} {property}={value}", quoted(&raised.unit))
    };
    let caution = "permanent; takes this memory from other cgroups";
    mark_writing_with_undo(set(&format!("{size}M")), caution, &set(&undo))
}

/// Returns the command that compares zram and zswap with a program of the user; `None` if the
/// Readings are sufficient to choose one of them.
pub(crate) fn open_trial(interval: &Interval) -> Option<String> {
    let decision = decide_swap(interval, &SwapEvidence::default());
    decision.trial.filter(|_| decision.choice.is_none())
}
