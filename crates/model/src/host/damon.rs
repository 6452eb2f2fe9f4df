// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DAMON: data access monitoring.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Name, Reading};

/// What uses DAMON on this host.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Damon {
    /// `damon_reclaim`, `damon_lru_sort`, `damon_stat`.
    pub modules: Vec<DamonModule>,
    /// Number of kdamond threads that are configured through sysfs.
    pub kdamonds: Reading<u32>,
    /// State of each of these threads, such as `on`.
    pub kdamond_states: Vec<Reading<Name>>,
}

/// A module that runs DAMON for one purpose.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct DamonModule {
    /// The module's name.
    pub name: Name,
    /// Whether it is running.
    pub enabled: Reading<bool>,
}
