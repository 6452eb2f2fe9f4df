// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of the benchmark at the block layer: every round, and rows of figures computed from the
//! rounds.

use pagewise_model::{BenchRow, Bytes, Compressor, Name, Noise, Reference, Refusal};

use super::cell::Cell;
use super::zram::Filled;

/// What a contestant is: a candidate algorithm or a reference.
#[derive(Debug, Clone, PartialEq)]
pub enum Entrant {
    /// A zram device with one of the candidate algorithms.
    Algorithm {
        /// The compression algorithm.
        candidate: Compressor,
        /// Memory that the pages took with this algorithm.
        filled: Filled,
    },
    /// A reference for comparison with the algorithms.
    Reference {
        /// Name of the reference.
        name: &'static str,
        /// Layer that its requests reach: `block`, `file` or `memory`.
        layer: &'static str,
        /// What the reference shows, in words for the user.
        what: &'static str,
    },
}

/// Results of a run of the block benchmark.
#[derive(Debug)]
pub struct Bench {
    /// All contestants; [`Cell::contestant`] is an index into this list.
    pub entrants: Vec<Entrant>,
    /// All cells, with every round.
    pub cells: Vec<Cell>,
    /// Number of planned rounds that did not fit into the time budget.
    pub rounds_left_out: u32,
    /// Contestants that could not be measured at all, with the reasons.
    pub failures: Vec<Refusal>,
    /// Size of the contents of each device: less than all pages if memory is short.
    pub span: Bytes,
    /// Whether the devices hold less than all pages, because memory is short.
    pub shortened: bool,
    /// Activity of other processes on the machine during the run.
    pub noise: Noise,
    /// Whether the user stopped the run.
    pub stopped: bool,
    pub(super) page: Bytes,
}

impl Bench {
    /// A row for each cell of a candidate algorithm that has figures.
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

    /// A row for each cell of a reference that has figures.
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
