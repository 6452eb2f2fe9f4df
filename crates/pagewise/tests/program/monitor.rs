// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise monitor`, `metrics` and `why`, as any user runs them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};

use pagewise_observe::{Entry, Rest, Tape, TapeEnd};
use pagewise_record::{Ring, RingLimits};

use crate::program::{pagewise, run};

/// A monitor that was started for a test.
struct Started {
    child: Child,
    lines: BufReader<ChildStderr>,
    address: String,
}

impl Started {
    fn new(record: &Path, more: &[&str]) -> Self {
        let record = record.to_str().unwrap();
        let own = ["monitor", "--every", "1s", "--listen", "127.0.0.1:0", "--record", record];
        let mut command = pagewise(&[&own[..], more].concat());
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap_or_else(|| panic!("{line}"));
        let address = address.split('/').next().unwrap().to_owned();
        Self { child, lines, address }
    }

    /// The answer to a request: its status line and headers, and its body.
    fn ask(&self, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        let (head, body) = all.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    /// The metrics, once the first reading is there.
    fn metrics(&self) -> String {
        for _ in 0..600 {
            let (head, body) = self.ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
            if head.starts_with("HTTP/1.1 200") {
                assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
                return body;
            }
            assert!(head.starts_with("HTTP/1.1 503"), "{head}");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("no reading within a minute");
    }

    /// Ends it as systemd does; returns what it printed since.
    fn end(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status} {rest}");
        rest
    }
}

#[test]
fn a_monitor_serves_records_and_is_asked_why() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let textfile = folder.path().join("pagewise.prom");
    let monitor = Started::new(&record, &["--textfile", textfile.to_str().unwrap()]);
    let served = monitor.metrics();
    assert!(
        served.contains("\npagewise_verdict_level ") && served.ends_with("# EOF\n"),
        "{served}"
    );
    assert!(monitor.ask("GET / HTTP/1.0\r\n\r\n").1.contains("/metrics"));
    assert!(monitor.ask("GET /x HTTP/1.0\r\n\r\n").0.starts_with("HTTP/1.1 404"));
    assert!(monitor.ask("PUT /metrics HTTP/1.0\r\n\r\n").0.starts_with("HTTP/1.1 405"));
    assert_eq!(monitor.ask("HEAD /metrics HTTP/1.0\r\n\r\n").1, "");
    assert!(monitor.ask("\u{16}\u{3}\u{1}\r\n\r\n").0.starts_with("HTTP/1.1 400"));
    let second = run(&["monitor", "--no-listen", "--record", record.to_str().unwrap()]);
    assert!(
        second.status == 1 && second.err.contains("another process writes it"),
        "{}",
        second.err
    );
    assert_eq!(monitor.end(), "");
    let written = std::fs::read_to_string(&textfile).unwrap();
    assert!(written.contains("# TYPE pagewise_oom_kills_total counter\n"), "{written}");

    let record = record.to_str().unwrap();
    let why = run(&["why", "--record", record]);
    assert!(matches!(why.status, 0 | 3), "{}", why.err);
    assert!(why.out.starts_with("pagewise why · "), "{}", why.out);
    let json = run(&["why", "--record", record, "--json"]);
    let document: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(document["schema"], "pagewise/why/1");
    assert!(document["readings"].as_u64().unwrap() > 0, "{document}");
    // a copy of a record whose machine's clock is ahead of this one's
    for file in std::fs::read_dir(record).unwrap() {
        let file = std::fs::File::options().append(true).open(file.unwrap().path()).unwrap();
        let day = std::time::Duration::from_secs(86_400);
        file.set_modified(std::time::SystemTime::now() - day).unwrap();
    }
    let copied = run(&["why", "--record", record, "--worst", "--json"]);
    let copied: serde_json::Value = serde_json::from_str(&copied.out).expect(&copied.err);
    assert_eq!(copied["readings"], document["readings"]);
    let late = run(&["why", "2001-01-01 03:12", "--record", record]);
    assert!(late.status == 1 && late.err.contains("the record has readings from "), "{}", late.err);
    let nonsense = run(&["why", "half past three", "--record", record]);
    assert!(nonsense.err.contains("expected a time such as 03:12"), "{}", nonsense.err);
}

