// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads System V shared memory and message queues: `/proc/sysvipc/shm` and `/proc/sysvipc/msg`.
//!
//! Both files list only what belongs to the IPC namespace of the reader, so the segments and queues
//! of most containers are missing. The kernel keeps a segment after the last process has detached
//! from it; its pages are part of `Shmem`. Messages are kernel memory. The first line names the
//! columns; kernels before 2.6.37 lack the last two columns of segments, the sizes in RAM and in
//! swap.

use std::cmp::Reverse;

use pagewise_model::{Bytes, MemoryFiles, MessageQueue, Reading, SharedSegment, Source};

use crate::limits::{KEPT_SEGMENTS, MESSAGE_QUEUES, SHARED_SEGMENTS};
use pagewise_hostfs::text::{Line, number};
use pagewise_hostfs::{HostRoot, ReadValues};

/// Reads both kinds into `files`: the largest of each.
pub(crate) fn read(host: &HostRoot, files: &mut MemoryFiles) {
    let mut segments: Vec<SharedSegment> =
        parse_rows(host, "proc/sysvipc/shm", SHARED_SEGMENTS, |line| parse_segment(host, line));
    segments.sort_by_key(|segment| (Reverse(segment.held_bytes()), segment.id));
    files.segments_left_out = segments.len().saturating_sub(KEPT_SEGMENTS) as u64;
    segments.truncate(KEPT_SEGMENTS);
    files.segments = segments;
    let mut queues: Vec<MessageQueue> =
        parse_rows(host, "proc/sysvipc/msg", MESSAGE_QUEUES, |line| parse_queue(host, line));
    queues.sort_by_key(|queue| (Reverse(queue.bytes.get()), queue.id));
    files.queues_left_out = queues.len().saturating_sub(KEPT_SEGMENTS) as u64;
    queues.truncate(KEPT_SEGMENTS);
    files.queues = queues;
}

/// Parses each line but the first; a line that is not understood becomes a Problem.
fn parse_rows<T>(
    host: &HostRoot,
    path: &str,
    most: usize,
    parse: impl Fn(&Line<'_>) -> Option<T>,
) -> Vec<T> {
    let Ok(text) = host.text(path) else { return Vec::new() };
    let lines = text.first_lines(host, most + 1).skip(1);
    let understood =
        |line: Line<'_>| line.check_parsed(host, "the columns of its first line", parse(&line));
    lines.filter_map(understood).collect()
}

/// Parses a segment: `key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss
/// swap`.
fn parse_segment(host: &HostRoot, line: &Line<'_>) -> Option<SharedSegment> {
    let columns: Vec<&[u8]> = line.words().collect();
    let column = |at: usize| columns.get(at).and_then(|word| number::<u64>(word));
    let size = |at: usize| match columns.get(at) {
        Some(word) => line.reading(host, "a size in bytes", number(word).map(Bytes::new)),
        None => Reading::absent("this kernel does not print it", line.source()),
    };
    let detached = column(12)?;
    Some(SharedSegment {
        id: column(1)?,
        size: size(3),
        creator: u32::try_from(column(4)?).ok()?,
        attached: line.reading(host, "a number of processes", column(6)),
        uid: line.reading(host, "a user id", column(7).and_then(|uid| u32::try_from(uid).ok())),
        detached_at: time(detached, line.source()),
        resident: size(14),
        swapped: size(15),
    })
}

/// Parses a queue: `key msqid perms cbytes qnum lspid lrpid uid gid cuid cgid stime rtime ctime`.
fn parse_queue(host: &HostRoot, line: &Line<'_>) -> Option<MessageQueue> {
    let columns: Vec<&[u8]> = line.words().collect();
    let column = |at: usize| columns.get(at).and_then(|word| number::<u64>(word));
    Some(MessageQueue {
        id: column(1)?,
        bytes: line.reading(host, "a size in bytes", column(3).map(Bytes::new)),
        messages: line.reading(host, "a number of messages", column(4)),
        uid: line.reading(host, "a user id", column(7).and_then(|uid| u32::try_from(uid).ok())),
        received_at: time(column(12)?, line.source()),
    })
}

/// A time in seconds since 1970, which is 0 if it never happened.
fn time(seconds: u64, source: Source) -> Reading<u64> {
    match seconds {
        0 => Reading::absent("it never happened", source),
        seconds => Reading::found(seconds, source),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use pagewise_hostfs::ReadHost;

    use super::*;
    use crate::testing::{host, mangle};

    /// The text as Linux 6.12 prints it; the key may be negative.
    const SHM: &str = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n         0          7   600             314572800   142   142      0  1000  1000  1000  1000 1764190000 1764190005 1764190000             314572800                  4096\n-559038737          8  1600                  8192   150   151      2     0     0     0     0          0          0 1764190000                  8192                     0\n";
    const MSG: &str = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime\n         0          3   644       16000         40   142     0  1000  1000  1000  1000 1764190000          0 1764190000\n";

    fn read_of(shm: impl AsRef<[u8]>, msg: impl AsRef<[u8]>) -> (MemoryFiles, usize) {
        let host = host([
            ("proc/sysvipc/shm", shm.as_ref().to_vec()),
            ("proc/sysvipc/msg", msg.as_ref().to_vec()),
        ]);
        let mut files = MemoryFiles::default();
        read(&host, &mut files);
        (files, host.take_problems().len())
    }

    #[test]
    fn segments_have_their_size_owner_and_whether_anybody_is_attached() {
        let (files, problems) = read_of(SHM, MSG);
        let [left, used] = files.segments.as_slice() else { panic!("{files:?}") };
        assert_eq!((left.id, left.attached.get(), left.uid.get()), (7, Some(0), Some(1000)));
        assert_eq!(left.held_bytes(), Some(Bytes::new(314_576_896)));
        assert_eq!((left.creator, left.detached_at.get()), (142, Some(1_764_190_005)));
        assert_eq!((used.id, used.attached.get(), used.detached_at.get()), (8, Some(2), None));
        let [queue] = files.queues.as_slice() else { panic!("{files:?}") };
        assert_eq!(
            (queue.id, queue.bytes.get(), queue.messages.get()),
            (3, Some(Bytes::new(16_000)), Some(40))
        );
        assert_eq!((queue.received_at.get(), problems), (None, 0));
    }

    #[test]
    fn without_the_last_columns_what_it_holds_is_not_known() {
        let old: String = SHM
            .lines()
            .map(|line| {
                let words: Vec<&str> = line.split_whitespace().take(14).collect();
                words.join(" ") + "\n"
            })
            .collect();
        let (files, problems) = read_of(old, "");
        assert_eq!((files.segments.len(), problems), (2, 0));
        assert!(files.segments.iter().all(|segment| segment.held_bytes().is_none()));
        assert_eq!(files.segments[0].resident.get(), None);
    }

    #[test]
    fn half_a_line_is_a_problem_and_nothing_more() {
        let (files, problems) = read_of(&SHM[..SHM.len() - 130], "head\n1 2");
        assert_eq!((files.segments.len(), files.queues.len()), (1, 0));
        assert!(problems >= 2, "{problems}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(shm in mangle(SHM), msg in mangle(MSG)) {
            read_of(shm, msg);
        }
    }
}
