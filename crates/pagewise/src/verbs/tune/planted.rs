// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Made-up hosts with a known best answer, and what `tune` decides about them.
//!
//! A host is a small model, not a list of results: programs touch pages of their own memory and of
//! files. Some of these pages are not in RAM, and programs wait for each as long as its store
//! takes. The change alters a store or a setting, and with it the time that programs wait. Whether
//! the change is better is computed from the same model without noise. The noise of load and stores
//! is random, from a seed.

use std::fmt::Write as _;
use std::time::Duration;

use pagewise_model::Difference;

use super::*;

/// Where pages of programs are kept that do not fit into RAM.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Store {
    None,
    /// Compressed RAM: original bytes per compressed byte, and microseconds per page.
    Zram {
        ratio: f64,
        us: f64,
    },
    /// Microseconds per page.
    Disk {
        us: f64,
    },
}

/// How much work the programs have to do over time.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Load {
    Steady,
    /// Half a minute of work in a minute, at moments that the seed chooses.
    Bursts,
    /// Three quarters of the work end shortly after the change.
    Ends,
    /// Files are read for the first time, fewer and fewer pages per second.
    WarmsUp,
}

#[derive(Debug, Clone, Copy)]
struct Host {
    name: &'static str,
    what: &'static str,
    /// MiB of RAM, of programs' memory, and of files in use.
    ram: f64,
    programs: f64,
    files: f64,
    store: Store,
    /// Microseconds to read a page of a file.
    file_us: f64,
    /// Share of the reclaimed pages that are the programs' own (it follows from `vm.swappiness`).
    own_share: f64,
    load: Load,
    change: fn(&mut Host),
    best: Best,
}

/// The best answer; a test compares it with the model without noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Best {
    Keep,
    TakeBack,
    /// It makes no difference of 10 %.
    Either,
}

const PLAIN: Host = Host {
    name: "",
    what: "",
    ram: 4000.0,
    programs: 3200.0,
    files: 1500.0,
    store: Store::None,
    file_us: 400.0,
    own_share: 0.6,
    load: Load::Steady,
    change: |_| {},
    best: Best::Either,
};

const ZRAM: Store = Store::Zram { ratio: 3.0, us: 8.0 };

const HOSTS: [Host; 11] = [
    Host {
        name: "compressible",
        what: "short of memory, no swap; zram, 3 : 1",
        change: |host| host.store = ZRAM,
        best: Best::Keep,
        ..PLAIN
    },
    Host {
        name: "random data",
        what: "short of memory, no swap; zram, 1 : 1",
        change: |host| host.store = Store::Zram { ratio: 1.0, us: 20.0 },
        ..PLAIN
    },
    Host {
        name: "slow disk swap",
        what: "swap on a disk of 8 ms; zram above it",
        store: Store::Disk { us: 8000.0 },
        change: |host| host.store = ZRAM,
        best: Best::Keep,
        ..PLAIN
    },
    Host {
        name: "fast disk swap",
        what: "swap on NVMe of 90 µs; zram above it, 1.5 : 1",
        store: Store::Disk { us: 90.0 },
        file_us: 90.0,
        change: |host| host.store = Store::Zram { ratio: 1.5, us: 8.0 },
        best: Best::TakeBack,
        ..PLAIN
    },
    Host { name: "well set", what: "zram in use; a setting without effect", store: ZRAM, ..PLAIN },
    Host {
        name: "any change worse",
        what: "zram in use; fewer pages of programs reclaimed",
        store: ZRAM,
        change: |host| host.own_share = 0.1,
        best: Best::TakeBack,
        ..PLAIN
    },
    Host {
        name: "too small",
        what: "zram in use; 3 % better compression",
        store: ZRAM,
        change: |host| host.store = Store::Zram { ratio: 3.1, us: 8.0 },
        ..PLAIN
    },
    Host {
        name: "bursts",
        what: "half a minute of work at a time; no effect",
        load: Load::Bursts,
        ..PLAIN
    },
    Host {
        name: "warming up",
        what: "programs read their data for the first time; no effect",
        load: Load::WarmsUp,
        ..PLAIN
    },
    Host {
        name: "nothing wrong",
        what: "half of RAM is free; zram that stays empty",
        programs: 1000.0,
        files: 900.0,
        change: |host| host.store = ZRAM,
        ..PLAIN
    },
    Host {
        name: "load that ends",
        what: "three quarters of the work end meanwhile; no effect",
        load: Load::Ends,
        ..PLAIN
    },
];

