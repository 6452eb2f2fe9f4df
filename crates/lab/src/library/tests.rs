// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that the built-in experiments are valid, and that errors in files are reported with their
//! line.

use std::fmt::Write as _;
use std::path::Path;

use pagewise_model::{Bytes, TrialSwap};
use proptest::prelude::*;

use super::{BUILT_IN, Cell, Choice, DefaultRunner, File, Runner, cells, estimate_seconds};

const PROGRAM: &str = "/usr/bin/pagewise";

/// Text of an experiment on the host; `more` is added after its two arms.
fn host(more: &str) -> String {
    format!(
        "about = \"x\"\n[workload]\nkind = \"swap\"\n[machine]\nlimit = \"64M\"\n\
         [measure]\nprimary = \"time\"\n[[arm]]\nname = \"off\"\nswap = []\n\
         [[arm]]\nname = \"file\"\nswap = [{{ file = \"64M\" }}]\n{more}"
    )
}

fn read(text: &str, choice: &Choice) -> Result<Vec<Cell>, String> {
    let file = File::read("x", "x.toml", text).map_err(|wrong| wrong.to_string())?;
    cells(&file, choice, Path::new(PROGRAM)).map_err(|wrong| wrong.to_string())
}

fn refused(text: &str, says: &str) {
    let why = read(text, &Choice::default()).expect_err(text);
    assert!(why.contains(says), "expected {says:?}, found {why:?} for\n{text}");
}

#[test]
fn every_experiment_that_comes_with_the_program_makes_sense() {
    for (name, text) in BUILT_IN {
        let file = File::read(name, name, text).unwrap();
        for preview in [false, true] {
            let choice = Choice { preview, ..Choice::default() };
            let all = cells(&file, &choice, Path::new(PROGRAM)).unwrap();
            assert!(!all.is_empty() && all.iter().all(|cell| cell.experiment.check().is_ok()));
            assert!(file.about().len() > 20 && !file.text.contains('\t'), "{name}");
        }
    }
}

/// The duration is limited and estimated: at most 3 minutes for a preview, and an estimate exists
/// for the whole experiment.
#[test]
fn a_preview_of_swap_is_a_matter_of_minutes() {
    let (name, text) = BUILT_IN.iter().find(|(name, _)| *name == "swap").unwrap();
    let file = File::read(name, name, text).unwrap();
    let choice = Choice { preview: true, ..Choice::default() };
    let all = cells(&file, &choice, Path::new(PROGRAM)).unwrap();
    let names: Vec<&str> = all[0].experiment.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!(names, ["off", "file-0", "file-60", "file-200", "zram"]);
    assert_eq!((all[0].experiment.runs(), all[0].experiment.warm_up), (16, 0));
    assert!(estimate_seconds(&all[0]) <= 180.0, "{}", estimate_seconds(&all[0]));
}

#[test]
fn guests_have_a_cell_for_each_kernel_and_memory_size() {
    let text = host("").replace(
        "limit = \"64M\"",
        "kernels = [\"bookworm\", \"sid\"]\nmemory = [\"320M\", \"1G\"]",
    );
    let choice = Choice { place: Some(DefaultRunner::Guest), ..Choice::default() };
    let all = read(&text, &choice).unwrap();
    let names: Vec<&str> = all.iter().map(|cell| cell.name.as_str()).collect();
    assert_eq!(names, ["bookworm-320M", "bookworm-1024M", "sid-320M", "sid-1024M"]);
    assert!(all.iter().all(|cell| cell.experiment.program.argv()[0] == "/init"));
    let one =
        Choice { kernels: vec!["trixie".into()], memory: vec![Bytes::new(512 << 20)], ..choice };
    assert_eq!(read(&text, &one).unwrap()[0].name, "trixie-512M");
}

