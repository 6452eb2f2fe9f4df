// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines which knobs of zswap to set for a specification, in an order that every kernel
//! accepts.
//!
//! Each knob is a loan of its own and is restored separately, `enabled` first. Before zswap is
//! first enabled after boot, the kernel accepts any compressor name, and uses its default when it
//! is enabled: so the compressor is checked again after that.
//!
//! Disabling zswap does not empty its pool. Only disabling the swap behind it does, so that swap
//! has to be returned before.

use pagewise_model::lend::{KnobSetting, ZswapSpec};

use crate::error::{Doing, Error};
use crate::host_ops::{HostChange, HostOps};

const PARAMETERS: &str = "/sys/module/zswap/parameters";
pub(crate) const COMPRESSOR: &str = "zswap.compressor";
const SHRINKER: &str = "zswap.shrinker_enabled";

/// The knobs that a zswap specification sets, `enabled` last.
///
/// # Errors
/// If the kernel has no zswap, or has no shrinker and one is requested.
pub(crate) fn settings(host: &dyn HostOps, spec: &ZswapSpec) -> Result<Vec<KnobSetting>, Error> {
    if !host.exists(&parameter("enabled")) {
        let why = "this kernel was built without it (CONFIG_ZSWAP)";
        return Err(Error::Absent { what: "zswap".to_owned(), why });
    }
    let has_shrinker = host.exists(&parameter("shrinker_enabled"));
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

/// Checks the compressor after zswap was enabled. If it is not the requested one, it is set again
/// to get the kernel's error. Then `old` is restored, so that no change remains.
pub(crate) fn check_compressor(
    host: &mut dyn HostOps,
    spec: &ZswapSpec,
    old: &str,
) -> Result<(), Error> {
    let path = parameter("compressor");
    let found = host.read(&path).doing(|| path.clone())?;
    if found == spec.algorithm {
        return Ok(());
    }
    let doing = || format!("{COMPRESSOR} = {}", spec.algorithm);
    let refused =
        host.make_change(&HostChange::Write { path: &path, value: &spec.algorithm }).doing(doing);
    host.make_change(&HostChange::Write { path: &path, value: old })
        .doing(|| format!("{path} = {old}"))?;
    refused?;
    let (what, wrote) = (COMPRESSOR.to_owned(), spec.algorithm.clone());
    Err(Error::Changed { what, wrote, found })
}

fn parameter(name: &str) -> String {
    format!("{PARAMETERS}/{name}")
}
