// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Estimates how much more memory a zsmalloc pool takes after some time of use than a fresh pool
//! with the same objects.
//!
//! Pages are stored and freed one by one, which leaves unused slots in zspages. Such a slot is
//! filled only by an object of the same class. A new object is stored in the fullest zspage that
//! has a free slot (in steps of a tenth; of several equally full ones, in the one that changed
//! last), and an overwritten page is stored again before its old object is freed. This behaviour
//! was determined step by step with `mem_used_total` of real devices.
//!
//! The simulated pool has some thousand objects, each of which is overwritten several times by an
//! object whose size is drawn from the sizes of the same pages. The result is the upper end of an
//! interval; its lower end is the memory of the fresh pool. A pool that mostly shrinks takes even
//! more memory until it is compacted.

use crate::zsmalloc::{Class, ClassPages, Zsmalloc};

/// Maximum number of objects in a simulated pool.
const OBJECTS: u64 = 20_000;
/// How often each simulated object is overwritten, on average; more overwrites do not change the
/// result any more.
const TIMES: u64 = 4;
/// Factor from the simulation to real pools. In measurements, a pool took up to half as much again
/// as simulated, because pages arrive in another order and by chance; above all a small pool.
const MARGIN: f64 = 1.5;
/// A pool with few objects depends on chance, so it is simulated several times, until this many
/// objects were simulated, and the largest result is used.
const PLAYED: usize = 20_000;
const ROUNDS: usize = 16;
/// Number of groups of zspages: ten for the tenths of fullness, and two for full and nearly full
/// zspages.
const GROUPS: usize = 12;
const NONE: usize = usize::MAX;

/// Returns the maximum memory while pages are overwritten, divided by the memory of a fresh pool
/// with the same pages.
#[must_use]
pub fn estimate_wear(pool: &Zsmalloc, stored: &ClassPages) -> f64 {
    let total: u64 = stored.objects().iter().sum();
    if total == 0 {
        return 1.0;
    }
    let classes = spread_over_classes(stored, total);
    let rounds = (PLAYED / classes.len().max(1)).clamp(1, ROUNDS);
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
    let most = (0..rounds).map(|_| simulate_pool(pool, &classes, &mut draw)).fold(1.0, f64::max);
    let luck = 0.5 / (classes.len() as f64).sqrt();
    1.0 + MARGIN * (most - 1.0) + luck
}

/// Simulates a pool once. Returns its maximum memory while it is used, divided by the memory of the
/// fresh pool.
fn simulate_pool(pool: &Zsmalloc, classes: &[usize], draw: &mut Draw) -> f64 {
    let mut worn = Pool::new(pool);
    let mut places: Vec<ObjectSlot> = classes.iter().map(|class| worn.store(*class)).collect();
    let fresh = worn.pages;
    let mut most = fresh;
    for _ in 0..classes.len() as u64 * TIMES {
        let at = draw.below(places.len());
        let new = worn.store(classes[draw.below(classes.len())]);
        worn.free(std::mem::replace(&mut places[at], new));
        most = most.max(worn.pages);
    }
    most as f64 / fresh.max(1) as f64
}

/// Returns a size class for each simulated object, in the proportions of `stored`.
fn spread_over_classes(stored: &ClassPages, total: u64) -> Vec<usize> {
    let scale = total.div_ceil(OBJECTS).max(1);
    let of_class = |(class, count): (usize, u64)| {
        std::iter::repeat_n(class, usize::try_from(count.div_ceil(scale)).unwrap_or(0))
    };
    stored.objects().into_iter().enumerate().flat_map(of_class).collect()
}

/// The position of an object: the zspage that contains it.
#[derive(Debug, Clone, Copy)]
struct ObjectSlot {
    class: usize,
    zspage: usize,
}

#[derive(Debug)]
struct Pool {
    classes: Vec<Zspages>,
    pages: usize,
}

impl Pool {
    fn new(pool: &Zsmalloc) -> Self {
        Self {
            classes: pool.classes().iter().map(|class| Zspages::new(*class)).collect(),
            pages: 0,
        }
    }

    fn store(&mut self, class: usize) -> ObjectSlot {
        let zspages = &mut self.classes[class];
        let zspage = zspages.with_room().unwrap_or_else(|| {
            self.pages += zspages.class.pages;
            zspages.begin()
        });
        zspages.change(zspage, 1);
        ObjectSlot { class, zspage }
    }

    fn free(&mut self, place: ObjectSlot) {
        let zspages = &mut self.classes[place.class];
        zspages.change(place.zspage, -1);
        if zspages.used[place.zspage] == 0 {
            zspages.unlink(place.zspage);
            zspages.idle.push(place.zspage);
            self.pages -= zspages.class.pages;
        }
    }
}

