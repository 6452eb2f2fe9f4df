// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup whose unused memory is taken: reads it, asks `pagewise_agent` what to do, and does it.

use std::path::Path;
use std::time::Duration;

use pagewise_agent::{
    IdleMemory, ReclaimReading, ReclaimSettings, ReclaimStep, ReclaimTarget, SLICE, SwapRoom,
    other_manager,
};
use pagewise_apply::reclaim::{ReclaimError, Reclaimer};
use pagewise_apply::{aging, state_folder};
use pagewise_model::{
    AgentLimit, AgentLoop, AgentTarget, Bytes, Cgroup, Limit, ReclaimKind, Snapshot, Tier,
};
use pagewise_observe::{CgroupCounters, HostRoot, memory_cgroup, memory_cgroups};

use super::device::describe_time;
use super::target_state::TargetState;

/// The longest time for the requests of one step.
const LONGEST_STEP: Duration = Duration::from_secs(2);
/// While memory is taken, a line of the log sums up this time.
const SUMMARY: Duration = Duration::from_secs(600);
/// If `lru_gen` could not be had, it is tried again after this.
const RETRY_AGES: Duration = Duration::from_secs(3600);
/// `lru_gen` counts time in jiffies, and the agent is never exactly on time.
const PUNCTUAL: f64 = 0.9;
/// How often the state of swap is read.
const LOOK_AT_SWAP: Duration = Duration::from_secs(30);
/// Written pages per minute above which zswap is said to write to its disk.
const WRITTEN_PER_MINUTE: f64 = 256.0;

/// What of the host matters for every cgroup.
#[derive(Debug, Default)]
pub(super) struct SwapState {
    read: Option<Duration>,
    room: Option<SwapRoom>,
    /// RAM per byte in zram; `None` without zram.
    ram_per_byte: Option<f64>,
    written: Option<(Duration, u64)>,
    /// Until when zswap counts as a disk, because it wrote to one.
    disk_until: Duration,
}

impl SwapState {
    /// RAM that the pages of a cgroup in zram take, which it is not charged for; `None` if that is not
    /// known, or if zswap charges it to the cgroup.
    pub(super) fn uncharged(&self, group: &Cgroup) -> Option<Bytes> {
        let swapped = group.swap_current.get().unwrap_or(Bytes::new(0));
        match group.zswap_current.get() {
            Some(charged) if charged.get() > 0 => None,
            _ => self.ram_per_byte.map(|share| scale(swapped, share)),
        }
    }

    /// A step is small compared with swap, and reading everything costs more than a step.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.read.is_none_or(|then| now.saturating_sub(then) >= LOOK_AT_SWAP)
    }

    /// Reads it again; `now` is the time since the start.
    pub(super) fn update(&mut self, seen: &Snapshot, now: Duration) {
        self.read = Some(now);
        let room = find_room(&seen.tiers);
        let has_zswap = seen.tiers.iter().any(|tier| tier.zswap_in_front.get() == Some(true));
        let written = seen.vmstat.get("pswpout").get();
        if let Some((written, (then, before))) = written.zip(self.written) {
            let minutes = now.saturating_sub(then).as_secs_f64() / 60.0;
            let pages = written.saturating_sub(before) as f64;
            // zram counts in pswpout, too, and a page that goes into zswap does not
            if has_zswap && minutes > 0.0 && pages / minutes > WRITTEN_PER_MINUTE {
                self.disk_until = now + RETRY_AGES;
            }
        }
        self.written = written.map(|written| (now, written));
        let is_disk = has_zswap && now < self.disk_until;
        self.room = Some(if is_disk { SwapRoom::Disk } else { room });
        let uses = seen.compressed_devices().filter_map(|device| {
            let stat = &device.mm_stat;
            Some((stat.memory_used.get()?.get(), stat.original.get()?.get()))
        });
        let (ram, original) = uses.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        self.ram_per_byte = (original > 0).then(|| ram as f64 / original as f64);
    }
}

