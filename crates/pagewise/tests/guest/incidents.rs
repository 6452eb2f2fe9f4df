// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Planted incidents in guests, beside `pagewise monitor`: `pagewise why` names the trouble and the actor, and
//! nothing on a calm guest.
//!
//! `cargo xtask incidents` repeats all of them on each kernel (`PAGEWISE_INCIDENTS` rounds), and prints the rows of the
//! table in docs/measured/incidents.md.

use serde_json::Value;

use crate::boot::{answer, finish, lab};

const SCRIPT: &str = include_str!("incidents.sh");

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
    incident("slab", "kernel objects (slab)", false),
    incident("storm", "one_of_many", true),
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

/// Runs a case in a guest; returns what `why` said, and all output.
fn ask(kernel: &str, case: &str, actor: &str) -> (Told, String) {
    let script = format!("CASES={case}\n{SCRIPT}");
    let options = ["--quiet", "--kernel", kernel, "--memory", "256M", "--deadline", "5m"];
    let disks = ["--disk", "64M", "--disk", "256M"];
    let ran = finish(&mut lab(&[&options[..], &disks, &["--", "sh", "-c", &script]].concat()));
    let (text, status) = answer(&ran.out, case);
    let said: Value = serde_json::from_str(text).unwrap_or_else(|error| {
        panic!("{kernel} {case} {status}: {error}: {} {}", ran.out, ran.err)
    });
    let names = |list: &str| -> Vec<String> {
        let list = said[list].as_array().into_iter().flatten();
        list.filter_map(|it| it["name"].as_str().map(str::to_owned)).collect()
    };
    let kills = said["events"].as_array().into_iter().flatten().filter(|it| it["kind"] == "kill");
    let kills: Vec<&Value> = kills.collect();
    let told = Told {
        has_trouble: !said["trouble"].is_null(),
        has_actor: names("growers").iter().chain(&names("areas")).any(|name| name == actor),
        has_kill: !kills.is_empty(),
        seconds_before_kill: kills.first().and_then(|kill| kill["seconds_since_reading"].as_f64()),
    };
    (told, ran.err)
}

fn check(kernel: &str, wanted: Incident) {
    let (told, output) = ask(kernel, wanted.case, wanted.actor);
    let is_right = told.has_trouble && told.has_actor && (told.has_kill || !wanted.has_kill);
    assert!(is_right, "{kernel} {wanted:?}: {told:?}\n{output}");
}

fn find(case: &str) -> Incident {
    *INCIDENTS.iter().find(|it| it.case == case).unwrap()
}

#[test]
fn guest_of_bookworm_says_why_a_limit_killed() {
    check("bookworm", find("limit"));
}

#[test]
fn guest_of_trixie_says_who_took_all_memory_at_once() {
    check("trixie", find("burst"));
}

#[test]
fn guest_of_sid_says_who_filled_zram() {
    check("sid", find("zram"));
}

#[test]
fn guest_of_trixie_invents_nothing_when_calm() {
    let (told, output) = ask("trixie", "calm", "");
    assert!(!told.has_trouble && !told.has_kill, "{told:?}\n{output}");
}

/// One incident, or all of them on three kernels as often as asked; a row of the table for each.
#[test]
fn guest_incidents_as_many_as_asked() {
    const KERNELS: [&str; 3] = ["bookworm", "trixie", "sid"];
    let rounds = std::env::var("PAGEWISE_INCIDENTS").ok();
    let rounds = rounds.map(|it| it.parse::<usize>().expect("a number of rounds"));
    let each =
        || KERNELS.into_iter().flat_map(|kernel| INCIDENTS.iter().map(move |it| (kernel, *it)));
    let all: Vec<(&str, Incident)> = match rounds {
        Some(rounds) => std::iter::repeat_with(each).take(rounds).flatten().collect(),
        None => vec![("trixie", find("leak"))],
    };
    let mut wrong = Vec::new();
    for (kernel, wanted) in all {
        let (told, output) = ask(kernel, wanted.case, wanted.actor);
        let before = told.seconds_before_kill;
        let before = before.map_or_else(|| "–".to_owned(), |it| format!("{it:.1}"));
        let named = [told.has_trouble, told.has_actor].map(|it| if it { "yes" } else { "no" });
        println!("| {kernel} | {} | {} | {before} |", wanted.case, named.join(" | "));
        if !told.has_trouble || !told.has_actor {
            wrong.push(format!("{kernel} {}: {told:?}\n{output}", wanted.case));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
