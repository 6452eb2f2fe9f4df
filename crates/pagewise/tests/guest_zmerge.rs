// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel module zmerge, built for the kernels of three Debian suites, in guests with them.
//!
//! `kernel/zmerge/build-for.sh` builds it with each suite's own compiler and headers, which it keeps
//! below `.cache/zmerge` (some 430 MB a suite); a module whose sources have not changed is not
//! built again. What is tried is in the scripts of `kernel/zmerge/guest`.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::allow_attributes,
    reason = "tests start the program and look at its files"
)]

mod guest;

use std::path::{Path, PathBuf};
use std::process::Command;

use guest::{Ran, finish, lab, run};

const SUITES: [&str; 3] = ["bookworm", "trixie", "sid"];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/zmerge")
}

/// The module for exactly the kernel that a guest of the suite has.
fn module(suite: &str) -> String {
    let guest = run(&["--emulate", "--kernel", suite], &["true"]);
    let release = guest["release"].as_str().unwrap();
    let mut build = Command::new(sources().join("build-for.sh"));
    let built = finish(build.args([suite, release]));
    assert_eq!(built.status, 0, "{suite}: {}", built.err);
    built.out.trim_end().to_owned()
}

/// A script of `kernel/zmerge/guest` in a guest of the suite that has the module.
fn script(suite: &str, name: &str) -> Ran {
    let module = format!("{}:/zmerge.ko", module(suite));
    let script = format!("{}:/script.sh", sources().join("guest").join(name).display());
    let options = ["--emulate", "--kernel", suite, "--memory", "256M", "--deadline", "5m"];
    let files = ["--file", &module, "--file", &script];
    finish(&mut lab(&[&options[..], &files, &["--", "sh", "/script.sh"]].concat()))
}

#[test]
fn guest_zmerge_keeps_every_page_and_merges_every_copy() {
    for suite in SUITES {
        let ran = script(suite, "keep.sh");
        assert_eq!(ran.status, 0, "{suite}: {} {}", ran.out, ran.err);
        assert!(ran.out.ends_with("kept\n"), "{suite}: {}", ran.out);
    }
}

#[test]
fn guest_zmerge_refuses_what_it_must_and_says_why() {
    for suite in SUITES {
        let ran = script(suite, "refuse.sh");
        assert_eq!(ran.status, 0, "{suite}: {} {}", ran.out, ran.err);
        assert_eq!(ran.out, "refused 72\nwrong 0\n", "{suite}: {}", ran.err);
    }
}
