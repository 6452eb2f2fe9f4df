// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the value in a configuration file with the one in force, even if they are spelled
//! differently.

use super::{Domain, KnobReading};

impl KnobReading {
    /// Whether the value `wanted` of a configuration file is in force; `None` if either value is
    /// unknown or is not a plain value, such as `ram / 2` or `50%`.
    #[must_use]
    pub fn agrees_with(&self, wanted: &str) -> Option<bool> {
        let live = self.active_word()?;
        match self.knob.domain {
            Domain::Int { .. } | Domain::Ints => numbers(live)?.eq(&numbers(wanted)?).into(),
            Domain::Bits { .. } => Some(bits(live)? == bits(wanted)?),
            Domain::Bool => Some(is_on(live)? == is_on(wanted)?),
            Domain::Size | Domain::Limit => Some(size(live)? == size(wanted)?),
            Domain::Word { words } => known_word(words, wanted).map(|word| word == live),
            Domain::Listed => Some(live == first_word(wanted)?),
            Domain::Text | Domain::Trigger => None,
        }
    }
}

/// Parses a switch in any spelling that the kernel or systemd accepts: `1`, `y`, `yes`, `true`,
/// `on` and their opposites, in upper or lower case.
pub(super) fn is_on(word: &str) -> Option<bool> {
    let is_one_of = |words: &[&str]| words.iter().any(|one| word.eq_ignore_ascii_case(one));
    if is_one_of(&["1", "y", "yes", "t", "true", "on"]) {
        Some(true)
    } else if is_one_of(&["0", "n", "no", "f", "false", "off"]) {
        Some(false)
    } else {
        None
    }
}

/// Parses whole numbers, so that `0010` in a configuration file equals the kernel's `10`.
fn numbers(text: &str) -> Option<Vec<i128>> {
    let all: Option<Vec<i128>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    all.filter(|all| !all.is_empty())
}

/// Parses a bit mask in decimal, or in hexadecimal with `0x`. `None` for `y`, which sets all bits
/// that the machine has: their number is not known here.
fn bits(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if word == "n" || word == "N" => Some(0),
        None => word.parse().ok(),
    }
}

/// Parses a size in bytes; `max` and `infinity` mean no limit. Units are powers of 1024, as in the
/// kernel and systemd.
fn size(text: &str) -> Option<u128> {
    if text == "max" || text == "infinity" {
        return Some(u128::MAX);
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u128 = digits.parse::<u64>().ok()?.into();
    let unit = text.get(digits.len()..)?.trim_end_matches(['B', 'i']);
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return None,
    };
    Some(number << shift)
}

fn known_word<'w>(words: &[&str], wanted: &'w str) -> Option<&'w str> {
    words.contains(&wanted).then_some(wanted)
}

/// The first word of a text, without an argument in parentheses: `zstd` of `zstd(level=3) lz4`.
fn first_word(text: &str) -> Option<&str> {
    text.split([' ', '(']).next().filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::KNOBS;
    use crate::{Name, Reading, Source};

    fn agrees(knob: &str, live: &str, wanted: &str) -> Option<bool> {
        let knob = KNOBS.iter().find(|row| row.name == knob).unwrap();
        let live = Reading::found(Name::from(live), Source::file(knob.path));
        KnobReading { knob, instance: None, live, default: None }.agrees_with(wanted)
    }

    #[test]
    fn each_kind_of_value_has_its_spellings() {
        for (knob, live, wanted, expected) in [
            ("vm.swappiness", "60", "060", Some(true)),
            ("vm.swappiness", "60", "1", Some(false)),
            ("vm.swappiness", "60", "%H", None),
            ("vm.lowmem_reserve_ratio", "256 256 32", "256 256 32", Some(true)),
            ("zswap.enabled", "Y", "on", Some(true)),
            ("zswap.enabled", "N", "1", Some(false)),
            ("zswap.enabled", "N", "perhaps", None),
            ("thp.enabled", "always [madvise] never", "madvise", Some(true)),
            ("thp.enabled", "always [madvise] never", "always", Some(false)),
            ("thp.enabled", "always [madvise] never", "sometimes", None),
            ("zram.comp_algorithm", "lzo [zstd] lz4", "zstd(level=3) lz4", Some(true)),
            ("zram.comp_algorithm", "lzo [zstd] lz4", "lz4", Some(false)),
            ("zram.disksize", "4294967296", "4G", Some(true)),
            ("zram.disksize", "4294967296", "4096M", Some(true)),
            ("zram.disksize", "4294967296", "4GiB", Some(true)),
            ("zram.disksize", "4294967296", "2G", Some(false)),
            ("zram.disksize", "4294967296", "ram / 2", None),
            ("cgroup.memory.max", "max", "infinity", Some(true)),
            ("cgroup.memory.max", "1073741824", "1G", Some(true)),
            ("cgroup.memory.max", "max", "1G", Some(false)),
            ("cgroup.memory.max", "1073741824", "50%", None),
            ("mglru.enabled", "0x0007", "7", Some(true)),
            ("mglru.enabled", "0x0007", "y", None),
            ("mglru.enabled", "0x0007", "n", Some(false)),
            ("zram.algorithm_params", "x", "x", None),
        ] {
            assert_eq!(agrees(knob, live, wanted), expected, "{knob} {live} {wanted}");
        }
    }
}
