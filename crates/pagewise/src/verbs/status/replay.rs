// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise status --watch --root FILE`: replays a recording, or the record of `pagewise monitor`, in
//! the live view.
//!
//! A step is shown as the live view would have shown it: rates compare a reading with the one
//! before, and growth covers the last six readings. So a jump first reads some steps before its
//! target, and a step looks the same from whichever direction it was reached.

use std::path::Path;
use std::time::{Duration, Instant};

use pagewise_model::{Interval, Refusal, Snapshot};
use pagewise_observe::{HostRoot, LiveReader, Scope, snapshot};
use pagewise_report::live::{LiveFrame, LiveReplay};
use pagewise_terminal::live::{Key, LiveScreen};
use pagewise_terminal::{Global, Outcome};

use super::keys::{KeyEffect, press};
use super::playback::Playback;
use super::readings::Readings;
use super::shown::{HISTORY, Shown, Source, show};
use crate::verbs::why::times;

/// Number of earlier readings from which the numbers of a step are computed.
const BEFORE: usize = 5;
/// A step that is due by more than this is late because the program was stopped (Ctrl-Z).
const LATE: Duration = Duration::from_secs(1);
/// How long a paused view waits for keys before it draws again.
const PAUSED: Duration = Duration::from_secs(3600);

/// Shows the readings of `path`. With `at`, a time as the user typed it, begins there.
pub(super) fn run(
    global: &Global,
    path: &Path,
    at: Option<&str>,
    screen: LiveScreen,
) -> anyhow::Result<Outcome> {
    let readings = Readings::open(path)?;
    let mut playback = playback_of(&readings);
    if let Some(at) = at {
        let last = readings.times().last().map_or(0.0, |it| it.unix);
        playback.go_to_time(times::parse(at, last)?).map_err(|what| {
            Refusal::with_advice(
                what,
                "times are in UTC; without --at, the view begins with the first step",
            )
        })?;
    }
    show(&mut Recorded::new(readings, playback), global, screen)
}

fn playback_of(readings: &Readings) -> Playback {
    Playback::new(readings.times().iter().map(|at| (at.unix, at.monotonic)))
}

/// The replayed recording.
struct Recorded {
    replay: Readings,
    reader: LiveReader,
    playback: Playback,
    shown: Shown,
    /// The step that was judged last, with its complete snapshot: usually the next step is judged
    /// next.
    judged: Option<(usize, Snapshot)>,
    position: LiveReplay,
    /// When the position of the playback was last updated.
    counted: Instant,
}

impl Recorded {
    fn new(replay: Readings, playback: Playback) -> Self {
        let mut reader = LiveReader::new(replay.host());
        let shown = Shown::new(reader.read(replay.host(), &Default::default()));
        let (position, counted) = (LiveReplay::default(), Instant::now());
        let judged = None;
        let mut recorded = Self { replay, reader, playback, shown, judged, position, counted };
        recorded.read_anew();
        recorded
    }

    /// Reads up to the step that playback has reached.
    fn read_current(&mut self) {
        let (at, to) = (self.replay.at(), self.playback.step());
        if !(at..=at + BEFORE).contains(&to) {
            return self.read_anew();
        }
        self.read_up_to(to);
    }

    /// Reads the step that playback has reached, after the earlier steps from which its numbers are
    /// computed.
    fn read_anew(&mut self) {
        let to = self.playback.step();
        self.replay.go_to(to.saturating_sub(BEFORE));
        self.reader = LiveReader::new(self.replay.host());
        let choice = self.shown.choice(0);
        match self.replay.earlier() {
            Some(earlier) => {
                self.shown.restart(self.reader.read(earlier, &choice));
                self.shown.add_reading(self.reader.read(self.replay.host(), &choice));
            }
            None => self.shown.restart(self.reader.read(self.replay.host(), &choice)),
        }
        self.read_up_to(to);
    }

    fn read_up_to(&mut self, to: usize) {
        let choice = self.shown.choice(0);
        while self.replay.at() < to {
            let before = self.replay.at();
            self.replay.go_to(before + 1);
            if self.replay.at() == before {
                // a file of the record was removed meanwhile
                break;
            }
            self.shown.add_reading(self.reader.read(self.replay.host(), &choice));
        }
        self.judge();
        self.show_pressure();
        self.show_position();
    }

