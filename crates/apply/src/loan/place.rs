// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The places where a plan may write configuration: one table for `apply` and `undo`.
//!
//! A plan is a document that somebody may have edited, and a journal may have been forged. Neither
//! can make root write anywhere else, or to a file name that a service unrelated to memory would
//! read.

use crate::loan::file;
use crate::loan::run::{OURS, is_ours};

/// A place for files of a plan: a folder, the suffix of allowed names in it, and a further
/// condition on the name.
struct Place {
    folder: &'static str,
    suffix: &'static str,
    name: fn(&str) -> bool,
}

const fn any_name(_name: &str) -> bool {
    true
}

fn is_own(name: &str) -> bool {
    name.contains("pagewise")
}

/// Whether this is the swap unit of a zram device; systemd derives its name from the device's path.
fn is_zram_swap(name: &str) -> bool {
    name.strip_prefix("dev-zram")
        .is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()))
}

/// Whether a unit of this name sets up or manages swap.
fn is_about_swap(name: &str) -> bool {
    is_own(name) || name.contains("zram") || name.contains("swap")
}

const UNITS: &str = "/etc/systemd/system";

const fn conf_place(folder: &'static str) -> Place {
    Place { folder, suffix: ".conf", name: any_name }
}

const fn unit_place(suffix: &'static str, name: fn(&str) -> bool) -> Place {
    Place { folder: UNITS, suffix, name }
}

/// A place for a single file name: a start script, or the list of files that an update of SteamOS
/// keeps.
const fn single_file_place(
    folder: &'static str,
    name: &'static str,
    is_it: fn(&str) -> bool,
) -> Place {
    Place { folder, suffix: name, name: is_it }
}

/// The start scripts of plans, and the links that enable them: path and target.
const START_LINKS: [(&str, &str); 3] = [
    ("/etc/runlevels/boot/pagewise", "/etc/init.d/pagewise"),
    ("/etc/rcS.d/S99pagewise", "../init.d/pagewise"),
    ("/etc/rc.d/S90pagewise", "../init.d/pagewise"),
];

fn is_start_script(name: &str) -> bool {
    matches!(name, "pagewise" | "S99pagewise")
}

fn is_core_service(name: &str) -> bool {
    name == "99-pagewise.sh"
}

fn is_keep_list(name: &str) -> bool {
    name == "pagewise.conf"
}

const FILES: [Place; 14] = [
    single_file_place("/etc/init.d", "pagewise", is_start_script),
    single_file_place("/etc/runit/core-services", "99-pagewise.sh", is_core_service),
    single_file_place("/etc/atomic-update.conf.d", "pagewise.conf", is_keep_list),
    conf_place("/etc/sysctl.d"),
    conf_place("/etc/tmpfiles.d"),
    conf_place("/etc/modules-load.d"),
    conf_place("/etc/modprobe.d"),
    conf_place("/etc/systemd/zram-generator.conf.d"),
    Place { folder: "/etc/udev/rules.d", suffix: ".rules", name: any_name },
    Place { folder: "/etc/systemd", suffix: "zram-generator.conf", name: is_generator },
    unit_place(".service", is_own),
    unit_place(".timer", is_own),
    unit_place(".swap", is_own),
    unit_place(".swap", is_zram_swap),
];

fn is_generator(name: &str) -> bool {
    name == "zram-generator.conf"
}

/// Folders in which links to `/dev/null` disable a file or unit of the system.
const MASKS: [Place; 6] = [
    conf_place("/etc/sysctl.d"),
    conf_place("/etc/tmpfiles.d"),
    Place { folder: "/etc/udev/rules.d", suffix: ".rules", name: any_name },
    Place { folder: "/etc/systemd", suffix: "zram-generator.conf", name: is_generator },
    Place { folder: UNITS, suffix: "", name: is_about_swap },
    Place { folder: "/etc/systemd/system-generators", suffix: "", name: is_about_swap },
];

const LISTED: &str = "configuration is written only to /etc/sysctl.d, /etc/tmpfiles.d, \
    /etc/modules-load.d, /etc/modprobe.d, /etc/udev/rules.d, /etc/systemd/zram-generator.conf(.d), in \
    /etc/systemd/system to units named pagewise-…, dev-zramN.swap, and drop-ins with pagewise in their name, \
    and to the start scripts /etc/init.d/pagewise, /etc/init.d/S99pagewise and \
    /etc/runit/core-services/99-pagewise.sh, and /etc/atomic-update.conf.d/pagewise.conf";