const THREADS: i32 = 2;
/// Microseconds of CPU time between two accesses to pages that were not used for a while.
const WORK_US: f64 = 50.0;
/// Length of a step of the model.
const STEP: f64 = 0.5;
const TIMES: Times = Times { watch: Duration::from_secs(45), settle: Duration::from_secs(20) };
/// Seconds that carrying out the change takes.
const APPLY: f64 = 5.0;

impl Host {
    /// Shares of touched pages of programs and of files that are not in RAM.
    fn misses(&self) -> [f64; 2] {
        let short = (self.programs + self.files - self.ram).max(0.0);
        let (own, per_page) = match self.store {
            Store::None => (0.0, 0.0),
            Store::Zram { ratio, .. } => (self.own_share, 1.0 - 1.0 / ratio),
            Store::Disk { .. } => (self.own_share, 1.0),
        };
        let reclaimed = short / (own * per_page + 1.0 - own);
        // the least used pages are reclaimed first
        let misses = |share: f64, of: f64| (share * reclaimed / of).min(1.0).powi(2);
        [misses(own, self.programs), misses(1.0 - own, self.files)]
    }

    /// Microseconds of waiting per touched page; half of the touched pages belong to files.
    fn wait_us(&self) -> f64 {
        let [own, files] = self.misses();
        let us = match self.store {
            Store::None => 0.0,
            Store::Zram { us, .. } | Store::Disk { us } => us,
        };
        f64::midpoint(own * us, files * self.file_us)
    }

    /// The best answer according to the model, with a steady load.
    fn best_answer(&self) -> Best {
        let mut changed = *self;
        (self.change)(&mut changed);
        match (changed.wait_us() + 0.1) / (self.wait_us() + 0.1) {
            ratio if ratio < 1.0 / 1.1 => Best::Keep,
            ratio if ratio > 1.1 => Best::TakeBack,
            _ => Best::Either,
        }
    }
}

/// A host while it runs.
struct Running {
    host: Host,
    rng: fastrand::Rng,
    seconds: f64,
    changed_at: Option<f64>,
    /// Logarithms of the factors by which load and stores now differ from their averages.
    noise: [f64; 2],
    /// Start of the bursts in each minute.
    phase: f64,
    /// Counters with fractions: PSI some, PSI full, refaults of own and of file pages, user time,
    /// requests, and waiting for disks.
    counts: [f64; 7],
}

impl Running {
    fn new(host: Host, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let phase = rng.f64() * 60.0;
        let (seconds, changed_at, noise, counts) = (0.0, None, [0.0; 2], [0.0; 7]);
        Self { host, rng, seconds, changed_at, noise, phase, counts }
    }

