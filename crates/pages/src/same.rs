// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A page → whether one machine word fills it all: zram, zswap and swap itself store no data for
//! such a page, only the word.

/// The word that fills the whole page; `None` where the page differs somewhere, or is no whole
/// number of words.
///
/// The last word is compared before the others, as most pages that begin with zeros end otherwise.
#[must_use]
pub fn filled(page: &[u8]) -> Option<u64> {
    let words = page.chunks_exact(8);
    let (first, last) = (words.clone().next()?, words.clone().next_back()?);
    let whole = words.remainder().is_empty();
    let same = whole && first == last && words.into_iter().all(|word| word == first);
    same.then(|| first.try_into().map(u64::from_ne_bytes).ok()).flatten()
}