/// Where the kernel would write the next page: the area of the highest priority with room.
fn find_room(tiers: &[Tier]) -> SwapRoom {
    let with_room = tiers.iter().filter(|tier| tier.is_full() != Some(true));
    let Some(next) = with_room.max_by_key(|tier| tier.priority.get()) else {
        return SwapRoom::None;
    };
    let free = next.size.get().zip(next.used.get());
    let free = free.map(|(size, used)| size.saturating_sub(used));
    match free {
        Some(free) if next.kind.is_ram() || next.zswap_in_front.get() == Some(true) => {
            SwapRoom::Ram(free)
        }
        _ => SwapRoom::Disk,
    }
}

/// What a step needs of the agent.
pub(super) struct ReclaimRound<'a> {
    pub(super) host: &'a HostRoot,
    pub(super) swap: &'a SwapState,
    pub(super) processes: &'a [String],
    /// Why no cgroup can be changed; `None` if they can.
    pub(super) obstacle: Option<&'a str>,
    /// Why the loop does nothing now; `None` if it may act.
    pub(super) off: Option<&'a str>,
    /// Why no cgroup can be aged; `None` if they can.
    pub(super) no_aging: Option<&'a str>,
    pub(super) refault_cost: Duration,
    pub(super) now: Duration,
    pub(super) is_dry: bool,
}

#[derive(Debug)]
pub(super) struct ReclaimedCgroup {
    pub(super) path: String,
    target: ReclaimTarget,
    settings: ReclaimSettings,
    reclaimer: Reclaimer,
    can_choose: bool,
    /// Why it is not known which pages are idle, and since when.
    no_ages: Option<(String, Duration)>,
    state: TargetState,
    taken: Bytes,
    /// What was taken since the last line of the log, and when that was.
    untold: (Bytes, Duration),
    last: Option<(Bytes, Option<Bytes>, Bytes)>,
    pub(super) has_decided: bool,
}

impl ReclaimedCgroup {
    pub(super) fn new(path: &str, settings: ReclaimSettings) -> Self {
        Self {
            path: path.to_owned(),
            target: ReclaimTarget::new(settings),
            settings,
            reclaimer: Reclaimer::default(),
            can_choose: true,
            no_ages: None,
            state: TargetState::new(),
            taken: Bytes::new(0),
            untold: (Bytes::new(0), Duration::ZERO),
            last: None,
            has_decided: false,
        }
    }

    /// The same cgroup with other settings.
    pub(super) fn with(mut self, settings: ReclaimSettings) -> Self {
        self.target.set(settings);
        self.settings = settings;
        self
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.target.is_due(now)
    }

    pub(super) fn status(&self) -> AgentTarget {
        let zero = Bytes::new(0);
        let (swapped_bytes, uncharged_bytes, floor_bytes) = self.last.unwrap_or((zero, None, zero));
        AgentTarget {
            loop_: AgentLoop::Reclaim,
            target: self.path.clone(),
            state: self.state.text().to_owned(),
            limit: AgentLimit::Reclaimed {
                reclaimed_bytes: self.taken,
                swapped_bytes,
                uncharged_bytes,
                floor_bytes,
            },
        }
    }

    /// Reads the cgroup, and takes memory if that is decided. Returns a line for the log.
    pub(super) fn handle(&mut self, at: &ReclaimRound<'_>) -> Option<String> {
        let names = at.processes.iter().map(String::as_str);
        if let Some(why) = at.obstacle {
            return self.set_aside(at.now, format!("left alone: {why}"));
        }
        if let Some(manager) = other_manager(&self.path, names) {
            let why = format!("left alone: {manager} manages the reclaim of this cgroup");
            return self.set_aside(at.now, why);
        }
        if let Some(why) = at.off {
            self.read(at);
            return self.set_aside(at.now, why.to_owned());
        }
        let Some(reading) = self.read(at) else {
            let why = "waits: there is no such memory cgroup now, or its counters are not readable";
            return self.set_aside(at.now, why.to_owned());
        };
        if self
            .no_ages
            .as_ref()
            .is_some_and(|(_, at_time)| at.now.saturating_sub(*at_time) >= RETRY_AGES)
        {
            self.no_ages = None;
            self.target.retry_ages();
        }
        let step = self.target.decide(at.now, &reading);
        let floor = self.target.floor(at.now, &reading);
        if let Some(last) = &mut self.last {
            last.2 = floor;
        }
        match step {
            ReclaimStep::Take(bytes, kind) if at.is_dry => {
                self.has_decided = true;
                let of = describe_kind(kind);
                self.set(at.now, format!("would take {bytes}{of} now"), "dry")
            }
            ReclaimStep::Age if at.is_dry => {
                self.has_decided = true;
                let text = "would age the cgroup, to see which pages are idle".to_owned();
                self.set(at.now, text, "dry")
            }
            ReclaimStep::Age => self.age(at, &reading),
            ReclaimStep::Take(bytes, kind) => self.take(at.now, bytes, kind),
            step => self.describe(at.now, step),
        }
    }

