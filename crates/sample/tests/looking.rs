// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sampling of real processes: what is found, what is shown, and that their memory is not changed.
//!
//! Memory use is measured by the proportional set sizes of the processes that share it: their sum
//! is what they use together, whatever else happens on the machine.

#![expect(unsafe_code, reason = "the control reads as we must not")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pagewise_model::{Pages, Percent};
use pagewise_observe::HostRoot;
use pagewise_sample::{
    Choice, OpenError, Options, Origin, PageKind, Partial, ProcessEnd, Sample, Sampler, WhyUnread,
    open,
};
use pagewise_testkit::{Target, rollup};

const MIB: u64 = 256;

fn opened(pid: u32, options: Options) -> Result<Sampler, OpenError> {
    let host = HostRoot::live().expect("what tests need");
    open(&host, &pagewise_sample::Target::Process(pid), options)
}

fn exact() -> Options {
    Options { choice: Choice::Exact, others_allowed: true, ..Options::default() }
}

/// Samples every page, and counts how often each first word of a page was seen.
fn words(pid: u32) -> (HashMap<u64, u64>, Sample) {
    let mut words = HashMap::new();
    let visit = |_: &Origin, page: &[u8]| {
        let word = u64::from_ne_bytes(page[..8].try_into().expect("what tests need"));
        *words.entry(word).or_insert(0u64) += 1;
    };
    let mut sampler = opened(pid, exact()).expect("what tests need");
    sampler.run(&mut [visit]);
    (words, sampler.finish())
}

fn complete(sample: &Sample) {
    assert_eq!(sample.partial, None);
    for part in &sample.parts {
        let seen = part.sampled.get() + part.skipped.sum().get();
        assert_eq!(seen, part.pages.get(), "{part:?}");
    }
}

/// The word that `target` writes at the start of a page.
fn written(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn every_page_is_shown_as_it_is() {
    let target = Target::start("hold 16");
    let (words, sample) = words(target.pid());
    complete(&sample);
    for pair in 0..8 * MIB {
        assert_eq!(words.get(&written(pair + 1)), Some(&2), "pages of pair {pair}");
    }
    let part = &sample.parts[0];
    assert!((16 * MIB..16 * MIB + 200).contains(&part.pages.get()), "{part:?}");
    assert_eq!((part.name.as_str(), part.pid), ("target", Some(target.pid())));
    assert_eq!(sample.disturbed.referenced_pages, part.sampled);
}

#[test]
fn several_workers_see_each_page_once() {
    let target = Target::start("hold 16");
    let mut seen: [Vec<u64>; 3] = Default::default();
    let mut workers: Vec<_> =
        seen.iter_mut().map(|seen| |origin: &Origin, _: &[u8]| seen.push(origin.page)).collect();
    let mut sampler = opened(target.pid(), exact()).unwrap();
    let drawn = sampler.run(&mut workers);
    let mut all = seen.concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len() as u64, drawn.shown.get());
    assert_eq!((drawn.left.get(), drawn.partial), (0, None));
    complete(&sampler.finish());
}

#[test]
fn drawing_on_shows_other_pages_until_none_is_left() {
    let target = Target::start("hold 16");
    let mut pages = Vec::new();
    let mut visit = [|origin: &Origin, _: &[u8]| pages.push(origin.page)];
    let mut sampler = opened(target.pid(), Options::default()).unwrap();
    let first = sampler.run(&mut visit);
    assert_eq!(first.shown, Pages::new(2000));
    let second = sampler.draw(500, &mut visit);
    assert_eq!((second.shown.get(), second.left.get()), (500, sampler.pages().get() - 2500));
    let last = sampler.draw(u64::MAX, &mut visit);
    assert_eq!(last.left.get(), 0);
    assert_eq!(sampler.draw(1, &mut visit).shown.get(), 0);
    let sample = sampler.finish();
    complete(&sample);
    pages.sort_unstable();
    pages.dedup();
    assert_eq!(pages.len() as u64, sample.sampled_pages().get());
}

#[test]
fn the_same_seed_draws_the_same_pages() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 24).unwrap();
    let host = HostRoot::live().unwrap();
    let target = pagewise_sample::Target::File(file.path().to_owned());
    let draw = |seed| {
        let mut pages = Vec::new();
        let options = Options { choice: Choice::Count(300), seed, ..Options::default() };
        let visit = |origin: &Origin, _: &[u8]| pages.push(origin.page);
        open(&host, &target, options).unwrap().run(&mut [visit]);
        pages
    };
    assert_eq!(draw(5), draw(5));
    assert_ne!(draw(5), draw(6));
}

