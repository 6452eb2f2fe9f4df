// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One process, mapping by mapping: the memory in huge pages, the memory that could be, and its
//! cost.

use pagewise_model::{Blocks, Bytes, MappingCoverage, ProcessCoverage, ScanMethod, Snapshot};

use crate::text::kit::{Line, Page, Role};
use crate::text::table::{Cell, Column, Table};
use crate::text::words::{count, plural, share};

const SWITCHED_OFF: &str = "Huge pages are switched off for this process (PR_SET_THP_DISABLE, called by itself or by \
    what started it): it gets none, and a collapse can make none. Start it without that, as redis-server with \
    disable-thp no.";

/// Number of mappings shown of a process.
const MOST: usize = 8;

/// The settings that decide whether a process gets huge pages, besides its mappings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed<'a> {
    /// Whether `PR_SET_THP_DISABLE` is set: then neither a fault nor khugepaged nor a collapse
    /// gives the process huge pages.
    switched_off: bool,
    /// The host's huge page policy in `transparent_hugepage/enabled`.
    host: Option<&'a str>,
}

impl<'a> Allowed<'a> {
    pub(super) fn select(host: &'a Snapshot, pid: u32) -> Self {
        let process = host.processes.list.iter().find(|process| process.pid == pid);
        Self {
            switched_off: process.is_some_and(|found| found.thp_allowed.get() == Some(false)),
            host: host.thp.enabled.value().map(|choice| choice.active.as_str()),
        }
    }

    /// Why the kernel gives a mapping no huge pages; `None` if that is unknown.
    fn why_not(self, mapping: &MappingCoverage, block: Bytes) -> Option<&'static str> {
        let advised = mapping.advised.get();
        if self.switched_off {
            Some("switched off")
        } else if advised == Some(false) {
            Some("advised against")
        } else if self.host == Some("never") {
            Some("enabled is never")
        } else if self.host == Some("madvise") && advised.is_none() {
            Some("not advised")
        } else if mapping.size < block {
            Some("too small")
        } else {
            None
        }
    }
}

pub(super) fn print(page: &mut Page, process: &ProcessCoverage, allowed: Allowed<'_>) {
    page.gap();
    let title = format!("{} (pid {})", process.name, process.pid);
    let start = Line::default().span(Role::Strong, title);
    page.hang_items(start, 2, &sizes(process));
    page.items(2, &blocks(&process.blocks, process.block));
    print_mappings(page, process, allowed);
    if allowed.switched_off {
        return page.prose(2, Role::Warning, SWITCHED_OFF);
    }
    print_advice(page, process);
}

fn sizes(process: &ProcessCoverage) -> Vec<String> {
    let coverage = &process.coverage;
    let of = |huge: Bytes, all: Bytes| share(huge.get(), all.get()).unwrap_or_default();
    let mut items = vec![
        format!("anon {}, {} huge", coverage.anon, of(coverage.anon_huge, coverage.anon)),
        plural(process.mappings, "mapping"),
    ];
    if coverage.file > Bytes::new(0) {
        items.push(format!(
            "files and shmem {}, {} huge",
            coverage.file,
            of(coverage.file_huge, coverage.file)
        ));
    }
    if coverage.swapped > Bytes::new(0) {
        items.push(format!("{} in swap", coverage.swapped));
    }
    if coverage.zero > Bytes::new(0) {
        items.push(format!("{} read and never written", coverage.zero));
    }
    let how = match process.method {
        ScanMethod::PagemapScan => "PAGEMAP_SCAN",
        ScanMethod::Pagemap => "smaps and pagemap: this kernel has no PAGEMAP_SCAN",
    };
    items.push(format!("read in {:.1} ms by {how}", process.seconds * 1000.0));
    items
}

fn blocks(blocks: &Blocks, size: Bytes) -> Vec<String> {
    let kinds = [
        (blocks.huge, "huge"),
        (blocks.full, "full"),
        (blocks.half, "half full or more"),
        (blocks.eighth, "an eighth full or more"),
        (blocks.sparse, "emptier"),
    ];
    let known = kinds.iter().filter(|(number, _)| *number > 0);
    let mut items: Vec<String> =
        known.map(|(number, what)| format!("{} {what}", count(*number))).collect();
    if let Some(first) = items.first_mut() {
        *first = format!("blocks of {size} in private memory: {first}");
    }
    items
}

fn print_mappings(page: &mut Page, process: &ProcessCoverage, allowed: Allowed<'_>) {
    let mappings = &process.largest;
    if mappings.is_empty() {
        return;
    }
    let columns = vec![
        Column::path("mapping"),
        Column::right("anon"),
        Column::right("file"),
        Column::right("huge"),
        Column::right("could be"),
        Column::left("eligible").spare(1),
        Column::left("advised").spare(2),
    ];
    let mut table = Table::new(4, columns);
    let rows = mappings.iter().take(MOST).map(|mapping| row(mapping, process.block, allowed));
    rows.for_each(|cells| table.row(cells));
    table.print(page);
}

