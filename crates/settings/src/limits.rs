// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits on the number of configuration files and of lines that are read. `docs/reading-limits.md`
//! lists them together with those of `pagewise-observe`.

pagewise_hostfs::limit_table! {
    CONFIG_FILES = 512,
        "configuration files of one kind, such as `sysctl.d` or `zram-generator.conf.d`", "/etc/sysctl.d and the like",
        "the last by name, because they win; a problem says how many there are";
    CONFIG_LINES = 10_000,
        "lines of one configuration file", "/etc/sysctl.d and the like",
        "the first; a problem says how many there are";
    CONFIG_SETTINGS = 1000,
        "settings in all configuration files of one kind together", "/etc/sysctl.d and the like",
        "those read last, because they win; a problem says how many there are";
    UNIT_FILES = 512,
        "units of systemd, and drop-ins of one unit, that the administrator wrote",
        "/etc/systemd/system, /run/systemd/system, and system.control in /etc/systemd and /run/systemd",
        "the last by name; a problem says how many there are";
    TUNED_PROFILES = 16,
        "profiles of tuned that include each other", "/etc/tuned and /usr/lib/tuned",
        "the first";
}
