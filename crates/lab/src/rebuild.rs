// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Repeats an OOM kill in a guest: once as it was, and once with each change.
//!
//! The proportions are those of the log; the sizes are scaled to the guest. Three processes of this
//! same program (`pagewise lab hold`) represent what ran on the machine: one writes shared memory,
//! one holds as much as the other processes held, and the last one grows until it has its full
//! size, or until the kernel kills a process. A run ends with the first kill.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use pagewise_model::lend::{
    GroupSpec, KnobSetting, Lender, LoanId, MemoryGroup, SwapArea, SwapSpec, ZramSpec,
};
use pagewise_model::{
    Bytes, Rebuild, RebuildChange, RebuiltRun, Refusal, WhatIfEffect, WhatIfKind, scale,
};
use pagewise_observe::{HostGauges, HostRoot};

const SIGKILL: i32 = 9;
/// Path of the file that holds the shared memory.
const SHMEM: &str = "/dev/shm/pagewise-rebuild";
/// Minimum capacity in bytes: in a smaller one, steps of 1 MiB are too coarse.
const LEAST: u64 = 16 << 20;
/// A process without a known size stops growing at this multiple of the capacity, in case no
/// process is killed.
const TAKES: u64 = 8;

/// Repeats the kill as it was and with each change. Each run is reported when it ends.
///
/// # Errors
/// If `on_run` fails.
pub fn rebuild(
    rebuild: &Rebuild,
    program: &Path,
    lender: &mut dyn Lender,
    on_run: &mut dyn FnMut(&RebuiltRun) -> io::Result<()>,
) -> io::Result<()> {
    let wanted = [None].into_iter().chain((0..rebuild.changes.len()).map(Some));
    // one capacity for all runs, so that they can be compared
    let capacity = measure_capacity(rebuild, program)?;
    for index in wanted {
        let change = index.and_then(|index| rebuild.changes.get(index));
        let run = Run::new(rebuild, change, capacity);
        let mut loans = Vec::new();
        let done = run.conduct(program, lender, &mut loans);
        let mut kept = None;
        for loan in loans.into_iter().rev() {
            kept = lender.return_loan(loan).err().or(kept);
        }
        let (is_killed, held) = done.as_ref().copied().unwrap_or_default();
        let trouble = done.err().or(kept).map(|refusal| refusal.what);
        let is_over = trouble.is_some();
        #[expect(clippy::cast_possible_truncation, reason = "a handful of changes")]
        let change = index.map(|index| index as u32);
        on_run(&RebuiltRun { change, is_killed, held, capacity, trouble })?;
        if is_over {
            break;
        }
    }
    Ok(())
}

/// The memory in which the kill is repeated in this guest: what is available while the three
/// processes run but hold nothing, or less for a cgroup.
fn measure_capacity(rebuild: &Rebuild, program: &Path) -> io::Result<Bytes> {
    let none = (Bytes::default(), Bytes::default());
    let idle = (0..3).map(|_| Holder::start(program, none, false, None));
    let idle: Vec<Holder> = idle.collect::<io::Result<_>>()?;
    let available = available_memory().unwrap_or_default();
    drop(idle);
    if !rebuild.of_group {
        return Ok(available);
    }
    let limits = rebuild.changes.iter().filter(|change| change.kind == WhatIfKind::Limit);
    let largest = limits.map(|change| change.size).max().unwrap_or_default().max(rebuild.capacity);
    // the largest limit must fit into three quarters of the available memory
    let room = Bytes::new(available.get() / 4 * 3);
    Ok(rebuild.capacity.min(scale(rebuild.capacity, room, largest)))
}

fn available_memory() -> Option<Bytes> {
    HostGauges(&HostRoot::live().ok()?).available()
}

/// One run, with sizes scaled to the guest.
struct Run {
    /// The limit of the cgroup; `None` if the kill was not due to a cgroup's limit.
    limit: Option<Bytes>,
    swap: Bytes,
    shmem: Bytes,
    others: Bytes,
    /// What the growing process maps at the start.
    maps: Bytes,
    takes: Bytes,
    capacity: Bytes,
}

impl Run {
    fn new(rebuild: &Rebuild, change: Option<&RebuildChange>, capacity: Bytes) -> Self {
        let here = |size: Bytes| scale(size, capacity, rebuild.capacity);
        let kind = change.map(|change| change.kind);
        let size = change.map(|change| here(change.size)).unwrap_or_default();
        let takes = match rebuild.mapped {
            Some(mapped) => here(rebuild.grower.saturating_add(mapped)),
            None => Bytes::new(capacity.get().saturating_mul(TAKES)),
        };
        let maps = if rebuild.mapped.is_some() { takes } else { Bytes::default() };
        let is = |wanted| kind == Some(wanted);
        let none = Bytes::default();
        Self {
            limit: rebuild.of_group.then_some(if is(WhatIfKind::Limit) { size } else { capacity }),
            swap: match kind {
                Some(WhatIfKind::Swap | WhatIfKind::GroupSwap) => size,
                _ => here(rebuild.swap),
            },
            shmem: if is(WhatIfKind::WithoutShmem) { none } else { here(rebuild.shmem) },
            others: here(rebuild.others),
            maps: if is(WhatIfKind::WithoutProcess) { none } else { maps },
            takes: if is(WhatIfKind::WithoutProcess) { none } else { takes },
            capacity,
        }
    }

