// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The documents conform to their schemas, and their keys have the meaning of the design.

mod age;
mod agent;
mod bench;
mod host;
mod huge;
mod killed;
mod merge;
mod plan;
mod trial;

use boon::{Compiler, Schemas};
use pagewise_model::plan::{Plan, Verified};
use pagewise_model::{
    ActivityChange, ActivityUnit, AlgorithmEstimate, Bar, Bytes, Comparison, Confidence, Cost,
    DifferingSetting, Disturbed, Estimate, EstimateSource, Explanation, Finding, FleetCompression,
    FleetFinding, FleetGroup, FleetHugePages, FleetLimits, FleetReport, Grown, GrownArea, HugeView,
    IdleMemory, IdleMethod, Incident, IncidentEvent, IncidentEventKind, Interval, Level,
    LevelCount, Limit, LimitAdvice, LimitSums, LimitSurvey, LimitVerdict, Name, NamedValue,
    NextCommand, Outlier, OutlierMeasure, Percent, PinnedCode, PinnedFile, ProcessUse, Reading,
    Relation, SarHistory, SarTime, Section, SettingChange, SettingValue, Severity, SizeChange,
    Snapshot, Source, SwapSetup, Trouble, UnreadFile, UnreadMachine, WatchCost, WithInterval,
    WorkingSet,
};
use pagewise_report::json::{self, Noun, schema};
use pagewise_report::{
    Answer, AppliedPlan, ApplyOutcome, Benched, CellTried, Experimented, LedgerReport,
    LedgerUpdate, OomFound, ScanReport, TrialReport, TuneTrial, TunedPlan, UnbelievedJournal,
    UndoReport, VerifiedPlans,
};
use serde_json::{Value, json};

/// Code of one file, part of which is not locked.
fn pinned() -> PinnedCode {
    let size = Bytes::new(4096);
    let file = PinnedFile { name: "/bin/a".into(), in_use: Bytes::new(8192), locked: size };
    let why = "the budget is used up".to_owned();
    let in_use = file.in_use;
    let processes = vec![7];
    PinnedCode {
        budget: size,
        locked: size,
        in_use,
        processes,
        files: vec![file],
        left_out: Some(why),
    }
}

/// A page with a section of each kind, and a value of each outcome.
fn explanation() -> Explanation {
    let at = Source::line("/proc/meminfo", 3);
    let values = vec![
        NamedValue::new("MemAvailable", &Reading::found(Bytes::new(4096), at.clone())),
        NamedValue::new(
            "lru_gen/enabled",
            &Reading::<u32>::absent("not in this kernel", at.clone()),
        ),
        NamedValue::new("oom_kill", &Reading::<u64>::denied("run as root", at)),
    ];
    let title = "This machine".to_owned();
    let bars = vec![Bar::new("free", "4.0 KiB", 4096)];
    Explanation {
        subject: "available",
        title: "how much memory is left",
        sections: vec![
            Section::Text { text: "MemAvailable is an estimate.".to_owned() },
            Section::Bars { title: title.clone(), whole: None, bars },
            Section::Values { title, values },
            Section::Correction { claim: "free is available", fact: "It is not.".to_owned() },
        ],
        next: vec![NextCommand { command: "pagewise report".to_owned(), shows: "all of it" }],
    }
}

