// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Watches a test process in a test cgroup: memory that it does not use is idle, memory that it
//! uses is not.

use std::time::Duration;

use serde_json::{Value, json};

use crate::held::{Group, Held};
use crate::program::run;

const MIB: u64 = 1 << 20;

fn survey(group: &Group, more: &[&str]) -> Value {
    let ran = run(&[&["limits", "--json", "--cgroup", &group.path], more].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).expect("a document")
}

/// Idle anonymous memory of the cgroup while `act` is repeated, because the moment when the
/// accessed bits are cleared depends on the load.
fn idle_while(group: &Group, held: &mut Held, mut act: impl FnMut(&mut Held)) -> (u64, Value) {
    let document = std::thread::scope(|scope| {
        let watch = scope.spawn(|| survey(group, &["--for", "3s"]));
        while !watch.is_finished() {
            act(held);
            std::thread::sleep(Duration::from_millis(10));
        }
        watch.join().expect("a document")
    });
    let group = &document["groups"][0];
    assert_eq!(group["idle"]["method"], "accessed-bits", "{group}");
    (group["idle"]["anon"].as_u64().expect("bytes"), document)
}

#[test]
fn what_a_process_leaves_alone_is_idle_and_what_it_uses_is_not() {
    let group = Group::with_limit(400 * MIB);
    let mut held = group.start("map 64 1 1");
    let (alone, document) = idle_while(&group, &mut held, |_| ());
    assert!(alone >= 60 * MIB, "{alone} of 64 MiB");
    assert_eq!(document["watched"]["processes"], 1, "{document}");
    assert_eq!(document["processes"][0]["pid"], held.pid());
    let of_group = &document["groups"][0];
    assert_eq!(of_group["limit"]["value"], json!(400 * MIB));
    assert!(of_group["current"]["value"].as_u64() >= Some(60 * MIB), "{of_group}");
    // the limit is far too high, and three seconds of observation prove little
    assert_eq!(of_group["advice"]["verdict"], "could-be", "{of_group}");
    assert_eq!(of_group["advice"]["confidence"], "low");
    let size = of_group["advice"]["size"].as_u64().expect("a size");
    assert!(size >= of_group["hot"].as_u64().expect("bytes") && size < 200 * MIB, "{of_group}");

    // every sixteenth page is written: 4 MiB, or all of it if it is in huge pages
    let (used, _) = idle_while(&group, &mut held, |held| assert_eq!(held.obey("write"), "done"));
    assert!(used + 3 * MIB <= alone, "{used} of {alone}");
}

/// Locked memory is never idle, and no limit below it is suggested.
#[test]
fn locked_memory_is_in_use() {
    let group = Group::with_limit(400 * MIB);
    let mut held = group.start("map 64 1 1");
    assert_eq!(held.obey("lock"), "done");
    let (idle, document) = idle_while(&group, &mut held, |_| ());
    assert!(idle < 8 * MIB, "{idle}");
    let group = &document["groups"][0];
    let locked = group["unevictable"]["value"].as_u64().expect("a counter");
    assert!(locked >= 60 * MIB, "{group}");
    assert!(group["hot"].as_u64().expect("bytes") >= locked);
    assert!(group["advice"]["size"].as_u64().expect("a size") >= locked);
}
