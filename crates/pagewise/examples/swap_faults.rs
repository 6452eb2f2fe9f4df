// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `swap_faults image=FILE tokens=FOLDER [devices=lz4,zstd] [pages=N] [rounds=N] [clusters=0,3]
//! [folder=FOLDER] [limit=BYTES] [disksize=BYTES] [seconds=N]`: measures what happens in swap and prints
//! it as JSON; its progress goes to standard error. For tests on this machine and in guests: it
//! creates a zram device and a cgroup and sets `vm.page-cluster`, and undoes this also when it is
//! killed.

#![allow(clippy::disallowed_methods, reason = "tests open the pages that they wrote")]

#[path = "../tests/root/machine/lender.rs"]
mod lender;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use pagewise_bench::faults::{Control, FaultSpec, Progress, is_worker, measure, worker_main};
use pagewise_model::{Bytes, Compressor};

struct Arguments(BTreeMap<String, String>);

impl Arguments {
    fn read() -> Self {
        let split = |word: String| {
            word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        Self(std::env::args().skip(1).filter_map(split).collect())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn set<T: FromStr>(&self, name: &str, to: &mut T) -> Result<(), T::Err> {
        if let Some(text) = self.text(name) {
            *to = text.parse()?;
        }
        Ok(())
    }
}

fn wanted(arguments: &Arguments) -> Result<FaultSpec, Box<dyn Error>> {
    let device = |algorithm: &str| Compressor::new(algorithm);
    let devices = arguments.text("devices").unwrap_or("lz4").split(',').map(device).collect();
    let mut pages = 4096;
    arguments.set("pages", &mut pages)?;
    let mut wanted = FaultSpec::usual(devices, pages);
    arguments.set("rounds", &mut wanted.rounds)?;
    if let Some(clusters) = arguments.text("clusters") {
        wanted.page_clusters = clusters.split(',').map(str::parse).collect::<Result<_, _>>()?;
    }
    wanted.file_folder = arguments.text("folder").map(Into::into);
    let (mut limit, mut disksize) = (wanted.group_limit.get(), wanted.disksize.get());
    arguments.set("limit", &mut limit)?;
    arguments.set("disksize", &mut disksize)?;
    wanted.group_limit = Bytes::new(limit);
    wanted.disksize = Bytes::new(disksize);
    Ok(wanted)
}

fn main() -> Result<(), Box<dyn Error>> {
    if is_worker() {
        worker_main();
    }
    let arguments = Arguments::read();
    let pages = std::fs::File::open(arguments.text("image").ok_or("image=FILE")?)?;
    let mut lender =
        lender::LoansLender::new(Path::new(arguments.text("tokens").ok_or("tokens=")?));
    let mut seconds = 3600;
    arguments.set("seconds", &mut seconds)?;
    let mut progress = |Progress { done, of }: Progress| eprintln!("{done} of {of}");
    let mut control = Control {
        stop: &AtomicBool::new(false),
        until: Some(Instant::now() + Duration::from_secs(seconds)),
        progress: &mut progress,
    };
    let measured = measure(&mut lender, &wanted(&arguments)?, &pages, &mut control)?;
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}
