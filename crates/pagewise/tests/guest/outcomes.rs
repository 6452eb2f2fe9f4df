// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guests with the kernels of three Debian suites: how a run ends, whatever its command does.
//!
//! They need QEMU, and the network for kernels that are not in the cache, but no root.

use std::fs::Permissions;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::boot::{ProgramRun, finish, lab, program};
use crate::caches;
use rustix::process::{Pid, Signal};

/// Runs a shell script in a guest of this suite.
fn script(suite: &str, options: &[&str], script: &str) -> ProgramRun {
    crate::boot::script(&[&["--kernel", suite], options].concat(), script)
}

/// One run: the document that --json prints.
fn run(suite: &str, options: &[&str], command: &[&str]) -> serde_json::Value {
    crate::boot::run(&[&["--kernel", suite], options].concat(), command).0
}

#[test]
fn guest_passes_output_status_and_files_on_and_kills_what_the_command_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let sent = folder.path().join("sent");
    let bytes: Vec<u8> = (0..200_000_u32).flat_map(|n| (n * 7919).to_le_bytes()).collect();
    std::fs::write(&sent, &bytes).unwrap();
    let out = folder.path().join("out");
    let options =
        ["--file", &format!("{}:/root/x", sent.display()), "--out", out.to_str().unwrap()];
    let job = "printf 'a\\tb'; echo c >&2; mkdir /out/d; cp x /out/d/y; : > /out/empty; \
               sleep 1000 & setsid sleep 1000 & exit 7";
    let ran = script("trixie", &options, job);
    assert_eq!((ran.status, ran.out.as_str()), (7, "a\tb"), "{}", ran.err);
    assert!(ran.err.lines().any(|line| line == "c"), "{}", ran.err);
    assert!(ran.err.contains("the command left 2 processes, which were killed"), "{}", ran.err);
    assert!(std::fs::read(out.join("d/y")).unwrap() == bytes);
    assert_eq!(std::fs::read(out.join("empty")).unwrap(), b"");
}

/// Whatever a guest leaves in /out, the host gets plain files in the folder that the user named, and
/// learns what was left out.
#[test]
fn guest_brings_out_neither_links_nor_devices() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let job = "ln -s /etc/passwd /out/link; ln -s .. /out/above; mknod /out/device b 1 1; \
               mkfifo /out/pipe; echo kept > /out/kept; printf x > \"/out/$(printf 'l\\033[2J\\nx')\"";
    let ran = script("trixie", &["--out", out.to_str().unwrap()], job);
    let told = "2 links and 2 devices, sockets or pipes left out: above, device, link, pipe";
    assert!(ran.err.contains(told), "{}", ran.err);
    assert!(!ran.err.contains('\x1b') && !ran.out.contains('\x1b'), "{}", ran.err);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&out).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        assert!(kind.is_file(), "{entry:?}");
        found.push((entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len()));
    }
    found.sort();
    let named: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(named, ["kept", "l\u{1b}[2J\nx"]);
    let beside: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
}

/// Of more than the limit, the host keeps what came before, and the messages name everything that
/// was left out: files beyond the limit, and links, which are left out in any case.
#[test]
fn guest_brings_out_no_more_than_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let job = "echo kept > /out/kept; head -c 3000000 /dev/zero > /out/zeros
        echo small > /out/zz; ln -s kept /out/link; exit 3";
    let ran = script("trixie", &["--out", out.to_str().unwrap(), "--out-limit", "1M"], job);
    assert_eq!(ran.status, 1, "{}", ran.err);
    for told in [
        "2 files in /out were not copied, or not to their end: \"zeros\", \"zz\": the files in /out \
         are larger than 1.0 MiB in all",
        "--out-limit SIZE allows more",
        "/out: only regular files are copied, 1 link left out: link",
    ] {
        assert!(ran.err.contains(told), "{told}\n{}", ran.err);
    }
    assert_eq!(std::fs::read(out.join("kept")).unwrap(), b"kept\n");
    assert!(!out.join("zz").exists());
    let rest = std::fs::metadata(out.join("zeros")).map_or(0, |zeros| zeros.len());
    assert!(rest <= 1 << 20, "{rest}");
}

