// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Creates and removes a zram device of our own.
//!
//! Reading `hot_add` creates a device and returns its number in one step, so the journal cannot
//! contain the number beforehand. Instead, the existing devices and the newest sequence number of
//! any disk are recorded first; the new device is the first one after those. Sequence numbers are
//! never reused, but device numbers are: once the number is known, the device is touched only if
//! its sequence number is the recorded one.

use std::io::ErrorKind;
use std::time::Duration;

use pagewise_model::Bytes;
use pagewise_model::lend::{LoanId, ZramDevice, ZramSpec};
use pagewise_model::plan::ZramSwap;

use crate::error::{Doing, Error};
use crate::host_ops::{HostChange, HostOps, make_change_with_retries};
use crate::journal::{Device, NewZram, ZramSetup, ZramSizeChange};
use crate::loan::run::{Run, check_stored};
use pagewise_model::undo::Outcome;

const CONTROL: &str = "/sys/class/zram-control";

/// How long to wait so that a running program which has just created a zram device can set its
/// size.
const SETTLING: Duration = Duration::from_millis(250);

/// Describes a lent zram device for its borrower.
pub(crate) fn describe_device(loan: LoanId, number: u32) -> ZramDevice {
    ZramDevice { loan, number, device: area_path(number).into(), sysfs: sysfs(number).into() }
}

pub(crate) fn area_path(number: u32) -> String {
    format!("/dev/zram{number}")
}

/// The zram device number of a swap area; `None` if the area is not on zram.
pub(crate) fn number_of(area: &str) -> Option<u32> {
    area.strip_prefix("/dev/zram")?.parse().ok()
}

/// The compression algorithms that the kernel offers, as an existing zram device lists them;
/// `None` if no device exists.
pub(crate) fn offered_algorithms(host: &dyn HostOps) -> Option<String> {
    let number = *numbers(host).ok()?.first()?;
    let listed = host.read(&format!("{}/comp_algorithm", sysfs(number))).ok()?;
    Some(listed.replace(['[', ']'], ""))
}

/// The settings of a zram device, as far as the kernel reports them.
pub(crate) fn read_setup(host: &dyn HostOps, number: u32) -> Result<ZramSetup, Error> {
    let read = |file: &str| {
        let path = format!("{}/{file}", sysfs(number));
        host.read(&path).doing(|| path.clone())
    };
    let listed = read("comp_algorithm")?;
    let active = listed.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let algorithm = active.map_or(listed.as_str(), |(word, _)| word).to_owned();
    let disksize = read("disksize")?.parse().unwrap_or_default();
    // older kernels have fewer columns; the fourth is the limit in all of them
    let limit = read("mm_stat").ok().and_then(|text| text.split_whitespace().nth(3)?.parse().ok());
    Ok(ZramSetup { number, algorithm, disksize, mem_limit: limit.unwrap_or_default() })
}

/// Whether a zram device in use as swap has the settings that a plan gives it.
pub(crate) fn is_as_planned(setup: &ZramSetup, priority: i32, planned: &ZramSwap) -> bool {
    let size = planned.disksize_bytes.get();
    let is_size = check_stored("", size, &setup.disksize.to_string()).is_ok();
    let is_algorithm = planned.compressor.algorithm.as_str() == setup.algorithm;
    is_size && is_algorithm && i32::from(planned.priority) == priority
}

/// Frees everything that a zram device stores, and its size. The device must not be in use.
pub(crate) fn reset(host: &mut dyn HostOps, number: u32) -> Result<(), Error> {
    let reset = format!("{}/reset", sysfs(number));
    make_change_with_retries(host, &HostChange::Write { path: &reset, value: "1" })
        .doing(|| format!("zram{number}: reset"))
}

/// Removes the size that a plan gave to a zram device, and restores the compression algorithm. The
/// device itself existed before and is kept.
pub(crate) fn undo_size(host: &mut dyn HostOps, change: &ZramSizeChange) -> Result<Outcome, Error> {
    let ZramSizeChange { device: made, algorithm, disksize } = change;
    if device(host, made.number) != Some(*made) {
        return Ok(Outcome::Gone);
    }
    let found = read_setup(host, made.number)?;
    if found.disksize == 0 && found.algorithm == *algorithm {
        return Ok(Outcome::Gone);
    }
    if found.disksize != 0 && check_stored("", *disksize, &found.disksize.to_string()).is_err() {
        let size = |bytes| format!("a size of {}", Bytes::new(bytes));
        let (ours, found) = (size(*disksize), size(found.disksize));
        return Ok(Outcome::Conflict { old: "no size".to_owned(), ours, found });
    }
    reset(host, made.number)?;
    if read_setup(host, made.number)?.algorithm != *algorithm {
        set_algorithm(host, made.number, algorithm)?;
    }
    Ok(Outcome::Returned)
}

