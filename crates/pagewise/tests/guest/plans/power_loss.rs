// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Power losses while plans are applied and undone: whichever writes reached the disk, each file
//! has its old or new contents, and `pagewise undo` restores the old ones.
//!
//! One guest applies and undoes plans. `/etc` and the folder of journals are on a small disk, and
//! QEMU logs all writes to it. The log is then replayed on this machine: each disk image that a
//! power loss can leave is repaired by e2fsck, read by debugfs, checked, and given to `pagewise
//! undo`. A second guest mounts some of these images unrepaired, so that its kernel replays the
//! file system's journal, and undoes the plans there.
//!
//! `cargo xtask power-loss` runs the same test with more images. Root is needed: `undo` creates
//! files owned by root.
//!
//! The plans contain only steps that write files: undoing others would change this machine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use pagewise_guest::cache::Cache;
use pagewise_guest::kernel;
use pagewise_guest::qemu::{Access, Disk, Guest, GuestEvent, Outcome, run};
use pagewise_testkit::finish;
use pagewise_testkit::power_loss::{
    FileSystem, Node, PowerLoss, Recording, Sampling, Tree, read_tree, replay,
};
use serde_json::{Value, json};

use crate::applied::{UNIT, file, plan, step};
use crate::boot::program;
use crate::caches;

/// Size of the file system in bytes; marks are written behind it.
const DISK: usize = 12 << 20;
/// Bytes behind the file system, for the mark.
const BEHIND: usize = 64 << 10;
/// How many images the second guest mounts.
const MOUNTED: usize = 20;

/// Contents of a file that exists before the plan, long enough for several blocks, so that a part
/// of it can be lost.
fn long(word: &str) -> String {
    format!("# {word} contents\nvm.swappiness = 60\n").repeat(200)
}

const OLD_GENERATOR: &str = "[zram0]\nzram-size = ram / 4\n";
const NEW_GENERATOR: &str = "[zram0]\nzram-size = ram / 2\ncompression-algorithm = zstd\n";
const EXISTING: &str = "/etc/sysctl.d/50-existing.conf";
const GENERATOR: &str = "/etc/systemd/zram-generator.conf";
/// A file that the test overwrites in place, to prove that the check notices damage.
const CARELESS: &str = "/etc/sysctl.d/60-careless.conf";

fn change(id: &str, target: &str, from: &str, to: &str) -> Value {
    step(id, json!({"action": "write-file", "target": target, "from": from, "to": to}))
}

fn link(id: &str, target: &str, to: &str) -> Value {
    step(id, json!({"action": "make-link", "target": target, "from": null, "to": to}))
}

