// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A redis-server of our own with many small keys, and one connection that asks it: in batches of a
//! thousand, the cheapest request there is, or one request at a time, as most clients do. In a batch the
//! server makes one call of the kernel for many requests, so that finding memory is more of its time.
//!
//! It listens on a socket in a folder of ours, where it also saves to; folder and server are gone with
//! this. Where we are killed the server ends with us, and the next run removes the folder.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::run;

const PREFIX: &str = "pagewise-bench-redis-";
const VALUE: usize = 100;
const BATCH: usize = 1000;
/// Starting, a batch, or saving takes no longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// How requests are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// A thousand at a time.
    Batches,
    /// Each after the answer to the one before.
    OneByOne,
}

impl Asked {
    /// How often, and how many each time, for one number of a pair.
    const fn batches(self) -> (usize, usize) {
        match self {
            Self::Batches => (60, BATCH),
            Self::OneByOne => (30_000, 1),
        }
    }
}

pub(super) struct Redis {
    child: Child,
    folder: PathBuf,
    stream: UnixStream,
    keys: u64,
    random: Random,
}

impl Redis {
    /// Starts one and fills it.
    pub(super) fn start(name: &str, keys: u64) -> Result<Self> {
        remove_leftovers();
        let folder = format!("{PREFIX}{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let child = served(&folder).inspect_err(|_| drop(std::fs::remove_dir_all(&folder)))?;
        let guard = Unconnected(Some((child, folder)));
        guard.connected(keys)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn fill(&mut self) -> Result<()> {
        let keys: Vec<u64> = (0..self.keys).collect();
        keys.chunks(BATCH).try_for_each(|chunk| self.set(chunk, b'x'))
    }

    fn set(&mut self, keys: &[u64], letter: u8) -> Result<()> {
        let value = [letter; VALUE];
        let mut asked = Vec::with_capacity(keys.len() * 160);
        for key in keys {
            encode(&mut asked, &[b"SET", &name(*key), &value]);
        }
        self.ask(&asked, keys.len() * b"+OK\r\n".len())
    }

    /// Changes keys at random.
    pub(super) fn change(&mut self, batches: usize) -> Result<()> {
        for _ in 0..batches {
            let keys = self.some_keys(BATCH);
            self.set(&keys, b'y')?;
        }
        Ok(())
    }

    fn some_keys(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.random.below(self.keys)).collect()
    }

    /// Processor time of the server for each GET, in seconds.
    pub(super) fn gets(&mut self, how: Asked) -> Result<f64> {
        let (batches, batch) = how.batches();
        let before = self.processor_time()?;
        for _ in 0..batches {
            let mut asked = Vec::with_capacity(batch * 40);
            let keys = self.some_keys(batch);
            keys.iter().for_each(|key| encode(&mut asked, &[b"GET", &name(*key)]));
            let answered = batch * (b"$100\r\n\r\n".len() + VALUE);
            match how {
                Asked::Batches => self.ask(&asked, answered)?,
                Asked::OneByOne => self.ask_shortly(&asked, answered)?,
            }
        }
        let used = self.processor_time()? - before;
        Ok(used / (batches * batch) as f64)
    }

    /// Sends what fits into the socket, and reads the answer.
    fn ask_shortly(&mut self, asked: &[u8], answered: usize) -> Result<()> {
        let mut answer = vec![0; answered];
        self.stream.write_all(asked)?;
        self.stream.read_exact(&mut answer).context("redis: its answer")?;
        ensure!(answer.first() == Some(&b'$'), "redis: {}", String::from_utf8_lossy(&answer));
        Ok(())
    }

    /// Sends what is asked, while the answers of known length are read.
    fn ask(&mut self, asked: &[u8], answered: usize) -> Result<()> {
        let mut send = self.stream.try_clone()?;
        let mut left = vec![0; answered];
        std::thread::scope(|scope| {
            let sent = scope.spawn(move || send.write_all(asked));
            self.stream.read_exact(&mut left).context("redis: its answer")?;
            sent.join().map_or_else(|_| bail!("panicked"), |sent| Ok(sent?))
        })?;
        ensure!(left.first() != Some(&b'-'), "redis: {}", String::from_utf8_lossy(&left));
        Ok(())
    }

    /// Begins to save: a fork shares all memory until it has written it.
    pub(super) fn save(&mut self) -> Result<()> {
        let mut asked = Vec::new();
        encode(&mut asked, &[b"BGSAVE"]);
        self.ask(&asked, b"+Background saving started\r\n".len())
    }

    pub(super) fn is_saving(&self) -> Result<bool> {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        Ok(!std::fs::read_to_string(path)?.trim().is_empty())
    }

    pub(super) fn until_saved(&self) -> Result<()> {
        let began = Instant::now();
        while self.is_saving()? {
            ensure!(began.elapsed() < PATIENCE, "redis: BGSAVE takes longer than {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// It works in one thread, the one that is told of.
    fn processor_time(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.pid()))?;
        let nanos: f64 = text.split(' ').next().context("schedstat")?.parse()?;
        Ok(nanos / 1e9)
    }

    /// A size of smaps_rollup, in bytes.
    pub(super) fn size(&self, key: &str) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid()))?;
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let kib: f64 = line
            .and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok())
            .with_context(|| format!("smaps_rollup: no {key}"))?;
        Ok(kib * 1024.0)
    }

    /// The part of its own memory that is in huge pages.
    pub(super) fn coverage(&self) -> Result<f64> {
        Ok(self.size("AnonHugePages")? / self.size("Anonymous")?)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        end(&mut self.child, &self.folder);
    }
}

