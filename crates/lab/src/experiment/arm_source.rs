// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses settings and swap of an arm from text such as `vm.swappiness=60` and
//! `swap=zram:512M:lz4+file:1G`.
//!
//! Areas are used in the given order, unless they have a priority. Whether this host has the
//! compression algorithm, or room for the file, is not checked here; the lender checks that when it
//! sets up the arm.

use std::str::FromStr;

use pagewise_model::arm::parse_setting;
use pagewise_model::lend::ZswapSpec;
use pagewise_model::typed::NotASize;
use pagewise_model::{Bytes, Compressor, Percent, TrialArm, TrialSetting, TrialSwap};

/// The parsed value of the option `--a` or `--b`: a part of an arm's definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArmSource {
    /// A setting of the knob table, with its value.
    Setting(TrialSetting),
    /// All swap areas of the arm; empty for an arm without swap.
    Swap(Vec<TrialSwap>),
}

impl FromStr for ArmSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, areas)) if name.trim() == "swap" => {
                parse_swap(areas.trim()).map(Self::Swap)
            }
            _ => parse_setting(text).map(Self::Setting),
        }
    }
}

/// The swap of an arm is defined twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "arm {0} says twice what swap it has; several areas are joined by a plus sign, as \
     swap=zram:512M+file:1G"
)]
pub struct SwapTwice(String);

/// Builds an arm with all of these settings.
///
/// # Errors
/// If the swap of the arm is defined twice.
pub fn build_arm(name: &str, given: &[ArmSource]) -> Result<TrialArm, SwapTwice> {
    let mut arm = TrialArm { name: name.to_owned(), ..TrialArm::default() };
    for given in given {
        match given {
            ArmSource::Setting(set) => arm.settings.push(set.clone()),
            ArmSource::Swap(areas) if arm.swap.is_none() => arm.swap = Some(areas.clone()),
            ArmSource::Swap(_) => {
                return Err(SwapTwice(name.to_owned()));
            }
        }
    }
    Ok(arm)
}

/// Parses the swap of an arm: `off`, or areas joined by `+`.
///
/// # Errors
/// If the text is invalid: what is wrong, and the valid forms.
pub fn parse_swap(text: &str) -> Result<Vec<TrialSwap>, String> {
    if text == "off" {
        return Ok(Vec::new());
    }
    text.split('+').map(parse_area).collect()
}

/// Parses a swap area: `zram:512M:lz4` or `file:512M`. A block device cannot be given, because its
/// contents would be lost.
fn parse_area(text: &str) -> Result<TrialSwap, String> {
    let mut parts = text.split(':');
    let (kind, first) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let rest: Vec<&str> = parts.collect();
    let read = match kind {
        "zram" => parse_zram(first, &rest),
        "zswap" => parse_zswap(first, &rest).map(TrialSwap::Zswap),
        "file" => parse_only_priority(&rest)
            .and_then(|priority| Ok(TrialSwap::File { size_bytes: parse_size(first)?, priority })),
        _ => Err("a kind that is not known".to_owned()),
    };
    read.map_err(|why| format!("swap area {text:?}: {why}; {FORMS}"))
}

const FORMS: &str = "expected off, zram:SIZE, zram:SIZE:ALGORITHM or file:SIZE, each \
    also with :priority=N, zram also with :limit=SIZE, and several joined by + in the order in \
    which they are used, as zram:512M:lz4+file:1G; zswap in front of them as \
    zswap:ALGORITHM:PERCENT:shrinker+file:1G";

fn parse_zram(first: &str, rest: &[&str]) -> Result<TrialSwap, String> {
    let size_bytes = parse_size(first)?;
    let (mut algorithm, mut mem_limit_bytes, mut priority) = (None, None, None);
    for part in rest {
        let again = match part.split_once('=') {
            Some(("limit", limit)) => mem_limit_bytes.replace(parse_size(limit)?).is_some(),
            Some(("priority", number)) => priority.replace(self::parse_priority(number)?).is_some(),
            Some((name, _)) => return Err(format!("{name} is not known")),
            None => algorithm.replace(check_word(part)?).is_some(),
        };
        if again {
            return Err(format!("{part} comes after another of its kind"));
        }
    }
    Ok(TrialSwap::Zram { size_bytes, algorithm, mem_limit_bytes, writeback: None, priority })
}