    /// Judges this step from complete snapshots of it and of the step before, as `report` judges
    /// the last two readings. The live view alone reads too little: it does not read kills or
    /// cgroup limits, and without an interval, pressure that has ended cannot be distinguished from
    /// pressure that lasts.
    fn judge(&mut self) {
        let at = self.replay.at();
        let start = match (self.replay.earlier(), at.checked_sub(1)) {
            (Some(earlier), _) => Some(read_fully(earlier)),
            (None, Some(before)) => Some(self.read_fully_at(before)),
            (None, None) => None,
        };
        self.replay.go_to(at);
        let end = read_fully(self.replay.host());
        let interval = Interval { start: start.map(Box::new), end };
        self.shown.judge(&interval);
        self.judged = Some((at, interval.end));
    }

    /// The complete snapshot of this step. Moves to the step unless its snapshot was kept.
    fn read_fully_at(&mut self, step: usize) -> Snapshot {
        match self.judged.take() {
            Some((judged, snapshot)) if judged == step => snapshot,
            _ => {
                self.replay.go_to(step);
                read_fully(self.replay.host())
            }
        }
    }

    /// Computes the pressure chart for the intervals up to the current step.
    fn show_pressure(&mut self) {
        let (at, times) = (self.replay.at(), self.replay.times());
        let (seconds, pressure) = (at.saturating_sub(HISTORY) + 1..=at)
            .filter_map(|step| {
                let [before, now] = [step - 1, step].map(|step| self.replay.stalled(step));
                let seconds = times[step].monotonic - times[step - 1].monotonic;
                let stalled = now?.checked_sub(before?)? as f64;
                (seconds > 0.0).then(|| (seconds, (stalled / seconds / 1e4).min(100.0)))
            })
            .unzip();
        (self.shown.seconds, self.shown.pressure) = (seconds, pressure);
    }

    fn show_position(&mut self) {
        let (at, times, playback) = (self.replay.at(), self.replay.times(), &self.playback);
        self.position = LiveReplay {
            step: at + 1,
            steps: times.len(),
            unix_seconds: times.get(at).map_or(0.0, |at| at.unix),
            seconds_since_previous: self.replay.seconds_since_previous(at),
            is_playing: playback.is_playing,
            pace: playback.pace(),
            early: self.replay.early().map(str::to_owned),
            typed: playback.typed.clone(),
            refused: playback.refused.clone(),
        };
    }

    fn advance_playback(&mut self) {
        let now = Instant::now();
        let most = self.playback.next_in().unwrap_or_default() + LATE;
        self.playback.advance((now - self.counted).min(most));
        self.counted = now;
    }
}

impl Source for Recorded {
    fn frame(&self) -> LiveFrame<'_> {
        self.shown.frame(Some(&self.position))
    }

    fn press(&mut self, key: Key) -> KeyEffect {
        self.advance_playback();
        let is_taken = !self.shown.view.is_typing && self.playback.press(key);
        let before = self.shown.parts_that_affect_reading();
        let mut effect = KeyEffect::Shown;
        if !is_taken {
            let rows = self.shown.rows();
            effect = press(&mut self.shown.view, key, &rows);
        }
        if before == self.shown.parts_that_affect_reading() {
            self.read_current();
        } else {
            self.read_anew();
        }
        effect
    }

    fn deadline(&self) -> Instant {
        self.counted + self.playback.next_in().unwrap_or(PAUSED)
    }

    /// A recording shows all rows in full, so the number of rows does not matter.
    fn update(&mut self, _rows: usize) {
        self.advance_playback();
        self.read_current();
    }
}

