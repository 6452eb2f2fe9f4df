// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of configuration files → [`PersistentSetting`]s of one mechanism, within limits.

use pagewise_hostfs::limits::last;
use pagewise_hostfs::text::{Line, Text, words};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues, absolute};
use pagewise_model::{Effect, Mechanism, Name, PersistentSetting, Reading, Target};

use crate::limits::{CONFIG_LINES, CONFIG_SETTINGS};

/// What one mechanism sets, in the order in which it was added.
#[derive(Debug)]
pub(crate) struct Collector<'h> {
    pub(crate) host: &'h HostRoot,
    mechanism: Mechanism,
    /// Each with its place in the order of application; of equal places the first added comes first.
    all: Vec<(usize, PersistentSetting)>,
}

impl<'h> Collector<'h> {
    pub(crate) fn new(host: &'h HostRoot, mechanism: Mechanism) -> Self {
        Self { host, mechanism, all: Vec::new() }
    }

    /// What a line sets. White space in the value is folded.
    pub(crate) fn add(&mut self, target: Target, value: &[u8], line: &Line<'_>, effect: &Effect) {
        self.add_at(0, target, value, line, effect);
    }

    /// The same, applied after all that have an earlier place.
    pub(crate) fn add_at(
        &mut self,
        place: usize,
        target: Target,
        value: &[u8],
        line: &Line<'_>,
        effect: &Effect,
    ) {
        let value = Reading::found(Name::from_bytes(&folded(value)), line.source());
        let effect = effect.clone();
        // so that no file can make this grow without end; what comes later wins
        if self.all.len() >= 4 * CONFIG_SETTINGS {
            self.all.drain(..CONFIG_SETTINGS);
        }
        let mechanism = self.mechanism;
        self.all.push((place, PersistentSetting { mechanism, target, value, effect }));
    }

    /// A file that is text.
    pub(crate) fn text(&self, path: &str) -> Option<Text> {
        self.host.text(path).ok()
    }

    /// Gives each line of a file to `read`.
    pub(crate) fn lines(&mut self, path: &str, read: impl FnMut(&mut Self, &Line<'_>)) {
        if let Some(text) = self.text(path) {
            self.lines_of(&text, read);
        }
    }

    /// As [`Collector::lines`], for a file that holds at least one of these words: most hold none, and one
    /// search is faster than a look at each line.
    pub(crate) fn lines_with(
        &mut self,
        words: &[&str],
        path: &str,
        read: impl FnMut(&mut Self, &Line<'_>),
    ) {
        let Ok(bytes) = self.host.bytes(path) else { return };
        if words.iter().any(|word| memchr::memmem::find(&bytes, word.as_bytes()).is_some()) {
            self.lines_of(&Text::new(&absolute(path), bytes), read);
        }
    }

    fn lines_of(&mut self, text: &Text, mut read: impl FnMut(&mut Self, &Line<'_>)) {
        text.first_lines(self.host, CONFIG_LINES).for_each(|line| read(self, &line));
    }

    /// In the order in which they are applied.
    pub(crate) fn done(self) -> Vec<PersistentSetting> {
        self.placed().into_iter().map(|(_, setting)| setting).collect()
    }

    /// The same with their places.
    pub(crate) fn placed(mut self) -> Vec<(usize, PersistentSetting)> {
        self.all.sort_by_key(|(place, _)| *place);
        last(self.host, self.mechanism.name(), CONFIG_SETTINGS, self.all)
    }
}

/// White space made single spaces.
pub(crate) fn folded(text: &[u8]) -> Vec<u8> {
    words(text).collect::<Vec<&[u8]>>().join(&b' ')
}

/// `name=value`, both trimmed; `None` for comments.
pub(crate) fn assigned(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii();
    if line.starts_with(b"#") || line.starts_with(b";") {
        return None;
    }
    let at = line.iter().position(|&byte| byte == b'=')?;
    Some((line[..at].trim_ascii(), line[at + 1..].trim_ascii()))
}

/// `[name]`.
pub(crate) fn section(line: &[u8]) -> Option<&[u8]> {
    line.trim_ascii().strip_prefix(b"[")?.strip_suffix(b"]")
}
