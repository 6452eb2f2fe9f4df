// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A zram device that a file names: reads it, asks `pagewise_agent` what to do, and does it.

use std::collections::BTreeMap;
use std::time::Duration;

use pagewise_agent::{FlashAccount, ZramReading, ZramRound, ZramSettings, ZramStep, ZramTarget};
use pagewise_apply::zram::{self, Writeback, WritebackEnd};
use pagewise_apply::{AgentFiles, state_folder};
use pagewise_model::{AgentLimit, AgentLoop, AgentTarget, Bytes, Zram};
use pagewise_observe::{HostGauges, HostRoot};
use pagewise_report::text;

use super::target_state::TargetState;

/// The most that is written at a time: afterwards, the budget and signals are checked.
const SLICE: Bytes = Bytes::new(16 << 20);
/// Kinds of idle pages in the order in which they are written: incompressible ones first, which take
/// the most RAM each. Old kernels do not know the first.
const KINDS: [&str; 2] = ["huge_idle", "idle"];
/// A device whose use has risen above this share of what it can take is reported.
const NEARLY_FULL: f64 = 0.9;
/// Below this share, a later rise is reported again.
const NOT_FULL: f64 = 0.8;
/// A smaller change of RAM without a writeback is not worth a line in the log.
const NOTEWORTHY: u64 = 1 << 20;
/// The kind of a state that always belongs in the log.
const NEWS: &str = "news";

/// What was written to flash, by device; on disk before anything is written.
#[derive(Debug)]
pub(super) struct Flash<'a> {
    pub(super) accounts: &'a mut BTreeMap<String, FlashAccount>,
    /// Why the accounts are not known: then nothing may be written.
    pub(super) unknown: Option<&'a str>,
    pub(super) files: Option<&'a AgentFiles>,
}

impl Flash<'_> {
    fn account(&mut self, name: &str) -> &mut FlashAccount {
        self.accounts.entry(name.to_owned()).or_default()
    }

    fn save(&self) -> anyhow::Result<()> {
        match self.files {
            Some(files) => Ok(files.write_flash(self.accounts)?),
            None => anyhow::bail!("there is no file to record it in"),
        }
    }
}

/// What a device needs in one round.
pub(super) struct DeviceRound<'a> {
    pub(super) host: &'a HostRoot,
    /// Why the loop does nothing now; `None` if it may act.
    pub(super) off: Option<&'a str>,
    pub(super) now: Duration,
    pub(super) unix_now: u64,
    pub(super) is_dry: bool,
    pub(super) flash: Flash<'a>,
    /// Whether CPU time is left and no signal came.
    pub(super) may_go_on: &'a mut dyn FnMut() -> bool,
    /// Lines for the log.
    pub(super) lines: Vec<String>,
}

/// What is left to do after a part of a writeback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteEnd {
    Complete,
    /// The limit of the day is reached.
    Spent,
    Full,
    /// The budget of CPU time is used up, or a signal came.
    Interrupted,
}

#[derive(Debug)]
pub(super) struct Device {
    /// Name below `/sys/block`.
    pub(super) name: String,
    number: u32,
    target: ZramTarget,
    settings: ZramSettings,
    state: TargetState,
    is_nearly_full: bool,
    flash_today: Bytes,
    pub(super) has_decided: bool,
}

impl Device {
    pub(super) fn new(name: &str, settings: ZramSettings) -> Self {
        Self {
            name: name.to_owned(),
            // the configuration has checked it
            number: name.trim_start_matches("zram").parse().unwrap_or(u32::MAX),
            target: ZramTarget::new(settings),
            settings,
            state: TargetState::new(),
            is_nearly_full: false,
            flash_today: Bytes::new(0),
            has_decided: false,
        }
    }

    /// The same device with other settings.
    pub(super) fn with(mut self, settings: ZramSettings) -> Self {
        self.target.set(settings);
        self.settings = settings;
        self
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.target.is_due(now)
    }

    pub(super) fn status(&self) -> AgentTarget {
        AgentTarget {
            loop_: AgentLoop::Zram,
            target: self.name.clone(),
            state: self.state.text().to_owned(),
            limit: AgentLimit::Flash {
                flash_bytes_today: self.flash_today,
                flash_bytes_per_day: self.settings.flash_per_day,
            },
        }
    }

