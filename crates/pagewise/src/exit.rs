// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exit statuses: the one table of what the program ends with. `--help` names each of them.
//!
//! Those above 100 are the conventions of shells and of timeout(1).

/// An error that was printed.
pub(crate) const FAILED: u8 = 1;
/// A command line that is not understood.
pub(crate) const USAGE: u8 = 2;
/// Findings, or something that differs.
pub(crate) const FINDINGS: u8 = 3;
/// A command in a guest reached a time limit.
pub(crate) const TIMED_OUT: u8 = 124;
/// A guest ended without its command: it panicked or was switched off.
pub(crate) const GUEST_LOST: u8 = 125;
/// A command that does not exist.
pub(crate) const NOT_FOUND: u8 = 127;
/// SIGINT: Ctrl-C.
pub(crate) const STOPPED: u8 = of_signal(2);
/// SIGKILL, as the kernel does when memory ran out.
pub(crate) const OUT_OF_MEMORY: u8 = of_signal(9);

/// For a process that this signal ended.
pub(crate) const fn of_signal(signal: u8) -> u8 {
    128 + (signal & 0x7f)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    /// The help of the program, of guests and of `thp run` is where a user looks them up.
    #[test]
    fn the_help_names_every_status() {
        let mut texts = String::new();
        let mut command = Cli::command();
        command.build();
        collect(&command, &mut texts);
        for status in
            [FAILED, USAGE, FINDINGS, TIMED_OUT, GUEST_LOST, NOT_FOUND, STOPPED, OUT_OF_MEMORY]
        {
            let is_named = texts.split(|letter: char| !letter.is_ascii_digit());
            assert!(is_named.clone().any(|number| number == status.to_string()), "{status}");
        }
    }

    fn collect(command: &clap::Command, texts: &mut String) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        if help.contains("Exit status") {
            texts.push_str(&help);
        }
        command.get_subcommands().for_each(|command| collect(command, texts));
    }

    #[test]
    fn a_signal_is_told_as_shells_do() {
        assert_eq!((STOPPED, OUT_OF_MEMORY, of_signal(64)), (130, 137, 192));
    }
}
