// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recomputes the tables of the documents from the raw runs in `evidence/`, by the program's own
//! `lab replay`.
//!
//! The comments `<!-- evidence: FOLDER -->` before a table and `<!-- /evidence -->` after it name
//! the runs of the table. A table of figures that were measured in another way has a comment `<!--
//! by hand: COMMAND -->`. A table of figures with neither is an error. `evidence/README.md`
//! describes folders and comments.

mod numbers;
mod pictures;
mod screens;
mod trial;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use regex_lite::Regex;

use crate::prose::{self, Table};
use crate::run;
use crate::words::{self, Fault};

/// Documents with measurements, as patterns of git.
const DOCUMENTS: &[&str] = &["docs/*.md", "README.md", "kernel/zmerge/README.md"];

const BEGIN: &str = "<!-- evidence:";
const END: &str = "<!-- /evidence -->";
const BY_HAND: &str = "<!-- by hand:";
const CLOSE: &str = "-->";

/// Files that the folder of each machine must have; `lab replay` needs no others.
const FILES: &[&str] = &["experiment.json", "runs.jsonl"];
/// Name of the file that lists the machines, if there are several.
const INDEX: &str = "summary.json";
/// Name of the file with the experiment's own description, if the experiment is not built in.
const SOURCE: &str = "experiment.toml";
/// Maximum size in bytes of a folder of evidence.
const LARGEST_FOLDER: u64 = 256 << 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Change nothing, and fail if a table differs from its runs
    #[arg(long)]
    check: bool,
    /// The program that replays the runs [default: built from this tree]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// A table of a document, between markers that name its evidence.
#[derive(Debug, PartialEq, Eq)]
struct Bound {
    /// Line number of the first marker, from 1.
    line: usize,
    /// The folder below `evidence/` from which the table is computed, with the name of a cell if
    /// the folder has several.
    source: String,
    metrics: Vec<String>,
    /// The lines between the markers, as indices from 0.
    content: std::ops::Range<usize>,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let evidence = run::project().join("evidence");
    let folders = folders(&evidence)?;
    let program = args.program.clone().map_or_else(run::built_program, Ok)?;
    let replay = |source: &str| replay(&program, &evidence, source);
    let (mut bound, mut wrong, mut unmarked) = (0, Vec::new(), Vec::new());
    let mut shown = BTreeSet::new();
    for (path, text) in run::texts(DOCUMENTS)? {
        let update = update_tables(&text, &replay).with_context(|| path.clone())?;
        bound += update.tables;
        unmarked.extend(unmarked_tables(&path, &text));
        shown.extend(pictures::find_shown(&text));
        if update.text == text {
            continue;
        }
        if args.check {
            let places = update.differing.iter().map(|line| format!("  {path}:{line}"));
            wrong.extend(places);
        } else {
            fs::write(run::project().join(&path), &update.text).with_context(|| path.clone())?;
            println!("{path}: {} tables computed anew", update.differing.len());
        }
    }
    let mut redrawn = pictures::draw(&program, &shown, args.check)?;
    redrawn.extend(screens::draw(&program, args.check)?);
    if args.check {
        wrong.extend(redrawn.iter().map(|path| format!("  {path}")));
    } else if !redrawn.is_empty() {
        println!("drawn anew: {}", redrawn.join(", "));
    }
    if !wrong.is_empty() {
        bail!(
            "tables and pictures that differ from their runs; `cargo xtask tables` computes them:\n{}",
            wrong.join("\n")
        );
    }
    let pictures = shown.len();
    println!(
        "{bound} tables and {pictures} pictures agree with the runs of {} folders, and {} pictures with the recordings",
        folders.len(),
        screens::COUNT
    );
    words::ensure_none(&unmarked)
}

/// The folders of evidence, after checking the name, files and size of each.
fn folders(evidence: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(evidence).with_context(|| evidence.display().to_string())? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        ensure!(is_folder_name(&name), "evidence/{name}: expected 2026-11-23-MACHINE-EXPERIMENT");
        check_folder(&entry.path()).with_context(|| format!("evidence/{name}"))?;
        names.push(name);
    }
    names.sort();
    Ok(names)
}