fn sysfs(number: u32) -> String {
    format!("/sys/block/zram{number}")
}

pub(crate) fn is_loaded(host: &dyn HostOps) -> bool {
    host.exists(&format!("{CONTROL}/hot_add"))
}

/// The numbers of the existing zram devices.
pub(crate) fn numbers(host: &dyn HostOps) -> Result<Vec<u32>, Error> {
    let disks = disks(host)?;
    Ok(disks.iter().filter_map(|name| name.strip_prefix("zram")?.parse().ok()).collect())
}

fn disks(host: &dyn HostOps) -> Result<Vec<String>, Error> {
    host.names("/sys/block").doing(|| "/sys/block".to_owned())
}

/// The record of a new zram device for the journal, written before the device is created.
pub(crate) fn new_device(host: &dyn HostOps) -> Result<NewZram, Error> {
    let disks = disks(host)?;
    let known: Vec<u64> = disks.iter().filter_map(|name| diskseq_of(host, name)).collect();
    if known.is_empty() && !disks.is_empty() {
        let why = "this kernel has no diskseq, so that after a kill nobody could tell whose it is";
        return Err(Error::Absent { what: "a zram device".to_owned(), why });
    }
    let newest_diskseq = known.into_iter().max().unwrap_or(0);
    let others = numbers(host)?;
    Ok(NewZram { others, newest_diskseq, announced: Some(host.now()) })
}

pub(crate) fn diskseq_of(host: &dyn HostOps, disk: &str) -> Option<u64> {
    host.read(&format!("/sys/block/{disk}/diskseq")).ok()?.parse().ok()
}

/// Number and disk sequence number of the zram device that has this number now.
pub(crate) fn device(host: &dyn HostOps, number: u32) -> Option<Device> {
    let diskseq = diskseq_of(host, &format!("zram{number}"))?;
    Some(Device { number, diskseq })
}

/// Creates a zram device, without a size.
pub(crate) fn make(host: &mut dyn HostOps) -> Result<Device, Error> {
    let number = host.add_zram_device().doing(|| format!("{CONTROL}/hot_add"))?;
    device(host, number).ok_or(Error::Absent {
        what: format!("zram{number}"),
        why: "it was made and has no diskseq",
    })
}

/// Writes the settings in the order that the kernel requires: the size comes last and initialises
/// the device.
pub(crate) fn set_up(host: &mut dyn HostOps, number: u32, spec: &ZramSpec) -> Result<(), Error> {
    if let Some(compressor) = &spec.compressor {
        set_algorithm(host, number, compressor.algorithm.as_str())?;
    }
    if let Some(parameters) = parameters(spec) {
        let path = format!("{}/algorithm_params", sysfs(number));
        if !host.exists(&path) {
            let what = format!("zram {parameters}");
            return Err(Error::Absent { what, why: "this kernel has no algorithm_params" });
        }
        write_setting(host, number, "algorithm_params", &parameters)?;
    }
    if let Some(limit) = spec.mem_limit {
        write_setting(host, number, "mem_limit", &limit.get().to_string())?;
    }
    if let Some(writeback) = &spec.writeback {
        set_backing(host, number, &writeback.device)?;
    }
    write_setting(host, number, "disksize", &spec.disksize.get().to_string())?;
    let path = format!("{}/disksize", sysfs(number));
    let found = host.read(&path).doing(|| path.clone())?;
    check_stored(&path, spec.disksize.get(), &found)
}

/// Writes a value into a sysfs file of a zram device.
pub(crate) fn write_setting(
    host: &mut dyn HostOps,
    number: u32,
    file: &str,
    value: &str,
) -> Result<(), Error> {
    let path = format!("{}/{file}", sysfs(number));
    host.make_change(&HostChange::Write { path: &path, value })
        .doing(|| format!("zram{number}: {file} = {value}"))
}

fn set_backing(host: &mut dyn HostOps, number: u32, device: &str) -> Result<(), Error> {
    let path = format!("{}/backing_dev", sysfs(number));
    if !host.exists(&path) {
        let why = "zram of this kernel has no writeback (CONFIG_ZRAM_WRITEBACK)";
        return Err(Error::Absent { what: "zram.backing_dev".to_owned(), why });
    }
    write_setting(host, number, "backing_dev", device)?;
    let found = host.read(&path).doing(|| path.clone())?;
    if found == device {
        return Ok(());
    }
    Err(Error::Changed { what: path, wrote: device.to_owned(), found })
}

