// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the contents of a process's pages may not get to: a disk.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::machine::{Loans, Place, run};
use pagewise_testkit::Target;

/// Pages are searched for this.
const MARKER: &str = "pagewise:a-secret-of-another-program";

/// An ext4 of our own in a file, mounted.
struct Disk {
    image: PathBuf,
    folder: PathBuf,
}

impl Disk {
    fn mount(loans: &mut Loans, below: &Path, mib: u32) -> Self {
        let (image, folder) = (below.join("image"), below.join("mounted"));
        let shown = image.display().to_string();
        std::fs::create_dir(&folder).unwrap();
        loans.promise(&format!("rm -f '{shown}'"));
        run("truncate", &["-s", &format!("{mib}M"), &shown]);
        run("mkfs.ext4", &["-q", "-F", &shown]);
        loans.promise(&format!("mountpoint -q '{0}' && umount '{0}'; true", folder.display()));
        run("mount", &["-o", "loop", &shown, &folder.display().to_string()]);
        Self { image, folder }
    }

    /// How often the image holds the marker, free blocks included.
    fn markers(&self) -> usize {
        run("umount", &[&self.folder.display().to_string()]);
        markers(&self.image)
    }
}

/// How often a file holds the marker.
fn markers(path: &Path) -> usize {
    let (mut file, wanted) = (File::open(path).unwrap(), MARKER.as_bytes());
    let (mut held, mut piece, mut found) = (Vec::new(), vec![0; 1 << 20], 0);
    loop {
        let length = file.read(&mut piece).unwrap();
        if length == 0 {
            return found;
        }
        held.extend_from_slice(&piece[..length]);
        found += count(&held, wanted);
        // so much can be the beginning of one, and none can be counted twice
        held.drain(..held.len().saturating_sub(wanted.len() - 1));
    }
}

fn count(bytes: &[u8], wanted: &[u8]) -> usize {
    let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == wanted[0]);
    starts.filter(|(at, _)| bytes[*at..].starts_with(wanted)).count()
}

fn target(mib: u32) -> Target {
    Target::start(&format!("marked {mib} {MARKER}"))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The marker is found where it is, so that none found means none there.
#[test]
fn contents_are_found_where_they_were_written() {
    let (place, target) = (Place::new(), target(4));
    let dump = place.folder.path().join("dump");
    let (pid, shown) = (target.pid().to_string(), dump.display().to_string());
    done(&place, &["scan", "--pid", &pid, "--exact", "--dump", &shown]);
    assert!(markers(&dump) >= 16 * 1024, "{}", markers(&dump));
}

/// Runs it to its end, which must be a good one.
fn done(place: &Place, arguments: &[&str]) -> String {
    let output = place.output(arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn contents_never_reach_the_disk_that_bench_measures() {
    let (mut place, target) = (Place::new(), target(32));
    let below = place.folder.path().to_owned();
    let disk = Disk::mount(&mut place.loans, &below, 640);
    let (pid, on) = (target.pid().to_string(), disk.folder.display().to_string());
    let words = ["bench", "--quick", "--size", "24M", "--pid", &pid, "--disk", &on, "--json"];
    let said: serde_json::Value = serde_json::from_str(&done(&place, &words)).unwrap();
    let references = said["references"].as_array().unwrap();
    let written = |one: &serde_json::Value| {
        one["name"] == "disk" && one["direction"] == "write" && one["p50_ns"].as_f64() > Some(0.0)
    };
    assert!(references.iter().any(written), "{references:?}");
    let against_the_disk = said["cost_ratios"].as_array().map_or(0, Vec::len);
    assert_eq!((disk.markers(), against_the_disk > 0), (0, true), "{}", said["not_measured"]);
}

/// Where a program may be swapped to another device than ours, its pages could get to that.
#[test]
fn contents_never_reach_swap_on_a_disk() {
    let (mut place, target) = (Place::new(), target(32));
    let below = place.folder.path().to_owned();
    let swap = place.loans.swap_file(&below, 128);
    let shown = swap.display().to_string();
    place.loans.swap_on(&shown, 100);
    let pid = target.pid().to_string();
    let words = ["bench", "--quick", "--size", "24M", "--pid", &pid, "--allow-shared-swap"];
    let said = done(&place, &[&words[..], &["--json"]].concat());
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    run("swapoff", &[&shown]);
    run("sync", &[]);
    assert_eq!(markers(&swap), 0);
    let notes = said["notes"].as_array().unwrap();
    let told =
        |note: &serde_json::Value| note.as_str().is_some_and(|note| note.contains("other swap"));
    assert!(notes.iter().any(told), "{notes:?}");
}
