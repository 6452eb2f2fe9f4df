// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a single variable in the environment of another process, as it was when the program was
//! started. No other variable is kept.

use std::io;

use crate::open::text_of_process;

/// Returns the value of a variable in the environment of a process; `None` if the process was
/// started without it.
///
/// # Errors
/// If the process has exited, or if it belongs to another user and we are not root.
pub fn read_variable(pid: u32, name: &str) -> io::Result<Option<Vec<u8>>> {
    let environment = text_of_process(pid, "environ")?;
    Ok(value(&environment, name).map(<[u8]>::to_vec))
}

fn value<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let value = |line: &'a [u8]| line.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    environment.split(|&byte| byte == 0).find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_of_exactly_this_name_counts() {
        let environment = b"A=\0AB=1\0XA=2\0A=3\0B";
        assert_eq!(value(environment, "A"), Some(&b""[..]));
        assert_eq!(value(environment, "AB"), Some(&b"1"[..]));
        assert_eq!((value(environment, "B"), value(b"", "A")), (None, None));
    }

    #[test]
    fn our_own_environment_is_read() {
        let own = read_variable(std::process::id(), "PATH").unwrap();
        let expected = std::env::var_os("PATH").map(std::os::unix::ffi::OsStringExt::into_vec);
        assert_eq!(own, expected);
        assert!(read_variable(u32::MAX, "PATH").is_err());
    }
}
