// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds for each setting of a [`Snapshot`] the lines of configuration files that set it, the line
//! that takes effect at boot, and whether its value is in force ([`KnobOwnership`]).
//!
//! The mechanisms that read configuration files act one after the other at boot, so usually the
//! last line takes effect. There are three exceptions: TuneD applies sysctl files again after its
//! profile; systemd does not order udev rules, systemd-sysctl and systemd-tmpfiles relative to each
//! other, so it is not certain which of them takes effect if they set different values; and a zram
//! device keeps the settings of the first mechanism, because they cannot be changed once its size
//! is set.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use crate::knob::{KnobReading, Undo};
use crate::{Mechanism, Name, PersistentSetting, Reading, Snapshot, Source, Target};

/// Whether the kernel's current value of a setting is the one that takes effect at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InForce {
    /// The current value is the configured one, or the kernel is known to have changed it by
    /// itself.
    Yes,
    /// The current value differs from the configured one.
    No,
    /// The current value or the configured value is not known, or they cannot be compared.
    Unknown,
}

/// All lines of configuration files that set the same target at boot, and which of them takes
/// effect.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct KnobOwnership {
    /// The setting, zram device or swap area that the lines set.
    pub target: Target,
    /// Every line that sets the target, in the order in which the lines are applied at boot. Lines
    /// that no program reads are listed in their place.
    pub owners: Vec<PersistentSetting>,
    /// Index in `owners` of the line that takes effect at boot; `null` if no line is applied or if
    /// the order is not known.
    pub winner: Option<usize>,
    /// Why the line at `winner` takes effect, or why it is not certain which line does.
    pub why: Cow<'static, str>,
    /// The running value of the target; for a swap area, its priority.
    pub running: Reading<Name>,
    /// Whether the running value is the value of the line at `winner`.
    pub in_force: InForce,
}

impl KnobOwnership {
    /// The line that takes effect at boot; `None` if this is not certain.
    #[must_use]
    pub fn winning_line(&self) -> Option<&PersistentSetting> {
        self.owners.get(self.winner?)
    }

    /// The lines that are applied at boot, in the order in which they are applied.
    pub fn applied(&self) -> impl DoubleEndedIterator<Item = &PersistentSetting> {
        self.owners.iter().filter(|owner| owner.is_applied())
    }

    /// The mechanisms whose lines are applied at boot, in order, each once.
    #[must_use]
    pub fn mechanisms(&self) -> Vec<Mechanism> {
        let mut all: Vec<Mechanism> = self.applied().map(|owner| owner.mechanism).collect();
        all.dedup();
        all
    }

    /// Whether several mechanisms set up the same zram device: all except the first will fail.
    #[must_use]
    pub fn is_contested_zram(&self) -> bool {
        matches!(self.target, Target::ZramDevice(_)) && self.mechanisms().len() > 1
    }
}

/// Finds all lines that set each setting, zram device and swap area of the configuration files, and
/// which line takes effect at boot. The result is sorted by name.
#[must_use]
pub fn ownership(host: &Snapshot) -> Vec<KnobOwnership> {
    let instances = Instances::of(&host.knobs);
    let mut by_target: BTreeMap<Target, Vec<PersistentSetting>> = BTreeMap::new();
    for setting in &host.configuration.settings {
        for target in instances.targets_of(&setting.target) {
            let owner = PersistentSetting { target: target.clone(), ..setting.clone() };
            by_target.entry(target).or_default().push(owner);
        }
    }
    let owned: Vec<(Target, Vec<PersistentSetting>)> = by_target.into_iter().collect();
    let judge = |(target, owners): &(Target, Vec<PersistentSetting>)| {
        judge(host, &instances, &owned, target, owners)
    };
    owned.iter().map(judge).collect()
}

fn judge(
    host: &Snapshot,
    instances: &Instances<'_>,
    all: &[(Target, Vec<PersistentSetting>)],
    target: &Target,
    lines: &[PersistentSetting],
) -> KnobOwnership {
    let mut owners = lines.to_vec();
    let reapplies = host.configuration.tuned.as_ref().is_some_and(|tuned| tuned.reapplies_sysctl);
    // a stable sort keeps lines of one mechanism in the order in which it applies them
    owners.sort_by_key(|owner| boot_order(owner, reapplies));
    let (winner, why) = find_winner(target, &owners);
    let live = instances.reading(target);
    let running = match target {
        Target::SwapArea(path) => running_priority(host, path),
        _ => live.map_or_else(Reading::not_read, running_value),
    };
    let wanted = winner.and_then(|at| owners.get(at));
    let in_force = match (target, live, wanted) {
        (Target::SwapArea(_), _, Some(wanted)) => compare_numbers(&running, wanted),
        (_, Some(live), Some(wanted)) => judge_in_force(live, wanted, all),
        _ => InForce::Unknown,
    };
    KnobOwnership { target: target.clone(), owners, winner, why, running, in_force }
}

