// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Assigns numbers to names, in the order in which each name first occurs.

use std::collections::HashMap;

/// The names that have occurred so far, with their numbers.
#[derive(Debug, Default)]
pub(super) struct Aliases(HashMap<Vec<u8>, usize>);

impl Aliases {
    pub(super) fn number(&mut self, name: &[u8]) -> usize {
        let next = self.0.len() + 1;
        *self.0.entry(name.to_vec()).or_insert(next)
    }
}