fn row(mapping: &MappingCoverage, block: Bytes, allowed: Allowed<'_>) -> Vec<Cell> {
    let coverage = &mapping.coverage;
    let all = coverage.anon.saturating_add(coverage.file);
    let huge = coverage.anon_huge.saturating_add(coverage.file_huge);
    let some = |size: Bytes| match size.get() {
        0 => Cell::default(),
        _ => size.to_string().into(),
    };
    let could = if allowed.switched_off { 0 } else { mapping.blocks.full + mapping.blocks.half };
    let name = match mapping.name.as_str() {
        "" => format!("{:x}", mapping.start),
        name => name.to_owned(),
    };
    vec![
        name.into(),
        some(coverage.anon),
        some(coverage.file),
        share(huge.get(), all.get()).unwrap_or_default().into(),
        if could > 0 { plural(could, "block").into() } else { Cell::default() },
        eligible(mapping, block, allowed),
        yes_no(mapping.advised.get()),
    ]
}

/// Whether a mapping can get huge pages: `yes`, or `no` and why.
fn eligible(mapping: &MappingCoverage, block: Bytes, allowed: Allowed<'_>) -> Cell {
    match (mapping.eligible.get(), allowed.why_not(mapping, block)) {
        (Some(false), Some(why)) => format!("no: {why}").into(),
        (answer, _) => yes_no(answer),
    }
}

fn yes_no(answer: Option<bool>) -> Cell {
    answer.map_or_else(Cell::default, |yes| if yes { "yes".into() } else { "no".into() })
}

/// Prints what the suggested command would do for the process.
fn print_advice(page: &mut Page, process: &ProcessCoverage) {
    let could = process.blocks.full + process.blocks.half;
    if could == 0 {
        return;
    }
    let listed = format!(
        "{} could be collapsed, for {} more memory; all that hold anything, as khugepaged does by \
         default, for {}",
        plural(could, "block"),
        process.blocks.growth_of_half,
        process.blocks.growth_of_all
    );
    page.prose(2, Role::Plain, &listed);
    let command = format!("pagewise thp collapse --pid {}", process.pid);
    page.command(Line::indent(4), 4, &command);
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Reading, Source};

    use super::*;
    use crate::text::TextStyle;

    const ALLOWED: Allowed<'_> = Allowed { switched_off: false, host: Some("always") };

    fn mapping(advised: Option<bool>, size: u64) -> MappingCoverage {
        let source = || Source::file("/proc/7/smaps");
        MappingCoverage {
            size: Bytes::new(size),
            eligible: Reading::found(false, source()),
            advised: advised
                .map_or_else(Reading::not_read, |asked| Reading::found(asked, source())),
            blocks: Blocks { full: 3, ..Blocks::default() },
            ..MappingCoverage::default()
        }
    }

    #[test]
    fn a_mapping_that_is_not_eligible_has_a_reason() {
        let block = Bytes::new(2 << 20);
        let why =
            |allowed: Allowed<'_>, advised, size| allowed.why_not(&mapping(advised, size), block);
        let off = Allowed { switched_off: true, ..ALLOWED };
        let host = |host| Allowed { host: Some(host), ..ALLOWED };
        assert_eq!(why(off, None, 4 << 20), Some("switched off"));
        assert_eq!(why(ALLOWED, Some(false), 4 << 20), Some("advised against"));
        assert_eq!(why(host("never"), Some(true), 4 << 20), Some("enabled is never"));
        assert_eq!(why(host("madvise"), None, 4 << 20), Some("not advised"));
        assert_eq!(why(host("madvise"), Some(true), 4 << 20), None);
        assert_eq!(why(ALLOWED, None, 4096), Some("too small"));
    }

    #[test]
    fn what_is_switched_off_is_neither_counted_nor_advised() {
        let process = ProcessCoverage {
            pid: 7,
            block: Bytes::new(2 << 20),
            blocks: Blocks { full: 3, ..Blocks::default() },
            largest: vec![mapping(None, 8 << 20)],
            ..ProcessCoverage::default()
        };
        let printed = |allowed| {
            let mut page = Page::new(TextStyle { width: 100, colour: false });
            print(&mut page, &process, allowed);
            page.finish()
        };
        let usual = printed(ALLOWED);
        assert!(usual.contains("thp collapse --pid 7") && usual.contains("3 blocks"), "{usual}");
        let off = printed(Allowed { switched_off: true, ..ALLOWED });
        assert!(!off.contains("thp collapse") && !off.contains("3 blocks"), "{off}");
        assert!(off.contains("no: switched off") && off.contains("PR_SET_THP_DISABLE"), "{off}");
    }
}