fn incident() -> Incident {
    Incident {
        from_unix_seconds: 1_795_822_500.0,
        to_unix_seconds: 1_795_823_100.0,
        readings: 60,
        trouble: Some(Trouble {
            begun_unix_seconds: 1_795_822_720.0,
            ended_unix_seconds: None,
            worst_unix_seconds: 1_795_822_751.0,
            growth_from_unix_seconds: 1_795_822_740.0,
            growth_to_unix_seconds: 1_795_822_750.0,
            longest_seconds_between_readings: 1.0,
            level: Level::Short,
            line: "The host is short of memory.".to_owned(),
        }),
        events: vec![IncidentEvent {
            unix_seconds: 1_795_822_738.0,
            kind: IncidentEventKind::Kill,
            text: "redis (pid 512) was killed".to_owned(),
            seconds_since_reading: Some(0.8),
        }],
        growers: vec![Grown {
            name: Name::from("backup"),
            pid: 77,
            processes: 1,
            group: Some(Name::from("/system.slice/backup.service")),
            from: Bytes::new(1 << 20),
            to: Bytes::new(1 << 30),
            seconds: 46.0,
        }],
        areas: vec![GrownArea {
            name: "page tables",
            from: Bytes::new(1 << 20),
            to: Bytes::new(1 << 28),
            seconds: 46.0,
        }],
        change: vec!["sudo systemctl set-property backup.service MemoryHigh=400M".to_owned()],
        unknown: vec!["which processes were killed: the kernel log needs root".to_owned()],
        unread: vec![UnreadFile {
            path: Name::from("/var/lib/pagewise/record/1795822500-0001.ring"),
            why: "a part of it is damaged, and the readings from there on are missing".to_owned(),
            readable_until_unix_seconds: Some(1_795_822_600.0),
        }],
        sar: Some(SarHistory {
            texts: vec![Name::from("sos_commands/sar/sar28")],
            times: 144,
            least_available: Some(SarTime {
                time: Name::from("03:10:01 on 11/28/26"),
                available: Some(Bytes::new(1 << 27)),
                swap_percent: Some(98.5),
                ..SarTime::default()
            }),
            ..SarHistory::default()
        }),
    }
}

/// A cgroup with all values known, and one with none.
/// Three machines, and a file that is none.
fn fleet() -> FleetReport {
    let name = |text: &str| Name::from(text);
    let saved = |gibibytes: u64| Bytes::new(gibibytes << 30);
    let sums = LimitSums { could_be_lower: 2, freed_bytes: saved(3), too_low: 1 };
    let value = |text: &str, machines, examples: &[&str]| SettingValue {
        value: name(text),
        machines,
        examples: examples.iter().map(|it| name(it)).collect(),
    };
    FleetReport {
        machines: 3,
        unix_seconds: Some([1.7e9, 1.8e9]),
        levels: vec![LevelCount { level: Level::Calm, machines: 3 }],
        findings: vec![FleetFinding {
            id: "zram-unused".to_owned(),
            severity: Severity::Warning,
            machines: 2,
            examples: vec![name("web-1"), name("web-2")],
        }],
        groups: vec![FleetGroup {
            ram_bytes: Some(saved(64)),
            architecture: Some(name("x86_64")),
            kernel: Some(name("6.12")),
            swap: SwapSetup::Zram,
            machines: 3,
            short: 0,
            available_percent: Some(Percent::new(50.0)),
            settings: vec![DifferingSetting {
                setting: "vm.swappiness".to_owned(),
                values: vec![value("60", 2, &["web-1", "web-2"]), value("10", 1, &["web-3"])],
            }],
            outliers: vec![Outlier {
                machine: name("web-3"),
                measure: OutlierMeasure::Available,
                percent: Percent::new(3.0),
                median_percent: Percent::new(50.0),
            }],
        }],
        compression: FleetCompression {
            storing_machines: 2,
            stored_bytes: saved(6),
            pool_bytes: saved(2),
            without_machines: 1,
            inactive_bytes: saved(4),
            ratio_machines: 5,
            saved_bytes: Some(WithInterval { value: saved(3), low: saved(2), high: saved(4) }),
        },
        limits: Some(FleetLimits { machines: 3, sums }),
        huge_pages: FleetHugePages { machines: 3, anon_bytes: saved(9), huge_bytes: saved(3) },
        unread: vec![UnreadMachine { file: name("x.json"), why: "no JSON".to_owned() }],
        unread_files: 1,
        older_readings: 1,
    }
}

