// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure that compares the memory in use with the memory that would be in use without
//! compression.

use pagewise_model::{Bytes, EffectiveMemory};

use super::rows::{Bar, ROOM, Rows};
use crate::svg::length;

/// Draws the memory that programs use, at its uncompressed size, and the RAM. `None` if nothing is
/// stored compressed, because both bars would be equal.
pub(crate) fn draw_effective_memory(memory: &EffectiveMemory) -> Option<String> {
    if memory.stored.get() == 0 {
        return None;
    }
    let most = memory.uncompressed_size().max(memory.ram).get();
    let scaled = |bytes: Bytes| length(bytes.get(), most, ROOM);
    let plain = memory.in_use.saturating_sub(memory.pool);
    let mut rows = Rows::default();
    let mut row = |name: &str, pieces, value: String| {
        rows.push(Bar { name: name.to_owned(), pieces, value });
    };
    row("RAM", vec![("f-rest", scaled(memory.ram))], memory.ram.to_string());
    row(
        "in use",
        vec![("f-anon", scaled(plain)), ("f-compressed", scaled(memory.pool))],
        format!("{}, pool {}", memory.in_use, memory.pool),
    );
    row(
        "uncompressed",
        vec![("f-anon", scaled(plain)), ("f-compressed", scaled(memory.stored))],
        format!("{}, stored {}", memory.uncompressed_size(), memory.stored),
    );
    rows.draw("Memory in use, with and without compression")
}
