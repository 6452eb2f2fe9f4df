// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks every file that a snapshot reads and that `pagewise-hostfs` assumes to be returned by a
//! single read.

use pagewise_hostfs::{Entry, FIRST, HostRoot, ReadHost, absolute_path, is_returned_whole};
use pagewise_observe::{Scope, snapshot};
use rustix::fs::{Mode, OFlags};

/// After a short read the next read must return 0 bytes, for every such file.
#[test]
#[expect(clippy::disallowed_methods, reason = "reads what was read once more")]
fn files_that_come_whole_have_nothing_after_a_short_read() {
    let host = HostRoot::live().unwrap().start_remembering();
    let _ = snapshot(&host, &Scope::everything(std::time::Duration::ZERO));
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut seen = 0;
    for (path, _) in host.into_remembered_files().iter().filter(|(path, entry)| {
        is_returned_whole(path) && matches!(entry, Entry::File(bytes) if !bytes.is_empty())
    }) {
        // the process may have ended
        let Ok(file) = rustix::fs::open(absolute_path(path), flags, Mode::empty()) else {
            continue;
        };
        let mut buffer = vec![0; FIRST];
        let Ok(filled) = rustix::io::read(&file, &mut buffer) else { continue };
        if filled < FIRST {
            assert_eq!(rustix::io::read(&file, &mut buffer).unwrap_or(0), 0, "{path}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}
