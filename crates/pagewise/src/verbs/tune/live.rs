// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine on which this program runs, as a [`Machine`] that can be watched, with the user's
//! own measure.
//!
//! The user's command runs in a shell, in a process group of its own, which is killed if somebody
//! stops the program or if it takes too long.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pagewise_model::{Micros, Reading, Refusal};
use pagewise_observe::{HostGauges, HostRoot, UserFile, counters, find_program, psi};
use pagewise_terminal::interrupt::{Interrupted, Stop};
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, Signal, kill_process_group};

use super::watch::{Counters, FEWEST_RUNS, Machine, Named};
use crate::cli::CounterSource;
use crate::verbs::command_output::{MOST_OUTPUT, read_output};
use crate::verbs::thp::counter::read_counter;

/// Time limit for one run of the user's command.
const LONGEST_RUN: Duration = Duration::from_secs(600);
const NAP: Duration = Duration::from_millis(20);

impl CounterSource {
    fn read(&self) -> Option<u64> {
        match self {
            Self::Command(command) => read_counter(command),
            Self::File { path, key } => {
                let bytes = UserFile::open(Path::new(path), MOST_OUTPUT).ok()?.into_bytes().ok()?;
                number_after_key(&String::from_utf8_lossy(&bytes), key)
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Command(command) => format!("`{command}`"),
            Self::File { path, key } => format!("{key} of {path}"),
        }
    }
}

/// The number after a key at the start of a line: `key 7`, `key: 7` or `key=7`.
fn number_after_key(text: &str, key: &str) -> Option<u64> {
    let after = |line: &str| {
        let rest = line.trim_start().strip_prefix(key)?;
        let value = rest.trim_start_matches([' ', '\t', ':', '=']);
        (value.len() < rest.len()).then(|| value.to_owned())
    };
    let value = text.lines().find_map(after)?;
    value.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// The live machine.
pub(super) struct Live<'a> {
    host: HostRoot,
    stop: &'a Stop,
    begun: Instant,
    measure: Option<&'a str>,
    counter: Option<&'a CounterSource>,
    /// Whether the measured value is the number that the command prints (true) or the time that it
    /// takes (false), as determined in its first run.
    prints: Option<bool>,
    /// How long the first run of the command took.
    first_run: Duration,
}

impl<'a> Live<'a> {
    pub(super) fn new(
        stop: &'a Stop,
        measure: Option<&'a str>,
        counter: Option<&'a CounterSource>,
    ) -> anyhow::Result<Self> {
        let (host, begun) = (HostRoot::live()?, Instant::now());
        let (prints, first_run) = (None, Duration::ZERO);
        Ok(Self { host, stop, begun, measure, counter, prints, first_run })
    }

    /// Tries the user's measure once, and describes it.
    ///
    /// # Errors
    /// If the measure gives no value.
    pub(super) fn try_measure(&mut self, lower_is_better: bool) -> anyhow::Result<Option<Named>> {
        if let Some(counter) = self.counter {
            if counter.read().is_none() {
                let what = format!("--counter: {} gives no number", counter.name());
                let next = "try it in a shell; as: --counter /proc/vmstat:pgfault, or a command that prints a number \
                            within a second";
                bail!(Refusal::with_advice(what, next));
            }
            let (name, unit) = (format!("counter {}", counter.name()), "1/s".to_owned());
            return Ok(Some(Named { name, unit, higher_is_better: !lower_is_better }));
        }
        let Some(command) = self.measure else { return Ok(None) };
        let started = Instant::now();
        self.measure()?;
        self.first_run = started.elapsed();
        let prints = self.prints == Some(true);
        let name = if prints {
            format!("number printed by `{command}`")
        } else {
            format!("time of `{command}`")
        };
        let unit = if prints { "" } else { "s" }.to_owned();
        Ok(Some(Named { name, unit, higher_is_better: prints && !lower_is_better }))
    }

    /// The longest time that a period may take: `watch`, or longer if runs of the command are long.
    pub(super) fn longest_period(&self, watch: Duration) -> Duration {
        watch + 2 * self.first_run * u32::try_from(FEWEST_RUNS).unwrap_or(u32::MAX)
    }

    fn check_stop(&self) -> anyhow::Result<()> {
        if self.stop.is_asked() {
            bail!(Interrupted { after: self.begun.elapsed() });
        }
        Ok(())
    }

    /// Waits until the command ends, and kills it if somebody stops the program.
    fn wait(&self, child: &mut Child, command: &str) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                if !status.success() {
                    bail!("--measure {command}: it ended with {status}");
                }
                return Ok(());
            }
            let is_late = started.elapsed() > LONGEST_RUN;
            if is_late || self.stop.is_asked() {
                let group = Pid::from_child(child);
                let _ = kill_process_group(group, Signal::KILL);
                child.wait()?;
                self.check_stop()?;
                bail!("--measure {command}: it ran for more than {} s", LONGEST_RUN.as_secs());
            }
            std::thread::sleep(NAP);
        }
    }
}

