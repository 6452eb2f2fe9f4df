// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of `pagewise report`: its content, that it is self-contained and accessible, and that
//! names of the host are always escaped.

use std::collections::BTreeSet;

use pagewise_model::{
    Bytes, Finding, HostVerdict, Interval, Level, Name, OomKill, OomVictim, Reading, Source,
};
use pagewise_report::Answer;
use pagewise_report::view::View;
use proptest::prelude::*;

use crate::elements::{assert_nested, skeleton, tags};
use crate::host;

fn page(interval: &Interval, verdict: &HostVerdict, findings: &[Finding]) -> String {
    let owners = host::owners();
    let answer = Answer {
        interval,
        verdict,
        findings,
        hidden: 0,
        owners: &owners,
        estimates: &[],
        cost: host::cost(),
    };
    pagewise_html::report_page(&answer, &View::default())
}

fn findings() -> Vec<Finding> {
    [vec![host::waiting()], host::findings()].concat()
}

/// Kills at known times, and one at an unknown time.
fn with_kills(mut interval: Interval, name: &str) -> Interval {
    let kill = |seconds_ago: Option<f64>, pid| OomKill {
        seconds_ago,
        boot_seconds: 7.0,
        victim: Some(OomVictim {
            pid,
            name: Name::from(name),
            anon: Some(Bytes::new(3 << 20)),
            ..OomVictim::default()
        }),
        ..OomKill::default()
    };
    interval.end.kernel_log.records = Reading::found(99, Source::none());
    interval.end.kernel_log.kills = vec![kill(None, 1), kill(Some(900.0), 2), kill(Some(4.0), 3)];
    interval
}

fn full() -> String {
    page(&with_kills(host::interval(), "java"), host::verdict(), &findings())
}

#[test]
fn verdict_and_findings_come_first_and_every_part_can_be_reached() {
    let page = full();
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
    assert!(
        place("class=\"verdict") < place("<article") && place("<article") < place("id=\"memory\"")
    );
    for finding in findings() {
        assert!(page.contains(&finding.title.replace('\'', "&#39;")), "{}", finding.title);
    }
    let ids: Vec<&str> = tags(&page).filter_map(|tag| tag.attribute("id")).collect();
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "{ids:?}");
    let links: Vec<&str> = tags(&page).filter_map(|tag| tag.attribute("href")).collect();
    assert!(links.len() > 12, "{links:?}");
    for link in links {
        assert!(ids.contains(&link.trim_start_matches('#')), "{link}");
    }
}

