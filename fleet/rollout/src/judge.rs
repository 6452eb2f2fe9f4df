// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the changed nodes of a wave with nodes that were measured in the same time.
//!
//! For each node, the value after is divided by the value before. Each changed node is paired with a node
//! of its kind that was not changed, at random; the ratio of the two is free of what changed on all nodes
//! in this time. [`PairedRatio`] gives the typical ratio with a 95 % interval, from six pairs on.
//!
//! The typical ratio does not show harm to a minority. Therefore each changed node is also judged
//! alone ([`Judgement::harmed`]).

use std::collections::BTreeMap;

use pagewise_stats::compare::detectable_effect;
use pagewise_stats::{PairedRatio, median};

use crate::{Guard, Metric, Values};

/// A node with both of its values.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// Name of the node.
    pub name: &'a str,
    /// Kind of the node.
    pub kind: &'a str,
    /// Values before.
    pub before: &'a Values,
    /// Values after.
    pub after: &'a Values,
}

/// What a comparison of a wave shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The worst verdict of all guards, single nodes and OOM kills.
    pub verdict: Verdict,
    /// For each guard.
    pub comparisons: Vec<Comparison>,
    /// Changed nodes that do far worse than the others, by name.
    pub harmed: Vec<String>,
    /// Why it is harm, or why it is not decided.
    pub reasons: Vec<String>,
    /// Number of changed nodes that were measured.
    pub changed: usize,
    /// Number of nodes that were measured without a change.
    pub others: usize,
}

/// The comparison of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What was compared.
    pub metric: Metric,
    /// Number of pairs.
    pub pairs: usize,
    /// By which factor the metric rose more on changed nodes, with its 95 % interval from 6 pairs on.
    pub ratio: Option<PairedRatio>,
    /// Smallest increase that this comparison would probably have shown; 0.1 is 10 %. `None` if there are
    /// too few nodes to tell.
    pub smallest_effect: Option<f64>,
    /// What follows.
    pub verdict: Verdict,
}

/// What follows from a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// An increase above the limit is excluded.
    NoHarm,
    /// There are fewer than six pairs, so that there is no interval.
    TooFew,
    /// There is an interval, and it excludes neither.
    Undecided,
    /// Changed nodes do worse than the limit.
    Harm,
}

/// Fewest pairs with which there is an interval.
const LEAST_PAIRS: usize = 6;
/// A single node is harmed if its increase is this many times what the guard accepts, and
const NODE_FACTOR: f64 = 4.0;
/// if it differs from the others by this many standard deviations.
const NODE_DEVIATIONS: f64 = 6.0;
/// Share of harmed nodes that is accepted in a wave of many nodes.
const HARMED_SHARE: f64 = 0.02;
/// Fewest nodes for an estimate of how much nodes differ.
const LEAST_NODES: usize = 3;

/// Compares changed nodes with others.
#[must_use]
pub fn judge(guards: &[Guard], changed: &[Measured<'_>], others: &[Measured<'_>]) -> Judgement {
    let pairs = pair(changed, others);
    let comparisons: Vec<Comparison> =
        guards.iter().map(|guard| compare(*guard, &pairs, others)).collect();
    let mut reasons: Vec<String> = Vec::new();
    let mut verdict = if changed.is_empty() { Verdict::TooFew } else { Verdict::NoHarm };
    for (guard, comparison) in guards.iter().zip(&comparisons) {
        verdict = verdict.max(comparison.verdict);
        reasons.extend(explain(guard, comparison));
    }
    let harmed = find_harmed(guards, changed, others);
    let accepted = HARMED_SHARE * changed.len() as f64;
    if harmed.len() as f64 > accepted {
        verdict = Verdict::Harm;
        let names: Vec<&str> = harmed.iter().take(5).map(String::as_str).collect();
        reasons.push(format!(
            "{} of {} changed nodes do far worse than the others: {}",
            harmed.len(),
            changed.len(),
            names.join(", ")
        ));
    }
    if let Some(reason) = compare_kills(changed, others) {
        verdict = Verdict::Harm;
        reasons.push(reason);
    }
    let (changed, others) = (changed.len(), others.len());
    Judgement { verdict, comparisons, harmed, reasons, changed, others }
}