/// Whether the name of a folder has the form `<year>-<month>-<day>-<machine>-<experiment>`.
fn is_folder_name(name: &str) -> bool {
    Regex::new(r"^\d{4}-\d\d-\d\d(-[a-z0-9.]+){2,}$").is_ok_and(|form| form.is_match(name))
}

fn check_folder(folder: &Path) -> Result<()> {
    let (cells, files) = entries(folder)?;
    let needed = if cells.is_empty() { FILES } else { &[INDEX] };
    let mut bytes = check_files(&files, needed, &[SOURCE])?;
    for cell in cells {
        let (folders, files) = entries(&cell)?;
        ensure!(folders.is_empty(), "{}: expected no folder in it", cell.display());
        bytes += check_files(&files, FILES, &[]).with_context(|| cell.display().to_string())?;
    }
    ensure!(bytes <= LARGEST_FOLDER, "{bytes} bytes; at most {LARGEST_FOLDER} are kept");
    Ok(())
}

/// The folders in a folder, and the files in it.
fn entries(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let paths: Vec<PathBuf> = entries.collect::<Result<_>>()?;
    Ok(paths.into_iter().partition(|path| path.is_dir()))
}

/// The total size of these files. An error if a `needed` name is missing, or if a name is not among
/// the `allowed` ones.
fn check_files(files: &[PathBuf], needed: &[&str], allowed: &[&str]) -> Result<u64> {
    let has_name = |path: &Path, name: &str| path.file_name().is_some_and(|own| own == name);
    for name in needed {
        ensure!(files.iter().any(|path| has_name(path, name)), "no {name}");
    }
    let mut bytes = 0;
    for path in files {
        let is_known = needed.iter().chain(allowed).any(|name| has_name(path, name));
        ensure!(is_known, "{}: only {needed:?} are kept", path.display());
        bytes += fs::metadata(path)?.len();
    }
    Ok(bytes)
}

/// The output of `lab replay --json` for a folder. An error if the result differs from the folder's
/// own summary.
fn replay(program: &Path, evidence: &Path, source: &str) -> Result<String> {
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    ensure!(source.split('/').all(plain), "{source:?} is no folder of evidence");
    let folder = evidence.join(source);
    ensure!(folder.is_dir(), "evidence/{source}: no such folder");
    let mut command = run::program(program);
    run::output(command.args(["lab", "replay", "--quiet", "--json"]).arg(&folder))
}

/// A document whose tables were computed again.
#[derive(Debug)]
struct Updated {
    text: String,
    tables: usize,
    /// Line numbers of the markers whose tables differ from their runs.
    differing: Vec<usize>,
}

fn update_tables(text: &str, replay: &dyn Fn(&str) -> Result<String>) -> Result<Updated> {
    let lines: Vec<&str> = text.lines().collect();
    let bound = bound_tables(&lines)?;
    let joined = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let (mut new, mut next, mut differing) = (String::new(), 0, Vec::new());
    for table in &bound {
        let computed = compute(table, replay).with_context(|| format!("line {}", table.line))?;
        if joined(&lines[table.content.clone()]) != computed {
            differing.push(table.line);
        }
        new += &joined(&lines[next..table.content.start]);
        new += &computed;
        next = table.content.end;
    }
    new += &joined(&lines[next..]);
    Ok(Updated { text: new, tables: bound.len(), differing })
}

fn compute(table: &Bound, replay: &dyn Fn(&str) -> Result<String>) -> Result<String> {
    let cells = trial::parse(&replay(&table.source)?)?;
    let metrics: Vec<&str> = table.metrics.iter().map(String::as_str).collect();
    // A blank line before and after the table: without it, Markdown would read the table as a part
    // of the comment.
    Ok(format!("\n{}\n", trial::render(&cells, &metrics)?))
}

