// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the block layer part of `pagewise bench` with fio, on the same zram device with the
//! same pages, and prints a table of ratios.
//!
//! Both are run alternately: one is first in even rounds, the other in odd rounds. The CPU time of
//! fio is the time that it reports for its jobs (getrusage of each, from the end of the ramp on),
//! so its start and end are not included; ours are not included either. fio divides that time into
//! user and kernel time by timer samples; `pagewise bench` divides it by readings of the clock.
//!
//! fio writes the same buffer again and again, and fills it with random data. So that both programs
//! write the same data, fio's buffer is a shared mapping of a file, into which the pages are copied
//! while fio ramps up, and `pagewise bench` writes the same block everywhere on the device. The
//! memory that the device uses for its contents must not change.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::device::Device;
use super::spread::Spread;
use super::table;
use crate::run;

const BLOCKS: [usize; 4] = [4 << 10, 8 << 10, 16 << 10, 32 << 10];
const JOBS: [u32; 2] = [1, 2];
/// Bytes of the image: this much of the machine's largest programs and libraries is read.
const IMAGE: usize = 256 << 20;
/// Offset in the image of the block that is written again and again.
const WRITTEN: usize = 777 << 15;
/// Duration of each measurement in seconds.
const SECONDS: &str = "1";
/// fio's buffer must be replaced within this time from the start.
const RAMP: Duration = Duration::from_millis(800);
/// Time after which fio has certainly filled its buffer.
const SLOWEST_START: Duration = Duration::from_secs(10);
const TRIES: u32 = 4;
/// The minimum number of rounds of measurements.
const LEAST: u16 = 7;

/// A kind of requests: what is read or written, and how.
#[derive(Debug, Clone, Copy)]
struct Shape {
    write: bool,
    block: usize,
    jobs: u32,
}

/// The cost of one kind of requests with one program, in nanoseconds per request.
#[derive(Debug, Clone, Copy)]
struct Cost {
    p50: f64,
    kernel: f64,
    cpu: f64,
}

/// The costs of one kind of requests in all rounds, with `pagewise bench` and with fio.
#[derive(Debug)]
struct Cell {
    shape: Shape,
    pairs: Vec<(Cost, Cost)>,
}

/// The device and the files of this benchmark.
struct Bench {
    device: Device,
    ours: PathBuf,
    folder: PathBuf,
    image: Vec<u8>,
}

pub(super) fn main(rounds: u16, machine: &str) -> Result<()> {
    ensure!(rounds >= LEAST, "expected at least {LEAST} rounds, found {rounds}");
    let ours = super::build_example("pagewise-bench", "block_speed")?;
    let bench = Bench::new(ours)?;
    let mut cells: Vec<Cell> = shapes().map(|shape| Cell { shape, pairs: Vec::new() }).collect();
    for round in 0..rounds {
        let mut filled = None;
        for cell in &mut cells {
            let contents = cell.shape.write.then_some(cell.shape.block);
            if filled != Some(contents) {
                bench.fill(contents)?;
                filled = Some(contents);
            }
            cell.pairs.push(bench.measure_valid_pair(cell.shape, round % 2 == 0)?);
        }
    }
    let ratio = "ratio";
    let head = [
        "requests, jobs",
        "p50",
        "ratio (middle half)",
        "kernel CPU",
        ratio,
        "all CPU",
        ratio,
        "kept",
    ];
    println!("{machine}\n\n{}", table::lines(head, cells.iter().map(Cell::cells)));
    ensure!(cells.iter().all(Cell::is_kept), "a promise is not kept");
    Ok(())
}

fn shapes() -> impl Iterator<Item = Shape> {
    let of = |write| BLOCKS.map(|block| JOBS.map(|jobs| Shape { write, block, jobs }));
    [false, true].into_iter().flat_map(of).flatten()
}

