// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise scan` as a user runs it. Needs no privileges.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::program::{empty_folder, run};
use serde_json::{Value, json};

const PAGE: usize = 4096;

/// A compressible page, different for each number.
fn page(number: usize) -> Vec<u8> {
    let line = format!("page {number} of a file that is looked at\n");
    line.bytes().cycle().take(PAGE).collect()
}

/// 20 pages of zeros, 30 that are filled with a word, 40 times the same page, 110 different ones.
fn file() -> Image {
    let mut bytes = vec![0; 20 * PAGE];
    bytes.resize(50 * PAGE, 0x55);
    (0..40).for_each(|_| bytes.extend(page(0)));
    (1..111).for_each(|number| bytes.extend(page(number)));
    let folder = empty_folder();
    std::fs::write(folder.path().join("image"), bytes).unwrap();
    Image(folder)
}

/// The file, which is removed with this value.
struct Image(tempfile::TempDir);

impl Image {
    fn path(&self) -> String {
        self.0.path().join("image").display().to_string()
    }
}

fn scan(arguments: &[&str]) -> Value {
    let ran = run(&[&["scan", "--json"], arguments].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

/// The error message of a scan that must end with this exit status.
fn refused(arguments: &[&str], status: i32) -> String {
    let ran = run(&[&["scan"], arguments].concat());
    assert_eq!((ran.status, ran.out.as_str()), (status, ""), "{arguments:?}: {}", ran.err);
    ran.err
}

#[test]
fn every_page_of_a_file_is_counted() {
    let image = file();
    let path = image.path();
    let path = path.as_str();
    let scan = scan(&["--exact", "--file", path, "--algorithm", "lz4", "--algorithm", "zstd"]);
    assert_eq!(scan["schema"], "pagewise/scan/1");
    let estimate = &scan["estimates"][0];
    assert_eq!(estimate["source"], json!({"kind": "file", "name": path}));
    assert_eq!((&estimate["pages"], &estimate["sampled_pages"]), (&json!(200), &json!(200)));
    assert_eq!((&estimate["zero_pages"], &estimate["same_filled_pages"]), (&json!(20), &json!(50)));
    assert_eq!(estimate["duplicate_pages"], json!({"value": 39}));
    let named = |contents, copies: u64| json!({"contents": contents, "kinds": ["stored"], "copies": copies, "sources": 1});
    let most = json!([named("other", 40), named("same_filled", 30), named("zeros", 20)]);
    assert_eq!(estimate["most_repeated"], most);
    assert_eq!(estimate["ksm_saved_bytes"]["value"], json!((39 + 29 + 19) * PAGE));
    let [lz4, zstd] = estimate["algorithms"].as_array().unwrap().as_slice() else { panic!() };
    assert_eq!((&lz4["name"], &zstd["level"]), (&json!("lz4"), &json!(3)));
    assert_eq!(
        lz4["compressed_bytes_interval"],
        json!([lz4["compressed_bytes"], lz4["compressed_bytes"]])
    );
    let per_page = lz4["compressed_bytes"].as_f64().unwrap() / 150.0;
    let saved = estimate["duplicate_saved_bytes"]["value"].as_f64().unwrap();
    assert!((saved - 39.0 * per_page).abs() < 39.0 * 2.0, "{saved} of {per_page} a page");
    assert_eq!(
        estimate["disturbed"],
        json!({"referenced_pages": 0, "unshared_pages": 0, "faults": 0})
    );
}

#[test]
fn a_sample_says_how_sure_it_is_and_the_same_seed_draws_the_same() {
    let image = file();
    let arguments = ["--sample", "60", "--algorithm", "lz4", "--file", &image.path()];
    let estimate = &scan(&arguments)["estimates"][0];
    assert_eq!((&estimate["pages"], &estimate["sampled_pages"]), (&json!(200), &json!(60)));
    assert!(estimate["duplicate_pages"]["absent"].as_str().unwrap().contains("--duplicates"));
    let [low, high] =
        [0, 1].map(|end| estimate["same_filled_pages_interval"][end].as_u64().unwrap());
    assert!(low <= 50 && (50..150).contains(&high), "{low} to {high}");
    let [low, high] = [0, 1]
        .map(|end| estimate["algorithms"][0]["compressed_bytes_interval"][end].as_u64().unwrap());
    assert!(low < high);
    assert_eq!(scan(&arguments)["estimates"], scan(&arguments)["estimates"]);
}

#[test]
fn duplicates_are_counted_while_a_sample_is_compressed() {
    let image = file();
    let path = image.path();
    let of = |how: &[&str]| {
        let file = ["--algorithm", "lz4", "--file", &path];
        scan(&[how, &file[..]].concat())["estimates"][0].clone()
    };
    let (all, few) = (of(&["--exact"]), of(&["--duplicates", "--sample", "60"]));
    assert_eq!((&few["pages"], &few["sampled_pages"]), (&json!(200), &json!(200)));
    assert!((20..100).contains(&few["sized_pages"].as_u64().unwrap()), "{few:#}");
    for counted in ["duplicate_pages", "same_filled_pages", "ksm_saved_bytes", "most_repeated"] {
        assert_eq!(few[counted], all[counted], "{counted}");
    }
    assert_eq!(few["duplicate_pages_exact"], json!(true));
    let truth = all["duplicate_saved_bytes"]["value"].as_u64().unwrap();
    assert_eq!(all["duplicate_saved_bytes_interval"], json!([truth, truth]));
    let [low, high] =
        [0, 1].map(|end| few["duplicate_saved_bytes_interval"][end].as_u64().unwrap());
    assert!(low < truth && truth < high, "{low} to {high}, {truth}");
    // if all pages may be compressed, all of them are, and the result is exact
    let same = of(&["--duplicates"]);
    assert_eq!(same["algorithms"], all["algorithms"]);
    assert_eq!(same["duplicate_saved_bytes_interval"], json!([truth, truth]));
}

#[test]
fn what_was_cut_short_is_of_what_was_looked_at() {
    let folder = empty_folder();
    let path = folder.path().join("large");
    let pages = 200_000;
    std::fs::File::create(&path).unwrap().set_len(pages * PAGE as u64).unwrap();
    let bounds = ["--exact", "--budget", "300ms", "--max-cpu", "1"];
    let estimate =
        &scan(&[&bounds[..], &["--file", path.to_str().unwrap()]].concat())["estimates"][0];
    let looked_at = estimate["sampled_pages"].as_u64().unwrap();
    assert!(looked_at < pages, "{looked_at}");
    assert_eq!(
        (&estimate["pages"], &estimate["zero_pages"]),
        (&json!(looked_at), &json!(looked_at))
    );
    let why = estimate["partial"].as_str().unwrap();
    assert!(why.contains("of 200,000 pages; what follows is of those alone"), "{why}");
}

#[test]
fn a_share_is_a_share() {
    let image = file();
    let estimate = &scan(&["--sample", "25%", "--file", &image.path()])["estimates"][0];
    assert_eq!(estimate["sampled_pages"], 50);
}

#[test]
fn another_kernel_stores_otherwise() {
    let image = file();
    let path = image.path();
    let path = path.as_str();
    let of = |kernel| {
        let scan =
            scan(&["--exact", "--algorithm", "lz4", "--kernel-like", kernel, "--file", path]);
        let lz4 = &scan["estimates"][0]["algorithms"][0];
        assert_eq!(lz4["kernel"], kernel);
        (lz4["compressed_bytes"].clone(), lz4["slot_table_bytes"].clone())
    };
    assert_eq!(of("6.1").0, of("7.2").0, "lz4 is lz4");
    assert_eq!((of("6.1").1, of("7.2").1), (json!(200 * 24), json!(200 * 16)));
}

/// A process that waits for us.
struct Waits(Child);

impl Drop for Waits {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn waits() -> Waits {
    let mut command = Command::new("cat");
    Waits(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
}

#[test]
fn a_process_is_looked_at_and_named() {
    let cat = waits();
    let pid = cat.0.id().to_string();
    let estimate = &scan(&["--exact", "--pid", &pid])["estimates"][0];
    assert_eq!(estimate["source"], json!({"kind": "process", "name": "cat", "pid": cat.0.id()}));
    let pages = estimate["pages"].as_u64().unwrap();
    assert!(pages > 5 && estimate["sampled_pages"] == pages, "{estimate:#}");
    assert_eq!(estimate["disturbed"]["referenced_pages"], pages);
}

#[test]
fn several_processes_have_a_sum_and_a_row_each() {
    let both = [waits(), waits()];
    let pids = both.each_ref().map(|cat| cat.0.id().to_string());
    let scan = scan(&["--exact", "--pid", &pids[0], "--pid", &pids[1]]);
    let estimates = scan["estimates"].as_array().unwrap();
    let pages: Vec<u64> =
        estimates.iter().map(|estimate| estimate["pages"].as_u64().unwrap()).collect();
    assert_eq!(pages.len(), 3);
    assert_eq!(pages[0], pages[1] + pages[2]);
}

/// A shell that holds 1.3 MB of numbers; the contents are the same in each.
fn holds_numbers() -> Waits {
    let mut command = Command::new("sh");
    command.args(["-c", "held=$(seq 1 200000); echo ready; read line; echo $held"]);
    let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    shell.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    Waits(shell)
}

#[test]
fn what_is_alike_across_processes_is_told_from_what_is_within_one() {
    let both = [holds_numbers(), holds_numbers()];
    let pids = both.each_ref().map(|shell| shell.0.id().to_string());
    let scan = scan(&["--duplicates", "--pid", &pids[0], "--pid", &pids[1]]);
    let estimates = scan["estimates"].as_array().unwrap();
    let of = |at: usize, key: &str| estimates[at][key]["value"].as_u64().unwrap();
    let within = of(1, "duplicate_pages") + of(2, "duplicate_pages");
    assert_eq!(of(0, "duplicate_pages_within"), within);
    let across = of(0, "duplicate_pages") - within;
    assert!(across > 200, "{across} of about 316 pages in each: {:#}", estimates[0]);
}

#[test]
fn the_text_fits_and_says_what_to_know() {
    let image = file();
    let ran = run(&["scan", "--exact", "--algorithm", "lz4", "--file", &image.path()]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    for expected in [
        "all 200 pages read",
        "lz4",
        "same-filled 25 %",
        "duplicates 20 %",
        "cold",
        "KSM would save 348.0 KiB",
        "most repeated: a page 40 times; a same-filled page 30 times; zeros 20 times",
    ] {
        assert!(ran.out.contains(expected), "{expected}: {}", ran.out);
    }
    assert!(ran.out.lines().all(|line| line.chars().count() <= 100), "{}", ran.out);
}

/// 74 pages of 74 sizes start a zspage in many classes, which together take more memory than the
/// pages. On a device that also stores other pages, they would take less than their size.
#[test]
fn little_memory_would_not_take_more_than_it_is() {
    let folder = empty_folder();
    let path = folder.path().join("few");
    let mut noise = 0x9e37_79b9_7f4a_7c15u64;
    let mut bytes = Vec::new();
    for page in 0..74 {
        for word in 0..PAGE / 8 {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let word = if word < page * 6 { noise ^ (noise >> 29) } else { 0x2020_2020 };
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
    }
    std::fs::write(&path, bytes).unwrap();
    let path = path.display().to_string();
    let arguments = ["--exact", "--algorithm", "lz4", "--file", &path];
    let lz4 = scan(&arguments)["estimates"][0]["algorithms"][0].clone();
    let size = |name: &str| lz4[name].as_u64().unwrap();
    let original = 74 * PAGE as u64;
    assert!(size("memory_used_bytes") > original, "{lz4:#}");
    assert!(size("memory_in_pool_bytes") < original, "{lz4:#}");
    assert!(size("compressed_bytes") < size("memory_in_pool_bytes"), "{lz4:#}");
    let text = run(&[&["scan"], &arguments[..]].concat()).out;
    let text: Vec<&str> = text.split_whitespace().collect();
    let text = text.join(" ");
    let takes = text.split("all of it would take ").nth(1).expect("what it would take");
    let takes: f64 = takes.split(' ').next().unwrap().parse().unwrap();
    assert!(takes < 296.0, "{text}");
    assert!(text.contains("are the ends of zspages"), "{text}");
}

#[test]
fn a_dump_is_for_its_owner_and_replaces_nothing() {
    let image = file();
    let dump = image.0.path().join("dump");
    let (path, to) = (&image.path(), dump.to_str().unwrap());
    scan(&["--exact", "--file", path, "--dump", to]);
    let sorted = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        let mut pages: Vec<Vec<u8>> = bytes.chunks(PAGE).map(<[u8]>::to_vec).collect();
        pages.sort();
        pages
    };
    assert_eq!(sorted(&dump), sorted(Path::new(path)), "in the order of the threads");
    assert_eq!(std::fs::metadata(&dump).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(refused(&["--file", path, "--dump", to], 1).contains("nothing was written"));
    let other = image.0.path().join("other");
    refused(&["--file", "/none", "--dump", other.to_str().unwrap()], 1);
    assert!(!other.exists(), "where nothing is looked at no file is made");
}

#[test]
fn what_cannot_be_looked_at_is_said() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts");
    let first = std::fs::read_dir(recording).unwrap().flatten().next().unwrap().path();
    let root = ["--root", first.to_str().unwrap(), "--host"];
    assert!(refused(&root, 1).contains("a recording holds no page contents"));
    assert!(refused(&["--pid", "4194305"], 1).contains("no such process"));
    assert!(refused(&["--name", "no-program-of-this-name"], 1).contains("found none"));
    assert!(refused(&["--file", "/none"], 1).contains("/none"));
    assert!(refused(&["--file", "/"], 1).contains("expected"));
    assert!(refused(&["--device", "/etc/passwd"], 1).contains("expected a block device"));
    assert!(refused(&["--core", "/etc/passwd"], 1).contains("/etc/passwd"));
    assert!(refused(&["--cgroup", "/no/such/group"], 1).contains("/no/such/group"));
}

#[test]
fn wrong_usage_exits_with_2() {
    for line in [
        &[][..],
        &["--host", "--pid", "1"],
        &["--host", "--sample", "0"],
        &["--host", "--sample", "101%"],
        &["--host", "--sample", "5%", "--exact"],
        &["--host", "--duplicates", "--exact"],
        &["--host", "--algorithm", "842"],
        &["--host", "--kernel-like", "5.4"],
    ] {
        refused(line, 2);
    }
}
