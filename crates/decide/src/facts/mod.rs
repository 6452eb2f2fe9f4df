// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What several rules need to know of a host. No judgement about what to do stands here.

pub(crate) mod advice;
pub(crate) mod commit;
pub(crate) mod groups;
pub(crate) mod growth;
pub(crate) mod memory_files;
pub(crate) mod pressure;
pub(crate) mod protection;
pub(crate) mod reclaim;
pub(crate) mod room;
pub(crate) mod settings;
pub(crate) mod spared;
pub(crate) mod swappiness;
pub(crate) mod tiers;
pub(crate) mod zones;