fn limits() -> LimitSurvey {
    let known = WorkingSet {
        group: "/system.slice/db.service".into(),
        current: size("/c", 4096),
        peak: size("/p", 8192),
        limit: Reading::found(Limit::Max, Source::file("/m")),
        headroom: Some(Bytes::new(1)),
        swap: size("/s", 0),
        refaults_per_second: Some(1.5),
        waited: Reading::found(Percent::new(2.0), Source::line("/w", 1)),
        max_events: Reading::found(3, Source::line("/e", 3)),
        oom_kills: Reading::found(0, Source::line("/e", 5)),
        unevictable: size("/u", 0),
        idle: Some(IdleMemory {
            method: IdleMethod::AccessedBits,
            seconds: Some(30.0),
            anon: Some(Bytes::new(1024)),
            file: Bytes::new(0),
            left_out: "1 process".to_owned(),
        }),
        hot: Some(Bytes::new(3072)),
        advice: advice(LimitVerdict::CouldBe, Some(Confidence::Medium)),
    };
    let denied = Reading::denied("run as root", Source::file("/c"));
    let unknown = WorkingSet {
        current: denied,
        peak: Reading::absent("no such file", Source::file("/p")),
        headroom: None,
        refaults_per_second: None,
        idle: None,
        hot: None,
        advice: LimitAdvice { size: None, ..advice(LimitVerdict::NotKnown, None) },
        ..known.clone()
    };
    let process = ProcessUse {
        pid: 4121,
        name: "postgres".into(),
        resident: None,
        swap: size("/s", 0),
        locked: size("/l", 0),
        idle: Some(Bytes::new(1024)),
    };
    let watched = Some(WatchCost { processes: 1, seconds: 30.0, ..WatchCost::default() });
    let unknown_why = vec!["idle times by generations: no".to_owned()];
    LimitSurvey {
        groups: vec![known, unknown],
        processes: vec![process],
        left_out: 0,
        unknown: unknown_why,
        watched,
    }
}

fn size(path: &str, bytes: u64) -> Reading<Bytes> {
    Reading::found(Bytes::new(bytes), Source::file(path))
}

fn advice(verdict: LimitVerdict, confidence: Option<Confidence>) -> LimitAdvice {
    let (reasons, commands) = (vec!["because".to_owned()], vec!["echo 1M".to_owned()]);
    LimitAdvice { verdict, size: Some(Bytes::new(1 << 20)), confidence, reasons, commands }
}

/// A row of each kind.
fn comparison() -> Comparison {
    let size = |bytes| Reading::found(Bytes::new(bytes), Source::line("/proc/meminfo", 3));
    Comparison {
        relation: Relation::SameBoot,
        reasons: vec!["both have the same boot id".to_owned()],
        seconds: Some(60.0),
        settings: vec![SettingChange {
            name: "vm.swappiness".to_owned(),
            instance: None,
            from: Some("60".into()),
            to: None,
        }],
        memory: vec![SizeChange { name: "free", before: size(1), after: size(2) }],
        activity: vec![ActivityChange {
            name: "swapped in",
            counters: &["pswpin"],
            unit: ActivityUnit::Pages,
            page_bytes: Some(Bytes::new(4096)),
            before: Some(1.0),
            after: None,
            between: Some(0.5),
            between_count: Some(30),
            since_boot: Some([1.0, 2.0]),
        }],
        ..Comparison::default()
    }
}

