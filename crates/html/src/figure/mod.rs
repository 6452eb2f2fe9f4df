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

pub(crate) use effective::draw_effective_memory;
pub(crate) use huge::draw_huge_pages;
pub(crate) use kills::draw_kills;
pub(crate) use memory::{class as class_of_use, draw_memory};
pub(crate) use pressure::draw_pressure;
pub(crate) use ratios::draw_ratios;
pub(crate) use zones::draw_zones;
pub(crate) use zram::{draw_size_classes, draw_zram};
