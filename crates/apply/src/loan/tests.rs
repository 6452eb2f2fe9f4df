// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is refused, and what is left unchanged, on a simulated machine.

use std::path::Path;

use pagewise_model::Bytes;
use pagewise_model::lend::{GroupSpec, KnobSetting, ZramSpec, ZramWriteback, ZswapSpec};

use crate::error::Error;
use crate::fake::{DISK, Fake, Fault, MOUNT, PID, STATE, ZSWAP};
use crate::host_ops::GroupCharge;
use crate::journal::{EnabledSwap, Record, RecordedChange};
use crate::recover::{Conflicts, forget_one, recover_all};
use crate::session::Session;
use pagewise_model::undo::Outcome;

const SIZE: Bytes = Bytes::new(1 << 20);

fn session(fake: &Fake) -> Session {
    Session::new(Box::new(fake.clone()), STATE)
}

fn kill(fake: &Fake, session: Session) {
    fake.world().is_dead = true;
    drop(session);
    fake.revive();
}

fn recover(fake: &Fake) -> Vec<Outcome> {
    let runs = recover_all(&mut fake.clone(), STATE, Conflicts::Keep).unwrap();
    runs.into_iter().flat_map(|run| run.returns).map(|it| it.outcome).collect()
}

#[test]
fn swap_is_refused_beside_the_hosts_own_unless_it_is_allowed() {
    let fake = Fake::new(false, true);
    fake.world().state.swaps.insert("/dev/vdb".to_owned());
    let mut session = session(&fake);
    let device = session.zram(&ZramSpec::new(SIZE)).unwrap().device;
    let refused = session.swap_on(&device, None).unwrap_err();
    assert_eq!(refused.to_string(), "the host's own swap is on: /dev/vdb");
    session.allow_shared_swap();
    session.swap_on(&device, None).unwrap();
    let more = session.zram(&ZramSpec::new(SIZE)).unwrap().device;
    session.swap_on(&more, None).unwrap();
}

#[test]
fn swap_is_switched_on_only_where_it_is_ours() {
    let fake = Fake::new(false, true);
    let refused = session(&fake).swap_on(Path::new("/dev/zram0"), None).unwrap_err();
    assert!(matches!(refused, Error::NotOurs(area) if area == "/dev/zram0"));
}

#[test]
fn a_device_of_the_machine_is_swapped_to_only_where_that_is_allowed() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    let disk = Path::new("/dev/vdb");
    assert!(
        matches!(session.swap_device(disk, None), Err(Error::NotOurs(area)) if area == "/dev/vdb")
    );
    session.allow_devices();
    let refused = session.swap_device(Path::new("/dev/vdc"), None).unwrap_err();
    assert_eq!(refused.to_string(), "/dev/vdc: it is no block device");
    assert!(fake.world().state.swaps.is_empty());
}

fn with_writeback() -> ZramSpec {
    let writeback = ZramWriteback { device: "/dev/vda".to_owned(), every_seconds: 3600 };
    ZramSpec { writeback: Some(writeback), ..ZramSpec::new(SIZE) }
}

#[test]
fn a_disk_behind_zram_is_lent_only_where_that_is_allowed() {
    let fake = Fake::new(false, true);
    let before = fake.world().state.clone();
    let mut session = session(&fake);
    assert!(matches!(session.zram(&with_writeback()), Err(Error::NotOurs(_))));
    session.allow_devices();
    fake.world().state.swaps.insert("/dev/vda".to_owned());
    assert!(matches!(session.zram(&with_writeback()), Err(Error::IsOn(_))));
    fake.world().state.swaps.clear();
    let lent = session.zram(&with_writeback()).unwrap();
    assert_eq!(fake.world().state.zrams[&lent.number].backing.as_deref(), Some("/dev/vda"));
    assert_eq!(session.give_back(lent.loan).unwrap(), Outcome::Returned);
    assert_eq!(fake.world().state, before);
}

