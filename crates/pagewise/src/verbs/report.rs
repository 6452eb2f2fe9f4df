// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise report`: everything on one page, or only the requested sections and tables.

use std::collections::BTreeSet;
use std::io::IsTerminal;

use pagewise_model::{Estimate, Interval, Process, Refusal, ownership};
use pagewise_observe::{Recording, Scope};
use pagewise_report::json::{self, Noun};
use pagewise_report::text;
use pagewise_report::view::{Field, ProcessView, Section, Sort, View};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::{Global, Outcome, output, screen};

use super::new_page::NewPage;
use super::{Page, scan};
use crate::cli::Report;
use crate::pager::Pager;
use crate::{input, room};

const PAGE: Page = Page { noun: Noun::Report, json: json::report };

pub(super) fn run(global: &Global, args: &Report, started: CostMeter) -> anyhow::Result<Outcome> {
    let mut view = view(args);
    refuse_single_reading(global, &view)?;
    // create the file before this process gives up the right to create files
    let page = NewPage::start(args.html.as_deref())?;
    let is_text = !global.json && args.html.is_none();
    let is_paged = is_text && view.is_complete() && !args.all;
    let pager = if is_paged && !args.no_pager { Pager::start() } else { None };
    view.first_screen_only = is_paged && pager.is_none() && std::io::stdout().is_terminal();
    let host = input::open(global)?;
    let all = global.json || page.is_some();
    let rates = all || view.processes.as_ref().is_some_and(ProcessView::needs_rates);
    let smaps_enough = if all { usize::MAX } else { sizes_needed(&view) };
    let everything = Scope::everything(global.smaps_budget);
    let scope = Scope { process_rates: rates, smaps_enough, ..everything };
    let interval = input::read_interval_of(&host, global, &scope)?;
    let (estimates, no_contents) = match estimate_contents(global, args, &view, &host, &interval) {
        Ok(estimates) => (estimates, None),
        Err(missing) => (Vec::new(), Some(missing)),
    };
    let named = view.sections.contains(&Section::Contents);
    view.no_contents = no_contents.filter(|it| named || it.was_tried).map(|it| it.why);
    let findings = super::findings(&interval, &estimates);
    if !all {
        add_names(&host, &interval, &mut view, args.args);
    }
    let cost = cost::measure_since(started, &interval);
    let verdict = pagewise_decide::judge(&interval);
    let owners = ownership(&interval.end);
    let answer = pagewise_report::Answer {
        interval: &interval,
        verdict: &verdict,
        findings: &findings,
        hidden: 0,
        estimates: &estimates,
        owners: &owners,
        cost,
    };
    if let Some(page) = page {
        page.write(global, &pagewise_html::report_page(&answer, &view))?;
    }
    if let Some(pager) = pager {
        let text = text::report_in_view(&answer, &view, screen::text_style(global));
        let text = output::guarded_text(global, &text);
        if pager.show(&text).is_err() {
            output::print_answer(global, &text)?;
        }
    } else if global.json || args.html.is_none() {
        PAGE.print(global, &answer, |answer, look| text::report_in_view(answer, &view, look))?;
    }
    PAGE.remark(global, &answer);
    Ok(Outcome::Done)
}

/// Why the report has no estimate from page contents.
struct NoContents {
    why: String,
    /// Whether pagewise tried to read page contents; if so, the complete report shows why there is
    /// no estimate.
    was_tried: bool,
}

/// Estimates what compressing the memory of the largest processes would gain, for the report.
fn estimate_contents(
    global: &Global,
    args: &Report,
    view: &View,
    host: &Recording,
    interval: &Interval,
) -> Result<Vec<Estimate>, NoContents> {
    let not_tried = |why: &str| Err(NoContents { why: why.to_owned(), was_tried: false });
    if args.no_contents {
        return not_tried("no page was read, because --no-contents says so");
    }
    if !global.json && !view.shows(Section::Contents) {
        return not_tried("not asked for");
    }
    if !host.end.is_live() {
        return not_tried("a recording holds no page contents, by design");
    }
    if !room::has_memory_for_contents() {
        return not_tried("no page was read, because there was no memory for it");
    }
    scan::scan_for_report(&host.end, &interval.end)
        .map_err(|why| NoContents { why: format!("{why:#}"), was_tried: true })
}

