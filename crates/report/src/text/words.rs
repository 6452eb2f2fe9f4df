// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The spelling of values, and the text if there is no value.

use pagewise_model::{Bytes, Outcome, Pages, Percent, Quantity, Ratio, Reading};

use super::kit::Role;
use super::table::{Cell, NONE};

/// The text of a denied Reading that root could read.
pub(super) const AS_ROOT: &str = "run as root";
const NEEDS_ROOT: &str = "needs root";
/// The text for a value that not even root could read.
const REFUSED: &str = "refused";

/// The reason why there is no value if the file is not among copied files of a machine.
pub(super) const UNCOLLECTED: &str = "not in this recording";
/// The text in a table for a value whose file is not among copied files of a machine.
const NOT_COLLECTED: &str = "not collected";

/// Formats the priority of a planned swap area.
pub(super) fn priority(priority: Option<i16>) -> String {
    priority.map_or("filled last".to_owned(), |priority| format!("priority {priority}"))
}

/// The reason why there is no value if the file does not exist.
pub(super) const MISSING: &str = "no such file";

/// Formats a Reading: a value, `–`, `needs root`, `not collected` or `refused`.
pub(super) fn format_reading<T: Quantity>(reading: &Reading<T>) -> String {
    spell_reading(reading, Quantity::shown)
}

/// Formats a Reading as [`format_reading`] does, with a spelling of the caller's choice.
pub(super) fn spell_reading<T>(reading: &Reading<T>, spell: impl FnOnce(&T) -> String) -> String {
    match &reading.outcome {
        Outcome::Value(value) => spell(value),
        Outcome::Absent(_) => NONE.to_owned(),
        Outcome::Denied(_) if can_root_read(reading) => NEEDS_ROOT.to_owned(),
        Outcome::Denied(help) if help == UNCOLLECTED => NOT_COLLECTED.to_owned(),
        Outcome::Denied(_) => REFUSED.to_owned(),
    }
}

/// Whether the Reading was denied, but root could read the value.
pub(super) fn can_root_read<T>(reading: &Reading<T>) -> bool {
    matches!(&reading.outcome, Outcome::Denied(help) if help == AS_ROOT)
}

/// A table's cell with a Reading; anything but a value is printed quietly.
pub(super) fn cell<T: Quantity>(reading: &Reading<T>) -> Cell {
    cell_with(reading, Quantity::shown)
}

/// A table's cell as [`cell`] makes it, with a spelling of the caller's choice.
pub(super) fn cell_with<T>(reading: &Reading<T>, spell: impl FnOnce(&T) -> String) -> Cell {
    let role = if reading.value().is_some() { Role::Plain } else { Role::Quiet };
    Cell::new(role, spell_reading(reading, spell))
}

/// Why a Reading has no value, in words; `None` if it has one or was not read.
pub(super) fn describe_lack<T>(reading: &Reading<T>) -> Option<String> {
    match &reading.outcome {
        Outcome::Value(_) => None,
        Outcome::Absent(_) if !is_requested(reading) => None,
        Outcome::Absent(why) if why == MISSING => {
            Some(format!("none here (no {})", reading.source.path()))
        }
        Outcome::Absent(why) => Some(why.to_string()),
        Outcome::Denied(_) if can_root_read(reading) => Some(NEEDS_ROOT.to_owned()),
        Outcome::Denied(help) => Some(help.to_string()),
    }
}

/// The reason for an absent value, as it was read.
pub(super) fn absence_reason<T>(reading: &Reading<T>) -> Option<&str> {
    match &reading.outcome {
        Outcome::Absent(why) => Some(why),
        Outcome::Value(_) | Outcome::Denied(_) => None,
    }
}

/// Whether the Reading was read at all; the scope of a snapshot may leave values out.
pub(super) fn is_requested<T>(reading: &Reading<T>) -> bool {
    reading.value().is_some() || reading.is_denied() || !reading.source.path().is_empty()
}

/// Formats a part and the whole as [`Bytes::part_of`] does: with one unit if both have the same.
pub(super) fn part_of(part: Bytes, whole: Bytes) -> String {
    part.part_of(whole)
}

