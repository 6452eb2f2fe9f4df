// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise limits` without privileges.

use pagewise_testkit::scene::recording;
use serde_json::Value;

use crate::program::run;

/// 512 MiB, cgroup v2: a service limited to 64 MiB uses 160 MiB.
const PRESSED: &str = "debian-sid-7.2-x86_64-512m-zram-pressure";
const GROUP: &str = "/system.slice/cg-2.service";

fn of_recording(more: &[&str]) -> crate::program::ProgramRun {
    let path = recording(PRESSED);
    run(&[&["limits", "--root", path.to_str().unwrap()], more].concat())
}

#[test]
fn a_limit_that_is_too_low_is_named_with_its_reasons_and_commands() {
    let all = of_recording(&[]);
    assert_eq!((all.status, all.err.as_str()), (0, ""));
    assert!(all.out.contains("at least ") && all.out.contains("not known"), "{}", all.out);
    let one = of_recording(&["--unit", "cg-2"]);
    assert_eq!((one.status, one.err.as_str()), (0, ""));
    for part in [
        "the limit is too low",
        "confidence: medium",
        "--runtime",
        "until the next boot",
        "permanent",
    ] {
        assert!(one.out.contains(part), "{part} is not in {}", one.out);
    }
    assert_eq!(of_recording(&["--cgroup", GROUP]).out, one.out);
}

#[test]
fn the_document_has_what_the_text_says() {
    let ran = of_recording(&["--json", "--cgroup", GROUP]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(document["schema"], "pagewise/limits/1");
    let group = &document["groups"][0];
    assert_eq!((&group["group"], &group["advice"]["verdict"]), (&GROUP.into(), &"too-low".into()));
    assert!(group["advice"]["size"].as_u64() > group["limit"]["value"].as_u64(), "{group}");
    assert_eq!(document["watched"], Value::Null);
}

#[test]
fn what_cannot_be_judged_is_refused_with_a_way_on() {
    for (more, words) in [
        (&["--cgroup", "/no/such"][..], "no memory cgroup /no/such on this host"),
        (&["--unit", "no-such"], "no memory cgroup of a unit no-such"),
        (&["--pid", "999999999"], "no process 999999999"),
        (&["--cgroup", "/"], "the root of all cgroups has no limit"),
        (&["--cgroup", GROUP, "--for", "5s"], "a recording has no processes that could be watched"),
    ] {
        let ran = of_recording(more);
        assert_eq!(ran.status, 1, "{more:?}: {}", ran.err);
        assert!(ran.err.contains(words) && ran.err.contains("next"), "{more:?}: {}", ran.err);
        assert_eq!(ran.out, "");
    }
    for wrong in [
        &["limits", "--for", "5s"][..],
        &["limits", "--pid", "1", "--for", "10ms"],
        &["limits", "--pid", "1", "--unit", "x"],
    ] {
        assert_eq!(run(wrong).status, 2, "{wrong:?}");
    }
}

/// Without root and without a recording, on any machine.
#[test]
fn this_machine_is_told_in_json() {
    let ran = run(&["limits", "--json", "--interval", "50ms"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    for group in document["groups"].as_array().unwrap() {
        let advice = &group["advice"];
        assert_eq!(advice["confidence"].is_null(), advice["verdict"] == "not-known", "{group}");
        assert!(!advice["reasons"].as_array().unwrap().is_empty(), "{group}");
    }
}
