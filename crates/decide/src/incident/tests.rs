// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests with invented series of readings: exactly the events that happened are listed, in order.

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
        programs: BTreeMap::new(),
        areas: Vec::new(),
        units: Some(BTreeSet::new()),
        settings: BTreeMap::new(),
        full: BTreeMap::new(),
        kills: Vec::new(),
        kills_by_programs: Vec::new(),
        has_undated_kills: false,
        log_unread: None,
    }
}

fn with_process(mut moment: Moment, pid: u32, name: &str, held: u64) -> Moment {
    let size = Size { name: Name::from(name), group: None, held: Bytes::new(held) };
    let program = moment.programs.entry(Name::from(name)).or_default();
    program.processes += 1;
    program.held = Bytes::new(program.held.get() + held);
    program.largest = program.largest.max((Bytes::new(held), pid));
    moment.processes.insert((pid, 1), size);
    moment
}

fn killed(second: f64) -> Killed {
    Killed {
        unix_seconds: 1e9 + second,
        title: "redis (pid 512) was killed".to_owned(),
        victims: Vec::new(),
        listed: None,
        change: vec!["sudo systemctl set-property backup.service MemoryHigh=400M".to_owned()],
    }
}

/// Readings of a night: memory is calm, a backup starts and grows, a process is killed, memory is
/// calm.
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
    assert_eq!(trouble.longest_seconds_between_readings, 10.0);
    assert_eq!(trouble.growth_from_unix_seconds, 1e9);
    // the reading before the kill
    assert_eq!(trouble.growth_to_unix_seconds, 1e9 + 150.0);
    assert_eq!(incident.change.len(), 1, "once, however often the log shows the kill");
    let [grown] = &incident.growers[..] else { panic!("{:?}", incident.growers) };
    assert_eq!((grown.name.as_str(), grown.from.get(), grown.seconds), ("backup", 0, 160.0));
    assert_eq!(grown.to.get(), GIB / 4 * 6);
}

/// A kill at the limit of a cgroup makes memory short; what follows without a kill is worse.
#[test]
fn a_critical_reading_is_worse_than_an_earlier_kill() {
    let mut moments = night();
    for moment in &mut moments[18..22] {
        moment.level = Level::Critical;
    }
    let worst = |moments: &[Moment]| explain(moments, Around::Worst).trouble.unwrap();
    assert_eq!(worst(&moments).worst_unix_seconds, 1e9 + 180.0);
    // of readings of the same level, the one with the kill is the worst
    moments[16].level = Level::Critical;
    assert_eq!(worst(&moments).worst_unix_seconds, 1e9 + 160.0);
    // memory may be calm at once after a kill
    for moment in &mut moments {
        moment.level = Level::Calm;
    }
    assert_eq!(worst(&moments).worst_unix_seconds, 1e9 + 160.0);
}

/// The message of systemd-oomd is read a minute after its kill, when memory is calm again.
#[test]
fn a_kill_by_a_program_is_listed_at_its_time() {
    let mut moments = night();
    for (at, moment) in moments.iter_mut().enumerate() {
        moment.kills.clear();
        if at >= 22 {
            moment.kills_by_programs = vec![killed(158.0)];
        }
    }
    let incident = explain(&moments, Around::Time(1e9 + 158.0));
    let kills: Vec<_> =
        incident.events.iter().filter(|it| it.kind == IncidentEventKind::Kill).collect();
    let [kill] = kills[..] else { panic!("{:?}", incident.events) };
    assert_eq!((kill.unix_seconds, kill.seconds_since_reading), (1e9 + 158.0, Some(8.0)));
    assert_eq!(incident.trouble.unwrap().ended_unix_seconds, Some(1e9 + 180.0));
    assert_eq!(incident.growers[0].name.as_str(), "backup");

    // a kill before the first reading is not part of what was recorded
    let late = explain(&moments[17..], Around::Worst);
    assert!(late.events.iter().all(|it| it.kind != IncidentEventKind::Kill), "{:?}", late.events);
}

/// earlyoom kills before the kernel does, and memory is calm at the next reading.
#[test]
fn the_verdict_of_a_kill_by_a_program_is_not_calm() {
    let mut moments: Vec<Moment> =
        (0..6).map(|at| moment(f64::from(at) * 10.0, Level::Calm)).collect();
    moments[5].kills_by_programs = vec![killed(25.0)];
    let trouble = |moments: &[Moment]| explain(moments, Around::Worst).trouble.unwrap();
    let calm = trouble(&moments);
    assert_eq!(calm.level, Level::Short);
    assert_eq!(calm.line, "redis (pid 512) was killed. The host is Calm.");
    moments[2] = moment(20.0, Level::Short);
    let short = trouble(&moments);
    assert_eq!((short.level, short.line.as_str()), (Level::Short, "The host is Short."));
    assert_eq!(short.worst_unix_seconds, 1e9 + 20.0);
}

