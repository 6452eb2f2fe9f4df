// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kubectl pagewise`, as kubectl finds it: a program of this name in PATH.

#![expect(clippy::print_stderr, reason = "a program for people")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use fleet_crd::MemoryAdvice;
use fleet_kubectl::limits::{Owner, PodAdvice, describe};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, Config, ResourceExt as _};

/// What Pagewise says about the memory of a cluster
#[derive(Debug, Parser)]
#[command(name = "kubectl-pagewise", bin_name = "kubectl pagewise", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print what the containers of a namespace need, and commands that raise limits that are too low
    Limits {
        /// The namespace; without it, that of the current context
        #[arg(short, long)]
        namespace: Option<String>,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Command::Limits { namespace } = Arguments::parse().command;
    match limits(namespace).await {
        Ok(text) => match std::io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        },
        Err(error) => {
            eprintln!("kubectl pagewise: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn limits(namespace: Option<String>) -> Result<String> {
    let config = Config::infer().await?;
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config)?;
    let advices: Api<MemoryAdvice> = Api::namespaced(client.clone(), &namespace);
    let advices = advices.list(&ListParams::default()).await.context("memoryadvices")?.items;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let pods = pods.list(&ListParams::default()).await.context("pods")?.items;
    let sets: Api<ReplicaSet> = Api::namespaced(client, &namespace);
    let sets = sets.list(&ListParams::default()).await.context("replicasets")?.items;
    let makers: BTreeMap<String, Owner> =
        sets.iter().map(|set| (set.name_any(), owner_of(set))).collect();
    let advice = |advice: MemoryAdvice| {
        // Advice about a former pod of the same name is not about this one.
        let pod = pods.iter().find(|pod| pod.uid().as_ref() == Some(&advice.spec.pod_uid))?;
        let owner = match owner_of(pod) {
            Some((kind, name)) if kind == "replicaset" => makers.get(&name).cloned().flatten(),
            other => other,
        };
        // Pods of a Job are not replaced, and its template cannot be changed.
        let owner = owner.filter(|(kind, _)| {
            ["deployment", "statefulset", "daemonset"].contains(&kind.as_str())
        });
        Some(PodAdvice { advice, owner })
    };
    let known: Vec<PodAdvice> = advices.into_iter().filter_map(advice).collect();
    Ok(describe(&namespace, &known))
}

fn owner_of(object: &impl kube::Resource) -> Owner {
    let owners = object.meta().owner_references.as_ref()?;
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    Some((owner.kind.to_lowercase(), owner.name.clone()))
}
