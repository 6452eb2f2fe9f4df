// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The record of the service belongs to a user of its own. Root reads it, but not through a link of
//! that user.

use std::os::unix::fs::{chown, lchown, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::program::{finish, pagewise};

/// Any user but root.
const OTHER: Option<u32> = Some(12_345);

fn record_once(folder: &Path) {
    let record = folder.to_str().unwrap();
    let mut command = pagewise(&["monitor", "--no-listen", "--every", "1s", "--record", record]);
    let mut monitor = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let has_reading = || {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut rings = files.filter(|file| file.path().extension().is_some_and(|it| it == "ring"));
        rings.any(|ring| ring.metadata().is_ok_and(|ring| ring.len() > 100))
    };
    let found = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        has_reading()
    });
    monitor.kill().unwrap();
    monitor.wait().unwrap();
    assert!(found, "no reading within a minute");
}

#[test]
fn root_reads_the_record_of_another_user_and_follows_no_link_of_theirs() {
    let place = tempfile::tempdir().unwrap();
    let record = place.path().join("record");
    record_once(&record);
    for file in std::fs::read_dir(&record).unwrap() {
        chown(file.unwrap().path(), OTHER, OTHER).unwrap();
    }
    chown(&record, OTHER, OTHER).unwrap();
    let why = |folder: &Path| finish(&mut pagewise(&["why", "--record", folder.to_str().unwrap()]));
    let read = why(&record);
    assert!(
        matches!(read.status, 0 | 3) && read.out.contains("reading"),
        "{} {}",
        read.out,
        read.err
    );
    let same = finish(&mut pagewise(&[
        "compare",
        "--at",
        "2100-01-01 00:00",
        "--at",
        "2100-01-01 00:01",
        "--record",
        record.to_str().unwrap(),
    ]));
    assert!(same.status == 1 && same.err.contains("none near that time"), "{}", same.err);

    let link = place.path().join("link");
    symlink(&record, &link).unwrap();
    lchown(&link, OTHER, OTHER).unwrap();
    let refused = why(&link);
    assert!(
        refused.status == 1 && refused.err.contains("no record that may be read"),
        "{}",
        refused.err
    );
}