/// Reads all pages of a process with process_vm_readv, even shared ones, which this crate must not
/// do.
fn read_pinning(pid: u32, from: u64, pages: u64) {
    let mut page = [0u8; 4096];
    for number in from..from + pages {
        let local = libc::iovec { iov_base: page.as_mut_ptr().cast(), iov_len: page.len() };
        let address = std::ptr::without_provenance_mut(
            usize::try_from(number * 4096).expect("what tests need"),
        );
        let remote = libc::iovec { iov_base: address, iov_len: page.len() };
        let pid = libc::pid_t::try_from(pid).expect("what tests need");
        // SAFETY: one local piece, which is the array above; the kernel checks the remote one.
        let read =
            unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
        assert_eq!(read, 4096);
    }
}

#[test]
fn a_forked_child_keeps_sharing() {
    let target = Target::start("fork 64");
    let child: u32 = target.message.parse().unwrap();
    let both = || (rollup(target.pid(), "Pss"), rollup(child, "Pss"));
    let before = both();
    assert!((32 << 10..40 << 10).contains(&before.1), "shared to begin with: {before:?}");
    let mut pages = Vec::new();
    let mut sampler = opened(child, exact()).unwrap();
    sampler.run(&mut [|origin: &Origin, _: &[u8]| {
        if !origin.exclusive && origin.kind == PageKind::Anonymous {
            pages.push(origin.page);
        }
    }]);
    let sample = sampler.finish();
    complete(&sample);
    assert!(sample.parts[0].sampled_shared.get() >= 64 * MIB, "{:?}", sample.parts);
    let after = both();
    let (sum_before, sum_after) = (before.0 + before.1, after.0 + after.1);
    assert!(sum_after.abs_diff(sum_before) < 512, "KiB together: {before:?} to {after:?}");
    assert!(after.1.abs_diff(before.1) < 512, "KiB of the child: {before:?} to {after:?}");
    assert!(sample.disturbed.unshared_pages.get() < 32, "{:?}", sample.disturbed);

    // the control: the test above would notice such reads
    for run in pages.chunk_by(|a, b| a + 1 == *b).filter(|run| run.len() as u64 >= 32 * MIB) {
        read_pinning(child, run[0], run.len() as u64);
    }
    let broken = both();
    println!(
        "KiB of parent and child: {before:?}, looked at {after:?}, read by pinning {broken:?}"
    );
    assert!(broken.1 > before.1 + (20 << 10), "{before:?} to {broken:?}");
}

#[test]
fn shared_memory_counts_once_however_often_it_is_mapped() {
    let target = Target::start("shmem 16");
    let (words, sample) = words(target.pid());
    complete(&sample);
    for page in 1..16 * MIB {
        assert_eq!(words.get(&written(page)), Some(&1), "page {page}");
    }
    // the private copy of page 0 has other contents
    assert_eq!(words.get(&written(7_000_000)), Some(&1));
    assert!(sample.pages().get() < 16 * MIB + 250, "{:?}", sample.parts);
}

#[test]
fn private_copies_and_shared_pages_are_told_apart() {
    let target = Target::start("shmem 1");
    let mut kinds: HashMap<PageKind, u64> = HashMap::new();
    let visit = |origin: &Origin, _: &[u8]| *kinds.entry(origin.kind).or_default() += 1;
    opened(target.pid(), exact()).unwrap().run(&mut [visit]);
    assert_eq!(kinds.get(&PageKind::Shmem), Some(&MIB));
    assert!(kinds.get(&PageKind::Anonymous).is_some_and(|&pages| pages > 10));
    assert_eq!(kinds.get(&PageKind::File), None, "files only on request");
}

#[test]
fn files_are_shown_on_request() {
    let target = Target::start("hold 1");
    let mut of_files = 0;
    let visit = |origin: &Origin, _: &[u8]| of_files += u64::from(origin.kind == PageKind::File);
    let mut sampler = opened(target.pid(), Options { file_backed: true, ..exact() }).unwrap();
    sampler.run(&mut [visit]);
    complete(&sampler.finish());
    assert!(of_files > 50, "{of_files}");
}

#[test]
fn reserved_address_space_is_nothing() {
    let target = Target::start("reserve 100 1000");
    let (words, sample) = words(target.pid());
    complete(&sample);
    for page in 1..1000 {
        assert_eq!(words.get(&written(page)), Some(&1), "page {page}");
    }
    assert!(sample.pages().get() < 1200, "{:?}", sample.parts);
}

