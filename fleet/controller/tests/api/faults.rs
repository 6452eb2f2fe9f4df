// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A controller that ends after each of its writes, two controllers, an API that goes away, and profiles
//! that are paused, edited and deleted in the middle.

use std::time::Duration;

use fleet_controller::run::{Options, run};
use fleet_crd::{MemoryProfile, RolloutPhase};
use kube::Client;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use crate::nodes::{
    Nodes, create_profile, edit_profile, requests, start, status_of, wait, wait_gone,
};

fn options(identity: &str, writes: Option<u32>) -> Options {
    Options {
        namespace: "default".to_owned(),
        identity: identity.to_owned(),
        lease: Duration::from_secs(2),
        tick: Duration::from_millis(20),
        writes,
    }
}

fn control(client: &Client, identity: &str) -> tokio::task::JoinHandle<anyhow::Result<()>> {
    tokio::spawn(run(client.clone(), options(identity, None), std::future::pending()))
}

/// Lives of a controller that ends after one write each, until the profile is in the phase. Returns how
/// many there were.
async fn live_one_write_each(
    client: &Client,
    nodes: &Nodes,
    phase: RolloutPhase,
    most_changed: impl Fn(usize) -> usize,
) -> usize {
    for life in 0..600 {
        if status_of(client, "p").await.phase == Some(phase) {
            return life;
        }
        let kept = nodes.count(|it| it.kept);
        // A life without anything to write waits for the nodes, and is ended from outside.
        let one = run(
            client.clone(),
            options("same", Some(1)),
            tokio::time::sleep(Duration::from_secs(2)),
        );
        let _ = one.await;
        let changed = nodes.count(|it| it.changed);
        assert!(changed <= most_changed(kept), "life {life}: {changed} changed, {kept} were kept");
    }
    panic!("not {phase:?}: {:#?}", status_of(client, "p").await);
}

async fn delete(client: &Client, name: &str) {
    let api: Api<MemoryProfile> = Api::all(client.clone());
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

/// Each write is a point at which a controller is killed; the next one goes on there.
#[test]
fn a_controller_that_is_killed_at_each_write_ends_where_one_that_is_not_does() {
    let (_plane, runtime, client) = start(24);
    runtime.block_on(async {
        let allowed = |kept: usize| if kept == 0 { 1 } else { kept + 10 };
        let good = Nodes::new(&client, 0.9);
        let acting = good.act();
        create_profile(&client, "p", &json!({"maxConcurrent": 10})).await;
        let lives = live_one_write_each(&client, &good, RolloutPhase::Complete, allowed).await;
        let status = status_of(&client, "p").await;
        assert_eq!((good.count(|it| it.kept), status.kept), (24, 24), "{status:#?}");
        assert_eq!(good.count(|it| it.twice), 0, "no node was changed twice");
        assert!(lives >= 50, "{lives} points");

        // What is deleted is undone everywhere, at each write again.
        delete(&client, "p").await;
        let api: Api<MemoryProfile> = Api::all(client.clone());
        let mut ends = 0;
        while api.get_opt("p").await.unwrap().is_some() {
            let one = run(
                client.clone(),
                options("same", Some(1)),
                tokio::time::sleep(Duration::from_secs(2)),
            );
            let _ = one.await;
            ends += 1;
            assert!(ends < 300, "{:#?}", status_of(&client, "p").await);
        }
        assert_eq!((good.count(|it| it.changed), requests(&client).await), (0, 0));
        acting.abort();

        let bad = Nodes::new(&client, 6.0);
        let acting = bad.act();
        create_profile(&client, "p", &json!({"maxConcurrent": 10, "want": ["zswap"]})).await;
        live_one_write_each(&client, &bad, RolloutPhase::Stopped, |_| 1).await;
        assert_eq!((bad.count(|it| it.touched), bad.count(|it| it.changed)), (1, 0));
        acting.abort();
    });
}

/// Only one of two acts. If the one that acts ends without a word, the other goes on.
#[test]
fn two_controllers_and_an_api_that_goes_away() {
    let (mut plane, runtime, client) = start(40);
    let nodes = Nodes::new(&client, 1.0);
    let (acting, first, second) = runtime
        .block_on(async { (nodes.act(), control(&client, "first"), control(&client, "second")) });
    runtime.block_on(async {
        create_profile(&client, "p", &json!({"maxConcurrent": 10})).await;
        wait(&client, "p", RolloutPhase::Trying, |status| status.kept >= 1).await;
        first.abort();
    });
    // All connections break, and the watches begin anew.
    plane.stop_api();
    plane.start_api().unwrap();
    runtime.block_on(async {
        crate::nodes::answers(&client).await;
        wait(&client, "p", RolloutPhase::Complete, |status| status.kept == 40).await;
        assert_eq!(nodes.count(|it| it.kept), 40);
        assert_eq!(nodes.count(|it| it.twice), 0);
        second.abort();
        acting.abort();
    });
}

#[test]
fn profiles_that_are_paused_edited_and_deleted_leave_nodes_as_they_say() {
    let (_plane, runtime, client) = start(60);
    runtime.block_on(async {
        let nodes = Nodes::new(&client, 1.0);
        let (acting, controller) = (nodes.act(), control(&client, "one"));
        create_profile(&client, "p", &json!({"maxConcurrent": 10})).await;
        wait(&client, "p", RolloutPhase::Trying, |status| status.kept >= 3).await;
        edit_profile(&client, "p", &json!({"paused": true})).await;
        let status = wait(&client, "p", RolloutPhase::Paused, |status| {
            status.trying == 0 && status.undone == 0
        })
        .await;
        let kept = nodes.count(|it| it.changed);
        assert_eq!((nodes.count(|it| it.kept), status.kept as usize), (kept, kept), "{status:#?}");
        assert!((3..60).contains(&kept));
        edit_profile(&client, "p", &json!({"paused": false})).await;
        wait(&client, "p", RolloutPhase::Complete, |status| status.kept == 60).await;

        let revision = status.revision;
        edit_profile(&client, "p", &json!({"want": ["zram=1GiB"]})).await;
        let status =
            wait(&client, "p", RolloutPhase::Complete, |status| status.revision != revision).await;
        assert_eq!(
            (status.kept, nodes.count(|it| it.twice)),
            (60, 0),
            "each node undid the former change first"
        );
        let events: Vec<&str> = status.timeline.iter().map(|it| it.event.as_str()).collect();
        assert!(events.iter().any(|it| it.contains("edited")), "{events:?}");

        // Another profile finds no node that is free.
        create_profile(&client, "second", &json!({})).await;
        let second = wait(&client, "second", RolloutPhase::Complete, |_| true).await;
        assert_eq!((second.nodes, second.kept), (0, 0));
        delete(&client, "second").await;
        wait_gone(&client, "second").await;

        edit_profile(&client, "p", &json!({"onDelete": "Keep"})).await;
        delete(&client, "p").await;
        wait_gone(&client, "p").await;
        assert_eq!((nodes.count(|it| it.kept), requests(&client).await), (60, 0));
        controller.abort();
        acting.abort();
    });
}
