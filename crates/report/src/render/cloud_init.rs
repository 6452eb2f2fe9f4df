// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders a plan as user data of cloud-init.

use std::fmt::Write;

use super::layout::Layout;
use super::{heading, quote};

pub(super) fn render(layout: &Layout<'_>) -> (Option<String>, Vec<String>) {
    let left_out = layout.list_left_out();
    if layout.is_empty() {
        return (None, left_out);
    }
    let mut text = format!("#cloud-config\n{}", heading(layout, &left_out));
    if !layout.files.is_empty() {
        text += "write_files:\n";
    }
    for file in &layout.files {
        let _ = write!(
            text,
            "  - path: {}\n    owner: \"root:root\"\n    permissions: \"{:04o}\"\n    content: {}",
            quote::quote_string(file.path),
            file.mode(),
            quote::yaml_block(file.to, 6)
        );
    }
    let mut commands = Vec::new();
    for link in &layout.links {
        let folder = link.path.rsplit_once('/').map_or("/", |(folder, _)| folder);
        commands.push(["mkdir", "-p", folder].map(str::to_owned).to_vec());
        commands.push(["ln", "-sfn", link.to, link.path].map(str::to_owned).to_vec());
    }
    commands.extend(layout.commands());
    if !commands.is_empty() {
        text += "runcmd:\n";
    }
    for command in commands {
        let _ = writeln!(text, "  - {}", quote::yaml_list(&command));
    }
    (Some(text), left_out)
}
