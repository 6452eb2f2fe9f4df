// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Constructors for rows of the table of settings. Each fills in the usual values; methods change
//! those that differ.

use super::{Access, Domain, Knob, Persist, Undo};

/// Accepts any non-negative whole number.
pub(super) const COUNT: Domain = Domain::Int { min: 0, max: u64::MAX };

/// Accepts any non-negative number that fits the kernel's signed `int`.
pub(super) const SMALL: Domain = Domain::Int { min: 0, max: i32::MAX as u64 };

pub(super) const fn int(min: i64, max: u64) -> Domain {
    Domain::Int { min, max }
}

pub(super) const fn word(words: &'static [&'static str]) -> Domain {
    Domain::Word { words }
}

const READ_ONLY: Undo = Undo::Never { because: "it only informs: there is nothing to undo" };

/// A row for a setting that is readable, writable and made persistent by tmpfiles.d: most files of
/// sysfs.
pub(super) const fn sysfs(
    name: &'static str,
    path: &'static str,
    domain: Domain,
    doc: &'static str,
) -> Knob {
    Knob {
        name,
        path,
        domain,
        access: Access::ReadWrite,
        default: None,
        persist: &[Persist::Tmpfiles],
        undo: Undo::WriteBack,
        couples: &[],
        doc,
    }
}

/// A row for a setting that is readable, writable and made persistent by sysctl.d: files of
/// `/proc/sys`.
pub(super) const fn sysctl(
    name: &'static str,
    path: &'static str,
    domain: Domain,
    doc: &'static str,
) -> Knob {
    sysfs(name, path, domain, doc).with_persist(&[Persist::Sysctl])
}

/// A row for a write-only file: writing to it triggers an action. `because` says why the action
/// cannot be undone.
pub(super) const fn trigger(
    name: &'static str,
    path: &'static str,
    domain: Domain,
    because: &'static str,
    doc: &'static str,
) -> Knob {
    sysfs(name, path, domain, doc)
        .with_access(Access::WriteOnly)
        .with_persist(&[Persist::Agent])
        .without_undo(because)
}

/// A row for a read-only file, which only informs.
pub(super) const fn info(
    name: &'static str,
    path: &'static str,
    domain: Domain,
    doc: &'static str,
) -> Knob {
    let mut knob = sysfs(name, path, domain, doc).with_access(Access::ReadOnly).with_persist(&[]);
    knob.undo = READ_ONLY;
    knob
}

impl Knob {
    pub(super) const fn with_default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    pub(super) const fn with_persist(mut self, persist: &'static [Persist]) -> Self {
        self.persist = persist;
        self
    }

    pub(super) const fn with_access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    pub(super) const fn with_couples(mut self, couples: &'static [&'static str]) -> Self {
        self.couples = couples;
        self
    }

    pub(super) const fn without_undo(mut self, because: &'static str) -> Self {
        self.undo = Undo::Never { because };
        self
    }

    pub(super) const fn with_reported_undo(mut self, by: &'static str) -> Self {
        self.undo = Undo::WriteBackReported { by };
        self
    }

    /// Marks the row as one of two settings that exclude each other; `pair` contains the name of
    /// the other one.
    pub(super) const fn with_pair(mut self, pair: &'static [&'static str; 1]) -> Self {
        self.undo = Undo::WriteBackNonZero { pair: pair[0] };
        self.couples = pair;
        self
    }
}
