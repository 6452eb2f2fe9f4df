// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the forms of a log in which a message is a value of its own: JSON of `journalctl`, of
//! `dmesg` and of a container's log, and the fields of `journalctl -o export` and `-o verbose`.

use pagewise_hostfs::text::number;
use pagewise_model::Name;
use serde_json::Value;

/// What an entry says about its message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct About {
    pub(super) micros: Option<u64>,
    pub(super) time: Option<Name>,
    pub(super) machine: Option<Vec<u8>>,
    pub(super) is_kernel: Option<bool>,
}

/// A message, and what its entry says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) text: Vec<u8>,
    pub(super) about: About,
}

/// What a line is in the forms that this module reads.
#[derive(Debug)]
pub(super) enum Entry {
    /// The line is no part of an entry.
    No,
    /// The line is a part of an entry whose end has not been read.
    Part,
    /// The line ends an entry: its messages, one for each of its lines, and the name of the form.
    Message(&'static str, Vec<Message>),
}

/// Collects the lines of an entry.
#[derive(Debug, Default)]
pub(super) struct EntryReader {
    fields: About,
    text: Option<Vec<u8>>,
    /// A value of several lines of which the end has not been read.
    binary: Option<Vec<u8>>,
    /// Whether the last field is the message.
    is_in_text: bool,
    /// Whether the fields are indented, as in `journalctl -o verbose`, where only a line that is not indented ends
    /// an entry.
    is_indented: bool,
    /// The time before a message in the JSON of `dmesg`.
    seconds: Option<f64>,
}

impl EntryReader {
    pub(super) fn take(&mut self, raw: &[u8]) -> Entry {
        if let Some(part) = self.binary.take() {
            return self.take_binary(part, raw);
        }
        let line = raw.trim_ascii();
        let begins_entry = self.is_indented && !raw.starts_with(b" ") && self.text.is_some();
        match line.first() {
            _ if begins_entry => self.end(),
            Some(b'{') if line.len() > 1 => parse_json(line),
            Some(b'"') => self.take_dmesg_line(line),
            Some(b'_' | b'M' | b'P' | b'S') => self.take_field(line, raw.starts_with(b" ")),
            None => self.end(),
            _ if self.is_indented && self.is_in_text => self.continue_text(line),
            _ => Entry::No,
        }
    }

    /// A value with a line break, as `journalctl -o export` prints it: its length in eight bytes,
    /// least first, and then its bytes.
    fn take_binary(&mut self, mut part: Vec<u8>, raw: &[u8]) -> Entry {
        const LONGEST: usize = 1 << 20;
        part.extend_from_slice(raw);
        part.push(b'\n');
        let length = part.first_chunk().map(|length| u64::from_le_bytes(*length));
        let length = length.and_then(|length| usize::try_from(length).ok());
        let value = length.and_then(|length| part.get(8..)?.get(..length));
        if let Some(value) = value {
            self.text = Some(value.to_vec());
        } else if length.is_none_or(|length| length <= LONGEST) && part.len() <= LONGEST {
            self.binary = Some(part);
        }
        Entry::Part
    }

    /// A further line of a message in `journalctl -o verbose`.
    fn continue_text(&mut self, line: &[u8]) -> Entry {
        const LONGEST: usize = 64 << 10;
        match &mut self.text {
            Some(text) if text.len() + line.len() < LONGEST => {
                text.push(b'\n');
                text.extend_from_slice(line);
                Entry::Part
            }
            _ => Entry::No,
        }
    }

