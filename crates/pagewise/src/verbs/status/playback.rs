// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selects, from keys and time, which reading of a recording is shown. Pure: no I/O.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use pagewise_terminal::live::Key;

/// Playback speeds: seconds of the recording per second.
const PACES: [u32; 5] = [1, 2, 5, 10, 60];
/// The shortest wait between two frames in seconds; steps that are due earlier are skipped.
const SHORTEST: f64 = 0.1;
/// The longest wait in seconds for one step.
const LONGEST: f64 = 3600.0;
/// Maximum number of characters of a step number or time that the user types.
const LONGEST_TYPED: usize = 19;
const DAY: f64 = 86_400.0;

/// Which reading of a recording is shown, and whether playback is running.
#[derive(Debug, Clone)]
pub(super) struct Playback {
    /// When each reading was taken: seconds since 1970, UTC.
    unix: Vec<f64>,
    /// Seconds from the first reading to each reading; never decreasing.
    offsets: Vec<f64>,
    /// Index of the shown reading, from 0.
    step: usize,
    /// Position of the playback in the recording, in seconds from the first reading.
    played: f64,
    pace: usize,
    pub(super) is_playing: bool,
    pub(super) typed: Option<String>,
    pub(super) refused: Option<String>,
}

impl Playback {
    /// A playback that is paused at the first reading. `times` holds Unix and monotonic seconds of
    /// each reading, and is not empty.
    pub(super) fn new(times: impl Iterator<Item = (f64, f64)>) -> Self {
        let (unix, clock): (Vec<f64>, Vec<f64>) = times.unzip();
        let mut offset = 0.0;
        let steps = clock.windows(2).map(|pair| (pair[1] - pair[0]).clamp(0.0, DAY));
        let later = steps.map(|passed| {
            offset += passed;
            offset
        });
        let offsets = [0.0].into_iter().chain(later).collect();
        let (step, played, pace, is_playing) = (0, 0.0, 0, false);
        Self { unix, offsets, step, played, pace, is_playing, typed: None, refused: None }
    }

    pub(super) fn step(&self) -> usize {
        self.step
    }

