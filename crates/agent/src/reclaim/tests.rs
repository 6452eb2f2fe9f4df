// SPDX-License-Identifier: Apache-2.0 OR MIT

use proptest::prelude::*;

use super::simulator::{COST, Kind, Simulated};
use super::*;

const INTERVAL: Duration = Duration::from_secs(6);

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What a workload does in an interval that begins at this second: it calls the function for each page
/// that it accesses, and returns its CPU time.
type Work = fn(u64, &mut fastrand::Rng, &mut dyn FnMut(usize)) -> Duration;
/// The pages that are in use at this second; `None` if that is no set.
type Truth = fn(u64) -> Option<std::ops::Range<usize>>;

/// What a simulated time showed.
#[derive(Debug, Default)]
struct Shown {
    /// The most intervals in a row in which more than 5 % of the pages in use were missing.
    below: u32,
    /// Resident pages at the end of each interval.
    sizes: Vec<u64>,
    /// Refaults times their cost, as a share of the CPU time, in the second half.
    refault_share: f64,
    taken: u64,
    steps: u64,
}

struct Simulation {
    group: Simulated,
    target: ReclaimTarget,
    work: Work,
    truth: Truth,
    has_faults: bool,
}

impl Simulation {
    fn new(kinds: &[(Kind, usize)], work: Work, truth: Truth) -> Self {
        let settings = ReclaimSettings::default();
        Self {
            group: Simulated::new(kinds, 1),
            target: ReclaimTarget::new(settings),
            work,
            truth,
            has_faults: false,
        }
    }

    /// Simulates half hours. With faults, readings fail, the cgroup is left alone for a while, `lru_gen` cannot
    /// be had, intervals are late, and tasks seem to wait for memory.
    fn run(&mut self, half_hours: u64) -> Shown {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut shown, mut below, mut halfway) = (Shown::default(), 0, None);
        let intervals = half_hours * 300;
        let mut stalled = Duration::ZERO;
        for number in 1..=intervals {
            let now = INTERVAL * u32::try_from(number).unwrap();
            let group = &mut self.group;
            let cpu = (self.work)(now.as_secs(), &mut random, &mut |page| group.access(page));
            group.cpu += cpu;
            if let Some(truth) = (self.truth)(now.as_secs()) {
                let missing = truth.clone().filter(|page| !group.is_there(*page)).count();
                below = if missing * 20 > truth.len() { below + 1 } else { 0 };
                shown.below = shown.below.max(below);
            }
            if number == intervals / 2 {
                halfway = Some((group.refaults, group.cpu));
            }
            let fault = if self.has_faults { random.u32(0..2000) } else { 2000 };
            match fault {
                0 => self.target.skip(now),
                1..6 => {}
                6 => stalled += Duration::from_secs(3),
                7 => group.has_ages = !group.has_ages,
                _ => {}
            }
            if self.target.is_due(now) && !(1..6).contains(&fault) {
                let reading = ReclaimReading { stalled: Some(stalled), ..self.group.reading() };
                self.step(now, &reading, &mut shown);
            }
            shown.sizes.push(self.group.resident());
        }
        let (refaults, cpu) = halfway.unwrap();
        let spent = (self.group.refaults - refaults) as f64 * COST.as_secs_f64();
        shown.refault_share = spent / (self.group.cpu - cpu).as_secs_f64().max(1e-9);
        shown
    }

    fn step(&mut self, now: Duration, reading: &ReclaimReading, shown: &mut Shown) {
        match self.target.decide(now, reading) {
            ReclaimStep::Age if self.group.has_ages => {
                self.group.age(now);
                let idle = self.group.idle(self.target.settings.idle_after.mul_f64(0.9));
                self.target.learn(now, Some(idle), reading);
            }
            ReclaimStep::Age => self.target.learn(now, None, reading),
            ReclaimStep::Take(bytes, kind) => {
                let freed = self.group.reclaim(bytes, kind);
                self.target.finish(now, bytes, kind, freed);
                shown.taken += freed.get() / SLICE.get();
                shown.steps += 1;
            }
            _ => {}
        }
    }
}

