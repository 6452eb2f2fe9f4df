// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads files of a host, of a recording, and those that the user named. Knows no file format.
//!
//! - [`HostRoot`] is where a host's files come from: the live machine, a folder, or a recording in
//!   memory. [`ReadHost`] and [`ReadValues`] read them, and only crates that depend on this one can
//!   use these;
//! - [`recording`] opens folders and archives that stand for a host, within limits;
//! - [`UserFile`] opens a file that the user named, [`TrustedFolder`] a folder that no other user
//!   can change, and [`find_program`] a program that no other user can replace, for root;
//! - [`read_configuration`] reads a configuration file and its drop-ins.
//!
//! Nothing is written here, and nothing is interpreted. A file that is missing or may not be read
//! is a [`Refusal`].

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod answer;
mod configuration;
mod kind;
pub mod limits;
mod near;
mod open_file;
pub mod parser;
mod pieces;
mod read;
pub mod recording;
mod root;
mod stored;
pub mod text;
mod trusted_folder;
mod trusted_program;
mod unpack;
mod user_file;
mod values;

pub use answer::{
    Entry, Facts, Files, NO_SUCH_FILE, NOT_COLLECTED, Refusal, SWITCHED_OFF, absolute_path, explain,
};
pub use configuration::{ConfigurationFile, ConfigurationLimits, read_configuration};
pub use open_file::OpenFile;
pub use pieces::Pieces;
pub use read::ReadHost;
pub use root::{FIRST, HostRoot, MAX_FILE, PROBLEMS, RECORDS, is_returned_whole, read_records};
pub use trusted_folder::{FolderError, MakeFolder, TrustedFolder};
pub use trusted_program::{
    PROGRAM_FOLDERS, ProgramError, acts_as_root, check_trusted_file, find_program,
    find_system_program,
};
pub use unpack::{CountedStream, unpack};
pub use user_file::{UserFile, UserFileError, json_values};
pub use values::ReadValues;
