// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The block layer part of `bench` on real zram devices.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagewise_bench::block::{
    Bench, BlockSpec, Disk, Entrant, Pages, Progress, Watch, measure_devices,
};
use pagewise_model::lend::{Lender, LoanId, ZramDevice, ZramSpec};
use pagewise_model::{Bytes, Compressor, Direction, Refusal};
use pagewise_observe::HostRoot;

use crate::lent::ZramLender;

const MIB: usize = 1 << 20;

/// Pages of a program file, with some zero pages between them.
fn pages() -> Pages {
    let mut program = File::open("/proc/self/exe").expect("this test");
    let found = Pages::read(&mut program, 8 * MIB / rustix::param::page_size()).expect("pages");
    let mut pages = Pages::with_room(found.count() + 64);
    let page = usize::try_from(found.page_size().get()).expect("small");
    found.bytes().chunks_exact(page).for_each(|one| assert!(pages.push(one)));
    (0..64).for_each(|_| assert!(pages.push(&vec![0; page])));
    pages
}

/// The algorithms that this kernel offers.
fn offered() -> Vec<Compressor> {
    let line = crate::machine::read("/sys/block/zram0/comp_algorithm");
    line.split_whitespace().map(|word| Compressor::new(word.trim_matches(['[', ']']))).collect()
}

fn wanted(candidates: Vec<Compressor>) -> BlockSpec {
    let jobs = vec![1, 2];
    BlockSpec { jobs, ..BlockSpec::new(candidates, Duration::from_secs(4), 3) }
}

fn run(
    lender: &mut dyn Lender,
    pages: &Pages,
    spec: &BlockSpec,
    progress: &mut dyn FnMut(&Progress, &AtomicBool),
) -> Bench {
    let stop = AtomicBool::new(false);
    let mut listed = |step: &Progress| progress(step, &stop);
    let mut watch = Watch { stop: &stop, progress: &mut listed };
    let host = HostRoot::live().expect("a root");
    measure_devices(lender, &host, pages, spec, &mut watch).expect("room for some MiB")
}

/// `mm_stat` of a device: original size, compressed size, used memory, …, same-filled pages.
fn mm_stat(device: u64) -> Vec<u64> {
    let line = crate::machine::read(&format!("/sys/block/zram{device}/mm_stat"));
    line.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}

#[test]
fn every_algorithm_of_this_kernel_has_figures_in_every_shape() {
    let (mut lender, pages) = (ZramLender::new(), pages());
    let requested = wanted(offered());
    let bench = run(&mut lender, &pages, &requested, &mut |_, _| {});
    assert_eq!((&bench.failures, bench.stopped, bench.shortened), (&vec![], false, false));
    let rows = bench.rows();
    assert_eq!(rows.len(), requested.candidates.len() * 4 * 2 * 2);
    for row in &rows {
        let figures = &row.figures;
        let shown = format!("{row:?}");
        assert_eq!(figures.rounds, 3, "{shown}");
        assert!(row.original_per_compressed.is_some_and(|ratio| ratio > 1.0), "{shown}");
        assert!(row.memory_used_bytes.is_some_and(|used| used.get() > 0), "{shown}");
        assert!(figures.p50_ns <= figures.p99_ns && figures.p50_ns > 0.0, "{shown}");
        let kernel = figures.kernel_ns_per_io.expect("a system call");
        assert!(kernel > 0.0 && kernel <= figures.cpu_ns_per_io, "{shown}");
    }
    let references = bench.references();
    let names: BTreeSet<_> =
        references.iter().map(|one| (one.name.as_str(), one.layer.as_str())).collect();
    let expected = [
        ("block path", "block"),
        ("memory copy", "memory"),
        ("tmpfs", "file"),
        ("zram hole", "block"),
    ];
    assert_eq!(names, BTreeSet::from(expected));
    let copy = references.iter().find(|one| one.layer.as_str() == "memory").expect("a copy");
    assert_eq!(copy.figures.kernel_ns_per_io, None);
    assert!(bench.noise.calm.is_some_and(|calm| calm.as_str() == "block path, 4.0 KiB read by 1"));
    assert!(bench.noise.others_share.is_some() && bench.noise.stolen_share.is_some());
    assert!(lender.out.lock().expect("unpoisoned").is_empty(), "all were given back");
}

#[test]
fn writes_leave_contents_and_the_ratio_is_that_of_mm_stat() {
    let (mut lender, pages) = (ZramLender::new(), pages());
    let candidate = offered().pop().expect("an algorithm");
    let directions = vec![Direction::Write];
    let spec = BlockSpec { directions, references: false, ..wanted(vec![candidate]) };
    let mut looking = Looking { lender: &mut lender, pages: &pages, stat: Vec::new() };
    let bench = run(&mut looking, &pages, &spec, &mut |_, _| {});
    assert!(bench.rows().iter().all(|row| row.figures.requests > 0));
    let Entrant::Algorithm { filled, .. } = &bench.entrants[0] else { panic!("one algorithm") };
    let [original, compressed, _, _, _, same, ..] = looking.stat[..] else { panic!("columns") };
    assert!(same >= 64 && filled.same_filled_pages.expect("read").get() == same);
    assert_eq!(original, pages.bytes().len() as u64);
    let ratio = (original - same * pages.page_size().get()) as f64 / compressed as f64;
    assert_eq!(filled.original_per_compressed, Some(ratio), "after all the writes");
}

/// A lender that reads a device's state before the device is removed.
struct Looking<'a> {
    lender: &'a mut ZramLender,
    pages: &'a Pages,
    stat: Vec<u64>,
}

