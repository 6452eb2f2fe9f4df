// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The groups of tests that `make lint` and `make test` do not run: what each group proves, its
//! inputs, and how it is run.
//!
//! A group runs if the cache of this machine ([`super::passes`]) has no pass for its key
//! ([`super::keys`]). Its inputs depend on what it *proves*: a group that reads OOM kills in a
//! guest's log depends on the readers of the log, not on every crate that is linked into the
//! program.

use super::keys::Input::{self, Alone, Crates, LeanProgram, Paths, Tested};

/// A group of tests that take minutes and depend only on the inputs named here.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    /// What is proved if the group passes.
    pub(crate) proves: &'static str,
    pub(crate) inputs: &'static [Input],
    /// Estimated duration in minutes of one job of the group; used until this machine has measured
    /// it.
    pub(crate) minutes: f64,
    pub(crate) runs: Runs,
}

/// How the tests of a group are run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Runs {
    /// Runs a command in the project's folder.
    Command(&'static [&'static str]),
    /// Runs this program, with these arguments.
    Chore(&'static [&'static str]),
    /// Runs this program, with these arguments and the path of the static program; it temporarily
    /// changes this machine.
    Borrowing(&'static [&'static str]),
    /// Runs the tests in guests whose names begin with one of these prefixes.
    Guests { tests: &'static [&'static str], program: Program },
    /// Runs the tests of a module in a test program that needs no root.
    Tests {
        /// Package of the test program, or package and target.
        program: &'static str,
        /// The prefix of the names of the module's tests.
        module: &'static str,
    },
}

/// The program that a group's guests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// The complete program, built with a fast profile.
    Whole,
    /// The lean program, `crates/pagewise/src/lean.rs`.
    Lean,
}

/// The inputs that all tests in guests share, in addition to the program.
const GUEST_TESTS: Input = Paths(&[
    "crates/pagewise/tests/guest/boot.rs",
    "crates/pagewise/tests/guest/caches.rs",
    "crates/pagewise/tests/shared",
    "crates/testkit/src",
]);
/// The code that starts and ends guests. A few guests of `make test` already show that guests start
/// with the program of this tree.
const GUEST_CRATE: [Input; 2] = [
    Alone(&["guest"]),
    Paths(&[
        "crates/pagewise/src/verbs/lab/cache.rs",
        "crates/pagewise/src/verbs/lab/guest.rs",
        "crates/pagewise/src/verbs/lab/out.rs",
    ]),
];
/// The module that all tests use that apply plans in guests.
const PLANS: Input = Paths(&["crates/pagewise/tests/guest/applied.rs"]);
/// What packages are made of, and how the program is removed.
const PACKAGING: Input = Paths(&[
    "packaging",
    "crates/pagewise/src/verbs/undo.rs",
    "crates/pagewise/src/verbs/undo",
    "xtask/scripts/build-static.sh",
    "xtask/src/licences.rs",
]);
/// The sources of the kernel module, and the scripts that test it in guests.
const ZMERGE: Input = Paths(&[
    "kernel/zmerge/Kbuild",
    "kernel/zmerge/Makefile",
    "kernel/zmerge/build-for.sh",
    "kernel/zmerge/inside.sh",
    "kernel/zmerge/core",
    "kernel/zmerge/glue",
    "kernel/zmerge/guest",
    "kernel/zmerge/probe",
]);
/// The scripts that unpack packages of another Debian suite.
const SUITE_SCRIPTS: Input = Paths(&["xtask/scripts/cache.sh", "xtask/scripts/debian-suite.sh"]);
/// The scripts that unpack Debian 13's compiler.
const OLDEST: Input = Paths(&["xtask/scripts/check-oldest.sh", "xtask/scripts/trixie.sh"]);

/// Names of groups that only `make test-all` runs:
///
/// - riscv64 needs the package index of another architecture, and a mirror may serve an older
///   version than its signed list names (riscv64 of trixie, November 2026): then apt refuses it,
///   and the group fails for every change;
/// - hostile inputs: `make test` runs a sample of them;
/// - the groups of packages build the shipped program and fetch the root file systems of three
///   suites, although few changes affect them;
/// - `fleet` needs Go, fetches hundreds of packages that nothing else here needs, and builds a control
///   plane of Kubernetes once, in about 15 minutes of CPU time;
/// - `incidents` has not been run as a whole since its script changed.
pub(crate) const ONLY_IN_ALL: &[&str] =
    &["fleet", "hostile-recordings", "incidents", "packages", "packages-systemd", "riscv64"];