fn read_fully(host: &HostRoot) -> Snapshot {
    snapshot(host, &Scope { smaps_enough: 0, ..Scope::everything(Duration::ZERO) })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pagewise_capture::{Stream, Timeline};
    use pagewise_observe::{Entry, Replay, Rest, Tape, TapeEnd, open_replay};
    use pagewise_record::{Ring, RingLimits, Shelf};
    use pagewise_report::live::{LiveLine, LiveWindow};
    use pagewise_report::text;
    use pagewise_testkit::scene::{Scene, interval, slugs};
    use proptest::prelude::*;

    use super::*;
    use pagewise_model::Bytes;

    /// Twelve readings, every 10 s from 12:30:00 UTC on; the changing values do not grow steadily.
    const STEPS: u32 = 12;

    fn tape(step: u32) -> Tape {
        let grown = step * step * 1000;
        let files = [
            (
                "proc/meminfo",
                format!(
                    "MemTotal: 900000 kB\nMemFree: {} kB\nMemAvailable: {} kB\n",
                    500_000 - grown,
                    600_000 - grown
                ),
            ),
            ("proc/vmstat", format!("pgmajfault {}\noom_kill {}\n", step * 70, step / 4)),
            (
                "proc/pressure/memory",
                format!("some avg10=1.00 avg60=0.00 avg300=0.00 total={}\n", step * step * 50_000),
            ),
            ("proc/sys/kernel/random/boot_id", "7\n".to_owned()),
            (
                "proc/7/status",
                format!(
                    "Name:\tredis\nState:\tS (sleeping)\nVmSize:\t9 kB\nVmRSS:\t{grown} kB\n\
                     RssAnon:\t{grown} kB\nVmSwap:\t0 kB\n"
                ),
            ),
            (
                "proc/7/stat",
                format!(
                    "7 (redis) S 1 7 7 0 -1 0 0 0 {} 0 {} 0 0 0 20 0 1 0 5 0\n",
                    step * 20,
                    step * 3
                ),
            ),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), Entry::File(text.into_bytes())));
        let seconds = f64::from(step) * 10.0;
        let end = TapeEnd {
            name: "end",
            unix_seconds: 86_400.0 * 20_000.0 + 45_000.0 + seconds,
            monotonic_seconds: 500.0 + seconds,
            awake_seconds: None,
            files: files.into_iter().collect(),
        };
        Tape { page_size: Some(4096), ends: vec![end] }
    }

    /// The packed recording, and its length in bytes after the first half of the readings.
    fn packed() -> (Vec<u8>, usize) {
        let (mut timeline, capture) = Timeline::begin(&tape(0));
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut stream = Stream::begin(&capture, file.reopen().unwrap()).unwrap();
        let mut half = 0;
        for step in 1..STEPS {
            assert!(stream.add_step(&timeline.step(&tape(step)).unwrap()).unwrap());
            if step == STEPS / 2 - 1 {
                half = usize::try_from(file.as_file().metadata().unwrap().len()).unwrap();
            }
        }
        stream.finish().unwrap();
        (read(file.path()), half)
    }

    #[expect(clippy::disallowed_methods, reason = "a test reads its own file")]
    fn read(path: &Path) -> Vec<u8> {
        std::fs::read(path).unwrap()
    }

    fn opened(bytes: &[u8]) -> Recorded {
        use std::io::Write as _;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        recorded(open_replay(file.path(), |_| ()).unwrap())
    }

    fn recorded(replay: Replay) -> Recorded {
        let readings = Readings::from_replay(replay);
        let playback = playback_of(&readings);
        Recorded::new(readings, playback)
    }

    fn frame(recorded: &Recorded, width: usize, height: usize) -> Vec<String> {
        let window = LiveWindow { width, height, colour: false, unicode: true };
        let lines = text::live(&recorded.frame(), window);
        let lines: Vec<String> = lines.iter().map(LiveLine::text).collect();
        assert!(
            lines.len() == height && lines.iter().all(|line| text::width(line) <= width),
            "{lines:?}"
        );
        lines
    }

    #[test]
    fn the_first_line_says_which_step_of_which_time_it_is() {
        let (bytes, half) = packed();
        let mut whole = opened(&bytes);
        whole.press(Key::Right);
        let lines = frame(&whole, 80, 24);
        assert_eq!(lines[0], "Recording of 2024-10-04 12:30:10 UTC, step 2 of 12");
        assert!(
            lines[23].starts_with("q quit  ? help  space play  ,/. step  +/- ×1  j jump"),
            "{lines:?}"
        );
        assert!(
            frame(&whole, 120, 40).concat().contains("redis")
                || whole.shown.sample.processes.len() == 1
        );
        assert_eq!(frame(&whole, 40, 10)[0], "recording 12:30:10, step 2/12");
        let mut cut = opened(&bytes[..half]);
        cut.press(Key::End);
        assert_eq!(frame(&cut, 40, 10)[0], "recording 12:30:50, step 6/6, cut");
        let first = &frame(&cut, 120, 40)[0];
        assert!(
            first.starts_with("Recording of 2024-10-04 12:30:50 UTC, step 6 of 6, ends early: the file is not whole ("),
            "{first}"
        );
    }

    /// The expected values of one step are computed by hand from readings 7 (49,000 KiB) and 8
    /// (64,000 KiB).
    #[test]
    fn rates_are_those_of_the_step_before_and_growth_that_of_six_readings() {
        let mut recorded = opened(&packed().0);
        for key in "j9".chars().map(Key::Char).chain([Key::Enter]) {
            recorded.press(key);
        }
        let process = &recorded.shown.sample.processes[0];
        assert_eq!(process.faults_per_second, Some(2.0));
        assert_eq!(process.cpu_percent, Some(0.3));
        let grown = f64::from((64 - 9) * 1000 * 1024) / 50.0;
        assert_eq!(process.growth_per_second, Some(grown));
        assert_eq!(
            recorded.shown.interval.vmstat("pgmajfault").map(|change| change.per_second),
            Some(7.0)
        );
        assert_eq!(recorded.shown.pressure.len(), 8);
        assert!((recorded.shown.pressure[7] - 7.5).abs() < 1e-9, "{:?}", recorded.shown.pressure);
        assert_eq!(recorded.frame().kills, Some(2));
    }

    #[test]
    fn a_recording_of_one_moment_is_one_step() {
        let (_, capture) = Timeline::begin(&tape(3));
        let file = tempfile::NamedTempFile::new().unwrap();
        Stream::begin(&capture, file.reopen().unwrap()).unwrap().finish().unwrap();
        let mut recorded = recorded(open_replay(file.path(), |_| ()).unwrap());
        for key in [Key::Right, Key::Char(' '), Key::End, Key::Left] {
            recorded.press(key);
            let first = &frame(&recorded, 80, 24)[0];
            let expected =
                "Recording of 2024-10-04 12:30:30 UTC, step 1 of 1 (a recording of one moment)";
            assert_eq!(first, expected);
            assert!(recorded.playback.next_in().is_none());
        }
    }

    /// A record of the same readings, in three files, with a pause of ten minutes before the ninth.
    fn record(folder: &Path) -> Shelf {
        let limits = || RingLimits { size: Bytes::new(8 << 20), age: Duration::from_secs(1 << 40) };
        for steps in [0..4, 4..8, 8..STEPS] {
            let mut ring = Ring::open(folder, limits()).unwrap();
            for step in steps {
                let mut tape = tape(step);
                let end = &mut tape.ends[0];
                end.unix_seconds += if step >= 8 { 600.0 } else { 0.0 };
                ring.add(tape, &Rest::Nothing).unwrap();
            }
        }
        Shelf::open(folder).unwrap()
    }

    fn opened_record(folder: &Path) -> Recorded {
        let readings = Readings::from_record(record(folder), None).unwrap();
        let playback = playback_of(&readings);
        Recorded::new(readings, playback)
    }

    /// The steps of a record look as those of a recording of the same readings, also at the borders of
    /// its files, whichever way they were reached.
    #[test]
    fn a_record_of_several_files_is_stepped_through_as_a_recording() {
        let folder = tempfile::tempdir().unwrap();
        let (mut recording, mut record) = (opened(&packed().0), opened_record(folder.path()));
        assert_eq!(record.replay.record_files(), 3);
        let without_first = |recorded: &Recorded| frame(recorded, 120, 40)[1..].to_vec();
        for keys in [
            vec![Key::Right; 8],
            vec![Key::Left; 5],
            vec![Key::Home],
            vec![Key::Right, Key::Right],
            "j7".chars().map(Key::Char).chain([Key::Enter]).collect(),
            "j12:30:40".chars().map(Key::Char).chain([Key::Enter]).collect(),
        ] {
            for key in keys {
                recording.press(key);
                record.press(key);
                // from the ninth reading on, the times differ
                if record.replay.at() < 8 {
                    assert_eq!(without_first(&record), without_first(&recording));
                    assert_eq!(frame(&record, 80, 24)[0], frame(&recording, 80, 24)[0]);
                }
            }
        }
        record.press(Key::End);
        for _ in 0..3 {
            record.press(Key::Left);
        }
        let first = frame(&record, 100, 24)[0].clone();
        assert!(first.ends_with("step 9 of 12, 10 min after the step before"), "{first}");
    }

    #[test]
    fn a_record_without_an_index_or_with_damage_shows_what_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        drop(record(folder.path()));
        let mut files = list(folder.path());
        files.sort();
        let (indexes, rings): (Vec<_>, Vec<_>) = files
            .into_iter()
            .filter(|path| path.file_name().is_some_and(|name| name != "lock"))
            .partition(|path| path.extension().is_some_and(|it| it == "index"));
        remove(&indexes[0]);
        let steps = |folder: &Path| {
            Readings::from_record(Shelf::open(folder).unwrap(), None).map(|it| it.times().len())
        };
        assert_eq!(steps(folder.path()).unwrap(), 12);
        let mut bytes = read(&rings[1]);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        write(&rings[1], &bytes);
        assert_eq!(steps(folder.path()).unwrap(), 11);
        rings.iter().for_each(|path| write(path, b"nonsense"));
        assert!(steps(folder.path()).is_err());
    }

    #[expect(clippy::disallowed_methods, reason = "a test changes its own files")]
    fn write(path: &Path, bytes: &[u8]) {
        std::fs::write(path, bytes).unwrap();
    }

    #[expect(clippy::disallowed_methods, reason = "a test lists its own files")]
    fn list(folder: &Path) -> Vec<std::path::PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect()
    }

    fn remove(path: &Path) {
        std::fs::remove_file(path).unwrap();
    }

    fn any_key() -> impl Strategy<Value = Key> {
        let known =
            " ,.+-j123:\n?gs/k".chars().map(|c| if c == '\n' { Key::Enter } else { Key::Char(c) });
        let other = [Key::Left, Key::Right, Key::Home, Key::End, Key::Up, Key::Down, Key::Escape];
        prop::sample::select(known.chain(other).collect::<Vec<_>>())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// After any keys, a step looks the same as if the view had jumped to it from the start.
        #[test]
        fn a_step_looks_the_same_whichever_way_it_was_reached(keys in prop::collection::vec(any_key(), 1..30)) {
            let bytes = packed().0;
            let mut recorded = opened(&bytes);
            for key in keys {
                recorded.press(key);
                recorded.playback.advance(Duration::from_secs(7));
                recorded.read_current();
                let mut jumped = opened(&bytes);
                jumped.shown.view = recorded.shown.view.clone();
                jumped.playback = recorded.playback.clone();
                jumped.read_anew();
                prop_assert_eq!(frame(&recorded, 120, 40), frame(&jumped, 120, 40));
            }
        }
    }

    /// A recording over time with two steps, which are both ends of a recorded host's interval.
    fn two_steps(slug: &str) -> tempfile::NamedTempFile {
        let files = Scene::load(slug).into_files();
        let tape = |end: &str, seconds: f64| {
            let of_end = files.iter().filter_map(|(path, bytes)| {
                let path = path.strip_prefix(end)?.strip_prefix('/')?.replace("%2E%2E", "..");
                Some((path, Entry::File(bytes.clone())))
            });
            let end = TapeEnd {
                name: "end",
                unix_seconds: 86_400.0 * 20_000.0 + seconds,
                monotonic_seconds: 1000.0 + seconds,
                awake_seconds: Some(1000.0 + seconds),
                files: of_end.collect(),
            };
            Tape { page_size: Some(4096), ends: vec![end] }
        };
        let (mut timeline, capture) = Timeline::begin(&tape("start", 0.0));
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut stream = Stream::begin(&capture, file.reopen().unwrap()).unwrap();
        assert!(stream.add_step(&timeline.step(&tape("end", 1.0)).unwrap()).unwrap());
        stream.finish().unwrap();
        file
    }

    /// The last step has the verdict that `report` and `doctor` give for the same file. The live
    /// view alone reads less, and would judge otherwise.
    #[test]
    fn the_verdict_of_the_last_step_is_that_of_report() {
        let (mut compared, mut not_calm) = (0, 0);
        for slug in slugs() {
            let file = two_steps(&slug);
            let mut watched = recorded(open_replay(file.path(), |_| ()).unwrap());
            watched.press(Key::End);
            let report = interval(&pagewise_observe::open(file.path()).unwrap());
            let verdict = pagewise_decide::judge(&report);
            let shown = watched.frame();
            assert_eq!(shown.verdict.line, verdict.line, "{slug}");
            assert_eq!(shown.verdict.level, verdict.level, "{slug}");
            let groups = |of: &pagewise_model::HostVerdict| -> Vec<_> {
                of.groups.iter().map(|group| (group.group.clone(), group.level)).collect()
            };
            assert_eq!(groups(shown.verdict), groups(&verdict), "{slug}");
            compared += 1;
            not_calm += usize::from(verdict.level > pagewise_model::Level::Calm);
        }
        assert!(compared > 30 && not_calm >= 12, "{compared} recordings, {not_calm} not calm");
    }
}
