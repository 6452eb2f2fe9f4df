// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the configuration of programs that set up swap in RAM or in a file, and that have no
//! module of their own here. Each program is a row of a table.
//!
//! A row contains the file to edit, and its keys with their units. Most of these files remain when
//! the program is removed, so that a file alone does not show that the program runs. In this case
//! it is not known whether its lines are applied, and [`crate::managers`] does not list the
//! program. Values that a shell would evaluate are reported as they are written.
//!
//! The files and keys are those in each program's own default file: dphys-swapfile of Debian 12;
//! ecdye/zram-config; vaeth/zram-init; foundObjects/zram-swap; armbian/build; pop-os/default-settings;
//! Nefelim4ag/systemd-swap 4; maximumadmin/zramd; package/system/zram-swap of OpenWrt.

use pagewise_hostfs::{HostRoot, ReadHost, absolute_path};
use pagewise_model::{
    Effect, Manager, Mechanism, Name, PersistentSetting, Purpose, Reading, Source, Target,
};

use crate::collector::{Collector, parse_section, split_assignment};
use crate::conf_files::list_in_order;

/// A program that sets up swap.
struct SwapManager {
    name: &'static str,
    purpose: Purpose,
    /// The file to edit. Drop-ins are in a folder of the same name with the suffix `.d`.
    file: &'static str,
    /// Names of services, without suffix, any of which enables the program.
    units: &'static [&'static str],
    /// Other files, any of which enables the program.
    enabled_by: &'static [&'static str],
    /// The keys that are read, with their section if the file has sections, and their units.
    keys: &'static [(&'static str, &'static str)],
    /// The key and the value that switch the program off.
    off: Option<(&'static str, &'static str)>,
}

/// The systemd targets in whose `wants` folder the service of such a program may be.
const TARGETS: [&str; 5] = ["multi-user", "swap", "sysinit", "basic", "local-fs"];