/// If the kernel refuses the size, the device has its backing disk but no size.
#[test]
fn the_disk_of_a_device_that_never_got_a_size_is_free_again() {
    for is_killed in [false, true] {
        let fake = Fake::new(false, true);
        let before = fake.world().state.clone();
        let mut session = session(&fake);
        session.allow_devices();
        // two lines of the journal in a new file, hot_add, the record of its number, backing_dev,
        // and then disksize
        let fault = if is_killed { Fault::KillBefore(6) } else { Fault::Fail(6) };
        fake.world().faults = vec![fault];
        session.zram(&with_writeback()).unwrap_err();
        if is_killed {
            assert!(fake.world().state.zrams[&1].backing.is_some());
            drop(session);
            fake.revive();
            assert_eq!(recover(&fake), [Outcome::Returned]);
        }
        assert_eq!(fake.world().state, before);
    }
}

#[test]
fn swap_is_switched_on_once() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    let device = session.zram(&ZramSpec::new(SIZE)).unwrap().device;
    session.swap_on(&device, None).unwrap();
    assert!(matches!(session.swap_on(&device, None), Err(Error::IsOn(_))));
    assert_eq!(fake.world().state.swaps.len(), 1);
}

/// A cgroup at its limit swapped to our area, and there is no other swap: disabling it would kill
/// processes of the cgroup.
#[test]
fn swap_to_which_a_cgroup_at_its_limit_swapped_stays_on() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    let device = session.zram(&ZramSpec::new(SIZE)).unwrap().device;
    session.swap_on(&device, None).unwrap();
    let bytes = |bytes: u64| Some(Bytes::new(bytes));
    fake.world().groups = vec![GroupCharge {
        path: "/system.slice/db.service".to_owned(),
        current: Bytes::new(8192),
        swap: Bytes::new(4096),
        max: bytes(8192),
        swap_max: None,
        swappiness: Some(60),
    }];
    kill(&fake, session);
    let left = recover(&fake);
    let [Outcome::Left { why, next }, ..] = &left[..] else { panic!("{left:?}") };
    assert!(why.contains("the cgroup /system.slice/db.service has") && next.is_some(), "{why}");
    assert_eq!(fake.world().state.swaps.len(), 1);
    fake.world().groups[0].max = bytes(12288);
    assert!(recover(&fake).iter().all(|it| *it == Outcome::Returned));
    assert!(fake.world().state.swaps.is_empty());
}

fn zswap(fake: &Fake, name: &str) -> String {
    fake.world().state.knobs[&format!("{ZSWAP}/{name}")].clone()
}

#[test]
fn zswap_is_set_up_and_goes_back_behind_its_swap() {
    let fake = Fake::new(false, true);
    let before = fake.world().state.clone();
    let mut session = session(&fake);
    let spec = ZswapSpec {
        max_pool_percent: Some(15),
        accept_threshold_percent: Some(80),
        shrinker: true,
        ..ZswapSpec::new("lz4")
    };
    assert_eq!(session.zswap(&spec).unwrap().len(), 5);
    for (name, value) in [
        ("enabled", "Y"),
        ("compressor", "lz4"),
        ("max_pool_percent", "15"),
        ("accept_threshold_percent", "80"),
        ("shrinker_enabled", "Y"),
    ] {
        assert_eq!(zswap(&fake, name), value, "{name}");
    }
    let file = session.swap_file(Path::new(DISK), Bytes::new(4096)).unwrap();
    session.swap_on(&file.path, None).unwrap();
    let returned: Vec<String> = session.end().into_iter().map(|it| it.what).collect();
    assert!(
        returned[0].contains("swap on") && returned[2].contains("zswap.enabled"),
        "{returned:?}"
    );
    assert_eq!(fake.world().state, before);
}

/// Before zswap was first enabled the kernel accepts any compressor name; later it refuses an
/// unknown one at once. In both cases nothing remains.
#[test]
fn zswap_without_its_compressor_is_refused_and_nothing_stays() {
    let fake = Fake::new(false, true);
    let before = fake.world().state.clone();
    let mut session = session(&fake);
    for _ in 0..2 {
        let refused = session.zswap(&ZswapSpec::new("none")).unwrap_err();
        assert_eq!(refused.to_string(), "zswap.compressor = none");
        assert_eq!(fake.world().state, before);
    }
    session.zswap(&ZswapSpec::new("lz4")).unwrap();
}

