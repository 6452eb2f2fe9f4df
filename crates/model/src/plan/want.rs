// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A change that a user requests in a plan, whether or not memory is short now ([`Want`]).

use std::fmt;
use std::str::FromStr;

use crate::knob::{KNOBS, Persist};
use crate::{Bytes, TrialSetting, arm, most_similar};

/// A change that a user requests: `zram=4G`, `hugepages=madvise`, `swappiness=100`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// Add swap in compressed RAM. Without a size, Pagewise chooses one that fits the machine's
    /// RAM.
    Zram {
        /// Uncompressed size of the device.
        size: Option<Bytes>,
    },
    /// Enable zswap with its shrinker, in front of a swap area on a disk.
    Zswap,
    /// Add a swap file. Without a size, it is as large as half of RAM, within limits.
    SwapFile {
        /// Size of the file.
        size: Option<Bytes>,
    },
    /// Set the policy of transparent huge pages, or a named profile of their settings.
    HugePages(String),
    /// Set one setting of the table of kernel settings, now and at each boot.
    Knob(TrialSetting),
}

/// The first words of a [`Want`] that are not names of settings.
const WORDS: [&str; 4] = ["zram", "zswap", "swapfile", "hugepages"];

impl FromStr for Want {
    /// A sentence that says what is wrong with the text, and what was expected.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, value) = text.split_once('=').map_or((text, None), |(a, b)| (a, Some(b)));
        match (word.trim(), value.map(str::trim)) {
            ("zram", size) => Ok(Self::Zram { size: parse_size(size)? }),
            ("swapfile" | "swap-file", size) => Ok(Self::SwapFile { size: parse_size(size)? }),
            ("zswap", None) => Ok(Self::Zswap),
            ("zswap", Some(_)) => Err("zswap has no size: it takes a part of RAM as it needs it, \
                 at most zswap.max_pool_percent"
                .to_owned()),
            ("hugepages", Some(policy)) if !policy.is_empty() => {
                Ok(Self::HugePages(policy.to_owned()))
            }
            ("hugepages", _) => {
                Err("say which: hugepages=madvise, always, never, or a profile of \
                     `pagewise thp profiles` such as operator"
                    .to_owned())
            }
            (name, Some(value)) => parse_knob(name, value),
            (name, None) => Err(explain_unknown(name)),
        }
    }
}

fn parse_size(text: Option<&str>) -> Result<Option<Bytes>, String> {
    let Some(text) = text else { return Ok(None) };
    match text.parse::<Bytes>().map_err(|error| error.to_string())? {
        size if size == Bytes::new(0) => Err("a size of 0 is none".to_owned()),
        size => Ok(Some(size)),
    }
}

/// Creates the request for a setting, by its name in the table of kernel settings; the prefix `vm.`
/// may be left out.
fn parse_knob(name: &str, value: &str) -> Result<Want, String> {
    let bare = arm::split_instance(name).0;
    let known = |name: &str| KNOBS.iter().find(|knob| knob.name == name);
    let in_vm = format!("vm.{name}");
    let (name, knob) = match known(bare) {
        Some(knob) => (name, knob),
        None => (in_vm.as_str(), known(&in_vm).ok_or_else(|| explain_unknown(name))?),
    };
    let lasts = [Persist::Sysctl, Persist::Tmpfiles];
    if !knob.persist.iter().any(|way| lasts.contains(way)) {
        return Err(format!(
            "{name} cannot be planned: no file of sysctl.d or tmpfiles.d sets it at boot"
        ));
    }
    arm::parse_setting(&format!("{name}={value}")).map(Want::Knob)
}

fn explain_unknown(name: &str) -> String {
    let in_vm = KNOBS.iter().filter_map(|knob| knob.name.strip_prefix("vm."));
    let names = KNOBS.iter().map(|knob| knob.name).chain(in_vm);
    let meant = most_similar(name, WORDS.into_iter().chain(names));
    let hint = meant.map(|meant| format!(" (did you mean {meant}?)")).unwrap_or_default();
    format!(
        "{name:?} is nothing that a plan can set up{hint}; expected zram, zram=SIZE, zswap, swapfile, \
         swapfile=SIZE, hugepages=POLICY, or a setting of `pagewise explain` as swappiness=100"
    )
}

impl fmt::Display for Want {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sized = |out: &mut fmt::Formatter<'_>, word, size: &Option<Bytes>| match size {
            Some(size) => write!(out, "{word}={}", size.format_typed()),
            None => write!(out, "{word}"),
        };
        match self {
            Self::Zram { size } => sized(out, "zram", size),
            Self::Zswap => write!(out, "zswap"),
            Self::SwapFile { size } => sized(out, "swapfile", size),
            Self::HugePages(policy) => write!(out, "hugepages={policy}"),
            Self::Knob(setting) => write!(out, "{}={}", setting.knob, setting.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_what_is_printed() {
        for text in [
            "zram",
            "zram=4G",
            "zswap",
            "swapfile",
            "swapfile=512M",
            "hugepages=operator",
            "vm.swappiness=100",
            "vm.dirty_ratio=10",
            "thp.size.enabled[64kB]=madvise",
        ] {
            assert_eq!(text.parse::<Want>().unwrap().to_string(), text);
        }
        assert_eq!("swappiness=1".parse::<Want>().unwrap().to_string(), "vm.swappiness=1");
        assert_eq!("swap-file=1G".parse::<Want>().unwrap().to_string(), "swapfile=1G");
    }

    #[test]
    fn what_cannot_be_planned_is_refused_with_what_can() {
        for (text, why) in [
            ("zramm", "did you mean zram?"),
            ("vm.swapiness=1", "did you mean vm.swappiness?"),
            ("swapiness=1", "did you mean swappiness?"),
            ("zram=much", "much"),
            ("zram=0M", "a size of 0"),
            ("zswap=4G", "zswap has no size"),
            ("hugepages", "hugepages=madvise"),
            ("swappiness=300", "0 to 200"),
            ("swappiness", "nothing that a plan can set up"),
            ("", "nothing that a plan can set up"),
            ("vm.compact_memory=1", "cannot be planned"),
        ] {
            let error = text.parse::<Want>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
