// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise merge`: identical pages of zmerge devices stored once, now.

mod calm;
mod devices;
mod predict;

use std::fmt;
use std::sync::atomic::Ordering;

use pagewise_apply::merge;
use pagewise_model::{Advice, Interval, Merge, MergedDevice, Name, Refusal, Snapshot, Zram};
use pagewise_observe::{HostRoot, Recording, Scope, snapshot};
use pagewise_report::{Merged, json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::progress::Following;
use pagewise_terminal::{Global, Outcome, output, screen};

use crate::cli::Merge as MergeArgs;
use crate::input;

/// The user stopped us, and what we had started goes on.
#[derive(Debug)]
pub(crate) struct LeftRunning {
    /// As `zmerge0`.
    device: String,
}

impl fmt::Display for LeftRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped by Ctrl-C")
    }
}

impl std::error::Error for LeftRunning {}

impl Advice for LeftRunning {
    fn state(&self) -> Option<String> {
        let device = &self.device;
        Some(format!("the pass over {device} goes on in the kernel, which cannot call it off"))
    }

    fn next(&self) -> Option<String> {
        Some("`pagewise status` says how far it is".to_owned())
    }
}

pub(super) fn run(
    global: &Global,
    args: &MergeArgs,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "merge changes this machine; a recording has nothing to merge".to_owned();
        anyhow::bail!(Refusal::advised(what, "omit --root"));
    }
    let host = input::open(global)?.without_start();
    let interval = host.interval(&Scope::glance(), || anyhow::Ok(()))?;
    let chosen = devices::select(&args.device, &interval.end, &host.end)?;
    chosen.devices.iter().try_for_each(|device| merge::may_merge(device.id))?;
    let stop = Stop::listen()?;
    let waited_seconds =
        args.when_calm.then(|| calm::wait(global, &host.end, args.timeout, &stop)).transpose()?;
    let mut done = Merge { left_out: chosen.left_out, waited_seconds, devices: Vec::new() };
    let mut still_runs = None;
    for device in chosen.devices {
        match merge_device(global, args, &host, &interval.end, device, &stop) {
            Ok(merged) => done.devices.push(merged),
            // somebody was faster, or it is gone: the others can be merged all the same
            Err(error) if args.device.is_empty() => {
                done.left_out.push(devices::left_out(device, &error.downcast()?));
            }
            Err(error) => return Err(error),
        }
        if stop.flag().load(Ordering::Relaxed) {
            still_runs =
                done.devices.last().filter(|it| it.after.is_none()).map(|it| it.name.clone());
            break;
        }
    }
    show(global, &interval, &done, started)?;
    match still_runs {
        Some(name) => Err(LeftRunning { device: name.to_string() }.into()),
        None => Ok(Outcome::Done),
    }
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
    let predicted_pages = if args.predict { Some(predict::copies(global, &name)?) } else { None };
    let before = now(&host.end, &name).unwrap_or_else(|| device.clone());
    let merged = MergedDevice {
        name: Name::from(name.as_str()),
        predicted_pages,
        before,
        after: None,
        seconds: None,
    };
    if args.no_wait {
        merge::start_merge(device.id)?;
        return Ok(merged);
    }
    let all = slots(device, snapshot);
    let shown = Following::start(global, &format!("merging {name}"));
    let took = merge::merge(device.id, stop.flag(), &mut |left| shown.left(left, all))?;
    drop(shown);
    let after = took.and_then(|_| now(&host.end, &name));
    Ok(MergedDevice { after, seconds: took.map(|took| took.as_secs_f64()), ..merged })
}

fn slots(device: &Zram, snapshot: &Snapshot) -> u64 {
    let size = device.disksize.get().unwrap_or_default();
    size.get() / snapshot.page_size().get().max(1)
}

/// The device as it is at this moment; `None` where it is gone.
fn now(host: &HostRoot, name: &str) -> Option<Zram> {
    let devices = snapshot(host, &Scope::glance()).zmerge;
    devices.into_iter().find(|device| device.name() == name)
}

fn show(
    global: &Global,
    interval: &Interval,
    merge: &Merge,
    started: CostMeter,
) -> anyhow::Result<()> {
    let cost = cost::so_far(started, interval);
    let merged = Merged { snapshot: &interval.end, merge, cost };
    let shown = if global.json {
        json::merge(&merged)
    } else {
        text::merge(&merged, screen::text_style(global))
    };
    output::answer(global, &shown)?;
    if global.verbose {
        output::message(cost::line(&cost));
    }
    Ok(())
}
