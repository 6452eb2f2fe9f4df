// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fills a server with keys and values, using its own protocol (RESP).
//!
//! redis-benchmark cannot do this: all its values are equal. Keys are named as redis-benchmark
//! names them, so that its requests find them.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use fastrand::Rng;

use super::super::Redis;
use super::super::progress::{Progress, share};
use crate::contents::Mix;

/// Number of bytes of text from which values are cut.
const TEXT: usize = 1 << 20;
/// Number of bytes that are sent before the replies are read.
const BATCH: usize = 128 << 10;
const PAGE: usize = 4096;

/// Writes all records to the server.
pub(super) fn fill(
    stream: &mut UnixStream,
    settings: &Redis,
    progress: &mut Progress<'_>,
) -> io::Result<()> {
    let length = usize::try_from(settings.value_bytes).map_err(io::Error::other)?;
    let text: Mix = "text:100".parse().map_err(io::Error::other)?;
    let text = text.pages((TEXT + length).div_ceil(PAGE), PAGE, settings.seed);
    let mut rng = Rng::with_seed(settings.seed);
    let (mut sent, mut batch) = (Vec::with_capacity(BATCH + length), 0);
    for record in 0..settings.records {
        let start = rng.usize(0..TEXT);
        write_set(&mut sent, record, &text[start..start + length])?;
        batch += 1;
        if sent.len() >= BATCH || record + 1 == settings.records {
            stream.write_all(&sent)?;
            read_answers(stream, batch)?;
            sent.clear();
            batch = 0;
            let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
            progress("filling redis", share(number(record), number(settings.records)));
        }
    }
    Ok(())
}

fn write_set(to: &mut Vec<u8>, record: u64, value: &[u8]) -> io::Result<()> {
    write!(to, "*3\r\n$3\r\nSET\r\n$16\r\nkey:{record:012}\r\n${}\r\n", value.len())?;
    to.extend_from_slice(value);
    to.extend_from_slice(b"\r\n");
    Ok(())
}

/// Reads this number of `+OK` replies from the server.
fn read_answers(stream: &mut impl Read, times: usize) -> io::Result<()> {
    const WELL: &[u8] = b"+OK\r\n";
    let mut output = vec![0; WELL.len() * times];
    for start in (0..output.len()).step_by(WELL.len()) {
        let one = &mut output[start..start + WELL.len()];
        stream.read_exact(one)?;
        if one != WELL {
            let mut more = [0; 200];
            let length = stream.read(&mut more)?;
            let all = [&*one, &more[..length]].concat();
            let line = String::from_utf8_lossy(&all).lines().next().unwrap_or_default().to_owned();
            return Err(io::Error::other(format!("it answered {line:?}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_the_protocol_says() {
        let mut sent = Vec::new();
        write_set(&mut sent, 12, b"a value").unwrap();
        let text = "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000012\r\n$7\r\na value\r\n";
        assert_eq!(String::from_utf8(sent).unwrap(), text);
    }

    #[test]
    fn a_refusal_is_told_and_an_end_too() {
        assert!(read_answers(&mut &b"+OK\r\n+OK\r\n"[..], 2).is_ok());
        let full = &b"+OK\r\n-OOM command not allowed\r\n+OK\r\n"[..];
        let why = read_answers(&mut { full }, 3).unwrap_err().to_string();
        assert_eq!(why, "it answered \"-OOM command not allowed\"");
        assert!(read_answers(&mut &b"+OK\r\n"[..], 2).is_err());
    }
}