/// The zspages of a size class, in lists by fullness.
#[derive(Debug)]
struct Zspages {
    class: Class,
    used: Vec<usize>,
    next: Vec<usize>,
    before: Vec<usize>,
    first: [usize; GROUPS],
    /// Indices of zspages that were freed and can be used again.
    idle: Vec<usize>,
}

impl Zspages {
    fn new(class: Class) -> Self {
        let (used, next, before, idle) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { class, used, next, before, first: [NONE; GROUPS], idle }
    }

    fn group(&self, zspage: usize) -> usize {
        match (self.used[zspage], self.class.objects) {
            (0, _) => 0,
            (used, objects) if used == objects => GROUPS - 1,
            (used, objects) => 1 + 10 * used / objects,
        }
    }

    fn with_room(&self) -> Option<usize> {
        self.first[..GROUPS - 1].iter().rev().copied().find(|zspage| *zspage != NONE)
    }

    fn begin(&mut self) -> usize {
        let zspage = self.idle.pop().unwrap_or(self.used.len());
        if zspage == self.used.len() {
            self.used.push(0);
            self.next.push(NONE);
            self.before.push(NONE);
        }
        self.link(zspage);
        zspage
    }

    fn change(&mut self, zspage: usize, by: isize) {
        let group = self.group(zspage);
        let used = self.used[zspage].saturating_add_signed(by);
        let old = std::mem::replace(&mut self.used[zspage], used);
        if self.group(zspage) != group {
            let used = std::mem::replace(&mut self.used[zspage], old);
            self.unlink(zspage);
            self.used[zspage] = used;
            self.link(zspage);
        }
    }

    fn link(&mut self, zspage: usize) {
        let group = self.group(zspage);
        let second = std::mem::replace(&mut self.first[group], zspage);
        (self.next[zspage], self.before[zspage]) = (second, NONE);
        if second != NONE {
            self.before[second] = zspage;
        }
    }

    fn unlink(&mut self, zspage: usize) {
        let (next, before) = (self.next[zspage], self.before[zspage]);
        match before {
            NONE => self.first[self.group(zspage)] = next,
            before => self.next[before] = next,
        }
        if next != NONE {
            self.before[next] = before;
        }
    }
}

/// A reproducible generator of random numbers (xorshift64*).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        usize::try_from(drawn % end.max(1) as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::KERNELS;

    proptest! {
        /// After any sequence of operations, each zspage contains exactly the objects that were
        /// stored and not freed, and the lists contain each zspage once.
        #[test]
        fn nothing_is_lost(steps in prop::collection::vec((0usize..4096, any::<bool>(), any::<u16>()), 1..300)) {
            let pool = KERNELS[2].pool_for_page_size(4096);
            let mut worn = Pool::new(&pool);
            let mut places: Vec<ObjectSlot> = Vec::new();
            for (size, store, pick) in steps {
                if store || places.is_empty() {
                    places.push(worn.store(pool.class_of(size)));
                } else {
                    let at = usize::from(pick) % places.len();
                    worn.free(places.swap_remove(at));
                }
            }
            let held: usize = worn.classes.iter().map(|zspages| zspages.used.iter().sum::<usize>()).sum();
            prop_assert_eq!(held, places.len());
            let mut pages = 0;
            for zspages in &worn.classes {
                let listed: usize = zspages.first.iter().map(|first| length(zspages, *first)).sum();
                prop_assert_eq!(listed, zspages.used.len() - zspages.idle.len());
                pages += listed * zspages.class.pages;
            }
            prop_assert_eq!(pages, worn.pages);
        }
    }

    fn length(zspages: &Zspages, first: usize) -> usize {
        let some = |at: usize| (at != NONE).then_some(at);
        std::iter::successors(some(first), |at| some(zspages.next[*at])).count()
    }

    #[test]
    fn a_pool_of_one_size_does_not_wear_and_a_mixed_one_does() {
        let pool = KERNELS[2].pool_for_page_size(4096);
        let filled = |sizes: &mut dyn Iterator<Item = usize>| {
            let mut stored = pool.empty_class_pages();
            sizes.for_each(|size| stored.add(&pool, size));
            estimate_wear(&pool, &stored)
        };
        assert!(filled(&mut std::iter::empty()) <= 1.0);
        assert!(filled(&mut std::iter::repeat_n(4096, 1000)) < 1.03);
        let mixed = filled(&mut (0..4000).map(|at| 200 + at * 7 % 3000));
        assert!((1.03..1.6).contains(&mixed), "{mixed}");
    }
}
