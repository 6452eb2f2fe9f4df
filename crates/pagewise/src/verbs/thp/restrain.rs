// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp restrain`: finds huge pages that are mostly zeros, and splits them.
//!
//! /proc does not show which huge pages these are, because a huge page is always in RAM as a whole:
//! their contents must be read. pagewise-sample reads every page under its rules: processes of
//! other users only with --measure, and only counts are kept.

use std::collections::HashMap;
use std::sync::Mutex;

use pagewise_model::{Bytes, CollapsedProcess, Restrain, Snapshot};
use pagewise_observe::{HostRoot, Scope};
use pagewise_procmem::coverage;
use pagewise_report::{Restrained, json, text};
use pagewise_sample::{Choice, Options, Origin, Target, open};
use pagewise_sandbox::Confinement;
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::{Global, Outcome, output, screen};

use super::targets::{self, ThpTargets};
use super::{huge_page_size, refuse_recording};
use crate::cli::RestrainArgs;
use crate::input;

pub(super) fn run(
    global: &Global,
    args: &RestrainArgs,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    refuse_recording(global, "thp restrain")?;
    let host = input::open(global)?.without_start();
    let scope = Scope { settings: false, ..Scope::everything(std::time::Duration::ZERO) };
    let interval = host.interval(&scope, || anyhow::Ok(()))?;
    let targets = targets::resolve(&args.whose, &interval.end)?.unwrap_or_default();
    let stop = Stop::listen()?;
    let confinement =
        if args.split { Confinement::for_splitting() } else { Confinement::for_processes() };
    confinement.enter();
    let restrain = restrain_all(&host.end, &interval.end, &targets, args, &stop)?;
    let done = Restrained {
        snapshot: &interval.end,
        restrain: &restrain,
        cost: cost::measure_since(started, &interval),
    };
    let shown = if global.json {
        json::restrain(&done)
    } else {
        text::restrain(&done, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    Ok(Outcome::Done)
}

fn restrain_all(
    host: &HostRoot,
    snapshot: &Snapshot,
    targets: &ThpTargets,
    args: &RestrainArgs,
    stop: &Stop,
) -> anyhow::Result<Restrain> {
    let mut restrain = Restrain::default();
    for (pid, name) in &targets.processes {
        let looked =
            restrain_process(host, *pid, huge_page_size(snapshot), args, stop, &mut restrain);
        let left_out = match looked {
            Err(error) if targets.processes.len() == 1 => return Err(error),
            other => other.err().map(|error| format!("{error:#}")),
        };
        restrain.processes.push(CollapsedProcess { pid: *pid, name: name.clone(), left_out });
    }
    Ok(restrain)
}

/// The zero pages that were counted in a huge page.
#[derive(Debug, Clone, Copy, Default)]
struct HugePageState {
    pages: u32,
    zeros: u32,
}

fn restrain_process(
    host: &HostRoot,
    pid: u32,
    block: u64,
    args: &RestrainArgs,
    stop: &Stop,
    restrain: &mut Restrain,
) -> anyhow::Result<()> {
    let before = coverage::read_proportional_size(pid)?;
    let page = rustix::param::page_size() as u64;
    let (seen, partial) = count_zero_pages(host, pid, block / page, args, stop)?;
    restrain.partial = restrain.partial.take().or(partial);
    let bloated: Vec<u64> = tally(&seen, page, restrain).iter().map(|at| at * block).collect();
    if args.split {
        let split = pagewise_hugepages::split(pid, block, &bloated, stop.flag())?;
        let after = coverage::read_proportional_size(pid)?;
        restrain.split = Some(restrain.split.unwrap_or(0) + split);
        restrain.memory_before = add_optional(restrain.memory_before, before);
        restrain.memory_after = add_optional(restrain.memory_after, after);
    }
    Ok(())
}

fn add_optional(so_far: Option<Bytes>, more: Bytes) -> Option<Bytes> {
    Some(so_far.unwrap_or_default().saturating_add(more))
}

/// Counts the zero pages in every huge page; the key is the number of the huge page.
fn count_zero_pages(
    host: &HostRoot,
    pid: u32,
    pages_per_block: u64,
    args: &RestrainArgs,
    stop: &Stop,
) -> anyhow::Result<(HashMap<u64, HugePageState>, Option<String>)> {
    let options = Options {
        choice: Choice::Exact,
        bounded: true,
        others_allowed: args.measure,
        seed: 1,
        budget: Some(args.budget),
        stop: Some(stop.shared()),
        ..Options::default()
    };
    let mut sampler = open(host, &Target::Process(pid), options)?;
    let seen: Mutex<HashMap<u64, HugePageState>> = Mutex::default();
    let visit = |origin: &Origin, page: &[u8]| {
        if origin.huge == Some(true) {
            let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let block = seen.entry(origin.page / pages_per_block.max(1)).or_default();
            block.pages += 1;
            block.zeros += u32::from(page.iter().all(|byte| *byte == 0));
        }
    };
    sampler.run(&mut [visit]);
    let sample = sampler.finish();
    let partial = sample.partial.as_ref().map(ToString::to_string);
    Ok((seen.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner), partial))
}

/// Adds up the counts, and returns the numbers of huge pages that are zeros for more than half.
fn tally(seen: &HashMap<u64, HugePageState>, page: u64, restrain: &mut Restrain) -> Vec<u64> {
    let mut bloated = Vec::new();
    for (&at, block) in seen {
        let zeros = Bytes::new(u64::from(block.zeros) * page);
        restrain.huge_pages += 1;
        restrain.zeros = restrain.zeros.saturating_add(zeros);
        if block.zeros * 2 > block.pages {
            restrain.bloated += 1;
            restrain.zeros_in_bloated = restrain.zeros_in_bloated.saturating_add(zeros);
            bloated.push(at);
        }
    }
    bloated.sort_unstable();
    bloated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_of_zeros_is_bloat() {
        let seen = [(7, 512, 257), (3, 512, 256), (1, 512, 512)];
        let seen = seen
            .map(|(at, pages, zeros)| (at, HugePageState { pages, zeros }))
            .into_iter()
            .collect();
        let mut restrain = Restrain::default();
        assert_eq!(tally(&seen, 4096, &mut restrain), [1, 7]);
        assert_eq!((restrain.huge_pages, restrain.bloated), (3, 2));
        assert_eq!(restrain.zeros, Bytes::new((257 + 256 + 512) * 4096));
        assert_eq!(restrain.zeros_in_bloated, Bytes::new((257 + 512) * 4096));
    }
}
