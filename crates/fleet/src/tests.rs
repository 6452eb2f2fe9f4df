// SPDX-License-Identifier: Apache-2.0 OR MIT

use pagewise_model::{LimitSums, Ratio};
use proptest::prelude::*;

use super::*;

const GIB: u64 = 1 << 30;

fn machine(name: &str) -> Machine {
    Machine {
        name: Name::from(name),
        unix_seconds: 1e9,
        architecture: Some(Name::from("x86_64")),
        kernel: Some(Name::from("6.12.9+deb13-amd64")),
        ram: Some(Bytes::new(62 * GIB)),
        available: Some(Bytes::new(31 * GIB)),
        anon: Some(Bytes::new(20 * GIB)),
        inactive_anon: Some(Bytes::new(10 * GIB)),
        anon_huge: Some(Bytes::new(5 * GIB)),
        swap_used: Some(Bytes::new(0)),
        waited: Some(Percent::new(0.0)),
        level: Level::Calm,
        swap: SwapSetup::None,
        compressed: Some((Bytes::new(0), Bytes::new(0))),
        ..Machine::default()
    }
}

fn report(machines: impl IntoIterator<Item = Machine>) -> FleetReport {
    let mut fleet = Fleet::default();
    machines.into_iter().for_each(|machine| fleet.add(machine));
    fleet.into_report(Vec::new())
}

#[test]
fn sizes_of_ram_are_those_that_are_sold() {
    for (mebibytes, sold) in [
        (1, 1),
        (470, 512),
        (970, 1024),
        (1500, 1536),
        (24_090, 24_576),
        (63_800, 65_536),
        (65_536, 65_536),
    ] {
        assert_eq!(sold_size(Bytes::new(mebibytes * MIB)), Bytes::new(sold * MIB), "{mebibytes}");
    }
}

#[test]
fn a_series_is_the_first_two_numbers_of_a_release() {
    for (release, expected) in [
        ("6.12.9+deb13-amd64", "6.12"),
        ("7.2-rc1", "7.2"),
        ("6.1.0-18-amd64", "6.1"),
        ("6", "6"),
        ("", ""),
        ("6.", "6."),
        ("5.é", "5."),
    ] {
        assert_eq!(series(release), expected);
    }
}

#[test]
fn findings_are_counted_by_machine_and_the_worst_comes_first() {
    let with = |name: &str, findings: &[(&str, Severity)]| Machine {
        findings: findings.iter().map(|(id, severity)| ((*id).to_owned(), *severity)).collect(),
        ..machine(name)
    };
    let report = report([
        with("a", &[("mglru-off", Severity::Info), ("swap-full", Severity::Warning)]),
        with("b", &[("mglru-off", Severity::Info)]),
        with("c", &[("swap-full", Severity::Critical)]),
    ]);
    let found: Vec<(&str, Severity, u64)> =
        report.findings.iter().map(|it| (it.id.as_str(), it.severity, it.machines)).collect();
    assert_eq!(found, [("swap-full", Severity::Critical, 2), ("mglru-off", Severity::Info, 2)]);
    assert_eq!(report.findings[0].examples, [Name::from("c"), Name::from("a")]);
    assert_eq!(report.levels, [LevelCount { level: Level::Calm, machines: 3 }]);
}

/// A machine that was read twice since a boot counts once; two machines of which no boot is known count
/// twice.
#[test]
fn the_newest_reading_of_a_boot_counts() {
    let at = |name: &str, boot: Option<&str>, time: f64, level| Machine {
        boot: boot.map(Name::from),
        unix_seconds: time,
        level,
        ..machine(name)
    };
    let report = report([
        at("monday", Some("b1"), 10.0, Level::Critical),
        at("tuesday", Some("b1"), 20.0, Level::Calm),
        at("other", Some("b2"), 5.0, Level::Calm),
        at("x", None, 5.0, Level::Calm),
        at("y", None, 5.0, Level::Calm),
    ]);
    assert_eq!((report.machines, report.older_readings), (4, 1));
    assert_eq!(report.levels, [LevelCount { level: Level::Calm, machines: 4 }]);
    assert_eq!(report.unix_seconds, Some([5.0, 20.0]));
}

#[test]
fn only_machines_of_a_group_are_compared() {
    let with = |name: &str, swappiness: &str, reserve: &str| Machine {
        settings: [("vm.swappiness", swappiness), ("vm.min_free_kbytes", reserve)]
            .map(|(name, value)| (name.to_owned(), Name::from(value)))
            .into(),
        ..machine(name)
    };
    let other = Machine { ram: Some(Bytes::new(4 * GIB)), ..with("small", "100", "9000") };
    let report = report([
        with("a", "60", "67584"),
        with("b", "60", "67580"),
        with("c", "10", "67590"),
        other,
    ]);
    assert_eq!(report.groups.len(), 2);
    let group = &report.groups[0];
    assert_eq!((group.machines, group.ram_bytes), (3, Some(Bytes::new(64 * GIB))));
    let names: Vec<&str> = group.settings.iter().map(|it| it.setting.as_str()).collect();
    assert_eq!(names, ["vm.swappiness"], "what differs by less than a tenth is the same");
    let values: Vec<(&str, u64)> =
        group.settings[0].values.iter().map(|it| (it.value.as_str(), it.machines)).collect();
    assert_eq!(values, [("60", 2), ("10", 1)]);
    assert_eq!(group.settings[0].values[1].examples, [Name::from("c")]);
    assert!(report.groups[1].settings.is_empty());
}

