// SPDX-License-Identifier: Apache-2.0 OR MIT
//! After a while: did huge pages come? What is found is said on standard error.
//!
//! Where they did not, the program is collapsed from outside, where we have the right to; it is told
//! when that was not possible. Go and static programs have no switch, and that of glibc 2.36 misses
//! one start in five: it compares the policy that it read with a byte that it did not.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pagewise_hugepages::{CollapseTargets, CollapseWish};
use pagewise_model::{Bytes, Name, Percent};
use pagewise_observe::HostRoot;
use pagewise_procmem::coverage::{self, Share};
use pagewise_terminal::output;

use super::Switch;
use super::program::{Allocator, Program};

/// Less memory than this is not worth a word.
const LEAST: Bytes = Bytes::new(16 << 20);
/// With less than this in huge pages they did not come.
const ENOUGH: f64 = 50.0;
const GROWTH: f64 = 0.1;
const DEADLINE: Duration = Duration::from_secs(30);

/// What to look at, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check {
    pub(super) switch: Switch,
    pub(super) program: Program,
    pub(super) wait: Duration,
    pub(super) block: u64,
    pub(super) quiet: bool,
}

impl Check {
    /// Looks from a thread of its own: the command's end must not wait for it.
    pub(super) fn begin(self, pid: u32) {
        let look = move || {
            std::thread::sleep(self.wait);
            let listed = [self.read_output(pid), self.arenas(pid)];
            listed.iter().flatten().filter(|_| !self.quiet).for_each(output::message);
        };
        // where there can be no thread the command runs all the same
        let _ = std::thread::Builder::new().name("check".to_owned()).spawn(look);
    }

    fn read_output(&self, pid: u32) -> Option<String> {
        let found = coverage::share(pid, self.block).ok()?;
        let came = found.percent().map(Percent::get).is_some_and(|share| share >= ENOUGH);
        if self.switch != Switch::On || came {
            return self.said(pid, &found, "");
        }
        match self.collapse(pid) {
            Ok(after) => self.said(pid, &after, ", collapsed from outside"),
            Err(error) => {
                let listed = self.said(pid, &found, "")?;
                Some(format!("{listed}; it could not be collapsed from outside: {error:#}"))
            }
        }
    }

    /// More arenas than cores hold memory that is free for one thread only.
    fn arenas(&self, pid: u32) -> Option<String> {
        let cores = std::thread::available_parallelism().ok()?.get();
        let asks = matches!(self.program.allocator, Allocator::Glibc | Allocator::Static);
        let heaps = coverage::heaps(pid, self.block).ok().filter(|_| asks)?;
        if heaps.count <= cores as u64 || heaps.held < LEAST {
            return None;
        }
        let resident = coverage::proportional(pid).ok()?;
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
        Ok(coverage::share(pid, self.block)?)
    }

    /// What is worth saying.
    fn said(&self, pid: u32, found: &Share, how: &str) -> Option<String> {
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
