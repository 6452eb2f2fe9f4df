// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `redis`: fills a real redis-server and runs redis-benchmark against it, which measures requests
//! per second and latencies.
//!
//! The values are distinct texts. GET runs first and reads them. SET overwrites them, and
//! redis-benchmark writes the same value everywhere, so the server's memory compresses better
//! afterwards.
//!
//! The only time limit is `seconds`, after which there is no result at all: a rate that was cut
//! short would not be comparable.

#![expect(
    clippy::disallowed_methods,
    reason = "a server and its clients are started, end with their parent, and are marked for the OOM killer"
)]

mod csv;
mod fill;
mod oom;
mod server;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use oom::prefer_for_oom;
use pagewise_guest::kill_with_parent;
use pagewise_guest::program::{find, last_lines};
use pagewise_model::Course;
use server::{Server, TICK};

use super::error::{Error, ErrorContext};
use super::progress::Progress;
use super::{Redis, WorkloadSummary, check};

const BENCHMARK: &str = "redis-benchmark";
/// Size of a huge page in bytes; if the kernel's differs, statistics of the nearest size are used.
const HUGE_PAGE: u64 = 2 << 20;

/// Runs the workload.
pub(super) fn run(settings: &Redis, progress: &mut Progress<'_>) -> Result<WorkloadSummary, Error> {
    check::check_redis(settings)?;
    let benchmark = find(BENCHMARK, "redis-tools").map_err(Error::Program)?;
    let end = Instant::now() + Duration::from_secs_f64(settings.seconds);
    let mut server = Server::start(settings.thp, end)?;
    fill_server(&mut server, settings, end, progress)?;
    let seed = supports_seed(&benchmark).then_some(settings.seed);
    let mut values = BTreeMap::new();
    for (number, test) in ["GET", "SET"].into_iter().enumerate() {
        progress(test, number as f64 / 2.0);
        let mut command = Command::new(&benchmark);
        command.args(arguments(settings, test, seed)).arg("-s").arg(server.path());
        let csv = run_for_output(command, &mut server, end)?;
        let measured = csv::parse_test(&csv, test).ok_or_else(|| {
            Error::Ended(format!("{BENCHMARK}: expected a row of {test}, found {csv:?}"))
        })?;
        let mut say = |what: &str, value| {
            values.insert(format!("{}-{what}", test.to_lowercase()), value);
        };
        say("per-second", measured.per_second);
        measured.p50_seconds.into_iter().for_each(|seconds| say("p50", seconds));
        measured.p99_seconds.into_iter().for_each(|seconds| say("p99", seconds));
    }
    values.insert("operations".to_owned(), 2.0 * settings.requests as f64);
    let covered = if settings.thp { server.huge_page_share(HUGE_PAGE) } else { None };
    values.extend(covered.map(|share| ("coverage".to_owned(), share)));
    Ok(WorkloadSummary { workload: "redis".to_owned(), values, course: Course::default() })
}

fn fill_server(
    server: &mut Server,
    settings: &Redis,
    end: Instant,
    progress: &mut Progress<'_>,
) -> Result<(), Error> {
    let fill = |progress: &mut Progress<'_>| {
        let mut stream = server.connect()?;
        let left = end.saturating_duration_since(Instant::now()).max(TICK);
        stream.set_read_timeout(Some(left))?;
        stream.set_write_timeout(Some(left))?;
        fill::fill(&mut stream, settings, progress)
    };
    fill(progress).about(|| "filling redis".to_owned()).map_err(|error| server.find_cause_or(error))
}

fn arguments(settings: &Redis, test: &str, seed: Option<u64>) -> Vec<String> {
    let pairs = [
        ("-t", test.to_lowercase()),
        ("-r", settings.records.to_string()),
        ("-n", settings.requests.to_string()),
        ("-c", settings.clients.to_string()),
        ("-P", settings.pipeline.to_string()),
        ("-d", settings.value_bytes.to_string()),
    ];
    let seed = seed.map(|seed| ("--seed", seed.to_string()));
    let pairs = pairs.into_iter().chain(seed);
    pairs.flat_map(|(name, value)| [name.to_owned(), value]).chain(["--csv".to_owned()]).collect()
}

/// Whether this version of redis-benchmark has the option --seed for drawing keys.
fn supports_seed(benchmark: &Path) -> bool {
    let mut command = Command::new(benchmark);
    kill_with_parent(&mut command);
    let help = command.arg("--help").stdin(Stdio::null()).output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--seed "))
}

/// Runs redis-benchmark and returns its output, if both it and the server survive.
fn run_for_output(
    mut command: Command,
    server: &mut Server,
    end: Instant,
) -> Result<String, Error> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    kill_with_parent(&mut command);
    let child = command.spawn().about(|| format!("starting {BENCHMARK}"))?;
    prefer_for_oom(child.id());
    let mut benchmark = KillOnDrop(child);
    let status = loop {
        if let Some(status) = benchmark.0.try_wait().about(|| BENCHMARK.to_owned())? {
            break status;
        }
        if let Some(why) = server.why_ended()? {
            return Err(why);
        }
        if Instant::now() >= end {
            return Err(Error::Ended(format!(
                "{BENCHMARK}: not done when its time was over: give it more seconds"
            )));
        }
        std::thread::sleep(TICK);
    };
    let (out, err) = benchmark.take_output();
    if status.success() {
        return Ok(out);
    }
    let output = last_lines(&format!("{out}\n{err}"), 2).join("; ");
    Err(server.find_cause_or(Error::Ended(format!("{BENCHMARK}: {output} ({status})"))))
}

/// A child process that is killed when this value is dropped.
#[derive(Debug)]
struct KillOnDrop(Child);

impl KillOnDrop {
    /// The complete output of the child, which fits into a pipe; otherwise the child would have
    /// blocked.
    fn take_output(&mut self) -> (String, String) {
        fn read_all(stream: Option<impl Read>) -> String {
            let mut text = Vec::new();
            // A read error counts as the end of the output.
            let _ = stream.map(|mut stream| stream.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        }
        (read_all(self.0.stdout.take()), read_all(self.0.stderr.take()))
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_benchmark_hears_all_that_is_wanted() {
        let message = arguments(&Redis::default(), "GET", Some(7)).join(" ");
        assert_eq!(message, "-t get -r 200000 -n 100000 -c 8 -P 1 -d 1024 --seed 7 --csv");
    }
}
