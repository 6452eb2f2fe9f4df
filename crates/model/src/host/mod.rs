// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a host's memory: values with their files (Readings), all values at one time
//! (Snapshots), and two of these with the time between them (Intervals).

mod agent;
mod aging;
mod balloon;
mod capability;
mod cgroup;
mod choice;
mod configuration;
mod damon;
mod disk_stats;
mod document;
mod effective_memory;
mod generations;
mod gpu_memory;
mod hugetlb;
mod installation;
mod interval;
mod ksm;
mod live;
mod memory;
mod memory_files;
mod mglru;
mod oom;
mod ownership;
mod persistent;
mod process;
mod process_change;
mod psi;
mod reading;
mod rebuild;
mod size_classes;
mod snapshot;
mod source;
mod swap;
mod swapped_pages;
mod unit;
mod walks;
mod wall_clock;
mod watch_sample;
mod zmerge;
mod zone;
mod zram;
mod zswap;

pub use agent::{
    AgentDecision, AgentLimit, AgentLoop, AgentProof, AgentReport, AgentStatus, AgentTarget,
    ProofEffect, ProofVerdict, ReclaimKind,
};
pub use aging::{AgedNode, Aging, AgingEnd, AgingRecord, AgingReport, RefaultCounters, Refaults};
pub use balloon::Balloon;
pub use capability::{Capability, FeatureState};
pub use cgroup::{Cgroup, CgroupEvents, CgroupPids, Cgroups, Hierarchy, IoLimit};
pub use choice::{Algorithms, Choice};
pub use configuration::{Configuration, Manager, Purpose, RefusedLine, Tuned};
pub use damon::{Damon, DamonModule};
pub use disk_stats::DiskStats;
pub use document::{Copies, CopiesKind, Cost, HostSummary};
pub use effective_memory::EffectiveMemory;
pub use generations::{Generation, GroupGenerations, NodeGenerations};
pub use gpu_memory::GpuMemory;
pub use hugetlb::HugePool;
pub use installation::{InitSystem, Installation, SwapFolder};
pub use interval::{Change, Counter, Interval};
pub use ksm::Ksm;
pub use live::{LiveChoice, LiveDetail, LiveGroup, LiveProcess, LiveSample, LiveSubject};
pub use memory::{Counters, Memory, ZfsCache};
pub use memory_files::{
    DeletedFile, DeletedKind, MemoryFiles, MessageQueue, SharedSegment, TmpfsMount,
};
pub use mglru::Mglru;
pub use oom::{
    AllocationFailure, HungTask, KernelLog, LogText, OomBlocks, OomConstraint, OomEvent,
    OomExplanation, OomFact, OomGroup, OomHost, OomInvoker, OomKill, OomReaped, OomTask, OomUsage,
    OomVictim, OomZone, RecentKills, UnitKill, UserKill, UserKiller, WhatIf, WhatIfEffect,
    WhatIfKind,
};
pub use ownership::{InForce, KnobOwnership, boot_order, ownership};
pub use persistent::{Effect, Mechanism, PersistentSetting, Target};
pub use process::{KernelThread, Process, Processes, SmapsOutcome, SmapsTally};
pub use process_change::ProcessChange;
pub use psi::{Pressure, Psi, Stall};
pub use reading::{Outcome, Reading};
pub use rebuild::{OomProof, Rebuild, RebuildChange, RebuiltRun, scale};
pub use size_classes::{SizeBand, SizeClass, SizeClasses};
pub use snapshot::{PartRead, Problem, Snapshot, Taken};
pub use source::Source;
pub use swap::{Disk, Tier, TierKind};
pub use swapped_pages::SwappedPages;
pub use unit::{unit_of, unit_path};
pub use walks::PageWalks;
pub use wall_clock::WallClock;
pub use watch_sample::{WatchCourse, WatchPhase, WatchSample};
pub use zmerge::{LeftOut, Merge, MergedDevice, Merging};
pub use zone::{FreeBlocks, Zone, ZonePressure};
pub use zram::{BdStat, DebugStat, Driver, IoStat, MmStat, Secondary, Zram, ZramUse};
pub use zswap::Zswap;
