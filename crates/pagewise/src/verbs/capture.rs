// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise capture`: a redacted recording of this host, as a file or a folder.
//!
//! Before anything is written, the recording is opened again from memory: a recording that pagewise
//! cannot read back would be useless.
//!
//! If a recording is recorded again (`--root`), a child process without rights reads it; see
//! [`pagewise_capture::handed`].

mod over_time;

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context;
use pagewise_capture::{Capture, handed};
use pagewise_model::{Bytes, Name, Refusal};
use pagewise_observe::Recording;
use pagewise_terminal::{Global, Outcome, exit, output};

use crate::{again, cli, input};

pub(super) fn run(global: &Global, args: &cli::Capture) -> anyhow::Result<Outcome> {
    if let (Some(every), Some(length)) = (args.every, args.length) {
        return over_time::run(global, args, every, length);
    }
    let place = Place::parse(global, args)?;
    if global.root.is_some() && !args.hand_over {
        return receive_from_child(global, args, &place);
    }
    let (_, tape) = input::record_interval(global)?;
    let mut capture = Capture::from_tape(tape);
    let packed = pack(&capture)?;
    let path = path(args, &capture);
    let text = match (global.json, global.quiet, &place) {
        (true, ..) => json(&path, &capture, packed.len()),
        (false, true, Place::Output) => String::new(),
        (false, true, _) => format!("{}\n", Name::from(path.to_string_lossy().as_ref())),
        (false, false, Place::Output) => summary(None, &capture, packed.len()),
        (false, false, _) => summary(Some(&path), &capture, packed.len()),
    };
    if args.folder.is_none() {
        // the check below reads all files again
        capture.files.clear();
    }
    check_archive(&packed)?;
    if args.hand_over {
        return hand_over(args, &capture, &packed, &text);
    }
    match place {
        Place::Folder(folder) => write_folder(&folder, capture.entries())?,
        Place::File => output::create_file(&path, &packed)?,
        Place::Output => return write_out(&packed, &text),
    }
    output::print_answer(global, &text)?;
    Ok(Outcome::Done)
}

/// What a recording is written to.
#[derive(Debug)]
enum Place {
    File,
    Folder(PathBuf),
    /// Standard output, named as `-`.
    Output,
}

impl Place {
    /// Refuses standard output if it is a terminal, or if something else goes to it.
    fn parse(global: &Global, args: &cli::Capture) -> anyhow::Result<Self> {
        if let Some(folder) = &args.folder {
            return Ok(Self::Folder(folder.clone()));
        }
        if !args.output.as_ref().or(args.file.as_ref()).is_some_and(|path| output::is_dash(path)) {
            return Ok(Self::File);
        }
        let next = "give the name of a file, or write it to a pipe: pagewise capture -o - | ssh HOST 'cat > FILE'";
        if global.json {
            let what = "-: --json prints on standard output, so the recording cannot go there";
            anyhow::bail!(Refusal::with_advice(what, next));
        }
        // a child process hands over the recording through a pipe
        if !args.hand_over && std::io::stdout().is_terminal() {
            let what = "-: standard output is a terminal, which cannot show a recording";
            anyhow::bail!(Refusal::with_advice(what, next));
        }
        Ok(Self::Output)
    }
}

/// Writes a recording to standard output, and the summary to standard error.
fn write_out(packed: &[u8], text: &str) -> anyhow::Result<Outcome> {
    output::write_out(packed)?;
    output::print_error_text(text, false);
    Ok(Outcome::Done)
}

/// The path to write the recording to.
fn path(args: &cli::Capture, capture: &Capture) -> PathBuf {
    let named = args.folder.as_ref().or(args.output.as_ref()).or(args.file.as_ref());
    named.cloned().unwrap_or_else(|| default_name(capture).into())
}

/// Names under which the child process passes on what is not a file of the recording.
const TOLD: &str = "told";
const DEFAULT_NAME: &str = "name";
const PACKED: &str = "packed";

