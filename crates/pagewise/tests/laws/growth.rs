// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ten times the input costs at most twelve times the work, in readers, in each rule and in each
//! output.
//!
//! One kind of thing after the other is added to a recorded host in two numbers, and the additional
//! work is compared. Work is counted in instructions, so that other load does not matter. If
//! instructions cannot be counted, CPU time is used with a higher limit, which only finds quadratic
//! growth, and the minimum of several measurements decides.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::scene::Scene;
use pagewise_decide::{RULES, diagnose, judge};
use pagewise_model::{Cost, Interval};
use pagewise_report::text::TextStyle;
use pagewise_report::view::View;
use pagewise_report::{Answer, json, text};
use pagewise_testkit::Work;

const HOST: &str = "debian-trixie-6.12-x86_64-512m-settings";

static BARE: LazyLock<Scene> = LazyLock::new(|| Scene::load(HOST));

/// Something that a host can have many of.
struct Kind {
    name: &'static str,
    /// The smaller number; the larger one is ten times as many.
    few: usize,
    /// Adds this many of them to the host.
    with: fn(Scene, usize) -> Scene,
}

const KINDS: &[Kind] = &[
    Kind { name: "swaps", few: 500, with: swaps },
    Kind { name: "swaps behind device mapper", few: 300, with: mapped },
    Kind { name: "zram devices", few: 400, with: zram },
    Kind { name: "bytes of backing_dev", few: 50_000, with: backing_dev },
    Kind { name: "processes", few: 300, with: processes },
    Kind { name: "processes that differ", few: 300, with: different_processes },
    Kind { name: "cgroups", few: 200, with: cgroups },
    Kind { name: "mounts", few: 1000, with: mounts },
    Kind { name: "file systems in memory", few: 1000, with: in_memory },
    Kind { name: "deleted files", few: 500, with: deleted },
    Kind { name: "kills in the kernel log", few: 100, with: kills },
    Kind { name: "kills in journald's files", few: 100, with: journal },
    Kind { name: "lines of the kernel log", few: 2000, with: log },
    Kind { name: "counters of vmstat", few: 2000, with: vmstat },
    Kind { name: "fields of meminfo", few: 2000, with: meminfo },
    Kind { name: "zones of buddyinfo", few: 300, with: buddyinfo },
    Kind { name: "zones of zoneinfo", few: 100, with: zoneinfo },
    Kind { name: "lines that nobody understands", few: 3000, with: garbage },
    Kind { name: "settings in sysctl.conf", few: 300, with: sysctls },
];

fn lines(of: usize, line: impl Fn(usize) -> String) -> String {
    (0..of).map(|at| line(at) + "\n").collect()
}

fn each(of: usize, scene: Scene, add: impl Fn(Scene, usize) -> Scene) -> Scene {
    (0..of).fold(scene, add)
}

fn swaps(scene: Scene, many: usize) -> Scene {
    let kinds = ["/dev/sda{} partition", "/dev/zram{} partition", "/swap/{} file"];
    let line = |at: usize| {
        let area = kinds[at % 3].replace("{}", &at.to_string());
        format!("{area} 1048572 {} {}", at % 1000, at % 7)
    };
    scene.file("proc/swaps", format!("Filename Type Size Used Priority\n{}", lines(many, line)))
}

fn mapped(scene: Scene, many: usize) -> Scene {
    let line = |at: usize| format!("/dev/mapper/vg-{at} partition 1048572 512 -2");
    let scene = scene.file("proc/swaps", lines(many, line));
    each(many, scene, |scene, at| {
        scene.file(&format!("sys/block/dm-{at}/dm/name"), format!("vg-{at}\n"))
    })
}

fn zram(scene: Scene, many: usize) -> Scene {
    each(many, scene, |scene, at| {
        let file = |name: &str| format!("sys/block/zram{at}/{name}");
        scene
            .file(&file("initstate"), "1\n")
            .file(&file("disksize"), "1073741824\n")
            .file(&file("comp_algorithm"), "lzo [lz4] zstd\n")
            .file(&file("mm_stat"), "4096000 1000000 1100000 0 1200000 7 0 9 9\n")
    })
}

fn backing_dev(scene: Scene, many: usize) -> Scene {
    zram(scene, 1).file("sys/block/zram0/backing_dev", "\x1b]\u{202e}".repeat(many / 5))
}

