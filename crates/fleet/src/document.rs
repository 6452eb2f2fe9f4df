// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a [`Machine`] of a document that `pagewise report --json` printed.

use pagewise_model::{Bytes, Level, Machine, Name, Percent, Ratio, Severity, SwapSetup};
use serde::Serialize;
use serde_json::Value;

use super::machine::{combine, difference, is_of_host, setting_key, worst_by_id};

/// The schema of the documents that can be read.
const SCHEMA: &str = "pagewise/report/1";

/// Why a document is not one of a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It has another schema, or none.
    #[error("expected a document of `pagewise report --json` (schema {SCHEMA}), found {0}")]
    Schema(String),
    /// A part that every such document has is missing.
    #[error("{0} is missing, or is not what `pagewise report --json` prints")]
    Part(&'static str),
}

/// Makes a machine of a document. `name` is how the report names it.
///
/// # Errors
/// If the document has another schema, or lacks the time, the verdict or the findings.
pub fn machine_of_document(name: Name, document: &Value) -> Result<Machine, DocumentError> {
    let schema = document.get("schema").and_then(Value::as_str);
    if schema != Some(SCHEMA) {
        let found = schema.map_or_else(
            || "another JSON document".to_owned(),
            |schema| Name::from(schema).as_str().to_owned(),
        );
        return Err(DocumentError::Schema(found));
    }
    let time = document.get("time").and_then(Value::as_str);
    let time = time.and_then(|time| time.parse::<jiff::Timestamp>().ok());
    let level = document.pointer("/verdict/level").and_then(Value::as_str);
    let level = level.and_then(|level| find_named(&LEVELS, level));
    let memory = |name: &str| bytes(document.get("memory")?.get(name)?);
    Ok(Machine {
        name,
        boot: text(document.get("boot_id")),
        unix_seconds: time.ok_or(DocumentError::Part("time"))?.as_millisecond() as f64 / 1e3,
        architecture: text(document.pointer("/host/architecture")),
        kernel: text(document.get("kernel")),
        ram: memory("total"),
        available: memory("available"),
        anon: memory("anon_pages"),
        inactive_anon: memory("inactive_anon"),
        anon_huge: memory("anon_huge_pages"),
        swap_used: difference(memory("swap_total"), memory("swap_free")),
        waited: document
            .pointer("/psi/memory/some/avg60/value")
            .and_then(Value::as_f64)
            .map(Percent::new),
        level: level.ok_or(DocumentError::Part("verdict"))?,
        findings: worst_by_id(findings(document).ok_or(DocumentError::Part("findings"))?),
        swap: swap_setup(document),
        compressed: compressed(document),
        sampled_ratio: sampled_ratio(document),
        settings: list(document, "knobs").filter_map(setting).collect(),
        limits: None,
    })
}

const LEVELS: [Level; 5] =
    [Level::Unknown, Level::Calm, Level::Tight, Level::Short, Level::Critical];
const SEVERITIES: [Severity; 3] = [Severity::Info, Severity::Warning, Severity::Critical];

/// The one of these values that is printed so.
fn find_named<T: Serialize + Copy>(all: &[T], name: &str) -> Option<T> {
    let is_it = |value: &&T| serde_json::to_value(value).is_ok_and(|it| it.as_str() == Some(name));
    all.iter().find(is_it).copied()
}

fn list<'a>(document: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    document.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// The value of a reading that has one.
fn value(reading: &Value) -> Option<&Value> {
    reading.get("value")
}

fn bytes(reading: &Value) -> Option<Bytes> {
    value(reading)?.as_u64().map(Bytes::new)
}

fn text(reading: Option<&Value>) -> Option<Name> {
    value(reading?)?.as_str().map(Name::from)
}

fn findings(document: &Value) -> Option<impl Iterator<Item = (String, Severity)>> {
    let all = document.get("findings")?.as_array()?;
    Some(all.iter().filter_map(|finding| {
        let severity = find_named(&SEVERITIES, finding.get("severity")?.as_str()?)?;
        Some((finding.get("id")?.as_str()?.to_owned(), severity))
    }))
}

fn setting(setting: &Value) -> Option<(String, Name)> {
    let name = setting.get("knob")?.as_str().filter(|name| is_of_host(name))?;
    let instance = setting.get("instance").and_then(Value::as_str).map(Name::from);
    let live = setting.get("live").and_then(value)?.as_str()?;
    Some((setting_key(name, instance.as_ref()), Name::from(live)))
}

fn swap_setup(document: &Value) -> SwapSetup {
    let Some(tiers) = document.get("tiers").and_then(Value::as_array) else {
        return SwapSetup::Unknown;
    };
    let is_ram = |tier: &Value| {
        let kind = tier.get("kind").and_then(Value::as_str);
        kind.is_some_and(|kind| ["zram", "zmerge"].contains(&kind))
    };
    let zswap = document.pointer("/zswap/enabled/value").and_then(Value::as_bool);
    combine(tiers.iter().any(is_ram), tiers.iter().any(|tier| !is_ram(tier)), zswap == Some(true))
}

/// What is stored in zram, zmerge and zswap, and the RAM that it takes. `None` if one of these sizes is
/// not known.
fn compressed(document: &Value) -> Option<(Bytes, Bytes)> {
    let is_used = |device: &&Value| {
        device.pointer("/initialised/value").and_then(Value::as_bool) != Some(false)
    };
    let size = |from: &Value, path: &str| bytes(from.pointer(path)?);
    let mut sums = (Bytes::new(0), Bytes::new(0));
    let mut add = |stored: Bytes, pool: Bytes| {
        sums = (sums.0.saturating_add(stored), sums.1.saturating_add(pool));
    };
    for device in list(document, "zram").chain(list(document, "zmerge")).filter(is_used) {
        let backing = text(device.get("backing_device")).filter(|it| it.as_str() != "none");
        let on_disk = match backing {
            Some(_) => size(device, "/bd_stat/held")?,
            None => Bytes::new(0),
        };
        let original = size(device, "/mm_stat/original")?;
        add(original.saturating_sub(on_disk), size(device, "/mm_stat/memory_used")?);
    }
    let has_zswap = document.pointer("/zswap/enabled").is_some_and(|it| it.get("absent").is_none());
    if has_zswap {
        add(size(document, "/zswap/stored")?, size(document, "/zswap/pool")?);
    }
    Some(sums)
}

/// The ratio of the first algorithm in the estimate over all processes, which is the one that the
/// kernel uses unless it is told otherwise.
fn sampled_ratio(document: &Value) -> Option<Ratio> {
    let of_all = |estimate: &&Value| {
        estimate.pointer("/source/kind").and_then(Value::as_str) == Some("processes")
    };
    let estimate = list(document, "estimates").find(of_all)?;
    let pages = estimate.get("pages")?.as_u64()?;
    let original = pages.checked_mul(estimate.get("page_bytes")?.as_u64()?)?;
    let used = estimate.pointer("/algorithms/0/memory_used_bytes")?.as_u64()?;
    Ratio::from_sizes(Bytes::new(original), Bytes::new(used))
}
