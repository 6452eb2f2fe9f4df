// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Probes which features this kernel has, and why the others are missing, as [`Capability`].
//!
//! The table of features is in `feature.rs`; this module turns a row into a state. A file or a
//! system call decides, never the kernel's version. If the file does not exist, the reason is
//! searched in this order: the kernel configuration (it is the same inside a container), whether
//! this is a container, the module folder. While zram is missing, its parts have the same state as
//! zram itself.

use pagewise_model::{Capability, Evidence, FeatureState, HostSummary, Name, Reading, Source};

use crate::feature::{FEATURES, Feature, Probe};
use crate::kconfig::{self, Built};
use crate::module::{self, ModuleSource};
use pagewise_hostfs::text::words;
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues, Refusal, absolute_path};

pub(crate) fn read(host: &HostRoot, summary: &HostSummary) -> Vec<Capability> {
    let places = ProbePaths {
        host,
        zram: host.names("sys/block").into_iter().find(|name| name.starts_with("zram")),
        in_container: summary.container.value().is_some(),
    };
    let mut known: Vec<Capability> = Vec::with_capacity(FEATURES.len());
    for feature in FEATURES {
        let (state, evidence) = places.judge(feature, &known);
        known.push(Capability { feature: feature.name, doc: feature.doc, state, evidence });
    }
    known
}

type Verdict = (FeatureState, Vec<Evidence>);

/// Paths of the files that probes check on this host.
struct ProbePaths<'a> {
    host: &'a HostRoot,
    /// The name of any zram device; its folder shows which files zram devices have.
    zram: Option<String>,
    in_container: bool,
}

/// The result of a probe for a feature.
enum ProbeAnswer {
    There(Evidence),
    Denied(Evidence),
    NotThere(Evidence),
    /// The probe has no file to check on this host: the kernel configuration decides.
    Untold,
}

