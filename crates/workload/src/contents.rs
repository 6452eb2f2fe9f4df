// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generates pages with given kinds of contents, from a mix such as `zero:10,text:60,random:30` and
//! a seed.
//!
//! Generated pages are used if no real memory is available, or if an experiment must know what it
//! compresses. They do not replace real ones: a program's heap is neither text nor noise. The same
//! seed generates the same pages.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;

/// Kind of contents of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A page of zeros.
    Zero,
    /// A record of 64 bytes, repeated, with a counter in it: the page compresses to a few per cent.
    Repeated,
    /// A page of words of a small vocabulary with uneven frequencies: compresses two- to threefold.
    Text,
    /// A page of noise: does not compress.
    Random,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Zero, "zero"),
    (Kind::Repeated, "repeated"),
    (Kind::Text, "text"),
    (Kind::Random, "random"),
];

/// The keyword for pages that are a copy of an earlier one.
const DUPLICATES: &str = "duplicates";

/// Percentages of pages of each kind, and of pages that are copies of an earlier page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix {
    parts: Vec<(Kind, u32)>,
    duplicates: u32,
}

/// The text of a mix could not be parsed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected parts of 100 such as zero:10,text:60,random:30 (kinds: zero, repeated, text, random; \
     beside them duplicates:N), found {0:?}"
)]
pub struct NoMix(String);

impl FromStr for Mix {
    type Err = NoMix;

    fn from_str(text: &str) -> Result<Self, NoMix> {
        let wrong = || NoMix(text.to_owned());
        let mut mix = Self { parts: Vec::new(), duplicates: 0 };
        for part in text.split(',') {
            let (name, share) = part.split_once(':').ok_or_else(wrong)?;
            let share =
                share.parse::<u32>().ok().filter(|share| *share <= 100).ok_or_else(wrong)?;
            match KINDS.into_iter().find(|(_, known)| *known == name) {
                Some((kind, _)) => mix.parts.push((kind, share)),
                None if name == DUPLICATES => mix.duplicates = share,
                None => return Err(wrong()),
            }
        }
        let all: u32 = mix.parts.iter().map(|(_, share)| share).sum();
        if all == 100 { Ok(mix) } else { Err(wrong()) }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            |kind: Kind| KINDS.into_iter().find(|(known, _)| *known == kind).map(|(_, name)| name);
        let parts =
            self.parts.iter().map(|(kind, share)| (name(*kind).unwrap_or_default(), *share));
        let copies = (self.duplicates > 0).then_some((DUPLICATES, self.duplicates));
        for (at, (name, share)) in parts.chain(copies).enumerate() {
            write!(f, "{}{name}:{share}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl Mix {
    /// Generates `count` pages of `page` bytes.
    #[must_use]
    pub fn pages(&self, count: usize, page: usize, seed: u64) -> Vec<u8> {
        let mut rng = Rng::with_seed(seed);
        let words = vocabulary(&mut rng);
        let mut all = Vec::with_capacity(count * page);
        for number in 0..count {
            if number > 0 && rng.u32(0..100) < self.duplicates {
                let start = rng.usize(0..number) * page;
                all.extend_from_within(start..start + page);
            } else {
                let kind = self.draw(&mut rng);
                fill(kind, &mut all, page, &words, &mut rng);
            }
        }
        all
    }

    fn draw(&self, rng: &mut Rng) -> Kind {
        let mut left = rng.u32(0..100);
        let drawn = self.parts.iter().find(|(_, share)| {
            let here = left < *share;
            left = left.saturating_sub(*share);
            here
        });
        drawn.map_or(Kind::Random, |(kind, _)| *kind)
    }
}

/// Random words, of which pages of text are made.
fn vocabulary(rng: &mut Rng) -> Vec<String> {
    let mut word = || (0..rng.usize(2..10)).map(|_| rng.lowercase()).collect();
    (0..600).map(|_| word()).collect()
}

/// Appends one page of this kind.
fn fill(kind: Kind, all: &mut Vec<u8>, page: usize, words: &[String], rng: &mut Rng) {
    let end = all.len() + page;
    match kind {
        Kind::Zero => {}
        Kind::Random => {
            all.resize(end, 0);
            rng.fill(&mut all[end - page..]);
        }
        Kind::Repeated => repeat_record(all, end, rng),
        Kind::Text => write_words(all, end, words, rng),
    }
    all.resize(end, 0);
}

fn repeat_record(all: &mut Vec<u8>, end: usize, rng: &mut Rng) {
    let mut record = [0; 60];
    rng.fill(&mut record);
    let mut count: u32 = rng.u32(..);
    while all.len() < end {
        all.extend_from_slice(&record);
        all.extend_from_slice(&count.to_le_bytes());
        count = count.wrapping_add(1);
    }
    all.truncate(end);
}

fn write_words(all: &mut Vec<u8>, end: usize, words: &[String], rng: &mut Rng) {
    while all.len() < end {
        // the minimum of several draws makes some words frequent, as in a language
        let at = (0..12).map(|_| rng.usize(0..words.len())).min().unwrap_or_default();
        all.extend_from_slice(words[at].as_bytes());
        all.push(b' ');
    }
    all.truncate(end);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mix(text: &str) -> Mix {
        text.parse().unwrap()
    }

    #[test]
    fn a_mix_is_read_as_it_is_written() {
        for text in ["text:100", "zero:10,text:60,random:30", "random:100,duplicates:25"] {
            assert_eq!(mix(text).to_string(), text);
        }
        for wrong in ["", "text", "text:99", "text:101", "zip:100", "text:-1", "text:100,"] {
            assert_eq!(wrong.parse::<Mix>(), Err(NoMix(wrong.to_owned())));
        }
    }

    #[test]
    fn kinds_compress_as_they_say() {
        let packed = |text: &str| {
            let pages = mix(text).pages(64, 4096, 7);
            pages.chunks(4096).map(|page| lz4_flex::compress(page).len()).sum::<usize>() * 100
                / pages.len()
        };
        assert!(packed("zero:100") < 2);
        assert!((2..12).contains(&packed("repeated:100")), "{}", packed("repeated:100"));
        assert!((30..60).contains(&packed("text:100")), "{}", packed("text:100"));
        assert!(packed("random:100") >= 100);
    }

    #[test]
    fn about_as_many_pages_are_copies_as_asked_for() {
        let pages = mix("random:100,duplicates:25").pages(2000, 512, 3);
        let different: std::collections::HashSet<&[u8]> = pages.chunks(512).collect();
        assert!((1400..1600).contains(&different.len()), "{}", different.len());
    }

    proptest! {
        #[test]
        fn pages_are_as_many_as_asked_for_and_repeat_with_the_seed(count in 0usize..20, seed: u64) {
            let mix = mix("zero:10,repeated:20,text:40,random:30,duplicates:10");
            let pages = mix.pages(count, 4096, seed);
            prop_assert_eq!(pages.len(), count * 4096);
            prop_assert_eq!(pages, mix.pages(count, 4096, seed));
        }
    }
}
