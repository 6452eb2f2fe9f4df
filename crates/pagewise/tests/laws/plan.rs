// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `plan` prints for recorded hosts, and that its JSON document contains the plan.

use pagewise_model::plan::{Goal, Plan};
use pagewise_model::{Cost, Installation};
use pagewise_plan::{Measured, Request, make_plan};
use pagewise_report::text::{self, TextStyle};
use pagewise_report::{PlannedChanges, json};

use crate::program::run_in;
use crate::scene::{Scene, recordings, slugs};

/// Hosts whose plans a person has read in full.
const READ: [&str; 4] = [
    "debian-trixie-6.12-x86_64-256m-oom-host",
    "debian-bookworm-6.1-x86_64-512m-zram-behind-disk",
    "debian-sid-7.2-x86_64-512m-zswap-zram",
    "debian12-6.18-x86_64-24g-plain",
];

/// A host for which there is no recording: 7.2 with zswap, short of memory, with swap on NVMe.
const WITH_NVME: &str = "made-7.2-nvme";

/// `BLESS=1` rewrites the files; a person must read the difference.
#[test]
fn plans_are_printed_as_they_were() {
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let nvme = crate::cases::on_nvme(Scene::load(crate::cases::ZSWAP_OFF), 102_400);
    let read = READ.map(|slug| (slug, Scene::load(slug)));
    for (slug, scene) in read.into_iter().chain([(WITH_NVME, nvme)]) {
        let interval = scene.replay();
        let installation =
            Installation { has_systemd: !slug.contains("24g"), ..Installation::default() };
        let (measured, goal, only) = (&Measured::default(), Goal::Balanced, &[][..]);
        let request = Request {
            interval: &interval,
            installation: &installation,
            measured,
            goal,
            only,
            wants: &[],
            anyway: false,
        };
        let plan = make_plan(&request);
        let findings = pagewise_decide::diagnose(&interval);
        let not_addressed = pagewise_plan::find_not_addressed(&plan, &findings, only, false);
        // each finding is behind a step, or is listed with what to do instead
        for finding in &findings {
            let id = Some(finding.id);
            let has_step = plan.steps.iter().any(|step| step.finding.as_deref() == id);
            let is_listed = not_addressed.iter().any(|left| left.title == finding.title);
            assert!(!(has_step && is_listed), "{slug}: {}", finding.title);
            let has_steps = plan.steps.iter().any(|step| step.finding.is_some());
            assert!(is_listed || has_steps, "{slug}: {}", finding.title);
        }
        // the wide page has all that was considered
        let planned = |width| PlannedChanges {
            snapshot: &interval.end,
            plan: &plan,
            not_addressed: &not_addressed,
            why_not: width > 80,
            cost: Cost::default(),
        };
        let shown = |width| text::plan(&planned(width), TextStyle { width, colour: false });
        for (name, printed) in [
            ("plan-80.txt", shown(80)),
            ("plan-120.txt", shown(120)),
            ("plan.diff", text::plan_diff(&plan)),
        ] {
            let path = golden.join(slug).join(name);
            if std::env::var_os("BLESS").is_some() {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, &printed).unwrap();
            }
            let known = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(printed, known, "{}: `cargo xtask bless` rewrites it", path.display());
        }
        let document = json::plan(&planned(80));
        assert_eq!(serde_json::from_str::<Plan>(&document).unwrap(), plan, "{slug}");
    }
}

/// The program's document can be read back as a plan, and is the same each time.
#[test]
fn every_recorded_host_has_one_plan() {
    for slug in slugs() {
        let archive = format!("{slug}.tar");
        let plan = || {
            let ran = run_in(&recordings(), &["plan", "--json", "--root", &archive]);
            assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{slug}");
            serde_json::from_str::<Plan>(&ran.out).unwrap()
        };
        assert_eq!(plan(), plan(), "{slug}");
    }
}