fn end(child: &mut Child, folder: &Path) {
    let _ = child.kill();
    let _ = child.wait();
    let _ = std::fs::remove_dir_all(folder);
}

/// A server that nobody has reached yet.
struct Unconnected(Option<(Child, PathBuf)>);

impl Unconnected {
    fn connected(mut self, keys: u64) -> Result<Redis> {
        let folder = self.0.as_ref().map(|(_, folder)| folder.join("socket")).unwrap_or_default();
        let began = Instant::now();
        let stream = loop {
            match UnixStream::connect(&folder) {
                Ok(stream) => break stream,
                Err(error) if began.elapsed() > PATIENCE => bail!("redis-server: {error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (child, folder) = self.0.take().context("taken")?;
        let mut redis = Redis { child, folder, stream, keys, random: Random(1) };
        redis.fill()?;
        Ok(redis)
    }
}

impl Drop for Unconnected {
    fn drop(&mut self) {
        if let Some((child, folder)) = &mut self.0 {
            end(child, folder);
        }
    }
}

/// Ends with us. Compressing what is saved would only take time; and redis switches huge pages off
/// where it is not told to leave them.
fn served(folder: &Path) -> Result<Child> {
    let options = "--port 0 --unixsocket socket --appendonly no --daemonize no --loglevel warning \
                   --rdbcompression no --disable-thp no --save";
    let mut server = run::program("setpriv");
    server.args(["--pdeathsig", "KILL", "redis-server"]).args(options.split_whitespace()).arg("");
    server.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    server.spawn().context("setpriv redis-server (redis-server and util-linux are needed)")
}

/// Folders of runs that were killed.
fn remove_leftovers() {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if maker.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn name(key: u64) -> Vec<u8> {
    format!("key:{key:010}").into_bytes()
}

/// As redis wants to be asked.
fn encode(to: &mut Vec<u8>, words: &[&[u8]]) {
    to.extend(format!("*{}\r\n", words.len()).bytes());
    for word in words {
        to.extend(format!("${}\r\n", word.len()).bytes());
        to.extend_from_slice(word);
        to.extend_from_slice(b"\r\n");
    }
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_spelled_as_redis_reads_it() {
        let mut asked = Vec::new();
        encode(&mut asked, &[b"GET", &name(42)]);
        assert_eq!(asked, b"*2\r\n$3\r\nGET\r\n$14\r\nkey:0000000042\r\n");
    }
}
