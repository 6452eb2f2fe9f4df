// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab run` on this host with real swap: whatever the workloads do, nothing is left
//! behind.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::machine::{Place, read, said};
use pagewise_model::knob::{Access, Domain, KNOBS};
use serde_json::Value;

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";

/// Runs an experiment file with this text; it must exit with this status and leave nothing behind.
fn lab(place: &Place, text: &str, options: &[&str], status: i32) -> Value {
    let (file, before) = (file(place, text).display().to_string(), read(SWAPPINESS));
    let ended = place.output(&[&["lab", "run", &file, "--json"], options].concat());
    assert_eq!(ended.status.code(), Some(status), "{}", said(&ended));
    assert!(!place.lent.all().is_empty(), "each run has a cgroup");
    assert_eq!((place.lent.there(), read(SWAPPINESS)), (Vec::new(), before), "{}", said(&ended));
    serde_json::from_slice(&ended.stdout).expect("JSON on standard output")
}

fn file(place: &Place, text: &str) -> PathBuf {
    let path = place.folder.path().join("own.toml");
    std::fs::write(&path, text).unwrap();
    path
}

fn runs<'a>(document: &'a Value, arm: &str) -> Vec<&'a Value> {
    let all = document["cells"][0]["runs"].as_array().expect("runs");
    all.iter().filter(|run| run["arm"] == arm).collect()
}

const TINY: &str = "about = \"tiny\"\n[workload]\nkind = \"swap\"\ncode = \"4M\"\ndata = \"24M\"\n\
    window = \"8M\"\nstep = \"8M\"\nseconds = 1.0\ncontents = \"text:100\"\n[machine]\nlimit = \"20M\"\n\
    [measure]\nprimary = \"operations\"\npairs = 1\nwarm_up = 0\n[[arm]]\nname = \"zram\"\n\
    swap = [{ zram = \"64M\" }]\n[[arm]]\nname = \"file\"\nswap = [{ file = \"64M\" }]\n\
    set = { \"vm.swappiness\" = 100 }\n";

#[test]
fn an_own_experiment_swaps_and_gives_all_back() {
    let place = Place::new();
    let evidence = place.folder.path().join("evidence").display().to_string();
    let document = lab(&place, TINY, &["--evidence", &evidence], 0);
    place.lent.assert_zram_went_back();
    assert_eq!(document["schema"], "pagewise/lab/1");
    assert_eq!(document["cells"][0]["cell"], "host");
    for arm in ["zram", "file"] {
        for run in runs(&document, arm) {
            assert_eq!((&run["how"], &run["status"]), (&"exited".into(), &0.into()), "{run}");
            assert!(run["values"]["operations"].as_f64().unwrap() > 0.0, "{run}");
            assert!(run["values"]["swapped-out"].as_f64().unwrap() > 0.0, "{run}");
        }
    }
    let replayed = place.output(&["lab", "replay", &evidence]);
    assert!(replayed.status.success(), "{}", said(&replayed));
    let described = std::fs::read_to_string(Path::new(&evidence).join("experiment.json")).unwrap();
    let described: Value = serde_json::from_str(&described).unwrap();
    assert_eq!(described["source"]["text"], TINY);
}

fn commands(arms: &str) -> String {
    within("10m", arms)
}

/// An experiment that ends runs after this deadline.
fn within(deadline: &str, arms: &str) -> String {
    format!(
        "about = \"x\"\n[workload]\nkind = \"command\"\nargv = [\"true\"]\n[machine]\nlimit = \"16M\"\n\
         [measure]\nprimary = \"cpu\"\npairs = 1\nwarm_up = 0\ndeadline = \"{deadline}\"\n\
         [[arm]]\nname = \"good\"\n[[arm]]\nname = \"same\"\nset = {{ \"vm.swappiness\" = 61 }}\n{arms}"
    )
}