/// The requested sections of the report. Options of the tables without --only leave the rest of the
/// report out.
fn view(args: &Report) -> View {
    let of_processes = args.sort.is_some() || !args.columns.is_empty() || args.args;
    let of_tables = of_processes || args.rows.is_some();
    let sections = if args.only.is_empty() && of_tables {
        vec![Section::Cgroups, Section::Processes]
    } else {
        args.only.clone()
    };
    let processes = of_processes.then(|| ProcessView {
        sort: args.sort.unwrap_or_default(),
        fields: args.columns.clone(),
        ..ProcessView::default()
    });
    View { first_screen_only: false, sections, rows: args.rows, processes, no_contents: None }
}

/// For how many of the largest processes proportional sizes (PSS) must be read: for all of them if
/// the table is sorted by anything but size.
fn sizes_needed(view: &View) -> usize {
    match view.sort() {
        Sort::Size => view.most_rows(),
        Sort::Swap | Sort::Growth | Sort::Refaults | Sort::Cpu => usize::MAX,
    }
}

/// Refuses `--interval 0` if the table is sorted by a value that is the difference of two readings.
fn refuse_single_reading(global: &Global, view: &View) -> anyhow::Result<()> {
    let sorted = match view.sort() {
        Sort::Growth => "growth",
        Sort::Refaults => "refaults",
        Sort::Cpu => "cpu",
        Sort::Size | Sort::Swap => return Ok(()),
    };
    if global.root.is_some() || !global.interval.is_zero() {
        return Ok(());
    }
    let what = format!("--sort {sorted} compares two looks, and --interval 0 looks once");
    Err(Refusal::with_advice(what, "leave --interval out, or give it a time: --interval 1s").into())
}

/// Adds user names and command lines of the processes that will be shown.
fn add_names(host: &Recording, interval: &Interval, view: &mut View, args: bool) {
    let shown: Vec<&Process> = text::shown_processes(interval, view);
    let Some(processes) = &mut view.processes else { return };
    if processes.shown_fields().contains(&Field::User) {
        let users: BTreeSet<u32> = shown.iter().filter_map(|process| process.uid.get()).collect();
        processes.users = pagewise_observe::user_names(&host.end, &users);
    }
    if args {
        let pids: Vec<u32> = shown.iter().map(|process| process.pid).collect();
        processes.command_lines = pagewise_observe::command_lines(&host.end, &pids);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_tables_leave_the_rest_of_the_page_out() {
        let tables = vec![Section::Cgroups, Section::Processes];
        let sorted = || Report { sort: Some(Sort::Swap), ..Report::default() };
        assert_eq!(view(&sorted()).sections, tables);
        assert_eq!(view(&Report { rows: Some(3), ..Report::default() }).sections, tables);
        assert!(view(&Report { rows: Some(3), ..Report::default() }).processes.is_none());
        let with = Report { only: vec![Section::Memory], ..sorted() };
        assert_eq!(view(&with).sections, [Section::Memory]);
        assert!(view(&Report::default()).sections.is_empty());
    }

    #[test]
    fn proportional_sizes_are_needed_of_the_rows_that_are_shown() {
        let needed = |wanted: Report| sizes_needed(&view(&wanted));
        assert_eq!(needed(Report::default()), 10);
        assert_eq!(needed(Report { rows: Some(300), ..Report::default() }), 300);
        let by = |sort| Report { sort: Some(sort), rows: Some(3), ..Report::default() };
        assert_eq!(needed(by(Sort::Size)), 3);
        assert_eq!(needed(by(Sort::Swap)), usize::MAX);
    }
}