impl Bench {
    fn new(ours: PathBuf) -> Result<Self> {
        let image = read_image()?;
        let device = Device::create(&image.len().to_string())?;
        let folder = PathBuf::from(format!("/dev/shm/pagewise-bench-{}", std::process::id()));
        device.run_at_end(&format!("rm -r {}", folder.display()))?;
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self { device, ours, folder, image })
    }

    /// The first bytes, `size` of them, of the block that is written again and again.
    fn block(&self, size: usize) -> &[u8] {
        let start = WRITTEN.min(self.image.len() - size);
        &self.image[start..start + size]
    }

    /// Fills the device with the image, or with copies of one block. Writes the same to the file
    /// that `pagewise bench` reads.
    fn fill(&self, block: Option<usize>) -> Result<()> {
        let pages = block.map_or(self.image.as_slice(), |size| self.block(size));
        fs::write(self.folder.join("pages"), pages)?;
        let options = fs::OpenOptions::new().write(true).open(self.device.path());
        let mut device = options.with_context(|| self.device.path())?;
        (0..self.image.len() / pages.len()).try_for_each(|_| device.write_all(pages))?;
        device.sync_all()?;
        Ok(())
    }

    /// Measures `pagewise bench` and fio once each, and repeats this if fio's random data reached
    /// the device: under heavy load the ramp may end before fio fills its buffer, and then fio
    /// writes that data.
    fn measure_valid_pair(&self, shape: Shape, ours_first: bool) -> Result<(Cost, Cost)> {
        for _ in 0..TRIES {
            let before = self.stored_size()?;
            let pair = self.measure_pair(shape, ours_first)?;
            if (self.stored_size()? / before - 1.0).abs() < 0.01 {
                return Ok(pair);
            }
            self.fill(shape.write.then_some(shape.block))?;
        }
        bail!("{shape:?}: contents changed {TRIES} times")
    }

    fn measure_pair(&self, shape: Shape, ours_first: bool) -> Result<(Cost, Cost)> {
        if ours_first {
            let ours = self.measure_ours(shape)?;
            return Ok((ours, self.fio(shape)?));
        }
        let fio = self.fio(shape)?;
        Ok((self.measure_ours(shape)?, fio))
    }

    /// Bytes that the device stores after compression (`compr_data_size`).
    fn stored_size(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/sys/block/zram{}/mm_stat", self.device.id))?;
        Ok(text.split_whitespace().nth(1).context("mm_stat")?.parse()?)
    }

    fn measure_ours(&self, shape: Shape) -> Result<Cost> {
        let mut command = run::program(&self.ours);
        command.arg(self.device.path()).arg(self.folder.join("pages"));
        command.args([shape.block.to_string(), shape.jobs.to_string()]);
        command.args([if shape.write { "write" } else { "read" }, SECONDS]);
        let said: Value = serde_json::from_str(&run::output(&mut command)?)?;
        let number = |key: &str| said[key].as_f64().with_context(|| format!("block_speed: {key}"));
        let [p50, kernel, cpu] = ["p50_ns", "kernel_ns_per_io", "cpu_ns_per_io"].map(number);
        Ok(Cost { p50: p50?, kernel: kernel?, cpu: cpu? })
    }

    fn fio(&self, shape: Shape) -> Result<Cost> {
        let buffer = self.folder.join("buffer");
        let mut command = fio(&self.device.path(), shape);
        if shape.write {
            fs::write(&buffer, self.block(shape.block))?;
            command.arg(format!("--iomem=mmapshared:{}", buffer.display()));
        }
        let child = command.stdout(Stdio::piped()).spawn().context("fio")?;
        let kept = if shape.write { self.keep_contents(&buffer, shape.block) } else { Ok(()) };
        let cost = cost_of_fio(child, shape);
        kept.and(cost)
    }

    /// Replaces the contents of fio's buffer. fio fills its buffers only once, when a job starts.
    fn keep_contents(&self, buffer: &Path, size: usize) -> Result<()> {
        let (mut until, block) = (Instant::now() + SLOWEST_START, self.block(size));
        let mut overwritten = false;
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
            if !fs::read(buffer)?.starts_with(block) {
                fs::OpenOptions::new().write(true).open(buffer)?.write_all(block)?;
                until = if overwritten { until } else { Instant::now() + RAMP / 2 };
                overwritten = true;
            }
        }
        ensure!(overwritten, "fio did not fill its buffer within {SLOWEST_START:?}");
        Ok(())
    }
}

fn fio(device: &str, shape: Shape) -> Command {
    let mut command = run::program("fio");
    command.args(["--name=peer", "--direct=1", "--ioengine=psync", "--norandommap"]);
    command.args(["--randrepeat=0", "--time_based", "--group_reporting", "--output-format=json"]);
    command.arg(format!("--filename={device}"));
    command.arg(if shape.write { "--rw=randwrite" } else { "--rw=randread" });
    command.arg("--scramble_buffers=0");
    command.args([format!("--bs={}", shape.block), format!("--numjobs={}", shape.jobs)]);
    command.args([format!("--runtime={SECONDS}"), format!("--ramp_time={}ms", RAMP.as_millis())]);
    command
}

fn cost_of_fio(child: Child, shape: Shape) -> Result<Cost> {
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "fio: {}", output.status);
    let said: Value = serde_json::from_slice(&output.stdout).context("fio")?;
    let job = &said["jobs"][0];
    let way = &job[if shape.write { "write" } else { "read" }];
    let number = |value: &Value| value.as_f64().context("fio says too little");
    let requests = number(&way["total_ios"])?;
    // percentages of the time of all jobs together; `job_runtime` is in milliseconds
    let percent = number(&job["job_runtime"])? * 1e6 / 100.0 / requests;
    let (user, kernel) = (number(&job["usr_cpu"])? * percent, number(&job["sys_cpu"])? * percent);
    let p50 = number(&way["clat_ns"]["percentile"]["50.000000"])?;
    Ok(Cost { p50, kernel, cpu: user + kernel })
}

