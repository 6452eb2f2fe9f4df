// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the files that a guest needs to run a program of this host: the program, the shared
//! libraries that the dynamic loader lists, and the loader itself.

#![expect(
    clippy::disallowed_methods,
    reason = "the command goes to program.rs, which lets it end with its parent"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::program;

/// The dynamic loader of x86-64 programs.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The files of the host that a program needs, and their paths in the guest; the program itself
/// goes into the folder `bin`.
pub fn files_of_program(
    name: &str,
    package: &'static str,
) -> Result<Vec<(PathBuf, String)>, Error> {
    let path = program::find(name, package)?;
    let mut list = Command::new(LOADER);
    let listed = program::output(name, list.arg("--list").arg(&path))?;
    let mut files = vec![(path, format!("bin/{name}"))];
    files.extend(
        parse_libraries(&listed).into_iter().map(|path| (path.clone(), path_in_guest(&path))),
    );
    Ok(files)
}

fn path_in_guest(path: &Path) -> String {
    path.to_string_lossy().trim_start_matches('/').to_owned()
}

/// Parses the paths of libraries from lines such as `libm.so.6 => /lib/libm.so.6 (0x7f…)` and
/// `/lib64/ld.so (0x7f…)`; the vDSO, which has no path, is skipped.
fn parse_libraries(listed: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let (_, path) = line.split_once(" => ").unwrap_or(("", line));
        let path = path.trim().split(" (").next()?;
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    listed.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_names_libraries_and_itself() {
        let listed = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let expected = ["/lib/x/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(parse_libraries(listed), expected);
        assert!(parse_libraries("\tstatically linked\n").is_empty());
    }

    #[test]
    fn a_program_comes_with_all_that_it_needs() {
        let files = files_of_program("setpriv", "util-linux").unwrap();
        assert_eq!(files[0].1, "bin/setpriv");
        assert!(files.iter().any(|(_, to)| to.contains("libc.so")), "{files:?}");
        assert!(files.iter().any(|(_, to)| to == LOADER.trim_start_matches('/')), "{files:?}");
        assert!(files.iter().all(|(from, _)| from.is_file()), "{files:?}");
    }
}
