// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compressed swap, and readahead from swap.

use pagewise_facts::tiers;
use pagewise_model::{Bar, Bytes, NamedValue, Reading, Snapshot, Zram};

use crate::page::{Draft, add_bars, bar, count, counter, setting, value};

/// Explains zram. Source: the kernel's blockdev/zram document, and `struct zram_table_entry`. The
/// figures are from docs/measured/claims.md and docs/measured/zram-or-zswap.md.
pub(crate) fn explain_zram(host: &Snapshot, page: &mut Draft) {
    page.add_text(
        "A zram device is a disk in RAM that compresses each page. As swap, it lets the kernel keep cold pages in less \
         memory than they had, and is much faster than a disk. Its size (disksize) limits the data before compression; \
         memory is taken only for what is stored.",
    );
    match find_fullest(host.compressed_devices()) {
        Some(device) => {
            let stat = &device.mm_stat;
            let known = [
                bar("disksize", device.disksize.get()),
                bar("holds", stat.original.get()),
                bar("takes", stat.memory_used.get()),
            ];
            page.add_bars(format!("{} on this machine", device.path()), add_bars(known));
            let rate = device.original_per_memory_used.as_ref().map(|ratio| ratio.get());
            let mut values = vec![
                value("comp_algorithm", &device.algorithm),
                value("used as", &device.used_as),
                value("slot table", &device.slot_table),
            ];
            if let Some(rate) = rate {
                let text = pagewise_model::Name::from(format!("{rate:.2} : 1").as_str());
                values.push(NamedValue {
                    name: "holds : takes".to_owned(),
                    reading: Reading::found(text, stat.memory_used.source.clone()),
                });
            }
            page.add_values("This machine", values);
        }
        None => page.add_text(
            "This machine has no zram device. `pagewise plan` says whether one would help, and sets it up so that it \
             survives a reboot.",
        ),
    }
    add_order_of_swap(host, page);
    page.add_correction(
        "a zram device of N GiB takes N GiB of RAM",
        "Empty, it takes only its table: 16 bytes for each page of its size, 0.39 % with pages of 4 KiB. Full, at a ratio of 2.5 : 1, it \
         takes 40 % of its size.",
    );
    page.add_correction(
        "zram in front of a disk is always a gain",
        "The first pages that it takes stay in it. If it is full, newer pages go to the disk: in our guests, the \
         kernel then read this disk more often than without zram.",
    );
    page.add_correction(
        "the algorithm with the best benchmark is the best for programs",
        "A benchmark of single pages leaves out the program. `pagewise trial` measures both.",
    );
    page.add_command(
        "sudo pagewise scan --host",
        "how well the memory in use compresses, with each algorithm",
    );
    page.add_command("pagewise doctor --explain zram-unused", "why a device stores nothing");
}

/// Returns the compressed swap device that stores the most data.
fn find_fullest<'a>(devices: impl Iterator<Item = &'a Zram>) -> Option<&'a Zram> {
    devices.max_by_key(|device| device.mm_stat.original.get())
}

/// Adds the swap areas by priority, in the order in which the kernel fills them.
fn add_order_of_swap(host: &Snapshot, page: &mut Draft) {
    let shown = host.tiers.iter().take(4).filter_map(|tier| {
        let (size, used) = (tier.size.get()?, tier.used.get()?);
        let priority = tier.priority.get()?;
        let shown = format!("{} (priority {priority})", used.part_of(size));
        Some(Bar::new(tier.path.to_string(), shown, size.get()))
    });
    page.add_bars("Swap areas in the order in which they are filled", shown.collect());
}

/// Explains the columns of `mm_stat`. Source: the kernel's blockdev/zram document, and
/// `mm_stat_show` in drivers/block/zram/zram_drv.c for units.
pub(crate) fn explain_mm_stat(host: &Snapshot, page: &mut Draft) {
    page.add_text(
        "/sys/block/zramN/mm_stat has nine numbers without names. The first five are bytes, the last four pages, \
         whatever a guide says.",
    );
    let sample = Zram::default();
    let device = find_fullest(host.zram.iter());
    let stat = &device.unwrap_or(&sample).mm_stat;
    let title = match device {
        Some(device) => format!("/sys/block/{}/mm_stat of this machine", device.name()),
        None => "This machine has no zram device; these are the names".to_owned(),
    };
    page.add_values(
        title,
        vec![
            value("1 orig_data_size", &stat.original),
            value("2 compr_data_size", &stat.compressed),
            value("3 mem_used_total", &stat.memory_used),
            value("4 mem_limit", &stat.memory_limit),
            value("5 mem_used_max", &stat.memory_used_max),
            value("6 same_pages", &stat.same_filled_pages),
            value("7 pages_compacted", &stat.compacted_pages),
            value("8 huge_pages", &stat.huge_pages),
            value("9 huge_pages_since", &stat.huge_pages_since),
        ],
    );
    page.add_text(
        "What compression gained is 1 divided by 3: mem_used_total has the waste of the allocator, which 2 does not \
         have. Same-filled pages (6), such as pages of zeros, take no memory beside the table. Huge pages (8) are no \
         huge pages of 2 MiB: they are pages that do not compress and are stored as they are.",
    );
    if let Some(device) = device {
        let known = [
            bar("holds (1)", stat.original.get()),
            bar("compressed (2)", stat.compressed.get()),
            bar("takes (3)", stat.memory_used.get()),
            bar("slot table", device.slot_table.get()),
        ];
        page.add_bars("In a picture", add_bars(known));
    }
    page.add_correction(
        "mem_limit and mem_used_max are pages",
        "They are bytes. A mem_limit of 0 means that there is none.",
    );
    page.add_correction(
        "pages_compacted counts compressed pages",
        "It counts the pages that zsmalloc freed when it moved objects together.",
    );
    page.add_correction(
        "mem_used_total is all that zram costs",
        "The table of slots is extra: 16 bytes for each page of disksize, as soon as disksize is set.",
    );
    page.add_command("pagewise report --only zram", "all devices, with ratios");
}

