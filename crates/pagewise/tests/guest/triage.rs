// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process that grows into swap at the limit of its cgroup, and a report at the commit limit.

use crate::boot::{SAY, answer_of_success, finish, program};

/// `tail` keeps everything, as there is no newline. Its cgroup is limited to 24 MiB, so most of its
/// data is in swap.
const SCRIPT: &str = r#"
echo 256M > /sys/block/zram0/disksize && mkswap /dev/zram0 > /dev/null && swapon /dev/zram0
mkdir /sys/fs/cgroup/held && echo 24M > /sys/fs/cgroup/held/memory.max
feed() { while [ ! -e /tmp/enough ]; do head -c 2m /dev/zero | tr '\0' x; sleep 1; done; }
(echo 0 > /sys/fs/cgroup/held/cgroup.procs; feed | tail -n 1) &
for try in $(seq 90); do grep -q 'VmSwap:[^1-9]*[1-9][0-9][0-9][0-9]' /proc/[0-9]*/status && break; sleep 1; done
say swap pagewise report --sort swap -o command,swap
say growth pagewise report --sort growth --interval 5s
# without swap, so that the limit may be as low as what is used
touch /tmp/enough; killall tail; wait; swapoff /dev/zram0
# all of them are gone; what they had committed may be given back later
# without processes of its own, which would count
committed() { while read name now unit; do [ $name = Committed_AS: ] && break; done < /proc/meminfo; }
before=-1
for try in $(seq 30); do committed; [ $now = $before ] && break; before=$now; sleep 1.5; done
# downward, for what is used is not known to the MiB: the last may have no room to start a process
(for room in 60000 $(seq 7000 -500 1000); do
    # each CPU counts up to 0.4 % of memory by itself (mm_compute_batch): writing the mode adds that up
    echo 2 > /proc/sys/vm/overcommit_memory
    committed; echo $((now + room)) > /proc/sys/vm/overcommit_kbytes
    say room-$room pagewise report --interval 20ms
done) || :
"#;

#[test]
fn guest_of_trixie_tells_who_grows_into_swap_and_reports_at_the_commit_limit() {
    let options = ["lab", "guest", "--kernel", "trixie", "--memory", "512M", "--module", "zram"];
    let script = format!("{SAY}{SCRIPT}");
    let mut command = program();
    command.args(options).args(["--deadline", "4m", "--", "sh", "-c", &script]);
    let session = finish(&mut command).out;

    let row = |text: &str, name: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.split_whitespace().any(|word| word == name));
        let line = line.unwrap_or_else(|| panic!("no {name}: {text}"));
        line.split_whitespace().map(str::to_owned).collect()
    };
    let swapped = row(answer_of_success(&session, "swap"), "tail");
    assert_eq!((swapped.len(), swapped[2].as_str()), (3, "MiB"), "{swapped:?}");
    let growth = answer_of_success(&session, "growth");
    // in RAM it has reached the limit of its cgroup, so the growth is in swap
    let grown = row(growth, "tail");
    let rate = grown.iter().find_map(|word| word.strip_prefix('+')?.parse::<f64>().ok());
    let rate = rate.unwrap_or_else(|| panic!("{growth}"));
    assert!(grown.contains(&"MiB".to_owned()) && rate > 0.0 && rate < 6.0, "{growth}");
    assert!(growth.contains("/held") && grown.contains(&"held".to_owned()), "{growth}");

    // how much memory a report needs may change: with less it leaves out parts, and says which
    let enough = answer_of_success(&session, "room-60000");
    assert!(!enough.contains("could not be had") && enough.contains("Processes "), "{enough}");
    let parts = ["processes, cgroups and settings are left out", "no page contents are read"];
    for part in parts {
        let without = session.split("\n== ").filter(|said| said.contains(part));
        let without: Vec<&str> = without.filter(|said| said.starts_with("room-")).collect();
        assert!(!without.is_empty(), "never {part}: {session}");
        for said in without {
            assert!(said.contains("Where memory is") && said.contains("\n-- 0"), "{said}");
        }
    }
}
