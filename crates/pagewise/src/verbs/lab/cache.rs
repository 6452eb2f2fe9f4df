// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab cache`: what was fetched, for how long it stays.

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use pagewise_lab::cache::{Cache, Listed};
use pagewise_lab::guest;

use super::{Outcome, tell};
use crate::cli::{Global, LabCache};
use crate::output;

pub(super) fn run(
    global: &Global,
    what: &LabCache,
    cache: &Cache,
    stop: &AtomicBool,
) -> anyhow::Result<Outcome> {
    match what {
        LabCache::List => list(global, cache)?,
        LabCache::Prune { suites } => {
            for line in guest::clean(cache, stop)? {
                tell(global, &line);
            }
            for suite in cache.prune(suites, stop)? {
                tell(global, &format!("{suite}: removed"));
            }
        }
        LabCache::Fetch { suites } => {
            for suite in suites {
                cache.fetch(suite, stop, &mut |line| tell(global, line))?;
            }
            list(global, cache)?;
        }
    }
    Ok(Outcome::Done)
}

fn list(global: &Global, cache: &Cache) -> anyhow::Result<()> {
    let listed = cache.list()?;
    let text = match global.json {
        true => {
            let entries = serde_json::to_value(&listed)?;
            let folder = cache.folder().to_string_lossy();
            let schema = "pagewise/lab-cache/1";
            format!(
                "{:#}\n",
                serde_json::json!({"schema": schema, "folder": folder, "kernels": entries})
            )
        }
        false => table(&listed, cache),
    };
    output::print(text.as_bytes())?;
    Ok(())
}

fn table(listed: &[Listed], cache: &Cache) -> String {
    let mut text = format!("{}\n", cache.folder().display());
    if listed.is_empty() {
        text.push_str("  no kernels; `pagewise lab cache fetch trixie` fetches one\n");
    }
    for Listed { suite, release, packages, size } in listed {
        let release = release.as_deref().unwrap_or("damaged: fetched again when it is wanted");
        let _ = writeln!(text, "  {suite:10} {size:>10}  {release}");
        let _ = writeln!(text, "             {}", packages.join(", "));
    }
    text
}
