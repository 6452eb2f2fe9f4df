// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the findings of an experiment are spelled, wherever they are shown.

use pagewise_model::{Bytes, Ends, RunEnd, Trial, TrialArm, TrialMetric, Verdict, grouped};

/// From here on a ratio is a factor rather than a percentage.
const FACTOR: f64 = 3.0;

pub(crate) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Equivalent => "equivalent",
        Verdict::Undecided => "undecided",
    }
}

/// `vm.swappiness 60 → 100`, or each arm with what it sets.
pub(crate) fn arms(trial: &Trial) -> String {
    match trial.arms.as_slice() {
        [a, b] => match (a.settings.as_slice(), b.settings.as_slice()) {
            ([one], [other]) if one.knob == other.knob => {
                format!("{} {} → {}", one.knob, one.value, other.value)
            }
            (one, other) if one == other => format!("{}, twice", arm(a)),
            _ => format!("{} → {}", arm(a), arm(b)),
        },
        several => several.iter().map(arm).collect::<Vec<_>>().join(" → "),
    }
}

fn arm(arm: &TrialArm) -> String {
    let settings = arm.settings.iter().map(|set| format!("{}={}", set.knob, set.value));
    let settings: Vec<String> = settings.collect();
    if settings.is_empty() { "as it is".to_owned() } else { settings.join(" ") }
}

/// The command as it could be typed.
pub(crate) fn command(trial: &Trial) -> String {
    let plain = |word: &String| {
        !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./=:,+%@".contains(c))
    };
    let words = trial.command.iter().map(|word| match plain(word) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// `+6.1 %`, `−24.9 %`, or `12 ×` where a percentage would not be read.
pub(crate) fn change(ratio: f64) -> String {
    let factor = if ratio < 1.0 { 1.0 / ratio } else { ratio };
    if factor >= FACTOR {
        return format!("{} ×", digits(ratio));
    }
    format!("{} %", points((ratio - 1.0) * 100.0))
}

/// `+4.0 to +8.3 %`.
pub(crate) fn interval([low, high]: Ends<f64>) -> String {
    match (change(low), change(high)) {
        (low, high) if low.ends_with('%') == high.ends_with('%') => {
            format!("{} to {high}", low.trim_end_matches([' ', '%', '×']))
        }
        (low, high) => format!("{low} to {high}"),
    }
}

/// An effect without a sign, as `2 %` or `0.5 %`.
pub(crate) fn effect(effect: f64) -> String {
    let percent = format!("{:.1}", effect * 100.0);
    format!("{} %", percent.strip_suffix(".0").unwrap_or(&percent))
}

/// With a sign and one digit behind the point, where that tells anything.
fn points(percent: f64) -> String {
    let shown = if percent.abs() < 99.95 {
        format!("{:.1}", percent.abs())
    } else {
        format!("{:.0}", percent.abs())
    };
    let sign = match percent {
        _ if shown == "0.0" => "±",
        below if below < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{shown}")
}

/// At least two digits that count; whole numbers as they are.
fn digits(number: f64) -> String {
    match number.abs() {
        whole if whole.fract() == 0.0 && whole < 1e15 => format!("{number:.0}"),
        large if large >= 100.0 => format!("{number:.0}"),
        ten if ten >= 10.0 => format!("{number:.1}"),
        one if one >= 0.1 => format!("{number:.2}"),
        small if small >= 0.001 => format!("{number:.4}"),
        _ => format!("{number:.2e}"),
    }
}

/// A value of a metric with its unit.
pub(crate) fn value(metric: &TrialMetric, value: f64) -> String {
    match metric.unit.as_str() {
        "seconds" => seconds(value),
        "bytes" => Bytes::new(whole(value)).to_string(),
        "count" | "pages" => grouped(whole(value)),
        _ => digits(value),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count or a size; a median of two may end in a half"
)]
fn whole(value: f64) -> u64 {
    value.round().max(0.0) as u64
}

/// Three digits that count.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        long if long >= 99.5 => format!("{long:.0} s"),
        ten if ten >= 9.95 => format!("{ten:.1} s"),
        one if one >= 0.995 => format!("{one:.2} s"),
        some if some >= 0.0995 => format!("{:.0} ms", some * 1000.0),
        few => format!("{:.1} ms", few * 1000.0),
    }
}

/// A whole experiment's time.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        long if long >= 7200.0 => format!("{:.1} h", long / 3600.0),
        some if some >= 120.0 => format!("{:.0} min", some / 60.0),
        few => self::seconds(few),
    }
}

