// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise capture --every --for`: a recording over time.
//!
//! The file has its final name from the start and grows with each reading, so that a power loss
//! costs one reading instead of the whole recording. If a reading is only partly written, the file
//! can be read up to the reading before it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use pagewise_capture::{Capture, Stream, Timeline};
use pagewise_model::{Bytes, Name, Refusal, duration};
use pagewise_observe::{Recording, Scope, Tape};
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::progress::Measuring;
use pagewise_terminal::{Global, Outcome, output};

use crate::cli;

/// The minimum of `--every`, the time between readings: a reading of many processes takes a good
/// part of a second.
const SHORTEST: Duration = Duration::from_secs(1);
/// The maximum number of readings in a recording: one day at 10 s.
const MOST_READINGS: u32 = 8_640;
/// The longest sleep between two readings in one piece, so that Ctrl-C is noticed in time.
const NOTICED: Duration = Duration::from_millis(200);

pub(super) fn run(
    global: &Global,
    args: &cli::Capture,
    every: Duration,
    length: Duration,
) -> anyhow::Result<Outcome> {
    let wanted = count_readings(global, every, length)?;
    let stop = Stop::listen()?;
    let (timeline, mut capture) = Timeline::begin(&read()?);
    let path = super::path(args, &capture);
    let mut file = GrowingFile::begin(path, &capture)?;
    let files = capture.files.len();
    // frees memory: the first reading is in the file, and the timeline keeps the newest one itself
    capture.files.clear();
    let progress = Measuring::start(global, "recording");
    let readings = Readings { every, wanted, stop: &stop };
    let ended = readings.take_readings(timeline, &mut file, &progress)?;
    let done = file.finish(&ended)?;
    drop(progress);
    output::print_answer(global, &done.describe(global, &capture, files))?;
    Ok(Outcome::Done)
}

/// The number of readings after the first one.
fn count_readings(global: &Global, every: Duration, length: Duration) -> anyhow::Result<u32> {
    let [shown_every, shown_length] =
        [every, length].map(|time| duration::format_rough(time.as_secs_f64()));
    if global.root.is_some() {
        let what =
            "--every records this machine over time; a recording (--root) has its times already";
        anyhow::bail!(Refusal::with_advice(what, "leave out --root, or --every and --for"));
    }
    if every < SHORTEST {
        let what = format!("--every: expected 1 s or more, found {shown_every}");
        anyhow::bail!(Refusal::with_advice(what, "pagewise capture --every 1s --for 10m"));
    }
    if length < every {
        let what = format!(
            "--for is shorter than --every ({shown_length} and {shown_every}): nothing would change"
        );
        anyhow::bail!(Refusal::with_advice(what, "give --for at least the time of --every"));
    }
    let number = length.as_millis() / every.as_millis();
    let number = u32::try_from(number).ok().filter(|number| *number <= MOST_READINGS);
    number.ok_or_else(|| {
        let what = format!("--for {shown_length} at --every {shown_every}: expected at most {MOST_READINGS} readings");
        Refusal::with_advice(what, "read less often, or record in parts").into()
    })
}

/// Reads everything that a recording holds except proportional sizes (PSS), which would take most
/// of the time.
fn read() -> anyhow::Result<Tape> {
    let scope =
        Scope { process_rates: true, kernel_threads: true, ..Scope::everything(Duration::ZERO) };
    let live = Recording::live().context("/")?.without_start();
    let (_, tape) = live.record(&scope, || anyhow::Ok(()))?;
    Ok(tape)
}

/// Why a recording over time ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// The time given with `--for` has passed.
    Whole,
    /// The user pressed Ctrl-C.
    Stopped,
    /// One more reading would make the recording larger than pagewise can open.
    Full,
}

impl Ended {
    const fn word(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Stopped => "stopped",
            Self::Full => "full",
        }
    }
}

/// The schedule of the readings.
struct Readings<'a> {
    every: Duration,
    wanted: u32,
    stop: &'a Stop,
}

impl Readings<'_> {
    fn take_readings(
        &self,
        mut timeline: Timeline,
        file: &mut GrowingFile,
        progress: &Measuring,
    ) -> anyhow::Result<Ended> {
        let started = Instant::now();
        for number in 1..=self.wanted {
            let left = self.every * (self.wanted - number + 1);
            progress.show_step(number - 1, self.wanted, left, &file.size().to_string());
            if !self.wait_until(started + self.every * number) {
                return Ok(Ended::Stopped);
            }
            let is_added = match timeline.step(&read()?) {
                Some(step) => file.add(|stream| stream.add_step(&step))?,
                None => false,
            };
            if !is_added {
                return Ok(Ended::Full);
            }
        }
        Ok(Ended::Whole)
    }

    /// Waits until `time`; returns false if Ctrl-C comes first. The schedule is absolute, so a late
    /// reading does not delay the later ones.
    fn wait_until(&self, time: Instant) -> bool {
        while !self.stop.is_asked() {
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(NOTICED));
        }
        false
    }
}

/// The recording while it is being written.
struct GrowingFile {
    path: PathBuf,
    stream: Stream<'static>,
    /// A second handle of the recording's file, for reading it and for truncating it.
    file: File,
    /// The length in bytes of the recording's file after the last complete reading.
    whole: u64,
    readings: u32,
}

