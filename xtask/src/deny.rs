// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the external packages in our two lock files against `deny.toml`: their licences, whether
//! a package occurs in two versions, which packages are banned, and where they come from.
//!
//! The format is that of cargo-deny, of which only these keys are known. Any other key is an error,
//! so that every key in the file has an effect. Cargo-deny itself is not used here, because
//! building it takes longer than all other checks of `make lint` together. It reads the same file
//! to check advisories (`xtask/scripts/advisories.sh`), and can be run by hand where it is
//! installed.
//!
//! Packages are checked if cargo builds them for this machine, including those for tests and build
//! scripts. Other packages are not downloaded, so their manifests cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use spdx::{Expression, ParseMode};

use crate::run;

/// The manifests of our two workspaces. That of `fleet` has rules of its own: see [`crate::fleet`].
const MANIFESTS: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];
/// The only source of packages, as lock files name it.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The contents of `deny.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    /// Read by cargo-deny only.
    #[serde(rename = "graph")]
    _graph: toml::Table,
    /// Read by cargo-deny only.
    #[serde(rename = "advisories")]
    _advisories: toml::Table,
    licenses: Licences,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Licences {
    /// Ignored: dev-dependencies are always checked here.
    #[serde(rename = "include-dev")]
    _include_dev: bool,
    allow: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bans {
    wildcards: Level,
    allow_wildcard_paths: bool,
    multiple_versions: Level,
    /// Ignored: dev-dependencies are always checked here.
    #[serde(rename = "multiple-versions-include-dev")]
    _multiple_versions_include_dev: bool,
    skip: Vec<Ban>,
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    unknown_registry: Level,
    unknown_git: Level,
}

/// The only level that is supported: every violation is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Level {
    Deny,
}

/// A banned package; with a version after the @, only those versions that begin with that text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ban {
    #[serde(rename = "crate")]
    package: String,
    reason: String,
}

impl Ban {
    fn matches(&self, package: &Package) -> bool {
        match self.package.split_once('@') {
            None => self.package == package.name,
            Some((name, version)) => {
                let rest = package.version.strip_prefix(version);
                name == package.name
                    && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            }
        }
    }
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Clone, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// Where the package comes from; `None` for a folder, such as that of our own crates.
    source: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Clone, Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
}

pub(crate) fn main() -> Result<()> {
    check("deny.toml", &MANIFESTS)
}

/// Checks the packages of some workspaces against the rules in a file.
pub(crate) fn check(file: &str, manifests: &[&str]) -> Result<()> {
    let path = run::project().join(file);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let rules: Rules = toml::from_str(&text).with_context(|| path.display().to_string())?;
    let target = run::host_target()?;
    let (mut packages, mut wrong) = (BTreeMap::new(), Vec::new());
    for manifest in manifests {
        let used = read_used_packages(manifest, &target)?;
        wrong.extend(rules.bans.find_second_versions(&used, manifest));
        packages.extend(used.into_iter().map(|package| (package.id.clone(), package)));
    }
    let packages: Vec<Package> = packages.into_values().collect();
    wrong.extend(rules.wrong(&packages)?);
    ensure!(wrong.is_empty(), "{file} forbids:\n{}", wrong.join("\n"));
    let others = packages.iter().filter(|package| package.source.is_some()).count();
    println!("{others} packages of others have licences, versions and sources that {file} allows");
    Ok(())
}

/// The packages that are built for a workspace, as `cargo tree` lists them. `cargo metadata`, from
/// which the licences are read, also lists packages of features that are not enabled.
fn read_used_packages(manifest: &str, target: &str) -> Result<Vec<Package>> {
    let place = ["--locked", "--manifest-path", manifest];
    let metadata = ["metadata", "--format-version", "1", "--filter-platform", target];
    let mut command = run::cargo();
    command.args(metadata).args(place);
    let metadata: Metadata =
        serde_json::from_str(&run::output(&mut command)?).context("cargo metadata")?;
    let tree = ["tree", "--workspace", "--prefix", "none", "--edges", "normal,build,dev"];
    let mut command = run::cargo();
    command.args(tree).args(["--target", target]).args(place);
    Ok(select_named(metadata.packages, &run::output(&mut command)?))
}

