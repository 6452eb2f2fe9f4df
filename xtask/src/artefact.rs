// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A built program → whether it is what we promise to ship: one file that asks for no loader and
//! no library, and is small.
//!
//! It is also run once: it has no tables for unwinding the stack (`xtask/scripts/no-unwinding.ld`).
//!
//! A static program of today (static-pie) still has a dynamic section, so `ldd` and `file` differ
//! in words; that it names no interpreter is what counts. Only 64-bit little-endian ELF is read.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::run;

/// The most that the program may measure: 8 MiB.
pub(crate) const LARGEST: u64 = 8 << 20;

const PT_INTERP: u32 = 3;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program
    program: PathBuf,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let program = args.program.display();
    let size = size_of_static(&args.program)?;
    ensure!(size <= LARGEST, "{program}: expected at most {LARGEST} bytes, found {size}");
    check_backtrace(&args.program)?;
    println!("{program}: static, {:.2} MiB", size as f64 / f64::from(1 << 20));
    Ok(())
}

/// The program has no tables for unwinding: that must not matter to who sets RUST_BACKTRACE.
fn check_backtrace(program: &Path) -> Result<()> {
    const NOWHERE: &str = "/nowhere/at/all";
    let mut command = run::program(program);
    let ran = command.args(["report", "--root", NOWHERE]).env("RUST_BACKTRACE", "1").output()?;
    let said = String::from_utf8_lossy(&ran.stderr);
    let is_refused = ran.status.code() == Some(1) && said.contains(NOWHERE);
    ensure!(is_refused, "with RUST_BACKTRACE=1: {}: {said}", ran.status);
    Ok(())
}

/// The size of a program in bytes; an error where it is not static.
pub(crate) fn size_of_static(program: &Path) -> Result<u64> {
    let bytes = fs::read(program).with_context(|| program.display().to_string())?;
    let kinds = segment_kinds(&bytes)
        .with_context(|| format!("{}: not a 64-bit ELF program", program.display()))?;
    ensure!(!kinds.contains(&PT_INTERP), "{}: asks for a dynamic loader", program.display());
    Ok(bytes.len() as u64)
}

/// The kind of every segment in the program header table.
fn segment_kinds(elf: &[u8]) -> Option<Vec<u32>> {
    const LITTLE_64: &[u8] = b"\x7fELF\x02\x01";
    elf.starts_with(LITTLE_64).then_some(())?;
    let table = usize::try_from(u64::from_le_bytes(field(elf, 32)?)).ok()?;
    let entry = usize::from(u16::from_le_bytes(field(elf, 54)?));
    let count = usize::from(u16::from_le_bytes(field(elf, 56)?));
    (0..count)
        .map(|at| Some(u32::from_le_bytes(field(elf, table.checked_add(at * entry)?)?)))
        .collect()
}

fn field<const N: usize>(elf: &[u8], at: usize) -> Option<[u8; N]> {
    elf.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_program_asks_for_a_loader() {
        let own = std::env::current_exe().unwrap();
        let refused = size_of_static(&own).unwrap_err().to_string();
        assert!(refused.ends_with("asks for a dynamic loader"), "{refused}");
    }

    #[test]
    fn what_is_no_program_is_refused() {
        assert_eq!(segment_kinds(b"#!/bin/sh\n"), None);
        assert_eq!(segment_kinds(b"\x7fELF\x02\x01"), None);
        let mut elf = [0xff; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert_eq!(segment_kinds(&elf), None);
    }
}
