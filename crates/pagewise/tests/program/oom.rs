// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise oom FILE`, `--what-if`, and what `--prove` refuses before it starts a guest.

use pagewise_testkit::empty_folder;

use crate::program::run;

const KILLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/kills/");

#[test]
fn each_kill_of_the_fixtures_has_changes_only_if_they_are_asked_for() {
    let mut seen = 0;
    for file in std::fs::read_dir(KILLS).unwrap() {
        let path = file.unwrap().path().display().to_string();
        let plain = run(&["oom", &path]);
        assert_eq!(plain.status, 3, "{path}: {}", plain.err);
        assert!(!plain.out.contains("what if"), "{path}: {}", plain.out);
        let asked = run(&["oom", &path, "--what-if"]);
        assert!(asked.out.contains("what if  "), "{path}: {}", asked.out);
        assert!(asked.out.contains("would have") || asked.out.contains("not known"), "{path}");
        let of_doctor = run(&["doctor", "--oom", "--log", &path, "--what-if"]);
        assert_eq!(of_doctor.out, asked.out, "{path}");
        seen += 1;
    }
    assert_eq!(seen, 10);
}

/// The first kill cannot be rebuilt, and the others are not logs: no guest is started, and the
/// reason is said.
#[test]
fn what_cannot_be_done_again_is_refused_with_the_reason() {
    let folder = empty_folder();
    let path = folder.path().join("log").display().to_string();
    for (text, status, why) in [
        ("[ 601.1] no kill\n", 1, "the log has no report of the OOM killer"),
        (
            "Out of memory: Killed process 7 (a) total-vm:9kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB\n",
            1,
            "the report has no sizes of memory",
        ),
        ("", 1, "is empty"),
    ] {
        std::fs::write(&path, text).unwrap();
        let ran = run(&["oom", &path, "--prove"]);
        assert_eq!(ran.status, status, "{text:?}: {} {}", ran.out, ran.err);
        assert!(ran.err.contains(why), "{text:?}: {}", ran.err);
    }
    let missing = run(&["oom", "/no/such/log", "--prove"]);
    assert_eq!(missing.status, 1, "{}", missing.err);
}

/// The hidden parts of `--prove` do nothing outside of it: no file is written, no memory taken.
#[test]
fn what_is_for_the_program_itself_is_refused() {
    let log = format!("{KILLS}host-leak.log");
    let ran = run(&["oom", &log, "--rebuild-to", "1"]);
    // the output of this run is a pipe, like the one that --prove makes
    assert_eq!(ran.status, 3, "{}", ran.err);
    let ran = run(&["oom", &log, "--rebuild-to", "99"]);
    assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{}", ran.err);
    assert!(ran.err.contains("99 is no open pipe"), "{}", ran.err);
    let folder = empty_folder();
    let sizes = folder.path().join("sizes.json").display().to_string();
    let text = r#"{"of_group":false,"capacity":1,"grower":1,"mapped":null,"others":0,"shmem":0,"swap":0,"changes":[]}"#;
    std::fs::write(&sizes, text).unwrap();
    let ran = run(&["lab", "rebuild", &sizes]);
    assert_eq!(ran.status, 1, "{}", ran.err);
    assert!(ran.err.contains("this is no guest of pagewise"), "{}", ran.err);
}
