// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of a command that are defined only when that command is used.
//!
//! Defining the arguments of all commands took half a megabyte and a tenth of the run time of
//! `pagewise status`.

use std::ops::Deref;

use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Id};

/// The arguments of a command: `T` adds them to the parser when the command is parsed or printed.
#[derive(Debug, Default)]
pub struct Deferred<T>(Box<T>);

impl<T> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Args> Args for Deferred<T> {
    fn group_id() -> Option<Id> {
        T::group_id()
    }

    fn augment_args(command: Command) -> Command {
        command.defer(define::<T>)
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(define::<T>)
    }
}

/// Keeps the command's own description, which `T` would replace by its documentation.
fn define<T: Args>(command: Command) -> Command {
    let about = command.get_about().cloned();
    let long_about = command.get_long_about().cloned();
    let command = T::augment_args(command);
    let command = about.into_iter().fold(command, Command::about);
    long_about.into_iter().fold(command, Command::long_about)
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(|it| Self(Box::new(it)))
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(|it| Self(Box::new(it)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}
