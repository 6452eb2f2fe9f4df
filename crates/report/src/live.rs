// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a live view shows: [`LiveFrame`], and how the person who watches wants it: [`LiveView`].

use pagewise_model::{HostVerdict, Interval, LiveGroup, LiveProcess, LiveSample, LiveSubject};

/// What processes or groups are sorted by, the most first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LiveOrder {
    /// Resident size; of cgroups, usage.
    #[default]
    Size,
    /// Growth of anonymous memory.
    Growth,
    /// What is in swap.
    Swap,
    /// Major faults of processes; refaults of cgroups.
    Faults,
}

impl LiveOrder {
    /// The order after this one, the first after the last.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Size => Self::Growth,
            Self::Growth => Self::Swap,
            Self::Swap => Self::Faults,
            Self::Faults => Self::Size,
        }
    }
}

/// What the person who watches has chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveView {
    /// What comes first.
    pub order: LiveOrder,
    /// Cgroups are shown instead of processes.
    pub groups: bool,
    /// The row that is selected.
    pub selected: Option<LiveSubject>,
    /// The process or group whose details are shown.
    pub open: Option<LiveSubject>,
    /// Only names that contain this are shown; upper and lower case are the same.
    pub filter: String,
    /// Characters that are typed go into the filter.
    pub is_typing: bool,
    /// Nothing is read.
    pub is_frozen: bool,
    /// The keys are explained.
    pub shows_help: bool,
}

/// Where in a recording the view is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveReplay {
    /// The reading that is shown, from 1.
    pub step: usize,
    /// How many there are.
    pub steps: usize,
    /// When it was taken, in seconds since 1970, UTC; 0 if the recording does not say.
    pub unix_seconds: f64,
    /// Steps follow by themselves.
    pub is_playing: bool,
    /// Seconds of the recording that are played in one second.
    pub pace: u32,
    /// Why the recording has no more readings although it should.
    pub early: Option<String>,
    /// The step or time to jump to, while it is typed.
    pub typed: Option<String>,
    /// Why the last jump led nowhere.
    pub refused: Option<String>,
}

/// All that a frame shows.
#[derive(Debug, Clone, Copy)]
pub struct LiveFrame<'a> {
    /// The host at the last two readings.
    pub interval: &'a Interval,
    /// How short of memory it is.
    pub verdict: &'a HostVerdict,
    /// Processes, groups and kswapd.
    pub sample: &'a LiveSample,
    /// Share of each interval of the last minutes, in percent, in which a task waited for memory; the oldest first.
    pub pressure: &'a [f64],
    /// The time that these cover, in seconds.
    pub pressure_seconds: f64,
    /// OOM kills since the live view began; `None` if the kernel does not count them.
    pub kills: Option<u64>,
    /// What was chosen.
    pub view: &'a LiveView,
    /// Where in a recording this is; `None` on the machine itself.
    pub replay: Option<&'a LiveReplay>,
}

/// The size and the abilities of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveWindow {
    /// Columns.
    pub width: usize,
    /// Lines.
    pub height: usize,
    /// Whether colours may be used; nothing depends on them.
    pub colour: bool,
    /// Whether characters outside of ASCII can be shown.
    pub unicode: bool,
}

/// The processes that match the filter, in the order that was chosen.
pub fn shown_processes<'a>(sample: &'a LiveSample, view: &LiveView) -> Vec<&'a LiveProcess> {
    let size = |bytes: pagewise_model::Bytes| bytes.get() as f64;
    let measure = |process: &LiveProcess| match view.order {
        LiveOrder::Size => Some(size(process.resident)),
        LiveOrder::Growth => process.growth_per_second,
        LiveOrder::Swap => process.swap.map(size),
        LiveOrder::Faults => process.faults_per_second,
    };
    sorted(&sample.processes, |process| process.name.as_str(), measure, &view.filter)
}

/// The groups that match the filter, in the order that was chosen.
pub fn shown_groups<'a>(sample: &'a LiveSample, view: &LiveView) -> Vec<&'a LiveGroup> {
    let size = |bytes: pagewise_model::Bytes| bytes.get() as f64;
    let measure = |group: &LiveGroup| match view.order {
        LiveOrder::Size => Some(size(group.current)),
        LiveOrder::Growth => group.growth_per_second,
        LiveOrder::Swap => group.swap.map(size),
        LiveOrder::Faults => group.refaults_per_second,
    };
    sorted(&sample.groups, |group| group.path.as_str(), measure, &view.filter)
}

/// What can be selected, in the order of the rows.
pub fn shown_subjects(sample: &LiveSample, view: &LiveView) -> Vec<LiveSubject> {
    if view.groups {
        let groups = shown_groups(sample, view).into_iter();
        return groups.map(|group| LiveSubject::Group(group.path.clone())).collect();
    }
    let processes = shown_processes(sample, view).into_iter();
    processes.map(|process| LiveSubject::Process(process.pid)).collect()
}

/// So many rows of all, the selected one among them.
pub fn rows_around<T>(all: &[T], selected: Option<usize>, rows: usize) -> &[T] {
    let first = selected.map_or(0, |at| (at + 1).saturating_sub(rows));
    all.get(first..(first + rows).min(all.len())).unwrap_or_default()
}

/// The most first; equal ones stay in their order, and those that are not known come last.
fn sorted<'a, T>(
    all: &'a [T],
    name: impl Fn(&T) -> &str,
    measure: impl Fn(&T) -> Option<f64>,
    filter: &str,
) -> Vec<&'a T> {
    let filter = filter.to_lowercase();
    let matches = |one: &&T| filter.is_empty() || name(one).to_lowercase().contains(&filter);
    let mut shown: Vec<&T> = all.iter().filter(matches).collect();
    shown.sort_by(|one, other| {
        let known = |it: &T| measure(it).unwrap_or(f64::NEG_INFINITY);
        known(other).total_cmp(&known(one))
    });
    shown
}
