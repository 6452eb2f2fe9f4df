// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the programs that manage swap, OOM kills or memory settings and are enabled, by their
//! files.

use pagewise_hostfs::{HostRoot, ReadHost, absolute_path};
use pagewise_model::{Manager, Name, PersistentSetting, Purpose, Reading, Source};
use pagewise_model::{Mechanism, Target};

use crate::{swap_managers, tuned, zram_managers};

/// Path of the link that `systemctl enable` creates for a service.
macro_rules! wanted {
    ($unit:literal) => {
        concat!("etc/systemd/system/multi-user.target.wants/", $unit, ".service")
    };
}

/// Programs that manage swap or memory, each with the file that enables it: a link that `systemctl
/// enable` creates, or a generator.
const MANAGERS: &[(&str, Purpose, &str)] = &[
    ("zram-generator", Purpose::CompressedSwap, zram_managers::GENERATOR),
    ("zram-tools", Purpose::CompressedSwap, zram_managers::ZRAMSWAP),
    ("zram-config", Purpose::CompressedSwap, wanted!("zram-config")),
    ("systemd-oomd", Purpose::OomKiller, wanted!("systemd-oomd")),
    ("earlyoom", Purpose::OomKiller, wanted!("earlyoom")),
    ("nohang", Purpose::OomKiller, wanted!("nohang")),
    ("nohang-desktop", Purpose::OomKiller, wanted!("nohang-desktop")),
    ("tuned", Purpose::Settings, tuned::UNIT),
    ("tlp", Purpose::Settings, wanted!("tlp")),
    ("laptop-mode-tools", Purpose::Settings, wanted!("laptop-mode")),
];

/// Returns the managers that are enabled. A manager without anything to do is left out, if this can
/// be determined.
pub(crate) fn read(host: &HostRoot, settings: &[PersistentSetting]) -> Vec<Manager> {
    let has = |mechanism, is_it: fn(&Target) -> bool| {
        let of_it = settings.iter().filter(move |it| it.mechanism == mechanism && it.is_applied());
        of_it.into_iter().any(|setting| is_it(&setting.target))
    };
    let has_work = |name: &str| match name {
        "zram-generator" => {
            has(Mechanism::ZramGenerator, |target| matches!(target, Target::ZramDevice(_)))
        }
        // this unit belongs to another program if the file exists
        "zram-config" => !host.exists(swap_managers::ZTAB),
        "tuned" => has(Mechanism::Tuned, |_| true),
        _ => true,
    };
    let managers = MANAGERS.iter().filter(|(name, ..)| has_work(name));
    let mut all: Vec<Manager> = managers.filter_map(|row| manager(host, row)).collect();
    all.extend(swap_managers::managers(host));
    // rpi-swap makes zram-generator set up its device
    if all.iter().any(|it| it.name == swap_managers::RPI_SWAP) {
        all.retain(|it| it.name != "zram-generator");
    }
    all
}

fn manager(
    host: &HostRoot,
    &(name, purpose, path): &(&'static str, Purpose, &str),
) -> Option<Manager> {
    let source = Source::file(absolute_path(path));
    let found = || Manager { name, purpose, found: Reading::found(Name::from("present"), source) };
    host.exists(path).then(found)
}
