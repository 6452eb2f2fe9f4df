// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure of how much of each kind of memory is in huge pages.

use pagewise_model::{Bytes, Memory};

use super::rows::{Bar, ROOM, Rows};
use crate::svg::length;

pub(crate) fn draw_huge_pages(memory: &Memory) -> Option<String> {
    let file = memory.cached.get().zip(memory.shmem.get());
    let file = file.map(|(cached, shmem)| cached.saturating_sub(shmem));
    let kinds = [
        ("anon", "f-anon", memory.anon_huge_pages.get(), memory.anon_pages.get()),
        ("shmem", "f-shmem", memory.shmem_huge_pages.get(), memory.shmem.get()),
        ("file", "f-file", memory.file_huge_pages.get(), file),
    ];
    let mut rows = Rows::default();
    for (name, class, huge, all) in kinds {
        let known = huge.zip(all).filter(|(_, all)| all.get() > 0);
        if let Some((huge, all)) = known {
            rows.push(row(name, class, huge, all));
        }
    }
    rows.draw("Share of memory in huge pages")
}

fn row(name: &str, class: &'static str, huge: Bytes, all: Bytes) -> Bar {
    Bar {
        name: name.to_owned(),
        pieces: vec![(class, length(huge.get(), all.get(), ROOM))],
        value: huge.part_of(all),
    }
}
