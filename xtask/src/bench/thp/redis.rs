// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A redis-server with many small keys, which `redis-benchmark` queries over one connection: in
//! batches of a thousand, or one request at a time, as most clients do. In a batch, a request costs
//! least, because the server makes one system call for many requests; so memory accesses are a
//! larger share of its time.
//!
//! The server listens on a socket in a temporary folder, to which it also saves. The folder is
//! removed and the server ends when the value is dropped, and also if this process is killed.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::bench::way_back::WayBack;
use crate::run;

const VALUE: usize = 100;
/// Maximum wait for the server to start or to save.
const PATIENCE: Duration = Duration::from_secs(60);
/// In its arguments, redis-benchmark replaces this by a random key of [`FILL`] for each request.
const KEY: &str = "key:__rand_int__";
/// Lua script that creates keys with the names that redis-benchmark generates.
const FILL: &str = "for key = 0, ARGV[1] - 1 do \
                    redis.call('SET', string.format('key:%012d', key), string.rep('x', ARGV[2])) end";

/// How `redis-benchmark` sends its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// A thousand requests are sent at a time.
    Batches,
    /// Each request is sent after the reply to the previous one.
    OneByOne,
}

impl Asked {
    /// The number of requests in one measurement, and the number of requests in a batch.
    const fn requests(self) -> (u32, u32) {
        match self {
            Self::Batches => (60_000, 1000),
            Self::OneByOne => (30_000, 1),
        }
    }
}

pub(super) struct Redis {
    child: Child,
    folder: PathBuf,
    keys: u64,
    _way_back: WayBack,
}

impl Redis {
    /// Starts a server and fills it with keys.
    pub(super) fn start(name: &str, keys: u64) -> Result<Self> {
        let folder = format!("pagewise-bench-redis-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let way_back = WayBack::new()?;
        way_back.run_at_end(&format!("rm -rf {}", folder.display()))?;
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        // The server ends with this process. It does not compress the saved file, because that
        // would only take time. Redis disables huge pages for itself unless an option says
        // otherwise.
        let options = "--port 0 --unixsocket socket --appendonly no --daemonize no --loglevel warning \
                       --rdbcompression no --disable-thp no --save";
        let mut server = run::program("setpriv");
        server.args(["--pdeathsig", "KILL", "redis-server"]).args(options.split(' ')).arg("");
        server
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = server.spawn();
        let child = child.context("setpriv redis-server (redis and util-linux are needed)")?;
        let redis = Self { child, folder, keys, _way_back: way_back };
        redis
            .wait_until("answers", || Ok(redis.ask(&["PING"]).is_ok_and(|said| said == "PONG")))?;
        redis.ask(&["EVAL", FILL, "0", &keys.to_string(), &VALUE.to_string()])?;
        Ok(redis)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends one request with redis-cli and returns the reply. If the reply is an error, it is in
    /// the returned error.
    fn ask(&self, words: &[&str]) -> Result<String> {
        let mut client = self.client("redis-cli");
        let output = client.arg("-e").args(words).output().context("redis-cli")?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        ensure!(output.status.success(), "redis: {said}");
        Ok(said)
    }

    fn client(&self, program: &str) -> Command {
        let mut client = run::program(program);
        client.arg("-s").arg(self.folder.join("socket"));
        client
    }

    /// Sends this many requests, each for a random key.
    fn benchmark(&self, (requests, at_a_time): (u32, u32), words: &[&str]) -> Result<()> {
        let mut client = self.client("redis-benchmark");
        client.args(["-q", "-c", "1", "-r", &self.keys.to_string()]);
        client.args(["-n", &requests.to_string(), "-P", &at_a_time.to_string()]).args(words);
        let said = run::output(&mut client)?;
        ensure!(said.contains("requests per second"), "redis-benchmark: {said}");
        Ok(())
    }

    /// Changes this number of random keys.
    pub(super) fn change_keys(&self, keys: u32) -> Result<()> {
        self.benchmark((keys, 1000), &["SET", KEY, &"y".repeat(VALUE)])
    }

    /// CPU time of the server for each GET, in seconds.
    pub(super) fn measure_gets(&self, how: Asked) -> Result<f64> {
        let before = self.processor_time()?;
        self.benchmark(how.requests(), &["GET", KEY])?;
        Ok((self.processor_time()? - before) / f64::from(how.requests().0))
    }

    /// Starts saving in the background: a forked child shares all memory with the server until it
    /// has written the file.
    pub(super) fn start_saving(&self) -> Result<()> {
        self.ask(&["BGSAVE"]).map(drop)
    }

    pub(super) fn wait_until_saved(&self) -> Result<()> {
        let children = format!("/proc/{0}/task/{0}/children", self.pid());
        self.wait_until("has saved", || Ok(fs::read_to_string(&children)?.trim().is_empty()))
    }

    fn wait_until(&self, what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
        let began = Instant::now();
        while !is_so()? {
            ensure!(began.elapsed() < PATIENCE, "{}: no redis {what}", self.folder.display());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Only the CPU time of the server's main thread counts, because that thread serves the
    /// requests.
    fn processor_time(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.pid()))?;
        let nanos: f64 = text.split(' ').next().context("schedstat")?.parse()?;
        Ok(nanos / 1e9)
    }

    /// A size in the server's smaps_rollup, in bytes.
    pub(super) fn size(&self, key: &str) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid()))?;
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let kib: f64 = line
            .and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok())
            .with_context(|| format!("smaps_rollup: no {key}"))?;
        Ok(kib * 1024.0)
    }

    /// The share of the server's anonymous memory that is in huge pages.
    pub(super) fn coverage(&self) -> Result<f64> {
        Ok(self.size("AnonHugePages")? / self.size("Anonymous")?)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