    fn change(&mut self) {
        (self.host.change)(&mut self.host);
        self.run_for(APPLY);
        self.changed_at = Some(self.seconds);
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hundred")]
    fn run_for(&mut self, seconds: f64) {
        let steps = (seconds / STEP).round().max(1.0);
        for _ in 0..steps as u32 {
            self.step(seconds / steps);
        }
    }

    fn step(&mut self, seconds: f64) {
        for noise in &mut self.noise {
            let bell = (0..6).map(|_| self.rng.f64()).sum::<f64>() - 3.0;
            *noise = 0.8 * *noise + 0.16 * bell;
        }
        let [load, store] = self.noise.map(f64::exp);
        let mut wait = self.host.wait_us() * store;
        let mut duty: f64 = match self.host.load {
            Load::Steady | Load::WarmsUp => 0.8,
            Load::Bursts if (self.seconds + self.phase) % 60.0 < 30.0 => 0.9,
            Load::Bursts => 0.03,
            Load::Ends if self.changed_at.is_some_and(|at| self.seconds > at + 5.0) => 0.2,
            Load::Ends => 0.8,
        };
        // waiting for pages that are read for the first time is waiting for a disk, not for memory
        let mut first = 0.0;
        if self.host.load == Load::WarmsUp {
            first = 400.0 * (-self.seconds / 40.0).exp() * store;
        }
        // in the first seconds after a change, pages move to their new places
        if self.changed_at.is_some_and(|at| self.seconds < at + 8.0) {
            wait += 60.0;
        }
        duty = (duty * load).min(1.0);
        let all = WORK_US + wait + first;
        let (waiting, on_disk) = (wait / all * duty, (wait + first) / all * duty);
        let touched = f64::from(THREADS) * duty * 1e6 / all * seconds;
        let some = |share: f64| (1.0 - (1.0 - share).powi(THREADS)) * 1e6 * seconds;
        let [own, files] = self.host.misses();
        let grown = [
            some(waiting),
            waiting.powi(THREADS) * 1e6 * seconds,
            touched / 2.0 * own,
            touched / 2.0 * files,
            touched * WORK_US,
            touched,
            some(on_disk),
        ];
        self.counts.iter_mut().zip(grown).for_each(|(count, grown)| *count += grown);
        self.seconds += seconds;
    }
}

impl Machine for Running {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counters")]
    fn counters(&mut self) -> Counters {
        let [some, full, own, files, user, touched, io] =
            self.counts.map(|count| Some(count as u64));
        Counters {
            some_us: some,
            full_us: full,
            io_us: io,
            refaults_anon: own,
            refaults_file: files,
            swapped_in: own,
            swapped_out: own,
            user_us: user,
            kills: Some(3),
            counted: touched,
        }
    }

