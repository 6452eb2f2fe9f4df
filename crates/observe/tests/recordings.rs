// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Malformed and hostile recordings.

#![expect(clippy::unwrap_used, reason = "a test may stop anywhere")]

use std::fs;
use std::io::Read;
use std::path::Path;

use pagewise_model::Interval;
use proptest::prelude::*;
use tar::{Builder, EntryType, Header};

use pagewise_hostfs::ReadHost;
use pagewise_observe::{MAX_ENTRIES, MAX_FILE, OpenError, Recording, Refusal, Scope, open};
use rustix::fs::{FileType, Mode};

const MANIFEST: &str = "format = \"pagewise-recording/1\"\nname = \"host-1\"\nkernel = \"6.12\"\n\
    page_size = 4096\n[ends.start]\nunix_seconds = 10.0\nmonotonic_seconds = 1.0\n\
    [ends.end]\nunix_seconds = 12.0\nmonotonic_seconds = 3.0\n\
    [ends.end.refused]\n\"proc/swaps\" = \"denied: run as root\"\n";
const MEMINFO: &str = "MemTotal:  1000 kB\nMemFree:  400 kB\n";

/// An archive of regular files with any paths.
fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, bytes) in files {
        append(&mut builder, path, EntryType::Regular, bytes);
    }
    builder.into_inner().unwrap()
}

/// `append_data` refuses the paths of a hostile archive, so the name is written into the header
/// directly.
fn append(builder: &mut Builder<Vec<u8>>, path: &str, kind: EntryType, bytes: &[u8]) {
    let mut header = Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_entry_type(kind);
    header.set_size(bytes.len() as u64);
    header.set_cksum();
    builder.append(&header, bytes).unwrap();
}

fn usual() -> Vec<u8> {
    archive(&[
        ("host.toml", MANIFEST.as_bytes()),
        ("start/proc/vmstat", b"pgfault 10\n"),
        ("end/proc/vmstat", b"pgfault 30\n"),
        ("end/proc/meminfo", MEMINFO.as_bytes()),
    ])
}

fn read(recording: &Recording) -> Interval {
    let scope = Scope::everything(std::time::Duration::ZERO);
    recording.interval::<()>(&scope, || Err(())).unwrap()
}

fn of_archive(bytes: &[u8]) -> Interval {
    read(&Recording::from_archive(bytes, "x.tar").unwrap())
}

fn problems(interval: &Interval) -> Vec<String> {
    interval.end.problems.iter().map(ToString::to_string).collect()
}

fn total(interval: &Interval) -> Option<u64> {
    interval.end.memory.total.get().map(pagewise_model::Bytes::get)
}

#[test]
fn an_archive_replays_both_ends() {
    for bytes in [usual(), zstd::encode_all(usual().as_slice(), 3).unwrap()] {
        let interval = of_archive(&bytes);
        assert_eq!(problems(&interval), [""; 0]);
        assert_eq!((interval.seconds(), total(&interval)), (Some(2.0), Some(1000 << 10)));
        assert_eq!(interval.end.taken.monotonic_seconds, 3.0);
        assert_eq!(interval.end.vmstat.get("pgfault").get(), Some(30));
        assert_eq!(interval.start.unwrap().vmstat.get("pgfault").get(), Some(10));
    }
}

#[test]
fn refused_files_stay_refused() {
    let recording = Recording::from_archive(usual().as_slice(), "x").unwrap();
    assert_eq!(recording.end.bytes("proc/swaps"), Err(Refusal::Denied("run as root".into())));
}

#[test]
fn entries_that_reach_outside_are_left_out_by_name() {
    let mut builder = Builder::new(Vec::new());
    append(&mut builder, "host.toml", EntryType::Regular, MANIFEST.as_bytes());
    append(&mut builder, "end/../../etc/passwd", EntryType::Regular, b"x");
    append(&mut builder, "/etc/shadow", EntryType::Regular, b"x");
    append(&mut builder, "end/proc/swaps", EntryType::Symlink, b"");
    append(&mut builder, "end/dev/sda", EntryType::Block, b"");
    append(&mut builder, "end/\x1b[2J", EntryType::Regular, b"x");
    append(&mut builder, "end/proc/meminfo", EntryType::Regular, MEMINFO.as_bytes());
    let interval = of_archive(&builder.into_inner().unwrap());
    let problems = problems(&interval);
    let found =
        ["with .. in it", "an absolute path", "a symbolic link", "a block device", "control"];
    assert_eq!(problems.len(), found.len(), "{problems:?}");
    for (problem, found) in problems.iter().zip(found) {
        assert!(problem.contains(found) && !problem.contains('\x1b'), "{problem}");
    }
    assert!(problems[0].starts_with("end/../../etc/passwd: expected a plain file"));
    assert_eq!(total(&interval), Some(1000 << 10));
}

