// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Planted incidents in guests, beside `pagewise monitor`: `pagewise why` names the trouble and the actor, and
//! nothing on a calm guest.
//!
//! The guests' clock counts instructions (`--count`): one instruction takes a nanosecond, and idle time is skipped. So
//! the load of this machine does not decide how often the monitor reads, and a calm hour passes within a minute.
//!
//! `cargo xtask incidents` repeats all of them on each kernel (`PAGEWISE_INCIDENTS` rounds), and prints the rows of the
//! table in docs/measured/incidents.md; `PAGEWISE_CALM_HOURS` does so for calm guests.

use serde_json::Value;

use crate::boot::{answer, finish, lab};
use crate::example::into_guest;

const SCRIPT: &str = include_str!("incidents.sh");
const KERNELS: [&str; 3] = ["bookworm", "trixie", "sid"];

/// What must be named.
#[derive(Debug, Clone, Copy)]
struct Incident {
    case: &'static str,
    /// The program that took the memory, in `growers` or in a kill; or the memory of no process, in `areas`.
    actor: &'static str,
    has_kill: bool,
}

const fn incident(case: &'static str, actor: &'static str, has_kill: bool) -> Incident {
    Incident { case, actor, has_kill }
}

const INCIDENTS: &[Incident] = &[
    incident("leak", "leak", true),
    incident("burst", "burst", true),
    incident("limit", "leak", true),
    incident("swap", "leak", true),
    incident("zram", "leak", true),
    incident("slab", "kernel objects (slab)", true),
    incident("storm", "one_of_many", true),
    incident("thp", "hold", true),
    incident("thrash", "thrash", false),
];

/// What `why --json` said of an incident.
#[derive(Debug)]
struct Told {
    has_trouble: bool,
    has_actor: bool,
    has_kill: bool,
    /// Time from the last reading to the first kill.
    seconds_before_kill: Option<f64>,
}

impl Told {
    fn is_right(&self, wanted: Incident) -> bool {
        self.has_trouble && self.has_actor && (self.has_kill || !wanted.has_kill)
    }
}

/// Runs the cases one after the other in a guest, with these variables of the script; returns the output of the script,
/// and its messages.
fn run(kernel: &str, cases: &str, variables: &str) -> (String, String) {
    let script = format!("CASES='{cases}'; {variables}\n{SCRIPT}");
    let hold = into_guest("hold");
    let options = ["--quiet", "--kernel", kernel, "--memory", "320M", "--deadline", "59m"];
    let counted = ["--count", "--boots", "1", "--module", "null_blk"];
    let files: Vec<&str> = hold.iter().map(String::as_str).collect();
    let command = ["--", "sh", "-c", &script];
    let ran = finish(&mut lab(&[&options[..], &counted, &files, &command].concat()));
    (ran.out, ran.err)
}

fn understand(kernel: &str, wanted: Incident, out: &str, err: &str) -> Told {
    let (text, status) = answer(out, wanted.case);
    let said: Value = serde_json::from_str(text)
        .unwrap_or_else(|error| panic!("{kernel} {} {status}: {error}: {out} {err}", wanted.case));
    let names = |list: &str| -> Vec<String> {
        let list = said[list].as_array().into_iter().flatten();
        list.filter_map(|it| it["name"].as_str().map(str::to_owned)).collect()
    };
    let kills = said["events"].as_array().into_iter().flatten().filter(|it| it["kind"] == "kill");
    let kills: Vec<&Value> = kills.collect();
    Told {
        has_trouble: !said["trouble"].is_null(),
        has_actor: names("growers").iter().chain(&names("areas")).any(|name| name == wanted.actor),
        has_kill: !kills.is_empty(),
        seconds_before_kill: kills.first().and_then(|kill| kill["seconds_since_reading"].as_f64()),
    }
}

/// Plants these incidents in one guest.
fn check(kernel: &str, cases: &str) {
    let (out, err) = run(kernel, cases, "");
    for case in cases.split(' ') {
        let wanted = *INCIDENTS.iter().find(|it| it.case == case).unwrap();
        let told = understand(kernel, wanted, &out, &err);
        assert!(told.is_right(wanted), "{kernel} {wanted:?}: {told:?}\n{err}\n{out}");
    }
}

#[test]
fn guest_of_bookworm_says_why_a_limit_killed_and_who_stored_huge_pages() {
    check("bookworm", "limit thp");
}

#[test]
fn guest_of_trixie_says_who_took_all_memory() {
    check("trixie", "burst leak");
}

#[test]
fn guest_of_sid_says_who_filled_zram_and_a_disk() {
    check("sid", "zram swap");
}

/// A guest that is idle, and then one that is lightly busy: no trouble, and no kill.
fn check_calm(kernel: &str, hours: usize) {
    let (out, err) = run(kernel, "calm", &format!("HOURS={hours}"));
    let cases = out.lines().filter_map(|line| line.strip_prefix("== ")).collect::<Vec<_>>();
    assert!(cases.len() >= hours.max(1), "{kernel}: {out} {err}");
    for case in cases {
        let (text, status) = answer(&out, case);
        let said: Value = serde_json::from_str(text).expect(text);
        let kills = said["events"].as_array().into_iter().flatten();
        let kills = kills.filter(|it| it["kind"] == "kill").count();
        println!(
            "| {kernel} | {case} | {} readings | trouble: {} |",
            said["readings"], said["trouble"]
        );
        let is_calm = said["trouble"].is_null() && kills == 0 && status == "0";
        assert!(is_calm && said["readings"].as_u64() > Some(1), "{kernel} {case}: {text}\n{err}");
    }
}

#[test]
fn guest_of_trixie_invents_nothing_when_calm() {
    check_calm("trixie", 0);
}

/// One incident, or all of them on three kernels as often as asked; a row of the table for each.
#[test]
fn guest_incidents_as_many_as_asked() {
    let number = |name: &str| {
        let rounds = std::env::var(name).ok();
        rounds.map(|it| it.parse::<usize>().expect("a number"))
    };
    let Some(rounds) = number("PAGEWISE_INCIDENTS") else { return check("trixie", "slab") };
    let cases: Vec<&str> = INCIDENTS.iter().map(|it| it.case).collect();
    let mut wrong = Vec::new();
    for kernel in std::iter::repeat_n(KERNELS, rounds).flatten() {
        let (out, err) = run(kernel, &cases.join(" "), "");
        for wanted in INCIDENTS {
            let told = understand(kernel, *wanted, &out, &err);
            let before = told.seconds_before_kill;
            let before = before.map_or_else(|| "no kill".to_owned(), |it| format!("{it:.1}"));
            let named =
                [told.has_trouble, told.has_actor].map(|it| if it { "yes" } else { "**no**" });
            println!("| {} | {kernel} | {} | {before} |", wanted.case, named.join(" | "));
            if !told.is_right(*wanted) {
                wrong.push(format!("{kernel} {}: {told:?}\n{err}", wanted.case));
            }
        }
    }
    if let Some(hours) = number("PAGEWISE_CALM_HOURS") {
        KERNELS.iter().for_each(|kernel| check_calm(kernel, hours));
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