    /// Returns whether a process was killed, and how much memory the growing process then held.
    fn conduct(
        &self,
        program: &Path,
        lender: &mut dyn Lender,
        loans: &mut Vec<LoanId>,
    ) -> Result<(bool, Bytes), Refusal> {
        if self.capacity.get() < LEAST {
            let what = format!("{} are too little to do the kill again in", self.capacity);
            return Err(Refusal::new(what, ""));
        }
        // whether mapping more than the memory is allowed was decided on the machine of the log
        loans.push(lender.lend_knob(&KnobSetting::new("vm.overcommit_memory", "1"))?);
        if self.swap.get() > 0 {
            let device = lender.lend_zram(&ZramSpec::new(self.swap))?;
            loans.push(device.loan);
            let area = SwapArea::Lent(device.device);
            loans.push(lender.lend_swap(&SwapSpec { area, priority: None })?);
        }
        let group = self.limit.map(|limit| {
            lender.lend_group(&GroupSpec {
                max: Some(limit),
                swap_max: Some(self.swap),
                ..GroupSpec::default()
            })
        });
        let group = group.transpose()?;
        loans.extend(group.as_ref().map(|group| group.loan));
        let done = self.hold(program, group.as_ref());
        remove_shmem();
        done.map_err(|error| Refusal::new(format!("doing the kill again: {error}"), ""))
    }

    fn hold(&self, program: &Path, group: Option<&MemoryGroup>) -> io::Result<(bool, Bytes)> {
        let none = Bytes::default();
        let wanted = [
            (self.shmem, none, true),
            (self.others, self.others, false),
            (self.takes, self.maps, false),
        ];
        let started = wanted
            .iter()
            .map(|(take, map, is_file)| Holder::start(program, (*take, *map), *is_file, group));
        let mut started: Vec<Holder> = started.collect::<io::Result<_>>()?;
        if let Some((group, limit)) = group.zip(self.limit) {
            raise_limit_by_usage(group, limit)?;
        }
        for index in 0..started.len() {
            started[index].begin()?;
            let held = started[index].wait_until_held()?;
            let has_all = held >= wanted[index].0;
            let ends = started.iter_mut().map(Holder::end).collect::<io::Result<Vec<_>>>()?;
            if let Some(failed) = ends.iter().flatten().find(|end| end.signal() != Some(SIGKILL)) {
                return Err(io::Error::other(format!("a process ended by itself: {failed}")));
            }
            if !has_all || ends.iter().any(Option::is_some) {
                return Ok((true, if index == 2 { held } else { none }));
            }
        }
        Ok((false, self.takes))
    }
}

/// Raises the limit of the cgroup by what its processes use before they hold anything, because the
/// sizes in the log do not include these programs.
#[expect(clippy::disallowed_methods, reason = "a cgroup of a guest, which was lent")]
fn raise_limit_by_usage(group: &MemoryGroup, limit: Bytes) -> io::Result<()> {
    let (usage, max) = if group.unified {
        ("memory.current", "memory.max")
    } else {
        ("memory.usage_in_bytes", "memory.limit_in_bytes")
    };
    let usage = std::fs::read_to_string(group.folder.join(usage))?;
    let usage = Bytes::new(usage.trim().parse().map_err(io::Error::other)?);
    std::fs::write(group.folder.join(max), limit.saturating_add(usage).get().to_string())
}

fn remove_shmem() {
    _ = std::fs::remove_file(SHMEM);
}

/// A process that allocates and holds memory. It is killed when this value is dropped.
struct Holder {
    child: Child,
    go: Option<ChildStdin>,
    lines: io::Lines<BufReader<ChildStdout>>,
    has_begun: bool,
    has_all: bool,
}