    /// Reads the device, and acts on its unused pages.
    pub(super) fn handle(&mut self, at: &mut DeviceRound<'_>) {
        let found = HostGauges(at.host).zram_device(self.number);
        let (Some(zram), Some(epoch)) = (found, zram::epoch(self.number)) else {
            self.set_aside("waits: there is no such zram device now".to_owned(), at);
            return;
        };
        if zram.initialised.get() != Some(true) {
            self.set_aside("waits: its disksize is not set".to_owned(), at);
            return;
        }
        self.warn(&zram, at);
        if let Some(counter) = zram.bd_stat.writes.get() {
            at.flash.account(&self.name).count(at.unix_now, &epoch, counter);
        }
        self.flash_today = at.flash.account(&self.name).written();
        if let Some(why) = at.off {
            self.set_aside(why.to_owned(), at);
            return;
        }
        let reading = ZramReading {
            no_writeback: self.describe_no_writeback(&zram, &at.flash),
            priorities: zram.secondary.iter().map(|secondary| secondary.priority).collect(),
            epoch,
        };
        match self.target.decide(at.now, &reading) {
            ZramStep::Nothing(why) => self.set_aside(format!("left alone: {why}"), at),
            ZramStep::Wait(left) => {
                self.has_decided = true;
                let time = describe_time(left);
                self.state.show(format!("waits {time} until pages were unused for long enough"));
            }
            ZramStep::Round(round) if at.is_dry => {
                self.has_decided = true;
                self.set(describe_plan(&round, &self.settings), "dry", at);
            }
            ZramStep::Round(round) => match self.act(&zram, &reading.epoch, &round, at) {
                Ok(kind) => {
                    let is_new = self.state.mark_logged(kind);
                    if kind == NEWS || !kind.is_empty() && is_new {
                        at.lines.push(self.state.text().to_owned());
                    }
                }
                Err(error) => {
                    self.set_aside(format!("not done, or not completed: {error:#}"), at);
                }
            },
        }
        self.flash_today = at.flash.account(&self.name).written();
    }

    /// Why the device cannot write pages to a backing device; `None` if it can.
    fn describe_no_writeback(&self, zram: &Zram, flash: &Flash<'_>) -> Option<String> {
        if let Some(why) = flash.unknown {
            return Some(why.to_owned());
        }
        if zram.bd_stat.writes.get().is_none() || !zram::can_limit_writeback(self.number) {
            return Some("this kernel has no writeback of zram".to_owned());
        }
        if zram.backing_device.value().is_none() {
            return Some("it has no backing device (backing_dev)".to_owned());
        }
        None
    }

    /// Says once that the device is nearly full.
    fn warn(&mut self, zram: &Zram, at: &mut DeviceRound<'_>) {
        let Some((share, of_what)) = fullest(at.host, zram) else { return };
        if share >= NEARLY_FULL && !self.is_nearly_full {
            self.is_nearly_full = true;
            at.lines.push(format!(
                "warning: {:.0} % of {of_what} are used; when it is full, pages go to other swap, or programs are killed",
                share * 100.0
            ));
        } else if share < NOT_FULL {
            self.is_nearly_full = false;
        }
    }