#[test]
fn a_kill_by_a_program_at_an_unknown_time_is_not_silently_left_out() {
    let mut calm = vec![moment(0.0, Level::Calm), moment(10.0, Level::Calm)];
    assert_eq!(explain(&calm, Around::Worst).unknown, Vec::<String>::new());
    calm[1].has_undated_kills = true;
    let unknown = explain(&calm, Around::Worst).unknown;
    assert!(unknown[0].starts_with("when programs such as earlyoom killed"), "{unknown:?}");
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
    // a picture has its hole where the event is; a boot is a hole, however short
    assert_eq!(holes(&all), [[1e9 + 140.0, 1e9 + 750.0]]);
    let times: Vec<f64> = all.iter().map(|one| one.unix_seconds).collect();
    assert_eq!(holes_between(&times), holes(&all));
    all[3..].iter_mut().for_each(|one| one.boot = Some(Name::from("boot-2")));
    assert_eq!(holes(&all)[0], [1e9 + 20.0, 1e9 + 30.0]);
    assert_eq!((holes(&all[..1]).len(), holes(&[]).len(), holes_between(&[]).len()), (0, 0, 0));
}

#[test]
fn a_trouble_that_lasts_has_no_end() {
    let all = [moment(0.0, Level::Calm), moment(10.0, Level::Short)];
    assert_eq!(explain(&all, Around::Worst).trouble.unwrap().ended_unix_seconds, None);
}

/// Readings of a process that takes all memory between two readings: memory is calm, and then there
/// is a kill.
fn burst(victim: Victim) -> Vec<Moment> {
    let calm = with_process(moment(0.0, Level::Calm), 77, "backup", GIB);
    let mut killed = Killed { victims: vec![victim], ..killed(9.0) };
    killed.title = "it was killed".to_owned();
    let mut after = with_process(moment(10.0, Level::Calm), 77, "backup", GIB);
    after.kills = vec![killed];
    vec![calm, after, with_process(moment(20.0, Level::Calm), 77, "backup", GIB)]
}

#[test]
fn a_killed_process_of_which_no_reading_has_the_size_is_named() {
    let victim =
        Victim { pid: 99, name: Name::from("burst"), group: None, held: Bytes::new(2 * GIB) };
    let incident = explain(&burst(victim), Around::Worst);
    let [grown] = &incident.growers[..] else { panic!("{:?}", incident.growers) };
    assert_eq!((grown.name.as_str(), grown.from.get(), grown.to.get()), ("burst", 0, 2 * GIB));
    assert!((grown.seconds - 9.0).abs() < 0.1, "{grown:?}");
    let kill = incident.events.iter().find(|event| event.kind == IncidentEventKind::Kill);
    assert!(
        kill.and_then(|kill| kill.seconds_since_reading).is_some_and(|it| (it - 9.0).abs() < 0.1)
    );
}

#[test]
fn a_killed_process_that_did_not_grow_is_not_named() {
    let victim = Victim { pid: 77, name: Name::from("backup"), group: None, held: Bytes::new(GIB) };
    assert_eq!(explain(&burst(victim), Around::Worst).growers, []);
}

/// The kernel kills one process, but another one took the memory and lives on.
#[test]
fn what_grew_between_two_readings_and_survived_is_named() {
    let victim = Victim { pid: 77, name: Name::from("backup"), group: None, held: Bytes::new(GIB) };
    let mut moments = burst(victim);
    moments[1] = with_process(moments[1].clone(), 99, "cache", 2 * GIB);
    let incident = explain(&moments, Around::Worst);
    let [grown] = &incident.growers[..] else { panic!("{:?}", incident.growers) };
    assert_eq!((grown.name.as_str(), grown.from.get(), grown.to.get()), ("cache", 0, 2 * GIB));
}

#[test]
fn many_small_processes_are_named_together() {
    let mut full = moment(10.0, Level::Short);
    for pid in 100..400 {
        full = with_process(full, pid, "worker", 4 << 20);
    }
    full = with_process(full, 77, "backup", GIB / 2);
    let calm = with_process(moment(0.0, Level::Calm), 77, "backup", GIB / 2);
    let incident = explain(&[calm, full], Around::Worst);
    let [grown] = &incident.growers[..] else { panic!("{:?}", incident.growers) };
    assert_eq!(
        (grown.name.as_str(), grown.processes, grown.to.get()),
        ("worker", 300, 300 * (4 << 20))
    );
}

