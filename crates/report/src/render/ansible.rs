// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders a plan as a playbook of Ansible.
//!
//! Ansible replaces `{{ … }}` in every text, so a text with a brace is marked as `!unsafe`.

use std::fmt::Write;

use super::layout::Layout;
use super::{heading, quote};

pub(super) fn render(layout: &Layout<'_>) -> (Option<String>, Vec<String>) {
    let left_out = layout.list_left_out();
    if layout.is_empty() {
        return (None, left_out);
    }
    let commands = layout.commands();
    let mut text = format!("---\n{}", heading(layout, &left_out));
    text += "- name: Apply a plan of pagewise\n  hosts: all\n  become: true\n  tasks:\n";
    let folders = layout.links.iter().filter_map(|link| link.path.rsplit_once('/'));
    let of_files = layout.files.iter().filter_map(|file| file.path.rsplit_once('/'));
    let mut folders: Vec<&str> = folders.chain(of_files).map(|(folder, _)| folder).collect();
    folders.sort_unstable();
    folders.dedup();
    for folder in folders {
        let _ = write!(
            text,
            "    - name: Make a folder\n      ansible.builtin.file:\n        path: {}\n        \
             state: directory\n        mode: \"0755\"\n",
            quote_string(folder)
        );
    }
    for file in &layout.files {
        let _ = write!(
            text,
            "    - name: Write a file\n      ansible.builtin.copy:\n        dest: {}\n        owner: root\n        \
             group: root\n        mode: \"{:04o}\"\n        content: {}{}",
            quote_string(file.path),
            file.mode(),
            quote_block(file.to),
            notify_line(&commands)
        );
    }
    for link in &layout.links {
        let _ = write!(
            text,
            "    - name: Make a link\n      ansible.builtin.file:\n        src: {}\n        dest: {}\n        \
             state: link\n        force: true\n{}",
            quote_string(link.to),
            quote_string(link.path),
            notify_line(&commands)
        );
    }
    if layout.files.is_empty() && layout.links.is_empty() {
        for command in &commands {
            text += &task(command, "    ");
        }
    } else if !commands.is_empty() {
        text += "  handlers:\n";
        for command in &commands {
            text += &task(command, "    ");
            text += "      listen: Set running values\n";
        }
    }
    (Some(text), left_out)
}

const fn notify_line(commands: &[Vec<String>]) -> &'static str {
    if commands.is_empty() { "" } else { "      notify: Set running values\n" }
}

/// A task that runs one command; systemctl has a module of its own.
fn task(command: &[String], indent: &str) -> String {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    match words[..] {
        ["systemctl", "daemon-reload"] => format!(
            "{indent}- name: Reload the units\n{indent}  ansible.builtin.systemd_service:\n{indent}    \
             daemon_reload: true\n"
        ),
        ["systemctl", "start", unit] => format!(
            "{indent}- name: Start a unit\n{indent}  ansible.builtin.systemd_service:\n{indent}    name: {}\n\
             {indent}    state: started\n",
            quote_string(unit)
        ),
        _ => {
            let listed =
                words.iter().map(|word| format!("{indent}      - {}\n", quote_string(word)));
            format!(
                "{indent}- name: Set a running value\n{indent}  ansible.builtin.command:\n{indent}    argv:\n{}\
                 {indent}  changed_when: true\n",
                listed.collect::<String>()
            )
        }
    }
}

fn quote_string(text: &str) -> String {
    let quoted = quote::quote_string(text);
    if text.contains('{') { format!("!unsafe {quoted}") } else { quoted }
}

fn quote_block(text: &str) -> String {
    if text.contains('{') {
        format!("{}\n", quote_string(text))
    } else {
        quote::yaml_block(text, 10)
    }
}