const fn guests(tests: &'static [&'static str]) -> Runs {
    Runs::Guests { tests, program: Program::Whole }
}

const fn lean(tests: &'static [&'static str]) -> Runs {
    Runs::Guests { tests, program: Program::Lean }
}

pub(crate) const GROUPS: &[Group] = &[
    Group {
        name: "simulations",
        proves: "made-up trials and months of switchback with fixed seeds: false alarms, power, coverage",
        inputs: &[Crates(&["stats"]), Paths(&["crates/stats/src"])],
        minutes: 0.3,
        runs: Runs::Tests { program: "stats", module: "simulation::" },
    },
    Group {
        name: "intervals",
        proves: "made-up memory with fixed seeds: how often intervals of a sample hold the truth",
        inputs: &[Tested(&["pages"]), Paths(&["crates/pages/tests"])],
        minutes: 0.4,
        runs: Runs::Tests { program: "pages intervals", module: "" },
    },
    Group {
        name: "hostile-recordings",
        proves: "1,600 hostile recordings and other inputs cost at most 2 s and 64 MiB each, and act on no terminal",
        inputs: &[
            Crates(&["capture", "compare", "decide", "html", "lab", "observe", "report", "stats"]),
            Paths(&[
                "crates/pagewise/tests/program/hostile.rs",
                "fixtures/hosts",
                "lab/experiments",
            ]),
        ],
        minutes: 2.0,
        runs: Runs::Tests { program: "pagewise program", module: "hostile::all_hostile_inputs" },
    },
    Group {
        name: "cache",
        proves: "the cache of packages and compiled crates withstands invalid input, kills and full disks",
        inputs: &[
            SUITE_SCRIPTS,
            Paths(&["xtask/scripts/test-caches.sh", "xtask/scripts/cargo-cache.sh"]),
        ],
        minutes: 0.6,
        runs: Runs::Command(&["xtask/scripts/test-caches.sh"]),
    },
    Group {
        name: "fleet",
        proves: "the programs for clusters: definitions, roll-outs and faults against a real control plane",
        inputs: &[
            Crates(&["stats"]),
            Paths(&["fleet", "xtask/src/fleet.rs", "xtask/scripts/cache.sh"]),
        ],
        minutes: 6.0,
        runs: Runs::Chore(&["fleet"]),
    },
    Group {
        name: "fuzz",
        proves: "every parser withstands what a fuzzer thinks of in 60 s",
        inputs: &[
            Crates(&[
                "agent", "apply", "bench", "capture", "decide", "explain", "guest", "hostfs",
                "html", "lab", "model", "observe", "pages", "plan", "report", "sample", "settings",
                "stats", "terminal", "workload",
            ]),
            Paths(&[
                "fuzz",
                "fixtures/hosts",
                "lab/experiments",
                "xtask/src/fuzz.rs",
                "crates/pagewise/src/chosen.rs",
                "crates/pagewise/src/cli.rs",
                "crates/pagewise/src/cli/groups.rs",
                "crates/pagewise/src/verbs/*/args.rs",
            ]),
        ],
        minutes: 2.8,
        runs: Runs::Chore(&["fuzz", "--seconds", "60"]),
    },
    Group {
        name: "aarch64",
        proves: "the oldest compiler type-checks for aarch64; code without system calls, words of C or code of one \
                 architecture cannot differ there and is no input",
        inputs: &[
            Paths(&[
                "crates/apply/src",
                "crates/bench/src",
                "crates/hugepages/src",
                "crates/sandbox/src",
                "crates/hostfs/src",
                "crates/guest/src",
                "crates/hugepool/src",
                "crates/observe/src",
                "crates/pages/src",
                "crates/procmem/src",
                "crates/mappings/src",
                "crates/sample/src",
                "crates/terminal/src",
                "crates/workload/src",
                "crates/lab/src/experiment",
                "crates/lab/src/library/scratch.rs",
                "crates/pagewise/src/verbs/lab/machines.rs",
                "crates/pagewise/src/verbs/trial/experiment.rs",
                "crates/pagewise/src/verbs/bench",
                "crates/pagewise/src/verbs/pin.rs",
                "crates/pagewise/src/verbs/plan/native.rs",
                "crates/pagewise/src/verbs/thp",
                "crates/pagewise/src/verbs/tune",
                "crates/pagewise/src/verbs/tune.rs",
                "Cargo.lock",
                "Cargo.toml",
            ]),
            SUITE_SCRIPTS,
            OLDEST,
        ],
        minutes: 2.0,
        runs: Runs::Command(&["xtask/scripts/check-oldest.sh", "--aarch64"]),
    },
    Group {
        name: "riscv64",
        proves: "the program reports, collapses and counts on emulated riscv64",
        inputs: &[
            Crates(&["hugepool"]),
            Paths(&["crates", "Cargo.lock", "lab/experiments", "xtask/riscv64", "xtask/scripts"]),
        ],
        minutes: 8.0,
        runs: Runs::Command(&["xtask/riscv64/test.sh"]),
    },
    Group {
        name: "hugepool",
        proves: "C and C++ programs with hugepool's libraries as they are installed, and under AddressSanitizer",
        inputs: &[Tested(&["hugepool"]), Paths(&["crates/hugepool"])],
        minutes: 0.5,
        runs: Runs::Command(&["crates/hugepool/test.sh"]),
    },
    Group {
        name: "hugepool-suites",
        proves: "the same programs with the compilers and C libraries of bookworm and trixie",
        inputs: &[Tested(&["hugepool"]), Paths(&["crates/hugepool"]), SUITE_SCRIPTS],
        minutes: 1.0,
        runs: Runs::Command(&["crates/hugepool/suites.sh"]),
    },
    Group {
        name: "kills",
        proves: "what runs of bench and trial borrow goes back when they are killed at random moments",
        inputs: &[
            Alone(&["apply", "bench", "lab"]),
            Paths(&["xtask/src/bench/kills.rs", "xtask/src/bench/mod.rs"]),
        ],
        minutes: 1.0,
        runs: Runs::Borrowing(&["bench", "--kills", "8", "--aborts", "4", "--program"]),
    },
    Group {
        name: "guest-commands",
        proves: "what a command in a guest comes to, whatever it does; hostile output; damaged caches",
        inputs: &[
            GUEST_CRATE[0],
            GUEST_CRATE[1],
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/outcomes.rs",
                "crates/pagewise/tests/guest/streams.rs",
            ]),
        ],
        minutes: 6.0,
        runs: lean(&["outcomes::", "streams::", "caches::"]),
    },
    Group {
        name: "guest-turns",
        proves: "guests start in the order in which they came, when memory and CPUs are free, or with --now",
        inputs: &[
            GUEST_CRATE[0],
            GUEST_CRATE[1],
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/turns.rs",
                "crates/pagewise/tests/guest/outcomes.rs",
            ]),
        ],
        minutes: 1.0,
        runs: lean(&["turns::"]),
    },
    Group {
        name: "guest-systemd",
        proves: "guests whose PID 1 is systemd: whole, new each time, ended by a deadline, damaged in the cache",
        inputs: &[
            GUEST_CRATE[0],
            GUEST_CRATE[1],
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/systemd.rs",
                "crates/pagewise/tests/guest/reboots.rs",
            ]),
        ],
        minutes: 4.0,
        runs: lean(&["systemd::", "reboots::"]),
    },
    Group {
        name: "systemd-suites",
        proves: "systemd of bookworm and sid, and under another kernel than its own",
        inputs: &[
            GUEST_CRATE[0],
            GUEST_CRATE[1],
            GUEST_TESTS,
            Paths(&["crates/pagewise/tests/guest/systemd.rs"]),
        ],
        minutes: 2.0,
        runs: lean(&["systemd::other_suites::"]),
    },
    Group {
        name: "guest-reboots",
        proves: "guests that reboot: bookworm and sid, zram-generator, a full disk, Ctrl-C",
        inputs: &[
            GUEST_CRATE[0],
            GUEST_CRATE[1],
            GUEST_TESTS,
            Paths(&["crates/pagewise/tests/guest/reboots.rs"]),
        ],
        minutes: 6.0,
        runs: lean(&["reboots::long::"]),
    },
    Group {
        name: "packages",
        proves: "the .deb, .rpm and .tar.zst install, upgrade and go without a trace, in roots of bookworm, trixie and sid",
        inputs: &[
            PACKAGING,
            Paths(&[
                "README.md",
                "CHANGELOG.md",
                "crates/hugepool",
                "crates/pagewise/src/verbs/generate.rs",
                "kernel/zmerge",
            ]),
        ],
        minutes: 5.0,
        runs: Runs::Command(&["packaging/test/all.sh"]),
    },
    Group {
        name: "packages-systemd",
        proves: "under systemd, installing sets nothing, upgrades keep plans and trials, removing undoes only trials",
        inputs: &[
            PACKAGING,
            PLANS,
            Alone(&["apply"]),
            GUEST_TESTS,
            Paths(&["crates/pagewise/tests/guest/packages.rs"]),
        ],
        minutes: 3.0,
        runs: guests(&["packages::"]),
    },
    Group {
        name: "monitor-systemd",
        proves: "the monitor's service runs as its own user, records a kill, alone writes entries, goes on when killed; \
                 idle memory is found on three kernels",
        inputs: &[
            PACKAGING,
            Alone(&["record", "metrics"]),
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/monitor.rs",
                "crates/pagewise/tests/guest/packages.rs",
                "crates/pagewise/src/verbs/monitor.rs",
                "crates/pagewise/src/verbs/monitor",
                "crates/pagewise/src/verbs/why",
                "crates/pagewise/src/verbs/doctor/journal.rs",
            ]),
        ],
        minutes: 4.0,
        runs: guests(&["monitor::"]),
    },
    Group {
        name: "plan-systemd",
        proves: "a plan under systemd takes effect and goes back; a trial ends by its timer, or at the next boot",
        inputs: &[LeanProgram, GUEST_TESTS, PLANS],
        minutes: 1.5,
        runs: lean(&["applied::"]),
    },
    Group {
        name: "loans",
        proves: "what a killed run borrowed goes back, with zram as a module and cgroup v2, until the kernel panics",
        inputs: &[
            LeanProgram,
            GUEST_TESTS,
            Paths(&["crates/pagewise/tests/guest/loans.rs", "crates/pagewise/examples/borrow.rs"]),
        ],
        minutes: 1.0,
        runs: lean(&["loans::"]),
    },
    Group {
        name: "plan-faults",
        proves: "apply and undo under 16 failing system calls and kills",
        inputs: &[
            LeanProgram,
            GUEST_TESTS,
            PLANS,
            Paths(&["crates/pagewise/tests/guest/plans/faults.rs"]),
        ],
        minutes: 1.5,
        runs: lean(&["plans::faults::"]),
    },
    Group {
        name: "plan-drain",
        proves: "swap is switched off only if nobody is killed for it: 20 cases, and 20 programs that grow meanwhile",
        inputs: &[
            LeanProgram,
            GUEST_TESTS,
            PLANS,
            Paths(&["crates/pagewise/tests/guest/plans/drain.rs"]),
        ],
        minutes: 6.0,
        runs: lean(&["plans::drain::"]),
    },
    Group {
        name: "plan-power-loss",
        proves: "plans under 150 power losses each, replayed from one guest",
        inputs: &[
            LeanProgram,
            GUEST_TESTS,
            PLANS,
            Paths(&["crates/pagewise/tests/guest/plans/power_loss.rs"]),
        ],
        minutes: 4.0,
        runs: lean(&["plans::power_loss::"]),
    },
    Group {
        name: "plan-documents",
        proves: "plan makes the plans in files that the groups of reboots apply, with zram-generator and with zswap",
        inputs: &[
            Alone(&["facts", "plan"]),
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/documents",
                "crates/pagewise/tests/guest/documents.rs",
                "crates/pagewise/tests/guest/reboots/long/plans.rs",
                "crates/pagewise/tests/guest/reboots/long/zswap.rs",
            ]),
        ],
        minutes: 2.0,
        runs: guests(&["documents::"]),
    },
    Group {
        name: "plan-inits",
        proves: "plans last, are verified and undone under OpenRC, scripts of busybox init, and links of System V",
        inputs: &[
            Crates(&["apply", "observe", "plan"]),
            GUEST_TESTS,
            Paths(&["crates/pagewise/tests/guest/inits.rs"]),
        ],
        minutes: 4.0,
        runs: guests(&["inits::"]),
    },
    Group {
        name: "plan-reboots",
        proves: "plans (zram by unit and by generator, a swap file, zswap) last over reboots, are verified and undone",
        inputs: &[
            LeanProgram,
            GUEST_TESTS,
            PLANS,
            Paths(&[
                "crates/pagewise/tests/guest/documents",
                "crates/pagewise/tests/guest/reboots/long/plans.rs",
                "crates/pagewise/tests/guest/reboots/long/zswap.rs",
            ]),
        ],
        minutes: 9.0,
        runs: lean(&["reboots::long::plans::", "reboots::long::zswap::"]),
    },
    Group {
        name: "plan-wanted",
        proves: "what is asked for on a calm machine lasts over reboots and goes back, with three kernels",
        inputs: &[
            Alone(&["apply", "plan", "settings"]),
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/reboots/long/plans.rs",
                "crates/pagewise/tests/guest/reboots/long/wanted.rs",
            ]),
        ],
        minutes: 6.0,
        runs: guests(&["reboots::long::wanted::"]),
    },
    Group {
        name: "plan-wanted-faults",
        proves: "a swap file, zram, huge pages and start scripts with 16 failing system calls and kills: undone after each",
        inputs: &[
            Alone(&["apply", "plan", "settings"]),
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/plans/faults.rs",
                "crates/pagewise/tests/guest/plans/wanted_faults.rs",
            ]),
        ],
        minutes: 4.0,
        runs: guests(&["plans::wanted_faults::"]),
    },
    Group {
        name: "plan-reboot-faults",
        proves: "a plan under systemd with 8 failing system calls, and with losses of power at two of them",
        inputs: &[
            LeanProgram,
            GUEST_TESTS,
            PLANS,
            Paths(&[
                "crates/pagewise/tests/guest/documents",
                "crates/pagewise/tests/guest/reboots/long/faults.rs",
                "crates/pagewise/tests/guest/reboots/long/plans.rs",
                "crates/pagewise/tests/guest/plans/faults.rs",
            ]),
        ],
        minutes: 4.0,
        runs: lean(&["reboots::long::faults::"]),
    },
    Group {
        name: "agent",
        proves: "pagewise agent: ages what the kernel does not age, takes unused memory and pages of zram within limits, collapses \
                 memory into huge pages, its service",
        inputs: &[
            Alone(&["agent", "apply", "hugepages", "observe"]),
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/agent.rs",
                "crates/pagewise/tests/guest/agent",
                "crates/pagewise/src/verbs/agent.rs",
                "crates/pagewise/src/verbs/agent",
                "packaging/systemd/pagewise-agent.service",
            ]),
        ],
        minutes: 22.0,
        runs: guests(&["agent::"]),
    },
    Group {
        name: "switchback",
        proves: "pagewise agent: a loop that is switched on and off reclaims only while it says so, for a simulated day",
        inputs: &[
            Alone(&["agent", "stats"]),
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/switchback.rs",
                "crates/pagewise/src/verbs/agent.rs",
                "crates/pagewise/src/verbs/agent",
            ]),
        ],
        minutes: 6.0,
        runs: guests(&["switchback::"]),
    },
    Group {
        name: "aging",
        proves: "pagewise age: refaults fall on 6.12 and 7.2, 6.1 ages by itself, and no mount is left",
        inputs: &[
            Alone(&["apply", "decide", "observe"]),
            GUEST_TESTS,
            Paths(&["crates/pagewise/tests/guest/aging.rs", "crates/pagewise/src/verbs/age.rs"]),
        ],
        minutes: 3.0,
        runs: guests(&["aging::"]),
    },
    Group {
        name: "tune",
        proves: "tune keeps what a measure shows to help, and takes back the rest",
        inputs: &[
            PLANS,
            Alone(&["stats"]),
            GUEST_TESTS,
            Paths(&["crates/pagewise/tests/guest/tune.rs", "crates/pagewise/src/verbs/tune"]),
        ],
        minutes: 3.0,
        runs: guests(&["tune::"]),
    },
    Group {
        name: "ledger",
        proves: "gains that plans predicted are measured, and most come true",
        inputs: &[
            Alone(&["apply", "facts", "pages", "plan"]),
            GUEST_TESTS,
            Paths(&["crates/pagewise/tests/guest/ledger.rs"]),
        ],
        minutes: 1.5,
        runs: guests(&["ledger::"]),
    },
    Group {
        name: "prometheus",
        proves: "Prometheus and promtool of Debian accept the rules and every query of the dashboards",
        inputs: &[
            Alone(&["metrics"]),
            SUITE_SCRIPTS,
            Paths(&[
                "crates/metrics/tests",
                "crates/pagewise/src/verbs/metrics.rs",
                "crates/pagewise/src/verbs/monitor",
                "crates/pagewise/src/verbs/monitor.rs",
                "packaging/prometheus",
                "xtask/scripts/prometheus.sh",
            ]),
        ],
        minutes: 0.7,
        runs: Runs::Borrowing(&["prometheus"]),
    },
    Group {
        name: "incidents",
        proves: "planted incidents in guests of three kernels: why names trouble and actor, and nothing on a calm one",
        inputs: &[
            Crates(&["observe", "record"]),
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/examples/hold.rs",
                "crates/pagewise/tests/guest/incidents.rs",
                "crates/pagewise/tests/guest/incidents.sh",
                "crates/decide/src/incident.rs",
                "crates/decide/src/verdict",
                "crates/pagewise/src/verbs/monitor",
                "crates/pagewise/src/verbs/monitor.rs",
                "crates/pagewise/src/verbs/why.rs",
            ]),
        ],
        minutes: 3.0,
        runs: guests(&["incidents::"]),
    },
    Group {
        name: "kill-reports",
        proves: "kills in guests of two kernels, kills that only journald's files still have, and the entries of doctor --journal",
        inputs: &[
            Crates(&["observe"]),
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/oom.rs",
                "crates/pagewise/tests/guest/journal.rs",
                "crates/apply/src/known_findings.rs",
                "crates/decide/src/follow.rs",
                "crates/journald/src/entry.rs",
                "crates/pagewise/src/verbs/doctor",
                "crates/report/src/text/journal_fields.rs",
                "packaging/systemd",
            ]),
        ],
        minutes: 3.5,
        runs: guests(&["oom::", "journal::"]),
    },
    Group {
        name: "what-if",
        proves: "ten kills by four kernels, done again in guests as they were and with each change that is stated",
        inputs: &[
            Crates(&["decide"]),
            Alone(&["lab", "workload"]),
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/src/verbs/lab/hold.rs",
                "crates/pagewise/src/verbs/lab/rebuild.rs",
                "crates/pagewise/src/verbs/oom/prove.rs",
                "crates/pagewise/tests/guest/what_if.rs",
                "fixtures/kills",
            ]),
        ],
        minutes: 4.5,
        runs: guests(&["what_if::"]),
    },
    Group {
        name: "owners",
        proves: "which line of a configuration wins, compared with systemd's, procps's, zram-generator's and TuneD's programs",
        inputs: &[
            Crates(&["settings"]),
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/owners.rs",
                "crates/pagewise/tests/guest/tuned.rs",
                "crates/settings/tests/grammar/generator_table.rs",
            ]),
        ],
        minutes: 2.5,
        runs: guests(&["owners::", "tuned::"]),
    },
    Group {
        name: "growth",
        proves: "who grows into swap behind a limit, and a report at the commit limit",
        inputs: &[
            Crates(&["observe"]),
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/triage.rs",
                "crates/facts/src/growth.rs",
                "crates/pagewise/src/room.rs",
            ]),
        ],
        minutes: 1.5,
        runs: guests(&["triage::"]),
    },
    Group {
        name: "huge-pages",
        proves: "other processes' memory is collapsed into huge pages on 6.1, 6.12 and 7.2, what is in use first",
        inputs: &[
            Alone(&["hugepages", "procmem", "workload"]),
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/thp.rs",
                "crates/pagewise/examples/hold.rs",
                "crates/pagewise/src/verbs/thp",
            ]),
        ],
        minutes: 3.0,
        runs: guests(&["thp::"]),
    },
    Group {
        name: "bench-guests",
        proves: "every algorithm of zram and zswap that 6.1, 6.12 and 7.2 offer is measured, and nothing is left",
        inputs: &[
            Alone(&["bench", "pages", "stats"]),
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/bench.rs",
                "crates/pagewise/tests/guest/zswap.rs",
            ]),
        ],
        minutes: 6.0,
        runs: guests(&["bench::", "zswap::"]),
    },
    Group {
        name: "zswap-suites",
        proves: "zswap with the generic kernels of bookworm and sid, under systemd, and in an experiment",
        inputs: &[
            Alone(&["bench", "lab", "pages", "stats"]),
            GUEST_TESTS,
            Paths(&["crates/pagewise/tests/guest/zswap.rs", "crates/pagewise/src/verbs/lab"]),
        ],
        minutes: 3.0,
        runs: guests(&["zswap::other_suites::"]),
    },
    Group {
        name: "zram-sizes",
        proves: "zram of 6.1, 6.12 and 7.2 stores eight kinds of memory in as many bytes as scan says",
        inputs: &[
            Crates(&["pages"]),
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/sizes.rs",
                "crates/pagewise/examples/zram_sizes.rs",
            ]),
        ],
        minutes: 2.0,
        runs: lean(&["sizes::"]),
    },
    Group {
        name: "swap-faults",
        proves: "which memory 6.1, 6.12 and 7.2 read ahead from swap, by the kernel's counts",
        inputs: &[
            GUEST_TESTS,
            Paths(&[
                "crates/pagewise/tests/guest/swap_faults.rs",
                "crates/pagewise/examples/swap_faults.rs",
                "crates/bench/src/faults",
                "crates/pagewise/tests/root/machine/lender.rs",
            ]),
        ],
        minutes: 2.0,
        runs: lean(&["swap_faults::"]),
    },
    Group {
        name: "lab-guests",
        proves: "experiments are conducted inside guests and judged outside",
        inputs: &[
            Alone(&["guest", "lab", "stats", "workload"]),
            GUEST_TESTS,
            Paths(&["crates/pagewise/tests/guest/lab.rs", "crates/pagewise/src/verbs/lab"]),
        ],
        minutes: 2.0,
        runs: guests(&["lab::"]),
    },
    Group {
        name: "zmerge",
        proves: "zmerge on the kernel of trixie: hotplug, what it keeps, refuses, hides and forgets; a session of merge",
        inputs: &[
            ZMERGE,
            Paths(&[
                "crates/pagewise/tests/guest/zmerge.rs",
                "crates/pagewise/src/verbs/merge",
                "crates/apply/src/action/merge.rs",
            ]),
            GUEST_TESTS,
            SUITE_SCRIPTS,
        ],
        minutes: 3.0,
        runs: guests(&["zmerge::"]),
    },
    Group {
        name: "zmerge-suites",
        proves: "zmerge on the kernels of bookworm and sid",
        inputs: &[
            ZMERGE,
            Paths(&["crates/pagewise/tests/guest/zmerge.rs"]),
            GUEST_TESTS,
            SUITE_SCRIPTS,
        ],
        minutes: 4.0,
        runs: lean(&["zmerge::other_suites::"]),
    },
    Group {
        name: "zmerge-dkms",
        proves: "DKMS of bookworm and trixie builds zmerge, and no kernel's installation fails if it cannot",
        inputs: &[
            ZMERGE,
            Paths(&[
                "kernel/zmerge/LICENSE",
                "kernel/zmerge/dkms-for.sh",
                "kernel/zmerge/dkms-hook.sh",
                "kernel/zmerge/dkms.conf",
            ]),
            SUITE_SCRIPTS,
        ],
        minutes: 3.0,
        runs: Runs::Command(&["kernel/zmerge/dkms-for.sh", "bookworm", "trixie"]),
    },
];