/// Readings of a storm: 300 processes start and fill memory between two readings, and the kernel kills
/// these of them.
fn storm(victims: &[u32], living: std::ops::Range<u32>) -> Vec<Moment> {
    let size = 4 << 20;
    let mut after = with_process(moment(10.0, Level::Short), 77, "backup", GIB / 2);
    for pid in living {
        after = with_process(after, pid, "worker", size);
    }
    let group = Some(Name::from("/app.service"));
    let victim = |pid: &u32| Victim {
        pid: *pid,
        name: Name::from("worker"),
        group: group.clone(),
        held: Bytes::new(size),
    };
    after.kills = victims
        .iter()
        .map(|pid| Killed {
            title: format!("{pid} was killed"),
            victims: vec![victim(pid)],
            ..killed(9.0)
        })
        .collect();
    let calm = with_process(moment(0.0, Level::Calm), 77, "backup", GIB / 2);
    vec![calm, after, with_process(moment(20.0, Level::Calm), 77, "backup", GIB / 2)]
}

#[test]
fn a_storm_of_small_processes_between_two_readings_is_named() {
    let only = |moments: &[Moment]| -> Grown {
        let mut growers = explain(moments, Around::Worst).growers;
        let only = growers.pop().expect("nothing grew");
        assert_eq!(growers, []);
        only
    };
    // those that are alive after the kill, and the killed ones
    let grown = only(&storm(&[100, 101], 102..400));
    assert_eq!((grown.name.as_str(), grown.processes), ("worker", 300));
    assert_eq!((grown.from.get(), grown.to.get()), (0, 300 * (4 << 20)));
    assert_eq!(grown.group, Some(Name::from("/app.service")));

    // all of them were killed, as with memory.oom.group
    let mut all_killed = storm(&[100], 0..0);
    let one = all_killed[1].kills[0].victims[0].clone();
    all_killed[1].kills[0].victims.extend((101..400).map(|pid| Victim { pid, ..one.clone() }));
    assert_eq!(only(&all_killed).processes, 300);

    // started again and killed again: at no time more than the first ones
    let mut again = storm(&(100..140).collect::<Vec<u32>>(), 0..0);
    for kill in &mut again[1].kills {
        kill.listed = Some((100..130).collect());
    }
    assert_eq!(only(&again).processes, 30);
}

/// A disk swaps for minutes: the level is the same all the time, and nothing is killed.
#[test]
fn what_grows_while_memory_is_critical_is_named() {
    let sizes = [0, 0, GIB, 2 * GIB, 3 * GIB, 2 * GIB, GIB];
    let moments = |calm: usize| -> Vec<Moment> {
        let at = |(at, size): (usize, &u64)| {
            let level = if at < calm { Level::Calm } else { Level::Critical };
            with_process(moment(at as f64 * 10.0, level), 77, "backup", *size)
        };
        sizes.iter().enumerate().map(at).collect()
    };
    // also if memory was critical at the first reading
    for calm in [2, 1, 0] {
        let incident = explain(&moments(calm), Around::Worst);
        let [grown] = &incident.growers[..] else { panic!("{:?}", incident.growers) };
        assert_eq!((grown.name.as_str(), grown.from.get(), grown.to.get()), ("backup", 0, 3 * GIB));
        assert_eq!(incident.trouble.unwrap().worst_unix_seconds, 1e9 + 40.0);
    }
}

/// A leak of 8 MiB a minute grows by 40 MiB in five minutes: 1 % of this machine's memory.
#[test]
fn what_grows_too_slowly_for_five_minutes_is_named() {
    let at = |minute: u64| {
        let level = if minute < 60 { Level::Calm } else { Level::Short };
        with_process(moment(minute as f64 * 60.0, level), 77, "backup", minute * (8 << 20))
    };
    let incident = explain(&(0..=60).map(at).collect::<Vec<Moment>>(), Around::Worst);
    let [grown] = &incident.growers[..] else { panic!("{:?}", incident.growers) };
    assert_eq!((grown.name.as_str(), grown.from.get(), grown.seconds), ("backup", 0, 3600.0));
}

#[test]
fn memory_of_no_process_is_named() {
    let with_slab = |mut moment: Moment, size| {
        moment.areas =
            vec![("kernel objects (slab)", Bytes::new(size)), ("page tables", Bytes::new(GIB))];
        moment
    };
    let calm = with_slab(moment(0.0, Level::Calm), GIB);
    let full = with_slab(moment(10.0, Level::Short), 3 * GIB);
    let incident = explain(&[calm, full], Around::Worst);
    let [area] = &incident.areas[..] else { panic!("{:?}", incident.areas) };
    assert_eq!((area.name, area.to.get()), ("kernel objects (slab)", 3 * GIB));
}

#[test]
fn gaps_are_told_also_if_most_readings_have_one() {
    let at = |second, seconds| Moment { seconds: Some(seconds), ..moment(second, Level::Calm) };
    let all = [at(0.0, 10.0), at(10.0, 10.0), at(70.0, 60.0), at(160.0, 90.0), at(250.0, 90.0)];
    let gaps = explain(&all, Around::Worst).events;
    assert_eq!(gaps.iter().filter(|it| it.kind == IncidentEventKind::Gap).count(), 2, "{gaps:?}");
}
