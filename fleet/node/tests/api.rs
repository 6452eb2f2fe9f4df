// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The node program against a real API server, with a made-up `pagewise`: a script that records its
//! arguments and answers as the real program does. What the real program does on a real machine is tested
//! with that program.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fleet_crd::{
    ChangeAction, ChangePhase, ChangeRequest, ChangeRole, NodeMemoryState, NodeMemoryStateStatus,
};
use fleet_node::pagewise::Pagewise;
use fleet_node::run::{Options, run};
use fleet_testbed::{ControlPlane, install, make_nodes};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams};

/// Answers from files in its folder, and appends its arguments to `log`.
const SCRIPT: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$*" >>"$here/log"
case "$*" in
report*) sed "s/COUNT/$(wc -l <"$here/log")/" "$here/report" ;;
capabilities*) echo pagewise.dev/zram=true ;;
*--confirm*) [ -e "$here/confirm-fails" ] && { echo "the timer has ended" >&2; exit 1; }; echo '{}' ;;
apply*) cat "$here/apply" ;;
undo*--*) echo '{"plans": []}' ;;
verify*) cat "$here/verify"; exit 3 ;;
esac
"#;

struct Fake(tempfile::TempDir);

impl Fake {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fake = Self(folder);
        fake.set("pagewise", SCRIPT);
        fs::set_permissions(fake.path("pagewise"), fs::Permissions::from_mode(0o755)).unwrap();
        fake.set_verdict("calm");
        fake.set("apply", r#"{"applied": {"journal": "7", "steps": []}}"#);
        fs::create_dir(fake.path("features")).unwrap();
        fake
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn set(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn set_verdict(&self, verdict: &str) {
        let text = format!(
            r#"{{"schema": "pagewise/report/1", "boot_id": {{"value": "b"}}, "verdict": {{"level": "{verdict}", "line": "Memory is {verdict}."}},
            "vmstat": {{"oom_kill": {{"value": 0}}, "workingset_refault": {{"value": COUNT}}}}}}"#
        );
        // Renamed, because the script may be reading it.
        self.set("report.new", &text);
        fs::rename(self.path("report.new"), self.path("report")).unwrap();
    }

    /// The recorded command lines that begin with this.
    fn said(&self, beginning: &str) -> Vec<String> {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        log.lines().filter(|line| line.starts_with(beginning)).map(str::to_owned).collect()
    }

    fn options(&self, node: &str) -> Options {
        Options {
            node: node.to_owned(),
            pagewise: Pagewise { program: self.path("pagewise"), root: None, may_change: true },
            folder: self.path("state"),
            features: Some(self.path("features")),
            every: Duration::from_secs(1),
            heartbeat: Duration::from_secs(2),
            advise_every: None,
            sample_every: Duration::from_secs(3600),
        }
    }
}

fn request(action: ChangeAction, revision: &str) -> ChangeRequest {
    ChangeRequest {
        profile: "p".to_owned(),
        revision: revision.to_owned(),
        wave: 0,
        role: ChangeRole::Change,
        action,
        want: vec!["zram".to_owned(), "swappiness=100".to_owned()],
        window_seconds: 1,
        trial_seconds: 600,
        requested_at: Time("2026-11-28T20:00:00Z".parse().unwrap()),
    }
}

/// Asks for a change, or for none.
async fn ask(client: &Client, node: &str, request: Option<&ChangeRequest>) {
    let object = serde_json::json!({
        "apiVersion": "pagewise.dev/v1alpha1", "kind": "NodeMemoryState",
        "spec": {"change": request},
    });
    let api: Api<NodeMemoryState> = Api::all(client.clone());
    api.patch(node, &PatchParams::default(), &Patch::Merge(&object)).await.unwrap();
}