impl Group {
    /// Text about the group that is a part of its key, in addition to the inputs.
    pub(super) fn description(&self) -> String {
        format!("{} {:?} {:?}", self.name, self.inputs, self.runs)
    }

    /// Number of virtual CPUs of the group's guests; 0 if it starts none.
    pub(super) fn guest_cpus(&self) -> usize {
        match self.runs {
            Runs::Guests { tests, .. } if tests.iter().any(|test| has_two_cpus(test)) => 2,
            Runs::Guests { .. } => 1,
            _ => 0,
        }
    }

    pub(super) fn runs_program(&self, program: Program) -> bool {
        matches!(self.runs, Runs::Guests { program: own, .. } if own == program)
    }
}

/// The name of the test program with the tests in guests.
pub(super) const GUEST: &str = "pagewise guest";
/// The prefix of the names of tests in guests that `make test` runs.
pub(super) const FIXED: &str = "fixed::";

/// The group of a test in guests: the group with the longest prefix that matches the test's name.
/// `None` for a test that `make test` runs.
pub(super) fn group_of_guest_test(test: &str) -> Option<&'static Group> {
    let named = |group: &&Group| match group.runs {
        Runs::Guests { tests, .. } => {
            tests.iter().filter(|start| test.starts_with(**start)).map(|start| start.len()).max()
        }
        _ => None,
    };
    GROUPS.iter().filter(|group| named(group).is_some()).max_by_key(named)
}

