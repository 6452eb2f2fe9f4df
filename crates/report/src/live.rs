// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The input of a live view: the content of a frame, [`LiveFrame`], and the user's choices,
//! [`LiveView`]; and its output, one [`LiveLine`] for each line of the screen.

use pagewise_model::{HostVerdict, Interval, LiveGroup, LiveProcess, LiveSample, LiveSubject};

use crate::text::Role;

/// How processes or groups are sorted, the largest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LiveOrder {
    /// Processes by resident size, cgroups by usage.
    #[default]
    Size,
    /// Processes or cgroups by growth of anonymous memory.
    Growth,
    /// Processes or cgroups by memory in swap.
    Swap,
    /// Processes by major faults, cgroups by refaults.
    Faults,
}

impl LiveOrder {
    /// The order that follows this one; after the last the first.
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

/// What the user has chosen to see in the live view.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveView {
    /// The order of the processes or cgroups.
    pub order: LiveOrder,
    /// Whether cgroups are shown instead of processes.
    pub groups: bool,
    /// The row that is selected.
    pub selected: Option<LiveSubject>,
    /// The process or cgroup whose details are shown.
    pub open: Option<LiveSubject>,
    /// Only names that contain this text are shown; case does not matter.
    pub filter: String,
    /// Whether typed characters are appended to the filter.
    pub is_typing: bool,
    /// Whether the view is frozen, so that nothing is read.
    pub is_frozen: bool,
    /// Whether the help for the keys is shown.
    pub shows_help: bool,
}

/// The position of the view in a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveReplay {
    /// The number of the reading that is shown, from 1.
    pub step: usize,
    /// The number of readings in the recording.
    pub steps: usize,
    /// When the present reading was taken, in seconds since 1970, UTC; 0 if the recording does not
    /// say.
    pub unix_seconds: f64,
    /// Seconds since the reading before; `None` at the first one.
    pub seconds_since_previous: Option<f64>,
    /// Whether the replay advances by itself.
    pub is_playing: bool,
    /// Speed of the replay: seconds of the recording per second of real time.
    pub pace: u32,
    /// Why the recording ends early, if it is incomplete.
    pub early: Option<String>,
    /// The step or time of the recording to jump to, while it is being typed.
    pub typed: Option<String>,
    /// Why the last jump in the recording was not possible.
    pub refused: Option<String>,
}

/// Everything that a frame shows.
#[derive(Debug, Clone, Copy)]
pub struct LiveFrame<'a> {
    /// The host at the last two readings.
    pub interval: &'a Interval,
    /// How short of memory the host is.
    pub verdict: &'a HostVerdict,
    /// Processes, groups and kswapd's CPU time.
    pub sample: &'a LiveSample,
    /// For each interval of the last minutes the share of time, in percent, in which a task was
    /// stalled on memory; oldest first.
    pub pressure: &'a [f64],
    /// The time that the values of `pressure` cover, in seconds.
    pub pressure_seconds: f64,
    /// OOM kills since the live view was started; `None` if the kernel does not count them.
    pub kills: Option<u64>,
    /// What the user has chosen to see.
    pub view: &'a LiveView,
    /// The position in a recording; `None` on a live machine.
    pub replay: Option<&'a LiveReplay>,
}

/// The size and the capabilities of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveWindow {
    /// Number of columns of the window.
    pub width: usize,
    /// Number of lines of the window.
    pub height: usize,
    /// Whether colours may be used; no information depends on them.
    pub colour: bool,
    /// Whether characters outside of ASCII can be shown.
    pub unicode: bool,
}

/// One line of a frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveLine {
    /// The pieces of text of the line, from the left.
    pub spans: Vec<LiveSpan>,
}

/// A piece of text of one role, without characters that a terminal would interpret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveSpan {
    /// The role of the text; [`Role::Plain`] if the window has no colours.
    pub role: Role,
    /// The text.
    pub text: String,
}

impl LiveLine {
    /// The line without roles.
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }
}

/// The processes that match the filter, in the selected order.
pub fn shown_processes<'a>(sample: &'a LiveSample, view: &LiveView) -> Vec<&'a LiveProcess> {
    let size = |bytes: pagewise_model::Bytes| bytes.get() as f64;
    let measure = |process: &LiveProcess| match view.order {
        LiveOrder::Size => Some(size(process.resident)),
        LiveOrder::Growth => process.growth_per_second,
        LiveOrder::Swap => process.swap.map(size),
        LiveOrder::Faults => process.faults_per_second,
    };
    sort_rows(&sample.processes, |process| process.name.as_str(), measure, &view.filter)
}

/// The groups that match the filter, in the selected order.
pub fn shown_groups<'a>(sample: &'a LiveSample, view: &LiveView) -> Vec<&'a LiveGroup> {
    let size = |bytes: pagewise_model::Bytes| bytes.get() as f64;
    let measure = |group: &LiveGroup| match view.order {
        LiveOrder::Size => Some(size(group.current)),
        LiveOrder::Growth => group.growth_per_second,
        LiveOrder::Swap => group.swap.map(size),
        LiveOrder::Faults => group.refaults_per_second,
    };
    sort_rows(&sample.groups, |group| group.path.as_str(), measure, &view.filter)
}

/// The rows that can be selected, in the order in which they are shown.
pub fn shown_subjects(sample: &LiveSample, view: &LiveView) -> Vec<LiveSubject> {
    if view.groups {
        let groups = shown_groups(sample, view).into_iter();
        return groups.map(|group| LiveSubject::Group(group.path.clone())).collect();
    }
    let processes = shown_processes(sample, view).into_iter();
    processes.map(|process| LiveSubject::Process(process.pid)).collect()
}

/// At most `rows` rows, including the selected one.
pub fn visible_rows<T>(all: &[T], selected: Option<usize>, rows: usize) -> &[T] {
    let first = selected.map_or(0, |at| (at + 1).saturating_sub(rows));
    all.get(first..(first + rows).min(all.len())).unwrap_or_default()
}

/// Sorts rows in descending order of a value; rows with equal values keep their order, and those
/// with unknown values come last.
fn sort_rows<'a, T>(
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
