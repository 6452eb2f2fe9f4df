// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp collapse --opted-in`: collapses memory of programs that were started with
//! `PAGEWISE_THP=on`, for each container within its own limit on growth.
//!
//! Programs start and end, so each pass searches for them again. The growth that earlier passes
//! caused in a container counts against its limit as long as the container has a program that opted
//! in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pagewise_hugepages::{ActError, CollapseTargets, CollapseWish};
use pagewise_model::{
    Bytes, Collapse, Interval, Name, Process, Refusal, Snapshot, UnitCollapse, unit_of, unit_path,
};
use pagewise_observe::Recording;
use pagewise_procmem::coverage::run_with_timeout;
use pagewise_procmem::environment;
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::progress::Measuring;
use pagewise_terminal::{Global, output};

use super::{VARIABLE, collapse};

/// The longest sleep in one piece between two passes, so that Ctrl-C is noticed in time.
const PIECE: Duration = Duration::from_millis(100);
/// Time limit for reading one process's environment: reading it takes the mmap lock of the process,
/// which another thread may hold.
const PATIENCE: Duration = Duration::from_secs(5);

/// Results of the collapse for each container or unit. The key is the path of the cgroup, because
/// two users may have units of the same name.
pub(super) struct OptedIn {
    units: BTreeMap<String, UnitCollapse>,
    troubled: BTreeMap<String, String>,
    /// Processes whose mmap lock is held. Their environment is not read again, because each attempt
    /// leaves a blocked thread behind.
    stuck: BTreeSet<u32>,
}

impl OptedIn {
    /// Collapses the memory of the programs that opted in: once, or with --watch repeatedly until
    /// Ctrl-C.
    pub(super) fn run(
        global: &Global,
        host: &Recording,
        wish: &CollapseWish,
        stop: &Stop,
    ) -> anyhow::Result<(Self, Interval)> {
        let mut own =
            Self { units: BTreeMap::new(), troubled: BTreeMap::new(), stuck: BTreeSet::new() };
        loop {
            let interval = host.interval(&collapse::scope(), || anyhow::Ok(()))?;
            own.make_pass(global, host, &interval.end, wish, stop);
            let Some(rest) = wish.watch.filter(|_| !stop.is_asked()) else {
                return own.end().map(|own| (own, interval));
            };
            wait_for_next_pass(rest, stop);
        }
    }

    fn make_pass(
        &mut self,
        global: &Global,
        host: &Recording,
        snapshot: &Snapshot,
        wish: &CollapseWish,
        stop: &Stop,
    ) {
        let found = self.find_opted_in(snapshot, Bytes::new(wish.block));
        self.units.retain(|cgroup, _| found.contains_key(cgroup));
        self.troubled.retain(|cgroup, _| found.contains_key(cgroup));
        for (cgroup, targets) in found {
            if stop.is_asked() {
                return;
            }
            let earlier = self.units.get(&cgroup);
            let spent = earlier.map_or(Bytes::new(0), |earlier| earlier.collapse.growth);
            let once = CollapseWish { watch: None, spent, ..*wish };
            match collapse(global, host, &targets, &once, stop) {
                Ok(pass) => self.add_results(global, cgroup, pass, wish),
                Err(error) => self.print_failure(cgroup, error.to_string()),
            }
        }
    }

    fn add_results(
        &mut self,
        global: &Global,
        cgroup: String,
        pass: Collapse,
        wish: &CollapseWish,
    ) {
        let unit = name_of(&cgroup);
        if wish.watch.is_some() && is_worth_printing(global, &pass) {
            output::print_message(format_args!("{unit}: {}", describe_pass(&pass)));
        }
        match self.units.get_mut(&cgroup) {
            Some(earlier) => earlier.collapse.add_later_pass(pass),
            None => {
                let first = UnitCollapse { unit, cgroup: cgroup.clone(), collapse: pass };
                self.units.insert(cgroup, first);
            }
        }
    }

