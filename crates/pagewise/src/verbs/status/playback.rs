// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selects, from keys and time, which reading of a recording is shown. Pure: no I/O.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pagewise_terminal::live::Key;

/// Playback speeds: seconds of the recording per second.
const PACES: [u32; 5] = [1, 2, 5, 10, 60];
/// The shortest wait between two frames in seconds; steps that are due earlier are skipped.
const SHORTEST: f64 = 0.1;
/// The longest wait in seconds for one step.
const LONGEST: f64 = 3600.0;
/// Maximum number of characters of a step number or time that the user types.
const LONGEST_TYPED: usize = 8;
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
            Key::Char(c) if typed.len() < LONGEST_TYPED && (c == ':' || c.is_ascii_digit()) => {
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

    /// The step that the user typed, as its number or as a time of day in UTC.
    fn find(&self, typed: &str) -> Result<usize, String> {
        if typed.contains(':') {
            return self.find_time(typed).ok_or_else(|| {
                let [first, last] = [0, self.last_step()]
                    .map(|step| format_clock(self.unix.get(step).copied().unwrap_or(0.0)));
                format!("no step at {typed}: the recording is from {first} to {last} UTC")
            });
        }
        let number = typed.parse().ok().and_then(|number: usize| number.checked_sub(1));
        number.filter(|step| *step <= self.last_step()).ok_or_else(|| {
            let steps = self.last_step() + 1;
            format!("no step {typed:?}: expected 1 to {steps}, or a time such as 12:31")
        })
    }

    /// The first step at or after this time of day. If the recording has no such time on the day of
    /// its first reading, the next day is meant.
    fn find_time(&self, typed: &str) -> Option<usize> {
        let (time, exact) = parse_time(typed)?;
        let (first, last) = (*self.unix.first()?, *self.unix.get(self.last_step())?);
        let midnight = (first / DAY).floor() * DAY;
        // a time without seconds means its whole minute: if the recording begins in that minute,
        // the first step matches
        let is_in = |at: &f64| at + exact > first && *at <= last;
        let at = [time, time + DAY].map(|time| midnight + time).into_iter().find(is_in)?;
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

fn format_clock(unix: f64) -> String {
    let time = SignedDuration::try_from_secs_f64(unix)
        .ok()
        .and_then(|it| Timestamp::from_duration(it).ok());
    time.map_or_else(|| "?".to_owned(), |time| time.strftime("%H:%M:%S").to_string())
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
