// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `zram_sizes ID IMAGE [N]`: writes the pages of a file to /dev/zramID, one after the other, and
//! prints by how many bytes each increased `compr_data_size`; then `used` and `mem_used_total`.
//! With N, every page is then overwritten N times in random order, and `used` is printed after each
//! round. For tests on this machine and in guests: the device must belong to the caller.

#![allow(clippy::disallowed_methods, reason = "tests write to a device that they borrowed")]

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

const PAGE: usize = 4096;

struct Device {
    pages: File,
    stat: File,
    /// A page at an address that is aligned for direct I/O.
    buffer: Vec<u8>,
}

impl Device {
    fn open(id: &str) -> std::io::Result<Self> {
        let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or_default();
        let device = format!("/dev/zram{id}");
        let pages = OpenOptions::new().write(true).custom_flags(direct).open(device)?;
        let stat = File::open(format!("/sys/block/zram{id}/mm_stat"))?;
        Ok(Self { pages, stat, buffer: vec![0; 2 * PAGE] })
    }

    fn write(&mut self, at: usize, page: &[u8]) -> std::io::Result<()> {
        let start = self.buffer.as_ptr().align_offset(PAGE);
        let aligned = &mut self.buffer[start..start + PAGE];
        aligned.copy_from_slice(page);
        self.pages.write_all_at(aligned, (at * PAGE) as u64)
    }

    /// `compr_data_size` and `mem_used_total`.
    fn sizes(&self) -> Result<(u64, u64), Box<dyn Error>> {
        let mut text = [0; 256];
        let length = self.stat.read_at(&mut text, 0)?;
        let text = std::str::from_utf8(&text[..length])?;
        let mut words = text.split_whitespace().skip(1).map(str::parse);
        let mut next = || words.next().ok_or("mm_stat is too short");
        Ok((next()??, next()??))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [id, image, rest @ ..] = arguments.as_slice() else {
        return Err("usage: zram_sizes ID IMAGE [ROUNDS]".into());
    };
    let image = std::fs::read(image)?;
    let pages: Vec<&[u8]> = image.chunks_exact(PAGE).collect();
    let mut device = Device::open(id)?;
    let (mut before, mut out) = (device.sizes()?.0, String::new());
    for (at, page) in pages.iter().enumerate() {
        device.write(at, page)?;
        let now = device.sizes()?.0;
        writeln!(out, "{}", now - before)?;
        before = now;
    }
    println!("{out}used {}", device.sizes()?.1);
    let rounds = rest.first().map_or(Ok(0), |rounds| rounds.parse::<usize>())?;
    let mut random = 88_172_645_463_325_252_usize;
    for _ in 0..rounds {
        for _ in 0..pages.len() {
            device
                .write(drawn(&mut random, pages.len()), pages[drawn(&mut random, pages.len())])?;
        }
        println!("used {}", device.sizes()?.1);
    }
    Ok(())
}

/// A random number below `end`, from the same sequence in every run (xorshift).
fn drawn(state: &mut usize, end: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % end
}