impl ProbePaths<'_> {
    fn judge(&self, feature: &Feature, known: &[Capability]) -> Verdict {
        let whole = feature.part_of.and_then(|whole| find_missing_whole(known, whole));
        let seen = match self.probe(&feature.probe) {
            ProbeAnswer::There(evidence) if whole.is_none() => {
                return (FeatureState::Present, self.evidence_of_presence(feature, evidence));
            }
            other => other,
        };
        if let Some(verdict) = self.judge_not_built(feature) {
            return verdict;
        }
        if let Some(whole) = whole {
            return (whole.state.clone(), whole.evidence.clone());
        }
        match seen {
            ProbeAnswer::Denied(evidence) => (FeatureState::Denied, vec![evidence]),
            ProbeAnswer::Untold => self.judge_as_built(feature),
            ProbeAnswer::NotThere(evidence) | ProbeAnswer::There(evidence) => {
                self.judge_missing(feature, evidence)
            }
        }
    }

    fn probe(&self, probe: &Probe) -> ProbeAnswer {
        match probe {
            Probe::Paths(paths) => {
                let there = paths.iter().find(|path| self.host.exists(path));
                there.map_or_else(|| first_missing(paths), |path| ProbeAnswer::There(exists(path)))
            }
            Probe::ZramFile(name) => match &self.zram {
                Some(zram) => self.probe(&Probe::Paths(&[&format!("sys/block/{zram}/{name}")])),
                None => ProbeAnswer::Untold,
            },
            Probe::ZramDevice => match &self.zram {
                Some(zram) => ProbeAnswer::There(exists(&format!("sys/block/{zram}"))),
                None => self.probe(&Probe::Paths(&["sys/class/zram-control"])),
            },
            Probe::Read(path) => probe_by_reading(path, self.host.bytes(path), |_| true),
            Probe::Word(path, word) => probe_by_reading(path, self.host.bytes(path), |text| {
                words(text).any(|found| found == word.as_bytes())
            }),
            Probe::Configuration(file) if kconfig::kconfig(self.host).is_empty() => {
                let zram =
                    self.zram.as_ref().map(|zram| format!("sys/kernel/debug/zram/{zram}/{file}"));
                match zram.filter(|path| self.host.exists(path)) {
                    Some(path) => ProbeAnswer::There(exists(&path)),
                    None => ProbeAnswer::Untold,
                }
            }
            Probe::Configuration(_) => ProbeAnswer::Untold,
        }
    }

    /// The evidence for a feature that exists: the file, and whether it is a module or built in.
    fn evidence_of_presence(&self, feature: &Feature, there: Evidence) -> Vec<Evidence> {
        let loaded = feature.module.and_then(|module| {
            let state = self.host.name_at(&format!("sys/module/{module}/initstate"));
            Reading::evidence(&state)
        });
        std::iter::once(there).chain(loaded).collect()
    }

    /// The verdict "not built" if all options that provide the feature are off.
    fn judge_not_built(&self, feature: &Feature) -> Option<Verdict> {
        let config = kconfig::kconfig(self.host);
        let answers: Option<Vec<_>> =
            feature.options.iter().map(|option| config.get(option)).collect();
        let answers = answers.filter(|all| all.iter().all(|(built, _)| *built == Built::Not))?;
        let option = feature.options.first()?;
        let evidence = answers.into_iter().map(|(_, evidence)| evidence.clone()).collect();
        Some((FeatureState::NotBuilt { option }, evidence))
    }

    /// The first option that provides the feature and is on.
    fn find_build_option(&self, feature: &Feature) -> Option<(Built, Evidence)> {
        let config = kconfig::kconfig(self.host);
        let mut on = feature.options.iter().filter(|option| config.has(option));
        let (built, evidence) = config.get(on.next()?)?;
        Some((built, evidence.clone()))
    }

    /// The state according to the kernel configuration alone, for a feature that no file shows.
    fn judge_as_built(&self, feature: &Feature) -> Verdict {
        match self.find_build_option(feature) {
            Some((_, evidence)) => (FeatureState::Present, vec![evidence]),
            None => (FeatureState::Missing, Vec::new()),
        }
    }

    fn judge_missing(&self, feature: &Feature, absence: Evidence) -> Verdict {
        let mut evidence = vec![absence];
        let built = self.find_build_option(feature);
        evidence.extend(built.iter().map(|(_, line)| line.clone()));
        if self.in_container {
            return (FeatureState::OutsideContainer, evidence);
        }
        if let Some(verdict) =
            feature.module.and_then(|module| self.find_in_module_folder(module, &evidence))
        {
            return verdict;
        }
        let is_in = built.is_some_and(|(built, _)| built == Built::In);
        let off = feature.switch.filter(|_| is_in).map(|switch| FeatureState::Off { switch });
        (off.unwrap_or(FeatureState::Missing), evidence)
    }

    fn find_in_module_folder(&self, module: &'static str, so_far: &[Evidence]) -> Option<Verdict> {
        let (state, found) = match module::find(self.host, module)? {
            ModuleSource::Loadable(line) => (FeatureState::Loadable { module }, line),
            ModuleSource::BuiltIn(line) => (FeatureState::Missing, line),
        };
        Some((state, so_far.iter().cloned().chain([found]).collect()))
    }
}

/// The feature with the name `whole`, if it is not present on this host.
fn find_missing_whole<'a>(known: &'a [Capability], whole: &str) -> Option<&'a Capability> {
    let whole = known.iter().find(|capability| capability.feature == whole)?;
    (whole.state != FeatureState::Present).then_some(whole)
}

fn evidence_at(path: &str, value: impl Into<String>) -> Evidence {
    Evidence::new(&Source::file(absolute_path(path)), value.into())
}

fn exists(path: &str) -> Evidence {
    evidence_at(path, "exists")
}

fn first_missing(paths: &[&str]) -> ProbeAnswer {
    paths.first().map_or(ProbeAnswer::Untold, |path| {
        ProbeAnswer::NotThere(evidence_at(path, "no such file"))
    })
}

