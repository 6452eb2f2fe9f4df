// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests with a host that has a secret in every file and path whose text people can choose. The
//! secret must not be in a capture.

use std::collections::BTreeMap;

use super::*;
use pagewise_hostfs::{Files, HostRoot, ReadHost};
use pagewise_model::{Effect, KnobOwnership, PersistentSetting, Snapshot, ownership};
use pagewise_observe::Recording;

fn file(path: impl Into<String>, bytes: impl AsRef<[u8]>) -> (String, Entry) {
    (path.into(), Entry::File(bytes.as_ref().to_vec()))
}

fn denied(path: &str) -> (String, Entry) {
    (path.to_owned(), Entry::Refused(Refusal::Denied("run as root".into())))
}

/// A word that does not occur in Linux and is not a number. It takes the place of everything that
/// must not be in a capture.
const SECRET: &str = "quokka";

/// All files that people may write to. They contain the secret wherever that is possible, and the
/// parts that must be kept.
fn files() -> Files {
    [
        file("proc/meminfo", "MemTotal:  1000 kB\nMemFree:  400 kB\n"),
        file("proc/vmstat", "pgfault 30\n"),
        file("proc/sys/kernel/hostname", "quokka-07\n"),
        file("proc/sys/kernel/osrelease", "6.12.107-quokka\n"),
        file("proc/sys/kernel/random/boot_id", "quokka\n"),
        file("proc/sys/vm/swappiness", "60\n"),
        file("proc/sys/vm/quokka", "60 quokka\n"),
        file("proc/cmdline", "root=/dev/quokka psi=1 quokka=1 zswap.enabled=/quokka\n"),
        file("proc/cpuinfo", "processor\t: 0\nmodel name\t: quokka\nflags\t: hypervisor quokka\n"),
        file("proc/7/status", "Name:\tquokka\nUid:\t1000\t1000\t1000\t1000\nVmRSS:\t 77 kB\n"),
        file("proc/7/stat", "7 (quokka) S 1 7 7 0 -1 0 quokka\n"),
        file("proc/7/comm", "quokka\n"),
        file("proc/7/cgroup", "0::/quokka.slice/quokka-7.service\n"),
        file("proc/7/environ", "PASSWORD=quokka\0"),
        file("proc/1/environ", "container=lxc\0PASSWORD=quokka\0"),
        file("proc/7/cmdline", "quokka\0--quokka\0"),
        file("proc/7/maps", "1-2 rw-p 0 0 /home/quokka\n"),
        file("proc/7/smaps_rollup", "1-2 ---p 0 0 quokka [rollup]\nPss: 50 kB\nquokka: 1 kB\n"),
        file("proc/7/schedstat", "1 2 quokka\n"),
        file("proc/swaps", "Filename Type Size Used Priority\n/home/quokka/swap file 1000 10 -2\n"),
        file(
            "proc/self/mountinfo",
            "30 1 8:1 /quokka /home rw,quokka - ext4 /dev/mapper/quokka rw,quokka\n\
             31 1 8:2 / /quokka rw - ext4 /dev/sda2 rw\n\
             32 1 0:30 /quokka /sys/fs/cgroup rw - cgroup2 quokka rw,nsdelegate\n",
        ),
        file("proc/config.gz", "CONFIG_LOCALVERSION=\"-quokka\"\nCONFIG_ZRAM=m\n"),
        file("boot/config-6.12.107-quokka", "CONFIG_QUOKKA_KEY=quokka\nCONFIG_KSM=y\n"),
        file(
            "lib/modules/6.12.107-quokka/modules.dep",
            "extra/quokka.ko:\nkernel/zram.ko: x/quokka\n",
        ),
        file("sys/fs/cgroup/quokka.slice/memory.current", "4096\n"),
        file("sys/fs/cgroup/quokka.slice/quokka-7.service/memory.current", "8192\n"),
        file("sys/fs/cgroup/quokka.slice/memory.stat", "anon 4096\n"),
        file("sys/fs/cgroup/quokka.slice/memory.quokka", "quokka 4096\n"),
        file("sys/block/zram0/mm_stat", "4096 74 12288 0 12288 0 0 0 0\n"),
        file("sys/block/zram0/backing_dev", "/dev/mapper/quokka\n"),
        file("sys/block/quokka/size", "8\n"),
        file("sys/class/dmi/id/product_name", "KVM of quokka\n"),
        file("sys/class/dmi/id/product_serial", "quokka\n"),
        file("run/udev/data/b8:1", "E:ID_SERIAL=quokka\nE:ID_FS_TYPE=swap\n"),
        file("run/systemd/container", "quokka\n"),
        file("dev/zram0", "quokkaquokkaSWAPSPACE2quokka"),
        file("home/quokka/notes", "quokka\n"),
        ("etc/quokka".to_owned(), Entry::Refused(Refusal::Denied("quokka".into()))),
        ("proc/8/status".to_owned(), Entry::Refused(Refusal::Absent("\u{1b}quokka\u{1b}".into()))),
        denied("proc/8/smaps_rollup"),
    ]
    .into_iter()
    .chain(configuration())
    .collect()
}