#[test]
fn zswap_is_refused_beside_the_hosts_own_swap_or_where_the_kernel_lacks_it() {
    let fake = Fake::new(false, true);
    fake.world().state.swaps.insert("/dev/vdb".to_owned());
    let mut session = session(&fake);
    let refused = session.zswap(&ZswapSpec::new("lz4")).unwrap_err();
    assert_eq!(refused.to_string(), "the host's own swap is on: /dev/vdb");
    session.allow_shared_swap();
    fake.world().state.knobs.remove(&format!("{ZSWAP}/shrinker_enabled"));
    let with_shrinker = ZswapSpec { shrinker: true, ..ZswapSpec::new("lz4") };
    let refused = session.zswap(&with_shrinker).unwrap_err();
    assert!(refused.to_string().contains("has no shrinker"), "{refused}");
    assert_eq!(session.zswap(&ZswapSpec::new("lz4")).unwrap().len(), 2, "kernels without it");
    fake.world().state.knobs.retain(|path, _| !path.starts_with(ZSWAP));
    let refused = session.zswap(&ZswapSpec::new("lz4")).unwrap_err();
    assert!(refused.to_string().contains("CONFIG_ZSWAP"), "{refused}");
}

/// No process is killed to make room: the area stays enabled, and so does the device below it.
#[test]
fn swap_that_has_no_room_in_memory_stays_and_is_named() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    let zram = session.zram(&ZramSpec::new(SIZE)).unwrap();
    session.swap_on(&zram.device, None).unwrap();
    fake.world().available = 4095;
    let refused = session.give_back(zram.loan).unwrap_err();
    let expected = "/dev/zram1: 4.0 KiB of it are in use and 4.0 KiB of memory are available";
    assert_eq!(refused.to_string(), expected);
    kill(&fake, session);
    let outcomes = recover(&fake);
    assert!(matches!(&outcomes[..], [Outcome::Left { next: Some(_), .. }, Outcome::Left { .. }]));
    fake.world().available = 1 << 20;
    assert_eq!(recover(&fake), [Outcome::Returned, Outcome::Returned]);
}

#[test]
fn a_device_that_took_the_number_of_ours_is_left_alone() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    let number = session.zram(&ZramSpec::new(SIZE)).unwrap().number;
    let mut world = fake.world();
    world.state.zrams.remove(&number);
    assert_eq!(world.add_zram().unwrap(), number);
    drop(world);
    assert_eq!(session.end()[0].outcome, Outcome::Gone);
    assert!(fake.world().state.zrams.contains_key(&number));
}

/// The run was killed after creating the device and before recording its number; somebody else
/// created one too.
#[test]
fn a_device_that_was_never_announced_is_told_from_others() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    // journal created, began, taking: the next write creates the device
    fake.world().faults = vec![Fault::KillAfter(3)];
    session.zram(&ZramSpec::new(SIZE)).unwrap_err();
    drop(session);
    fake.revive();
    let mut world = fake.world();
    assert_eq!(world.state.zrams.len(), 2);
    world.clock += 60_000;
    let theirs = world.add_zram().unwrap();
    drop(world);
    assert_eq!(recover(&fake), [Outcome::Returned]);
    let left: Vec<u32> = fake.world().state.zrams.keys().copied().collect();
    assert_eq!(left, [0, theirs]);
}

#[test]
fn the_module_is_unloaded_unless_somebody_uses_it() {
    let fake = Fake::new(false, false);
    let mut alone = session(&fake);
    alone.zram(&ZramSpec::new(SIZE)).unwrap();
    assert!(fake.world().state.is_loaded);
    drop(alone);
    assert!(!fake.world().state.is_loaded);

    let mut shared = session(&fake);
    shared.zram(&ZramSpec::new(SIZE)).unwrap();
    fake.world().add_zram().unwrap();
    let outcomes: Vec<Outcome> = shared.end().into_iter().map(|it| it.outcome).collect();
    assert!(matches!(&outcomes[..], [Outcome::Returned, Outcome::Kept { .. }]), "{outcomes:?}");
    assert!(fake.world().journals.is_empty());
}

#[test]
fn whoever_is_in_our_group_is_killed_and_we_go_home() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    let group = session.group(&GroupSpec { max: Some(SIZE), ..GroupSpec::default() }).unwrap();
    let folder = group.folder.display().to_string();
    fake.world().state.groups.get_mut(&folder).unwrap().members.extend([9, PID]);
    assert_eq!(session.end()[0].outcome, Outcome::Returned);
    let groups = fake.world().state.groups.clone();
    let home = groups.get(&format!("{MOUNT}/system")).unwrap();
    assert_eq!((groups.len(), home.members.iter().collect::<Vec<_>>()), (1, vec![&PID]));
}

