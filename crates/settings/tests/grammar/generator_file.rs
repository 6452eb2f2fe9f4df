// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zram-generator's grammar, as the program itself was seen to accept and refuse it.

use super::*;
use crate::zram_managers::first_error;

/// The first error of a file, values included; `None` if zram-generator accepts it.
fn error(text: &str) -> Option<(usize, &'static str)> {
    first_error(text.as_bytes(), Some(2000.0), &mut false).map(|error| (error.line, error.what))
}

/// Files that zram-generator 1.1.2 was run on, and the line that it refused.
const FILES: &[(&str, Option<usize>)] = &[
    ("", None),
    ("[zram0]\n", None),
    ("[zram0]\r\nzram-size=ram/2\r\n", None),
    ("# c\n\n[zram0]\n; x\n", None),
    ("[zram0]\nzram-size = ram / 2 # x\n", Some(2)),
    ("[zram0]\nzram-size = ram / 2\n`\n", Some(3)),
    ("[zram0]\nzram-size = ram / 2\n # x\n", Some(3)),
    ("[zram0] # x\nzram-size = 5\n", Some(1)),
    ("[zram0]\nstray\nzram-size = 5\n", None),
    ("[zram0]\nzram-size = foo\n", Some(2)),
    ("[zram0]\nzram-size =\n", Some(2)),
    ("[zram0]\ncompression-algorithm = zstd # x\n", None),
    ("[zram0]\nfs-type = swap # x\n", None),
    ("[zram0\nzram-size = 5\n", Some(1)),
    ("=5\n[zram0]\n", Some(1)),
    ("[zram0]\nswap-priority=40000\n", Some(2)),
    ("[zram0]\nswap-priority=-1\n", None),
    ("[zram0]\nswap-priority=high\n", Some(2)),
    ("[zram0]\nhost-memory-limit = 1000\n", None),
    ("[zram0]\nhost-memory-limit = 1G\n", Some(2)),
    ("[zram0]\nzram-size=\"5\"\n", None),
    ("[zram0]\nzram-size=\"5\n", Some(2)),
    ("[zram0]\nzram-size=8G\n", None),
    ("[zram0]\nzram-size=50%\n", Some(2)),
    ("[zram0]\nzram-size=-5\n", Some(2)),
    ("[zram0]\nzram-size=ram/2\\\n\n", None),
    ("[zram0]\nzram-size=min(ram/2, 4096)\n", None),
    ("[zram0]\nzram-size=min(ram/2, 4096\n", Some(2)),
    ("[zram0]\nzram-size=ram / 2 MB\n", Some(2)),
    ("[zram0]\nmount-point=run/x\n", Some(2)),
    ("[zram0]\nmount-point=/run/../x\n", Some(2)),
    ("[zram0]\nmount-point=/run/x\n", None),
    ("[zram0]\nzram-size=ram*2\n", None),
    ("[zram0]\nzram-size=ram^0.5\n", None),
    ("[zram0]\nzram-size=max(1, ram - 3000)\n", None),
    ("[zram0]\nzram-size=ram - 3000\n", Some(2)),
    ("[zram0]\nzram-size=min()\n", Some(2)),
    ("[zram0]\nzram-size=min(ram/2; 300)\n", None),
    ("[zram0]\nzram-size=[ram/2]\n", None),
    ("[zram0]\nzram-size=(ram/2\n", Some(2)),
    ("[zram0]\nzram-size=ram/2)\n", Some(2)),
    ("[zram0]\nzram-size=ceil(ram/3)\n", None),
    ("[zram0]\nzram-size=half(ram)\n", Some(2)),
    ("[zram0]\nzram-size=RAM/2\n", Some(2)),
    ("[zram0]\nzram-size=4096MB\n", Some(2)),
    ("[zram0]\nzram-size=4096M\n", None),
    ("[zram0]\nzram-size=1e3\n", None),
    ("[zram0]\nzram-size=ram/0\n", None),
    ("[zram0]\nzram-size=ram > 1000\n", None),
    ("[zram0]\nzram-size=!ram + 7\n", None),
    ("[zram0]\nzram-size='300'\n", None),
    ("[zram0]\nzram-size='300\n", Some(2)),
    ("[zram0]\nzram-size=\"300\" # x\n", Some(2)),
    ("[zram0]\nzram-size:300\n", None),
    ("[zram0]\nzram-size==300\n", Some(2)),
    ("[zram0]\nzram-size 300\n", Some(2)),
    ("[zram0]\n  zram-size = 300\n", None),
    ("  [zram0]\n", None),
    ("[ zram0 ]\nzram-size=x\n", Some(2)),
    ("[zram0]zram-size=300\n", None),
    ("[zram0]\nzram-size=x\nzram-size=300\n", None),
    ("[zram0]\nzram-size=300\nzram-size=x\n", Some(3)),
    ("[other]\nzram-size=x\n[zram0]\n", None),
    ("[zramx]\nzram-size=x\n", None),
    ("zram-size=x\n[zram0]\n", None),
    ("[zram0]\nunknown = x # y\n", None),
    ("[zram0]\nhost-memory-limit=none\n", None),
    ("[zram0]\nhost-memory-limit=\n", Some(2)),
    ("[zram0]\nhost-memory-limit=-1\n", Some(2)),
    ("[zram0]\nmemory-limit=9000 # x\n", Some(2)),
    ("[zram0]\nzram-fraction=0.5\n", None),
    ("[zram0]\nzram-fraction=-0.5\n", Some(2)),
    ("[zram0]\nzram-fraction=50%\n", Some(2)),
    ("[zram0]\nmax-zram-size=none\n", None),
    ("[zram0]\nmax-zram-size=4G\n", Some(2)),
    ("[zram0]\nswap-priority=-2\n", Some(2)),
    ("[zram0]\nswap-priority=100 # x\n", Some(2)),
    ("[zram0]\nswap-priority=\n", Some(2)),
    ("[zram0]\nwriteback-device=/dev/sda1\n", None),
    ("[zram0]\nwriteback-device=sda1\n", Some(2)),
    ("[zram0]\noptions=\n", None),
    ("[zram0]\noptions=discard \\x0041\n", None),
    ("[zram0]\noptions=discard \\x00ZZ\n", Some(2)),
    ("[zram0]\noptions=a\\", Some(2)),
    ("[zram0]\n#zram-size = x\n", None),
    ("[zram0]\n\t# tab\n", Some(2)),
    ("[zram0]\n]\n", Some(2)),
    ("[zram0]\n\n\n\n= 5\n", Some(5)),
    ("[zram0]", None),
    ("[]\n[zram0]\n", None),
];

