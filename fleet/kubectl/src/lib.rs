// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kubectl pagewise limits`: the advice for the containers of a namespace, and the commands with which a
//! person raises limits.
//!
//! A command is only given where it cannot harm: it raises a limit, or sets one where there is none, and
//! names how it is undone. Nothing here lowers a limit; a smaller one that would do is only printed.

pub mod limits;