/// Configuration files that contain memory settings, and the secret in their names and wherever
/// else people may write.
fn configuration() -> Vec<(String, Entry)> {
    let unit = "[Service]\nExecStart=/quokka\nMemoryMax=1G\nMemoryHigh=quokka\n";
    vec![
        file(
            "etc/sysctl.d/90-quokka.conf",
            "# quokka\nvm.swappiness=150\nkernel.hostname=quokka\n",
        ),
        file("etc/sysctl.d/99-quokka", "vm.dirty_ratio=5\nvm.dirty_bytes=quokka\n"),
        file(
            "etc/tmpfiles.d/quokka.conf",
            "w /sys/kernel/mm/ksm/run - - - - 1\nw /sys/kernel/mm/ksm/run - quokka - - quokka/\nd /quokka\n",
        ),
        file("usr/lib/tmpfiles.d/quokka-2.conf", "d /quokka\n"),
        file(
            "etc/udev/rules.d/99-quokka.rules",
            "# quokka\nKERNEL==\"zram1\", ENV{QUOKKA}!=\"quokka\", ATTR{disksize}=\"1G\", RUN+=\"/quokka\"\n\
             KERNEL==\"zram2\", ATTR{disksize}=\"2G\", ATTR{backing_dev}=\"/dev/quokka\", \\\n  ATTR{comp_algorithm}=\"zstd\"\n",
        ),
        file(
            "etc/modprobe.d/quokka.conf",
            "options zram num_devices=2 quokka=/quokka\ninstall quokka\n",
        ),
        file("etc/modules-load.d/quokka.conf", "quokka\nzram\n"),
        file(
            "etc/systemd/zram-generator.conf",
            "[zram0]\nzram-size=ram/2\nmount-point=/quokka\nfs-type=quokka\nwriteback-device=/dev/quokka\n[quokka]\n",
        ),
        file("etc/systemd/zram-generator.conf.d/quokka.conf", "[zram0]\nswap-priority=7\n"),
        file("etc/default/zramswap", "# quokka\nSIZE=256\nPRIORITY=quokka/\nQUOKKA=1\n"),
        file(
            "etc/fstab",
            "UUID=quokka / ext4 x 0 1\nUUID=quokka none swap pri=5 0 0\n/home/quokka/swap none swap sw,quokka 0 0\n",
        ),
        file(
            "etc/systemd/system/home-quokka-swap.swap",
            "[Swap]\nWhat=/home/quokka/swap\nPriority=3\n",
        ),
        file("etc/systemd/system/swap.target.wants/home-quokka-swap.swap", ""),
        file("etc/systemd/system/quokka.service", unit),
        file("etc/systemd/system/quokka.service.d/50-quokka.conf", "[Service]\nMemoryLow=1M\n"),
    ]
}