/// The packages that are named in lines of `cargo tree`, such as `clap v4.5.0 (proc-macro)`.
fn select_named(packages: Vec<Package>, tree: &str) -> Vec<Package> {
    let named = tree.lines().filter_map(|line| line.split_once(" v"));
    let named: BTreeSet<(&str, &str)> =
        named.map(|(name, rest)| (name, rest.split(' ').next().unwrap_or(rest))).collect();
    let is_named = |it: &Package| named.contains(&(it.name.as_str(), it.version.as_str()));
    packages.into_iter().filter(is_named).collect()
}

impl Rules {
    fn wrong(&self, packages: &[Package]) -> Result<Vec<String>> {
        let others = || packages.iter().filter(|package| package.source.is_some());
        let mut wrong: Vec<String> = others().filter_map(|it| self.licenses.wrong(it)).collect();
        for licence in &self.licenses.allow {
            let is_needed = |package: &Package| {
                let without = self.licenses.allow.iter().filter(|it| *it != licence).cloned();
                let without = Licences { allow: without.collect(), ..self.licenses };
                without.wrong(package).is_some()
            };
            if !others().any(is_needed) {
                wrong.push(format!("  no package needs the licence {licence}: remove it"));
            }
        }
        let is_refused = |package: &Package| {
            let ban = self.bans.deny.iter().find(|ban| ban.matches(package))?;
            Some(format!("  {}: refused ({})", package.name, ban.reason))
        };
        wrong.extend(others().filter_map(is_refused));
        let Sources { unknown_registry: Level::Deny, unknown_git: Level::Deny } = self.sources;
        let is_foreign = |package: &&Package| package.source.as_deref() != Some(REGISTRY);
        let foreign = |package: &Package| {
            format!("  {}: from {}", package.name, package.source.as_deref().unwrap_or_default())
        };
        wrong.extend(others().filter(is_foreign).map(foreign));
        wrong.extend(self.bans.find_any_versions(packages));
        wrong.extend(self.bans.find_unused_skips(packages));
        Ok(wrong)
    }
}

impl Licences {
    /// Why the licence of a package is not allowed; `None` if it is.
    fn wrong(&self, package: &Package) -> Option<String> {
        let name = &package.name;
        let Some(licence) = &package.license else {
            return Some(format!("  {name}: names no licence"));
        };
        // older manifests separate alternative licences by a slash
        let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else {
            return Some(format!("  {name}: expected a licence expression, found {licence:?}"));
        };
        let is_allowed = expression.evaluate(|asked| self.allow.contains(&asked.to_string()));
        (!is_allowed).then(|| format!("  {name}: {licence} is not allowed"))
    }
}

impl Bans {
    /// Packages that are built in two versions, if `skip` contains neither version.
    fn find_second_versions(&self, packages: &[Package], manifest: &str) -> Vec<String> {
        let Level::Deny = self.multiple_versions;
        let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for package in packages.iter().filter(|package| package.source.is_some()) {
            if !self.skip.iter().any(|skip| skip.matches(package)) {
                versions.entry(&package.name).or_default().push(&package.version);
            }
        }
        let second = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
        second
            .map(|(name, versions)| format!("  {name}: {} ({manifest})", versions.join(", ")))
            .collect()
    }

    /// Entries of `skip` for packages that do not occur in two versions.
    fn find_unused_skips(&self, packages: &[Package]) -> Vec<String> {
        let is_second = |skip: &&Ban| {
            let same = packages
                .iter()
                .filter(|it| Some(it.name.as_str()) == skip.package.split('@').next());
            let any = |matches| same.clone().any(|it| skip.matches(it) == matches);
            any(true) && any(false)
        };
        let unused = self.skip.iter().filter(|skip| !is_second(skip));
        unused.map(|skip| format!("  {} is no second version: remove it", skip.package)).collect()
    }

