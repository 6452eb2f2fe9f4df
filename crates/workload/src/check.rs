// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the parameters of a workload before it starts.

use super::error::Error;
use super::{ColdPages, HugePages, Redis, Size, Swap, Tiers};
use crate::contents::Mix;

/// Returns an error if `holds` is false, naming what was expected and what was found.
fn error_unless(
    holds: bool,
    key: &str,
    expected: &str,
    found: impl std::fmt::Display,
) -> Result<(), Error> {
    let wrong = || Error::Unsound(format!("{key}: expected {expected}, found {found}"));
    if holds { Ok(()) } else { Err(wrong()) }
}

fn check_share(key: &str, value: f64) -> Result<(), Error> {
    error_unless((0.0..=1.0).contains(&value), key, "a share from 0 to 1", value)
}

fn check_rate(key: &str, value: f64) -> Result<(), Error> {
    error_unless((0.0..=1000.0).contains(&value), key, "a rate from 0 to 1000", value)
}

fn check_seconds(value: f64) -> Result<(), Error> {
    let sane = value > 0.0 && value <= 86_400.0;
    error_unless(sane, "seconds", "a time above 0 and up to 86400", value)
}

fn check_exponent(value: f64) -> Result<(), Error> {
    error_unless((0.0..=5.0).contains(&value), "exponent", "a number from 0 to 5", value)
}

/// Converts a size to a number of pages; an error if that is 0.
fn nonzero_page_count(key: &str, size: Size) -> Result<usize, Error> {
    let pages = page_count(key, size)?;
    error_unless(pages > 0, key, "a page at least", size)?;
    Ok(pages)
}

pub(super) fn page_count(key: &str, size: Size) -> Result<usize, Error> {
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(u64::MAX);
    let bytes = size.0.get();
    error_unless(bytes % page == 0, key, &format!("whole pages of {page} bytes"), size)?;
    // Page numbers are stored in 32 bits.
    let number = u32::try_from(bytes / page).ok().and_then(|number| usize::try_from(number).ok());
    error_unless(number.is_some(), key, "fewer pages", size)?;
    Ok(number.unwrap_or_default())
}

/// Parses the mix of contents of the pages.
pub(super) fn parse_mix(text: &str) -> Result<Mix, Error> {
    text.parse().map_err(|error| Error::Unsound(format!("contents: {error}")))
}

pub(super) fn check_swap(settings: &Swap) -> Result<(), Error> {
    let data = nonzero_page_count("data", settings.data)?;
    let window = nonzero_page_count("window", settings.window)?;
    let code = page_count("code", settings.code)?;
    page_count("step", settings.step)?;
    parse_mix(&settings.contents)?;
    error_unless(
        window <= data,
        "window",
        &format!("no more than data={}", settings.data),
        settings.window,
    )?;
    let parts = usize::try_from(settings.parts).unwrap_or(usize::MAX);
    let all = format!("from 1 part to the {window} pages of the window");
    error_unless((1..=window).contains(&parts), "parts", &all, parts)?;
    check_share("code_hot_share", settings.code_hot_share)?;
    check_rate("code_per_data", settings.code_per_data)?;
    error_unless(
        code > 0 || settings.code_per_data == 0.0,
        "code",
        "a page, or code_per_data=0",
        "neither",
    )?;
    check_share("write_share", settings.write_share)?;
    error_unless(settings.iterations > 0, "iterations", "one at least", settings.iterations)?;
    check_seconds(settings.seconds)
}

pub(super) fn check_coldpages(settings: &ColdPages) -> Result<(), Error> {
    nonzero_page_count("data", settings.data)?;
    nonzero_page_count("library", settings.library)?;
    nonzero_page_count("stream", settings.stream)?;
    parse_mix(&settings.contents)?;
    check_exponent(settings.exponent)?;
    check_rate("library_per_data", settings.library_per_data)?;
    check_rate("stream_per_data", settings.stream_per_data)?;
    check_share("write_share", settings.write_share)?;
    error_unless(
        (1..=1024).contains(&settings.sharers),
        "sharers",
        "from 1 to 1024",
        settings.sharers,
    )?;
    let copies = settings.sharers > 1 && settings.write_share > 0.0;
    let expected =
        "0 with more than one of sharers, as a written page is copied and shared no more";
    error_unless(!copies, "write_share", expected, settings.write_share)?;
    error_unless(settings.operations > 0, "operations", "one at least", settings.operations)?;
    check_seconds(settings.seconds)
}

pub(super) fn check_tiers(settings: &Tiers) -> Result<(), Error> {
    nonzero_page_count("hot", settings.hot)?;
    let cold = page_count("cold", settings.cold)?;
    parse_mix(&settings.contents)?;
    check_share("cold_share", settings.cold_share)?;
    error_unless(
        cold > 0 || settings.cold_share == 0.0,
        "cold_share",
        "0 where cold has no page",
        settings.cold_share,
    )?;
    check_exponent(settings.exponent)?;
    check_share("write_share", settings.write_share)?;
    let halves = settings.operations >= 2;
    error_unless(halves, "operations", "two at least, as they have two halves", settings.operations)
}

pub(super) fn check_hugepages(settings: &HugePages) -> Result<(), Error> {
    nonzero_page_count("data", settings.data)?;
    page_count("fragment", settings.fragment)?;
    page_count("neighbour", settings.neighbour)?;
    let each = settings.touch_each;
    error_unless((1..=512).contains(&each), "touch_each", "from 1 to 512", each)?;
    check_seconds(settings.seconds)
}

pub(super) fn check_redis(settings: &Redis) -> Result<(), Error> {
    let records = (1..=1_000_000_000).contains(&settings.records);
    error_unless(records, "records", "from 1 to 1000000000", settings.records)?;
    let bytes = (1..=1 << 20).contains(&settings.value_bytes);
    error_unless(bytes, "value_bytes", "from 1 to 1048576", settings.value_bytes)?;
    let requests = (1..=1_000_000_000).contains(&settings.requests);
    error_unless(requests, "requests", "from 1 to 1000000000", settings.requests)?;
    error_unless(
        (1..=1000).contains(&settings.clients),
        "clients",
        "from 1 to 1000",
        settings.clients,
    )?;
    error_unless(
        (1..=10_000).contains(&settings.pipeline),
        "pipeline",
        "from 1 to 10000",
        settings.pipeline,
    )?;
    check_seconds(settings.seconds)
}
