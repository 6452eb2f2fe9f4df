// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/proc/zoneinfo` into [`Zone`]s and `/proc/buddyinfo` into [`FreeBlocks`].
//!
//! zoneinfo has one block per zone, with a heading like `Node 0, zone Normal`. Three pitfalls: the
//! first zone of a node also contains the statistics of the node; the per-CPU lists have a `high:`
//! of their own, which differs from the zone's `high` by the colon; and a zone without pages ends
//! after `protection:`, so its lists are absent and not empty.
//!
//! If a file cannot be read, the result is empty and the reason is lost, because it is stored per
//! zone.

use pagewise_model::{FreeBlocks, Name, Pages, Reading, Source, Zone};

use crate::limits::ZONES;
use pagewise_hostfs::text::{Line, number, words};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues};

/// Maximum number of zones of one node (`protection` has one number for each). Kernels have at most
/// six.
const MAX_ZONES_PER_NODE: usize = 16;
/// Maximum number of orders of free blocks of one zone; kernels have 11, with large base pages 14.
const MAX_ORDERS: usize = 32;

pub(crate) fn read_zones(host: &HostRoot) -> Vec<Zone> {
    let Ok(text) = host.text("proc/zoneinfo") else { return Vec::new() };
    let mut zones = Vec::new();
    let mut current: Option<Zone> = None;
    for line in text.lines() {
        if is_heading(&line) {
            zones.extend(current.take());
            if zones.len() == ZONES {
                host.problem(&line.source(), "the last zone", line.bytes);
                break;
            }
            current = parse_heading(host, &line)
                .map(|(node, name)| blank_zone(node, name, &text.source()));
        } else if let Some(zone) = &mut current {
            take(host, zone, &line);
        }
    }
    zones.extend(current);
    zones
}

pub(crate) fn read_free_blocks(host: &HostRoot) -> Vec<FreeBlocks> {
    let Ok(text) = host.text("proc/buddyinfo") else { return Vec::new() };
    text.first_lines(host, ZONES).filter_map(|line| free_blocks(host, &line)).collect()
}

fn is_heading(line: &Line<'_>) -> bool {
    line.bytes.starts_with(b"Node")
}

/// Parses node and zone from `Node 0, zone Normal`; further words are ignored.
fn parse_heading(host: &HostRoot, line: &Line<'_>) -> Option<(u32, Name)> {
    let mut words = line.words();
    let mut parse = || {
        words.next().filter(|word| *word == b"Node")?;
        let node = number(words.next()?.strip_suffix(b",")?)?;
        words.next().filter(|word| *word == b"zone")?;
        Some((node, Name::from_bytes(words.next()?)))
    };
    line.check_parsed(host, "a node and a zone", parse())
}

/// A zone without any values yet.
fn blank_zone(node: u32, name: Name, source: &Source) -> Zone {
    let why = "the kernel prints no such line for this zone";
    let mut zone = Zone { node, name, ..Zone::default() };
    zone.lowmem_reserve_pages = Reading::absent(why, source.clone());
    for (_, field) in fields(&mut zone) {
        *field = Reading::absent(why, source.clone());
    }
    zone
}

fn take(host: &HostRoot, zone: &mut Zone, line: &Line<'_>) {
    // only free memory has two words before the number: "pages free 3840"
    let mut words = line.words().skip_while(|word| *word == b"pages");
    let Some(name) = words.next() else { return };
    if name == b"protection:" {
        zone.lowmem_reserve_pages = parse_reserve(host, line);
    } else if let Some((_, field)) =
        fields(zone).into_iter().find(|(known, _)| known.as_bytes() == name)
    {
        let count = words.next().and_then(number).filter(|_| words.next().is_none());
        *field = line.reading(host, "a name and a number of pages", count.map(Pages::new));
    }
}

/// Parses the pages of a zone that allocations from higher zones must leave free, `protection: (0,
/// 3019, 9419)`.
fn parse_reserve(host: &HostRoot, line: &Line<'_>) -> Reading<Vec<Pages>> {
    let list = line.split_once(b':').and_then(|(_, rest)| {
        let inner = rest.strip_prefix(b"(")?.strip_suffix(b")")?;
        let numbers = inner.split(|&byte| byte == b',').take(MAX_ZONES_PER_NODE + 1);
        numbers.map(|word| number(word.trim_ascii()).map(Pages::new)).collect::<Option<Vec<_>>>()
    });
    let list = list.filter(|list| list.len() <= MAX_ZONES_PER_NODE);
    line.reading(host, "numbers of pages in parentheses", list)
}

/// Parses a line of `/proc/buddyinfo`, `Node 0, zone Normal 12616 8822 …`: free blocks by order.
fn free_blocks(host: &HostRoot, line: &Line<'_>) -> Option<FreeBlocks> {
    let (node, zone) = parse_heading(host, line)?;
    let counts = words(line.bytes).skip(4).take(MAX_ORDERS + 1).map(number);
    let blocks = counts.collect::<Option<Vec<u64>>>();
    let blocks = blocks.filter(|all| (1..=MAX_ORDERS).contains(&all.len()));
    let blocks = line.reading(host, "a number of free blocks per order", blocks);
    Some(FreeBlocks::new(node, zone, blocks))
}

fn fields(zone: &mut Zone) -> [(&'static str, &mut Reading<Pages>); 12] {
    [
        ("free", &mut zone.free_pages),
        ("boost", &mut zone.boost_pages),
        ("min", &mut zone.min_pages),
        ("low", &mut zone.low_pages),
        ("high", &mut zone.high_pages),
        ("spanned", &mut zone.spanned_pages),
        ("present", &mut zone.present_pages),
        ("managed", &mut zone.managed_pages),
        ("nr_zone_inactive_anon", &mut zone.inactive_anon_pages),
        ("nr_zone_active_anon", &mut zone.active_anon_pages),
        ("nr_zone_inactive_file", &mut zone.inactive_file_pages),
        ("nr_zone_active_file", &mut zone.active_file_pages),
    ]
}
