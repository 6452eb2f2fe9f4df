// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes the plan of a recorded host many times, to measure its CPU time: `time cargo run -p
//! pagewise-plan --example cost -- SLUG 1000`, minus the same with 0.

use pagewise_model::Installation;
use pagewise_model::plan::Goal;
use pagewise_plan::{Measured, Request, make_plan};
use pagewise_testkit::scene::Scene;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let slug = arguments.next().expect("the slug of a recording");
    let times: u32 = arguments.next().and_then(|it| it.parse().ok()).expect("how many times");
    let interval = Scene::load(&slug).replay();
    let installation = Installation { has_systemd: true, ..Installation::default() };
    let measured = Measured::default();
    let request = Request {
        interval: &interval,
        installation: &installation,
        measured: &measured,
        goal: Goal::Balanced,
        only: &[],
        wants: &[],
        anyway: false,
    };
    let steps: usize = (0..times).map(|_| make_plan(&request).steps.len()).sum();
    println!("{steps} steps in {times} plans");
}
