// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that every source file of the project begins with its licence: on the first line, or on
//! the second if the first line names an interpreter. Data, documents and manifests need no licence
//! line.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::run;

const LICENCE: &str = "SPDX-License-Identifier: Apache-2.0 OR MIT";
/// The first line of files that become part of a kernel, which have the kernel's licence.
const IN_KERNEL: &str = "SPDX-License-Identifier: GPL-2.0-only";

fn licence(path: &str) -> &'static str {
    if path.starts_with("kernel/") { IN_KERNEL } else { LICENCE }
}

pub(crate) fn main() -> Result<()> {
    let mut sources = 0;
    let mut bare = Vec::new();
    for path in run::files(&[])? {
        // Skips files that are not text, or that were removed without a commit.
        let Ok(text) = fs::read_to_string(run::project().join(&path)) else { continue };
        if is_source(&path, &text) {
            sources += 1;
            if !has_head(&text, licence(&path)) {
                bare.push(format!("  {path}: {}", licence(&path)));
            }
        }
    }
    ensure!(bare.is_empty(), "expected as the first line of\n{}", bare.join("\n"));
    println!("{sources} source files begin with their licence");
    Ok(())
}

fn is_source(path: &str, text: &str) -> bool {
    let path = Path::new(path);
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ["rs", "sh", "c", "h", "py"].contains(&ending)
        || path.file_name().is_some_and(|name| name == "Makefile")
        || text.starts_with("#!")
}

fn has_head(text: &str, expected: &str) -> bool {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let head = if first.starts_with("#!") { lines.next().unwrap_or_default() } else { first };
    let Some((mark, licence)) = head.split_once(' ') else { return false };
    ["//", "#", "/*"].contains(&mark) && licence.trim_end_matches(" */") == expected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_licence_comes_first_or_after_the_interpreter() {
        let has_head = |text: &str| has_head(text, LICENCE);
        assert!(has_head(&format!("// {LICENCE}\nfn main() {{}}\n")));
        assert!(has_head(&format!("#!/bin/bash\n# {LICENCE}\n")));
        assert!(has_head(&format!("/* {LICENCE} */\n")));
        assert!(!has_head(&format!("//! A module.\n// {LICENCE}\n")));
        assert!(!has_head(&format!("// {LICENCE} or something else\n")));
        assert!(!has_head(&format!("// {IN_KERNEL}\n")));
        assert!(!has_head(""));
    }

    #[test]
    fn what_becomes_part_of_a_kernel_has_its_licence() {
        assert_eq!(licence("kernel/zmerge/core/slot.c"), IN_KERNEL);
        assert_eq!(licence("crates/pagewise/tests/guest/zmerge.rs"), LICENCE);
    }

    #[test]
    fn scripts_are_sources_whatever_their_name() {
        assert!(is_source(".ci/run", "#!/bin/bash\n"));
        assert!(is_source("Makefile", ""));
        assert!(is_source("crates/model/src/lib.rs", ""));
        assert!(!is_source("README.md", "# pagewise\n"));
        assert!(!is_source("Cargo.toml", "[workspace]\n"));
    }
}