/// Pairs nodes of the same kind, in the order in which they come.
fn pair<'a>(
    changed: &'a [Measured<'a>],
    others: &'a [Measured<'a>],
) -> Vec<(&'a Measured<'a>, &'a Measured<'a>)> {
    let mut free: BTreeMap<&str, Vec<&Measured<'_>>> = BTreeMap::new();
    for other in others.iter().rev() {
        free.entry(other.kind).or_default().push(other);
    }
    let pair = |node: &'a Measured<'a>| Some((node, free.get_mut(node.kind)?.pop()?));
    changed.iter().filter_map(pair).collect()
}

/// The logarithm of after divided by before. `None` if a value is missing or is no number.
fn log_change(metric: Metric, node: &Measured<'_>) -> Option<f64> {
    let value = |values: &Values| {
        let (value, floor) = match metric {
            Metric::MemoryFull => (values.memory_full, 0.1),
            Metric::MemorySome => (values.memory_some, 0.2),
            Metric::Refaults => (values.refaults, 5.0),
            Metric::KswapdScans => (values.kswapd_scans, 50.0),
        };
        // The floor keeps changes among tiny values, which harm nobody, from being large ratios.
        value.filter(|it| it.is_finite() && *it >= 0.0).map(|it| it + floor)
    };
    Some((value(node.after)? / value(node.before)?).ln())
}

fn compare(
    guard: Guard,
    pairs: &[(&Measured<'_>, &Measured<'_>)],
    others: &[Measured<'_>],
) -> Comparison {
    let logs: Vec<(f64, f64)> = pairs
        .iter()
        .filter_map(|(node, other)| {
            Some((log_change(guard.metric, node)?, log_change(guard.metric, other)?))
        })
        .collect();
    let (b, a): (Vec<f64>, Vec<f64>) = logs.iter().map(|(b, a)| (b.exp(), a.exp())).unzip();
    let ratio = PairedRatio::from_runs(&a, &b);
    let limit = 1.0 + guard.max_increase;
    let verdict = match ratio.map(|it| (it.estimate, it.interval)) {
        Some((estimate, Some([low, _]))) if low > 1.0 && estimate > limit => Verdict::Harm,
        Some((_, Some([_, high]))) if high < limit => Verdict::NoHarm,
        Some((_, Some(_))) => Verdict::Undecided,
        _ => Verdict::TooFew,
    };
    let spread = spread(guard.metric, others);
    let smallest_effect = spread.filter(|_| logs.len() >= LEAST_PAIRS).map(|(_, deviation)| {
        detectable_effect(deviation, u32::try_from(logs.len()).unwrap_or(u32::MAX))
    });
    Comparison { metric: guard.metric, pairs: logs.len(), ratio, smallest_effect, verdict }
}

/// Median and robust standard deviation of how nodes changed that were only measured.
fn spread(metric: Metric, others: &[Measured<'_>]) -> Option<(f64, f64)> {
    let logs: Vec<f64> = others.iter().filter_map(|node| log_change(metric, node)).collect();
    if logs.len() < LEAST_NODES {
        return None;
    }
    let middle = median(&logs)?;
    let distances: Vec<f64> = logs.iter().map(|log| (log - middle).abs()).collect();
    Some((middle, median(&distances)? * 1.4826))
}

/// Changed nodes that do far worse than nodes that were only measured. None if there are too few of these
/// to tell what is usual.
fn find_harmed(guards: &[Guard], changed: &[Measured<'_>], others: &[Measured<'_>]) -> Vec<String> {
    let is_harmed = |node: &Measured<'_>| {
        guards.iter().any(|guard| {
            let Some((middle, deviation)) = spread(guard.metric, others) else { return false };
            let limit = (NODE_FACTOR * guard.max_increase).ln_1p().max(NODE_DEVIATIONS * deviation);
            log_change(guard.metric, node).is_some_and(|log| log - middle > limit)
        })
    };
    changed.iter().filter(|node| is_harmed(node)).map(|node| node.name.to_owned()).collect()
}

/// Compares on how many nodes there were more OOM kills than before.
fn compare_kills(changed: &[Measured<'_>], others: &[Measured<'_>]) -> Option<String> {
    let count = |nodes: &[Measured<'_>]| {
        let more = |node: &&Measured<'_>| {
            node.after
                .oom_kills
                .zip(node.before.oom_kills)
                .is_some_and(|(after, before)| after > before)
        };
        nodes.iter().filter(more).count()
    };
    let (more, among_others) = (count(changed), count(others));
    let expected = among_others as f64 * changed.len() as f64 / others.len().max(1) as f64;
    let is_worse = more as f64 - expected > 2.0 * expected.sqrt();
    is_worse.then(|| {
        format!(
            "the kernel killed more processes for lack of memory than before on {more} of {} changed nodes, \
             and on {among_others} of {} others",
            changed.len(),
            others.len()
        )
    })
}

