// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How zswap is set up → the knobs to set, in an order that every kernel accepts.
//!
//! Each knob is a loan of its own and goes back by itself, the switch first. Before zswap is switched on
//! for the first time since boot, the kernel accepts any name of a compressor, and takes its default when
//! it is switched on: so the compressor is compared once more after that.
//!
//! Switching zswap off leaves its pool as it is. Only switching off the swap behind it empties it, so that
//! swap has to go back before.

use pagewise_model::lend::{KnobSetting, ZswapSpec};

use crate::error::{Doing, Error};
use crate::host_ops::{HostChange, HostOps};

const PARAMETERS: &str = "/sys/module/zswap/parameters";
pub(crate) const COMPRESSOR: &str = "zswap.compressor";
const SHRINKER: &str = "zswap.shrinker_enabled";

/// The knobs that the specification sets, the switch last.
///
/// # Errors
/// If the kernel has no zswap, or no shrinker and one is asked for.
pub(crate) fn settings(hands: &dyn HostOps, spec: &ZswapSpec) -> Result<Vec<KnobSetting>, Error> {
    if !hands.exists(&parameter("enabled")) {
        let why = "this kernel was built without it (CONFIG_ZSWAP)";
        return Err(Error::Absent { what: "zswap".to_owned(), why });
    }
    let has_shrinker = hands.exists(&parameter("shrinker_enabled"));
    if spec.shrinker && !has_shrinker {
        let why = "zswap of this kernel has no shrinker";
        return Err(Error::Absent { what: SHRINKER.to_owned(), why });
    }
    let flag = |on: bool| if on { "Y" } else { "N" }.to_owned();
    let number = |percent: u8| percent.to_string();
    let values = [
        ("zswap.max_pool_percent", spec.max_pool_percent.map(number)),
        ("zswap.accept_threshold_percent", spec.accept_threshold_percent.map(number)),
        (SHRINKER, has_shrinker.then(|| flag(spec.shrinker))),
        (COMPRESSOR, Some(spec.algorithm.clone())),
        ("zswap.enabled", Some(flag(true))),
    ];
    let set = |(name, value): (&str, Option<String>)| Some(KnobSetting::new(name, value?));
    Ok(values.into_iter().filter_map(set).collect())
}

/// The compressor after zswap was switched on. Another than the one asked for is set once more: now the
/// kernel says what is wrong with it. Then `old` goes back, so that nothing is left of it.
pub(crate) fn check_compressor(
    hands: &mut dyn HostOps,
    spec: &ZswapSpec,
    old: &str,
) -> Result<(), Error> {
    let path = parameter("compressor");
    let found = hands.read(&path).doing(|| path.clone())?;
    if found == spec.algorithm {
        return Ok(());
    }
    let doing = || format!("{COMPRESSOR} = {}", spec.algorithm);
    let refused =
        hands.act(&HostChange::Write { path: &path, value: &spec.algorithm }).doing(doing);
    hands
        .act(&HostChange::Write { path: &path, value: old })
        .doing(|| format!("{path} = {old}"))?;
    refused?;
    let (what, wrote) = (COMPRESSOR.to_owned(), spec.algorithm.clone());
    Err(Error::Changed { what, wrote, found })
}

fn parameter(name: &str) -> String {
    format!("{PARAMETERS}/{name}")
}
