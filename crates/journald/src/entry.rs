// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes an entry to the journal in journald's native protocol: each entry is a datagram that
//! contains its fields one after the other.
//!
//! This is written by hand because the crates for this protocol depend on a logging framework or on
//! libsystemd. The protocol requires that entries which do not fit into a datagram are passed as a
//! file; here the length of values is limited, so that every entry fits.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// The socket on which journald listens.
pub const SOCKET: &str = "/run/systemd/journal/socket";

/// Maximum length of a value in bytes. A datagram can have up to 200 KiB.
const LONGEST: usize = 4 << 10;
/// Maximum number of fields of an entry.
const MOST_FIELDS: usize = 32;

/// An entry for the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    bytes: Vec<u8>,
    fields: usize,
}

impl Entry {
    /// Adds a field. Its name must consist of capital letters, digits and underscores. A value that
    /// is too long is cut; if the entry has the maximum number of fields, the field is left out.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        debug_assert!(is_name(name), "{name}");
        if self.fields == MOST_FIELDS {
            return self;
        }
        self.fields += 1;
        let value = cut_value(value);
        self.bytes.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            self.bytes.push(b'\n');
            self.bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            self.bytes.push(b'=');
        }
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(b'\n');
        self
    }

    /// Returns the datagram for the entry.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    name.bytes().all(is_plain) && name.bytes().next().is_some_and(|it| it.is_ascii_uppercase())
}

/// Cuts a value to the length that an entry can hold, at the end of a character.
fn cut_value(value: &str) -> &str {
    let end = (0..=LONGEST.min(value.len())).rev().find(|&at| value.is_char_boundary(at));
    &value[..end.unwrap_or(0)]
}

/// A socket that is connected to journald.
#[derive(Debug)]
pub struct JournalSocket(UnixDatagram);

impl JournalSocket {
    /// Connects to the socket at this path, which is [`SOCKET`] unless a test listens elsewhere.
    ///
    /// # Errors
    /// If no process listens on the socket.
    pub fn connect(socket: &Path) -> io::Result<Self> {
        let own = UnixDatagram::unbound()?;
        own.connect(socket)?;
        Ok(Self(own))
    }

    /// Changes the socket so that sending never waits: if journald has not read earlier entries
    /// yet, sending fails.
    ///
    /// # Errors
    /// If the socket cannot be changed.
    pub fn set_nonblocking(self) -> io::Result<Self> {
        self.0.set_nonblocking(true)?;
        Ok(self)
    }

    /// Sends an entry. If journald has not read earlier entries yet, this waits, unless
    /// [`Self::set_nonblocking`] was called.
    ///
    /// # Errors
    /// If the entry could not be sent.
    pub fn send(&self, entry: &Entry) -> io::Result<()> {
        self.0.send(entry.as_bytes()).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parses a datagram as the documentation of the protocol describes it.
    fn decode(mut bytes: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let end = bytes.iter().position(|&it| it == b'\n').unwrap();
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            match line.iter().position(|&it| it == b'=') {
                Some(at) => {
                    fields.push((text(&line[..at]), text(&line[at + 1..])));
                    bytes = rest;
                }
                None => {
                    let length = u64::from_le_bytes(rest[..8].try_into().unwrap());
                    let length = usize::try_from(length).unwrap();
                    fields.push((text(line), text(&rest[8..8 + length])));
                    assert_eq!(rest[8 + length], b'\n');
                    bytes = &rest[8 + length + 1..];
                }
            }
        }
        fields
    }

    proptest! {
        #[test]
        fn what_is_decoded_is_what_was_added(
            fields in proptest::collection::vec(("[A-Z][A-Z0-9_]{0,20}", "(?s).{0,80}"), 0..40)
        ) {
            let add = |entry: Entry, (name, value): &(String, String)| entry.with(name, value);
            let entry = fields.iter().fold(Entry::default(), add);
            let kept = &fields[..fields.len().min(MOST_FIELDS)];
            prop_assert_eq!(decode(entry.as_bytes()), kept);
        }
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let long = "é".repeat(LONGEST);
        let entry = Entry::default().with("MESSAGE", &format!("a{long}"));
        let fields = decode(entry.as_bytes());
        assert_eq!(fields[0].1.len(), LONGEST - 1);
        let many = (0..100).fold(Entry::default(), |entry, _| entry.with("PAGEWISE_NEXT", &long));
        assert!(many.as_bytes().len() < 160 << 10);
    }

    #[test]
    fn an_entry_arrives_as_one_datagram() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let missing = JournalSocket::connect(&path).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let listens = UnixDatagram::bind(&path).unwrap();
        let socket = JournalSocket::connect(&path).unwrap();
        let full = |_| Entry::default().with("MESSAGE", "two\nlines");
        let entries: Vec<Entry> = (0..2).map(full).collect();
        for entry in &entries {
            socket.send(entry).unwrap();
        }
        for _ in &entries {
            let mut read = vec![0; 256];
            let length = listens.recv(&mut read).unwrap();
            assert_eq!(decode(&read[..length]), [("MESSAGE".to_owned(), "two\nlines".to_owned())]);
        }
        drop(listens);
        let gone = JournalSocket::connect(&path).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::ConnectionRefused);
    }
}