impl Holder {
    /// Starts the process and moves it into the cgroup. There it waits for [`Self::begin`].
    #[expect(clippy::disallowed_methods, reason = "it starts this same program, in a guest")]
    fn start(
        program: &Path,
        (take, map): (Bytes, Bytes),
        is_file: bool,
        group: Option<&MemoryGroup>,
    ) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(["lab", "hold", "--take", &take.get().to_string()]);
        command.args(["--map", &map.get().to_string()]);
        if is_file {
            command.args(["--file", SHMEM]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (go, out) = (child.stdin.take(), child.stdout.take());
        let lines = BufReader::new(out.ok_or(io::ErrorKind::BrokenPipe)?).lines();
        if let Some(group) = group {
            let procs: PathBuf = group.folder.join("cgroup.procs");
            std::fs::write(procs, child.id().to_string())?;
        }
        Ok(Self { child, go, lines, has_begun: false, has_all: false })
    }

    fn begin(&mut self) -> io::Result<()> {
        self.has_begun = true;
        self.go.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(b"go\n")
    }

    /// How much the process held when it had its full size, or when it was killed.
    fn wait_until_held(&mut self) -> io::Result<Bytes> {
        let mut held = Bytes::default();
        for line in &mut self.lines {
            match line?.strip_prefix("held ") {
                Some(number) => held = Bytes::new(number.parse().unwrap_or_default()),
                None => {
                    self.has_all = true;
                    break;
                }
            }
        }
        Ok(held)
    }

    /// How the process ended; `None` if it still runs. If it closed its output before it had its
    /// full size, this waits for its end.
    fn end(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.has_all {
            return self.child.try_wait();
        }
        // a process that still waits for its begin has not closed its output
        if self.has_begun { self.child.wait().map(Some) } else { self.child.try_wait() }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.go.take();
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Whether a run confirms the predicted effect of its change. `None` if nothing was predicted, or
/// if the kill as it was did not happen again.
#[must_use]
pub fn is_prediction_confirmed(
    rebuild: &Rebuild,
    as_it_was: &RebuiltRun,
    run: &RebuiltRun,
) -> Option<bool> {
    let change = rebuild.changes.get(run.change? as usize)?;
    if !as_it_was.is_killed || as_it_was.trouble.is_some() || run.trouble.is_some() {
        return None;
    }
    let more = run.held.saturating_sub(as_it_was.held);
    // the difference must be larger than a step of each run and the pages in the kernel's per-CPU
    // lists
    let is_more = more.get() > as_it_was.capacity.get() / 32;
    match change.effect {
        WhatIfEffect::Avoided => Some(!run.is_killed),
        WhatIfEffect::Delayed => Some(run.is_killed && is_more),
        WhatIfEffect::None => Some(run.is_killed && !is_more),
        WhatIfEffect::NotKnown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mib(mib: u64) -> Bytes {
        Bytes::new(mib << 20)
    }

    fn rebuild_of(kind: WhatIfKind, size: Bytes, effect: WhatIfEffect) -> Rebuild {
        Rebuild {
            of_group: true,
            capacity: mib(1000),
            grower: mib(600),
            mapped: Some(mib(300)),
            others: mib(300),
            shmem: mib(100),
            swap: mib(0),
            changes: vec![RebuildChange { change: String::new(), kind, size, effect }],
        }
    }

    #[test]
    fn a_run_keeps_the_shares_and_changes_one() {
        let spec = rebuild_of(WhatIfKind::Limit, mib(1500), WhatIfEffect::Avoided);
        let was = Run::new(&spec, None, mib(100));
        assert_eq!((was.limit, was.others, was.shmem), (Some(mib(100)), mib(30), mib(10)));
        assert_eq!((was.takes, was.maps, was.swap), (mib(90), mib(90), mib(0)));
        let raised = Run::new(&spec, spec.changes.first(), mib(100));
        assert_eq!((raised.limit, raised.takes), (Some(mib(150)), mib(90)));
        let spec = rebuild_of(WhatIfKind::WithoutShmem, mib(100), WhatIfEffect::Delayed);
        let without = Run::new(&spec, spec.changes.first(), mib(100));
        assert_eq!((without.shmem, without.limit), (mib(0), Some(mib(100))));
        let spec = rebuild_of(WhatIfKind::GroupSwap, mib(500), WhatIfEffect::Avoided);
        assert_eq!(Run::new(&spec, spec.changes.first(), mib(100)).swap, mib(50));
    }

    #[test]
    fn what_was_said_is_compared_with_what_happened() {
        let run = |change, is_killed, held| RebuiltRun {
            change,
            is_killed,
            held: mib(held),
            capacity: mib(100),
            trouble: None,
        };
        let was = run(None, true, 60);
        for (effect, killed, held, expected) in [
            (WhatIfEffect::Avoided, false, 90, Some(true)),
            (WhatIfEffect::Avoided, true, 80, Some(false)),
            (WhatIfEffect::Delayed, true, 80, Some(true)),
            (WhatIfEffect::Delayed, true, 61, Some(false)),
            (WhatIfEffect::Delayed, false, 90, Some(false)),
            (WhatIfEffect::None, true, 60, Some(true)),
            (WhatIfEffect::None, false, 90, Some(false)),
            (WhatIfEffect::NotKnown, true, 60, None),
        ] {
            let spec = rebuild_of(WhatIfKind::Limit, mib(1500), effect);
            assert_eq!(
                is_prediction_confirmed(&spec, &was, &run(Some(0), killed, held)),
                expected,
                "{effect:?}"
            );
        }
        let spec = rebuild_of(WhatIfKind::Limit, mib(1500), WhatIfEffect::Avoided);
        let not_again = run(None, false, 90);
        assert_eq!(is_prediction_confirmed(&spec, &not_again, &run(Some(0), false, 90)), None);
    }
}
