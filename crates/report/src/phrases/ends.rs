// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Describes how runs ended.

use pagewise_model::{RunEnd, TrialRun};

fn end(end: RunEnd) -> String {
    match end {
        RunEnd::Exited { status: 0 } => "ended well".to_owned(),
        RunEnd::Exited { status } => format!("exit status {status}"),
        RunEnd::Killed { signal } => format!("killed by signal {signal}"),
        RunEnd::OutOfMemory { .. } => "killed for lack of memory".to_owned(),
        RunEnd::TimedOut => "took too long".to_owned(),
        RunEnd::NotRun => "not run".to_owned(),
    }
}

/// The failures of an arm, as `killed for lack of memory ×3 (pagewise), took too long`; empty if
/// all runs succeeded.
pub fn failures(runs: &[TrialRun], arm: &str) -> String {
    let mut ends: Vec<(String, usize, Vec<&str>)> = Vec::new();
    for run in runs.iter().filter(|run| run.arm == arm && !run.end.is_good()) {
        let words = describe_end(run);
        let victims = run.victims.iter().map(String::as_str);
        match ends.iter_mut().find(|(known, ..)| *known == words) {
            Some((_, count, names)) => {
                *count += 1;
                names.extend(victims);
            }
            None => ends.push((words, 1, victims.collect())),
        }
    }
    let told = ends
        .into_iter()
        .map(|(words, count, names)| words + &format_times(count) + &list_names(&names));
    told.collect::<Vec<_>>().join(", ")
}

/// How a run ended; if it was never started, with the reason.
pub fn describe_end(run: &TrialRun) -> String {
    match &run.refused {
        Some(why) => format!("{}: {why}", end(run.end)),
        None => end(run.end),
    }
}

fn format_times(count: usize) -> String {
    if count == 1 { String::new() } else { format!(" ×{count}") }
}

/// Lists names in parentheses, each once.
fn list_names(names: &[&str]) -> String {
    let mut each: Vec<&str> = Vec::new();
    names.iter().for_each(|name| {
        if !each.contains(name) {
            each.push(name);
        }
    });
    if each.is_empty() { String::new() } else { format!(" ({})", each.join(", ")) }
}
