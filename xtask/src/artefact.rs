// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that a built program is as SPECIFICATION.md promises: one static file of at most 16 MiB,
//! which prints its errors whether or not `RUST_BACKTRACE` is set.
//!
//! The check is that the file names no interpreter (dynamic loader). Other signs are not reliable:
//! current static programs (static-pie) have a dynamic section, too, and `ldd` and `file` describe
//! them in various words.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::run;

/// Maximum size of the program in bytes: 16 MiB.
pub(crate) const LARGEST: u64 = 16 << 20;

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

/// Checks that an error is printed and the exit status is 1, even if `RUST_BACKTRACE` asks for a
/// backtrace. A program without unwind tables would abort instead.
fn check_backtrace(program: &Path) -> Result<()> {
    const NOWHERE: &str = "/nowhere/at/all";
    for backtrace in ["0", "1", "full"] {
        let mut command = run::program(program);
        command.args(["report", "--root", NOWHERE]).env("RUST_BACKTRACE", backtrace);
        let ran = command.output().with_context(|| program.display().to_string())?;
        let said = String::from_utf8_lossy(&ran.stderr);
        let is_refused = ran.status.code() == Some(1) && said.contains(NOWHERE);
        ensure!(is_refused, "with RUST_BACKTRACE={backtrace}: {}: {said}", ran.status);
    }
    Ok(())
}

/// The size of a program in bytes; an error if the program needs a dynamic loader.
pub(crate) fn size_of_static(program: &Path) -> Result<u64> {
    let mut readelf = run::program("readelf");
    readelf.env("LC_ALL", "C").args(["--wide", "--segments"]).arg(program);
    let segments = run::output(&mut readelf)?;
    ensure!(segments.contains("Program Headers"), "{}: no ELF program", program.display());
    ensure!(!segments.contains("INTERP"), "{}: asks for a dynamic loader", program.display());
    Ok(fs::metadata(program)?.len())
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
    fn a_script_and_a_program_cut_short_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        for bytes in
            [b"#!/bin/sh\n".as_slice(), b"\x7fELF\x02\x01", b"\x7fELF\x02\x01\xff\xff\xff\xff"]
        {
            fs::write(&path, bytes).unwrap();
            assert!(size_of_static(&path).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_program_that_aborts_or_exits_otherwise_is_refused() {
        for bad in ["/bin/true", "/bin/false"] {
            assert!(check_backtrace(Path::new(bad)).is_err(), "{bad}");
        }
    }
}
