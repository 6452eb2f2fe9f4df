// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Identical pages: KSM in RAM, zmerge in compressed swap.

use pagewise_model::{Bytes, Name, NamedValue, Snapshot};

use crate::page::{Draft, add_bars, bar, count, size, value};

/// Explains KSM and zmerge. Sources: the kernel's admin-guide/mm/ksm document;
/// kernel/zmerge/README.md.
pub(crate) fn explain_ksm(host: &Snapshot, page: &mut Draft) {
    page.add_text(
        "Pages with the same contents need to be stored only once. KSM merges pages of programs in RAM, if the programs \
         allow it (madvise MADV_MERGEABLE, or a whole process by prctl): a kernel thread compares them, and a write to \
         a shared page makes a copy again. zmerge, a kernel module of Pagewise, merges pages in compressed swap.",
    );
    let ksm = &host.ksm;
    let known = [
        bar("kept by KSM", ksm.pages_shared.get().map(|pages| size(host, pages))),
        bar("saved by KSM", ksm.pages_sharing.get().map(|pages| size(host, pages))),
        bar("without twin", ksm.pages_unshared.get().map(|pages| size(host, pages))),
        bar("changes too fast", ksm.pages_volatile.get().map(|pages| size(host, pages))),
    ];
    page.add_bars("Pages that KSM compares on this machine", add_bars(known));
    let profit = ksm.general_profit_bytes.clone().map(|bytes| {
        let size = Bytes::new(bytes.unsigned_abs());
        let sign = if bytes < 0 { "−" } else { "" };
        Name::from(format!("{sign}{size}").as_str())
    });
    page.add_values(
        "This machine",
        vec![
            value("ksm/run", &ksm.run),
            NamedValue { name: "ksm/general_profit".to_owned(), reading: profit },
            count("ksm/full_scans", ksm.full_scans.clone()),
            count("ksm/pages_to_scan", ksm.pages_to_scan.clone()),
        ],
    );
    for device in host.zmerge.iter().take(1) {
        let Some(merging) = &device.merging else { continue };
        page.add_values(
            device.path(),
            vec![
                value("mode", &merging.mode),
                value("merged_pages", &merging.merged_pages),
                value("merged_bytes", &merging.merged_bytes),
                value("index_bytes", &merging.index_bytes),
            ],
        );
    }
    page.add_text(
        "The comparison costs CPU time, and each compared page a little memory: general_profit is what is left of the \
         gain, and is negative if KSM costs more than it saves. Pages of zeros and other same-filled pages need no \
         merging in zram and zswap: those store them without any memory of their own.",
    );
    page.add_correction(
        "many equal pages mean much saved memory",
        "Often, many of them are zeros or compress to almost nothing, so that swap in compressed RAM stores them in \
         little memory anyway. `pagewise scan` counts what they take when compressed.",
    );
    page.add_correction(
        "merging is safe between users who do not trust each other",
        "A write to a merged page takes longer, so one program can find out that another one has the same page.",
    );
    page.add_command(
        "sudo pagewise scan --host --duplicates",
        "how many pages in use are equal, and what merging would save",
    );
    page.add_command("pagewise doctor --explain ksm-loss", "when KSM costs more than it saves");
}