    fn read(&mut self, at: &ReclaimRound<'_>) -> Option<ReclaimReading> {
        let group = memory_cgroup(at.host, &self.path)?;
        let (mount, _) = memory_cgroups(at.host).filter(|(_, is_v2)| *is_v2)?;
        let folder = format!("{}/{}", mount.trim_end_matches('/'), self.path.trim_matches('/'));
        let cpu = CgroupCounters::new(Path::new(&folder), true).cpu(at.host)?;
        let zero = Bytes::new(0);
        let (file, shmem) = (group.file.get()?, group.shmem.get().unwrap_or(zero));
        let size = |name: &str| group.stat.get(name).get().map(Bytes::new);
        let protected = [&group.low, &group.min].map(|limit| match limit.get() {
            Some(Limit::Bytes(bytes)) => bytes,
            Some(Limit::Max) => Bytes::new(u64::MAX),
            None => zero,
        });
        let swapped = group.swap_current.get().unwrap_or(zero);
        let uncharged = at.swap.uncharged(&group);
        self.last = Some((swapped, uncharged, zero));
        Some(ReclaimReading {
            current: group.current.get()?,
            anon: group.anon.get()?,
            file: file.saturating_sub(shmem),
            mapped: size("file_mapped").unwrap_or(zero),
            shmem,
            unevictable: size("unevictable").unwrap_or(zero),
            protected: protected.into_iter().max().unwrap_or(zero),
            refaults: count_refaults(&group)?,
            cpu: Duration::from_micros(cpu.get()),
            stalled: group
                .pressure
                .some
                .total_us
                .get()
                .map(|time| Duration::from_micros(time.get())),
            swap: room_of(&group, at.swap.room.unwrap_or(SwapRoom::None)),
            refault_cost: at.refault_cost,
            can_choose: self.can_choose,
        })
    }

    fn age(&mut self, at: &ReclaimRound<'_>, reading: &ReclaimReading) -> Option<String> {
        let now = at.now;
        let aged = match at.no_aging {
            Some(why) => Err(anyhow::anyhow!("{why}")),
            None => aging::age_for_idle(&state_folder(), &self.path).map_err(anyhow::Error::from),
        };
        let idle = aged.and_then(|()| {
            Ok(aging::read_idle(&self.path, self.settings.idle_after.mul_f64(PUNCTUAL))?)
        });
        match idle {
            Ok((anon, file)) => {
                self.target.learn(now, Some(IdleMemory { anon, file }), reading);
                None
            }
            Err(error) => {
                self.target.learn(now, None, reading);
                let why = format!("{error:#}");
                let text = format!(
                    "takes little at a time, because it is not known which pages are idle: {why}"
                );
                self.no_ages = Some((why, now));
                self.set(now, text, "no ages")
            }
        }
    }

    fn take(&mut self, now: Duration, bytes: Bytes, kind: ReclaimKind) -> Option<String> {
        self.has_decided = true;
        let asked = (bytes, SLICE);
        match self.reclaimer.reclaim(&state_folder(), &self.path, asked, kind, LONGEST_STEP) {
            Ok(freed) => {
                self.target.finish(now, bytes, kind, freed);
                self.taken = self.taken.saturating_add(freed);
                self.untold.0 = self.untold.0.saturating_add(freed);
                let rate = self.target.refaults_per_second();
                self.state.show(format!(
                    "takes memory: {freed}{} now, {rate:.0} refaults/s",
                    describe_kind(kind)
                ));
                if self.state.mark_logged("takes") {
                    self.untold.1 = now;
                    return None;
                }
                let is_time = now.saturating_sub(self.untold.1) >= SUMMARY;
                if is_time { self.sum_up(now) } else { None }
            }
            Err(ReclaimError::CannotChoose) => {
                self.can_choose = false;
                None
            }
            Err(error) => {
                let why = anyhow::Error::new(error);
                self.set_aside(now, format!("nothing taken, or not all: {why:#}"))
            }
        }
    }

