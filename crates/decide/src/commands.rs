// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that several rules suggest: they show a device in compressed RAM, set its size (zramctl
//! supports zram only), or raise the memory protection of a systemd unit.

use pagewise_facts::protection::Protection;
use pagewise_facts::swap_choice::{SwapEvidence, algorithm, decide_swap, size_mib};
use pagewise_model::{Driver, Interval, Limit, Snapshot, Zram};

use crate::text::{quoted, writes_with_undo};

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

/// How the protection of a cgroup is raised.
pub(crate) struct ProtectionAdvice {
    /// What has to be set where, as a sentence with a blank before it; empty if nothing has to.
    pub(crate) sentence: String,
    /// The commands, none if one of them would be for a slice: what is set there holds for
    /// everything in the slice, and takes memory from all that is outside of it.
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

/// Command that raises the memory protection of a systemd unit, at once and permanently.
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
    writes_with_undo(set(&format!("{size}M")), caution, &set(&undo))
}

/// Command that measures zram against zswap with a program of the user, if the Readings are not
/// sufficient to choose one.
pub(crate) fn open_trial(interval: &Interval) -> Option<String> {
    let decision = decide_swap(interval, &SwapEvidence::default());
    decision.trial.filter(|_| decision.choice.is_none())
}