/// A long name is stored as a file of its own before the entry, and could have any length.
#[test]
fn long_names_are_read_within_limits() {
    let usual = format!("end/sys/fs/cgroup/{}memory.max", "s/".repeat(60));
    let mut builder = Builder::new(Vec::new());
    append(&mut builder, "host.toml", EntryType::Regular, MANIFEST.as_bytes());
    let long = "x".repeat(8 << 20);
    for kind in [EntryType::GNULongName, EntryType::GNULongLink] {
        append(&mut builder, "././@LongLink", kind, long.as_bytes());
    }
    append(&mut builder, "end/proc/vmstat", EntryType::Regular, b"pgfault 30\n");
    let message = format!("{:06} path={usual}\n", usual.len() + 13);
    append(&mut builder, "x", EntryType::XHeader, message.as_bytes());
    append(&mut builder, "end/cut", EntryType::Regular, b"max\n");
    let mut header = Header::new_gnu();
    header.set_size(3);
    builder.append_data(&mut header, usual.replace("max", "low"), &b"17\n"[..]).unwrap();
    append(&mut builder, "end/proc/meminfo", EntryType::Regular, MEMINFO.as_bytes());
    let bytes = builder.into_inner().unwrap();
    let recording = Recording::from_archive(bytes.as_slice(), "x.tar").unwrap();
    let file = |path: &str| recording.end.bytes(path.strip_prefix("end/").unwrap());
    assert_eq!(file(&usual).unwrap(), b"max\n");
    assert_eq!(file(&usual.replace("max", "low")).unwrap(), b"17\n");
    let interval = read(&recording);
    assert_eq!((total(&interval), interval.end.vmstat.iter().count()), (Some(1000 << 10), 0));
    let found = problems(&interval);
    assert!(found[0].ends_with("found \"a path longer than 1024 bytes\""), "{found:?}");
    assert!(found[0].len() < 300, "{found:?}");
}

/// `append_link` refuses the targets of a hostile archive.
fn append_link(builder: &mut Builder<Vec<u8>>, path: &str, target: &str) {
    let mut header = Header::new_gnu();
    let gnu = header.as_gnu_mut().unwrap();
    gnu.name[..path.len()].copy_from_slice(path.as_bytes());
    gnu.linkname[..target.len()].copy_from_slice(target.as_bytes());
    header.set_entry_type(EntryType::Link);
    header.set_size(0);
    header.set_cksum();
    builder.append(&header, &b""[..]).unwrap();
}

/// Links as the capture writes them, and as `tar` writes them for a folder, with short and long
/// names.
#[test]
fn a_link_reads_as_the_file_that_stands_before_it() {
    let long = format!("sys/fs/cgroup/{}memory.max", "slice/".repeat(30));
    let mut builder = Builder::new(Vec::new());
    append(&mut builder, "./host.toml", EntryType::Regular, MANIFEST.as_bytes());
    append(&mut builder, "./start/proc/vmstat", EntryType::Regular, b"pgfault 30\n");
    append_link(&mut builder, "./end/proc/vmstat", "./start/proc/vmstat");
    append(&mut builder, "end/proc/meminfo", EntryType::Regular, MEMINFO.as_bytes());
    append_link(&mut builder, "start/proc/meminfo", "end/proc/meminfo");
    let mut header = Header::new_gnu();
    header.set_size(3);
    builder.append_data(&mut header, format!("end/{long}"), &b"17\n"[..]).unwrap();
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Link);
    header.set_size(0);
    builder.append_link(&mut header, format!("start/{long}"), format!("end/{long}")).unwrap();
    // pax headers
    append(&mut builder, "end/short", EntryType::Regular, b"5\n");
    let pax = |key: &str, value: &str| {
        let rest = format!(" {key}={value}\n");
        format!("{}{rest}", rest.len() + if rest.len() + 2 < 100 { 2 } else { 3 })
    };
    let message = pax("path", &format!("start/{long}2")) + &pax("linkpath", "end/short");
    append(&mut builder, "x", EntryType::XHeader, message.as_bytes());
    append_link(&mut builder, "cut", "cut");
    let bytes = builder.into_inner().unwrap();
    let recording = Recording::from_archive(bytes.as_slice(), "x.tar").unwrap();
    let start = recording.start.as_ref().unwrap();
    assert_eq!(start.bytes(&long).unwrap(), b"17\n");
    assert_eq!(start.bytes(&format!("{long}2")).unwrap(), b"5\n");
    assert_eq!(start.bytes("proc/meminfo").unwrap(), MEMINFO.as_bytes());
    assert_eq!(recording.end.bytes("proc/vmstat").unwrap(), b"pgfault 30\n");
    assert_eq!(problems(&read(&recording)), [""; 0]);
}

