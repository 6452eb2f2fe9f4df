// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What to sample, how much of it, and limits on the cost of sampling.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagewise_model::{Bytes, Pages, Percent};

/// Whose pages are sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One process, by its pid. It is an error if the process cannot be read.
    Process(u32),
    /// Several processes, by their pids. A process that cannot be read is listed in
    /// [`crate::Sample::not_read`].
    Processes(Vec<u32>),
    /// The processes of a memory cgroup and its descendants. The path is relative to the
    /// hierarchy's root as in [`pagewise_model::Cgroup::path`], or a folder below `/sys/fs/cgroup`.
    Cgroup(String),
    /// Every process that the calling process may read.
    Host,
    /// The contents of a regular file, such as a memory dump, taken as they are.
    File(PathBuf),
    /// The contents of a block device, even if it is in use; read with O_DIRECT.
    Device(PathBuf),
    /// The memory that an ELF core dump contains.
    Core(PathBuf),
}

/// Number of pages that [`Choice::Precise`] samples first.
pub const PRECISE_FIRST: u64 = 2000;

/// How many pages of the target are sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Choice {
    /// Samples [`PRECISE_FIRST`] pages at first; the caller then requests as many more as its
    /// precision needs.
    #[default]
    Precise,
    /// Samples this number of pages.
    Count(u64),
    /// Samples this fraction of all pages, from 0 to 1.
    Share(f64),
    /// Reads every page, in order of address. If page frame numbers are available (root), a page
    /// that several processes share is passed to the caller once.
    Exact,
}

impl Choice {
    /// The number of pages to sample at first, out of `population`.
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

/// Rounds up to at least one page, unless the share is 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0..=1 before, and `as` saturates"
)]
fn share_of(share: f64, all: u64) -> u64 {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    ((share * all as f64).ceil() as u64).min(all)
}

/// Memory that [`Choice::Exact`] needs: 8 bytes for each page, which the caller uses to find equal
/// pages, plus 32 MiB.
///
/// [`open`](crate::open) refuses `Exact` if this is more than a quarter of the host's available
/// memory, because the measurement would push out the pages that it measures. It does not refuse if
/// the caller is [`bounded`](Options::bounded).
#[must_use]
pub const fn exact_needs(population: Pages) -> Bytes {
    Bytes::new(population.get().saturating_mul(8).saturating_add(32 << 20))
}

/// How to sample, and within which limits.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How many pages of the target are sampled.
    pub choice: Choice,
    /// Whether the caller limits its own memory for [`Choice::Exact`]; if so, [`open`](crate::open)
    /// does not refuse `Exact` for lack of memory.
    pub bounded: bool,
    /// Whether pages of files are sampled, too; otherwise only pages that can be swapped: anonymous
    /// memory and shmem.
    pub file_backed: bool,
    /// Whether processes of other users are read too. Set this only at the explicit request of the
    /// user.
    pub others_allowed: bool,
    /// Seed of the random sample: the same seed draws the same pages of unchanged memory.
    pub seed: u64,
    /// Time limit of sampling as a whole, including the search for pages; `None` for no limit.
    pub budget: Option<Duration>,
    /// Limit of this process's CPU use, in percent of one CPU; `None` for no limit.
    pub max_cpu: Option<Percent>,
    /// A flag that stops sampling soon when the caller sets it (for example on Ctrl-C); what was
    /// sampled until then is the result.
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
