// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats the numbers of a replayed experiment as table cells, like the program's own text.
//!
//! xtask may not link the program's crates, so the few formatting rules are repeated here:
//! percentages with one decimal, factors from 3 on, and times with three digits.

/// Smallest ratio that is printed as a factor instead of a percentage.
const FACTOR: f64 = 3.0;
/// Largest ratio that is printed. For a larger ratio, or one below the inverse of this limit, only
/// the limit is printed.
const LARGEST: f64 = 1000.0;

/// Formats a ratio as a change, with its interval, as percentages: `+6.1 %`, `−64.0 % (−70.0 to
/// −56.7 %)`. If a percentage would be hard to read, all values are printed as factors: `12.3 ×
/// (0.50 to 15 ×)`.
pub(super) fn format_change(ratio: f64, ends: Option<[f64; 2]>) -> String {
    let is_percent = |ratio: &f64| (1.0 / LARGEST..FACTOR).contains(ratio);
    let all_percent = std::iter::once(&ratio).chain(ends.iter().flatten()).all(is_percent);
    let (shown, unit): (fn(f64) -> String, _) =
        if all_percent { (format_percent, "%") } else { (format_factor, "×") };
    match ends.map(|ends| ends.map(shown)) {
        Some([low, high]) => format!("{} {unit} ({low} to {high} {unit})", shown(ratio)),
        None => format!("{} {unit}", shown(ratio)),
    }
}

fn format_percent(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let decimals = usize::from(percent.abs() < 99.95);
    let shown = format!("{:.decimals$}", percent.abs());
    let sign = if shown == "0.0" {
        "±"
    } else if percent < 0.0 {
        "−"
    } else {
        "+"
    };
    format!("{sign}{shown}")
}

fn format_factor(ratio: f64) -> String {
    match ratio {
        large if large > LARGEST => format!("> {LARGEST:.0}"),
        small if small < 1.0 / LARGEST => "< 0.001".to_owned(),
        ratio => format_significant(ratio),
    }
}

/// Formats a value of a metric in its unit.
pub(super) fn format_value(unit: &str, value: f64) -> String {
    match unit {
        "seconds" => format_seconds(value),
        "bytes" => format_bytes(value),
        "count" | "pages" => group_digits(value),
        "share" => format!("{:.1} %", value * 100.0),
        "per second" if value >= 1000.0 => format!("{} /s", group_digits(value)),
        "per second" => format!("{} /s", format_significant(value)),
        _ => format_significant(value),
    }
}

fn format_significant(number: f64) -> String {
    match number.abs() {
        whole if whole.fract() == 0.0 && whole < 1e15 => format!("{number:.0}"),
        large if large >= 100.0 => format!("{number:.0}"),
        ten if ten >= 10.0 => format!("{number:.1}"),
        one if one >= 0.1 => format!("{number:.2}"),
        small if small >= 0.001 => format!("{number:.4}"),
        _ => format!("{number:.2e}"),
    }
}

fn format_seconds(seconds: f64) -> String {
    match seconds {
        long if long >= 99.5 => format!("{long:.0} s"),
        ten if ten >= 9.95 => format!("{ten:.1} s"),
        one if one >= 0.995 => format!("{one:.2} s"),
        some if some >= 0.0995 => format!("{:.0} ms", some * 1e3),
        few if few >= 0.009_95 => format!("{:.1} ms", few * 1e3),
        fewer if fewer >= 0.000_995 => format!("{:.2} ms", fewer * 1e3),
        0.0 => "0 s".to_owned(),
        micros if micros >= 0.000_099_5 => format!("{:.0} µs", micros * 1e6),
        moment => format!("{:.1} µs", moment * 1e6),
    }
}

fn format_bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = bytes.max(0.0);
    let mut unit = 0;
    // 1023.95 would be rounded to 1024.0, so from there on the next unit is used
    while scaled >= if unit == 0 { 1024.0 } else { 1023.95 } && unit + 1 < units.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0);
    format!("{scaled:.decimals$} {}", units[unit])
}

fn group_digits(number: f64) -> String {
    let digits = format!("{:.0}", number.round().max(0.0));
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_percentages_and_far_ones_factors() {
        let cases = [
            (1.0704, "+7.0 %"),
            (0.5, "−50.0 %"),
            (0.9999, "±0.0 %"),
            (2.25, "+125 %"),
            (4.0, "4 ×"),
            (45.67, "45.7 ×"),
            (0.0392, "−96.1 %"),
            (2e3, "> 1000 ×"),
            (0.0, "< 0.001 ×"),
        ];
        for (ratio, shown) in cases {
            assert_eq!(format_change(ratio, None), shown);
        }
        let cases = [
            (1.061, [1.04, 1.083], "+6.1 % (+4.0 to +8.3 %)"),
            (0.36, [0.3, 0.433], "−64.0 % (−70.0 to −56.7 %)"),
            (2.3, [0.5, 12.0], "2.30 × (0.50 to 12 ×)"),
            (16.0, [15.8, 16.6], "16 × (15.8 to 16.6 ×)"),
        ];
        for (ratio, ends, shown) in cases {
            assert_eq!(format_change(ratio, Some(ends)), shown);
        }
    }

    #[test]
    fn values_have_the_units_of_their_metric() {
        let cases = [
            ("seconds", 0.0812, "81.2 ms"),
            ("seconds", 0.412, "412 ms"),
            ("seconds", 18.3, "18.3 s"),
            ("seconds", 0.000_009_9, "9.9 µs"),
            ("bytes", 512.0, "512 B"),
            ("bytes", 100_663_296.0, "96.0 MiB"),
            ("bytes", 1_073_741_823.0, "1.0 GiB"),
            ("count", 31_200.0, "31,200"),
            ("pages", 999.5, "1,000"),
            ("share", 0.732, "73.2 %"),
            ("per second", 50_443.2, "50,443 /s"),
            ("said", 12.345, "12.3"),
        ];
        for (unit, number, shown) in cases {
            assert_eq!(format_value(unit, number), shown);
        }
    }
}
