// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp --canary`: measures what page walks cost on this machine; prints text or JSON.
//!
//! [`canary`] measures. Half of its memory must be in huge pages, so that half is collapsed here,
//! with the same calls by which `thp collapse` collapses memory of other processes. With
//! `--hugetlb`, hugetlb pages are measured in the same rounds.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pagewise_bench::canary::{self, BLOCK, ChaseResult, LargerPages, ROUNDS, SIZE};
use pagewise_hugepages::{CollapseTargets, CollapseWish};
use pagewise_model::{Bytes, Name};
use pagewise_observe::{HostRoot, Scope};
use pagewise_procmem::coverage;
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::progress::Measuring;
use pagewise_terminal::{Global, Outcome, output};

use super::pools::Pools;
use crate::cli::Thp;
use crate::input;

/// The measurement of page walks, and the hugetlb pools that were left out.
#[derive(Debug)]
struct CanaryOutcome {
    chased: ChaseResult,
    left_out: Vec<String>,
}

pub(super) fn run(global: &Global, args: &Thp) -> anyhow::Result<Outcome> {
    super::refuse_recording(global, "thp --canary")?;
    let host = input::open(global)?;
    let mut pools = Pools::default();
    if args.hugetlb {
        // Ctrl-C is delayed until the enlarged pools have their old sizes again, which takes
        // seconds
        let _stop = Stop::listen()?;
        let seen = host.without_start().interval(&Scope::glance(), || anyhow::Ok(()))?.end;
        pools = Pools::open(&seen, SIZE);
        let answer = measure(global, &HostRoot::live()?, &mut pools);
        pools.end();
        return show(global, &answer?);
    }
    show(global, &measure(global, &host.end, &mut pools)?)
}

fn show(global: &Global, answer: &CanaryOutcome) -> anyhow::Result<Outcome> {
    let text = if global.json { json(answer) } else { text(answer) };
    output::print_answer(global, &text)?;
    Ok(Outcome::Done)
}

fn measure(global: &Global, host: &HostRoot, pools: &mut Pools) -> anyhow::Result<CanaryOutcome> {
    let shown = Measuring::start(global, "canary");
    let mut progress = |step, of| shown.show_count(step, of);
    let chased = canary::measure(&mut pools.memory, &mut || collapse_own(host), &mut progress)?;
    Ok(CanaryOutcome { chased, left_out: std::mem::take(&mut pools.left_out) })
}

/// Collapses the memory of this process, and returns the share that is in huge pages afterwards.
fn collapse_own(host: &HostRoot) -> anyhow::Result<f64> {
    let pid = std::process::id();
    let targets = CollapseTargets {
        processes: vec![(pid, Name::from("pagewise"))],
        ..CollapseTargets::default()
    };
    let wish = CollapseWish {
        max_growth: 0.2,
        spent: Bytes::new(0),
        deadline: Duration::from_secs(20),
        pace: 1.0,
        swapped: false,
        dry_run: false,
        watch: None,
        block: BLOCK,
    };
    pagewise_hugepages::collapse(
        host,
        &targets,
        &wish,
        &AtomicBool::new(false),
        &mut |_, _, _| (),
    )?;
    let found = coverage::survey_process(pid, BLOCK, false)?.coverage;
    Ok((found.anon_huge.get() as f64 / SIZE as f64).min(1.0))
}

fn json(answer: &CanaryOutcome) -> String {
    let CanaryOutcome { chased, left_out } = answer;
    let [ratio, low, high] = chased.huge.ratio;
    let pool = |(size, against): &(Bytes, LargerPages)| {
        let [ratio, low, high] = against.ratio;
        serde_json::json!({
            "page_bytes": size.get(),
            "ns_per_access": against.ns,
            "per_small": ratio,
            "per_small_range": [low, high],
        })
    };
    let document = serde_json::json!({
        "schema": "pagewise/canary/1",
        "small_ns_per_access": chased.small_ns,
        "huge_ns_per_access": chased.huge.ns,
        "huge_per_small": ratio,
        "huge_per_small_range": [low, high],
        "huge_coverage": chased.coverage,
        "hugetlb": chased.pools.iter().map(pool).collect::<Vec<_>>(),
        "left_out": left_out,
        "bytes_each": SIZE,
    });
    format!("{document:#}\n")
}

fn text(answer: &CanaryOutcome) -> String {
    let CanaryOutcome { chased, left_out } = answer;
    let less = |ratio: f64| (1.0 - ratio) * 100.0;
    let [ratio, low, high] = chased.huge.ratio;
    let mut text = format!(
        "A random access to {size} of memory takes {:.0} ns in small pages and {:.0} ns in huge ones:\n\
         {:.0} % less (of {ROUNDS} turns, {:.0} to {:.0} %; {:.0} % of the second piece is huge).\n",
        chased.small_ns,
        chased.huge.ns,
        less(ratio),
        less(high),
        less(low),
        chased.coverage * 100.0,
        size = Bytes::new(SIZE as u64),
    );
    for (size, LargerPages { ns, ratio: [ratio, low, high] }) in &chased.pools {
        text += &format!(
            "In pages of {size} from the pool (hugetlb) it takes {ns:.0} ns: {:.0} % less ({:.0} to {:.0} %).\n",
            less(*ratio),
            less(*high),
            less(*low),
        );
    }
    left_out.iter().for_each(|why| text += &format!("{why}\n"));
    text + "An example, not a bound: a program gains a part of it for what it does besides finding memory\n\
            (a GET of a Redis half to three quarters of it in batches, a seventh to a quarter one at a\n\
            time), nothing with a small working set. Page walks themselves are not counted here.\n"
}
