// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What to look at, how much of it, and what looking may cost.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagewise_model::{Bytes, Pages, Percent};

/// Whose pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One process. That it cannot be read is an error.
    Process(u32),
    /// Some processes. One that cannot be read is listed in [`crate::Sample::not_read`].
    Processes(Vec<u32>),
    /// The processes of a memory cgroup and of those below it. The path is below the hierarchy's
    /// root as in [`pagewise_model::Cgroup::path`], or a folder below `/sys/fs/cgroup`.
    Cgroup(String),
    /// Every process that we may read.
    Host,
    /// A regular file, as it is: a memory dump, for example.
    File(PathBuf),
    /// A block device, one in use too. Read past the page cache.
    Device(PathBuf),
    /// An ELF core: the memory in it.
    Core(PathBuf),
}

/// How many pages [`Choice::Precise`] begins with.
pub const PRECISE_FIRST: u64 = 2000;

/// How much of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Choice {
    /// [`PRECISE_FIRST`] pages, after which the caller asks for as many more as it needs.
    #[default]
    Precise,
    /// So many pages.
    Count(u64),
    /// This share of all pages, 0 to 1.
    Share(f64),
    /// Every page, in order of its address. Pages that several processes share are shown once
    /// where the kernel tells us page frames (root).
    Exact,
}

impl Choice {
    /// How many of `population` pages this asks for at first.
    #[must_use]
    pub fn pages_of(self, population: Pages) -> Pages {
        let all = population.get();
        Pages::new(match self {
            Self::Precise => PRECISE_FIRST.min(all),
            Self::Count(count) => count.min(all),
            Self::Share(share) => share_of(share, all),
            Self::Exact => all,
        })
    }
}

/// At least one page of a share that is not nothing.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0..=1 before, and `as` saturates"
)]
fn share_of(share: f64, all: u64) -> u64 {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    ((share * all as f64).ceil() as u64).min(all)
}

/// What [`Choice::Exact`] takes of our own memory: 8 bytes for each page, which the caller needs to
/// find equal pages, and 32 MiB besides.
///
/// [`open`](crate::open) refuses `Exact` where this is more than a quarter of what the host has
/// available, unless the caller is [`bounded`](Options::bounded): who measures memory must not push
/// it out.
#[must_use]
pub const fn exact_needs(population: Pages) -> Bytes {
    Bytes::new(population.get().saturating_mul(8).saturating_add(32 << 20))
}

/// How to look, and how far.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How many pages.
    pub choice: Choice,
    /// Whether the caller keeps what it needs for [`Choice::Exact`] within bounds of its own: then that
    /// is not refused for want of memory.
    pub bounded: bool,
    /// Pages of files too; else only what swap would take: anonymous memory and shmem.
    pub file_backed: bool,
    /// Processes of other users too. The user must have asked for exactly this.
    pub others_allowed: bool,
    /// The same seed draws the same pages of the same memory.
    pub seed: u64,
    /// Time that all of it may take, finding the pages included.
    pub budget: Option<Duration>,
    /// Most processor time, in percent of one processor.
    pub max_cpu: Option<Percent>,
    /// Set by a Ctrl-C, for example: ends the look soon, with what there is.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Options {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_never_asks_for_more_than_there_is() {
        let all = Pages::new(1000);
        let asked = |choice: Choice| choice.pages_of(all).get();
        assert_eq!(asked(Choice::Precise), 1000);
        assert_eq!(asked(Choice::Count(7)), 7);
        assert_eq!(asked(Choice::Count(u64::MAX)), 1000);
        assert_eq!(asked(Choice::Share(0.1)), 100);
        assert_eq!(asked(Choice::Share(0.00001)), 1);
        assert_eq!(asked(Choice::Share(f64::NAN)), 0);
        assert_eq!(asked(Choice::Share(-1.0)), 0);
        assert_eq!(asked(Choice::Share(7.0)), 1000);
        assert_eq!(asked(Choice::Exact), 1000);
    }

    #[test]
    fn exact_takes_eight_bytes_a_page_and_does_not_wrap() {
        assert_eq!(exact_needs(Pages::new(1 << 20)).get(), (8 << 20) + (32 << 20));
        assert_eq!(exact_needs(Pages::new(u64::MAX)).get(), u64::MAX);
    }
}
