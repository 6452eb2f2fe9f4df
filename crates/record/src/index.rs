// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The index next to each file of a ring. It contains the time and two counters of each reading, so
//! that a search for the worst time need not decompress every reading.
//!
//! An index begins with [`MAGIC`]. Each record has [`RECORD`] bytes, with numbers in little-endian
//! order: the checksum of the frame that it describes, the time in seconds since 1970 (IEEE 754),
//! the microseconds for which some task waited for memory, the number of OOM kills since boot (all
//! bits set if it is not known), and the CRC-32 of these bytes. A record is used only if the file
//! contains a frame with its checksum at the same position. An index that is missing, damaged or
//! shorter than its file is not used at all.

use pagewise_hostfs::{Entry, HostRoot};
use pagewise_model::Micros;
use pagewise_observe::{HostGauges, Tape};

/// The first bytes of an index, with the version of the format.
pub(crate) const MAGIC: &[u8; 8] = b"pwindx1\n";
/// Number of bytes of a record.
const RECORD: usize = 32;
const UNKNOWN: u64 = u64::MAX;

/// The values of a reading that the index contains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadingSummary {
    /// Time of the reading, in seconds since 1970.
    pub unix_seconds: f64,
    /// Microseconds since boot for which some task waited for memory; `None` if not known.
    pub stalled_us: Option<u64>,
    /// Processes killed since boot for lack of memory; `None` if not known.
    pub kills: Option<u64>,
}

impl ReadingSummary {
    /// Creates a summary from the time and the counters of a host.
    #[must_use]
    pub fn from_host(unix_seconds: f64, host: &HostRoot) -> Self {
        let gauges = HostGauges(host);
        let stalled_us = gauges.memory_wait().map(Micros::get);
        Self { unix_seconds, stalled_us, kills: gauges.oom_kills() }
    }

    pub(crate) fn from_tape(tape: &Tape) -> Self {
        let named = |path: &str| {
            let bytes = tape.file(path)?.to_vec();
            Some((path.to_owned(), Entry::File(bytes)))
        };
        let files = ["proc/pressure/memory", "proc/vmstat"].into_iter().filter_map(named);
        let unix_seconds = tape.ends.last().map_or(0.0, |end| end.unix_seconds);
        Self::from_host(unix_seconds, &HostRoot::memory(files))
    }

    /// Returns the record that describes the frame with this checksum.
    pub(crate) fn record(self, frame: u32) -> [u8; RECORD] {
        let mut record = [0; RECORD];
        record[..4].copy_from_slice(&frame.to_le_bytes());
        record[4..12].copy_from_slice(&self.unix_seconds.to_bits().to_le_bytes());
        record[12..20].copy_from_slice(&self.stalled_us.unwrap_or(UNKNOWN).to_le_bytes());
        record[20..28].copy_from_slice(&self.kills.unwrap_or(UNKNOWN).to_le_bytes());
        let sum = crc32fast::hash(&record[..28]);
        record[28..].copy_from_slice(&sum.to_le_bytes());
        record
    }

    /// Parses a record. `None` if it is damaged, or if it does not describe the frame with this
    /// checksum.
    fn parse(record: &[u8], frame: u32) -> Option<Self> {
        let (about, rest) = record.split_first_chunk::<4>()?;
        let (time, rest) = rest.split_first_chunk::<8>()?;
        let (stalled, rest) = rest.split_first_chunk::<8>()?;
        let (kills, sum) = rest.split_first_chunk::<8>()?;
        let is_whole = crc32fast::hash(record.get(..28)?).to_le_bytes() == *sum;
        let unix_seconds = f64::from_bits(u64::from_le_bytes(*time));
        if !is_whole || u32::from_le_bytes(*about) != frame || !unix_seconds.is_finite() {
            return None;
        }
        let known = |bytes: &[u8; 8]| Some(u64::from_le_bytes(*bytes)).filter(|it| *it != UNKNOWN);
        Some(Self { unix_seconds, stalled_us: known(stalled), kills: known(kills) })
    }
}

/// Returns the offset in the index of the record for this reading; readings are numbered from 0.
pub(crate) fn offset_of_record(reading: u32) -> u64 {
    (MAGIC.len() + RECORD * reading as usize) as u64
}

/// Returns the summaries of the frames with these checksums; `None` if the index does not contain
/// all of them.
pub(crate) fn parse_summaries(index: &[u8], frames: &[u32]) -> Option<Vec<ReadingSummary>> {
    let mut records = index.strip_prefix(MAGIC)?.chunks_exact(RECORD);
    frames.iter().map(|frame| ReadingSummary::parse(records.next()?, *frame)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_summary() -> impl Strategy<Value = ReadingSummary> {
        let counter = proptest::option::of(0..u64::MAX);
        (0.0..4e9, counter.clone(), counter).prop_map(|(unix_seconds, stalled_us, kills)| {
            ReadingSummary { unix_seconds, stalled_us, kills }
        })
    }

    proptest! {
        /// An index is read as it was written. If any bit of the index is changed, or if a frame is
        /// another one, nothing is read that was not written.
        #[test]
        fn an_index_is_whole_or_not_used(
            all in proptest::collection::vec((any_summary(), any::<u32>()), 1..6),
            at in any::<prop::sample::Index>(),
            bit in 0..8u8,
        ) {
            let (wanted, frames): (Vec<_>, Vec<_>) = all.iter().copied().unzip();
            let mut index = MAGIC.to_vec();
            all.iter().for_each(|(summary, frame)| index.extend(summary.record(*frame)));
            prop_assert_eq!(parse_summaries(&index, &frames), Some(wanted.clone()));
            // if a file lost its end, its index has too many records
            let less = &frames[..frames.len() - 1];
            prop_assert_eq!(parse_summaries(&index, less), Some(wanted[..less.len()].to_vec()));
            prop_assert_eq!(parse_summaries(&index[..index.len() - 1], &frames), None);
            let mut others = frames.clone();
            *others.last_mut().unwrap() ^= 1;
            prop_assert_eq!(parse_summaries(&index, &others), None);
            let at = at.index(index.len());
            index[at] ^= 1 << bit;
            prop_assert_eq!(parse_summaries(&index, &frames), None);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse_summaries(&bytes, &[0]);
            let _ = parse_summaries(&[&MAGIC[..], &bytes].concat(), &[0, 1]);
        }
    }
}
