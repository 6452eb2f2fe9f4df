// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Implements [`Lender`] for [`Session`], with our errors converted to [`Refusal`]s.

use std::error::Error as _;
use std::path::{Path, PathBuf};

use pagewise_model::lend::{
    GroupSpec, KnobSetting, Lender, LoanId, MemoryGroup, SwapArea, SwapFile, SwapSpec, ZramDevice,
    ZramSpec, ZswapSpec,
};
use pagewise_model::{Advice, Bytes, Refusal};

use crate::error::Error;
use crate::session::Session;
use pagewise_model::undo::Outcome;

impl Lender for Session {
    fn lend_zram(&mut self, spec: &ZramSpec) -> Result<ZramDevice, Refusal> {
        self.zram(spec).map_err(|error| refusal("a zram device", &error))
    }

    fn lend_swap(&mut self, spec: &SwapSpec) -> Result<LoanId, Refusal> {
        let lent = match &spec.area {
            SwapArea::Lent(area) => self.swap_on(area, spec.priority),
            SwapArea::Device(device) => self.swap_device(device, spec.priority),
        };
        lent.map_err(|error| refusal(&spec.to_string(), &error))
    }

    fn lend_zswap(&mut self, spec: &ZswapSpec) -> Result<Vec<LoanId>, Refusal> {
        self.zswap(spec).map_err(|error| refusal(&spec.to_string(), &error))
    }

    fn swap_folder(&self) -> Option<PathBuf> {
        self.swap_folder.clone()
    }

    fn lend_swap_file(&mut self, folder: &Path, size: Bytes) -> Result<SwapFile, Refusal> {
        self.swap_file(folder, size).map_err(|error| refusal("a swap file", &error))
    }

    /// Cgroup version 2 has no swappiness per group: there `vm.swappiness` applies to the group as
    /// well.
    fn lend_group(&mut self, spec: &GroupSpec) -> Result<MemoryGroup, Refusal> {
        let swappiness = spec.swappiness.filter(|_| !self.has_unified_groups());
        let spec = GroupSpec { swappiness, ..*spec };
        self.group(&spec).map_err(|error| refusal("a memory cgroup", &error))
    }

    fn lend_knob(&mut self, setting: &KnobSetting) -> Result<LoanId, Refusal> {
        self.knob(setting).map_err(|error| refusal(&setting.to_string(), &error))
    }

    fn return_loan(&mut self, loan: LoanId) -> Result<(), Refusal> {
        let what = "giving back";
        match self.give_back(loan).map_err(|error| refusal(what, &error))? {
            Outcome::Conflict { found, .. } => {
                Err(Refusal::new(what, format!("somebody has set {found} since; that stays")))
            }
            _ => Ok(()),
        }
    }
}

fn refusal(what: &str, error: &Error) -> Refusal {
    let why = match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    Refusal { what: what.to_owned(), why, next: error.next() }
}
