// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans of recorded and of made-up hosts.

#![expect(clippy::unwrap_used, reason = "a test may stop anywhere")]

mod disk_swap;
mod files;
mod gains;
mod inits;
mod laws;
mod machine;
mod settings;
mod swap;
mod trial;
mod wanted;
mod zswap;

use pagewise_model::plan::{Change, Goal, Plan};
use pagewise_model::{Installation, Interval};
use pagewise_plan::{Measured, Request, make_plan};

const GOALS: [Goal; 4] = [Goal::Throughput, Goal::Latency, Goal::Ratio, Goal::Balanced];

/// A host with systemd and without any of our files.
fn plain() -> Installation {
    Installation { has_systemd: true, ..Installation::default() }
}

fn plan_for(interval: &Interval, installation: &Installation, goal: Goal) -> Plan {
    let (measured, only) = (&Measured::default(), &[][..]);
    make_plan(&Request { interval, installation, measured, goal, only, wants: &[], anyway: false })
}

fn plan_of(interval: &Interval) -> Plan {
    plan_for(interval, &plain(), Goal::Balanced)
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().map(|step| step.id.as_str()).collect()
}

/// The reason for a declined change.
fn declined<'a>(plan: &'a Plan, what: &str) -> &'a str {
    let found = plan.declined.iter().find(|declined| declined.what.contains(what));
    &found.unwrap_or_else(|| panic!("{what} is not declined: {plan:#?}")).why
}

/// Path and content of a file that the plan writes.
fn file<'a>(plan: &'a Plan, id: &str) -> (&'a str, &'a str) {
    match &plan.step(id).unwrap_or_else(|| panic!("no step {id}: {plan:#?}")).change {
        Change::WriteFile { target, to, .. } => (target, to),
        other => panic!("{id} writes no file: {other:?}"),
    }
}
