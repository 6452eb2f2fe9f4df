// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernels and userlands that shell completions suggest; other values are accepted, too.

use std::error::Error;
use std::ffi::OsStr;
use std::str::FromStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command};

type Words = [(&'static str, &'static str)];

/// Names of Debian suites whose kernels a guest can boot.
const KERNELS: &Words = &[
    ("bookworm", "cloud kernel of Debian 12"),
    ("bookworm/generic", "generic kernel of Debian 12"),
    ("trixie", "cloud kernel of Debian 13"),
    ("trixie/generic", "generic kernel of Debian 13"),
    ("sid", "cloud kernel of Debian unstable"),
    ("sid/generic", "generic kernel of Debian unstable"),
];
const HOST: &Words = &[("host", "kernel of this machine")];
const USERLANDS: &Words = &[
    ("systemd/bookworm", "Debian 12 with systemd"),
    ("systemd/trixie", "Debian 13 with systemd"),
    ("systemd/sid", "Debian unstable with systemd"),
];
const BUSYBOX: &Words = &[("minimal", "busybox")];

/// The parser of `--kernel`, which completes names of kernels.
pub(crate) fn kernel_parser<T: FromStr + Send + Sync + Clone + 'static>()
-> impl TypedValueParser<Value = T>
where
    T::Err: Into<Box<dyn Error + Send + Sync>>,
{
    Suggested { words: [KERNELS, HOST], parse: |text: &str| text.parse() }
}

/// The parser of `--userland`, which completes names of userlands.
pub(crate) fn userland_parser() -> impl TypedValueParser<Value = pagewise_guest::userland::Userland>
{
    Suggested { words: [BUSYBOX, USERLANDS], parse: |text: &str| text.parse() }
}

/// The parser of the items of `lab cache`.
pub(crate) fn item_parser() -> impl TypedValueParser<Value = pagewise_guest::item::Item> {
    Suggested { words: [KERNELS, USERLANDS], parse: |text: &str| text.parse() }
}

/// A parser with words for completions.
#[derive(Clone)]
struct Suggested<P> {
    words: [&'static Words; 2],
    parse: P,
}

impl<P: TypedValueParser> TypedValueParser for Suggested<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<P::Value, clap::Error> {
        self.parse.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = self.words.into_iter().flatten();
        Some(Box::new(words.map(|(word, about)| PossibleValue::new(*word).help(*about))))
    }
}
