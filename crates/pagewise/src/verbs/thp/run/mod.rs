// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp run`: runs a command with huge pages on, off, or only where the command asks for
//! them.
//!
//! [`program`] detects which allocator a program uses, [`environment`] chooses the variables for
//! that allocator, [`start`] starts the command, forwards signals and waits, and [`check`] checks
//! whether the command obtained huge pages.

mod check;
mod environment;
mod program;
mod start;

use pagewise_model::Refusal;
use std::io::ErrorKind;

use pagewise_hugepages::{Allowed, disable_huge_pages};
use pagewise_observe::Scope;
use pagewise_terminal::{Global, Outcome};

pub(super) use environment::build as variables;
pub(super) use program::{Allocator, inspect};

use super::VARIABLE;
use crate::cli::{RunArgs, SwitchArgs};
use crate::input;

/// The requested huge page policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Switch {
    On,
    Off,
    Advised,
}

impl Switch {
    /// The word for this policy in `PAGEWISE_THP`.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Advised => "advised",
        }
    }

    /// The policy from the command line; `None` if none was given.
    pub(super) const fn from_args(args: &SwitchArgs) -> Option<Self> {
        match args {
            SwitchArgs { on: true, .. } => Some(Self::On),
            SwitchArgs { off: true, .. } => Some(Self::Off),
            SwitchArgs { advised: true, .. } => Some(Self::Advised),
            _ => None,
        }
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        [Self::On, Self::Off, Self::Advised].into_iter().find(|switch| switch.word() == word)
    }
}

pub(super) fn run(global: &Global, args: &RunArgs) -> anyhow::Result<Outcome> {
    super::refuse_recording(global, "thp run")?;
    let switch = switch(&args.switch, std::env::var(VARIABLE).ok().as_deref())?;
    let program = inspect(&args.command);
    let host = input::open(global)?.without_start();
    let seen = host.interval(&Scope::glance(), || anyhow::Ok(()))?.end;
    set_kernel_policy(switch, &seen)?;
    let mut set = variables(switch, program.allocator, |name| std::env::var(name).ok());
    set.extend(args.arenas.map(|count| (environment::ARENAS, count.to_string())));
    if args.check.is_zero() {
        return start::replace_process(&args.command, &set);
    }
    let block = super::huge_page_size(&seen);
    let check = check::Check { switch, program, wait: args.check, block, quiet: global.quiet };
    start::run(&args.command, &set, check)
}

fn switch(args: &SwitchArgs, message: Option<&str>) -> anyhow::Result<Switch> {
    Ok(match (Switch::from_args(args), message) {
        (Some(given), _) => given,
        (None, None | Some("")) => Switch::On,
        (None, Some(word)) => Switch::from_word(word).ok_or_else(|| {
            let what = format!("{VARIABLE}: expected on, off or advised, found {word:?}");
            Refusal::with_advice(what, "set it to one of these, or give --on")
        })?,
    })
}

/// Sets the kernel's policy for this process (prctl). Some kernels do not support "only advised"
/// for a process; a global policy of madvise then has the same effect.
fn set_kernel_policy(switch: Switch, seen: &pagewise_model::Snapshot) -> anyhow::Result<()> {
    match switch {
        Switch::On => Ok(()),
        Switch::Off => Ok(disable_huge_pages(Allowed::Nothing)?),
        Switch::Advised => match disable_huge_pages(Allowed::Advised) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::InvalidInput => check_global_policy(seen),
            Err(error) => Err(error.into()),
        },
    }
}

fn check_global_policy(seen: &pagewise_model::Snapshot) -> anyhow::Result<()> {
    let policy = seen.thp.enabled.value().map(|choice| choice.active.as_str());
    if policy != Some("always") {
        return Ok(());
    }
    let what = "--advised: this kernel gives huge pages to all or none of a process, and the \
                machine's policy is always"
        .to_owned();
    let next = "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; or use --off";
    Err(Refusal::with_advice(what, next).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_counts_more_than_the_environment() {
        let asked = |on, off, advised, said| switch(&SwitchArgs { on, off, advised }, said).ok();
        assert_eq!(asked(false, false, false, None), Some(Switch::On));
        assert_eq!(asked(false, false, false, Some("off")), Some(Switch::Off));
        assert_eq!(asked(true, false, false, Some("off")), Some(Switch::On));
        assert_eq!(asked(false, false, true, Some("on")), Some(Switch::Advised));
        assert_eq!(asked(false, false, false, Some("perhaps")), None);
    }
}
