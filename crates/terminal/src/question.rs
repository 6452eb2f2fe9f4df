// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks a question on standard error and reads the answer from standard input.

use std::io::{IsTerminal, Write};

use crate::output;

/// Whether the answer is yes, `y` or `Y`. `None`, without asking, if standard input is not a
/// terminal. An error if standard error or standard input fails.
pub fn is_confirmed(question: &str) -> std::io::Result<Option<bool>> {
    if !std::io::stdin().is_terminal() {
        return Ok(None);
    }
    output::write_error(format!("pagewise: {question} [y/N] ").as_bytes());
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(Some(matches!(answer.trim(), "y" | "Y" | "yes")))
}