    fn last_step(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    pub(super) fn pace(&self) -> u32 {
        PACES[self.pace]
    }

    /// Handles a key; returns false if the key is not about playback.
    pub(super) fn press(&mut self, key: Key) -> bool {
        self.refused = None;
        if self.typed.is_some() {
            self.type_jump(key);
            return true;
        }
        match key {
            Key::Char(' ') => self.play_or_pause(),
            Key::Char(',') | Key::Left => self.pause_at(self.step.saturating_sub(1)),
            Key::Char('.') | Key::Right => self.pause_at(self.step + 1),
            Key::Home => self.pause_at(0),
            Key::End => self.pause_at(self.last_step()),
            Key::Char('+' | '=') => self.pace = (self.pace + 1).min(PACES.len() - 1),
            Key::Char('-') => self.pace = self.pace.saturating_sub(1),
            Key::Char('j') => self.typed = Some(String::new()),
            _ => return false,
        }
        true
    }

    /// Starts or pauses playback; at the last step it starts from the beginning.
    fn play_or_pause(&mut self) {
        let is_playing = !self.is_playing && self.last_step() > 0;
        if is_playing && self.step == self.last_step() {
            self.pause_at(0);
        }
        self.is_playing = is_playing;
    }

    fn pause_at(&mut self, step: usize) {
        self.step = step.min(self.last_step());
        self.played = self.offsets[self.step];
        self.is_playing = false;
    }

    fn type_jump(&mut self, key: Key) {
        let Some(typed) = &mut self.typed else { return };
        match key {
            Key::Char(c @ (':' | '-' | ' ' | '0'..='9')) if typed.len() < LONGEST_TYPED => {
                typed.push(c);
            }
            Key::Backspace => _ = typed.pop(),
            Key::Escape => self.typed = None,
            Key::Enter => {
                let typed = std::mem::take(typed);
                self.typed = None;
                match self.find(&typed) {
                    Ok(step) => self.pause_at(step),
                    Err(refused) => self.refused = Some(refused),
                }
            }
            _ => {}
        }
    }

    /// Goes to the first reading at or after a time in seconds since 1970, and pauses there.
    pub(super) fn go_to_time(&mut self, unix: f64) -> Result<(), String> {
        let is_in = self.unix.first().is_some_and(|first| *first <= unix + 60.0);
        let found = self.unix.iter().position(|at| *at >= unix).filter(|_| is_in);
        match found {
            Some(step) => {
                self.pause_at(step);
                Ok(())
            }
            None => Err(self.refuse_time(&self.format_time(unix))),
        }
    }

    /// The step that the user typed, as its number or as a time in UTC.
    fn find(&self, typed: &str) -> Result<usize, String> {
        if typed.contains(':') {
            return self.find_time(typed).ok_or_else(|| self.refuse_time(typed));
        }
        let number = typed.parse().ok().and_then(|number: usize| number.checked_sub(1));
        number.filter(|step| *step <= self.last_step()).ok_or_else(|| {
            let steps = self.last_step() + 1;
            format!("no step {typed:?}: expected 1 to {steps}, or a time such as 12:31")
        })
    }

    fn refuse_time(&self, wanted: &str) -> String {
        let [first, last] = [0, self.last_step()]
            .map(|step| self.format_time(self.unix.get(step).copied().unwrap_or(0.0)));
        format!("no step at {wanted}: the recording is from {first} to {last} UTC")
    }

    /// The time of day; with the day if the recording is longer than a day.
    fn format_time(&self, unix: f64) -> String {
        let ends = self.unix.first().zip(self.unix.last());
        let is_long = ends.is_some_and(|(first, last)| last - first > DAY);
        format_with(unix, if is_long { "%Y-%m-%d %H:%M:%S" } else { "%H:%M:%S" })
    }

    /// The first step at or after this time. A time without a day means the day of the present step
    /// if the recording has this time on that day, otherwise the next day, the day before, or the
    /// day of the first reading.
    fn find_time(&self, typed: &str) -> Option<usize> {
        let (first, last) = (*self.unix.first()?, *self.unix.get(self.last_step())?);
        let present = self.unix.get(self.step).copied().unwrap_or(first);
        let midnight = |time: f64| (time / DAY).floor() * DAY;
        let (times, exact) = match parse_date(typed) {
            Some(time) => (vec![time], 60.0),
            None => {
                let (time, exact) = parse_time(typed)?;
                let days = [0.0, DAY, -DAY].map(|days| midnight(present) + days);
                let days = days.into_iter().chain([midnight(first), midnight(first) + DAY]);
                (days.map(|day| day + time).collect(), exact)
            }
        };
        // a time without seconds means its whole minute: if the recording begins in that minute,
        // the first step matches
        let is_in = |at: &f64| at + exact > first && *at <= last;
        let at = times.into_iter().find(is_in)?;
        self.unix.iter().position(|unix| *unix >= at)
    }

    /// Advances playback by the time that has passed.
    pub(super) fn advance(&mut self, passed: Duration) {
        if !self.is_playing {
            return;
        }
        self.played += passed.as_secs_f64() * f64::from(self.pace());
        let reached = self.offsets.partition_point(|offset| *offset <= self.played);
        self.step = reached.saturating_sub(1).max(self.step);
        self.is_playing = self.step < self.last_step();
    }

    /// Time until the next step; `None` while paused or at the last step.
    pub(super) fn next_in(&self) -> Option<Duration> {
        let next = self.offsets.get(self.step + 1).filter(|_| self.is_playing)?;
        let seconds = (next - self.played) / f64::from(self.pace());
        Some(Duration::from_secs_f64(seconds.clamp(SHORTEST, LONGEST)))
    }
}

/// Parses `12:31` or `12:31:05`: seconds since midnight, and the precision in seconds.
fn parse_time(typed: &str) -> Option<(f64, f64)> {
    let mut parts = typed.split(':').map(|part| part.parse::<u32>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next());
    let exact = if seconds.is_some() { 1.0 } else { 60.0 };
    let seconds = seconds.unwrap_or(Some(0))?;
    let is_time = hours < 24 && minutes < 60 && seconds < 60 && parts.next().is_none();
    is_time.then(|| (f64::from(hours * 3600 + minutes * 60 + seconds), exact))
}

/// Parses `2026-11-27 03:12` or `2026-11-27 03:12:05`: seconds since 1970, UTC.
fn parse_date(typed: &str) -> Option<f64> {
    let time: DateTime = typed.trim().parse().ok().filter(|_| typed.contains('-'))?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_duration().as_secs_f64())
}

