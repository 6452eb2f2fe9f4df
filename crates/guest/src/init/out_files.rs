// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends the files that the job left in `/out` to the runner.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use super::channel::Channel;
use super::failure::{ErrorContext, Failure};
use crate::wire::{CHUNK, Event, OUT};

/// Sends every regular file in `/out`; skips links and devices.
pub(super) fn send_all(channel: &Channel) -> Result<(), Failure> {
    let mut folders = vec![Path::new(OUT).to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).at_path(&folder)?.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path();
                send(&path, channel).at_path(&path)?;
            }
        }
    }
    Ok(())
}

/// Sends one file in pieces; an empty file is one empty piece.
fn send(path: &Path, channel: &Channel) -> std::io::Result<()> {
    let name = path.strip_prefix(OUT).unwrap_or(path).to_string_lossy().into_owned();
    let mut file = File::open(path)?;
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = file.read(&mut buffer)?;
        let bytes = buffer[..length].to_vec();
        channel.tell(&Event::File { path: name.clone(), bytes });
        if length < CHUNK {
            return Ok(());
        }
    }
}
