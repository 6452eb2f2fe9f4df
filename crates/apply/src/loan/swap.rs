// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Enables swap on a device or file of our own.
//!
//! Swap belongs to the whole host. While the host has other swap, pages of other programs would be
//! swapped to our area and those of an experiment to theirs, so enabling an area is refused then
//! unless it is allowed. Disabling an area reads all its pages back into memory. If they do not fit
//! there, or into the limit of a cgroup whose pages are in our area, the kernel kills programs, so
//! the area is not disabled.

use std::io::ErrorKind;

use pagewise_model::plan::ZramSwap;

use crate::error::{Doing, Error};
use crate::host_ops::{HostChange, HostOps, make_change_with_retries};
use crate::loan::run::{Run, is_ours};
use crate::loan::{drain, file, zram};
use pagewise_model::undo::Outcome;

/// Refuses if swap areas other than `ours` are enabled.
pub(crate) fn refuse_others(host: &dyn HostOps, ours: &[&str]) -> Result<(), Error> {
    let all = host.swaps().into_iter().map(|area| area.path);
    let areas: Vec<String> = all.filter(|path| !ours.contains(&path.as_str())).collect();
    if areas.is_empty() { Ok(()) } else { Err(Error::OtherSwap { areas }) }
}

/// Writes a swap header to a device or file and enables it as swap.
pub(crate) fn enable(
    host: &mut dyn HostOps,
    area: &str,
    priority: Option<i16>,
) -> Result<(), Error> {
    host.make_change(&HostChange::FormatSwap(area)).doing(|| format!("mkswap {area}"))?;
    enable_formatted(host, area, priority)
}

/// Enables a device or file that already has a swap header.
pub(crate) fn enable_formatted(
    host: &mut dyn HostOps,
    area: &str,
    priority: Option<i16>,
) -> Result<(), Error> {
    match host.make_change(&HostChange::SwapOn { area, priority }) {
        // the file has no holes and a valid header, so its file system must be the reason
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            Err(Error::Absent { what: area.to_owned(), why: "its file system holds no swap" })
        }
        done => done.doing(|| format!("swapon {area}")),
    }
}

/// Disables a swap area if it is the one that was enabled, and its pages fit elsewhere.
pub(crate) fn undo(
    host: &mut dyn HostOps,
    area: &str,
    diskseq: Option<u64>,
    run: Run,
) -> Result<Outcome, Error> {
    if is_another_disk(host, area, diskseq) {
        return Ok(Outcome::Gone);
    }
    let Some(found) = host.swaps().into_iter().find(|it| it.path == area) else {
        return Ok(Outcome::Gone);
    };
    if diskseq.is_none() && !run.is_own && !is_swap_file(host, area) {
        let why = "it is neither a swap file that a run made nor a disk that the journal tells \
                   from others";
        return Err(Error::Uncertain { what: area.to_owned(), why: why.to_owned() });
    }
    if run.is_plan {
        return drain::disable_area(host, &found).map(|()| Outcome::Returned);
    }
    let room = || Error::NoRoom {
        area: area.to_owned(),
        used: found.used,
        available: host.available().unwrap_or_default(),
    };
    if host.available().is_some_and(|available| found.used > available) {
        return Err(room());
    }
    drain::check_groups(host, &found)?;
    let no_room = room();
    match make_change_with_retries(host, &HostChange::SwapOff(area)) {
        Err(error) if error.kind() == ErrorKind::OutOfMemory => Err(no_room),
        done => done.doing(|| format!("swapoff {area}")).map(|()| Outcome::Returned),
    }
}

/// Disables swap that a plan's files created at a later boot, if it still is as the plan says.
pub(crate) fn undo_made_at_boot(
    host: &mut dyn HostOps,
    area: &str,
    planned: &ZramSwap,
) -> Result<Outcome, Error> {
    let Some((found, setup)) = drain::area_as_planned(host, area, planned) else {
        return Ok(Outcome::Gone);
    };
    drain::disable_area(host, &found)?;
    zram::reset(host, setup.number)?;
    Ok(Outcome::Returned)
}

/// Whether the disk of a swap area is another one than the journal recorded.
fn is_another_disk(host: &dyn HostOps, area: &str, diskseq: Option<u64>) -> bool {
    diskseq.is_some_and(|diskseq| diskseq_of(host, area) != Some(diskseq))
}

/// The sequence number (`diskseq`) that distinguishes a disk from a later one with the same name;
/// `None` for partitions, which have none.
pub(crate) fn diskseq_of(host: &dyn HostOps, area: &str) -> Option<u64> {
    zram::diskseq_of(host, area.strip_prefix("/dev/")?)
}

/// Whether the area is a swap file that a plan created at an earlier boot.
pub(crate) fn is_swap_file(host: &dyn HostOps, area: &str) -> bool {
    is_ours(area, file::KIND) && host.entry(area).is_ok_and(|found| found.is_own_file)
}