fn bound_tables(lines: &[&str]) -> Result<Vec<Bound>> {
    let mut bound = Vec::new();
    let mut lines = lines.iter().map(|line| line.trim()).enumerate();
    while let Some((at, line)) = lines.next() {
        ensure!(line != END, "line {}: {END} without {BEGIN} before it", at + 1);
        let Some(marker) = line.strip_prefix(BEGIN) else { continue };
        let at_line = || format!("line {}", at + 1);
        let marker = marker.strip_suffix(CLOSE);
        let marker = marker.with_context(|| format!("{}: {BEGIN} without {CLOSE}", at_line()))?;
        let mut words = marker.split_whitespace();
        let source = words.next().with_context(|| format!("{}: no folder named", at_line()))?;
        let mut metrics = Vec::new();
        for word in words {
            let names = word.strip_prefix("metrics=");
            let names =
                names.with_context(|| format!("{}: {word:?}: expected metrics=A,B", at_line()))?;
            metrics.extend(names.split(',').map(str::to_owned));
        }
        let begins = |(_, line): &(usize, &str)| line.starts_with(BEGIN);
        let end = lines.by_ref().find(|pair| pair.1 == END || begins(pair));
        let Some((end, END)) = end else {
            bail!("line {}: {BEGIN} without {END} after it", at + 1)
        };
        bound.push(Bound {
            line: at + 1,
            source: source.to_owned(),
            metrics,
            content: at + 1..end,
        });
    }
    Ok(bound)
}

/// Finds tables of figures that name neither their runs nor how they were measured.
fn unmarked_tables(path: &str, text: &str) -> Vec<Fault> {
    let lines: Vec<&str> = text.lines().collect();
    let tables = prose::tables(text).into_iter();
    let unmarked = tables.filter(|table| has_figures(table) && !is_marked(&lines, table.line));
    let fault = |table: Table| Fault {
        path: path.to_owned(),
        line: table.line,
        what: format!("a table of figures without `{BEGIN} … {CLOSE}` or `{BY_HAND} … {CLOSE}`"),
    };
    unmarked.map(fault).collect()
}

/// Whether the last non-blank line before the table is a marker.
fn is_marked(lines: &[&str], line: usize) -> bool {
    let before = lines[..line.saturating_sub(1)].iter().rev().find(|line| !line.trim().is_empty());
    before.is_some_and(|line| {
        let line = line.trim();
        [BEGIN, BY_HAND].iter().any(|marker| line.starts_with(marker)) && line.ends_with(CLOSE)
    })
}

/// Whether at least a third of the cells outside the first column are figures.
fn has_figures(table: &Table) -> bool {
    let cells = table.rows.iter().flat_map(|row| row.iter().skip(1));
    let cells: Vec<&String> = cells.filter(|cell| !cell.is_empty()).collect();
    let figures = cells.iter().filter(|cell| is_figure(cell)).count();
    figures > 0 && 3 * figures >= cells.len()
}

