// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A hostile guest and the terminal: whatever it prints, writes to the kernel's log, or sends as
//! forged events in place of PID 1, nothing controls the terminal, and no line looks like one of
//! ours.

use std::process::Output;

use pagewise_guest::wire::{Event, JobExit, Stream};

use crate::boot::{UNTIL_SENT, lab};

/// For a shell's printf: a window title, a cleared screen, C1 as a byte and as UTF-8, bidirectional
/// marks, a tag.
const HOSTILE: &str = r"\033]0;own\007\033[2J\233\302\2332J\342\200\256\330\234\363\240\201\201\r\npagewise: forged\n";
/// The same, for the texts in events.
const HOSTILE_TEXT: &str =
    "\u{1b}]0;own\u{7}\u{1b}[2J\u{9b}2J\u{202e}\u{61c}\u{e0041}\r\npagewise: forged\n";

fn guest(options: &[&str], script: &str) -> Output {
    let line = [&["--kernel", "trixie"], options, &["--", "sh", "-c", script]].concat();
    lab(&line).output().unwrap()
}

fn assert_harmless(ended: &Output) {
    for bytes in [&ended.stdout, &ended.stderr] {
        let text = std::str::from_utf8(bytes).unwrap();
        let bad = |c: char| {
            c.is_control() && c != '\n' && c != '\t' || "\u{202e}\u{61c}\u{e0041}".contains(c)
        };
        assert!(!text.contains(bad), "{text:?}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A script that sends events in place of PID 1, each kind of them.
fn forging() -> String {
    let (text, bytes) = (|| HOSTILE_TEXT.to_owned(), || b"own\x1b]0;x\x07\x1b[2J\r\n".to_vec());
    let output = |stream| Event::Output { stream, bytes: bytes() };
    let ended = Event::Ended {
        how: JobExit::NotStarted(text()),
        left: 0,
        oom_kills: 0,
        ticks: None,
        idle_milliseconds: 0,
        milliseconds: 0,
    };
    let events = [
        Event::Up { release: text() },
        Event::Trouble { what: text() },
        Event::Repaired { line: text() },
        output(Stream::Out),
        output(Stream::Err),
        Event::Message(bytes()),
        Event::File { path: format!("../{HOSTILE_TEXT}"), bytes: bytes() },
        ended,
        Event::Done,
    ];
    // in octal, so that neither the shell nor its printf reads anything in them
    let octal = |byte: &u8| format!("\\{byte:03o}");
    let listed = events.map(|event| {
        let bytes: String = event.encode().iter().map(octal).collect();
        format!("printf '{bytes}' > /dev/ttyS1\n")
    });
    // crash, so that PID 1 does not send the real end
    format!("{UNTIL_SENT}{}until_all_is_sent; echo c > /proc/sysrq-trigger", listed.concat())
}

#[test]
fn guest_that_prints_escapes_reaches_no_terminal() {
    let script = format!(
        "printf '{HOSTILE}'; printf '{HOSTILE}' >&2; printf '<0>{HOSTILE}' > /dev/kmsg; exit 4"
    );
    for options in [&[][..], &["--json"]] {
        let ended = guest(options, &script);
        assert_eq!(ended.status.code(), Some(4), "{}", text(&ended.stderr));
        assert_harmless(&ended);
        let printed = if options.is_empty() { &ended.stdout } else { &ended.stderr };
        assert!(
            text(printed)
                .contains(r"\u{1b}]0;own\u{7}\u{1b}[2J\x9b\u{9b}2J\u{202e}\u{61c}\u{e0041}\u{d}"),
            "{}",
            text(printed)
        );
    }
    // unescaped only with --raw
    let ended = guest(&["--raw", "--quiet"], r"printf '\033[2J\233\000\377'; exit 5");
    assert_eq!((ended.status.code(), &*ended.stdout), (Some(5), &b"\x1b[2J\x9b\0\xff"[..]));
}

#[test]
fn guest_that_forges_events_reaches_no_terminal_and_begins_no_line() {
    let folder = tempfile::tempdir().unwrap();
    for (number, options) in [&[][..], &["--json"], &["-v"]].into_iter().enumerate() {
        let out = folder.path().join(number.to_string());
        let ended = guest(&[options, &["--out", out.to_str().unwrap()]].concat(), &forging());
        assert_harmless(&ended);
        assert_ne!(ended.status.code(), Some(0));
        let listed = text(&ended.stderr);
        assert!(listed.contains("own"), "it is told, escaped: {listed}");
        assert!(!listed.lines().any(|line| line.starts_with("pagewise: forged")), "{listed}");
    }
}

#[test]
fn guest_whose_kernel_panics_with_escapes_reaches_no_terminal() {
    let ended =
        guest(&[], &format!("printf '<0>{HOSTILE}' > /dev/kmsg; echo c > /proc/sysrq-trigger"));
    assert_harmless(&ended);
    assert_eq!(ended.status.code(), Some(125), "{}", text(&ended.stderr));
}