fn processes(scene: Scene, many: usize) -> Scene {
    const FILES: [&str; 4] = ["status", "stat", "cgroup", "smaps_rollup"];
    let texts = FILES.map(|file| scene.text("end", &format!("proc/1/{file}")).unwrap().to_owned());
    each(many, scene, |scene, at| {
        let files = FILES.iter().zip(&texts);
        files.fold(scene, |scene, (file, text)| {
            scene.file(&format!("proc/{}/{file}", 10_000 + at), text)
        })
    })
}

/// Adds processes with names, owners, cgroups and sizes of their own, half of them with swap, which
/// have grown since the earlier reading.
fn different_processes(scene: Scene, many: usize) -> Scene {
    each(many, scene, |scene, at| {
        let pid = 10_000 + at;
        let file = |name: &str| format!("proc/{pid}/{name}");
        let (anon, swap) = (1000 + at * 7919 % 9000, at % 2 * 400);
        let status = format!(
            "Name:\tworker-{at}\nUid:\t{pid}\t{pid}\t{pid}\t{pid}\nVmSize:\t90000 kB\nVmHWM:\t{} kB\n\
             VmRSS:\t{} kB\nRssAnon:\t{anon} kB\nRssFile:\t500 kB\nRssShmem:\t0 kB\nVmSwap:\t{swap} kB\n",
            anon + 600,
            anon + 500
        );
        scene
            .file(&file("status"), status)
            .file(&file("stat"), format!("{pid} (worker-{at}) S 1{}\n", " 7".repeat(40)))
            .file(&file("statm"), format!("22500 {} 125 0 0 0 0\n", anon / 4 + 100))
            .file(&file("cgroup"), format!("0::/many.slice/worker-{at}.service\n"))
            .file(
                &file("smaps_rollup"),
                format!("Rss: {} kB\nPss: {} kB\n", anon + 500, anon + 100),
            )
    })
}

fn cgroups(scene: Scene, many: usize) -> Scene {
    each(many, scene, |scene, at| {
        let file = |name: &str| format!("sys/fs/cgroup/many.slice/a{}/b{at}/{name}", at % 20);
        scene
            .file(&file("memory.current"), format!("{}\n", at * 4096))
            .file(&file("memory.max"), "max\n")
            .file(&file("memory.swap.current"), "8192\n")
            .file(&file("memory.stat"), "anon 4096\nfile 8192\n")
    })
}

fn mounts(scene: Scene, many: usize) -> Scene {
    let line = |at: usize| format!("{at} 1 254:{at} / /mnt/{at} rw - ext4 /dev/vda{at} rw");
    let scene = zram(swaps(scene, 60), 60);
    scene.file("proc/self/mountinfo", lines(many, line))
}

fn in_memory(scene: Scene, many: usize) -> Scene {
    let line = |at: usize| format!("{at} 1 0:{at} / /mnt/{at} rw - tmpfs tmpfs rw");
    let scene = each(many.min(600), scene, |scene, at| {
        scene.file(&format!("statfs/0:{at}"), format!("4096 9000 {at} 1\n"))
    });
    scene.file("proc/self/mountinfo", lines(many, line))
}

fn deleted(scene: Scene, many: usize) -> Scene {
    let scene = scene.line("proc/meminfo", "Shmem:", "Shmem:           100000 kB");
    scene.file("proc/1/fd", lines(many, |at| format!("{at} tmpfs 24 {at} 4096")))
}

fn kills(scene: Scene, many: usize) -> Scene {
    let one = "4,1,1000,-;a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n\
        6,2,1001,-;memory: usage 65536kB, limit 65536kB, failcnt 19\n\
        6,3,1002,-;[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name\n\
        6,4,1003,-;[  7]     0     7     2190      310    57344        0             0 a\n\
        6,5,1004,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/g,task_memcg=/g,task=a,pid=7,uid=0\n\
        3,6,1005,-;Memory cgroup out of memory: Killed process 7 (a) total-vm:8760kB, anon-rss:124kB, file-rss:1116kB, shmem-rss:0kB, UID:0 pgtables:56kB oom_score_adj:0\n";
    scene.file("dev/kmsg", one.repeat(many))
}

