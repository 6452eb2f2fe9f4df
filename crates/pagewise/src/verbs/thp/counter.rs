// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the command of `--counter CMD`, and takes the last number that it prints as the number of
//! requests that the target has served so far. The command runs in a shell twice a second, and may
//! take one second each time.

use pagewise_model::Refusal;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum bytes of the counter command's output; more is not a number.
const MOST: u64 = 1 << 16;

/// Runs the counter command once before anything else, and returns an error if it prints no number.
pub(super) fn try_counter(counter: &str) -> anyhow::Result<()> {
    if read_counter(counter).is_some() {
        return Ok(());
    }
    let what = format!("--counter {counter}: expected a number within a second, found none");
    let next = "try it in a shell; as: --counter 'redis-cli info stats | grep total_commands'";
    anyhow::bail!(Refusal::with_advice(what, next))
}

/// The current count that the counter command prints; `None` if the command fails or takes too
/// long.
pub(crate) fn read_counter(counter: &str) -> Option<u64> {
    let mut child = start_counter(counter).ok()?;
    let answered = wait_for_success(&mut child);
    if !answered {
        let _ = child.kill();
        let _ = child.wait();
        return None;
    }
    let mut output = String::new();
    child.stdout.take()?.take(MOST).read_to_string(&mut output).ok()?;
    last_number(&output)
}

#[expect(clippy::disallowed_methods, reason = "the user's own command")]
fn start_counter(counter: &str) -> std::io::Result<Child> {
    let mut shell = Command::new(shell()?);
    shell.args(["-c", counter]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    shell.spawn()
}

/// The shell for a command of the user; for root, one that no other user can replace.
fn shell() -> std::io::Result<PathBuf> {
    pagewise_observe::find_program("sh".as_ref()).map_err(std::io::Error::other)
}

fn wait_for_success(child: &mut Child) -> bool {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => return false,
        }
    }
    false
}

fn last_number(message: &str) -> Option<u64> {
    let mut numbers = message.split(|letter: char| !letter.is_ascii_digit());
    numbers.rfind(|digits| !digits.is_empty())?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts() {
        assert_eq!(last_number("# Stats\r\ntotal_commands_processed:123\r\n"), Some(123));
        assert_eq!(last_number("1 of 20"), Some(20));
        assert_eq!(last_number("none"), None);
        assert_eq!(last_number("99999999999999999999999"), None);
    }

    #[test]
    fn a_command_is_asked_and_one_that_fails_is_refused() {
        assert_eq!(read_counter("echo served: 42"), Some(42));
        assert_eq!(read_counter("echo 42; exit 1"), None);
        assert!(try_counter("echo 7").is_ok());
        let error = try_counter("true").unwrap_err().to_string();
        assert!(error.contains("--counter true: expected a number"), "{error}");
    }
}
