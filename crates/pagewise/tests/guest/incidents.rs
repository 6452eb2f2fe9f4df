// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Planted incidents in guests, beside `pagewise monitor`: `pagewise why` names the trouble and the actor, and
//! nothing on a calm guest.
//!
//! The guests' clock counts instructions (`--count`): one instruction takes a nanosecond, and idle time is skipped. So
//! the load of this machine does not decide how often the monitor reads, and a calm hour passes within a minute.
//!
//! `cargo xtask incidents` plants those of [`VARIATIONS`] on each kernel, as many variations as `PAGEWISE_INCIDENTS`
//! says, and prints the rows of the table in docs/measured/incidents.md; `PAGEWISE_CALM_HOURS` does so for calm guests.

use serde_json::Value;

use crate::boot::{answer, finish, lab};
use crate::example::into_guest;

const SCRIPT: &str = include_str!("incidents.sh");
const KERNELS: [&str; 3] = ["bookworm", "trixie", "sid"];

/// What must be named.
#[derive(Debug, Clone, Copy)]
struct Incident {
    case: &'static str,
    /// Each must be a program that took memory, in `growers`; or the memory of no process, in `areas`.
    actors: &'static [&'static str],
    has_kill: bool,
}

const fn incident(case: &'static str, actors: &'static [&'static str], has_kill: bool) -> Incident {
    Incident { case, actors, has_kill }
}

const INCIDENTS: &[Incident] = &[
    incident("leak", &["leak"], true),
    incident("leaks", &["leak", "second_leak"], true),
    incident("burst", &["burst"], true),
    incident("limit", &["leak"], true),
    incident("nested", &["leak"], true),
    incident("high", &["leak"], false),
    incident("swap", &["leak"], true),
    incident("zram", &["leak"], true),
    incident("slab", &["kernel objects (slab)"], true),
    incident("storm", &["one_of_many"], true),
    incident("thp", &["hold"], true),
    incident("thrash", &["thrash"], false),
    incident("killer", &["leak"], true),
];

/// Incidents that are planted one after the other in one guest.
#[derive(Debug, Clone, Copy)]
struct Variation<'a> {
    memory: &'a str,
    /// Variables of the script.
    variables: &'a str,
    cases: &'a str,
}

/// A guest's clock depends on nothing but its instructions, so that the same incident on the same kernel shows nothing
/// new. What varies is the guest's memory, and speed, size, number and order of what is planted.
const VARIATIONS: &[Variation<'_>] = &[
    Variation { memory: "320M", variables: "", cases: "leak burst limit swap zram slab storm thp" },
    Variation {
        memory: "448M",
        variables: "PAUSE=0.02; LIMIT=90; SWAP=100; ZRAM=64; EACH=3; AT_ONCE=30; HUGE=100; OVER=80",
        cases: "thrash high nested leaks leak burst limit zram swap storm thp slab killer",
    },
];

/// What `why --json` said of an incident.
#[derive(Debug)]
struct Told {
    has_trouble: bool,
    has_actor: bool,
    has_kill: bool,
    /// Time from the last reading to the first kill.
    seconds_before_kill: Option<f64>,
    /// The longest time between two readings of the trouble.
    longest_seconds: Option<f64>,
}

impl Told {
    fn is_right(&self, wanted: Incident) -> bool {
        self.has_trouble && self.has_actor && (self.has_kill || !wanted.has_kill)
    }
}

/// Runs a script with these cases and variables in a guest; returns its output, and its messages.
fn run(kernel: &str, variation: Variation<'_>) -> (String, String) {
    let Variation { memory, variables, cases } = variation;
    let script = format!("CASES='{cases}'; {variables}\n{SCRIPT}");
    let options = ["--quiet", "--kernel", kernel, "--memory", memory, "--deadline", "59m"];
    let counted = ["--count", "--boots", "1", "--module", "null_blk"];
    let mut files = into_guest("hold");
    if let Some(program) = earlyoom() {
        files.extend(["--file".to_owned(), format!("{program}:/earlyoom")]);
    }
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let command = ["--", "sh", "-c", &script];
    let ran = finish(&mut lab(&[&options[..], &counted, &files, &command].concat()));
    (ran.out, ran.err)
}

/// The program earlyoom, which `cargo xtask incidents` fetches.
fn earlyoom() -> Option<String> {
    std::env::var("PAGEWISE_EARLYOOM").ok()
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
        has_actor: {
            let named = [names("growers"), names("areas")].concat();
            wanted.actors.iter().all(|actor| named.iter().any(|name| name == actor))
        },
        has_kill: !kills.is_empty(),
        seconds_before_kill: kills.first().and_then(|kill| kill["seconds_since_reading"].as_f64()),
        longest_seconds: said["trouble"]["longest_seconds_between_readings"].as_f64(),
    }
}

/// Plants these incidents in one guest.
fn check(kernel: &str, cases: &str) {
    let (out, err) = run(kernel, Variation { cases, ..VARIATIONS[0] });
    for case in cases.split(' ') {
        let wanted = find_incident(case);
        let told = understand(kernel, wanted, &out, &err);
        assert!(told.is_right(wanted), "{kernel} {wanted:?}: {told:?}\n{err}\n{out}");
    }
}

fn find_incident(case: &str) -> Incident {
    *INCIDENTS.iter().find(|it| it.case == case).unwrap()
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
    let variables = format!("HOURS={hours}");
    let calm = Variation { memory: "320M", variables: &variables, cases: "calm" };
    let (out, err) = run(kernel, calm);
    let cases = out.lines().filter_map(|line| line.strip_prefix("== ")).collect::<Vec<_>>();
    // for each hour: its worst time, and two times whose windows cover the whole hour
    assert_eq!(cases.len(), 1 + 3 * hours, "{kernel}: {out} {err}");
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

/// One incident, or many on three kernels; a row of the table for each.
#[test]
fn guest_incidents_as_many_as_asked() {
    let number = |name: &str| {
        let number = std::env::var(name).ok();
        number.map(|it| it.parse::<usize>().expect("a number"))
    };
    let Some(variations) = number("PAGEWISE_INCIDENTS") else { return check("trixie", "slab") };
    let mut wrong = Vec::new();
    for (number, variation) in VARIATIONS.iter().enumerate().take(variations) {
        for kernel in KERNELS {
            let (out, err) = run(kernel, *variation);
            let cases =
                variation.cases.split(' ').filter(|it| *it != "killer" || earlyoom().is_some());
            for wanted in cases.map(find_incident) {
                let told = understand(kernel, wanted, &out, &err);
                println!("{}", row(kernel, number + 1, wanted, &told));
                if !told.is_right(wanted) {
                    wrong.push(format!("{kernel} {}: {told:?}\n{err}", wanted.case));
                }
            }
        }
    }
    if let Some(hours) = number("PAGEWISE_CALM_HOURS") {
        KERNELS.iter().for_each(|kernel| check_calm(kernel, hours));
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn row(kernel: &str, variation: usize, wanted: Incident, told: &Told) -> String {
    let seconds = |it: Option<f64>| it.map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
    let named = [told.has_trouble, told.has_actor].map(|it| if it { "yes" } else { "**no**" });
    format!(
        "| {} | {variation} | {kernel} | {} | {} | {} |",
        wanted.case,
        named.join(" | "),
        seconds(told.seconds_before_kill),
        seconds(told.longest_seconds),
    )
}
