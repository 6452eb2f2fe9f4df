// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads every `/sys/block/zramN`, and `zmergeN`, into [`Zram`].
//!
//! `mm_stat` has nine columns without names, seven or eight on older kernels; limit and peak are in
//! bytes, although the kernel's documentation does not say so. `bd_stat` counts units of 4 KiB for
//! any page size. The size of the slot table is in no file: it is computed from disksize, 16 bytes
//! per page, or 24 if the kernel tracks access times, unless the kernel packs slots (since 7.0).
//! Measured on 64 bit as memory used by an empty device: 24.0 on 6.1 and 6.12, 16.1 on 7.2. zmerge
//! uses 16.
//!
//! zmerge has files of the same names as zram for most values; the others are absent. What only
//! zmerge has is in `zmerge.rs`.
//!
//! The content of an unused device is read last, because reading a device in use would clear its
//! idle marks.

use crate::{kconfig, zsmalloc};
use std::collections::BTreeSet;

use pagewise_model::{
    Algorithms, BdStat, Bytes, Choice, DebugStat, Driver, IoStat, MmStat, Name, Pages, PartRead,
    Ratio, Reading, Secondary, Source, Tier, Zram, ZramUse,
};

use crate::limits::ZRAM_DEVICES;
use crate::mounts::Mounts;
use pagewise_hostfs::text::{Line, Text, choice, keep_lines, number, words};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues, absolute_path};

pub(crate) fn read(host: &HostRoot, tiers: &[Tier], mounts: &Mounts) -> Vec<Zram> {
    read_of(Driver::Zram, host, tiers, mounts)
}

/// Reads the devices of one driver (zram or zmerge), by number.
pub(crate) fn read_of(
    driver: Driver,
    host: &HostRoot,
    tiers: &[Tier],
    mounts: &Mounts,
) -> Vec<Zram> {
    let mut ids = host.list_numbers("sys/block", driver.name());
    if ids.len() > ZRAM_DEVICES {
        ids = choose_most_used(host, driver, ids, tiers);
    }
    ids.into_iter().map(|id| device(host, (driver, id), tiers, mounts)).collect()
}

/// Reads zram's devices again: of a device in `known` whose size is unchanged, only the stored
/// amount is read.
pub(crate) fn read_again(
    host: &HostRoot,
    known: &[Zram],
    tiers: &[Tier],
    mounts: &Mounts,
) -> Vec<Zram> {
    let ids = host.list_numbers("sys/block", Driver::Zram.name()).into_iter().take(ZRAM_DEVICES);
    let again = |id: u32| {
        let file = |name: &str| format!("sys/block/zram{id}/{name}");
        let size = host.bytes_at(&file("disksize"));
        match known.iter().find(|zram| zram.id == id && zram.disksize == size) {
            Some(zram) => read_stored_amounts(host, zram, file),
            None => device(host, (Driver::Zram, id), tiers, mounts),
        }
    };
    ids.map(again).collect()
}

/// Reads only what a zram device stores, and what it could do with unused pages; `None` if there is
/// no such device.
pub(crate) fn read_stored(host: &HostRoot, id: u32) -> Option<Zram> {
    let file = |name: &str| format!("sys/block/zram{id}/{name}");
    if !host.exists(&file("disksize")) {
        return None;
    }
    Some(Zram {
        id,
        initialised: host.flag_at(&file("initstate")),
        disksize: host.bytes_at(&file("disksize")),
        secondary: secondary(host, &file("recomp_algorithm")),
        backing_device: backing_device(host, &file("backing_dev")),
        bd_stat: bd_stat(host, &file("bd_stat")),
        mm_stat: mm_stat(host, &file("mm_stat")),
        ..Zram::default()
    })
}

fn read_stored_amounts(host: &HostRoot, zram: &Zram, file: impl Fn(&str) -> String) -> Zram {
    let mm_stat = mm_stat(host, &file("mm_stat"));
    let per = |whole: &Reading<Bytes>| Ratio::from_sizes(mm_stat.original.get()?, whole.get()?);
    Zram {
        bd_stat: bd_stat(host, &file("bd_stat")),
        original_per_compressed: per(&mm_stat.compressed),
        original_per_memory_used: per(&mm_stat.memory_used),
        mm_stat,
        ..zram.clone()
    }
}

/// Reads the values of a driver's devices from which rates are computed: failed requests. All
/// devices are read, because that takes one file for each, and it is not known here which ones are
/// swap.
pub(crate) fn read_counters(driver: Driver, host: &HostRoot) -> Vec<Zram> {
    let ids = host.list_numbers("sys/block", driver.name()).into_iter().take(MAX_COUNTED);
    let counters = |id| Zram {
        driver,
        id,
        io_stat: io_stat(host, &format!("sys/block/{}{id}/io_stat", driver.name())),
        ..Zram::default()
    };
    ids.map(counters).collect()
}