#[test]
fn a_machine_far_from_the_others_is_named() {
    let with = |name: &str, available: u64| Machine {
        available: Some(Bytes::new(available * GIB)),
        ..machine(name)
    };
    let mut machines: Vec<Machine> =
        (0..9).map(|at| with(&format!("m{at}"), 40 + at % 3)).collect();
    machines.push(with("low", 2));
    let found = report(machines.clone());
    let outliers = &found.groups[0].outliers;
    assert_eq!(outliers.len(), 1, "{outliers:?}");
    assert_eq!(
        (&outliers[0].machine, outliers[0].measure),
        (&Name::from("low"), OutlierMeasure::Available)
    );
    // four machines have no median that says anything
    machines.drain(..6);
    assert!(report(machines).groups[0].outliers.is_empty());
}

/// Five machines of the size show that a half is saved, and five of another that nothing is: each of the
/// machines without compression gets the share of its size.
#[test]
fn what_compression_would_save_is_estimated_by_size() {
    let show = |name: String, ram: u64, ratio: (u64, u64)| Machine {
        ram: Some(Bytes::new(ram * GIB)),
        swap: SwapSetup::Zram,
        sampled_ratio: Ratio::from_sizes(Bytes::new(ratio.0), Bytes::new(ratio.1)),
        compressed: Some((Bytes::new(2 * GIB), Bytes::new(GIB))),
        ..machine(&name)
    };
    let halves = (0..5).map(|at| show(format!("half{at}"), 62, (2, 1)));
    let none = (0..5).map(|at| show(format!("none{at}"), 15, (1, 1)));
    let without = [
        machine("w1"),
        machine("w2"),
        Machine { ram: Some(Bytes::new(15 * GIB)), ..machine("w3") },
    ];
    let found = report(halves.chain(none).chain(without)).compression;
    assert_eq!((found.storing_machines, found.without_machines, found.ratio_machines), (10, 3, 10));
    assert_eq!(
        (found.stored_bytes, found.pool_bytes),
        (Bytes::new(20 * GIB), Bytes::new(10 * GIB))
    );
    assert_eq!(found.inactive_bytes, Bytes::new(30 * GIB));
    let saved = found.saved_bytes.unwrap();
    // all machines of a size agree
    assert_eq!([saved.value, saved.low, saved.high], [Bytes::new(10 * GIB); 3]);
    // a machine of a size that no other has gets the mean of all, which is not certain
    let odd = Machine { ram: Some(Bytes::new(3 * GIB)), ..machine("odd") };
    let halves = (0..5).map(|at| show(format!("half{at}"), 62, (2, 1)));
    let none = (0..5).map(|at| show(format!("none{at}"), 15, (1, 1)));
    let saved = report(halves.chain(none).chain([odd])).compression.saved_bytes.unwrap();
    assert_eq!(saved.value, Bytes::new(10 * GIB / 4));
    assert!(saved.low < saved.value && saved.value < saved.high, "{saved:?}");
    let few = (0..4).map(|at| show(format!("half{at}"), 62, (2, 1)));
    assert_eq!(report(few.chain([machine("w")])).compression.saved_bytes, None);
}

#[test]
fn limits_and_huge_pages_are_summed_where_they_are_known() {
    let sums = LimitSums { could_be_lower: 2, freed_bytes: Bytes::new(GIB), too_low: 1 };
    let with = |name: &str| Machine { limits: Some(sums), ..machine(name) };
    let unknown = Machine { anon_huge: None, ..machine("c") };
    let found = report([with("a"), with("b"), unknown]);
    let limits = found.limits.unwrap();
    assert_eq!((limits.machines, limits.sums.could_be_lower, limits.sums.too_low), (2, 4, 2));
    assert_eq!(limits.sums.freed_bytes, Bytes::new(2 * GIB));
    assert_eq!((found.huge_pages.machines, found.huge_pages.huge_bytes), (2, Bytes::new(10 * GIB)));
    assert_eq!(report([machine("a")]).limits, None);
}

proptest! {
    /// Each machine is in one group, and the interval is one.
    #[test]
    fn any_fleet_gives_a_report(
        sizes in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..40),
    ) {
        let machines = sizes.iter().enumerate().map(|(at, (ram, available, inactive))| Machine {
            ram: Some(Bytes::new(*ram)),
            available: Some(Bytes::new(*available)),
            inactive_anon: Some(Bytes::new(*inactive)),
            compressed: Some((Bytes::new(*available), Bytes::new(*inactive))),
            swap: if at % 2 == 0 { SwapSetup::Zram } else { SwapSetup::None },
            ..machine(&format!("m{at}"))
        });
        let found = report(machines);
        prop_assert_eq!(found.machines, sizes.len() as u64);
        let grouped: u64 = found.groups.iter().map(|group| group.machines).sum();
        prop_assert_eq!(grouped, found.machines);
        if let Some(saved) = found.compression.saved_bytes {
            prop_assert!(saved.low <= saved.value && saved.value <= saved.high);
        }
    }
}

/// Of 400 fleets whose machines save between 30 and 70 % by chance, the interval has the true mean in
/// 95 of 100; the numbers come from a fixed seed.
#[test]
fn the_interval_covers_the_true_mean() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut covered = 0;
    for _ in 0..400 {
        let shown = (0..12).map(|at| {
            let share = random.f64().mul_add(0.4, 0.3);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let used = ((1.0 - share) * 1e9) as u64;
            Machine {
                swap: SwapSetup::Zram,
                sampled_ratio: Ratio::from_sizes(Bytes::new(1_000_000_000), Bytes::new(used)),
                ..machine(&format!("m{at}"))
            }
        });
        let shown: Vec<Machine> = shown.collect();
        let saved =
            report(shown.into_iter().chain([machine("w")])).compression.saved_bytes.unwrap();
        let truth = Bytes::new(5 * GIB);
        covered += u32::from(saved.low <= truth && truth <= saved.high);
    }
    assert!((368..=392).contains(&covered), "{covered} of 400");
}