/// The part of the child process: passes on the messages, the default file name if none was given,
/// and the file or all files.
fn hand_over(
    args: &cli::Capture,
    capture: &Capture,
    packed: &[u8],
    text: &str,
) -> anyhow::Result<Outcome> {
    let mut all = Vec::new();
    handed::write(&mut all, TOLD, text.as_bytes())?;
    handed::write(&mut all, DEFAULT_NAME, default_name(capture).as_bytes())?;
    if args.folder.is_some() {
        for (name, contents) in capture.entries() {
            handed::write(&mut all, &name, &contents)?;
        }
    } else {
        handed::write(&mut all, PACKED, packed)?;
    }
    output::write_out(&all)?;
    Ok(Outcome::Done)
}

/// The part of the parent process: a child process without rights reads the recording, which may
/// come from anybody, and this process writes the child's output.
fn receive_from_child(
    global: &Global,
    args: &cli::Capture,
    place: &Place,
) -> anyhow::Result<Outcome> {
    let mut command = again::pagewise_command();
    command.args(std::env::args_os().skip(1)).arg("--hand-over").stdout(Stdio::piped());
    let mut child = command.spawn().context("starting the process that reads the recording")?;
    let pipe = child.stdout.take().context("no pipe from the process that reads the recording")?;
    let files = handed::read_all(pipe);
    if files.is_err() {
        let _ = child.kill();
    }
    let status = child.wait()?;
    match status.code() {
        Some(0) => (),
        // the child has already printed the error
        Some(code) => return Ok(Outcome::Status(u8::try_from(code).unwrap_or(exit::FAILED))),
        None => anyhow::bail!("the process that read the recording was ended ({status})"),
    }
    let mut files =
        files.context("what the process that read the recording handed over")?.into_iter();
    let (Some((first, told)), Some((second, default))) = (files.next(), files.next()) else {
        anyhow::bail!(NOT_HANDED);
    };
    anyhow::ensure!(first == TOLD && second == DEFAULT_NAME, NOT_HANDED);
    if let Place::Folder(folder) = place {
        let all: Vec<(String, Vec<u8>)> = files.collect();
        anyhow::ensure!(all.iter().all(|(name, _)| handed::is_below_folder(name)), NOT_HANDED);
        write_folder(folder, all.into_iter())?;
    } else {
        let (name, packed) = files.next().context(NOT_HANDED)?;
        anyhow::ensure!(name == PACKED, NOT_HANDED);
        if matches!(place, Place::Output) {
            return write_out(&packed, &String::from_utf8_lossy(&told));
        }
        let default = String::from_utf8(default).ok().filter(|name| is_default_name(name));
        let named = args.output.clone().or_else(|| args.file.clone());
        let path = named.or(default.map(PathBuf::from)).context(NOT_HANDED)?;
        output::create_file(&path, &packed)?;
    }
    output::print_answer(global, &String::from_utf8_lossy(&told))?;
    Ok(Outcome::Done)
}

const NOT_HANDED: &str = "the process that read the recording handed over something else";

/// Compresses a recording into an archive.
fn pack(capture: &Capture) -> anyhow::Result<Vec<u8>> {
    let mut packed = Vec::new();
    capture.pack(&mut packed).context("packing the recording")?;
    Ok(packed)
}

/// Checks that an archive can be opened.
fn check_archive(packed: &[u8]) -> anyhow::Result<()> {
    let again = Recording::from_archive(packed, "the new recording")?;
    if let Some(problem) = again.into_problems().first() {
        let what = format!("the new recording cannot be read back: {problem}");
        anyhow::bail!(Refusal::with_advice(what, "tell us what this machine has so many of"));
    }
    Ok(())
}

fn write_folder(
    folder: &Path,
    files: impl Iterator<Item = (String, Vec<u8>)>,
) -> anyhow::Result<()> {
    output::create_empty_folder(folder)?;
    output::create_files_below(folder, files)
}

/// The default name of a recording's file, `pagewise-HASH-DATE.tar.zst`; the date is that of the
/// recording, in UTC.
fn default_name(capture: &Capture) -> String {
    let hash = capture.manifest.name.trim_start_matches("host-");
    format!("pagewise-{hash}-{}.tar.zst", date(capture.unix_seconds()))
}

