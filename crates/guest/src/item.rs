// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Items that can be fetched: kernels of a suite (`trixie` and `trixie/generic`) and its userland
//! (`systemd/trixie`).

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// First part of the name of a userland.
const SYSTEMD: &str = "systemd";
/// Last part of the name of a generic kernel.
const GENERIC: &str = "generic";
/// The name that means the running kernel of this machine, so it is not allowed as the name of a
/// suite.
pub(crate) const HOST: &str = "host";

/// Debian's builds of a kernel, from which the user chooses; the first is the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flavour {
    /// A kernel built for virtual machines: few drivers, small.
    Cloud,
    /// A kernel built for every machine. The generic kernels of 6.1 and 6.12 have zswap, which the
    /// cloud kernels lack.
    Generic,
}

impl Flavour {
    /// The package that depends on a suite's newest kernel of this flavour.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Cloud => "linux-image-cloud-amd64",
            Self::Generic => "linux-image-amd64",
        }
    }
}

/// A kernel of a Debian suite: the cloud kernel is written `trixie`, the generic one
/// `trixie/generic`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SuiteKernel {
    suite: String,
    flavour: Flavour,
}

impl SuiteKernel {
    pub(crate) fn suite(&self) -> &str {
        &self.suite
    }

    pub(crate) fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Parses a kernel from the name of its folder in the cache.
    pub(crate) fn of_folder(name: &str) -> Option<Self> {
        name.replace('+', "/").parse().ok()
    }
}

impl FromStr for SuiteKernel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = match text.split_once('/') {
            None => Some((text, Flavour::Cloud)),
            Some((suite, GENERIC)) => Some((suite, Flavour::Generic)),
            Some(_) => None,
        };
        match found {
            Some((suite, flavour)) if is_suite(suite) => {
                Ok(Self { suite: suite.to_owned(), flavour })
            }
            _ => Err(format!("expected SUITE or SUITE/{GENERIC}, found {text:?}")),
        }
    }
}

impl fmt::Display for SuiteKernel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.flavour {
            Flavour::Cloud => out.write_str(&self.suite),
            Flavour::Generic => write!(out, "{}/{GENERIC}", self.suite),
        }
    }
}

/// An item that can be fetched: a suite's kernel, written `trixie` or `trixie/generic`, or its
/// userland, written `systemd/trixie`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// A kernel of a suite.
    Kernel(SuiteKernel),
    /// The userland of a suite.
    Userland(String),
}

impl FromStr for Item {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = match text.split_once('/') {
            Some((SYSTEMD, suite)) => is_suite(suite).then(|| Self::Userland(suite.to_owned())),
            _ => text.parse().ok().map(Self::Kernel),
        };
        found.ok_or_else(|| {
            format!(
                "expected SUITE (its cloud kernel), SUITE/{GENERIC} (its generic kernel) or \
                 {SYSTEMD}/SUITE (its userland), found {text:?}"
            )
        })
    }
}

impl fmt::Display for Item {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(kernel) => kernel.fmt(out),
            Self::Userland(suite) => write!(out, "{SYSTEMD}/{suite}"),
        }
    }
}

impl Item {
    pub(crate) fn suite(&self) -> &str {
        match self {
            Self::Kernel(kernel) => kernel.suite(),
            Self::Userland(suite) => suite,
        }
    }

    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Self::Kernel(_) => "kernel",
            Self::Userland(_) => "userland",
        }
    }

    /// Name of the item's folder in the cache's `kernels` or `userlands`.
    pub(crate) fn folder_name(&self) -> String {
        match self {
            Self::Kernel(_) => self.file_name(),
            Self::Userland(suite) => suite.clone(),
        }
    }

    /// A file name that is unique among kernels and userlands; no name of a suite contains `+`.
    pub(crate) fn file_name(&self) -> String {
        self.to_string().replace('/', "+")
    }

    pub(crate) fn unusable_error(&self, why: String) -> Error {
        match self {
            Self::Kernel(kernel) => Error::NoKernel { requested: kernel.to_string(), why },
            Self::Userland(_) => Error::NoUserland { requested: self.to_string(), why },
        }
    }
}

/// Whether this text may be the name of a suite. The name becomes part of a path and of apt's
/// sources, so few characters are allowed.
pub(crate) fn is_suite(text: &str) -> bool {
    let is_in_word = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
    let is_word = !text.is_empty() && text.bytes().all(is_in_word) && !text.starts_with('-');
    // `systemd/generic` would otherwise have two meanings
    is_word && ![HOST, SYSTEMD].contains(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn kernels_and_userlands_are_told_apart() {
        let kernel = |suite: &str, flavour| {
            Ok(Item::Kernel(SuiteKernel { suite: suite.to_owned(), flavour }))
        };
        assert_eq!("trixie".parse(), kernel("trixie", Flavour::Cloud));
        assert_eq!("trixie/generic".parse(), kernel("trixie", Flavour::Generic));
        assert_eq!(
            "trixie-backports/generic".parse(),
            kernel("trixie-backports", Flavour::Generic)
        );
        assert_eq!("systemd/trixie".parse(), Ok(Item::Userland("trixie".to_owned())));
        assert_eq!("systemd/generic".parse(), Ok(Item::Userland("generic".to_owned())));
    }

    #[test]
    fn only_a_suite_becomes_a_folder() {
        for bad in [
            "../x",
            "",
            "a b",
            "host",
            "6.1",
            "x/trixie",
            "trixie/",
            "trixie/big",
            "trixie/cloud",
            "/generic",
            "../generic",
            "host/generic",
            "trixie/generic/",
            "trixie+generic",
            "trixie/generic/generic",
            "Trixie/generic",
            "./trixie/generic",
            "systemd",
            "systemd/",
            "systemd/../x",
            "systemd/host",
            "systemd/systemd",
            "systemd/trixie/generic",
        ] {
            let refused = bad.parse::<Item>().unwrap_err();
            assert!(refused.contains("SUITE/generic"), "{bad}: {refused}");
        }
    }

    proptest! {
        /// The name of an item identifies it, on the command line and in the cache.
        #[test]
        fn an_item_is_known_by_its_name(
            suites in prop::collection::vec("[a-z][a-z-]{0,11}|systemd|generic|host", 2),
            kinds in prop::collection::vec(0..3, 2),
        ) {
            let written = |(suite, kind): (&String, &i32)| match kind {
                0 => suite.clone(),
                1 => format!("{suite}/generic"),
                _ => format!("systemd/{suite}"),
            };
            let texts: Vec<String> = suites.iter().zip(&kinds).map(written).collect();
            let items: Vec<Item> = texts.iter().filter_map(|text| text.parse().ok()).collect();
            for item in &items {
                prop_assert!(texts.contains(&item.to_string()));
                prop_assert_eq!(item.to_string().parse(), Ok(item.clone()));
                prop_assert!(!item.folder_name().contains('/'));
                if let Item::Kernel(kernel) = item {
                    let found = SuiteKernel::of_folder(&item.folder_name());
                    prop_assert_eq!(found, Some(kernel.clone()));
                }
            }
            if let [one, two] = &items[..] {
                prop_assert_eq!(one.file_name() == two.file_name(), one == two);
            }
        }
    }
}
