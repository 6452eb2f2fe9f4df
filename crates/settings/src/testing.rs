// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions for the tests of several readers: they make hosts with a few files, and print settings
//! as lines of text.

use proptest::prelude::*;

use pagewise_hostfs::{Entry, HostRoot};
use pagewise_model::{Effect, PersistentSetting};

/// Makes a host that contains these files.
pub(crate) fn host<'a, B: AsRef<[u8]>>(files: impl IntoIterator<Item = (&'a str, B)>) -> HostRoot {
    let file = |(path, bytes): (&str, B)| (path.to_owned(), Entry::File(bytes.as_ref().to_vec()));
    HostRoot::memory(files.into_iter().map(file))
}

/// Prints each setting as a line of text, such as `vm.swappiness 60 /etc/sysctl.d/1.conf:1`,
/// followed by the reason if the setting is not applied.
pub(crate) fn show_all(settings: &[PersistentSetting]) -> Vec<String> {
    let line = |setting: &PersistentSetting| {
        let effect = match &setting.effect {
            Effect::Applied => String::new(),
            Effect::Ignored(why) => format!(" ignored: {why}"),
            Effect::Unknown(why) => format!(" unknown: {why}"),
        };
        format!("{} {} {}{effect}", setting.target, setting.wanted(), setting.value.source)
    };
    settings.iter().map(line).collect()
}

/// Generates a valid text with some bytes replaced and its end cut off, or random bytes.
pub(crate) fn mangle(text: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let any_at_all = prop::collection::vec(any::<u8>(), 0..300);
    let replaced = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12);
    let spoiled = (replaced, any::<prop::sample::Index>()).prop_map(move |(replaced, cut)| {
        let mut bytes = text.as_bytes().to_vec();
        for (at, byte) in replaced {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        bytes
    });
    prop_oneof![any_at_all, spoiled]
}
