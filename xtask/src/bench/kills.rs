// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench` killed at random moments, each time followed by `undo` → how often something was left.
//!
//! Looked at are what a bench borrows: zram devices, swap, cgroups, `vm.page-cluster`. Its journals
//! lie in a folder of ours.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};

use crate::run;

/// A quick run takes longer than this, so that every part of it is hit.
const LATEST: Duration = Duration::from_secs(14);

pub(super) fn main(kills: u16, program: &Path, machine: &str) -> Result<()> {
    let state = std::env::temp_dir().join(format!("pagewise-kills-{}", std::process::id()));
    let before = Left::now()?;
    let mut random = Random::new()?;
    let mut left = Vec::new();
    for number in 1..=kills {
        let after = killed(program, &state, &mut random)?;
        let undone = run::output(run::program(program).arg("undo").env("PAGEWISE_STATE", &state))?;
        let now = Left::now()?;
        if now != before {
            left.push(format!(
                "run {number}, killed after {after:?}: {now:?}; undo said {undone:?}"
            ));
        }
    }
    println!("{machine}\n\n{kills} runs killed, {} left something", left.len());
    left.iter().for_each(|line| println!("- {line}"));
    ensure!(left.is_empty(), "a promise is not kept");
    Ok(())
}

/// Starts one and kills it.
fn killed(program: &Path, state: &Path, random: &mut Random) -> Result<Duration> {
    let mut child = run::program(program)
        .args(["bench", "--quick", "--size", "16M", "--mix", "text:80,random:20"])
        .env("PAGEWISE_STATE", state)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let after = random.below(LATEST);
    std::thread::sleep(after);
    child.kill()?;
    child.wait()?;
    Ok(after)
}

/// What a bench changes.
#[derive(Debug, PartialEq)]
struct Left {
    devices: BTreeSet<String>,
    groups: BTreeSet<String>,
    swaps: String,
    page_cluster: String,
}

impl Left {
    fn now() -> Result<Self> {
        let text = |path: &str| std::fs::read_to_string(path).context(path.to_owned());
        Ok(Self {
            devices: names("/sys/block", "zram")?,
            groups: names("/sys/fs/cgroup/memory", "pagewise")
                .or_else(|_| names("/sys/fs/cgroup", "pagewise"))?,
            swaps: text("/proc/swaps")?,
            page_cluster: text("/proc/sys/vm/page-cluster")?,
        })
    }
}

/// What lies in a folder and begins like this.
fn names(folder: &str, prefix: &str) -> Result<BTreeSet<String>> {
    let entries = std::fs::read_dir(folder).context(folder.to_owned())?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: Result<BTreeSet<String>> = names.collect();
    Ok(names?.into_iter().filter(|name| name.starts_with(prefix)).collect())
}

/// Marsaglia's xorshift: enough for moments.
struct Random(u64);

impl Random {
    fn new() -> Result<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        Ok(Self(u64::from(now.subsec_nanos()) | 1))
    }

    fn below(&mut self, most: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        most.mul_f64((self.0 % 10_000) as f64 / 10_000.0)
    }
}