    /// Prints why the collapse failed for a container. The same reason is printed once, because a
    /// pass follows every few seconds.
    fn print_failure(&mut self, cgroup: String, why: String) {
        if self.troubled.get(&cgroup) != Some(&why) {
            output::print_message(format_args!("{}: {why}", name_of(&cgroup)));
            self.troubled.insert(cgroup, why);
        }
    }

    /// Returns an error if the collapse failed for every container. If no container opted in, that
    /// is not an error.
    fn end(self) -> anyhow::Result<Self> {
        if self.units.is_empty() && !self.troubled.is_empty() {
            let why = self.troubled.into_values().collect::<Vec<_>>().join("; ");
            anyhow::bail!(Refusal::new("--opted-in: no memory could be collapsed", why));
        }
        Ok(self)
    }

    /// The results of all containers, with their sums.
    pub(super) fn into_collapse(self) -> Collapse {
        Collapse::sum(self.units.into_values().collect())
    }

    /// The processes that opted in, by the cgroup of their container or unit. Processes with less
    /// anonymous memory than one huge page are left out, and their environment is not read.
    fn find_opted_in(
        &mut self,
        snapshot: &Snapshot,
        block: Bytes,
    ) -> BTreeMap<String, CollapseTargets> {
        let mut units: BTreeMap<String, CollapseTargets> = BTreeMap::new();
        let (own, all) = (std::process::id(), &snapshot.processes.list);
        self.stuck.retain(|pid| all.iter().any(|process| process.pid == *pid));
        let is_large =
            |process: &&Process| process.rss_anon.get().is_some_and(|anon| anon >= block);
        for process in all.iter().filter(is_large).filter(|process| process.pid != own) {
            if !self.has_opted_in(process.pid) {
                continue;
            }
            let cgroup = process.cgroup.value();
            let targets = units.entry(cgroup.map_or("/", unit_path).to_owned()).or_default();
            targets.processes.push((process.pid, process.name.clone()));
            targets.cgroups.extend(cgroup.map(|path| path.as_str().to_owned()));
        }
        for targets in units.values_mut() {
            targets.cgroups.sort_unstable();
            targets.cgroups.dedup();
        }
        units
    }

    /// Whether the process opted in; false if it has ended, or if its environment cannot be read in
    /// time.
    fn has_opted_in(&mut self, pid: u32) -> bool {
        if self.stuck.contains(&pid) {
            return false;
        }
        let Some(value) =
            run_with_timeout(PATIENCE, move || environment::read_variable(pid, VARIABLE))
        else {
            self.stuck.insert(pid);
            return false;
        };
        value.is_ok_and(|value| value.as_deref() == Some(b"on"))
    }
}

fn collapse(
    global: &Global,
    host: &Recording,
    targets: &CollapseTargets,
    wish: &CollapseWish,
    stop: &Stop,
) -> Result<Collapse, ActError> {
    let shown = Measuring::start(global, "collapsing");
    let mut tell = |done, all, _: &Collapse| {
        shown.show_count(collapse::to_u32(done), collapse::to_u32(all));
    };
    pagewise_hugepages::collapse(&host.end, targets, wish, stop.flag(), &mut tell)
}

fn is_worth_printing(global: &Global, pass: &Collapse) -> bool {
    !global.quiet && !global.json && pass.collapsed > 0
}

fn describe_pass(pass: &Collapse) -> String {
    let (huge, anon) = (pass.huge_after, pass.anon_after);
    format!(
        "{} huge pages made, {huge} of {anon} are in huge pages, {} added",
        pass.collapsed, pass.growth
    )
}

fn wait_for_next_pass(time: Duration, stop: &Stop) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.is_asked() {
        std::thread::sleep(PIECE.min(time));
    }
}

/// The name of the container or unit in its own tools, or else the path of the cgroup.
fn name_of(cgroup: &str) -> String {
    unit_of(&Name::from(cgroup)).unwrap_or_else(|| cgroup.to_owned())
}
