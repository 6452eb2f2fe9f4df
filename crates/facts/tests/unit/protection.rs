// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Protection of nested cgroups, compared with the kernel's formula.

use pagewise_model::{Name, Reading, Source};
use proptest::prelude::*;

use super::*;

fn group(path: &str, low: u64, current: u64) -> Cgroup {
    Cgroup {
        path: Name::from(path),
        low: Reading::found(Limit::Bytes(Bytes::new(low)), Source::none()),
        current: Reading::found(Bytes::new(current), Source::none()),
        ..Cgroup::default()
    }
}

fn host(groups: Vec<Cgroup>) -> Snapshot {
    let mut host = Snapshot::default();
    host.cgroups.groups = groups;
    host
}

fn raised(host: &Snapshot, path: &str, low: u64) -> Option<Vec<(String, u64)>> {
    let group = host.cgroups.groups.iter().find(|it| it.path.as_str() == path).unwrap();
    let all = protections(host, group, LOW, Bytes::new(low))?;
    Some(all.into_iter().map(|it| (it.unit, it.size.get())).collect())
}

#[test]
fn a_slice_is_raised_with_its_service_and_for_the_others_in_it() {
    let db = "/system.slice/db.service";
    let other = |low| {
        host(vec![
            group("/", 0, 900),
            group("/system.slice", 0, 800),
            group(db, 0, 300),
            group("/system.slice/web.service", low, 200),
            group("/user.slice", 50, 200),
        ])
    };
    let (slice, service) = ("system.slice".to_owned(), "db.service".to_owned());
    assert_eq!(raised(&other(0), db, 100).unwrap(), [(slice.clone(), 100), (service.clone(), 100)]);
    assert_eq!(raised(&other(70), db, 100).unwrap(), [(slice, 170), (service.clone(), 100)]);
    let mut enough = other(0);
    enough.cgroups.groups[1].low = Reading::found(Limit::Max, Source::none());
    assert_eq!(raised(&enough, db, 100).unwrap(), [(service, 100)]);
    enough.cgroups.groups[2].low = Reading::found(Limit::Bytes(Bytes::new(100)), Source::none());
    assert_eq!(raised(&enough, db, 100).unwrap(), []);
}

#[test]
fn nothing_is_said_of_what_systemd_does_not_manage_or_version_1() {
    let user = "/user.slice/user-1000.slice/user@1000.service/app.slice/x.service";
    let groups = |path: &str| {
        let mut all = vec![group("/", 0, 0)];
        all.extend(path.match_indices('/').skip(1).map(|(at, _)| group(&path[..at], 0, 0)));
        all.push(group(path, 0, 0));
        host(all)
    };
    assert_eq!(raised(&groups(user), user, 1), None);
    for path in ["/machine.slice/libpod-1.scope", "/docker/12", "/kubepods.slice/pod1"] {
        assert_eq!(raised(&groups(path), path, 1), None, "{path}");
    }
    let nested = "/system.slice/system-db.slice/db@1.service";
    assert_eq!(raised(&groups(nested), nested, 1).unwrap().len(), 3);
    let mut version_1 = groups(nested);
    version_1.cgroups.groups[1].low = Reading::not_read();
    assert_eq!(raised(&version_1, nested, 1), None);
}

/// The kernel's `effective_protection`, for groups that use more than their protection and without
/// `memory_recursiveprot`, which can only add protection.
fn effective(setting: u64, siblings: u64, parent: u64) -> u64 {
    let claimed = setting + siblings;
    if claimed > parent { setting * parent / claimed } else { setting }
}

proptest! {
    /// With the units raised, the kernel's formula protects as much as was requested.
    #[test]
    fn what_is_raised_suffices(
        slice in 0u64..1000, middle in 0u64..1000, own in 0u64..1000,
        beside_middle in 0u64..1000, beside in 0u64..1000, low in 1u64..1000,
    ) {
        let db = "/a.slice/a-b.slice/db.service";
        let host = host(vec![
            group("/", 0, 9000),
            group("/a.slice", slice, 9000),
            group("/a.slice/a-b.slice", middle, 9000),
            group("/a.slice/other.service", beside_middle, 9000),
            group(db, own, 9000),
            group("/a.slice/a-b.slice/other.service", beside, 9000),
        ]);
        let raised = raised(&host, db, low).unwrap();
        let after = |unit: &str, now: u64| {
            raised.iter().find(|(name, _)| name == unit).map_or(now, |(_, low)| *low)
        };
        let outer = after("a.slice", slice);
        let inner = effective(after("a-b.slice", middle), beside_middle, outer);
        let protected = effective(after("db.service", own), beside, inner);
        prop_assert!(protected >= low, "{raised:?}: {protected}");
        for (unit, low) in &raised {
            let now = match unit.as_str() { "a.slice" => slice, "a-b.slice" => middle, _ => own };
            prop_assert!(*low > now);
        }
    }
}