#[test]
fn a_link_to_anything_but_a_file_before_it_is_left_out_by_name() {
    let mut builder = Builder::new(Vec::new());
    append(&mut builder, "host.toml", EntryType::Regular, MANIFEST.as_bytes());
    append(&mut builder, "end/proc/meminfo", EntryType::Regular, MEMINFO.as_bytes());
    for target in ["/etc/passwd", "../end/proc/meminfo", "end/proc", "end/proc/vmstat", ""] {
        append_link(&mut builder, "end/proc/vmstat", target);
    }
    append_link(&mut builder, "../../etc/passwd", "end/proc/meminfo");
    append(&mut builder, "start/proc/vmstat", EntryType::Regular, b"pgfault 30\n");
    let interval = of_archive(&builder.into_inner().unwrap());
    let problems = problems(&interval);
    let (last, first) = problems.split_last().unwrap();
    let expected = "end/proc/vmstat: expected a link to a file that stands before it, \
                    found \"a link to something else\"";
    assert_eq!(first, [expected; 5]);
    assert!(last.starts_with("../../etc/passwd: expected a plain file"), "{last}");
    assert!(interval.end.vmstat.is_empty());
}

/// A link takes 512 bytes of the archive, but the length of the file in memory.
#[test]
fn links_do_not_multiply_a_file_beyond_the_limit() {
    let mut builder = Builder::new(Vec::new());
    append(&mut builder, "host.toml", EntryType::Regular, MANIFEST.as_bytes());
    append(&mut builder, "end/proc/meminfo", EntryType::Regular, &vec![b'0'; MAX_FILE]);
    for number in 0..20 {
        append_link(&mut builder, &format!("end/{number}"), "end/proc/meminfo");
    }
    let recording = Recording::from_archive(builder.into_inner().unwrap().as_slice(), "x").unwrap();
    let found = problems(&read(&recording));
    assert!(found[0].contains("at most 64 MiB in all files"), "{found:?}");
    assert!(recording.end.bytes("5").is_ok() && recording.end.bytes("6").is_err());
}

#[test]
fn a_truncated_archive_is_used_as_far_as_it_goes() {
    let whole = usual();
    let interval = of_archive(&whole[..whole.len() - 1024 - 512 - 300]);
    assert_eq!(interval.end.vmstat.get("pgfault").get(), Some(30));
    assert!(problems(&interval)[0].contains("recording: expected a whole archive"));
    let between_two_files = &whole[..whole.len() - 1024 - 1024];
    let found = problems(&of_archive(between_two_files));
    assert_eq!(found, ["recording: expected a whole archive, found \"no mark of its end\""]);
    let packed = zstd::encode_all(whole.as_slice(), 3).unwrap();
    let error = Recording::from_archive(&packed[..packed.len() / 4], "x.tar.zst").unwrap_err();
    assert!(error.to_string().starts_with("x.tar.zst: expected a recording"), "{error}");
}

#[test]
fn a_file_of_200_mib_is_left_out_and_the_rest_comes() {
    let head = archive(&[("host.toml", MANIFEST.as_bytes())]);
    let mut builder = Builder::new(Vec::new());
    append(&mut builder, "end/proc/vmstat", EntryType::Regular, b"pgfault 30\n");
    let zeros = vec![b'0'; 9 << 20];
    append(&mut builder, "end/proc/meminfo", EntryType::Regular, &zeros);
    append(&mut builder, "end/proc/zoneinfo", EntryType::Regular, &vec![b'0'; 200 << 20]);
    let rest = builder.into_inner().unwrap();
    let bytes = [&head[..1024], &rest].concat();
    let interval = of_archive(&zstd::encode_all(bytes.as_slice(), 1).unwrap());
    let problems = problems(&interval);
    assert!(problems[0].contains("more than 64 MiB unpacked"), "{problems:?}");
    assert_eq!(problems[1], "end/proc/meminfo: expected at most 8 MiB in one file, found \"more\"");
    assert_eq!(interval.end.vmstat.get("pgfault").get(), Some(30));
}