/// Refuses a path at which a plan may not write a file or make a link, with the reason.
pub(crate) fn check_path(path: &str, is_link: bool) -> Result<(), String> {
    let (folder, name) = split_path(path)?;
    let is_known = if is_link {
        MASKS.iter().any(|place| place.has(folder, name))
            || is_link_of_own_unit(folder, name)
            || START_LINKS.iter().any(|(link, _)| *link == path)
    } else {
        FILES.iter().any(|place| place.has(folder, name)) || is_own_drop_in(folder, name)
    };
    if is_known { Ok(()) } else { Err(LISTED.to_owned()) }
}

/// Refuses a target to which a plan may not make a link, with the reason.
pub(crate) fn check_target(path: &str, to: &str) -> Result<(), String> {
    let (folder, name) = split_path(path)?;
    if to == "/dev/null" {
        let is_known = MASKS.iter().any(|place| place.has(folder, name));
        return if is_known { Ok(()) } else { Err(LISTED.to_owned()) };
    }
    if START_LINKS.contains(&(path, to)) {
        return Ok(());
    }
    let folders =
        ["../", "/etc/systemd/system/", "/usr/lib/systemd/system/", "/lib/systemd/system/"];
    let unit = folders.iter().find_map(|folder| to.strip_prefix(folder));
    if is_link_of_own_unit(folder, name) && unit == Some(name) {
        return Ok(());
    }
    Err(format!(
        "expected a link to /dev/null, to a start script of a plan, or in a .wants folder to the unit {name}, found {to}"
    ))
}

/// Refuses a folder that a plan may not create; the error is the reason.
pub(crate) fn check_folder(path: &str) -> Result<(), String> {
    let (above, name) = split_path(path)?;
    let is_listed = FILES.iter().any(|place| place.folder == path);
    let is_of_units =
        above == UNITS && (is_wants_folder(name) || name.strip_suffix(".d").is_some_and(is_unit));
    if is_listed || is_of_units || path == UNITS { Ok(()) } else { Err(LISTED.to_owned()) }
}

impl Place {
    fn has(&self, folder: &str, name: &str) -> bool {
        self.folder == folder && name.ends_with(self.suffix) && (self.name)(name)
    }
}

fn is_unit(name: &str) -> bool {
    [".service", ".swap", ".slice", ".scope", ".target", ".timer", ".socket", ".mount"]
        .iter()
        .any(|suffix| name.ends_with(suffix))
}

/// Whether a path is that of a plan's drop-in file, `UNIT.d/50-pagewise.conf`.
fn is_own_drop_in(folder: &str, name: &str) -> bool {
    let unit = folder.strip_prefix(UNITS).and_then(|it| it.strip_prefix('/')?.strip_suffix(".d"));
    unit.is_some_and(|unit| !unit.contains('/') && is_unit(unit))
        && is_own(name)
        && name.ends_with(".conf")
}

fn is_wants_folder(name: &str) -> bool {
    [".wants", ".requires"].iter().any(|suffix| name.strip_suffix(suffix).is_some_and(is_unit))
}

/// Whether a link is one to a unit of ours, or to a swap unit of zram, in the `.wants` folder of
/// another unit.
fn is_link_of_own_unit(folder: &str, name: &str) -> bool {
    let above = folder.strip_prefix(UNITS).and_then(|it| it.strip_prefix('/'));
    above.is_some_and(|above| !above.contains('/') && is_wants_folder(above))
        && is_unit(name)
        && (is_own(name) || is_zram_swap(name))
}

/// Refuses a path at which a plan may not create a swap file, with the reason.
pub(crate) fn check_swap_file(path: &str) -> Result<(), String> {
    const FOLDER: &str = "/var";
    let (folder, _) = split_path(path)?;
    if folder == FOLDER && is_ours(path, file::KIND) {
        return Ok(());
    }
    Err(format!("a swap file of a plan is called {FOLDER}/{OURS}{}NUMBER", file::KIND))
}

const MAX_NAME: usize = 200;