/// Sort key of a line: when it is applied at boot. If TuneD `reapplies` local sysctl files after
/// its profile ([`crate::Tuned::reapplies_sysctl`]), lines of such files come last.
#[must_use]
pub fn boot_order(owner: &PersistentSetting, reapplies: bool) -> (Mechanism, bool) {
    let again = reapplies && owner.mechanism == Mechanism::Sysctl && owner.is_local();
    if again { (Mechanism::Tuned, true) } else { (owner.mechanism, false) }
}

/// The mechanisms that systemd does not order relative to each other.
const UNORDERED: [Mechanism; 3] = [Mechanism::Udev, Mechanism::Sysctl, Mechanism::Tmpfiles];

fn find_winner(
    target: &Target,
    owners: &[PersistentSetting],
) -> (Option<usize>, Cow<'static, str>) {
    let mut applied = owners.iter().enumerate().filter(|(_, owner)| owner.is_applied());
    let Some((last, wins)) = applied.next_back() else {
        return (None, explain_none_applied(owners));
    };
    let others: Vec<&PersistentSetting> = applied.map(|(_, owner)| owner).collect();
    if others.is_empty() {
        return (Some(last), "it is the only line that is applied".into());
    }
    let is_other = |owner: &&&PersistentSetting| owner.mechanism != wins.mechanism;
    let differs = |owner: &&&PersistentSetting| owner.wanted() != wins.wanted();
    let foreign: Vec<&&PersistentSetting> = others.iter().filter(is_other).collect();
    if is_of_zram(target) && !foreign.is_empty() {
        let why = "several mechanisms set up this zram device: the first one succeeds, and the others fail \
                   because the device is in use";
        return (None, why.into());
    }
    let is_unordered = |owner: &&&&PersistentSetting| {
        UNORDERED.contains(&owner.mechanism) && UNORDERED.contains(&wins.mechanism)
    };
    let after_tuned = foreign.iter().any(|owner| owner.mechanism == Mechanism::Tuned);
    if !after_tuned && foreign.iter().filter(is_unordered).any(differs) {
        let why = "systemd does not order udev rules, systemd-sysctl and systemd-tmpfiles, so the last of them \
                   can differ from boot to boot";
        return (None, why.into());
    }
    let why = if wins.mechanism == Mechanism::Sysctl && after_tuned {
        "TuneD applies the sysctl files of /etc and /run again after its profile"
    } else if foreign.is_empty() {
        explain_same_mechanism(wins.mechanism)
    } else {
        explain_later_mechanism(wins.mechanism)
    };
    (Some(last), why.into())
}

fn explain_none_applied(owners: &[PersistentSetting]) -> Cow<'static, str> {
    let is_unknown = |owner: &PersistentSetting| matches!(owner.effect, crate::Effect::Unknown(_));
    if owners.iter().any(is_unknown) {
        "no line is known to be applied".into()
    } else {
        "nothing reads these lines".into()
    }
}

/// Whether the target is part of the set-up of a zram device, which can happen only once.
fn is_of_zram(target: &Target) -> bool {
    match target {
        Target::ZramDevice(_) => true,
        Target::SwapArea(path) => path.as_str().starts_with("/dev/zram"),
        Target::Knob { knob, .. } => knob.starts_with("zram."),
        Target::Parameter(_) => false,
    }
}

const fn explain_same_mechanism(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Sysctl => {
            "systemd-sysctl applies files in the order of their names; the last line wins, and a name wins over \
             a pattern"
        }
        Mechanism::Tmpfiles => {
            "systemd-tmpfiles writes the values of several lines; the last one stays"
        }
        Mechanism::CommandLine => "the kernel uses the last of several equal parameters",
        Mechanism::Tuned => "a profile is applied after those that it includes; the last line wins",
        _ => "files are read in the order of their names; the last line wins",
    }
}

const fn explain_later_mechanism(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::CommandLine => "modprobe passes the kernel command line after its own options",
        Mechanism::Udev => {
            "udev rules are applied when the device appears, after the kernel command line"
        }
        Mechanism::Sysctl => "systemd-sysctl runs after the kernel has applied its command line",
        Mechanism::Tmpfiles => {
            "systemd-tmpfiles runs after the kernel has applied its command line"
        }
        Mechanism::Tuned => "TuneD applies its profile after the files of sysctl.d and tmpfiles.d",
        _ => "it is applied last at boot",
    }
}