const HOT: usize = 75;
const ALL: usize = 260;

/// Touches all at the start, then the first pages.
fn sharp(second: u64, _: &mut fastrand::Rng, access: &mut dyn FnMut(usize)) -> Duration {
    (0..if second < 30 { ALL } else { HOT }).for_each(access);
    Duration::from_millis(600)
}

fn hot(_: u64) -> Option<std::ops::Range<usize>> {
    Some(0..HOT)
}

fn no_set(_: u64) -> Option<std::ops::Range<usize>> {
    None
}

/// All that can be said of the size is that it does not go up and down: the largest minus the smallest,
/// as a share of the largest, over the last part.
fn swing(sizes: &[u64]) -> f64 {
    let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
    (most - least) as f64 / *most as f64
}

#[test]
fn a_sharp_set_is_found_and_the_cold_is_taken_within_half_an_hour() {
    let mut simulation = Simulation::new(&[(Kind::Anon, ALL)], sharp, hot);
    let first = simulation.run(1);
    let cold = (ALL - HOT) as u64;
    assert!(first.taken * 10 >= cold * 8, "{} of {cold}", first.taken);
    let later = simulation.run(143);
    assert!((HOT as u64..=HOT as u64 * 11 / 10).contains(later.sizes.last().unwrap()));
    assert!(first.below == 0 && later.below <= 3 && later.refault_share <= 0.01, "{}", later.below);
    assert!(swing(&later.sizes[6000..]) <= 0.1);
}

fn zipf(_: u64, random: &mut fastrand::Rng, access: &mut dyn FnMut(usize)) -> Duration {
    for _ in 0..2000 {
        // each power of two is as likely as the others, so page n is used 1/n times as often as the first
        let below = (2usize << random.usize(0..8)).min(ALL);
        access(random.usize(0..below));
    }
    Duration::from_millis(600)
}

/// Without a knee, the budget for refaults decides.
#[test]
fn zipf_stays_within_the_budget_and_does_not_swing() {
    let mut simulation = Simulation::new(&[(Kind::Anon, ALL)], zipf, no_set);
    let shown = simulation.run(144);
    assert!(shown.refault_share <= 0.01, "{}", shown.refault_share);
    assert!(swing(&shown.sizes[6000..]) <= 0.1, "{}", swing(&shown.sizes[6000..]));
}

/// Works for ten minutes, does nothing for twenty.
fn bursts(second: u64, _: &mut fastrand::Rng, access: &mut dyn FnMut(usize)) -> Duration {
    if second < 30 {
        (0..ALL).for_each(&mut *access);
    }
    if second % 1800 >= 600 {
        return Duration::ZERO;
    }
    (0..HOT).for_each(access);
    Duration::from_millis(600)
}

fn hot_in_bursts(second: u64) -> Option<std::ops::Range<usize>> {
    (second % 1800 < 600).then_some(0..HOT)
}

#[test]
fn a_burst_after_a_time_without_work_finds_its_pages() {
    let mut simulation = Simulation::new(&[(Kind::Anon, ALL)], bursts, hot_in_bursts);
    let shown = simulation.run(144);
    assert!(
        shown.below <= 3 && shown.refault_share <= 0.01,
        "{} {}",
        shown.below,
        shown.refault_share
    );
    assert!(shown.taken * 10 >= (ALL - HOT) as u64 * 8, "{}", shown.taken);
}

/// Reads a small part of its files often, and passes once an hour over all.
fn files(second: u64, _: &mut fastrand::Rng, access: &mut dyn FnMut(usize)) -> Duration {
    (0..40).for_each(&mut *access);
    if second % 3600 < 60 {
        (0..ALL).for_each(access);
    }
    Duration::from_millis(600)
}

