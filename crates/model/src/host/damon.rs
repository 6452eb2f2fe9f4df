// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The use of DAMON (data access monitoring) on a host.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Name, Reading};

/// The users of DAMON on this host: kernel modules and kdamond threads.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Damon {
    /// State of the modules `damon_reclaim`, `damon_lru_sort` and `damon_stat`, without those that
    /// the kernel lacks.
    pub modules: Vec<DamonModule>,
    /// Number of kdamond threads that are configured through sysfs.
    pub kdamonds: Reading<u32>,
    /// State of each configured kdamond thread, such as `on`.
    pub kdamond_states: Vec<Reading<Name>>,
}

/// A kernel module that runs DAMON for one purpose.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct DamonModule {
    /// Name of the module.
    pub name: Name,
    /// Whether the module is running.
    pub enabled: Reading<bool>,
}
