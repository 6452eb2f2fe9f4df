// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a host's configuration files into a [`Configuration`]: which lines set kernel settings,
//! zram devices and swap areas at boot, in the order in which the tools that read them apply them.
//!
//! There is one module per mechanism. All files are opened through [`pagewise_hostfs`], and only
//! lines about zram, swap and the settings in the table leave this crate. Lines of files that a
//! tool would not read are included, marked with the reason. Which line takes effect, and whether
//! the running value agrees with it, is not decided here; see [`pagewise_model::ownership`].
//!
//! People write these files, and mostly about other things. A line that cannot be parsed is
//! therefore not reported as a [`Problem`](pagewise_model::Problem).

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod collector;
pub mod conf_files;
pub mod generator_file;
mod knob_path;
mod limits;
mod managers;
pub mod modules;
pub mod parsers;
pub mod plain;
pub mod swap_areas;
mod swap_managers;
pub mod sysctl;
#[cfg(test)]
mod testing;
pub mod tmpfiles;
pub mod tuned;
mod tuned_profile;
pub mod udev;
pub mod units;
pub mod zram_managers;

pub use limits::LIMITS;

use pagewise_hostfs::{HostRoot, ReadValues};
use pagewise_model::Configuration;

const RESUME: &str = "sys/power/resume";

/// Reads the configuration files of all mechanisms.
#[must_use]
pub fn read(host: &HostRoot) -> Configuration {
    let sysctl = sysctl::read(host);
    let (tuned, of_tuned) = tuned::read(host).unzip();
    let mut settings = modules::read(host);
    settings.extend(udev::read(host));
    settings.extend(sysctl.settings);
    settings.extend(tmpfiles::read(host));
    let (of_generator, refused) = zram_managers::read_generator(host);
    settings.extend(of_generator);
    settings.extend(zram_managers::read_zram_tools(host));
    settings.extend(swap_managers::read(host));
    settings.extend(swap_areas::read_fstab(host));
    settings.extend(swap_areas::read_units(host));
    settings.extend(units::read(host));
    settings.extend(of_tuned.unwrap_or_default());
    Configuration {
        sysctl_files: sysctl.files,
        managers: managers::read(host, &settings),
        settings,
        refused,
        tuned,
        resume_device: host.name_at(RESUME),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::host;

    #[test]
    fn a_generator_counts_where_it_has_something_to_do() {
        let file = "etc/systemd/zram-generator.conf";
        let idle = host([(zram_managers::GENERATOR, ""), (file, "# [zram0]\n")]);
        assert!(read(&idle).managers.is_empty());
        let busy = host([
            (zram_managers::GENERATOR, ""),
            (file, "[zram0]\nzram-size = ram\n"),
            ("etc/systemd/system/multi-user.target.wants/earlyoom.service", ""),
        ]);
        let read = read(&busy);
        let names: Vec<&str> = read.managers.iter().map(|manager| manager.name).collect();
        assert_eq!(names, ["zram-generator", "earlyoom"]);
    }

    #[test]
    fn a_host_without_files_has_an_empty_configuration() {
        let read = read(&host::<&str>([]));
        assert_eq!((read.settings.len(), read.sysctl_files, read.managers.len()), (0, 0, 0));
        assert!(read.resume_device.value().is_none());
    }
}
