// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses lines of `/proc/PID/maps` and `/proc/PID/smaps` into [`Mapping`]s.
//!
//! `smaps` contains the lines of `maps`, each followed by sizes. To print it, the kernel walks over
//! every page, which takes 12 ms per GiB of base pages. It is therefore read only if values are
//! needed that `maps` does not contain.

use pagewise_model::text::{flag, kib, words};
use pagewise_model::{Bytes, MappingKind, Name};

/// A mapping: part of a process's address space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) kind: MappingKind,
    pub(crate) name: Name,
    /// The values from smaps, if that file was read.
    pub(crate) totals: SmapsTotals,
}

/// Values of a mapping that only smaps contains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SmapsTotals {
    pub(crate) eligible: Option<bool>,
    pub(crate) anon_huge: Option<Bytes>,
    pub(crate) file_huge: Option<Bytes>,
    /// Memory of the mapping in RAM and in swap.
    pub(crate) held: Option<Bytes>,
    pub(crate) advised: Option<bool>,
}

/// The kinds of lines in maps and smaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Mapping(Mapping),
    /// A line of smaps with a value of the mapping that began some lines before.
    About,
    Garbled,
}

/// Parses one line of maps or smaps. Values of smaps are stored in `last`, the mapping that began
/// before.
pub(crate) fn parse_line(line: &[u8], last: Option<&mut Mapping>) -> Line {
    // the line of a mapping begins with a lower-case hexadecimal digit, that of a value with an
    // upper-case letter
    if !line.first().is_some_and(u8::is_ascii_uppercase) {
        return mapping(line).map_or(Line::Garbled, Line::Mapping);
    }
    if let Some(mapping) = last {
        add_value(line, &mut mapping.totals);
    }
    Line::About
}

/// Parses the start and end address in the line of a mapping, and returns them with the text after
/// them.
pub(crate) fn parse_range(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (start, rest) = parse_hexadecimal(line)?;
    let (end, rest) = parse_hexadecimal(rest.strip_prefix(b"-")?)?;
    (start < end).then_some((start, end, rest))
}

/// The columns of a line of `maps`, which is also the first line of each mapping in `smaps`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns<'a> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Permissions of the mapping, such as `rw-p`.
    pub(crate) rights: &'a [u8],
    /// Offset in the file as hexadecimal text, like the device numbers.
    pub(crate) offset: &'a [u8],
    pub(crate) device: &'a [u8],
    pub(crate) inode: &'a [u8],
    pub(crate) name: &'a [u8],
}

/// Splits the line of a mapping into its columns; `None` if the kernel does not print such lines.
/// Processes with ten thousand mappings are not rare, so each line is scanned only once, and
/// numbers that are not needed are not parsed.
pub(crate) fn split_columns(line: &[u8]) -> Option<Columns<'_>> {
    let (start, end, rest) = parse_range(line)?;
    let (rights, rest) = split_word(rest.strip_prefix(b" ")?);
    let (offset, rest) = split_word(rest);
    let (device, rest) = split_word(rest);
    let (inode, rest) = split_word(rest);
    let name = rest.trim_ascii_start();
    let whole = rights.len() == 4 && !inode.is_empty();
    whole.then_some(Columns { start, end, rights, offset, device, inode, name })
}

fn mapping(line: &[u8]) -> Option<Mapping> {
    let Columns { start, end, rights, inode, name, .. } = split_columns(line)?;
    let kind = kind(rights[3] == b's', inode == b"0", name);
    Some(Mapping { start, end, kind, name: Name::from_bytes(name), totals: SmapsTotals::default() })
}

/// Returns the text up to the next space, and the text after it.
fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
    (&text[..end], text.get(end + 1..).unwrap_or_default())
}

/// Parses the hexadecimal number at the start of a text, and returns it with the text after it;
/// `None` if it does not fit in 64 bits.
pub(crate) fn parse_hexadecimal(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    let mut digits = 0;
    while let Some(next) =
        text.get(digits).map(|&byte| DIGITS[usize::from(byte)]).filter(|&it| it < 16)
    {
        if value >> 60 != 0 {
            return None;
        }
        value = value << 4 | u64::from(next);
        digits += 1;
    }
    (digits > 0).then(|| (value, &text[digits..]))
}

/// For each byte, its value as a hexadecimal digit; 16 for all other bytes. A table takes half the
/// time of comparisons, because branch prediction cannot predict whether the next digit is a
/// letter.
const DIGITS: [u8; 256] = {
    let mut digits = [16; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value as usize] as usize] = value;
        value += 1;
    }
    digits
};

