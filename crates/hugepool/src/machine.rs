// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine's settings of transparent huge pages, and the switch in the environment.
//!
//! `PAGEWISE_THP` is `on`, `off` or `advised`. If it is not set, pools use huge pages, unless the
//! machine's setting is `never`. The size of a huge page is read from the kernel, not assumed; it
//! is 32 MiB on some ARM machines. A kernel without the folder in sysfs has no transparent huge
//! pages.

#![expect(clippy::disallowed_methods, reason = "reads the kernel's settings of huge pages")]

#[cfg(feature = "pool")]
use std::env;
use std::fs;

#[cfg(feature = "pool")]
use crate::Error;
use crate::sys;

const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";
/// Size of a huge page in bytes that is assumed if the kernel does not show it: that of x86-64.
pub(crate) const USUAL_SIZE: usize = 2 << 20;
/// Maximum size in bytes of the huge pages that pools use: every pool maps at least this much
/// memory.
#[cfg(feature = "pool")]
const LARGEST_SIZE: usize = 32 << 20;

/// Whether the machine's settings allow huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// The setting is `always`: any memory may get huge pages.
    Always,
    /// The setting is `madvise`: only memory with MADV_HUGEPAGE gets huge pages.
    Advised,
    /// The setting is `never`: page faults get no huge pages. `MADV_COLLAPSE` may still work.
    Never,
    /// Huge pages are disabled for this process (`PR_SET_THP_DISABLE`, or `MemoryTHP=` of systemd).
    DisabledForProcess,
    /// The kernel has no transparent huge pages, or its setting cannot be read.
    Absent,
}

impl Availability {
    /// Reads the machine's setting, and whether huge pages are disabled for this process.
    pub fn read() -> Self {
        if sys::are_huge_pages_disabled_for_process() {
            return Self::DisabledForProcess;
        }
        fs::read_to_string(format!("{FOLDER}/enabled")).map_or(Self::Absent, |text| parse(&text))
    }

    /// The word for the setting in statistics: `always`, `madvise`, `never`, `disabled-for-process`
    /// or `absent`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Advised => "madvise",
            Self::Never => "never",
            Self::DisabledForProcess => "disabled-for-process",
            Self::Absent => "absent",
        }
    }
}

/// Parses the word in brackets of a setting such as `always [madvise] never`.
fn parse(text: &str) -> Availability {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    match chosen.map(|(word, _)| word) {
        Some("always") => Availability::Always,
        Some("madvise") => Availability::Advised,
        Some("never") => Availability::Never,
        _ => Availability::Absent,
    }
}

/// The size of a transparent huge page in bytes; `None` if the kernel has no transparent huge
/// pages.
pub(crate) fn huge_page_size() -> Option<usize> {
    let text = fs::read_to_string(format!("{FOLDER}/hpage_pmd_size")).ok()?;
    text.trim().parse().ok().filter(|size: &usize| size.is_power_of_two())
}

/// What pools do to get huge pages, as set in the environment variable `PAGEWISE_THP`.
#[cfg(feature = "pool")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// Pools advise (`MADV_HUGEPAGE`) and populate each huge page when they map it, check that it
    /// is huge, and otherwise collapse it.
    On,
    /// Pools advise (`MADV_HUGEPAGE`), and leave the rest to page faults and khugepaged.
    Advised,
    /// Pools request no huge pages (`MADV_NOHUGEPAGE`).
    Off,
}

#[cfg(feature = "pool")]
impl Switch {
    /// Reads `PAGEWISE_THP`. If the variable is not set, the result is `Off` if the machine's
    /// setting is `never` or it has no huge pages, otherwise `On`.
    ///
    /// # Errors
    /// [`Error::Switch`] if it is set to another word.
    pub fn from_environment(machine: Availability) -> Result<Self, Error> {
        match env::var_os("PAGEWISE_THP") {
            Some(text) => Self::parse(&text.to_string_lossy()),
            None => Ok(Self::default_for(machine)),
        }
    }

    fn default_for(machine: Availability) -> Self {
        match machine {
            Availability::Always | Availability::Advised => Self::On,
            Availability::Never | Availability::DisabledForProcess | Availability::Absent => {
                Self::Off
            }
        }
    }

    fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            "advised" => Ok(Self::Advised),
            _ => Err(Error::Switch { found: text.chars().take(40).collect() }),
        }
    }

    /// The word for the switch in the environment variable: `on`, `advised` or `off`.
    pub fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Advised => "advised",
            Self::Off => "off",
        }
    }
}

/// The size in bytes of the unit that pools map and return: a huge page, unless that is too large.
#[cfg(feature = "pool")]
pub(crate) fn chunk_size() -> usize {
    chunk_size_for(huge_page_size())
}

#[cfg(feature = "pool")]
fn chunk_size_for(huge: Option<usize>) -> usize {
    huge.filter(|huge| (USUAL_SIZE..=LARGEST_SIZE).contains(huge)).unwrap_or(USUAL_SIZE)
}

/// Available memory of the machine in bytes (`MemAvailable`); `None` if it cannot be read.
#[cfg(feature = "pool")]
pub(crate) fn available_memory() -> Option<usize> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(all(test, feature = "pool"))]
mod tests {
    use super::*;

    #[test]
    fn the_word_in_brackets_is_the_setting() {
        assert_eq!(parse("always [madvise] never\n"), Availability::Advised);
        assert_eq!(parse("[always] madvise never\n"), Availability::Always);
        assert_eq!(parse("always madvise [never]\n"), Availability::Never);
        for odd in ["", "always madvise never", "[inherit]", "[always"] {
            assert_eq!(parse(odd), Availability::Absent, "{odd:?}");
        }
    }

    #[test]
    fn a_machine_that_says_never_gets_none_by_default() {
        for machine in [Availability::Never, Availability::Absent, Availability::DisabledForProcess]
        {
            assert_eq!(Switch::default_for(machine), Switch::Off);
        }
        assert_eq!(Switch::default_for(Availability::Advised), Switch::On);
        assert_eq!(Switch::default_for(Availability::Always), Switch::On);
    }

    #[test]
    fn a_switch_with_a_typing_error_is_refused_and_named() {
        assert_eq!(Switch::parse("advised"), Ok(Switch::Advised));
        let error = Switch::parse("On").unwrap_err();
        assert_eq!(error.to_string(), "PAGEWISE_THP is \"On\": expected on, off or advised");
        assert!(Switch::parse(&"x".repeat(9000)).unwrap_err().to_string().len() < 100);
    }

    #[test]
    fn huge_pages_that_are_too_large_for_pools_are_not_used_for_them() {
        assert_eq!(chunk_size_for(None), 2 << 20);
        assert_eq!(chunk_size_for(Some(2 << 20)), 2 << 20);
        assert_eq!(chunk_size_for(Some(32 << 20)), 32 << 20);
        assert_eq!(chunk_size_for(Some(512 << 20)), 2 << 20);
        assert_eq!(chunk_size_for(Some(1 << 20)), 2 << 20);
    }
}