/// Maximum number of devices of one driver whose counters are read.
const MAX_COUNTED: usize = 16 * ZRAM_DEVICES;

/// Chooses devices used as swap first, then the others by number; a Problem says how many were left
/// out.
fn choose_most_used(host: &HostRoot, driver: Driver, ids: Vec<u32>, tiers: &[Tier]) -> Vec<u32> {
    let name = driver.name();
    let things = format!("devices of {name}");
    let part = PartRead::Those("that are swap or have the lowest numbers");
    let (found, read) = (ids.len() as u64, ZRAM_DEVICES as u64);
    host.beyond_limit(&Source::file("/sys/block"), &things, found, read, part);
    let swap: BTreeSet<&str> = tiers.iter().map(|tier| tier.path.as_str()).collect();
    let is_swap = |id: &u32| swap.contains(format!("/dev/{name}{id}").as_str());
    let (mut chosen, rest): (Vec<u32>, Vec<u32>) = ids.into_iter().partition(is_swap);
    chosen.extend(rest);
    chosen.truncate(ZRAM_DEVICES);
    chosen.sort_unstable();
    chosen
}

fn device(host: &HostRoot, which: (Driver, u32), tiers: &[Tier], mounts: &Mounts) -> Zram {
    let (driver, id) = which;
    let file = |name: &str| format!("sys/block/{}{id}/{name}", driver.name());
    let disksize = host.bytes_at(&file("disksize"));
    let mm_stat = mm_stat(host, &file("mm_stat"));
    let per = |whole: &Reading<Bytes>| Ratio::from_sizes(mm_stat.original.get()?, whole.get()?);
    let mut zram = Zram {
        driver,
        id,
        initialised: host.flag_at(&file("initstate")),
        slot_table: slot_table(host, which, &disksize),
        disksize,
        algorithm: host.value(&file("comp_algorithm"), "algorithms, one in brackets", algorithms),
        secondary: secondary(host, &file("recomp_algorithm")),
        backing_device: backing_device(host, &file("backing_dev")),
        io_stat: io_stat(host, &file("io_stat")),
        bd_stat: bd_stat(host, &file("bd_stat")),
        debug_stat: debug_stat(host, &file("debug_stat")),
        original_per_compressed: per(&mm_stat.compressed),
        original_per_memory_used: per(&mm_stat.memory_used),
        mm_stat,
        size_classes: match driver {
            Driver::Zram => zsmalloc::size_classes(host, id),
            Driver::Zmerge => Reading::not_read(),
        },
        used_as: Reading::not_read(),
        merging: None,
    };
    zram.used_as = read_use(host, &zram, tiers, mounts);
    zram
}

fn page_size(host: &HostRoot) -> u64 {
    host.facts().page_size.unwrap_or(4096)
}

fn slot_table(host: &HostRoot, which: (Driver, u32), disksize: &Reading<Bytes>) -> Reading<Bytes> {
    let slots = disksize.clone().map(|size| size.get() / page_size(host).max(1));
    slots.map(|slots| match slots {
        0 => Bytes::new(0),
        slots => Bytes::new(slots.saturating_mul(slot_bytes(host, which))),
    })
}

fn slot_bytes(host: &HostRoot, (driver, id): (Driver, u32)) -> u64 {
    if driver == Driver::Zmerge {
        return 16;
    }
    // this file was added in the release that introduced packed slots
    let packs = || host.exists(&format!("sys/block/zram{id}/compressed_writeback"));
    if is_tracking_access(host, id) && !packs() { 24 } else { 16 }
}

/// Whether zram tracks the access times of its slots: by the kernel configuration, or if there is
/// none, by the existence of the list of slots with their times.
fn is_tracking_access(host: &HostRoot, id: u32) -> bool {
    let options = ["CONFIG_ZRAM_TRACK_ENTRY_ACTIME", "CONFIG_ZRAM_MEMORY_TRACKING"];
    let config = kconfig::kconfig(host);
    let listed = || host.exists(&format!("sys/kernel/debug/zram/zram{id}/block_state"));
    options.iter().any(|option| config.has(option)) || config.is_empty() && listed()
}

fn algorithms(text: &[u8]) -> Option<Algorithms> {
    let Choice { active, available } = choice(text)?;
    (!active.as_str().is_empty()).then_some(Algorithms { active, available })
}

fn secondary(host: &HostRoot, path: &str) -> Vec<Secondary> {
    let Ok(text) = host.text(path) else { return Vec::new() };
    let understood = |line: Line<'_>| {
        line.check_parsed(host, "#priority: algorithms", recompression(line.bytes))
    };
    text.lines().filter_map(understood).collect()
}

