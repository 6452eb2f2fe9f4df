// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this kernel can do, and why it cannot do the rest.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Evidence;

/// One feature of the kernel, probed by its file.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Capability {
    /// Stable name, as `zram.writeback`.
    pub feature: &'static str,
    /// What it is good for, in half a sentence.
    pub doc: &'static str,
    /// Whether it is there.
    pub state: FeatureState,
    /// What was looked at.
    pub evidence: Vec<Evidence>,
}

/// Whether a feature is there, and what is missing where it is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum FeatureState {
    /// Its file or call exists.
    Present,
    /// A module would bring it: it lies in the module folder and is not loaded.
    Loadable {
        /// What to give to modprobe.
        module: &'static str,
    },
    /// The kernel was built without it.
    NotBuilt {
        /// The configuration option that is off.
        option: &'static str,
    },
    /// The kernel was built with it, and it is switched off.
    Off {
        /// What would switch it on, as `psi=1 on the kernel command line`.
        switch: &'static str,
    },
    /// We are in a container: the feature belongs to the host outside.
    OutsideContainer,
    /// It exists and only root may look.
    Denied,
    /// Not there, and neither the configuration nor a module says why.
    Missing,
}