#[test]
fn too_many_entries_stop_the_reading() {
    let mut builder = Builder::new(Vec::new());
    append(&mut builder, "host.toml", EntryType::Regular, MANIFEST.as_bytes());
    for number in 0..MAX_ENTRIES {
        append(&mut builder, &format!("end/{number}"), EntryType::Regular, b"");
    }
    let bytes = builder.into_inner().unwrap();
    assert!(problems(&of_archive(&bytes))[0].contains("at most 100000 files and folders"));
}

#[test]
fn a_garbled_description_does_not_take_the_files_with_it() {
    let bytes =
        archive(&[("host.toml", b"format = [[[[\n"), ("end/proc/meminfo", MEMINFO.as_bytes())]);
    let interval = of_archive(&bytes);
    assert_eq!(total(&interval), Some(1000 << 10));
    assert!(problems(&interval)[0].starts_with("host.toml:1: expected the description"));
}

#[test]
fn what_is_no_recording_is_said_to_be_none() {
    let readme = archive(&[("README", b"x")]);
    for (bytes, found) in [
        (&b""[..], "no files"),
        (b"hello, I am\n a text file of some length", "found a file of another kind"),
        (&readme, "neither host.toml nor proc"),
        (&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0], "expected a recording"),
        (b"BZh91AY", "found a bzip2 file"),
        (b"PK\x03\x04 and so on", "found a zip file"),
        (&[0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3], "expected a recording"),
    ] {
        let error = Recording::from_archive(bytes, "x").unwrap_err().to_string();
        assert!(error.contains(found), "{error}");
    }
}

#[test]
fn files_without_a_description_are_used_and_the_lack_is_told() {
    let bytes = archive(&[("end/proc/meminfo", MEMINFO.as_bytes())]);
    let interval = of_archive(&bytes);
    assert_eq!(total(&interval), Some(1000 << 10));
    let found = problems(&interval);
    assert_eq!(found, ["host.toml: expected the description of the recording, found \"none\""]);
    let cut = of_archive(&bytes[..1024 + 100]);
    assert!(problems(&cut)[0].contains("expected a whole archive"), "{:?}", problems(&cut));
}

#[test]
fn a_recording_without_its_later_end_has_the_clock_of_the_earlier() {
    let bytes =
        archive(&[("host.toml", MANIFEST.as_bytes()), ("start/proc/meminfo", MEMINFO.as_bytes())]);
    let interval = of_archive(&bytes);
    assert_eq!((total(&interval), interval.end.taken.unix_seconds), (Some(1000 << 10), 10.0));
    assert!(interval.start.is_none());
    assert!(problems(&interval)[0].contains("the earlier is shown"));
}

#[test]
fn a_name_with_escapes_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("end/proc/\x1b[2J");
    fs::create_dir_all(&inside).unwrap();
    put(&folder.path().join("host.toml"), MANIFEST.as_bytes());
    let found = problems(&read(&open(folder.path()).unwrap()));
    assert!(found[0].starts_with("end/proc/\\u{1b}[2J: expected a path"), "{found:?}");
}

#[test]
fn an_archive_of_one_time_needs_no_description() {
    let bytes = archive(&[("proc/meminfo", MEMINFO.as_bytes())]);
    let interval = of_archive(&bytes);
    assert!(interval.start.is_none());
    assert_eq!(total(&interval), Some(1000 << 10));
}

/// The files of a support tool's archive are those of the unpacked folder, links included; what it
/// lacks was not collected.
#[test]
fn a_collected_archive_is_read_like_its_folder() {
    let mut builder = Builder::new(Vec::new());
    let at = |path: &str| format!("sosreport-db1-2026/{path}");
    append(&mut builder, &at(""), EntryType::Directory, b"");
    let link = |builder: &mut Builder<Vec<u8>>, path: &str, target: &str| {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        builder.append_link(&mut header, at(path), target).unwrap();
    };
    link(&mut builder, "proc/vmstat", "../../../etc/passwd");
    link(&mut builder, "sys/block/sda", "../devices/x/sda");
    append(&mut builder, &at("sys/devices/x/sda/ro"), EntryType::Regular, b"1\n");
    append(&mut builder, "/etc/passwd", EntryType::Regular, b"x");
    append(&mut builder, &at("../../etc/passwd"), EntryType::Regular, b"x");
    append(&mut builder, &at("srv/data"), EntryType::Regular, &vec![b'0'; MAX_FILE + 1]);
    append(&mut builder, &at("proc/meminfo"), EntryType::Regular, MEMINFO.as_bytes());
    let bytes = builder.into_inner().unwrap();
    let options = lzma_rust2::XzOptions::with_preset(0);
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    std::io::Write::write_all(&mut xz, &bytes).unwrap();
    for packed in [bytes.clone(), xz.finish().unwrap(), zstd::encode_all(&*bytes, 1).unwrap()] {
        let recording = Recording::from_archive(packed.as_slice(), "x").unwrap();
        let end = &recording.end;
        assert!(end.is_copy());
        let lacking = Err(Refusal::Denied("not in this recording".into()));
        for path in ["proc/vmstat", "proc/swaps", "etc/passwd", "srv/data"] {
            assert_eq!(end.bytes(path), lacking, "{path}");
        }
        assert_eq!(end.bytes("sys/block/sda/ro").unwrap(), b"1\n");
        let interval = read(&recording);
        assert_eq!(total(&interval), Some(1000 << 10));
        let problems = problems(&interval);
        assert_eq!(problems.len(), 3, "{problems:?}");
        let outside = "1 to somewhere outside";
        assert!(problems.iter().any(|problem| problem.contains(outside)), "{problems:?}");
    }
    assert!(!Recording::from_archive(usual().as_slice(), "x").unwrap().end.is_copy());
}