/// Parses zswap's compressor and options: `lz4`, `lz4:20`, `zstd:15:accept=80:shrinker`.
fn parse_zswap(first: &str, rest: &[&str]) -> Result<ZswapSpec, String> {
    let mut spec = ZswapSpec::new(check_word(first)?);
    for part in rest {
        let again = match part.split_once('=') {
            None if *part == "shrinker" => std::mem::replace(&mut spec.shrinker, true),
            None => spec.max_pool_percent.replace(parse_percentage(part)?).is_some(),
            Some(("accept", threshold)) => {
                spec.accept_threshold_percent.replace(parse_percentage(threshold)?).is_some()
            }
            Some((name, _)) => return Err(format!("{name} is not known")),
        };
        if again {
            return Err(format!("{part} comes after another of its kind"));
        }
    }
    Ok(spec)
}

fn parse_percentage(text: &str) -> Result<u8, String> {
    let percent = Percent::parse_within(text, 1.0..=100.0).map_err(|error| error.to_string())?;
    whole_percent(percent)
}

/// Converts a share to a whole number of percent, the only form that the kernel accepts.
pub(crate) fn whole_percent(percent: Percent) -> Result<u8, String> {
    let mut whole = 1..=100u8;
    whole.find(|whole| f64::from(*whole) == percent.get()).ok_or_else(|| {
        format!("expected a whole number of percent from 1 to 100, found {}", percent.get())
    })
}

fn parse_only_priority(rest: &[&str]) -> Result<Option<i16>, String> {
    match rest {
        [] => Ok(None),
        [one] => {
            let number = one.strip_prefix("priority=").ok_or(format!("{one:?} is too much"))?;
            parse_priority(number).map(Some)
        }
        [_, more, ..] => Err(format!("{more:?} is too much")),
    }
}

fn parse_size(text: &str) -> Result<u64, String> {
    check_size(text.parse().map_err(|error: NotASize| error.to_string())?)
}

fn parse_priority(text: &str) -> Result<i16, String> {
    text.parse()
        .ok()
        .and_then(|number| check_priority(number).ok())
        .ok_or_else(|| expected_priority(&text))
}

fn expected_priority(found: &dyn std::fmt::Display) -> String {
    format!("expected a priority from 0 to 32767, found {found}")
}

/// Checks the size of a swap area: at least 1 MiB; returns it in bytes.
pub(crate) fn check_size(size: Bytes) -> Result<u64, String> {
    let is_large = size.get() >= 1 << 20;
    let found = || format!("expected at least 1M, found {}", size.format_typed());
    is_large.then_some(size.get()).ok_or_else(found)
}

/// Checks a swap priority. A process that calls swapon may only set priorities that are not
/// negative; the kernel assigns negative ones itself.
pub(crate) fn check_priority(priority: i16) -> Result<i16, String> {
    (priority >= 0).then_some(priority).ok_or_else(|| expected_priority(&priority))
}

