// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads and writes `host.toml` ([`Manifest`]): facts that the files of a recording do not contain.
//!
//! The file may come from an untrusted source. A value that no host can have (a page size that is
//! not a power of two, a clock that is not a number) is left out with a problem noted; text is made
//! safe to print.

use std::collections::BTreeMap;

use pagewise_model::Name;
use serde::{Deserialize, Serialize};

use super::problem::PartProblem;
use crate::answer::{Entry, Facts, Refusal};

/// Path of the manifest in a recording.
pub(super) const FILE: &str = "host.toml";

/// The format that this version writes, as [`Manifest::format`].
pub const FORMAT: &str = "pagewise-recording/1";

/// The manifest of a recording, `host.toml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format of the recording, [`FORMAT`].
    pub format: String,
    /// A hash of the host's name, instead of the name.
    pub name: String,
    /// The release of the kernel, reduced to the digits of its version.
    pub kernel: String,
    /// Size of a base page in bytes; `None` if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u64>,
    /// The ends of the interval: `start` and `end`, or only `end`.
    #[serde(default)]
    pub ends: BTreeMap<String, End>,
}

/// One end of the recorded interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Time of day, in seconds since 1970, UTC.
    pub unix_seconds: f64,
    /// Time on a monotonic clock, in seconds.
    pub monotonic_seconds: f64,
    /// The clock of the kernel log: seconds without the time in which the machine was suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awake_seconds: Option<f64>,
    /// Paths of files that could not be read, with the reason: `absent: …` or `denied: …`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, String>,
}

impl Manifest {
    /// The text of `host.toml`.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// Parses `host.toml`; if it is malformed, none of its values are used.
    pub(super) fn parse(bytes: &[u8], troubles: &mut Vec<PartProblem>) -> Self {
        let text = String::from_utf8_lossy(bytes);
        match toml::from_str::<Self>(&text) {
            Ok(manifest) => manifest.check(troubles),
            Err(error) => {
                troubles.push(garbled_part(&text, &error));
                Self::default()
            }
        }
    }

    fn check(mut self, troubles: &mut Vec<PartProblem>) -> Self {
        if self.format != FORMAT {
            let expected = format!("format = \"{FORMAT}\"");
            troubles.push(PartProblem::file(FILE, expected, self.format.as_bytes()));
        }
        let possible = |size: &u64| size.is_power_of_two() && (512..=1 << 24).contains(size);
        if let Some(size) = self.page_size.take_if(|size| !possible(size)) {
            let expected = "page_size as a power of two in bytes";
            troubles.push(PartProblem::file(FILE, expected, size.to_string().as_bytes()));
        }
        self.ends.values_mut().for_each(|end| end.check(troubles));
        self
    }

    /// Clock and page size of the host at the end of the interval with this name.
    pub(super) fn facts(&self, end: &str) -> Facts {
        self.ends.get(end).map_or(Facts::unknown(self.page_size), |end| end.facts(self.page_size))
    }
}

impl End {
    pub(super) fn check(&mut self, troubles: &mut Vec<PartProblem>) {
        let clocks = [&mut self.unix_seconds, &mut self.monotonic_seconds];
        for clock in clocks.into_iter().chain(&mut self.awake_seconds) {
            if !(0.0..1e12).contains(clock) {
                let expected = "seconds, at least 0 and under 1e12";
                troubles.push(PartProblem::file(FILE, expected, clock.to_string().as_bytes()));
                *clock = 0.0;
            }
        }
    }

    /// Clock and page size of the host at this end of the interval.
    pub(super) const fn facts(&self, page_size: Option<u64>) -> Facts {
        Facts {
            unix_seconds: self.unix_seconds,
            monotonic_seconds: self.monotonic_seconds,
            page_size,
            awake_seconds: self.awake_seconds,
        }
    }

    /// The entries of the recording for files that could not be read.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (String, Entry)> + '_ {
        self.refused.iter().map(|(path, why)| (path.clone(), Entry::Refused(refusal(why))))
    }
}

/// The text of a refusal in `host.toml`.
pub fn refusal_text(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Absent(why) => format!("absent: {why}"),
        Refusal::Denied(help) => format!("denied: {help}"),
    }
}

pub(super) fn refusal(text: &str) -> Refusal {
    let printable = |text: &str| Name::from(text).to_string().into();
    match text.split_once(": ") {
        Some(("denied", help)) => Refusal::Denied(printable(help)),
        Some(("absent", why)) => Refusal::Absent(printable(why)),
        _ => Refusal::Absent(printable(text)),
    }
}

/// The problem that describes the first error in `host.toml`, with its line.
fn garbled_part(text: &str, error: &toml::de::Error) -> PartProblem {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = text.as_bytes().get(..at).unwrap_or_default();
    let line = before.iter().filter(|&&byte| byte == b'\n').count();
    let found = text.lines().nth(line).unwrap_or_default();
    let reason = error.message().lines().next().unwrap_or_default();
    let expected = format!("the description of a recording ({})", Name::from(reason));
    PartProblem::line(FILE, u32::try_from(line + 1).ok(), expected, found.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let refused = [("proc/1/environ".to_owned(), "denied: run as root".to_owned())].into();
        let end =
            End { unix_seconds: 1.5, monotonic_seconds: 2.5, awake_seconds: Some(2.0), refused };
        Manifest {
            format: FORMAT.to_owned(),
            name: "host-1".to_owned(),
            kernel: "6.12.107".to_owned(),
            page_size: Some(4096),
            ends: [("end".to_owned(), end)].into(),
        }
    }

    fn troubles_of(text: &str) -> (Manifest, Vec<String>) {
        let mut troubles = Vec::new();
        let manifest = Manifest::parse(text.as_bytes(), &mut troubles);
        (manifest, troubles.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_was_written_is_read() {
        let (read, troubles) = troubles_of(&manifest().to_toml());
        assert_eq!((read, troubles.len()), (manifest(), 0));
    }

    #[test]
    fn a_garbled_line_is_named() {
        let (read, troubles) = troubles_of("format = \"x\"\npage_size = \x1b[2J\n");
        assert_eq!(read, Manifest::default());
        assert_eq!(troubles.len(), 1);
        assert!(troubles[0].starts_with("host.toml:2: expected the description"), "{troubles:?}");
        assert!(!troubles[0].contains('\x1b'));
    }

    #[test]
    fn numbers_that_no_host_has_are_left_out() {
        let text = manifest().to_toml().replace("4096", "0").replace("1.5", "nan");
        let (read, troubles) = troubles_of(&text);
        assert_eq!((read.facts("end").page_size, read.facts("end").unix_seconds), (None, 0.0));
        assert_eq!(troubles.len(), 2);
        let digits = manifest().to_toml().replace("4096", &"9".repeat(32));
        assert_eq!(troubles_of(&digits).1.len(), 1);
    }

    #[test]
    fn refusals_survive_and_are_printable() {
        assert_eq!(refusal("denied: run as root"), Refusal::Denied("run as root".into()));
        assert_eq!(refusal_text(&refusal("absent: gone")), "absent: gone");
        assert_eq!(refusal("\x1b[2J"), Refusal::Absent("\\u{1b}[2J".into()));
    }
}