/// 1 GiB of zeros in a file that is never read; the archive is small.
#[test]
fn a_collected_archive_that_unpacks_to_much_more_is_cut() {
    let mut builder = Builder::new(Vec::new());
    append(&mut builder, "case/proc/meminfo", EntryType::Regular, MEMINFO.as_bytes());
    let head = builder.into_inner().unwrap();
    let mut header = Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..8].copy_from_slice(b"case/srv");
    header.set_size(1 << 30);
    header.set_cksum();
    let mut packed = zstd::Encoder::new(Vec::new(), 1).unwrap();
    let zeros = std::io::repeat(0).take(1 << 30);
    let mut bomb = head[..1024].chain(header.as_bytes().as_slice()).chain(zeros);
    std::io::copy(&mut bomb, &mut packed).unwrap();
    let interval = of_archive(&packed.finish().unwrap());
    assert_eq!(total(&interval), Some(1000 << 10));
    assert!(problems(&interval)[0].contains("more than 200 times its size"));
}

/// A folder that contains everything that it should not.
#[test]
fn a_hostile_folder_is_read_inside_itself() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at("end/proc/pressure")).unwrap();
    put(&at("host.toml"), MANIFEST.as_bytes());
    put(&at("end/proc/meminfo"), MEMINFO.as_bytes());
    put(&at("end/proc/zoneinfo"), &vec![b'0'; MAX_FILE + 1]);
    std::os::unix::fs::symlink("/etc/hostname", at("end/proc/vmstat")).unwrap();
    std::os::unix::fs::symlink("..", at("end/proc/loop")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("end/proc/swaps"),
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    let interval = read(&open(folder.path()).unwrap());
    assert_eq!(total(&interval), Some(1000 << 10));
    let problems = problems(&interval).join("\n");
    for found in [
        "end/proc/vmstat: expected a plain file or folder, at most 64 deep, found \"a symbolic link",
        "end/proc/loop: expected a plain file",
        "end/proc/swaps: expected a plain file or folder, at most 64 deep, found \"a pipe",
        "end/proc/zoneinfo: expected at most 8 MiB",
    ] {
        assert!(problems.contains(found), "{found} not in {problems}");
    }
}

#[expect(clippy::disallowed_methods, reason = "a test makes a folder")]
fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_folder_of_one_time_needs_no_description_and_an_empty_one_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let error = open(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("expected host.toml or a folder proc in it, found neither"), "{error}");
    fs::create_dir_all(folder.path().join("proc")).unwrap();
    put(&folder.path().join("proc/meminfo"), MEMINFO.as_bytes());
    assert_eq!(total(&read(&open(folder.path()).unwrap())), Some(1000 << 10));
}

#[test]
fn what_is_neither_file_nor_folder_is_refused() {
    let error = open(Path::new("/dev/null")).unwrap_err().to_string();
    assert!(error.ends_with("found a character device"), "{error}");
    assert!(matches!(open(Path::new("/no/such")), Err(OpenError::Io { .. })));
}

proptest! {
    /// An archive with any bytes changed gives a result or an error, never a panic.
    #[test]
    fn damaged_archives_never_panic(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        packed in any::<bool>(),
    ) {
        let mut bytes = usual();
        if packed {
            bytes = zstd::encode_all(bytes.as_slice(), 3).unwrap();
        }
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(recording) = Recording::from_archive(bytes.as_slice(), "x") {
            read(&recording);
        }
    }
}
