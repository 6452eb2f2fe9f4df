// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab cache`: lists, fetches, verifies and removes what guests need.

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use pagewise_guest::cache::{Cache, Listed, Verdict};
use pagewise_guest::item::Item;
use pagewise_guest::qemu;
use pagewise_terminal::{Global, Outcome, output};

use super::print_message;
use crate::cli::lab::LabCache;

pub(super) fn run(
    global: &Global,
    what: &LabCache,
    cache: &Cache,
    stop: &AtomicBool,
) -> anyhow::Result<Outcome> {
    match what {
        LabCache::List => list(global, cache)?,
        LabCache::Prune { items } => {
            for line in qemu::remove_leftovers(cache, stop)? {
                print_message(global, &line);
            }
            for item in cache.prune(items, stop)? {
                print_message(global, &format!("{item}: removed"));
            }
        }
        LabCache::Verify { items } => return verify(global, cache, items, stop),
        LabCache::Fetch { items } => {
            for item in items {
                cache.fetch(item, stop, &mut |line| print_message(global, line))?;
            }
            list(global, cache)?;
        }
    }
    Ok(Outcome::Done)
}

/// Compares cached kernels with the packages. If the packages were replaced by newer ones, that is
/// not a finding; files that differ are.
fn verify(
    global: &Global,
    cache: &Cache,
    items: &[Item],
    stop: &AtomicBool,
) -> anyhow::Result<Outcome> {
    let kept: Vec<Item> = cache.list()?.into_iter().map(|one| one.item).collect();
    let requested = if items.is_empty() { &kept[..] } else { items };
    let mut differs = false;
    for item in requested {
        let verdict = match item {
            Item::Kernel(kernel) => {
                let verdict =
                    cache.verify(kernel, stop, &mut |line| print_message(global, line))?;
                differs |= matches!(verdict, Verdict::Differs(_));
                verdict_line(&verdict)
            }
            Item::Userland(_) => "its disk was made on this machine and cannot be compared; \
                                  `pagewise lab cache fetch` makes it anew"
                .to_owned(),
        };
        output::print_text(&format!("{item}: {verdict}\n"), false)?;
    }
    Ok(if differs { Outcome::Findings } else { Outcome::Done })
}

/// Maximum number of cached files that are named.
const SHOWN: usize = 5;

fn verdict_line(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Same => "every file is that of Debian's signed packages".to_owned(),
        Verdict::MovedOn(packages) => format!(
            "not compared, as the suite has other packages by now: {}; `pagewise lab cache fetch` gets them",
            describe_contents(packages)
        ),
        Verdict::Differs(files) => {
            let more = match files.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let shown = files[..files.len().min(SHOWN)].join(", ");
            format!(
                "NOT the files of Debian's signed packages: {shown}{more}; somebody or a fault has changed \
                 them: `pagewise lab cache prune` removes them"
            )
        }
    }
}

fn list(global: &Global, cache: &Cache) -> anyhow::Result<()> {
    let listed = cache.list()?;
    let text = if global.json {
        let (kernels, userlands): (Vec<&Listed>, Vec<&Listed>) =
            listed.iter().partition(|one| matches!(one.item, Item::Kernel(_)));
        let document = serde_json::json!({
            "schema": "pagewise/lab-cache/1",
            "folder": cache.folder().to_string_lossy(),
            "kernels": kernels,
            "userlands": userlands,
        });
        format!("{document:#}\n")
    } else {
        table(&listed, cache)
    };
    output::print_answer(global, &text)?;
    Ok(())
}

fn table(listed: &[Listed], cache: &Cache) -> String {
    let mut text = format!("{}\n", cache.folder().display());
    if listed.is_empty() {
        text.push_str("  nothing; `pagewise lab cache fetch trixie` fetches a kernel\n");
    }
    for Listed { item, release, packages, size, .. } in listed {
        let item = item.to_string();
        let release = release.as_deref().unwrap_or("damaged: fetched again when it is wanted");
        let _ = writeln!(text, "  {item:16} {size:>10}  {release}");
        let _ = writeln!(text, "{:20}{}", "", describe_contents(packages));
    }
    text
}

/// The names of a kernel's few packages; of a userland only the number (`--json` has the names).
fn describe_contents(packages: &[String]) -> String {
    match packages.len() {
        0..=6 => packages.join(", "),
        many => format!("{many} packages"),
    }
}
