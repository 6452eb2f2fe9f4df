// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock and the command line of the examples.

use std::error::Error;

/// The CPU time of this thread in nanoseconds.
pub(crate) fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is written.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// The value of an option `NAME=VALUE` on the command line.
pub(crate) fn option<T: std::str::FromStr>(name: &str, usual: T) -> Result<T, Box<dyn Error>> {
    let found = std::env::args().skip(1).find_map(|text| {
        let (key, value) = text.split_once('=')?;
        (key == name).then(|| value.to_owned())
    });
    match found {
        None => Ok(usual),
        Some(text) => {
            text.parse().map_err(|_| format!("{name}={text}: a number is expected").into())
        }
    }
}

/// With `thp=never`, no memory of this process is in huge pages, whatever the machine's setting is.
pub(crate) fn apply_thp_option() -> Result<(), Box<dyn Error>> {
    match option("thp", String::new())?.as_str() {
        "" => Ok(()),
        // SAFETY: the call takes numbers.
        "never" if unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) } == 0 => Ok(()),
        text => Err(format!("thp={text}: expected never").into()),
    }
}

/// Refuses options that the example does not have.
pub(crate) fn check_options(known: &[&str], usage: &str) -> Result<(), Box<dyn Error>> {
    let unknown = std::env::args().skip(1).find(|text| {
        !text.split_once('=').is_some_and(|(key, _)| key == "thp" || known.contains(&key))
    });
    unknown.map_or(Ok(()), |text| Err(format!("{text}: expected {usage}").into()))
}