/// Each cell has its own folder, so the names of cells must differ.
#[test]
fn both_flavours_of_a_suite_have_cells_with_names_of_their_own() {
    let kernels = "limit = \"64M\"\nrunner = \"guest\"\n\
        kernels = [\"trixie\", \"trixie/generic\", \"sid/generic\", \"./boot/vmlinuz-6.1\"]";
    let all = read(&host("").replace("limit = \"64M\"", kernels), &Choice::default()).unwrap();
    let names: Vec<&str> = all.iter().map(|cell| cell.name.as_str()).collect();
    let expected = ["trixie-512M", "trixie-generic-512M", "sid-generic-512M", "vmlinuz-6-1-512M"];
    assert_eq!(names, expected);
    let booted = all.iter().map(|cell| match &cell.runner {
        Runner::Guest(machine) => machine.kernel.to_string(),
        Runner::Host => panic!("{}", cell.name),
    });
    let typed = ["trixie", "trixie/generic", "sid/generic", "./boot/vmlinuz-6.1"];
    assert_eq!(booted.collect::<Vec<_>>(), typed);
}

#[test]
fn what_is_typed_goes_over_what_is_written() {
    let more = "[[arm]]\nname = \"big\"\nswap = []\nworkload = { data = \"300M\" }\n";
    let typed = |set: &[&str]| Choice {
        arms: vec!["big".into(), "off".into()],
        pairs: Some(9),
        set: set.iter().map(|&text| text.to_owned()).collect(),
        ..Choice::default()
    };
    let all = read(&host(more), &typed(&["workload.seconds=2.5", "workload.contents=text:100"]));
    let experiment = &all.unwrap()[0].experiment;
    assert_eq!(experiment.pairs, 9);
    assert_eq!(
        experiment.arms.iter().map(|arm| arm.name.as_str()).collect::<Vec<_>>(),
        ["off", "big"]
    );
    let own = experiment.arms[1].program.as_ref().unwrap().argv().last().unwrap();
    assert!(own.contains("\"300M\"") && own.contains("2.5") && own.contains("text:100"), "{own}");
    for bad in ["data=1M", "workload.=1", "workload.dta=1", "workload.data=many"] {
        assert!(read(&host(more), &typed(&[bad])).is_err(), "{bad}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    refused("about = 1", "x.toml:1: invalid type");
    refused("about = \"x\"\nabout = \"y\"", "x.toml:2: duplicate key");
    refused(&host("nmae = 1\n"), "x.toml:14: unknown field `nmae`");
    refused(
        &host("").replace("kind = \"swap\"", "kind = \"swap\"\ndta = 1"),
        "x.toml:2: unknown field `dta`",
    );
    refused(&host("").replace("\"swap\"", "\"swop\""), "x.toml:2: unknown variant `swop`");
    refused(&host("").replace("\"64M\"", "\"64\""), "expected a size as 256M or 2G");
    refused(&host("").replace("\"time\"", "\"tiem\""), "x.toml:6: expected major-faults");
    refused(&host("set = { \"vm.swappines\" = 1 }"), "x.toml:11: arm \"file\": no setting");
    refused(&host("set = { \"vm.swappiness\" = 900 }"), "from 0 to 200");
    refused(&host("set = { \"vm.swappiness\" = 1.5 }"), "expected a number, true, false or text");
    refused(&host("workload = { contents = \"tekst:100\" }"), "workload: contents: expected parts");
    refused(&host("[[arm]]\nname = \"off\"\n"), "x.toml:14: two arms are called \"off\"");
    refused(
        &host("[[arm]]\nname = \"none\"\nswap = []\n"),
        "arms \"off\" and \"none\" are the same",
    );
    refused(&host("[[arm]]\nname = \"a b\"\n"), "expected a name of at most 24");
    refused(
        &host("[[arm]]\nname = \"d\"\nswap = [{ disk = true }]\n"),
        "swap on a disk is for guests",
    );
    refused(
        &host("").replace("limit", "memory").replace("\"64M\"\n", "[\"64M\"]\n"),
        "expected a limit",
    );
    refused(&host("").replace("primary", "pairs = 0\nprimary"), "expected 1 to 100 pairs");
    refused(
        &host("").replace("primary", "guards = [\"time\"]\nprimary"),
        "time is asked for twice",
    );
    refused(
        &host("").replace("primary", "higher_is_better = true\nprimary"),
        "no metric is a regular",
    );
    refused("about = \"x\"\n[workload]\nkind = \"swap\"\n[measure]\nprimary = \"time\"", "found 0");
    refused("about = \"x\"\n[workload]\nkind = \"swap\"", "missing field `measure`");
}

#[test]
fn only_a_workload_that_prints_the_line_is_counted_from_there() {
    let from = |line: &str| host("").replace("primary", &format!("from = \"{line}\"\nprimary"));
    let all = read(&from("steady"), &Choice::default()).unwrap();
    assert_eq!(all[0].experiment.counted_from.as_deref(), Some("steady"));
    refused(&from("stedy"), "x.toml:6: from: expected \"steady\" with a workload that prints it");
    let other = "about = \"x\"\n[workload]\nkind = \"hugepages\"\n[machine]\nlimit = \"64M\"\n[measure]\n\
        primary = \"time\"\nfrom = \"steady\"\n[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\nswap = []\n";
    refused(other, "from: expected \"steady\"");
    let command = other.replace("\"hugepages\"", "\"command\"\nargv = [\"true\"]");
    let line = read(&command.replace("steady", "ready to serve"), &Choice::default()).unwrap();
    assert_eq!(line[0].experiment.counted_from.as_deref(), Some("ready to serve"));
    refused(&command.replace("\"steady\"", "\"\""), "expected a line of 1 to 200 bytes");
}

#[test]
fn a_neighbour_is_a_workload_with_a_limit() {
    let with = |keys: &str| format!("{}[neighbour]\n{keys}", host(""));
    let all = read(&with("kind = \"tiers\"\nlimit = \"100M\"\nhot = \"150M\""), &Choice::default());
    let neighbour = all.unwrap()[0].experiment.neighbour.clone().unwrap();
    assert_eq!(neighbour.memory_limit_bytes, Some(100 << 20));
    assert!(neighbour.program.argv().last().unwrap().contains("\"150M\""));
    assert_eq!(neighbour.ready, None);
    let ready = |keys: &str| read(&with(&format!("limit = \"1M\"\n{keys}")), &Choice::default());
    let line = |keys: &str| ready(keys).unwrap()[0].experiment.neighbour.clone().unwrap().ready;
    assert_eq!(line("kind = \"tiers\"\nready = \"filled\"").as_deref(), Some("filled"));
    let command = "kind = \"command\"\nargv = [\"true\"]\nready = \"READY\"";
    assert_eq!(line(command).as_deref(), Some("READY"));
    let other = "limit = \"1M\"\nkind = \"tiers\"\nready = ";
    refused(&with(&format!("{other}\"full\"")), "neighbour: ready: expected \"filled\" or");
    refused(&with(&format!("{other}1")), "neighbour: ready: invalid type");
    refused(&with(&format!("limit = \"1M\"\n{}", command.replace("READY", ""))), "1 to 200 bytes");
    refused(&with("kind = \"tiers\""), "x.toml:14: neighbour: expected a limit");
    refused(&with("kind = \"tiers\"\nlimit = \"100\""), "neighbour: expected a size as 256M");
    refused(&with("kind = \"tiers\"\nlimit = \"1M\"\nhott = 1"), "neighbour: unknown field");
    refused(&with("kind = \"swap\"\nlimit = \"1M\""), "neighbour: expected kind = \"tiers\"");
    let setting = host("set = { \"cgroup.memory.zswap.max[neighbour]\" = \"8M\" }");
    refused(&setting, "arm file has a setting of a neighbour, and the experiment has none");
}

#[test]
fn a_guest_that_counts_has_no_disk() {
    let guest = |machine: &str| {
        host("").replace("limit = \"64M\"", &format!("runner = \"guest\"\n{machine}"))
    };
    refused(
        &guest("count = true\ndisk = \"64M\""),
        "x.toml:4: count: a disk takes no instructions",
    );
    refused(&guest("count = true"), "and so no file for swap");
    refused(&guest("count = true\ncpus = 2"), "1 with count");
    refused(&guest("kernels = [\"-x\"]"), "expected a suite, SUITE/generic, a version");
    refused(&guest("kernels = [\"sid\", \"sid\"]"), "sid-512M is asked for twice");
    let disk = guest("").replace("file = \"64M\"", "disk = true");
    refused(&disk, "this guest has none");
    let area = "zram = \"64M\", writeback = { every = \"5s\" }";
    let behind = |machine: &str| guest(machine).replace("file = \"64M\"", area);
    refused(&behind(""), "this guest has none");
    assert!(read(&behind("disk = \"64M\""), &Choice::default()).is_ok());
    let both = behind("disk = \"64M\"").replace(" }]", " }, { disk = true }]");
    refused(&both, "arm file has one disk for two areas");
    let choice = Choice { no_count: true, ..Choice::default() };
    assert!(read(&guest("count = true"), &choice).is_ok());
}

/// Drawn parameters of an arm: size in MiB and priority of each swap area, and swappiness.
type Drawn = (Vec<(u64, Option<i16>)>, u8);

/// Text of an experiment file with these arms.
fn text(arms: &[Drawn]) -> String {
    let mut text = "about = \"x\"\n[workload]\nkind = \"swap\"\n[machine]\nlimit = \"64M\"\n\
        [measure]\nprimary = \"cpu\"\n"
        .to_owned();
    for (at, (areas, swappiness)) in arms.iter().enumerate() {
        let area = |(mib, priority): &(u64, Option<i16>)| {
            let kind = if mib % 2 == 0 { "file" } else { "zram" };
            let priority = priority.map(|it| format!(", priority = {it}")).unwrap_or_default();
            format!("{{ {kind} = \"{mib}M\"{priority} }}")
        };
        let areas: Vec<String> = areas.iter().map(area).collect();
        let _ = write!(
            text,
            "[[arm]]\nname = \"arm-{at}\"\nswap = [{}]\nset = {{ \"vm.swappiness\" = {swappiness}, \
             \"vm.page-cluster\" = {at} }}\n",
            areas.join(", ")
        );
    }
    text
}

proptest! {
    /// The arms that are run are exactly those that are written, in the same order.
    #[test]
    fn arms_survive_their_text(
        arms in prop::collection::vec(
            (prop::collection::vec((1u64..5000, prop::option::of(0i16..)), 0..4), 0u8..=200),
            2..=16,
        ),
    ) {
        let all = read(&text(&arms), &Choice::default()).unwrap();
        prop_assert_eq!(all.len(), 1);
        prop_assert!(matches!(all[0].runner, Runner::Host));
        let found = &all[0].experiment.arms;
        prop_assert_eq!(found.len(), arms.len());
        for ((areas, swappiness), arm) in arms.iter().zip(found) {
            let expected: Vec<TrialSwap> = areas
                .iter()
                .map(|&(mib, priority)| match mib % 2 {
                    0 => TrialSwap::File { size_bytes: mib << 20, priority },
                    _ => TrialSwap::Zram {
                        size_bytes: mib << 20,
                        algorithm: None,
                        mem_limit_bytes: None,
                        writeback: None,
                        priority,
                    },
                })
                .collect();
            prop_assert_eq!(arm.swap.as_ref(), Some(&expected));
            let set = arm.settings.iter().find(|set| set.knob == "vm.swappiness").unwrap();
            prop_assert_eq!(&set.value, &swappiness.to_string());
            prop_assert_eq!(arm.settings.len(), 2);
        }
    }

    /// Invalid text is refused and never causes a panic.
    #[test]
    fn broken_text_is_refused_or_makes_sense(at in 0usize..400, with in "[ -~\n]{0,3}") {
        let mut text = host("");
        let at = at.min(text.len());
        text.replace_range(at..(at + 1).min(text.len()), &with);
        if let Ok(all) = read(&text, &Choice::default()) {
            prop_assert!(all.iter().all(|cell| cell.experiment.check().is_ok()));
        }
    }
}