#[test]
fn guest_that_cannot_start_the_command_says_so() {
    let ran = finish(&mut lab(&["--kernel", "trixie", "--", "nonesuch"]));
    assert!(ran.status == 125 && ran.err.contains("nonesuch: No such file"), "{}", ran.err);
}

/// The kernel and its initramfs twice, packed and unpacked, fill all memory, so no guest can boot,
/// whatever fails first in the kernel. With twice as much memory it boots.
#[test]
fn guest_with_too_little_memory_is_refused_or_told() {
    let ran = script("trixie", &["--memory", "32M"], "true");
    assert_eq!(ran.status, 1, "{}", ran.err);
    let needed = ran.err.split_once("kernel and initramfs alone take ");
    let needed = needed.and_then(|(_, rest)| rest.split_once(" MiB"));
    let needed: f64 = needed.unwrap_or_else(|| panic!("{}", ran.err)).0.parse().unwrap();
    // the message rounds to a tenth
    let megabytes = |times: f64| format!("{:.0}M", ((needed + 0.1) * times).ceil());
    // How the kernel fails depends on where in so little memory the images are placed.
    let options = ["--memory", &megabytes(1.0), "--start-deadline", "40s"];
    let ran = script("trixie", &options, "true");
    let text = match ran.status {
        125 => ran.err.contains("the kernel panicked: "),
        137 => ran.err.contains("memory"),
        124 => ran.err.contains("still starting") && ran.err.contains("by --start-deadline"),
        _ => false,
    };
    assert!(text && ran.err.contains("kernel: "), "{} {}", ran.status, ran.err);
    let run = run("trixie", &["--memory", &megabytes(2.0)], &["false"]);
    assert_eq!((&run["outcome"], &run["status"]), (&"exited".into(), &1.into()), "{run:#}");
}

/// Makes a cgroup with a common name and kills what is in it, which does not end the command; then
/// forks as many processes as its own cgroup allows. Every wait uses shell built-ins, because no
/// program can be started.
#[test]
fn guest_that_forks_without_end_is_ended() {
    let bomb = "mkdir /sys/fs/cgroup/job; echo 1 > /sys/fs/cgroup/job/cgroup.kill; \
                cd /sys/fs/cgroup/pagewise-lab-job; echo 300 > pids.max; mkfifo /never; exec 3<>/never; \
                f() { f | f & }; f 2> /dev/null; read name often < pids.events; \
                while [ $often = 0 ]; do read -t 1 word <&3; read name often < pids.events; done; \
                echo $name $often; exit 9";
    let ran = script("trixie", &[], bomb);
    assert_eq!(ran.status, 9, "{} {}", ran.out, ran.err);
    let refused = ran.out.strip_prefix("max ").and_then(|often| often.trim_end().parse().ok());
    assert!(refused.is_some_and(|often: u32| often > 0), "forks were refused: {}", ran.out);
    let left = ran.err.split_once("the command left ").map(|(_, rest)| rest);
    let left = left.and_then(|rest| rest.split_once(" processes, which were killed"));
    let left: u32 = left.unwrap_or_else(|| panic!("{}", ran.err)).0.parse().unwrap();
    assert!((1..=300).contains(&left), "{left}");
}

#[test]
fn guest_tells_a_crash() {
    let run = run("trixie", &[], &["sh", "-c", "kill -SEGV $$"]);
    assert_eq!((&run["outcome"], &run["signal"]), (&"crashed".into(), &11.into()), "{run:#}");
}

#[test]
fn guest_that_ignores_signals_is_ended_by_the_deadline() {
    let stubborn = "trap '' TERM INT HUP; echo runs; while :; do sleep 1; done";
    let ran = script("trixie", &["--deadline", "5s"], stubborn);
    assert_eq!((ran.status, ran.out.as_str()), (124, "runs\n"), "{}", ran.err);
    assert!(ran.err.contains("still running the command after 5 s"), "{}", ran.err);
}

#[test]
fn guest_that_fills_memory_is_told_from_a_crash() {
    let run = run("trixie", &["--memory", "192M"], &["tail", "/dev/zero"]);
    assert_eq!(run["outcome"], "out_of_memory", "{run:#}");
    assert!(run["kills"].as_u64().unwrap() >= 1, "{run:#}");
    let log = run["log"].to_string();
    assert!(log.contains("Out of memory"), "{log}");
}

