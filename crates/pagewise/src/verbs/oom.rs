// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise oom`: kills for lack of memory, from a text of any machine.
//!
//! A text may come from anybody. So this process opens it, then gives up all rights except reading,
//! and only then reads it.

pub(super) mod prove;

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use pagewise_model::{Interval, KernelLog, LogText, Refusal};
use pagewise_observe::{Pieces, UserFile};
use pagewise_report::{OomFound, OomText, json, text};
use pagewise_sandbox::Confinement;
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::output::{self, Printed};
use pagewise_terminal::{Global, Outcome, screen};

use super::doctor;
use crate::cli;

/// Maximum size of the text in bytes: a larger file is refused; of a longer pipe the end is not
/// read.
const LONGEST: u64 = 4 << 30;

/// The first bytes of a file of journald.
const JOURNAL: &[u8] = b"LPKSHHRH";

pub(super) fn run(global: &Global, args: &cli::Oom, started: CostMeter) -> anyhow::Result<Outcome> {
    if args.prove {
        return prove::run(global, args);
    }
    let to = args.rebuild_to.map(prove::SizesPipe::open).transpose()?;
    let what_if = args.what_if || to.is_some();
    match &args.file {
        Some(file) => explain_text(global, file, WhatIfArgs { what_if, to }, started),
        None => doctor::run_oom(global, what_if, to, started),
    }
}

/// What to print in addition to the explanations.
pub(super) struct WhatIfArgs {
    pub(super) what_if: bool,
    /// Where the sizes of the newest kill are written.
    pub(super) to: Option<prove::SizesPipe>,
}

/// Explains the kills of a text; `-` is the standard input.
pub(super) fn explain_text(
    global: &Global,
    file: &Path,
    args: WhatIfArgs,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "--root names a recording, and FILE is another log".to_owned();
        let next = "use one of them: pagewise oom FILE, or pagewise oom --root RECORDING";
        return Err(Refusal::with_advice(what, next).into());
    }
    let is_stdin = file == Path::new("-");
    let name = if is_stdin { "standard input".to_owned() } else { file.display().to_string() };
    let read = if is_stdin {
        read(std::io::stdin().lock(), &name)
    } else if file.is_dir() {
        let files = pagewise_observe::journals_of_folder(file)?;
        if files.is_empty() {
            _ = Confinement::for_recording(true).enter();
            let Some(found) = pagewise_observe::kernel_log_of_folder(file)? else {
                let what = format!("{name}: expected logs in this folder, found none");
                let next = "give a file with a log, a folder such as /var/log/journal, or one that a support tool made";
                return Err(Refusal::with_advice(what, next).into());
            };
            Ok(found)
        } else {
            Ok(read_journals(files, &name))
        }
    } else {
        let opened = UserFile::open(file, LONGEST)?;
        if opened.begins_with(JOURNAL) {
            Ok(read_journals(vec![opened.into_pieces()], &name))
        } else {
            read(opened.into_reader(), &name)
        }
    };
    let (log, about) = read.with_context(|| format!("{name}: could not be read to its end"))?;
    let is_of_journald =
        about.files_unread > 0 || about.messages_unread > 0 || !about.forms.is_empty();
    if about.lines == 0 && is_of_journald {
        let unread = about.files_unread;
        let what =
            format!("{name}: no message of the kernel could be read (damaged files: {unread})");
        let next = "if journalctl can read it: journalctl -k --file FILE | pagewise oom -";
        return Err(Refusal::with_advice(what, next).into());
    }
    if about.lines == 0 {
        let what = format!("{name} is empty: nothing to search for kills");
        return Err(Refusal::with_advice(what, "pipe a log into it: dmesg | pagewise oom -").into());
    }
    let mut explained = pagewise_decide::oom::explain_text(&log);
    if args.what_if {
        pagewise_decide::oom::add_what_if(&log, &mut explained);
    }
    if let Some(to) = args.to {
        to.write(&log)?;
    }
    let shown = OomText {
        about: &about,
        found: OomFound {
            explained: &explained,
            failures: &pagewise_decide::oom::explain_failures(&log),
            hung: &pagewise_decide::oom::explain_hung(&log),
            programs: &pagewise_decide::oom::explain_programs_of_text(&log),
            time_line: &pagewise_decide::oom::time_line(&log),
        },
    };
    let unknown = Interval::default();
    let printed = if global.json {
        json::oom_text(&log, &shown, &unknown.end, cost::measure_since(started, &unknown))
    } else {
        text::oom_text(&name, &log, &shown, screen::text_style(global))
    };
    let printed = output::print_answer(global, &printed)?;
    let has_kill = !log.kills.is_empty() || !log.user_kills.is_empty();
    let is_unread = about.files_unread > 0 || about.messages_unread > 0;
    let is_found = has_kill || log.not_understood > 0 || about.signs > 0 || is_unread;
    Ok(match printed {
        Printed::Whole if is_found => Outcome::Findings,
        Printed::Whole | Printed::Cut => Outcome::Done,
    })
}

/// Gives up all rights but reading, then reads files of journald.
fn read_journals(files: Vec<Pieces<'static>>, name: &str) -> (KernelLog, LogText) {
    _ = Confinement::for_recording(false).enter();
    pagewise_observe::kernel_log_of_journals(files, name)
}

/// Gives up all rights but reading, then reads a text, compressed or not.
fn read(file: impl Read, name: &str) -> std::io::Result<(KernelLog, LogText)> {
    _ = Confinement::for_recording(false).enter();
    pagewise_observe::kernel_log_of_text(pagewise_observe::unpack_text(file)?, name)
}