impl Machine for Live<'_> {
    fn counters(&mut self) -> Counters {
        let vmstat = counters(&self.host, "proc/vmstat");
        let psi = psi(&self.host);
        let count = |name: &str| vmstat.get(name).get();
        let micros = |time: &Reading<Micros>| time.get().map(Micros::get);
        let per_tick = 1_000_000 / clock_ticks_per_second().max(1);
        let user = HostGauges(&self.host).processor_ticks().map(|ticks| ticks.user * per_tick);
        Counters {
            some_us: micros(&psi.memory.some.total_us),
            full_us: micros(&psi.memory.full.total_us),
            io_us: micros(&psi.io.some.total_us),
            refaults_anon: count("workingset_refault_anon"),
            refaults_file: count("workingset_refault_file").or_else(|| count("workingset_refault")),
            swapped_in: count("pswpin"),
            swapped_out: count("pswpout"),
            user_us: user,
            kills: count("oom_kill"),
            counted: self.counter.and_then(CounterSource::read),
        }
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn pass(&mut self, time: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        while let Some(left) = time.checked_sub(started.elapsed()) {
            self.check_stop()?;
            std::thread::sleep(left.min(NAP));
        }
        self.check_stop()
    }

    fn measure(&mut self) -> anyhow::Result<Option<f64>> {
        let Some(command) = self.measure else { return Ok(None) };
        let started = Instant::now();
        let mut child = start(command).with_context(|| format!("--measure {command}"))?;
        let reader = read_output(child.stdout.take());
        self.wait(&mut child, command)?;
        let seconds = started.elapsed().as_secs_f64();
        let text = reader.join().unwrap_or_default();
        let number = last_number(&String::from_utf8_lossy(&text));
        match (*self.prints.get_or_insert(number.is_some()), number) {
            (true, None) => bail!("--measure {command}: it printed a number before, and none now"),
            (true, number) => Ok(number),
            (false, _) => Ok(Some(seconds)),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the user's own command")]
fn start(command: &str) -> std::io::Result<Child> {
    let mut shell = Command::new(find_program("sh".as_ref()).map_err(io::Error::other)?);
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped());
    shell.process_group(0).spawn()
}

/// The number that is the last word of the last line that is not empty.
fn last_number(text: &str) -> Option<f64> {
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    let number: f64 = line.split_whitespace().next_back()?.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_a_command_or_a_key_of_a_file() {
        let file = |path: &str, key: &str| CounterSource::File {
            path: path.to_owned(),
            key: key.to_owned(),
        };
        let parse = |text: &str| text.parse::<CounterSource>();
        assert_eq!(parse("/proc/vmstat:pgfault"), Ok(file("/proc/vmstat", "pgfault")));
        assert_eq!(parse("/a:b:c"), Ok(file("/a:b", "c")));
        for command in ["redis-cli info stats", "/usr/bin/served", "/usr/bin/a b:c", "echo /a:b"] {
            assert_eq!(parse(command), Ok(CounterSource::Command(command.to_owned())));
        }
        assert!(parse(" ").is_err());
    }

    #[test]
    fn the_number_of_a_key_follows_it() {
        let text = "low 3\nlower 4\nhits: 12,5\nx=9\nnone\n";
        assert_eq!(number_after_key(text, "lower"), Some(4));
        assert_eq!(number_after_key(text, "low"), Some(3));
        assert_eq!(number_after_key(text, "hits"), Some(12));
        assert_eq!(number_after_key(text, "x"), Some(9));
        assert_eq!((number_after_key(text, "none"), number_after_key(text, "gone")), (None, None));
    }

    #[test]
    fn a_command_is_measured_by_its_number_or_its_time() {
        let stop = Stop::never();
        let run = |command: &str| Live::new(&stop, Some(command), None).unwrap().measure();
        assert_eq!(run("echo 1; echo rate 12.5; echo").unwrap(), Some(12.5));
        let seconds = run("echo done").unwrap().unwrap();
        assert!(seconds > 0.0, "{seconds}");
        assert!(run("exit 3").unwrap_err().to_string().contains("exit status: 3"));
        let named = |command: &str, lower: bool| {
            let mut live = Live::new(&stop, Some(command), None).unwrap();
            live.try_measure(lower).unwrap().unwrap()
        };
        assert!(named("echo 5", false).higher_is_better && !named("echo 5", true).higher_is_better);
        assert!(!named("true", false).higher_is_better, "less time is better");
        assert!(Live::new(&stop, None, None).unwrap().try_measure(false).unwrap().is_none());
    }

    #[test]
    fn a_counter_without_a_number_is_refused_before_anything_changes() {
        let stop = Stop::never();
        let counter = "/proc/vmstat:no_such_counter".parse().unwrap();
        let mut live = Live::new(&stop, None, Some(&counter)).unwrap();
        let error = live.try_measure(false).unwrap_err().to_string();
        assert!(error.contains("no_such_counter of /proc/vmstat gives no number"), "{error}");
        let faults = "/proc/vmstat:pgfault".parse().unwrap();
        let mut live = Live::new(&stop, None, Some(&faults)).unwrap();
        assert_eq!(
            live.try_measure(false).unwrap().unwrap().name,
            "counter pgfault of /proc/vmstat"
        );
        assert!(live.counters().counted.is_some_and(|count| count > 0));
    }
}
