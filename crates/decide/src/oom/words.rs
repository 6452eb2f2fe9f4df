// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats times and lists for sentences.

use pagewise_model::Bytes;

use crate::text::count_of;

/// Formats a duration in the largest unit that fits: `42 seconds`, `3 minutes`, `5 hours`, `2
/// days`.
pub(crate) fn format_age(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "clamped to what a boot can last")]
    #[expect(clippy::cast_sign_loss, reason = "clamped to what a boot can last")]
    let whole = seconds.clamp(0.0, 1e12) as u64;
    match whole {
        0..=119 => count_of(whole, "second"),
        120..=7199 => count_of(whole / 60, "minute"),
        7200..=172_799 => count_of(whole / 3600, "hour"),
        _ => count_of(whole / 86_400, "day"),
    }
}

pub(super) fn format_or_unknown(when: Option<String>) -> String {
    when.unwrap_or_else(|| "At an unknown time".to_owned())
}

/// Formats each known size after its name: `anon 3.0 MiB`.
pub(super) fn format_sizes(parts: &[(&str, Option<Bytes>)]) -> Vec<String> {
    let known = parts.iter().filter_map(|(name, size)| Some(format!("{name} {}", (*size)?)));
    known.collect()
}

/// Joins words to a list as in a sentence: `a, b and c`.
pub(super) fn join_words(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        let listed = [0.4, 1.0, 119.0, 120.0, 7199.0, 7200.0, 172_800.0, f64::NAN].map(format_age);
        assert_eq!(
            listed,
            [
                "0 seconds",
                "1 second",
                "119 seconds",
                "2 minutes",
                "119 minutes",
                "2 hours",
                "2 days",
                "0 seconds"
            ]
        );
    }
}
