// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks, some time after the start, whether the command obtained huge pages, and prints the
//! result to standard error.
//!
//! If it did not obtain them, pagewise collapses its memory with process_madvise, if this user has
//! the right to; if that fails, a message says so. Go programs and static programs have no
//! switch for huge pages. The switch of glibc 2.36 has no effect in one start of five, because glibc
//! compares the policy that it has read with an uninitialised byte.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pagewise_hugepages::{CollapseTargets, CollapseWish};
use pagewise_model::{Bytes, Name, Percent};
use pagewise_observe::HostRoot;
use pagewise_procmem::coverage::{self, Share};
use pagewise_terminal::output;

use super::Switch;
use super::program::{Allocator, Program};

/// If the program has less anonymous memory than this many bytes, nothing is printed.
const LEAST: Bytes = Bytes::new(16 << 20);
/// If at least this share of a program's memory is in huge pages, in percent, the check has passed.
const ENOUGH: f64 = 50.0;
const GROWTH: f64 = 0.1;
const DEADLINE: Duration = Duration::from_secs(30);

/// What to check of a started program's huge pages, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check {
    pub(super) switch: Switch,
    pub(super) program: Program,
    pub(super) wait: Duration,
    pub(super) block: u64,
    pub(super) quiet: bool,
}

impl Check {
    /// Checks the program in a separate thread, so that the end of the command need not wait for
    /// it.
    pub(super) fn begin(self, pid: u32) {
        let look = move || {
            std::thread::sleep(self.wait);
            let listed = [self.read_output(pid), self.describe_arenas(pid)];
            listed.iter().flatten().filter(|_| !self.quiet).for_each(output::print_message);
        };
        // if no thread can be started, the command runs without the check
        let _ = std::thread::Builder::new().name("check".to_owned()).spawn(look);
    }

    fn read_output(&self, pid: u32) -> Option<String> {
        let found = coverage::measure_share(pid, self.block).ok()?;
        let came = found.percent().map(Percent::get).is_some_and(|share| share >= ENOUGH);
        if self.switch != Switch::On || came {
            return self.describe(pid, &found, "");
        }
        match self.collapse(pid) {
            Ok(after) => self.describe(pid, &after, ", collapsed from outside"),
            Err(error) => {
                let listed = self.describe(pid, &found, "")?;
                Some(format!("{listed}; it could not be collapsed from outside: {error:#}"))
            }
        }
    }

    /// Warns if malloc has more arenas than there are CPU cores: memory that is free in one arena
    /// cannot be used by another.
    fn describe_arenas(&self, pid: u32) -> Option<String> {
        let cores = std::thread::available_parallelism().ok()?.get();
        let asks = matches!(self.program.allocator, Allocator::Glibc | Allocator::Static);
        let heaps = coverage::heaps(pid, self.block).ok().filter(|_| asks)?;
        if heaps.count <= cores as u64 || heaps.held < LEAST {
            return None;
        }
        let resident = coverage::read_proportional_size(pid).ok()?;
        Some(format!(
            "pid {pid}: malloc holds {} of its {resident} in {} heaps for threads, on {cores} cores. Next: \
             compare with pagewise thp run --arenas {cores} -- CMD: less memory, where threads do not \
             wait for each other",
            heaps.held, heaps.count
        ))
    }

    fn collapse(&self, pid: u32) -> anyhow::Result<Share> {
        let targets = CollapseTargets {
            processes: vec![(pid, Name::default())],
            ..CollapseTargets::default()
        };
        let wish = CollapseWish {
            max_growth: GROWTH,
            spent: Bytes::new(0),
            deadline: DEADLINE,
            pace: 1.0,
            swapped: false,
            dry_run: false,
            watch: None,
            block: self.block,
        };
        let host = HostRoot::live()?;
        pagewise_hugepages::collapse(
            &host,
            &targets,
            &wish,
            &AtomicBool::new(false),
            &mut |_, _, _| (),
        )?;
        Ok(coverage::measure_share(pid, self.block)?)
    }

    /// The message about a program's huge pages; `None` if the program has too little memory.
    fn describe(&self, pid: u32, found: &Share, how: &str) -> Option<String> {
        if found.anon < LEAST {
            return None;
        }
        let percent = found.percent().map(Percent::get)?;
        let who = self.program.allocator.name();
        let listed =
            format!("pid {pid} ({who}): {percent:.0} % of {} in huge pages{how}", found.anon);
        let seconds = self.wait.as_secs_f64();
        Some(match self.switch {
            Switch::On if percent < ENOUGH => format!(
                "{listed} after {seconds} s: they did not come. Next: pagewise thp --pid {pid}, or \
                 pagewise thp collapse --pid {pid} as root"
            ),
            Switch::Off if percent > 0.0 => {
                format!("{listed} after {seconds} s, though they are off")
            }
            _ => format!("{listed} after {seconds} s"),
        })
    }
}