/// Adds journals, each of a different boot.
fn journal(scene: Scene, many: usize) -> Scene {
    let one = |at: usize| {
        format!(
            "boot={at:x} clock_zero={at}\n\
             3,6,1005,-;Memory cgroup out of memory: Killed process {at} (a) total-vm:8760kB, anon-rss:124kB, file-rss:1116kB, shmem-rss:0kB, UID:0 pgtables:56kB oom_score_adj:0"
        )
    };
    scene
        .file("journal/kernel", format!("journal files=1 left_out=0 since=1\n{}", lines(many, one)))
}

fn log(scene: Scene, many: usize) -> Scene {
    scene.file("dev/kmsg", lines(many, |at| format!("6,{at},{at},-;usb 1-1: new device {at}")))
}

fn vmstat(scene: Scene, many: usize) -> Scene {
    let text = scene.text("end", "proc/vmstat").unwrap().to_owned();
    scene.file("proc/vmstat", text + &lines(many, |at| format!("nr_made_up_{at} {at}")))
}

fn meminfo(scene: Scene, many: usize) -> Scene {
    let text = scene.text("end", "proc/meminfo").unwrap().to_owned();
    scene.file("proc/meminfo", text + &lines(many, |at| format!("MadeUp{at}: {at} kB")))
}

fn buddyinfo(scene: Scene, many: usize) -> Scene {
    let line = |at: usize| format!("Node {at}, zone Normal 1 2 3 4 5 6 7 8 9 0 1");
    scene.file("proc/buddyinfo", lines(many, line))
}

fn zoneinfo(scene: Scene, many: usize) -> Scene {
    let zone = "\n  pages free     3840\n        boost    0\n        min      44\n        low      55\n        \
        high     66\n        spanned  4095\n        present  3998\n        managed  3840\n        \
        protection: (0, 2, 3)\n      nr_free_pages 3840";
    scene.file("proc/zoneinfo", lines(many, |at| format!("Node {at}, zone Normal{zone}")))
}

fn garbage(scene: Scene, many: usize) -> Scene {
    let line = |at: usize| format!("\u{202e}[{at}] not \x1b[2J a line");
    let paths = ["proc/swaps", "proc/self/mountinfo", "proc/vmstat", "proc/zoneinfo", "dev/kmsg"];
    paths.iter().fold(scene, |scene, path| scene.file(path, lines(many, line)))
}

fn sysctls(scene: Scene, many: usize) -> Scene {
    scene.file("etc/sysctl.conf", lines(many, |at| format!("vm.swappiness = {}", at % 200)))
}

/// The work of each stage: readers first, then rules, then outputs.
fn stages(work: &mut Work, scene: &Scene) -> Vec<(String, u64)> {
    let (readers, interval) = work.measure(|| scene.replay());
    let mut stages = vec![("readers".to_owned(), readers)];
    for rule in RULES {
        let (cost, _) = work.measure(|| (rule.diagnose)(&interval));
        stages.push((format!("rule {}", rule.id), cost));
    }
    stages.push(("text".to_owned(), work.measure(|| printed(&interval, page)).0));
    stages.push(("html".to_owned(), work.measure(|| printed(&interval, web_page)).0));
    stages.push(("json".to_owned(), work.measure(|| printed(&interval, json::report)).0));
    stages
}

fn web_page(answer: &Answer<'_>) -> String {
    pagewise_html::report_page(answer, &View::default())
}

fn page(answer: &Answer<'_>) -> String {
    text::report(answer, TextStyle { width: 100, colour: false })
}