/// Whether [`default_name`] can have produced the name: a file in the current folder, with no path
/// out of it.
fn is_default_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let stem = name.strip_prefix("pagewise-").and_then(|rest| rest.strip_suffix(".tar.zst"));
    stem.is_some_and(|stem| stem.bytes().all(is_plain))
}

fn date(unix_seconds: u64) -> String {
    let seconds = i64::try_from(unix_seconds).unwrap_or_default();
    let time = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    time.strftime("%Y-%m-%d").to_string()
}

/// What the owner of the machine needs to know before sending the recording. `path` is `None` for
/// standard output.
fn summary(path: Option<&Path>, capture: &Capture, packed: usize) -> String {
    let path = path.map(|path| Name::from(path.to_string_lossy().as_ref()));
    let place = path.as_ref().map_or("standard output", Name::as_str);
    let private = if path.is_some() { ", readable by you alone" } else { "" };
    let refused: usize = capture.manifest.ends.values().map(|end| end.refused.len()).sum();
    let plain: usize = capture.files.values().map(Vec::len).sum();
    let mut text = format!(
        "{place}: {} packed{private}\n\
         \x20 inside    {} files ({}) at {} times, {refused} more that gave nothing\n\
         \x20 names     this host is {}, Linux {}; its name and boot id are hashed with a random key\n\
         \x20           that is not kept; programs, cgroups, users and files of your own are numbered\n",
        to_bytes(packed),
        capture.files.len(),
        to_bytes(plain),
        capture.manifest.ends.len(),
        capture.manifest.name,
        capture.manifest.kernel,
    );
    text.push_str(&describe_left_out(capture));
    if let Some(path) = path {
        let _ = writeln!(text, "  look      pagewise report --root {path}");
    }
    text
}

/// Describes the kinds of lines that the recording leaves out, most frequent first.
fn describe_left_out(capture: &Capture) -> String {
    const SHOWN: usize = 12;
    let mut shapes: Vec<(&String, &u64)> = capture.left_out.iter().collect();
    shapes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let total: u64 = capture.left_out.values().sum();
    if total == 0 {
        return "  left out  nothing\n".to_owned();
    }
    let mut text = format!("  left out  {total} files, because no rule allows them:\n");
    for (shape, count) in shapes.iter().take(SHOWN) {
        let _ = writeln!(text, "            {count:>5}  {}", Name::from(shape.as_str()));
    }
    if shapes.len() > SHOWN {
        let _ = writeln!(text, "            and {} other kinds", shapes.len() - SHOWN);
    }
    text
}

fn json(place: &Path, capture: &Capture, packed: usize) -> String {
    let document = serde_json::json!({
        "schema": "pagewise/capture/1",
        "pagewise": env!("CARGO_PKG_VERSION"),
        "path": place.to_string_lossy(),
        "packed_bytes": packed,
        "name": capture.manifest.name,
        "kernel": capture.manifest.kernel,
        "ends": capture.manifest.ends.len(),
        "files": capture.files.len(),
        "left_out": capture.left_out,
    });
    format!("{document:#}\n")
}

fn to_bytes(bytes: usize) -> Bytes {
    Bytes::new(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_holds_hash_and_date() {
        assert_eq!(date(1_795_183_320), "2026-11-20");
        assert_eq!(date(u64::MAX), "1970-01-01");
        let mut capture = Capture::default();
        capture.manifest.name = "host-0011aabb".to_owned();
        assert_eq!(default_name(&capture), "pagewise-0011aabb-1970-01-01.tar.zst");
        assert!(is_default_name(&default_name(&capture)));
        for other in ["x.tar.zst", "pagewise-a/../b.tar.zst", "/pagewise-a.tar.zst", "pagewise-a"] {
            assert!(!is_default_name(other), "{other}");
        }
    }

    #[test]
    fn what_was_left_out_is_told_most_frequent_first() {
        let mut capture = Capture::default();
        assert!(describe_left_out(&capture).contains("nothing"));
        capture.left_out = [("a\x1b".to_owned(), 1), ("proc/N/environ".to_owned(), 40)].into();
        let text = describe_left_out(&capture);
        assert!(text.starts_with("  left out  41 files"), "{text}");
        assert!(text.find("environ") < text.find("a\\u{1b}"), "{text}");
    }
}