/// Whether a cell begins with a number, such as `138 ms`, `+7.9 % (…)` or `**14.6 min**`.
fn is_figure(cell: &str) -> bool {
    let text = cell.trim_start_matches(['*', '_', '+', '-', '−', '±', '<', '>', '≈', '~', ' ']);
    let text = text.strip_prefix("at most ").unwrap_or(text);
    text.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLAY: &str = r#"{"trial": {"primary": "cpu", "pairs": 7, "arms": [{"name": "off"}, {"name": "on"}],
        "metrics": [{"name": "cpu", "unit": "seconds", "a": 1.0, "b": 2.0, "b_per_a": 2.0, "interval": null,
        "verdict": "worse"}]}}"#;

    const ROWS: &str = "| 7 pairs | off | on | on against off | |\n|---|---|---|---|---|\n\
                        | cpu (decides) | 1.00 s | 2.00 s | +100 % | **worse** |\n";

    fn update(text: &str) -> Result<Updated> {
        update_tables(text, &|source| {
            assert_eq!(source, "2026-01-01-x-y");
            Ok(REPLAY.to_owned())
        })
    }

    #[test]
    fn a_table_that_differs_from_its_runs_is_found_and_computed_anew() {
        let around = |rows: &str| {
            format!(
                "Before.\n\n<!-- evidence: 2026-01-01-x-y metrics=cpu -->\n{rows}<!-- /evidence -->\n\nAfter.\n"
            )
        };
        let good = around(&format!("\n{ROWS}\n"));
        let kept = update(&good).unwrap();
        assert_eq!((kept.text.as_str(), kept.tables, kept.differing.len()), (good.as_str(), 1, 0));
        for wrong in [ROWS.replace("+100", "+101"), ROWS.to_owned(), String::new()] {
            let found = update(&around(&wrong)).unwrap();
            assert_eq!((found.text.as_str(), found.differing), (good.as_str(), vec![3]));
        }
    }

    #[test]
    fn markers_that_do_not_pair_are_refused() {
        for (text, why) in [
            ("<!-- evidence: a -->\n", "without <!-- /evidence -->"),
            ("<!-- /evidence -->\n", "without <!-- evidence:"),
            ("<!-- evidence: a -->\n<!-- evidence: b -->\n<!-- /evidence -->\n", "line 1"),
            ("<!-- evidence: a\n-->\n<!-- /evidence -->\n", "without -->"),
            ("<!-- evidence: -->\n<!-- /evidence -->\n", "no folder"),
            ("<!-- evidence: a arms=b -->\n<!-- /evidence -->\n", "expected metrics="),
        ] {
            let error = format!("{:#}", update(text).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_source_outside_of_the_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for bad in ["../x", "/etc", "a/../b", "missing"] {
            assert!(replay(Path::new("true"), folder.path(), bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn figures_without_a_marker_are_counted() {
        let table = "| a | b |\n|---|---|\n| x | 138 ms |\n| y | **+7.9 %** (−1 to 3 %) |\n";
        let words =
            "| a | b |\n|---|---|\n| x | yes |\n| y | no |\n| z | 3 of them |\n| w | none |\n";
        let count = |text: &str| unmarked_tables("d.md", text).len();
        assert_eq!(count(table), 1);
        assert_eq!(count(words), 0);
        assert_eq!(count(&format!("<!-- by hand: pagewise bench -->\n\n{table}")), 0);
        assert_eq!(
            count(&format!("<!-- evidence: a -->\n\n{table}\n<!-- /evidence -->\n\n{table}")),
            1
        );
        assert_eq!(count(&format!("<!-- by hand: x -->\n\nText.\n\n{table}")), 1);
        assert_eq!(unmarked_tables("d.md", &format!("Text.\n\n{table}"))[0].line, 3);
    }

    #[test]
    fn a_folder_has_a_dated_name_and_all_files() {
        for good in ["2026-11-23-2cpu-6.18-swap", "2026-11-23-guest-coldpages"] {
            assert!(is_folder_name(good), "{good}");
        }
        for bad in ["swap", "2026-11-23-swap", "2026-11-3-a-b", "2026-11-23-A-b", "2026-11-23--b"] {
            assert!(!is_folder_name(bad), "{bad}");
        }
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("2026-11-23-a-b");
        fs::create_dir(&folder).unwrap();
        assert!(folders(place.path()).is_err());
        for file in FILES {
            fs::write(folder.join(file), "{}").unwrap();
        }
        assert_eq!(folders(place.path()).unwrap(), ["2026-11-23-a-b"]);
        let refused = || format!("{:#}", folders(place.path()).unwrap_err());
        fs::write(folder.join("report.html"), "").unwrap();
        assert!(refused().contains("report.html"), "{}", refused());
        fs::remove_file(folder.join("report.html")).unwrap();
        fs::write(folder.join("runs.jsonl"), vec![b' '; 300 << 10]).unwrap();
        assert!(refused().contains("bytes"), "{}", refused());
    }

    #[test]
    fn several_machines_have_a_folder_each_and_a_list() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("2026-11-23-a-b");
        for cell in ["x", "y"] {
            fs::create_dir_all(folder.join(cell)).unwrap();
            for file in FILES {
                fs::write(folder.join(cell).join(file), "{}").unwrap();
            }
        }
        assert!(format!("{:#}", folders(place.path()).unwrap_err()).contains("summary.json"));
        fs::write(folder.join(INDEX), "{}").unwrap();
        fs::write(folder.join(SOURCE), "").unwrap();
        assert_eq!(folders(place.path()).unwrap().len(), 1);
        fs::remove_file(folder.join("y/runs.jsonl")).unwrap();
        assert!(folders(place.path()).is_err());
    }
}