/// Parses a line of `recomp_algorithm`, the algorithms for recompression: `#1: lzo lz4 [zstd]`.
fn recompression(line: &[u8]) -> Option<Secondary> {
    let rest = line.trim_ascii().strip_prefix(b"#")?;
    let colon = rest.iter().position(|&byte| byte == b':')?;
    Some(Secondary {
        priority: number(&rest[..colon])?,
        algorithms: algorithms(&rest[colon + 1..])?,
    })
}

fn backing_device(host: &HostRoot, path: &str) -> Reading<Name> {
    host.name_at(path).and_then(|name| match name.as_str() {
        "none" => Err("none configured".into()),
        _ => Ok(name),
    })
}

pub(crate) fn mm_stat(host: &HostRoot, path: &str) -> MmStat {
    let [original, compressed, used, limit, used_max, same, compacted, huge, huge_since] =
        columns_at(host, path, 7);
    MmStat {
        original: original.map(Bytes::new),
        compressed: compressed.map(Bytes::new),
        memory_used: used.map(Bytes::new),
        memory_limit: limit.map(Bytes::new),
        memory_used_max: used_max.map(Bytes::new),
        same_filled_pages: same.map(Pages::new),
        compacted_pages: compacted.map(Pages::new),
        huge_pages: huge.map(Pages::new),
        huge_pages_since: huge_since.map(Pages::new),
    }
}

fn io_stat(host: &HostRoot, path: &str) -> IoStat {
    let [failed_reads, failed_writes, invalid_io, notify_free] = columns_at(host, path, 4);
    IoStat { failed_reads, failed_writes, invalid_io, notify_free }
}

fn bd_stat(host: &HostRoot, path: &str) -> BdStat {
    let size = |units: Reading<u64>| {
        let bytes = |units: u64| units.checked_mul(BdStat::UNIT).map(Bytes::new);
        units.and_then(|units| bytes(units).ok_or("larger than any device".into()))
    };
    let [held, reads, writes] = columns_at(host, path, 3).map(size);
    BdStat { held, reads, writes }
}

/// Reads zram's `debug_stat`: `version: 1` and the counters of that version; of another version
/// only the number is known.
fn debug_stat(host: &HostRoot, path: &str) -> DebugStat {
    let text = match host.text(path) {
        Ok(text) => text,
        Err(refusal) => {
            let reading = refusal.reading(Source::file(absolute_path(path)));
            return DebugStat {
                version: reading.clone(),
                writestall: reading.clone(),
                miss_free: reading,
            };
        }
    };
    let mut lines = text.lines();
    let version = version(host, lines.next(), text.source());
    let [writestall, miss_free] = match (version.get(), lines.next()) {
        (Some(1), Some(line)) => columns(host, &line.source(), line.bytes, 1),
        (Some(1), None) => columns(host, &text.source(), b"", 1),
        _ => [(); 2].map(|()| Reading::absent("of a version not known here", text.source())),
    };
    DebugStat { version, writestall, miss_free }
}

fn version(host: &HostRoot, line: Option<Line<'_>>, file: Source) -> Reading<u64> {
    let (at, bytes) = line.map_or((file, &b""[..]), |line| (line.source(), line.bytes));
    match bytes.strip_prefix(b"version:").map(<[u8]>::trim_ascii).and_then(number) {
        Some(version) => Reading::found(version, at),
        None => host.report_garbled(at, "version: and a number", bytes),
    }
}

/// Parses the numbers of a file of one line.
fn columns_at<const N: usize>(host: &HostRoot, path: &str, least: usize) -> [Reading<u64>; N] {
    let source = Source::file(absolute_path(path));
    match host.bytes(path) {
        Ok(bytes) => columns(host, &source, &bytes, least),
        Err(refusal) => [(); N].map(|()| refusal.clone().reading(source.clone())),
    }
}

/// Parses `N` numbers of a line, of which a kernel prints at least `least`; further numbers are
/// from a newer kernel.
fn columns<const N: usize>(
    host: &HostRoot,
    source: &Source,
    bytes: &[u8],
    least: usize,
) -> [Reading<u64>; N] {
    let found = words(bytes).take(N).count();
    if found < least {
        let expected = format!("at least {least} numbers");
        let garbled = host.report_garbled(source.clone(), &expected, bytes);
        return [(); N].map(|()| garbled.clone());
    }
    let mut words = words(bytes);
    [(); N].map(|()| match words.next().map(|word| (word, number(word))) {
        Some((_, Some(value))) => Reading::found(value, source.clone()),
        Some((word, None)) => host.report_garbled(source.clone(), "a whole number", word),
        None => Reading::absent(format!("this kernel prints {found} columns"), source.clone()),
    })
}

