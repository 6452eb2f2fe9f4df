// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads what `sar -A` of sysstat printed, as an sosreport has it, into a [`SarHistory`].
//!
//! A section begins with a line of column names and ends with the next one; the same section comes
//! again after a restart. The columns and their order depend on the version of sysstat, so values are
//! found by name, and a section without the wanted names is skipped. Times are local times of that
//! machine in the form that its locale gave them; they are kept as they were printed.
//!
//! The binary files (`sa28`) are not read: their format depends on the version of sysstat.

use std::collections::BTreeMap;

use pagewise_hostfs::ReadHost;
use pagewise_model::{Bytes, Name, SarHistory, SarTime};

use crate::limits::{SAR_FILES, SAR_TIMES};

/// Folders in which an sosreport, or a machine itself, has files of sysstat.
const FOLDERS: [&str; 3] = ["sos_commands/sar", "var/log/sa", "var/log/sysstat"];

/// Reads the texts of sar that a host or a collection of its files has; `None` if it has no file of
/// sysstat.
pub fn read(host: &impl ReadHost) -> Option<SarHistory> {
    let mut history = SarHistory::default();
    let mut times = Times::default();
    let mut files = 0;
    for folder in FOLDERS {
        for name in host.names(folder) {
            let path = format!("{folder}/{name}");
            if is_binary(&name) {
                history.binary.push(Name::from(path.as_str()));
            } else if name.starts_with("sar") && files < SAR_FILES {
                files += 1;
                match host.bytes(&path) {
                    Ok(text) if times.parse(&text) => history.texts.push(Name::from(path.as_str())),
                    _ => history.unread.push(Name::from(path.as_str())),
                }
            }
        }
    }
    // a binary file need not be mentioned if its text is there
    let texts = history.texts.clone();
    let has_text = |path: &Name| {
        let number = path.as_str().rsplit("/sa").next().unwrap_or_default();
        texts.iter().any(|text| text.as_str().ends_with(&format!("/sar{number}")))
    };
    history.binary.retain(|path| !has_text(path));
    let is_empty =
        history.texts.is_empty() && history.binary.is_empty() && history.unread.is_empty();
    times.summarize(&mut history);
    (!is_empty).then_some(history)
}

/// Whether this is the name of a binary file: `sa28` or `sa20261128`.
fn is_binary(name: &str) -> bool {
    let digits = name.strip_prefix("sa").unwrap_or_default();
    matches!(digits.len(), 2 | 8) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The values of each time, by day and time of day as they were printed.
#[derive(Debug, Default)]
struct Times(BTreeMap<(String, String), SarTime>);

impl Times {
    /// Parses the text of a day; returns whether it has the form of sar's output.
    fn parse(&mut self, text: &[u8]) -> bool {
        let text = String::from_utf8_lossy(text);
        let mut day: Option<String> = None;
        let mut columns: Vec<&str> = Vec::new();
        for line in text.lines() {
            if let Some(printed) = line.strip_prefix("Linux ").and_then(day_of_first_line) {
                day = Some(printed);
                continue;
            }
            let Some((time, values)) = split_time(line) else {
                columns.clear();
                continue;
            };
            let is_header = values.first().is_some_and(|first| first.parse::<f64>().is_err());
            if is_header {
                columns = if is_wanted(&values) { values } else { Vec::new() };
            } else if let (Some(day), false) = (&day, columns.is_empty()) {
                self.add(day, &time, &columns, &values);
            }
        }
        day.is_some()
    }

    fn add(&mut self, day: &str, time: &str, columns: &[&str], values: &[&str]) {
        if columns.len() != values.len() {
            return;
        }
        let key = (day.to_owned(), time.to_owned());
        if self.0.len() >= SAR_TIMES && !self.0.contains_key(&key) {
            return;
        }
        let known = self.0.entry(key).or_insert_with(|| SarTime {
            time: Name::from(format!("{time} on {day}").as_str()),
            ..SarTime::default()
        });
        let number = |name: &str| {
            let at = columns.iter().position(|column| *column == name)?;
            // a locale may print a decimal comma
            let value: f64 = values[at].replace(',', ".").parse().ok()?;
            (value.is_finite() && value >= 0.0).then_some(value)
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let size = |name: &str| Bytes::from_kib(number(name)? as u64);
        let percent = |name: &str| number(name).map(|value| value.min(100.0));
        let set = |into: &mut Option<f64>, value: Option<f64>| *into = value.or(*into);
        known.available = size("kbavail").or(known.available);
        known.used = size("kbmemused").or(known.used);
        set(&mut known.swap_percent, percent("%swpused"));
        set(&mut known.major_faults_per_second, number("majflt/s"));
        set(&mut known.some_percent, percent("%smem"));
        set(&mut known.full_percent, percent("%fmem"));
    }

    /// Finds the worst times.
    fn summarize(self, history: &mut SarHistory) {
        let times = || self.0.values();
        history.times = self.0.len() as u64;
        let most = |value: fn(&SarTime) -> Option<f64>| {
            let known = times().filter_map(|time| Some((value(time)?, time)));
            let most = known.max_by(|(one, _), (other, _)| one.total_cmp(other));
            most.filter(|(value, _)| *value > 0.0).map(|(_, time)| time.clone())
        };
        history.least_available = times()
            .filter(|time| time.available.is_some())
            .min_by_key(|time| time.available)
            .cloned();
        history.most_waiting = most(|time| time.some_percent);
        history.most_swap = most(|time| time.swap_percent);
        history.most_major_faults = most(|time| time.major_faults_per_second);
    }
}

/// The day in the first line after `Linux `: `6.12.0 (host) \t11/28/26 \t_x86_64_\t(2 CPU)`.
fn day_of_first_line(rest: &str) -> Option<String> {
    // the name of the host, in brackets, may contain anything
    let (_, after) = rest.split_once(") ").or_else(|| rest.split_once(")\t"))?;
    let day = after.split_whitespace().next()?;
    let is_day = day.len() >= 6
        && day.len() <= 10
        && day.bytes().all(|byte| byte.is_ascii_digit() || b"/-.".contains(&byte));
    is_day.then(|| day.to_owned())
}

/// The time at the start of a line, with AM or PM if it has one, and the other words.
fn split_time(line: &str) -> Option<(String, Vec<&str>)> {
    let mut words = line.split_whitespace();
    let clock = words.next()?;
    let is_digit = |at: usize| clock.as_bytes()[at].is_ascii_digit();
    let is_clock = clock.len() == 8
        && clock.bytes().filter(|byte| *byte == b':').count() == 2
        && [0, 1, 3, 4, 6, 7].into_iter().all(is_digit);
    if !is_clock {
        return None;
    }
    let mut values: Vec<&str> = words.collect();
    let half = values.first().copied().filter(|word| matches!(*word, "AM" | "PM"));
    match half {
        Some(half) => {
            values.remove(0);
            Some((format!("{clock} {half}"), values))
        }
        None => Some((clock.to_owned(), values)),
    }
}

/// Whether a section has columns of memory, swap, paging or pressure of memory.
fn is_wanted(columns: &[&str]) -> bool {
    ["kbmemused", "%swpused", "majflt/s", "%smem"].iter().any(|name| columns.contains(name))
}

#[cfg(test)]
#[path = "sar/tests.rs"]
mod tests;
