// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise agent status`: what each loop does, the last decisions, and the budget.

use pagewise_model::{AgentDecision, AgentLimit, AgentReport, AgentStatus, AgentTarget, Name};

use super::kit::{Line, Page, Role};
use super::words::plural;
use crate::time;

/// At most this many decisions are listed, the newest of them.
const LISTED: usize = 20;

pub(super) fn print(page: &mut Page, report: &AgentReport) {
    let start = Line::default().span(Role::Strong, "pagewise agent");
    let Some(agent) = &report.agent else {
        page.hang_items(start, 2, &["none has run since this boot".to_owned()]);
        return;
    };
    let started = format!("started {}", clock(agent.started_unix_seconds));
    let state = if report.is_running {
        format!("runs as process {}", agent.pid)
    } else {
        format!("does not run; it last wrote its state {}", clock(agent.written_unix_seconds))
    };
    page.hang_items(start, 2, &[state, started]);
    print_configuration(page, agent);
    page.fact("CPU time", &describe_budget(agent));
    page.heading("Loops", "");
    if agent.targets.is_empty() {
        page.prose(2, Role::Plain, "none is switched on");
    }
    for target in &agent.targets {
        print_target(page, target);
    }
    let older = agent.decisions.len().saturating_sub(LISTED);
    page.heading("Decisions", if older > 0 { "the last ones" } else { "" });
    for decision in &agent.decisions[older..] {
        print_decision(page, decision);
    }
}

fn print_configuration(page: &mut Page, agent: &AgentStatus) {
    let files: Vec<String> =
        agent.configuration.iter().map(|path| Name::from(path.as_str()).to_string()).collect();
    let files = if files.is_empty() { "no file is there".to_owned() } else { files.join(", ") };
    page.fact("configuration", &files);
    if let Some(why) = &agent.refused_configuration {
        let why = Name::from(why.as_str());
        page.fact_in("refused", Role::Warning, &format!("{why}; the one before stays in force"));
    }
}

fn describe_budget(agent: &AgentStatus) -> String {
    let used = format!(
        "{:.2} s used since the start; {} s per minute are allowed",
        agent.cpu_seconds, agent.cpu_seconds_per_minute
    );
    if agent.waits_seconds > 0.0 {
        return format!(
            "{used}; more was used, so nothing is done for {:.0} s",
            agent.waits_seconds.ceil()
        );
    }
    used
}

fn print_target(page: &mut Page, target: &AgentTarget) {
    let name = Name::from(target.target.as_str());
    let start =
        Line::default().plain("  ").span(Role::Strong, format!("{} {name}", target.loop_.name()));
    let limit = match target.limit {
        AgentLimit::Actions { actions_in_hour, actions_per_hour } => {
            let actions = plural(u64::from(actions_in_hour), target.loop_.name());
            format!("{actions} in the last hour, of {actions_per_hour} allowed")
        }
        AgentLimit::Flash { flash_bytes_today, flash_bytes_per_day } => {
            format!("{flash_bytes_today} written to flash today, of {flash_bytes_per_day} allowed")
        }
        AgentLimit::Reclaimed { reclaimed_bytes, swapped_bytes, uncharged_bytes, floor_bytes } => {
            let copies = uncharged_bytes
                .map(|bytes| format!(", in {bytes} of RAM that no cgroup is charged for"))
                .unwrap_or_default();
            format!(
                "{reclaimed_bytes} taken since the start; it has {swapped_bytes} in swap{copies}; keeps at least \
                 {floor_bytes}"
            )
        }
    };
    let items = [Name::from(target.state.as_str()).to_string(), limit];
    page.hang_items(start, 4, &items);
}

fn print_decision(page: &mut Page, decision: &AgentDecision) {
    let about = decision.target.as_ref().map(|target| format!("{}: ", Name::from(target.as_str())));
    let text = Name::from(decision.text.as_str());
    let start = Line::default().plain(format!("  {}  ", clock(decision.unix_seconds)));
    page.hang(start, 4, Role::Plain, &format!("{}{text}", about.unwrap_or_default()));
}

fn clock(unix_seconds: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "Unix time")]
    let time = time::timestamp(unix_seconds as f64);
    let shown = time.map(|time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
    shown.unwrap_or_else(|| "at an unknown time".to_owned())
}