/// Formats a share in whole percent; never 0 % or 100 % unless it is exactly that.
pub fn share(part: u64, whole: u64) -> Option<String> {
    if whole == 0 {
        return None;
    }
    let percent = part as f64 * 100.0 / whole as f64;
    Some(match percent {
        some if some > 0.0 && some < 0.5 => "<1 %".to_owned(),
        most if most >= 99.5 && part < whole => "99 %".to_owned(),
        percent => format!("{percent:.0} %"),
    })
}

/// Formats a share of time in percent, as [`Percent::format_share_of_time`] does.
pub(super) fn describe_stall(percent: f64) -> String {
    Percent::new(percent).format_share_of_time()
}

pub(super) use pagewise_model::group_digits as count;

/// Formats a number with its noun in singular or plural: `1 warning`, `2 warnings`, `3 processes`.
pub(super) fn plural(number: u64, noun: &str) -> String {
    let end = match number {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {noun}{end}", count(number))
}

pub(super) use pagewise_model::duration::format_rough as seconds;

/// Formats a compression ratio: `2.82 to 1`.
pub(super) fn format_ratio(ratio: Ratio) -> String {
    format!("{:.2} to 1", ratio.get())
}

/// Formats a number of pages as a size.
pub(super) fn format_pages(pages: Pages, page_size: Bytes) -> String {
    pages.to_bytes(page_size).to_string()
}

/// Joins words to a list as in a sentence: `a, b and c`; a very long list is cut, with the number
/// of the others.
pub(super) fn join_words(words: &[String]) -> String {
    const MOST: usize = 20;
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [head @ .., _] if head.len() > MOST => {
            let rest = count((words.len() - MOST) as u64);
            format!("{} and {rest} more", words[..MOST].join(", "))
        }
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use pagewise_model::Source;

    use super::*;

    #[test]
    fn a_share_never_hides_a_little_or_rounds_up_to_all() {
        assert_eq!(share(0, 100).as_deref(), Some("0 %"));
        assert_eq!(share(1, 1000).as_deref(), Some("<1 %"));
        assert_eq!(share(999, 1000).as_deref(), Some("99 %"));
        assert_eq!(share(1000, 1000).as_deref(), Some("100 %"));
        assert_eq!(share(1, 0), None);
    }

    #[test]
    fn sizes_share_a_unit_where_they_can() {
        let gib = |tenths: u64| Bytes::new(tenths * (1 << 30) / 10);
        assert_eq!(part_of(gib(79), gib(80)), "7.9 of 8.0 GiB");
        assert_eq!(part_of(Bytes::new(1 << 20), gib(80)), "1.0 MiB of 8.0 GiB");
        assert_eq!(part_of(Bytes::new(0), gib(80)), "0 of 8.0 GiB");
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let all = [0, 12, 123, 1234, 123_456, 1_234_567].map(count);
        assert_eq!(all, ["0", "12", "123", "1,234", "123,456", "1,234,567"]);
    }

    #[test]
    fn durations_choose_their_unit() {
        assert_eq!(
            [0.004, 0.38, 0.0998, 9.96, 200.0].map(seconds),
            ["4 ms", "0.4 s", "0.1 s", "10 s", "3 min"]
        );
    }

    #[test]
    fn what_is_not_there_says_so_and_is_never_zero() {
        let at = || Source::file("/sys/x");
        assert_eq!(format_reading(&Reading::<Bytes>::absent("no such file", at())), "–");
        assert_eq!(format_reading(&Reading::<Bytes>::denied(AS_ROOT, at())), "needs root");
        let uncollected = Reading::<Bytes>::denied(UNCOLLECTED, at());
        assert_eq!(format_reading(&uncollected), "not collected");
        assert_eq!(
            format_reading(&Reading::<Bytes>::denied("refused even to root", at())),
            "refused"
        );
        let lacking = Reading::<u64>::absent("no such file", at());
        assert_eq!(describe_lack(&lacking).as_deref(), Some("none here (no /sys/x)"));
        assert_eq!(describe_lack(&Reading::<u64>::not_read()), None);
    }
}
