// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints durations for people, in the unit that fits.
//!
//! There are two functions: [`format_precise`] for measured values that are to be compared, and [`format_rough`]
//! for how long something took or will take. What users type is parsed by
//! [`crate::typed::parse_duration`].

/// Formats a measured duration, given in seconds, with three significant digits: `890 ns`, `3.31
/// µs`, `98.0 ms`, `12.4 s`.
#[must_use]
pub fn format_precise(seconds: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("s", 1.0), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9)];
    if seconds == 0.0 {
        return "0 s".to_owned();
    }
    // a value that would print as 1000 of a unit is printed as 1.00 of the next
    let fits = |(_, per_second): &&(&str, f64)| seconds.abs() * per_second >= 0.9995;
    let (unit, per_second) = UNITS.iter().find(fits).unwrap_or(&UNITS[3]);
    let value = seconds * per_second;
    let digits = match value.abs() {
        hundreds if hundreds >= 99.95 => 0,
        tens if tens >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// Formats a duration, given in seconds, rounded to about two digits: `40 ms`, `4.2 s`, `16 s`, `7 min`,
/// `3.5 h`, `12 d`.
#[must_use]
pub fn format_rough(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_owned(),
        moment if moment < 0.0995 => format!("{:.0} ms", moment * 1e3),
        short if short < 9.95 => format!("{short:.1} s"),
        some if some < 99.5 => format!("{some:.0} s"),
        minutes if minutes < 5_970.0 => format!("{:.0} min", minutes / 60.0),
        hours if hours < 35_820.0 => format!("{:.1} h", hours / 3_600.0),
        hours if hours < 172_800.0 => format!("{:.0} h", hours / 3_600.0),
        days => format!("{:.0} d", days / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_duration_has_the_unit_that_fits() {
        let shown = [0.0, 8.9e-7, 1.2e-8, 3.31e-6, 0.098, 0.9996, 12.43, 301.0].map(format_precise);
        let expected =
            ["0 s", "890 ns", "12.0 ns", "3.31 µs", "98.0 ms", "1.00 s", "12.4 s", "301 s"];
        assert_eq!(shown, expected);
        let shown = [0.0, 0.04, 0.9, 16.2, 420.0, 7200.0, 36_000.0, 1_036_800.0].map(format_rough);
        assert_eq!(shown, ["0 s", "40 ms", "0.9 s", "16 s", "7 min", "2.0 h", "10 h", "12 d"]);
    }

    proptest! {
        /// A duration printed with three significant digits differs from the value by at most 0.5
        /// %, and 1000 of a unit is never printed.
        #[test]
        fn what_is_printed_is_near(exponent in -8.5f64..2.9) {
            let seconds = 10f64.powf(exponent);
            let shown = format_precise(seconds);
            let (number, unit) = shown.split_once(' ').unwrap();
            let unit = match unit { "s" => 1.0, "ms" => 1e-3, "µs" => 1e-6, _ => 1e-9 };
            let number: f64 = number.parse().unwrap();
            prop_assert!(number < 1000.0, "{shown}");
            prop_assert!((number * unit / seconds - 1.0).abs() <= 0.0051, "{seconds}: {shown}");
        }
    }
}