/// Returns the kind of a mapping. Names in brackets are given by the kernel, except those of heap,
/// stacks and memory named by programs.
fn kind(shared: bool, no_file: bool, name: &[u8]) -> MappingKind {
    const MEMORY: [&[u8]; 3] = [b"[heap]", b"[stack", b"[anon:"];
    let memory = name.is_empty() || MEMORY.iter().any(|known| name.starts_with(known));
    match (shared, no_file) {
        (false, true) if memory => MappingKind::Anonymous,
        (true, _) if memory || name.first() == Some(&b'/') => MappingKind::Shared,
        (false, false) if name.starts_with(b"/dev/") => MappingKind::Special,
        (false, false) if name.first() == Some(&b'/') => MappingKind::PrivateFile,
        _ => MappingKind::Special,
    }
}

fn add_value(line: &[u8], totals: &mut SmapsTotals) {
    let Some(at) = line.iter().position(|&byte| byte == b':') else { return };
    let (key, rest) = (&line[..at], line[at + 1..].trim_ascii());
    let add = |to: &mut Option<Bytes>, rest: &[u8]| {
        if let Some(size) = kib(rest) {
            *to = Some(to.unwrap_or_default().saturating_add(size));
        }
    };
    match key {
        b"Rss" | b"Swap" => add(&mut totals.held, rest),
        b"AnonHugePages" => totals.anon_huge = kib(rest),
        b"ShmemPmdMapped" | b"FilePmdMapped" => add(&mut totals.file_huge, rest),
        b"THPeligible" => totals.eligible = flag(rest),
        b"VmFlags" => totals.advised = huge_page_advice(rest),
        _ => (),
    }
}

/// Returns the advice that the program gave for a mapping: `hg` is MADV_HUGEPAGE, `nh` is
/// MADV_NOHUGEPAGE.
fn huge_page_advice(flags: &[u8]) -> Option<bool> {
    words(flags).find_map(|flag| match flag {
        b"hg" => Some(true),
        b"nh" => Some(false),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kind_of(line: &str) -> MappingKind {
        mapping(line.as_bytes()).unwrap().kind
    }

    #[test]
    fn what_a_mapping_is_follows_from_rights_inode_and_name() {
        let anonymous = ["", "[heap]", "[stack]", "[anon:glibc: malloc]"];
        for name in anonymous {
            let line = format!("1000-3000 rw-p 00000000 00:00 0        {name}");
            assert_eq!(kind_of(&line), MappingKind::Anonymous, "{name}");
        }
        let private = "1000-3000 rw-p 00000000 fe:01 12          /usr/lib/a b.so";
        assert_eq!(kind_of(private), MappingKind::PrivateFile);
        let shared = "1000-3000 rw-s 00000000 00:01 12          /dev/zero (deleted)";
        assert_eq!(kind_of(shared), MappingKind::Shared);
        for special in [
            "r-xp 00000000 00:00 0   [vdso]",
            "rw-p 0 00:06 5 /dev/mem",
            "rw-p 0 00:10 9 anon_inode:x",
        ] {
            assert_eq!(kind_of(&format!("1000-3000 {special}")), MappingKind::Special, "{special}");
        }
    }

    #[test]
    fn sizes_and_flags_go_to_the_mapping_before_them() {
        let Line::Mapping(mut last) = parse_line(b"1000-3000 rw-p 0 00:00 0 ", None) else {
            panic!()
        };
        for text in [
            "Rss:                  12 kB",
            "Swap:                  4 kB",
            "AnonHugePages:      2048 kB",
            "ShmemPmdMapped:        8 kB",
            "FilePmdMapped:         1 kB",
            "THPeligible:           1",
            "VmFlags: rd wr mr mw me ac hg sd",
        ] {
            assert_eq!(parse_line(text.as_bytes(), Some(&mut last)), Line::About);
        }
        let kib = Bytes::from_kib;
        let expected = SmapsTotals {
            eligible: Some(true),
            anon_huge: kib(2048),
            file_huge: kib(9),
            held: kib(16),
            advised: Some(true),
        };
        assert_eq!(last.totals, expected);
    }

    proptest! {
        /// Addresses printed in the kernel's format are parsed back.
        #[test]
        fn ends_are_read_as_they_are_written(start: u64, length in 1u64..1 << 40, name in "[a-z]{0,9}") {
            let end = start.saturating_add(length);
            let text = format!("{start:08x}-{end:08x} rw-p 0000f000 fe:01 77      /{name}");
            let read = mapping(text.as_bytes());
            prop_assert_eq!(read.is_some(), start < end);
            if let Some(read) = read {
                prop_assert_eq!((read.start, read.end), (start, end));
                prop_assert_eq!(read.name.as_str(), format!("/{name}"));
                prop_assert_eq!(read.kind, MappingKind::PrivateFile);
            }
        }

        #[test]
        fn garbage_is_no_mapping(bytes: Vec<u8>, digits in "[0-9a-f]{0,20}") {
            let _ = parse_line(&bytes, Some(&mut Mapping::default()));
            let _ = parse_line(format!("{digits}-{digits} rw-p {digits} 0:0 0").as_bytes(), None);
        }
    }
}
