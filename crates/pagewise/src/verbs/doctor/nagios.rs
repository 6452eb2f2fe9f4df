// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise doctor --nagios`: one line and the exit statuses of monitoring plugins. Every error
//! is the state UNKNOWN, also one of the command line (`refused.rs`).

use pagewise_decide::judge_service;
use pagewise_model::{Finding, Refusal, ServiceState};
use pagewise_report::text::{self, ServiceReport};
use pagewise_terminal::{Global, Outcome, output};

use super::{Diagnosis, ShownFindings, check_readings, is_present, read_accepted};
use crate::{cli, input};

pub(super) fn run(global: &Global, args: &cli::Doctor) -> anyhow::Result<Outcome> {
    let (line, state) = match examine(global, args) {
        Ok(examined) => examined,
        Err(error) => (text::nagios_unknown(&format!("{error:#}")), ServiceState::Unknown),
    };
    output::print_text(&line, false)?;
    Ok(Outcome::Status(state.exit_status()))
}

fn examine(global: &Global, args: &cli::Doctor) -> anyhow::Result<(String, ServiceState)> {
    if global.json {
        anyhow::bail!(Refusal::with_advice(
            "--json: --nagios has a form of its own",
            "leave out --json"
        ));
    }
    let accepted = read_accepted(global, args)?;
    let host = input::open(global)?;
    let interval = input::read_interval(&host, global)?;
    check_readings(&interval.end)?;
    let Diagnosis { all, verdict, unknown: _ } = Diagnosis::make(&host, &interval, true);
    let chosen = ShownFindings::select(all, &accepted);
    let present: Vec<&Finding> =
        chosen.findings.iter().filter(|finding| is_present(args, &interval, finding)).collect();
    let is_all = chosen.ignored == 0 && accepted.min_severity != Some(cli::Severity::Critical);
    let state = judge_service(&verdict, present.iter().copied(), is_all);
    let report = ServiceReport {
        state,
        host: &interval.end,
        verdict: &verdict,
        present: &present,
        ignored: chosen.ignored,
    };
    Ok((text::nagios(&report), state))
}