fn document(noun: Noun, interval: &Interval, findings: &[Finding]) -> Value {
    let owners = host::owners();
    let answer = Answer {
        interval,
        verdict: host::verdict(),
        findings,
        hidden: 0,
        owners: &owners,
        estimates: &[],
        cost: host::cost(),
    };
    let text = match noun {
        Noun::Report => json::report(&answer),
        Noun::Status => json::status(&answer),
        Noun::Doctor => json::doctor(&answer),
        Noun::Oom => {
            let (explained, log) = (killed::explained(), &interval.end.kernel_log);
            let about = pagewise_model::LogText { lines: 3, boots: 1, ..Default::default() };
            let text = pagewise_report::OomText { about: &about, found: killed::found(&explained) };
            json::oom_text(log, &text, &interval.end, host::cost())
        }
        Noun::Pin => json::pin(&pinned(), &interval.end, host::cost()),
        Noun::Capabilities => json::capabilities(&interval.end, host::cost()),
        Noun::Explain => json::explain(&explanation(), &interval.end, host::cost()),
        Noun::Compare => json::compare(&comparison(), &interval.end, host::cost()),
        Noun::Limits => json::limits(&limits(), &interval.end, host::cost()),
        Noun::Fleet => json::fleet(&fleet(), host::cost()),
        Noun::Why => json::why(&incident(), &interval.end, host::cost()),
        Noun::Scan => json::scan(&scanned(&interval.end, &estimates())),
        Noun::Bench => {
            let (snapshot, benchmark) = (&interval.end, &bench::with_zswap());
            json::bench(&Benched { snapshot, benchmark, cost: host::cost() })
        }
        Noun::Trial => json::trial(&tried(&interval.end, &trial::trial(), &trial::runs())),
        Noun::Knobs => json::settable_knobs(
            &pagewise_model::list_settable(&interval.end.knobs),
            &interval.end,
            host::cost(),
        ),
        Noun::Lab => json::lab(&experimented(&interval.end, &[cell(&interval.end)])),
        Noun::Thp => json::thp(&huge::seen(interval, &[huge::looked()], &huge::walks())),
        Noun::Collapse => json::collapse(&huge::collapsed(&interval.end, &huge::collapse())),
        Noun::Agent => json::agent(&agent::report(), &interval.end, host::cost()),
        Noun::Age => json::age(&age::report(), &interval.end, host::cost()),
        Noun::Merge => json::merge(&merge::merged(&interval.end, &merge::merge())),
        Noun::Plan => json::plan(&plan::planned(&interval.end, &plan::plan())),
        Noun::Apply => {
            let applied = plan::gains::applied();
            json::apply(&done(
                &interval.end,
                ApplyOutcome::Applied { plan: "0", applied: &applied },
            ))
        }
        Noun::Verify => json::verify(&VerifiedPlans {
            snapshot: &interval.end,
            plans: &plan::gains::verified(),
            unbelieved: &[UnbelievedJournal {
                journal: "/var/lib/pagewise/00000001.0-0.plan".to_owned(),
                id: "1".to_owned(),
                why: "line 3 is damaged".to_owned(),
            }],
            ledger: &LedgerUpdate { added: 4, not_added: None },
            cost: host::cost(),
        }),
        Noun::Tune => {
            let ledger = LedgerUpdate { added: 4, not_added: None };
            let verified = plan::gains::verified();
            let trial = Some(tune_trial(&verified, &ledger, &[]));
            json::tuned_plan_json(&tuned(&interval.end, &plan::plan(), trial))
        }
        Noun::Ledger => json::ledger(&LedgerReport {
            snapshot: &interval.end,
            ledger: &plan::gains::ledger(),
            cost: host::cost(),
        }),
        Noun::Undo => json::undo(&UndoReport {
            snapshot: &interval.end,
            runs: &plan::gains::recovered(),
            plans: &plan::gains::in_force(),
            cost: host::cost(),
        }),
        Noun::Restrain => json::restrain(&huge::restrained(&interval.end, &huge::restrain())),
    };
    serde_json::from_str(&text).expect("a document is JSON")
}

fn done<'a>(snapshot: &'a Snapshot, outcome: ApplyOutcome<'a>) -> AppliedPlan<'a> {
    AppliedPlan { snapshot, outcome, cost: host::cost() }
}

fn scanned<'a>(snapshot: &'a Snapshot, estimates: &'a [Estimate]) -> ScanReport<'a> {
    ScanReport { snapshot, estimates, effective: None, notes: &[], cost: host::cost() }
}

fn cell(snapshot: &Snapshot) -> CellTried<'_> {
    let (trial, runs) = (Box::leak(Box::new(trial::trial())), trial::runs().leak());
    CellTried { name: "trixie-320M", snapshot, trouble: Some("the kernel panicked"), trial, runs }
}

