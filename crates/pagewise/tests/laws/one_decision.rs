// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verbs do not contradict each other: what `doctor`, `plan` and `limits` say of every recording comes
//! from the same verdict and the same size.

use pagewise_decide::{LimitInputs, diagnose, judge, survey_limits};
use pagewise_facts::swap_choice::size_mib;
use pagewise_model::plan::{Change, Goal};
use pagewise_model::{Installation, Level, LimitVerdict, Millis, Reading, Source};
use pagewise_plan::{Measured, Request, make_plan};

use crate::scene::{Scene, slugs};

#[test]
fn doctor_plan_and_limits_agree_on_every_recording() {
    let (mut recordings, mut groups, mut sizes) = (0, 0, 0);
    for name in slugs() {
        let interval = Scene::load(&name).replay();
        let (findings, verdict) = (diagnose(&interval), judge(&interval));
        let generations = Reading::absent("not read", Source::none());
        let inputs = LimitInputs {
            selected: None,
            age: Millis::new(0),
            generations: &generations,
            watched: None,
        };
        let survey = survey_limits(&interval, &inputs);
        for group in verdict.groups.iter().filter(|group| group.level >= Level::Short) {
            let Some(own) = survey.groups.iter().find(|own| own.group == group.group) else {
                continue;
            };
            assert_ne!(own.advice.verdict, LimitVerdict::Fits, "{name}: {}", group.group);
            groups += 1;
        }
        let request = Request {
            interval: &interval,
            installation: &Installation::default(),
            measured: &Measured::default(),
            goal: Goal::Balanced,
            only: &[],
        };
        let plan = make_plan(&request);
        let planned = plan.steps.iter().find_map(|step| match &step.change {
            Change::AddZramSwap { to, .. } => Some(to.disksize_bytes.get() >> 20),
            _ => None,
        });
        for command in findings.iter().flat_map(|finding| &finding.next) {
            let size =
                command.split_once("zramctl --size ").and_then(|(_, rest)| rest.split_once('M'));
            let Some((size, _)) = size else { continue };
            assert_eq!(size, size_mib(&interval.end).to_string(), "{name}: {command}");
            assert_eq!(
                planned.map(|size| size.to_string()).as_deref(),
                Some(size),
                "{name}: {command}"
            );
            sizes += 1;
        }
        recordings += 1;
    }
    assert!(
        recordings > 30 && groups > 5,
        "{recordings} recordings, {groups} groups, {sizes} sizes"
    );
}
