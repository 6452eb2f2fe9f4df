// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders a plan as a tar archive with the folder from which `dpkg-deb --build` makes a package.
//!
//! The files are at their paths; `DEBIAN/conffiles` lists them, so that dpkg asks before it replaces what
//! an administrator changed. The installed package sets the running values in its `postinst`.

use std::fmt::Write;

use pagewise_model::quote_for_shell;

use super::heading;
use super::layout::Layout;

/// The folder in the archive.
const NAME: &str = "pagewise-settings";

pub(super) fn render(layout: &Layout<'_>) -> (Option<Vec<u8>>, Vec<String>) {
    let left_out = layout.list_left_out();
    if layout.is_empty() {
        return (None, left_out);
    }
    let archive = archive(layout, &left_out);
    let failed = || "the archive could not be made in memory".to_owned();
    match archive {
        Ok(bytes) => (Some(bytes), left_out),
        Err(_) => (None, vec![failed()]),
    }
}

fn archive(layout: &Layout<'_>, left_out: &[String]) -> std::io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    let control = format!(
        "Package: {NAME}\nVersion: 1\nArchitecture: all\nMaintainer: Administrator <root@localhost>\n\
         Section: admin\nPriority: optional\nDescription: memory settings of a plan of pagewise\n"
    );
    let conffiles: String = layout.files.iter().map(|file| format!("{}\n", file.path)).collect();
    let mut postinst = format!("#!/bin/sh\n{}set -e\n", heading(layout, left_out));
    postinst += "if [ \"$1\" != configure ]; then exit 0; fi\n";
    // without systemd as process 1, as in a chroot that builds an image, the next boot sets the values
    postinst += "if [ ! -d /run/systemd/system ]; then exit 0; fi\n";
    for command in layout.commands() {
        let words: Vec<String> = command.iter().map(|word| quote_for_shell(word)).collect();
        let _ = writeln!(postinst, "{}", words.join(" "));
    }
    add_file(&mut tar, "/DEBIAN/control", &control, 0o644)?;
    add_file(&mut tar, "/DEBIAN/conffiles", &conffiles, 0o644)?;
    add_file(&mut tar, "/DEBIAN/postinst", &postinst, 0o755)?;
    for file in &layout.files {
        add_file(&mut tar, file.path, file.to, file.mode())?;
    }
    for link in &layout.links {
        let mut header = header(0, 0o777);
        header.set_entry_type(tar::EntryType::Symlink);
        tar.append_link(&mut header, format!("{NAME}{}", link.path), link.to)?;
    }
    tar.into_inner()
}

fn add_file(
    tar: &mut tar::Builder<Vec<u8>>,
    path: &str,
    contents: &str,
    mode: u32,
) -> std::io::Result<()> {
    let mut header = header(contents.len() as u64, mode);
    tar.append_data(&mut header, format!("{NAME}{path}"), contents.as_bytes())
}

/// The same plan gives the same archive: root owns all entries, and all have the same time.
fn header(size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}
