// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Features of this kernel: which are available, and why the others are not.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Evidence;

/// One feature of the kernel, probed by its file or system call.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Capability {
    /// Stable name, as `zram.writeback`.
    pub feature: &'static str,
    /// What it is for, in half a sentence.
    pub doc: &'static str,
    /// Whether it is available.
    pub state: FeatureState,
    /// The files that were probed.
    pub evidence: Vec<Evidence>,
}

/// Whether a feature is available and, if not, what is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum FeatureState {
    /// Its file or call exists.
    Present,
    /// A module in the module folder provides it, and the module is not loaded.
    Loadable {
        /// The name to pass to `modprobe`.
        module: &'static str,
    },
    /// The kernel was built without it.
    NotBuilt {
        /// The configuration option that is off.
        option: &'static str,
    },
    /// The kernel was built with it, and it is switched off.
    Off {
        /// What would switch it on, such as `psi=1 on the kernel command line`.
        switch: &'static str,
    },
    /// Pagewise runs in a container; the feature belongs to the host outside.
    OutsideContainer,
    /// It exists, and only root may read its state.
    Denied,
    /// Not available, and neither the kernel's configuration nor a module explains why.
    Missing,
}