    /// Parses a line of `dmesg --json`, which prints one value per line: `"time": 601.273226,` or `"msg": "…"`.
    fn take_dmesg_line(&mut self, line: &[u8]) -> Entry {
        let line = line.strip_suffix(b",").unwrap_or(line);
        let Some(value) = |name: &[u8]| -> Option<&[u8]> {
            let rest = line.strip_prefix(name)?.trim_ascii_start();
            Some(rest.strip_prefix(b":")?.trim_ascii())
        }(b"\"msg\"") else {
            let time = line.strip_prefix(b"\"time\"").map(<[u8]>::trim_ascii_start);
            let time = time.and_then(|rest| rest.strip_prefix(b":"));
            let time = time.and_then(|rest| std::str::from_utf8(rest.trim_ascii()).ok());
            return match time {
                Some(time) => {
                    self.seconds = time.parse().ok();
                    Entry::Part
                }
                None => Entry::No,
            };
        };
        let Ok(text) = serde_json::from_slice::<String>(value) else { return Entry::No };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float cast saturates"
        )]
        let micros = self.seconds.take().map(|seconds| (seconds * 1e6) as u64);
        let about = About { micros, is_kernel: Some(true), ..About::default() };
        Entry::Message("JSON of dmesg", split_messages(text.as_bytes(), &about))
    }

    /// Parses a field of journald, `NAME=VALUE`.
    fn take_field(&mut self, line: &[u8], is_indented: bool) -> Entry {
        if line == b"MESSAGE" && !is_indented {
            self.is_indented = false;
            self.binary = Some(Vec::new());
            return Entry::Part;
        }
        let Some(equals) = memchr::memchr(b'=', line).filter(|&at| at < 64) else {
            return if self.is_indented && is_indented && self.is_in_text {
                self.continue_text(line)
            } else {
                Entry::No
            };
        };
        let (name, value) = (&line[..equals], &line[equals + 1..]);
        self.is_in_text = name == b"MESSAGE";
        let is_name = |name: &[u8]| {
            name.iter()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
        };
        match name {
            b"__CURSOR" => {
                let ended = self.end();
                return if matches!(ended, Entry::No) { Entry::Part } else { ended };
            }
            b"MESSAGE" => {
                self.text = Some(value.to_vec());
                self.is_indented = is_indented;
            }
            _ if !is_name(name) => return Entry::No,
            _ => keep_field(&mut self.fields, name, value),
        }
        Entry::Part
    }

    /// Ends the entry: an empty line, or the first line of the next entry, was read.
    pub(super) fn end(&mut self) -> Entry {
        let about = std::mem::take(&mut self.fields);
        match self.text.take() {
            Some(text) => Entry::Message("fields of journald", split_messages(&text, &about)),
            None => Entry::No,
        }
    }
}

/// Keeps a field of journald that describes the message.
fn keep_field(about: &mut About, name: &[u8], value: &[u8]) {
    match name {
        b"_TRANSPORT" => about.is_kernel = Some(value == b"kernel"),
        b"_HOSTNAME" => about.machine = Some(value.to_vec()),
        b"_SOURCE_MONOTONIC_TIMESTAMP" => about.micros = number(value),
        b"__REALTIME_TIMESTAMP" => about.time = number(value).map(wall_clock),
        _ => {}
    }
}

/// Microseconds since 1970, as seconds.
pub(super) fn wall_clock(micros: u64) -> Name {
    Name::from(format!("@{}.{:06}", micros / 1_000_000, micros % 1_000_000).as_str())
}

/// Parses a JSON object in a line of its own, as in `journalctl -o json` or in a container's log.
fn parse_json(line: &[u8]) -> Entry {
    let Ok(Value::Object(object)) = serde_json::from_slice::<Value>(line) else {
        return Entry::No;
    };
    let word = |name: &str| object.get(name).and_then(Value::as_str);
    if let Some(text) = word("log") {
        let time = word("time").map(Name::from);
        let about = About { time, ..About::default() };
        return Entry::Message(
            "JSON of a container's log",
            split_messages(text.as_bytes(), &about),
        );
    }
    let text = match object.get("MESSAGE") {
        Some(Value::String(text)) => text.as_bytes().to_vec(),
        // journald writes text that is not UTF-8 as an array of bytes
        Some(Value::Array(bytes)) => {
            let byte = |value: &Value| u8::try_from(value.as_u64()?).ok();
            bytes.iter().filter_map(byte).collect()
        }
        _ => return Entry::No,
    };
    let mut about = About::default();
    for name in ["_TRANSPORT", "_HOSTNAME", "_SOURCE_MONOTONIC_TIMESTAMP", "__REALTIME_TIMESTAMP"] {
        if let Some(value) = word(name) {
            keep_field(&mut about, name.as_bytes(), value.as_bytes());
        }
    }
    Entry::Message("JSON of journalctl", split_messages(&text, &about))
}

/// A message for each line of a text; those of `Mem-Info` and `memory.stat` stay together, because
/// they are indented or have no prefix.
pub(super) fn split_messages(text: &[u8], about: &About) -> Vec<Message> {
    let text = text.trim_ascii_end();
    let is_one = text.starts_with(b"active_anon:") || !text.starts_with(b"[");
    if is_one {
        return vec![Message { text: text.to_vec(), about: about.clone() }];
    }
    let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| Message { text: line.to_vec(), about: about.clone() }).collect()
}
