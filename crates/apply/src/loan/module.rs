// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads the zram module, without any device, if it is not loaded; unloads it again unless somebody
//! has created a device meanwhile.

use crate::error::{Doing, Error};
use crate::host_ops::{HostChange, HostOps, make_change_with_retries};
use crate::loan::zram;
use pagewise_model::undo::Outcome;

pub(crate) const ZRAM: &str = "zram";

pub(crate) fn load(host: &mut dyn HostOps) -> Result<(), Error> {
    let load = HostChange::Load { module: ZRAM, parameter: "num_devices=0" };
    host.make_change(&load)
        .doing(|| "zram is not there, and its module does not load".to_owned())?;
    if zram::is_loaded(host) {
        return Ok(());
    }
    Err(Error::Absent {
        what: "zram".to_owned(),
        why: "the module loaded, and made no zram-control",
    })
}

pub(crate) fn undo(host: &mut dyn HostOps, name: &str) -> Result<Outcome, Error> {
    let folder = format!("/sys/module/{name}");
    if name != ZRAM || !host.exists(&folder) {
        return Ok(Outcome::Gone);
    }
    let devices = zram::numbers(host)?;
    if let Some(number) = devices.first() {
        return Ok(Outcome::Kept { why: format!("zram{number} has been made since") });
    }
    match make_change_with_retries(host, &HostChange::Unload(name)) {
        // some versions of modprobe fail because a module that it depends on is used by another one
        // too
        Err(_) if !host.exists(&folder) => Ok(Outcome::Returned),
        done => done.doing(|| format!("modprobe -r {name}")).map(|()| Outcome::Returned),
    }
}