#[test]
fn a_record_outlives_a_kill_without_warning() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    for _ in 0..3 {
        let mut monitor = Started::new(&record, &[]);
        monitor.metrics();
        monitor.child.kill().unwrap();
        monitor.child.wait().unwrap();
    }
    let json = run(&["why", "--worst", "--record", record.to_str().unwrap(), "--json"]);
    let document: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    // each of the three had answered with a reading, so each has recorded one
    assert!(document["readings"].as_u64().unwrap() >= 3, "{document}");
}

/// A damaged part could be the one with the trouble, so `why` says that it was not read.
#[test]
fn a_damaged_record_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    for _ in 0..2 {
        let monitor = Started::new(&record, &[]);
        monitor.metrics();
        monitor.end();
    }
    let why = || run(&["why", "--worst", "--record", record.to_str().unwrap()]);
    let whole = why();
    assert!(whole.status == 0 && !whole.err.contains("damaged"), "{}", whole.err);
    let files = std::fs::read_dir(&record).unwrap().map(|entry| entry.unwrap().path());
    let newest =
        files.filter(|path| path.extension().is_some_and(|it| it == "ring")).max().unwrap();
    let mut bytes = std::fs::read(&newest).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&newest, bytes).unwrap();
    let damaged = why();
    let said = damaged.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = format!("not read {}: a part of it is damaged", newest.display());
    assert_eq!(said.matches(&expected).count(), 1, "{}", damaged.out);
    assert!(!whole.out.contains("not read"), "{}", whole.out);
    let json = run(&["why", "--worst", "--record", record.to_str().unwrap(), "--json"]);
    let document: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let [unread] = &document["unread"].as_array().unwrap()[..] else { panic!("{document}") };
    assert_eq!(unread["path"], newest.to_str().unwrap());
    assert!(unread["why"].as_str().unwrap().starts_with("a part of it is damaged"), "{unread}");
}

/// A recording over time that was cut says so, in the text and with `--json`.
#[test]
fn a_cut_recording_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cut.pagewise");
    let recorded = run(&["capture", "--every", "1s", "--for", "3s", "-o", file.to_str().unwrap()]);
    assert_eq!(recorded.status, 0, "{}", recorded.err);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 30]).unwrap();
    let json = run(&["why", "--root", file.to_str().unwrap(), "--json"]);
    let document: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let why = document["unread"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("the recording ends early: "), "{document}");
    assert!(document["unread"][0]["readable_until_unix_seconds"].is_number(), "{document}");
    assert!(run(&["why", "--root", file.to_str().unwrap()]).out.contains("not read"));
}

/// `why --html` writes the page of a record, and of one that has a single reading.
#[test]
fn why_writes_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let monitor = Started::new(&record, &[]);
    monitor.metrics();
    monitor.end();
    let path = folder.path().join("why.html");
    let ran = run(&["why", "--record", record.to_str().unwrap(), "--html", path.to_str().unwrap()]);
    assert!(matches!(ran.status, 0 | 3), "{}", ran.err);
    assert!(ran.out.contains("why.html: a page of "), "{}", ran.out);
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.contains("<title>What RAM was used for</title>"), "{page}");
    for outside in ["<script", "http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let again =
        run(&["why", "--record", record.to_str().unwrap(), "--html", path.to_str().unwrap()]);
    assert!(again.status == 1 && std::fs::read_to_string(&path).unwrap() == page, "{}", again.err);
}