#[test]
fn guest_without_qemu_says_what_to_install() {
    let ran = finish(lab(&["--kernel", "trixie", "--", "true"]).env("PATH", "/nowhere"));
    assert_eq!(ran.status, 1);
    assert!(ran.err.contains("apt-get install qemu-system-x86"), "{}", ran.err);
}

#[test]
fn guest_that_is_restarted_or_halted_from_inside_is_told() {
    let ran = script("trixie", &[], "reboot -f; sleep 60");
    assert_eq!(ran.status, 125, "{}", ran.err);
    assert!(ran.err.contains("ended early: the command restarted it"), "{}", ran.err);
    let ran = script("trixie", &["--deadline", "5s"], "halt -f; sleep 60");
    assert!(ran.status == 124 && ran.err.contains("System halted"), "{}", ran.err);
}

/// The runner buffers nothing for a slow reader, and ends the guest if the reader goes away.
#[test]
fn guest_that_prints_without_end_is_read_as_it_prints() {
    let mut yes = lab(&["--kernel", "trixie", "--deadline", "10m", "--", "yes"]);
    let mut yes = yes.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = yes.stdout.take().unwrap();
    let mut bytes = vec![0; 1 << 20];
    out.read_exact(&mut bytes).unwrap();
    assert!(bytes.chunks(2).all(|line| line == b"y\n"));
    drop(out);
    let ended = yes.wait_with_output().unwrap();
    let listed = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && !listed.contains("--deadline"), "{listed}");
}

/// Copies the program and a kernel to where a user without other permissions can read them.
fn for_anybody(folder: &Path) -> (PathBuf, PathBuf) {
    let (program, cache) = (folder.join("pagewise"), folder.join("cache"));
    std::fs::copy(std::env::var_os("PAGEWISE_STATIC").unwrap(), &program).unwrap();
    let kept = caches::kernels("bookworm").join("bookworm");
    let script = "mkdir -p $1/kernels && cp -r $0 $1/kernels";
    let copied = Command::new("sh").args(["-c", script]).arg(kept).arg(&cache).status();
    assert!(copied.unwrap().success());
    caches::bring_kvm_answer(&cache);
    if rustix::process::geteuid().is_root() {
        let given = Command::new("chown").args(["-R", "65534:65534"]).arg(folder).status();
        assert!(given.unwrap().success());
    }
    (program, cache)
}

#[test]
fn guest_needs_no_rights() {
    let folder = tempfile::tempdir().unwrap();
    let (program, cache) = for_anybody(folder.path());
    let mut command = if rustix::process::geteuid().is_root() {
        Command::new("setpriv")
    } else {
        Command::new("env")
    };
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    }
    command
        .arg(&program)
        .args(["--json", "lab", "guest", "--kernel", "bookworm", "--", "id", "-u"]);
    let ran = finish(command.env("PAGEWISE_CACHE", &cache).current_dir("/"));
    let document: serde_json::Value = serde_json::from_str(&ran.out).expect(&ran.err);
    let run = &document["runs"][0];
    assert_eq!((&run["outcome"], &run["status"]), (&"exited".into(), &0.into()), "{run:#}");
    let why = run["why_emulated"].as_str().unwrap_or_default();
    assert!((run["accelerator"] == "kvm") != why.starts_with("/dev/kvm"), "{run:#}");
}

/// Runs with a cache on a disk of that size, in its own mount namespace, which ends with the
/// command.
fn on_small_disk(size: &str, arguments: &str) -> ProgramRun {
    let own = caches::own();
    let program = std::env::var("PAGEWISE_STATIC").unwrap();
    let script = format!(
        "mount -t tmpfs -o size={size},mode=755 none $1 && cp -r $0/. $1 && {{ PAGEWISE_CACHE=$1 {program} \
         lab guest --kernel trixie {arguments}; status=$?; ls $1/runs; exit $status; }}"
    );
    let folder = tempfile::tempdir().unwrap();
    let namespace = ["--user", "--map-root-user", "--mount", "sh", "-c", &script];
    finish(Command::new("unshare").args(namespace).arg(own.path()).arg(folder.path()))
}

#[test]
fn guest_without_room_on_the_disk_is_told() {
    let ran = on_small_disk("4M", "-- true");
    assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{}", ran.err);
    for wanted in ["No space left on device", "let PAGEWISE_CACHE name a folder elsewhere"] {
        assert!(ran.err.contains(wanted), "{}", ran.err);
    }
}

