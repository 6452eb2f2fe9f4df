// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons for which a benchmark at the block layer cannot measure anything.

/// Why a whole run measured nothing. If only one contestant cannot be measured, that is not an
/// error: the reason is a [`Refusal`](pagewise_model::Refusal), or in
/// [`Cell::ended`](super::Cell::ended).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file of pages cannot be read.
    #[error("the pages")]
    Input {
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The caller's input holds no complete page.
    #[error("expected pages, found not even one")]
    NoPages,
    /// Memory is too small for devices with the minimum span.
    #[error(
        "expected {needed} of available memory for {devices} devices of {least}, found {available}"
    )]
    NoRoom {
        /// Memory that the devices would need.
        needed: pagewise_model::Bytes,
        /// Number of devices and references.
        devices: usize,
        /// The smallest amount of pages that is worth measuring.
        least: pagewise_model::Bytes,
        /// `MemAvailable` of the host.
        available: pagewise_model::Bytes,
    },
}
