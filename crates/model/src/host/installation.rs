// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a machine is set up at boot, as far as a plan depends on it: its init system, its
//! distribution, and the configuration files that a plan may write.

use std::collections::BTreeMap;

use crate::{Bytes, Disk};

/// How a machine is set up at boot.
#[derive(Debug, Clone, Default)]
pub struct Installation {
    /// Whether systemd is the init system: `/run/systemd/system` exists.
    pub has_systemd: bool,
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
