// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise doctor`: findings in full; its exit status says whether there are any.

use std::time::Instant;

use pagewise_report::json::Noun;
use pagewise_report::text;

use super::{Outcome, Page};
use crate::cli::Global;
use crate::input;
use crate::output::Printed;

const PAGE: Page = Page { noun: Noun::Doctor, text: text::doctor };

pub(super) fn run(global: &Global, started: Instant) -> anyhow::Result<Outcome> {
    let interval = input::interval(global)?;
    let findings = pagewise_decide::diagnose(&interval);
    let printed = PAGE.show(global, started, &interval, &findings)?;
    Ok(outcome(printed, findings.is_empty()))
}

/// Findings that nobody read are not reported by the exit status either.
fn outcome(printed: Printed, none: bool) -> Outcome {
    match printed {
        Printed::Whole if !none => Outcome::Findings,
        Printed::Whole | Printed::Cut => Outcome::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_show_in_the_exit_status() {
        assert_eq!(outcome(Printed::Whole, false), Outcome::Findings);
        assert_eq!(outcome(Printed::Whole, true), Outcome::Done);
        assert_eq!(outcome(Printed::Cut, false), Outcome::Done);
    }
}
