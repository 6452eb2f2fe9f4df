// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a decision between zram and zswap takes into account, and what it says.

use pagewise_model::{Bytes, Name};

/// What compresses swapped pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Swap on a device in compressed RAM.
    Zram,
    /// zswap with its shrinker, in front of swap on a disk.
    Zswap,
    /// Nothing: the data does not compress, the kernel has neither, or swap belongs to somebody else.
    Neither,
}

/// What was measured on this machine and what it is wanted for; all of it may be missing.
#[derive(Debug, Clone, Default)]
pub struct SwapEvidence {
    /// Original bytes per byte of memory used, of the memory in use.
    pub ratio: Option<f64>,
    /// Share of pages that do not compress, 0 to 1.
    pub incompressible: Option<f64>,
    /// Share of pages that nobody used lately, 0 to 1.
    pub cold: Option<f64>,
    /// What a trial of the user's own command showed.
    pub trial: Option<SwapTrial>,
    /// Algorithm and size that were chosen for zram by a measurement.
    pub zram: Option<(Name, Bytes)>,
    /// Whether little memory counts more than little CPU time.
    pub is_density_wanted: bool,
}

/// A trial of zram against zswap in which one was better.
#[derive(Debug, Clone)]
pub struct SwapTrial {
    /// The better one.
    pub better: Compression,
    /// What was measured, in a sentence without its full stop.
    pub told: String,
}

/// Settings of zswap.
#[derive(Debug, Clone, PartialEq)]
pub struct ZswapSettings {
    /// Name of the crypto API.
    pub compressor: Name,
    /// The largest pool, in percent of RAM.
    pub max_pool_percent: u64,
    /// Whether the kernel has a shrinker, which is to be on.
    pub has_shrinker: bool,
}

/// zram or zswap, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct SwapDecision {
    /// `None` if it is not decided.
    pub choice: Option<Compression>,
    /// The reason and what speaks against it, in two sentences.
    pub why: String,
    /// What would change the decision, in a sentence.
    pub changes: String,
    /// Algorithm and size of a zram device, if one is made.
    pub zram: (Name, Bytes),
    /// Settings of zswap, if it is used.
    pub zswap: ZswapSettings,
    /// The command that measures both with the user's own program; `None` if the kernel lacks one of them.
    pub trial: Option<String>,
}

impl SwapDecision {
    /// The reason, what would change the decision, and how to measure it, as the text behind a colon.
    #[must_use]
    pub fn argument(&self) -> String {
        // it stands behind a colon
        let mut letters = self.why.chars();
        let first = letters.next().map(|letter| letter.to_ascii_lowercase());
        let why: String = first.into_iter().chain(letters).collect();
        format!("{why} {}", self.next())
    }

    /// What would change the decision, and how to measure it.
    #[must_use]
    pub fn next(&self) -> String {
        let Some(trial) = &self.trial else { return self.changes.trim_end_matches('.').to_owned() };
        format!(
            "{} To measure both with a program CMD that needs more memory than there is: `{trial}`",
            self.changes
        )
    }
}

/// An answer without the settings that go with it.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) choice: Option<Compression>,
    pub(crate) why: String,
    pub(crate) changes: String,
}
