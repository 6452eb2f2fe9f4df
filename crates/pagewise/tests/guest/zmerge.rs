// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel module zmerge, built for the kernels of three Debian suites, in guests with these
//! kernels.
//!
//! `kernel/zmerge/build-for.sh` builds it with each suite's own compiler and headers, which it
//! keeps in the cache that all clones share (some 430 MB for each suite); a module whose sources
//! have not changed is not rebuilt. The checks are in the scripts of `kernel/zmerge/guest`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::boot::{
    PRIVILEGES, ProgramRun, SAY, answer, answer_of_success, assert_all_privileges, document,
    finish, lab,
};
use crate::caches;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/zmerge")
}

/// The path of the module for the kernel that a guest of this suite runs.
fn module(suite: &str) -> String {
    let mut build = Command::new(sources().join("build-for.sh"));
    let built = finish(build.args([suite, &caches::release(suite)]));
    assert_eq!(built.status, 0, "{suite}: {}", built.err);
    format!("{}:/zmerge.ko", built.out.trim_end())
}

/// Runs a shell script in a guest of the suite that has the module.
fn guest(suite: &str, files: &[String], cpus: &str, script: &str) -> ProgramRun {
    let module = module(suite);
    let options =
        ["--emulate", "--kernel", suite, "--memory", "256M", "--cpus", cpus, "--deadline", "15m"];
    let files = files.iter().chain([&module]).flat_map(|file| ["--file", file]);
    let command = ["--", "sh", "-c", script];
    finish(&mut lab(&options.into_iter().chain(files).chain(command).collect::<Vec<_>>()))
}

/// Compiles the program that holds pages in a guest, without libraries, which a guest lacks.
fn holder(folder: &Path) -> String {
    let program = folder.join("hold");
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-static", "-o"]).arg(&program).arg(sources().join("guest/hold.c"));
    let compiled = finish(&mut compile);
    assert_eq!(compiled.status, 0, "{}", compiled.err);
    format!("{}:/hold", program.display())
}

/// CPU hotplug, what the device stores, refuses, hides and forgets, its limit, how a pass ends, and
/// domains, and how a pass ends without memory, one after the other in one boot: each script loads the module anew.
fn keeps_and_refuses(suite: &str) {
    let names = ["cpus", "keep", "refuse", "hide", "limit", "shrink", "stop", "domains", "exhaust"];
    let folder = tempfile::tempdir().unwrap();
    let scripts = names.map(|name| {
        let path = sources().join(format!("guest/{name}.sh"));
        format!("{}:/{name}.sh", path.display())
    });
    let files: Vec<_> = scripts.into_iter().chain([holder(folder.path())]).collect();
    let all = names.map(|name| format!("sh /{name}.sh")).join(" && ");
    let ran = guest(suite, &files, "2", &all);
    assert_eq!(ran.status, 0, "{suite}: {} {}", ran.out, ran.err);
    let ends = [
        "changed\n",
        "kept\nrefused 95\nwrong 0\nhidden\n",
        "\nlimited\n",
        "\nforgotten\n",
        "\nstopped\n",
        "\nseparate\n",
        "\nexhausted\n",
    ];
    assert!(ends.iter().all(|end| ran.out.contains(end)), "{suite}: {} {}", ran.out, ran.err);
    assert!(ran.out.ends_with(ends[6]), "{suite}: {} {}", ran.out, ran.err);
}

#[test]
fn guest_zmerge_keeps_every_page_and_refuses_what_it_must_on_trixie() {
    keeps_and_refuses("trixie");
}

/// The checks that `make test` runs: pages are read back as written, duplicates are merged, and the
/// files that a non-root user can read do not reveal whether a page is stored.
pub(crate) const KEEP_AND_HIDE: &str = "
say zmerge-keep env ALGORITHMS=lz4 SWAP=no sh /keep.sh
say zmerge-hide sh /hide.sh
";

/// The options that send the module for the suite's kernel and the scripts of [`KEEP_AND_HIDE`].
pub(crate) fn sent(suite: &str) -> Vec<String> {
    let script =
        |name: &str| format!("{}:/{name}.sh", sources().join(format!("guest/{name}.sh")).display());
    let files = [module(suite), script("keep"), script("hide")];
    files.into_iter().flat_map(|file| ["--file".to_owned(), file]).collect()
}

pub(crate) fn keeps_and_hides(session: &str) {
    let kept = answer_of_success(session, "zmerge-keep");
    assert!(kept.ends_with("kept\n"), "{kept}");
    let hidden = answer_of_success(session, "zmerge-hide");
    assert!(hidden.ends_with("hidden\n"), "{hidden}");
}

/// Suites whose headers and compilers are fetched only for these tests.
mod other_suites {
    use super::keeps_and_refuses;

    #[test]
    fn guest_zmerge_keeps_every_page_and_refuses_what_it_must_on_bookworm() {
        keeps_and_refuses("bookworm");
    }

    #[test]
    fn guest_zmerge_keeps_every_page_and_refuses_what_it_must_on_sid() {
        keeps_and_refuses("sid");
    }
}

