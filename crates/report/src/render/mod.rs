// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders a plan in the file format of another tool ([`render`]).
//!
//! Every format gets the contents of the files that `pagewise apply` would write, byte for byte; how the
//! running values are then set differs by format. What a format cannot express is in [`Rendered::left_out`]
//! and, as a comment, in the file itself (JSON has no comments). Texts of a plan may come from a recording
//! of somebody else's machine, so each one is quoted for its format (`quote`).

mod ansible;
mod bottlerocket;
mod cloud_init;
mod debian;
mod ignition;
mod kubernetes;
mod layout;
mod nix;
mod quote;
mod shell;
mod talos;

use pagewise_model::plan::Plan;

use layout::Layout;

/// The tool that a plan is rendered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A playbook of Ansible.
    Ansible,
    /// User data of cloud-init (`#cloud-config`).
    CloudInit,
    /// A module of NixOS.
    Nix,
    /// A config of Ignition, specification 3.0.0.
    Ignition,
    /// Patches of the machine configuration of Talos Linux.
    Talos,
    /// User data of Bottlerocket.
    Bottlerocket,
    /// A `ConfigMap` and a `DaemonSet` of Kubernetes.
    Kubernetes,
    /// A tar archive of a folder from which `dpkg-deb --build` makes a package.
    DebianFiles,
    /// A script for any POSIX shell.
    Shell,
}

/// A plan in the form of another tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The contents of the file; text, except for [`Format::DebianFiles`].
    pub bytes: Vec<u8>,
    /// Sentences about the parts of the plan that the format cannot express.
    pub left_out: Vec<String>,
}

/// Renders a plan for another tool; `Err` has the reasons if no part of the plan can be expressed, and is
/// empty if the plan has no steps.
///
/// # Errors
/// Nothing of the plan can be expressed in this format.
pub fn render(plan: &Plan, format: Format) -> Result<Rendered, Vec<String>> {
    let layout = Layout::new(plan);
    let (rendered, left_out): (Option<Vec<u8>>, Vec<String>) = match format {
        Format::Ansible => from_text(ansible::render(&layout)),
        Format::CloudInit => from_text(cloud_init::render(&layout)),
        Format::Nix => from_text(nix::render(&layout)),
        Format::Ignition => from_text(ignition::render(&layout)),
        Format::Talos => from_text(talos::render(&layout)),
        Format::Bottlerocket => from_text(bottlerocket::render(&layout)),
        Format::Kubernetes => from_text(kubernetes::render(&layout)),
        Format::DebianFiles => debian::render(&layout),
        Format::Shell => from_text(shell::render(&layout)),
    };
    match rendered {
        Some(bytes) => Ok(Rendered { bytes, left_out }),
        None => Err(left_out),
    }
}

fn from_text((text, left_out): (Option<String>, Vec<String>)) -> (Option<Vec<u8>>, Vec<String>) {
    (text.map(String::into_bytes), left_out)
}

/// The lines at the top of a rendered text: what it is, and what it lacks.
fn heading(layout: &Layout<'_>, left_out: &[String]) -> String {
    let mut text =
        format!("# Plan {}, rendered by pagewise (pagewise plan --render).\n", layout.id());
    for sentence in left_out {
        text += &quote::format_comment(sentence);
    }
    text
}