fn read_use(host: &HostRoot, zram: &Zram, tiers: &[Tier], mounts: &Mounts) -> Reading<ZramUse> {
    match zram.initialised.get() {
        Some(true) => {
            find_user(host, zram, tiers, mounts).unwrap_or_else(|| describe_unused(host, zram))
        }
        _ => zram.initialised.clone().map(|_| ZramUse::NotInitialised),
    }
}

/// What has the zram device open permanently: swap, a mount, or a device on top of it.
fn find_user(
    host: &HostRoot,
    zram: &Zram,
    tiers: &[Tier],
    mounts: &Mounts,
) -> Option<Reading<ZramUse>> {
    let path = zram.path();
    if let Some(tier) = tiers.iter().find(|tier| tier.path.as_str() == path) {
        return Some(tier.priority.clone().map(|priority| ZramUse::Swap { priority }));
    }
    let number = device_number(host, zram);
    if let Some(mount) = mounts.of_device(&path, number.as_deref()) {
        let kind = Name::from(mount.file_system.as_str());
        return Some(Reading::found(ZramUse::FileSystem { kind }, mount.at.clone()));
    }
    device_on_top(host, zram)
}

fn device_on_top(host: &HostRoot, zram: &Zram) -> Option<Reading<ZramUse>> {
    let holders = format!("sys/block/{}/holders", zram.name());
    let holder = host.names(&holders).into_iter().next()?;
    // the call makes a recording include this file
    host.exists(&format!("{holders}/{holder}"));
    let why = format!("in use through {}", Name::from(holder.as_str()));
    Some(Reading::absent(why, Source::file(absolute_path(&holders))))
}

/// The device number of a zram device, as `253:1`.
fn device_number(host: &HostRoot, zram: &Zram) -> Option<String> {
    let number = host.name_at(&format!("sys/block/{}/dev", zram.name()));
    number.value().map(|number| number.as_str().to_owned())
}

/// For a device without a user, whether `mkswap` was run on it. A device that stores nothing need
/// not be read.
fn describe_unused(host: &HostRoot, zram: &Zram) -> Reading<ZramUse> {
    if let Some(known) = find_swap_in_udev(host, zram) {
        return known;
    }
    let original = &zram.mm_stat.original;
    if original.get() == Some(Bytes::new(0)) {
        return original.clone().map(|_| ZramUse::Nothing);
    }
    const MARK: &[u8] = b"SWAPSPACE2";
    let path = format!("dev/{}", zram.name());
    // mkswap writes its signature at the end of the first page
    let page = usize::try_from(page_size(host)).unwrap_or(4096);
    let source = Source::file(absolute_path(&path));
    match host.has_mark_at(&path, page.saturating_sub(MARK.len()), MARK) {
        Ok(true) => Reading::found(ZramUse::SwapSignature, source),
        Ok(false) => Reading::found(ZramUse::Nothing, source),
        Err(refusal) => refusal.reading(source),
    }
}

/// Whether udev has found swap on the device: udev reads devices as root, and anybody may read its
/// results.
fn find_swap_in_udev(host: &HostRoot, zram: &Zram) -> Option<Reading<ZramUse>> {
    let is_swap = |line: &[u8]| line == b"E:ID_FS_TYPE=swap";
    let path = format!("run/udev/data/b{}", device_number(host, zram)?);
    let kept = host.excerpt(&path, |raw| keep_lines(raw, is_swap)).ok()?;
    let text = Text::new(&absolute_path(&path), kept);
    let line = text.lines().next()?;
    Some(Reading::found(ZramUse::SwapSignature, line.source()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_earlier_end_only_failed_requests_are_read() {
        let host = crate::testing::host([
            ("sys/block/zram0/io_stat", "1 2 0 0\n"),
            ("sys/block/zram0/mm_stat", "4096 74 12288 0 12288 0 0 0 0\n"),
            ("sys/block/zram3/disksize", "0\n"),
            ("sys/block/zmerge0/io_stat", "0 7 0 0\n"),
        ])
        .start_remembering();
        let zram = read_counters(Driver::Zram, &host);
        assert_eq!(zram.iter().map(|device| device.id).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(zram[0].io_stat.failed_writes.get(), Some(2));
        assert!(zram[0].mm_stat.original.value().is_none());
        assert_eq!(zram[1].io_stat.failed_writes.get(), None);
        let zmerge = read_counters(Driver::Zmerge, &host);
        assert_eq!(
            (zmerge[0].name(), zmerge[0].io_stat.failed_writes.get()),
            ("zmerge0".into(), Some(7))
        );
        let read: Vec<String> = host.into_remembered_files().into_keys().collect();
        let expected =
            ["zmerge0", "zram0", "zram3"].map(|name| format!("sys/block/{name}/io_stat"));
        assert_eq!(read, expected);
    }
}
