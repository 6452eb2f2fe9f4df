// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the newest messages of some programs in a journal file.
//!
//! Anybody can send a message to journald with any identifier. Only fields whose names begin with
//! `_` show who sent a message, because journald itself sets them from what the kernel says about
//! the sender.

use pagewise_model::text::number as parse_number;

use crate::file::{Field, JournalFile};

const MESSAGE: &[u8] = b"MESSAGE=";
/// The field with the time at which the sender wrote the message, as the sender states it.
const SENT: &[u8] = b"_SOURCE_REALTIME_TIMESTAMP=";

/// Which messages to read.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// A field `NAME=value` that the messages must have.
    pub field: &'a [u8],
    /// A field set by journald that the messages must have as well; necessary if journald does not
    /// set `field` itself.
    pub trusted: Option<&'a [u8]>,
}

/// A message of a program as journald stored it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramMessage {
    /// The sequence number that journald gave to the message.
    pub sequence: u64,
    /// When the message was written, in microseconds since 1970.
    pub realtime: u64,
    /// The text of the message.
    pub text: Vec<u8>,
}

/// Passes the newest messages of each origin to `take`, at most `most` of each origin, and the
/// oldest of these first. Returns how many messages there were, and how many were not read: older
/// ones, and those that could not be read because the file is damaged or the budget is used up.
pub fn read_programs(
    file: &mut JournalFile<'_>,
    origins: &[Origin<'_>],
    most: u64,
    take: &mut dyn FnMut(&ProgramMessage),
) -> (u64, u64) {
    let (mut read, mut left_out) = (0, 0);
    for origin in origins {
        let field = match file.look_up(origin.field) {
            Some(Some(field)) => field,
            Some(None) => continue,
            None => {
                left_out += 1;
                continue;
            }
        };
        let trusted = match origin.trusted.map(|trusted| file.look_up(trusted)) {
            None => None,
            Some(Some(Some(trusted))) => Some(trusted),
            // no message in the file was written by the program that `trusted` names
            Some(Some(None)) => continue,
            Some(None) => {
                left_out += 1;
                continue;
            }
        };
        let (messages, missing) = read_newest(file, &field, trusted, most);
        left_out += missing;
        read += messages.len() as u64;
        messages.iter().rev().for_each(&mut *take);
    }
    (read, left_out)
}

/// Returns the newest messages that have a field, the newest first, and the number of other
/// messages with it.
fn read_newest(
    file: &mut JournalFile<'_>,
    field: &Field,
    trusted: Option<Field>,
    most: u64,
) -> (Vec<ProgramMessage>, u64) {
    let entries = file.find_entries(field);
    let mut left_out = field.count.saturating_sub(entries.count);
    let from = entries.count.saturating_sub(most);
    left_out += from;
    let mut messages = Vec::new();
    for number in (from..entries.count).rev() {
        if file.is_spent() {
            left_out += number - from + 1;
            break;
        }
        let Some(entry) = file.entry_at(&entries, number) else {
            left_out += 1;
            continue;
        };
        match read_entry(file, entry, trusted) {
            Some(message) => messages.extend(message),
            None => left_out += 1,
        }
    }
    (messages, left_out)
}

/// Returns the message of an entry: `None` if it cannot be read, `Some(None)` if another program
/// wrote it.
fn read_entry(
    file: &mut JournalFile<'_>,
    entry: u64,
    trusted: Option<Field>,
) -> Option<Option<ProgramMessage>> {
    let stamp = file.read_stamp(entry)?;
    let fields = file.read_fields(entry, &stamp)?;
    if trusted.is_some_and(|trusted| !fields.contains(&trusted.offset)) {
        return Some(None);
    }
    let (mut text, mut sent) = (None, None);
    for &field in fields.iter().rev() {
        match file.value_of(field, &[MESSAGE, SENT]) {
            Some((0, value)) => text = Some(value),
            Some((_, value)) => sent = parse_number(&value),
            None => {}
        }
    }
    Some(Some(ProgramMessage {
        sequence: stamp.sequence,
        realtime: sent.unwrap_or(stamp.realtime),
        text: text?,
    }))
}