/// Which file sets each setting is the same before and after redaction, except for names that
/// people chose.
#[test]
fn what_files_set_stays_with_its_order() {
    let owners = |host: &HostRoot| -> Vec<String> {
        let snapshot =
            Snapshot { configuration: pagewise_settings::read(host), ..Snapshot::default() };
        let owned = ownership(&snapshot);
        let lines = owned.iter().flat_map(|it| it.owners.iter().map(move |line| (it, line)));
        let line = |(it, line): (&KnobOwnership, &PersistentSetting)| {
            let effect = matches!(line.effect, Effect::Applied);
            let wins = it.winning_line().map(PersistentSetting::wanted);
            let knob = it.target.knob().unwrap_or_default();
            let place = line.value.source.line_number();
            format!("{:?} {knob} {} {place:?} {effect} {wins:?}", line.mechanism, line.wanted())
        };
        let mut all: Vec<String> = lines.map(line).collect();
        all.sort();
        all
    };
    let mut packed = Vec::new();
    Capture::from_tape(tape()).pack(&mut packed).unwrap();
    let recording = Recording::from_archive(packed.as_slice(), "x").unwrap();
    let before = owners(&HostRoot::memory(files()));
    let is_kept = |line: &&String| !line.contains(SECRET) && !line.contains("/dev/");
    let expected: Vec<&String> = before.iter().filter(is_kept).collect();
    assert!(expected.len() > 15, "{expected:#?}");
    assert_eq!(owners(&recording.end).iter().collect::<Vec<_>>(), expected);
}

fn tape() -> Tape {
    let end = |name, at| TapeEnd {
        name,
        unix_seconds: at,
        monotonic_seconds: at,
        awake_seconds: None,
        files: files(),
    };
    Tape { page_size: Some(4096), ends: vec![end("start", 1.0), end("end", 2.0)] }
}

/// Returns names and sizes of the files in an archive, and the targets of its links.
fn packed_entries(capture: &Capture) -> (BTreeMap<String, u64>, BTreeMap<String, String>) {
    let mut packed = Vec::new();
    capture.pack(&mut packed).unwrap();
    let plain = zstd::decode_all(packed.as_slice()).unwrap();
    let (mut files, mut links) = (BTreeMap::new(), BTreeMap::new());
    for entry in tar::Archive::new(plain.as_slice()).entries().unwrap() {
        let entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        match entry.link_name().unwrap() {
            Some(target) => _ = links.insert(path, target.display().to_string()),
            None => _ = files.insert(path, entry.size()),
        }
    }
    (files, links)
}

#[test]
fn what_reads_the_same_at_both_ends_is_stored_once() {
    let mut tape = tape();
    let start = tape.ends.first_mut().unwrap();
    start.files.extend([file("proc/vmstat", "pgfault 10\n")]);
    start.files.remove("proc/swaps");
    let deep = format!("sys/fs/cgroup/{}memory.current", "quokka.slice/".repeat(12));
    tape.ends.iter_mut().for_each(|end| end.files.extend([file(&deep, "4096\n")]));
    let capture = Capture::from_tape(tape);
    let (files, links) = packed_entries(&capture);
    assert_eq!(files.len() + links.len(), 1 + capture.files.len());
    assert_eq!((files["start/proc/vmstat"], files["end/proc/vmstat"]), (11, 11));
    assert_eq!(links["start/proc/meminfo"], "end/proc/meminfo");
    assert!(links.keys().any(|path| path.len() > 100), "a name longer than a head has room for");
    for (path, target) in &links {
        assert_eq!(path.strip_prefix("start"), target.strip_prefix("end"));
        assert!(files[target] > 0, "{target} is stored");
    }
    let stored = files.iter().filter(|(path, size)| path.starts_with("start/") && **size > 0);
    assert_eq!(stored.map(|(path, _)| path.as_str()).collect::<Vec<_>>(), ["start/proc/vmstat"]);
    let mut packed = Vec::new();
    capture.pack(&mut packed).unwrap();
    let again = Recording::from_archive(packed.as_slice(), "x").unwrap();
    for (path, bytes) in &capture.files {
        let (end, path) = path.split_once('/').unwrap();
        let host = if end == "start" { again.start.as_ref().unwrap() } else { &again.end };
        assert_eq!(&host.bytes(path).unwrap(), bytes, "{end}/{path}");
    }
    assert!(again.into_problems().is_empty());
}

/// Returns all names and contents in the capture as one text.
fn leaving(capture: &Capture) -> String {
    let parts = capture.entries().map(|(path, bytes)| {
        let plain = gunzipped(&bytes).unwrap_or(bytes);
        format!("{path}\n{}\n", String::from_utf8_lossy(&plain))
    });
    parts.collect()
}

fn gunzipped(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    std::io::copy(&mut flate2::read::GzDecoder::new(bytes), &mut plain).ok()?;
    Some(plain)
}

