// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zsmalloc's size classes of a zram device.
//!
//! No available kernel is built with `CONFIG_ZSMALLOC_STAT`, so no text here was read from a
//! running kernel. The lines were published by kernel developers: `NEW` in the current
//! `Documentation/mm/zsmalloc.rst`, `OLD` in the message of the patch "zram: drop max_zpage_size
//! and use zs_huge_class_size()" of 2018, with the columns that 6.1 has, and `OLDEST` in an earlier
//! version of that document, without the last column. All omit lines, so the line of totals in
//! `NEW` was computed for these three classes, in the kernel's format.

use pagewise_hostfs::{Entry, HostRoot};
use pagewise_model::{Bytes, Pages, Problem, Reading, SizeClass, SizeClasses};

use crate::glance;
use crate::testing::{denied_entry, file};

const PATH: &str = "sys/kernel/debug/zsmalloc/zram1/classes";

const NEW: &str = "\
 class  size       10%       20%       30%       40%       50%       60%       70%       80%       90%       99%      100% obj_allocated   obj_used pages_used pages_per_zspage freeable
    30   512         0        12         4         1         0         1         0         0         1         0       414          3464       3346        433                1       14
    31   528         2         7         2         2         1         0         1         0         0         2       117          4154       3793        536                4       44
    32   544         6         3         4         1         2         1         0         0         0         1       260          4170       3965        556                2       26

 Total               8        22        10         4         3         2         1         0         1         3       791         11788      11104       1525                        84
";

const OLD: &str = "\
 class  size almost_full almost_empty obj_allocated   obj_used pages_used pages_per_zspage freeable
   151  2448           0            0          1240       1240        744                3        0
   168  2720           0            0          4200       4200       2800                2        0
   190  3072           0            0         10100      10100       7575                3        0
   202  3264           0            0           380        380        304                4        0
   254  4096           0            0         10620      10620      10620                1        0

 Total                 7           46        106982     106187      48787                         0
";

const OLDEST: &str = "\
 class  size almost_full almost_empty obj_allocated   obj_used pages_used pages_per_zspage
     9   176           0            1           186        129          8                4
    10   192           1            0          2880       2872        135                3
";

fn read(classes: (String, Entry)) -> (Reading<SizeClasses>, Vec<Problem>) {
    let initialised = file("sys/block/zram1/initstate", "1\n");
    let mut found = glance(&HostRoot::memory(vec![initialised, classes]));
    assert_eq!(found.zram.len(), 1);
    (found.zram.remove(0).size_classes, found.problems)
}

fn understood(text: &str) -> SizeClasses {
    let (reading, problems) = read(file(PATH, text));
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(reading.source.to_string(), format!("/{PATH}"));
    reading.value().expect("size classes").clone()
}

#[test]
fn columns_of_how_full_zspages_are_do_not_matter() {
    let new = understood(NEW);
    let first = SizeClass {
        class: 30,
        object_size: Bytes::new(512),
        objects_allocated: 3464,
        objects_used: 3346,
        pages_used: Pages::new(433),
        pages_per_zspage: 1,
    };
    assert_eq!(new.classes()[0], first);
    assert_eq!(new.classes().len(), 3, "the line of sums is no class");
    let old = understood(OLD);
    assert_eq!(old.classes().len(), 5);
    assert_eq!(old.classes()[3].pages_per_zspage, 4);
    let oldest = understood(OLDEST);
    assert_eq!(oldest.classes()[1].objects_used, 2872);
}

#[test]
fn sums_are_those_of_the_lines() {
    let page = Bytes::new(4096);
    let new = understood(NEW);
    assert_eq!(new.sum(page).memory, Bytes::new(1525 * 4096));
    assert_eq!(new.sum(page).objects, 11_104);
    assert_eq!(new.sum(page).unused, Bytes::new(118 * 512 + 361 * 528 + 205 * 544));
    let last = *understood(OLD).bands(page).last().unwrap();
    assert_eq!((last.up_to, last.objects), (page, 10_620), "pages that would not compress");
}

#[test]
fn an_empty_device_has_no_class_and_that_is_no_absence() {
    let (head, _) = OLD.split_once('\n').unwrap();
    let empty = understood(&format!("{head}\n 0 32 0 0 0 0 0 1 0\n\n Total 0 0 0 0 0 0\n"));
    assert!(empty.classes().is_empty());
}

#[test]
fn what_is_not_there_or_refused_is_not_zero() {
    let (reading, _) = read(denied_entry(PATH));
    assert!(reading.is_denied(), "{reading:?}");
    let (reading, problems) = read(file("sys/block/zram1/dev", "253:1\n"));
    assert!(reading.value().is_none() && problems.is_empty(), "{reading:?}");
    assert!(format!("{reading:?}").contains("CONFIG_ZSMALLOC_STAT"), "{reading:?}");
}

#[test]
fn a_line_that_is_cut_or_garbled_is_a_problem_and_the_others_stay() {
    let cut = &OLD[..OLD.find("   202").unwrap() + 30];
    let (reading, problems) = read(file(PATH, cut));
    assert_eq!(reading.value().unwrap().classes().len(), 3);
    assert_eq!(problems.len(), 1);
    let (reading, problems) = read(file(PATH, OLD.replace("obj_used", "objects")));
    assert!(reading.value().is_none() && problems.len() == 1);
    let (reading, problems) = read(file(PATH, ""));
    assert!(reading.value().is_none() && problems.len() == 1);
}
