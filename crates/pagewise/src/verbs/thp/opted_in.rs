// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp collapse --opted-in`: the memory of programs that were started with `PAGEWISE_THP=on`, container by
//! container, each within a budget of its own.
//!
//! Programs come and go, so each pass looks for them again. What earlier passes added to a container counts against
//! its budget as long as one of its programs runs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pagewise_collapse::{CollapseTargets, CollapseWish};
use pagewise_model::{
    Bytes, Collapse, Interval, Name, Process, Refusal, Snapshot, UnitCollapse, unit_of,
};
use pagewise_observe::Recording;
use pagewise_procmem::environment;
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::{Global, output};

use super::{VARIABLE, collapse};

/// Waiting goes on in pieces, so that Ctrl-C is seen.
const PIECE: Duration = Duration::from_millis(100);

/// What was done for each container, and the host as it was at the last look.
pub(super) struct OptedIn {
    units: BTreeMap<String, Collapse>,
    troubled: BTreeMap<String, String>,
}

impl OptedIn {
    /// Collapses once, or until Ctrl-C where it is to watch.
    pub(super) fn run(
        global: &Global,
        host: &Recording,
        wish: &CollapseWish,
        stop: &Stop,
    ) -> anyhow::Result<(Self, Interval)> {
        let mut own = Self { units: BTreeMap::new(), troubled: BTreeMap::new() };
        loop {
            let interval = host.interval(&collapse::scope(), || anyhow::Ok(()))?;
            own.pass(global, host, &interval.end, wish, stop);
            let Some(rest) = wish.watch.filter(|_| !stop.is_asked()) else {
                return own.end().map(|own| (own, interval));
            };
            wait(rest, stop);
        }
    }

    fn pass(
        &mut self,
        global: &Global,
        host: &Recording,
        snapshot: &Snapshot,
        wish: &CollapseWish,
        stop: &Stop,
    ) {
        let found = find(snapshot, Bytes::new(wish.block));
        self.units.retain(|unit, _| wish.watch.is_none() || found.contains_key(unit));
        for (unit, targets) in found {
            if stop.is_asked() {
                return;
            }
            let earlier = self.units.get(&unit);
            let spent = earlier.map_or(Bytes::new(0), |earlier| earlier.growth);
            let wish = CollapseWish { watch: None, spent, ..*wish };
            let quiet = &mut |_: u64, _: u64, _: &Collapse| ();
            match pagewise_collapse::collapse(&host.end, &targets, &wish, stop.flag(), quiet) {
                Ok(pass) => self.keep(global, unit, pass),
                Err(error) => self.tell(unit, format!("{error:#}")),
            }
        }
    }

    fn keep(&mut self, global: &Global, unit: String, pass: Collapse) {
        if is_told(global, &pass) {
            output::message(format_args!("{unit}: {}", told(&pass)));
        }
        match self.units.get_mut(&unit) {
            Some(earlier) => earlier.follow(pass),
            None => _ = self.units.insert(unit, pass),
        }
    }

    /// Once for each reason, as a pass follows every few seconds.
    fn tell(&mut self, unit: String, why: String) {
        if self.troubled.get(&unit) != Some(&why) {
            output::message(format_args!("{unit}: {why}"));
            self.troubled.insert(unit, why);
        }
    }

    /// Without anybody who asked, a single pass has found nothing, and nothing went wrong either.
    fn end(self) -> anyhow::Result<Self> {
        if self.units.is_empty() && !self.troubled.is_empty() {
            let why = self.troubled.into_values().collect::<Vec<_>>().join("; ");
            anyhow::bail!(Refusal::new("--opted-in: no memory could be collapsed", why));
        }
        Ok(self)
    }

    /// The sums, with each container.
    pub(super) fn into_collapse(self) -> Collapse {
        let named = |(unit, collapse)| UnitCollapse { unit, collapse };
        Collapse::sum(self.units.into_iter().map(named).collect())
    }
}

fn is_told(global: &Global, pass: &Collapse) -> bool {
    !global.quiet && !global.json && pass.collapsed > 0
}

fn told(pass: &Collapse) -> String {
    let (huge, anon) = (pass.huge_after, pass.anon_after);
    format!(
        "{} huge pages made, {huge} of {anon} are in huge pages, {} added",
        pass.collapsed, pass.growth
    )
}

fn wait(time: Duration, stop: &Stop) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.is_asked() {
        std::thread::sleep(PIECE.min(time));
    }
}

/// The programs that asked, by their container or unit; those without a whole huge page of memory are not asked.
fn find(snapshot: &Snapshot, block: Bytes) -> BTreeMap<String, CollapseTargets> {
    let mut units: BTreeMap<String, CollapseTargets> = BTreeMap::new();
    let own = std::process::id();
    let is_large = |process: &&Process| process.rss_anon.get().is_some_and(|anon| anon >= block);
    let large = snapshot.processes.list.iter().filter(is_large);
    for process in large.filter(|process| process.pid != own && has_asked(process.pid)) {
        let cgroup = process.cgroup.value();
        let targets = units.entry(cgroup.map_or_else(nowhere, named)).or_default();
        targets.processes.push((process.pid, process.name.clone()));
        targets.cgroups.extend(cgroup.map(|path| path.as_str().to_owned()));
    }
    for targets in units.values_mut() {
        targets.cgroups.sort_unstable();
        targets.cgroups.dedup();
    }
    units
}

fn named(cgroup: &Name) -> String {
    unit_of(cgroup).unwrap_or_else(|| cgroup.as_str().to_owned())
}

fn nowhere() -> String {
    "/".to_owned()
}

/// A process that has ended, or whose environment we may not read, has not asked.
fn has_asked(pid: u32) -> bool {
    environment::variable(pid, VARIABLE).is_ok_and(|value| value.as_deref() == Some(b"on"))
}
