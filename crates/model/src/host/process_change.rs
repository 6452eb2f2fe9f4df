// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How processes changed over an interval.
//!
//! Process ids are reused. The same id in both snapshots is therefore the same process only if it
//! started before the earlier snapshot was taken. A process that started or exited between the
//! snapshots, or was read in only one of them, has no [`ProcessChange`]; a process that started
//! recently can be recognised by [`crate::Snapshot::age`].

use crate::{Bytes, Interval, Millis, Process, Snapshot};

/// One process as it was in both snapshots of an interval.
#[derive(Debug, Clone, Copy)]
pub struct ProcessChange<'a> {
    /// The process in the earlier snapshot. It has sizes of anonymous memory and swap and, only if
    /// they were requested, times.
    pub start: &'a Process,
    /// The process in the later snapshot.
    pub end: &'a Process,
    /// Time between the two snapshots, in seconds.
    pub seconds: f64,
}

impl Interval {
    /// The changes of every process that is known in both snapshots, in order of process id.
    pub fn process_changes(&self) -> Vec<ProcessChange<'_>> {
        let (Some(seconds), Some(before)) = (self.seconds(), self.start.as_deref()) else {
            return Vec::new();
        };
        // both lists are in order of process id
        let mut earlier = before.processes.list.iter().peekable();
        let changes = self.end.processes.list.iter().filter_map(|end| {
            while earlier.next_if(|start| start.pid < end.pid).is_some() {}
            let start = earlier.next_if(|start| start.pid == end.pid)?;
            change_between(before, start, end, seconds)
        });
        changes.collect()
    }

    /// The change of a process of the later snapshot; `None` if the earlier snapshot does not
    /// contain it.
    pub fn process_change<'a>(&'a self, end: &'a Process) -> Option<ProcessChange<'a>> {
        let seconds = self.seconds()?;
        let before = self.start.as_deref()?;
        let list = &before.processes.list;
        let start = &list[list.binary_search_by_key(&end.pid, |process| process.pid).ok()?];
        change_between(before, start, end, seconds)
    }
}

/// The change between two entries with the same process id; `None` if they are different processes.
fn change_between<'a>(
    before: &Snapshot,
    start: &'a Process,
    end: &'a Process,
    seconds: f64,
) -> Option<ProcessChange<'a>> {
    let begun = end.start_time.get()?;
    let same = match start.start_time.get() {
        Some(then) => then == begun,
        None => begun <= before.taken.uptime.get()?,
    };
    same.then_some(ProcessChange { start, end, seconds })
}

impl ProcessChange<'_> {
    /// Growth of the process's anonymous memory in bytes, in RAM and in swap together; negative if
    /// it shrank.
    pub fn growth(&self) -> Option<i64> {
        difference(self.start.anonymous()?, self.end.anonymous()?)
    }

    /// Growth of the process's anonymous memory in bytes per second.
    pub fn growth_per_second(&self) -> Option<f64> {
        Some(self.growth()? as f64 / self.seconds)
    }

    /// Growth of the process's memory in swap in bytes; negative if pages were swapped in.
    pub fn swap_growth(&self) -> Option<i64> {
        difference(self.start.swap.get()?, self.end.swap.get()?)
    }

    /// CPU time of all threads of the process over the interval. `None` unless times were read in
    /// both snapshots.
    pub fn cpu_time(&self) -> Option<Millis> {
        let (before, after) = (self.start.cpu_time.get()?, self.end.cpu_time.get()?);
        after.get().checked_sub(before.get()).map(Millis::new)
    }

    /// CPU time of the process in percent of one CPU: more than 100 if several threads ran.
    pub fn cpu_percent(&self) -> Option<f64> {
        Some(self.cpu_time()?.get() as f64 / 10.0 / self.seconds)
    }

    /// Major page faults of the process over the interval. `None` unless times were read in both
    /// snapshots.
    pub fn major_faults(&self) -> Option<u64> {
        self.end.major_faults.get()?.checked_sub(self.start.major_faults.get()?)
    }
}

