// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zswap in guests with Debian's generic kernels: it stores pages with each compressor and
//! allocator. The cloud kernels 6.1 and 6.12 are built without zswap.

use crate::boot::{ProgramRun, SAY, answer_of_success, finish, program, script};
use crate::caches;

/// Enables zswap in front of the existing swap, or else of swap on zram. Then swaps out text with
/// one compressor after the other; no page of it is filled with one word.
const STORE: &str = r#"
zswap=/sys/module/zswap/parameters
echo 1 > $zswap/enabled
if [ $(wc -l < /proc/swaps) = 1 ]; then
    [ -e /sys/block/zram0 ] || modprobe zram
    echo 128M > /sys/block/zram0/disksize && mkswap /dev/zram0 > /dev/null && swapon /dev/zram0
fi
group=/sys/fs/cgroup/held
mkdir $group
seq 100000 400000 > /text
swapped_out() { sed -n 's/^zswpout //p' /proc/vmstat; }
store() {
    echo $2 > $zswap/$1
    before=$(swapped_out)
    (
        echo 0 > $group/cgroup.procs
        cp /text /dev/shm/text
        echo 1536K > $group/memory.reclaim
    ) 2> /dev/null
    rm /dev/shm/text
    echo $(cat $zswap/$1) $(($(swapped_out) - before))
}
say release uname -r
say enabled cat $zswap/enabled
for name in lzo lz4 lz4hc zstd deflate; do say $name store compressor $name; done
[ ! -e $zswap/zpool ] || for name in zbud z3fold zsmalloc; do say $name store zpool $name; done
"#;

/// Checks that every compressor and each of the allocators was accepted, and stored most of 1.5
/// MiB.
#[track_caller]
fn assert_stored(ran: &ProgramRun, kernel: &str, allocators: &[&str]) {
    assert!(ran.status == 0 && !ran.err.contains("guest:"), "{kernel}: {} {}", ran.out, ran.err);
    assert_eq!(answer_of_success(&ran.out, "release").trim(), caches::release(kernel));
    assert_eq!(answer_of_success(&ran.out, "enabled"), "Y\n", "{kernel}");
    for name in ["lzo", "lz4", "lz4hc", "zstd", "deflate"].iter().chain(allocators) {
        let stored = answer_of_success(&ran.out, name);
        let pages = stored.trim().strip_prefix(name).and_then(|pages| pages.trim().parse().ok());
        assert!(pages.is_some_and(|pages: u64| pages > 250), "{kernel}: {name}: {stored}");
    }
}

fn stores(kernel: &str, allocators: &[&str]) {
    let ran = script(&["--kernel", kernel], &format!("{SAY}{STORE}exit 0"));
    assert_stored(&ran, kernel, allocators);
}

/// The generic kernel is cached next to the cloud kernel of its suite, which the suite's name alone
/// still selects.
#[test]
fn guest_zswap_of_trixie_stores_with_each_compressor() {
    stores("trixie/generic", &["zbud", "zsmalloc"]);
    assert_ne!(caches::release("trixie"), caches::release("trixie/generic"));
    let listed = finish(program().args(["lab", "cache", "list", "--json"]));
    let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    for kernel in ["trixie", "trixie/generic"] {
        let found = listed["kernels"].as_array().unwrap().iter().find(|one| one["item"] == kernel);
        let found = found.unwrap_or_else(|| panic!("{kernel}: {listed:#}"));
        assert_eq!(found["suite"], "trixie", "{found:#}");
        assert_eq!(found["release"], caches::release(kernel), "{found:#}");
    }
}

/// Other suites, systemd, and an experiment.
mod other_suites {
    use super::*;
    use crate::boot::reboots;

    #[test]
    fn guest_zswap_of_bookworm_stores_with_each_compressor() {
        stores("bookworm/generic", &["zbud", "z3fold", "zsmalloc"]);
    }

    #[test]
    fn guest_zswap_of_sid_stores_with_each_compressor() {
        stores("sid/generic", &[]);
    }

    /// The program that runs before systemd loads the modules, which are not on the disk.
    #[test]
    fn guest_zswap_under_systemd_stores_with_each_compressor() {
        let options = ["--userland", "systemd", "--kernel", "trixie/generic"];
        let look = "say running systemctl is-system-running\n";
        let ran = script(&options, &format!("{SAY}{look}{STORE}exit 0"));
        assert_eq!(answer_of_success(&ran.out, "running"), "running\n");
        assert_stored(&ran, "trixie/generic", &["zbud", "zsmalloc"]);
    }

