// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zram devices.

use pagewise_hostfs::{Entry, HostRoot, ReadHost};
use pagewise_model::{Bytes, Name, Pages, Problem, Reading, Zram, ZramUse};
use proptest::prelude::*;

use crate::testing::{denied_entry, file};
use crate::{glance, limit};

type Files = Vec<(String, Entry)>;

/// A device of a 6.18 kernel that is initialised and stores data.
fn device_files() -> Files {
    let at = |name: &str, text: &str| file(format!("sys/block/zram1/{name}"), text);
    vec![
        at("initstate", "1\n"),
        at("disksize", "1073741824\n"),
        at("dev", "253:1\n"),
        at("comp_algorithm", "lzo-rle lzo [lz4] \n"),
        at(
            "mm_stat",
            "  409600   102400   131072  1048576   262144       12        3        5        7\n",
        ),
        at("io_stat", "       1        2 0        4\n"),
        at("debug_stat", "version: 1\n8        9\n"),
    ]
}

fn only(files: Files) -> (Zram, Vec<Problem>) {
    let mut found = glance(&HostRoot::memory(files));
    assert_eq!(found.zram.len(), 1);
    (found.zram.remove(0), found.problems)
}

fn with(text: (String, Entry)) -> Files {
    let mut files = device_files();
    files.retain(|(path, _)| *path != text.0);
    files.push(text);
    files
}

#[test]
fn nine_columns_carry_their_units() {
    let (zram, problems) = only(device_files());
    let mm = &zram.mm_stat;
    assert_eq!(mm.original.get(), Some(Bytes::new(409_600)));
    assert_eq!(mm.memory_limit.get(), Some(Bytes::new(1_048_576)));
    assert_eq!(mm.memory_used_max.get(), Some(Bytes::new(262_144)));
    assert_eq!(mm.same_filled_pages.get(), Some(Pages::new(12)));
    assert_eq!(mm.huge_pages_since.get(), Some(Pages::new(7)));
    assert_eq!(zram.original_per_compressed.unwrap().get(), 4.0);
    assert_eq!(zram.original_per_memory_used.unwrap().get(), 3.125);
    assert_eq!(zram.io_stat.notify_free.get(), Some(4));
    assert_eq!(zram.debug_stat.miss_free.get(), Some(9));
    assert_eq!(zram.algorithm.value().unwrap().active.as_str(), "lz4");
    assert_eq!(zram.algorithm.value().unwrap().available.len(), 3);
    assert!(zram.secondary.is_empty() && zram.backing_device.value().is_none());
    assert!(problems.is_empty());
}

#[test]
fn older_kernels_print_fewer_columns_and_that_is_no_problem() {
    for (text, huge) in [("1 2 3 4 5 6 7\n", None), ("1 2 3 4 5 6 7 8\n", Some(Pages::new(8)))] {
        let (zram, problems) = only(with(file("sys/block/zram1/mm_stat", text)));
        assert_eq!(zram.mm_stat.compacted_pages.get(), Some(Pages::new(7)));
        assert_eq!(zram.mm_stat.huge_pages.get(), huge);
        assert!(zram.mm_stat.huge_pages_since.value().is_none());
        assert!(problems.is_empty());
    }
}

#[test]
fn too_few_columns_are_garbled_and_nothing_is_taken_for_zero() {
    let (zram, problems) = only(with(file("sys/block/zram1/mm_stat", "1 2 3")));
    assert!(zram.mm_stat.original.value().is_none());
    assert_eq!(zram.original_per_compressed, None);
    assert_eq!(problems.len(), 1);
    let (zram, problems) =
        only(with(file("sys/block/zram1/mm_stat", "1 x 3 4 5 6 99999999999999999999999999999999")));
    assert_eq!(zram.mm_stat.original.get(), Some(Bytes::new(1)));
    assert!(zram.mm_stat.compressed.value().is_none());
    assert_eq!(problems.len(), 2);
}

