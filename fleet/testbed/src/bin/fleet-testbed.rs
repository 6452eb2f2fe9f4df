// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a control plane until standard input ends, and prints the path of its kubeconfig, then the
//! process ids of its programs: for trying things with kubectl, and for the test of its end.

#![expect(clippy::print_stdout, reason = "a program for people and tests")]

use std::io::{Write as _, stdin, stdout};

fn main() -> anyhow::Result<()> {
    let plane = fleet_testbed::ControlPlane::start()?;
    println!("{}", plane.kubeconfig()?.display());
    let pids: Vec<String> = plane.pids()?.iter().map(u32::to_string).collect();
    println!("{}", pids.join(" "));
    stdout().flush()?;
    let mut line = String::new();
    while stdin().read_line(&mut line)? > 0 {}
    Ok(())
}
