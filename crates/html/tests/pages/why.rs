// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of `why`: pictures of invented nights, with holes, without values, and of a week.

use pagewise_html::chart::draw_incident;
use pagewise_html::why_page;
use pagewise_model::{
    Bytes, Incident, IncidentEvent, IncidentEventKind, Level, Name, Reading, Snapshot, Source,
    Trouble, UnreadFile,
};
use pagewise_report::course::{CoursePoint, MemoryCourse, MemoryUse, PressurePoint};
use pagewise_report::text::Role;

use crate::elements::{assert_nested, skeleton};

const START: f64 = 1_795_831_200.0;
const GIB: u64 = 1 << 30;

fn point(second: u32) -> CoursePoint {
    let used = GIB + u64::from(second % 600) * (2 << 20);
    let uses = [("anon", Role::Anon, used), ("free", Role::Quiet, 4 * GIB - used)];
    let uses = uses.map(|(name, role, size)| MemoryUse { name, role, bytes: Bytes::new(size) });
    CoursePoint {
        unix_seconds: START + f64::from(second),
        level: if (300..400).contains(&second) { Level::Short } else { Level::Calm },
        total: Some(Bytes::new(4 * GIB)),
        uses: uses.to_vec(),
        available: Some(Bytes::new(4 * GIB - used)),
        swap_size: Some(Bytes::new(GIB)),
        swap_used: Some(Bytes::new(GIB / 4)),
        some_percent: (second > 0).then_some(f64::from(second % 50)),
        full_percent: (second > 0).then_some(f64::from(second % 20)),
    }
}

fn course(seconds: impl Iterator<Item = u32>) -> MemoryCourse {
    MemoryCourse { points: seconds.map(point).collect(), ..MemoryCourse::default() }
}

fn event(second: f64, kind: IncidentEventKind, text: &str) -> IncidentEvent {
    IncidentEvent {
        unix_seconds: START + second,
        kind,
        text: text.to_owned(),
        seconds_since_reading: None,
    }
}

/// A night in which something with this name was killed.
fn night(name: &str) -> Incident {
    Incident {
        from_unix_seconds: START,
        to_unix_seconds: START + 590.0,
        readings: 60,
        trouble: Some(Trouble {
            begun_unix_seconds: START + 300.0,
            ended_unix_seconds: Some(START + 400.0),
            worst_unix_seconds: START + 350.0,
            growth_from_unix_seconds: START,
            growth_to_unix_seconds: START + 340.0,
            longest_seconds_between_readings: 10.0,
            level: Level::Short,
            line: format!("{name} took all."),
        }),
        events: vec![
            event(290.0, IncidentEventKind::Started, &format!("{name} started")),
            event(340.0, IncidentEventKind::Kill, &format!("{name} was killed")),
        ],
        change: vec![format!("sudo systemctl set-property {name} MemoryHigh=400M")],
        unread: vec![UnreadFile {
            path: Name::from(name),
            why: "it is damaged".to_owned(),
            readable_until_unix_seconds: None,
        }],
        ..Incident::default()
    }
}

fn snapshot(name: &str) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.host.name = Reading::found(Name::from(name), Source::none());
    snapshot
}

fn tens(number: u32) -> impl Iterator<Item = u32> {
    (0..number).map(|at| at * 10)
}