/// Splits a path into folder and name; refuses parts such as `..` that could lead elsewhere.
fn split_path(path: &str) -> Result<(&str, &str), String> {
    let strange = |part: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@:\\".contains(&byte);
        part.is_empty()
            || part.starts_with('.')
            || part.len() > MAX_NAME
            || !part.bytes().all(is_plain)
    };
    let parts = path.strip_prefix('/').ok_or("expected an absolute path")?;
    if parts.split('/').any(strange) {
        return Err("expected a path of plain names: letters, digits, and - _ . @ : \\".to_owned());
    }
    path.rsplit_once('/').ok_or_else(|| LISTED.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_to_known_places_only() {
        for path in [
            "/etc/sysctl.d/90-pagewise.conf",
            "/etc/tmpfiles.d/pagewise.conf",
            "/etc/udev/rules.d/60-zram.rules",
            "/etc/systemd/zram-generator.conf",
            "/etc/systemd/zram-generator.conf.d/x.conf",
            "/etc/systemd/system/pagewise-zram0.service",
            "/etc/systemd/system/dev-zram0.swap",
            "/etc/systemd/system/system.slice.d/50-pagewise.conf",
            "/etc/init.d/pagewise",
            "/etc/init.d/S99pagewise",
            "/etc/runit/core-services/99-pagewise.sh",
            "/etc/atomic-update.conf.d/pagewise.conf",
        ] {
            assert_eq!(check_path(path, false), Ok(()), "{path}");
        }
        for path in [
            "/etc/passwd",
            "/etc/fstab",
            "/etc/sysctl.d/../passwd.conf",
            "/etc/sysctl.d//x.conf",
            "/etc/sysctl.d/.x.conf",
            "/etc/sysctl.d/x",
            "/etc/sysctl.d/a/x.conf",
            "etc/sysctl.d/x.conf",
            "/etc/systemd/system/ssh.service",
            "/etc/systemd/system/ssh.service.d/x.conf",
            "/etc/systemd/system.conf",
            "/etc/init.d/ssh",
            "/etc/init.d/S98pagewise",
            "/etc/init.d/rcS",
            "/etc/rc.local",
            "/etc/runit/core-services/98-pagewise.sh",
            "/etc/atomic-update.conf.d/pagewise-x.conf",
            "/etc/runlevels/boot/pagewise",
            "/usr/lib/sysctl.d/x.conf",
            "/etc/sysctl.d/x\n.conf",
            "",
            "/",
        ] {
            assert!(check_path(path, false).is_err(), "{path}");
        }
    }

    #[test]
    fn links_mask_managers_of_swap_or_enable_units_of_ours() {
        let unit = "/etc/systemd/system/systemd-zram-setup@zram0.service";
        let wanted = "/etc/systemd/system/swap.target.wants/pagewise-zram0.service";
        assert_eq!(check_target(unit, "/dev/null"), Ok(()));
        assert_eq!(check_target(wanted, "../pagewise-zram0.service"), Ok(()));
        for (path, to) in [
            ("/etc/systemd/system/ssh.service", "/dev/null"),
            (unit, "/etc/passwd"),
            (wanted, "../other.service"),
            (wanted, "../../pagewise-zram0.service"),
            ("/etc/systemd/system/multi-user.target.wants/ssh.service", "../ssh.service"),
        ] {
            assert!(check_target(path, to).is_err(), "{path} {to}");
        }
        for (path, to) in START_LINKS {
            assert_eq!(
                (check_path(path, true), check_target(path, to)),
                (Ok(()), Ok(())),
                "{path}"
            );
            assert!(check_target(path, "/etc/passwd").is_err(), "{path}");
            assert!(check_path(path, false).is_err(), "{path}");
        }
        assert!(check_path("/etc/rcS.d/S01pagewise", true).is_err());
        assert_eq!(check_folder("/etc/systemd/system/system.slice.d"), Ok(()));
        assert_eq!(check_folder("/etc/sysctl.d"), Ok(()));
        assert!(check_folder("/etc/x").is_err() && check_folder("/etc/../x").is_err());
    }

    #[test]
    fn swap_files_are_in_one_folder_and_have_our_name() {
        assert_eq!(check_swap_file("/var/pagewise-swap-0"), Ok(()));
        for path in [
            "/var/swapfile",
            "/var/pagewise-swap-x",
            "/var/lib/pagewise-swap-0",
            "/etc/cron.d/pagewise-swap-0",
            "/var/../etc/pagewise-swap-0",
            "var/pagewise-swap-0",
            "/pagewise-swap-0",
        ] {
            assert!(check_swap_file(path).is_err(), "{path}");
        }
    }
}