#[test]
fn memory_is_handed_down_for_as_long_as_nobody_else_needs_it() {
    let wish = GroupSpec { max: Some(SIZE), ..GroupSpec::default() };
    let fake = Fake::new(true, true);
    let mut alone = session(&fake);
    alone.group(&wish).unwrap();
    assert!(fake.world().state.hands_down);
    drop(alone);
    assert!(!fake.world().state.hands_down);

    let mut shared = session(&fake);
    shared.group(&wish).unwrap();
    let limit = ("memory.max".to_owned(), "4096".to_owned());
    let system = format!("{MOUNT}/system");
    fake.world().state.groups.get_mut(&system).unwrap().limits.extend([limit]);
    drop(shared);
    assert!(fake.world().state.hands_down);
}

#[test]
fn limits_that_the_hierarchy_lacks_are_refused_by_name() {
    let refused = |unified, wish: GroupSpec| {
        let fake = Fake::new(unified, true);
        let refused = session(&fake).group(&wish).unwrap_err().to_string();
        assert_eq!(fake.world().state.groups.len(), 1);
        refused
    };
    let swappiness = GroupSpec { swappiness: Some(1), ..GroupSpec::default() };
    assert_eq!(refused(true, swappiness), "memory.swappiness: cgroup v2 has none");
    let high = GroupSpec { high: Some(SIZE), ..GroupSpec::default() };
    assert_eq!(refused(false, high), "memory.high: cgroup v1 has none");
    let swap = GroupSpec { swap_max: Some(SIZE), ..GroupSpec::default() };
    assert!(refused(false, swap).contains("only beside one on memory"));
    assert!(refused(true, swap).contains("this kernel has no such limit"));
}

#[test]
fn sizes_become_whole_pages_and_nothing_else() {
    let taken = |wrote, found| super::run::check_stored("it", wrote, found).is_ok();
    assert!(taken(8192, "8192") && taken(10_000, "8192") && taken(10_000, "12288"));
    assert!(taken(60, "60") && !taken(60, "59"));
    assert!(taken(0, "0") && !taken(1 << 20, "0") && !taken(1 << 20, "max"));
}

#[test]
fn a_file_that_does_not_fit_is_not_begun() {
    let fake = Fake::new(false, true);
    let refused = session(&fake).swap_file(Path::new(DISK), Bytes::new(1 << 30)).unwrap_err();
    assert!(matches!(refused, Error::NoSpace { .. }), "{refused}");
    assert!(fake.world().journals.is_empty());
}

/// After a power cut the file system of the swap file may be mounted after we start.
#[test]
fn a_file_on_a_disk_that_is_not_mounted_is_not_taken_for_gone() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    session.swap_file(Path::new(DISK), SIZE).unwrap();
    kill(&fake, session);
    let files = {
        let mut world = fake.world();
        let at_boot = world.state.clone();
        world.boot(&at_boot);
        world.inode = 99;
        std::mem::take(&mut world.state.files)
    };
    assert!(matches!(&recover(&fake)[..], [Outcome::Left { why, .. }] if why.contains("mounted")));
    fake.world().state.files = files;
    fake.world().inode = 2;
    assert_eq!(recover(&fake), [Outcome::Returned]);
    assert!(fake.world().state.files.is_empty());
}

/// If the kernel rounds a value, a later value of somebody else could not be recognised: it is not
/// lent.
#[test]
fn a_value_that_becomes_another_is_taken_back() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    let refused = session.knob(&KnobSetting::new("vm.min_free_kbytes", "4099")).unwrap_err();
    let expected = "vm.min_free_kbytes: wrote \"4099\", found \"4096\" after it";
    assert_eq!(refused.to_string(), expected);
    assert_eq!(fake.world().state.knobs["/proc/sys/vm/min_free_kbytes"], "8192");
    assert!(session.end().is_empty());
}

/// A loan that was returned early is not returned again at the end.
#[test]
fn a_loan_goes_back_once() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    let first = session.knob(&KnobSetting::new("vm.swappiness", "10")).unwrap();
    let second = session.knob(&KnobSetting::new("vm.swappiness", "20")).unwrap();
    assert_eq!(session.give_back(first).unwrap(), Outcome::Returned);
    assert!(matches!(session.give_back(second), Err(Error::NotOpen(2))));
    assert_eq!(fake.world().state.knobs["/proc/sys/vm/swappiness"], "60");
}