fn running_value(reading: &KnobReading) -> Reading<Name> {
    match (reading.active_word(), reading.live.value()) {
        (Some(active), Some(_)) => Reading::found(Name::from(active), reading.live.source.clone()),
        _ => reading.live.clone(),
    }
}

fn running_priority(host: &Snapshot, path: &Name) -> Reading<Name> {
    let tier = host.tiers.iter().find(|tier| tier.path == *path);
    let source = || Source::file("/proc/swaps");
    tier.map_or_else(
        || Reading::absent("it is no active swap area by this name", source()),
        |tier| tier.priority.clone().map(|priority| Name::from(priority.to_string().as_str())),
    )
}

fn compare_numbers(running: &Reading<Name>, wanted: &PersistentSetting) -> InForce {
    let number = |text: &str| text.parse::<i64>().ok();
    match (running.value().and_then(|value| number(value.as_str())), number(wanted.wanted())) {
        (Some(running), Some(wanted)) if running == wanted => InForce::Yes,
        (Some(_), Some(_)) => InForce::No,
        _ => InForce::Unknown,
    }
}

fn judge_in_force(
    live: &KnobReading,
    wanted: &PersistentSetting,
    all: &[(Target, Vec<PersistentSetting>)],
) -> InForce {
    match live.agrees_with(wanted.wanted()) {
        Some(false) if CHANGED_BY_DRIVER.contains(&live.knob.name) => InForce::Unknown,
        None => InForce::Unknown,
        Some(true) => InForce::Yes,
        Some(false) if is_raised(live, wanted) || is_overridden_by_pair(live, all) => InForce::Yes,
        Some(false) => InForce::No,
    }
}

/// Settings that a driver may change by itself. A driver that reports free pages to the hypervisor
/// sets `page_reporting.order` to the order that the hypervisor supports.
const CHANGED_BY_DRIVER: [&str; 1] = ["page_reporting.order"];

/// Whether the kernel raised the value above the wanted one by itself: khugepaged raises
/// `vm.min_free_kbytes`.
fn is_raised(live: &KnobReading, wanted: &PersistentSetting) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let live_value = live.active_word().and_then(number);
    live.knob.name == "vm.min_free_kbytes"
        && live_value.zip(number(wanted.wanted())).is_some_and(|(live, wanted)| live > wanted)
}

/// Whether the live value is 0 because a configuration file sets the other setting of a pair that
/// exclude each other, such as `vm.dirty_ratio` and `vm.dirty_bytes`.
fn is_overridden_by_pair(live: &KnobReading, all: &[(Target, Vec<PersistentSetting>)]) -> bool {
    let Undo::WriteBackNonZero { pair } = live.knob.undo else { return false };
    let is_owned = |(target, owners): &(Target, Vec<PersistentSetting>)| {
        target.knob() == Some(pair) && owners.iter().any(PersistentSetting::is_applied)
    };
    live.active_word() == Some("0") && all.iter().any(is_owned)
}

/// The settings of a host, found by their name in the knob table.
struct Instances<'a> {
    by_knob: HashMap<&'static str, Vec<&'a KnobReading>>,
}

impl<'a> Instances<'a> {
    fn of(knobs: &'a [KnobReading]) -> Self {
        let mut by_knob: HashMap<&'static str, Vec<&KnobReading>> = HashMap::new();
        knobs
            .iter()
            .for_each(|reading| by_knob.entry(reading.knob.name).or_default().push(reading));
        Self { by_knob }
    }

    fn readings_named(&self, knob: &str) -> &[&'a KnobReading] {
        self.by_knob.get(knob).map_or(&[], Vec::as_slice)
    }

    fn reading(&self, target: &Target) -> Option<&'a KnobReading> {
        let Target::Knob { knob, instance } = target else { return None };
        self.readings_named(knob).iter().find(|reading| reading.instance == *instance).copied()
    }

    /// Returns all targets on this host that `target` matches: there are several if it is a pattern
    /// or the name of a unit. If nothing matches, returns `target` itself.
    fn targets_of(&self, target: &Target) -> Vec<Target> {
        let Target::Knob { knob, instance: Some(wanted) } = target else {
            return vec![target.clone()];
        };
        let all = self.readings_named(knob).iter().filter_map(|reading| reading.instance.as_ref());
        let is_meant = instance_matcher(knob, wanted.as_str());
        let meant = all.filter(|instance| is_meant(instance.as_str()));
        let meant: Vec<Target> =
            meant.map(|it| Target::Knob { knob, instance: Some(it.clone()) }).collect();
        if meant.is_empty() { vec![target.clone()] } else { meant }
    }
}