pub(crate) fn end(end: RunEnd) -> String {
    match end {
        RunEnd::Exited { status: 0 } => "ended well".to_owned(),
        RunEnd::Exited { status } => format!("exit status {status}"),
        RunEnd::Killed { signal } => format!("killed by signal {signal}"),
        RunEnd::OutOfMemory { .. } => "out of memory".to_owned(),
        RunEnd::TimedOut => "took too long".to_owned(),
        RunEnd::NotRun => "not run".to_owned(),
    }
}

/// What the verdict means, in a sentence or two.
pub(crate) fn meaning(trial: &Trial) -> String {
    let Some(primary) = trial.metrics.first() else { return String::new() };
    let interval = primary.interval.map(interval);
    match (trial.verdict, interval, &primary.lack) {
        (_, _, Some(lack)) => format!("{} cannot be compared: {lack}.", primary.name),
        (Verdict::Equivalent, Some(interval), _) => format!(
            "No difference that matters: {interval} in {}, all within {}.",
            primary.name,
            effect(trial.min_effect)
        ),
        (Verdict::Undecided, interval, _) => undecided(trial, primary, interval),
        _ => String::new(),
    }
}

fn undecided(trial: &Trial, primary: &TrialMetric, interval: Option<String>) -> String {
    let shown = match interval {
        Some(interval) => format!("No difference shown in {}: {interval}", primary.name),
        None => format!("{} pairs tell nothing", trial.pairs),
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

/// Whether it is nothing on both sides.
pub(crate) fn is_none(metric: &TrialMetric) -> bool {
    [metric.a, metric.b] == [Some(0.0), Some(0.0)] && metric.interval == Some([1.0, 1.0])
}

/// Those of the guards that counted nothing, in a line.
pub(crate) fn none(metrics: &[TrialMetric]) -> Option<String> {
    let none = metrics.iter().skip(1).filter(|metric| is_none(metric));
    let names: Vec<&str> = none.map(|metric| metric.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("0 in both: {}.", names.join(", ")))
}

/// A note as a sentence.
pub(crate) fn sentence(note: &str) -> String {
    let mut letters = note.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// How it was found out.
pub(crate) fn method(trial: &Trial) -> String {
    let pairs = match trial.pairs {
        1 => "1 pair".to_owned(),
        pairs => format!("{pairs} pairs"),
    };
    let warm_up = match trial.warm_up_runs {
        0 => "without warm-up".to_owned(),
        1 => "after a first run, which is discarded".to_owned(),
        runs => format!("after {runs} runs of warm-up, which are discarded"),
    };
    let early = match trial.pairs < trial.planned_pairs && trial.stopped.is_none() {
        true => format!(" (of {} at most: it was clear at a planned look)", trial.planned_pairs),
        false => String::new(),
    };
    format!(
        "{pairs} in random order{early} {warm_up}; {} in all. Differences up to {} do not matter. \
         Seed {}.",
        duration(trial.seconds),
        effect(trial.min_effect),
        trial.seed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_changes_are_percentages_and_large_ones_factors() {
        let all = [1.061, 0.751, 1.0, 0.99999, 2.5, 3.0, 12.34, 0.01, 150.0].map(change);
        let shown = [
            "+6.1 %",
            "−24.9 %",
            "±0.0 %",
            "±0.0 %",
            "+150 %",
            "3 ×",
            "12.3 ×",
            "0.0100 ×",
            "150 ×",
        ];
        assert_eq!(all, shown);
        assert_eq!(interval([1.04, 1.083]), "+4.0 to +8.3 %");
        assert_eq!(interval([0.5, 12.0]), "−50.0 % to 12 ×");
        assert_eq!([0.02, 0.005, 0.0412].map(effect), ["2 %", "0.5 %", "4.1 %"]);
    }

    #[test]
    fn times_have_three_digits() {
        let all = [0.0123, 0.123, 1.234, 12.34, 123.4].map(seconds);
        assert_eq!(all, ["12.3 ms", "123 ms", "1.23 s", "12.3 s", "123 s"]);
    }
}