/// Clients that send nothing, never read, or send without end take the server for some seconds at
/// most; then others are answered.
#[test]
fn bad_clients_do_not_keep_others_from_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let monitor = Started::new(&folder.path().join("record"), &[]);
    monitor.metrics();
    let silent = TcpStream::connect(&monitor.address).unwrap();
    let mut deaf = TcpStream::connect(&monitor.address).unwrap();
    deaf.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut slow = TcpStream::connect(&monitor.address).unwrap();
    slow.write_all(b"GET /metr").unwrap();
    assert!(monitor.metrics().ends_with("# EOF\n"));

    // a request of 1 GB: refused long before its end
    let mut endless = TcpStream::connect(&monitor.address).unwrap();
    endless.write_all(b"GET /metrics HTTP/1.1\r\nX: ").unwrap();
    let piece = vec![b'x'; 1 << 16];
    let sent = (0..16_384).take_while(|_| endless.write_all(&piece).is_ok()).count();
    assert!(sent < 16_384, "{sent} pieces were taken");
    assert!(monitor.metrics().ends_with("# EOF\n"));
    drop((silent, deaf, slow));
    assert_eq!(monitor.end(), "");
}

#[test]
fn a_link_in_place_of_the_textfile_is_replaced_and_its_target_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("pagewise.prom"));
    std::fs::write(&target, "mine").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let written = run(&["metrics", "--textfile", link.to_str().unwrap()]);
    assert_eq!(written.status, 0, "{}", written.err);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "mine");
    assert!(std::fs::read_to_string(&link).unwrap().starts_with("# HELP pagewise_"));
}

/// A record over simulated hours, in which memory is short for some minutes: the worst time is found,
/// with the index and without, and two of its times are compared. `PAGEWISE_SIMULATED_HOURS` sets how
/// many; the number here is for each change.
#[test]
fn the_worst_of_simulated_hours_is_found() {
    let hours: u64 = std::env::var("PAGEWISE_SIMULATED_HOURS").map_or(4, |it| it.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    // 2026-11-20 00:00 UTC
    let begun = 1_795_132_800;
    let (short_from, short_to) = (hours * 3600 * 2 / 3, hours * 3600 * 2 / 3 + 120);
    write_hours(&path, begun, hours, short_from..short_to);
    let record = path.to_str().unwrap();
    let worst = |more: &[&str]| {
        let json = run(&[&["why", "--record", record, "--json"], more].concat());
        assert_eq!(json.status, 3, "{}", json.err);
        let document: serde_json::Value = serde_json::from_str(&json.out).unwrap();
        document["trouble"]["begun_unix_seconds"].as_f64()
    };
    let found = worst(&["--worst"]);
    assert_eq!(found, Some((begun + short_from) as f64));
    let indexed = std::fs::read_dir(&path).unwrap().map(Result::unwrap);
    for index in indexed.filter(|it| it.path().extension().is_some_and(|end| end == "index")) {
        std::fs::remove_file(index.path()).unwrap();
    }
    assert_eq!(worst(&["--worst"]), found);
    let at = |second: u64| {
        let second = i64::try_from(begun + second).unwrap();
        jiff::Timestamp::from_second(second).unwrap().to_string()
    };
    let [before, then] = [at(short_from - 600), at(short_to - 10)];
    assert_eq!(worst(&[&then]), found);
    let compared = run(&["compare", "--at", &then, "--at", &before, "--record", record]);
    assert_eq!(compared.status, 0, "{}", compared.err);
    assert!(
        compared.out.contains("MemAvailable") || compared.out.contains("available"),
        "{}",
        compared.out
    );
    let alone = run(&["compare", "--at", &then, "--record", record]);
    assert!(
        alone.status == 1 && alone.err.contains("expected two times, found 1"),
        "{}",
        alone.err
    );
    let same = run(&["compare", "--at", &then, "--at", &then, "--record", record]);
    assert!(same.status == 1 && same.err.contains("nearest one to both times"), "{}", same.err);
    let far = run(&["compare", "--at", "2001-01-01 03:12", "--at", &then, "--record", record]);
    assert!(far.err.contains("none near that time"), "{}", far.err);
}

/// A record with a reading each 10 s, and each second while memory is short. Its first reading is a
/// recorded host, whose counters and sizes then change.
fn write_hours(path: &Path, begun: u64, hours: u64, short: std::ops::Range<u64>) {
    let size = pagewise_model::Bytes::new(64 << 20);
    let age = std::time::Duration::from_secs(100 * 86_400);
    let mut ring = Ring::open(path, RingLimits { size, age }).unwrap();
    let mut stalled = 5_000_000;
    let mut second = 0;
    while second < hours * 3600 {
        let is_short = short.contains(&second);
        let step = if is_short { 1 } else { 10 };
        stalled += if is_short { 700_000 } else { 100 };
        let available = if is_short { 40_000 } else { 6_000_000 + second % 900 };
        let meminfo = format!(
            "MemTotal: 8000000 kB\nMemFree: {available} kB\nMemAvailable: {available} kB\nBuffers: 1000 kB\n\
             Cached: 90000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
        );
        let (average, total) = (if is_short { "70.00" } else { "0.00" }, stalled);
        let stall =
            |kind| format!("{kind} avg10={average} avg60={average} avg300=0.00 total={total}\n");
        let files = [
            ("proc/meminfo", meminfo),
            ("proc/vmstat", format!("pgfault {second}\noom_kill 0\n")),
            ("proc/pressure/memory", stall("some") + &stall("full")),
            ("proc/uptime", format!("{}.00 1.00\n", 100_000 + second)),
            ("proc/sys/kernel/random/boot_id", "6b1e7d0a-1111-2222-3333-444455556666\n".to_owned()),
            ("proc/sys/kernel/osrelease", "6.12.1\n".to_owned()),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), Entry::File(text.into_bytes())));
        let end = TapeEnd {
            name: "end",
            unix_seconds: (begun + second) as f64,
            monotonic_seconds: (100_000 + second) as f64,
            awake_seconds: Some((100_000 + second) as f64),
            files: files.into_iter().collect(),
        };
        ring.add(Tape { page_size: Some(4096), ends: vec![end] }, &Rest::Nothing).unwrap();
        second += step;
    }
}