#[test]
fn recompression_and_writeback_are_read_where_they_are_built_in() {
    let mut files = device_files();
    files.push(file(
        "sys/block/zram1/recomp_algorithm",
        "#1: lzo lz4 [zstd] \n#3: [deflate] lz4 \n",
    ));
    files.push(file("sys/block/zram1/backing_dev", "/dev/sda5\n"));
    files.push(file("sys/block/zram1/bd_stat", "       2        3        4\n"));
    let (zram, _) = only(files);
    let shown: Vec<_> =
        zram.secondary.iter().map(|s| (s.priority, s.algorithms.active.as_str())).collect();
    assert_eq!(shown, [(1, "zstd"), (3, "deflate")]);
    assert_eq!(zram.backing_device.value().unwrap().as_str(), "/dev/sda5");
    assert_eq!(zram.bd_stat.held.get(), Some(Bytes::new(8192)));
    assert_eq!(zram.bd_stat.writes.get(), Some(Bytes::new(16384)));
    let (zram, _) = only(with(file("sys/block/zram1/backing_dev", "none\n")));
    assert!(format!("{:?}", zram.backing_device).contains("none configured"));
}

#[test]
fn counters_of_an_unknown_version_are_not_guessed() {
    let (zram, _) = only(with(file("sys/block/zram1/debug_stat", "version: 2\n1 2\n")));
    assert_eq!(zram.debug_stat.version.get(), Some(2));
    assert!(zram.debug_stat.writestall.value().is_none());
}

#[test]
fn the_slot_table_costs_16_or_24_bytes_a_page() {
    let (zram, _) = only(device_files());
    assert_eq!(zram.slot_table.get(), Some(Bytes::new(4 << 20)));
    assert_eq!(zram.slot_table.source.path(), "/sys/block/zram1/disksize");
    let mut files = device_files();
    files.push(file("proc/config.gz", "CONFIG_ZRAM_MEMORY_TRACKING=y\n"));
    assert_eq!(only(files.clone()).0.slot_table.get(), Some(Bytes::new(6 << 20)));
    files.push(file("sys/block/zram1/compressed_writeback", "0\n"));
    assert_eq!(only(files).0.slot_table.get(), Some(Bytes::new(4 << 20)));
}

#[test]
fn without_a_configuration_the_list_of_slots_tells_that_times_are_noted() {
    let mut files = device_files();
    files.push(file("sys/kernel/debug/zram/zram1/block_state", ""));
    assert_eq!(only(files.clone()).0.slot_table.get(), Some(Bytes::new(6 << 20)));
    files.push(file("proc/config.gz", "CONFIG_ZRAM=m\n"));
    assert_eq!(only(files).0.slot_table.get(), Some(Bytes::new(4 << 20)));
}

#[test]
fn of_too_many_devices_those_in_use_are_read_and_the_number_is_told() {
    let at = |id: u32| file(format!("sys/block/zram{id}/disksize"), "0\n");
    let swaps = file("proc/swaps", "/dev/zram4000 partition 8 0 5\n");
    let host = HostRoot::memory((0..4420).map(at).chain([swaps]));
    let found = glance(&host);
    let ids: Vec<u32> = found.zram.iter().map(|zram| zram.id).collect();
    let most = limit("zram devices, and devices of zmerge, the kernel module of Pagewise");
    assert_eq!((ids.len(), ids[254], ids[255]), (most, 254, 4000));
    let told = found.problems[0].to_string();
    let text =
        "4,420 devices of zram: only the 256 that are swap or have the lowest numbers were read";
    assert_eq!(told, format!("/sys/block: {text}"));
}

#[test]
fn devices_stand_in_the_order_of_their_numbers() {
    let at = |name: &str| file(format!("sys/block/{name}/disksize"), "0\n");
    let host = HostRoot::memory(["zram10", "zram2", "zram02", "zramx", "sda"].map(at));
    let ids: Vec<u32> = glance(&host).zram.iter().map(|zram| zram.id).collect();
    assert_eq!(ids, [2, 10]);
}

fn used(files: Files) -> Reading<ZramUse> {
    only(files).0.used_as
}

