// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Helpers for tests of several readers: hosts with a few files, and malformed text.

use proptest::prelude::*;

use pagewise_hostfs::{Entry, HostRoot, Refusal};

/// A test host with these files.
pub(crate) fn host<'a, B: AsRef<[u8]>>(files: impl IntoIterator<Item = (&'a str, B)>) -> HostRoot {
    HostRoot::memory(files.into_iter().map(|(path, bytes)| file(path, bytes)))
}

/// A file of a host, for tests in which other files are refused.
pub(crate) fn file(path: impl Into<String>, bytes: impl AsRef<[u8]>) -> (String, Entry) {
    (path.into(), Entry::File(bytes.as_ref().to_vec()))
}

/// A file that only root may read.
pub(crate) fn denied_entry(path: impl Into<String>) -> (String, Entry) {
    (path.into(), Entry::Refused(Refusal::Denied("run as root".into())))
}

/// Malformed text: arbitrary bytes, or `text` with some bytes replaced and truncated, which gets
/// further into a parser.
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