    /// The kernel lets kmod load each compressor from the disk.
    #[test]
    fn guest_zswap_of_a_machine_that_reboots_loads_its_compressors() {
        let options = ["--kernel", "trixie/generic"];
        let session = format!("{SAY}say loaded lsmod\n{STORE}say after lsmod\nexit 0");
        let boots = reboots(&options, &["exit 0", &session]);
        assert_eq!(boots.len(), 2, "{boots:#?}");
        boots[1].assert_exited(0);
        let out = boots[1].output.clone();
        let is_loaded = |name: &str| {
            let lines = answer_of_success(&out, name).lines();
            lines.filter_map(|line| line.split_whitespace().next()).any(|module| module == "lz4hc")
        };
        assert!(!is_loaded("loaded") && is_loaded("after"), "{out}");
        let ran = ProgramRun { status: 0, out, err: String::new() };
        assert_stored(&ran, "trixie/generic", &["zbud", "zsmalloc"]);
    }

    /// Behind zswap is a swap file on a disk: when the cgroup is reclaimed, the kernel writes the
    /// pool back to it.
    #[test]
    fn guest_zswap_is_measured_while_it_writes_back_to_a_disk() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        std::fs::File::create(&disk).unwrap().set_len(64 << 20).unwrap();
        let made = std::process::Command::new("/usr/sbin/mke2fs")
            .args(["-q", "-t", "ext4"])
            .arg(&disk)
            .status();
        assert!(made.unwrap().success());
        let options =
            ["--kernel", "trixie/generic", "--module", "ext4", "--deadline", "8m", "--disk"];
        let options = [&options[..], &[disk.to_str().unwrap()]].concat();
        let bench = "mkdir /mnt && mount -t ext4 /dev/vda /mnt || exit 9\n\
            TMPDIR=/mnt pagewise bench --quick --size 4M --mix text:100 --algorithm lz4 --zswap --json\n";
        let ran = script(&options, bench);
        assert_eq!(ran.status, 0, "{} {}", ran.out, ran.err);
        let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let writebacks = document["writebacks"].as_array().unwrap();
        let [lz4] = &writebacks[..] else {
            panic!("{writebacks:?} {:#}", document["not_measured"])
        };
        assert_eq!(lz4["algorithm"], "lz4");
        assert!(lz4["written_pages"].as_u64() > Some(100), "{lz4}");
        let share = lz4["written_share"].as_f64().unwrap();
        assert!(share > 0.1 && share <= 1.0, "{lz4}");
        // an emulated CPU does not show that writing back costs at least as much as decompressing a
        // page
        let written = lz4["cpu_ns_per_page"].as_f64().unwrap();
        let is_zswap =
            |row: &&serde_json::Value| row["store"] == "zswap" && row["page_cluster"] == 0;
        let faults = document["faults"].as_array().unwrap().iter().filter(is_zswap);
        let read =
            faults.filter_map(|row| row["in_cpu_ns_per_page"].as_f64()).fold(f64::MAX, f64::min);
        println!("{written} ns to write a page back, {read} ns to read one");
        assert!(written > 0.0 && read > 0.0 && read < f64::MAX, "{written} {read}");
    }

    /// Its workload reads files of a file system whose driver is a module in the guest.
    #[test]
    fn guest_zswap_is_there_for_an_experiment() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.toml");
        let text = "about = \"x\"\n[workload]\nkind = \"command\"\nargv = [\"sh\", \"-c\", \
            \"grep -q ' /scratch ext4 ' /proc/mounts && test -e /sys/module/zswap/parameters/enabled\"]\n\
            [machine]\nrunner = \"guest\"\nkernels = [\"trixie/generic\"]\nmemory = [\"256M\"]\n\
            count = true\n[measure]\nprimary = \"cpu\"\npairs = 1\nwarm_up = 0\n[[arm]]\nname = \"a\"\n\
            [[arm]]\nname = \"b\"\nset = { \"vm.swappiness\" = 1 }\n";
        std::fs::write(&file, text).unwrap();
        let ran = finish(program().args(["lab", "run", file.to_str().unwrap(), "--json"]));
        assert_eq!(ran.status, 0, "{}", ran.err);
        let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let cell = &document["cells"][0];
        assert_eq!(cell["cell"], "trixie-generic-256M");
        let runs = cell["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 3, "{cell:#}");
        assert!(runs.iter().all(|run| run["how"] == "exited" && run["status"] == 0), "{runs:#?}");
    }
}
