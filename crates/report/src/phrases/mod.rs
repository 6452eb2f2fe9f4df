// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wording of the results of an experiment, shared by all outputs.

mod arms;
mod ends;
mod numbers;

use pagewise_model::{Clock, MetricKind, Trial, TrialMetric, Verdict};

pub use arms::{arm, arms, command_line, workload};
pub use ends::{describe_end, failures};
pub use numbers::{change_and_interval, effect, format_digits, round_to_whole, total, value};
pub use pagewise_model::duration::{format_precise, format_rough};

/// The placeholder in an empty cell of a table.
pub const NONE: &str = "–";

/// A verdict in a word.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Equivalent => "equivalent",
        Verdict::Undecided => "undecided",
    }
}

/// Puts the experiment's name in front, if it has one.
pub fn prefix_name(name: Option<&str>, text: &str) -> String {
    name.map_or_else(|| text.to_owned(), |name| format!("{name}: {text}"))
}

/// The command as it could be typed.
pub fn command(trial: &Trial) -> String {
    command_line(&trial.program)
}

/// Whether the metric can be judged in runs that were timed with this clock; other metrics are
/// shown without a judgement.
pub fn is_judged(clock: Clock, metric: &TrialMetric) -> bool {
    match (clock, metric.kind) {
        (Clock::Real, _) | (_, MetricKind::Count) | (Clock::Counted, MetricKind::Cpu) => true,
        // a value printed by the command may be a time: whoever judged it knows that and has set
        // `lack`
        (_, MetricKind::Said) => metric.lack.is_none(),
        (_, MetricKind::Cpu | MetricKind::Time) => false,
    }
}

/// The judgement of a metric, or why there is none.
pub fn judgement(clock: Clock, metric: &TrialMetric, decides: bool) -> String {
    match &metric.lack {
        _ if !is_judged(clock, metric) => NONE.to_owned(),
        Some(lack) => lack.clone(),
        None if decides => format!("{}, decides", verdict(metric.verdict)),
        None => verdict(metric.verdict).to_owned(),
    }
}

/// The ratio of B to A and its interval, if they can be judged.
pub fn estimate(clock: Clock, metric: &TrialMetric) -> [String; 2] {
    if !is_judged(clock, metric) {
        return [NONE.to_owned(), NONE.to_owned()];
    }
    change_and_interval(metric.b_per_a, metric.interval)
}

/// The meaning of the verdict, in one or two sentences.
pub fn meaning(trial: &Trial) -> String {
    let Some(primary) = trial.metrics.first() else { return String::new() };
    if !is_judged(trial.clock, primary) {
        return format!("{} is shown and not judged: nothing decides here.", primary.name);
    }
    let [_, interval] = change_and_interval(primary.b_per_a, primary.interval);
    let interval = Some(interval).filter(|_| primary.interval.is_some());
    match (trial.verdict, interval, &primary.lack) {
        (_, _, Some(lack)) => format!("{} cannot be compared: {lack}.", primary.name),
        (Verdict::Equivalent, Some(interval), _) => format!(
            "No difference that matters: {interval} in {}, all within {}.",
            primary.name,
            effect(trial.min_effect)
        ),
        (Verdict::Undecided, interval, _) => describe_undecided(trial, primary, interval),
        _ => String::new(),
    }
}

fn describe_undecided(trial: &Trial, primary: &TrialMetric, interval: Option<String>) -> String {
    let shown = match interval {
        Some(interval) => format!("No difference shown in {}: {interval}", primary.name),
        None => format!("{} pairs decide nothing", trial.pairs),
    };
    let more = match primary.more_pairs {
        Some(more) => format!(
            "about {more} more pairs would probably tell: the same with --pairs {}",
            trial.planned_pairs.max(trial.pairs) + more
        ),
        None => "no number of pairs that is worth it would tell".to_owned(),
    };
    format!("{shown}; {more}.")
}

/// Whether the metric is 0 in both arms, however few pairs of runs there are.
pub fn is_zero_in_both_arms(metric: &TrialMetric) -> bool {
    [metric.a, metric.b] == [Some(0.0), Some(0.0)]
}

/// The guard metrics that are 0 in both arms, in one line.
pub fn list_zero_metrics(metrics: &[TrialMetric]) -> Option<String> {
    let none = metrics.iter().skip(1).filter(|metric| is_zero_in_both_arms(metric));
    let names: Vec<&str> = none.map(|metric| metric.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("0 in both: {}.", names.join(", ")))
}

/// Turns a note into a sentence.
pub fn sentence(note: &str) -> String {
    let mut letters = note.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// Describes how the result of the trial was obtained.
pub fn method(trial: &Trial) -> String {
    let pairs = match trial.pairs {
        1 => "1 pair".to_owned(),
        pairs => format!("{pairs} pairs"),
    };
    // with more than two arms there is no such figure
    let paired = if trial.pairs > 0 && !crate::lineup::has_more_than_two_arms(trial) {
        " What is paired: \"b against a\" is the middle of the ratios within pairs (Hodges and Lehmann); \
         a and b are medians of all runs, so that their quotient may be another."
    } else {
        ""
    };
    let warm_up = match trial.warm_up_runs {
        0 => "without warm-up".to_owned(),
        1 => "after a first run, which is discarded".to_owned(),
        runs => format!("after {runs} runs of warm-up, which are discarded"),
    };
    let early = if trial.pairs < trial.planned_pairs && trial.stopped.is_none() {
        format!(" (of {} at most: it was clear at a planned look)", trial.planned_pairs)
    } else {
        String::new()
    };
    format!(
        "{pairs} in random order{early} {warm_up}; {} in all. Differences up to {} do not matter. \
         Seed {}.{paired}",
        format_rough(trial.seconds),
        effect(trial.min_effect),
        trial.seed
    )
}
