// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise explain`: explains a subject with the values of this machine.

use pagewise_explain::{explain, subjects};
use pagewise_model::Interval;
use pagewise_observe::Scope;
use pagewise_report::{json, text};
use pagewise_sandbox::Confinement;
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::{Global, Outcome, output, screen};

use crate::{cli, input};

pub(super) fn run(
    global: &Global,
    args: &cli::Explain,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    let Some(subject) = args.subject.as_deref() else {
        let all: Vec<_> = subjects().iter().map(|subject| (subject.name, subject.title)).collect();
        let shown = if global.json {
            json::subjects(&all)
        } else {
            text::subjects(&all, screen::text_style(global))
        };
        output::print_answer(global, &shown)?;
        return Ok(Outcome::Done);
    };
    if global.root.is_none() {
        Confinement::for_facts().enter();
    }
    let host = input::open(global)?.without_start();
    let scope = Scope { settings: true, cgroups: true, ..Scope::glance() };
    let interval: Interval = host.interval(&scope, || anyhow::Ok(()))?;
    let Some(explanation) = explain(&interval.end, subject) else {
        anyhow::bail!("there is no subject {subject}");
    };
    let shown = if global.json {
        json::explain(&explanation, &interval.end, cost::measure_since(started, &interval))
    } else {
        text::explanation(&explanation, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_report::text::TextStyle;
    use pagewise_testkit::scene::{Scene, slugs};

    /// Maximum number of lines of an explanation, which is one or two screens long.
    const LINES: usize = 60;

    #[test]
    fn no_page_is_longer_than_sixty_lines_of_eighty_columns() {
        for slug in slugs() {
            let host = Scene::load(&slug).replay().end;
            for subject in subjects() {
                let page = explain(&host, subject.name).unwrap();
                let text = text::explanation(&page, TextStyle { width: 80, colour: false });
                let lines = text.lines().count();
                assert!((15..=LINES).contains(&lines), "{slug}: {lines} lines\n{text}");
                let widest = text.lines().map(|line| line.chars().count()).max();
                assert!(widest <= Some(80), "{slug}: {widest:?}\n{text}");
            }
        }
    }
}