const TABLE: &[SwapManager] = &[
    SwapManager {
        // generates units; zram-generator sets up its device
        name: RPI_SWAP,
        purpose: Purpose::CompressedSwap,
        file: "etc/rpi/swap.conf",
        units: &[],
        enabled_by: &["usr/lib/systemd/system-generators/rpi-swap-generator"],
        keys: &[
            ("Main.Mechanism", ""),
            ("Zram.RamMultiplier", " × RAM"),
            ("Zram.MaxSizeMiB", " MiB"),
            ("Zram.FixedSizeMiB", " MiB"),
            ("File.RamMultiplier", " × RAM"),
            ("File.MaxSizeMiB", " MiB"),
            ("File.FixedSizeMiB", " MiB"),
        ],
        off: Some(("Main.Mechanism", "none")),
    },
    SwapManager {
        name: "dphys-swapfile",
        purpose: Purpose::SwapFile,
        file: "etc/dphys-swapfile",
        units: &["dphys-swapfile"],
        enabled_by: &["etc/rc2.d/S01dphys-swapfile"],
        keys: &[
            ("CONF_SWAPSIZE", " MiB"),
            ("CONF_SWAPFACTOR", " × RAM"),
            ("CONF_MAXSWAP", " MiB"),
            ("CONF_SWAPFILE", ""),
        ],
        off: Some(("CONF_SWAPSIZE", "0")),
    },
    SwapManager {
        // the file is a table of devices and contains no assignments; see `read_ztab`
        name: "zram-config (ztab)",
        purpose: Purpose::CompressedSwap,
        file: ZTAB,
        units: &["zram-config"],
        enabled_by: &[],
        keys: &[],
        off: None,
    },
    SwapManager {
        // used with OpenRC; with systemd, the size is in the unit zram_swap.service and this file
        // is not read
        name: "zram-init",
        purpose: Purpose::CompressedSwap,
        file: "etc/conf.d/zram-init",
        units: &[],
        enabled_by: &["etc/runlevels/boot/zram-init", "etc/runlevels/default/zram-init"],
        keys: &[
            ("num_devices", ""),
            ("type0", ""),
            ("size0", " MiB"),
            ("algo0", ""),
            ("type1", ""),
            ("size1", " MiB"),
            ("algo1", ""),
        ],
        off: Some(("num_devices", "0")),
    },
    SwapManager {
        name: "zram-swap",
        purpose: Purpose::CompressedSwap,
        file: "etc/default/zram-swap",
        units: &["zram-swap"],
        enabled_by: &[],
        keys: &[
            ("_zram_fixedsize", ""),
            ("_zram_fraction", " of RAM"),
            ("_zram_algorithm", ""),
            ("_comp_factor", ""),
        ],
        off: None,
    },
    SwapManager {
        name: "armbian-zram-config",
        purpose: Purpose::CompressedSwap,
        file: "etc/default/armbian-zram-config",
        units: &["armbian-zram-config"],
        enabled_by: &[],
        keys: &[
            ("ENABLED", ""),
            ("SWAP", ""),
            ("ZRAM_PERCENTAGE", " % of RAM"),
            ("MEM_LIMIT_PERCENTAGE", " % of RAM as limit"),
            ("SWAP_ALGORITHM", ""),
        ],
        off: Some(("ENABLED", "false")),
    },
    SwapManager {
        name: "pop-zram",
        purpose: Purpose::CompressedSwap,
        file: "etc/default/pop-zram",
        units: &["pop-default-settings-zram"],
        enabled_by: &[],
        keys: &[("MAX_SIZE", " MiB"), ("PORTION", " % of RAM"), ("ALGO", ""), ("SWAPPINESS", "")],
        off: None,
    },
    SwapManager {
        name: "systemd-swap",
        purpose: Purpose::CompressedSwap,
        file: "etc/systemd/swap.conf",
        units: &["systemd-swap"],
        enabled_by: &[],
        keys: &[
            ("zram_enabled", ""),
            ("zram_size", ""),
            ("zram_alg", ""),
            ("zswap_enabled", ""),
            ("swapfc_enabled", ""),
        ],
        off: None,
    },
    SwapManager {
        name: "zramd",
        purpose: Purpose::CompressedSwap,
        file: "etc/default/zramd",
        units: &["zramd"],
        enabled_by: &[],
        keys: &[("FRACTION", " of RAM"), ("MAX_SIZE", " MiB"), ("ALGORITHM", ""), ("PRIORITY", "")],
        off: None,
    },
    SwapManager {
        name: "OpenWrt's zram-swap",
        purpose: Purpose::CompressedSwap,
        file: "etc/config/system",
        units: &[],
        enabled_by: &["etc/rc.d/S15zram"],
        keys: &[("zram_size_mb", " MiB"), ("zram_comp_algo", ""), ("zram_priority", "")],
        off: None,
    },
];

/// The folder in which systemd finds generators of units.
const GENERATORS: &str = "usr/lib/systemd/system-generators";
/// Name of the swap manager of Raspberry Pi OS.
pub(crate) const RPI_SWAP: &str = "rpi-swap";
/// The configuration file of ecdye/zram-config, which is not the program zram-config of Ubuntu.
pub(crate) const ZTAB: &str = "etc/ztab";
const ZTAB_COLUMNS: [&str; 7] =
    ["type", "algorithm", "mem_limit", "disk_size", "swap_priority", "page-cluster", "swappiness"];

/// Returns the lines in the files of all programs in the table.
pub(crate) fn read(host: &HostRoot) -> Vec<PersistentSetting> {
    TABLE.iter().flat_map(|row| row.read(host)).collect()
}

/// The programs of the table that are enabled and not switched off.
pub(crate) fn managers(host: &HostRoot) -> Vec<Manager> {
    let enabled = |row: &SwapManager| {
        let path = row.enabled_by(host)?;
        let is_off = row.read(host).iter().any(|it| row.is_off(it));
        let source = Source::file(absolute_path(&path));
        let found = Reading::found(Name::from("present"), source);
        (!is_off).then_some(Manager { name: row.name, purpose: row.purpose, found })
    };
    TABLE.iter().filter_map(enabled).collect()
}

