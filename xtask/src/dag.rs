// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cargo metadata` → the arrows between our crates, checked against the table of what may be.
//!
//! A crate boundary marks what code may do (read the host, write settings, start programs), so an
//! arrow too many gives a right away. Dependencies for tests and builds count like any other. What
//! crates take from outside is not looked at here.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::run;

/// Who may use whom. A crate without a row may not exist.
const ALLOWED: &[(&str, &[&str])] = &[
    ("pagewise-model", &[]),
    ("pagewise-confine", &[]),
    ("pagewise-files", &["pagewise-model"]),
    ("pagewise-journald", &["pagewise-model"]),
    ("pagewise-settings", &["pagewise-model", "pagewise-files"]),
    (
        "pagewise-observe",
        &["pagewise-model", "pagewise-files", "pagewise-journald", "pagewise-settings"],
    ),
    (
        "pagewise-capture",
        &["pagewise-model", "pagewise-files", "pagewise-observe", "pagewise-settings"],
    ),
    ("pagewise-procmem", &["pagewise-model"]),
    ("pagewise-pages", &["pagewise-model"]),
    ("pagewise-facts", &["pagewise-model"]),
    ("pagewise-choose", &["pagewise-model", "pagewise-facts"]),
    ("pagewise-explain", &["pagewise-model", "pagewise-facts"]),
    ("pagewise-compare", &["pagewise-model"]),
    ("pagewise-decide", &["pagewise-model", "pagewise-facts", "pagewise-choose"]),
    ("pagewise-plan", &["pagewise-model", "pagewise-facts", "pagewise-choose", "pagewise-decide"]),
    ("pagewise-report", &["pagewise-model"]),
    ("pagewise-html", &["pagewise-model", "pagewise-report"]),
    ("pagewise-terminal", &["pagewise-model", "pagewise-report"]),
    (
        "pagewise-sample",
        &["pagewise-model", "pagewise-observe", "pagewise-procmem", "pagewise-confine"],
    ),
    ("pagewise-apply", &["pagewise-model", "pagewise-observe"]),
    (
        "pagewise-collapse",
        &["pagewise-model", "pagewise-observe", "pagewise-procmem", "pagewise-apply"],
    ),
    ("pagewise-stats", &["pagewise-model"]),
    ("pagewise-region", &[]),
    ("pagewise-pin", &["pagewise-model", "pagewise-procmem", "pagewise-region"]),
    (
        "pagewise-bench",
        &[
            "pagewise-model",
            "pagewise-observe",
            "pagewise-stats",
            "pagewise-region",
            "pagewise-confine",
        ],
    ),
    ("pagewise-guest", &["pagewise-model", "pagewise-observe"]),
    (
        "pagewise-workload",
        &[
            "pagewise-model",
            "pagewise-observe",
            "pagewise-procmem",
            "pagewise-stats",
            "pagewise-region",
            "pagewise-guest",
        ],
    ),
    (
        "pagewise-lab",
        &[
            "pagewise-model",
            "pagewise-observe",
            "pagewise-stats",
            "pagewise-guest",
            "pagewise-workload",
        ],
    ),
    (
        "pagewise-experiments",
        &[
            "pagewise-model",
            "pagewise-observe",
            "pagewise-report",
            "pagewise-html",
            "pagewise-terminal",
            "pagewise-apply",
            "pagewise-stats",
            "pagewise-guest",
            "pagewise-workload",
            "pagewise-lab",
        ],
    ),
    (
        "pagewise",
        &[
            "pagewise-model",
            "pagewise-observe",
            "pagewise-capture",
            "pagewise-procmem",
            "pagewise-confine",
            "pagewise-pages",
            "pagewise-facts",
            "pagewise-choose",
            "pagewise-explain",
            "pagewise-compare",
            "pagewise-decide",
            "pagewise-pin",
            "pagewise-plan",
            "pagewise-report",
            "pagewise-html",
            "pagewise-terminal",
            "pagewise-sample",
            "pagewise-apply",
            "pagewise-collapse",
            "pagewise-stats",
            "pagewise-bench",
            "pagewise-guest",
            "pagewise-workload",
            "pagewise-lab",
            "pagewise-experiments",
        ],
    ),
    ("pagewise-testkit", &["pagewise-model", "pagewise-observe"]),
    ("hugepool", &[]),
    ("xtask", &[]),
];

/// What tests share: any of our crates may use it, for its tests alone.
const FOR_TESTS: &str = "pagewise-testkit";

/// One of our crates uses another.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrow {
    from: String,
    to: String,
    /// Empty for an ordinary dependency, else `dev` or `build`.
    kind: String,
}

impl fmt::Display for Arrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.from, self.to)?;
        if self.kind.is_empty() { Ok(()) } else { write!(f, " ({})", self.kind) }
    }
}