/// Swap in use: 10 MB in a cgroup limited to 2 MB. The second file equals the first 2 MB of the
/// first one, and the third file pushes both out.
const SESSION: &str = r#"
say no-module pagewise merge
insmod /zmerge.ko
cd /sys/block/zmerge0
say no-size pagewise merge
say unknown pagewise merge --device zram0
echo 64M >disksize
mkswap /dev/zmerge0 >/dev/null
swapon /dev/zmerge0
mkdir /many /sys/fs/cgroup/a
mount -t tmpfs none /many
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
echo 2M >/sys/fs/cgroup/a/memory.max
(echo 0 >/sys/fs/cgroup/a/cgroup.procs; head -c 6000640 /init >/many/1; head -c 2002944 /init >/many/2
    head -c 2500000 /dev/urandom >/many/3)
sync
say status pagewise status
say report pagewise report --no-contents --interval 0
say facts pagewise status --json
say merge pagewise merge --device /dev/zmerge0 --predict --json
say again pagewise merge
say privileges privileges pagewise merge
say after pagewise status
echo 50 >merge_rate
say interrupted timeout -s INT 5 pagewise merge
pagewise merge --no-wait >/dev/null
sleep 1
say ended pagewise merge --stop
say idle pagewise merge --stop
echo 0 >merge_rate
head -c 6000640 /init | cmp - /many/1 && head -c 2002944 /init | cmp - /many/2 && echo "== same"
echo 'nobody:x:65534:65534::/:/bin/sh' >>/etc/passwd
say stranger su nobody -c 'pagewise merge'
say outside su nobody -c 'pagewise status'
say outside-facts su nobody -c 'pagewise status --json'
echo off >merge_mode
say off pagewise merge
say doctor pagewise doctor --interval 0 --min-severity info
"#;

#[track_caller]
fn assert_refused(session: &str, name: &str, why: &str) {
    let (text, status) = answer(session, name);
    assert!(
        status == "1" && text.starts_with("pagewise: ") && text.contains(why),
        "{text} {status}"
    );
    assert!(text.contains("\n  next   "), "{name}: {text}");
}

#[test]
fn guest_zmerge_is_told_of_and_merged_by_pagewise() {
    let ran = guest("trixie", &[], "1", &format!("{SAY}{PRIVILEGES}{SESSION}"));
    let session = ran.out.as_str();
    assert_eq!(ran.status, 0, "{session} {}", ran.err);
    assert_all_privileges(session, "privileges");
    assert_refused(session, "no-module", "the module zmerge is not loaded");
    assert_refused(session, "no-size", "zmerge0: it has no disksize");
    assert_refused(session, "unknown", "--device zram0: expected a device of zmerge (zmerge0)");
    assert_refused(session, "stranger", "/sys/block/zmerge0/merge is for root");
    assert_refused(session, "off", "zmerge0: its merge_mode is off");
    let (interrupted, status) = answer(session, "interrupted");
    assert_eq!(status, "130", "{interrupted}");
    assert!(interrupted.contains("the pass over zmerge0 has ended"), "{interrupted}");
    let (ended, status) = answer(session, "ended");
    assert_eq!(status, "0", "{ended}");
    assert!(ended.contains("merge of zmerge0 · stopped before it merged a page"), "{ended}");
    assert!(answer(session, "idle").0.contains("no merge pass is running"), "{session}");
    let (status, _) = answer(session, "status");
    assert!(status.contains("merging on request, none merged"), "{status}");
    assert!(answer(session, "outside").0.contains("zmerge0: needs root"), "{session}");
    let outside = &document(session, "outside-facts")["zmerge"][0];
    assert!(outside["mm_stat"]["original"]["denied"].is_string(), "{outside:#}");
    assert!(outside["merging"]["merged_pages"]["denied"].is_string(), "{outside:#}");
    assert_eq!(outside["merging"]["mode"]["value"]["active"], "request");
    let (report, _) = answer(session, "report");
    let tier = report.lines().find(|line| line.trim_start().starts_with("1  zmerge0"));
    assert!(tier.is_some_and(|line| line.contains("compressed RAM")), "{report}");
    assert_eq!(document(session, "facts")["tiers"][0]["kind"], "zmerge");
    merged_as_predicted(&document(session, "merge")["devices"][0]);
    assert!(answer(session, "again").0.contains("no identical pages beyond those merged before"));
    let (after, _) = answer(session, "after");
    let words: Vec<&str> = after.split_whitespace().collect();
    assert!(words.join(" ").contains(" pages merged save "), "{after}");
    assert!(session.contains("== same"), "{session}");
    let (doctor, _) = answer(session, "doctor");
    assert!(!doctor.contains("zram") && !doctor.contains("zmerge0 "), "{doctor}");
}

/// All copies that the prediction found are merged, and memory was freed.
fn merged_as_predicted(device: &serde_json::Value) {
    let of = |end: &str, file: &str| device[end]["merging"][file]["value"].as_u64().unwrap();
    let used = |end: &str| device[end]["mm_stat"]["memory_used"]["value"].as_u64().unwrap();
    let merged = of("after", "merged_pages");
    assert_eq!(device["predicted_pages"], merged, "{device:#}");
    // of the 489 duplicate pages, the cgroup may keep some in memory
    assert!((200..700).contains(&merged) && of("before", "merged_pages") == 0, "{device:#}");
    assert!(used("after") < used("before") && of("after", "merged_bytes") > 0, "{device:#}");
}
