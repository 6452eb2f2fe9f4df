// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends runs that make temporary changes (`bench`, `trial`, `lab run` on this host, `thp collapse`)
//! at random moments by SIGKILL or SIGABRT, then runs `undo`, and reports how often something was
//! left behind.
//!
//! Before and after each run, a list is made of everything that a run may change: zram devices,
//! swap areas, cgroups, every setting of the knob table that `pagewise report` reads, swap files,
//! and journals (in a temporary folder). Tests that run at the same time also make changes and undo
//! them, so only things that still exist two minutes after the last run count as left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::run;

/// A command to kill, and the maximum delay before the kill. A complete run takes longer than that,
/// so the kill may hit any part of the run.
struct Victim {
    verb: &'static str,
    arguments: Vec<String>,
    latest: Duration,
}

/// An experiment that uses both settings, all kinds of swap and zswap within seconds. On a kernel
/// without zswap, the third arm is refused.
const EXPERIMENT: &str = r#"about = "To be killed"
[workload]
kind = "swap"
data = "24M"
code = "4M"
[machine]
runner = "host"
limit = "32M"
[measure]
primary = "major-faults"
[[arm]]
name = "a"
swap = [{ zram = "37M", algorithm = "lz4" }]
set = { "vm.vfs_cache_pressure" = 101 }
[[arm]]
name = "b"
swap = [{ zram = "37M", algorithm = "lz4" }, { file = "12M" }]
set = { "vm.vfs_cache_pressure" = 102 }
[[arm]]
name = "c"
swap = [{ zswap = "lzo", percent = 15, accept = 80, shrinker = true }, { file = "12M" }]
"#;

/// Bytes of memory of this program that `thp collapse` collapses.
const SUBJECT: usize = 64 << 20;

fn list_victims(folder: &Path) -> Result<Vec<Victim>> {
    let experiment = folder.join("killed.toml");
    std::fs::write(&experiment, EXPERIMENT)?;
    let (experiment, own) = (experiment.display().to_string(), std::process::id().to_string());
    let victim = |verb, words: &str, latest| {
        let named = words.replace("EXPERIMENT", &experiment).replace("PID", &own);
        let arguments = named.split(' ').map(str::to_owned).collect();
        Victim { verb, arguments, latest: Duration::from_millis(latest) }
    };
    Ok(vec![
        victim(
            "trial",
            "trial --a vm.vfs_cache_pressure=101 --b vm.vfs_cache_pressure=102 --a \
             swap=zram:37M:lz4+file:9M --b swap=zram:37M:lzo --memory 24M --allow-shared-swap \
             --pairs 7 -- sleep 0.2",
            4_000,
        ),
        victim(
            "bench",
            "bench --quick --size 16M --mix text:80,random:20 --allow-shared-swap",
            14_000,
        ),
        victim("thp collapse", "thp collapse --pid PID --by-access 2s --watch", 4_000),
        victim("lab run", "lab run EXPERIMENT --preview --allow-shared-swap", 5_000),
    ])
}

/// How often each command was ended by a signal, and what was left behind.
#[derive(Debug, Default)]
struct Count {
    runs: usize,
    put_back: usize,
}

pub(super) fn main(kills: u16, aborts: u16, program: &Path, machine: &str) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("pagewise-kills-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let borrower = Borrower { program, folder: &folder };
    let watcher = Watcher::start(&borrower)?;
    let done = kill_all(kills, aborts, &borrower);
    watcher.end()?;
    let (counts, left) = done?;
    println!(
        "{machine}\n\n{kills} runs killed and {aborts} aborted, {} left something",
        left.len()
    );
    for ((verb, signal), count) in counts {
        println!(
            "- {verb}, {signal}: {} runs, {} loans put back by undo",
            count.runs, count.put_back
        );
    }
    left.iter().for_each(|line| println!("- {line}"));
    ensure!(left.is_empty(), "a promise is not kept");
    Ok(())
}

