// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a software bill of materials in CycloneDX's JSON, for packages: it lists the external
//! crates that are linked into a program.
//!
//! The list is the same as that of the licences: the crates that cargo links for the target, with
//! the features that the whole workspace enables. So a crate may be listed although the linker kept
//! no part of it. The checksums are those of Cargo.lock. The compiler and the C library are those
//! of this machine, because it has built the program.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::licences::{Metadata, Package};
use crate::run;

#[derive(Debug, Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Debug, Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// The document for the program of a package of this workspace.
pub(crate) fn document(metadata: &Metadata, root: &str) -> Result<String> {
    let text = fs::read_to_string(run::project().join("Cargo.lock")).context("Cargo.lock")?;
    let lock: Lock = toml::from_str(&text).context("Cargo.lock")?;
    let checksums = lock.package.into_iter().filter_map(|it| {
        let checksum = it.checksum?;
        Some(((it.name, it.version), checksum))
    });
    let compiler = run::output(run::program("rustc").arg("--version"))?;
    let library = run::output(run::program("ldd").arg("--version"))?;
    let built_with = [
        tool("rust-std", "Rust's standard library", version_of_compiler(&compiler)),
        tool("glibc", "the GNU C Library, linked statically", version_of_library(&library)),
    ];
    let document = bill(metadata, root, &checksums.collect(), &built_with)?;
    Ok(format!("{document:#}\n"))
}

fn bill(
    metadata: &Metadata,
    root: &str,
    checksums: &BTreeMap<(String, String), String>,
    built_with: &[Value],
) -> Result<Value> {
    let program = metadata.find_own(root)?;
    let linked = metadata.linked_packages(root)?;
    let mut components: Vec<Value> = linked
        .iter()
        .map(|package| {
            let mut component = component(package, "library");
            let key = (package.name.clone(), package.version.clone());
            if let Some(checksum) = checksums.get(&key) {
                component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
            }
            component
        })
        .collect();
    components.extend(built_with.iter().cloned());
    let references: Vec<String> = linked.iter().map(|package| package_url(package)).collect();
    let mut dependencies = vec![json!({"ref": package_url(program), "dependsOn": references})];
    for package in &linked {
        let mut needed: Vec<String> = metadata
            .dependencies(package)
            .into_iter()
            .filter(|id| linked.iter().any(|it| it.id == *id))
            .filter_map(|id| linked.iter().find(|it| it.id == id).map(|it| package_url(it)))
            .collect();
        needed.sort();
        dependencies.push(json!({"ref": package_url(package), "dependsOn": needed}));
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(program, "application")},
        "components": components,
        "dependencies": dependencies,
    }))
}

fn component(package: &Package, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": package_url(package),
        "name": package.name,
        "version": package.version,
        "purl": package_url(package),
    });
    if let Some(licence) = &package.license {
        // older manifests wrote a slash for OR
        component["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
    }
    component
}

fn tool(name: &str, description: &str, version: Option<&str>) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": name,
        "name": name,
        "description": description,
    });
    if let Some(version) = version {
        component["version"] = version.into();
    }
    component
}

fn package_url(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version.replace('+', "%2B"))
}

/// The version, from a text such as `rustc 1.90.0 (… 2025-09-14)`.
fn version_of_compiler(text: &str) -> Option<&str> {
    text.strip_prefix("rustc ")?.split_whitespace().next()
}

/// The version of the distribution's package, from a text such as `ldd (Debian GLIBC 2.36-9) 2.36`;
/// it shows which defects are fixed.
fn version_of_library(text: &str) -> Option<&str> {
    let (own, upstream) = text.lines().next()?.rsplit_once(')')?;
    let version = own.split_whitespace().next_back()?;
    let is_version = version.starts_with(|first: char| first.is_ascii_digit());
    Some(if is_version { version } else { upstream.trim() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_distribution() {
        assert_eq!(version_of_compiler("rustc 1.90.0 (abc 2025-09-14)\n"), Some("1.90.0"));
        assert_eq!(version_of_compiler("x"), None);
        let of = version_of_library;
        assert_eq!(of("ldd (Debian GLIBC 2.36-9+deb12u13) 2.36\nmore\n"), Some("2.36-9+deb12u13"));
        assert_eq!(of("ldd (GNU libc) 2.40\n"), Some("2.40"));
        assert_eq!(of("musl libc\n"), None);
    }

    /// In a real workspace, each linked crate is listed once with its checksum, and every reference
    /// is to a listed component.
    #[test]
    fn every_linked_crate_is_listed_and_every_reference_resolves() {
        let metadata = Metadata::read(&run::host_target().unwrap()).unwrap();
        let text = document(&metadata, "pagewise").unwrap();
        let bill: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(bill["metadata"]["component"]["name"], "pagewise");
        let components = bill["components"].as_array().unwrap();
        let mut references: Vec<&str> =
            components.iter().map(|it| it["bom-ref"].as_str().unwrap()).collect();
        let named = |name: &str| components.iter().find(|it| it["name"] == name).unwrap();
        assert_eq!(named("zstd-sys")["licenses"][0]["expression"], "BSD-3-Clause");
        assert_eq!(named("serde")["hashes"][0]["content"].as_str().unwrap().len(), 64);
        assert!(named("glibc")["version"].is_string() && named("rust-std")["version"].is_string());
        let tests_only = ["proptest", "xtask", "serde_derive", "pagewise-testkit"];
        assert!(components.iter().all(|it| !tests_only.contains(&it["name"].as_str().unwrap())));
        let count = references.len();
        references.sort_unstable();
        references.dedup();
        assert_eq!(references.len(), count, "listed twice");
        let dependencies = bill["dependencies"].as_array().unwrap();
        assert_eq!(dependencies.len(), count - 2 + 1, "of each crate, and of the program");
        for dependency in dependencies {
            for needed in dependency["dependsOn"].as_array().unwrap() {
                assert!(references.contains(&needed.as_str().unwrap()), "{needed}");
            }
        }
    }
}
