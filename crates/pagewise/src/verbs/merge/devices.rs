// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selects the zmerge devices to merge, as `--device` names them; if there are none, says why.

use pagewise_apply::merge::MergeError;
use pagewise_model::{LeftOut, Name, Refusal, Snapshot, Zram};
use pagewise_observe::{HostRoot, is_zmerge_loaded};

/// The zmerge devices to merge.
#[derive(Debug)]
pub(super) struct MergeTarget<'a> {
    pub(super) devices: Vec<&'a Zram>,
    /// If the user named no device: the devices that cannot be merged, and why.
    pub(super) left_out: Vec<LeftOut>,
}

/// Selects the named devices, each of which must be mergeable. If none is named, selects all
/// mergeable devices.
pub(super) fn select<'a>(
    requested: &[String],
    snapshot: &'a Snapshot,
    host: &HostRoot,
) -> anyhow::Result<MergeTarget<'a>> {
    if snapshot.zmerge.is_empty() {
        anyhow::bail!(no_device_refusal(is_zmerge_loaded(host)));
    }
    if requested.is_empty() {
        select_all(&snapshot.zmerge)
    } else {
        find_named(requested, &snapshot.zmerge)
    }
}

/// Selects the named devices on which a merge pass is running. If none is named, selects all on
/// which one is running.
pub(super) fn select_running<'a>(
    requested: &[String],
    snapshot: &'a Snapshot,
    host: &HostRoot,
) -> anyhow::Result<Vec<&'a Zram>> {
    if snapshot.zmerge.is_empty() {
        anyhow::bail!(no_device_refusal(is_zmerge_loaded(host)));
    }
    let named = requested.iter().map(|name| find(name, &snapshot.zmerge));
    let named = named.collect::<anyhow::Result<Vec<_>>>()?;
    let asked = |device: &&Zram| named.is_empty() || named.iter().any(|it| it.id == device.id);
    Ok(snapshot.zmerge.iter().filter(asked).filter(|device| slots_left(device) > 0).collect())
}

fn slots_left(device: &Zram) -> u64 {
    device.merging.as_ref().and_then(|merging| merging.slots_left.get()).unwrap_or(0)
}

fn no_device_refusal(loaded: bool) -> Refusal {
    if loaded {
        Refusal::with_advice(
            "the module zmerge is loaded and has no device",
            "cd /sys/class/zmerge-control && n=$(cat hot_add) && echo $n > hot_add adds one",
        )
    } else {
        Refusal::with_advice(
            "the module zmerge is not loaded, and only its devices can be merged",
            "kernel/zmerge/README.md says how to build, load and set it up; zram merges nothing",
        )
    }
}

fn find_named<'a>(requested: &[String], devices: &'a [Zram]) -> anyhow::Result<MergeTarget<'a>> {
    let mut chosen: Vec<&Zram> = Vec::new();
    for name in requested {
        let device = find(name, devices)?;
        why_not_mergeable(device).map_or(Ok(()), Err)?;
        if !chosen.iter().any(|known| known.id == device.id) {
            chosen.push(device);
        }
    }
    Ok(MergeTarget { devices: chosen, left_out: Vec::new() })
}

fn find<'a>(name: &str, devices: &'a [Zram]) -> anyhow::Result<&'a Zram> {
    let plain = name.strip_prefix("/dev/").unwrap_or(name);
    if let Some(device) = devices.iter().find(|device| device.name() == plain) {
        return Ok(device);
    }
    let known: Vec<String> = devices.iter().map(Zram::name).collect();
    let what = format!(
        "--device {}: expected a device of zmerge ({}), found none of that name",
        Name::from(name),
        known.join(", ")
    );
    Err(Refusal::with_advice(what, "`pagewise status` names the devices; zram merges nothing")
        .into())
}

fn select_all(devices: &[Zram]) -> anyhow::Result<MergeTarget<'_>> {
    let (mut can, mut others, mut first) = (Vec::new(), Vec::new(), None);
    for device in devices {
        match why_not_mergeable(device) {
            None => can.push(device),
            Some(why) => {
                others.push(left_out_device(device, &why));
                first.get_or_insert(why);
            }
        }
    }
    match first.filter(|_| can.is_empty()) {
        Some(only) => Err(only.into()),
        None => Ok(MergeTarget { devices: can, left_out: others }),
    }
}