/// Returns a predicate that says whether `wanted` matches the instance of a setting. For a cgroup,
/// `foo.service` matches the last folder of its path, and `foo@.service` matches the units made
/// from that template.
fn instance_matcher<'w>(knob: &str, wanted: &'w str) -> Box<dyn Fn(&str) -> bool + 'w> {
    if knob.starts_with("cgroup.") {
        return Box::new(move |path| {
            let unit = path.rsplit('/').next().unwrap_or(path);
            let template = wanted.split_once("@.");
            let is_made_of = |(name, kind): (&str, &str)| {
                let rest = unit.strip_prefix(name).and_then(|rest| rest.strip_prefix('@'));
                rest.is_some_and(|rest| rest.strip_suffix(kind).is_some_and(|it| it.ends_with('.')))
            };
            unit == wanted || template.is_some_and(is_made_of)
        });
    }
    match glob::Pattern::new(wanted) {
        Ok(pattern) if wanted.contains(['*', '?', '[']) => {
            Box::new(move |instance| pattern.matches(instance))
        }
        _ => Box::new(move |instance| instance == wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::KNOBS;
    use crate::{Effect, Tuned};

    fn line(mechanism: Mechanism, target: Target, path: &str, value: &str) -> PersistentSetting {
        let value = Reading::found(Name::from(value), Source::line(path, 1));
        PersistentSetting::applied(mechanism, target, value)
    }

    fn swappiness(mechanism: Mechanism, path: &str, value: &str) -> PersistentSetting {
        line(mechanism, Target::of_knob("vm.swappiness"), path, value)
    }

    fn knob(name: &str, instance: Option<&str>, live: &str) -> KnobReading {
        let knob = KNOBS.iter().find(|knob| knob.name == name).unwrap();
        let live = Reading::found(Name::from(live), Source::file(format!("/{}", knob.path)));
        KnobReading { knob, instance: instance.map(Name::from), live, default: knob.default }
    }

    fn host(settings: Vec<PersistentSetting>, knobs: Vec<KnobReading>) -> Snapshot {
        let mut host = Snapshot { knobs, ..Snapshot::default() };
        host.configuration.settings = settings;
        host
    }

    fn only(host: &Snapshot) -> KnobOwnership {
        let mut all = ownership(host);
        assert_eq!(all.len(), 1, "{all:#?}");
        all.remove(0)
    }

    #[test]
    fn the_last_line_of_a_mechanism_wins_and_the_running_value_is_compared() {
        let settings = vec![
            swappiness(Mechanism::Sysctl, "/usr/lib/sysctl.d/10.conf", "10"),
            swappiness(Mechanism::Sysctl, "/etc/sysctl.d/90.conf", "0180"),
        ];
        let it = only(&host(settings.clone(), vec![knob("vm.swappiness", None, "180")]));
        assert_eq!((it.winner, it.in_force), (Some(1), InForce::Yes));
        let it = only(&host(settings.clone(), vec![knob("vm.swappiness", None, "60")]));
        assert_eq!((it.in_force, it.running.value().unwrap().as_str()), (InForce::No, "60"));
        assert_eq!(only(&host(settings, vec![])).in_force, InForce::Unknown);
    }

    #[test]
    fn tuned_wins_over_sysctl_unless_it_applies_its_files_again() {
        let settings = vec![
            swappiness(Mechanism::Tuned, "/usr/lib/tuned/a/tuned.conf", "30"),
            swappiness(Mechanism::Sysctl, "/etc/sysctl.d/90.conf", "180"),
        ];
        let mut host = host(settings, vec![]);
        for (reapplies_sysctl, expected) in [(false, "30"), (true, "180")] {
            let profile =
                Reading::found(Name::from("a"), Source::file("/etc/tuned/active_profile"));
            host.configuration.tuned = Some(Tuned { profile, reapplies_sysctl });
            assert_eq!(only(&host).winning_line().unwrap().wanted(), expected);
        }
        host.configuration.settings[1].value.source = Source::line("/usr/lib/sysctl.d/90.conf", 1);
        assert_eq!(
            only(&host).winning_line().unwrap().wanted(),
            "30",
            "a package's file is not applied again"
        );
    }

    #[test]
    fn what_systemd_does_not_order_has_a_winner_only_where_all_agree() {
        let mut settings = vec![
            swappiness(Mechanism::Udev, "/etc/udev/rules.d/30-zram.rules", "150"),
            swappiness(Mechanism::Sysctl, "/etc/sysctl.d/90.conf", "60"),
        ];
        let it = only(&host(settings.clone(), vec![]));
        assert_eq!(it.winner, None);
        assert!(it.why.contains("does not order"), "{}", it.why);
        settings[1].value = settings[0].value.clone();
        assert_eq!(only(&host(settings, vec![])).winner, Some(1));
    }

    #[test]
    fn two_who_set_up_one_zram_device_contest_it() {
        let device = || Target::ZramDevice(Name::from("zram0"));
        let generator = "/etc/systemd/zram-generator.conf";
        let settings = vec![
            line(Mechanism::Udev, device(), "/etc/udev/rules.d/99.rules", "1G"),
            line(Mechanism::ZramGenerator, device(), generator, "swap"),
        ];
        let it = only(&host(settings.clone(), vec![]));
        assert!(it.is_contested_zram());
        assert_eq!((it.winner, it.in_force), (None, InForce::Unknown));
        assert!(!only(&host(settings[..1].to_vec(), vec![])).is_contested_zram());
    }

    #[test]
    fn a_line_that_nothing_reads_is_listed_and_does_not_win() {
        let mut hidden = swappiness(Mechanism::Sysctl, "/usr/lib/sysctl.d/50.conf", "1");
        hidden.effect = Effect::Ignored("hidden".into());
        let it = only(&host(vec![hidden.clone()], vec![knob("vm.swappiness", None, "60")]));
        assert_eq!((it.winner, it.in_force, it.owners.len()), (None, InForce::Unknown, 1));
        assert_eq!(it.why, "nothing reads these lines");
        hidden.effect = Effect::Unknown("a specifier".into());
        assert_eq!(only(&host(vec![hidden], vec![])).why, "no line is known to be applied");
    }

    #[test]
    fn patterns_and_units_stand_for_what_the_host_has() {
        let sizes = ["16kB", "2048kB"].map(|size| knob("thp.size.enabled", Some(size), "[never]"));
        let every = line(
            Mechanism::Tmpfiles,
            Target::instance_of("thp.size.enabled", "*"),
            "/etc/tmpfiles.d/thp.conf",
            "never",
        );
        let all = ownership(&host(vec![every], sizes.to_vec()));
        let names: Vec<String> = all.iter().map(|it| it.target.to_string()).collect();
        assert_eq!(names, ["thp.size.enabled[16kB]", "thp.size.enabled[2048kB]"]);
        assert!(all.iter().all(|it| it.in_force == InForce::Yes));
        let of_unit = |unit| {
            line(
                Mechanism::UnitProperty,
                Target::instance_of("cgroup.memory.max", unit),
                "/etc/systemd/system/x",
                "1G",
            )
        };
        let groups =
            ["/system.slice/ssh.service", "/system.slice/getty@tty1.service", "/a@x.slice"]
                .map(|path| knob("cgroup.memory.max", Some(path), "max"));
        let settings = ["ssh.service", "getty@.service", "gone.service"].map(of_unit).to_vec();
        let all = ownership(&host(settings, groups.to_vec()));
        let names: Vec<String> = all.iter().map(|it| it.target.to_string()).collect();
        assert_eq!(
            names,
            [
                "cgroup.memory.max[/system.slice/getty@tty1.service]",
                "cgroup.memory.max[/system.slice/ssh.service]",
                "cgroup.memory.max[gone.service]",
            ]
        );
        assert_eq!(all[2].in_force, InForce::Unknown);
    }

    #[test]
    fn what_the_kernel_changes_by_itself_is_in_force() {
        let of = |name, value| {
            line(Mechanism::Sysctl, Target::of_knob(name), "/etc/sysctl.d/9.conf", value)
        };
        let free = |live| {
            let knobs = vec![knob("vm.min_free_kbytes", None, live)];
            only(&host(vec![of("vm.min_free_kbytes", "16384")], knobs)).in_force
        };
        assert_eq!((free("67584"), free("9000")), (InForce::Yes, InForce::No));
        let pair = vec![of("vm.dirty_ratio", "10"), of("vm.dirty_bytes", "4096")];
        let knobs = vec![knob("vm.dirty_ratio", None, "0"), knob("vm.dirty_bytes", None, "4096")];
        let all = ownership(&host(pair, knobs));
        assert!(all.iter().all(|it| it.in_force == InForce::Yes), "{all:#?}");
    }
}