#[test]
fn guest_whose_disk_finds_no_room_sees_an_error() {
    let fill =
        "--disk 1G --deadline 2m -- dd if=/dev/urandom of=/dev/vda bs=1M count=64 conv=fsync";
    let ran = on_small_disk("48M", fill);
    assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{}", ran.err);
    assert!(ran.err.contains("dd: ") && !ran.err.contains("--deadline"), "{}", ran.err);
}

#[test]
fn guest_kernel_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "no kernel").unwrap();
    for path in ["/bin/sh", text.to_str().unwrap()] {
        let ran = script(path, &[], "true");
        assert!(ran.status == 1 && ran.err.contains("expected a Linux image"), "{}", ran.err);
    }
    let ran = script("9.9", &[], "true");
    assert!(
        ran.status == 1
            && ran
                .err
                .contains("no kernel 9.9: no such file in /boot or /lib/modules, and 9.9 is not"),
        "{}",
        ran.err
    );
}

/// The cache contains the kernel image but not the folder of modules.
#[test]
fn guest_kernel_without_drivers_is_told() {
    let image = caches::kernels("bookworm").join("bookworm/image");
    let image = image.to_str().unwrap();
    let ran = finish(&mut lab(&["--kernel", image, "--", "pagewise", "--version"]));
    assert!(ran.status == 0 && ran.out.starts_with("pagewise "), "{}", ran.err);
    let ran = finish(&mut lab(&["--kernel", image, "--disk", "8M", "--", "pagewise", "--version"]));
    assert!(ran.status == 125 && ran.err.contains("0 of 1 disks came up"), "{}", ran.err);
    let ran = finish(&mut lab(&["--kernel", image, "--module", "zram", "--", "true"]));
    assert!(ran.status == 1 && ran.err.contains("no modules of this kernel"), "{}", ran.err);
    let ran = script("bookworm", &["--module", "nonesuch"], "true");
    assert!(ran.status == 1 && ran.err.contains("no module nonesuch"), "{}", ran.err);
}

/// A compressed image that we cannot unpack is booted as it is, by the firmware of the larger
/// machine.
#[test]
fn guest_of_a_packed_image_comes_up() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("vmlinuz");
    let mut bytes = std::fs::read(caches::kernels("sid").join("sid/modules/vmlinuz")).unwrap();
    // clear the offset of the compressed kernel, which the image itself does not need for booting
    bytes[0x248..0x24c].copy_from_slice(&[0; 4]);
    std::fs::write(&image, bytes).unwrap();
    let ran =
        finish(&mut lab(&["--kernel", image.to_str().unwrap(), "--", "pagewise", "--version"]));
    assert!(ran.status == 0 && ran.out.starts_with("pagewise "), "{}", ran.err);
}

