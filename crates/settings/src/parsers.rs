// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The readers of configuration files, each with the files that it reads, for fuzzing.

use pagewise_hostfs::parser::{Parser, files, keep};

use crate::{modules, swap_areas, sysctl, tmpfiles, tuned, udev, units, zram_managers};

/// All parsers of this crate.
pub static PARSERS: &[Parser] = &[
    files(
        "configuration",
        &[
            "etc/sysctl.d/99-sysctl.conf",
            "etc/tmpfiles.d/10.conf",
            "etc/udev/rules.d/10.rules",
            "etc/modprobe.d/10.conf",
            "etc/systemd/zram-generator.conf",
            "etc/default/zramswap",
            "etc/fstab",
            "etc/systemd/system/a.service",
            "proc/cmdline",
            "sys/power/resume",
        ],
        |host| keep(crate::read(host)),
    ),
    files(
        "sysctl",
        &[
            "etc/sysctl.d/10-a.conf",
            "usr/lib/sysctl.d/10-a.conf",
            "run/sysctl.d/99-sysctl.conf",
            "etc/sysctl.conf",
            sysctl::BOOTED_BY_SYSTEMD,
        ],
        |host| keep(sysctl::read(host)),
    ),
    files(
        "tmpfiles",
        &["etc/tmpfiles.d/10.conf", "usr/lib/tmpfiles.d/20.conf", "proc/sys/kernel/osrelease"],
        |host| keep(tmpfiles::read(host)),
    ),
    files("udev", &["etc/udev/rules.d/10.rules", "usr/lib/udev/rules.d/20.rules"], |host| {
        keep(udev::read(host));
    }),
    files(
        "modules",
        &["etc/modprobe.d/10.conf", "etc/modules-load.d/10.conf", modules::COMMAND_LINE],
        |host| keep(modules::read(host)),
    ),
    files(
        "zram-managers",
        &[
            "etc/systemd/zram-generator.conf",
            "run/systemd/zram-generator.conf",
            "etc/systemd/zram-generator.conf.d/10.conf",
            zram_managers::GENERATOR,
            zram_managers::ZRAM_TOOLS,
            zram_managers::ZRAMSWAP,
        ],
        |host| keep((zram_managers::read_generator(host), zram_managers::read_zram_tools(host))),
    ),
    files(
        "swap-areas",
        &[
            swap_areas::FSTAB,
            "etc/systemd/system/dev-zram0.swap",
            "etc/systemd/system/swap.target.wants/dev-zram0.swap",
        ],
        |host| keep((swap_areas::read_fstab(host), swap_areas::read_units(host))),
    ),
    files(
        "units",
        &["etc/systemd/system/a.service", "etc/systemd/system/a.service.d/10.conf"],
        |host| keep(units::read(host)),
    ),
    files(
        "tuned",
        &[tuned::UNIT, tuned::ACTIVE, tuned::MAIN, "usr/lib/tuned/virtual-guest/tuned.conf"],
        |host| keep(tuned::read(host)),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// No parser panics on empty input, with which a fuzzer begins, or on invalid bytes.
    #[test]
    fn every_parser_survives_nothing_and_odd_bytes() {
        for parser in PARSERS {
            for input in [&b""[..], b"\xff\xff", b"\xfe\xff\xfd", b"1\xff\x80\xff-1=\xff[zram0]"] {
                parser.run(input);
            }
        }
    }
}
