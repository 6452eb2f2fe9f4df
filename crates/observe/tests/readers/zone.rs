// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Zones and their free blocks.

use pagewise_model::{Pages, Reading, Source, Zone};
use proptest::prelude::*;

use crate::testing::{host, mangle};
use crate::{glance, limit};

/// From Linux 6.18; some statistics and CPUs are removed.
const ZONEINFO: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 2619
      nr_active_anon 392
      nr_inactive_file 96675
      nr_active_file 69145
      nr_unevictable 5070
      nr_mapped    2703
      nr_kernel_file_pages 0
  pages free     3840
        boost    0
        min      26
        low      32
        high     38
        promo    44
        spanned  4095
        present  3998
        managed  3840
        cma      0
        protection: (0, 3019, 9419, 9419, 9419)
      nr_free_pages 3840
      nr_free_pages_blocks 3584
      nr_zone_inactive_anon 0
      nr_zone_active_anon 0
      nr_zone_inactive_file 0
      nr_zone_active_file 0
      nr_zone_unevictable 0
      nr_free_cma  0
      numa_hit     0
  pagesets
    cpu: 0
              count:    0
              high:     0
              batch:    1
              high_min: 16
              high_max: 240
  vm stats threshold: 4
  node_unreclaimable:  0
  start_pfn:           1
Node 0, zone   Normal
  pages free     912355
        boost    0
        min      11461
        low      14326
        high     17191
        promo    20056
        spanned  5505024
        present  5505024
        managed  1638400
        cma      0
        protection: (0, 0, 0, 0, 0)
      nr_free_pages 912355
      nr_zone_inactive_anon 3356
      nr_zone_active_anon 392
      nr_zone_inactive_file 308310
      nr_zone_active_file 305743
      nr_zone_unevictable 5300
      numa_hit     20910799
  pagesets
    cpu: 0
              count:    7094
              high:     7226
              batch:    63
              high_min: 7163
              high_max: 102400
  vm stats threshold: 28
  node_unreclaimable:  0
  start_pfn:           1048576
Node 0, zone  Movable
  pages free     0
        boost    0
        min      32
        low      32
        high     32
        promo    32
        spanned  0
        present  0
        managed  0
        cma      0
        protection: (0, 0, 0, 0, 0)
";

const BUDDYINFO: &str = "\
Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3 
Node 0, zone    DMA32      1      2      4      2      5      4      3      3      4      2    752 
Node 0, zone   Normal  12616   8822   5755   2878    983    390    153     52      9      8   1218 
";

fn zones(text: &str) -> Vec<Zone> {
    glance(&host([("proc/zoneinfo", text)])).zones
}

fn at(pages: u64, line: u32) -> Reading<Pages> {
    Reading::found(Pages::new(pages), Source::line("/proc/zoneinfo", line))
}

/// The value of each line of a zone.
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

#[test]
fn each_zone_has_its_own_watermarks_and_lists() {
    let zones = zones(ZONEINFO);
    let names: Vec<&str> = zones.iter().map(|zone| zone.name.as_str()).collect();
    assert_eq!(names, ["DMA", "Normal", "Movable"]);
    let normal = &zones[1];
    assert_eq!(normal.free_pages, at(912_355, 41));
    assert_eq!(normal.high_pages, at(17_191, 45));
    assert_eq!(normal.managed_pages, at(1_638_400, 49));
    assert_eq!(normal.active_file_pages, at(305_743, 56));
}

#[test]
fn statistics_of_the_node_and_of_the_cpus_are_not_the_zones() {
    let dma = &zones(ZONEINFO)[0];
    assert_eq!(dma.inactive_anon_pages, at(0, 23));
    assert_eq!(dma.high_pages, at(38, 14));
    assert_eq!(dma.spanned_pages, at(4095, 16));
    let expected = [0, 3019, 9419, 9419, 9419].map(Pages::new).to_vec();
    assert_eq!(dma.lowmem_reserve_pages.value(), Some(&expected));
    assert_eq!(dma.lowmem_reserve_pages.source.line_number(), Some(20));
}

