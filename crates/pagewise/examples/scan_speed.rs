// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `scan_speed ZRAM`: one round of comparing the speed of scan with a reference, as JSON: CPU
//! seconds for the same pages of this process's memory, each next to its reference; with two
//! threads, seconds.
//!
//! The pages are those of the machine's largest library. ZRAM is the number of a zram device of the
//! caller, with lz4. `cargo xtask bench --scan` runs this program many times.

#![allow(clippy::disallowed_methods, reason = "a library to look at, and the device it is given")]

use std::error::Error;
use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Instant;

use pagewise_observe::HostRoot;
use pagewise_pages::codec::{Algorithm, Sizer};
use pagewise_pages::huge::PagePosition;
use pagewise_pages::kernel::KERNELS;
use pagewise_pages::tally::{Engine, Question, Tally};
use pagewise_sample::{Choice, Options, Origin, Target, open};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

const PAGE: usize = 4096;
const PAGES: usize = 8192;
/// Direct I/O needs addresses that are a multiple of this.
const BLOCK: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let device = std::env::args().nth(1).ok_or("usage: scan_speed ZRAM")?;
    let image = image()?;
    let pages: Vec<&[u8]> = image.chunks_exact(PAGE).collect();
    let round = json!({
        "lz4_sized": cpu(|| sized(&pages, Algorithm::Lz4)),
        "zram_written": written(&device, &image)?,
        "zstd_sized": cpu(|| sized(&pages, Algorithm::Zstd(3))),
        "zstd_bare": cpu(|| bare_zstd(&pages)),
        "pages_read": looked(Choice::Exact, &[], false, 1)?.0,
        "duplicates_found": looked(Choice::Exact, &[], true, 1)?.0,
        "estimate": looked(Choice::Count(5000), &[Algorithm::Lz4, Algorithm::Zstd(3)], false, 1)?.0,
        "one_thread": looked(Choice::Exact, &[Algorithm::Lz4, Algorithm::Zstd(3)], true, 1)?.1,
        "two_threads": looked(Choice::Exact, &[Algorithm::Lz4, Algorithm::Zstd(3)], true, 2)?.1,
    });
    println!("{round}");
    Ok(())
}

/// The start of the largest library, at an aligned address for direct I/O.
fn image() -> Result<Vec<u8>, Box<dyn Error>> {
    let folder =
        std::fs::read_dir("/usr/lib/x86_64-linux-gnu")?.flatten().map(|entry| entry.path());
    let size = |path: &std::path::PathBuf| std::fs::metadata(path).map_or(0, |file| file.len());
    let largest = folder.filter(|path| path.is_file()).max_by_key(size).ok_or("no library")?;
    let mut bytes = std::fs::read(largest)?;
    bytes.truncate(PAGES * PAGE);
    Ok(bytes)
}

fn cpu_clock() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn cpu(work: impl FnOnce() -> usize) -> f64 {
    let before = cpu_clock();
    black_box(work());
    cpu_clock() - before
}

fn sized(pages: &[&[u8]], algorithm: Algorithm) -> usize {
    let mut sizer = Sizer::new(algorithm, KERNELS[2].zstd);
    pages.iter().map(|page| sizer.size(page)).sum()
}

fn bare_zstd(pages: &[&[u8]]) -> usize {
    let mut context = zstd::zstd_safe::CCtx::create();
    let mut out = vec![0; 2 * PAGE];
    let mut size = |page: &&[u8]| context.compress(out.as_mut_slice(), page, 3).unwrap_or(0);
    pages.iter().map(&mut size).sum()
}

/// Writes the image to the device: zram compresses in the system call that writes.
fn written(device: &str, image: &[u8]) -> Result<f64, Box<dyn Error>> {
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits())?;
    let path = format!("/dev/zram{device}");
    let mut file = OpenOptions::new().write(true).custom_flags(direct).open(path)?;
    let mut buffer = vec![0; 2 * BLOCK];
    let start = buffer.as_ptr().align_offset(PAGE);
    let block = &mut buffer[start..start + BLOCK];
    let mut seconds = 0.0;
    for piece in image.chunks_exact(BLOCK) {
        block.copy_from_slice(piece);
        let before = cpu_clock();
        file.write_all(block)?;
        seconds += cpu_clock() - before;
    }
    Ok(seconds)
}

/// Scans this process: CPU seconds, and seconds.
fn looked(
    choice: Choice,
    algorithms: &[Algorithm],
    duplicates: bool,
    threads: usize,
) -> Result<(f64, f64), Box<dyn Error>> {
    let host = HostRoot::live()?;
    let (kernel, algorithms) = (KERNELS[2], algorithms.to_vec());
    let bare = algorithms.is_empty() && !duplicates;
    let question = Question { page: PAGE, kernel, algorithms, duplicates, pages_per_huge: 512 };
    let (cpu, wall) = (cpu_clock(), Instant::now());
    let options = Options { choice, seed: 1, ..Options::default() };
    let mut sampler = open(&host, &Target::Process(std::process::id()), options)?;
    let worker = || {
        let (mut engine, mut tally) = (Engine::new(&question), Tally::new(&question));
        move |_: &Origin, page: &[u8]| {
            if bare {
                _ = black_box(page);
            } else {
                engine.add(page, PagePosition::default(), &mut tally);
            }
        }
    };
    let mut workers: Vec<_> = (0..threads).map(|_| worker()).collect();
    let shown = sampler.run(&mut workers).shown;
    if shown.get() < 5000 {
        return Err(format!("only {} pages were looked at", shown.get()).into());
    }
    Ok((cpu_clock() - cpu, wall.elapsed().as_secs_f64()))
}