/// A folder for PATH with an apt that prints what the real one once printed.
fn apt_that(update: &str, show: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let get = format!(
        "#!/bin/sh\ncase \"$*\" in *indextargets*) printf 'Debian\\thttp://mirror.test/debian/\\n';; \
         *update) {update};; *) exit 100;; esac\n"
    );
    for (name, text) in [("apt-get", get), ("apt-cache", format!("#!/bin/sh\n{show}\n"))] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

/// The program with an empty cache and this apt.
fn with_apt(apt: &Path, cache: &Path, arguments: &[&str]) -> Command {
    let mut command = program();
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", apt.display())).env("PAGEWISE_CACHE", cache);
    command.arg("lab").args(arguments);
    command
}

#[test]
fn guest_of_a_suite_that_is_gone_is_told() {
    let message = "E: The repository 'http://mirror.test/debian nosuch Release' does not have a Release file.";
    let update = format!("echo \"{message}\" >&2; exit 100");
    for (update, show, told) in [
        (update.as_str(), "exit 0", "does not have a Release file"),
        ("exit 0", "echo 'E: No packages found' >&2; exit 100", "apt-cache: E: No packages found"),
        ("exit 0", "echo 'Depends: linux-image-1 (= 1)'", "apt-get: exit status: 100"),
    ] {
        let (apt, cache) = (apt_that(update, show), tempfile::tempdir().unwrap());
        let guest = ["guest", "--kernel", "nosuch", "--", "true"];
        let ran = finish(&mut with_apt(apt.path(), cache.path(), &guest));
        assert!(ran.status == 1 && ran.err.contains(told), "{told}: {}", ran.err);
        assert!(ran.err.contains("next   check that the suite exists"), "{}", ran.err);
        let left = names(&cache.path().join("new")).into_iter().filter(|name| name == "nosuch");
        assert_eq!((left.count(), names(&cache.path().join("kernels")).len()), (0, 0));
    }
}

#[test]
fn guest_of_a_damaged_cache_is_told_and_fetched_again() {
    let cache = tempfile::tempdir().unwrap();
    let kept = caches::kernels("trixie").join("trixie");
    let script = "mkdir $1/kernels && cp -r $0 $1/kernels && printf x >> $1/kernels/trixie/image";
    let copied = Command::new("sh").args(["-c", script]).arg(kept).arg(cache.path()).status();
    assert!(copied.unwrap().success());
    let apt = apt_that("echo 'E: no network' >&2; exit 100", "exit 1");
    let listed = finish(&mut with_apt(apt.path(), cache.path(), &["cache", "list"]));
    assert!(listed.out.contains("damaged: fetched again when it is wanted"), "{}", listed.out);
    let guest = ["guest", "--kernel", "trixie", "--", "true"];
    let ran = finish(&mut with_apt(apt.path(), cache.path(), &guest));
    assert_eq!(ran.status, 1, "{}", ran.err);
    for wanted in ["the cached kernel is damaged and is fetched again", "apt-get: E: no network"] {
        assert!(ran.err.contains(wanted), "{}", ran.err);
    }
}

fn counts_repeat(suite: &str, boots: usize) {
    let sum = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
    let often = boots.to_string();
    let count = ["--count", "--boots", &often, "--", "sh", "-c", sum];
    let ran = finish(&mut lab(&[&["--json", "--kernel", suite], &count[..]].concat()));
    let document: serde_json::Value = serde_json::from_str(&ran.out).expect(&ran.err);
    let runs = document["runs"].as_array().unwrap();
    for run in runs {
        assert_eq!((&run["outcome"], &run["status"]), (&"exited".into(), &0.into()), "{run:#}");
        assert_eq!(run["troubles"], serde_json::json!([]), "{run:#}");
    }
    let counts: Vec<u64> =
        runs.iter().map(|run| run["counted"]["ticks"].as_u64().unwrap()).collect();
    println!("{suite}: {counts:?}");
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(counts.len() == boots && *least > 1_000_000, "{counts:?}");
    assert!((most - least) * 100 <= *least, "{counts:?}");
}

#[test]
fn guest_counts_of_bookworm_repeat_within_one_percent() {
    counts_repeat("bookworm", 2);
}

#[test]
fn guest_counts_of_trixie_repeat_within_one_percent() {
    counts_repeat("trixie", 5);
}

#[test]
fn guest_counts_of_sid_repeat_within_one_percent() {
    counts_repeat("sid", 2);
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The number of processes whose command line contains this folder.
fn processes(folder: &Path) -> usize {
    let folder = folder.to_string_lossy().into_owned();
    let all = names(Path::new("/proc")).into_iter();
    let lines = all.filter_map(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(&folder)).count()
}

/// Waits, for at most a minute, for something that the kernel does asynchronously.
fn in_the_end(mut done: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

/// A runner whose guest runs until it is stopped.
struct Living {
    runner: Child,
    /// The file that receives the guest's output.
    said: PathBuf,
    runs: PathBuf,
}

/// How far a runner has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It reads the kernel and makes the initramfs.
    Start,
    /// It has created its folder.
    Folder,
    /// QEMU is running.
    Qemu,
    /// The guest's command has printed something.
    Command,
}

impl Living {
    fn start(cache: &Path) -> Self {
        let message = cache.join("said");
        let out = std::fs::File::create(&message).unwrap();
        let command = ["sh", "-c", "echo runs; exec sleep 1000"];
        let mut runner = lab(&["--kernel", "bookworm", "--deadline", "20m", "--"]);
        runner.args(command).env("PAGEWISE_CACHE", cache).stdout(out).stderr(Stdio::piped());
        Self { runner: runner.spawn().unwrap(), said: message, runs: cache.join("runs") }
    }

    fn stage(&self) -> Stage {
        if std::fs::read_to_string(&self.said).unwrap() == "runs\n" {
            Stage::Command
        } else if processes(&self.runs) > 0 {
            Stage::Qemu
        } else if self.runs.exists() && !names(&self.runs).is_empty() {
            Stage::Folder
        } else {
            Stage::Start
        }
    }

    fn is_alive(&mut self) -> bool {
        self.runner.try_wait().unwrap().is_none()
    }

    /// Waits until the runner has reached this stage.
    fn reach(&mut self, stage: Stage) {
        let reached = in_the_end(|| self.stage() >= stage || !self.is_alive());
        assert!(reached && self.is_alive(), "{stage:?}: it came to {:?}", self.stage());
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.runner.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

/// Whether the lock can be taken at once, or does not exist.
fn is_free(lock: &Path) -> bool {
    let file = match std::fs::File::open(lock) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return true,
        opened => opened.unwrap(),
    };
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Whether every lock of the cache can be taken at once.
fn all_locks_are_free(cache: &Path) -> bool {
    let locks = cache.join("locks");
    !locks.exists() || names(&locks).into_iter().all(|name| is_free(&locks.join(name)))
}

/// The messages of the next start, which must leave nothing behind.
fn next_start(cache: &Path) -> String {
    let mut next = program();
    let next = finish(next.args(["lab", "cache", "prune", "none"]).env("PAGEWISE_CACHE", cache));
    assert_eq!((next.status, names(&cache.join("runs"))), (0, Vec::new()), "{}", next.err);
    assert_eq!(names(&cache.join("queue")), Vec::<String>::new(), "{}", next.err);
    assert!(all_locks_are_free(cache));
    next.err
}

/// Ends a runner; returns how many folders it left behind, and how many of them the next start
/// reported.
fn ended(living: &mut Living, cache: &Path, signal: Signal, place: &str) -> (usize, usize) {
    living.signal(signal);
    let ended = living.runner.wait().unwrap();
    match signal {
        Signal::KILL => assert_eq!(ended.signal(), Some(signal.as_raw()), "{place}: {ended}"),
        // Before it handles SIGINT, the signal ends the runner like any program.
        _ => assert!(ended.code() == Some(130) || ended.signal() == Some(2), "{place}: {ended}"),
    }
    let runs = &living.runs;
    // a forked child that was killed before exec still holds our locks, and has no command line yet
    let run_is_free = |run: &String| is_free(&runs.join(run).join("lock"));
    let runs_are_free = || !runs.exists() || names(runs).iter().all(run_is_free);
    let is_over = || processes(runs) == 0 && runs_are_free() && all_locks_are_free(cache);
    assert!(in_the_end(is_over), "{place}: {ended}");
    let folders = if runs.exists() { names(runs).len() } else { 0 };
    assert!(signal == Signal::KILL || folders == 0, "{place}: {ended}");
    (folders, next_start(cache).matches("left by a run that was killed").count())
}

/// How long each stage of a runner takes under the current load. The first runner may take seconds
/// longer to start, because it reads files from the disk, so it is not measured.
fn spans(cache: &Path) -> Vec<(Stage, Duration)> {
    let mut first = Living::start(cache);
    first.reach(Stage::Folder);
    ended(&mut first, cache, Signal::INT, "the first");
    let started = Instant::now();
    let mut living = Living::start(cache);
    let mut reached = |stage| {
        living.reach(stage);
        started.elapsed()
    };
    let [folder, qemu, command] = [Stage::Folder, Stage::Qemu, Stage::Command].map(&mut reached);
    assert_eq!(ended(&mut living, cache, Signal::INT, "once it runs"), (0, 0));
    let spans = [folder, qemu.saturating_sub(folder), command.saturating_sub(qemu)];
    let spans = spans.into_iter().chain([Duration::from_millis(500)]);
    [Stage::Start, Stage::Folder, Stage::Qemu, Stage::Command].into_iter().zip(spans).collect()
}

/// Ends ten or more runners, each at a random moment of a stage, with SIGKILL or SIGINT. Their
/// guests do not end by themselves, so every runner is alive when it is ended.
#[test]
fn guest_killed_at_any_time_leaves_nothing() {
    let cache = caches::own();
    let mut spans = spans(cache.path());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut left, mut told, mut found) = (0, 0, Vec::new());
    let count = |found: &[Stage], matches: fn(&Stage) -> bool| {
        found.iter().filter(|stage| matches(stage)).count()
    };
    // the stage that a runner has reached by then depends on the load, so continue until each stage
    // was hit
    let is_enough = |left: usize, found: &[Stage]| {
        left >= 2
            && count(found, |stage| *stage == Stage::Start) >= 1
            && count(found, |stage| *stage >= Stage::Qemu) >= 4
            && count(found, |stage| *stage == Stage::Command) >= 2
    };
    for index in 0..60 {
        if index >= 10 && is_enough(left, &found) {
            break;
        }
        let turn = index % spans.len();
        let (stage, span) = spans[turn];
        // xorshift: the same fractions of a stage in every run of the test.
        for (up, by) in [(true, 13), (false, 7), (true, 17)] {
            random ^= if up { random << by } else { random >> by };
        }
        let later = span.mul_f64((random >> 40) as f64 / f64::from(1 << 24));
        let mut living = Living::start(cache.path());
        living.reach(stage);
        std::thread::sleep(later);
        // alternate the signals within each stage
        let signal = [Signal::KILL, Signal::INT][(index + index / spans.len()) % 2];
        let now = living.stage();
        let place = format!("{} {later:.0?} after {stage:?}, at {now:?}", signal.as_raw());
        assert!(living.is_alive(), "{place}");
        let (folders, said) = ended(&mut living, cache.path(), signal, &place);
        println!("{place}: {folders} folders left, {said} told");
        (left, told) = (left + folders, told + said);
        found.push(now);
        // the stage took less time than measured: wait less in the next round
        if now > stage {
            spans[turn].1 = span / 8;
        }
    }
    assert_eq!(told, left, "the next starts told of {told} folders of {left}");
    assert!(left >= 2, "killed with SIGKILL while QEMU ran: {found:?}");
    let count = |matches| count(&found, matches);
    assert!(count(|stage| *stage == Stage::Start) >= 1, "before there is a folder: {found:?}");
    assert!(count(|stage| *stage >= Stage::Qemu) >= 4, "while QEMU runs: {found:?}");
    assert!(count(|stage| *stage == Stage::Command) >= 2, "while the command runs: {found:?}");
    let next =
        finish(lab(&["--kernel", "bookworm", "--", "true"]).env("PAGEWISE_CACHE", cache.path()));
    assert_eq!((next.status, next.err.as_str()), (0, ""));
}

#[test]
fn guest_fetch_that_is_killed_leaves_nothing() {
    let (apt, cache) = (apt_that("exec sleep 60", "exit 1"), tempfile::tempdir().unwrap());
    let new = cache.path().join("new");
    for signal in [Signal::KILL, Signal::INT] {
        let mut fetch = with_apt(apt.path(), cache.path(), &["cache", "fetch", "trixie"]);
        let mut fetch = fetch.stderr(Stdio::null()).process_group(0).spawn().unwrap();
        assert!(in_the_end(|| new.join("trixie").is_dir()));
        let pid = Pid::from_raw(i32::try_from(fetch.id()).unwrap()).unwrap();
        match signal {
            Signal::KILL => rustix::process::kill_process(pid, signal).unwrap(),
            // Like Ctrl-C in a terminal.
            _ => rustix::process::kill_process_group(pid, signal).unwrap(),
        }
        let ended = fetch.wait().unwrap();
        assert!(signal == Signal::KILL || ended.code() == Some(130), "{ended}");
        // As in `ended`.
        let lock = new.join("trixie.lock");
        assert!(in_the_end(|| processes(&new) == 0 && is_free(&lock)));
        let message = next_start(cache.path());
        let listed = message.contains("left by a fetch that was killed");
        assert_eq!(listed, signal == Signal::KILL, "{message}");
        assert!(!new.join("trixie").exists());
    }
}

/// The PID of the QEMU that uses this cache.
fn qemu_of(runs: &Path) -> PathBuf {
    let runs = runs.to_string_lossy().into_owned();
    let is_it = |process: &PathBuf| {
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&runs)
    };
    let processes = names(Path::new("/proc")).into_iter().map(|name| Path::new("/proc").join(name));
    processes.into_iter().find(is_it).expect("a QEMU")
}

/// The words of a line of /proc/PID/status.
fn status_of(process: &Path, name: &str) -> Vec<String> {
    let status = std::fs::read_to_string(process.join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// An attacker who breaks out of the guest is a user who owns nothing, and has no capabilities, no
/// network device and only the system calls that QEMU needs. Other users cannot read the files of
/// the run.
#[test]
fn guest_qemu_has_no_rights() {
    let cache = caches::own();
    let mut living = Living::start(cache.path());
    living.reach(Stage::Command);
    let qemu = qemu_of(&living.runs);
    let us = rustix::process::geteuid();
    for name in ["Uid", "Gid"] {
        let numbers: Vec<u32> =
            status_of(&qemu, name).iter().map(|number| number.parse().unwrap()).collect();
        let is_right =
            |number: &u32| if us.is_root() { *number >= 1_879_048_192 } else { *number != 0 };
        assert!(numbers.len() == 4 && numbers.iter().all(is_right), "{name}: {numbers:?}");
    }
    assert!(!us.is_root() || status_of(&qemu, "Groups").iter().all(|group| group != "0"));
    for (name, expected) in [("Seccomp", "2"), ("NoNewPrivs", "1"), ("CapEff", "0000000000000000")]
    {
        assert_eq!(status_of(&qemu, name), [expected], "{name}");
    }
    if us.is_root() {
        assert_eq!(status_of(&qemu, "CapBnd"), ["0000000000000000"]);
    }
    let line = std::fs::read(qemu.join("cmdline")).unwrap();
    let line: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    assert!(line.windows(2).any(|words| words == [&b"-nic"[..], b"none"]));
    let environment = std::fs::read(qemu.join("environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let known = ["PATH=", "LD_LIBRARY_PATH=", "TMPDIR="];
    let mut variables = environment.split('\0').filter(|word| !word.is_empty());
    assert!(variables.all(|word| known.iter().any(|name| word.starts_with(name))), "{environment}");
    let run = living.runs.join(&names(&living.runs)[0]);
    for (path, mode) in
        [("", 0o700), ("machine", 0o700), ("machine/initramfs", 0o600), ("kernel.log", 0o600)]
    {
        let found = run.join(path).metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(found, mode, "{path}");
    }
    living.signal(Signal::INT);
    assert_eq!(living.runner.wait().unwrap().code(), Some(130));
}

/// Disks that only root may open (an image, a block device) are passed to QEMU as open files.
#[test]
fn guest_disks_that_only_their_owner_may_open_work() {
    let folder = tempfile::tempdir().unwrap();
    let (kept, read) = (folder.path().join("kept"), folder.path().join("read"));
    for path in [&kept, &read] {
        std::fs::write(path, vec![b'a'; 1 << 20]).unwrap();
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    }
    let (kept_rw, read_ro) = (format!("{},rw", kept.display()), format!("{},ro", read.display()));
    let copied = read.display().to_string();
    let options = ["--disk", &kept_rw, "--disk", &read_ro, "--disk", &copied];
    let job = "for disk in vda vdb vdc; do printf $disk | dd of=/dev/$disk conv=notrunc,fsync 2>/dev/null \
               && echo $disk wrote; done; head -c 4 /dev/vdb; head -c 4 /dev/vdc";
    let ran = script("bookworm", &options, job);
    assert_eq!(
        (ran.status, ran.out.as_str()),
        (0, "vda wrote\nvdc wrote\naaaavdca"),
        "{}",
        ran.err
    );
    assert!(std::fs::read(&kept).unwrap().starts_with(b"vdaa"));
    assert!(std::fs::read(&read).unwrap().iter().all(|byte| *byte == b'a'));
}

#[test]
fn guest_stopped_by_the_user_leaves_nothing() {
    let cache = caches::own();
    let mut living = Living::start(cache.path());
    living.reach(Stage::Command);
    assert_eq!(processes(&living.runs), 1, "one QEMU");
    living.signal(Signal::INT);
    let Living { runner, runs, .. } = living;
    let ended = runner.wait_with_output().unwrap();
    let listed = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(130) && listed.contains("stopped by the user"), "{listed}");
    assert_eq!((processes(&runs), names(&runs)), (0, Vec::new()));
}