#[test]
fn nothing_is_fetched_and_nothing_runs() {
    let page = full();
    for outside in ["<script", "http:", "https:", "src=", "@import", "url(", "http-equiv", "onload"]
    {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn elements_are_nested_and_headings_skip_no_level() {
    let page = full();
    assert_nested(&page);
    let levels = tags(&page).filter(|tag| !tag.is_end()).filter_map(|tag| {
        let level = tag.name().strip_prefix('h')?;
        level.parse::<u32>().ok()
    });
    let levels: Vec<u32> = levels.collect();
    assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1);
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
}

#[test]
fn charts_and_tables_have_text_beside_them() {
    let page = full();
    let charts: Vec<&str> = page.split("<svg").skip(1).collect();
    assert!(charts.len() >= 8, "{}", charts.len());
    for chart in charts {
        assert!(chart.starts_with(" role=\"img\""), "{chart}");
        let title = chart.split_once("><title>").unwrap_or_else(|| panic!("{chart}")).1;
        assert!(!title.starts_with("</title>"), "{chart}");
    }
    let tables: Vec<&str> = page.split("<table>").skip(1).collect();
    assert!(tables.len() >= 10, "{}", tables.len());
    for table in tables {
        let caption = table.strip_prefix("<caption").and_then(|rest| rest.split_once('>'));
        assert!(caption.is_some_and(|(_, text)| !text.starts_with("</")), "{table}");
    }
    let heads = tags(&page).filter(|tag| tag.name() == "th" && !tag.is_end());
    assert!(heads.into_iter().all(|tag| tag.attribute("scope").is_some()));
}

#[test]
fn kills_are_on_a_time_line_if_their_time_is_known() {
    let page = full();
    let chart = page.split("OOM kills by time before this report").nth(1).unwrap();
    let chart = chart.split("</svg>").next().unwrap();
    assert_eq!(chart.matches("<circle").count(), 2, "{chart}");
    assert!(page.contains("7 s after boot") && page.contains("3.0 MiB"));
}

/// Unknown values are neither drawn nor printed as 0.
#[test]
fn a_host_that_says_nothing_gets_a_page_without_numbers() {
    let interval = Interval::default();
    let verdict = HostVerdict::default();
    let page = page(&interval, &verdict, &[]);
    assert_nested(&page);
    assert!(page.contains("could not be read") && !page.contains("<svg"), "{page}");
    assert!(page.contains("Not known: not read") || page.contains("Not known: "), "{page}");
    assert!(page.contains("or does not say: Findings; Where memory is"), "{page}");
    assert!(!page.contains(">0 B<") && !page.contains("0.00 %"), "{page}");
}

#[test]
fn effective_memory_counts_what_is_stored_compressed_uncompressed() {
    let mut interval = host::interval();
    let nothing = || Reading::found(Bytes::new(0), Source::file("/proc/meminfo"));
    (interval.end.zswap.stored, interval.end.zswap.pool) = (nothing(), nothing());
    let memory = interval.end.effective_memory().get().expect("all of it is known");
    let shown = page(&interval, host::verdict(), &[]);
    assert!(
        shown.contains(&format!("{} of RAM)", memory.of_ram().unwrap().format_share_of_time())),
        "{shown}"
    );
    assert!(shown.contains(&format!("{}, stored {}", memory.uncompressed_size(), memory.stored)));
    interval.end.memory.available = Reading::absent("older kernel", Source::file("/proc/meminfo"));
    let shown = page(&interval, host::verdict(), &[]);
    assert!(shown.contains("<p>Not known: /proc/meminfo: older kernel.</p>"), "{shown}");
    assert!(!shown.contains("with and without compression"));
}

#[test]
fn size_classes_are_drawn_with_a_description_and_only_where_they_are_known() {
    let page = full();
    let title = "RAM of zram0 by size of the stored objects; grey: slots that hold no object";
    assert!(page.contains(title), "{page}");
    assert!(page.contains("up to 3.0 KiB: 1.3 GiB, 43.4 MiB unused"), "{page}");
    let mut without = host::interval();
    without.end.zram.iter_mut().for_each(|zram| zram.size_classes = Reading::not_read());
    let page = self::page(&without, host::verdict(), &findings());
    assert!(!page.contains("by size of the stored objects"), "{page}");
}

/// The page of a host on which everything has this name.
fn named(name: &str) -> String {
    let name_of = || Name::from(name);
    let mut interval = with_kills(host::interval(), name);
    let end = &mut interval.end;
    end.host.name = Reading::found(name_of(), Source::none());
    end.taken.kernel = Reading::found(name_of(), Source::none());
    end.processes.list.iter_mut().for_each(|process| process.name = name_of());
    end.cgroups.groups.iter_mut().skip(1).for_each(|group| group.path = name_of());
    end.tiers.iter_mut().for_each(|tier| tier.path = name_of());
    end.zones.iter_mut().for_each(|zone| zone.name = name_of());
    let mut findings = findings();
    for finding in &mut findings {
        finding.title = format!("t {name}");
        finding.what = format!("t {name}");
        finding.why = format!("t {name}");
        finding.next.iter_mut().for_each(|command| *command = format!("t {name}"));
        for evidence in &mut finding.evidence {
            evidence.path = format!("/{name}");
            evidence.value = format!("t {name}");
        }
    }
    let verdict =
        HostVerdict { level: Level::Short, line: format!("t {name}"), ..HostVerdict::default() };
    page(&interval, &verdict, &findings)
}

#[test]
fn a_name_that_looks_like_html_stays_text() {
    let evil = "</title></table><script>alert('1')</script>\"'&\u{1b}[2J\u{202e}";
    let page = named(evil);
    assert!(!page.contains("<script") && !page.contains(['\u{1b}', '\u{202e}']), "{page}");
    assert!(page.matches("&lt;/table&gt;&lt;script&gt;alert(&#39;1&#39;)").count() > 20, "{page}");
    assert_eq!(skeleton(&page), skeleton(&named("n")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Names of any kind do not change the elements of the page.
    #[test]
    fn names_never_change_the_elements(name in "[a-z]([<>&\"'/=a-z \\PC]|\\pC){0,24}[a-z]") {
        let page = named(&name);
        assert_nested(&page);
        let plain = named("n");
        prop_assert_eq!(skeleton(&page), skeleton(&plain));
        let is_safe = page.chars().all(|letter| letter == '\n' || !letter.is_control());
        prop_assert!(is_safe);
    }
}

/// A sentence that says that the host is well is not red because a cgroup is short of memory.
#[test]
fn each_sentence_of_the_verdict_has_the_colour_of_what_it_says() {
    let group = pagewise_model::GroupVerdict {
        group: Name::from("/app.service"),
        level: Level::Critical,
        line: "hardly runs".to_owned(),
    };
    let verdict = HostVerdict {
        level: Level::Critical,
        line: "The host is not short of memory. /app.service hardly runs.".to_owned(),
        host: Level::Calm,
        groups: vec![group],
        unknown: Vec::new(),
    };
    let page = page(&host::interval(), &verdict, &findings());
    let calm = "<span class=\"good\">The host is not short of memory.</span>";
    let short = "<span class=\"critical\">/app.service hardly runs.</span>";
    assert!(page.contains(&format!("{calm} {short}")), "{page}");
    assert!(page.contains("<p class=\"verdict critical\"><span class=\"tag\">CRITICAL</span>"));
    // where no sentence names the group, the last one has the level of the verdict
    let line = "The host is well. A container hardly runs.".to_owned();
    let page = self::page(&host::interval(), &HostVerdict { line, ..verdict }, &findings());
    assert!(page.contains("<span class=\"critical\">A container hardly runs.</span>"), "{page}");
}

/// The top of the page has the machine, the date, and the four numbers that decide.
#[test]
fn the_top_of_the_page_has_the_date_and_the_numbers_that_decide() {
    let page = full();
    let top = page.split("<article").next().unwrap();
    assert!(top.contains("web-07 · Linux") && top.contains("2026-11-20 14:02 UTC"), "{top}");
    let tiles = top.split("<ul class=\"tiles\">").nth(1).unwrap();
    assert_eq!(tiles.matches("<li><strong>").count(), 4, "{tiles}");
    assert!(tiles.contains("<strong>6.3 GiB</strong><span>available of 62.8 GiB of RAM</span>"));
    assert!(tiles.contains("<strong>14 %</strong>") && tiles.contains("java (pid 5010"), "{tiles}");
}
