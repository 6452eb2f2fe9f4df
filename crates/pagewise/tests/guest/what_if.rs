// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `oom --prove`: kills of the fixtures, done again in guests.

use serde_json::Value;

use crate::boot::{finish, program};

/// Kills of real kernels (6.1, 6.12, 6.18, 7.2): programs that fill what they mapped, and leaks.
const LOGS: [&str; 10] = [
    "group-fills",
    "group-fills-6.1",
    "group-leak-twice",
    "group-no-swap-7.2",
    "host-fills",
    "host-fills-6.1",
    "host-fills-7.2",
    "host-leak",
    "host-shmem",
    "host-swap",
];

/// Each kill of the fixtures, done again: it happens again as it was, and each change of which
/// something was said bears that out.
#[test]
fn what_if_is_proven_in_guests() {
    for log in LOGS {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/kills/");
        let path = format!("{path}{log}.log");
        let ran = finish(program().args(["oom", &path, "--prove", "--json"]));
        assert_eq!(ran.status, 3, "{log}: {}", ran.err);
        let document: Value = serde_json::from_str(&ran.out).unwrap();
        let proof = &document["oom_proof"];
        let runs = proof["runs"].as_array().unwrap();
        assert_eq!(runs[0]["is_killed"], true, "{log}: {proof:#}");
        assert!(runs.iter().all(|run| run["trouble"].is_null()), "{log}: {proof:#}");
        let agrees = proof["agrees"].as_array().unwrap();
        assert!(agrees.iter().all(|agrees| *agrees != false), "{log}: {proof:#}");
        // a leak of one report is not known
        let said = agrees.iter().filter(|agrees| **agrees == true).count();
        assert_eq!(said > 0, log != "host-leak", "{log}: {proof:#}");
    }
}
