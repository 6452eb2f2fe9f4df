// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collects the [`PersistentSetting`]s of one mechanism from lines of configuration files, within
//! limits.

use pagewise_hostfs::limits::last;
use pagewise_hostfs::text::{Line, Text, words};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues, absolute_path};
use pagewise_model::{Effect, Mechanism, Name, PersistentSetting, Reading, Target};

use crate::limits::{CONFIG_LINES, CONFIG_SETTINGS};

/// The settings of one mechanism, in the order in which they were added.
#[derive(Debug)]
pub(crate) struct Collector<'h> {
    pub(crate) host: &'h HostRoot,
    mechanism: Mechanism,
    /// Each setting with its position in the order of application. Of settings with equal
    /// positions, the one added first comes first.
    all: Vec<(usize, PersistentSetting)>,
}

impl<'h> Collector<'h> {
    pub(crate) fn new(host: &'h HostRoot, mechanism: Mechanism) -> Self {
        Self { host, mechanism, all: Vec::new() }
    }

    /// Adds a setting that a line of a file sets. White space in the value is folded.
    pub(crate) fn add(&mut self, target: Target, value: &[u8], line: &Line<'_>, effect: &Effect) {
        self.add_at(0, target, value, line, effect);
    }

    /// Adds a setting that is applied after all settings with a lower position.
    pub(crate) fn add_at(
        &mut self,
        place: usize,
        target: Target,
        value: &[u8],
        line: &Line<'_>,
        effect: &Effect,
    ) {
        let value = Reading::found(Name::from_bytes(&fold_spaces(value)), line.source());
        let effect = effect.clone();
        // this bounds the memory, whatever a file contains; the later settings are kept, because
        // they override earlier ones
        if self.all.len() >= 4 * CONFIG_SETTINGS {
            self.all.drain(..CONFIG_SETTINGS);
        }
        let mechanism = self.mechanism;
        self.all.push((place, PersistentSetting { mechanism, target, value, effect }));
    }

    /// Returns the lines of a file; `None` if it cannot be read.
    pub(crate) fn read_text(&self, path: &str) -> Option<Text> {
        self.host.text(path).ok()
    }

    /// Calls `read` with each line of a file.
    pub(crate) fn lines(&mut self, path: &str, read: impl FnMut(&mut Self, &Line<'_>)) {
        if let Some(text) = self.read_text(path) {
            self.lines_of(&text, read);
        }
    }

    /// Calls `read` with each line of a file, but only if the file contains at least one of these
    /// words. Most files contain none of them, and one search is faster than parsing each line.
    pub(crate) fn lines_with(
        &mut self,
        words: &[&str],
        path: &str,
        read: impl FnMut(&mut Self, &Line<'_>),
    ) {
        let Ok(bytes) = self.host.bytes(path) else { return };
        if words.iter().any(|word| memchr::memmem::find(&bytes, word.as_bytes()).is_some()) {
            self.lines_of(&Text::new(&absolute_path(path), bytes), read);
        }
    }

    /// For systemd and udev, a carriage return and a zero byte also end a line, so that the text
    /// after one in a comment is read as a line.
    fn lines_of(&mut self, text: &Text, mut read: impl FnMut(&mut Self, &Line<'_>)) {
        let is_systemd = matches!(
            self.mechanism,
            Mechanism::ModulesLoad
                | Mechanism::Udev
                | Mechanism::Sysctl
                | Mechanism::Tmpfiles
                | Mechanism::SwapUnit
                | Mechanism::UnitProperty
        );
        for line in text.first_lines(self.host, CONFIG_LINES) {
            if !is_systemd || memchr::memchr2(b'\r', b'\0', line.bytes).is_none() {
                read(self, &line);
                continue;
            }
            let parts = line.bytes.split(|byte| matches!(byte, b'\r' | b'\0'));
            // the empty part between a carriage return and its newline is not a line
            parts.filter(|part| !part.is_empty()).for_each(|part| read(self, &line.part(part)));
        }
    }

    /// How many settings were added.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Changes the effect of the settings that were added after the first `count`, except for those
    /// that are not applied anyway.
    pub(crate) fn doubt_all_after(&mut self, count: usize, effect: &Effect) {
        for (_, setting) in self.all.iter_mut().skip(count) {
            if setting.effect == Effect::Applied {
                setting.effect = effect.clone();
            }
        }
    }

    /// Returns the collected settings in the order in which they are applied.
    pub(crate) fn finish(self) -> Vec<PersistentSetting> {
        self.into_settings_with_order().into_iter().map(|(_, setting)| setting).collect()
    }

    /// Returns the collected settings with their positions, in the order in which they are applied.
    pub(crate) fn into_settings_with_order(mut self) -> Vec<(usize, PersistentSetting)> {
        self.all.sort_by_key(|(place, _)| *place);
        last(self.host, self.mechanism.name(), CONFIG_SETTINGS, self.all)
    }
}

/// Replaces each run of white space by a single space.
pub(crate) fn fold_spaces(text: &[u8]) -> Vec<u8> {
    words(text).collect::<Vec<&[u8]>>().join(&b' ')
}

/// Parses a line `name=value` into both parts, trimmed; `None` for comments.
pub(crate) fn split_assignment(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii();
    if line.starts_with(b"#") || line.starts_with(b";") {
        return None;
    }
    let at = line.iter().position(|&byte| byte == b'=')?;
    Some((line[..at].trim_ascii(), line[at + 1..].trim_ascii()))
}

/// Parses a line `[name]` into the name of the section that it begins.
pub(crate) fn parse_section(line: &[u8]) -> Option<&[u8]> {
    line.trim_ascii().strip_prefix(b"[")?.strip_suffix(b"]")
}
