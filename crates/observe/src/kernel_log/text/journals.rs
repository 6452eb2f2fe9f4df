// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads files of systemd's journal that the user named, or a folder of them, as one text: the
//! messages of the kernel, oldest file first, and those of programs that kill.
//!
//! journald itself writes `_TRANSPORT=kernel`, so no program can have written these messages. Each
//! has the id of its boot, so a report is never continued in another boot.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use pagewise_hostfs::{HostRoot, Pieces, ReadHost, Refusal};
use pagewise_journald::{self as format, Budget, JournalFile, KernelMessage};
use pagewise_model::{KernelLog, LogText, Source};

use super::entry::{About, split_messages, wall_clock};
use super::program_messages::ProgramMessages;
use super::{Front, Head, Record};
use crate::journald::OpenFile;
use crate::limits::{NAMED_JOURNAL_BLOCKS, NAMED_JOURNAL_ENTRIES, NAMED_JOURNALS};

/// Names of files of the journal: closed or in use, and set aside because they were not closed.
const ENDINGS: [&str; 2] = [".journal", ".journal~"];

/// Opens the files of the journal in a folder and in the folders below it, such as
/// `/var/log/journal`. Only files inside of the folder are opened, also through links.
///
/// # Errors
///
/// If the folder cannot be opened, or a file of the journal in it.
pub fn journals_of_folder(path: &Path) -> io::Result<Vec<Pieces<'static>>> {
    let host = HostRoot::folder(path)?;
    let below = host.folders(".").into_iter();
    let mut opened = Vec::new();
    for folder in [".".to_owned()].into_iter().chain(below) {
        for name in host.names(&folder) {
            if opened.len() > NAMED_JOURNALS || !ENDINGS.iter().any(|end| name.ends_with(end)) {
                continue;
            }
            let inner = format!("{folder}/{name}");
            let file = host.open_pieces(&inner).map_err(|refusal| {
                let (Refusal::Absent(why) | Refusal::Denied(why)) = refusal;
                io::Error::other(format!("{}: {why}", path.join(&inner).display()))
            })?;
            opened.push(file);
        }
    }
    Ok(opened)
}

/// The kernel's messages in files of the journal, and what was read. A line is a message.
pub fn read_journals(files: Vec<Pieces<'_>>, shown: &str) -> (KernelLog, LogText) {
    let mut front = Front::new(shown);
    front.name_kind("files of journald");
    let budget = Budget::new(NAMED_JOURNAL_BLOCKS, NAMED_JOURNAL_ENTRIES, None);
    let files: Vec<OpenFile<'_>> = files.into_iter().map(OpenFile).collect();
    let mut files_unread = files.len().saturating_sub(NAMED_JOURNALS) as u64;
    let mut readable = Vec::new();
    for file in files.iter().take(NAMED_JOURNALS) {
        match JournalFile::open(file, &budget) {
            Ok(journal) => readable.push(journal),
            Err(_) => files_unread += 1,
        }
    }
    readable.sort_by_key(JournalFile::first_entry_time);
    let mut messages_unread = 0_u64;
    let mut programs = ProgramMessages::default();
    let mut boots = BTreeSet::new();
    let mut boot = None;
    for mut journal in readable {
        let unread = format::read_all(&mut journal, |message| {
            if boot.replace(message.boot).is_some_and(|before| before != message.boot) {
                front.end_boot();
            }
            boots.insert(message.boot);
            front.take_kernel_message(message);
        });
        messages_unread = messages_unread.saturating_add(unread);
        programs.read_from(&mut journal);
    }
    let (log, text) = front.finish(false);
    let log = programs.add_to(log, Source::file(shown));
    let boots = (boots.len() as u64).max(1);
    (log, LogText { files_unread, messages_unread, boots, ..text })
}

impl Front {
    fn take_kernel_message(&mut self, message: &KernelMessage) {
        self.lines += 1;
        let about = About {
            micros: Some(message.micros),
            time: Some(wall_clock(message.clock_zero.saturating_add(message.micros))),
            machine: None,
            is_kernel: Some(true),
        };
        for message in split_messages(&message.text, &about) {
            self.take_message(
                &super::remove_markup(&message.text),
                usize::MAX,
                Some(&message.about),
            );
        }
    }

    /// Ends the reports of a boot: the messages that follow are of another.
    fn end_boot(&mut self) {
        self.flush();
        for machine in self.machines.values_mut() {
            let head = Head::of_kernel(self.lines, machine.micros);
            let (caller, text) = (Vec::new(), Vec::new());
            machine.reports.close_fragment(&Record { head, continues: false, caller, text });
            machine.micros = 0;
        }
    }
}
