// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a machine is set up at boot, as far as a plan has to know it: its init system, its distribution, and
//! the files that a plan may add to.

use std::collections::BTreeMap;

use crate::{Bytes, Disk};

/// How a machine is set up at boot.
#[derive(Debug, Clone, Default)]
pub struct Installation {
    /// Whether systemd runs the machine: `/run/systemd/system` is there.
    pub has_systemd: bool,
    /// Whether zram-generator is installed.
    pub has_generator: bool,
    /// Whether the root file system is a checkout of ostree: `/run/ostree-booted` is there.
    pub is_ostree: bool,
    /// The `ID` of `/etc/os-release`, as `debian`.
    pub distribution: Option<String>,
    /// A hash of `/etc/machine-id`, which is confidential itself: see `pagewise_observe::installation`.
    pub machine_id_hash: Option<String>,
    /// Names of all files in the folders of tmpfiles.d, sorted.
    pub tmpfiles_names: Vec<String>,
    /// The files that a plan of Pagewise may have written, by absolute path, with their contents.
    pub own_files: BTreeMap<String, String>,
    /// Where a plan puts a swap file.
    pub swap_folder: SwapFolder,
}

/// The folder of swap files, and what is under it.
#[derive(Debug, Clone, Default)]
pub struct SwapFolder {
    /// Its disk and file system.
    pub disk: Disk,
    /// Free space, without what is reserved for root; `None` if it was not read, as of a network file system, which
    /// may not answer.
    pub free_bytes: Option<Bytes>,
}