fn set_algorithm(host: &mut dyn HostOps, number: u32, algorithm: &str) -> Result<(), Error> {
    let path = format!("{}/comp_algorithm", sysfs(number));
    let offered = host.read(&path).doing(|| path.clone())?;
    let result = write_setting(host, number, "comp_algorithm", algorithm);
    match &result {
        Err(Error::Kernel { source, .. }) if source.kind() == ErrorKind::InvalidInput => {
            Err(Error::Value {
                name: "zram.comp_algorithm".to_owned(),
                expected: format!("one of {}", offered.replace(['[', ']'], "")),
                found: algorithm.to_owned(),
            })
        }
        _ => result,
    }
}

/// The value for `algorithm_params`. A write replaces all parameters, so they are written
/// together.
fn parameters(spec: &ZramSpec) -> Option<String> {
    let level = spec.compressor.as_ref().and_then(|compressor| compressor.level);
    let level = level.map(|level| format!("level={level}"));
    let dictionary = spec.dictionary.as_ref().map(|path| format!("dict={}", path.display()));
    let whose = match &spec.compressor {
        Some(compressor) => format!("algo={}", compressor.algorithm),
        None => "priority=0".to_owned(),
    };
    let given: Vec<String> = level.into_iter().chain(dictionary).collect();
    (!given.is_empty()).then(|| format!("{whose} {}", given.join(" ")))
}

/// Removes the zram device that a change created.
pub(crate) fn undo(
    host: &mut dyn HostOps,
    new: &NewZram,
    made: Option<Device>,
    run: Run,
) -> Result<Outcome, Error> {
    let ours = match made {
        Some(made) => Some(made).filter(|made| device(host, made.number) == Some(*made)),
        None => find_unnumbered(host, new, run)?,
    };
    let Some(Device { number, .. }) = ours else { return Ok(Outcome::Gone) };
    reset(host, number)?;
    let remove = format!("{CONTROL}/hot_remove");
    make_change_with_retries(
        host,
        &HostChange::Write { path: &remove, value: &number.to_string() },
    )
    .doing(|| format!("zram{number}: hot_remove"))?;
    Ok(Outcome::Returned)
}

/// The device of a run that was killed before it could record which one it created. It never got a
/// size, so a device that has a size, or gets one while we wait, belongs to somebody else; so does
/// one that was created before the journal announced ours, or long after. If this is not certain,
/// the device is not removed.
fn find_unnumbered(host: &dyn HostOps, new: &NewZram, run: Run) -> Result<Option<Device>, Error> {
    let uncertain = |why: String| Err(Error::Uncertain { what: "a zram device".to_owned(), why });
    if run.is_damaged {
        let why = "the line of its journal with its number may be a damaged one";
        return uncertain(why.to_owned());
    }
    if devices_without_size(host, new)?.is_empty() {
        return Ok(None);
    }
    host.pause(SETTLING);
    let mut possible = Vec::new();
    for device in devices_without_size(host, new)? {
        let after = new.announced.zip(host.created_at(device.number));
        match after.map(|(announced, made)| made.checked_sub(announced.saturating_sub(COARSE))) {
            Some(Some(after)) if after <= COARSE + SOON => possible.push(device),
            Some(_) => {}
            None => return uncertain(format!("zram{} may be another's", device.number)),
        }
    }
    match possible.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        [first, second, ..] => {
            let (first, second) = (first.number, second.number);
            uncertain(format!("zram{first} may be it, and so may zram{second}"))
        }
    }
}

/// A run creates its zram device within this many milliseconds of announcing it in the journal.
const SOON: u64 = 2_000;
/// How far the kernel's coarse time stamps can lag, in milliseconds (a tick).
const COARSE: u64 = 20;

/// The zram devices without a size that were created after the devices that the record lists.
fn devices_without_size(host: &dyn HostOps, before: &NewZram) -> Result<Vec<Device>, Error> {
    let new = numbers(host)?.into_iter().filter(|number| !before.others.contains(number));
    let devices = new.filter_map(|number| device(host, number));
    let later = devices.filter(|device| device.diskseq > before.newest_diskseq);
    Ok(later.filter(|device| !has_size(host, device.number)).collect())
}

/// Whether a zram device stores at most 64 KiB (column 1 of `mm_stat`: size before compression). `mkswap` writes one
/// page, and no page is larger than that: so nothing can be lost but a swap header, complete or interrupted.
pub(crate) fn is_blank(host: &dyn HostOps, number: u32) -> bool {
    let stat = host.read(&format!("{}/mm_stat", sysfs(number))).unwrap_or_default();
    let stored = stat.split_whitespace().next().and_then(|stored| stored.parse::<u64>().ok());
    stored.is_some_and(|stored| stored <= 64 << 10)
}

pub(crate) fn has_size(host: &dyn HostOps, number: u32) -> bool {
    host.read(&format!("{}/disksize", sysfs(number))).is_ok_and(|size| size != "0")
}
