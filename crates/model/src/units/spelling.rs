// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the word that a user probably meant by a misspelled word.

/// Returns the candidate with the smallest edit distance to `word`; `None` if that distance is more
/// than about a third of the letters.
///
/// The edit distance is at least the difference in length, so most candidates are skipped without
/// being compared. This also bounds the cost if the word is very long, for example a megabyte in a
/// file that somebody else wrote.
pub fn most_similar<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let (letters, most) = (word.chars().count(), word.len() / 3 + 1);
    let is_near = |candidate: &&str| candidate.chars().count().abs_diff(letters) <= most;
    let near = candidates.into_iter().filter(is_near);
    let near = near.map(|candidate| (distance(candidate, word), candidate)).min();
    near.filter(|(distance, _)| *distance <= most).map(|(_, found)| found)
}

/// Computes the edit distance of two words: how many letters must be changed, added or removed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, one) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(one != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_word_is_guessed_and_a_wild_one_is_not() {
        let known = ["zram-full", "zram-unused", "memory-pressure"];
        let meant = |word: &str| most_similar(word, known);
        assert_eq!(meant("zram-ful"), Some("zram-full"));
        assert_eq!(meant("memory-presure"), Some("memory-pressure"));
        assert_eq!((meant("nonsense"), meant(""), most_similar("x", [])), (None, None, None));
        assert_eq!((distance("kitten", "sitting"), distance("", "abc")), (3, 3));
    }

    /// Skipping candidates by their length skips none that the comparison would accept.
    #[test]
    fn what_is_too_long_or_too_short_is_not_what_was_meant() {
        let words = ["", "a", "zram", "zrm", "szwap", "zswap.max_pool_percent", "ää", "äöüäöü"];
        for (word, candidate) in words.iter().flat_map(|a| words.map(|b| (*a, b))) {
            let is_meant = distance(candidate, word) <= word.len() / 3 + 1;
            assert_eq!(most_similar(word, [candidate]).is_some(), is_meant, "{word} {candidate}");
        }
    }
}
