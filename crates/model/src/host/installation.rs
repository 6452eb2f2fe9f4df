// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a machine boots and is configured, as far as a plan depends on it: its init system, its
//! distribution, and the configuration files that a plan may write.

use std::collections::BTreeMap;

use crate::{Bytes, Disk};

/// The init system of a machine, by the way in which it runs scripts at boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InitSystem {
    /// systemd runs: `/run/systemd/system` exists.
    Systemd,
    /// OpenRC, whatever program is PID 1: `/run/openrc` exists.
    OpenRc,
    /// procd of OpenWrt: PID 1 is `procd`, and `/etc/rc.common` exists.
    Procd,
    /// runit with a first stage that runs `/etc/runit/core-services/*.sh`, as in Void Linux.
    RunitCoreServices,
    /// System V init: each `S…` link in `/etc/rcS.d` is run at boot.
    SysV,
    /// Like [`Self::SysV`], but only scripts that `insserv` has registered in
    /// `/etc/init.d/.depend.boot` are run; this is Debian's default.
    SysVRegistered,
    /// busybox init with an `/etc/init.d/rcS` that runs `/etc/init.d/S??*`, as in Buildroot.
    BusyboxScripts,
    /// busybox init with another `/etc/init.d/rcS`.
    BusyboxRcs,
    /// None of these init systems was recognized, or the files were not read, as in a recording.
    #[default]
    Unknown,
}

/// How a machine is set up at boot.
#[derive(Debug, Clone, Default)]
pub struct Installation {
    /// Whether systemd is the init system: `/run/systemd/system` exists.
    pub has_systemd: bool,
    /// The init system.
    pub init: InitSystem,
    /// The script that reads `/etc/sysctl.d` at boot, if the init system is not systemd and the
    /// script is enabled.
    pub sysctl_reader: Option<String>,
    /// Whether the script of a plan is started by a file that only the machine's owner edits.
    /// Matters only for init systems whose own files a plan does not change.
    pub starts_own_script: bool,
    /// Whether an update of the system deletes files in `/etc` that are not listed in
    /// `/etc/atomic-update.conf.d` (SteamOS 3.6 and later).
    pub has_keep_list: bool,
    /// Whether zram-generator is installed.
    pub has_generator: bool,
    /// Whether the root file system is managed by OSTree: `/run/ostree-booted` exists.
    pub is_ostree: bool,
    /// The `ID` of `/etc/os-release`, such as `debian`.
    pub distribution: Option<String>,
    /// A hash of `/etc/machine-id`, which itself must be kept confidential: see
    /// `pagewise_observe::installation`.
    pub machine_id_hash: Option<String>,
    /// Names of all files in the folders of tmpfiles.d, sorted.
    pub tmpfiles_names: Vec<String>,
    /// Contents of the configuration files that plans of Pagewise may have written, by absolute
    /// path.
    pub own_files: BTreeMap<String, String>,
    /// The folder in which a plan creates swap files.
    pub swap_folder: SwapFolder,
}

/// The folder in which a plan creates swap files, and the disk it is on.
#[derive(Debug, Clone, Default)]
pub struct SwapFolder {
    /// The disk and the file system that the folder is on.
    pub disk: Disk,
    /// Free space in the folder, without what is reserved for root; `None` if it was not read, for
    /// example because a network file system may not answer.
    pub free_bytes: Option<Bytes>,
}
