// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether intervals are honest: of 2,000 samples of a whole image, 93 to 97 % must hold the truth.
//!
//! The images are made here, of kinds that spread sizes differently: pages that are alike, pages that
//! compress or do not, mostly zeros, and a few that cost far more than the others.

use pagewise_pages::codec::Algorithm;
use pagewise_pages::huge::Place;
use pagewise_pages::interval::{Sums, pages_interval};
use pagewise_pages::kernel::KERNELS;
use pagewise_pages::tally::{Engine, Question, Tally};

const PAGES: usize = 20_000;
const SAMPLES: usize = 2000;
const DRAWN: usize = 2000;

/// A generator of our own, so that every run draws alike (xorshift64*).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("below a usize")
    }

    /// So many of the items at the front, in random order.
    fn shuffle_front<T>(&mut self, items: &mut [T], count: usize) {
        for at in 0..count {
            let other = at + self.below(items.len() - at);
            items.swap(at, other);
        }
    }
}

/// A page with so many bytes that nothing compresses, then words from a small set.
fn page(draw: &mut Draw, noise: usize) -> Vec<u8> {
    let mut page: Vec<u8> = (0..noise / 8).flat_map(|_| draw.next().to_le_bytes()).collect();
    while page.len() < 4096 {
        page.extend_from_slice(&(draw.next() % 64).to_le_bytes());
    }
    page
}

/// How many bytes of noise a page of a kind of image has.
type Kind = fn(&mut Draw) -> Option<usize>;

const KINDS: [(&str, Kind); 5] = [
    ("alike", |_| Some(1000)),
    ("evenly spread", |draw| Some(draw.below(512) * 8)),
    ("half will not compress", |draw| Some(if draw.below(2) == 0 { 4096 } else { 800 })),
    ("nine in ten are zeros", |draw| (draw.below(10) == 0).then(|| draw.below(400) * 8)),
    ("one in fifty costs much", |draw| Some(if draw.below(50) == 0 { 4096 } else { 64 })),
];

/// Of every page of an image the compressed size, and whether it is same-filled.
fn image(kind: Kind) -> Vec<(f64, bool)> {
    let mut draw = Draw(20_261_120);
    let question = Question {
        page: 4096,
        kernel: KERNELS[2],
        algorithms: vec![Algorithm::Lz4],
        duplicates: false,
        pages_per_huge: 512,
    };
    let mut engine = Engine::new(&question);
    let mut seen = |page: &[u8]| {
        let mut tally = Tally::new(&question);
        engine.add(page, Place::default(), &mut tally);
        (tally.compressed_bytes(0) as f64, tally.same_filled() == 1)
    };
    (0..PAGES)
        .map(|_| match kind(&mut draw) {
            None => seen(&[0; 4096]),
            Some(noise) => seen(&page(&mut draw, noise)),
        })
        .collect()
}

#[test]
fn of_a_hundred_intervals_of_a_size_ninety_five_hold_it() {
    for (name, kind) in KINDS {
        let mut pages = image(kind);
        let truth = pages.iter().map(|(size, _)| size).sum::<f64>() / PAGES as f64;
        let mut draw = Draw(4711);
        let mut held = 0;
        for _ in 0..SAMPLES {
            draw.shuffle_front(&mut pages, DRAWN);
            let mut sums = Sums::default();
            pages[..DRAWN].iter().for_each(|(size, _)| sums.add(*size));
            let [low, high] = sums.mean_interval(PAGES as u64);
            held += usize::from(low <= truth && truth <= high);
        }
        let share = held as f64 * 100.0 / SAMPLES as f64;
        println!("{name}: {share:.1} % of {SAMPLES} intervals hold the mean size {truth:.0}");
        assert!((93.0..=97.0).contains(&share), "{name}: {share} %");
    }
}

#[test]
fn of_a_hundred_intervals_of_a_share_ninety_five_hold_it() {
    for (name, kind) in
        [KINDS[3], ("one page in 200 is zero", |draw| (draw.below(200) > 0).then_some(64))]
    {
        let mut pages = image(kind);
        let truth = pages.iter().filter(|(_, same)| *same).count() as u64;
        let mut draw = Draw(815);
        let mut held = 0;
        for _ in 0..SAMPLES {
            draw.shuffle_front(&mut pages, DRAWN);
            let found = pages[..DRAWN].iter().filter(|(_, same)| *same).count() as u64;
            let [low, high] = pages_interval(found, DRAWN as u64, PAGES as u64);
            held += usize::from(low <= truth && truth <= high);
        }
        let share = held as f64 * 100.0 / SAMPLES as f64;
        println!("{name}: {share:.1} % of {SAMPLES} intervals hold the {truth} pages");
        assert!((93.0..=97.0).contains(&share), "{name}: {share} %");
    }
}