impl SwapManager {
    /// Returns the file that enables the program.
    fn enabled_by(&self, host: &HostRoot) -> Option<String> {
        let wanted = |unit: &str| {
            TARGETS.map(|target| format!("etc/systemd/system/{target}.target.wants/{unit}.service"))
        };
        let of_units = self.units.iter().flat_map(|unit| wanted(unit));
        // a recording that contains no generators does not show whether this one exists
        if self.name == RPI_SWAP && !host.exists(GENERATORS) && host.exists(self.file) {
            return Some(self.file.to_owned());
        }
        let mut all = self.enabled_by.iter().map(|&path| path.to_owned()).chain(of_units);
        all.find(|path| host.exists(path))
    }

    fn target(&self, key: &str) -> Target {
        Target::Parameter(Name::from(format!("{} {key}", self.name).as_str()))
    }

    fn is_off(&self, line: &PersistentSetting) -> bool {
        let Some((key, value)) = self.off else { return false };
        let is_value = || line.wanted().split(' ').next() == Some(value);
        line.target == self.target(key) && is_value()
    }

    fn read(&self, host: &HostRoot) -> Vec<PersistentSetting> {
        let mut all = Collector::new(host, Mechanism::SwapManager);
        let effect = if self.enabled_by(host).is_some() {
            Effect::Applied
        } else {
            let why = format!("whether {} is installed and enabled was not seen", self.name);
            Effect::Unknown(why.into())
        };
        if self.file == ZTAB {
            self.read_ztab(&mut all, &effect);
            return all.finish();
        }
        self.read_file(&mut all, self.file, &effect);
        for file in list_in_order(host, &[format!("{}.d", self.file)], ".conf") {
            if file.effect() == Effect::Applied {
                self.read_file(&mut all, &file.path, &effect);
            }
        }
        all.finish()
    }

    fn read_file(&self, all: &mut Collector<'_>, path: &str, effect: &Effect) {
        let mut prefix = String::new();
        all.lines(path, |all, line| {
            if let Some(name) = parse_section(line.bytes) {
                prefix = format!("{}.", String::from_utf8_lossy(name));
                return;
            }
            let Some((key, value)) =
                split_option(line.bytes).or_else(|| split_assignment(line.bytes))
            else {
                return;
            };
            let key = format!("{prefix}{}", String::from_utf8_lossy(key));
            let Some((key, unit)) = self.keys.iter().find(|(known, _)| *known == key) else {
                return;
            };
            let value = remove_quotes(value);
            if !value.is_empty() {
                all.add(self.target(key), &[value, unit.as_bytes()].concat(), line, effect);
            }
        });
    }

    /// Reads `/etc/ztab`, which has a line for each device: `swap lzo-rle 200M 500M 75 0 150`.
    fn read_ztab(&self, all: &mut Collector<'_>, effect: &Effect) {
        all.lines(ZTAB, |all, line| {
            let words: Vec<&[u8]> = line.words().collect();
            if words.first() != Some(&b"swap".as_slice()) {
                return;
            }
            for (column, word) in ZTAB_COLUMNS.iter().zip(&words).skip(1) {
                all.add(self.target(column), word, line, effect);
            }
        });
    }
}

/// Parses a line of OpenWrt's files, such as `option zram_size_mb '128'`.
fn split_option(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.trim_ascii().strip_prefix(b"option")?;
    let rest = rest.first().filter(|byte| byte.is_ascii_whitespace()).map(|_| rest.trim_ascii())?;
    let end = rest.iter().position(u8::is_ascii_whitespace)?;
    Some((&rest[..end], rest[end..].trim_ascii()))
}