    fn now(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    fn pass(&mut self, time: Duration) -> anyhow::Result<()> {
        self.run_for(time.as_secs_f64());
        Ok(())
    }

    fn measure(&mut self) -> anyhow::Result<Option<f64>> {
        Ok(None)
    }
}

/// What `tune` decides about a host; the code is the same as for a live machine.
fn tune_host(host: Host, seed: u64, named: Option<&Named>) -> PeriodsVerdict {
    let mut machine = Running::new(host, seed);
    let before = watch_before(&mut machine, TIMES).unwrap();
    machine.change();
    let mut brake = Brake::new(&mut machine, &before);
    let after = watch_after(&mut machine, TIMES, &mut brake).unwrap();
    assert_eq!(after.braked, None, "{} {seed}", host.name);
    judge(&before, &after.slices, TIMES, named)
}

fn requests() -> Named {
    Named { name: "requests".to_owned(), unit: "1/s".to_owned(), higher_is_better: true }
}

/// Whether a decision is right: a change that is not better must not be kept.
fn is_right(best: Best, found: Difference) -> bool {
    match best {
        Best::Keep => found == Difference::Better,
        Best::TakeBack => found != Difference::Better,
        Best::Either => found == Difference::NotShown,
    }
}

fn is_wrong(best: Best, found: Difference) -> bool {
    found != Difference::NotShown && !is_right(best, found)
}

#[test]
fn the_best_answers_are_those_of_the_model() {
    for host in HOSTS {
        assert_eq!(host.best_answer(), host.best, "{}: {:?}", host.name, host.misses());
    }
}

#[test]
fn each_host_is_tuned_rightly_or_no_difference_is_shown() {
    for host in HOSTS {
        for seed in SEEDS.take(3) {
            for named in [None, Some(&requests())] {
                let found = tune_host(host, seed, named);
                let is_wrong = is_wrong(host.best, found.difference);
                assert!(!is_wrong, "{} {seed}: {found:#?}", host.name);
                let has_gain = host.best == Best::Keep && named.is_none();
                assert!(!has_gain || found.difference == Difference::Better, "{found:#?}");
            }
        }
    }
}

/// Other seeds than those with which the thresholds were chosen (1 to 200).
const SEEDS: std::ops::Range<u64> = 1001..1201;

/// How many seeds lead to the right answer, to "no difference" although there is one, and to a
/// wrong answer.
fn count_answers(host: Host, named: Option<&Named>) -> [usize; 3] {
    let all: Vec<Difference> = SEEDS.map(|seed| tune_host(host, seed, named).difference).collect();
    let right = all.iter().filter(|found| is_right(host.best, **found)).count();
    let wrong = all.iter().filter(|found| is_wrong(host.best, **found)).count();
    [right, all.len() - right - wrong, wrong]
}

/// The table of docs/tune.md. It shows that "no difference" is not the answer to everything, and
/// that the answers do not depend on chance.
fn table() -> String {
    let mut text = String::from(
        "| host | what it is; the change | best answer | seeds 1001, 1002, 1003 | of 200 seeds: right, not shown, wrong | the same with a counter of requests |\n\
         |---|---|---|---|---|---|\n",
    );
    let word = |found: Difference| match found {
        Difference::Better => "kept",
        Difference::Worse => "worse",
        Difference::NotShown => "not shown",
    };
    for host in HOSTS {
        let best = match host.best {
            Best::Keep => "keep",
            Best::TakeBack => "take back",
            Best::Either => "no difference",
        };
        let three: Vec<&str> =
            SEEDS.take(3).map(|seed| word(tune_host(host, seed, None).difference)).collect();
        let (own, counter) = (count_answers(host, None), count_answers(host, Some(&requests())));
        for [right, not_shown, wrong] in [own, counter] {
            let name = host.name;
            assert!(wrong * 50 <= right + not_shown + wrong, "{name}: {wrong} wrong");
            assert!(right >= 2 * not_shown, "{name}: {right} right, {not_shown} not shown");
        }
        let [own, counter] =
            [own, counter].map(|counts| counts.map(|it| it.to_string()).join(", "));
        let (name, what, three) = (host.name, host.what, three.join(", "));
        writeln!(text, "| {name} | {what} | {best} | {three} | {own} | {counter} |").unwrap();
    }
    text
}

/// With `BLESS=1`, this test writes the table.
#[test]
#[expect(clippy::disallowed_methods, reason = "a document of this repository")]
fn the_table_of_the_document_is_what_the_model_gives() {
    const MARKS: [&str; 2] =
        ["<!-- by hand: a test of tune::watch::planted writes it -->\n", "<!-- end -->"];
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tune.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (start, rest) = document.split_once(MARKS[0]).expect("the first mark");
    let (found, end) = rest.split_once(MARKS[1]).expect("the second mark");
    let table = table();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, [start, MARKS[0], &table, MARKS[1], end].concat()).unwrap();
    } else {
        assert_eq!(found, table, "BLESS=1 writes it");
    }
}

#[test]
fn a_brake_takes_the_change_back_at_once() {
    let slice = |full_us: u64, kills: u64| {
        let at = |full_us, kills| Counters {
            full_us: Some(full_us),
            kills: Some(kills),
            ..Counters::default()
        };
        Slice { seconds: 5.0, from: at(0, 3), to: at(full_us, kills), measured: None }
    };
    let machine = || Running::new(HOSTS[0], 1);
    let calm = [slice(0, 3); 9];
    let mut brake = Brake::new(&mut machine(), &calm);
    assert_eq!(
        brake.find_reason_to_stop(slice(1_800_000, 3)),
        None,
        "1.8 of the first 5 s do not decide"
    );
    assert_eq!(
        brake.find_reason_to_stop(slice(0, 5)).unwrap(),
        "the kernel killed 2 processes for lack of memory"
    );
    let mut brake = Brake::new(&mut machine(), &calm);
    let stuck: Vec<Option<String>> =
        (0..4).map(|_| brake.find_reason_to_stop(slice(4_000_000, 3))).collect();
    assert_eq!(stuck[..3], [None, None, None]);
    assert_eq!(stuck[3].as_deref(), Some("all tasks waited for memory for 16 s of the last 20 s"));
    let usual = [slice(4_000_000, 3); 9];
    let mut brake = Brake::new(&mut machine(), &usual);
    assert!(
        (0..9).all(|_| brake.find_reason_to_stop(slice(4_500_000, 3)).is_none()),
        "it was like this before"
    );
}
