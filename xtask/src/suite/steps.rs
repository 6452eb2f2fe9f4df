// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The heavy steps, and what each of them reads.

use super::remembered::{Runs, Step};

/// The program, as it is compiled.
const PROGRAM: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    ".cargo/config.toml",
    ":(glob)crates/*/Cargo.toml",
    ":(glob)crates/*/src/**",
    "xtask/Cargo.toml",
    "lab/experiments",
];
/// Its tests in guests, and what they share with others.
const GUEST_TESTS: &[&str] = &[
    "crates/pagewise/tests/guest",
    "crates/pagewise/tests/shared",
    "crates/pagewise/examples",
    "crates/testkit",
];
/// Another suite's packages, unpacked.
const SUITE_SCRIPTS: &[&str] = &["xtask/scripts/cache.sh", "xtask/scripts/debian-suite.sh"];

/// Steps that only `make test-long` runs: they need the package index of another architecture, which a mirror may
/// serve in an older version than its signed list names (riscv64 of trixie, November 2026). apt refuses it then, and no
/// change could pass `make test`.
pub(super) const LONG_ONLY: &[&str] = &["riscv64"];

pub(crate) const STEPS: &[Step] = &[
    Step {
        name: "fuzz",
        about: "every parser withstands what a fuzzer thinks of in 60 s",
        inputs: &[PROGRAM, &["fuzz", "fixtures/hosts", "xtask/src/fuzz.rs"]],
        minutes: 4.0,
        runs: Runs::Chore(&["fuzz", "--seconds", "60"]),
        builds: &["fuzz/target"],
    },
    Step {
        name: "simulations",
        about: "made-up trials with fixed seeds: false alarms, power, coverage",
        inputs: &[&[
            "Cargo.toml",
            "Cargo.lock",
            ".cargo/config.toml",
            "crates/model",
            "crates/stats",
        ]],
        minutes: 1.0,
        runs: Runs::Tests { program: "stats", module: "simulation::" },
        builds: &[],
    },
    Step {
        name: "intervals",
        about: "made-up memory with fixed seeds: how often intervals of a sample hold the truth",
        inputs: &[&[
            "Cargo.toml",
            "Cargo.lock",
            ".cargo/config.toml",
            "crates/pages",
            "crates/model",
        ]],
        minutes: 1.0,
        runs: Runs::Tests { program: "pages intervals", module: "" },
        builds: &[],
    },
    Step {
        name: "aarch64",
        about: "the oldest compiler type-checks all of it for aarch64",
        inputs: &[
            PROGRAM,
            SUITE_SCRIPTS,
            &["xtask/scripts/check-oldest.sh", "xtask/scripts/trixie.sh"],
        ],
        minutes: 4.0,
        runs: Runs::Command(&["xtask/scripts/check-oldest.sh", "--aarch64"]),
        builds: &["target/oldest/aarch64-unknown-linux-gnu"],
    },
    Step {
        name: "riscv64",
        about: "the program reports, collapses and counts on emulated riscv64",
        inputs: &[
            PROGRAM,
            SUITE_SCRIPTS,
            &["xtask/riscv64", "xtask/scripts/trixie.sh", "xtask/scripts/build-static.sh"],
        ],
        minutes: 8.0,
        runs: Runs::Command(&["xtask/riscv64/test.sh"]),
        builds: &["target/oldest/riscv64gc-unknown-linux-gnu"],
    },
    Step {
        name: "hugepool",
        about: "C and C++ programs with hugepool's libraries as they are installed, and under AddressSanitizer",
        inputs: &[PROGRAM, &["crates/hugepool"]],
        minutes: 3.0,
        runs: Runs::Command(&["crates/hugepool/test.sh"]),
        builds: &["target/library"],
    },
    Step {
        name: "hugepool-suites",
        about: "the same programs with the compilers and C libraries of bookworm and trixie",
        inputs: &[PROGRAM, SUITE_SCRIPTS, &["crates/hugepool"]],
        minutes: 2.0,
        runs: Runs::Command(&["crates/hugepool/suites.sh"]),
        builds: &["target/library"],
    },
    Step {
        name: "zmerge-suites",
        about: "zmerge on the kernels of bookworm and sid",
        inputs: &[PROGRAM, GUEST_TESTS, SUITE_SCRIPTS, &["kernel/zmerge"]],
        minutes: 5.0,
        runs: Runs::Guests("zmerge::other_suites::"),
        builds: &[],
    },
    Step {
        name: "systemd-suites",
        about: "systemd of bookworm and sid, and under another kernel than its own",
        inputs: &[PROGRAM, GUEST_TESTS],
        minutes: 4.0,
        runs: Runs::Guests("systemd::other_suites::"),
        builds: &[],
    },
    Step {
        name: "zswap-suites",
        about: "zswap with the generic kernels of bookworm and sid, under systemd, and in an experiment",
        inputs: &[PROGRAM, GUEST_TESTS],
        minutes: 2.0,
        runs: Runs::Guests("zswap::other_suites::"),
        builds: &[],
    },
    Step {
        name: "reboots",
        about: "guests that reboot: bookworm and sid, zram-generator, a full disk, Ctrl-C",
        inputs: &[PROGRAM, GUEST_TESTS],
        minutes: 8.0,
        runs: Runs::Guests("reboots::long::"),
        builds: &[],
    },
    Step {
        name: "plans",
        about: "plans under power losses and failing system calls, and swap that may not fit",
        inputs: &[PROGRAM, GUEST_TESTS],
        minutes: 3.0,
        runs: Runs::Guests("plans::"),
        builds: &[],
    },
];

/// The modules of a test program that are run by a step, and not with the others.
pub(super) fn modules_of(program: &str) -> Vec<&'static str> {
    let module = |step: &Step| match step.runs {
        Runs::Guests(module) if program == GUEST => Some(module),
        Runs::Tests { program: of, module } if program == of => Some(module),
        _ => None,
    };
    STEPS.iter().filter_map(module).collect()
}

/// How the names of tests begin whose guest has two processors.
const WIDE: [&str; 4] =
    ["bench::", "turns::", "zmerge::guest_zmerge_keeps", "zmerge::other_suites::"];

/// Virtual processors of the guest of a test, or of a module's tests.
pub(super) fn guest_cpus(test: &str) -> usize {
    if WIDE.iter().any(|module| test.starts_with(module)) { 2 } else { 1 }
}

/// The program with the tests in guests.
pub(super) const GUEST: &str = "pagewise guest";

#[cfg(test)]
mod check {
    use std::collections::BTreeSet;

    use super::*;
    use crate::run;

    /// A module that gives a guest processors is one of those that are listed, and the other way round.
    #[test]
    fn guests_with_two_processors_are_listed() {
        let folder = "crates/pagewise/tests/guest/";
        let mut found = BTreeSet::new();
        for (path, text) in run::texts(&[&format!("{folder}*.rs")]).unwrap() {
            if text.contains("\"--cpus") {
                let (module, _) = path[folder.len()..].split_once(['.', '/']).unwrap();
                found.insert(module.to_owned());
            }
        }
        let module = |test: &&str| test.split("::").next().unwrap_or_default().to_owned();
        assert_eq!(found, WIDE.iter().map(module).collect());
    }
}
