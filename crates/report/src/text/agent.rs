// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise agent status`: what each loop does, whether it pays, the last decisions, and the budget;
//! `pagewise agent proof`: whether each loop pays, and what was measured.

use pagewise_model::{
    AgentDecision, AgentLimit, AgentProof, AgentReport, AgentStatus, AgentTarget, Bytes, Name,
    ProofEffect, ProofVerdict,
};

use super::kit::{Line, Page, Role};
use super::words::plural;
use crate::phrases::{change_and_interval, format_digits, round_to_whole};
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
    if !agent.proofs.is_empty() {
        page.heading("Proof", "does it pay? `pagewise agent proof` has the numbers");
        for proof in &agent.proofs {
            print_verdict(page, proof);
        }
    }
    let older = agent.decisions.len().saturating_sub(LISTED);
    page.heading("Decisions", if older > 0 { "the last ones" } else { "" });
    for decision in &agent.decisions[older..] {
        print_decision(page, decision);
    }
}

/// `pagewise agent proof`.
pub(super) fn print_proof(page: &mut Page, report: &AgentReport) {
    let start = Line::default().span(Role::Strong, "pagewise agent proof");
    let Some(agent) = &report.agent else {
        page.hang_items(start, 2, &["no agent has run since this boot".to_owned()]);
        return;
    };
    let state = if report.is_running { "the agent runs" } else { "the agent does not run" };
    let written = format!("as of {}", clock(agent.written_unix_seconds));
    page.hang_items(start, 2, &[state.to_owned(), written]);
    if agent.proofs.is_empty() {
        let text =
            "no loop is proved: a section [switchback.LOOP] of the configuration switches that on";
        page.prose(2, Role::Plain, text);
    }
    for proof in &agent.proofs {
        let verdict = describe_verdict(proof).1;
        page.heading(proof.loop_.name(), &format!("{verdict}; {}", describe_now(proof)));
        print_trouble(page, proof);
        print_effects(page, proof);
    }
}

fn print_verdict(page: &mut Page, proof: &AgentProof) {
    let (role, verdict) = describe_verdict(proof);
    let name = format!("{}  ", proof.loop_.name());
    let start = Line::default().plain("  ").span(Role::Strong, name).span(role, verdict);
    page.hang_items(start, 4, &[describe_now(proof)]);
    print_trouble(page, proof);
}

fn print_trouble(page: &mut Page, proof: &AgentProof) {
    if let Some(why) = &proof.trouble {
        let why = Name::from(why.as_str());
        page.prose(4, Role::Warning, &format!("nothing is measured: {why}"));
    }
}

fn describe_now(proof: &AgentProof) -> String {
    match proof.stopped_unix_seconds {
        Some(at) => format!("switched off {}", clock(at)),
        None if proof.is_on => format!("on until {}", clock(proof.until_unix_seconds)),
        None => format!("off until {}", clock(proof.until_unix_seconds)),
    }
}

fn describe_verdict(proof: &AgentProof) -> (Role, String) {
    match (proof.verdict, proof.more_days) {
        (ProofVerdict::Pays, _) => (Role::Good, "pays".to_owned()),
        (ProofVerdict::Harms, _) => (Role::Warning, "harms".to_owned()),
        (ProofVerdict::DoesNotPay, _) => (Role::Plain, "does not pay".to_owned()),
        (ProofVerdict::NotShownYet, Some(days)) => {
            let text = format!("not shown yet: needs {}", plural(days, "more day"));
            (Role::Plain, text)
        }
        (ProofVerdict::NotShownYet, None) => {
            (Role::Plain, "not shown yet: a year is not enough".to_owned())
        }
    }
}

fn print_effects(page: &mut Page, proof: &AgentProof) {
    if proof.days == 0 {
        let blocks = plural(proof.blocks, "block");
        let text = format!("{blocks} measured; the result is computed after 30 days");
        return page.prose(4, Role::Plain, &text);
    }
    let confidence = format!("{:.2}", proof.confidence * 100.0);
    let text = format!(
        "{} judged: {} of blocks at the same time of day, without and with the loop; intervals of {} %",
        plural(proof.days, "day"),
        plural(proof.pairs, "pair"),
        confidence.trim_end_matches('0')
    );
    page.prose(4, Role::Plain, &text);
    let better = if proof.is_more_better { "more is better" } else { "less is better" };
    let measured = Name::from(proof.measured.as_str());
    let size = |value: f64| Bytes::new(round_to_whole(value)).to_string();
    print_effect(page, &format!("{measured}, {better}"), proof.work, &format_digits);
    print_effect(page, "memory held", proof.memory_bytes, &size);
    print_effect(page, "refaults/s", proof.refaults_per_second, &format_digits);
}

fn print_effect(
    page: &mut Page,
    name: &str,
    effect: Option<ProofEffect>,
    show: &dyn Fn(f64) -> String,
) {
    let Some(effect) = effect else { return };
    let [change, interval] = change_and_interval(Some(effect.ratio), effect.interval);
    let interval = if interval.is_empty() { "too few pairs for an interval" } else { &interval };
    let (without, with) = (show(effect.without_loop), show(effect.with_loop));
    let text = format!("{name}: {without} → {with}, {change} ({interval})");
    page.hang(Line::default().plain("    "), 6, Role::Plain, &text);
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
        AgentLimit::Growth { growth_bytes, growth_limit_bytes, huge_bytes, anon_bytes } => format!(
            "{huge_bytes} of {anon_bytes} of anonymous memory in huge pages; grew by {growth_bytes} for them, of \
             {growth_limit_bytes} allowed"
        ),
        AgentLimit::Flash { flash_bytes_today, flash_bytes_per_day } => {
            format!("{flash_bytes_today} written to flash today, of {flash_bytes_per_day} allowed")
        }
        AgentLimit::Merging { profit_bytes, cpu_percent, cpu_percent_limit } => {
            let profit = match profit_bytes {
                Some(loss @ ..0) => {
                    format!("costs {} more than it saves", Bytes::new(loss.unsigned_abs()))
                }
                Some(profit) => format!("saves {}", Bytes::new(profit.unsigned_abs())),
                None => "saves nothing now, or that is not known".to_owned(),
            };
            let used =
                cpu_percent.map(|used| format!("{used:.1} % of a CPU, ")).unwrap_or_default();
            format!("{profit}; {used}{cpu_percent_limit} % of a CPU allowed")
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
