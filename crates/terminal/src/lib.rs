// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Input and output that all verbs share: common options, results, messages, progress, Ctrl-C,
//! errors and exit statuses.
//!
//! This crate writes to standard output, to standard error and to files that the user names. It
//! reads the terminal, the environment, and the cost of this process in `/proc/self`. It reads
//! nothing else of the host, changes no setting and starts no program.

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod cost;
mod deferred;
pub mod exit;
pub mod interrupt;
pub mod live;
mod options;
pub mod output;
pub mod progress;
pub mod question;
pub mod screen;
pub mod trouble;

pub use deferred::Deferred;
pub use exit::Outcome;
pub use options::Global;
