// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists the measures that became better or worse, and the experiment that could show which setting
//! caused it.
//!
//! The load may also differ between two readings, so that nothing here is a statement about a
//! cause.

use pagewise_model::knob::{Access, KNOBS, Knob, Undo};
use pagewise_model::{
    ActivityChange, Bytes, ObservedEffect, PressureChange, SettingChange, SizeChange, Snapshot,
    group_digits, quote_for_shell,
};

/// A difference of less than this, in percent of the larger value, is not reported as better or
/// worse.
const LEAST_PERCENT: f64 = 20.0;
/// Shares of time below this, in percent, are all considered equal.
const LEAST_PRESSURE: f64 = 1.0;
/// Rates below this, per second, are all considered equal.
const LEAST_RATE: f64 = 1.0;

const CAVEAT: &str = "Two readings are no experiment: the load differs, too, and so does what ran before. No \
    difference shown here proves that a setting is its cause.";

pub(crate) fn observed_effect(
    before: &Snapshot,
    memory: &[SizeChange],
    pressure: &[PressureChange],
    activity: &[ActivityChange],
) -> ObservedEffect {
    let mut effect = ObservedEffect { caveat: CAVEAT.to_owned(), ..ObservedEffect::default() };
    if let Some(change) = memory.iter().find(|change| change.name == "available") {
        effect.add_available(before, change);
    }
    pressure.iter().for_each(|change| effect.add_pressure(change));
    activity.iter().for_each(|change| effect.add_rate(change));
    effect
}

/// Adds a measure to the list of what became better or of what became worse, or to neither.
trait Add {
    fn add(&mut self, is_better: bool, text: String);
    fn add_available(&mut self, before: &Snapshot, change: &SizeChange);
    fn add_pressure(&mut self, change: &PressureChange);
    fn add_rate(&mut self, change: &ActivityChange);
}

impl Add for ObservedEffect {
    fn add(&mut self, is_better: bool, text: String) {
        let side = if is_better { &mut self.better } else { &mut self.worse };
        side.push(text);
    }

    /// Adds the change of available memory, which is better if it is larger.
    fn add_available(&mut self, before: &Snapshot, change: &SizeChange) {
        let (Some(then), Some(now)) = (change.before.get(), change.after.get()) else { return };
        let total = before.memory.total.get().unwrap_or_default().get();
        let is_noise = then.get().abs_diff(now.get()).saturating_mul(20) < total;
        if !is_noise && differs(then.get() as f64, now.get() as f64, 0.0) {
            self.add(now > then, format!("available memory {then} → {now}"));
        }
    }

    /// Adds the change of a pressure, which is better if it is smaller.
    fn add_pressure(&mut self, change: &PressureChange) {
        let (Some(then), Some(now)) = (change.before.get(), change.after.get()) else { return };
        if !change.name.starts_with("cpu") && differs(then.get(), now.get(), LEAST_PRESSURE) {
            let text = format!(
                "pressure ({}) {} → {}",
                change.name,
                then.format_share_of_time(),
                now.format_share_of_time()
            );
            self.add(now < then, text);
        }
    }

    /// Adds the change of a rate, which is better if it is smaller.
    fn add_rate(&mut self, change: &ActivityChange) {
        let own = change.before.zip(change.after);
        let boots = || change.since_boot.map(|[then, now]| (then, now));
        let Some((then, now)) = own.or_else(boots) else { return };
        if differs(then, now, LEAST_RATE) {
            let [shown_then, shown_now] =
                [then, now].map(|rate| format_per_second(rate, change.page_bytes));
            self.add(now < then, format!("{} {shown_then} → {shown_now}", change.name));
        }
    }
}

/// Whether two values differ by more than noise. Values up to `least` are considered equal.
fn differs(then: f64, now: f64, least: f64) -> bool {
    let larger = then.max(now);
    larger > least && (then - now).abs() * 100.0 >= LEAST_PERCENT * larger
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn format_per_second(rate: f64, page: Option<Bytes>) -> String {
    match page {
        Some(page) => format!("{}/s", Bytes::new((rate * page.get() as f64) as u64)),
        None => format!("{}/s", group_digits(rate.round() as u64)),
    }
}

/// Returns the command of an experiment that tests the changed settings: those that exist once and
/// can be changed temporarily. `None` if there are none.
pub(crate) fn trial_command(before: &Snapshot, settings: &[SettingChange]) -> Option<String> {
    let (mut a, mut b) = (String::new(), String::new());
    for change in settings.iter().filter(|change| can_be_lent(before, change)) {
        let (Some(from), Some(to)) = (&change.from, &change.to) else { continue };
        let arm = |value: &str| quote_for_shell(&format!("{}={value}", change.name));
        a.push_str(&format!("--a {} ", arm(from.as_str())));
        b.push_str(&format!("--b {} ", arm(to.as_str())));
    }
    (!a.is_empty()).then(|| format!("sudo pagewise trial {a}{b}-- CMD"))
}

fn can_be_lent(before: &Snapshot, change: &SettingChange) -> bool {
    let is_it = |knob: &&Knob| knob.name == change.name;
    let Some(knob) = KNOBS.iter().find(is_it).filter(|_| change.instance.is_none()) else {
        return false;
    };
    let is_kept = matches!(knob.undo, Undo::WriteBack | Undo::WriteBackNonZero { .. });
    // if two settings exclude each other, the one that reads 0 is not in force
    let is_excluded = matches!(knob.undo, Undo::WriteBackNonZero { .. })
        && [&change.from, &change.to]
            .iter()
            .any(|it| it.as_ref().is_none_or(|it| it.as_str() == "0"));
    knob.access == Access::ReadWrite && is_kept && !is_excluded && before.knob(knob.name).is_some()
}
