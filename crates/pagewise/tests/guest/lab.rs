// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab run` in guests: the same program runs the experiment there and sends its results
//! to the host.

use std::path::Path;

use crate::boot::{finish, program};
use serde_json::Value;

/// Small enough for an emulated CPU, large enough to exceed its cgroup.
const COLD: &str = "about = \"x\"\n[workload]\nkind = \"coldpages\"\ndata = \"16M\"\nlibrary = \"8M\"\n\
    stream = \"8M\"\noperations = 20000\n[machine]\nrunner = \"guest\"\nkernels = [\"trixie\"]\n\
    memory = [\"256M\"]\nlimit = \"20M\"\ncount = true\n[measure]\nprimary = \"precision\"\n\
    guards = [\"scanned\", \"cpu\"]\npairs = 1\nwarm_up = 0\n[[arm]]\nname = \"off\"\n\
    swap = [{ zram = \"64M\" }]\nset = { \"mglru.enabled\" = 0 }\n[[arm]]\nname = \"on\"\n\
    swap = [{ zram = \"64M\" }]\nset = { \"mglru.enabled\" = 7 }\n";

fn file(folder: &Path, text: &str) -> String {
    let path = folder.join("own.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn guest_an_experiment_is_conducted_inside_and_judged_outside() {
    let folder = tempfile::tempdir().unwrap();
    let evidence = folder.path().join("evidence").display().to_string();
    let file = file(folder.path(), COLD);
    let ran = finish(program().args(["lab", "run", &file, "--json", "--evidence", &evidence]));
    assert_eq!(ran.status, 0, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    let cell = &document["cells"][0];
    assert_eq!((&cell["cell"], &cell["clock"]), (&"trixie-256M".into(), &"counted".into()));
    let runs = cell["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    for run in runs {
        let values = &run["values"];
        assert_eq!((&run["how"], &run["status"]), (&"exited".into(), &0.into()), "{run}");
        let precision = values["precision"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&precision), "{run}");
        assert!(values["scanned"].as_f64().unwrap() > 0.0, "{run}");
    }
    let time = cell["metrics"].as_array().unwrap().iter().find(|it| it["name"] == "time").unwrap();
    assert_eq!(time["verdict"], "undecided", "an emulated clock judges no time");
    let replayed = finish(program().args(["lab", "replay", &evidence]));
    assert_eq!(replayed.status, 0, "{}", replayed.err);
}

/// The first run completes; the second one crashes the guest.
#[test]
fn guest_that_dies_in_the_middle_leaves_the_runs_until_then() {
    let folder = tempfile::tempdir().unwrap();
    let evidence = folder.path().join("evidence");
    let script = "test -e /scratch/x && echo c > /proc/sysrq-trigger; touch /scratch/x";
    let text = format!(
        "about = \"x\"\n[workload]\nkind = \"command\"\nargv = [\"sh\", \"-c\", \"{script}\"]\n\
         [machine]\nrunner = \"guest\"\nmemory = [\"256M\"]\n[measure]\nprimary = \"cpu\"\npairs = 1\n\
         [[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\nswap = []\n"
    );
    let file = file(folder.path(), &text);
    let shown = evidence.display().to_string();
    let ran = finish(program().args(["lab", "run", &file, "--evidence", &shown]));
    assert_eq!(ran.status, 1, "{}", ran.err);
    assert!(ran.err.contains("trixie-256M: the kernel panicked"), "{}", ran.err);
    let kept = std::fs::read_to_string(evidence.join("runs.jsonl")).unwrap();
    assert_eq!(kept.lines().count(), 1, "{kept}");
}

#[test]
fn guest_several_kernels_have_a_folder_each() {
    let folder = tempfile::tempdir().unwrap();
    let evidence = folder.path().join("evidence");
    let text = "about = \"x\"\n[workload]\nkind = \"command\"\nargv = [\"true\"]\n[machine]\n\
        runner = \"guest\"\nkernels = [\"bookworm\", \"trixie\"]\nmemory = [\"256M\"]\ncount = true\n\
        [measure]\nprimary = \"cpu\"\npairs = 1\nwarm_up = 0\n[[arm]]\nname = \"a\"\n\
        [[arm]]\nname = \"b\"\nset = { \"vm.swappiness\" = 1 }\n";
    let file = file(folder.path(), text);
    let shown = evidence.display().to_string();
    let ran = finish(program().args(["lab", "run", &file, "--evidence", &shown]));
    assert_eq!(ran.status, 0, "{}", ran.err);
    for cell in ["bookworm-256M", "trixie-256M"] {
        assert!(evidence.join(cell).join("summary.json").is_file(), "{cell}");
        assert!(ran.out.contains(cell), "{}", ran.out);
    }
    for words in [&["lab", "replay", &shown][..], &["lab", "compare", &shown, &shown]] {
        let again = finish(program().args(words));
        assert_eq!(again.status, 0, "{words:?}: {}", again.err);
    }
}