impl GrowingFile {
    fn begin(path: PathBuf, capture: &Capture) -> anyhow::Result<Self> {
        let file = output::create_file_to_fill(&path)?;
        let context = || path.display().to_string();
        let begun = file.try_clone().and_then(|out| {
            let mut stream = Stream::begin(capture, out)?;
            stream.flush()?;
            Ok(stream)
        });
        let stream =
            begun.map_err(|error| output::remove_unfilled(&path, &error).context(context()))?;
        let whole = file.metadata().with_context(context)?.len();
        Ok(Self { path, stream, file, whole, readings: 1 })
    }

    fn size(&self) -> Bytes {
        Bytes::new(self.whole)
    }

    /// Adds a reading; if that fails, truncates the file after the previous reading.
    fn add(
        &mut self,
        add: impl FnOnce(&mut Stream<'static>) -> std::io::Result<bool>,
    ) -> anyhow::Result<bool> {
        match add(&mut self.stream) {
            Ok(true) => {
                self.readings += 1;
                self.whole = self.file.metadata()?.len();
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(error) => Err(self.cut_error(&error)),
        }
    }

    /// Truncates the file to its complete readings, and describes the write error.
    fn cut_error(&self, error: &std::io::Error) -> anyhow::Error {
        let path = describe(&self.path);
        let left = match self.file.set_len(self.whole) {
            Ok(()) => format!("the file was cut after its {} whole readings", self.readings),
            Err(_) => format!("the file has {} whole readings and part of another", self.readings),
        };
        let what = format!("{path}: {error}; {left}");
        Refusal::with_advice(
            what,
            format!("free some space; pagewise report --root {path} shows the last readings"),
        )
        .into()
    }

    /// Completes the file, and opens it as its reader will.
    fn finish(self, ended: &Ended) -> anyhow::Result<Written> {
        let Self { path, stream, file, whole, readings } = self;
        let end = stream.finish().and_then(|()| file.sync_all());
        if let Err(error) = end {
            let _ = file.set_len(whole);
            let what = format!(
                "{}: {error}; all {readings} readings are in the file, without its end",
                describe(&path)
            );
            anyhow::bail!(Refusal::with_advice(
                what,
                "free some space, and record again to get a whole file"
            ));
        }
        let problems = pagewise_observe::open(&path)?.into_problems();
        if let Some(problem) = problems.first() {
            let what = format!("the new recording cannot be read back: {problem}");
            anyhow::bail!(Refusal::with_advice(what, "tell us what this machine has so many of"));
        }
        let size = Bytes::new(file.metadata()?.len());
        Ok(Written { path, size, readings, ended: *ended })
    }
}

/// The finished recording in its file.
struct Written {
    path: PathBuf,
    size: Bytes,
    readings: u32,
    ended: Ended,
}

impl Written {
    /// Describes the recording, whose first reading had this many `files`.
    fn describe(&self, global: &Global, capture: &Capture, files: usize) -> String {
        match (global.json, global.quiet) {
            (true, _) => self.json(capture, files),
            (false, true) => format!("{}\n", describe(&self.path)),
            (false, false) => self.summary(capture),
        }
    }

    fn summary(&self, capture: &Capture) -> String {
        let Self { path, size, readings, ended } = self;
        let path = describe(path);
        let early = match ended {
            Ended::Whole => "",
            Ended::Stopped => ", ended early by Ctrl-C",
            Ended::Full => ", ended early because nobody could open a larger recording",
        };
        let mut text = format!(
            "{path}: {size} packed, {readings} readings{early}, readable by you alone\n\
             \x20 names     this host is {}, Linux {}; its name and boot id are hashed with a random key\n\
             \x20           that is not kept; programs, cgroups, users and files of your own are numbered\n",
            capture.manifest.name, capture.manifest.kernel,
        );
        text.push_str(&super::describe_left_out(capture));
        text.push_str(&format!(
            "  look      pagewise report --root {path}; pagewise compare {path}\n"
        ));
        text
    }

    fn json(&self, capture: &Capture, files: usize) -> String {
        let document = serde_json::json!({
            "schema": "pagewise/capture/1",
            "pagewise": env!("CARGO_PKG_VERSION"),
            "path": self.path.to_string_lossy(),
            "packed_bytes": self.size.get(),
            "name": capture.manifest.name,
            "kernel": capture.manifest.kernel,
            "readings": self.readings,
            "ended": self.ended.word(),
            "files": files,
            "left_out": capture.left_out,
        });
        format!("{document:#}\n")
    }
}

fn describe(path: &Path) -> Name {
    Name::from(path.to_string_lossy().as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn readings_of(every: u64, length: u64) -> Result<u32, String> {
        let cli = cli::Cli::try_parse_from(["pagewise", "status"]).unwrap();
        let [every, length] = [every, length].map(Duration::from_secs);
        count_readings(&cli.global, every, length).map_err(|error| error.to_string())
    }

    #[test]
    fn the_number_of_readings_is_limited() {
        assert_eq!(readings_of(10, 3600), Ok(360));
        assert_eq!(readings_of(10, 19), Ok(1));
        assert_eq!(readings_of(10, 86_400), Ok(8640));
        assert!(readings_of(10, 86_410).unwrap_err().contains("at most 8640 readings"));
        assert!(readings_of(10, 9).unwrap_err().contains("shorter than --every"));
        assert!(readings_of(0, 9).unwrap_err().contains("expected 1 s or more"));
    }
}
