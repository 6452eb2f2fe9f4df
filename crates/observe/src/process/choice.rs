// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chooses which processes are read, if there are more than a limit: those with the most memory in
//! RAM.
//!
//! The sizes of processes come from `statm`, the cheapest file of a process, read without recording
//! it: a recording of a machine with 50,000 processes would otherwise have more files than are read
//! of a recording. A recording has the number of processes that were left out, as the file
//! [`PATH`]. A recording with too many processes was not made by this program; of such a recording
//! the first ones are read.

use std::cmp::Reverse;

use pagewise_hostfs::text::number;
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues};
use pagewise_model::{Bytes, Pages};

use super::{helper, stat};

/// The file of a recording with the number of processes that were left out.
const PATH: &str = "processes/left_out";
/// Size in bytes of the buffer for `statm`, whose line is shorter.
const STATM: usize = 256;

/// The processes to read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The ids of the processes, in ascending order.
    pub(super) pids: Vec<u32>,
    /// Number of processes with memory that are left out.
    pub(super) left_out: u64,
}

/// Chooses at most `most` processes, of the `most_compared` with the lowest ids those with the most
/// memory. A process without memory, such as a kernel thread, is not counted as left out.
pub(super) fn choose(host: &HostRoot, most: usize, most_compared: usize) -> Chosen {
    host.keep_folder_open("proc");
    let skipped = if host.is_live() { helper::helpers_left_behind() } else { Vec::new() };
    let mut pids = host.list_numbers("proc", "");
    pids.retain(|pid| !skipped.contains(pid));
    let earlier = count_left_out_of_recording(host);
    if pids.len() <= most {
        return Chosen { pids, left_out: earlier };
    }
    let not_compared = pids.len().saturating_sub(most_compared) as u64;
    let compared = pids.into_iter().take(most_compared);
    let mut sizes: Vec<(Size, u32)> = compared.map(|pid| (size(host, pid), pid)).collect();
    sizes.sort_unstable_by_key(|(size, pid)| (Reverse(*size), *pid));
    let rest = sizes.split_off(most.min(sizes.len()));
    let with_memory = rest.iter().filter(|(size, _)| *size != Size::None).count() as u64;
    let mut pids: Vec<u32> = sizes.into_iter().map(|(_, pid)| pid).collect();
    pids.sort_unstable();
    let left_out = earlier.saturating_add(with_memory).saturating_add(not_compared);
    Chosen { pids, left_out }
}

/// Adds the number of processes that were left out to a recording of the live machine.
pub(super) fn record(host: &HostRoot, left_out: u64) {
    if host.is_live() && left_out > 0 {
        host.note(PATH, &Ok(format!("{left_out}\n").into_bytes()));
    }
}

fn count_left_out_of_recording(host: &HostRoot) -> u64 {
    if host.is_live() || !host.exists(PATH) {
        return 0;
    }
    host.value(PATH, "a number of processes", number).get().unwrap_or(0)
}

/// How much memory in RAM a process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Size {
    /// The process has ended or is a kernel thread.
    None,
    /// A recording does not contain the size of the process.
    Unknown,
    Pages(Pages),
}

fn size(host: &HostRoot, pid: u32) -> Size {
    let path = format!("proc/{pid}/statm");
    if !host.is_live() {
        return host.bytes(&path).map_or(Size::Unknown, |line| size_in(&line));
    }
    let mut buffer = [0; STATM];
    let file = host.stay_open(&path);
    let line = file.as_ref().and_then(|file| file.read(&mut buffer).ok());
    line.map_or(Size::None, size_in)
}

fn size_in(line: &[u8]) -> Size {
    // sizes are only compared, so a page may count as one byte
    let sizes = stat::sizes(line, Bytes::new(1));
    sizes.map_or(Size::None, |sizes| Size::Pages(Pages::new(sizes.resident.get())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::file;

    fn host(files: impl IntoIterator<Item = (String, String)>) -> HostRoot {
        HostRoot::memory(files.into_iter().map(|(path, text)| file(path, text)))
    }

    fn statm(pid: u32, resident: u64) -> (String, String) {
        (format!("proc/{pid}/statm"), format!("9000 {resident} 4 0 0 0 0\n"))
    }

    #[test]
    fn the_largest_processes_are_chosen_in_order_of_their_ids() {
        let sizes = [(1, 50), (2, 10), (3, 40), (4, 90), (7, 20)];
        let files = sizes.map(|(pid, resident)| statm(pid, resident));
        let none = [("proc/5/statm", "0 0 0 0 0 0 0\n"), ("proc/6/comm", "no sizes\n")];
        let none = none.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let host = host(files.into_iter().chain(none));
        let choose = |most, compared| {
            let Chosen { pids, left_out } = choose(&host, most, compared);
            (pids, left_out)
        };
        assert_eq!(choose(7, 7), (vec![1, 2, 3, 4, 5, 6, 7], 0));
        // of 7 ids, that of the kernel thread is dropped first and is no process that is left out
        assert_eq!(choose(6, 7), (vec![1, 2, 3, 4, 6, 7], 0));
        assert_eq!(choose(3, 7), (vec![1, 3, 4], 3));
        // whatever is not compared counts as left out
        assert_eq!(choose(2, 3), (vec![1, 3], 1 + 4));
        assert_eq!(choose(3, 3), (vec![1, 2, 3], 4));
    }

    #[test]
    fn a_recording_says_how_many_were_left_out_when_it_was_made() {
        let files = |left_out: &str| {
            let files = [statm(1, 5), statm(2, 6), (PATH.to_owned(), left_out.to_owned())];
            choose(&host(files), 2, 2)
        };
        assert_eq!(files("38000\n"), Chosen { pids: vec![1, 2], left_out: 38_000 });
        assert_eq!(files("many\n").left_out, 0);
    }
}