/// The records that values were restored are lost; nobody else changed them.
#[test]
fn notes_that_were_lost_are_no_conflict() {
    // after the write that restores 10 comes its record, which fails and is cut off; the same for
    // 60
    for (lost, expected) in [(&[1][..], 0), (&[3], 1), (&[1, 4], 2)] {
        let fake = Fake::new(false, true);
        let mut session = session(&fake);
        let first = session.knob(&KnobSetting::new("vm.swappiness", "10")).unwrap();
        session.knob(&KnobSetting::new("vm.swappiness", "20")).unwrap();
        let next = fake.world().deeds;
        fake.world().faults = lost.iter().map(|at| Fault::Fail(next + at)).collect();
        session.give_back(first).unwrap();
        kill(&fake, session);
        assert_eq!(recover(&fake), vec![Outcome::Gone; expected], "{lost:?}");
        assert_eq!(fake.world().state.knobs["/proc/sys/vm/swappiness"], "60");
        assert!(fake.world().journals.is_empty());
    }
}

/// A value that somebody else set between two of our loans is not ours to restore.
#[test]
fn what_was_set_between_two_loans_is_a_conflict() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    session.knob(&KnobSetting::new("vm.swappiness", "10")).unwrap();
    let swappiness = "/proc/sys/vm/swappiness".to_owned();
    fake.world().state.knobs.insert(swappiness.clone(), "77".to_owned());
    session.knob(&KnobSetting::new("vm.swappiness", "20")).unwrap();
    kill(&fake, session);
    let outcomes = recover(&fake);
    let [Outcome::Returned, Outcome::Conflict { found, .. }] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!((found.as_str(), fake.world().state.knobs[&swappiness].as_str()), ("77", "77"));
}

#[test]
fn a_damaged_journal_gives_back_what_it_still_says_and_stays() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    session.knob(&KnobSetting::new("vm.swappiness", "10")).unwrap();
    session.knob(&KnobSetting::new("vm.page-cluster", "0")).unwrap();
    kill(&fake, session);
    let journal = fake.world().journals.keys().next().unwrap().clone();
    let mut lines: Vec<Vec<u8>> = {
        let world = fake.world();
        world.journals[&journal]
            .split_inclusive(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect()
    };
    lines[2] = b"{\"record\":nonsense\n".to_vec();
    fake.world().journals.insert(journal.clone(), lines.concat());
    let runs = recover_all(&mut fake.clone(), STATE, Conflicts::Close).unwrap();
    assert_eq!(runs[0].damaged_line, Some(3));
    assert_eq!(runs[0].returns.len(), 2);
    assert_eq!(fake.world().state.knobs["/proc/sys/vm/swappiness"], "60");
    assert!(fake.world().journals.contains_key(&journal));
}

/// Such a word is not a setting: the journal does not change, and other values of the knob are
/// refused.
#[test]
fn a_word_that_makes_the_kernel_tell_is_none_that_sets() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    let state = "/sys/kernel/mm/damon/admin/kdamonds/0/state".to_owned();
    fake.world().state.knobs.insert(state.clone(), "off".to_owned());
    let thread = session.knob(&KnobSetting::of_instance("damon.kdamond.state", "0", "on")).unwrap();
    let before = fake.world().journals.clone();
    for word in ["off", "update_all", "\noff"] {
        assert!(session.trigger(thread, word).is_err(), "{word}");
    }
    assert_eq!(fake.world().state.knobs[&state], "on");
    session.trigger(thread, "update_schemes_tried_regions").unwrap();
    assert_eq!(fake.world().lines, ["update_schemes_tried_regions"]);
    assert_eq!(fake.world().journals, before);
}