pub(crate) fn main() -> Result<()> {
    let metadata = ["metadata", "--no-deps", "--locked", "--format-version", "1"];
    let metadata = serde_json::from_str(&run::output(run::cargo().args(metadata))?)?;
    let (crates, arrows) = read(&metadata)?;
    print!("{}", table(&crates, &arrows));
    let wrong = wrong(&crates, &arrows);
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("the dependency table (ARCHITECTURE.md) forbids:\n{}", wrong.join("\n"))
}

/// Our crates, and the arrows between them.
fn read(metadata: &Value) -> Result<(BTreeSet<String>, BTreeSet<Arrow>)> {
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let crates = packages.iter().map(|package| word(package, "name")).collect();
    let arrows = packages.iter().flat_map(|package| arrows_of(package, &crates)).collect();
    Ok((crates, arrows))
}

fn arrows_of(package: &Value, crates: &BTreeSet<String>) -> Vec<Arrow> {
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let arrow = |dependency| Arrow {
        from: word(package, "name"),
        to: word(dependency, "name"),
        kind: word(dependency, "kind"),
    };
    dependencies.map(arrow).filter(|arrow| crates.contains(&arrow.to)).collect()
}

fn word(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn table(crates: &BTreeSet<String>, arrows: &BTreeSet<Arrow>) -> String {
    let width = crates.iter().map(String::len).max().unwrap_or(0);
    let line = |name: &String| {
        let used = arrows.iter().filter(|arrow| arrow.from == *name);
        let used: Vec<&str> = used.map(|arrow| arrow.to.as_str()).collect();
        let used = if used.is_empty() { "nothing of ours".to_owned() } else { used.join(", ") };
        format!("{name:width$} -> {used}\n")
    };
    crates.iter().map(line).collect()
}

fn wrong(crates: &BTreeSet<String>, arrows: &BTreeSet<Arrow>) -> Vec<String> {
    let row = |name: &str| ALLOWED.iter().find(|(from, _)| *from == name);
    let strangers = crates.iter().filter(|name| row(name).is_none());
    let strangers = strangers.map(|name| format!("  {name}: has no row in the table"));
    let allowed = |arrow: &Arrow| match (arrow.to.as_str(), arrow.kind.as_str()) {
        (FOR_TESTS, kind) => kind == "dev",
        (to, _) => row(&arrow.from).is_none_or(|(_, allowed)| allowed.contains(&to)),
    };
    let forbidden = arrows.iter().filter(|arrow| !allowed(arrow)).map(|arrow| format!("  {arrow}"));
    strangers.chain(forbidden).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
        let dependencies: Vec<Value> =
            dependencies.iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
        json!({"name": name, "dependencies": dependencies})
    }

    fn judged(packages: &[Value]) -> Vec<String> {
        let (crates, arrows) = read(&json!({ "packages": packages })).unwrap();
        wrong(&crates, &arrows)
    }

    #[test]
    fn allowed_arrows_and_crates_from_outside_pass() {
        let model = package("pagewise-model", &[("serde", None)]);
        let observe = package("pagewise-observe", &[("pagewise-model", None), ("libc", None)]);
        assert_eq!(judged(&[model, observe]), Vec::<String>::new());
    }

    #[test]
    fn the_wrong_arrow_is_named() {
        let decide = package("pagewise-decide", &[("pagewise-observe", None)]);
        let observe = package("pagewise-observe", &[]);
        assert_eq!(judged(&[decide, observe]), ["  pagewise-decide -> pagewise-observe"]);
    }

    #[test]
    fn tests_get_no_arrow_of_their_own() {
        let report = package("pagewise-report", &[("pagewise-decide", Some("dev"))]);
        let decide = package("pagewise-decide", &[]);
        assert_eq!(judged(&[report, decide]), ["  pagewise-report -> pagewise-decide (dev)"]);
    }

    #[test]
    fn what_tests_share_is_for_tests_alone() {
        let kit = package(FOR_TESTS, &[]);
        let test = package("pagewise-decide", &[(FOR_TESTS, Some("dev"))]);
        assert_eq!(judged(&[kit.clone(), test]), Vec::<String>::new());
        let product = package("pagewise-decide", &[(FOR_TESTS, None)]);
        assert_eq!(judged(&[kit, product]), ["  pagewise-decide -> pagewise-testkit"]);
    }

    #[test]
    fn a_crate_without_a_row_is_named() {
        assert_eq!(
            judged(&[package("pagewise-extra", &[])]),
            ["  pagewise-extra: has no row in the table"]
        );
    }

    #[test]
    fn metadata_without_packages_is_refused() {
        assert!(read(&json!({})).is_err());
    }

    #[test]
    fn the_table_shows_who_uses_whom() {
        let packages = [
            package("hugepool", &[]),
            package("pagewise-lab", &[("pagewise-model", None)]),
            package("pagewise-model", &[]),
        ];
        let (crates, arrows) = read(&json!({ "packages": packages })).unwrap();
        let shown = table(&crates, &arrows);
        assert_eq!(shown.lines().nth(1), Some("pagewise-lab   -> pagewise-model"));
        assert_eq!(shown.lines().next(), Some("hugepool       -> nothing of ours"));
    }
}