/// A shell that undoes all changes and removes the folder: at the end of the benchmark, or when
/// this process is killed.
struct Watcher(Child);

impl Watcher {
    /// The shell's script. A run holds the lock until it has ended, so `undo` is tried for a
    /// minute. If a change cannot be undone, its journal is kept. An aborted run starts an `undo`
    /// of its own, which may run later and create the folders of its locks again; so the folder is
    /// removed a second time.
    const UNDO: &str = r#"cat > /dev/null
n=0
until "$0" undo > /dev/null 2>&1; do [ $((n += 1)) -lt 60 ] || exit 1; sleep 1; done
until rm -rf "$1" 2> /dev/null && sleep 1 && ! [ -e "$1" ]; do [ $((n += 1)) -lt 120 ] || exit 2; done"#;

    /// Starts the shell in a session of its own, so that Ctrl-C does not reach it. Its standard
    /// input closes when this process ends.
    fn start(borrower: &Borrower<'_>) -> Result<Self> {
        let mut watcher = borrower.in_folder(Path::new("setsid"));
        watcher.args(["sh", "-c", Self::UNDO]).args([borrower.program, borrower.folder]);
        Ok(Self(watcher.stdin(Stdio::piped()).spawn().context("setsid, of util-linux")?))
    }

    fn end(mut self) -> Result<()> {
        drop(self.0.stdin.take());
        match self.0.wait()?.code() {
            Some(0) => Ok(()),
            Some(1) => bail!("`pagewise undo` failed for a minute"),
            other => bail!("the folder of the killed runs could not be removed ({other:?})"),
        }
    }
}

type Counts = BTreeMap<(&'static str, &'static str), Count>;

fn kill_all(kills: u16, aborts: u16, borrower: &Borrower<'_>) -> Result<(Counts, Vec<String>)> {
    let subject = vec![1_u8; SUBJECT];
    let victims = list_victims(borrower.folder)?;
    let first = borrower.state()?;
    println!("{} things are compared before and after each run", first.0.len());
    let (mut counts, mut suspects, mut left) = (Counts::new(), Vec::new(), Vec::new());
    let signals = (0..kills).map(|_| "KILL").chain((0..aborts).map(|_| "ABRT"));
    for (number, (signal, victim)) in signals.zip(victims.iter().cycle()).enumerate() {
        let before = borrower.state()?;
        let after = borrower.run_and_end(victim, signal)?;
        let undone = run::output(borrower.command().arg("undo"));
        let count = counts.entry((victim.verb, signal)).or_default();
        count.runs += 1;
        count.put_back += undone.as_ref().map_or(0, |undone| undone.matches(": put back").count());
        let verb = victim.verb;
        let run = format!("run {number}, {verb}, {signal} after {after:?}; undo said {undone:?}");
        let new = borrower.state()?.things_since(&before);
        // a test that runs at the same time may have changed a value and restored it in between
        let new = new.into_iter().filter(|thing| !first.0.contains(thing));
        suspects.extend(new.map(|thing| (thing, run.clone())));
        if undone.is_err() {
            left.push(run);
        }
    }
    left.extend(find_remaining(suspects, borrower)?);
    let gone = first.things_since(&borrower.state()?);
    left.extend(gone.into_iter().map(|thing| format!("not there any more: {thing}")));
    std::hint::black_box(subject);
    Ok((counts, left))
}

/// Returns the things of this list that still exist two minutes after the last run.
fn find_remaining(suspects: Vec<(String, String)>, borrower: &Borrower<'_>) -> Result<Vec<String>> {
    let mut there = suspects;
    for _ in 0..120 {
        if there.is_empty() {
            break;
        }
        let now = borrower.state()?;
        there.retain(|(thing, _)| now.0.contains(thing));
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(there.into_iter().map(|(thing, run)| format!("{thing}: {run}")).collect())
}

/// Everything on the machine that a run may change, with its current state: a line for each thing.
#[derive(Debug, PartialEq)]
struct State(BTreeSet<String>);

/// The program under test, with a folder for its journals, its locks and its files.
struct Borrower<'a> {
    program: &'a Path,
    folder: &'a Path,
}