/// Bytes that an early version wrote: its journals contain the boot id only in their first line,
/// and no identities.
#[test]
fn what_an_early_version_borrowed_is_put_back() {
    const EARLY: &[u8] = include_bytes!("../journal/early.journal");
    let fake = Fake::new(true, false);
    let before = fake.world().state.clone();
    let mut session = session(&fake);
    let zram = session.zram(&ZramSpec::new(SIZE)).unwrap();
    session.swap_on(&zram.device, None).unwrap();
    let file = session.swap_file(Path::new(DISK), SIZE).unwrap().path;
    session.swap_on(&file, Some(3)).unwrap();
    let group = session.group(&GroupSpec { max: Some(SIZE), ..GroupSpec::default() }).unwrap();
    session.knob(&KnobSetting::new("vm.swappiness", "10")).unwrap();
    session.knob(&KnobSetting::new("vm.dirty_bytes", "8192")).unwrap();
    kill(&fake, session);
    let group = group.folder.display().to_string();
    fake.world().state.groups.get_mut(&group).unwrap().members.insert(9);
    assert_ne!(fake.world().state, before);
    fake.world().journals = [(format!("{STATE}/00000001.journal"), EARLY.to_vec())].into();
    assert_eq!(recover(&fake), vec![Outcome::Returned; 9]);
    assert_eq!(fake.world().state, before);
    assert!(fake.world().journals.is_empty());
}

/// Without its first line, an early journal does not say of which boot it is: the administrator's
/// value stays.
#[test]
fn without_its_first_line_an_early_journal_writes_nothing() {
    const EARLY: &[u8] = include_bytes!("../journal/early.journal");
    let fake = Fake::new(true, true);
    let mut damaged = EARLY.to_vec();
    damaged[30] ^= 1;
    fake.world().journals = [(format!("{STATE}/00000001.journal"), damaged)].into();
    let swappiness = "/proc/sys/vm/swappiness".to_owned();
    fake.world().state.knobs.insert(swappiness.clone(), "10".to_owned());
    let before = fake.world().state.clone();
    let outcomes = recover(&fake);
    let left = outcomes.iter().filter(|it| matches!(it, Outcome::Left { .. }));
    assert_eq!((left.count(), outcomes.len()), (9, 9), "the file waits for swap on it");
    assert!(outcomes[0] != Outcome::Gone && format!("{:?}", outcomes[0]).contains("which boot"));
    assert_eq!(fake.world().state, before);
    assert_eq!(fake.world().journals.len(), 1);
}

/// Two devices were created at the same time, and one of them may belong to somebody else.
#[test]
fn a_device_without_a_number_is_left_where_another_may_be_it() {
    for tells_times in [true, false] {
        let fake = Fake::new(false, true);
        let mut session = session(&fake);
        fake.world().faults = vec![Fault::KillAfter(3)];
        session.zram(&ZramSpec::new(SIZE)).unwrap_err();
        drop(session);
        fake.revive();
        fake.world().tells_times = tells_times;
        if tells_times {
            fake.world().add_zram().unwrap();
        }
        let devices = fake.world().state.zrams.clone();
        let outcomes = recover(&fake);
        assert!(
            matches!(&outcomes[..], [Outcome::Left { why, .. }] if why.contains("zram1 may be")),
            "{outcomes:?}"
        );
        assert_eq!(fake.world().state.zrams, devices);
        let forgotten = forget_one(&mut fake.clone(), STATE, "1").unwrap();
        assert!(!forgotten.is_settled() && fake.world().journals.is_empty());
        let kept = forgotten.set_aside.expect("it is kept");
        assert!(!fake.world().set_aside[&kept].is_empty(), "{kept}");
    }
}

/// The run was killed before it created a device; an hour later somebody else created one and has
/// not set it up yet.
#[test]
fn a_later_device_without_a_size_is_somebody_elses() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    fake.world().faults = vec![Fault::KillAfter(2)];
    session.zram(&ZramSpec::new(SIZE)).unwrap_err();
    drop(session);
    fake.revive();
    fake.world().clock += 3_600_000;
    let theirs = fake.world().add_zram().unwrap();
    assert_eq!(recover(&fake), [Outcome::Gone]);
    assert!(fake.world().state.zrams.contains_key(&theirs));
    assert!(fake.world().journals.is_empty());
}

/// The record of its number is the damaged line: the device must not be taken for removed.
#[test]
fn a_device_whose_number_is_damaged_is_not_gone() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    session.zram(&ZramSpec::new(SIZE)).unwrap();
    kill(&fake, session);
    let path = fake.world().journals.keys().next().unwrap().clone();
    let mut bytes = fake.world().journals[&path].clone();
    let at = bytes.windows(6).position(|it| it == b"\"made\"").unwrap();
    bytes[at] ^= 1;
    fake.world().journals.insert(path, bytes);
    let outcomes = recover(&fake);
    assert!(
        matches!(&outcomes[..], [Outcome::Left { why, .. }] if why.contains("damaged one")),
        "{outcomes:?}"
    );
}