/// Checks the name of an algorithm. Other text is refused, because the name is written to files in
/// sysfs.
pub(crate) fn check_word(text: &str) -> Result<String, String> {
    match text.parse() {
        Ok(Compressor { algorithm, level: None }) => Ok(algorithm.as_str().to_owned()),
        _ => Err(format!("{text:?} names no algorithm: expected the name of an algorithm as lz4")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn file(mib: u64) -> TrialSwap {
        TrialSwap::File { size_bytes: mib * MIB, priority: None }
    }

    fn zram(mib: u64, algorithm: Option<&str>) -> TrialSwap {
        TrialSwap::Zram {
            size_bytes: mib * MIB,
            algorithm: algorithm.map(str::to_owned),
            mem_limit_bytes: None,
            writeback: None,
            priority: None,
        }
    }

    #[test]
    fn areas_stand_in_the_order_in_which_they_are_used() {
        assert_eq!(parse_swap("off"), Ok(vec![]));
        assert_eq!(parse_swap("zram:512M:lz4"), Ok(vec![zram(512, Some("lz4"))]));
        assert_eq!(parse_swap("zram:100M+file:1G"), Ok(vec![zram(100, None), file(1024)]));
        let limited = TrialSwap::Zram {
            size_bytes: 64 * MIB,
            algorithm: Some("zstd".to_owned()),
            mem_limit_bytes: Some(16 * MIB),
            writeback: None,
            priority: Some(5),
        };
        assert_eq!(parse_swap("zram:64M:limit=16M:zstd:priority=5"), Ok(vec![limited]));
        let first = TrialSwap::File { size_bytes: MIB, priority: Some(0) };
        assert_eq!(parse_swap("file:1M:priority=0"), Ok(vec![first]));
    }

    #[test]
    fn zswap_stands_in_front_of_areas() {
        let lz4 = ZswapSpec::new("lz4");
        assert_eq!(parse_swap("zswap:lz4+file:1G"), Ok(vec![TrialSwap::Zswap(lz4), file(1024)]));
        let all = ZswapSpec {
            max_pool_percent: Some(15),
            accept_threshold_percent: Some(80),
            shrinker: true,
            ..ZswapSpec::new("zstd")
        };
        let parsed = parse_swap("zswap:zstd:shrinker:15%:accept=80+zram:1M").unwrap();
        assert_eq!(parsed[0], TrialSwap::Zswap(all));
    }

    #[test]
    fn what_is_no_area_is_told_the_forms() {
        for (bad, says) in [
            ("", "a kind that is not known"),
            ("on", "a kind that is not known"),
            ("zram", "as 256M or 2G"),
            ("zram:512", "as 256M or 2G"),
            ("zram:0M", "expected at least 1M"),
            ("file:1G+", "a kind that is not known"),
            ("file:1G:lz4", "\"lz4\" is too much"),
            ("file:1G:priority=1:priority=2", "is too much"),
            ("zram:1G:lz4:zstd", "comes after another"),
            ("zram:1G:lz4/../x", "names no algorithm"),
            ("zram:1G:colour=blue", "colour is not known"),
            ("zram:1G:priority=-2", "from 0 to 32767"),
            ("device:/dev/sda", "a kind that is not known"),
            ("zswap", "names no algorithm"),
            ("zswap:lz4:0", "from 1 to 100"),
            ("zswap:lz4:7.5", "a whole number of percent"),
            ("zswap:lz4:20:30", "comes after another"),
            ("zswap:lz4:shrinker:shrinker", "comes after another"),
            ("zswap:lz4:limit=1M", "limit is not known"),
        ] {
            let why = parse_swap(bad).unwrap_err();
            assert!(why.contains(says) && why.contains(FORMS), "{bad}: {why}");
        }
    }

    #[test]
    fn an_arm_has_one_swap_and_any_settings() {
        let given = |text: &[&str]| -> Vec<ArmSource> {
            text.iter().map(|text| text.parse().unwrap()).collect()
        };
        let made = build_arm("b", &given(&["vm.swappiness=60", "swap=off"])).unwrap();
        assert_eq!((made.settings.len(), made.swap), (1, Some(Vec::new())));
        assert_eq!(build_arm("a", &[]).unwrap().swap, None);
        let why = build_arm("b", &given(&["swap=off", "swap=file:1G"])).unwrap_err();
        assert!(why.to_string().contains("arm b says twice"), "{why}");
        let why = "swapp=off".parse::<ArmSource>().unwrap_err();
        assert!(why.contains("no setting"), "{why}");
    }

    proptest! {
        /// Areas joined by `+` are parsed like single areas.
        #[test]
        fn areas_are_read_one_by_one(sizes in proptest::collection::vec((1u64..4096, any::<bool>()), 1..5)) {
            let (texts, areas): (Vec<String>, Vec<TrialSwap>) = sizes
                .into_iter()
                .map(|(mib, is_file)| if is_file { (format!("file:{mib}M"), file(mib)) } else { (format!("zram:{mib}M:lzo-rle"), zram(mib, Some("lzo-rle"))) })
                .unzip();
            prop_assert_eq!(parse_swap(&texts.join("+")), Ok(areas));
        }

        #[test]
        fn no_text_is_a_panic(text in "[a-z:=+0-9MG/]{0,40}") {
            let _ = parse_swap(&text);
        }
    }
}
