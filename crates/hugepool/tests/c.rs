// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C interface, used by a C program that is compiled with the headers and linked with the static library.

#![cfg(all(feature = "pool", not(miri)))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "starts the compiler and what it made")]

use std::path::PathBuf;
use std::process::Command;

use hugepool::ffi::{CCoverage, COptions, CStatistics};

/// The folder of the test programs; cargo puts the libraries next to them.
fn folder() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().unwrap().to_owned()
}

fn compile() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let program = folder().join("hugepool-c-check");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I"]);
    compiler.arg(here.join("include")).arg(here.join("c/check.c")).arg("-o").arg(&program);
    compiler.arg(folder().join("libhugepool.a")).args(["-lpthread", "-ldl", "-lm", "-lgcc_s"]);
    let output = compiler.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

#[test]
fn a_c_program_gets_what_the_headers_say() {
    let program = compile();
    let output = Command::new(&program).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let sizes = (size_of::<COptions>(), size_of::<CStatistics>(), size_of::<CCoverage>());
    let expected = format!("sizes {} {} {}\n", sizes.0, sizes.1, sizes.2);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);

    let mut typo = Command::new(&program);
    let output = typo.arg("create").env("PAGEWISE_THP", "ON").output().unwrap();
    let answer = String::from_utf8_lossy(&output.stdout);
    assert_eq!(answer, "PAGEWISE_THP is none of on, off and advised\n");
}
