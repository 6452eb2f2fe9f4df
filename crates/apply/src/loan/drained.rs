// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A swap area that a plan switches off, and how it is switched on again.
//!
//! Of a zram device the memory is freed too, so it is set up anew when the plan is undone: with its old
//! size, limit and algorithm, but with the algorithm's default level, which the kernel does not report.

use pagewise_model::lend::ZramSpec;
use pagewise_model::{Bytes, Compressor};

use crate::error::Error;
use crate::host_ops::HostOps;
use crate::journal::ZramSetup;
use crate::loan::drain::{area, switch_off};
use crate::loan::{swap, zram};
use pagewise_model::undo::Outcome;

/// Switches the area of this loan off, and frees the memory of its zram device.
pub(crate) fn drain(
    hands: &mut dyn HostOps,
    path: &str,
    setup: Option<&ZramSetup>,
) -> Result<(), Error> {
    let area = area(hands, path).ok_or_else(|| Error::Stale {
        what: path.to_owned(),
        planned: "swap that is on".to_owned(),
        found: "no swap".to_owned(),
    })?;
    switch_off(hands, &area)?;
    match setup {
        Some(setup) => zram::reset(hands, setup.number),
        None => Ok(()),
    }
}

/// Switches it on again, as it was.
pub(crate) fn give_back(
    hands: &mut dyn HostOps,
    path: &str,
    priority: i32,
    setup: Option<&ZramSetup>,
) -> Result<Outcome, Error> {
    if area(hands, path).is_some() {
        return Ok(Outcome::Gone);
    }
    let priority = i16::try_from(priority).ok().filter(|priority| *priority >= 0);
    if let Some(setup) = setup {
        let now = zram::setup(hands, setup.number)?;
        if now.disksize == 0 {
            let compressor = Compressor::new(setup.algorithm.as_str());
            let limit = Some(Bytes::new(setup.mem_limit)).filter(|limit| limit.get() > 0);
            let disksize = Bytes::new(setup.disksize);
            let spec = ZramSpec {
                compressor: Some(compressor),
                mem_limit: limit,
                ..ZramSpec::new(disksize)
            };
            zram::set_up(hands, setup.number, &spec)?;
        } else if now.disksize != setup.disksize {
            let size = |setup: &ZramSetup| format!("a size of {}", Bytes::new(setup.disksize));
            let (old, found) = (size(setup), size(&now));
            return Ok(Outcome::Conflict { old, ours: "no size".to_owned(), found });
        }
    }
    // an earlier undo may have got no further than the size, or a part of the head
    if setup.is_some_and(|setup| zram::is_blank(hands, setup.number)) {
        swap::on(hands, path, priority)?;
    } else {
        swap::on_again(hands, path, priority)?;
    }
    Ok(Outcome::Returned)
}