#[test]
fn metrics_are_printed_once_and_a_textfile_is_replaced() {
    let printed = run(&["metrics"]);
    assert_eq!(printed.status, 0, "{}", printed.err);
    assert!(printed.out.ends_with("# EOF\n"), "{}", printed.out);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pagewise.prom");
    std::fs::write(&path, "old").unwrap();
    let written = run(&["metrics", "--textfile", path.to_str().unwrap()]);
    assert_eq!((written.status, written.out.as_str()), (0, ""), "{}", written.err);
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("# HELP pagewise_"));
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 1, "nothing unfinished is left");
    let missing = run(&["metrics", "--group", "nonesuch.service"]);
    assert!(
        missing.status == 1 && missing.err.contains("`pagewise limits` lists"),
        "{}",
        missing.err
    );
}

#[test]
fn bad_input_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("a/b/c");
    let none = run(&["why", "--record", nowhere.to_str().unwrap()]);
    assert!(none.status == 1 && none.err.contains("`pagewise monitor` keeps one"), "{}", none.err);
    let address = run(&["monitor", "--no-record", "--listen", "nonsense"]);
    assert!(address.err.contains("expected HOST:PORT or unix:PATH"), "{}", address.err);
    let small = run(&["monitor", "--record-size", "10K"]);
    assert!(small.status == 2 && small.err.contains("expected at least 1.0 MiB"), "{}", small.err);
}

/// What an alert says to run must run.
#[test]
fn every_alert_names_a_page_of_explain() {
    let alerts = pagewise_metrics::RULES.iter().filter_map(|rule| match rule.does {
        pagewise_metrics::Does::Alerts { subject, .. } => Some((rule.name, subject)),
        pagewise_metrics::Does::Records => None,
    });
    for (alert, subject) in alerts {
        let page = run(&["explain", subject]);
        assert!(page.status == 0 && page.out.lines().count() > 10, "{alert}: {}", page.err);
    }
}
