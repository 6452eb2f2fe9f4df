// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process that grows into swap behind the limit of its group, and a report at the commit limit.

use crate::boot::{SAY, answer, answer_of_success, finish, program};

/// `tail` keeps all that has no line end. Its group has 24 MiB, so that what it is given is in swap.
const SCRIPT: &str = r#"
echo 256M > /sys/block/zram0/disksize && mkswap /dev/zram0 > /dev/null && swapon /dev/zram0
mkdir /sys/fs/cgroup/held && echo 24M > /sys/fs/cgroup/held/memory.max
feed() { while :; do head -c 2m /dev/zero | tr '\0' x; sleep 1; done; }
(echo 0 > /sys/fs/cgroup/held/cgroup.procs; feed | tail -n 1) &
for try in $(seq 90); do grep -q 'VmSwap:[^1-9]*[1-9][0-9][0-9][0-9]' /proc/[0-9]*/status && break; sleep 1; done
say swap pagewise report --sort swap -o command,swap
say growth pagewise report --sort growth --interval 5s
# without swap, so that the limit may be as low as what is used
kill $!; killall tail; swapoff /dev/zram0
# what they had committed is given back when they are gone, and would be room then
for try in $(seq 50); do killall -0 tail 2> /dev/null || break; sleep 0.2; done; sleep 2
echo 2 > /proc/sys/vm/overcommit_memory
limit() {
    used=$(grep Committed_AS /proc/meminfo | tr -s ' ' | cut -d ' ' -f 2)
    echo $((used + $1)) > /proc/sys/vm/overcommit_kbytes
}
limit 3000; say short pagewise report --interval 20ms
limit 6000; say some pagewise report --interval 20ms
limit 60000; say enough pagewise report --interval 20ms
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
    // in RAM it is as large as its group may be: what grows is in swap
    let grown = row(growth, "tail");
    let rate = grown.iter().find_map(|word| word.strip_prefix('+')?.parse::<f64>().ok());
    let rate = rate.unwrap_or_else(|| panic!("{growth}"));
    assert!(grown.contains(&"MiB".to_owned()) && (0.3..6.0).contains(&rate), "{growth}");
    assert!(growth.contains("/held") && grown.contains(&"held".to_owned()), "{growth}");

    let (short, some) = (answer(&session, "short"), answer(&session, "some"));
    assert!(short.0.contains("processes, cgroups and settings are left out"), "{session}");
    assert!(some.0.contains("no page contents are looked at"), "{session}");
    for (text, status) in [short, some] {
        assert!(status == "0" && text.contains("Where memory is"), "{text}");
    }
    let enough = answer_of_success(&session, "enough");
    assert!(!enough.contains("could not be had") && enough.contains("Processes "), "{enough}");
}
