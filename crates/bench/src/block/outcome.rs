// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What came of the block path: every round, and rows of figures made of them.

use pagewise_model::{BenchRow, Bytes, Compressor, Name, Noise, Reference, Refusal};

use super::cell::Cell;
use super::zram::Filled;

/// What a contestant is.
#[derive(Debug, Clone, PartialEq)]
pub enum Entrant {
    /// One of the candidates.
    Algorithm {
        /// Which.
        candidate: Compressor,
        /// What the pages took.
        filled: Filled,
    },
    /// Something to compare with.
    Reference {
        /// Its name.
        name: &'static str,
        /// `block`, `file` or `memory`.
        layer: &'static str,
        /// What it is and shows.
        what: &'static str,
    },
}

/// What came of it.
#[derive(Debug)]
pub struct Bench {
    /// [`Cell::contestant`] is a place in here.
    pub entrants: Vec<Entrant>,
    /// Every round of every shape of each.
    pub cells: Vec<Cell>,
    /// Rounds that did not fit into the time.
    pub rounds_left_out: u32,
    /// What could not be measured at all.
    pub failures: Vec<Refusal>,
    /// What the devices held: less than all pages where memory was short.
    pub span: Bytes,
    /// Whether it was.
    pub shortened: bool,
    /// What else the machine did.
    pub noise: Noise,
    /// Whether the user stopped it.
    pub stopped: bool,
    pub(super) page: Bytes,
}

impl Bench {
    /// Of the algorithms, those that have figures.
    #[must_use]
    pub fn rows(&self) -> Vec<BenchRow> {
        let row = |cell: &Cell| {
            let Entrant::Algorithm { candidate, filled } = &self.entrants[cell.contestant] else {
                return None;
            };
            Some(BenchRow {
                compressor: candidate.clone(),
                shape: cell.shape,
                figures: cell.figures(self.page)?,
                original_per_compressed: filled.original_per_compressed,
                memory_used_bytes: filled.memory_used,
            })
        };
        self.cells.iter().filter_map(row).collect()
    }

    /// Of what stands beside them, those that have figures.
    #[must_use]
    pub fn references(&self) -> Vec<Reference> {
        let row = |cell: &Cell| {
            let Entrant::Reference { name, layer, what } = self.entrants[cell.contestant] else {
                return None;
            };
            let [name, layer, what] = [name, layer, what].map(Name::from);
            let figures = cell.figures(self.page)?;
            Some(Reference { name, layer, what, shape: cell.shape, figures })
        };
        self.cells.iter().filter_map(row).collect()
    }
}