/// Every file of the table, given to zram-generator itself.
#[test]
#[ignore = "needs the program of Debian's package systemd-zram-generator, by ZRAM_GENERATOR=PATH"]
#[expect(clippy::disallowed_methods, reason = "it writes a file for the program and starts it")]
fn the_program_itself_agrees() {
    let program = std::env::var("ZRAM_GENERATOR")
        .unwrap_or_else(|_| "/usr/lib/systemd/system-generators/zram-generator".to_owned());
    let root = tempfile::tempdir().unwrap();
    for folder in ["etc/systemd", "proc"] {
        std::fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    std::fs::write(root.path().join("proc/meminfo"), "MemTotal: 2048000 kB\n").unwrap();
    std::fs::write(root.path().join("proc/cmdline"), "").unwrap();
    let mut differing = Vec::new();
    for (text, line) in FILES {
        std::fs::write(root.path().join("etc/systemd/zram-generator.conf"), text).unwrap();
        let out = tempfile::tempdir_in(root.path()).unwrap();
        let out = out.path();
        let run = std::process::Command::new(&program)
            .args([out, out, out])
            .env("ZRAM_GENERATOR_ROOT", root.path())
            .output()
            .unwrap_or_else(|error| panic!("{program} cannot be started: {error}"));
        if run.status.success() != line.is_none() {
            differing.push((text, String::from_utf8_lossy(&run.stderr).into_owned()));
        }
    }
    assert!(differing.is_empty(), "of {} files: {differing:#?}", FILES.len());
}

#[test]
fn what_the_program_refuses_is_refused_in_the_same_line() {
    for (text, line) in FILES {
        assert_eq!(error(text).map(|(line, _)| line), *line, "{text:?}: {:?}", error(text));
    }
}

#[test]
fn names_reach_over_lines_and_values_lose_their_quotes() {
    let all = parse(b"[zram0]\nstray\nzram-size = \"5\" \nx:\\x0041\n").unwrap();
    let shown: Vec<(&str, &str, usize)> =
        all.iter().map(|it| (it.key.as_str(), it.value.as_str(), it.line)).collect();
    assert_eq!(shown[0].0, "stray\nzram-size");
    assert_eq!((shown[0].1, shown[1]), ("5", ("x", "A", 4)));
}

#[test]
fn a_comment_is_cut_only_from_behind_something() {
    assert_eq!(without_comment("zram-size = ram / 2 # half"), Some("zram-size = ram / 2"));
    assert_eq!(without_comment("[zram0]\t; first"), Some("[zram0]"));
    assert_eq!(without_comment("  # only"), None);
    assert_eq!(without_comment("zram-size = ram#2"), None);
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    assert_eq!(parse(b"[zram0]\n\xff\n").unwrap_err().line, 2);
}
