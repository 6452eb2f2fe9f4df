// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the limits on address space from `/proc/PID/limits` into [`Process`].
//!
//! A line is the name of the limit, the soft limit, the hard limit and the unit; a limit is a number
//! or `unlimited`. The soft limit is what the kernel compares with. The file may be read of any
//! process that can be seen. A limit of less than 64 MiB is not searched for: it costs a file per
//! process, and nearly all processes are smaller than that.

use std::cmp::Reverse;

use pagewise_model::{Bytes, Limit, Process, Reading, Source};

use crate::limits::PROCESS_LIMITS;
use pagewise_hostfs::text::{NO_LINE, number, words};
use pagewise_hostfs::{HostRoot, ReadValues, absolute_path};

/// Limits of processes smaller than this are not read.
const LARGE: Bytes = Bytes::new(64 << 20);

const ADDRESS_SPACE: &[u8] = b"Max address space";
const DATA: &[u8] = b"Max data size";

/// Reads the limits of the processes with the most private writable address space.
pub(super) fn read_of_largest(host: &HostRoot, list: &mut [Process]) {
    let is_large = |process: &&mut Process| process.virtual_size.get() >= Some(LARGE);
    let mut large: Vec<&mut Process> = list.iter_mut().filter(is_large).collect();
    large.sort_by_key(|process| {
        (Reverse((process.data.get(), process.virtual_size.get())), process.pid)
    });
    large.into_iter().take(PROCESS_LIMITS).for_each(|process| read(host, process));
}

fn read(host: &HostRoot, process: &mut Process) {
    let path = format!("proc/{}/limits", process.pid);
    let text = match host.text(&path) {
        Ok(text) => text,
        Err(refusal) => {
            let source = Source::file(absolute_path(&path));
            process.address_space_limit = refusal.clone().reading(source.clone());
            process.data_limit = refusal.reading(source);
            return;
        }
    };
    process.address_space_limit = Reading::absent(NO_LINE, text.source());
    process.data_limit = Reading::absent(NO_LINE, text.source());
    for line in text.lines() {
        let fields =
            [(ADDRESS_SPACE, &mut process.address_space_limit), (DATA, &mut process.data_limit)];
        for (name, field) in fields {
            if let Some(rest) = line.bytes.strip_prefix(name) {
                *field = line.reading(host, "a number of bytes or unlimited", soft_limit(rest));
            }
        }
    }
}

fn soft_limit(rest: &[u8]) -> Option<Limit> {
    match words(rest).next()? {
        b"unlimited" => Some(Limit::Max),
        digits => number(digits).map(|bytes| Limit::Bytes(Bytes::new(bytes))),
    }
}

#[cfg(test)]
mod tests {
    use pagewise_model::Outcome;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{denied_entry, host, mangle};
    use pagewise_hostfs::Entry;

    /// The file on Linux 6.12, shortened.
    const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max data size             unlimited            unlimited            bytes     
Max stack size            8388608              unlimited            bytes     
Max address space         209715200            4294967296           bytes     
";

    fn large(pid: u32, mib: u64) -> Process {
        let size = Reading::found(Bytes::new(mib << 20), Source::none());
        Process { pid, data: size.clone(), virtual_size: size, ..Process::default() }
    }

    fn limits_in(text: &str) -> Process {
        let mut list = [large(7, 100)];
        read_of_largest(&host([("proc/7/limits", text)]), &mut list);
        list[0].clone()
    }

    #[test]
    fn the_soft_limits_are_read_with_their_lines() {
        let process = limits_in(LIMITS);
        let at = |line| Source::line("/proc/7/limits", line);
        let limit = Limit::Bytes(Bytes::new(200 << 20));
        assert_eq!(process.address_space_limit, Reading::found(limit, at(5)));
        assert_eq!(process.data_limit, Reading::found(Limit::Max, at(3)));
    }

    #[test]
    fn a_limit_that_cannot_be_read_is_not_known() {
        let without: String = LIMITS.lines().filter(|line| !line.contains("address")).collect();
        assert_eq!(limits_in(&without).address_space_limit.get(), None);
        let garbled = limits_in(&LIMITS.replace("209715200", "-1"));
        assert_eq!(garbled.address_space_limit.get(), None);
        assert_eq!(garbled.data_limit.get(), Some(Limit::Max));
        let mut list = [large(7, 100), large(8, 100)];
        read_of_largest(&HostRoot::memory([denied_entry("proc/7/limits")]), &mut list);
        assert!(list[0].address_space_limit.is_denied() && list[0].data_limit.is_denied());
        assert!(matches!(list[1].data_limit.outcome, Outcome::Absent(_)));
    }

    #[test]
    fn only_the_largest_processes_are_asked() {
        let mut list: Vec<Process> = (1..=100).map(|pid| large(pid, 20 + u64::from(pid))).collect();
        let files = (1..=100).map(|pid| (format!("proc/{pid}/limits"), Entry::File(LIMITS.into())));
        read_of_largest(&HostRoot::memory(files), &mut list);
        let is_read = |process: &&Process| process.data_limit.get().is_some();
        let pids: Vec<u32> = list.iter().filter(is_read).map(|process| process.pid).collect();
        assert_eq!(pids, (44..=100).collect::<Vec<u32>>());
        let mut more: Vec<Process> =
            (1..=100).map(|pid| large(pid, 100 + u64::from(pid))).collect();
        let files = (1..=100).map(|pid| (format!("proc/{pid}/limits"), Entry::File(LIMITS.into())));
        read_of_largest(&HostRoot::memory(files), &mut more);
        let pids: Vec<u32> = more.iter().filter(is_read).map(|process| process.pid).collect();
        assert_eq!(pids, (37..=100).collect::<Vec<u32>>());
    }

    proptest! {
        #[test]
        fn no_limits_file_panics(text in mangle(LIMITS)) {
            let mut list = [large(7, 100)];
            read_of_largest(&host([("proc/7/limits", text)]), &mut list);
        }
    }
}
