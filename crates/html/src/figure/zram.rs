// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure of the data that each device in compressed RAM stores, the RAM that it uses, and its
//! limit.

use pagewise_model::{Bytes, Reading, Zram};

use super::rows::{Bar, ROOM, Rows};
use crate::svg::length;

/// Draws the stored objects of each device by size, with the RAM of their size classes; empty if
/// the kernel does not report them.
pub(crate) fn draw_size_classes<'a>(
    devices: impl Iterator<Item = &'a Zram>,
    page_size: Bytes,
) -> Vec<String> {
    devices.filter_map(|zram| classes_of(zram, page_size)).collect()
}

fn classes_of(zram: &Zram, page_size: Bytes) -> Option<String> {
    let bands = zram.size_classes.value()?.bands(page_size);
    let most = bands.iter().map(|band| band.memory.get()).max()?;
    let mut rows = Rows::default();
    for band in bands {
        let used = band.memory.saturating_sub(band.unused);
        let scaled = |size: Bytes| length(size.get(), most, ROOM);
        rows.push(Bar {
            name: format!("up to {}", band.up_to),
            pieces: vec![("f-compressed", scaled(used)), ("f-rest", scaled(band.unused))],
            value: format!("{}, {} unused", band.memory, band.unused),
        });
    }
    let title = format!(
        "RAM of {} by size of the stored objects; grey: slots that hold no object",
        zram.name()
    );
    rows.draw(&title)
}

/// Draws how much data the zram devices store and how much memory they use; `None` if no device
/// stores anything.
pub(crate) fn draw_zram<'a>(devices: impl Iterator<Item = &'a Zram>) -> Option<String> {
    let busy: Vec<&Zram> =
        devices.filter(|zram| zram.mm_stat.original.get().is_some_and(|it| it.get() > 0)).collect();
    let sizes = busy.iter().flat_map(|zram| sizes(zram)).filter_map(|(_, _, size)| size.get());
    let most = sizes.max()?.get();
    let mut rows = Rows::default();
    for zram in busy {
        for (name, class, size) in sizes_of(zram) {
            rows.push(Bar {
                name: format!("{} {name}", zram.name()),
                pieces: vec![(class, length(size.get(), most, ROOM))],
                value: size.to_string(),
            });
        }
    }
    rows.draw("What devices in compressed RAM store, and what that takes")
}

fn sizes_of(zram: &Zram) -> impl Iterator<Item = (&'static str, &'static str, Bytes)> + '_ {
    let known = sizes(zram).into_iter();
    known.filter_map(|(name, class, size)| Some((name, class, size.get()?)))
}

fn sizes(zram: &Zram) -> [(&'static str, &'static str, &Reading<Bytes>); 4] {
    let stat = &zram.mm_stat;
    [
        ("stored", "f-anon", &stat.original),
        ("compressed", "f-compressed", &stat.compressed),
        ("memory used", "f-kernel", &stat.memory_used),
        ("peak", "f-rest", &stat.memory_used_max),
    ]
}