/// Explains zswap. Sources: the kernel's admin-guide/mm/zswap document, mm/zswap.c. The figures are
/// from docs/measured/zram-or-zswap.md.
pub(crate) fn explain_zswap(host: &Snapshot, page: &mut Draft) {
    page.add_text(
        "zswap keeps pages compressed in RAM that are on their way to swap on a disk. It is no swap area: each page in \
         its pool has its slot on the disk reserved, so it needs such swap, with room. With its shrinker, it writes \
         cold pages to the disk when memory is short.",
    );
    let zswap = &host.zswap;
    let total = host.memory.total.get();
    let limit = zswap.max_pool_percent.get().zip(total).map(|(percent, total)| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size")]
        let most = (total.get() as f64 * percent.get() / 100.0) as u64;
        Bytes::new(most)
    });
    let disks = tiers::on_disk(host).filter_map(|tier| tier.size.get()).sum::<Bytes>();
    let known = [
        bar("holds", zswap.stored.get()),
        bar("pool takes", zswap.pool.get()),
        bar("pool limit", limit.filter(|_| zswap.enabled.get() == Some(true))),
        bar("swap on disks", Some(disks).filter(|&size| size > Bytes::new(0))),
    ];
    page.add_bars("This machine, in sizes", add_bars(known));
    page.add_values(
        "This machine",
        vec![
            value("enabled", &zswap.enabled),
            value("compressor", &zswap.compressor),
            value("max_pool_percent", &zswap.max_pool_percent),
            value("shrinker_enabled", &zswap.shrinker_enabled),
            count("written back, pages", zswap.written_back.clone()),
        ],
    );
    page.add_correction(
        "zswap evicts cold pages by itself",
        "While its pool has room, only its shrinker does, which is off by default, and which Linux 6.1 does not have. A \
         full pool refuses new pages, which then go to the disk, until enough of its pages were written back.",
    );
    page.add_correction(
        "zswap is always better than zram",
        "With its shrinker it read 64 % (6.12) and 52 % (7.2) fewer pages from the disk than a full zram device in \
         front of it. Without swap on a disk it stores nothing, and its pool counts against the limit of a cgroup.",
    );
    page.add_correction(
        "zswap and zram together are better than one of both",
        "zswap in front of zram compresses each page twice.",
    );
    page.add_command("pagewise plan --only zswap", "zram or zswap on this machine, and why");
    page.add_command("pagewise doctor --explain zswap-unused", "when it should be on");
}

/// Explains `page-cluster`. Sources: the kernel's sysctl/vm document; `do_swap_page` in mm/memory.c
/// and `swap_vma_readahead` in mm/swap_state.c. The figures are from docs/bench.md.
pub(crate) fn explain_page_cluster(host: &Snapshot, page: &mut Draft) {
    /// The largest value of page-cluster that the chart shows.
    const LARGEST: u64 = 5;
    page.add_text(
        "If a program needs a page that is in swap, the kernel may read its neighbours too, hoping that they are needed \
         next: up to 2^page-cluster pages in one go. That helps a hard disk, where one long read costs as much as a \
         short one.",
    );
    let now: Option<u64> =
        host.knob("vm.page-cluster").and_then(|knob| knob.active_word()?.parse().ok());
    let rows = (0..=LARGEST).map(|value| {
        let pages = 1u64 << value;
        let mark = if now == Some(value) { " (now)" } else { "" };
        let noun = if pages == 1 { "page" } else { "pages" };
        Bar::new(format!("page-cluster {value}"), format!("{pages} {noun}{mark}"), pages)
    });
    page.add_bars("Pages that one fault may read", rows.collect());
    page.add_values(
        "This machine",
        vec![
            setting(host, "vm.page-cluster"),
            setting(host, "swap.vma_ra_enabled"),
            counter(host, "pswpin"),
            counter(host, "swap_ra"),
            counter(host, "swap_ra_hit"),
        ],
    );
    page.add_text(
        "swap_ra counts pages that were read ahead, and swap_ra_hit those of them that were used: if few are used, a \
         smaller value saves work.",
    );
    page.add_correction(
        "zram needs page-cluster 0",
        "For private memory (that one process has), the kernel does not read ahead from zram at all, whatever the value \
         is: it reads one page. Only memory shared after a fork is read ahead.",
    );
    page.add_correction(
        "the value does not matter with zswap either",
        "There it does: neighbours are decompressed as well. On Linux 6.18, a program with random accesses took 89 % \
         longer with 3 than with zram, and no difference was shown with 0.",
    );
    page.add_command(
        "sudo pagewise bench --host",
        "pages per fault, and time of a fault, for each value",
    );
    page.add_command("pagewise lab run page-cluster", "0 against 3, with a program");
}
