// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the intervals: of 2,000 samples of an image, 93 to 97 % of the intervals must contain the
//! true value.
//!
//! The images are generated, with different distributions of sizes: equal pages, pages that
//! compress or do not, mostly zeros, and a few pages that cost far more than the others.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "made-up sizes and counts are small and positive"
)]

use pagewise_model::MemoryKind;
use pagewise_pages::codec::Algorithm;
use pagewise_pages::duplicates::{Duplicates, Found, count_found};
use pagewise_pages::fill::used_pages;
use pagewise_pages::huge::PagePosition;
use pagewise_pages::interval::{Population, Sums, pages_interval};
use pagewise_pages::kernel::KERNELS;
use pagewise_pages::random_draw::RandomDraw;
use pagewise_pages::tally::{Engine, Question, Tally};
use pagewise_pages::zsmalloc::{ClassPages, Zsmalloc};

const PAGES: usize = 20_000;
const SAMPLES: usize = 2000;
const DRAWN: usize = 2000;

/// A reproducible random generator (xorshift64*).
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

    /// Moves `count` random items to the front, in random order.
    fn shuffle_front<T>(&mut self, items: &mut [T], count: usize) {
        for at in 0..count {
            let other = at + self.below(items.len() - at);
            items.swap(at, other);
        }
    }
}

/// A page with this many incompressible bytes, then words from a small set.
fn page(draw: &mut Draw, noise: usize) -> Vec<u8> {
    let mut page: Vec<u8> = (0..noise / 8).flat_map(|_| draw.next().to_le_bytes()).collect();
    while page.len() < 4096 {
        page.extend_from_slice(&(draw.next() % 64).to_le_bytes());
    }
    page
}

/// The number of bytes of noise in a page of a kind of image.
type Kind = fn(&mut Draw) -> Option<usize>;

const KINDS: [(&str, Kind); 5] = [
    ("alike", |_| Some(1000)),
    ("evenly spread", |draw| Some(draw.below(512) * 8)),
    ("half will not compress", |draw| Some(if draw.below(2) == 0 { 4096 } else { 800 })),
    ("nine in ten are zeros", |draw| (draw.below(10) == 0).then(|| draw.below(400) * 8)),
    ("one in fifty costs much", |draw| Some(if draw.below(50) == 0 { 4096 } else { 64 })),
];

/// For every page of an image its compressed size, and whether it is same-filled.
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
        engine.add(page, PagePosition::default(), &mut tally);
        (tally.compressed_bytes(0) as f64, tally.same_filled() > 0.0)
    };
    (0..PAGES)
        .map(|_| match kind(&mut draw) {
            None => seen(&[0; 4096]),
            Some(noise) => seen(&page(&mut draw, noise)),
        })
        .collect()
}

/// A kind that is more skewed than all of those above: one page in 200 does not compress.
const RARE: (&str, Kind) =
    ("one in 200 costs much", |draw| Some(if draw.below(200) == 0 { 4096 } else { 64 }));

/// The same interval without Student's quantile and Hall's transformation, for comparison.
fn plain_interval(sizes: &[(f64, bool)], population: usize) -> [f64; 2] {
    let count = sizes.len() as f64;
    let mean = sizes.iter().map(|(size, _)| size).sum::<f64>() / count;
    let squares = sizes.iter().map(|(size, _)| (size - mean).powi(2)).sum::<f64>();
    let left_out = 1.0 - count / population as f64;
    let half = 1.96 * (squares / (count - 1.0) / count * left_out).sqrt();
    [mean - half, mean + half]
}

#[test]
fn of_a_hundred_intervals_of_a_size_ninety_five_hold_it() {
    for (name, kind) in KINDS.into_iter().chain([RARE]) {
        let mut pages = image(kind);
        let truth = pages.iter().map(|(size, _)| size).sum::<f64>() / PAGES as f64;
        for drawn in [100, 300, 800, DRAWN] {
            let mut draw = Draw(4711);
            let (mut held, mut plain) = (0, 0);
            for _ in 0..SAMPLES {
                draw.shuffle_front(&mut pages, drawn);
                let mut sums = Sums::default();
                pages[..drawn].iter().for_each(|(size, _)| sums.add(*size));
                let [low, high] = sums.mean_interval(PAGES as u64);
                held += usize::from(low <= truth && truth <= high);
                let [low, high] = plain_interval(&pages[..drawn], PAGES);
                plain += usize::from(low <= truth && truth <= high);
            }
            let percent = |held: usize| held as f64 * 100.0 / SAMPLES as f64;
            let (share, plain) = (percent(held), percent(plain));
            println!(
                "{name}, {drawn} drawn: {share:.1} % of {SAMPLES} intervals hold the mean size \
                 {truth:.0}; {plain:.1} % of symmetric ones"
            );
            // a hundred pages contain too few of those that occur once in 50 or 200
            let most = if name == RARE.0 { 98.5 } else { 97.0 };
            if drawn >= 800 {
                assert!((93.0..=most).contains(&share), "{name}, {drawn}: {share} %");
            }
        }
    }
}

