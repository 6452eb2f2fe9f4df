// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains a subject of memory management with the values of a host: from a [`Snapshot`] it makes
//! a page of text.
//!
//! Pure: it reads no files. A page explains how the kernel works, shows the relevant values of the
//! host, corrects errors that are frequent in guides, and names commands that show or prove more.
//! It does not judge the host, because findings do that; each page names the related findings. In
//! the code, each fact about the kernel has its source next to it.
//!
//! A page has at most 60 lines in a terminal of 80 columns; a test checks this for all recorded
//! hosts.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod page;
mod subjects;

use pagewise_model::{Explanation, Snapshot};

/// A subject that can be explained.
#[derive(Debug)]
pub struct Subject {
    /// The subject's name on the command line.
    pub name: &'static str,
    /// The question that the page answers, in a few words.
    pub title: &'static str,
    page: fn(&Snapshot, &mut page::Draft),
}

/// Returns all subjects of `explain`, in a suitable order for reading.
pub fn subjects() -> &'static [Subject] {
    subjects::ALL
}

/// Returns the subject of `explain` with the background of the rule of `doctor` that has this id.
pub fn subject_of_rule(id: &str) -> Option<&'static str> {
    subjects::OF_RULES.iter().find(|(rule, _)| *rule == id).map(|(_, subject)| *subject)
}

/// Returns the rules of `doctor` for which `explain` has a subject.
pub fn explained_rules() -> impl Iterator<Item = &'static str> {
    subjects::OF_RULES.iter().map(|(rule, _)| *rule)
}

/// Returns the page of a subject; `None` if there is no such subject.
pub fn explain(host: &Snapshot, name: &str) -> Option<Explanation> {
    let subject = subjects().iter().find(|subject| subject.name == name)?;
    let mut draft = page::Draft::default();
    (subject.page)(host, &mut draft);
    Some(Explanation {
        subject: subject.name,
        title: subject.title,
        sections: draft.sections,
        next: draft.next,
    })
}
