// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects same-filled pages: pages that consist of one repeated machine word. zram and zswap store
//! only the word for such a page.

/// Returns the word that fills the whole page; `None` if the page is not same-filled, or if its
/// size is not a multiple of the word size.
///
/// The last word is compared first, because most pages that begin with zeros end with something
/// else.
#[must_use]
pub fn fill_word(page: &[u8]) -> Option<u64> {
    let words = page.chunks_exact(8);
    let (first, last) = (words.clone().next()?, words.clone().next_back()?);
    let whole = words.remainder().is_empty();
    let same = whole && first == last && words.into_iter().all(|word| word == first);
    same.then(|| first.try_into().map(u64::from_ne_bytes).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_is_filled_or_not() {
        assert_eq!(fill_word(&[0; 4096]), Some(0));
        assert_eq!(fill_word(&[7; 4096]), Some(0x0707_0707_0707_0707));
        assert_eq!(fill_word(&[]), None);
        assert_eq!(fill_word(&[0; 4095]), None, "no whole number of words");
    }

    proptest! {
        /// If any byte of a same-filled page is changed, the page is no longer same-filled.
        #[test]
        fn a_byte_more_or_less_shows(word: u64, at in 0usize..4096, by in 1u8..) {
            let mut page: Vec<u8> = word.to_ne_bytes().repeat(512);
            prop_assert_eq!(fill_word(&page), Some(word));
            page[at] = page[at].wrapping_add(by);
            prop_assert_eq!(fill_word(&page), None);
        }
    }
}
