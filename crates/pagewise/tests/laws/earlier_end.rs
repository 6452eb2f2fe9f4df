// SPDX-License-Identifier: Apache-2.0 OR MIT
//! At the start of an interval only counters are read. Reading everything there would not change
//! any output.

use std::time::Duration;

use pagewise_decide::{diagnose, judge};
use pagewise_model::{Cost, Interval, Snapshot};
use pagewise_observe::{Scope, snapshot};
use pagewise_report::text::{self, TextStyle};
use pagewise_report::view::{ProcessView, Sort, View};
use pagewise_report::{Answer, json};

use crate::scene::{self, Scene, slugs};

/// Every recording, and every case in which a rule fires. Files that the start lacks are copied
/// from the end.
fn scenes() -> impl Iterator<Item = (String, Scene)> {
    let recorded = slugs().into_iter().map(|slug| (slug.clone(), Scene::load(&slug)));
    let fires = crate::cases::all().map(|case| {
        (format!("{}: {}", case.id, case.reason), (case.fires)(Scene::load(case.host)))
    });
    recorded.chain(fires).map(|(name, scene)| (name, filled(scene)))
}

fn filled(scene: Scene) -> Scene {
    let files = scene.clone().into_files();
    let ends = files.iter().filter_map(|(path, bytes)| Some((path.strip_prefix("end/")?, bytes)));
    let missing = ends.filter(|(path, _)| !files.contains_key(&format!("start/{path}")));
    missing.fold(scene, |scene, (path, bytes)| scene.file_at("start", path, bytes))
}

/// Everything that is printed about an interval: the document, status, changes of processes, and
/// the report in each order.
fn told(interval: &Interval) -> Vec<String> {
    let (findings, verdict) = (diagnose(interval), judge(interval));
    let answer = Answer {
        interval,
        verdict: &verdict,
        findings: &findings,
        hidden: 0,
        owners: &[],
        estimates: &[],
        cost: Cost::default(),
    };
    let page = |sort| {
        let processes = Some(ProcessView { sort, ..ProcessView::default() });
        let view = View { processes, ..View::default() };
        text::report_in_view(&answer, &view, TextStyle { width: 100, colour: false })
    };
    let pages = [Sort::Size, Sort::Swap, Sort::Growth, Sort::Refaults, Sort::Cpu].map(page);
    let thp = format!("{:?}", interval.process_changes());
    [json::report(&answer), text::status(&answer, TextStyle { width: 100, colour: false }), thp]
        .into_iter()
        .chain(pages)
        .collect()
}

#[test]
fn an_interval_needs_nothing_but_counters_at_its_start() {
    let (mut all, mut with_rates) = (0, 0);
    for (name, scene) in scenes() {
        let recording = scene.recording("scene");
        let counted = scene::interval(&recording);
        let whole = snapshot(recording.start.as_ref().unwrap(), &Scope::everything(Duration::ZERO));
        assert!(whole.bytes_read > counted.start.as_ref().unwrap().bytes_read, "{name}");
        // of processes, other files are read at the start, so they are not compared
        let processes = counted.start.as_ref().unwrap().processes.clone();
        let whole = Snapshot { processes, ..whole };
        let whole = Interval { start: Some(Box::new(whole)), end: counted.end.clone() };
        let (short, long) = (told(&counted), told(&whole));
        for (short, long) in short.iter().zip(&long) {
            assert!(short == long, "{name}:\n{short}\ninstead of\n{long}");
        }
        all += 1;
        with_rates += usize::from(long != told(&Interval::single(counted.end)));
    }
    assert!(with_rates > 60 && with_rates * 10 > all * 9, "{with_rates} of {all} have rates");
}
