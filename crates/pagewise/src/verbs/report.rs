// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise report`: everything on one page.

use pagewise_report::json::Noun;
use pagewise_report::text;

use super::{Outcome, Page};
use crate::cli::Global;
use crate::cost::Started;
use crate::input;

const PAGE: Page = Page { noun: Noun::Report, text: text::report };

pub(super) fn run(global: &Global, started: Started) -> anyhow::Result<Outcome> {
    let interval = input::interval(global)?;
    let findings = pagewise_decide::diagnose(&interval);
    PAGE.show(global, started, &interval, (&findings, 0))?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    /// The verdict follows a rule by its name: it must be the name of one.
    #[test]
    fn the_verdict_follows_a_rule_that_there_is() {
        let mut rules = pagewise_decide::RULES.iter();
        assert!(rules.any(|rule| rule.id == pagewise_report::text::SHORT_OF_MEMORY));
    }
}
