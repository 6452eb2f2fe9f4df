// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of the block path: every round, and rows of figures computed from them.

use pagewise_model::{BenchRow, Bytes, Compressor, Name, Noise, Reference, Refusal};

use super::cell::Cell;
use super::zram::Filled;

/// What a contestant is.
#[derive(Debug, Clone, PartialEq)]
pub enum Entrant {
    /// One of the candidate algorithms.
    Algorithm {
        /// The algorithm.
        candidate: Compressor,
        /// Memory that the pages took.
        filled: Filled,
    },
    /// A reference for comparison.
    Reference {
        /// Its name.
        name: &'static str,
        /// `block`, `file` or `memory`.
        layer: &'static str,
        /// A description.
        what: &'static str,
    },
}

/// Results of a run.
#[derive(Debug)]
pub struct Bench {
    /// [`Cell::contestant`] is an index into this.
    pub entrants: Vec<Entrant>,
    /// All cells, with every round.
    pub cells: Vec<Cell>,
    /// Number of rounds that did not fit into the budget.
    pub rounds_left_out: u32,
    /// Contestants that could not be measured at all.
    pub failures: Vec<Refusal>,
    /// Size of the contents of each device: less than all pages if memory is short.
    pub span: Bytes,
    /// Whether the span is less than all pages.
    pub shortened: bool,
    /// Other activity of the machine.
    pub noise: Noise,
    /// Whether the user stopped it.
    pub stopped: bool,
    pub(super) page: Bytes,
}

impl Bench {
    /// Rows of the algorithms that have figures.
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

    /// Rows of the references that have figures.
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
