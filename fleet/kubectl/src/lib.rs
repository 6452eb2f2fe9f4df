// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kubectl pagewise limits`: the advice for the containers of a namespace, and the commands with which a
//! person raises limits.
//!
//! A command is only printed if it cannot harm: it raises a limit that is too low, and comes with the
//! command that undoes it. Nothing here lowers a limit; a smaller one that would do is only printed.

pub mod limits;
