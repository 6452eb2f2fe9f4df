// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A subject of memory management, and a [`Snapshot`] → a page that teaches the subject with this host's values.
//!
//! Pure: it reads no file. A page states how the kernel works, shows the values that matter here, corrects what guides
//! often get wrong, and names the commands that show or prove more. It judges nothing: findings do, and each page
//! names those of its subject. A fact about the kernel has its source beside it.
//!
//! A page has at most 60 lines in a terminal of 80 columns; a test holds that over all recorded hosts.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod page;
mod subjects;

use pagewise_model::{Explanation, Snapshot};

/// A subject that can be explained.
#[derive(Debug)]
pub struct Subject {
    /// Its name on the command line.
    pub name: &'static str,
    /// What the page answers, in a few words.
    pub title: &'static str,
    page: fn(&Snapshot, &mut page::Draft),
}

/// Every subject, in the order in which they are best read.
pub fn subjects() -> &'static [Subject] {
    subjects::ALL
}

/// The subject that helps to understand a rule of the doctor, by the id of the rule.
pub fn subject_of_rule(id: &str) -> Option<&'static str> {
    subjects::OF_RULES.iter().find(|(rule, _)| *rule == id).map(|(_, subject)| *subject)
}

/// The rules of the doctor for which there is a subject.
pub fn explained_rules() -> impl Iterator<Item = &'static str> {
    subjects::OF_RULES.iter().map(|(rule, _)| *rule)
}

/// The page of a subject; `None` if there is no such subject.
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
