// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise merge`: runs a merge pass on zmerge devices, so that identical pages are stored once.

mod calm;
mod devices;
mod predict;

use std::fmt;
use std::sync::atomic::Ordering;

use pagewise_apply::merge::{self, PassEnd};
use pagewise_model::{Advice, Interval, Merge, MergedDevice, Name, Refusal, Snapshot, Zram};
use pagewise_observe::{HostRoot, Recording, Scope, snapshot};
use pagewise_report::{Merged, json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::progress::Following;
use pagewise_terminal::{Global, Outcome, output, screen};

use crate::cli::Merge as MergeArgs;
use crate::input;

/// Error: the user stopped pagewise. The merge pass was ended, too, if the module can end one.
#[derive(Debug)]
pub(crate) struct PassLeft {
    /// The device's name, such as `zmerge0`.
    device: String,
    /// Whether the merge pass has ended.
    has_ended: bool,
}

impl fmt::Display for PassLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped by Ctrl-C")
    }
}

impl std::error::Error for PassLeft {}

impl Advice for PassLeft {
    fn state(&self) -> Option<String> {
        let device = &self.device;
        Some(if self.has_ended {
            format!("the pass over {device} has ended; pages that it merged stay merged")
        } else {
            format!("the pass over {device} goes on: this version of zmerge cannot end it")
        })
    }

    fn next(&self) -> Option<String> {
        Some(if self.has_ended {
            "`pagewise merge` examines all pages again".to_owned()
        } else {
            "`pagewise status` says how far it is".to_owned()
        })
    }
}

pub(super) fn run(
    global: &Global,
    args: &MergeArgs,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "merge changes this machine; a recording has nothing to merge".to_owned();
        anyhow::bail!(Refusal::with_advice(what, "omit --root"));
    }
    let host = input::open(global)?.without_start();
    let interval = host.interval(&Scope::glance(), || anyhow::Ok(()))?;
    if args.stop {
        let running = devices::select_running(&args.device, &interval.end, &host.end)?;
        return end_passes(global, &interval, &host, running, started);
    }
    let chosen = devices::select(&args.device, &interval.end, &host.end)?;
    chosen.devices.iter().try_for_each(|device| merge::check_merge_allowed(device.id))?;
    let stop = Stop::listen()?;
    let waited_seconds = args
        .when_calm
        .then(|| calm::wait_until_calm(global, &host.end, args.timeout, &stop))
        .transpose()?;
    let mut done = Merge { left_out: chosen.left_out, waited_seconds, devices: Vec::new() };
    let mut left = None;
    for device in chosen.devices {
        match merge_device(global, args, &host, &interval.end, device, &stop) {
            Ok(merged) => done.devices.push(merged),
            // another merge started meanwhile, or the device is gone: the other devices can still
            // be merged
            Err(error) if args.device.is_empty() => {
                done.left_out.push(devices::left_out_device(device, &error.downcast()?));
            }
            Err(error) => return Err(error),
        }
        if stop.flag().load(Ordering::Relaxed) {
            left = done.devices.last().filter(|it| it.seconds.is_none());
            break;
        }
    }
    show(global, &interval, &done, started)?;
    match left {
        Some(it) => Err(PassLeft { device: it.name.to_string(), has_ended: it.stopped }.into()),
        None => Ok(Outcome::Done),
    }
}

/// Ends the merge passes on these devices, and shows what they had merged until then.
fn end_passes(
    global: &Global,
    interval: &Interval,
    host: &Recording,
    running: Vec<&Zram>,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    let mut done = Merge { left_out: Vec::new(), waited_seconds: None, devices: Vec::new() };
    for device in running {
        let name = device.name();
        if !merge::stop_merge(device.id)? {
            return Err(Refusal::with_advice(
                format!("{name}: this version of zmerge cannot end a pass"),
                "wait for it: `pagewise status` says how far it is",
            )
            .into());
        }
        done.devices.push(MergedDevice {
            name: Name::from(name.as_str()),
            predicted_pages: None,
            before: device.clone(),
            after: read_again(&host.end, &name),
            seconds: None,
            stopped: true,
        });
    }
    if done.devices.is_empty() && !global.json {
        output::print_message("no merge pass is running");
    }
    show(global, interval, &done, started)?;
    Ok(Outcome::Done)
}

fn merge_device(
    global: &Global,
    args: &MergeArgs,
    host: &Recording,
    snapshot: &Snapshot,
    device: &Zram,
    stop: &Stop,
) -> anyhow::Result<MergedDevice> {
    let name = device.name();
    let predicted_pages =
        if args.predict { Some(predict::count_copies(global, &name)?) } else { None };
    let before = read_again(&host.end, &name).unwrap_or_else(|| device.clone());
    let merged = MergedDevice {
        name: Name::from(name.as_str()),
        predicted_pages,
        before,
        after: None,
        seconds: None,
        stopped: false,
    };
    if args.no_wait {
        merge::start_merge(device.id)?;
        return Ok(merged);
    }
    let all = count_slots(device, snapshot);
    let shown = Following::start(global, &format!("merging {name}"));
    let end = merge::merge(device.id, stop.flag(), &mut |left| shown.show_left(left, all))?;
    drop(shown);
    let seconds = match end {
        PassEnd::Complete(took) => Some(took.as_secs_f64()),
        PassEnd::Stopped => None,
        PassEnd::Running => return Ok(merged),
    };
    let after = read_again(&host.end, &name);
    Ok(MergedDevice { after, seconds, stopped: end == PassEnd::Stopped, ..merged })
}

fn count_slots(device: &Zram, snapshot: &Snapshot) -> u64 {
    let size = device.disksize.get().unwrap_or_default();
    size.get() / snapshot.page_size().get().max(1)
}

/// Reads the zmerge device again; `None` if it no longer exists.
fn read_again(host: &HostRoot, name: &str) -> Option<Zram> {
    let devices = snapshot(host, &Scope::glance()).zmerge;
    devices.into_iter().find(|device| device.name() == name)
}

fn show(
    global: &Global,
    interval: &Interval,
    merge: &Merge,
    started: CostMeter,
) -> anyhow::Result<()> {
    let cost = cost::measure_since(started, interval);
    let merged = Merged { snapshot: &interval.end, merge, cost };
    let shown = if global.json {
        json::merge(&merged)
    } else {
        text::merge(&merged, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    if global.verbose {
        output::print_message(cost::format_line(&cost));
    }
    Ok(())
}