/// The modules of a test program whose tests run in groups, not in `make test`.
pub(super) fn modules_in_groups(program: &str) -> Vec<&'static str> {
    let module = |group: &Group| match group.runs {
        Runs::Tests { program: of, module } if program == of => Some(module),
        _ => None,
    };
    GROUPS.iter().filter_map(module).collect()
}

/// The prefixes of the names of tests whose guests have two CPUs.
const WIDE: [&str; 5] = [
    "bench::",
    "plans::drain::guest_programs_that_grow",
    "turns::",
    "zmerge::guest_zmerge_keeps",
    "zmerge::other_suites::",
];

fn has_two_cpus(test: &str) -> bool {
    WIDE.iter().any(|wide| test.starts_with(wide) || wide.starts_with(test))
}

/// Number of virtual CPUs of the guest that a test starts.
pub(super) fn guest_cpus(test: &str) -> usize {
    if has_two_cpus(test) { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::run;
    use crate::suite::keys::{Keys, Lean};
    use crate::suite::tree::Tree;

    fn keys() -> Keys {
        let tree = Tree::of_work_tree(run::project()).unwrap();
        Keys::new(tree, "compiler".to_owned(), Lean::Sources).unwrap()
    }

    /// The list contains exactly the tests that give a guest several CPUs.
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

    #[test]
    fn a_test_in_guests_belongs_to_the_group_that_names_most_of_it() {
        let name = |test: &str| group_of_guest_test(test).map(|group| group.name);
        assert_eq!(name("systemd::guest_systemd_is_whole"), Some("guest-systemd"));
        assert_eq!(name("systemd::other_suites::guest_x"), Some("systemd-suites"));
        assert_eq!(name("reboots::long::plans::guest_x"), Some("plan-reboots"));
        assert_eq!(name("reboots::long::guest_x"), Some("guest-reboots"));
        assert_eq!(name("fixed::kernels::guest_x"), None);
    }

    /// If an input is a path without files, or a crate that does not exist, the table is wrong.
    #[test]
    fn every_input_is_there() {
        let keys = keys();
        let crates: BTreeSet<&str> = keys.manifests().names().collect();
        for group in GROUPS {
            for input in group.inputs {
                match input {
                    Crates(names) | Tested(names) | Alone(names) => {
                        let unknown: Vec<_> =
                            names.iter().filter(|name| !crates.contains(**name)).collect();
                        assert!(unknown.is_empty(), "{}: no crate {unknown:?}", group.name);
                    }
                    Paths(paths) => {
                        let missing: Vec<_> =
                            paths.iter().filter(|path| keys.is_missing(path)).collect();
                        assert!(missing.is_empty(), "{}: no file {missing:?}", group.name);
                    }
                    LeanProgram => {}
                }
            }
        }
    }

    /// A test in guests reads the file of its own module, so each group must have the files of its
    /// tests' modules among its inputs.
    #[test]
    fn tests_in_guests_are_inputs_of_their_groups() {
        let keys = keys();
        for group in GROUPS {
            let Runs::Guests { tests, .. } = group.runs else { continue };
            let parts = keys.parts(group.inputs);
            for test in tests {
                let module: Vec<&str> = test.split("::").filter(|part| !part.is_empty()).collect();
                let path = |depth: usize| {
                    format!("crates/pagewise/tests/guest/{}.rs", module[..depth].join("/"))
                };
                let has = (1..=module.len()).rev().map(path).any(|path| parts.contains_key(&path));
                assert!(has, "{}: no file of {test} is an input", group.name);
            }
        }
    }

    /// The group `fuzz` must name exactly the crates that the fuzzing program uses.
    #[test]
    fn fuzz_names_the_crates_of_its_program() {
        let (_, text) = run::texts(&["fuzz/Cargo.toml"]).unwrap().remove(0);
        let manifest: toml::Table = toml::from_str(&text).unwrap();
        let used = manifest["dependencies"].as_table().unwrap().keys();
        let used: BTreeSet<&str> = used.filter_map(|name| name.strip_prefix("pagewise-")).collect();
        let fuzz = GROUPS.iter().find(|group| group.name == "fuzz").unwrap();
        let Crates(named) = fuzz.inputs[0] else { panic!("{:?}", fuzz.inputs) };
        assert_eq!(named.iter().copied().collect::<BTreeSet<_>>(), used);
    }
}
