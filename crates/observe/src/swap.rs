// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/proc/swaps` into [`Tier`]s in the order in which the kernel fills them.
//!
//! Sizes are in KiB. The file lists swap areas in the order of swapon; the kernel fills the highest
//! priority first, and areas of equal priority in turn. zswap is not in this file: if it is on, it
//! precedes every tier, zram included.

use pagewise_model::{Bytes, Name, Reading, Tier, TierKind};

use crate::disk::{self, Disks};
use crate::limits;
use crate::mounts::Mounts;
use pagewise_hostfs::text::{Line, number, unescape};
use pagewise_hostfs::{HostRoot, ReadValues};

/// Maximum number of lines of `/proc/swaps` that are read, with the heading. The kernel allows at
/// most 32 areas (`MAX_SWAPFILES`); each is searched among the mounts and the zram devices.
const MAX_LINES: usize = limits::SWAP_AREAS + 1;

pub(crate) fn read(host: &HostRoot, mounts: &Mounts) -> Vec<Tier> {
    let Ok(text) = host.text("proc/swaps") else { return Vec::new() };
    let zswap = host.flag_at("sys/module/zswap/parameters/enabled");
    let lines = text.first_lines(host, MAX_LINES);
    let lines = lines.filter(|line| !line.bytes.starts_with(b"Filename"));
    let disks = Disks::new(host, mounts);
    let mut tiers: Vec<Tier> = lines.filter_map(|line| tier(host, &disks, &zswap, &line)).collect();
    tiers.sort_by_key(|tier| std::cmp::Reverse(tier.priority.get()));
    tiers
}

/// Whether any swap area is on a disk or in a file, and not in compressed RAM.
pub(crate) fn has_disk(host: &HostRoot) -> bool {
    let Ok(text) = host.text("proc/swaps") else { return false };
    let kind_of = |line: Line<'_>| {
        let mut words = line.words();
        let path = unescape(words.next()?);
        kind(&String::from_utf8_lossy(&path), words.next()?)
    };
    text.lines().take(MAX_LINES).filter_map(kind_of).any(|kind| !kind.is_ram())
}

/// Parses a line of `/proc/swaps`, `/path partition 1048572 524 -2`; records a Problem if that
/// fails.
fn tier(
    host: &HostRoot,
    disks: &Disks<'_>,
    zswap: &Reading<bool>,
    line: &Line<'_>,
) -> Option<Tier> {
    let mut words = line.words();
    let path = words.next().map(unescape).unwrap_or_default();
    let path = String::from_utf8_lossy(&path).into_owned();
    let kind = words.next().and_then(|word| kind(&path, word));
    let kind = line.check_parsed(host, "a path and partition or file", kind)?;
    let mut column = || words.next().unwrap_or_default();
    Some(Tier {
        size: size(host, line, column()),
        used: size(host, line, column()),
        priority: line.reading(host, "a priority", number(column())),
        disk: match kind {
            TierKind::Zram | TierKind::Zmerge => {
                disk::no_disk("compressed RAM, no disk", &line.source())
            }
            TierKind::Partition => disks.of_device(&path),
            TierKind::File => disks.of_file(strip_deleted(&path)),
        },
        zswap_in_front: zswap.clone(),
        path: Name::from_bytes(path.as_bytes()),
        kind,
    })
}

fn kind(path: &str, word: &[u8]) -> Option<TierKind> {
    match word {
        b"partition" if is_numbered(path, "/dev/zram") => Some(TierKind::Zram),
        b"partition" if is_numbered(path, "/dev/zmerge") => Some(TierKind::Zmerge),
        b"partition" => Some(TierKind::Partition),
        b"file" => Some(TierKind::File),
        _ => None,
    }
}

/// Whether the path is `device` followed by a number.
fn is_numbered(path: &str, device: &str) -> bool {
    path.strip_prefix(device).is_some_and(|id| number::<u32>(id.as_bytes()).is_some())
}

/// The path of a swap area without the ` (deleted)` that the kernel appends for a deleted swap
/// file.
fn strip_deleted(path: &str) -> &str {
    path.strip_suffix(" (deleted)").unwrap_or(path)
}

fn size(host: &HostRoot, line: &Line<'_>, word: &[u8]) -> Reading<Bytes> {
    line.reading(host, "a size in KiB", number(word).and_then(Bytes::from_kib))
}
