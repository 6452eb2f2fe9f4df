// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends the files that the job left in `/out` to the runner.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::channel::Channel;
use super::failure::{ErrorContext, Failure};
use crate::wire::{CHUNK, Event, OUT};

/// Maximum number of names in the message about files that are not sent.
const NAMED: usize = 5;

/// Sends every regular file in `/out`, in the order of their names, and sends a message about
/// links, devices and other files, which are left out.
pub(super) fn send_all(channel: &Channel) -> Result<(), Failure> {
    let left_out = for_each_file(Path::new(OUT), &mut |path| send(path, channel).at_path(path))?;
    if let Some(what) = describe(&left_out) {
        channel.send_or_ignore(&Event::Trouble { what });
    }
    Ok(())
}

/// Calls `send` for every regular file below a folder, in the order of names; returns the paths of
/// all other entries except folders.
fn for_each_file(
    base: &Path,
    send: &mut dyn FnMut(&Path) -> Result<(), Failure>,
) -> Result<Vec<(PathBuf, bool)>, Failure> {
    let mut waiting = vec![(base.to_owned(), true)];
    let mut left_out = Vec::new();
    while let Some((path, is_folder)) = waiting.pop() {
        if !is_folder {
            send(&path)?;
            continue;
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(&path).at_path(&path)?.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() || kind.is_file() {
                entries.push((entry.path(), kind.is_dir()));
            } else {
                let path = entry.path();
                left_out.push((path.strip_prefix(base).unwrap_or(&path).into(), kind.is_symlink()));
            }
        }
        // the loop takes entries from the end of the list
        entries.sort_by(|one, other| other.cmp(one));
        waiting.append(&mut entries);
    }
    left_out.sort();
    Ok(left_out)
}

/// The message about left out links (`true`), devices, sockets and pipes (`false`).
fn describe(left_out: &[(PathBuf, bool)]) -> Option<String> {
    let links = left_out.iter().filter(|(_, is_link)| *is_link).count();
    let others = left_out.len() - links;
    let count = |number: usize, one: &str, more: &str| match number {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{number} {more}")),
    };
    let counts = [
        count(links, "link", "links"),
        count(others, "device, socket or pipe", "devices, sockets or pipes"),
    ];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    if counts.is_empty() {
        return None;
    }
    let mut names: Vec<String> =
        left_out.iter().take(NAMED).map(|(path, _)| path.display().to_string()).collect();
    if left_out.len() > NAMED {
        names.push("…".to_owned());
    }
    let (counts, names) = (counts.join(" and "), names.join(", "));
    Some(format!("{OUT}: only regular files are copied, {counts} left out: {names}"))
}

/// Sends one file in pieces; an empty file is one empty piece.
fn send(path: &Path, channel: &Channel) -> std::io::Result<()> {
    let name = path.strip_prefix(OUT).unwrap_or(path).to_string_lossy().into_owned();
    let mut file = File::open(path)?;
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = file.read(&mut buffer)?;
        let bytes = buffer[..length].to_vec();
        channel.send_or_ignore(&Event::File { path: name.clone(), bytes });
        if length < CHUNK {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_sent_in_the_order_of_names_and_the_rest_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("b")).unwrap();
        for name in ["c", "b/z", "b/a", "a"] {
            fs::write(path(name), name).unwrap();
        }
        symlink("a", path("link")).unwrap();
        symlink("/nowhere", path("b/broken")).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        let mut sent = Vec::new();
        let mut send = |path: &Path| {
            sent.push(path.strip_prefix(folder.path()).unwrap().display().to_string());
            Ok(())
        };
        let left_out = for_each_file(folder.path(), &mut send).unwrap();
        drop(socket);
        assert_eq!(sent, ["a", "b/a", "b/z", "c"]);
        assert_eq!(
            describe(&left_out).unwrap(),
            "/out: only regular files are copied, 2 links and 1 device, socket or pipe left out: \
             b/broken, link, socket"
        );
        let many: Vec<_> = (0..7).map(|number| (PathBuf::from(number.to_string()), true)).collect();
        assert!(describe(&many).unwrap().ends_with("7 links left out: 0, 1, 2, 3, 4, …"));
        assert_eq!(describe(&[]), None);
    }
}