/// Why a device cannot be merged now, as far as the snapshot shows.
fn why_not_mergeable(device: &Zram) -> Option<MergeError> {
    let merging = device.merging.as_ref();
    let mode = merging.and_then(|merging| merging.mode.value());
    if device.initialised.get() == Some(false) {
        return Some(MergeError::NoSize(device.id));
    }
    if mode.is_some_and(|mode| mode.active.as_str() == "off") {
        return Some(MergeError::Off(device.id));
    }
    (slots_left(device) > 0).then_some(MergeError::Running(device.id))
}

/// A device that is left out. The reason is the error's message without the device's name.
pub(super) fn left_out_device(device: &Zram, error: &MergeError) -> LeftOut {
    let why = error.to_string();
    let why = why.split_once(": ").map_or(why.as_str(), |(_, why)| why).to_owned();
    LeftOut { name: Name::from(device.name().as_str()), why }
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Choice, Driver, Merging, Reading, Source};

    use super::*;

    fn found<T>(value: T) -> Reading<T> {
        Reading::found(value, Source::none())
    }

    fn device(id: u32, mode: &str, left: u64) -> Zram {
        let active = Name::from(mode);
        let merging = Merging {
            mode: found(Choice { active, available: Vec::new() }),
            slots_left: found(left),
            ..Merging::default()
        };
        let (driver, merging) = (Driver::Zmerge, Some(merging));
        Zram { id, driver, initialised: found(true), merging, ..Zram::default() }
    }

    fn raw(id: u32) -> Zram {
        Zram { initialised: found(false), ..device(id, "request", 0) }
    }

    fn describe(chosen: anyhow::Result<MergeTarget<'_>>) -> String {
        chosen.unwrap_err().to_string()
    }

    fn nothing() -> HostRoot {
        HostRoot::memory([])
    }

    #[test]
    fn all_that_can_be_merged_are_and_the_others_are_told() {
        let devices =
            [device(0, "request", 0), device(1, "off", 0), raw(2), device(3, "inline", 0)];
        let chosen = select_all(&devices).unwrap();
        assert_eq!(chosen.devices.iter().map(|it| it.id).collect::<Vec<_>>(), [0, 3]);
        let lines: Vec<_> = chosen.left_out.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(lines, ["zmerge1", "zmerge2"]);
    }

    #[test]
    fn where_none_can_be_the_first_reason_is_an_error() {
        assert_eq!(
            describe(select_all(&[device(1, "off", 0), raw(2)])),
            "zmerge1: its merge_mode is off"
        );
        let running = describe(select_all(&[device(0, "request", 12_000)]));
        assert_eq!(running, "zmerge0: a pass is running already");
    }

    #[test]
    fn a_device_that_is_named_must_do() {
        let devices = [device(0, "request", 0), raw(1)];
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let twice = names(&["zmerge0", "/dev/zmerge0"]);
        assert_eq!(find_named(&twice, &devices).unwrap().devices.len(), 1);
        let no_size = describe(find_named(&names(&["zmerge0", "zmerge1"]), &devices));
        assert_eq!(no_size, "zmerge1: it has no disksize, so it stores nothing to merge");
        let unknown = describe(find_named(&names(&["zram0"]), &devices));
        let expected = "--device zram0: expected a device of zmerge (zmerge0, zmerge1), \
                        found none of that name";
        assert_eq!(unknown, expected);
    }

    #[test]
    fn a_pass_that_runs_is_found_by_name_or_without() {
        let zmerge = vec![device(0, "request", 0), device(1, "off", 7), device(2, "inline", 9)];
        let snapshot = Snapshot { zmerge, ..Snapshot::default() };
        let found = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            let running = select_running(&names, &snapshot, &nothing()).unwrap();
            running.iter().map(|device| device.id).collect::<Vec<_>>()
        };
        assert_eq!((found(&[]), found(&["/dev/zmerge2"])), (vec![1, 2], vec![2]));
        assert_eq!(found(&["zmerge0"]), Vec::<u32>::new());
        assert!(select_running(&["zmerge9".to_owned()], &snapshot, &nothing()).is_err());
    }

    #[test]
    fn no_module_is_told_from_no_device() {
        let none = Snapshot::default();
        let module = describe(select(&[], &none, &nothing()));
        assert!(module.starts_with("the module zmerge is not loaded"), "{module}");
        let empty = pagewise_observe::Entry::File(Vec::new());
        let loaded = HostRoot::memory([("sys/class/zmerge-control/hot_add".to_owned(), empty)]);
        assert_eq!(
            describe(select(&[], &none, &loaded)),
            "the module zmerge is loaded and has no device"
        );
    }
}