fn explain(guard: &Guard, comparison: &Comparison) -> Option<String> {
    let name = comparison.metric.name();
    let ratio = comparison.ratio?;
    let [low, high] = ratio.interval?;
    let [estimate, low, high] = [ratio.estimate, low, high].map(|it| (it - 1.0) * 100.0);
    let limit = guard.max_increase * 100.0;
    let found = format!(
        "{name} {estimate:+.0} % (95 % interval {low:+.0} to {high:+.0} %) on changed nodes relative to others"
    );
    match comparison.verdict {
        Verdict::Harm => Some(format!("{found}; accepted is {limit:+.0} %")),
        Verdict::Undecided => Some(format!("{found}, which does not exclude {limit:+.0} %")),
        Verdict::NoHarm | Verdict::TooFew => None,
    }
}

impl Metric {
    /// The name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MemoryFull => "PSI full",
            Self::MemorySome => "PSI some",
            Self::Refaults => "refaults",
            Self::KswapdScans => "kswapd scans",
        }
    }
}

impl Judgement {
    /// The smallest effects that this comparison would probably have shown, in words.
    #[must_use]
    pub fn describe_smallest_effect(&self) -> String {
        if self.others < LEAST_NODES {
            return "only OOM kills and failures, because no nodes were left to compare with"
                .to_owned();
        }
        let effect = |comparison: &Comparison| {
            let effect = comparison.smallest_effect?;
            Some(format!("{} +{:.0} %", comparison.metric.name(), (effect * 100.0).ceil()))
        };
        let effects: Vec<String> = self.comparisons.iter().filter_map(effect).collect();
        if effects.is_empty() {
            let pairs = self.comparisons.iter().map(|it| it.pairs).max().unwrap_or(0);
            return format!(
                "only great harm to a single node: {pairs} of the {LEAST_PAIRS} pairs that an interval needs"
            );
        }
        effects.join(", ")
    }