impl Borrower<'_> {
    fn command(&self) -> Command {
        self.in_folder(self.program)
    }

    fn in_folder(&self, program: &Path) -> Command {
        let mut command = run::program(program);
        command.env("PAGEWISE_STATE", self.folder.join("state")).env("TMPDIR", self.folder);
        command.env("PAGEWISE_LOCK", self.folder.join("run"));
        command
    }

    /// Starts a run and ends it by a signal; returns the time after which the signal was sent.
    fn run_and_end(&self, victim: &Victim, signal: &str) -> Result<Duration> {
        let mut command = self.command();
        command.args(&victim.arguments).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let after = victim.latest.mul_f64(fastrand::f64());
        std::thread::sleep(after);
        if child.try_wait()?.is_none() {
            let pid = child.id().to_string();
            run::run_to_success(run::program("kill").args([&format!("-{signal}"), "--", &pid]))?;
        }
        child.wait()?;
        Ok(after)
    }

    /// The value of every setting that can be read, by its name and instance. Settings of cgroups
    /// are left out: other cgroups are created and removed, with their limits.
    fn settings(&self) -> Result<BTreeSet<String>> {
        let glance = ["--no-contents", "--interval", "0", "--smaps-budget", "0", "--json"];
        let mut command = run::program(self.program);
        let report: Value =
            serde_json::from_str(&run::output(command.arg("report").args(glance))?)?;
        let knobs = report["knobs"].as_array().context("report: no knobs")?;
        let mut settings = BTreeSet::new();
        for knob in knobs {
            let name = knob["knob"].as_str().context("report: a knob without a name")?;
            let is_of_cgroup = name.starts_with("cgroup.");
            if let Some(value) = knob["live"]["value"].as_str().filter(|_| !is_of_cgroup) {
                let instance = knob["instance"].as_str().unwrap_or_default();
                settings.insert(format!("{name} {instance} = {value}"));
            }
        }
        ensure!(settings.len() > 20, "report: only {} settings were read", settings.len());
        Ok(settings)
    }

    fn state(&self) -> Result<State> {
        let text = |path: &str| std::fs::read_to_string(path).context(path.to_owned());
        let mut all = self.settings()?;
        for name in names(Path::new("/sys/block"), "zram")? {
            // device numbers are reused, so the sequence number is listed, too; a device that
            // vanishes meanwhile is skipped
            if let Ok(diskseq) = text(&format!("/sys/block/{name}/diskseq")) {
                all.insert(format!("{name} (diskseq {})", diskseq.trim()));
            }
        }
        let groups = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
        let groups = groups.iter().find_map(|groups| names(Path::new(groups), "pagewise-").ok());
        all.extend(groups.context("no cgroups")?);
        // only the names of the swap areas are listed, because their used sizes change
        let swaps = text("/proc/swaps")?;
        all.extend(
            swaps.lines().filter_map(|line| Some(format!("swap on {}", line.split(' ').next()?))),
        );
        all.extend(names(self.folder, "pagewise-")?);
        let journals: PathBuf = self.folder.join("state");
        if journals.exists() {
            let all_names = names(&journals, "")?.into_iter();
            all.extend(
                all_names.filter(|name| name != "lock").map(|name| format!("journal {name}")),
            );
        }
        Ok(State(all))
    }
}

impl State {
    fn things_since(&self, before: &Self) -> Vec<String> {
        self.0.difference(&before.0).cloned().collect()
    }
}

/// Names of the entries of a folder that begin with `prefix`.
fn names(folder: &Path, prefix: &str) -> Result<BTreeSet<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: Result<BTreeSet<String>> = names.collect();
    Ok(names?.into_iter().filter(|name| name.starts_with(prefix)).collect())
}