fn experimented<'a>(snapshot: &'a Snapshot, cells: &'a [CellTried<'a>]) -> Experimented<'a> {
    let (name, about, claim) = ("coldpages", "what is asked", Some("what was published"));
    let stopped = Some("only 1 of 2 cells were run to their end");
    Experimented {
        snapshot,
        name,
        about,
        claim,
        preview: false,
        stopped,
        cells,
        cost: host::cost(),
    }
}

fn tried<'a>(
    snapshot: &'a Snapshot,
    trial: &'a pagewise_model::Trial,
    runs: &'a [pagewise_model::TrialRun],
) -> TrialReport<'a> {
    TrialReport { name: None, snapshot, trial, runs, evidence: None, cost: host::cost() }
}

fn valid(noun: Noun, document: &Value) -> Result<(), String> {
    let mut compiler = Compiler::new();
    let text: Value = serde_json::from_str(&schema(noun)).expect("a schema is JSON");
    compiler.add_resource("schema.json", text).expect("a fresh name");
    let mut schemas = Schemas::new();
    let index = compiler.compile("schema.json", &mut schemas).expect("a schema that is valid");
    schemas.validate(document, index).map_err(|error| error.to_string())
}

#[test]
fn documents_obey_their_schemas() {
    let rich = host::interval();
    let empty = Interval::single(Snapshot::default());
    for noun in Noun::ALL {
        valid(noun, &document(noun, &rich, &[vec![host::waiting()], host::findings()].concat()))
            .unwrap();
        valid(noun, &document(noun, &empty, &[])).unwrap();
    }
}

#[test]
fn a_plan_is_applied_refused_or_confirmed_and_a_gain_measured_or_not() {
    let host = host::interval().end;
    let complaints = plan::gains::complaints();
    for (outcome, key) in [
        (ApplyOutcome::Refused { plan: "0", complaints: &complaints }, "refused"),
        (ApplyOutcome::Confirmed { id: "3" }, "confirmed"),
    ] {
        let document: Value = serde_json::from_str(&json::apply(&done(&host, outcome))).unwrap();
        valid(Noun::Apply, &document).unwrap();
        let keys = ["applied", "refused", "confirmed"].map(|it| document.get(it).is_some());
        assert_eq!(keys.iter().filter(|it| **it).count(), 1, "{document:#}");
        assert!(document.get(key).is_some());
    }
    let verified = document(Noun::Verify, &host::interval(), &[]);
    let gains = &verified["plans"][0]["gains"];
    assert_eq!((&gains[0]["state"], &gains[0]["hit"]), (&json!("measured"), &json!(true)));
    assert_eq!((&gains[1]["state"], gains[1].get("hit")), (&json!("not-measured"), None));
    let ledger = document(Noun::Ledger, &host::interval(), &[]);
    let entry = ledger["entries"][0].as_object().unwrap();
    for key in ["plan", "metric", "predicted", "interval", "measured", "hit", "evidence"] {
        assert!(entry.contains_key(key), "{key}");
    }
    let rates = (&ledger["estimates"]["hits"], &ledger["estimates"]["predictions"]);
    assert_eq!(rates, (&json!(1), &json!(1)), "the later measurement counts");
    let exact = (&ledger["exact"]["hits"], &ledger["exact"]["predictions"]);
    assert_eq!(exact, (&json!(0), &json!(1)), "only what could fail is a prediction");
    assert_eq!(ledger["set_by_step"]["share"], json!(1.0 / 2.0));
}

fn tuned<'a>(
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    trial: Option<TuneTrial<'a>>,
) -> TunedPlan<'a> {
    TunedPlan { snapshot, plan, before: host::verdict(), trial, cost: host::cost() }
}

fn tune_trial<'a>(
    verified: &'a [Verified],
    ledger: &'a LedgerUpdate,
    against: &'a [String],
) -> TuneTrial<'a> {
    let (after, judgement) = (host::verdict(), plan::gains::judgement());
    TuneTrial { journal: "3", against, judgement, after, verified, ledger }
}

