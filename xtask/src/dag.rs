// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the dependencies between our crates (from `cargo metadata`) against the table in
//! `xtask/dag.toml`.
//!
//! A crate boundary marks what code may do (read the host, write settings, start programs), so an
//! additional dependency may give code more rights than intended. Dependencies of tests and of
//! build scripts are checked, too. External dependencies are not checked here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::run;

/// The crate for tests: each of our crates may depend on it, but only as a dev-dependency.
const FOR_TESTS: &str = "pagewise-testkit";

/// The table of allowed dependencies, `xtask/dag.toml`.
#[derive(Debug, Deserialize)]
struct Table {
    allowed: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// One of our crates, with its dependencies.
#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// The kind of the dependency: `dev` or `build`; `None` for a normal dependency.
    kind: Option<String>,
}

pub(crate) fn main() -> Result<()> {
    let path = run::project().join("xtask/dag.toml");
    let table = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let table: Table = toml::from_str(&table).with_context(|| path.display().to_string())?;
    let metadata = ["metadata", "--no-deps", "--locked", "--format-version", "1"];
    let mut metadata: Metadata = serde_json::from_str(&run::output(run::cargo().args(metadata))?)
        .context("cargo metadata")?;
    metadata.keep_own();
    print!("{}", metadata.to_text());
    let wrong = table.find_forbidden(&metadata);
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("the dependency table (ARCHITECTURE.md) forbids:\n{}", wrong.join("\n"))
}

impl Metadata {
    /// Removes the dependencies on external crates.
    fn keep_own(&mut self) {
        let names: BTreeSet<String> = self.packages.iter().map(|it| it.name.clone()).collect();
        for package in &mut self.packages {
            package.dependencies.retain(|dependency| names.contains(&dependency.name));
        }
        self.packages.sort_by(|one, other| one.name.cmp(&other.name));
    }

    fn to_text(&self) -> String {
        let width = self.packages.iter().map(|package| package.name.len()).max().unwrap_or(0);
        let line = |Package { name, dependencies }: &Package| {
            let used: BTreeSet<&str> = dependencies.iter().map(|it| it.name.as_str()).collect();
            let used: Vec<&str> = used.into_iter().collect();
            let used = if used.is_empty() { "nothing of ours".into() } else { used.join(", ") };
            format!("{name:width$} -> {used}\n")
        };
        self.packages.iter().map(line).collect()
    }
}

impl Table {
    /// A line for each crate without a row, and for each dependency that its row does not contain.
    fn find_forbidden(&self, metadata: &Metadata) -> Vec<String> {
        let mut wrong = Vec::new();
        for package in &metadata.packages {
            let name = &package.name;
            let Some(allowed) = self.allowed.get(name) else {
                wrong.push(format!("  {name}: has no row in the table"));
                continue;
            };
            for Dependency { name: used, kind } in &package.dependencies {
                let kind = kind.as_deref();
                let is_allowed = match used.as_str() {
                    FOR_TESTS => kind == Some("dev"),
                    used => allowed.contains(used),
                };
                if !is_allowed {
                    let kind = kind.map(|kind| format!(" ({kind})")).unwrap_or_default();
                    wrong.push(format!("  {name} -> {used}{kind}"));
                }
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
        let dependencies: Vec<Value> =
            dependencies.iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
        json!({"name": name, "dependencies": dependencies})
    }

    fn metadata(packages: &[Value]) -> Metadata {
        let mut metadata: Metadata =
            serde_json::from_value(json!({ "packages": packages })).unwrap();
        metadata.keep_own();
        metadata
    }

    #[test]
    fn the_wrong_arrow_and_a_crate_without_a_row_are_named() {
        let table =
            "[allowed]\nmodel = []\nobserve = [\"model\"]\ndecide = []\npagewise-testkit = []\n";
        let table: Table = toml::from_str(table).unwrap();
        let (model, decide) = (package("model", &[("serde", None)]), package("decide", &[]));
        let kit = package(FOR_TESTS, &[]);
        let with = |dependency, kind| package("decide", &[(dependency, kind)]);
        // external crates are ignored; a crate that depends on itself for its tests is an error
        let cases: [(&[Value], &[&str]); 6] = [
            (&[model.clone(), package("observe", &[("model", None), ("libc", None)])], &[]),
            (&[with("model", None), model.clone()], &["  decide -> model"]),
            (&[with("model", Some("dev")), model], &["  decide -> model (dev)"]),
            (&[with(FOR_TESTS, Some("dev")), kit.clone()], &[]),
            (&[with(FOR_TESTS, None), kit], &["  decide -> pagewise-testkit"]),
            (&[package("extra", &[]), decide], &["  extra: has no row in the table"]),
        ];
        for (packages, wrong) in cases {
            assert_eq!(table.find_forbidden(&metadata(packages)), wrong, "{packages:?}");
        }
        assert!(serde_json::from_str::<Metadata>("{}").is_err());
    }

    #[test]
    fn the_table_shows_who_uses_whom() {
        let lab = package("lab", &[("model", None), ("model", Some("dev"))]);
        let shown = metadata(&[package("model", &[]), lab]).to_text();
        assert_eq!(shown, "lab   -> model\nmodel -> nothing of ours\n");
    }
}
