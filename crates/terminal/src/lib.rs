// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How every verb talks to a person or to another program: options that all verbs have, answers, messages,
//! progress, Ctrl-C, errors and exit statuses.
//!
//! This crate writes to standard output, to standard error and to files that the user names. It reads the
//! terminal, the environment, and the cost of this process in `/proc/self`. It reads nothing else of the host,
//! writes no setting and starts no program.

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