#[test]
fn a_tuned_plan_is_kept_undone_or_empty() {
    let (host, plan, verified) = (host::interval().end, plan::plan(), plan::gains::verified());
    let (ledger, why) = (LedgerUpdate::default(), ["it became worse".to_owned()]);
    for (trial, kept) in [
        (None, Value::Null),
        (Some(tune_trial(&verified, &ledger, &[])), json!(true)),
        (Some(tune_trial(&verified, &ledger, &why)), json!(false)),
    ] {
        let document = json::tuned_plan_json(&tuned(&host, &plan, trial));
        let document: Value = serde_json::from_str(&document).unwrap();
        valid(Noun::Tune, &document).unwrap();
        assert_eq!(document["kept"], kept);
    }
}

#[test]
fn the_schemas_refuse_what_they_should() {
    let good = document(Noun::Report, &host::interval(), &host::findings());
    let spoiled = |path: &str, value: Value| {
        let mut document = good.clone();
        *document.pointer_mut(path).unwrap() = value;
        valid(Noun::Report, &document)
    };
    assert!(spoiled("/schema", json!("pagewise/report/2")).is_err());
    assert!(spoiled("/memory/total/value", json!("62.8 GiB")).is_err());
    assert!(spoiled("/memory/total", json!({})).is_err());
    assert!(spoiled("/findings/0/severity", json!("bad")).is_err());
    assert!(spoiled("/memory/total", json!({"absent": "no such file"})).is_ok());
}

#[test]
fn sizes_are_bytes_and_say_where_they_stand() {
    let report = document(Noun::Report, &host::interval(), &[]);
    let total = json!({"value": 628 * host::GIB / 10, "unit": "bytes", "at": "/proc/meminfo:1"});
    assert_eq!(report["memory"]["total"], total);
    assert_eq!(report["cgroups"]["groups"][2]["max"]["value"], json!(4 * host::GIB));
    assert_eq!(report["cgroups"]["groups"][1]["max"]["value"], json!("max"));
    assert_eq!(report["zones"][2]["low_pages"]["unit"], json!("pages"));
    assert_eq!(report["cost"]["peak_memory_bytes"], json!(11_744_051));
}

#[test]
fn absent_and_denied_are_not_zero() {
    let report = document(Noun::Report, &host::interval(), &[]);
    let systemd = &report["processes"]["list"][0]["proportional"];
    assert_eq!(systemd, &json!({"denied": "run as root", "at": "/proc/1/status"}));
    assert_eq!(report["damon"]["kdamonds"]["absent"], json!("no such file"));
    assert_eq!(report["zram"][0]["bd_stat"]["held"], json!({"absent": "not read"}));
}

#[test]
fn every_document_says_when_where_and_at_what_cost() {
    for noun in Noun::ALL {
        let document = document(noun, &host::interval(), &[]);
        assert_eq!(document["schema"], json!(format!("pagewise/{}/1", noun.name())));
        if noun == Noun::Fleet {
            // it is about no single host
            assert_eq!(
                (&document["time"], &document["host"]["cpus"]["value"]),
                (&Value::Null, &Value::Null)
            );
            continue;
        }
        assert_eq!(document["time"], json!("2026-11-20T14:02:34.25Z"));
        assert_eq!(document["kernel"]["value"], json!("6.12.107"));
        assert_eq!(document["host"]["cpus"]["value"], json!(16));
        assert_eq!(document["pagewise"], json!(env!("CARGO_PKG_VERSION")));
    }
    let empty = Interval::single(Snapshot::default());
    let answer = Answer {
        interval: &empty,
        verdict: host::verdict(),
        findings: &[],
        hidden: 0,
        owners: &[],
        estimates: &[],
        cost: Cost::default(),
    };
    let document: Value = serde_json::from_str(&json::doctor(&answer)).unwrap();
    assert_eq!((&document["time"], &document["findings"]), (&Value::Null, &json!([])));
}