#[test]
fn the_cache_of_files_is_taken_without_swap_and_never_below_what_is_read() {
    let mut simulation = Simulation::new(&[(Kind::File, ALL)], files, |_| Some(0..40));
    simulation.group.swap = SwapRoom::None;
    simulation.group.can_choose = false;
    let shown = simulation.run(144);
    assert!(shown.below <= 3 && shown.taken > 0, "{}", shown.below);
    let mut anon = Simulation::new(&[(Kind::Anon, ALL)], sharp, hot);
    anon.group.swap = SwapRoom::None;
    assert_eq!(anon.run(4).steps, 0, "anonymous memory without swap");
}

#[test]
fn tmpfs_alone_is_never_taken() {
    for can_choose in [true, false] {
        let mut simulation = Simulation::new(&[(Kind::Shmem, ALL)], sharp, hot);
        simulation.group.can_choose = can_choose;
        assert_eq!(simulation.run(144).steps, 0);
    }
}

/// Two jobs in one cgroup; the second one works for two hours in six.
fn two_jobs(second: u64, _: &mut fastrand::Rng, access: &mut dyn FnMut(usize)) -> Duration {
    (0..HOT).for_each(&mut *access);
    if second % 21_600 < 7200 {
        (HOT..2 * HOT).for_each(access);
    }
    Duration::from_millis(600)
}

#[test]
fn the_pages_of_a_job_that_rests_are_taken_and_the_others_are_not() {
    let mut simulation = Simulation::new(&[(Kind::Anon, 2 * HOT)], two_jobs, hot);
    let shown = simulation.run(144);
    assert!(shown.below == 0 && shown.taken >= 8 * HOT as u64, "{} {}", shown.below, shown.taken);
    assert!(shown.refault_share <= 0.01, "{}", shown.refault_share);
}

/// Needs more memory in the first two minutes, and frees it.
#[test]
fn a_burst_at_the_start_is_not_taken_for_the_working_set_and_growth_stops_everything() {
    let mut simulation = Simulation::new(&[(Kind::Anon, ALL)], sharp, hot);
    let mut number = 0;
    while number < 20 {
        number += 1;
        let now = INTERVAL * number;
        (0..13 * number as usize).for_each(|page| simulation.group.access(page));
        simulation.group.cpu += Duration::from_secs(3);
        let step = simulation.target.decide(now, &simulation.group.reading());
        assert!(!matches!(step, ReclaimStep::Take(..) | ReclaimStep::Age), "{step:?} at {number}");
    }
    (HOT..ALL).for_each(|page| simulation.group.free(page));
    let shown = simulation.run(2);
    assert!(shown.below == 0, "{}", shown.below);
}

#[test]
fn three_days_with_faults_keep_all_bounds() {
    for (work, truth) in [(sharp as Work, hot as Truth), (bursts, hot_in_bursts), (two_jobs, hot)] {
        let mut simulation = Simulation::new(&[(Kind::Anon, ALL)], work, truth);
        simulation.has_faults = true;
        let shown = simulation.run(144);
        assert!(shown.below <= 3, "{}", shown.below);
        assert!(shown.refault_share <= 0.02, "{}", shown.refault_share);
    }
}

/// Nobody knows which pages are in use: refaults have to show it.
#[test]
fn without_ages_refaults_stop_it_and_little_is_taken_at_a_time() {
    let mut simulation = Simulation::new(&[(Kind::Anon, ALL)], sharp, hot);
    simulation.group.has_ages = false;
    let shown = simulation.run(144);
    assert!(shown.refault_share <= 0.01, "{}", shown.refault_share);
    assert!(shown.below <= 3, "{}", shown.below);
}

fn reading(size: u64) -> ReclaimReading {
    ReclaimReading {
        current: Bytes::new(size),
        anon: Bytes::new(size),
        file: Bytes::new(0),
        mapped: Bytes::new(0),
        shmem: Bytes::new(0),
        unevictable: Bytes::new(0),
        protected: Bytes::new(0),
        refaults: 0,
        cpu: Duration::ZERO,
        stalled: None,
        swap: SwapRoom::Ram(Bytes::new(1 << 40)),
        refault_cost: COST,
        can_choose: true,
    }
}