fn probe_by_reading(
    path: &str,
    read: Result<Vec<u8>, Refusal>,
    is_it: impl FnOnce(&[u8]) -> bool,
) -> ProbeAnswer {
    match read {
        Ok(text) if is_it(&text) => ProbeAnswer::There(evidence_at(path, first_line(&text))),
        Ok(text) => ProbeAnswer::NotThere(evidence_at(path, first_line(&text))),
        Err(Refusal::Denied(help)) => ProbeAnswer::Denied(evidence_at(path, help)),
        Err(Refusal::Absent(why)) => ProbeAnswer::NotThere(evidence_at(path, why)),
    }
}

fn first_line(text: &[u8]) -> String {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    Name::from_bytes(&line[..line.len().min(80)]).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{denied_entry, file};
    use pagewise_hostfs::Entry;

    fn state_in(files: Vec<(String, Entry)>, feature: &str, container: bool) -> FeatureState {
        let host = HostRoot::memory(files);
        let mut summary = HostSummary::default();
        if container {
            summary.container = Reading::found(Name::from("docker"), Source::file("/.dockerenv"));
        }
        let all = read(&host, &summary);
        all.into_iter().find(|capability| capability.feature == feature).unwrap().state
    }

    fn state(files: Vec<(String, Entry)>, feature: &str) -> FeatureState {
        state_in(files, feature, false)
    }

    fn release() -> (String, Entry) {
        file("proc/sys/kernel/osrelease", "6.12.107\n")
    }

    #[test]
    fn zram_is_present_with_its_control_or_a_device() {
        let control = file("sys/class/zram-control/hot_add", "");
        assert_eq!(state(vec![control], "zram"), FeatureState::Present);
        let device = file("sys/block/zram0/initstate", "0\n");
        assert_eq!(state(vec![device], "zram"), FeatureState::Present);
        assert_eq!(state(vec![], "zram"), FeatureState::Missing);
    }

    #[test]
    fn a_module_in_the_folder_is_loadable_and_its_parts_with_it() {
        let files = || {
            vec![
                release(),
                file("lib/modules/6.12.107/modules.dep", "kernel/drivers/block/zram/zram.ko.xz:\n"),
                file(
                    "boot/config-6.12.107",
                    "CONFIG_ZRAM=m\nCONFIG_ZRAM_WRITEBACK=y\n# CONFIG_ZRAM_MULTI_COMP is not set\n",
                ),
            ]
        };
        let loadable = FeatureState::Loadable { module: "zram" };
        assert_eq!(state(files(), "zram"), loadable);
        assert_eq!(state(files(), "zram.writeback"), loadable);
        let not_built = FeatureState::NotBuilt { option: "CONFIG_ZRAM_MULTI_COMP" };
        assert_eq!(state(files(), "zram.multi_comp"), not_built);
    }

    #[test]
    fn zstd_is_of_use_to_zswap_only_where_there_is_zswap() {
        let crypto = || file("proc/crypto", "name         : zstd\ndriver       : zstd-scomp\n");
        let zswap = || file("sys/module/zswap/parameters/enabled", "N\n");
        assert_eq!(state(vec![crypto(), zswap()], "zswap.zstd"), FeatureState::Present);
        assert_eq!(state(vec![crypto()], "zswap.zstd"), FeatureState::Missing);
        assert_eq!(state(vec![zswap()], "zswap.zstd"), FeatureState::Missing);
        let modules = file("lib/modules/6.12.107/modules.dep", "kernel/crypto/zstd.ko.xz:\n");
        let loadable = FeatureState::Loadable { module: "zstd" };
        assert_eq!(state(vec![release(), modules, zswap()], "zswap.zstd"), loadable);
    }

    #[test]
    fn a_container_cannot_have_it_unless_the_kernel_is_known_to_lack_it() {
        let files = || {
            vec![
                release(),
                file("lib/modules/6.12.107/modules.dep", "kernel/drivers/block/zram/zram.ko.xz:\n"),
                file("proc/config.gz", "CONFIG_ZRAM=m\n# CONFIG_KSM is not set\n"),
            ]
        };
        assert_eq!(state_in(files(), "zram", true), FeatureState::OutsideContainer);
        let not_built = FeatureState::NotBuilt { option: "CONFIG_KSM" };
        assert_eq!(state_in(files(), "ksm", true), not_built);
    }

    #[test]
    fn compiled_in_and_off_is_not_missing() {
        let built = || file("proc/config.gz", "CONFIG_PSI=y\n");
        assert!(
            matches!(state(vec![built()], "psi"), FeatureState::Off { switch } if switch.contains("psi=1"))
        );
        // older kernels have the file and refuse to read it
        let refusal = Refusal::Absent("compiled in but switched off".into());
        let refused = ("proc/pressure/memory".to_owned(), Entry::Refused(refusal));
        assert!(matches!(state(vec![built(), refused], "psi"), FeatureState::Off { .. }));
        assert_eq!(state(vec![denied_entry("proc/pressure/memory")], "psi"), FeatureState::Denied);
        assert_eq!(state(vec![], "psi"), FeatureState::Missing);
    }

    #[test]
    fn parts_of_zram_are_seen_in_a_device_or_in_the_configuration() {
        let device = || file("sys/block/zram0/initstate", "0\n");
        let backing = file("sys/block/zram0/backing_dev", "none\n");
        assert_eq!(state(vec![device(), backing], "zram.writeback"), FeatureState::Present);
        assert_eq!(state(vec![device()], "zram.writeback"), FeatureState::Missing);
        let config = file(
            "proc/config.gz",
            "CONFIG_ZRAM_MEMORY_TRACKING=y\n# CONFIG_ZRAM_TRACK_ENTRY_ACTIME is not set\n",
        );
        let tracking = "zram.track_entry_actime";
        assert_eq!(state(vec![device(), config], tracking), FeatureState::Present);
        let neither = file(
            "proc/config.gz",
            "# CONFIG_ZRAM_MEMORY_TRACKING is not set\n# CONFIG_ZRAM_TRACK_ENTRY_ACTIME is not set\n",
        );
        let not_built = FeatureState::NotBuilt { option: "CONFIG_ZRAM_TRACK_ENTRY_ACTIME" };
        assert_eq!(state(vec![device(), neither], tracking), not_built);
    }

    #[test]
    fn the_memory_controller_is_a_word_of_the_list() {
        let list = |text: &str| vec![file("sys/fs/cgroup/cgroup.controllers", text)];
        assert_eq!(state(list("cpu io memory\n"), "cgroup.v2.memory"), FeatureState::Present);
        assert_eq!(state(list("hugetlb\n"), "cgroup.v2.memory"), FeatureState::Missing);
    }

    #[test]
    fn a_loaded_module_is_told_from_a_built_in_one() {
        let host = HostRoot::memory([
            file("sys/class/zram-control/hot_add", ""),
            file("sys/module/zram/initstate", "live\n"),
        ]);
        let all = read(&host, &HostSummary::default());
        let zram = all.iter().find(|capability| capability.feature == "zram").unwrap();
        let shown: Vec<_> =
            zram.evidence.iter().map(|e| (e.path.as_str(), e.value.as_str())).collect();
        assert_eq!(
            shown,
            [("/sys/class/zram-control", "exists"), ("/sys/module/zram/initstate", "live")]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(
            path in prop::sample::select(vec![
                "proc/config.gz", "proc/sys/kernel/osrelease", "lib/modules/6.12.107/modules.dep",
                "proc/pressure/memory", "sys/fs/cgroup/cgroup.controllers",
            ]),
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let host = HostRoot::memory([release(), file(path, bytes)]);
            prop_assert_eq!(read(&host, &HostSummary::default()).len(), FEATURES.len());
        }
    }
}
