// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place where a test runs pagewise alone: its own state and files, and changes are undone at the
//! end.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use super::{Lent, Loans};

/// One at a time: tests change the same settings, and would disturb each other's times.
pub(crate) struct Place {
    // these two are dropped first, because they need the folder
    pub(crate) loans: Loans,
    /// What runs in this place have changed temporarily.
    pub(crate) lent: Lent,
    pub(crate) folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Place {
    pub(crate) fn new() -> Self {
        let alone = alone();
        let folder = pagewise_testkit::folder_on_disk();
        let mut loans = Loans::new();
        let program = env!("CARGO_BIN_EXE_pagewise");
        loans.promise(&format!(
            "for i in $(seq 60); do PAGEWISE_LOCK='{}' PAGEWISE_STATE='{}' '{program}' undo \
             > /dev/null && break; sleep 1; done",
            folder.path().join("run").display(),
            folder.path().join("state").display()
        ));
        let lent = Lent::by_runs_in(&folder.path().join("state"));
        Self { loans, lent, folder, _alone: alone }
    }

    /// A disk with hardly any free space, until this is dropped.
    pub(crate) fn small_disk(&mut self) -> PathBuf {
        let disk = self.folder.path().join("disk");
        std::fs::create_dir(&disk).expect("a folder");
        let shown = disk.display().to_string();
        self.loans.promise(&format!("umount '{shown}'"));
        super::run("mount", &["-t", "tmpfs", "-o", "size=8k", "none", &shown]);
        disk
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"));
        command.args(arguments).env("PAGEWISE_STATE", self.folder.path().join("state"));
        command.env("PAGEWISE_LOCK", self.folder.path().join("run"));
        command
    }

    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("built by cargo")
    }
}

/// What a program printed to standard error.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