fn printed(interval: &Interval, print: fn(&Answer<'_>) -> String) -> String {
    let (findings, verdict) = (diagnose(interval), judge(interval));
    let cost = Cost::default();
    let answer = Answer {
        interval,
        verdict: &verdict,
        findings: &findings,
        hidden: 0,
        owners: &[],
        estimates: &[],
        cost,
    };
    print(&answer)
}

/// Maximum number of measurements of a kind if time is used: the minimum of each stage counts,
/// because other load only adds time.
const ATTEMPTS: usize = 24;

/// The work of one stage with none, few, and ten times as many.
type Growth = [u64; 3];

/// Measures until `is_settled` accepts the stages that grow too much, by name.
fn outgrown(
    work: &mut Work,
    kind: &Kind,
    is_settled: impl Fn(&BTreeMap<String, String>) -> bool,
) -> BTreeMap<String, String> {
    let mut least = measure_growth(work, kind);
    let mut wrong = exceeding(&least, work.is_exact(), kind);
    for _ in 1..ATTEMPTS {
        if work.is_exact() || is_settled(&wrong) {
            break;
        }
        for (stage, growth) in measure_growth(work, kind) {
            least.entry(stage).and_modify(|least| {
                *least = std::array::from_fn(|at| least[at].min(growth[at]));
            });
        }
        wrong = exceeding(&least, work.is_exact(), kind);
    }
    wrong
}

fn measure_growth(work: &mut Work, kind: &Kind) -> BTreeMap<String, Growth> {
    let of = |many: usize| (kind.with)(BARE.clone(), many);
    let [none, few, many] = [0, kind.few, 10 * kind.few].map(|many| stages(work, &of(many)));
    let stages = none.into_iter().zip(few).zip(many);
    stages.map(|(((stage, none), (_, few)), (_, many))| (stage, [none, few, many])).collect()
}

/// The stages that grow by more than twelve times, or thirty if time is used.
///
/// `few` and `many` are differences to `none`, so the error of the measurement of `none` is an error
/// of `few`, and is multiplied with it. Instructions have nearly no error: only hash maps, which are
/// seeded anew in each run, make the same work differ a little. Of CPU time, even the minimum
/// of all attempts can be wrong by more than the whole work of `few`.
fn exceeding(
    growths: &BTreeMap<String, Growth>,
    is_exact: bool,
    kind: &Kind,
) -> BTreeMap<String, String> {
    let mut wrong = BTreeMap::new();
    for (stage, [none, few, many]) in growths {
        let (few, many) = (few.saturating_sub(*none), many.saturating_sub(*none));
        let limit = if is_exact {
            12 * few + none / 50 + 200_000
        } else {
            30 * (few + none / 10 + 300_000)
        };
        if many > limit {
            let numbers = format!(
                "{}: {stage}: {few} of {}, {many} of ten times (without any: {none})",
                kind.name, kind.few
            );
            wrong.insert(stage.clone(), numbers);
        }
    }
    wrong
}

#[test]
fn ten_times_the_input_is_at_most_twelve_times_the_work() {
    let mut work = Work::counter();
    let wrong =
        KINDS.iter().flat_map(|kind| outgrown(&mut work, kind, BTreeMap::is_empty).into_values());
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Beyond the limit, reading stops and the report says so.
#[test]
fn more_processes_than_are_read_are_stated() {
    let add = |scene: Scene, at: usize| {
        let status = format!("Name:\tworker\nVmSize:\t900 kB\nVmRSS:\t{} kB\n", 100 + at);
        scene.file_at("end", &format!("proc/{}/status", 10_000 + at), status)
    };
    let interval = each(12_500, BARE.clone(), add).replay();
    let processes = &interval.end.processes;
    assert!(processes.list.len() <= 12_000 && processes.left_out > 400, "{}", processes.left_out);
    let text = printed(&interval, page);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let read = processes.list.len() as u64;
    let [read, all] = [read, read + processes.left_out].map(pagewise_model::group_digits);
    assert!(
        words.contains(&format!("of {all} processes were read: those with the most")),
        "{text}"
    );
    let limit = format!("only the {read} with the most memory in RAM were read");
    assert!(words.contains(&limit), "{text}");
}

/// Tests the measurement itself: it must distinguish quadratic from linear growth.
#[test]
fn work_that_grows_as_the_square_is_found() {
    // Fewer lines than the limit at which a reader leaves some out.
    fn pairs(scene: Scene, many: usize) -> Scene {
        let line = |at: usize| lines(at, |_| format!("{at} 1 254:0 / /mnt rw - ext4 /dev/vda rw"));
        scene.file("proc/self/mountinfo", (0..many).map(line).collect::<String>())
    }
    let kind = Kind { name: "pairs", few: 40, with: pairs };
    let is_found = |wrong: &BTreeMap<String, String>| wrong.contains_key("readers");
    let wrong = outgrown(&mut Work::counter(), &kind, is_found);
    assert!(is_found(&wrong), "{wrong:?}");
}