/// Returns the value of an assignment in a shell file, without its quotes and without a comment
/// after it.
fn remove_quotes(value: &[u8]) -> &[u8] {
    let end = match value.first() {
        Some(quote @ (b'"' | b'\'')) => {
            let inner = &value[1..];
            return inner.iter().position(|byte| byte == quote).map_or(inner, |end| &inner[..end]);
        }
        _ => memchr::memmem::find(value, b" #").unwrap_or(value.len()),
    };
    value[..end].trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{host, show_all};

    /// For each program: a line of its file, and how the line is reported.
    const PLANTED: &[(&str, &str, &str)] = &[
        (RPI_SWAP, "[Main]\nMechanism=zram+file\n[File]\nMaxSizeMiB=9\n", "File.MaxSizeMiB 9 MiB"),
        ("dphys-swapfile", "CONF_SWAPSIZE=900\n", "CONF_SWAPSIZE 900 MiB"),
        ("zram-config (ztab)", "# x\nswap lz4 100M 300M 75 0 150\n", "disk_size 300M"),
        ("zram-init", "size0=300 # MiB\n", "size0 300 MiB"),
        ("zram-swap", "_zram_fraction=\"1/3\"\n", "_zram_fraction 1/3 of RAM"),
        ("armbian-zram-config", "ZRAM_PERCENTAGE=40\n", "ZRAM_PERCENTAGE 40 % of RAM"),
        ("pop-zram", "MAX_SIZE=3000\n", "MAX_SIZE 3000 MiB"),
        ("systemd-swap", "zram_size=$(( RAM_SIZE / 3 ))\n", "zram_size $(( RAM_SIZE / 3 ))"),
        ("zramd", "MAX_SIZE=700\n", "MAX_SIZE 700 MiB"),
        (
            "OpenWrt's zram-swap",
            "config system\n\toption zram_size_mb '90'\n",
            "zram_size_mb 90 MiB",
        ),
    ];

    #[test]
    fn each_program_is_known_by_its_file_and_counts_if_it_is_enabled() {
        assert_eq!(PLANTED.len(), TABLE.len());
        for (row, (name, text, shown)) in TABLE.iter().zip(PLANTED) {
            assert_eq!(row.name, *name);
            let other = "usr/lib/systemd/system-generators/other";
            let removed = host([(row.file, *text), (other, "")]);
            assert!(managers(&removed).is_empty(), "{name}");
            let lines = show_all(&read(&removed));
            let start = format!("{name} {shown} /{}:", row.file);
            let line = lines.iter().find(|line| line.starts_with(&start));
            assert!(line.unwrap_or_else(|| panic!("{start}: {lines:?}")).contains("unknown: "));
            let unit = row
                .units
                .first()
                .map(|unit| format!("etc/systemd/system/multi-user.target.wants/{unit}.service"));
            let enabled = row.enabled_by.first().map(|&path| path.to_owned());
            let enabled = enabled.or(unit).expect("something enables it");
            let running = host([(row.file, *text), (enabled.as_str(), "")]);
            let found = managers(&running);
            assert_eq!(found.iter().map(|it| it.name).collect::<Vec<_>>(), [*name]);
            assert!(read(&running).iter().all(PersistentSetting::is_applied), "{name}");
        }
    }

    #[test]
    fn what_is_switched_off_does_not_count_and_a_drop_in_is_read() {
        let generator = "usr/lib/systemd/system-generators/rpi-swap-generator";
        let drop_in = ("etc/rpi/swap.conf.d/90.conf", "[Main]\nMechanism=none\n");
        let files = [(generator, ""), ("etc/rpi/swap.conf", "[Main]\n#Mechanism=auto\n")];
        assert_eq!(managers(&host(files)).len(), 1);
        assert!(managers(&host([files[0], files[1], drop_in])).is_empty());
        let armbian = "etc/systemd/system/basic.target.wants/armbian-zram-config.service";
        let off = ("etc/default/armbian-zram-config", "ENABLED=false\n");
        assert!(managers(&host([off, (armbian, "")])).is_empty());
    }
}