/// The kinds of plans, and their steps.
fn kinds() -> [(&'static str, Vec<Value>); 3] {
    let settings = vec![
        file("sysctl", "/etc/sysctl.d/90-pagewise.conf", "vm.swappiness = 77\n"),
        change("existing", EXISTING, &long("old"), &long("entirely new")),
        file("tmpfiles", "/etc/tmpfiles.d/pagewise.conf", &"w /sys/x - - - - 1\n".repeat(300)),
        link("mask", "/etc/sysctl.d/10-other.conf", "/dev/null"),
    ];
    let units = "/etc/systemd/system";
    let zram = vec![
        file("module", "/etc/modules-load.d/pagewise.conf", "zram\n"),
        file("option", "/etc/modprobe.d/pagewise.conf", "options zram num_devices=1\n"),
        change("generator", GENERATOR, OLD_GENERATOR, NEW_GENERATOR),
        file("unit", &format!("{units}/pagewise-zram0.service"), UNIT),
        link(
            "enable",
            &format!("{units}/swap.target.wants/pagewise-zram0.service"),
            "../pagewise-zram0.service",
        ),
        file(
            "drop-in",
            &format!("{units}/system.slice.d/50-pagewise.conf"),
            "[Slice]\nMemoryLow=1M\n",
        ),
        file("rule", "/etc/udev/rules.d/99-pagewise.rules", "ACTION==\"add\", KERNEL==\"zram0\"\n"),
    ];
    // what `plan --want` writes for a swap file and huge pages, with the start scripts of other inits
    let start = format!(
        "#!/sbin/openrc-run\n{}",
        "# start() { swapon /var/pagewise-swap-0; }\n".repeat(200)
    );
    let wanted = vec![
        file("script", "/etc/init.d/pagewise", &start),
        link("boot", "/etc/runlevels/boot/pagewise", "/etc/init.d/pagewise"),
        link("start", "/etc/rcS.d/S99pagewise", "../init.d/pagewise"),
        file(
            "services",
            "/etc/runit/core-services/99-pagewise.sh",
            "swapon /var/pagewise-swap-0\n",
        ),
        file("thp", "/etc/tmpfiles.d/05-pagewise.conf", &"w /sys/x - - - - madvise\n".repeat(200)),
        file("swap", &format!("{units}/pagewise-swap.swap"), "[Swap]\nWhat=/var/pagewise-swap-0\n"),
        link(
            "wanted",
            &format!("{units}/swap.target.wants/pagewise-swap.swap"),
            "../pagewise-swap.swap",
        ),
    ];
    [("settings", settings), ("zram", zram), ("wanted", wanted)]
}

/// Creates the files that exist before, and applies and undoes each plan. A mark reaches QEMU's log
/// without a flush: before a direct read of a sector, the kernel writes its cached data for it.
const SCRIPT: &str = r#"
set -e
mark() {
    printf 'pagewise-mark %s' "$1" | dd of=/dev/vda bs=512 seek=24576 conv=notrunc,sync 2> /dev/null
    dd if=/dev/vda of=/dev/null bs=512 skip=24576 count=1 iflag=direct 2> /dev/null
}
mkdir -p /small /var/lib/pagewise
mount -t ext4 /dev/vda /small
mkdir -p /small/etc/sysctl.d /small/etc/systemd/system /small/etc/udev /small/state
mkdir -p /small/etc/runlevels/boot /small/etc/rcS.d /small/etc/runit
chmod 700 /small/state
cp /etc/* /small/etc
cp /opt/existing /small/etc/sysctl.d/50-existing.conf
cp /opt/careless /small/etc/sysctl.d/60-careless.conf
cp /opt/generator /small/etc/systemd/zram-generator.conf
chmod 755 /small/etc/runlevels /small/etc/runlevels/boot /small/etc/rcS.d /small/etc/runit
chmod 755 /small/etc /small/etc/sysctl.d /small/etc/systemd /small/etc/systemd/system /small/etc/udev
chmod 640 /small/etc/sysctl.d/50-existing.conf
echo 0123456789abcdef0123456789abcdef > /small/etc/machine-id
mount --bind /small/etc /etc
mount --bind /small/state /var/lib/pagewise
hash=$(printf 'pagewise machine-id %s' "$(cat /etc/machine-id)" | sha256sum | cut -c1-32)
total=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo) * 1024))
sed -i "s/HASH/$hash/; s/4711/$total/" /opt/settings.json /opt/zram.json /opt/wanted.json
sync
mark begin
for kind in settings zram wanted; do
    for time in 1 2; do
        mark "$kind applying $time"
        pagewise apply --yes --trust-commands --settle 0 /opt/$kind.json
        mark "$kind applied $time"
        # background writes of the kernel
        sleep $((time * 3))
        mark "$kind undoing $time"
        pagewise undo --all
        mark "$kind undone $time"
    done
    sync
    mark "$kind end"
done
mark "careless applying"
dd if=/opt/careless-new of=/etc/sysctl.d/60-careless.conf bs=64K conv=notrunc 2> /dev/null
mark "careless applied"
sleep 1
sync
mark "careless end"
umount /var/lib/pagewise /etc /small
"#;

/// Mounts each image as after a power loss, undoes the plans there, and compares the result with
/// the first image.
const MOUNT: &str = r#"
mkdir -p /small /var/lib/pagewise
state() { cd /etc && find . \( -type f -o -type l -o -type d \) -exec ls -ld {} \; | awk '{ print $1, $3, $4, $9, $10, $11 }' | sort -k 4
    find . -type f | sort | xargs sha256sum; ls /var/lib/pagewise | grep -v '^lock$'; cd /; }
number=0
for disk in /dev/vd?; do
    mount -t ext4 $disk /small || { echo "$disk: not mounted"; continue; }
    mount --bind /small/etc /etc
    mount --bind /small/state /var/lib/pagewise
    pagewise undo --all > /tmp/undo 2>&1; status=$?
    state > /tmp/after
    [ $number != 0 ] || cp /tmp/after /tmp/before
    cmp -s /tmp/before /tmp/after && [ $status = 0 ] && echo "as before: $disk" || { cat /tmp/undo; diff /tmp/before /tmp/after; }
    umount /var/lib/pagewise; umount /etc; umount /small
    number=$((number + 1))
done
"#;

/// Boots a small guest with these disks and runs a script in it; returns its output.
fn boot(folder: &Path, disks: Vec<Disk>, script: &str, files: &[(&str, String)]) -> String {
    let mut guest =
        Guest::new(program().get_program().into(), vec!["sh".into(), "/opt/script".into()]);
    guest.disks = disks;
    guest.modules = vec!["ext4".to_owned()];
    let all = files.iter().map(|(name, text)| (*name, text.as_str())).chain([("script", script)]);
    guest.texts = all.map(|(name, text)| (text.into(), format!("opt/{name}"))).collect();
    let stop = AtomicBool::new(false);
    let cache = Cache::open_in(&caches::shared()).unwrap();
    let kernel = kernel::find(&"trixie".parse().unwrap(), &cache, &stop, &mut |_| ()).unwrap();
    let mut output = Vec::new();
    let ran = run(&guest, &kernel, &cache, &stop, &mut |event| {
        if let GuestEvent::Output(_, bytes) = event {
            output.extend(bytes);
        }
        ControlFlow::Continue(())
    });
    let ran = ran.unwrap();
    let output = String::from_utf8_lossy(&output).into_owned();
    fs::write(folder.join("output"), &output).unwrap();
    assert_eq!(ran.outcome, Outcome::Exited { status: 0 }, "{output} {:?}", ran.log);
    output
}

/// Lets a guest apply and undo the plans on a new disk, or reads the recording that an earlier run
/// left in this folder.
fn record(folder: &Path) -> Recording {
    let [start, image, log] = ["start", "image", "log"].map(|name| folder.join(name));
    if !log.exists() {
        fs::write(&image, []).unwrap();
        let mut make = Command::new("/usr/sbin/mke2fs");
        make.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-J", "size=4", "-E"]);
        make.arg("lazy_itable_init=0,lazy_journal_init=0").arg(&image);
        let made = finish(make.arg((DISK / 4096).to_string()));
        assert_eq!(made.status, 0, "{}", made.err);
        let made = fs::File::options().write(true).open(&image).unwrap();
        made.set_len((DISK + BEHIND) as u64).unwrap();
        fs::copy(&image, &start).unwrap();
        let mut files = vec![
            ("existing", long("old")),
            ("generator", OLD_GENERATOR.to_owned()),
            ("careless", "old\n".repeat(4096)),
            ("careless-new", "new\n".repeat(4096)),
        ];
        let plans = kinds().map(|(kind, steps)| (format!("{kind}.json"), plan(&steps)));
        files.extend(plans.iter().map(|(name, text)| (name.as_str(), text.clone())));
        boot(folder, vec![Disk::Recorded { image, log: log.clone() }], SCRIPT, &files);
    }
    let mut start = fs::read(&start).unwrap();
    start.truncate(DISK);
    Recording::parse(start, &fs::read(&log).unwrap()).unwrap()
}

/// The files before and after a plan.
struct Expected {
    old: Tree,
    new: Tree,
}

/// The phase in which the power is lost, which decides what may be on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// While the command runs, each file may be old or new.
    Between,
    /// `apply` has ended.
    Applied,
    /// `undo` has ended.
    Undone,
}

impl Phase {
    fn of(mark: &str) -> Self {
        match mark.split(' ').nth(1) {
            Some("applied") => Self::Applied,
            Some("undone" | "end") => Self::Undone,
            _ => Self::Between,
        }
    }
}

impl Expected {
    /// Computes the new files from the old ones and the steps of a plan.
    fn new(old: &Tree, steps: &[Value]) -> Self {
        let mut new = old.clone();
        for step in steps {
            let path = step["target"].as_str().unwrap().strip_prefix("/etc").unwrap();
            let to = step["to"].as_str().unwrap();
            let above = path.match_indices('/').skip(1).map(|(end, _)| path[..end].to_owned());
            for folder in above {
                new.entry(folder).or_insert(Node::Folder(0o755));
            }
            let node = match (step["action"].as_str(), old.get(path)) {
                (Some("make-link"), _) => Node::Link(to.into()),
                (_, Some(Node::File(mode, _))) => Node::File(*mode, to.into()),
                // only start scripts are executable
                _ if path == "/init.d/pagewise" => Node::File(0o755, to.into()),
                _ => Node::File(0o644, to.into()),
            };
            new.insert(path.to_owned(), node);
        }
        Self { old: old.clone(), new }
    }

    /// Returns an error if a power loss in this phase cannot leave these files.
    fn judge(&self, found: &Tree, phase: Phase) -> Result<(), String> {
        let paths: BTreeSet<&String> =
            [&self.old, &self.new, found].iter().flat_map(|it| it.keys()).collect();
        for path in paths {
            let [old, new, found] = [&self.old, &self.new, found].map(|tree| tree.get(path));
            let is_good = match phase {
                Phase::Between => found == old || found == new || self.is_staged(path),
                Phase::Applied => found == new,
                Phase::Undone => found == old,
            };
            if !is_good {
                let is_old_or_new = found == old || found == new;
                let what = match found {
                    None => "is missing".to_owned(),
                    Some(_) if found == old => "is the old one".to_owned(),
                    Some(_) if found == new => "is the new one".to_owned(),
                    Some(Node::File(mode, bytes)) => {
                        format!("is neither: mode {mode:o}, {} bytes", bytes.len())
                    }
                    Some(other) => format!("is neither: {other:?}"),
                };
                let torn = if is_old_or_new { "" } else { "torn: " };
                return Err(format!("{torn}/etc{path} {what} ({phase:?})"));
            }
        }
        Ok(())
    }

    /// Whether this is the temporary file next to a planned one, before its rename: no program
    /// reads it.
    fn is_staged(&self, path: &str) -> bool {
        let name = path.strip_suffix(".pagewise-new").and_then(|path| path.rsplit_once("/."));
        name.is_some_and(|(folder, name)| self.new.contains_key(&format!("{folder}/{name}")))
    }
}

/// Undoes the plans in these copies, as after a boot; returns an error if the result differs from
/// the old files.
fn undo(copies: &Path, expected: &Expected, phase: Phase) -> Result<(), String> {
    let pagewise = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"));
        command.args(arguments).env("PAGEWISE_TEST_ETC", copies.join("etc"));
        command.env("PAGEWISE_STATE", copies.join("state"));
        finish(command.env("PAGEWISE_LOCK", copies.join("run")))
    };
    if phase == Phase::Applied {
        let ran = pagewise(&["undo", "--json"]);
        let document: Value = serde_json::from_str(&ran.out).unwrap_or_default();
        if document["plans"][0]["applied"] != true {
            return Err(format!(
                "the journal does not say that the plan is applied: {}{}",
                ran.out, ran.err
            ));
        }
        expected.judge(&read_tree(&copies.join("etc")), phase)?;
    }
    let ran = pagewise(&["undo", "--all"]);
    if ran.status != 0 {
        return Err(format!("undo: exit status {}: {}{}", ran.status, ran.out, ran.err));
    }
    expected
        .judge(&read_tree(&copies.join("etc")), Phase::Undone)
        .map_err(|why| format!("not named in the journal, after undo: {why}: {}", ran.out))?;
    let left = read_tree(&copies.join("state"));
    match left.keys().find(|name| *name != "/lock") {
        Some(name) => Err(format!("after undo: {name} is left")),
        None => Ok(()),
    }
}

/// Totals over the images of one kind of plan.
#[derive(Debug, Default)]
struct Totals {
    disks: usize,
    /// The number of different sets of files and journals.
    trees: usize,
    bad: Vec<String>,
    /// The numbers of bad images by the first word of the reason.
    reasons: BTreeMap<String, usize>,
}

/// Checks the images of power losses within this part of the recording.
fn judge(
    recording: &Recording,
    (first, last): (&str, &str),
    steps: &[Value],
    old: &Tree,
    sampling: Sampling,
    sample: &mut Vec<Vec<u8>>,
) -> Totals {
    let (expected, system) = (Expected::new(old, steps), FileSystem::new());
    let mut known: HashMap<u64, Result<(), String>> = HashMap::new();
    let mut totals = Totals::default();
    let span: Range<usize> = recording.between(first, last);
    let disks = replay(recording, &span, sampling, &mut |loss, disk| {
        let mark = recording.mark_before(loss.requested).unwrap_or_default();
        let found = system.read(disk, &["/etc", "/state"]).and_then(|copies| {
            let phase = Phase::of(mark);
            let tree = read_tree(&copies);
            let mut hasher = DefaultHasher::new();
            (&tree, phase == Phase::Applied, phase == Phase::Undone).hash(&mut hasher);
            let verdict = || {
                expected.judge(&read_tree(&copies.join("etc")), phase)?;
                undo(&copies, &expected, phase)
            };
            known.entry(hasher.finish()).or_insert_with(verdict).clone()
        });
        if let Err(why) = found {
            totals.bad.push(format!("{loss}, after the mark {mark:?}: {why}"));
            let reason = why.split(' ').next().unwrap_or_default().to_owned();
            *totals.reasons.entry(reason).or_default() += 1;
        }
        add_to_sample(sample, totals.disks, disk, loss, sampling.seed);
        totals.disks += 1;
    });
    assert_eq!(disks, totals.disks);
    Totals { trees: known.len(), ..totals }
}

/// Reservoir sampling: each image has the same chance to be in the sample.
fn add_to_sample(
    sample: &mut Vec<Vec<u8>>,
    number: usize,
    disk: &[u8],
    loss: &PowerLoss,
    seed: u64,
) {
    let mut hasher = DefaultHasher::new();
    (number, loss.requested, seed).hash(&mut hasher);
    let place = hasher.finish() as usize % (number + 1);
    if sample.len() < MOUNTED / 3 {
        sample.push(disk.to_owned());
    } else if let Some(kept) = sample.get_mut(place) {
        disk.clone_into(kept);
    }
}

/// A number from the environment, which `cargo xtask power-loss` sets.
fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The files of `/etc` at the start of the recording.
fn old_tree(recording: &Recording) -> (Tree, Vec<u8>) {
    let begin = recording.between("begin", "begin").start;
    let (mut tree, mut image) = (Tree::new(), Vec::new());
    let system = FileSystem::new();
    replay(recording, &(begin..begin), Sampling { count: 0, seed: 0 }, &mut |_, disk| {
        tree = read_tree(&system.read(disk, &["/etc"]).unwrap().join("etc"));
        disk.clone_into(&mut image);
    });
    (tree, image)
}

/// Mounts images in a guest, whose kernel repairs them, and undoes the plans there.
fn mount(images: &[Vec<u8>]) {
    let folder = tempfile::tempdir().unwrap();
    let disks = images.iter().enumerate().map(|(number, image)| {
        let path = folder.path().join(format!("disk{number}"));
        fs::write(&path, image).unwrap();
        Disk::Image(path, Access::CopyOnWrite)
    });
    let output = boot(folder.path(), disks.collect(), MOUNT, &[]);
    let as_before = output.lines().filter(|line| line.starts_with("as before: ")).count();
    assert_eq!(as_before, images.len(), "{output}");
    println!("mounted by another guest: {as_before} disks, all with the old files after undo");
}

#[test]
fn guest_plans_survive_a_power_loss_at_any_write() {
    let temporary = tempfile::tempdir().unwrap();
    let named = std::env::var_os("PAGEWISE_POWER_LOSS_FOLDER").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| temporary.path().to_owned());
    fs::create_dir_all(&folder).unwrap();
    let sampling = Sampling {
        count: number("PAGEWISE_POWER_LOSS_STATES", 150),
        seed: number("PAGEWISE_POWER_LOSS_SEED", 1) as u64,
    };
    let recording = record(&folder);
    let (old, begin) = old_tree(&recording);
    let existing = old.get("/sysctl.d/50-existing.conf");
    assert_eq!(existing, Some(&Node::File(0o640, long("old").into_bytes())));
    let mut mounted = vec![begin];
    for (kind, steps) in kinds() {
        let marks = (format!("{kind} applying 1"), format!("{kind} end"));
        let mut sample = Vec::new();
        let totals = judge(&recording, (&marks.0, &marks.1), &steps, &old, sampling, &mut sample);
        let (disks, bad, seed) = (totals.disks, totals.bad.len(), sampling.seed);
        println!(
            "{kind}: {disks} disks after a power loss, {} different in files and journals, {bad} bad (seed {seed})",
            totals.trees
        );
        if bad > 0 {
            let _ = temporary.keep();
            let shown = &totals.bad[..bad.min(10)];
            let folder = folder.display();
            panic!(
                "{kind}: {bad} bad, {:?}: {shown:#?}\nfor the same disks: cargo xtask power-loss \
                 --recording {folder} --seed {seed} --states {}",
                totals.reasons, sampling.count
            );
        }
        assert!(disks >= sampling.count, "only {disks} different disks");
        mounted.extend(sample);
    }
    // a file that is overwritten in place, without a journal
    let careless = [change("careless", CARELESS, &"old\n".repeat(4096), &"new\n".repeat(4096))];
    let few = Sampling { count: sampling.count.min(150), ..sampling };
    let marks = ("careless applying", "careless end");
    let totals = judge(&recording, marks, &careless, &old, few, &mut Vec::new());
    println!("written in place: {} disks, bad: {:?}", totals.disks, totals.reasons);
    assert!(totals.reasons.contains_key("torn:"), "{totals:#?}");
    mount(&mounted);
}