#[test]
fn no_secret_leaves() {
    let text = leaving(&Capture::from_tape(tape()));
    let at = text.to_lowercase().find(SECRET);
    assert_eq!(at, None, "…{}…", at.map_or("", |at| &text[at.saturating_sub(80)..at + 20]));
}

#[test]
fn what_the_report_needs_stays() {
    let text = leaving(&Capture::from_tape(tape()));
    for kept in [
        "MemTotal:  1000 kB",
        "pgfault 30",
        "\n6.12.107\n",
        "psi=1",
        "Name:\tproc-1",
        "Uid:\t1001\t",
        "VmRSS:\t 77 kB",
        "7 (proc-1) S 1 7",
        "0::/cg-3.slice/cg-4.service",
        "Pss: 50 kB",
        "/mount-1/swap-1 file 1000 10 -2",
        "30 1 8:1 / /mount-1 rw - ext4 /dev/mapper/disk-",
        "CONFIG_ZRAM=m",
        "end/boot/config-6.12.107\n",
        "CONFIG_KSM=y",
        "kernel/zram.ko:",
        "end/sys/fs/cgroup/cg-3.slice/cg-4.service/memory.current\n8192",
        "4096 74 12288",
        "end/sys/block/zram0/backing_dev\n/dev/mapper/disk-",
        "KVM",
        "E:ID_FS_TYPE=swap",
        "SWAPSPACE2",
        "\"proc/8/smaps_rollup\" = \"denied: run as root\"",
        "start/proc/sys/vm/swappiness\n60",
    ] {
        assert!(text.contains(kept), "{kept:?} is not in {text}");
    }
}

#[test]
fn what_was_left_out_is_counted() {
    let left_out = Capture::from_tape(tape()).left_out;
    assert_eq!(left_out.get("proc/N/environ"), Some(&2));
    assert_eq!(left_out.get("proc/N/cmdline"), Some(&2));
    assert_eq!(left_out.get("proc/N/schedstat"), Some(&2));
}

#[test]
fn two_captures_of_one_host_do_not_match() {
    let names = |capture: Capture| {
        let boot = capture.files["end/proc/sys/kernel/random/boot_id"].clone();
        (capture.manifest.name, boot)
    };
    let (one, other) = (names(Capture::from_tape(tape())), names(Capture::from_tape(tape())));
    assert_ne!(one.0, other.0);
    assert_ne!(one.1, other.1);
}

/// A packed capture can be opened and has the same readings.
#[test]
fn a_packed_capture_is_a_recording() {
    let mut capture = Capture::from_tape(tape());
    let mut packed = Vec::new();
    capture.pack(&mut packed).unwrap();
    let recording = Recording::from_archive(packed.as_slice(), "x").unwrap();
    assert_eq!(recording.end.take_problems(), []);
    for (path, bytes) in std::mem::take(&mut capture.files) {
        if let Some(path) = path.strip_prefix("end/") {
            assert_eq!(recording.end.bytes(path), Ok(bytes), "{path}");
        }
    }
    let refused = Err(Refusal::Denied("run as root".into()));
    assert_eq!(recording.end.bytes("proc/8/smaps_rollup"), refused);
}

/// Redacting a redacted recording drops nothing more, so that a recording may be redacted again and
/// passed on.
#[test]
fn redacting_twice_drops_nothing_more() {
    let mut packed = Vec::new();
    let once = Capture::from_tape(tape());
    once.pack(&mut packed).unwrap();
    let recording =
        Recording::from_archive(packed.as_slice(), "x").unwrap().end.start_remembering();
    for path in once.files.keys().filter_map(|path| path.strip_prefix("end/")) {
        let _ = recording.bytes(path);
    }
    let files = recording.into_remembered_files();
    let end = TapeEnd {
        name: "end",
        unix_seconds: 0.0,
        monotonic_seconds: 0.0,
        awake_seconds: None,
        files,
    };
    let twice = Capture::from_tape(Tape { page_size: None, ends: vec![end] });
    assert_eq!(twice.left_out, BTreeMap::new());
    for (path, bytes) in &twice.files {
        let lines = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'\n').count();
        assert_eq!(lines(bytes), lines(&once.files[path]), "{path}");
    }
}
