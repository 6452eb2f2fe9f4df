// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of recorded hosts: they show the values of the host, and say so if there are none.

use std::collections::BTreeSet;

use pagewise_explain::{explain, subjects};
use pagewise_model::{Explanation, Outcome, Section, Snapshot};
use pagewise_testkit::scene::Scene;

fn pages(host: &Snapshot) -> Vec<Explanation> {
    let page =
        |subject: &pagewise_explain::Subject| explain(host, subject.name).expect("a subject");
    subjects().iter().map(page).collect()
}

fn values(page: &Explanation) -> impl Iterator<Item = &pagewise_model::NamedValue> {
    let lists = page.sections.iter().filter_map(|section| match section {
        Section::Values { values, .. } => Some(values),
        _ => None,
    });
    lists.flatten()
}

/// A host without any known value gets no numbers, and a reason next to each dash.
#[test]
fn what_is_not_known_is_never_zero() {
    let host = Snapshot::default();
    for page in pages(&host) {
        for value in values(&page) {
            match &value.reading.outcome {
                Outcome::Absent(why) | Outcome::Denied(why) => assert!(!why.is_empty()),
                Outcome::Value(known) => panic!("{}: {} is {known}", page.subject, value.name),
            }
        }
        let hosts = page.sections.iter().filter(|section| match section {
            // the meaning of each value of page-cluster is the same on every host
            Section::Bars { .. } => page.subject != "page-cluster",
            _ => false,
        });
        assert_eq!(hosts.count(), 0, "{}: {:?}", page.subject, page.sections);
    }
}

/// The values are those of the host, from the file that is named.
#[test]
fn values_are_those_of_the_host() {
    let host = Scene::load("debian12-6.18-x86_64-24g-zram-swap-used").replay().end;
    let page = explain(&host, "mm_stat").unwrap();
    let shown: Vec<(&str, String)> = values(&page)
        .map(|value| (value.name.as_str(), value.reading.value().unwrap().to_string()))
        .collect();
    let stat = &host.zram[1].mm_stat;
    assert_eq!(shown[0], ("1 orig_data_size", stat.original.get().unwrap().to_string()));
    assert_eq!(shown[2], ("3 mem_used_total", stat.memory_used.get().unwrap().to_string()));
    assert_eq!(shown.len(), 9);
    let swappiness = explain(&host, "swappiness").unwrap();
    let value = values(&swappiness).next().unwrap();
    let knob = host.knob("vm.swappiness").unwrap();
    assert_eq!(value.reading.value().map(ToString::to_string).as_deref(), knob.active_word());
    assert_eq!(value.reading.source, knob.live.source);
}

/// Every page has a diagram or values, a correction of a frequent error, and a next command.
#[test]
fn every_page_teaches_shows_and_corrects() {
    let host = Scene::load("debian-sid-7.2-x86_64-512m-zram-pressure").replay().end;
    let mut names = BTreeSet::new();
    for page in pages(&host) {
        let has = |wanted: fn(&Section) -> bool| page.sections.iter().any(wanted);
        assert!(has(|it| matches!(it, Section::Text { .. })), "{}", page.subject);
        assert!(has(|it| matches!(it, Section::Values { .. })), "{}", page.subject);
        assert!(has(|it| matches!(it, Section::Correction { .. })), "{}", page.subject);
        assert!(!page.next.is_empty(), "{}", page.subject);
        assert!(names.insert(page.subject), "{} is there twice", page.subject);
    }
    assert_eq!(names.len(), 14);
    assert!(explain(&host, "nothing").is_none());
}

/// Every page has a diagram on a host that uses what the page explains.
#[test]
fn every_page_has_a_picture() {
    let slugs = [
        "debian12-6.18-x86_64-24g-zram-swap-used",
        "debian-sid-7.2-x86_64-512m-zswap-zram",
        "debian-trixie-6.12-x86_64-512m-ksm-loss",
    ];
    let hosts = slugs.map(|slug| Scene::load(slug).replay().end);
    for subject in subjects() {
        let drawn = hosts.iter().any(|host| {
            let page = explain(host, subject.name).expect("a subject");
            page.sections.iter().any(|section| matches!(section, Section::Bars { .. }))
        });
        assert!(drawn, "{} has no picture", subject.name);
    }
}

/// Shares are drawn on a scale of 100 %, so that half a percent does not look like a full bar.
#[test]
fn pressure_is_drawn_against_all_of_the_time() {
    let host = Scene::load("debian-sid-7.2-x86_64-512m-zram-pressure").replay().end;
    let page = explain(&host, "psi").unwrap();
    let (whole, bars) = page
        .sections
        .iter()
        .find_map(|section| match section {
            Section::Bars { whole, bars, .. } => Some((*whole, bars)),
            _ => None,
        })
        .unwrap();
    let share = host.psi.memory.some.avg10.get().unwrap().get();
    assert!((bars[0].amount as f64 / whole.unwrap() as f64 * 100.0 - share).abs() < 0.01);
}

/// Next to the longest possible cgroup name, a value stays on its line.
#[test]
fn a_long_cgroup_name_is_cut() {
    let mut host = Scene::load("debian-sid-7.2-x86_64-256m-oom-limit").replay().end;
    for group in &mut host.cgroups.groups {
        group.path = pagewise_model::Name::from(format!("/{}", "x".repeat(255)).as_str());
    }
    for subject in ["oom", "cgroups"] {
        let page = explain(&host, subject).unwrap();
        let bars = page.sections.iter().filter_map(|section| match section {
            Section::Bars { bars, .. } => Some(bars),
            _ => None,
        });
        let names = bars.flatten().map(|bar| &bar.name);
        let names = names.chain(values(&page).map(|value| &value.name));
        assert!(names.map(|name| name.chars().count()).max() <= Some(44), "{subject}");
    }
}

/// The order of a huge page is computed from the host's page sizes, not those of x86.
#[test]
fn a_huge_page_has_the_order_of_the_hosts_pages() {
    let mut host = Scene::load("debian12-6.18-x86_64-24g-plain").replay().end;
    let says = |host: &Snapshot, what: &str| {
        let page = explain(host, "buddy").unwrap();
        matches!(&page.sections[0], Section::Text { text } if text.contains(what))
    };
    assert!(says(&host, "block of order 9."));
    let at = host.thp.pmd_size.source.clone();
    host.thp.pmd_size = pagewise_model::Reading::found(pagewise_model::Bytes::new(512 << 20), at);
    let at = host.host.page_size.source.clone();
    host.host.page_size = pagewise_model::Reading::found(pagewise_model::Bytes::new(64 << 10), at);
    assert!(says(&host, "block of order 13."));
}
