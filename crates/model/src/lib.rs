// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data types of Pagewise, their units, and the table of kernel settings. This crate does no
//! I/O.
//!
//! Every other crate uses these types: `pagewise-observe` fills them from a host, `pagewise-decide`
//! derives findings, `pagewise-report` prints them. A value that a host may lack is a [`Reading`]:
//! a value, *absent* or *denied*, together with the file and line it was read from. Absent is never
//! zero.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod advice;
mod bench;
mod fleet;
mod host;
pub mod knob;
pub mod plan;
mod thp;
mod trial;
mod units;

pub use advice::{
    Actor, Advice, Bar, ChangedFinding, Confidence, EndReason, Evidence, Explanation, Finding,
    FindingChange, GroupVerdict, Grown, GrownArea, HostVerdict, IdleMemory, IdleMethod, Incident,
    IncidentEvent, IncidentEventKind, KnownFinding, KnownFindings, Level, LimitAdvice, LimitSurvey,
    LimitVerdict, NamedValue, NextCommand, ProcessUse, Refusal, RuleExplanation, SarHistory,
    SarTime, Section, ServiceState, Severity, Subject, Trouble, UnreadFile, WatchCost,
    WatchedMemory, WatchedProcess, WorkingSet,
};
pub use bench::{
    Access, AlgorithmEstimate, BackingTraffic, BenchInput, BenchLayer, BenchRow, Benchmark,
    BreakEven, ClusterChoice, ClusterEffect, ClusterTime, ClusterVerdict, Contents, CostRatio,
    CostVerdict, Direction, Disturbed, Effective, Ends, Estimate, EstimateSource, FaultRow,
    Figures, HugeView, MemoryKind, Noise, ParetoPoint, Pick, Picks, Reference, RelativeCost,
    Repeated, RunnerUp, Shape, StoreComparison, StoreKind, SwapOutCost, SwapStore, SwappedKind,
    TierMix, WritebackCost, ZramChoice,
};
pub use fleet::{
    DifferingSetting, FleetCompression, FleetFinding, FleetGroup, FleetHugePages, FleetLimits,
    FleetReport, LevelCount, LimitSums, Machine, Outlier, OutlierMeasure, SettingValue, SwapSetup,
    UnreadMachine, WithInterval,
};
pub use host::{
    AgedNode, AgentDecision, AgentLimit, AgentLoop, AgentProof, AgentReport, AgentStatus,
    AgentTarget, Aging, AgingEnd, AgingRecord, AgingReport, Algorithms, AllocationFailure, Balloon,
    BdStat, Capability, Cgroup, CgroupEvents, CgroupPids, Cgroups, Change, Choice, Configuration,
    Copies, CopiesKind, Cost, Counter, Counters, Damon, DamonModule, DebugStat, DeletedFile,
    DeletedKind, Disk, DiskStats, Driver, Effect, EffectiveMemory, FeatureState, FreeBlocks,
    Generation, GpuMemory, GroupGenerations, Hierarchy, HostSummary, HugePool, HungTask, InForce,
    InitSystem, Installation, Interval, IoLimit, IoStat, KernelLog, KernelThread, KnobOwnership,
    Ksm, LeftOut, LiveChoice, LiveDetail, LiveGroup, LiveProcess, LiveSample, LiveSubject, LogText,
    Manager, Mechanism, Memory, MemoryFiles, Merge, MergedDevice, Merging, MessageQueue, Mglru,
    MmStat, NodeGenerations, OomBlocks, OomConstraint, OomEvent, OomExplanation, OomFact, OomGroup,
    OomHost, OomInvoker, OomKill, OomProof, OomReaped, OomTask, OomUsage, OomVictim, OomZone,
    Outcome, PageWalks, PartRead, PersistentSetting, Pressure, Problem, Process, ProcessChange,
    Processes, ProofEffect, ProofVerdict, Psi, Purpose, Reading, Rebuild, RebuildChange,
    RebuiltRun, RecentKills, ReclaimKind, RefaultCounters, Refaults, RefusedLine, Secondary,
    SharedSegment, SizeBand, SizeClass, SizeClasses, SmapsOutcome, SmapsTally, Snapshot, Source,
    Stall, SwapFolder, SwappedPages, Taken, Target, Tier, TierKind, TmpfsMount, Tuned, UnitKill,
    UserKill, UserKiller, WallClock, WatchCourse, WatchPhase, WatchSample, WhatIf, WhatIfEffect,
    WhatIfKind, ZfsCache, Zone, ZonePressure, Zram, ZramUse, Zswap, boot_order, ownership, scale,
    unit_of, unit_path,
};
pub use knob::{KnobScope, KnobValue, SettableKnob, lend, list_settable, undo};
pub use thp::{
    Blocks, BudgetMeasure, ByAccess, Collapse, CollapsedProcess, Coverage, Failed, Khugepaged,
    LeftAlone, MappingCoverage, MappingKind, PinnedCode, PinnedFile, ProcessCoverage, Restrain,
    ScanMethod, Thp, ThpProfile, ThpSize, UnitCollapse,
};
pub use trial::{
    ActivityChange, ActivityUnit, Agreement, Clock, ComparedHost, Comparison, Course, Difference,
    GroupChange, MeasuredPeriods, MetricKind, NORMAL_95, ObservedEffect, PeriodsVerdict, Presence,
    PressureChange, Program, ProgramChange, Relation, Replicated, RunEnd, SelfTest, SelfTestMetric,
    SettingChange, SizeChange, ThreadChange, Trial, TrialArm, TrialComparison, TrialDropped,
    TrialForecast, TrialLook, TrialMetric, TrialNoise, TrialRun, TrialSetting, TrialSwap, Verdict,
    arm, score_interval,
};
pub use units::{
    Bytes, Compressor, Limit, Micros, Millis, Name, Nanos, NotACompressor, Pages, Percent,
    Quantity, Ratio, TaskLimit, duration, group_digits, make_json_printable, make_printable,
    most_similar, quote_for_shell, text, typed,
};
