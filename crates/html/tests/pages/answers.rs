// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of `doctor`, `bench` and `thp`.

use pagewise_model::{Compressor, Finding, Name, ParetoPoint, Reading, Source};
use pagewise_report::{Answer, Benched};

use crate::elements::{assert_nested, skeleton};
use crate::{bench, host, huge};

const EVIL: &str = "x</table><script>\"'&\u{1b}";

fn doctor(name: &str, findings: &[Finding]) -> String {
    let mut interval = host::interval();
    interval.end.host.name = Reading::found(Name::from(name), Source::none());
    pagewise_html::doctor_page(
        &Answer {
            interval: &interval,
            verdict: host::verdict(),
            findings,
            hidden: 2,
            owners: &[],
            estimates: &[],
            cost: host::cost(),
        },
        1,
    )
}

fn thp(name: &str) -> String {
    let (mut interval, walks) = (host::interval(), huge::walks());
    interval.end.processes.list.iter_mut().for_each(|process| process.name = Name::from(name));
    let mut looked = huge::looked();
    looked.name = Name::from(name);
    looked.largest.iter_mut().for_each(|mapping| mapping.name = Name::from(name));
    pagewise_html::thp_page(&huge::seen(&interval, &[looked], &walks))
}

fn bench(name: &str) -> String {
    let interval = host::interval();
    let mut benchmark = bench::benchmark();
    benchmark.input.name = Name::from(name);
    benchmark.pareto = vec![ParetoPoint {
        contender: Compressor::new("lz4"),
        read_ns: 3000.0,
        read_spread: [2900.0, 3200.0],
        original_per_memory_used: 2.5,
        is_on_front: true,
    }];
    let snapshot = &interval.end;
    pagewise_html::bench_page(&Benched { snapshot, benchmark: &benchmark, cost: host::cost() })
}

#[test]
fn no_name_changes_the_elements_of_an_answer() {
    let findings = host::findings();
    let pages = |name: &str| [doctor(name, &findings), thp(name), bench(name)];
    for (evil, plain) in pages(EVIL).iter().zip(&pages("x")) {
        assert_nested(evil);
        assert_eq!(skeleton(evil), skeleton(plain));
        assert!(evil.contains("x&lt;/table&gt;&lt;script&gt;&quot;&#39;&amp;\\u{1b}"), "{evil}");
    }
}

#[test]
fn doctor_says_how_many_findings_it_does_not_show() {
    let page = doctor("x", &host::findings());
    assert_eq!(page.matches("<article").count(), host::findings().len());
    assert!(
        page.contains("2 findings below --min-severity not shown. 1 finding ignored."),
        "{page}"
    );
    assert!(!doctor("x", &[]).contains("<article"));
}

#[test]
fn answers_have_their_chart_and_all_their_sections() {
    let pages = [(thp("redis-server"), "Page walks"), (bench("a mix"), "Block by block")];
    for (page, section) in pages {
        assert_eq!(page.matches("<svg").count(), 1, "{page}");
        assert!(page.contains(&format!("<h2>{section}</h2>")), "{section}: {page}");
        assert!(!page.contains("http:"), "{page}");
    }
}
