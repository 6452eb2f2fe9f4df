// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--html` of each verb that has it, as a user runs it. Needs no privileges.

use std::os::unix::fs::PermissionsExt;

use crate::program::{empty_folder, run_in};

const RECORDING: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/hosts/debian-trixie-6.12-x86_64-256m-oom-zram-full.tar"
);

/// The page that these arguments write, after common checks, and what was printed.
fn page(arguments: &[&str], status: i32) -> (String, String) {
    let folder = empty_folder();
    let lines: String = (0..4096).map(|line| format!("line {line} of a file\n")).collect();
    std::fs::write(folder.path().join("image"), &lines[..1 << 16]).unwrap();
    let ran = run_in(folder.path(), &[arguments, &["--html", "page.html"]].concat());
    assert_eq!(ran.status, status, "{arguments:?}: {}", ran.err);
    let path = folder.path().join("page.html");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"), "{page}");
    assert_eq!(page.matches("<h1>").count(), 1, "{page}");
    for outside in ["<script", "http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{arguments:?}: {outside}");
    }
    (page, ran.out)
}

#[test]
fn doctor_writes_its_findings_and_its_exit_status_stays() {
    let (page, printed) = page(&["doctor", "--root", RECORDING], 3);
    assert!(printed.starts_with("page.html: a page of "), "{printed}");
    assert_eq!(page.matches("<article").count(), 2, "{page}");
    assert!(
        page.contains("the kernel killed java") && page.contains("<caption>Readings that prove")
    );
    let (page, _) = self::page(&["doctor", "--min-severity", "critical", "--root", RECORDING], 3);
    assert_eq!(page.matches("<article").count(), 1);
    assert!(page.contains("1 finding below --min-severity not shown."), "{page}");
}

#[test]
fn thp_writes_what_it_prints() {
    let (page, _) = page(&["thp", "--root", RECORDING], 0);
    assert!(page.contains("<title>Share of memory in huge pages</title>"), "{page}");
    assert!(page.contains("<dt>khugepaged</dt>"), "{page}");
}

#[test]
fn scan_draws_the_ratios_of_the_file_it_read() {
    let arguments = ["scan", "--exact", "--file", "image", "--algorithm", "lz4"];
    let (page, printed) = page(&arguments, 0);
    assert!(printed.starts_with("page.html: "), "{printed}");
    assert!(page.contains("<title>Original size per compressed size"), "{page}");
    assert!(page.contains("<th scope=\"row\"><span class=\"strong\">lz4</span></th>"), "{page}");
}

#[test]
fn bench_draws_time_against_ratio() {
    let small = ["bench", "--codecs", "--quick", "--size", "1M", "--algorithm", "lz4"];
    let (page, _) = page(&[&small[..], &["--mix", "text:100"]].concat(), 0);
    assert!(page.contains("read time and ratio</title><desc>lz4"), "{page}");
}
