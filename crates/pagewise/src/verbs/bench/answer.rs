// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the answer of `bench` from the measurements: its rows, and the conclusions from them.

use pagewise_bench::block::Bench;
use pagewise_bench::picks;
use pagewise_facts::swap_choice;
use pagewise_model::{BenchInput, BenchLayer, Benchmark, Bytes, Name};

use super::BenchResults;
use super::pages::Drawn;

pub(super) fn build(measured: &BenchResults, drawn: &Drawn, ram: Option<Bytes>) -> Benchmark {
    let block = &measured.block;
    let (rows, swap) = (block.rows(), &measured.swap);
    let pareto = picks::pareto_front(&rows, block.span);
    let swap_out: Vec<_> = swap.iter().take(1).flat_map(|rounds| rounds.out.clone()).collect();
    let writebacks = swap.iter().take(1).flat_map(|rounds| rounds.writebacks.clone()).collect();
    let best = picks::picks(block);
    let input = input(measured, drawn);
    let is_enough =
        swap_choice::is_enough_to_size_with(input.bytes, input.pages, input.same_filled_left_out);
    let ram = ram.filter(|_| is_enough && measured.layer == BenchLayer::Zram);
    let recommended = ram.and_then(|ram| swap_choice::choose_zram(ram, &best, &pareto));
    let cost_ratios: Vec<_> = swap.iter().flat_map(|rounds| rounds.ratios.clone()).collect();
    Benchmark {
        input,
        layer: measured.layer,
        stopped: block.stopped,
        references: block.references(),
        faults: swap.iter().flat_map(|rounds| rounds.rows.clone()).collect(),
        cluster_effects: swap.iter().flat_map(|rounds| rounds.effects.clone()).collect(),
        cluster_choices: swap.iter().skip(1).flat_map(|rounds| rounds.choices.clone()).collect(),
        tier_mixes: cost_ratios.first().map(picks::tier_mixes).unwrap_or_default(),
        break_even: picks::break_even_points(&swap_out, &cost_ratios),
        swap_out,
        writebacks,
        store_comparisons: swap.iter().flat_map(|rounds| rounds.comparisons.clone()).collect(),
        cost_ratios,
        picks: best,
        recommended,
        pareto,
        rows,
        noise: block.noise.clone(),
        not_measured: measured.not_measured.clone(),
        notes: notes(measured),
    }
}

fn input(measured: &BenchResults, drawn: &Drawn) -> BenchInput {
    BenchInput {
        name: Name::from(drawn.name.as_str()),
        pages: drawn.pages.count() as u64,
        bytes: Bytes::new(drawn.pages.bytes().len() as u64),
        same_filled_left_out: drawn.same_filled,
        measured_bytes: measured.block.span,
    }
}

/// Minimum number of rounds for a verdict: with five pairs or fewer, the 95 % confidence interval
/// of the signed-rank test always contains zero.
const ROUNDS_TO_TELL: usize = 6;

fn describe_missing_rounds(block: &Bench) -> String {
    let done = block.cells.iter().map(|cell| cell.rounds.len()).max().unwrap_or(0);
    let all = done + usize::try_from(block.rounds_left_out).unwrap_or(usize::MAX);
    let cannot = if done < ROUNDS_TO_TELL {
        format!("; fewer than {ROUNDS_TO_TELL} show no difference")
    } else {
        String::new()
    };
    format!(
        "block layer: {done} of {all} rounds fit into the time, because other programs use the processors \
         or a device is slow{cannot}"
    )
}

fn notes(measured: &BenchResults) -> Vec<String> {
    let mut notes = measured.notes.clone();
    if measured.block.shortened {
        let span = measured.block.span;
        notes.push(format!("memory is short: the devices hold the first {span} of the pages"));
    }
    if measured.block.rounds_left_out > 0 {
        notes.push(describe_missing_rounds(&measured.block));
    }
    if measured.layer == BenchLayer::Codecs {
        let why = "libraries, not zram: compare the algorithms with each other, not with a device";
        notes.push(why.to_owned());
    }
    notes
}
