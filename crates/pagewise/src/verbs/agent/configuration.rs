// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds and reads the configuration files of the agent.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pagewise_agent::{Config, ConfigFile, parse};
use pagewise_observe::UserFile;

/// The configuration file if the command line names no other.
const FILE: &str = "/etc/pagewise/agent.toml";
/// Maximum size of a file in bytes; a real one has a few lines.
const LONGEST: u64 = 64 << 10;
/// At most this many drop-ins are read.
const MOST_FILES: usize = 100;

/// Which files were read, in their order, and what they say.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) paths: Vec<String>,
    pub(super) config: Config,
}

/// Reads the named file, which must exist, or else [`FILE`], which may be missing; and its drop-ins.
pub(super) fn load(named: Option<&Path>) -> anyhow::Result<Loaded> {
    let main = std::path::absolute(named.unwrap_or(Path::new(FILE)))?;
    let mut files = Vec::new();
    match UserFile::open(&main, LONGEST).and_then(UserFile::into_text) {
        Ok(text) => files.push(ConfigFile { path: main.display().to_string(), text }),
        Err(error) if named.is_none() && error.is_missing() => {}
        Err(error) => return Err(error.into()),
    }
    for path in drop_ins(&main)? {
        let text = UserFile::open(&path, LONGEST).and_then(UserFile::into_text)?;
        files.push(ConfigFile { path: path.display().to_string(), text });
    }
    let config = parse(&files)?;
    Ok(Loaded { paths: files.into_iter().map(|file| file.path).collect(), config })
}

/// The drop-ins of a file, in the order of their names.
#[expect(clippy::disallowed_methods, reason = "the user names this folder; no recording has it")]
fn drop_ins(main: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folder = PathBuf::from(format!("{}.d", main.display()));
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| folder.display().to_string())?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with('.') && (name.ends_with(".toml") || name.ends_with(".conf")) {
            paths.push(path);
        }
        anyhow::ensure!(
            paths.len() <= MOST_FILES,
            "{}: expected at most {MOST_FILES} files that end in .toml or .conf",
            folder.display()
        );
    }
    paths.sort();
    Ok(paths)
}
