// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares pools with other allocators: runs the other examples in rounds and prints tables of
//! ratios.
//!
//!     compare [rounds=9] [mib=1024] [lookups=5000000] [bursts=20] [burst-mib=64] [pairs=5000000]
//!             [only=pairs|cache|dictionary]
//!
//! In each round every contestant runs once, in a different order each time, so that other load
//! affects all of them alike; ratios compare runs of the same round. They compare CPU time, which
//! depends less on other load than wall time. The interval is that of the median by order
//! statistics, with a confidence of at least 95 % from 6 rounds on. Allocators that are not
//! installed are named and left out (Debian: libjemalloc2, libmimalloc2.0; or a path in `JEMALLOC`
//! or `MIMALLOC`).

#![expect(clippy::disallowed_methods, reason = "starts the other examples")]

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// An allocator, and how a program is made to use it.
struct Contestant {
    name: &'static str,
    arguments: &'static [&'static str],
    environment: Vec<(&'static str, String)>,
}

impl Contestant {
    fn all() -> Vec<Self> {
        let plain = |name, arguments| Self { name, arguments, environment: Vec::new() };
        let mut all = vec![
            plain("hugepool", &["store=hugepool"] as &[_]),
            plain("glibc, 4 KiB pages", &["store=malloc", "thp=never"]),
        ];
        let huge = [
            ("jemalloc, thp:always", "JEMALLOC", "libjemalloc.so.2", ("MALLOC_CONF", "thp:always")),
            (
                "mimalloc, large pages",
                "MIMALLOC",
                "libmimalloc.so.2",
                ("MIMALLOC_LARGE_OS_PAGES", "1"),
            ),
        ];
        for (name, variable, file, setting) in huge {
            let Some(path) = find(variable, file) else {
                println!("{name}: {file} is not installed, left out");
                continue;
            };
            let preload = ("LD_PRELOAD", path.display().to_string());
            let environment = vec![preload, (setting.0, setting.1.to_owned())];
            all.push(Self { name, arguments: &["store=malloc"], environment });
        }
        let tuned = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1".to_owned());
        let name = "glibc, hugetlb=1";
        all.push(Self { name, arguments: &["store=malloc"], environment: vec![tuned] });
        all
    }
}

fn find(variable: &str, file: &str) -> Option<PathBuf> {
    if let Some(path) = env::var_os(variable) {
        return Some(path.into());
    }
    let folders =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    folders.iter().map(|folder| Path::new(folder).join(file)).find(|path| path.exists())
}

/// The results of one run.
#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    ns: f64,
    resident_per_live: f64,
    coverage: f64,
}

fn run(program: &Path, contestant: &Contestant, arguments: &[String]) -> Outcome<Figures> {
    let mut command = Command::new(program);
    command.args(contestant.arguments).args(arguments);
    command.envs(contestant.environment.iter().map(|(key, value)| (key, value)));
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("result "));
    let Some(line) = line.filter(|_| output.status.success()) else {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}, {}: {errors}", program.display(), contestant.name).into());
    };
    let mut figures = Figures::default();
    for (key, value) in line.split(' ').filter_map(|word| word.split_once('=')) {
        match key {
            "ns" => figures.ns = value.parse()?,
            "resident_per_live" => figures.resident_per_live = value.parse()?,
            "coverage" => figures.coverage = value.parse()?,
            _ => {}
        }
    }
    Ok(figures)
}

/// The results by contestant and round.
fn rounds(program: &str, rounds: usize, arguments: &[String]) -> Outcome<Vec<Vec<Figures>>> {
    let program = env::current_exe()?.with_file_name(program);
    let contestants = Contestant::all();
    let mut runs = vec![Vec::new(); contestants.len()];
    for round in 0..rounds {
        for step in 0..contestants.len() {
            // Even rounds use the reverse order.
            let at = (round + if round % 2 == 0 { step } else { contestants.len() - step })
                % contestants.len();
            runs[at].push(run(&program, &contestants[at], arguments)?);
        }
        eprintln!("{}: round {} of {rounds}", program.display(), round + 1);
    }
    Ok(runs)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// The number of smallest and of largest values that the interval of the median leaves out.
fn left_out(count: usize) -> usize {
    let mut probability = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut tail = probability;
    let mut out = 0;
    while tail + probability * (count - out) as f64 / (out + 1) as f64 <= 0.025 {
        probability *= (count - out) as f64 / (out + 1) as f64;
        tail += probability;
        out += 1;
    }
    out
}

fn print(title: &str, runs: &[Vec<Figures>]) {
    println!("\n{title}\n");
    println!("| allocator | ns of CPU | hugepool's time / its time | resident / live | coverage |");
    println!("|---|---|---|---|---|");
    for (contestant, its) in Contestant::all().iter().zip(runs) {
        let of = |value: fn(&Figures) -> f64| median(&sorted(its.iter().map(value)));
        let ratios = sorted(runs[0].iter().zip(its).map(|(ours, its)| ours.ns / its.ns));
        let out = left_out(ratios.len());
        let (low, high) = (ratios[out], ratios[ratios.len() - 1 - out]);
        let ratio = format!("{:.3} ({low:.3} to {high:.3})", median(&ratios));
        println!(
            "| {} | {:.1} | {ratio} | {:.2} | {:.1} % |",
            contestant.name,
            of(|run| run.ns),
            of(|run| run.resident_per_live),
            of(|run| run.coverage) * 100.0,
        );
    }
}

fn argument(name: &str) -> Option<String> {
    env::args().skip(1).find_map(|text| {
        let (key, value) = text.split_once('=')?;
        (key == name).then(|| value.to_owned())
    })
}

fn option(name: &str, usual: usize) -> Outcome<usize> {
    Ok(argument(name).map_or(Ok(usual), |value| value.parse())?)
}

fn main() -> Outcome<()> {
    let count = option("rounds", 9)?.max(1);
    let mib = option("mib", 1024)?;
    let lookups = option("lookups", 5_000_000)?;
    let bursts = option("bursts", 20)?;
    let burst = option("burst-mib", 64)?;
    let pairs = option("pairs", 5_000_000)?;
    let only = argument("only").unwrap_or_default();
    let wants = |name: &str| only.is_empty() || only == name;
    let load = std::fs::read_to_string("/proc/loadavg")?;
    println!("{count} rounds; load at the start: {}", load.trim());
    if wants("pairs") {
        let arguments = [format!("pairs={pairs}"), "held=0".to_owned()];
        print("A block allocated and released at once", &rounds("pairs", count, &arguments)?);
        let arguments = [format!("pairs={pairs}"), "held=100000".to_owned()];
        print("One of 100,000 blocks replaced", &rounds("pairs", count, &arguments)?);
    }
    for retain in [4, 128].into_iter().filter(|_| wants("cache")) {
        let retained = format!("retain-mib={retain}");
        let arguments = [format!("bursts={bursts}"), format!("burst-mib={burst}"), retained];
        let title = format!("A cache after bursts, {retain} MiB retained, for an operation");
        print(&title, &rounds("cache", count, &arguments)?);
    }
    if wants("dictionary") {
        let arguments = [format!("mib={mib}"), format!("lookups={lookups}")];
        let title = format!("A lookup in a dictionary of {mib} MiB");
        print(&title, &rounds("dictionary", count, &arguments)?);
    }
    let load = std::fs::read_to_string("/proc/loadavg")?;
    println!("\nload at the end: {}", load.trim());
    Ok(())
}