    /// Returns the kind of the state: [`NEWS`] belongs in the log, nothing does not, and another kind if
    /// the last one was not the same.
    fn act(
        &mut self,
        zram: &Zram,
        epoch: &str,
        round: &ZramRound,
        at: &mut DeviceRound<'_>,
    ) -> anyhow::Result<&'static str> {
        if let Some(time) = round.mark_by_age {
            let takes_age = zram::mark_idle(self.number, Some(time))?;
            self.target.learn(at.now, takes_age);
            if !takes_age {
                self.state.show("waits: this kernel does not know how long pages were unused");
                return Ok("");
            }
        }
        self.has_decided = true;
        for priority in &round.recompress {
            zram::recompress(self.number, *priority)?;
        }
        let written_before = at.flash.account(&self.name).written().get();
        let mut end = WriteEnd::Complete;
        if round.writes_back {
            end = self.write_back(epoch, at)?;
        }
        let written = at.flash.account(&self.name).written().get().saturating_sub(written_before);
        let written = Bytes::new(written);
        if end == WriteEnd::Interrupted {
            self.target.leave_unfinished(at.now);
        } else if round.marks_all {
            zram::mark_idle(self.number, None)?;
            self.target.mark(at.now, epoch);
        }
        let after = HostGauges(at.host).zram_device(self.number);
        let ram = |zram: &Zram| zram.mm_stat.memory_used.get();
        let (before, after) = (ram(zram), after.as_ref().and_then(ram));
        self.state.show(self.describe_round(zram, written, (before, after), end));
        let freed = before.zip(after).map_or(0, |(was, is)| was.get().saturating_sub(is.get()));
        Ok(match end {
            _ if written.get() > 0 || freed >= NOTEWORTHY => NEWS,
            WriteEnd::Spent => "spent",
            WriteEnd::Full => "full",
            WriteEnd::Complete | WriteEnd::Interrupted => "",
        })
    }

    /// Writes idle pages to the backing device until there are none or a limit is reached.
    fn write_back(&self, epoch: &str, at: &mut DeviceRound<'_>) -> anyhow::Result<WriteEnd> {
        if at.flash.account(&self.name).left(self.settings.flash_per_day).get() == 0 {
            return Ok(WriteEnd::Spent);
        }
        let (mut writeback, left_behind) = Writeback::begin(&state_folder(), self.number, epoch)?;
        at.lines.extend(left_behind.iter().flat_map(text::describe_recovered));
        let mut written = Ok(WriteEnd::Complete);
        for kind in KINDS {
            written = self.write_kind(kind, &mut writeback, epoch, at);
            if !matches!(written, Ok(WriteEnd::Complete)) {
                break;
            }
        }
        let saved = at.flash.save();
        writeback.end()?;
        saved?;
        written
    }

    fn write_kind(
        &self,
        kind: &str,
        writeback: &mut Writeback,
        epoch: &str,
        at: &mut DeviceRound<'_>,
    ) -> anyhow::Result<WriteEnd> {
        loop {
            let left = at.flash.account(&self.name).left(self.settings.flash_per_day);
            if left.get() == 0 {
                return Ok(WriteEnd::Spent);
            }
            if !(at.may_go_on)() {
                return Ok(WriteEnd::Interrupted);
            }
            let slice = left.min(SLICE);
            let before = at.flash.account(&self.name).written();
            at.flash.account(&self.name).grant(slice);
            at.flash.save()?;
            let end = writeback.write(kind, slice);
            let counter = HostGauges(at.host).zram_device(self.number);
            // if it cannot be read, what was granted stays granted
            if let Some(counter) = counter.and_then(|zram| zram.bd_stat.writes.get()) {
                at.flash.account(&self.name).count(at.unix_now, epoch, counter);
            }
            match end? {
                WritebackEnd::Complete | WritebackEnd::UnknownKind => {
                    return Ok(WriteEnd::Complete);
                }
                WritebackEnd::Full => return Ok(WriteEnd::Full),
                // the kernel returns the same error for a write that failed
                WritebackEnd::LimitReached => anyhow::ensure!(
                    at.flash.account(&self.name).written() > before,
                    "the backing device took none of the pages: dmesg may say why"
                ),
            }
        }
    }

    fn describe_round(
        &self,
        zram: &Zram,
        written: Bytes,
        (before, after): (Option<Bytes>, Option<Bytes>),
        end: WriteEnd,
    ) -> String {
        let mut parts = Vec::new();
        if written.get() > 0 {
            let to = zram.backing_device.value().map(ToString::to_string).unwrap_or_default();
            parts.push(format!("wrote {written} of unused pages to {to}"));
        }
        if let Some((before, after)) = before.zip(after) {
            if before > after {
                parts.push(format!("{before} → {after} of RAM"));
            } else {
                parts.push(format!("uses {after} of RAM"));
            }
        }
        match end {
            WriteEnd::Spent => {
                parts.push(format!("today's {} of flash are spent", self.settings.flash_per_day));
            }
            WriteEnd::Full => parts.push("the backing device is full".to_owned()),
            WriteEnd::Interrupted => parts.push("goes on later".to_owned()),
            WriteEnd::Complete => {}
        }
        parts.join(", ")
    }

    /// Nothing can be done about it now; says so once.
    fn set_aside(&mut self, why: String, at: &mut DeviceRound<'_>) {
        self.target.skip(at.now);
        self.has_decided = true;
        let kind = why.clone();
        self.set(why, &kind, at);
    }

    /// Sets the state, and adds it to the log if its kind is not the one that was said last.
    fn set(&mut self, state: String, kind: &str, at: &mut DeviceRound<'_>) {
        if self.state.set(state, kind) {
            at.lines.push(self.state.text().to_owned());
        }
    }
}

fn describe_plan(round: &ZramRound, settings: &ZramSettings) -> String {
    let mut parts = Vec::new();
    if !round.recompress.is_empty() {
        parts.push("recompress pages".to_owned());
    }
    if round.writes_back {
        parts.push(format!("write at most {} per day to flash", settings.flash_per_day));
    }
    if parts.is_empty() {
        parts.push("mark all pages, and see which are used".to_owned());
    }
    let time = describe_time(settings.idle_after);
    format!("would {}, of those unused for {time}", parts.join(", and "))
}

/// A time as people say it, in seconds or minutes.
pub(super) fn describe_time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

/// The largest share of a limit that the device has reached, and of which limit.
fn fullest(host: &HostRoot, zram: &Zram) -> Option<(f64, String)> {
    let stat = &zram.mm_stat;
    let disksize = zram.disksize.get();
    let limit = stat.memory_limit.get();
    let backing = zram.backing_device.value().and_then(|path| {
        let name = path.as_str().strip_prefix("/dev/")?;
        HostGauges(host).device_size(name)
    });
    let shares = [
        (stat.original.get(), disksize, "its disksize"),
        (stat.memory_used.get(), limit, "its limit on RAM"),
        (zram.bd_stat.held.get(), backing, "its backing device"),
    ];
    let share = |(used, whole, name): (Option<Bytes>, Option<Bytes>, &str)| {
        let whole = whole.filter(|whole| whole.get() > 0)?;
        Some((used?.get() as f64 / whole.get() as f64, format!("{name}, {whole},")))
    };
    shares.into_iter().filter_map(share).max_by(|one, other| one.0.total_cmp(&other.0))
}