#[test]
fn findings_are_in_report_and_doctor_and_rates_only_between_two_ends() {
    let of = |noun| document(noun, &host::interval(), &host::findings());
    let finding = &of(Noun::Doctor)["findings"][1];
    assert_eq!(finding["severity"], json!("warning"));
    assert_eq!(finding["evidence"][1]["line"], Value::Null);
    assert_eq!(&of(Noun::Report)["findings"][1], finding);
    assert_eq!(of(Noun::Status).get("findings"), None);

    let changes = &of(Noun::Status)["interval"]["changes"];
    assert_eq!(changes["workingset_refault_file"], json!(78_112.0));
    assert_eq!(changes.get("pswpout"), None, "it did not move");
    let single = Interval::single(host::interval().end);
    assert_eq!(document(Noun::Status, &single, &[]).get("interval"), None);
}

#[test]
fn kills_are_facts_everywhere_and_sentences_where_they_were_asked_for() {
    let interval = host::interval();
    let of = |noun| document(noun, &interval, &[]);
    let kill = &of(Noun::Report)["oom_kills"]["kills"][0];
    assert_eq!((&kill["at"], &kill["constraint"]), (&json!("/dev/kmsg:17611"), &json!("cgroup")));
    assert_eq!(kill["victim"]["anon"], json!(41 * host::MIB));
    assert_eq!((&kill["host"], &kill["group_memory"]["kernel"]), (&Value::Null, &Value::Null));
    assert_eq!(&of(Noun::Status)["oom_kills"]["kills"][0], kill);
    assert_eq!(of(Noun::Doctor).get("oom_kills"), None);
    let answer = Answer {
        interval: &interval,
        verdict: host::verdict(),
        findings: &[],
        hidden: 0,
        owners: &[],
        estimates: &[],
        cost: host::cost(),
    };
    let text = json::oom(&answer, &killed::found(&killed::explained()), &killed::elsewhere());
    let document: Value = serde_json::from_str(&text).unwrap();
    valid(Noun::Doctor, &document).unwrap();
    assert_eq!(&document["oom_kills"]["kills"][0], kill);
    assert_eq!(document["oom_explained"][0]["facts"][2]["label"], json!("why no swap"));
    let mut interval = host::interval();
    interval.end.kernel_log.records = host::denied("/dev/kmsg");
    let answer = Answer { interval: &interval, ..answer };
    let document: Value =
        serde_json::from_str(&json::oom(&answer, &OomFound::default(), &[])).unwrap();
    valid(Noun::Doctor, &document).unwrap();
    assert_eq!(document["oom_kills"]["records"]["denied"], json!("run as root"));
}

#[test]
fn an_estimate_has_the_keys_that_others_rely_on() {
    let scan = document(Noun::Scan, &host::interval(), &[]);
    let estimate = &scan["estimates"][0];
    assert_eq!(estimate["source"], json!({"kind": "process", "name": "redis-server", "pid": 4121}));
    assert_eq!(
        (&estimate["pages"], &estimate["sampled_pages"]),
        (&json!(3_722_304), &json!(20_000))
    );
    assert!(estimate["duplicate_pages"]["absent"].is_string());
    assert_eq!(estimate["duplicate_pages_exact"], json!(false));
    let lz4 = &estimate["algorithms"][0];
    assert_eq!((&lz4["name"], &lz4["kernel"]), (&json!("lz4"), &json!("this kernel")));
    assert_eq!(lz4["original_per_compressed_interval"], json!([2.78, 2.82]));
    assert!(lz4["memory_used_bytes"].as_u64() > lz4["compressed_bytes"].as_u64());
}

#[test]
fn a_trial_has_the_keys_that_others_rely_on() {
    let document = document(Noun::Trial, &host::interval(), &[]);
    assert_eq!((&document["verdict"], &document["primary"]), (&json!("worse"), &json!("time")));
    assert_eq!(document["pairs"], json!(9));
    let time = &document["metrics"][0];
    assert_eq!((&time["name"], &time["unit"]), (&json!("time"), &json!("seconds")));
    assert_eq!((&time["b_per_a"], &time["interval"]), (&json!(1.061), &json!([1.04, 1.083])));
    assert_eq!(document["runs"].as_array().map(Vec::len), Some(19));
    assert_eq!(document["runs"][18]["how"], json!("out_of_memory"));
}

