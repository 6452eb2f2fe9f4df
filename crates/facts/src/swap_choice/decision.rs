// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Input and result of the decision between zram and zswap.

use pagewise_model::{Bytes, Name};

/// How swapped pages are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Swap on a device in compressed RAM.
    Zram,
    /// Swap on a disk, with zswap and its shrinker in front of it.
    Zswap,
    /// Swapped pages are not compressed: the data does not compress, the kernel has neither zram
    /// nor zswap, or swap is managed by something else.
    Neither,
}

/// Measurements on this machine and the user's goal; each field may be missing.
#[derive(Debug, Clone, Default)]
pub struct SwapEvidence {
    /// Compression ratio of the memory in use: original bytes per byte of memory used.
    pub ratio: Option<f64>,
    /// Share of the measured pages that do not compress, 0 to 1.
    pub incompressible: Option<f64>,
    /// Share of the measured pages that were not used recently, 0 to 1.
    pub cold: Option<f64>,
    /// The result of a trial of zram against zswap with the user's own command.
    pub trial: Option<SwapTrial>,
    /// Compression algorithm and size of a zram device, if a measurement determined them.
    pub zram: Option<(Name, Bytes)>,
    /// Whether using little memory is more important than using little CPU time.
    pub is_density_wanted: bool,
}

/// A trial of zram against zswap with a clear result.
#[derive(Debug, Clone)]
pub struct SwapTrial {
    /// Whether zram or zswap performed better.
    pub better: Compression,
    /// The result of the trial, as a sentence without its full stop.
    pub told: String,
}

/// The settings of zswap that a decision contains.
#[derive(Debug, Clone, PartialEq)]
pub struct ZswapSettings {
    /// Name of the compressor in the kernel's crypto API.
    pub compressor: Name,
    /// Limit of the size of zswap's pool, in percent of RAM.
    pub max_pool_percent: u64,
    /// Whether the kernel has zswap's shrinker; if so, it should be enabled.
    pub has_shrinker: bool,
}

/// The decision between zram and zswap, and its reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct SwapDecision {
    /// The choice between zram and zswap; `None` if it is undecided.
    pub choice: Option<Compression>,
    /// The main reason for the choice, and the main argument against it, in two sentences.
    pub why: String,
    /// What would change the decision, in a sentence.
    pub changes: String,
    /// Compression algorithm and size of the zram device to create, if zram is chosen.
    pub zram: (Name, Bytes),
    /// Settings of zswap, if zswap is chosen.
    pub zswap: ZswapSettings,
    /// The command that measures zram and zswap with the user's own program; `None` if the kernel
    /// lacks one of the two.
    pub trial: Option<String>,
}

impl SwapDecision {
    /// Text to follow a colon: the reason, what would change the decision, and how to measure it.
    #[must_use]
    pub fn argument(&self) -> String {
        // the text follows a colon, so it starts in lower case
        let mut letters = self.why.chars();
        let first = letters.next().map(|letter| letter.to_ascii_lowercase());
        let why: String = first.into_iter().chain(letters).collect();
        format!("{why} {}", self.next())
    }

    /// Returns what would change the decision, and how to measure it, as text.
    #[must_use]
    pub fn next(&self) -> String {
        let Some(trial) = &self.trial else { return self.changes.trim_end_matches('.').to_owned() };
        format!(
            "{} To measure both with a program CMD that needs more memory than there is: `{trial}`",
            self.changes
        )
    }
}

/// The decision and its reasons, without settings.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) choice: Option<Compression>,
    pub(crate) why: String,
    pub(crate) changes: String,
}