fn format_with(unix: f64, format: &str) -> String {
    let time = SignedDuration::try_from_secs_f64(unix)
        .ok()
        .and_then(|it| Timestamp::from_duration(it).ok());
    time.map_or_else(|| "?".to_owned(), |time| time.strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A playback of readings every 10 s from 23:59:45 on.
    fn playback(steps: u32) -> Playback {
        let start = 20_000.0 * DAY + 86_385.0;
        Playback::new((0..steps).map(|step| {
            let passed = f64::from(step) * 10.0;
            (start + passed, 77.0 + passed)
        }))
    }

    fn typed(playback: &mut Playback, text: &str) {
        for c in text.chars() {
            let key = match c {
                '\n' => Key::Enter,
                '\x08' => Key::Backspace,
                c => Key::Char(c),
            };
            assert!(playback.press(key), "{c:?}");
        }
    }

    #[test]
    fn steps_are_gone_forward_and_back_and_never_beyond_the_ends() {
        let mut playback = playback(3);
        typed(&mut playback, ",.");
        assert_eq!(playback.step(), 1);
        for (key, step) in [(Key::End, 2), (Key::Right, 2), (Key::Left, 1), (Key::Home, 0)] {
            assert!(playback.press(key));
            assert_eq!(playback.step(), step, "{key:?}");
        }
        assert!(
            !playback.press(Key::Down) && !playback.press(Key::Char('q')),
            "these are for others"
        );
    }

    #[test]
    fn it_plays_at_its_pace_to_its_end_and_again() {
        let mut playback = playback(5);
        playback.advance(Duration::from_secs(60));
        assert_eq!((playback.step(), playback.next_in()), (0, None), "it is paused");
        typed(&mut playback, " ");
        assert_eq!(playback.next_in(), Some(Duration::from_secs(10)));
        playback.advance(Duration::from_secs(12));
        assert_eq!((playback.step(), playback.next_in()), (1, Some(Duration::from_secs(8))));
        typed(&mut playback, "++");
        assert_eq!((playback.pace(), playback.next_in()), (5, Some(Duration::from_millis(1600))));
        playback.advance(Duration::from_secs(4));
        assert_eq!(playback.step(), 3, "steps are left out rather than being late");
        playback.advance(Duration::from_secs(600));
        assert_eq!((playback.step(), playback.is_playing, playback.next_in()), (4, false, None));
        typed(&mut playback, " ");
        assert_eq!((playback.step(), playback.is_playing), (0, true));
        typed(&mut playback, " -----");
        assert_eq!((playback.is_playing, playback.pace()), (false, 1));
    }

    #[test]
    fn a_jump_leads_to_a_step_or_to_the_first_one_at_a_time() {
        let jumps = [
            ("1", 0),
            ("4", 3),
            ("23:59", 0),
            ("23:59:50", 1),
            ("23:59:55", 1),
            ("0:00", 2),
            ("00:00:06", 3),
            ("99\x08\x082", 1),
        ];
        for (text, step) in jumps {
            let mut playback = playback(5);
            typed(&mut playback, &format!("j{text}\n"));
            assert_eq!(
                (playback.step(), &playback.refused, &playback.typed),
                (step, &None, &None),
                "{text}"
            );
        }
        let mut playback = playback(5);
        for text in ["0", "6", "", "12:31", "24:00", "1:2:3:4", ":", "0:00:99"] {
            typed(&mut playback, &format!(".j{text}\n"));
            let refused = playback.refused.clone().unwrap_or_default();
            assert!(refused.starts_with("no step "), "{text}: {refused}");
            assert!(playback.press(Key::Home) && playback.refused.is_none());
        }
        typed(&mut playback, "j12:31\n");
        let expected = "no step at 12:31: the recording is from 23:59:45 to 00:00:25 UTC";
        assert_eq!(playback.refused.as_deref(), Some(expected));
    }

    /// In a record of a week, a time of day is that of the day on the screen.
    #[test]
    fn in_a_record_of_days_a_time_is_that_of_the_present_day_or_of_the_typed_one() {
        let start = 20_000.0 * DAY + 43_200.0;
        let week =
            || Playback::new((0..7 * 24).map(|hour| (start + f64::from(hour) * 3600.0, 0.0)));
        let step_at = |playback: &Playback, day: usize, hour: usize| {
            assert_eq!(playback.step(), day * 24 + hour - 12);
        };
        let mut playback = week();
        typed(&mut playback, "j03:00\n");
        step_at(&playback, 1, 3);
        typed(&mut playback, "j14:00\n");
        step_at(&playback, 1, 14);
        typed(&mut playback, "j2024-10-07 03:30\n");
        step_at(&playback, 3, 4);
        typed(&mut playback, "j3:00\n");
        step_at(&playback, 3, 3);
        playback.press(Key::End);
        typed(&mut playback, "j13:00\n");
        step_at(&playback, 6, 13);
        for wrong in ["2024-10-03 03:00", "2024-10-32 03:00", "2024-10 3:00", "- :"] {
            typed(&mut playback, &format!("j{wrong}\n"));
            let refused = playback.refused.clone().unwrap_or_default();
            let ends = "the recording is from 2024-10-04 12:00:00 to 2024-10-11 11:00:00 UTC";
            assert!(refused.ends_with(ends), "{wrong}: {refused}");
        }
        assert!(playback.go_to_time(start + 7.0 * 3600.0 - 5.0).is_ok());
        assert_eq!(playback.step(), 7);
        assert!(
            playback.go_to_time(start - 3600.0).unwrap_err().contains("no step at 2024-10-04 11")
        );
        assert!(playback.go_to_time(start + 8.0 * DAY).is_err());
    }

    fn any_key() -> impl Strategy<Value = Key> {
        let known = prop::sample::select(" ,.+-=j0123456789:".chars().collect::<Vec<_>>());
        let other = [
            Key::Left,
            Key::Right,
            Key::Home,
            Key::End,
            Key::Enter,
            Key::Escape,
            Key::Backspace,
            Key::Up,
        ];
        prop_oneof![
            3 => known.prop_map(Key::Char),
            1 => any::<char>().prop_map(Key::Char),
            2 => prop::sample::select(other.to_vec())
        ]
    }

    proptest! {
        /// For any keys and times, the step is a valid index, also if the clocks in the recording
        /// are invalid.
        #[test]
        fn the_step_is_always_one_of_the_recording(
            times in prop::collection::vec((0.0..1e12, 0.0..1e12), 1..20),
            keys in prop::collection::vec((any_key(), 0_u64..100_000), 0..60),
        ) {
            let steps = times.len();
            let mut playback = Playback::new(times.into_iter());
            for (key, millis) in keys {
                playback.press(key);
                prop_assert!(playback.step() < steps);
                let before = playback.step();
                playback.advance(Duration::from_millis(millis));
                prop_assert!((before..steps).contains(&playback.step()));
                prop_assert_eq!(playback.next_in().is_some(), playback.is_playing);
                prop_assert!(!playback.is_playing || playback.step() + 1 < steps);
            }
        }
    }
}
