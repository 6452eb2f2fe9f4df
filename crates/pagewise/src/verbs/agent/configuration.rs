// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds and reads the configuration files of the agent.

use std::path::Path;

use pagewise_agent::{Config, ConfigFile, parse};
use pagewise_observe::{ConfigurationLimits, read_configuration};

/// The configuration file if the command line names no other.
pub(super) const FILE: &str = "/etc/pagewise/agent.toml";
/// A real file has a few lines.
const LIMITS: ConfigurationLimits = ConfigurationLimits { bytes: 64 << 10, drop_ins: 100 };

/// Which files were read, in their order, and what they say.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) paths: Vec<String>,
    pub(super) config: Config,
}

/// Reads the named file, which must exist, or else [`FILE`], which may be missing; and its drop-ins.
/// Root reads none that another user can change.
pub(super) fn load(named: Option<&Path>) -> anyhow::Result<Loaded> {
    let read = read_configuration(named.unwrap_or(Path::new(FILE)), named.is_some(), LIMITS)?;
    let files = read
        .into_iter()
        .map(|file| ConfigFile { path: file.path.display().to_string(), text: file.text });
    let files: Vec<ConfigFile> = files.collect();
    let config = parse(&files)?;
    Ok(Loaded { paths: files.into_iter().map(|file| file.path).collect(), config })
}
