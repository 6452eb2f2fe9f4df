// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The decisions of `pagewise agent`: its configuration, its budget, and for each loop what to do
//! after a reading.
//!
//! Pure: it reads no file and no clock, and does nothing. A time is given as the time since the agent
//! was started, so that tests can simulate days.

mod aging;
mod budget;
mod config;
mod flash;
mod guard;
mod hugepages;
mod ksm;
mod managers;
mod reclaim;
mod switchback;
mod zram;

pub use aging::{AgingStep, AgingTarget, Youngest};
pub use budget::CpuBudget;
pub use config::{AgingSettings, Config, ConfigError, ConfigFile, parse};
pub use flash::FlashAccount;
pub use guard::{Guard, GuardReading, GuardSettings};
pub use hugepages::{HugepagesReading, HugepagesSettings, HugepagesStep, HugepagesTarget};
pub use ksm::{KsmReading, KsmSettings, KsmStep, KsmTarget, describe_profit};
pub use managers::{ksm_manager, other_manager};
pub use reclaim::{
    IdleMemory, ReclaimReading, ReclaimSettings, ReclaimStep, ReclaimTarget, SLICE, SwapRoom,
};
pub use switchback::{
    MetricSource, Switchback, SwitchbackRecord, SwitchbackSample, SwitchbackSettings, parse_metric,
};
pub use zram::{ZramReading, ZramRound, ZramSettings, ZramStep, ZramTarget};
