// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes as Kubernetes writes them.

const UNITS: [(&str, u64); 12] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
];

/// Writes bytes as a quantity in Mi, rounded up: a limit must not be smaller than what was computed.
#[must_use]
pub fn format_quantity(bytes: u64) -> String {
    format!("{}Mi", bytes.div_ceil(1 << 20))
}

/// Reads a quantity of memory: a whole number with or without a unit, such as `512Mi`, `2G` or
/// `1073741824`. `None` for a quantity that is none, is no whole number, or does not fit in 64 bits.
#[must_use]
pub fn parse_quantity(text: &str) -> Option<u64> {
    let end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: u64 = digits.parse().ok()?;
    if unit.is_empty() {
        return Some(number);
    }
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_and_never_rounded_down() {
        assert_eq!(parse_quantity("512Mi"), Some(512 << 20));
        assert_eq!(parse_quantity("2G"), Some(2_000_000_000));
        assert_eq!(parse_quantity("7"), Some(7));
        for bad in ["", "Mi", "-1", "1.5Gi", "1 Mi", "99999999999Ei", "1Zi"] {
            assert_eq!(parse_quantity(bad), None, "{bad:?}");
        }
        assert_eq!(format_quantity((512 << 20) + 1), "513Mi");
        assert_eq!(parse_quantity(&format_quantity(3 << 30)), Some(3 << 30));
    }
}
