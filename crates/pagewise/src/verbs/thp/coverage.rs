// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp`: where huge pages are. The mappings of a selected process are read one by one,
//! which works only on the live machine, as a recording holds no addresses.

use std::time::Duration;

use pagewise_model::{Interval, Name, ProcessCoverage};
use pagewise_observe::Scope;
use pagewise_procmem::coverage;
use pagewise_report::{HugeSeen, json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::progress::Spinner;
use pagewise_terminal::{Global, Outcome, interrupt, output, screen};

use super::super::new_page::NewPage;
use super::{huge_page_size, targets, walks};
use crate::cli::Thp;
use crate::input;

/// Maximum number of processes whose mappings are read one by one.
const MOST: usize = 8;
/// Time limit for reading one process: reading hangs while another thread holds its mmap lock.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn run(global: &Global, args: &Thp, started: CostMeter) -> anyhow::Result<Outcome> {
    let whose = &args.whose;
    if args.page_walks.is_some() {
        super::refuse_recording(global, "thp --page-walks")?;
    }
    let page = NewPage::start(args.html.as_deref())?;
    let host = input::open(global)?;
    let scope = Scope { settings: false, ..Scope::everything(global.smaps_budget) };
    // only the line about the whole host shows rates, so selected processes need no first reading
    let named = !whose.pid.is_empty() || whose.name.is_some();
    let host = if named && host.end.is_live() { host.without_start() } else { host };
    let interval = host.interval(&scope, || {
        let _shown = Spinner::start(global, global.interval);
        interrupt::wait(global.interval)
    })?;
    let targets = targets::resolve(whose, &interval.end)?;
    let pids = targets.as_ref().map(|whom| pids(&whom.processes));
    let counted = |time| walks::count(global, &host.end, pids.as_deref(), time);
    let walks = args.page_walks.map(counted).transpose()?;
    let (looked, not_looked) = match &targets {
        Some(whom) if host.end.is_live() => read_coverage(&whom.processes, &interval),
        Some(_) => (Vec::new(), vec![RECORDED.to_owned()]),
        None => (Vec::new(), Vec::new()),
    };
    let seen = HugeSeen {
        interval: &interval,
        pids: pids.as_deref(),
        cgroup: targets.as_ref().and_then(|whom| whom.cgroup.as_deref()),
        looked: &looked,
        not_looked: &not_looked,
        page_walks: walks.as_ref(),
        cost: cost::measure_since(started, &interval),
    };
    show(global, page, &seen)?;
    Ok(Outcome::Done)
}

const RECORDED: &str = "mappings are not in a recording: it holds no addresses";

fn pids(processes: &[(u32, Name)]) -> Vec<u32> {
    processes.iter().map(|(pid, _)| *pid).collect()
}

fn read_coverage(
    processes: &[(u32, Name)],
    interval: &Interval,
) -> (Vec<ProcessCoverage>, Vec<String>) {
    let (mut looked, mut not) = (Vec::new(), Vec::new());
    let size = huge_page_size(&interval.end);
    for (pid, name) in processes.iter().take(MOST) {
        let pid = *pid;
        match coverage::run_with_timeout(PATIENCE, move || {
            coverage::survey_process(pid, size, true)
        }) {
            Some(Ok(found)) => looked.push(ProcessCoverage { name: name.clone(), ..found }),
            Some(Err(error)) => not.push(error.to_string()),
            None => not.push(coverage::LookError::Stuck(pid).to_string()),
        }
    }
    if processes.len() > MOST {
        not.push(format!("only {MOST} of {} processes read by mapping", processes.len()));
    }
    (looked, not)
}

fn show(global: &Global, page: Option<NewPage>, seen: &HugeSeen<'_>) -> anyhow::Result<()> {
    let shown = || {
        if global.json { json::thp(seen) } else { text::thp(seen, screen::text_style(global)) }
    };
    NewPage::write_or_print(page, global, || pagewise_html::thp_page(seen), shown)?;
    if global.verbose {
        output::print_message(cost::format_line(&seen.cost));
    }
    Ok(())
}
