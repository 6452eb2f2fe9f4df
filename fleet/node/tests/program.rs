// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The node program understands what the `pagewise` of this tree prints. `cargo xtask fleet` builds it and
//! names it in FLEET_PAGEWISE. Needs root, as on a node. Nothing is changed.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use fleet_crd::{ChangeAction, ChangeRequest, ChangeRole, STATE_BYTES};
use fleet_node::advice::Limits;
use fleet_node::pagewise::Pagewise;
use fleet_node::report::{Report, fit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

fn pagewise() -> Pagewise {
    let program =
        std::env::var_os("FLEET_PAGEWISE").expect("FLEET_PAGEWISE: run cargo xtask fleet");
    Pagewise { program: program.into(), root: None, may_change: true }
}

fn time() -> Time {
    Time("2026-11-28T20:00:00Z".parse().unwrap())
}

#[tokio::test]
async fn what_it_reads_is_understood() {
    let pagewise = pagewise();
    let first = Report::parse(&pagewise.report(false).await.unwrap()).unwrap().counters(1.0);
    let report = Report::parse(&pagewise.report(true).await.unwrap()).unwrap();
    let mut status = report.summarize(time());
    fit(&mut status);
    assert!(serde_json::to_vec(&status).unwrap().len() <= STATE_BYTES);
    assert!(status.verdict.is_some() && status.kernel.is_some() && status.boot_id.is_some());
    assert!(status.memory.unwrap().total.is_some());
    assert!(!status.capabilities.is_empty() && status.estimate.is_some());
    let values = report.counters(2.0).since(&first).unwrap();
    assert!(values.refaults_per_second.is_some() && values.kswapd_scans_per_second.is_some());
    assert!(values.oom_kills.is_some());
    let labels = pagewise.labels().await.unwrap();
    assert!(labels.lines().any(|line| line.starts_with("pagewise.dev/")), "{labels}");
    Limits::parse(&pagewise.limits().await.unwrap()).unwrap();
}

#[tokio::test]
async fn its_answers_to_changes_are_understood() {
    let pagewise = pagewise();
    assert!(!pagewise.is_in_force("999999999").await.unwrap());
    let error = pagewise.confirm("999999999").await.unwrap_err().to_string();
    assert!(error.contains("999999999"), "{error}");
    // Every other argument is accepted.
    let request = ChangeRequest {
        profile: "p".to_owned(),
        revision: "1".to_owned(),
        wave: 0,
        role: ChangeRole::Change,
        action: ChangeAction::Try,
        want: vec!["no-such-setting=1".to_owned()],
        window_seconds: 60,
        trial_seconds: 600,
        requested_at: time(),
    };
    let error = pagewise.apply(&request).await.unwrap_err().to_string();
    assert!(error.contains("no-such-setting") && !error.contains("unexpected argument"), "{error}");
}