/// The contents of a pool after pages of these sizes were stored, without same-filled ones.
fn pool_of(pool: &Zsmalloc, pages: &[(f64, bool)]) -> (ClassPages, Sums) {
    let (mut stored, mut parts) = (pool.empty_class_pages(), Sums::default());
    for (size, same) in pages {
        let size = *size as usize;
        parts.add(if *same { 0.0 } else { pool.share_of_zspage(size) });
        if !same {
            stored.add(pool, size);
        }
    }
    (stored, parts)
}

/// The intervals of the memory used are as reliable as those of the compressed size, for images
/// that differ in how far each class's last zspage is filled: at most a tenth of the pages is not
/// sampled.
#[test]
fn of_a_hundred_intervals_of_the_memory_used_ninety_five_hold_it() {
    const ROUNDS: usize = 1000;
    let pool = KERNELS[2].pool_for_page_size(4096);
    for (name, kind) in KINDS {
        let image = image(kind);
        for (pages, drawn) in [(3000, 800), (PAGES, 800), (PAGES, DRAWN)] {
            let (mut sizes, mut draw) = (image[..pages].to_vec(), Draw(92));
            let (mut held, mut widths, mut off) = (0, 0.0, 0.0);
            for _ in 0..ROUNDS {
                draw.shuffle_front(&mut sizes, pages);
                let all = &sizes[draw.below(pages / 10)..];
                let population = all.len() as u64;
                let truth = pool.used_after_fresh_fill(&pool_of(&pool, all).0).get();
                let (stored, parts) = pool_of(&pool, &all[..drawn]);
                let (value, ends) = used_pages(&pool, &stored, &parts, population);
                held += holds(ends, truth);
                widths += (ends[1] - ends[0]) as f64 / truth as f64 / ROUNDS as f64;
                off += (value as f64 / truth as f64 - 1.0) / ROUNDS as f64;
            }
            let share = held as f64 * 100.0 / ROUNDS as f64;
            let (wide, off) = (widths * 100.0, off * 100.0);
            println!(
                "{name}, {drawn} of {pages}: {share:.1} % hold the memory used, {wide:.1} % wide, \
                 {off:+.2} % off"
            );
            assert!((93.0..=97.5).contains(&share), "{name}, {drawn} of {pages}: {share} %");
        }
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

/// The number of forked processes that share a page, and whether shared pages are same-filled more
/// often, so that the weight of a place correlates with its cost.
type Family = fn(&mut Draw) -> u64;

const FAMILIES: [(&str, Family); 4] = [
    ("all shared by nine", |_| 9),
    ("half shared by two", |draw| 1 + u64::from(draw.below(2) == 0)),
    ("a tenth private, the rest shared by nine", |draw| if draw.below(10) == 0 { 1 } else { 9 }),
    ("any number from 1 to 20", |draw| 1 + draw.below(20) as u64),
];

/// Places of forked processes: size and share of each; shared pages are smaller.
fn family(sharers: Family) -> Vec<(f64, f64)> {
    let mut draw = Draw(20_261_122);
    let mut places = Vec::new();
    while places.len() < PAGES {
        let sharers = sharers(&mut draw);
        let size = match draw.below(8) {
            0 => 0,
            1 => 4096,
            _ => 300 + draw.below(3000) / sharers as usize,
        };
        for _ in 0..sharers {
            places.push((size as f64, 1.0 / sharers as f64));
        }
    }
    places
}

/// For places that processes share: the number of pages, their compressed size in total and per
/// page, and the number of same-filled pages.
#[test]
fn of_a_hundred_intervals_of_forked_memory_ninety_five_hold_it() {
    for (name, sharers) in FAMILIES {
        let mut places = family(sharers);
        let all = places.len() as u64;
        let looked = |places: &[(f64, f64)]| {
            let (mut sums, mut shares, mut same) = (Sums::default(), Sums::default(), 0.0);
            for (size, share) in places {
                sums.add_share(*size, *share);
                shares.add_share(1.0, *share);
                same += if *size > 0.0 { 0.0 } else { *share };
            }
            (sums, Population::new(shares, all), same)
        };
        let (truth, pages, same) = looked(&places);
        assert_eq!((pages.pages_interval, pages.is_sample()), ([pages.pages; 2], false));
        assert!(truth.mean_of_page() > 0.0 && pages.pages < all);
        let mut draw = Draw(4711);
        let mut held = [0; 4];
        for _ in 0..SAMPLES {
            draw.shuffle_front(&mut places, DRAWN);
            let (sums, seen, found) = looked(&places[..DRAWN]);
            let within = |[low, high]: [f64; 2], truth: f64| {
                usize::from(low <= truth * (1.0 + 1e-9) && truth <= high * (1.0 + 1e-9))
            };
            held[0] += holds(seen.pages_interval, pages.pages);
            held[1] += within(sums.mean_interval(all), truth.mean());
            held[2] += within(sums.mean_of_page_interval(all), truth.mean_of_page());
            held[3] += holds(seen.pages_of_interval(found), same.round() as u64);
        }
        let shares = held.map(|held| held as f64 * 100.0 / SAMPLES as f64);
        let [pages, total, of_page, filled] = shares;
        println!(
            "{name}: {pages:.1} % hold the pages, {total:.1} % their size, {of_page:.1} % that of \
             one, {filled:.1} % the same-filled"
        );
        // if all pages have the same number of sharers, pages are counted exactly
        let most = if name.starts_with("all") { 100.0 } else { 97.0 };
        assert!((93.0..=most).contains(&pages), "{name}: {pages} % hold the pages");
        for (what, share) in
            [("size", total), ("size of a page", of_page), ("same-filled pages", filled)]
        {
            assert!((93.0..=97.0).contains(&share), "{name}: {share} % hold the {what}");
        }
    }
}

/// The number of copies of each content of an image, and its size: drawn until the image is full.
type Copies = fn(&mut Draw) -> (usize, usize);

fn any_size(draw: &mut Draw) -> usize {
    [60, 300 + draw.below(2500), 300 + draw.below(2500), 4096][draw.below(4)]
}

const COPIES: [(&str, Copies); 6] = [
    ("half are pairs", |draw| (1 + usize::from(draw.below(3) == 0), any_size(draw))),
    ("a tenth is one page", |draw| {
        (if draw.below(9000) == 0 { 2000 } else { 1 + draw.below(2) }, any_size(draw))
    }),
    ("a few have hundreds", |draw| {
        let most = [1, 1, 1, 1, 1, 1, 1, 1, 10, 10, 300][draw.below(11)];
        (1 + draw.below(most), any_size(draw))
    }),
    ("duplicates are small", |draw| match draw.below(4) {
        0 => (2 + draw.below(4), 50 + draw.below(300)),
        _ => (1, 1500 + draw.below(1500)),
    }),
    ("two in a hundred are pairs", |draw| (1 + usize::from(draw.below(100) == 0), any_size(draw))),
    ("all are different", |draw| (1, any_size(draw))),
];

/// The page that is added to the drawn ones has a large weight if all sizes are equal; and without
/// duplicates nothing is certain.
const WIDE: [&str; 2] = ["duplicates are small", "all are different"];

/// The number of the content and the size of each page, in random order.
fn copied(copies: Copies) -> Vec<(u64, usize)> {
    let mut draw = Draw(20_261_121);
    let mut pages = Vec::new();
    for content in 0.. {
        let (copies, size) = copies(&mut draw);
        pages.extend(std::iter::repeat_n((content, size), copies));
        if pages.len() >= PAGES {
            break;
        }
    }
    pages.truncate(PAGES);
    draw.shuffle_front(&mut pages, PAGES);
    pages
}

/// Reads all pages and compresses the drawn ones; each round has different hashes and draws.
fn looked(pages: &[(u64, usize)], lot: RandomDraw, halvings: u32, round: u64) -> Found {
    let mut seen = Duplicates::new(4096);
    seen.thin(halvings);
    for (at, (content, size)) in (0u64..).zip(pages) {
        let hash = Draw(content * 2 + 1 + (round << 32)).next().rotate_left(29);
        seen.mark(MemoryKind::Anonymous, Draw(hash | 1).next(), lot.draws(0, at).then_some(*size));
    }
    count_found(&mut [&mut seen])
}

fn holds([low, high]: [u64; 2], truth: u64) -> usize {
    usize::from(low <= truth && truth <= high)
}

/// Shares of `ROUNDS` intervals that contain the number of duplicates and the savings.
fn coverage(pages: &[(u64, usize)], halvings: u32) -> (f64, f64) {
    const ROUNDS: u64 = 1000;
    let truth = looked(pages, RandomDraw::all(), 0, 0);
    assert_eq!(truth.bytes.ends, [truth.bytes.value; 2], "where all is known");
    let (mut of_pages, mut of_bytes) = (0, 0);
    for round in 1..=ROUNDS {
        let lot = RandomDraw::new(round, DRAWN as u64, PAGES as u64);
        let found = looked(pages, lot, halvings, round);
        of_pages += holds(found.pages.ends, truth.pages.value);
        of_bytes += holds(found.bytes.ends, truth.bytes.value);
    }
    let percent = |held: usize| held as f64 * 100.0 / ROUNDS as f64;
    (percent(of_pages), percent(of_bytes))
}

#[test]
fn of_a_hundred_intervals_of_what_duplicates_save_ninety_five_hold_it() {
    for (name, copies) in COPIES {
        let pages = copied(copies);
        for halvings in [0, 1, 3] {
            let (of_pages, of_bytes) = coverage(&pages, halvings);
            let kept = 1 << halvings;
            println!(
                "{name}, one in {kept} kept: {of_pages:.1} % of intervals hold the duplicates, \
                 {of_bytes:.1} % what they save"
            );
            // if all contents are kept, they are counted; since values cannot be below 0, intervals
            // at 0 contain the true value too often
            let most = if halvings == 0 { 100.0 } else { 97.5 };
            assert!((93.0..=most).contains(&of_pages), "{name}, {kept}: {of_pages} %");
            let is_wide = halvings == 0 && WIDE.contains(&name);
            let most = if is_wide { 100.0 } else { 97.5 };
            assert!((93.0..=most).contains(&of_bytes), "{name}, {kept}: {of_bytes} %");
        }
    }
}

/// The interval of a mean by bootstrap: the middle 95 % of the means of this many samples drawn
/// from the sample, narrowed by the finite population correction.
fn bootstrapped(sizes: &[f64], draw: &mut Draw) -> [f64; 2] {
    const TIMES: usize = 200;
    let mean_of = |draw: &mut Draw| {
        let sum: f64 = sizes.iter().map(|_| sizes[draw.below(sizes.len())]).sum();
        sum / sizes.len() as f64
    };
    let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
    let mut means: Vec<f64> = (0..TIMES).map(|_| mean_of(draw)).collect();
    means.sort_by(f64::total_cmp);
    let drawn_together = (1.0 - sizes.len() as f64 / PAGES as f64).sqrt();
    [means[TIMES / 40], means[TIMES - 1 - TIMES / 40]]
        .map(|end| mean + (end - mean) * drawn_together)
}

/// Why sizes do not use the bootstrap: its intervals contain the true value no more often, and cost
/// 200 times as much. With few pages both methods fall short if a few pages cost far more than the
/// others.
#[test]
fn resampling_holds_the_truth_no_more_often() {
    const ROUNDS: usize = 400;
    for (name, kind) in KINDS {
        let mut pages = image(kind);
        let truth = pages.iter().map(|(size, _)| size).sum::<f64>() / PAGES as f64;
        for drawn in [100, DRAWN] {
            let mut draw = Draw(1234);
            let (mut normal, mut resampled, mut widths) = (0, 0, 0.0);
            for _ in 0..ROUNDS {
                draw.shuffle_front(&mut pages, drawn);
                let sizes: Vec<f64> = pages[..drawn].iter().map(|(size, _)| *size).collect();
                let mut sums = Sums::default();
                sizes.iter().for_each(|size| sums.add(*size));
                let [low, high] = sums.mean_interval(PAGES as u64);
                normal += usize::from(low <= truth && truth <= high);
                let [from, to] = bootstrapped(&sizes, &mut draw);
                resampled += usize::from(from <= truth && truth <= to);
                widths += (to - from) / (high - low) / ROUNDS as f64;
            }
            let percent = |held: usize| held as f64 * 100.0 / ROUNDS as f64;
            let (normal, resampled) = (percent(normal), percent(resampled));
            println!(
                "{name}, {drawn} pages: {normal:.1} % normal, {resampled:.1} % bootstrap, \
                 {widths:.2} times as wide"
            );
            assert!(normal >= resampled - 1.5, "{name}, {drawn}: {normal} and {resampled} %");
        }
    }
}