#[test]
fn waiting_tasks_stop_it_for_ten_minutes_and_longer_each_time() {
    let mut target = ReclaimTarget::new(ReclaimSettings::default());
    let with = |stalled, cpu| ReclaimReading {
        stalled: Some(at(stalled)),
        cpu: at(cpu),
        ..reading(64 << 20)
    };
    assert_eq!(target.decide(at(0), &with(0, 0)), ReclaimStep::FirstReading);
    assert_eq!(target.decide(at(6), &with(1, 3)), ReclaimStep::Stalled(at(600)));
    assert_eq!(target.decide(at(12), &with(1, 6)), ReclaimStep::Stalled(at(594)));
    target.skip(at(606));
    assert_eq!(target.decide(at(612), &with(1, 9)), ReclaimStep::FirstReading);
    assert_eq!(target.decide(at(618), &with(2, 12)), ReclaimStep::Stalled(at(1200)));
}

#[test]
fn a_kernel_that_finds_nothing_is_not_asked_again_and_again() {
    let mut target = ReclaimTarget::new(ReclaimSettings::default());
    let asked = Bytes::new(1 << 20);
    for number in 0..3 {
        target.finish(at(number), asked, ReclaimKind::Any, Bytes::new(0));
    }
    target.decide(at(3), &reading(64 << 20));
    let step = target.decide(at(9), &ReclaimReading { cpu: at(1), ..reading(64 << 20) });
    assert!(matches!(step, ReclaimStep::InVain(_)), "{step:?}");
}

#[test]
fn files_alone_are_taken_only_if_the_kernel_can_be_asked_for_them() {
    let settings = ReclaimSettings { files_only: true, ..ReclaimSettings::default() };
    let both = |can_choose, swap| ReclaimReading {
        file: Bytes::new(40 << 20),
        mapped: Bytes::new(10 << 20),
        can_choose,
        swap,
        ..reading(64 << 20)
    };
    let step = |can_choose, swap| {
        let mut target = ReclaimTarget::new(settings);
        target.has_ages = false;
        target.decide(at(0), &both(can_choose, swap));
        let next = ReclaimReading { cpu: at(1), ..both(can_choose, swap) };
        target.decide(at(6), &next)
    };
    let room = SwapRoom::Ram(Bytes::new(1 << 30));
    assert!(matches!(step(true, room), ReclaimStep::Take(_, ReclaimKind::File)));
    assert_eq!(step(false, room), ReclaimStep::CannotChoose);
    assert_eq!(step(false, SwapRoom::Disk), ReclaimStep::CannotChoose);
    assert!(matches!(step(false, SwapRoom::None), ReclaimStep::Take(_, ReclaimKind::Any)));
}

/// Sizes in slices, refaults, CPU milliseconds, stalled milliseconds, and where anonymous memory goes.
fn any_interval() -> impl Strategy<Value = ([u64; 6], u64, u64, u64, u8, bool)> {
    let sizes = [0u64..400, 0..400, 0..100, 0..100, 0..50, 0..300];
    (sizes, 0u64..3000, 0u64..6000, 0u64..900, 0u8..3, any::<bool>())
}