#[test]
fn a_night_has_a_picture_of_each_kind_and_the_same_text_as_the_terminal() {
    let page = why_page(&night("backup"), &course(tens(60)), &snapshot("host"));
    assert_nested(&page);
    for title in ["What RAM was used for", "Tasks waited for memory", "Swap", "Verdict and events"]
    {
        assert!(page.contains(&format!("<title>{title}")), "{title}");
    }
    for text in ["backup took all.", "backup was killed", "MemoryHigh=400M", "not read", "SHORT"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    // memory at the two readings between which growth is computed
    assert!(page.contains(">02:00:00</th>") && page.contains(">02:05:40</th>"), "{page}");
    assert!(page.contains("at the last reading before the kill"), "{page}");
    // the whole record is not drawn if the other pictures show it
    assert!(!page.contains("<title>The whole record"), "{page}");
}

#[test]
fn no_name_changes_the_elements_of_the_page() {
    let evil = "x</table><script>\"'&\u{1b}";
    let [evil, plain] =
        [evil, "x"].map(|name| why_page(&night(name), &course(tens(60)), &snapshot(name)));
    assert_nested(&evil);
    assert_eq!(skeleton(&evil), skeleton(&plain));
    assert!(
        evil.contains("x&lt;/table&gt;&lt;script&gt;&quot;&#39;&amp;\\u{1b} was killed"),
        "{evil}"
    );
}

#[test]
fn without_readings_there_is_no_picture_and_one_reading_has_some() {
    let none = why_page(&Incident::default(), &MemoryCourse::default(), &Snapshot::default());
    assert!(!none.contains("<svg") && none.contains("there is no reading"), "{none}");
    assert_nested(&none);
    let incident = Incident { readings: 1, ..Incident::default() };
    let one = why_page(&incident, &course(tens(1)), &Snapshot::default());
    assert_nested(&one);
    assert!(one.contains("<polygon") && !one.contains("NaN"), "{one}");
    assert!(
        one.contains("Pressure is not drawn, because fewer than two readings have it"),
        "{one}"
    );
    let mut dry = course(tens(60));
    dry.points.iter_mut().for_each(|point| point.swap_size = Some(Bytes::new(0)));
    let dry = why_page(&incident, &dry, &Snapshot::default());
    assert!(dry.contains("There was no swap.") && !dry.contains("<title>Swap"), "{dry}");
    let mut unknown = course(tens(60));
    for point in &mut unknown.points {
        *point = CoursePoint { unix_seconds: point.unix_seconds, ..CoursePoint::default() };
    }
    let unknown = why_page(&incident, &unknown, &Snapshot::default());
    assert_nested(&unknown);
    assert!(!unknown.contains("<polygon") && unknown.contains("no reading has it"), "{unknown}");
}

/// The polygons of a chart, each as its horizontal range.
fn ranges(chart: &str) -> Vec<[i32; 2]> {
    let polygons = chart.split("<polygon").skip(1).filter_map(|it| it.split("points=\"").nth(1));
    let ranges = polygons.filter_map(|points| {
        let points = points.split('"').next()?.split_whitespace();
        let across = points.filter_map(|it| it.split(',').next()?.parse::<i32>().ok());
        let across: Vec<i32> = across.collect();
        Some([*across.iter().min()?, *across.iter().max()?])
    });
    ranges.collect()
}

#[test]
fn nothing_is_drawn_for_a_time_without_readings() {
    let hole = [START + 190.0, START + 400.0];
    let seconds = || tens(60).filter(|at| !(200..400).contains(at));
    let with_hole = MemoryCourse { holes: vec![hole], ..course(seconds()) };
    let charts = draw_incident(&Incident::default(), &with_hole);
    assert!(charts[0].contains("no readings"), "{}", charts[0]);
    let drawn = ranges(&charts[0]);
    assert_eq!(drawn.len(), 4, "two areas on each side: {drawn:?}");
    let (left, right) = (drawn[0], drawn[2]);
    let width = f64::from(right[1] - left[0]);
    let missing = f64::from(right[0] - left[1]) / width;
    assert!((missing - 210.0 / 590.0).abs() < 0.02, "{missing} of {width}");
    let whole = draw_incident(&Incident::default(), &course(tens(60)));
    assert_eq!(ranges(&whole[0]).len(), 2);
}

/// A week of readings, one a second, with a kill: the page stays small, and the kill is drawn.
#[test]
fn a_page_does_not_grow_with_the_number_of_readings() {
    const WEEK: u32 = 7 * 86_400;
    let mut week = course(0..WEEK);
    week.whole = (0..WEEK)
        .map(|at| PressurePoint {
            unix_seconds: START - 86_400.0 + f64::from(at * 2),
            some_percent: Some(1.0),
            has_kill: at == 1000,
        })
        .collect();
    let page = why_page(&night("backup"), &week, &Snapshot::default());
    assert!(page.len() < 200_000, "{} bytes", page.len());
    assert_nested(&page);
    let record = page.split("<title>The whole record").nth(1).unwrap_or_default();
    assert!(record.split("</svg>").next().is_some_and(|it| it.contains("#CF222E")), "{record}");
}
