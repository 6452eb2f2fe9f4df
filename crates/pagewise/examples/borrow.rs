// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program for tests to kill: it makes temporary changes to the machine (loans) as requested.
//!
//! ```text
//! borrow once LOAN…        makes each change once, prints `ready`, and waits
//! borrow ever SEED LOAN…   makes and undoes some of them again and again
//! ```
//! It undoes all changes and exits when its input ends or on SIGINT.
//!
//! A loan is `zram`, `zram:ALGORITHM`, `swap` (on the newest zram device or file), `shared-swap`,
//! `file:FOLDER`, `group`, `member` (a sleeping process in the newest group), `panic`, or a knob as
//! `vm.swappiness=70`. Journals are in PAGEWISE_STATE.

#![allow(clippy::disallowed_methods, reason = "a program of the tests, not of the product")]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagewise_apply::{Session, state_folder};
use pagewise_model::lend::{GroupSpec, KnobSetting, LoanId, SwapFile, ZramSpec};
use pagewise_model::{Bytes, Compressor};

/// The size of its devices and files; nobody else uses this size.
const SIZE: Bytes = Bytes::new((8 << 20) + (17 << 12));

struct Borrower {
    session: Session,
    area: Option<PathBuf>,
    group: Option<PathBuf>,
}

impl Borrower {
    fn open() -> Result<Self, Box<dyn std::error::Error>> {
        let (session, left) = Session::open(&state_folder())?;
        for it in left.iter().flat_map(|run| &run.returns) {
            say(&format!("left {} {:?}", it.what, it.outcome));
        }
        Ok(Self { session, area: None, group: None })
    }

    fn borrow(&mut self, loan: &str) -> Result<Option<LoanId>, Box<dyn std::error::Error>> {
        Ok(match loan.split_once([':', '=']) {
            Some(("zram", algorithm)) => Some(self.zram(Some(Compressor::new(algorithm)))?),
            Some(("file", folder)) => {
                let SwapFile { loan, path } = self.session.swap_file(Path::new(folder), SIZE)?;
                say(&format!("file {}", path.display()));
                self.area = Some(path);
                Some(loan)
            }
            Some((knob, value)) => Some(self.session.knob(&KnobSetting::new(knob, value))?),
            None => match loan {
                "zram" => Some(self.zram(None)?),
                "swap" => Some(self.swap_on()?),
                "shared-swap" => {
                    self.session.allow_shared_swap();
                    Some(self.swap_on()?)
                }
                "group" => {
                    let spec = GroupSpec { max: Some(SIZE), ..GroupSpec::default() };
                    let group = self.session.group(&spec)?;
                    say(&format!("group {}", group.folder.display()));
                    self.group = Some(group.folder);
                    Some(group.loan)
                }
                "member" => {
                    self.member()?;
                    None
                }
                "panic" => panic!("as asked for"),
                _ => return Err(format!("{loan}: no such loan").into()),
            },
        })
    }

    fn zram(
        &mut self,
        compressor: Option<Compressor>,
    ) -> Result<LoanId, Box<dyn std::error::Error>> {
        let zram = self.session.zram(&ZramSpec { compressor, ..ZramSpec::new(SIZE) })?;
        say(&format!("zram {}", zram.device.display()));
        self.area = Some(zram.device);
        Ok(zram.loan)
    }

    fn swap_on(&mut self) -> Result<LoanId, Box<dyn std::error::Error>> {
        let area = self.area.clone().ok_or("nothing to swap to")?;
        Ok(self.session.swap_on(&area, Some(3))?)
    }

    /// The process exits by itself after a minute, in case nobody ends it.
    fn member(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        let Some(group) = &self.group else { return Ok(()) };
        let join = format!("echo $$ > {}/cgroup.procs && exec sleep 60", group.display());
        Command::new("sh").args(["-c", &join]).stdin(std::process::Stdio::null()).spawn()?;
        Ok(())
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let why = error.source().map(|source| format!(": {source}"));
            eprintln!("{error}{}", why.unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((how, loans)) if how == "once" => once(loans),
        Some((how, rest)) if how == "ever" => {
            let (seed, loans) = rest.split_first().ok_or("expected a seed")?;
            ever(seed.parse()?, loans)
        }
        _ => Err("expected `once` or `ever`".into()),
    }
}

/// Prints a line, and ignores errors: the reader may have gone.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Returns a flag that is set when the input ends, or on SIGINT.
fn stop() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, stop.clone())?;
    let ended = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        ended.store(true, Ordering::SeqCst);
    });
    Ok(stop)
}

fn once(loans: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let stop = stop()?;
    let mut borrower = Borrower::open()?;
    for loan in loans {
        borrower.borrow(loan)?;
    }
    say("ready");
    while !stop.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(10));
    }
    for it in borrower.session.end() {
        say(&format!("returned {} {:?}", it.what, it.outcome));
    }
    Ok(())
}

/// Each round is a session of its own, which leaves out some loans and undoes some early.
fn ever(seed: u64, loans: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let stop = stop()?;
    let mut state = seed.max(1);
    let mut chance = move || {
        // xorshift by George Marsaglia
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    while !stop.load(Ordering::SeqCst) {
        let mut borrower = Borrower::open()?;
        for loan in loans {
            if chance() % 5 == 0 {
                continue;
            }
            // swap fails if its device was left out in this round
            let taken = borrower.borrow(loan);
            say(&format!("taken {loan} {taken:?}"));
            if let (Ok(Some(id)), 0) = (taken, chance() % 6) {
                say(&format!("returned {loan} {:?}", borrower.session.give_back(id)?));
            }
        }
        for it in borrower.session.end() {
            say(&format!("returned {} {:?}", it.what, it.outcome));
        }
    }
    Ok(())
}