proptest! {
    /// Whatever is read: nothing is taken that is locked, shared, protected, or not idle; none while tasks
    /// wait, after growth, or above the budget for refaults; and anonymous memory never without swap in
    /// RAM.
    #[test]
    fn no_reading_leads_to_taking_what_may_not_be_taken(
        files_only in any::<bool>(),
        has_ages in any::<bool>(),
        keep in 0u64..300,
        intervals in proptest::collection::vec(any_interval(), 1..120),
    ) {
        let slices = |count: u64| Bytes::new(count * SLICE.get());
        let settings = ReclaimSettings { files_only, keep: slices(keep), ..ReclaimSettings::default() };
        let mut target = ReclaimTarget::new(settings);
        let (mut now, mut refaults, mut cpu, mut stalled) = (Duration::ZERO, 0, Duration::ZERO, Duration::ZERO);
        // what the naive oracle keeps: all sizes, and the idle memory that is left
        let mut sizes: Vec<(Duration, u64)> = Vec::new();
        let mut idle = IdleMemory::default();
        for ([anon, file, shmem, locked, mapped, protected], refaulted, cpu_ms, stall_ms, swap, can_choose) in intervals {
            now += INTERVAL;
            refaults += refaulted;
            cpu += Duration::from_millis(cpu_ms);
            stalled += Duration::from_millis(stall_ms);
            let room = match swap {
                0 => SwapRoom::None,
                1 => SwapRoom::Disk,
                _ => SwapRoom::Ram(slices(100)),
            };
            let found = ReclaimReading {
                current: slices(anon + file + shmem + 20),
                anon: slices(anon),
                file: slices(file),
                mapped: slices(mapped),
                shmem: slices(shmem),
                unevictable: slices(locked),
                protected: slices(protected),
                refaults,
                cpu,
                stalled: Some(stalled),
                swap: room,
                refault_cost: COST,
                can_choose,
            };
            sizes.push((now, found.current.get()));
            if !target.is_due(now) {
                target.last = Some((now, found));
                target.sizes.push_back((now, found.current.get()));
                continue;
            }
            match target.decide(now, &found) {
                ReclaimStep::Age => {
                    idle = IdleMemory { anon: slices(anon / 2 + shmem), file: slices(file / 2) };
                    target.learn(now, has_ages.then_some(idle), &found);
                }
                ReclaimStep::Take(bytes, kind) => {
                    let taken = bytes.get();
                    let recent = sizes.iter().filter(|(at, _)| now.saturating_sub(*at) <= MINUTE);
                    let least = recent.map(|(_, size)| *size).min().unwrap();
                    prop_assert!(found.current.get() as f64 <= least as f64 * 1.1);
                    prop_assert!(stall_ms <= 600);
                    let left = found.current.get() - taken;
                    prop_assert!(left >= keep * SLICE.get() && left >= protected * SLICE.get());
                    let of_anon = found.anon.get().min(idle.anon.get().saturating_sub(found.shmem.get()));
                    let of_file = found.file.get().min(idle.file.get());
                    let unlocked = |size: u64| size.saturating_sub(found.unevictable.get());
                    let (of_anon, of_file) = if has_ages {
                        (of_anon, of_file)
                    } else {
                        (unlocked(found.anon.get()), unlocked(found.file.get()))
                    };
                    let of_anon = if matches!(room, SwapRoom::Ram(_)) { of_anon.min(slices(100).get()) } else { 0 };
                    let of_file = if files_only { of_file.saturating_sub(found.mapped.get()) } else { of_file };
                    match kind {
                        ReclaimKind::Anon => prop_assert!(can_choose && !files_only && taken <= of_anon),
                        ReclaimKind::File => prop_assert!(can_choose && taken <= of_file),
                        ReclaimKind::Any => {
                            prop_assert!(!can_choose && room != SwapRoom::Disk);
                            prop_assert!(room == SwapRoom::None || !files_only);
                            prop_assert!(taken <= of_anon + of_file);
                        }
                    }
                    prop_assert!(target.refault_percent(&found) < 1.0);
                    target.finish(now, bytes, kind, bytes);
                    let less = |size: Bytes| Bytes::new(size.get().saturating_sub(taken));
                    if kind != ReclaimKind::File {
                        idle.anon = less(idle.anon);
                    }
                    if kind != ReclaimKind::Anon {
                        idle.file = less(idle.file);
                    }
                }
                _ => {}
            }
        }
    }
}