/// Waits until the status is as wanted.
async fn wait(
    client: &Client,
    node: &str,
    what: &str,
    is: impl Fn(&NodeMemoryStateStatus) -> bool,
) -> NodeMemoryStateStatus {
    let api: Api<NodeMemoryState> = Api::all(client.clone());
    let started = Instant::now();
    let mut last = None;
    while started.elapsed() < Duration::from_secs(120) {
        if let Ok(state) = api.get(node).await {
            last = state.status;
            if let Some(status) = last.as_ref().filter(|status| is(status)) {
                return status.clone();
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{node}: not {what}: {last:?}");
}

fn is_in(phase: ChangePhase, revision: &'static str) -> impl Fn(&NodeMemoryStateStatus) -> bool {
    move |status| {
        status.change.as_ref().is_some_and(|it| it.phase == phase && it.revision == revision)
    }
}

fn start(client: &Client, fake: &Fake, node: &str) -> tokio::task::JoinHandle<anyhow::Result<()>> {
    tokio::spawn(run(client.clone(), fake.options(node), std::future::pending()))
}

async fn changes(client: &Client) {
    let fake = Fake::new();
    let program = start(client, &fake, "n1");
    wait(client, "n1", "written", |status| status.verdict.as_deref() == Some("calm")).await;
    let api: Api<NodeMemoryState> = Api::all(client.clone());
    let owners = api.get("n1").await.unwrap().metadata.owner_references.unwrap();
    assert_eq!((owners[0].kind.as_str(), owners[0].name.as_str()), ("Node", "n1"));
    let labels = fs::read_to_string(fake.path("features/pagewise")).unwrap();
    assert_eq!(labels, "pagewise.dev/zram=true\n");

    ask(client, "n1", Some(&request(ChangeAction::Try, "r1"))).await;
    let status = wait(client, "n1", "measured", is_in(ChangePhase::Measured, "r1")).await;
    let report = status.change.unwrap();
    assert_eq!(report.journal.as_deref(), Some("7"));
    assert!(report.before.unwrap().refaults_per_second.unwrap() > 0.0);
    assert!(report.after.unwrap().seconds >= 1.0);
    assert_eq!(
        fake.said("apply"),
        ["apply --json --yes --trial-for 600s --want=zram --want=swappiness=100"]
    );

    // A restart in the middle goes on, and changes nothing twice.
    program.abort();
    let program = start(client, &fake, "n1");
    ask(client, "n1", Some(&request(ChangeAction::Keep, "r1"))).await;
    wait(client, "n1", "kept", is_in(ChangePhase::Kept, "r1")).await;
    ask(client, "n1", Some(&request(ChangeAction::Undo, "r1"))).await;
    wait(client, "n1", "undone", is_in(ChangePhase::Undone, "r1")).await;
    assert_eq!(fake.said("apply")[1..], ["apply --json --confirm=7"]);
    assert_eq!(fake.said("undo"), ["undo --json -- 7"]);

    fake.set(
        "apply",
        r#"{"refused": [{"step": null, "what": "zram", "why": "there is no zram"}]}"#,
    );
    ask(client, "n1", Some(&request(ChangeAction::Try, "r2"))).await;
    let status = wait(client, "n1", "refused", is_in(ChangePhase::Refused, "r2")).await;
    assert_eq!(status.change.unwrap().message.as_deref(), Some("zram: there is no zram"));

    fake.set("apply", "out of memory");
    ask(client, "n1", Some(&request(ChangeAction::Try, "r3"))).await;
    wait(client, "n1", "failed", is_in(ChangePhase::Failed, "r3")).await;

    // Without --changes, nothing is started.
    program.abort();
    let applied = fake.said("apply").len();
    let mut options = fake.options("n1");
    options.pagewise.may_change = false;
    let program = tokio::spawn(run(client.clone(), options, std::future::pending()));
    ask(client, "n1", Some(&request(ChangeAction::Try, "r3b"))).await;
    let status = wait(client, "n1", "refused", is_in(ChangePhase::Refused, "r3b")).await;
    assert!(status.change.unwrap().message.unwrap().contains("not enabled"));
    assert_eq!(fake.said("apply").len(), applied);
    program.abort();
    let program = start(client, &fake, "n1");

    // A request that goes while the change is on trial: the node undoes it by itself.
    fake.set("apply", r#"{"applied": {"journal": "8", "steps": []}}"#);
    ask(client, "n1", Some(&request(ChangeAction::Try, "r4"))).await;
    wait(client, "n1", "measured", is_in(ChangePhase::Measured, "r4")).await;
    ask(client, "n1", None).await;
    wait(client, "n1", "forgotten", |status| status.change.is_none()).await;
    assert_eq!(fake.said("undo")[1..], ["undo --json -- 8"]);

    // The timer of the node ends: the node checks that the change is gone.
    fake.set("apply", r#"{"applied": {"journal": "9", "steps": []}}"#);
    fake.set("verify", r#"{"plans": [{"journal": "4"}, {"journal": null}]}"#);
    let short = ChangeRequest { trial_seconds: 2, ..request(ChangeAction::Try, "r5") };
    ask(client, "n1", Some(&short)).await;
    let status = wait(client, "n1", "undone", is_in(ChangePhase::Undone, "r5")).await;
    assert!(status.change.unwrap().message.unwrap().contains("its timer has undone it"));
    assert_eq!(fake.said("verify"), ["verify --json"]);

    // An object that somebody deletes comes back.
    api.delete("n1", &DeleteParams::default()).await.unwrap();
    wait(client, "n1", "written again", |status| status.verdict.is_some()).await;
    program.abort();
}

/// Reads on, and undoes nothing, while the API is away; writes what is new when it is back.
fn api_away(plane: &mut ControlPlane, runtime: &tokio::runtime::Runtime, client: &Client) {
    let fake = Fake::new();
    let program = {
        let _guard = runtime.enter();
        start(client, &fake, "n2")
    };
    runtime.block_on(async {
        wait(client, "n2", "written", |status| status.verdict.is_some()).await;
        ask(client, "n2", Some(&request(ChangeAction::Try, "r1"))).await;
        wait(client, "n2", "measured", is_in(ChangePhase::Measured, "r1")).await;
    });
    plane.stop_api();
    let readings = fake.said("report").len();
    fake.set_verdict("critical");
    // Also a restart, when nothing is known of what is asked.
    program.abort();
    let program = {
        let _guard = runtime.enter();
        start(client, &fake, "n2")
    };
    let started = Instant::now();
    while fake.said("report").len() < readings + 5 {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "it does not read while the API is away"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(fake.said("undo"), [""; 0]);
    plane.start_api().unwrap();
    runtime.block_on(async {
        wait(client, "n2", "written", |status| status.verdict.as_deref() == Some("critical")).await;
        ask(client, "n2", Some(&request(ChangeAction::Keep, "r1"))).await;
        wait(client, "n2", "kept", is_in(ChangePhase::Kept, "r1")).await;
    });
    // The store is restarted: the watch begins anew.
    plane.restart_etcd().unwrap();
    runtime.block_on(async {
        ask(client, "n2", Some(&request(ChangeAction::Undo, "r1"))).await;
        wait(client, "n2", "undone", is_in(ChangePhase::Undone, "r1")).await;
    });
    assert_eq!(fake.said("undo"), ["undo --json -- 7"]);
    program.abort();
}

#[test]
fn a_node_publishes_its_state_and_carries_out_changes() {
    let mut plane = ControlPlane::start().unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let client = runtime.block_on(async {
        let client = plane.client().unwrap();
        for definition in fleet_crd::definitions() {
            install(&client, &definition).await.unwrap();
        }
        make_nodes(&client, ["n1", "n2"].map(str::to_owned).into_iter()).await.unwrap();
        changes(&client).await;
        client
    });
    api_away(&mut plane, &runtime, &client);
}

/// A record that cannot be understood must not be taken for none: a change may be in force.
#[tokio::test]
async fn a_damaged_record_is_an_error() {
    let fake = Fake::new();
    fs::create_dir(fake.path("state")).unwrap();
    fs::write(fake.path("state/change.json"), "{").unwrap();
    let opened = fleet_node::change::Changer::open(
        fake.options("n").pagewise,
        Path::new(&fake.path("state")),
    );
    let error = format!("{:#}", opened.unwrap_err());
    assert!(error.contains("pagewise undo") && error.contains("change.json"), "{error}");
}

/// In another root the program sees only the files of that root. Needs root rights.
#[test]
fn a_program_runs_in_the_root_of_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let run = |root: &Path, program: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pagewise-fleet-node"));
        command.arg("in-root").arg(root).arg("--").args(program).output().unwrap()
    };
    let seen = run(Path::new("/"), &["/bin/ls", "-d", folder.path().to_str().unwrap()]);
    assert!(seen.status.success(), "{seen:?}");
    let missing = run(folder.path(), &["/bin/ls", "/"]);
    let message = String::from_utf8(missing.stderr).unwrap();
    assert!(!missing.status.success() && message.contains("/bin/ls / in"), "{message}");
}