#[test]
fn memory_that_its_owner_may_not_read_is_shown_too() {
    let target = Target::start("sealed 4");
    let (words, sample) = words(target.pid());
    complete(&sample);
    assert_eq!(sample.parts[0].skipped.sum().get(), 0);
    assert!((1..=4 * MIB).all(|page| words.contains_key(&written(page))));
}

/// Samples a target that receives an order after its first pages were seen.
fn interrupted(order: &str, wait: fn(&Target)) -> Sample {
    let mut target = Target::start("hold 32");
    let mut sampler = opened(target.pid(), exact()).expect("what tests need");
    let mut seen = 0;
    let visit = |_: &Origin, _: &[u8]| {
        seen += 1;
        if seen == 100 {
            target.order(order);
            wait(&target);
        }
    };
    sampler.run(&mut [visit]);
    assert!((100..1000).contains(&seen), "{seen}");
    let sample = sampler.finish();
    let part = &sample.parts[0];
    assert_eq!(part.sampled.get(), seen);
    assert_eq!(part.sampled.get() + part.skipped.sum().get(), part.pages.get());
    sample
}

#[test]
fn an_exit_is_seen() {
    let sample = interrupted("exit", |target| target.wait_for_state("Z"));
    assert_eq!(sample.parts[0].ended, Some(ProcessEnd::Exited));
    assert_eq!(sample.partial, Some(Partial::Ended));
}

#[test]
fn an_exec_is_seen_and_the_new_program_is_not_looked_at() {
    let sample = interrupted("exec", |target| target.wait_for_name("sleep"));
    assert_eq!(sample.parts[0].ended, Some(ProcessEnd::Replaced));
    assert_eq!(sample.partial, Some(Partial::Ended));
}

#[test]
fn freed_memory_is_gone_and_not_brought_back() {
    let mut target = Target::start("hold 32");
    let mut sampler = opened(target.pid(), exact()).unwrap();
    target.obey("drop");
    sampler.run(&mut [|_: &Origin, _: &[u8]| ()]);
    let sample = sampler.finish();
    complete(&sample);
    assert!(sample.parts[0].skipped.gone.get() >= 32 * MIB, "{:?}", sample.parts);
    assert!(rollup(target.pid(), "Rss") < 8 << 10);
}

#[test]
fn stopping_leaves_a_part_that_says_so() {
    let target = Target::start("hold 32");
    let stop = Arc::new(AtomicBool::new(false));
    let options = Options { stop: Some(stop.clone()), ..exact() };
    let mut sampler = opened(target.pid(), options).unwrap();
    let drawn = sampler.run(&mut [|_: &Origin, _: &[u8]| stop.store(true, Ordering::Relaxed)]);
    assert_eq!(drawn.partial, Some(Partial::Stopped));
    assert!(drawn.shown.get() < 1000, "{drawn:?}");
    assert_eq!(sampler.finish().partial, Some(Partial::Stopped));
}

#[test]
fn a_share_of_a_processor_is_kept_to_without_losing_pages() {
    let target = Target::start("hold 4");
    let options = Options { max_cpu: Some(Percent::new(60.0)), ..Options::default() };
    let mut sampler = opened(target.pid(), options).unwrap();
    assert_eq!(
        sampler.run(&mut [|_: &Origin, _: &[u8]| ()]).left.get(),
        sampler.pages().get().saturating_sub(2000)
    );
    assert_eq!(sampler.finish().partial, None);
}

#[test]
fn what_is_no_process_says_why() {
    let mut dead = Target::start("hold 1");
    dead.order("exit");
    dead.wait_for_state("Z");
    let why = |pid| match opened(pid, exact()) {
        Err(OpenError::Process { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(dead.pid()), WhyUnread::Zombie);
    assert_eq!(why(u32::MAX), WhyUnread::Gone);
}

#[test]
fn a_recording_has_no_pages() {
    let host = HostRoot::memory([]);
    let refused = open(&host, &pagewise_sample::Target::Host, Options::default());
    assert!(matches!(refused, Err(OpenError::NotLive(_))));
}

#[test]
fn everything_of_a_sparse_file_larger_than_memory_is_refused_before_it_is_begun() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 42).unwrap();
    let host = HostRoot::live().unwrap();
    let target = pagewise_sample::Target::File(file.path().to_owned());
    match open(&host, &target, exact()) {
        Err(error @ OpenError::TooLarge { .. }) => {
            assert!(error.to_string().contains("take a sample instead"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let options = Options { choice: Choice::Count(100), ..Options::default() };
    let mut sampler = open(&host, &target, options).unwrap();
    assert_eq!(sampler.run(&mut [|_: &Origin, _: &[u8]| ()]).shown.get(), 100);
}
