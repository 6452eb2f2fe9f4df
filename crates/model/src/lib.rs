// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data types of Pagewise, their units, and the table of kernel settings. This crate does no
//! I/O.
//!
//! Every other crate uses these types: `pagewise-observe` fills them from a host, `pagewise-decide`
//! derives findings, `pagewise-report` prints them. A value that a host may lack is a [`Reading`]:
//! a value, *absent* or *denied*, together with the file and line it was read from. Absent is never
//! zero.

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod arm;
mod bench;
mod benchmark;
mod capability;
mod cgroup;
mod choice;
mod collapse;
mod comparison;
mod compressor;
mod configuration;
mod coverage;
mod damon;
mod document;
pub mod duration;
mod effective_memory;
mod estimate;
mod explanation;
mod finding;
mod generations;
mod grouped;
mod hugetlb;
mod installation;
mod interval;
pub mod knob;
mod ksm;
pub mod lend;
mod limit;
mod live;
mod memory;
mod memory_files;
mod mglru;
mod name;
mod oom;
mod ownership;
mod persistent;
mod picks;
mod pinned;
pub mod plan;
mod process;
mod process_change;
mod program;
mod psi;
mod quantity;
mod reading;
mod refusal;
mod rule;
mod score;
mod settable;
mod shell;
mod size_classes;
mod snapshot;
mod source;
mod spelling;
mod swap;
mod swapped_pages;
pub mod text;
mod thp;
mod thp_profile;
mod trial;
pub mod typed;
pub mod undo;
mod unit;
mod units;
mod verdict;
mod walks;
mod watch_sample;
mod working_set;
mod zmerge;
mod zone;
mod zram;
mod zswap;

pub use bench::{
    Access, BackingTraffic, BenchRow, ClusterChoice, ClusterEffect, ClusterTime, ClusterVerdict,
    CostRatio, CostVerdict, Direction, FaultRow, Figures, Noise, Reference, RelativeCost, Shape,
    StoreComparison, StoreKind, SwapOutCost, SwapStore, SwappedKind, WritebackCost,
};
pub use benchmark::{BenchInput, BenchLayer, Benchmark};
pub use capability::{Capability, FeatureState};
pub use cgroup::{Cgroup, CgroupEvents, Cgroups, Hierarchy};
pub use choice::{Algorithms, Choice};
pub use collapse::{
    BudgetMeasure, ByAccess, Collapse, CollapsedProcess, Failed, LeftAlone, Restrain, UnitCollapse,
};
pub use comparison::{
    ActivityChange, ActivityUnit, ComparedHost, Comparison, GroupChange, ObservedEffect, Presence,
    PressureChange, ProgramChange, Relation, SettingChange, SizeChange, ThreadChange,
};
pub use compressor::{Compressor, NotACompressor};
pub use configuration::{Configuration, Manager, Purpose, Tuned};
pub use coverage::{Blocks, Coverage, MappingCoverage, MappingKind, ProcessCoverage, ScanMethod};
pub use damon::{Damon, DamonModule};
pub use document::{Cost, HostSummary};
pub use effective_memory::EffectiveMemory;
pub use estimate::{
    AlgorithmEstimate, Contents, Disturbed, Effective, Ends, Estimate, EstimateSource, HugeView,
    MemoryKind, Repeated,
};
pub use explanation::{Bar, Explanation, NamedValue, NextCommand, Section};
pub use finding::{Evidence, Finding, Severity};
pub use generations::{Generation, GroupGenerations};
pub use grouped::grouped;
pub use hugetlb::HugePool;
pub use installation::{Installation, SwapFolder};
pub use interval::{Change, Interval};
pub use ksm::Ksm;
pub use limit::Limit;
pub use live::{LiveChoice, LiveDetail, LiveGroup, LiveProcess, LiveSample, LiveSubject};
pub use memory::{Counters, Memory};
pub use memory_files::{DeletedFile, DeletedKind, MemoryFiles, TmpfsMount};
pub use mglru::Mglru;
pub use name::{Name, printable, printable_json};
pub use oom::{
    KernelLog, OomConstraint, OomExplanation, OomFact, OomGroup, OomHost, OomInvoker, OomKill,
    OomReaped, OomTask, OomUsage, OomVictim, RecentKills,
};
pub use ownership::{InForce, KnobOwnership, boot_order, ownership};
pub use persistent::{Effect, Mechanism, PersistentSetting, Target};
pub use picks::{BreakEven, ParetoPoint, Pick, Picks, RunnerUp, TierMix, ZramChoice};
pub use pinned::{PinnedCode, PinnedFile};
pub use process::{KernelThread, Process, Processes, SmapsOutcome, SmapsTally};
pub use process_change::ProcessChange;
pub use program::Program;
pub use psi::{Pressure, Psi, Stall};
pub use quantity::Quantity;
pub use reading::{Outcome, Reading};
pub use refusal::{Advice, Refusal};
pub use rule::RuleExplanation;
pub use score::{NORMAL_95, score_interval};
pub use settable::{KnobScope, KnobValue, SettableKnob, settable};
pub use shell::shell_quoted;
pub use size_classes::{SizeBand, SizeClass, SizeClasses};
pub use snapshot::{Problem, Snapshot, Taken};
pub use source::Source;
pub use spelling::most_similar;
pub use swap::{Disk, Tier, TierKind};
pub use swapped_pages::SwappedPages;
pub use thp::{Khugepaged, Thp, ThpSize};
pub use thp_profile::ThpProfile;
pub use trial::{
    Agreement, Clock, Course, MetricKind, Replicated, RunEnd, SelfTest, SelfTestMetric, Trial,
    TrialArm, TrialComparison, TrialDropped, TrialForecast, TrialLook, TrialMetric, TrialNoise,
    TrialRun, TrialSetting, TrialSwap, Verdict,
};
pub use unit::{unit_of, unit_path};
pub use units::{Bytes, Micros, Millis, Nanos, Pages, Percent, Ratio};
pub use verdict::{GroupVerdict, HostVerdict, Level};
pub use walks::PageWalks;
pub use watch_sample::{WatchCourse, WatchPhase, WatchSample};
pub use working_set::{
    Confidence, IdleMemory, IdleMethod, LimitAdvice, LimitSurvey, LimitVerdict, ProcessUse,
    WatchCost, WatchedMemory, WatchedProcess, WorkingSet,
};
pub use zmerge::{LeftOut, Merge, MergedDevice, Merging};
pub use zone::{FreeBlocks, Zone, ZonePressure};
pub use zram::{BdStat, DebugStat, Driver, IoStat, MmStat, Secondary, Zram, ZramUse};
pub use zswap::Zswap;