/// Reads the machine's largest programs and libraries, one after the other, as contents of the
/// device.
fn read_image() -> Result<Vec<u8>> {
    let mut files = Vec::new();
    for folder in ["/usr/bin", "/usr/lib/x86_64-linux-gnu"] {
        for entry in fs::read_dir(folder).context(folder)?.flatten() {
            let about = entry.metadata()?;
            files.extend(about.is_file().then(|| (about.len(), entry.path())));
        }
    }
    files.sort_unstable_by(|one, other| other.cmp(one));
    let mut image = Vec::with_capacity(IMAGE);
    for (_, path) in files {
        image.extend(fs::read(&path).with_context(|| path.display().to_string())?);
        if image.len() >= IMAGE {
            break;
        }
    }
    let largest = BLOCKS[BLOCKS.len() - 1];
    image.truncate(IMAGE.min(image.len() / largest * largest));
    Ok(image)
}

impl Cell {
    fn ratio(&self, of: fn(&Cost) -> f64) -> Option<Spread> {
        let ratios = self.pairs.iter().map(|(ours, fio)| of(ours) / of(fio));
        Spread::of(&ratios.collect::<Vec<f64>>())
    }

    fn is_kept(&self) -> bool {
        let median = |of| self.ratio(of).map(|spread: Spread| spread.median);
        let near = |ratio: f64| (ratio - 1.0).abs() <= 0.05;
        let [p50, kernel, cpu] =
            [|c: &Cost| c.p50, |c: &Cost| c.kernel, |c: &Cost| c.cpu].map(median);
        p50.is_some_and(near) && kernel.is_some_and(near) && cpu.is_some_and(|ratio| ratio <= 1.0)
    }

    fn cells(&self) -> [String; 8] {
        let Shape { write, block, jobs } = self.shape;
        let median = |of: fn(&Cost) -> f64, side: fn(&(Cost, Cost)) -> Cost| {
            let values: Vec<f64> = self.pairs.iter().map(|pair| of(&side(pair))).collect();
            Spread::of(&values).map_or(f64::NAN, |spread| spread.median / 1e3)
        };
        let ratio = |of| {
            let shown = |of: Spread| {
                format!("{:.3} ({:.3} to {:.3})", of.median, of.lower_quarter, of.upper_quarter)
            };
            self.ratio(of).map_or("–".to_owned(), shown)
        };
        let both =
            |of| format!("{:.2} / {:.2} µs", median(of, |pair| pair.0), median(of, |pair| pair.1));
        [
            format!("{} {} KiB, {jobs}", if write { "write" } else { "read" }, block >> 10),
            both(|cost| cost.p50),
            ratio(|cost| cost.p50),
            both(|cost| cost.kernel),
            ratio(|cost| cost.kernel),
            both(|cost| cost.cpu),
            ratio(|cost| cost.cpu),
            if self.is_kept() { "yes" } else { "no" }.to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(pairs: &[(f64, f64, f64)]) -> Cell {
        let fio = Cost { p50: 4000.0, kernel: 3000.0, cpu: 3500.0 };
        let ours = |&(p50, kernel, cpu): &(f64, f64, f64)| Cost {
            p50: p50 * fio.p50,
            kernel: kernel * fio.kernel,
            cpu: cpu * fio.cpu,
        };
        let shape = Shape { write: true, block: 8192, jobs: 2 };
        Cell { shape, pairs: pairs.iter().map(|pair| (ours(pair), fio)).collect() }
    }

    #[test]
    fn a_promise_is_held_against_the_median_of_the_rounds() {
        assert!(cell(&[(1.0, 1.0, 0.9), (1.04, 0.96, 0.99), (9.0, 9.0, 9.0)]).is_kept());
        assert!(!cell(&[(1.06, 1.0, 0.9)]).is_kept());
        assert!(!cell(&[(1.0, 0.94, 0.9)]).is_kept());
        assert!(!cell(&[(1.0, 1.0, 1.01)]).is_kept());
        assert!(!cell(&[]).is_kept());
    }

    #[test]
    fn a_row_has_both_sides_and_their_ratio() {
        assert_eq!(
            cell(&[(1.0, 1.02, 0.9)]).cells().join(" | "),
            "write 8 KiB, 2 | 4.00 / 4.00 µs | 1.000 (1.000 to 1.000) | 3.06 / 3.00 µs \
             | 1.020 (1.020 to 1.020) | 3.15 / 3.50 µs | 0.900 (0.900 to 0.900) | yes"
        );
    }

    #[test]
    fn every_shape_is_measured_once() {
        let shapes: Vec<_> = shapes().map(|shape| (shape.write, shape.block, shape.jobs)).collect();
        assert_eq!(shapes.len(), 16);
        assert_eq!(shapes[0], (false, 4096, 1));
        assert_eq!(shapes[15], (true, 32768, 2));
    }
}
