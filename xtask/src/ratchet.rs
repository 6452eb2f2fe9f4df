// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults that the tree still has → `xtask/ratchet.toml`, counts per file that may only fall.
//!
//! A check fails for a file with more faults than its count. Where text moves from file to file, the
//! counts may move with it: they are written anew if their sum is not larger.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::run;

/// A fault, and the text that says where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
}

type Counts = BTreeMap<String, usize>;

/// Counts by kind of fault and by file.
#[derive(Debug)]
pub(crate) struct Ratchet {
    path: PathBuf,
    kinds: BTreeMap<String, Counts>,
}

impl Ratchet {
    /// Reads the project's own.
    pub(crate) fn read() -> Result<Self> {
        Self::at(&run::project().join("xtask/ratchet.toml"))
    }

    fn at(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let kinds = toml::from_str(&text).with_context(|| path.display().to_string())?;
        Ok(Self { path: path.to_owned(), kinds })
    }

    /// Compares the faults of a kind with its counts; the answer says how many there are.
    pub(crate) fn check(&self, kind: &str, faults: &[Fault]) -> Result<String> {
        let none = Counts::new();
        let allowed = self.kinds.get(kind).unwrap_or(&none);
        let found = counts(faults);
        let is_over = |path: &str| found.get(path) > Some(allowed.get(path).unwrap_or(&0));
        let over: Vec<String> =
            faults.iter().filter(|fault| is_over(&fault.path)).map(shown).collect();
        ensure!(
            over.is_empty(),
            "{kind}: files with more than xtask/ratchet.toml counts for them:\n{}",
            over.join("\n")
        );
        let sum: usize = allowed.values().sum();
        let fallen = if faults.len() < sum { "; `--lower` lowers it" } else { "" };
        Ok(format!("{kind}: {} left ({sum} allowed{fallen})", faults.len()))
    }

    /// Writes the counts of a kind anew, if they add up to no more than before.
    pub(crate) fn lower(&mut self, kind: &str, faults: &[Fault]) -> Result<()> {
        let before: Option<usize> = self.kinds.get(kind).map(|counts| counts.values().sum());
        ensure!(
            before.is_none_or(|before| faults.len() <= before),
            "{kind}: {} found, and the counts may only fall from {}",
            faults.len(),
            before.unwrap_or_default()
        );
        self.kinds.insert(kind.to_owned(), counts(faults));
        let mut text = "# Faults that the tree still has, by kind and file. `cargo xtask words` and `cargo xtask tables`\n\
                        # fail above these counts; with `--lower` they write them anew, and never a larger sum.\n"
            .to_owned();
        text += &toml::to_string(&self.kinds)?;
        fs::write(&self.path, text).with_context(|| self.path.display().to_string())
    }
}

pub(crate) fn shown(fault: &Fault) -> String {
    format!("  {}:{}: {}", fault.path, fault.line, fault.what)
}

fn counts(faults: &[Fault]) -> Counts {
    let mut counts = Counts::new();
    for fault in faults {
        *counts.entry(fault.path.clone()).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratchet(text: &str) -> (tempfile::TempDir, Ratchet) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ratchet.toml");
        fs::write(&path, text).unwrap();
        let ratchet = Ratchet::at(&path).unwrap();
        (folder, ratchet)
    }

    fn faults(paths: &[&str]) -> Vec<Fault> {
        let fault = |&path: &&str| Fault { path: path.to_owned(), line: 1, what: "x".to_owned() };
        paths.iter().map(fault).collect()
    }

    #[test]
    fn a_file_above_its_count_fails_and_only_its_faults_are_listed() {
        let (_folder, ratchet) = ratchet("[turns]\n\"a.md\" = 2\n");
        assert!(ratchet.check("turns", &faults(&["a.md", "a.md"])).is_ok());
        assert!(ratchet.check("turns", &faults(&["a.md"])).unwrap().contains("--lower"));
        let error = ratchet.check("turns", &faults(&["a.md", "b.md"])).unwrap_err().to_string();
        assert!(error.contains("b.md:1: x") && !error.contains("a.md"), "{error}");
        assert!(ratchet.check("other", &faults(&["a.md"])).is_err());
        assert!(ratchet.check("other", &[]).is_ok());
    }

    #[test]
    fn counts_move_between_files_and_their_sum_only_falls() {
        let (_folder, mut ratchet) = ratchet("[long]\n\"z.md\" = 1\n\n[turns]\n\"a.md\" = 2\n");
        ratchet.lower("turns", &faults(&["a.md", "b.md"])).unwrap();
        let read = Ratchet::at(&ratchet.path).unwrap();
        assert!(read.check("turns", &faults(&["a.md", "b.md"])).is_ok());
        assert!(read.check("turns", &faults(&["b.md", "b.md"])).is_err());
        assert!(read.check("long", &faults(&["z.md"])).is_ok());
        assert!(ratchet.lower("turns", &faults(&["a.md", "b.md", "c.md"])).is_err());
        ratchet.lower("turns", &[]).unwrap();
        assert!(ratchet.lower("turns", &faults(&["a.md"])).is_err());
    }
}