#[test]
fn a_device_without_size_is_not_initialised() {
    let found = used(with(file("sys/block/zram1/initstate", "0\n")));
    assert_eq!(found.value(), Some(&ZramUse::NotInitialised));
}

#[test]
fn a_swap_tier_tells_its_priority() {
    let mut files = device_files();
    files.push(file(
        "proc/swaps",
        "Filename Type Size Used Priority\n/dev/zram1 partition 8 0 100\n",
    ));
    let found = used(files);
    assert_eq!(found.value(), Some(&ZramUse::Swap { priority: 100 }));
}

#[test]
fn a_mounted_device_tells_its_file_system() {
    let mount = "60 27 253:1 / /cache rw - ext4 /dev/disk/by-label/cache rw\n";
    let mut files = device_files();
    files.push(file("proc/self/mountinfo", mount));
    let kind = Name::from("ext4");
    assert_eq!(used(files).value(), Some(&ZramUse::FileSystem { kind }));
}

#[test]
fn a_device_below_another_is_never_read() {
    let mut files = device_files();
    files.push(file("sys/block/zram1/holders/dm-0", ""));
    files.push(file("dev/zram1", signed()));
    assert!(format!("{:?}", used(files)).contains("in use through dm-0"));
}

fn signed() -> Vec<u8> {
    [vec![0; 4086].as_slice(), b"SWAPSPACE2"].concat()
}

#[test]
fn a_swap_signature_is_found_by_udev_or_on_the_device() {
    let mut by_udev = device_files();
    by_udev.push(file("run/udev/data/b253:1", "S:x\nE:ID_FS_TYPE=swap\n"));
    let found = used(by_udev);
    assert_eq!(found.value(), Some(&ZramUse::SwapSignature));
    assert_eq!(found.source.to_string(), "/run/udev/data/b253:1:2");
    let mut by_mark = device_files();
    by_mark.push(file("dev/zram1", signed()));
    assert_eq!(used(by_mark).value(), Some(&ZramUse::SwapSignature));
    let mut other = device_files();
    other.push(file("dev/zram1", [7; 8192]));
    assert_eq!(used(other).value(), Some(&ZramUse::Nothing));
    let mut refused = device_files();
    refused.push(denied_entry("dev/zram1"));
    assert!(used(refused).is_denied());
}

#[test]
fn a_device_that_stores_nothing_is_not_asked() {
    let mut files = with(file("sys/block/zram1/mm_stat", "0 0 0 0 0 0 0 0 0\n"));
    files.push(file("dev/zram1", signed()));
    assert_eq!(used(files).value(), Some(&ZramUse::Nothing));
}

#[test]
fn a_recording_of_the_mark_holds_no_content_and_replays() {
    let mut secret = vec![b'x'; 4086];
    secret.extend(b"SWAPSPACE2");
    for (content, expected) in
        [(secret, ZramUse::SwapSignature), (vec![b'x'; 8192], ZramUse::Nothing)]
    {
        let mut files = device_files();
        files.push(file("dev/zram1", content));
        let live = HostRoot::memory(files).start_remembering();
        let first = glance(&live).zram.remove(0).used_as;
        assert_eq!(first.value(), Some(&expected));
        let stored = live.into_remembered_files();
        let Some(Entry::File(bytes)) = stored.get("dev/zram1") else { panic!("not stored") };
        assert!(!bytes.contains(&b'x'));
        assert_eq!(only(stored.into_iter().collect()).0.used_as, first);
    }
}

proptest! {
    /// No content of a device file makes the reader fail.
    #[test]
    fn any_bytes_are_survived(
        name in prop::sample::select(vec![
            "initstate", "disksize", "comp_algorithm", "recomp_algorithm", "backing_dev", "mm_stat",
            "io_stat", "bd_stat", "debug_stat", "dev",
        ]),
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            "[#0-9 \\[\\]:a-z\n]{0,80}".prop_map(String::into_bytes),
        ],
    ) {
        let _ = only(with(file(format!("sys/block/zram1/{name}"), bytes)));
    }
}