    /// Dependencies in our manifests that accept any version.
    fn find_any_versions(&self, packages: &[Package]) -> Vec<String> {
        let Level::Deny = self.wildcards;
        let own = packages.iter().filter(|package| package.source.is_none());
        let all = own.flat_map(|package| package.dependencies.iter().map(move |it| (package, it)));
        let any = all
            .filter(|(_, it)| it.req == "*" && !(it.path.is_some() && self.allow_wildcard_paths));
        any.map(|(package, it)| format!("  {}: any version of {}", package.name, it.name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "[graph]\n[advisories]\n[licenses]\ninclude-dev = true\nallow = [\"MIT\", \"Zlib\"]\n\
        [bans]\nwildcards = \"deny\"\nallow-wildcard-paths = true\nmultiple-versions = \"deny\"\n\
        multiple-versions-include-dev = true\nskip = [{ crate = \"b@1\", reason = \"c has it\" }]\n\
        deny = [{ crate = \"tls\", reason = \"no network\" }]\n\
        [sources]\nunknown-registry = \"deny\"\nunknown-git = \"deny\"\n";

    fn rules() -> Rules {
        toml::from_str(RULES).unwrap()
    }

    fn package(name: &str, version: &str, licence: &str) -> Package {
        Package {
            id: format!("{name} {version}"),
            name: name.to_owned(),
            version: version.to_owned(),
            license: Some(licence.to_owned()),
            source: Some(REGISTRY.to_owned()),
            dependencies: Vec::new(),
        }
    }

    /// Packages that satisfy all rules.
    fn good() -> Vec<Package> {
        vec![
            package("a", "1.0.0", "MIT/Apache-2.0"),
            package("b", "1.2.0", "(MIT OR GPL-3.0) AND Zlib"),
            package("b", "2.0.0", "Zlib"),
        ]
    }

    fn wrong(change: impl FnOnce(&mut Vec<Package>)) -> String {
        let mut packages = good();
        change(&mut packages);
        let second = rules().bans.find_second_versions(&packages, "m");
        [second, rules().wrong(&packages).unwrap()].concat().join("\n")
    }

    #[test]
    fn each_rule_is_checked() {
        assert_eq!(wrong(|_| ()), "");
        let found = wrong(|all| all[0].license = Some("GPL-3.0 WITH GCC-exception-3.1".to_owned()));
        assert!(found.contains("a: GPL-3.0 WITH GCC-exception-3.1 is not allowed"), "{found}");
        let found = wrong(|all| all[0].license = Some("Apache-2.0 AND MIT".to_owned()));
        assert!(found.contains("a: Apache-2.0 AND MIT is not allowed"), "{found}");
        assert!(
            wrong(|all| all[0].license = Some("my own".to_owned())).contains("found \"my own\"")
        );
        assert!(wrong(|all| all[0].license = None).contains("a: names no licence"));
        assert!(wrong(Vec::clear).contains("no package needs the licence MIT"));
        let git = Some("git+https://example.org/a".to_owned());
        assert!(wrong(|all| all[0].source = git).contains("a: from git+"));
        assert!(
            wrong(|all| all.push(package("tls", "1.0.0", "MIT")))
                .contains("tls: refused (no network)")
        );
        let second = wrong(|all| all.push(package("a", "2.0.0", "MIT")));
        assert!(second.contains("a: 1.0.0, 2.0.0 (m)"), "{second}");
        assert!(wrong(|all| drop(all.pop())).contains("b@1 is no second version"));
        let any = Dependency { name: "a".to_owned(), req: "*".to_owned(), path: None };
        let here = Dependency { path: Some("/x".to_owned()), ..any.clone() };
        let own = |dependency| Package {
            source: None,
            dependencies: vec![dependency],
            ..package("own", "1.0.0", "MIT")
        };
        assert!(wrong(|all| all.push(own(any))).contains("own: any version of a"));
        assert_eq!(wrong(|all| all.push(own(here))), "");
    }

    #[test]
    fn a_key_that_is_not_known_is_an_error() {
        let more = format!("{RULES}allow-git = []\n");
        assert!(toml::from_str::<Rules>(&more).is_err());
        let weaker = RULES.replace("unknown-git = \"deny\"", "unknown-git = \"warn\"");
        assert!(toml::from_str::<Rules>(&weaker).is_err());
    }

    /// Packages that are not built for this machine are not judged.
    #[test]
    fn only_packages_that_are_built_count() {
        let tree =
            "own v1.0.0 (/x/own)\nb v2.0.0 (proc-macro)\na v1.0.0\nb v2.0.0 (*)\n\nown v1.0.0\n";
        let names: Vec<String> = select_named(good(), tree).into_iter().map(|it| it.id).collect();
        assert_eq!(names, ["a 1.0.0", "b 2.0.0"]);
    }
}
