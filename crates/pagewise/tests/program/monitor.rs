// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise monitor`, `metrics` and `why`, as any user runs them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};

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
