// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/sys/kernel/debug/zsmalloc/zramN/classes` into [`SizeClasses`].
//!
//! Only kernels with `CONFIG_ZSMALLOC_STAT` have the file, and only root may read it. Columns are
//! found by the names in the first line: newer kernels have eleven columns for how full zspages are
//! (`10%` to `100%`) in place of `almost_full` and `almost_empty` (as in 6.1), and very old kernels
//! lack `freeable`. The line of totals (`Total`) has no size, so its columns do not match the
//! others; it is skipped, and sums are computed.

use pagewise_model::{Bytes, Pages, Reading, SizeClass, SizeClasses, Source};

use crate::limits::SIZE_CLASSES;
use pagewise_hostfs::text::{Line, Text, number};
use pagewise_hostfs::{HostRoot, NO_SUCH_FILE, ReadHost, ReadValues, absolute_path};

/// The columns of a size class that are read, by their names in the first line.
const COLUMNS: [&[u8]; 6] =
    [b"class", b"size", b"obj_allocated", b"obj_used", b"pages_used", b"pages_per_zspage"];
/// The reason why there are no size classes if the file does not exist.
const NOT_SHOWN: &str = "only a kernel with CONFIG_ZSMALLOC_STAT shows it, in debugfs";

pub(crate) fn size_classes(host: &HostRoot, id: u32) -> Reading<SizeClasses> {
    let path = format!("sys/kernel/debug/zsmalloc/zram{id}/classes");
    match host.text(&path) {
        Ok(text) => parse(host, &text),
        Err(refusal) => {
            refusal.explain(NO_SUCH_FILE, NOT_SHOWN).reading(Source::file(absolute_path(&path)))
        }
    }
}

fn parse(host: &HostRoot, text: &Text) -> Reading<SizeClasses> {
    let mut lines = text.first_lines(host, SIZE_CLASSES);
    let head = lines.next();
    let head_bytes = head.as_ref().map_or(&b""[..], |line| line.bytes);
    let Some((places, columns)) = head.as_ref().and_then(column_places) else {
        return host.report_garbled(
            text.source(),
            "a line of columns with class and size",
            head_bytes,
        );
    };
    let is_class = |line: &Line<'_>| line.words().next() != Some(b"Total");
    let class = |line: Line<'_>| {
        let expected = "as many numbers as there are columns";
        line.check_parsed(host, expected, parse_class(&line, places, columns))
    };
    let classes = SizeClasses::new(lines.filter(is_class).filter_map(class));
    Reading::found(classes, text.source())
}

/// The positions of the columns that are read, and the total number of columns.
fn column_places(head: &Line<'_>) -> Option<([usize; 6], usize)> {
    let mut places = [0; 6];
    for (place, name) in places.iter_mut().zip(COLUMNS) {
        *place = head.words().position(|word| word == name)?;
    }
    Some((places, head.words().count()))
}

fn parse_class(line: &Line<'_>, places: [usize; 6], columns: usize) -> Option<SizeClass> {
    let words: Vec<&[u8]> = line.words().take(columns + 1).collect();
    let at = |place: usize| number::<u64>(words[place]);
    let [class, size, allocated, used, pages, per_zspage] = places;
    (words.len() == columns).then_some(())?;
    Some(SizeClass {
        class: number(words[class])?,
        object_size: Bytes::new(at(size)?),
        objects_allocated: at(allocated)?,
        objects_used: at(used)?,
        pages_used: Pages::new(at(pages)?),
        pages_per_zspage: at(per_zspage)?,
    })
}