    /// What was taken since the last line of the log; `None` if nothing was.
    fn sum_up(&mut self, now: Duration) -> Option<String> {
        let (taken, _) = std::mem::replace(&mut self.untold, (Bytes::new(0), now));
        let rate = self.target.refaults_per_second();
        (taken.get() > 0).then(|| format!("took {taken}, {rate:.0} refaults/s"))
    }

    fn set_aside(&mut self, now: Duration, why: String) -> Option<String> {
        self.target.skip(now);
        self.has_decided = true;
        let kind = why.clone();
        self.set(now, why, &kind)
    }

    fn describe(&mut self, now: Duration, step: ReclaimStep) -> Option<String> {
        let (state, kind) = match step {
            ReclaimStep::FirstReading => {
                self.state.show("waits for the second reading");
                return None;
            }
            ReclaimStep::Learning(agings) => (
                format!("waits: it is aged {agings} more times before its idle pages are known"),
                "learns",
            ),
            ReclaimStep::Grows => ("waits: it grows, or has grown in the last minute".to_owned(), "grows"),
            ReclaimStep::Quiet => ("waits: it does far less than usual".to_owned(), "quiet"),
            ReclaimStep::AllInUse => {
                ("waits: no memory is idle above what it keeps".to_owned(), "in use")
            }
            ReclaimStep::CannotChoose => (
                "left alone: this kernel cannot be asked for one kind of memory alone, and there is swap".to_owned(),
                "kind",
            ),
            ReclaimStep::Braked(left, percent) => {
                let rate = self.target.refaults_per_second();
                let time = describe_time(left);
                (
                    format!("waits {time}: {rate:.0} refaults/s cost {percent:.1} % of its CPU time"),
                    "braked",
                )
            }
            ReclaimStep::Stalled(left) => {
                (format!("pauses for {}: its tasks waited for memory", describe_time(left)), "stalled")
            }
            ReclaimStep::InVain(left) => {
                (format!("waits {}: the kernel found nothing to take", describe_time(left)), "vain")
            }
            ReclaimStep::Age | ReclaimStep::Take(..) => return None,
        };
        self.has_decided = true;
        self.set(now, state, kind)
    }

    /// Returns a line for the log if the kind of the state is not the one that was said last.
    fn set(&mut self, now: Duration, state: String, kind: &str) -> Option<String> {
        let was_taking = self.state.is_logged("takes");
        if !self.state.set(state, kind) {
            return None;
        }
        let taken = if was_taking { self.sum_up(now) } else { None };
        let state = self.state.text();
        Some(taken.map_or_else(|| state.to_owned(), |taken| format!("{taken}; {state}")))
    }
}

/// Pages that were read or swapped in again. Kernels that count the pages that were swapped in by cgroup
/// (Linux 6.13) count more of them than as refaults.
pub(super) fn count_refaults(group: &Cgroup) -> Option<u64> {
    let swapped_in = ["pswpin", "zswpin"].map(|name| group.stat.get(name).get().unwrap_or(0));
    let anon = group.refault_anon.get()?.max(swapped_in.iter().sum());
    Some(group.refault_file.get()?.saturating_add(anon))
}

/// The room in swap for this cgroup, which may have a limit.
fn room_of(group: &Cgroup, room: SwapRoom) -> SwapRoom {
    let Some(Limit::Bytes(most)) = group.swap_max.get() else { return room };
    let left = most.saturating_sub(group.swap_current.get().unwrap_or_default());
    match room {
        _ if left.get() == 0 => SwapRoom::None,
        SwapRoom::Ram(free) => SwapRoom::Ram(free.min(left)),
        other => other,
    }
}

fn describe_kind(kind: ReclaimKind) -> &'static str {
    match kind {
        ReclaimKind::Any => "",
        ReclaimKind::Anon => " of anonymous memory",
        ReclaimKind::File => " of page cache",
    }
}

fn scale(bytes: Bytes, share: f64) -> Bytes {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size in memory")]
    let scaled = (bytes.get() as f64 * share.max(0.0)) as u64;
    Bytes::new(scaled)
}