fn difference(before: Bytes, after: Bytes) -> Option<i64> {
    i64::try_from(i128::from(after.get()) - i128::from(before.get())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Name, Reading, Source};

    const MIB: u64 = 1 << 20;

    fn found<T>(value: T) -> Reading<T> {
        Reading::found(value, Source::file("/proc/7/stat"))
    }

    fn process(pid: u32, anon: u64, swap: u64, begun: Option<u64>) -> Process {
        Process {
            pid,
            rss_anon: found(Bytes::new(anon * MIB)),
            swap: found(Bytes::new(swap * MIB)),
            start_time: begun.map_or_else(Reading::not_read, |begun| found(Millis::new(begun))),
            ..Process::default()
        }
    }

    fn snapshot_at(seconds: u32, list: Vec<Process>) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.taken.boot_id = found(Name::from("boot"));
        snapshot.taken.monotonic_seconds = seconds.into();
        snapshot.taken.uptime = found(Millis::new(u64::from(seconds) * 1000));
        snapshot.processes.list = list;
        snapshot
    }

    fn between(start: Vec<Process>, end: Vec<Process>) -> Interval {
        Interval { start: Some(Box::new(snapshot_at(100, start))), end: snapshot_at(102, end) }
    }

    #[test]
    fn growth_is_of_ram_and_swap_together() {
        let interval = between(
            vec![process(1, 5, 0, None), process(7, 10, 4, None)],
            vec![process(7, 8, 26, Some(90_000))],
        );
        let [change] = interval.process_changes()[..] else { panic!() };
        assert_eq!(change.growth(), Some(20 << 20));
        assert_eq!(change.growth_per_second(), Some(f64::from(10 << 20)));
        assert_eq!(change.swap_growth(), Some(22 << 20));
        assert_eq!((change.cpu_time(), change.major_faults()), (None, None));
        assert_eq!(interval.end.age(change.end), Some(Millis::new(12_000)));
    }

    /// The oracle looks each process up by itself.
    #[test]
    fn all_changes_are_those_of_each_process() {
        let start = [1, 4, 7, 9, 12].map(|pid| process(pid, 5, 0, Some(u64::from(pid))));
        let end = [2, 4, 6, 7, 12, 13].map(|pid| process(pid, 6, 0, Some(u64::from(pid) % 12)));
        let interval = between(start.to_vec(), end.to_vec());
        let each =
            interval.end.processes.list.iter().filter_map(|end| interval.process_change(end));
        let pids: Vec<u32> = each.map(|change| change.end.pid).collect();
        let all: Vec<u32> =
            interval.process_changes().iter().map(|change| change.start.pid).collect();
        assert_eq!((&all[..], &all), (&[4, 7][..], &pids));
    }

    #[test]
    fn an_id_that_was_given_out_again_is_another_process() {
        let changes =
            |start: Process, end: Process| between(vec![start], vec![end]).process_changes().len();
        assert_eq!(changes(process(7, 1, 0, None), process(7, 9, 0, Some(100_000))), 1);
        assert_eq!(changes(process(7, 1, 0, None), process(7, 9, 0, Some(100_010))), 0);
        assert_eq!(changes(process(7, 1, 0, Some(50)), process(7, 9, 0, Some(50))), 1);
        assert_eq!(changes(process(7, 1, 0, Some(50)), process(7, 9, 0, Some(60))), 0);
        assert_eq!(changes(process(7, 1, 0, Some(50)), process(7, 9, 0, None)), 0);
        assert_eq!(changes(process(6, 1, 0, None), process(7, 9, 0, Some(50))), 0);
    }

    #[test]
    fn times_have_rates_where_both_ends_have_them() {
        let timed = |cpu, faults| Process {
            cpu_time: found(Millis::new(cpu)),
            major_faults: found(faults),
            ..process(7, 1, 0, Some(50))
        };
        let interval = between(vec![timed(1_000, 5)], vec![timed(4_000, 9)]);
        let change = interval.process_changes()[0];
        assert_eq!((change.cpu_time(), change.major_faults()), (Some(Millis::new(3_000)), Some(4)));
        assert_eq!(change.cpu_percent(), Some(150.0));
        let reset = between(vec![timed(4_000, 9)], vec![timed(1_000, 5)]);
        assert_eq!(reset.process_changes()[0].cpu_time(), None);
    }

    #[test]
    fn nothing_changed_where_there_is_one_snapshot_or_another_boot() {
        let process = || vec![process(7, 1, 0, Some(50))];
        assert!(Interval::single(snapshot_at(1, process())).process_changes().is_empty());
        let mut interval = between(process(), process());
        interval.end.taken.boot_id = found(Name::from("another"));
        assert!(interval.process_changes().is_empty());
    }
}
