// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of a report, each with its numbers as text. Values that are not known are not drawn.

mod effective;
mod huge;
mod kills;
mod memory;
mod pressure;
mod ratios;
mod rows;
mod zones;
mod zram;

pub(crate) use effective::effective;
pub(crate) use huge::huge;
pub(crate) use kills::kills;
pub(crate) use memory::memory;
pub(crate) use pressure::pressure;
pub(crate) use ratios::ratios;
pub(crate) use zones::zones;
pub(crate) use zram::{size_classes, zram};