    /// Largest share of nodes that may be greatly harmed although none was found among those changed, with
    /// 95 % confidence. `None` if single nodes could not be judged.
    #[must_use]
    pub fn unseen_share(&self) -> Option<f64> {
        let is_judged = self.others >= LEAST_NODES && self.changed > 0 && self.harmed.is_empty();
        is_judged.then(|| 1.0 - 0.05_f64.powf(1.0 / self.changed as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(refaults: f64) -> Values {
        Values { refaults: Some(refaults), oom_kills: Some(0.0), ..Values::default() }
    }

    /// Nodes whose refaults are multiplied by `factor`, with a little noise.
    fn nodes(
        seed: u64,
        number: usize,
        factor: impl Fn(usize) -> f64,
    ) -> Vec<(String, Values, Values)> {
        let mut random = fastrand::Rng::with_seed(seed);
        let node = |at| {
            let noise = (random.f64() - 0.5) * 0.1;
            let after = 1000.0 * factor(at) * (1.0 + noise);
            (format!("n{at}"), values(1000.0), values(after))
        };
        (0..number).map(node).collect()
    }

    fn measured(nodes: &[(String, Values, Values)]) -> Vec<Measured<'_>> {
        let all = nodes.iter();
        all.map(|(name, before, after)| Measured { name, kind: "", before, after }).collect()
    }

    const GUARD: [Guard; 1] = [Guard { metric: Metric::Refaults, max_increase: 0.25 }];

    fn verdict(
        changed: &[(String, Values, Values)],
        others: &[(String, Values, Values)],
    ) -> Judgement {
        judge(&GUARD, &measured(changed), &measured(others))
    }

    #[test]
    fn harm_and_its_absence_are_told_apart_whatever_happens_to_all_nodes() {
        for common in [0.3, 1.0, 4.0] {
            let others = nodes(1, 9, |_| common);
            let good = verdict(&nodes(2, 9, |_| common), &others);
            assert_eq!(good.verdict, Verdict::NoHarm, "{:?}", good.reasons);
            let bad = verdict(&nodes(3, 9, |_| common * 1.5), &others);
            assert_eq!(bad.verdict, Verdict::Harm);
            assert!(bad.reasons[0].starts_with("refaults +"), "{:?}", bad.reasons);
            let smallest = good.comparisons[0].smallest_effect.unwrap();
            assert!((0.02..0.25).contains(&smallest), "{smallest}");
        }
    }

    #[test]
    fn with_few_pairs_only_single_nodes_are_judged() {
        let others = nodes(1, 4, |_| 1.0);
        assert_eq!(verdict(&nodes(2, 4, |_| 1.4), &others).verdict, Verdict::TooFew);
        let bad = verdict(&nodes(2, 4, |_| 3.0), &others);
        assert_eq!((bad.verdict, bad.harmed.len()), (Verdict::Harm, 4));
        assert!(bad.describe_smallest_effect().contains("4 of the 6 pairs"));
        assert_eq!(bad.unseen_share(), None);
        let good = verdict(&nodes(2, 10, |_| 1.0), &nodes(1, 10, |_| 1.0));
        assert!(
            (good.unseen_share().unwrap() - 0.259).abs() < 0.001,
            "0.741 to the power of 10 is 5 %"
        );
        let alone = verdict(&nodes(2, 10, |_| 1.0), &[]);
        assert!(alone.describe_smallest_effect().starts_with("only OOM kills"));
        assert_eq!((alone.unseen_share(), alone.verdict), (None, Verdict::TooFew));
    }

    /// The typical ratio does not show it.
    #[test]
    fn harm_to_a_minority_is_found_node_by_node() {
        let others = nodes(1, 40, |_| 1.0);
        let changed = nodes(2, 40, |at| if at.is_multiple_of(20) { 5.0 } else { 1.0 });
        let found = verdict(&changed, &others);
        assert_eq!(
            (found.verdict, found.harmed),
            (Verdict::Harm, vec!["n0".to_owned(), "n20".to_owned()])
        );
        assert_eq!(found.comparisons[0].verdict, Verdict::NoHarm);
    }

    #[test]
    fn tiny_values_are_no_harm() {
        let tiny = |after: f64| vec![("n".to_owned(), values(0.0), values(after)); 9];
        assert_eq!(verdict(&tiny(0.5), &tiny(0.0)).verdict, Verdict::NoHarm);
        assert_eq!(verdict(&tiny(500.0), &tiny(0.0)).verdict, Verdict::Harm);
    }

    #[test]
    fn oom_kills_count_unless_other_nodes_have_as_many() {
        let with_kills = |number: usize| {
            let mut all = nodes(1, 10, |_| 1.0);
            all.iter_mut().take(number).for_each(|it| it.2.oom_kills = Some(3.0));
            all
        };
        assert_eq!(verdict(&with_kills(1), &with_kills(0)).verdict, Verdict::Harm);
        assert_eq!(verdict(&with_kills(1), &with_kills(1)).verdict, Verdict::NoHarm);
        assert_eq!(verdict(&with_kills(9), &with_kills(1)).verdict, Verdict::Harm);
    }

    /// Only nodes of the same kind are compared, and a missing or impossible value is not a zero.
    #[test]
    fn pairs_are_of_one_kind_and_have_all_values() {
        let (changed, others) = (nodes(1, 9, |_| 1.0), nodes(2, 9, |_| 1.0));
        let mut other_kind = measured(&others);
        other_kind.iter_mut().for_each(|it| it.kind = "arm64");
        let found = judge(&GUARD, &measured(&changed), &other_kind);
        assert_eq!((found.comparisons[0].pairs, found.verdict), (0, Verdict::TooFew));
        let mut hostile = changed;
        hostile[0].2.refaults = None;
        hostile[1].2.refaults = Some(f64::NAN);
        hostile[2].2.refaults = Some(-1.0);
        hostile[3].1.refaults = Some(f64::INFINITY);
        assert_eq!(verdict(&hostile, &others).comparisons[0].pairs, 5);
    }

    /// With guards whose limit is a real effect, harm is shown in nearly all wave comparisons, and a good
    /// change hardly ever stops.
    #[test]
    fn error_rates_are_as_stated() {
        let (mut missed, mut false_alarms) = (0, 0);
        for seed in 0..400 {
            let others = nodes(seed * 3, 9, |_| 1.0);
            missed += usize::from(
                verdict(&nodes(seed * 3 + 1, 9, |_| 1.5), &others).verdict != Verdict::Harm,
            );
            false_alarms += usize::from(
                verdict(&nodes(seed * 3 + 2, 9, |_| 1.0), &others).verdict == Verdict::Harm,
            );
        }
        assert_eq!((missed, false_alarms), (0, 0));
    }
}
