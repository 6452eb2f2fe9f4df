// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looks up in the files what evidence claims: every number on screen can be traced to its line.
//!
//! This is a second implementation, independent of the readers: it has its own table of where each
//! number is, in which unit, and what the kernel calls it. Evidence that the table does not know is
//! an error, so new kinds of evidence must be added.

mod spelling;

use pagewise_model::Evidence;

use crate::scene::Scene;

/// Whether the place that `evidence` names contains its value.
pub(crate) fn check(
    scene: &Scene,
    seconds: Option<f64>,
    evidence: &Evidence,
) -> Result<(), String> {
    let expected = spelling::expected(&Place::find(scene, evidence)?, seconds)?;
    if expected.contains(&evidence.value) {
        Ok(())
    } else {
        Err(format!("{evidence:?}: the file says {expected:?}"))
    }
}

/// Evidence, and the text at its place.
pub(crate) struct Place<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) evidence: &'a Evidence,
    /// The line, or the whole file if it is a single value; `None` if the file does not exist.
    pub(crate) text: Option<&'a str>,
}

impl<'a> Place<'a> {
    fn find(scene: &'a Scene, evidence: &'a Evidence) -> Result<Self, String> {
        let text = scene.text("end", &evidence.path);
        let text = match (text, evidence.line) {
            // a record is identified by its sequence number
            (Some(text), Some(number)) if evidence.path == "/dev/kmsg" => {
                let is_it = |line: &&str| line.split(',').nth(1) == Some(&number.to_string());
                let record = text.lines().find(is_it);
                Some(record.ok_or_else(|| format!("{evidence:?}: there is no such record"))?)
            }
            (Some(text), Some(line)) => {
                let line = text.lines().nth(line as usize - 1);
                Some(line.ok_or_else(|| format!("{evidence:?}: the file has fewer lines"))?)
            }
            (None, Some(_)) => return Err(format!("{evidence:?}: a line of no file")),
            (text, None) => text,
        };
        Ok(Self { scene, evidence, text })
    }

    pub(crate) fn said(&self) -> &'a str {
        &self.evidence.value
    }

    pub(crate) fn path(&self) -> &'a str {
        &self.evidence.path
    }

    /// The text; an error if the file does not exist.
    pub(crate) fn there(&self) -> Result<&'a str, String> {
        self.text.ok_or_else(|| format!("{:?}: no such file", self.evidence))
    }

    /// The `n`th word.
    pub(crate) fn word(&self, n: usize) -> Result<&'a str, String> {
        let word = self.there()?.split_whitespace().nth(n);
        word.ok_or_else(|| format!("{:?}: no word {n}", self.evidence))
    }

    /// The line's first word, without its colon.
    pub(crate) fn key(&self) -> Result<&'a str, String> {
        Ok(self.word(0)?.trim_end_matches(':'))
    }

    /// The value of the line that begins with `key` in the same file, at this end of the interval.
    pub(crate) fn keyed(&self, end: &str, key: &str) -> Result<u64, String> {
        let text = self.scene.text(end, self.path()).unwrap_or_default();
        let of_line = |line: &str| {
            let mut words = line.split_whitespace();
            (words.next() == Some(key)).then(|| words.next()?.parse().ok()).flatten()
        };
        text.lines().find_map(of_line).ok_or_else(|| format!("no {key} in {}", self.path()))
    }
}

/// Parses a whole number.
pub(crate) fn number(word: &str) -> Result<u64, String> {
    word.trim().parse().map_err(|_| format!("{word:?} is no whole number"))
}
