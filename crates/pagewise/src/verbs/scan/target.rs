// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds out which processes or files to sample from the source options as typed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use glob::Pattern;
use pagewise_model::{Bytes, Pages, Percent, Process, Reading, Refusal, Snapshot};
use pagewise_sample::{Choice, Options, Target};

use crate::cli::{Amount, Scan, Sources};

/// Finds the memory that the options name; also returns the name of that kind of source.
pub(in crate::verbs) fn resolve(
    source: &Sources,
    snapshot: &Snapshot,
) -> anyhow::Result<(Target, &'static str)> {
    Ok(match source {
        _ if source.host => (Target::Host, "host"),
        _ if source.name.is_some() => {
            (Target::Processes(find_processes(source, snapshot)?), "processes")
        }
        _ => match (&source.cgroup, &source.file, &source.device, &source.core) {
            (Some(path), ..) => (Target::Cgroup(path.clone()), "cgroup"),
            (_, Some(path), ..) => (Target::File(path.clone()), "file"),
            (_, _, Some(path), _) => (Target::Device(path.clone()), "device"),
            (_, _, _, Some(path)) => (Target::Core(path.clone()), "core"),
            _ => processes_target(&source.pid),
        },
    })
}

fn processes_target(pids: &[u32]) -> (Target, &'static str) {
    match pids {
        [one] => (Target::Process(*one), "process"),
        some => (Target::Processes(some.to_vec()), "processes"),
    }
}

/// The processes whose command name matches the glob.
fn find_processes(source: &Sources, snapshot: &Snapshot) -> anyhow::Result<Vec<u32>> {
    let glob = source.name.as_deref().unwrap_or_default();
    let pattern = Pattern::new(glob)?;
    let all = &snapshot.processes.list;
    let pids: Vec<u32> = all
        .iter()
        .filter(|process| pattern.matches(process.name.as_str()))
        .map(|process| process.pid)
        .collect();
    if pids.is_empty() {
        let what = format!("--name {glob}: expected a process of that name, found none");
        anyhow::bail!(Refusal::with_advice(
            what,
            "ps -eo pid,comm lists names; * and ? stand for others"
        ));
    }
    Ok(pids)
}

/// Number of processes that a report samples.
const LARGEST: usize = 16;

/// The processes with the most swappable memory (anonymous and shmem).
pub(super) fn largest_processes(snapshot: &Snapshot) -> Target {
    let swappable = |process: &Process| {
        let sizes = [&process.rss_anon, &process.rss_shmem].into_iter().filter_map(Reading::get);
        sizes.sum::<Bytes>()
    };
    let mut all: Vec<(Bytes, u32)> =
        snapshot.processes.list.iter().map(|process| (swappable(process), process.pid)).collect();
    all.retain(|(size, pid)| *size > Bytes::new(0) && *pid != std::process::id());
    all.sort_unstable_by_key(|(size, _)| std::cmp::Reverse(*size));
    Target::Processes(all.into_iter().take(LARGEST).map(|(_, pid)| pid).collect())
}

/// How many pages the scan is to read.
pub(super) fn sample_choice(args: &Scan) -> Choice {
    match (args.exact || args.duplicates, args.sample) {
        (true, _) => Choice::Exact,
        (false, Some(amount)) => to_choice(amount),
        (false, None) => Choice::Precise,
    }
}

/// Number of pages to compress with --duplicates: enough for a relative error of 2 % if the
/// standard deviation of the compressed sizes is one and a half times their mean.
const SIZED: u64 = 20_000;

/// How many of `population` pages to compress in a scan.
pub(super) fn sample_size(args: &Scan, population: Pages) -> u64 {
    let choice = match args.sample {
        _ if !args.duplicates => Choice::Exact,
        Some(amount) => to_choice(amount),
        None => Choice::Count(SIZED),
    };
    choice.pages_of(population).get()
}

fn to_choice(amount: Amount) -> Choice {
    match amount {
        Amount::Pages(pages) => Choice::Count(pages),
        Amount::Percent(percent) => Choice::Share(percent / 100.0),
    }
}

/// The options of the sampler, from those of the command line.
pub(super) fn sampler_options(args: &Scan, stop: Arc<AtomicBool>) -> Options {
    Options {
        choice: sample_choice(args),
        bounded: args.duplicates,
        file_backed: args.file_backed,
        others_allowed: args.measure,
        seed: args.seed,
        budget: args.budget,
        max_cpu: args.max_cpu.map(Percent::new),
        stop: Some(stop),
    }
}
