// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Planted nights: what happened is listed, in order, and nothing else is.

use super::*;

const GIB: u64 = 1 << 30;

fn moment(second: f64, level: Level) -> Moment {
    let line = format!("The host is {level:?}.");
    Moment {
        unix_seconds: 1e9 + second,
        seconds: Some(10.0),
        verdict: HostVerdict { level, line, host: level, ..HostVerdict::default() },
        level,
        boot: Some(Name::from("boot-1")),
        kernel: Some(Name::from("6.12.107")),
        memory: Some(Bytes::new(4 * GIB)),
        processes: BTreeMap::new(),
        units: Some(BTreeSet::new()),
        settings: BTreeMap::new(),
        full: BTreeMap::new(),
        kills: Vec::new(),
        log_unread: None,
    }
}

fn with_process(mut moment: Moment, pid: u32, name: &str, held: u64) -> Moment {
    let size = Size { name: Name::from(name), group: None, held: Bytes::new(held) };
    moment.processes.insert((pid, 1), size);
    moment
}

fn killed(second: f64) -> Killed {
    Killed {
        unix_seconds: 1e9 + second,
        title: "redis (pid 512) was killed".to_owned(),
        change: vec!["sudo systemctl set-property backup.service MemoryHigh=400M".to_owned()],
    }
}

/// A night: calm, a backup that starts and grows, a kill, calm.
fn night() -> Vec<Moment> {
    let mut all = Vec::new();
    for at in 0..30 {
        let second = f64::from(at) * 10.0;
        let level = match at {
            12..=14 => Level::Tight,
            15..=17 => Level::Short,
            _ => Level::Calm,
        };
        let grown = u64::try_from((at - 10).clamp(0, 7)).unwrap() * GIB / 4;
        let mut one = with_process(moment(second, level), 512, "redis", GIB);
        one = with_process(one, 77, "backup", grown);
        if at >= 10 {
            one.units = Some([Name::from("/system.slice/backup.service")].into());
        }
        if at >= 16 {
            one.kills = vec![killed(158.0)];
            one.processes.remove(&(512, 1));
        }
        if (14..20).contains(&at) {
            one.full = [(Name::from("/dev/zram0"), Bytes::new(2 * GIB))].into();
        }
        all.push(one);
    }
    all
}

fn told(incident: &Incident) -> Vec<(f64, IncidentEventKind)> {
    incident.events.iter().map(|event| (event.unix_seconds - 1e9, event.kind)).collect()
}

#[test]
fn a_night_is_told_in_order() {
    let incident = explain(&night(), Around::Time(1e9 + 158.0));
    assert_eq!(
        told(&incident),
        [
            (100.0, IncidentEventKind::Started),
            (120.0, IncidentEventKind::Level),
            (140.0, IncidentEventKind::Full),
            (150.0, IncidentEventKind::Level),
            (158.0, IncidentEventKind::Kill),
            (180.0, IncidentEventKind::Level),
        ]
    );
    let trouble = incident.trouble.unwrap();
    assert_eq!(trouble.begun_unix_seconds, 1e9 + 120.0);
    assert_eq!(trouble.ended_unix_seconds, Some(1e9 + 180.0));
    assert_eq!(trouble.worst_unix_seconds, 1e9 + 160.0);
    assert_eq!(incident.change.len(), 1, "once, however often the log shows the kill");
    let [grown] = &incident.growers[..] else { panic!("{:?}", incident.growers) };
    assert_eq!((grown.name.as_str(), grown.from.get()), ("backup", GIB / 4));
    assert_eq!(grown.to.get(), GIB / 4 * 5);
}

#[test]
fn a_calm_night_has_no_trouble_and_no_growers() {
    let calm: Vec<Moment> = (0..30).map(|at| moment(f64::from(at) * 10.0, Level::Calm)).collect();
    for around in [Around::Worst, Around::Time(1e9 + 100.0)] {
        let incident = explain(&calm, around);
        assert_eq!((&incident.trouble, &incident.events[..]), (&None, &[][..]));
        assert!(incident.growers.is_empty() && incident.change.is_empty());
    }
    assert_eq!(explain(&[], Around::Worst), Incident::default());
}

#[test]
fn of_two_troubles_the_near_one_or_the_worse_one_is_explained() {
    let mut all: Vec<Moment> =
        (0..60).map(|at| moment(f64::from(at) * 10.0, Level::Calm)).collect();
    all[10] = moment(100.0, Level::Short);
    all[50] = moment(500.0, Level::Tight);
    let begun = |around| explain(&all, around).trouble.unwrap().begun_unix_seconds - 1e9;
    assert_eq!(begun(Around::Worst), 100.0);
    assert_eq!(begun(Around::Time(1e9 + 420.0)), 500.0);
    assert_eq!(begun(Around::Time(1e9)), 100.0);
}

#[test]
fn kills_of_before_the_record_are_no_news_and_a_boot_is() {
    let mut all =
        vec![moment(0.0, Level::Calm), moment(10.0, Level::Calm), moment(20.0, Level::Calm)];
    all.iter_mut().for_each(|one| one.kills = vec![killed(-5.0)]);
    assert_eq!(explain(&all, Around::Worst).trouble, None);
    all[2].boot = Some(Name::from("boot-2"));
    all[2].kills.clear();
    let incident = explain(&all, Around::Worst);
    assert_eq!(told(&incident), [(20.0, IncidentEventKind::Boot)]);
}

#[test]
fn settings_and_gaps_are_told() {
    let mut all: Vec<Moment> =
        (0..20).map(|at| moment(f64::from(at) * 10.0, Level::Calm)).collect();
    let value = |value: &str| BTreeMap::from([("vm.swappiness".to_owned(), Name::from(value))]);
    all[..8].iter_mut().for_each(|one| one.settings = value("60"));
    all[8..].iter_mut().for_each(|one| one.settings = value("10"));
    all[15..].iter_mut().for_each(|one| one.unix_seconds += 600.0);
    let incident = explain(&all, Around::Worst);
    let kinds = [(80.0, IncidentEventKind::Setting), (750.0, IncidentEventKind::Gap)];
    assert_eq!(told(&incident), kinds);
    assert_eq!(incident.events[0].text, "vm.swappiness was set from 60 to 10");
}

#[test]
fn a_trouble_that_lasts_has_no_end() {
    let all = [moment(0.0, Level::Calm), moment(10.0, Level::Short)];
    assert_eq!(explain(&all, Around::Worst).trouble.unwrap().ended_unix_seconds, None);
}