impl Lender for Looking<'_> {
    fn lend_zram(&mut self, spec: &ZramSpec) -> Result<ZramDevice, Refusal> {
        self.lender.lend_zram(spec)
    }

    fn return_loan(&mut self, loan: LoanId) -> Result<(), Refusal> {
        self.stat = mm_stat(loan.0);
        let device = File::open(format!("/dev/zram{}", loan.0)).expect("still there");
        let mut found = vec![0; self.pages.bytes().len()];
        device.read_exact_at(&mut found, 0).expect("all of it");
        assert!(found == self.pages.bytes(), "contents changed");
        drop(device);
        self.lender.return_loan(loan)
    }
}

#[test]
fn a_device_that_fails_in_the_middle_ends_with_a_reason_and_the_rest_comes() {
    let (mut lender, pages) = (ZramLender::new(), pages());
    let mut candidates = offered();
    candidates.truncate(2);
    let refused = Compressor::new("no-such");
    candidates.insert(1, refused);
    let out = lender.out.clone();
    let requested = wanted(candidates.clone());
    let mut disturbed = false;
    let bench = run(&mut lender, &pages, &requested, &mut |step, _| {
        // during the second round that counts
        if !disturbed && step.total > 0 && step.done > step.total / 2 {
            disturbed = true;
            let first = format!("/sys/block/zram{}", out.lock().expect("unpoisoned")[0]);
            let reset = std::fs::write(format!("{first}/reset"), "1");
            assert!(reset.is_err(), "an open device is not reset");
            crate::machine::write(&format!("{first}/mem_limit"), "4096");
        }
    });
    assert!(disturbed);
    let who: Vec<_> = bench.failures.iter().map(|failure| failure.what.as_str()).collect();
    assert_eq!(who, ["no-such"], "{:?}", bench.failures);
    for cell in &bench.cells {
        let broken = cell.contestant == 0 && cell.shape.direction == Direction::Write;
        assert_eq!(cell.ended.is_some(), broken, "{:?}: {:?}", cell.shape, cell.ended);
        assert_eq!(cell.rounds.len() == 3, !broken);
    }
    assert!(bench.rows().iter().any(|row| row.compressor == candidates[2]));
    assert!(lender.out.lock().expect("unpoisoned").is_empty());
}

#[test]
fn a_device_that_is_gone_before_it_is_filled_is_a_failure() {
    let (mut lender, pages) = (ZramLender::new(), pages());
    let mut losing = Losing { lender: &mut lender };
    let bench = run(&mut losing, &pages, &wanted(offered()), &mut |_, _| {});
    assert_eq!(bench.failures.len(), offered().len(), "{:?}", bench.failures);
    assert!(bench.cells.is_empty() && bench.rows().is_empty());
    assert!(lender.out.lock().expect("unpoisoned").is_empty());
}

/// A lender whose devices somebody resets at once.
struct Losing<'a> {
    lender: &'a mut ZramLender,
}

impl Lender for Losing<'_> {
    fn lend_zram(&mut self, spec: &ZramSpec) -> Result<ZramDevice, Refusal> {
        let zram = self.lender.lend_zram(spec)?;
        crate::machine::write(&format!("/sys/block/zram{}/reset", zram.number), "1");
        Ok(zram)
    }

    fn return_loan(&mut self, loan: LoanId) -> Result<(), Refusal> {
        self.lender.return_loan(loan)
    }
}

#[test]
fn a_stop_keeps_what_is_there_and_gives_all_back() {
    let (mut lender, pages) = (ZramLender::new(), pages());
    let mut steps = 0;
    let bench = run(&mut lender, &pages, &wanted(offered()), &mut |step, stop| {
        steps = step.total;
        stop.store(step.total > 0 && step.done > step.total / 2, Ordering::SeqCst);
    });
    assert!(bench.stopped && steps > 0);
    let rounds = |cell: &pagewise_bench::block::Cell| cell.rounds.len();
    assert!(bench.cells.iter().all(|cell| (1..3).contains(&rounds(cell))));
    assert!(lender.out.lock().expect("unpoisoned").is_empty());
    let bench = run(&mut lender, &pages, &wanted(offered()), &mut |_, stop| {
        stop.store(true, Ordering::SeqCst);
    });
    assert!(bench.stopped && bench.cells.is_empty() && bench.rows().is_empty());
    assert!(lender.out.lock().expect("unpoisoned").is_empty());
}

#[test]
fn a_disk_is_written_only_where_that_is_asked_for() {
    let (mut lender, pages) = (ZramLender::new(), pages());
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let file = folder.path().join("file");
    crate::machine::run("cp", &["/proc/self/exe", file.to_str().expect("UTF-8")]);
    let before = crate::machine::run("cksum", &[file.to_str().expect("UTF-8")]);
    let mut ways = |disk: Disk| {
        let candidates = offered().into_iter().take(1).collect();
        let blocks = vec![Bytes::new(4096)];
        let spec = BlockSpec { disk: Some(disk), blocks, ..wanted(candidates) };
        let bench = run(&mut lender, &pages, &spec, &mut |_, _| {});
        assert!(bench.failures.is_empty(), "{:?}", bench.failures);
        let references = bench.references();
        let disk = references.iter().filter(|one| one.name.as_str() == "disk");
        disk.map(|one| one.shape.direction).collect::<Vec<_>>()
    };
    assert_eq!(ways(Disk::Read(file.clone())), [Direction::Read]);
    assert_eq!(crate::machine::run("cksum", &[file.to_str().expect("UTF-8")]), before);
    let both = [Direction::Read, Direction::Write];
    assert_eq!(ways(Disk::Write(folder.path().to_owned())), both);
    assert_eq!(folder.path().read_dir().expect("a folder").count(), 1, "nothing is left");
}