/// Each of these workloads could break a whole session; here each breaks only its own arm.
#[test]
fn workloads_that_misbehave_cost_their_own_arm() {
    let place = Place::new();
    let arm = |name: &str, script: &str| {
        format!(
            "[[arm]]\nname = \"{name}\"\nworkload = {{ argv = [\"sh\", \"-c\", '''{script}'''] }}\n"
        )
    };
    let arms = [
        arm("crash", "kill -SEGV $$"),
        arm("away", "setsid sleep 987 & exit 0"),
        arm("full", "exec dd if=/dev/zero of=/dev/null bs=64M count=1"),
    ];
    let document = lab(&place, &commands(&arms.concat()), &[], 0);
    let how = |arm: &str| runs(&document, arm).last().map(|run| run["how"].clone()).unwrap();
    assert_eq!(how("good"), "exited");
    assert_eq!(how("crash"), "killed");
    assert_eq!(how("away"), "exited");
    assert!(runs(&document, "away")[0]["left"].as_u64().unwrap() > 0);
    assert_eq!(how("full"), "out_of_memory");

    // how the other arms end depends on the load; it is only required that they run
    let deaf = arm("deaf", "trap '' TERM INT HUP; while :; do sleep 1; done");
    let document = lab(&place, &within("1s", &deaf), &[], 0);
    let how = |arm: &str| runs(&document, arm).last().map(|run| run["how"].clone()).unwrap();
    assert_eq!(how("deaf"), "timed_out");
    assert!(["good", "same"].iter().all(|arm| how(arm) != "not_run"), "{document:#}");
}

#[test]
fn a_full_disk_costs_the_folder_and_not_the_answer() {
    let mut place = Place::new();
    let evidence = place.small_disk().join("evidence").display().to_string();
    // a third arm, because with two equal arms an apparently clear difference would sometimes end
    // it early
    let third = "[[arm]]\nname = \"third\"\nset = { \"vm.swappiness\" = 62 }\n";
    let many = commands(third).replace("pairs = 1", "pairs = 12");
    let document = lab(&place, &many, &["--evidence", &evidence], 1);
    let runs = ["good", "same", "third"].map(|arm| runs(&document, arm)).concat();
    assert_eq!(runs.iter().filter(|run| run["pair"].is_u64()).count(), 3 * 12);
}

#[test]
fn an_arm_whose_knob_this_kernel_lacks_is_refused_and_the_others_run() {
    let place = Place::new();
    let lacks = |path: &str| !path.contains('{') && !Path::new("/").join(path).exists();
    let missing = KNOBS.iter().find(|knob| {
        let takes_1 = matches!(knob.domain, Domain::Bool | Domain::Int { min: ..=1, max: 1.. });
        takes_1 && knob.access == Access::ReadWrite && lacks(knob.path)
    });
    let name = missing.expect("no kernel has all settings, new ones and removed ones").name;
    let arm = format!("[[arm]]\nname = \"lacks\"\nset = {{ \"{name}\" = 1 }}\n");
    let document = lab(&place, &commands(&arm), &[], 0);
    let refused = runs(&document, "lacks");
    assert!(refused[0]["refused"].as_str().unwrap().contains(name), "{refused:?}");
    assert_eq!(refused[0]["how"], "not_run");
    assert!(runs(&document, "same").iter().all(|run| run["how"] == "exited"));
}

/// A process that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(what: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !what() {
        assert!(Instant::now() < until, "waited for a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn sleeping(place: &Place) -> Running {
    let text = "about = \"x\"\n[workload]\nkind = \"command\"\nargv = [\"sleep\", \"987\"]\n\
        [measure]\nprimary = \"cpu\"\n[[arm]]\nname = \"a\"\nswap = [{ zram = \"32M\" }]\n\
        set = { \"vm.swappiness\" = 61 }\n[[arm]]\nname = \"b\"\n";
    let file = file(place, text).display().to_string();
    let mut command = place.command(&["lab", "run", &file]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let running = Running(child);
    wait_for(|| place.lent.has_zram() && place.lent.has_swap() && read(SWAPPINESS) == "61");
    running
}

#[test]
fn ctrl_c_gives_all_back() {
    let (place, before) = (Place::new(), read(SWAPPINESS));
    let mut running = sleeping(&place);
    crate::machine::run("kill", &["-INT", &running.0.id().to_string()]);
    assert_eq!(running.0.wait().unwrap().code(), Some(130));
    place.lent.assert_zram_went_back();
    assert_eq!(read(SWAPPINESS), before);
}

#[test]
fn killed_it_leaves_nothing_that_undo_does_not_find() {
    let (place, before) = (Place::new(), read(SWAPPINESS));
    let mut running = sleeping(&place);
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    let undone = place.output(&["undo"]);
    assert!(undone.status.success(), "{}", said(&undone));
    place.lent.assert_zram_went_back();
    assert_eq!(read(SWAPPINESS), before);
}
