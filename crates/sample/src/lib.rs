// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a sample of the pages of a process, host, file or device. No other part of Pagewise reads
//! page contents.
//!
//! # What this crate may do, and never does
//!
//! Page contents hold passwords, keys and letters. This crate may read the memory of processes that
//! the kernel lets us read, and files, devices and cores that the user named. It
//!
//! - never writes, starts a program, or opens anything for writing;
//! - never keeps a page: each is passed once, in a buffer that the next page overwrites, to a
//!   [`Visit`] of the caller, and no page content is in a [`Sample`], an error or a
//!   [`Problem`](pagewise_model::Problem);
//! - never reads another user's process unless the caller passes [`Options::others_allowed`] (which
//!   then needs root: the kernel decides);
//! - never brings a page in from swap on purpose: swapped pages are counted, not read;
//! - never breaks the sharing of a page on purpose: see `process.rs`. The side effects that remain
//!   are counted in [`Disturbed`].
//!
//! # How to use it
//!
//! [`open`] finds the pages. [`Sampler::run`] passes the pages that the [`Choice`] asks for to the
//! workers; [`Sampler::draw`] passes more of them, uniformly and without replacement over all
//! sources together. [`Sampler::finish`] returns which pages were sampled and which were not. Each
//! element of the `workers` slice gets its own thread and its own pages, so that workers share
//! nothing.
//!
//! ```no_run
//! # fn main() -> Result<(), pagewise_sample::OpenError> {
//! # let host = pagewise_observe::HostRoot::live().unwrap();
//! use pagewise_sample::{Options, Origin, Target, open};
//!
//! let mut sampler = open(&host, &Target::Process(4711), Options::default())?;
//! let mut zeros = 0u64;
//! let visit = |_: &Origin, page: &[u8]| zeros += u64::from(page.iter().all(|&byte| byte == 0));
//! sampler.run(&mut [visit]);
//! let sample = sampler.finish();
//! println!("{zeros} of {} pages sampled, {} in all", sample.sampled_pages().get(), sample.pages().get());
//! # Ok(()) }
//! ```

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod calls;
mod candidate;
mod choice;
mod elf;
mod error;
mod find;
pub mod fuzzing;
mod gather;
mod identity;
mod lock;
mod open;
mod pace;
mod permute;
mod plan;
mod process;
mod ranges;
mod result;
mod sampler;
mod seen;
mod share;
mod spans;
mod stored;
mod visit;
mod who;
mod work;

pub use choice::{Choice, Options, PRECISE_FIRST, Target, exact_needs};
pub use error::OpenError;
pub use result::{
    Disturbed, Origin, PageKind, Part, PartKind, Partial, ProcessEnd, Sample, Sharing,
    SkippedPages, UnreadProcess, WhyUnread,
};
pub use sampler::{Drawn, Sampler, open};
pub use visit::Visit;
