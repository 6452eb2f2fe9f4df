// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zswap, KSM, MGLRU and DAMON: one line each.

use pagewise_model::{Damon, Ksm, Mglru, Ratio, Snapshot, Zswap};

use super::words::{count, describe_lack, format_pages, format_ratio, format_reading, plural};

/// Label and text of each means to save memory that was read.
pub(super) fn facts(snapshot: &Snapshot) -> Vec<(&'static str, String)> {
    let lines = [
        ("zswap", zswap(&snapshot.zswap)),
        ("KSM", ksm(snapshot)),
        ("MGLRU", mglru(&snapshot.mglru)),
        ("DAMON", damon(&snapshot.damon)),
    ];
    lines.into_iter().filter_map(|(label, text)| Some((label, text?))).collect()
}

pub(super) fn zswap(zswap: &Zswap) -> Option<String> {
    let Some(&on) = zswap.enabled.value() else { return describe_lack(&zswap.enabled) };
    let mut parts = vec![if on { "on" } else { "off" }.to_owned()];
    if on {
        let allocator = zswap.zpool.value().map(|zpool| format!(" in {zpool}")).unwrap_or_default();
        let most = zswap
            .max_pool_percent
            .get()
            .map(|most| format!(", {:.0} % of RAM at most", most.get()));
        parts.push(format!(
            "{}{allocator}{}",
            format_reading(&zswap.compressor),
            most.unwrap_or_default()
        ));
        parts.push(format!("shrinker {}", format_reading(&zswap.shrinker_enabled)));
    }
    if let Some((stored, pool)) = zswap.stored.get().zip(zswap.pool.get()).filter(|_| on) {
        let gain =
            Ratio::from_sizes(stored, pool).map(|ratio| format!(" ({})", format_ratio(ratio)));
        parts.push(format!("holds {stored} in {pool}{}", gain.unwrap_or_default()));
    }
    let written = zswap.written_back.get().filter(|&pages| pages > 0);
    parts.extend(
        written
            .map(|pages| format!("{} handed on to a swap tier since boot", plural(pages, "page"))),
    );
    Some(parts.join("; "))
}

pub(super) fn ksm(snapshot: &Snapshot) -> Option<String> {
    let ksm = &snapshot.ksm;
    let Some(&run) = ksm.run.value() else { return describe_lack(&ksm.run) };
    let state = match run {
        0 => "off",
        1 => "on",
        2 => "off, everything unmerged",
        _ => "in a state this program does not know",
    };
    let mut parts = vec![state.to_owned()];
    parts.extend(describe_merged(ksm, snapshot));
    parts.extend(
        ksm.general_profit_bytes.get().filter(|&profit| profit != 0).map(describe_ksm_profit),
    );
    if run == 1 {
        parts.push(format!(
            "{} full scans",
            ksm.full_scans.get().map_or_else(|| format_reading(&ksm.full_scans), count)
        ));
    }
    Some(parts.join("; "))
}

fn describe_merged(ksm: &Ksm, snapshot: &Snapshot) -> Option<String> {
    let saved = ksm.pages_sharing.get().filter(|pages| pages.get() > 0)?;
    let size = snapshot.page_size();
    let kept = ksm
        .pages_shared
        .get()
        .map(|pages| format!(" by keeping {} once", format_pages(pages, size)));
    Some(format!(
        "{} of duplicates merged away{}",
        format_pages(saved, size),
        kept.unwrap_or_default()
    ))
}

/// Describes what KSM saves after subtracting its metadata; the only number that may be negative.
fn describe_ksm_profit(bytes: i64) -> String {
    let size = pagewise_model::Bytes::new(bytes.unsigned_abs());
    if bytes < 0 { format!("costs {size} more than it saves") } else { format!("net gain {size}") }
}

pub(super) fn mglru(mglru: &Mglru) -> Option<String> {
    let Some(&bits) = mglru.enabled.value() else { return describe_lack(&mglru.enabled) };
    let core = match (mglru.is_on(), bits & 7) {
        (Some(true), 7) => "on, all parts".to_owned(),
        (Some(true), _) => format!("on in part (0x{bits:04x})"),
        _ => "off: pages are chosen by the classic active and inactive lists".to_owned(),
    };
    let protected = mglru.min_ttl.get().filter(|ttl| ttl.get() > 0);
    let protected =
        protected.map(|ttl| format!("; pages younger than {} ms are protected", ttl.get()));
    Some(core + &protected.unwrap_or_default())
}

pub(super) fn damon(damon: &Damon) -> Option<String> {
    let there = damon
        .modules
        .iter()
        .filter(|module| module.enabled.value().is_some() || module.enabled.is_denied());
    let mut parts: Vec<String> = there
        .map(|module| format!("{} {}", module.name, format_reading(&module.enabled)))
        .collect();
    parts.extend(
        damon
            .kdamonds
            .get()
            .filter(|&threads| threads > 0)
            .map(|threads| describe_damon_set_up_by_hand(threads, damon)),
    );
    if !parts.is_empty() {
        return Some(parts.join("; "));
    }
    describe_lack(&damon.kdamonds)
        .or_else(|| damon.kdamonds.value().map(|_| "there, and nobody uses it".to_owned()))
}

/// Describes DAMON's threads that were set up by hand: `2 threads set up by hand (on, off)`.
fn describe_damon_set_up_by_hand(threads: u32, damon: &Damon) -> String {
    let states: Vec<String> = damon.kdamond_states.iter().take(8).map(format_reading).collect();
    let states =
        if states.is_empty() { String::new() } else { format!(" ({})", states.join(", ")) };
    format!("{} set up by hand{states}", plural(threads.into(), "thread"))
}
