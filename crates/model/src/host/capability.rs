// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Features of the running kernel: which are available, and why the others are not.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Evidence;

/// One feature of the kernel and whether it is available, probed by its file or system call.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Capability {
    /// Stable name of the feature, such as `zram.writeback`.
    pub feature: &'static str,
    /// What the feature is for, as a phrase without a verb.
    pub doc: &'static str,
    /// Whether the feature is available and, if not, what is missing.
    pub state: FeatureState,
    /// The files that were probed.
    pub evidence: Vec<Evidence>,
}

/// Whether a feature is available and, if not, what is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum FeatureState {
    /// The feature's file or system call exists.
    Present,
    /// The feature is in a module in the module folder that is not loaded.
    Loadable {
        /// Name of the module, to pass to `modprobe`.
        module: &'static str,
    },
    /// The kernel was built without the feature.
    NotBuilt {
        /// The configuration option of the kernel that is off.
        option: &'static str,
    },
    /// The kernel was built with the feature, but the feature is switched off.
    Off {
        /// What would switch the feature on, such as `psi=1 on the kernel command line`.
        switch: &'static str,
    },
    /// Pagewise runs in a container; the feature belongs to the host outside.
    OutsideContainer,
    /// The feature exists, but only root may read its state.
    Denied,
    /// The feature is not available, and neither the kernel's configuration nor a module explains
    /// why.
    Missing,
}