#[test]
fn a_zone_without_pages_has_no_lists() {
    let movable = &zones(ZONEINFO)[2];
    assert_eq!(movable.managed_pages, at(0, 78));
    assert_eq!(movable.active_anon_pages.get(), None);
    assert_eq!(movable.active_anon_pages.source, Source::file("/proc/zoneinfo"));
}

#[test]
fn every_number_stands_on_the_line_that_it_names() {
    let mut seen = 0;
    for mut zone in zones(ZONEINFO) {
        for (name, field) in fields(&mut zone) {
            let Some(pages) = field.get() else { continue };
            let line = usize::try_from(field.source.line_number().unwrap()).unwrap();
            let mut words = ZONEINFO.lines().nth(line - 1).unwrap().split_whitespace().rev();
            assert_eq!(words.next(), Some(pages.get().to_string().as_str()));
            assert_eq!(words.next(), Some(name));
            seen += 1;
        }
    }
    assert_eq!(seen, 12 + 12 + 8);
}

#[test]
fn lines_under_a_garbled_heading_belong_to_no_zone() {
    let text =
        "Node 0, zone DMA\n  pages free 1\nNode ?, zone DMA32\n  pages free 2\n  pages free 3 4\n";
    let host = host([("proc/zoneinfo", text)]);
    let found = glance(&host);
    assert_eq!(found.zones.len(), 1);
    assert_eq!(found.zones[0].free_pages, at(1, 2));
    assert_eq!(found.problems.len(), 1);
}

#[test]
fn numbers_that_do_not_fit_are_absent_and_named() {
    let text =
        "Node 0, zone DMA\n min 99999999999999999999999999999999\n protection: (0, x)\n low 3\n";
    let host = host([("proc/zoneinfo", text)]);
    let mut found = glance(&host);
    let zone = found.zones.remove(0);
    assert_eq!((zone.min_pages.get(), zone.low_pages.get()), (None, Some(Pages::new(3))));
    assert_eq!(zone.lowmem_reserve_pages.value(), None);
    let lines: Vec<_> = found.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [Some(2), Some(3)]);
}

#[test]
fn free_blocks_stand_by_order() {
    let free = glance(&host([("proc/buddyinfo", BUDDYINFO)])).free_blocks;
    assert_eq!(free.len(), 3);
    assert_eq!((free[2].node, free[2].zone.as_str()), (0, "Normal"));
    let blocks = free[2].blocks.value().unwrap();
    assert_eq!((blocks.len(), blocks[0], blocks[10]), (11, 12_616, 1218));
    assert_eq!(free[2].blocks.source, Source::line("/proc/buddyinfo", 3));
    assert_eq!(free[2].unusable_free_index.len(), 11);
}

#[test]
fn garbled_counts_leave_the_zone_without_blocks() {
    let host = host([("proc/buddyinfo", "Node 1, zone Normal 1 -2\nNode 1, zone DMA\nmumble\n")]);
    let found = glance(&host);
    assert_eq!(found.free_blocks.len(), 2);
    assert!(found.free_blocks.iter().all(|zone| zone.blocks.value().is_none()));
    assert_eq!(found.problems.len(), 3);
}

#[test]
fn a_file_of_headings_stays_small() {
    let host = host([("proc/zoneinfo", "Node 0, zone X\n".repeat(50_000))]);
    let found = glance(&host);
    assert_eq!(found.zones.len(), limit("zones"));
    assert_eq!(found.problems.len(), 1);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(info in mangle(ZONEINFO), buddy in mangle(BUDDYINFO)) {
        let host = host([("proc/zoneinfo", info), ("proc/buddyinfo", buddy)]);
        glance(&host);
    }

    /// In a damaged file, every value that is still read is present in the text.
    #[test]
    fn no_number_is_invented(bytes in mangle(ZONEINFO)) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for mut zone in glance(&host([("proc/zoneinfo", &bytes)])).zones {
            for (_, field) in fields(&mut zone) {
                let number = field.get().map(|pages| pages.get().to_string());
                prop_assert!(number.is_none_or(|number| text.contains(&number)));
            }
        }
    }
}
