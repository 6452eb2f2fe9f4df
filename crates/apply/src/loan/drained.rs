// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disables a swap area for a plan, and enables it again when the plan is undone.
//!
//! The memory of a zram device is freed too, so the device is set up again by the undo: with its
//! old size, limit and algorithm, but with the default level of the algorithm, because the kernel
//! does not report the level.

use pagewise_model::lend::ZramSpec;
use pagewise_model::{Bytes, Compressor};

use crate::error::Error;
use crate::host_ops::HostOps;
use crate::journal::{DisabledSwap, ZramSetup};
use crate::loan::drain::{disable_area, find_area};
use crate::loan::{swap, zram};
use pagewise_model::undo::Outcome;

/// Disables a swap area and frees the memory of its zram device.
pub(crate) fn drain(host: &mut dyn HostOps, swap: &DisabledSwap) -> Result<(), Error> {
    let DisabledSwap { area: path, zram: setup, .. } = swap;
    let area = find_area(host, path).ok_or_else(|| Error::Stale {
        what: path.clone(),
        planned: "swap that is on".to_owned(),
        found: "no swap".to_owned(),
    })?;
    disable_area(host, &area)?;
    match setup {
        Some(setup) => zram::reset(host, setup.number),
        None => Ok(()),
    }
}

/// Enables the swap area again, with its old priority.
pub(crate) fn undo(host: &mut dyn HostOps, swap: &DisabledSwap) -> Result<Outcome, Error> {
    let DisabledSwap { area: path, priority, zram: setup } = swap;
    if find_area(host, path).is_some() {
        return Ok(Outcome::Gone);
    }
    let priority = i16::try_from(*priority).ok().filter(|priority| *priority >= 0);
    if let Some(setup) = setup {
        let now = zram::read_setup(host, setup.number)?;
        if now.disksize == 0 {
            let compressor = Compressor::new(setup.algorithm.as_str());
            let limit = Some(Bytes::new(setup.mem_limit)).filter(|limit| limit.get() > 0);
            let disksize = Bytes::new(setup.disksize);
            let spec = ZramSpec {
                compressor: Some(compressor),
                mem_limit: limit,
                ..ZramSpec::new(disksize)
            };
            zram::set_up(host, setup.number, &spec)?;
        } else if now.disksize != setup.disksize {
            let size = |setup: &ZramSetup| format!("a size of {}", Bytes::new(setup.disksize));
            let (old, found) = (size(setup), size(&now));
            return Ok(Outcome::Conflict { old, ours: "no size".to_owned(), found });
        }
    }
    // an earlier undo may have been interrupted after setting the size, or while writing the swap
    // header
    if setup.as_ref().is_some_and(|setup| zram::is_blank(host, setup.number)) {
        swap::enable(host, path, priority)?;
    } else {
        swap::enable_formatted(host, path, priority)?;
    }
    Ok(Outcome::Returned)
}