#[test]
fn a_trial_with_several_arms_obeys_its_schema() {
    let (interval, trial, runs) = (host::interval(), trial::wide::trial(), trial::wide::runs());
    let text = json::trial(&tried(&interval.end, &trial, &runs));
    let document: Value = serde_json::from_str(&text).expect("a document is JSON");
    valid(Noun::Trial, &document).unwrap();
    assert_eq!(document["arms"][0]["swap"][0]["algorithm"], json!("lz4"));
    assert_eq!(document["arms"][4]["swap"], json!([]));
    assert_eq!(document["dropped"][0]["failed_runs"], json!(3));
    assert_eq!(document["runs"][0]["course"]["settled_at"], json!(4));
    assert_eq!(document["clock"], json!("real"));
}

/// A process from which a sample was read.
fn estimates() -> Vec<Estimate> {
    let lz4 = AlgorithmEstimate {
        name: "lz4".into(),
        level: None,
        kernel: "this kernel".into(),
        compressed_bytes: Bytes::new(492 * host::GIB / 100),
        compressed_bytes_interval: [489, 495]
            .map(|hundredths| Bytes::new(hundredths * host::GIB / 100)),
        huge_pages: 126_558,
        huge_pages_interval: [110_000, 140_000],
        memory_used_bytes: Bytes::new(507 * host::GIB / 100),
        memory_used_interval: [504, 510].map(|hundredths| Bytes::new(hundredths * host::GIB / 100)),
        memory_in_pool_bytes: Bytes::new(506 * host::GIB / 100),
        memory_used_worn_bytes: Bytes::new(520 * host::GIB / 100),
        slot_table_bytes: Bytes::new(3_722_304 * 16),
        original_per_compressed: Some(2.80),
        original_per_compressed_interval: Some([2.78, 2.82]),
        original_per_memory_used: Some(2.7),
    };
    let unknown = "a sample cannot tell: --exact looks at every page";
    vec![Estimate {
        source: EstimateSource {
            kind: "process".into(),
            name: "redis-server".into(),
            pid: Some(4121),
        },
        page_bytes: Bytes::new(4096),
        pages: 3_722_304,
        pages_interval: [3_722_304; 2],
        mapped_pages: 3_722_304,
        sampled_pages: 20_000,
        sized_pages: 20_000,
        swapped_pages: 70_000,
        partial: None,
        zero_pages: 30_000,
        zero_pages_interval: [25_000, 35_000],
        same_filled_pages: 44_668,
        same_filled_pages_interval: [40_000, 49_000],
        duplicate_pages: Reading::absent(unknown, Source::none()),
        duplicate_pages_exact: false,
        duplicate_pages_interval: None,
        duplicate_pages_within: Reading::absent(unknown, Source::none()),
        duplicate_saved_bytes: Reading::absent(unknown, Source::none()),
        duplicate_saved_bytes_interval: None,
        ksm_saved_bytes: Reading::absent(unknown, Source::none()),
        most_repeated: None,
        algorithms: vec![lz4],
        huge: HugeView {
            mapped_pages: Reading::found(1_000_000, Source::none()),
            zero_pages: Reading::found(5_000, Source::none()),
            collapsible_ranges: Reading::absent(unknown, Source::none()),
        },
        cold: Reading::absent("not measured", Source::none()),
        disturbed: Disturbed { referenced_pages: 20_000, unshared_pages: 0, faults: 0 },
    }]
}

#[test]
fn processes_that_changed_have_rates() {
    let document = document(Noun::Report, &host::interval(), &[]);
    let rates = document["interval"]["processes"].as_array().unwrap();
    let lines: Vec<(u64, f64, f64)> = rates
        .iter()
        .map(|rate| {
            let number = |key: &str| rate[key].as_f64().unwrap();
            (rate["pid"].as_u64().unwrap(), number("growth_bytes"), number("swap_bytes"))
        })
        .collect();
    let mib = |mib: u32| f64::from(mib << 20);
    assert_eq!(lines, [(4121, mib(24), mib(24)), (5010, mib(50), 0.0)]);
}
