// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why nothing can be measured.

/// Why nothing was measured. What keeps one contestant from it is a [`Refusal`](pagewise_model::Refusal) or the end of a
/// [`Cell`](super::Cell), not an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pages cannot be read.
    #[error("the pages")]
    Input {
        /// What the system said.
        source: std::io::Error,
    },
    /// There is not one page.
    #[error("expected pages, found not even one")]
    NoPages,
    /// Devices for the least that is worth measuring do not fit into memory.
    #[error(
        "expected {needed} of available memory for {devices} devices of {least}, found {available}"
    )]
    NoRoom {
        /// What they would take.
        needed: pagewise_model::Bytes,
        /// How many.
        devices: usize,
        /// The least span.
        least: pagewise_model::Bytes,
        /// `MemAvailable`.
        available: pagewise_model::Bytes,
    },
}