/// If something else has the name now, the object of the run no longer exists and there is nothing
/// to remove.
#[test]
fn a_group_or_file_that_took_the_name_of_ours_stays() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    let group = session.group(&GroupSpec { max: Some(SIZE), ..GroupSpec::default() }).unwrap();
    let file = session.swap_file(Path::new(DISK), SIZE).unwrap().path;
    kill(&fake, session);
    for path in [group.folder, file] {
        fake.world().new_inode(&path.display().to_string());
    }
    let before = fake.world().state.clone();
    let outcomes = recover(&fake);
    let left = outcomes
        .iter()
        .filter(|it| matches!(it, Outcome::Left { why, .. } if why.contains("not the")));
    assert_eq!((left.count(), outcomes.len()), (2, 2), "{outcomes:?}");
    assert_eq!(fake.world().state, before);
}

/// A forged line cannot make us disable the machine's own swap.
#[test]
fn swap_that_no_run_made_stays_on() {
    let fake = Fake::new(false, true);
    let mut session = session(&fake);
    session.knob(&KnobSetting::new("vm.swappiness", "10")).unwrap();
    kill(&fake, session);
    let path = fake.world().journals.keys().next().unwrap().clone();
    let what = RecordedChange::SwapOn(EnabledSwap {
        area: "/dev/vdb".to_owned(),
        diskseq: None,
        zram: None,
    });
    fake.world().state.swaps.insert("/dev/vdb".to_owned());
    let line = Record::Announced { id: 2, what }.to_line();
    fake.world().journals.get_mut(&path).unwrap().extend(line);
    let outcomes = recover(&fake);
    assert!(matches!(&outcomes[..], [Outcome::Left { .. }, Outcome::Returned]), "{outcomes:?}");
    assert!(fake.world().state.swaps.contains("/dev/vdb"));
}

/// A folder, pipe or foreign file with the name of a journal does not prevent borrowing or undoing.
#[test]
fn what_only_looks_like_a_journal_blocks_nothing() {
    let fake = Fake::new(false, true);
    let others =
        ["00000001.journal", "99999999.journal", "18446744073709551615.journal", "x.journal"];
    fake.world().others.extend(others.map(|name| format!("{STATE}/{name}")));
    let mut session = session(&fake);
    session.knob(&KnobSetting::new("vm.swappiness", "10")).unwrap();
    assert_eq!(fake.world().journals.keys().collect::<Vec<_>>(), ["/state/00000002.1.journal"]);
    kill(&fake, session);
    let recovered = recover_all(&mut fake.clone(), STATE, Conflicts::Keep).unwrap();
    assert_eq!(recovered.iter().filter(|run| run.skipped.is_some()).count(), 4);
    assert_eq!(fake.world().state.knobs["/proc/sys/vm/swappiness"], "60");
    assert!(fake.world().journals.is_empty());
}

/// Everything is restored even if no record can be written, and the same journal does no harm
/// later.
#[test]
fn a_journal_that_cannot_be_written_is_put_back() {
    let fake = Fake::new(false, true);
    let before = fake.world().state.clone();
    let mut session = session(&fake);
    session.zram(&ZramSpec::new(SIZE)).unwrap();
    session.knob(&KnobSetting::new("vm.swappiness", "10")).unwrap();
    // the journal ends in half a line that cannot be cut off
    let next = fake.world().deeds;
    fake.world().faults = vec![Fault::KillBefore(next)];
    session.knob(&KnobSetting::new("vm.page-cluster", "0")).unwrap_err();
    drop(session);
    fake.revive();
    fake.world().is_read_only = true;
    for outcome in [Outcome::Returned, Outcome::Gone] {
        let recovered = recover_all(&mut fake.clone(), STATE, Conflicts::Close).unwrap();
        assert!(recovered[0].unnoted.is_some());
        assert_eq!(
            recovered[0].returns.iter().map(|it| &it.outcome).collect::<Vec<_>>(),
            [&outcome; 2]
        );
        assert_eq!(fake.world().state, before);
        assert_eq!(fake.world().journals.len(), 1);
    }
    fake.world().is_read_only = false;
    assert_eq!(recover(&fake), [Outcome::Gone, Outcome::Gone]);
    assert!(fake.world().journals.is_empty());
}
